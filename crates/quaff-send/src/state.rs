//! The state of a run: 64-bit words that the sender writes and the supervisor reads. It never waits or sends.

use crate::histogram::{self, BUCKETS, BURST_NS, bucket};
use quaff_os::bpf::ArrayMap;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Indices of the words.
pub(crate) mod word {
    /// Frames sent so far, which is the next sequence number. In a replay also counts frames dropped or failed.
    pub(crate) const SENT: usize = 0;
    /// No frame from this sequence number on is sent; written by the supervisor.
    pub(crate) const LIMIT: usize = 1;
    /// Deadline of the next frame, CLOCK_MONOTONIC ns.
    pub(crate) const DUE_NS: usize = 2;
    /// Fraction of `DUE_NS`, in 2^-16 ns.
    pub(crate) const FRACTION: usize = 3;
    /// Deadline of the first frame, CLOCK_MONOTONIC ns; 0 before the first frame.
    pub(crate) const FIRST_NS: usize = 4;
    /// Time of the latest frame, CLOCK_MONOTONIC ns.
    pub(crate) const LAST_NS: usize = 5;
    /// Largest lateness, ns.
    pub(crate) const LATE_MAX_NS: usize = 6;
    /// Sum of the lateness of all frames, ns.
    pub(crate) const LATE_SUM_NS: usize = 7;
    /// Offers that found no room and were repeated.
    pub(crate) const RETRIED: usize = 8;
    /// Bytes of the frames sent. This and those up to `STARVED`: replay only.
    pub(crate) const BYTES: usize = 9;
    /// Frames dropped because they were late.
    pub(crate) const LATE_DROPPED: usize = 10;
    /// Frames that the kernel refused.
    pub(crate) const FAILED: usize = 11;
    /// Sum by which deadlines were shifted because of late frames, ns.
    pub(crate) const SHIFTED_NS: usize = 12;
    /// Current number of consecutive late frames.
    pub(crate) const BURST: usize = 13;
    /// Largest number of consecutive late frames.
    pub(crate) const BURST_MAX: usize = 14;
    /// Completed passes.
    pub(crate) const PASSES: usize = 15;
    /// Deadline of the next frame if it is far enough to sleep; otherwise 0.
    pub(crate) const FAR_NS: usize = 16;
    /// Offset of the next frame in the map of frames.
    pub(crate) const AT: usize = 17;
    /// Start time of the deadlines of this pass, ns.
    pub(crate) const BASE_NS: usize = 18;
    /// Fraction of `BASE_NS`, in 2^-32 ns.
    pub(crate) const BASE_FRACTION: usize = 19;
    /// Duration of a pass, ns.
    pub(crate) const PASS_NS: usize = 20;
    /// Fraction of `PASS_NS`, in 2^-32 ns.
    pub(crate) const PASS_FRACTION: usize = 21;
    /// Frames written into the map; written by the thread that fills it.
    pub(crate) const READY: usize = 22;
    /// The sender's copy of `READY`.
    pub(crate) const SEEN: usize = 23;
    /// Number of times that the map had no frame.
    pub(crate) const STARVED: usize = 24;
    /// Flows since the 5-tuples restarted. This and `DIGITS`: generate only.
    pub(crate) const FLOW: usize = 25;
    /// Index of the next frame in each range of its 5-tuple.
    pub(crate) const DIGITS: usize = 26;
    /// Twice the sum of the pauses, ns, and 1 during a pause, in which nothing is sent; written by the supervisor.
    pub(crate) const PAUSE: usize = DIGITS + super::DIGITS_MAX;
    /// Buckets of the histogram of lateness.
    pub(crate) const HISTOGRAM: usize = PAUSE + 1;
}

/// Number of fields of a 5-tuple that vary: addresses and ports of both ends.
pub(crate) const DIGITS_MAX: usize = 4;

/// Number of words.
pub(crate) const WORDS: usize = word::HISTOGRAM + BUCKETS;

/// Progress of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Frames sent so far.
    pub sent: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Completed passes through the source.
    pub passes: u64,
    /// Time since the first frame, ns.
    pub elapsed_ns: u64,
    /// Largest lateness so far, ns.
    pub late_max_ns: u64,
    /// Offers that found no room and were repeated.
    pub retried: u64,
}

/// Delay of frames after their deadlines, ns. Quantiles are the upper ends of buckets of 256 ns (65 µs from 65 µs on).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Lateness {
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// The words, in a map that a BPF program writes or in memory of this process.
pub(crate) enum State {
    Kernel(ArrayMap),
    User(Box<[AtomicU64]>),
}

impl State {
    pub(crate) fn new_user() -> Self {
        Self::User((0..WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Loads a word with acquire ordering; see [`ArrayMap::load`].
    pub(crate) fn load(&self, word: usize) -> u64 {
        match self {
            Self::Kernel(map) => map.load(word),
            Self::User(words) => words[word].load(Ordering::Acquire),
        }
    }

    /// Stores a word with release ordering; see [`ArrayMap::store`].
    pub(crate) fn store(&self, word: usize, value: u64) {
        match self {
            Self::Kernel(map) => map.store(word, value),
            Self::User(words) => words[word].store(value, Ordering::Release),
        }
    }

    /// Adds to a word whose only writer is the caller.
    pub(crate) fn add(&self, word: usize, value: u64) {
        self.store(word, self.load(word) + value);
    }

    /// Counts the lateness of a frame that is sent or dropped, ns.
    pub(crate) fn count_lateness(&self, late_ns: u64) {
        self.add(word::HISTOGRAM + bucket(late_ns), 1);
        self.add(word::LATE_SUM_NS, late_ns);
        self.store(word::LATE_MAX_NS, self.load(word::LATE_MAX_NS).max(late_ns));
        let burst = if late_ns < BURST_NS { 0 } else { self.load(word::BURST) + 1 };
        self.store(word::BURST, burst);
        self.store(word::BURST_MAX, self.load(word::BURST_MAX).max(burst));
    }

    /// Pauses since the caller looked last, ns, by its copy of the word; `None` during a pause.
    pub(crate) fn paused_ns(&self, seen: &mut u64) -> Option<u64> {
        let now = self.load(word::PAUSE);
        let paused_ns = (now >> 1) - (*seen >> 1);
        *seen = now & !1;
        (now & 1 == 0).then_some(paused_ns)
    }

    /// Number of frames that may still be sent; `None` after the last one or a stop.
    pub(crate) fn left(&self) -> Option<u64> {
        self.load(word::LIMIT).checked_sub(self.load(word::SENT)).filter(|left| *left > 0)
    }

    pub(crate) fn snapshot(&self, now_ns: u64) -> Snapshot {
        let first_ns = self.load(word::FIRST_NS);
        Snapshot {
            sent: self.load(word::SENT),
            bytes: self.load(word::BYTES),
            passes: self.load(word::PASSES),
            elapsed_ns: if first_ns == 0 { 0 } else { now_ns.saturating_sub(first_ns) },
            late_max_ns: self.load(word::LATE_MAX_NS),
            retried: self.load(word::RETRIED),
        }
    }

    pub(crate) fn lateness(&self) -> Lateness {
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
