//! The plans of sinks: what is exported, in which form, to where. Plain data; nothing is opened here.

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
}

/// The start of the input, which is known when its first packet is.
#[derive(Debug, Clone, Copy, Default)]
pub struct InputStart {
    /// The clock's time, or of a file its first packet's, ns since 1970.
    pub now_ns: u64,
    /// The start of the exporter, ns since 1970; `None` is that of each plan.
    pub boot_ns: Option<u64>,
}
