//! Sending: a [`SendPlan`] in, stamped frames out of (or into) an interface, a [`SendReport`] back.
//!
//! Two ways out: [`Via::Inject`] has frames arrive on an interface as if from the wire, by a BPF
//! program that runs on live frames and keeps the pace itself; [`Via::Send`] sends them from an
//! interface by a packet socket, paced in user space. One thread sends; the caller's thread watches.
//! Nothing here prints or reads arguments.

#![forbid(unsafe_code)]

mod arena;
mod auto;
mod confirm;
mod dual;
mod feed;
mod files;
mod histogram;
mod inject;
mod pacer;
mod packet;
mod plan;
mod program;
mod pump;
mod ranges;
pub mod replay;
mod report;
mod rewriting;
mod state;
pub mod synth;
mod timing;
mod ways;

pub use arena::{Arena, Meta};
pub use confirm::Witness;
pub use dual::DualFeed;
pub use feed::{Ahead, Feed, FeedTally, Way};
pub use files::{FileFeed, FilePlan};
pub use plan::{Length, Pace, PlanError, SendPlan, Via};
pub use ranges::Ranges;
pub use report::{Lateness, SendReport, Snapshot};
pub use rewriting::{RewritePlan, RewriteTally, Rewriting, SidesPlan};
pub use timing::{Due, LATE_NS, Late, Layer, Rate, Ratio, Timing};
pub use ways::{WayKind, WayReport};

use confirm::Confirm;
use inject::Injector;
use packet::PacketSender;
use plan::Schedule;
use quaff_os::clock::steady_ns;
use quaff_os::interrupt::Interrupt;
use quaff_os::rtnl::{self, Link};
use state::{State, word};
use std::sync::OnceLock;
use std::time::Duration;

/// How often the watcher is asked; also how soon the end of a run is noticed.
const WATCH_NS: u64 = 10_000_000;
/// How often the confirming counters are read.
const CONFIRM_NS: u64 = 1_000_000_000;

/// Why nothing, or not all, could be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The plan asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file could not be read, or not further.
    #[error(transparent)]
    File(#[from] quaff_file::read::Error),
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
}

/// What the watcher wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Go,
    /// Let one more frame go, where frames wait for that.
    Step,
    /// End early, with a report.
    Stop,
}

/// One of the two ways, ready to send.
enum Sender {
    Inject(Injector),
    Packet(PacketSender),
}

/// Sends as planned. `watch` is called all the while: it looks at how far we are, waits no longer
/// than it is told, and says whether to go on.
pub fn run(
    plan: &SendPlan,
    mut watch: impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<SendReport, SendError> {
    let schedule = plan.schedule()?;
    let link = usable_link(&plan.interface, plan.via == Via::Send)?;
    let (sender, state) = prepare(plan, &schedule, &link)?;
    let mut confirm = Confirm::open(plan, &schedule, &link)?;
    state.store(word::LIMIT, schedule.count.unwrap_or(u64::MAX));
    let interrupted = supervise(plan, &schedule, sender, &state, &mut confirm, &mut watch)?;
    let witness = confirm.witness();
    let confirmed = confirm.finish(state.load(word::SENT))?;
    Ok(SendReport::new(plan, &schedule, &state, (witness, confirmed), interrupted))
}

/// An interface that is up and carries Ethernet frames; with a carrier, where that is needed.
pub fn usable_link(interface: &str, needs_carrier: bool) -> Result<Link, SendError> {
    let link = rtnl::link(interface)?;
    if !link.up {
        return Err(PlanError::Down { interface: link.name }.into());
    }
    if needs_carrier && !link.running {
        return Err(PlanError::NoCarrier { interface: link.name }.into());
    }
    if !matches!(link.arphrd, plan::ARPHRD_ETHER | plan::ARPHRD_LOOPBACK) {
        return Err(PlanError::NotEthernet { interface: link.name, arphrd: link.arphrd }.into());
    }
    Ok(link)
}

fn prepare(plan: &SendPlan, schedule: &Schedule, link: &Link) -> Result<(Sender, State), SendError> {
    Ok(match plan.via {
        Via::Inject => {
            let template = plan.template(link)?;
            let (injector, state) = Injector::new(schedule, link, template)?;
            (Sender::Inject(injector), state)
        }
        Via::Send => {
            let sender = PacketSender::new(plan.stream, schedule, link, &plan.frame(link)?)?;
            (Sender::Packet(sender), State::new_user())
        }
    })
}

/// Has one thread send while this one watches. Says whether the watcher ended it early.
fn supervise(
    plan: &SendPlan,
    schedule: &Schedule,
    sender: Sender,
    state: &State,
    confirm: &mut Confirm,
    watch: &mut impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<bool, SendError> {
    let interrupt = OnceLock::<Interrupt>::new();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(plan.core, sender, state, &interrupt));
        let mut interrupted = false;
        let mut watched = Ok(());
        let mut confirm_at_ns = steady_ns() + CONFIRM_NS;
        while !sending.is_finished() {
            let now_ns = steady_ns();
            let wait_ns = remaining_ns(schedule, state, now_ns).min(WATCH_NS);
            if watch(&state.snapshot(now_ns), Duration::from_nanos(wait_ns)) == Control::Stop {
                interrupted = true;
            }
            if now_ns >= confirm_at_ns && watched.is_ok() {
                watched = confirm.poll();
                confirm_at_ns = now_ns + CONFIRM_NS;
            }
            if interrupted || watched.is_err() || remaining_ns(schedule, state, steady_ns()) == 0 {
                state.store(word::LIMIT, 0);
            }
            if state.load(word::SENT) >= state.load(word::LIMIT) {
                interrupt.get().inspect(|thread| thread.send());
            }
        }
        // A panic in the thread is a defect; it goes on here.
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent.and(watched)?;
        Ok(interrupted)
    })
}

/// How long a run that ends by the clock has still to go, ns.
fn remaining_ns(schedule: &Schedule, state: &State, now_ns: u64) -> u64 {
    match (schedule.stop_after_ns, state.load(word::FIRST_NS)) {
        (None, _) | (_, 0) => u64::MAX,
        (Some(after_ns), first_ns) => (first_ns + after_ns).saturating_sub(now_ns),
    }
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
        Sender::Packet(sender) => sender.run(state),
    }
}
