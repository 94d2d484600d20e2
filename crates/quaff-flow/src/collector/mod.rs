//! Collectors and files: the one module of this crate that does I/O. Each sink has a thread and a bounded queue.
//!
//! | module | contents |
//! |---|---|
//! | `url` | the address of a collector |
//! | `queue` | the bounded queue before a sink |
//! | `sink` | the thread of a collector: templates, options, rate |
//! | `udp` | messages over UDP |
//! | `stream`, `connection`, `tls` | messages over TCP and TLS, kept until they are acknowledged; reconnection |
//! | `spool`, `segment` | messages on disk while a collector is away; their bytes |
//! | `files` | JSON lines, CSV, conn.log, IPFIX files |
//! | `store` | records that another crate keeps on disk |
//! | `memory` | records that stay in this process |
//! | `next_hops` | next hops from the kernel's routing tables |
//! | `pace` | limits of the rate |
//! | `counters` | what was sent, and what was not, by reason |
//!
//! A sink never stops the meter: with [`Pressure::Drop`] a batch for which its queue has no room is counted as missed
//! by this sink alone. Reading files, [`Pressure::Wait`] waits instead. Names are resolved, and sockets, files and
//! folders opened, before [`Sinks::start`] returns; later a sink opens only connections to the addresses it knows, and
//! segments in its spool.

mod connection;
mod counters;
mod files;
mod memory;
mod next_hops;
mod pace;
mod queue;
mod segment;
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
pub use segment::parse_segment;
pub use sink::TemplateRefresh;
pub use store::{RecordStore, StoreOutcome};
pub use tls::TlsPlan;
pub use url::{CollectorUrl, Transport};

use crate::export::{Carried, EncoderPlan, Names, Scene, Template};
use crate::ledger::FlowLedger;
use crate::record::{FlowRecord, FlowSink};
use quaff_os::{Result, Stop};
use sink::{Batch, Shared};
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The plan of a collector.
#[derive(Debug, Clone)]
pub struct CollectorPlan {
    pub url: CollectorUrl,
    /// `bytes_max` limits messages further; the path's MTU limits them over UDP.
    pub encoder: EncoderPlan,
    pub scene: Scene,
    /// Own address, over UDP.
    pub source: Option<IpAddr>,
    pub refresh: TemplateRefresh,
    pub rate: RateLimit,
    /// A message that is not full leaves after this time; in a live run only.
    pub linger: Duration,
    /// Options of the moment are sent this often.
    pub statistics: Duration,
    /// Between two attempts to connect; a minute at least, unless configured (RFC 7011, 10.4.5).
    pub reconnect: Duration,
    pub connect_timeout: Duration,
    pub spool: Option<SpoolPlan>,
    pub tls: TlsPlan,
}

impl CollectorPlan {
    /// The plan of a collector with all defaults.
    pub fn new(url: CollectorUrl, encoder: EncoderPlan) -> Self {
        Self {
            url,
            encoder,
            scene: Scene::default(),
            source: None,
            refresh: TemplateRefresh::default(),
            rate: RateLimit::default(),
            linger: Duration::from_secs(1),
            statistics: Duration::from_secs(60),
            reconnect: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(3),
            spool: None,
            tls: TlsPlan::default(),
        }
    }
}

/// A spool on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolPlan {
    pub folder: PathBuf,
    /// Most bytes of it.
    pub bytes_max: u64,
}

/// The contents of a file.
#[derive(Debug, Clone)]
pub enum FileKind {
    Ipfix(Box<EncoderPlan>),
    Json { names: Names, template: Template },
    Csv { names: Names, template: Template, separator: u8 },
    Zeek,
}

/// The place of a file's bytes.
pub enum Target {
    /// Created or truncated.
    Path(PathBuf),
    /// A stream, with its name for reports.
    Writer(String, Box<dyn Write + Send>),
}

/// The plan of one sink.
pub enum SinkPlan {
    Collector(Box<CollectorPlan>),
    File {
        target: Target,
        kind: FileKind,
        scene: Scene,
    },
    /// Kept by another crate.
    Store {
        store: Box<dyn RecordStore>,
        scene: Scene,
    },
    /// The sink gets the records themselves, on a thread of its own.
    Memory {
        name: String,
        sink: Box<dyn FlowSink + Send>,
    },
}

/// The fate of records for which a sink has no room.
#[derive(Debug, Clone)]
pub enum Pressure {
    /// They are missed, and counted: live input does not wait.
    Drop,
    /// The meter waits, until 10 s after the flag was raised; for a collector that is away, as long as two attempts to
    /// connect take.
    Wait(Stop),
}

/// Settings that all sinks of a run share.
#[derive(Debug, Clone)]
pub struct SinksPlan {
    pub pressure: Pressure,
    /// Deal batches to the collectors in turn instead of sending all to each. Files get all.
    pub is_round_robin: bool,
    /// Records that may wait for a sink.
    pub queue_records: usize,
    /// Records leave within a second, in messages and buffers that are not full: others wait for them.
    pub is_prompt: bool,
    /// The time of the start, ns since 1970: the clock's, or of a file its first packet's.
    pub now_ns: u64,
}

/// The sinks of a run.
#[derive(Debug)]
pub struct Sinks {
    sinks: Vec<Sink>,
    plan: SinksPlan,
    /// The collector whose turn it is.
    turn: usize,
    /// The end of all waiting for room, once the run is to end.
    end: Option<Instant>,
}

/// The reason for which no sink takes records any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllEnded {
    /// The readers of all outputs closed them.
    Closed,
    /// The last error.
    Failed(String),
}

