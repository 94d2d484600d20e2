//! The interface of a live lane: whether it is up, down or removed, what its counters say, and the counts of the lane.
//! It receives no packets.

use super::SourceTally;
use crate::gauge::LaneGauges;
use crate::tally::LaneTally;
use quaff_file::tally::Counts;
use quaff_os::clock::wall_ns;
use quaff_os::link_counters::LinkCounters;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::{Reason, Stop};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ethernet header and two VLAN tags: what a frame may have beyond the MTU.
pub(super) const OVER_MTU_BYTES: u32 = 14 + 8;

/// The interfaces of a run, of which some may be removed before the run ends. Clones share the count.
#[derive(Debug, Clone)]
pub struct Links {
    /// Lanes whose interfaces exist. Each subtracts itself, at most once; a number only: Relaxed.
    left: Arc<AtomicUsize>,
    least: usize,
}

impl Links {
    /// `count` lanes, of which the run needs `least`.
    pub fn new(count: usize, least: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(count)), least }
    }

    /// Takes one away; returns whether the run must end.
    fn lose(&self) -> bool {
        let left = self.left.fetch_sub(1, Ordering::Relaxed).saturating_sub(1);
        left < self.least
    }
}

impl Default for Links {
    /// One interface, which the run needs.
    fn default() -> Self {
        Self::new(1, 1)
    }
}

/// The interface of a lane, its state, and the counts of the lane.
#[derive(Debug)]
pub(super) struct LiveLink {
    pub(super) link: Link,
    pub(super) rtnl: Rtnl,
    /// Those of the interface; `None` for the lanes before the last one.
    pub(super) counters: Option<LinkCounters>,
    pub(super) tally: LaneTally,
    pub(super) gauges: Arc<LaneGauges>,
    pub(super) down_since_ns: Option<u64>,
    links: Links,
    stop: Stop,
}

impl LiveLink {
    /// An interface that is up. `stop` is raised when it is removed and the run needs it, as `links` says.
    pub(super) fn new(
        link: Link,
        rtnl: Rtnl,
        counters: Option<LinkCounters>,
        gauges: Arc<LaneGauges>,
        links: Links,
        stop: Stop,
    ) -> Self {
        let tally = LaneTally { interface: link.name.clone(), ..LaneTally::default() };
        Self { link, rtnl, counters, tally, gauges, down_since_ns: None, links, stop }
    }

    /// The longest usual frame, bytes.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        self.link.mtu + OVER_MTU_BYTES
    }

    /// Counts that the interface went down.
    pub(super) fn count_down(&mut self) {
        self.tally.downs += 1;
        self.gauges.downs.set(self.tally.downs);
    }

    /// Notes that the interface is down now.
    pub(super) fn note_down(&mut self) {
        self.gauges.down_since_ns.set(*self.down_since_ns.get_or_insert_with(wall_ns));
    }

    /// Notes that the interface is up now.
    pub(super) fn note_up(&mut self) {
        if let Some(since) = self.down_since_ns.take() {
            self.tally.down_ns += wall_ns().saturating_sub(since);
            // Before the other one, at whose change this one is read.
            self.gauges.down_ns.set(self.tally.down_ns);
            self.gauges.down_since_ns.set(0);
        }
    }

    /// Notes that the interface is gone, and ends the run if it needs it. `why` follows the name of the interface.
    pub(super) fn note_removed(&mut self, why: &str) {
        self.tally.removed_ns = wall_ns();
        self.gauges.removed_ns.set(self.tally.removed_ns);
        self.lose(Reason::InterfaceGone(format!("{} {why}", self.link.name)));
    }

    /// Reads the MTU again, which may be changed at any time. An interface that is gone keeps its last one.
    pub(super) fn renew_mtu(&mut self) {
        let now = self.rtnl.link(&self.link.name).ok().filter(|now| now.index == self.link.index);
        self.link.mtu = now.map_or(self.link.mtu, |now| now.mtu);
    }

    /// The lane ends: ends the run if it needs the interface.
    pub(super) fn lose(&self, reason: Reason) {
        if self.links.lose() {
            self.stop.raise(reason);
        }
    }

    /// Shows what the interface has dropped so far.
    pub(super) fn show_drops(&self) {
        self.gauges.nic_dropped.set(self.counters.as_ref().map_or(0, LinkCounters::nic_dropped));
    }

    /// Waits until drivers have counted what they dropped before the end.
    pub(super) fn settle(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.settle(&mut self.rtnl);
        }
    }

    /// Sets the part of an interface in a lane's counts: the counters of its link, which one lane of the interface
    /// has, and the times without the interface.
    pub(super) fn count(&self, counts: &mut Counts) {
        if let Some(counters) = &self.counters {
            counts.nic_received = counters.received();
            counts.nic_dropped = counters.nic_dropped();
        }
        counts.down_ns = self.tally.down_ns;
        counts.removed_ns = self.tally.removed_ns;
    }

    /// Takes the drops of the interface into the tally.
    pub(super) fn take_drops(&mut self) {
        self.tally.link = self.counters.as_ref().map(LinkCounters::drops).unwrap_or_default();
        self.tally.nic_dropped = self.tally.link.nic_dropped;
    }

    /// Returns the counts of the lane. `packets` came past the interface.
    pub(super) fn finish(mut self, packets: u64) -> SourceTally {
        self.note_up();
        self.tally.offered = self.tally.nic_dropped + packets;
        SourceTally { lane: self.tally, input: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_the_interface_that_it_needs() {
        let any = Links::new(3, 1);
        let lane = any.clone();
        assert_eq!([any.lose(), lane.lose(), any.lose()], [false, false, true]);
        assert!(Links::new(3, 3).lose() && Links::default().lose());
    }
}
