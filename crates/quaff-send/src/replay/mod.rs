//! Replay: sends the frames of a [`Feed`] through an interface, each when it is due, and returns a [`ReplayReport`].
//!
//! [`passes`] repeats the source and skips frames that cannot be sent, [`Schedule`] computes the deadlines, and a BPF
//! program ([`kernel`]) sends the frames from a map, or user space ([`user`]) sends them; [`to_file`] writes them into
//! a capture file instead. One thread sends; the caller's thread watches. Nothing here prints or reads arguments.

mod kernel;
mod passes;
mod plan;
mod program;
mod report;
mod ring;
mod shared;
mod to_file;
mod unique;
mod user;

pub use passes::Skipped;
pub use plan::{ReplayPlan, ReplayVia};
pub use report::{InterfaceCount, ReplayReport};
pub use to_file::{ToFilePlan, ToFileReport, replay_to_file};

use crate::backend;
use crate::backend::TxBackend;
use crate::bpf_live;
use crate::confirm::{self, Confirm, Confirmed, Witness};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::link;
use crate::schedule::{Rate, Schedule};
use crate::state::{Snapshot, State, WORDS, word};
use crate::supervise::{Control, Run, supervise};
use passes::{Passes, Sizes};
use quaff_os::bpf::ArrayMap;
use quaff_os::clock::steady_ns;
use quaff_os::rtnl::Link;
use quaff_os::{Reason, Stop};
use shared::Shared;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Highest rate at which a tap counts the frames, per second.
const TAP_PPS_MAX: f64 = 500_000.0;
/// Longest wait for the counters of a stopped run.
const PATIENCE_STOPPED: Duration = Duration::from_millis(60);

/// Sends the frames of `feed` as planned. `watch` is called periodically with the progress and the longest time that it
/// may wait; its answer continues or ends the run. `stop` should be the one that the feed checks.
///
/// [`ReplayVia::Auto`] becomes [`ReplayVia::XdpRedirect`] if the driver supports that; otherwise the backend that is
/// fastest on the first frames of the run or, for a paced run, [`TxBackend::Sendmmsg`].
pub fn replay(
    plan: &ReplayPlan,
    feed: Box<dyn Feed>,
    stop: Stop,
    mut watch: impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<ReplayReport, SendError> {
    let names = [Some(&plan.interface), plan.interface2.as_ref()];
    let links = names.into_iter().flatten().map(|name| usable_link(plan, name));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let (via, why) = choose(plan, &links);
    let plan = &ReplayPlan { via, ..plan.clone() };
    let schedule = Schedule::new(plan.rate)?.with_gap_max(plan.gap_max);
    let sizes = sizes(plan, &links);
    check_longest(&*feed, sizes, &plan.interface)?;
    let passes = Passes::new(feed, sizes, plan.loops, plan.limit, plan.unique_ip);
    let state = match via {
        ReplayVia::User(_) => State::new_user(),
        _ => State::Kernel(ArrayMap::new("quaff_state", WORDS)?),
    };
    let shared = Shared {
        plan,
        links: &links,
        why,
        outlets: OnceLock::new(),
        state,
        stop,
        total: AtomicU64::new(u64::MAX),
        over: AtomicBool::new(false),
        passes: Mutex::new(None),
        interrupt: OnceLock::new(),
    };
    let mut confirms = links.iter().map(|link| witness(plan, link)).collect::<Result<Vec<_>, _>>()?;
    let run = Run {
        state: &shared.state,
        interrupt: &shared.interrupt,
        stop_after_ns: None,
        on_step: &|| shared.step(),
        on_stop: &|| shared.stop.raise(Reason::Signal),
    };
    let play = || match via {
        ReplayVia::User(kind) => user::play(&shared, kind, passes, schedule),
        _ => kernel::play(&shared, passes, schedule),
    };
    let (sent, interrupted) = supervise(&run, play, &mut confirms, &mut watch)?;
    let error = match (sent, shared.state.load(word::SENT)) {
        (Err(error), 0) => return Err(error),
        (sent, _) => sent.err(),
    };
    let kept = shared.passes.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(passes) = kept else { return Err(error.unwrap_or(PlanError::Empty.into())) };
    let (who, counted) = confirm(&shared, confirms, interrupted, &mut watch)?;
    Ok(ReplayReport::new(&shared, &passes, (who, &counted), interrupted, error))
}

/// Reads the confirming counters. A signal ends the wait for late counts.
fn confirm(
    shared: &Shared<'_>,
    confirms: Vec<Confirm>,
    interrupted: bool,
    watch: &mut impl FnMut(&Snapshot, Duration) -> Control,
) -> Result<(Witness, Vec<Confirmed>), SendError> {
    let who = confirms[0].witness();
    let patience = if interrupted { PATIENCE_STOPPED } else { confirm::PATIENCE };
    let mut pause = || {
        if interrupted {
            std::thread::sleep(confirm::LOOK);
            return true;
        }
        watch(&shared.state.snapshot(steady_ns()), confirm::LOOK) != Control::Stop
    };
    let sent = report::sent_by_interface(shared);
    let counted = confirms.into_iter().zip(sent);
    let counted = counted.map(|(confirm, sent)| confirm.finish(sent, patience, &mut pause));
    Ok((who, counted.collect::<Result<_, _>>()?))
}

/// Chooses the transmit path, and gives the reason if the plan leaves it open. The driver is preferred if the kernel
/// reports that it accepts frames from XDP programs now; it is faster than any user-space backend.
fn choose(plan: &ReplayPlan, links: &[Link]) -> (ReplayVia, Option<String>) {
    if plan.via != ReplayVia::Auto {
        return (plan.via, None);
    }
    let not_by_xdp = match links {
        [link] => redirect_obstacle(link),
        _ => Some("there are two interfaces"),
    };
    let Some(obstacle) = not_by_xdp else {
        let why = "the kernel reports that the driver accepts frames from XDP programs";
        return (ReplayVia::XdpRedirect, Some(why.to_owned()));
    };
    if plan.rate.is_paced() || plan.stepwise {
        let why = format!("not by XDP: {obstacle}; at a given rate sendmmsg is the simplest backend");
        return (ReplayVia::User(TxBackend::Sendmmsg), Some(why));
    }
    (ReplayVia::User(TxBackend::Auto), Some(format!("not by XDP: {obstacle}")))
}

/// Why a BPF program should not send through this interface.
fn redirect_obstacle(link: &Link) -> Option<&'static str> {
    if backend::frame_bytes_max(link) > bpf_live::FRAME_BYTES_MAX {
        return Some("frames of the interface may be larger than a page");
    }
    match quaff_os::xdp::takes_redirected(link.index) {
        Ok(false) => Some("the driver accepts no frames from XDP programs"),
        Err(_) => Some("the kernel does not report whether the driver accepts such frames"),
        Ok(true) if ArrayMap::new("quaff_probe", 1).is_err() => Some("BPF is not permitted"),
        Ok(true) => None,
    }
}

