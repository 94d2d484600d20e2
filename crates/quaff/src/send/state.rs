//! What changes while a run goes on: 64-bit words that the sender writes and the watcher reads.

use super::histogram::{self, BUCKETS};
use super::report::{Lateness, Snapshot};
use quaff_os::bpf::ArrayMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The words, by their place.
pub(super) mod word {
    /// Frames sent so far, which is the next sequence number.
    pub(crate) const SENT: usize = 0;
    /// No frame from this sequence number on is sent; written by the watcher.
    pub(crate) const LIMIT: usize = 1;
    /// When the next frame is due, CLOCK_MONOTONIC ns.
    pub(crate) const DUE_NS: usize = 2;
    /// And the part of a ns, in 2^-16.
    pub(crate) const FRACTION: usize = 3;
    /// When the first frame was due; 0 before that.
    pub(crate) const FIRST_NS: usize = 4;
    /// When the latest frame was sent.
    pub(crate) const LAST_NS: usize = 5;
    /// The largest lateness, ns.
    pub(crate) const LATE_MAX_NS: usize = 6;
    /// The sum of all lateness, ns.
    pub(crate) const LATE_SUM_NS: usize = 7;
    /// How often a frame was refused for want of room, and tried again.
    pub(crate) const RETRIED: usize = 8;
    /// Counts of lateness, as `histogram` has them.
    pub(crate) const HISTOGRAM: usize = 9;
}

/// Words in all.
pub(super) const WORDS: usize = word::HISTOGRAM + BUCKETS;

/// The words, in a map that a BPF program writes, or in our own memory.
pub(super) enum State {
    Kernel(ArrayMap),
    User(Box<[AtomicU64]>),
}

impl State {
    pub(super) fn new_user() -> Self {
        Self::User((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn load(&self, word: usize) -> u64 {
        match self {
            Self::Kernel(map) => map.load(word),
            Self::User(words) => words[word].load(Ordering::Relaxed),
        }
    }

    pub(super) fn store(&self, word: usize, value: u64) {
        match self {
            Self::Kernel(map) => map.store(word, value),
            Self::User(words) => words[word].store(value, Ordering::Relaxed),
        }
    }

    /// For words that have one writer, and it is the caller.
    pub(super) fn add(&self, word: usize, value: u64) {
        self.store(word, self.load(word) + value);
    }

    /// Frames that may still be sent; `None` when all are, or when the watcher said stop.
    pub(super) fn left(&self) -> Option<u64> {
        self.load(word::LIMIT).checked_sub(self.load(word::SENT)).filter(|left| *left > 0)
    }

    pub(super) fn snapshot(&self, now_ns: u64) -> Snapshot {
        let first_ns = self.load(word::FIRST_NS);
        Snapshot {
            sent: self.load(word::SENT),
            elapsed_ns: if first_ns == 0 { 0 } else { now_ns.saturating_sub(first_ns) },
            late_max_ns: self.load(word::LATE_MAX_NS),
            retried: self.load(word::RETRIED),
        }
    }

    pub(super) fn lateness(&self) -> Lateness {
        let counts: Vec<_> = (0..BUCKETS).map(|bucket| self.load(word::HISTOGRAM + bucket)).collect();
        let max_ns = self.load(word::LATE_MAX_NS);
        Lateness {
            mean_ns: self.load(word::LATE_SUM_NS) / self.load(word::SENT).max(1),
            p50_ns: histogram::quantile_ns(&counts, 0.50, max_ns),
            p99_ns: histogram::quantile_ns(&counts, 0.99, max_ns),
            max_ns,
        }
    }
}
