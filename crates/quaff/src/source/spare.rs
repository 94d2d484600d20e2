//! A lane for an interface that comes while the run lasts. Its sockets and its ring are there from the start, bound to
//! nothing, because the sandbox permits binding a packet socket, and not opening one. It is used once.
//!
//! Packets between the appearance of the interface and the bind are not seen, and not counted.

use super::afpacket::{AfPacket, Opening};
use super::group::Group;
use super::link::{describe, kind_of};
use super::live_link::Links;
use super::{Pull, Source, SourceTally};
use crate::batch::Frame;
use crate::filter::KernelFilter;
use crate::gauge::LaneGauges;
use crate::plan::InputPlan;
use crate::{Error, Result};
use nix::libc;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_os::clock::wall_ns;
use quaff_os::link_counters::LinkCounters;
use quaff_os::packet::{CountingTap, RingPlan, RxRing};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::{Stop, Wakeup};
use quaff_wire::linktype::LinkType;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The kernel's filter for each link type; compiled at the start, when names can be looked up.
pub(super) type KindFilters = Arc<[(LinkType, KernelFilter)]>;

/// The parameters of a spare lane.
pub(super) struct SparePlan {
    pub lane: usize,
    pub input: InputPlan,
    pub ring: RingPlan,
    pub filters: KindFilters,
    pub interfaces: Interfaces,
    pub stop: Stop,
    pub gauges: Arc<LaneGauges>,
    pub mailbox: Arc<Mailbox>,
}

/// The place where a lane finds its interface.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    /// Ends the wait of the lane.
    wakeup: OnceLock<Wakeup>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    Sent(Box<Link>),
    Taken,
    Failed(Failure),
}

/// An interface that could not be bound.
#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) name: String,
    pub(super) reason: String,
    /// The lane can take another interface.
    is_reusable: bool,
}

impl Mailbox {
    /// Gives the lane an interface; returns whether it was free.
    pub(super) fn offer(&self, link: &Link) -> bool {
        let mut state = self.state();
        if !matches!(*state, State::Free) {
            return false;
        }
        *state = State::Sent(Box::new(link.clone()));
        if let Some(wakeup) = self.wakeup.get() {
            wakeup.signal();
        }
        true
    }

    /// Takes the failure of the lane, which is free again if its sockets are as they were.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Failed(failure) => {
                *state = if failure.is_reusable { State::Free } else { State::Taken };
                Some(failure)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    fn take(&self) -> Option<Link> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Sent(link) => Some(*link),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Ignores poisoning: the state is whole between any two statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sockets before they are bound.
struct Sockets {
    ring: RxRing,
    /// For filters, which drop packets.
    tap: Option<CountingTap>,
    rtnl: Rtnl,
}

/// The source of a spare lane.
pub(super) struct Spare {
    plan: SparePlan,
    wakeup: Wakeup,
    sockets: Option<Sockets>,
    bound: Option<Box<AfPacket>>,
    is_closed: bool,
}

impl Spare {
    /// Opens the sockets. `wakeup` ends a wait.
    pub(super) fn open(plan: SparePlan, wakeup: Wakeup) -> Result<Self> {
        let ring = RxRing::allocate("", &plan.ring)?;
        let is_filtering = plan.filters.iter().any(|(_, filter)| filter.is_filtering);
        let tap = is_filtering.then(CountingTap::unbound).transpose()?;
        let sockets = Some(Sockets { ring, tap, rtnl: Rtnl::open()? });
        // A lane is opened once.
        let _ = plan.mailbox.wakeup.set(wakeup.clone());
        Ok(Self { plan, wakeup, sockets, bound: None, is_closed: false })
    }

    fn begin(&mut self, link: Link) {
        let Some(mut sockets) = self.sockets.take() else { return };
        let (name, filters) = (link.name.clone(), self.plan.filters.clone());
        let error = match bind(&filters, &mut sockets, &link) {
            Ok((filter, counters)) => match self.capture(sockets, link, filter, counters) {
                Ok(()) => return drop(self.plan.gauges.came.set(name)),
                Err(error) => error,
            },
            Err(error) => {
                self.sockets = Some(sockets);
                error
            }
        };
        let is_reusable = self.sockets.is_some();
        *self.plan.mailbox.state() = match &error {
            // It was removed before it was captured: there is nothing to report.
            Error::Os(error) if error.raw() == libc::ENODEV && is_reusable => State::Free,
            _ => State::Failed(Failure { name, reason: error.to_string(), is_reusable }),
        };
    }

