//! A sink in this process: it receives the records themselves, without encoding.

use super::counters::carried_by;
use super::queue::Popped;
use super::shared::Shared;
use crate::record::FlowSink;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wait for a batch.
const WAIT: Duration = Duration::from_secs(1);

/// The state of the sink's thread.
pub(super) struct MemorySink {
    pub(super) sink: Box<dyn FlowSink + Send>,
    pub(super) shared: Arc<Shared>,
}

impl MemorySink {
    /// The loop of the thread.
    pub(super) fn run(mut self) {
        loop {
            let batch = match self.shared.queue.pop(Instant::now() + WAIT) {
                Popped::Item(batch) => batch,
                Popped::TimedOut => continue,
                Popped::Closed => return,
            };
            let counters = &self.shared.counters;
            if Instant::now() > self.shared.deadline() {
                counters.missed_end.add(carried_by(&batch.records, true));
                continue;
            }
            self.sink.take(&batch.records);
            counters.sent.add(carried_by(&batch.records, true));
        }
    }
}
