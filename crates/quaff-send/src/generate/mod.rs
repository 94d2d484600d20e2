//! Generation: sends or injects probe frames as a [`SendPlan`] describes, and returns a [`SendReport`].
//!
//! Frames are either injected into the receive path of an interface by a BPF program on live frames, which also keeps
//! the pace, or sent from an interface, paced in user space. Nothing here prints or reads arguments.

mod inject;
mod plan;
mod program;
mod report;
mod user;
mod witness;

pub use plan::{Length, SendPlan};
pub use report::SendReport;

use crate::confirm;
use crate::error::SendError;
use crate::link::usable_link;
use crate::state::{Snapshot, State, word};
use crate::supervise::{Control, Run, supervise};
use inject::Injector;
use plan::Pacing;
use quaff_os::Interrupt;
use quaff_os::rtnl::Link;
use std::sync::OnceLock;
use std::time::Duration;
use user::PacketSender;

/// A sender, ready to run.
enum Sender {
    Inject(Injector),
    User(Box<PacketSender>),
}

/// Sends as planned. `watch` is called periodically with the progress and the longest time that it may wait; its answer
/// continues or ends the run.
pub fn generate(
    plan: &SendPlan,
    mut watch: impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<SendReport, SendError> {
    let pacing = plan.pacing()?;
    let link = usable_link(&plan.interface, !plan.inject)?;
    let (sender, state) = prepare(plan, &pacing, &link)?;
    let mut confirms = [witness::open(plan, &pacing, &link)?];
    state.store(word::LIMIT, pacing.count.unwrap_or(u64::MAX));
    let interrupt = OnceLock::new();
    let run = Run {
        state: &state,
        interrupt: &interrupt,
        stop_after_ns: pacing.stop_after_ns,
        on_step: &|| {},
        on_stop: &|| {},
    };
    let (sent, interrupted) =
        supervise(&run, || send(plan.core, sender, &state, &interrupt), &mut confirms, &mut watch)?;
    sent?;
    let [confirm] = confirms;
    let witness = confirm.witness();
    let confirmed = confirm.finish(state.load(word::SENT), confirm::PATIENCE, || {
        std::thread::sleep(confirm::LOOK);
        true
    })?;
    Ok(SendReport::new(plan, &pacing, &state, (witness, confirmed), interrupted))
}

fn prepare(plan: &SendPlan, pacing: &Pacing, link: &Link) -> Result<(Sender, State), SendError> {
    if !plan.inject {
        let sender = PacketSender::new(plan, pacing, link)?;
        return Ok((Sender::User(Box::new(sender)), State::new_user()));
    }
    let (injector, state) = Injector::new(pacing, link, plan.template(link)?)?;
    Ok((Sender::Inject(injector), state))
}

/// The sending thread.
fn send(
    core: Option<usize>,
    sender: Sender,
    state: &State,
    interrupt: &OnceLock<Interrupt>,
) -> Result<(), quaff_os::Error> {
    let here = Interrupt::here()?;
    interrupt.get_or_init(|| here);
    core.map_or(Ok(()), quaff_os::cpu::pin)?;
    match sender {
        Sender::Inject(injector) => injector.run(state),
        Sender::User(sender) => Ok(sender.run(state)?),
    }
}