    /// Captures on the interface of the ring. If this fails, the ring may have packets, and is not used again.
    fn capture(
        &mut self,
        sockets: Sockets,
        link: Link,
        filter: &KernelFilter,
        mut counters: LinkCounters,
    ) -> Result<()> {
        let Sockets { ring, tap, mut rtnl } = sockets;
        let tap = tap.filter(|_| filter.is_filtering);
        if let Some(tap) = &tap {
            tap.attach(link.index, &link.name)?;
            ring.start_receiving(&filter.insns)?;
        }
        // If the interface was removed meanwhile, its lane reports that.
        let _ = counters.restart_rx_dropped(&mut rtnl);
        if !link.up {
            // The socket reports that the interface is down, which is no incident before it was up.
            ring.take_error()?;
        }
        let description = describe(&self.plan.input, &link);
        let number = self.plan.interfaces.assign(self.plan.lane, description);
        let number = number.ok_or_else(|| Error::Plan("the file has too many interfaces".into()))?;
        let opening = Opening {
            link,
            ring: &self.plan.ring,
            is_filtered: filter.is_filtering,
            group: Group::of_one(tap),
            number,
            snaplen: self.plan.input.snaplen,
            stop: self.plan.stop.clone(),
            links: Links::new(1, 0),
            gauges: self.plan.gauges.clone(),
            came_ns: wall_ns(),
        };
        let sockets = (ring, rtnl, Some(counters));
        self.bound = Some(Box::new(AfPacket::with(opening, sockets, self.wakeup.clone())));
        Ok(())
    }
}

/// Binds the ring, which has no packet if this fails.
fn bind<'a>(
    filters: &'a KindFilters,
    sockets: &mut Sockets,
    link: &Link,
) -> Result<(&'a KernelFilter, LinkCounters)> {
    let kind = kind_of(link);
    let filter = filters.iter().find(|(of, _)| *of == kind).map(|(_, filter)| filter);
    let filter = filter.ok_or_else(|| Error::Plan("the filter does not apply to its kind of link".into()))?;
    let counters = LinkCounters::open(link, &mut sockets.rtnl)?;
    match filter.is_filtering {
        // The tap counts each packet before the ring sees it, as on an interface of the start.
        true => sockets.ring.stop_receiving()?,
        false => sockets.ring.start_receiving(&filter.insns)?,
    }
    sockets.ring.bind(link.index, &link.name)?;
    Ok((filter, counters))
}

impl Source for Spare {
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        if let Some(bound) = &mut self.bound {
            return bound.pull(frames, wait);
        }
        frames.clear();
        if self.is_closed {
            return Ok(Pull::End);
        }
        match self.plan.mailbox.take() {
            Some(link) => self.begin(link),
            None => drop(self.wakeup.wait(wait)?),
        }
        Ok(Pull::Idle)
    }

    fn bytes(&self) -> &[u8] {
        self.bound.as_ref().map_or(&[], |bound| bound.bytes())
    }

    fn release(&mut self) {
        if let Some(bound) = &mut self.bound {
            bound.release();
        }
    }

    fn is_nearly_full(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.is_nearly_full())
    }

    fn close(&mut self) -> Result<()> {
        self.is_closed = true;
        self.bound.as_mut().map_or(Ok(()), |bound| bound.close())
    }

    fn take_dropped(&mut self) -> u64 {
        self.bound.as_mut().map_or(0, |bound| bound.take_dropped())
    }

    fn count(&self, counts: &mut Counts) {
        if let Some(bound) = &self.bound {
            bound.count(counts);
        }
    }

    /// A lane that was never used has no interface and counts nothing.
    fn finish(self: Box<Self>) -> Result<SourceTally> {
        match self.bound {
            Some(bound) => bound.finish(),
            None => Ok(SourceTally::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_one_interface_and_is_free_again_after_a_failure_to_bind() {
        let mailbox = Mailbox::default();
        let lo = quaff_os::rtnl::link("lo").expect("every namespace has lo");
        assert!(mailbox.take().is_none() && mailbox.offer(&lo) && !mailbox.offer(&lo));
        assert_eq!(mailbox.take(), Some(lo.clone()));
        assert!(!mailbox.offer(&lo) && mailbox.take().is_none() && mailbox.take_failure().is_none());
        let failed = |is_reusable| State::Failed(Failure { is_reusable, ..Failure::default() });
        *mailbox.state() = failed(true);
        assert!(!mailbox.offer(&lo), "until the failure is reported");
        assert!(mailbox.take_failure().is_some() && mailbox.take_failure().is_none());
        assert!(mailbox.offer(&lo) && mailbox.take().is_some());
        *mailbox.state() = failed(false);
        assert!(mailbox.take_failure().is_some() && !mailbox.offer(&lo), "its ring may have packets");
    }
}
