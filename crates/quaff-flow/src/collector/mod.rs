//! Collectors and files: the one module of this crate that does I/O. Each sink has a thread and a bounded queue.
//!
//! | module | contents |
//! |---|---|
//! | `url` | the address of a collector |
//! | `queue` | the bounded queue before a sink |
//! | `plan` | what is exported, in which form, to where |
//! | `handle`, `shared` | a sink, as the meter's thread uses it; the state that both share |
//! | `sink` | the thread of a collector: templates, options, rate |
//! | `udp` | messages over UDP |
//! | `stream`, `connection`, `tls` | messages over TCP and TLS, kept until they are acknowledged; reconnection |
//! | `spool`, `segment` | messages on disk while a collector is unreachable; their format |
//! | `files` | JSON lines, CSV, conn.log, IPFIX files |
//! | `store` | records that another crate keeps on disk |
//! | `memory` | records that stay in this process |
//! | `next_hops` | next hops from the kernel's routing tables |
//! | `pace` | limits of the rate |
//! | `counters` | what was sent, and what was not, by reason |
//!
//! A sink never stops the meter: with [`Pressure::Drop`] a batch for which its queue has no room is counted as missed
//! by this sink alone. [`Pressure::Wait`], for input from files, waits instead. Names are resolved, and sockets, files
//! and folders opened, before [`OpenSinks::open`] returns; later a sink opens only connections to the resolved
//! addresses, and segments in its spool.

mod connection;
mod counters;
mod files;
mod handle;
mod memory;
mod next_hops;
mod pace;
mod plan;
mod queue;
mod segment;
mod shared;
mod sink;
mod spool;
mod start;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod udp;
mod url;

pub use counters::{FlowSum, Missed, SinkReport};
pub use next_hops::KernelNextHops;
pub use pace::RateLimit;
pub use plan::{CollectorPlan, FileKind, InputStart, Pressure, SinkPlan, SinksPlan, SpoolPlan, Target};
pub use segment::parse_segment;
pub use sink::TemplateRefresh;
pub use store::{RecordStore, StoreOutcome};
pub use tls::TlsPlan;
pub use url::{CollectorUrl, Transport};

use crate::ledger::FlowLedger;
use crate::record::FlowRecord;
use counters::carried_by;
use handle::Sink;
use quaff_os::Result;
use shared::{Batch, CLOSED};
use start::OpenSink;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Open sinks whose threads have not started.
pub struct OpenSinks {
    sinks: Vec<OpenSink>,
    plan: SinksPlan,
}

impl OpenSinks {
    /// Resolves names, and opens sockets, files and folders.
    pub fn open(sinks: Vec<SinkPlan>, plan: SinksPlan) -> Result<Self> {
        let sinks = sinks.into_iter().map(|sink| start::open(sink, &plan)).collect::<Result<_>>()?;
        Ok(Self { sinks, plan })
    }

    /// Starts the threads of all sinks.
    pub fn start(self, start: InputStart) -> Result<Sinks> {
        let Self { sinks, plan } = self;
        let sinks = sinks.into_iter().map(|open| open(&plan, start)).collect::<Result<_>>()?;
        Ok(Sinks { sinks, plan, turn: 0, end: None })
    }
}

/// The sinks of a run.
#[derive(Debug)]
pub struct Sinks {
    sinks: Vec<Sink>,
    plan: SinksPlan,
    /// Index of the collector that receives the next batch.
    turn: usize,
    /// Time after which no call waits for room, once the end of the run was requested.
    end: Option<Instant>,
}

/// The reason why no sink accepts records any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllEnded {
    /// All outputs were closed by their readers.
    Closed,
    /// The last error of a sink.
    Failed(String),
}

/// A sink that runs for this long after its deadline is blocked: by a pipe without a reader, or a dead file server.
const PATIENCE: Duration = Duration::from_secs(1);

