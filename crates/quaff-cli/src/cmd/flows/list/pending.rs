//! The records of a meter on their way to the thread that prints them. A reader of stdout that stands still, such as a
//! pager, delays the meter, and costs no record.

use quaff_flow::record::{FlowRecord, FlowSink};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Records that wait. While there are as many, the meter waits.
const RECORDS_MAX: usize = 1 << 16;
/// Longest wait for room, after which some more records are taken: at the end of a run, the exporter abandons a sink
/// that takes nothing for 10 s.
const WAIT: Duration = Duration::from_secs(4);

/// Records that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    records: Mutex<Vec<FlowRecord>>,
    /// Signalled when they were taken.
    taken: Condvar,
}

/// The end of the meter.
#[derive(Debug)]
pub(super) struct PendingSink(pub(super) Arc<Pending>);

impl Pending {
    /// Takes all that wait.
    pub(super) fn take(&self) -> Vec<FlowRecord> {
        let records = std::mem::take(&mut *self.lock());
        self.taken.notify_all();
        records
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FlowRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowSink for PendingSink {
    fn take(&mut self, records: &[FlowRecord]) {
        let is_full = |waiting: &mut Vec<FlowRecord>| waiting.len() >= RECORDS_MAX;
        let waited = self.0.taken.wait_timeout_while(self.0.lock(), WAIT, is_full);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.extend_from_slice(records);
    }
}
