//! The plans of sinks: what is exported, in which format, to which destination. Plain data; nothing is opened here.

use super::pace::RateLimit;
use super::sink::TemplateRefresh;
use super::store::RecordStore;
use super::tls::TlsPlan;
use super::url::CollectorUrl;
use crate::export::{EncoderPlan, Names, Scene, Template};
use crate::record::FlowSink;
use quaff_os::Stop;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The destination, the format and the timing of the messages to one collector.
#[derive(Debug, Clone)]
pub struct CollectorPlan {
    pub url: CollectorUrl,
    /// Over UDP, the path's MTU limits messages beside its `bytes_max`.
    pub encoder: EncoderPlan,
    pub scene: Scene,
    /// Source address, for UDP only.
    pub source: Option<IpAddr>,
    pub refresh: TemplateRefresh,
    pub rate: RateLimit,
    /// A partly filled message is sent after this time; in a live run only.
    pub linger: Duration,
    /// Interval of the options with counters.
    pub statistics: Duration,
    /// Interval of attempts to connect; at least one minute, unless configured (RFC 7011, 10.4.5).
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
    /// Maximum bytes on disk.
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

/// The destination of a file's bytes.
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
    /// Records go to a store of another crate.
    Store {
        store: Box<dyn RecordStore>,
        scene: Scene,
    },
    /// A sink in this process receives the records, on a thread of its own.
    Memory {
        name: String,
        sink: Box<dyn FlowSink + Send>,
    },
}

/// The fate of records for which a sink has no room.
#[derive(Debug, Clone)]
pub enum Pressure {
    /// They are lost, and counted: live input does not wait.
    Drop,
    /// The meter waits, until 10 s after the flag was set; for a disconnected collector, as long as two attempts to
    /// connect take.
    Wait(Stop),
}

/// The settings of all sinks of a run.
#[derive(Debug, Clone)]
pub struct SinksPlan {
    pub pressure: Pressure,
    /// Each batch goes to one of the collectors, in turn, instead of to all. Files receive all batches.
    pub is_round_robin: bool,
    /// Maximum records in the queue of a sink.
    pub queue_records: usize,
    /// Records are sent within one second, in partly filled messages and buffers: the input is live, or a file that
    /// grows.
    pub is_prompt: bool,
}

/// The start of the input, known from its first packet on.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputStart {
    /// The clock's time, or the time of a file's first packet, ns since 1970.
    pub now_ns: u64,
    /// The start of the exporter, ns since 1970; `None`: the one of each plan.
    pub boot_ns: Option<u64>,
}