fn usable_link(plan: &ReplayPlan, name: &str) -> Result<Link, SendError> {
    let link = link::usable_link(name, plan.via != ReplayVia::Inject)?;
    if plan.interface2.as_ref() == Some(&plan.interface) {
        return Err(PlanError::SameInterface { interface: link.name }.into());
    }
    if plan.interface2.is_some() && matches!(plan.via, ReplayVia::Inject | ReplayVia::XdpRedirect) {
        return Err(PlanError::TwoInterfaces.into());
    }
    Ok(link)
}

/// Refuses made frames of which some cannot be sent: they are numbered, and each would be missed.
fn check_longest(feed: &dyn Feed, sizes: Sizes, interface: &str) -> Result<(), PlanError> {
    let Some(longest) = feed.longest()? else { return Ok(()) };
    let (bytes, most, interface) = (longest.len(), sizes.most(&longest), interface.to_owned());
    if bytes > most { Err(PlanError::TooLong { bytes, most, interface }) } else { Ok(()) }
}

fn sizes(plan: &ReplayPlan, links: &[Link]) -> Sizes {
    let mtu = links.iter().map(|link| link.mtu).min().filter(|_| plan.via != ReplayVia::Inject);
    let max = match plan.via {
        ReplayVia::User(TxBackend::AfXdp | TxBackend::AfXdpQueue0) => quaff_os::xdp::FRAME_BYTES_MAX,
        ReplayVia::User(_) => usize::MAX,
        _ => bpf_live::FRAME_BYTES_MAX,
    };
    Sizes { min: ring::FRAME_BYTES_MIN, max, mtu }
}

/// Opens the counter that confirms the frames of an interface.
fn witness(plan: &ReplayPlan, link: &Link) -> Result<Confirm, SendError> {
    let has_time = match plan.rate {
        Rate::Frames(pps) => pps.value() <= TAP_PPS_MAX,
        rate => rate.is_paced(),
    };
    Ok(match plan.via {
        ReplayVia::Auto | ReplayVia::XdpRedirect | ReplayVia::User(_) => {
            Confirm::counter(Witness::TxPackets, link)?
        }
        ReplayVia::Inject if has_time || plan.stepwise => Confirm::tap(link, &[])?,
        ReplayVia::Inject => Confirm::softnet(link)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::LatePolicy;

    fn plan(via: ReplayVia) -> ReplayPlan {
        ReplayPlan {
            via,
            interface: "eth0".into(),
            interface2: None,
            rate: Rate::Topspeed,
            gap_max: None,
            loops: Some(1),
            unique_ip: false,
            limit: None,
            duration: None,
            late: LatePolicy::Burst,
            stepwise: false,
            core: None,
            memory_bytes: 1 << 20,
        }
    }

    /// A frame that a transmit path cannot take is detected as too large before it is offered.
    #[test]
    fn each_transmit_path_has_its_longest_frame() {
        for (via, max) in [
            (ReplayVia::User(TxBackend::AfXdp), 4096),
            (ReplayVia::User(TxBackend::AfXdpQueue0), 4096),
            (ReplayVia::User(TxBackend::Sendmmsg), usize::MAX),
            (ReplayVia::Inject, bpf_live::FRAME_BYTES_MAX),
        ] {
            assert_eq!(sizes(&plan(via), &[]).max, max, "{via:?}");
        }
    }
}
