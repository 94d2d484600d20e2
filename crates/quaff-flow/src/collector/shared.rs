//! The state that the threads of a sink and of the meter share, and the clock of exports.

use super::counters::Counters;
use super::queue::Queue;
use crate::ledger::FlowLedger;
use crate::record::FlowRecord;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The states of [`Shared::ended`].
pub(super) const CLOSED: u8 = 1;
pub(super) const FAILED: u8 = 2;

/// A batch of records, and its time, ns since 1970.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) records: Arc<Vec<FlowRecord>>,
    pub(super) now_ns: u64,
}

/// The state that the threads of a sink and of the meter share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Queue<Batch>,
    pub(super) counters: Counters,
    /// The newest counters of the meter that the sink has not taken, and their time, ns since 1970.
    pub(super) ledger: Mutex<Option<(FlowLedger, u64)>>,
    /// The run did not start: nothing is written. The thread that started the sink sets it before it closes the queue,
    /// whose lock orders it.
    pub(super) is_abandoned: AtomicBool,
    /// A file accepts nothing more: 1 after its reader closed it, 2 after an error. The sink writes it, the exporter
    /// reads it: Relaxed, because no other data depends on it.
    pub(super) ended: AtomicU8,
    pub(super) failure: Mutex<Option<String>>,
    /// Damaged segments of the spool, where they are kept.
    pub(super) damaged: Mutex<Vec<String>>,
    /// This sink exports a conversation as one record.
    pub(super) is_biflow: bool,
    /// Records lost since the sink last added them to its sequence numbers. The meter's thread adds, the sink takes:
    /// Relaxed, because no other data depends on it.
    pub(super) lost: AtomicU64,
    /// The end of all waiting, ms after `start`; `u64::MAX` until the run ends. The meter's thread writes it, the sink
    /// reads it: Relaxed, because the queue's lock orders the rest.
    pub(super) deadline_ms: AtomicU64,
    pub(super) start: Instant,
}

impl Shared {
    pub(super) fn fail(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Takes the newest counters of the meter; `None` if they were taken before.
    pub(super) fn take_ledger(&self) -> Option<(FlowLedger, u64)> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn deadline(&self) -> Instant {
        let ms = self.deadline_ms.load(Ordering::Relaxed);
        self.start + Duration::from_millis(ms.min(1 << 40))
    }
}

/// The clock of exports: the time of the last batch, which in a live run advances until the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExportClock {
    now_ns: u64,
    at: Instant,
    is_live: bool,
}

impl ExportClock {
    pub(super) fn new(now_ns: u64, is_live: bool) -> Self {
        Self { now_ns, at: Instant::now(), is_live }
    }

    /// Sets the time, unless that is earlier.
    pub(super) fn set(&mut self, now_ns: u64) {
        if now_ns >= self.now_ns() {
            (self.now_ns, self.at) = (now_ns, Instant::now());
        }
    }

    /// The time, ns since 1970.
    pub(super) fn now_ns(&self) -> u64 {
        let since = if self.is_live { self.at.elapsed().as_nanos() as u64 } else { 0 };
        self.now_ns + since
    }
}
