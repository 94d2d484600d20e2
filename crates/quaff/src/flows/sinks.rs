//! Files of records as lines of JSON, written on the exporter's thread.

use crate::Result;
use quaff_flow::record::FlowRecord;
use quaff_os::{Stop, Try};
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A place for records.
#[derive(Debug, Clone)]
pub enum SinkPlan {
    /// A line of JSON for each; `-` is stdout.
    Json(PathBuf),
}

/// The behaviour of a sink that is too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pressure {
    Drop,
    Wait,
}

/// The counters of a sink so far.
#[derive(Debug, Clone, Default)]
pub struct SinkCounters {
    pub queued: u64,
    pub queue_max: u64,
    pub missed: u64,
    pub missed_packets: u64,
    pub missed_bytes: u64,
}

/// The results of a sink.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SinkReport {
    pub name: String,
    pub records: u64,
    pub missed: u64,
    pub bytes: u64,
    pub failure: Option<String>,
}

struct JsonFile {
    out: BufWriter<Box<dyn Write + Send>>,
    report: SinkReport,
}

/// The sinks of a run.
pub(super) struct Sinks {
    files: Vec<JsonFile>,
}

impl Sinks {
    pub(super) fn start(plans: Vec<SinkPlan>, _: Pressure, _: Stop) -> Result<Self> {
        let open = |SinkPlan::Json(path): SinkPlan| {
            let out: Box<dyn Write + Send> = match path.as_os_str() == "-" {
                true => Box::new(std::io::stdout()),
                false => Box::new(File::create(&path).trying(|| format!("create {}", path.display()))?),
            };
            let report = SinkReport { name: path.display().to_string(), ..SinkReport::default() };
            Ok(JsonFile { out: BufWriter::new(out), report })
        };
        Ok(Self { files: plans.into_iter().map(open).collect::<Result<_>>()? })
    }

    pub(super) fn send(&mut self, records: Arc<Vec<FlowRecord>>) {
        self.files.iter_mut().for_each(|file| file.write(&records));
    }

    pub(super) fn counters(&self) -> Vec<SinkCounters> {
        let of = |file: &JsonFile| SinkCounters { missed: file.report.missed, ..SinkCounters::default() };
        self.files.iter().map(of).collect()
    }

    pub(super) fn stop(self, _: Duration) -> Vec<SinkReport> {
        let end = |mut file: JsonFile| {
            let flushed = file.out.flush();
            file.fail(flushed);
            file.report
        };
        self.files.into_iter().map(end).collect()
    }
}

impl JsonFile {
    fn write(&mut self, records: &[FlowRecord]) {
        for record in records {
            if self.report.failure.is_some() {
                self.report.missed += 1;
                continue;
            }
            let line = line(record);
            let written = self.out.write_all(line.as_bytes());
            self.fail(written);
            self.report.records += 1;
            self.report.bytes += line.len() as u64;
        }
    }

    fn fail(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            self.report.failure.get_or_insert(error.to_string());
        }
    }
}

fn line(record: &FlowRecord) -> String {
    let key = &record.key;
    let mut line = json!({
        "sourceTransportPort": key.source_port,
        "destinationTransportPort": key.destination_port,
        "protocolIdentifier": key.protocol,
        "vlanId": key.vlan,
        "ipClassOfService": key.tos,
        "ingressInterface": key.interface,
        "flowStartNanoseconds": record.first_ns(),
        "flowEndNanoseconds": record.last_ns(),
        "packetDeltaCount": record.forward.packets,
        "octetDeltaCount": record.forward.bytes,
        "tcpControlBits": record.forward.tcp_flags,
        "reversePacketDeltaCount": record.reverse.packets,
        "reverseOctetDeltaCount": record.reverse.bytes,
        "reverseTcpControlBits": record.reverse.tcp_flags,
        "flowEndReason": record.end_reason as u8,
        "directionRule": record.initiator as u8,
    });
    for (end, address) in [("source", key.source), ("destination", key.destination)] {
        let version = if matches!(address, IpAddr::V4(_)) { 4 } else { 6 };
        line[format!("{end}IPv{version}Address")] = address.to_string().into();
    }
    if key.icmp_type_code != 0 || matches!(key.protocol, 1 | 58) {
        line[format!("icmpTypeCodeIPv{}", key.ip_version())] = key.icmp_type_code.into();
    }
    format!("{line}\n")
}
