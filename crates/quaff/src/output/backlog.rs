//! The age of the packets that a lane without a free buffer has not sent to its writer yet. They wait in the kernel's
//! ring, so the writer cannot see them: it learns here that chunks of other lanes are newer. Never counts packets.

use super::Now;
use quaff_os::{Gauge, Wakeup};
use std::sync::Arc;

/// The packets that wait on a lane since it had no buffer for one.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Time of the oldest, ns since 1970; 0 without a backlog. The lane writes it, the writer of the output reads it.
    oldest_ns: Arc<Gauge>,
    /// Age of the first packet of the backlog when it began, ns: that of a lane without one.
    age_ns: u64,
    /// CLOCK_MONOTONIC of the last change, ns.
    noted_ns: u64,
}

impl Backlog {
    /// The time of the oldest packet, for the writer.
    pub(super) fn gauge(&self) -> Arc<Gauge> {
        self.oldest_ns.clone()
    }

    pub(super) fn is_any(&self) -> bool {
        self.oldest_ns.get() > 0
    }

    /// Notes that packets from `oldest_ns` on wait.
    pub(super) fn note(&mut self, oldest_ns: u64, now: Now) {
        if !self.is_any() {
            self.age_ns = now.wall_ns.saturating_sub(oldest_ns);
        }
        self.oldest_ns.set(oldest_ns.max(1));
        self.noted_ns = now.steady_ns;
    }

    /// Notes that packets older than `oldest_ns` are lost.
    pub(super) fn skip_to(&self, oldest_ns: u64) {
        if self.is_any() {
            self.oldest_ns.set(oldest_ns.max(1));
        }
    }

    /// Returns whether a packet of `time_ns` is older than before the backlog by no more than `flush_ns`.
    pub(super) fn has_caught_up(&self, time_ns: u64, flush_ns: u64, now: Now) -> bool {
        now.wall_ns.saturating_sub(time_ns) <= self.age_ns.saturating_add(flush_ns)
    }

    /// Returns whether nothing was noted for `wait_ns`.
    pub(super) fn is_quiet(&self, wait_ns: u64, now: Now) -> bool {
        now.steady_ns.saturating_sub(self.noted_ns) >= wait_ns
    }

    /// Ends the backlog: the writer, which is woken, waits for it no longer.
    pub(super) fn end(&self, wakeup: &Wakeup) {
        self.oldest_ns.set(0);
        wakeup.signal();
    }
}
