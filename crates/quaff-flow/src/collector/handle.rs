//! One sink, as the meter's thread uses it: adds batches to its queue, reads its report, ends its thread.

use super::counters::{SinkReport, carried_by};
use super::plan::Pressure;
use super::queue::Popped;
use super::shared::{Batch, CLOSED, Shared};
use super::url::Transport;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The meter's end of a sink.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) name: String,
    pub(super) kind: &'static str,
    /// `None` for a file.
    pub(super) transport: Option<Transport>,
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// Maximum time for which the meter waits for a sink after the end of the run was requested.
const END_WAIT: Duration = Duration::from_secs(10);
/// Interval between two checks for the end of a thread.
const LOOK: Duration = Duration::from_millis(1);

impl Sink {
    /// Queues records; `false` if there is no room for them by `end`, which the first wait after the stop sets.
    pub(super) fn push(&self, batch: Batch, pressure: &Pressure, end: &mut Option<Instant>) -> bool {
        let records = batch.records.len();
        let mut refused = match self.shared.queue.push(batch, records) {
            Ok(()) => return true,
            Err(batch) => batch,
        };
        let Pressure::Wait(stop) = pressure else { return false };
        loop {
            if stop.raised() && *end.get_or_insert_with(|| Instant::now() + END_WAIT) <= Instant::now() {
                return false;
            }
            if self.shared.queue.is_closed() {
                return false;
            }
            self.shared.queue.wait_for_room(records, Duration::from_millis(100));
            match self.shared.queue.push(refused, records) {
                Ok(()) => return true,
                Err(batch) => refused = batch,
            }
        }
    }

    pub(super) fn is_ready(&self, records: usize, limit: usize) -> bool {
        // Relaxed: written by the sink's thread. A batch may still be queued for a collector that has just failed.
        let is_up = self.shared.counters.is_up.load(Ordering::Relaxed) != 0;
        let queued = self.shared.queue.records();
        is_up && (queued == 0 || queued + records <= limit)
    }

    pub(super) fn report(&self, queue_records: usize) -> SinkReport {
        let mut report = self.shared.counters.report(&self.name, self.kind);
        report.queued = self.shared.queue.records() as u64;
        report.queue_max = queue_records as u64;
        report.transport = self.transport;
        report.failure = self.failure();
        report.spool_damaged_files =
            self.shared.damaged.lock().unwrap_or_else(PoisonError::into_inner).clone();
        report.is_closed = self.shared.ended.load(Ordering::Relaxed) == CLOSED;
        report
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the queue.
    pub(super) fn end(&self, wait: Duration) {
        let end_ms = (self.shared.start.elapsed() + wait).as_millis() as u64;
        self.shared.deadline_ms.fetch_min(end_ms, Ordering::Relaxed);
        self.shared.queue.close();
    }

    /// Waits for the thread until `patience` after its deadline; `false` if it has not ended by then, or has panicked.
    pub(super) fn join(&mut self, patience: Duration) -> bool {
        let end = self.shared.deadline() + patience;
        let Some(thread) = self.thread.take() else { return true };
        while !thread.is_finished() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        let has_panicked = thread.join().is_err();
        if has_panicked {
            self.shared.fail(Some("a defect of quaff: the sink's thread panicked".to_owned()));
        }
        // Counts the batches that the sink did not take before its deadline.
        while let Popped::Item(batch) = self.shared.queue.pop(Instant::now()) {
            self.shared.counters.missed_end.add(carried_by(&batch.records, self.shared.is_biflow));
        }
        !has_panicked
    }
}