impl Sinks {
    /// Passes records to the sinks. `now_ns` is the current time: the clock's in a live run, packet time otherwise.
    /// Each sink drops its reference when it has encoded them.
    pub fn send(&mut self, records: &Arc<Vec<FlowRecord>>, now_ns: u64) {
        let dealt = self.plan.is_round_robin.then(|| self.next_collector(records.len())).flatten();
        for (at, sink) in self.sinks.iter().enumerate() {
            let is_meant = sink.transport.is_none() || !self.plan.is_round_robin || dealt == Some(at);
            if !is_meant {
                continue;
            }
            let batch = Batch { records: records.clone(), now_ns };
            let carried = carried_by(records, sink.shared.is_biflow);
            if sink.push(batch, &self.plan.pressure, &mut self.end) {
                sink.shared.counters.given.add(carried);
            } else {
                sink.shared.counters.missed_queue.add(carried);
                sink.shared.lost.fetch_add(carried.records, Ordering::Relaxed);
            }
        }
    }

    /// The collector for the next batch: each in turn, but one that is disconnected or has no room is skipped.
    fn next_collector(&mut self, records: usize) -> Option<usize> {
        let collectors: Vec<usize> =
            (0..self.sinks.len()).filter(|at| self.sinks[*at].transport.is_some()).collect();
        let in_turn = |step: usize| collectors.get((self.turn + step) % collectors.len().max(1)).copied();
        let ready = |at: &usize| self.sinks[*at].is_ready(records, self.plan.queue_records);
        let steps = 0..collectors.len();
        let chosen = steps.clone().find(|step| in_turn(*step).as_ref().is_some_and(ready)).unwrap_or(0);
        let at = in_turn(chosen);
        self.turn = self.turn + chosen + 1;
        at
    }

    /// Ends all waiting for room, as soon as the end of the run is requested: the caller has already waited.
    pub fn end_waiting(&mut self) {
        self.end = Some(Instant::now());
    }

    /// Passes the meter's ledger to the sinks, which export it from time to time and at the end.
    pub fn ledger(&mut self, ledger: &FlowLedger, now_ns: u64) {
        for sink in &self.sinks {
            let mut newest = sink.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            *newest = Some((*ledger, now_ns));
        }
    }

    /// The counters of all sinks so far.
    pub fn counters(&self) -> Vec<SinkReport> {
        self.sinks.iter().map(|sink| sink.report(self.plan.queue_records)).collect()
    }

    /// Returns a value if there are sinks and none of them accepts records any more. A collector that fails may
    /// recover.
    pub fn all_ended(&self) -> Option<AllEnded> {
        let ended = |sink: &Sink| match sink.shared.ended.load(Ordering::Relaxed) {
            0 => None,
            CLOSED => Some(AllEnded::Closed),
            _ => Some(AllEnded::Failed(format!("{}: {}", sink.name, sink.failure().unwrap_or_default()))),
        };
        let ends: Option<Vec<_>> = self.sinks.iter().map(ended).collect();
        let failed = |end: &AllEnded| matches!(end, AllEnded::Failed(_));
        let ends = ends?;
        ends.iter().find(|end| failed(end)).or(ends.first()).cloned()
    }

    /// Ends all sinks: they send their remaining records for at most `wait`. A thread that is blocked then is
    /// abandoned.
    pub fn stop(mut self, wait: Duration) -> Vec<SinkReport> {
        for sink in &self.sinks {
            sink.end(wait);
        }
        let mut reports = self.counters();
        for (sink, report) in self.sinks.iter_mut().zip(&mut reports) {
            let has_ended = sink.join(PATIENCE);
            *report = sink.report(self.plan.queue_records);
            if !has_ended {
                report.leave_behind(sink.shared.counters.given.get());
                report.failure.get_or_insert_with(|| "it stands still, and was left behind".to_owned());
            }
        }
        reports
    }
}

impl Drop for Sinks {
    /// The run did not start, or failed: files stay as they are.
    fn drop(&mut self) {
        for sink in &mut self.sinks {
            // Relaxed: the queue's lock orders it.
            sink.shared.is_abandoned.store(true, Ordering::Relaxed);
            sink.end(Duration::ZERO);
            sink.join(PATIENCE);
        }
    }
}
