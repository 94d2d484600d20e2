//! The flags, counters and times that the threads of a trial share.

use quaff_os::clock::steady_ns;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Time for all threads to start, ns: fixed part, and per stream for its memory.
pub(super) const START_NS: u64 = 20_000_000;

/// Flags that all threads read; no other data is published through them.
#[derive(Default)]
pub(super) struct Board {
    /// Tells senders to stop.
    pub(super) stopped: AtomicBool,
    /// Tells meters not to wait for the last frames: a thread has failed.
    pub(super) abandoned: AtomicBool,
}

/// Counters of one direction, shared by its two threads and the progress.
#[derive(Default)]
pub(super) struct LaneBoard {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    /// End time of the sender, CLOCK_MONOTONIC ns; 0 while it runs.
    pub(super) done_ns: AtomicU64,
}

impl Board {
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Makes all threads end soon.
    pub(super) fn fail(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Stores the end time of a sender when dropped, for its meter.
pub(super) struct Done<'a>(pub(super) &'a LaneBoard);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done_ns.store(steady_ns(), Ordering::Release);
    }
}

/// Start of a trial on both clocks.
#[derive(Clone, Copy)]
pub(super) struct Begin {
    pub(super) steady_ns: u64,
    pub(super) wall_ns: u64,
}