/// A sink, seen from the thread of the meter.
#[derive(Debug)]
struct Sink {
    name: String,
    kind: &'static str,
    /// `None` of a file.
    transport: Option<Transport>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// After the end of a run was requested, the meter waits for a sink no longer than this.
const END_WAIT: Duration = Duration::from_secs(10);
/// Interval of looks at a thread that is to end.
const LOOK: Duration = Duration::from_millis(1);
/// A sink that has not ended so long after its deadline stands still: a pipe without a reader, a dead file server.
const PATIENCE: Duration = Duration::from_secs(1);

impl Sinks {
    /// Opens all sinks and starts their threads.
    pub fn start(sinks: Vec<SinkPlan>, plan: SinksPlan) -> Result<Self> {
        let sinks = sinks.into_iter().map(|sink| start::start(sink, &plan)).collect::<Result<_>>()?;
        Ok(Self { sinks, plan, turn: 0, end: None })
    }

    /// Gives records to the sinks. `now_ns` is the time of it: the clock's in a live run, packet time otherwise. Each
    /// sink drops its reference when it has encoded them.
    pub fn send(&mut self, records: &Arc<Vec<FlowRecord>>, now_ns: u64) {
        let dealt = self.plan.is_round_robin.then(|| self.next_collector(records.len())).flatten();
        for (at, sink) in self.sinks.iter().enumerate() {
            let is_meant = sink.transport.is_none() || !self.plan.is_round_robin || dealt == Some(at);
            if !is_meant {
                continue;
            }
            let batch = Batch { records: records.clone(), now_ns };
            let carried = sum(records, sink.shared.is_biflow);
            if sink.push(batch, &self.plan.pressure, &mut self.end) {
                sink.shared.counters.given.add(carried);
            } else {
                sink.shared.counters.missed_queue.add(carried);
                sink.shared.lost.fetch_add(carried.records, Ordering::Relaxed);
            }
        }
    }

    /// The collector that takes the next batch: in turn, but one that is away or has no room is passed over.
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

    /// Ends all waiting for room once the run is to end: the caller has waited.
    pub fn end_waiting(&mut self) {
        self.end = Some(Instant::now());
    }

    /// Gives the ledger of the meter to the sinks, which export it from time to time and at the end.
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

    /// Returns a value if there are sinks, and none of them takes records any more. A collector may come back.
    pub fn all_ended(&self) -> Option<AllEnded> {
        let ended = |sink: &Sink| match sink.shared.ended.load(Ordering::Relaxed) {
            0 => None,
            files::CLOSED => Some(AllEnded::Closed),
            _ => Some(AllEnded::Failed(format!("{}: {}", sink.name, sink.failure().unwrap_or_default()))),
        };
        let ends: Option<Vec<_>> = self.sinks.iter().map(ended).collect();
        let failed = |end: &AllEnded| matches!(end, AllEnded::Failed(_));
        let ends = ends?;
        ends.iter().find(|end| failed(end)).or(ends.first()).cloned()
    }

    /// Ends all sinks: they send what they have for at most `wait`. A thread that stands still after it is left behind.
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
    /// The run has not started, or failed: files are left as they were.
    fn drop(&mut self) {
        for sink in &mut self.sinks {
            // Relaxed: the queue's lock orders it.
            sink.shared.is_abandoned.store(true, Ordering::Relaxed);
            sink.end(Duration::ZERO);
            sink.join(PATIENCE);
        }
    }
}

impl Sink {
    /// Queues records; `false` if there is no room for them until `end`, which the first wait after the stop sets.
    fn push(&self, batch: Batch, pressure: &Pressure, end: &mut Option<Instant>) -> bool {
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

    fn is_ready(&self, records: usize, limit: usize) -> bool {
        // Relaxed: the sink's thread writes it; a batch may still go to a collector that has just gone.
        let is_up = self.shared.counters.is_up.load(Ordering::Relaxed) != 0;
        let queued = self.shared.queue.records();
        is_up && (queued == 0 || queued + records <= limit)
    }

    fn report(&self, queue_records: usize) -> SinkReport {
        let mut report = self.shared.counters.report(&self.name, self.kind);
        report.queued = self.shared.queue.records() as u64;
        report.queue_max = queue_records as u64;
        report.transport = self.transport;
        report.failure = self.failure();
        report.is_closed = self.shared.ended.load(Ordering::Relaxed) == files::CLOSED;
        report
    }

    fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the queue.
    fn end(&self, wait: Duration) {
        let end_ms = (self.shared.start.elapsed() + wait).as_millis() as u64;
        self.shared.deadline_ms.fetch_min(end_ms, Ordering::Relaxed);
        self.shared.queue.close();
    }

    /// Waits for the thread until its deadline and `patience`; `false` if it stands still, or has panicked.
    fn join(&mut self, patience: Duration) -> bool {
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
        // Batches that the sink did not take before its deadline.
        while let queue::Popped::Item(batch) = self.shared.queue.pop(Instant::now()) {
            self.shared.counters.missed_end.add(sum(&batch.records, self.shared.is_biflow));
        }
        !has_panicked
    }
}

/// Records, packets and bytes of a batch, as a sink would have sent them: of a conversation one record, or one for
/// each of its directions.
fn sum(records: &[FlowRecord], is_biflow: bool) -> Carried {
    let mut sum = Carried::default();
    for record in records {
        let directions = [&record.forward, &record.reverse];
        let directions = directions.into_iter().filter(|direction| direction.packets > 0).count() as u64;
        let records = if is_biflow { 1 } else { directions };
        sum += Carried { records, packets: record.packets(), bytes: record.bytes() };
    }
    sum
}
