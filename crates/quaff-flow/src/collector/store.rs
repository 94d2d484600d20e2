//! The thread of a store: another crate keeps the records on disk. This module has the queue and the counters; it knows
//! no format.

use super::counters::{Counters, FlowSum, carried_by};
use super::queue::Popped;
use super::shared::Shared;
use crate::export::{Carried, Scene};
use crate::ledger::FlowLedger;
use crate::record::FlowRecord;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum time between two calls of [`RecordStore::tick`].
const LOOK: Duration = Duration::from_millis(100);

/// Stores records in a format that this crate does not know, such as segments of Parquet.
///
/// After [`RecordStore::open`] only the sink's own thread calls it, so it may wait for a disk. Each record that it
/// takes is counted in `kept` or `missed` of one of its outcomes.
pub trait RecordStore: Send {
    /// The kind of sink in reports.
    fn kind(&self) -> &'static str;
    /// The folder in which it creates files and folders, and renames them.
    fn folder(&self) -> PathBuf;
    /// Prepares the folder, before the sink's thread starts.
    fn open(&mut self, scene: Scene) -> quaff_os::Result<()>;
    /// Takes records. `now_ns` is the current time: the clock's in a live run, packet time otherwise.
    fn take(&mut self, records: &[FlowRecord], now_ns: u64) -> StoreOutcome;
    /// Does what is due by time.
    fn tick(&mut self) -> StoreOutcome;
    /// Receives the current counters of the meter.
    fn ledger(&mut self, ledger: &FlowLedger);
    /// Receives the sum of the records that this sink has lost so far.
    fn missed(&mut self, missed: FlowSum);
    /// Writes all remaining records.
    fn finish(&mut self) -> StoreOutcome;
}

/// The events in a store since the previous call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOutcome {
    /// Records in files that are complete on disk.
    pub kept: FlowSum,
    /// Records that were lost because of an error.
    pub missed: FlowSum,
    /// Completed files, and their bytes.
    pub files: u64,
    pub bytes: u64,
    pub errors: u64,
    /// The last error.
    pub failure: Option<String>,
}

/// The state of a store's thread.
pub(super) struct StoreSink {
    pub(super) store: Box<dyn RecordStore>,
    pub(super) shared: Arc<Shared>,
}

impl StoreSink {
    /// The loop of the thread.
    pub(super) fn run(mut self) {
        loop {
            let popped = self.shared.queue.clone().pop(Instant::now() + LOOK);
            self.learn();
            match popped {
                Popped::Item(batch) => self.take(&batch.records, batch.now_ns),
                Popped::TimedOut => {}
                Popped::Closed => break,
            }
            let outcome = self.store.tick();
            self.count(outcome);
        }
        // Relaxed: set before the queue was closed, so the queue's lock orders it.
        if self.shared.is_abandoned.load(Ordering::Relaxed) {
            return;
        }
        self.learn();
        let outcome = self.store.finish();
        self.count(outcome);
    }

    /// Passes the newest counters to the store.
    fn learn(&mut self) {
        self.store.missed(self.shared.counters.missed().total());
        if let Some((ledger, _)) = self.shared.take_ledger() {
            self.store.ledger(&ledger);
        }
    }

    fn take(&mut self, records: &[FlowRecord], now_ns: u64) {
        if Instant::now() > self.shared.deadline() {
            return self.shared.counters.missed_end.add(carried_by(records, true));
        }
        let outcome = self.store.take(records, now_ns);
        self.count(outcome);
    }

    fn count(&self, outcome: StoreOutcome) {
        let carried = |sum: FlowSum| Carried { records: sum.records, packets: sum.packets, bytes: sum.bytes };
        let counters = &self.shared.counters;
        counters.sent.add(carried(outcome.kept));
        counters.missed_errors.add(carried(outcome.missed));
        Counters::add(&counters.messages, outcome.files);
        Counters::add(&counters.bytes, outcome.bytes);
        Counters::add(&counters.errors, outcome.errors);
        if outcome.failure.is_some() {
            self.shared.fail(outcome.failure);
        }
    }
}
