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

/// A batch of records, with the time of it, ns since 1970.
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
    /// The newest counters of the meter, which the sink has not taken, and the time of them, ns since 1970.
    pub(super) ledger: Mutex<Option<(FlowLedger, u64)>>,
    /// The run did not start: nothing is written. The thread that started the sink sets it before it closes the queue,
    /// whose lock orders it.
    pub(super) is_abandoned: AtomicBool,
    /// A file takes nothing more: 1 since its reader closed it, 2 since an error. The sink writes it, the exporter
    /// reads it: Relaxed, as it is a fact of its own.
    pub(super) ended: AtomicU8,
    pub(super) failure: Mutex<Option<String>>,
    /// A conversation is one record of this sink.
    pub(super) is_biflow: bool,
    /// Records that were missed since the sink last counted them into its sequence. The thread of the meter adds, the
    /// sink takes: Relaxed, as it is a number of its own.
    pub(super) lost: AtomicU64,
    /// The end of all waiting, ms after `start`; `u64::MAX` until the run ends. The thread of the meter writes it, the
    /// sink reads it: Relaxed, since the queue's lock orders the rest.
    pub(super) deadline_ms: AtomicU64,
    pub(super) start: Instant,
}

impl Shared {
    pub(super) fn fail(&self, failure: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// The newest counters of the meter, once.
    pub(super) fn take_ledger(&self) -> Option<(FlowLedger, u64)> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn deadline(&self) -> Instant {
        let ms = self.deadline_ms.load(Ordering::Relaxed);
        self.start + Duration::from_millis(ms.min(1 << 40))
    }
}

/// The clock of exports: that of the batches, which in a live run continues between them.
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

    /// Sets the time; it never goes back.
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
