//! The traffic of capture files as plain data. Times are ns since 1970.

use super::conversations::{Conversations, Hosts};
use super::dns::DnsTraffic;
use super::handshakes::TcpTraffic;
use super::tables::PacketCount;
use quaff_file::verify::Report;
use quaff_wire::hierarchy::ProtocolPath;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The traffic of capture files, read as one capture.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Traffic {
    pub packets: u64,
    /// On the wire.
    pub bytes: u64,
    /// In the files.
    pub captured_bytes: u64,
    /// Time of the earliest and of the latest packet.
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    /// Time between them, s.
    pub seconds: Option<f64>,
    /// Packets without a time.
    pub untimed: u64,
    /// Packets that are earlier than the packet before them.
    pub backward: u64,
    /// The hierarchy of protocols: each row before those inside it, and of rows beside each other the one with the most
    /// bytes first.
    pub protocols: Vec<ProtocolRow>,
    pub conversations: Conversations,
    pub hosts: Hosts,
    pub tcp: TcpTraffic,
    pub dns: DnsTraffic,
    pub verify: Verdict,
    /// Sums that do not agree: a defect.
    pub failure: Option<String>,
}

/// A protocol at its place in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProtocolRow {
    /// The protocols up to it, such as `eth:ip:tcp`.
    pub path: String,
    pub name: String,
    /// Number of protocols around it.
    pub depth: usize,
    pub packets: u64,
    pub bytes: u64,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    /// In one line.
    pub verdict: String,
    pub complete: bool,
    /// There was something to judge by.
    pub judged: bool,
    pub reasons: Vec<String>,
    /// Packets that the capture lacks: missing numbers, or else an estimate by TCP.
    pub lost: u64,
}

impl Verdict {
    pub(super) fn of(report: &Report) -> Self {
        let outcome = &report.outcome;
        Self {
            verdict: report.verdict.clone(),
            complete: outcome.complete,
            judged: outcome.is_judged,
            reasons: outcome.reasons.clone(),
            lost: if report.has_numbers() { outcome.lost } else { report.lost_here() },
        }
    }
}

/// The rows of the hierarchy: each path counts for every protocol in it. `others` had no place.
pub(super) fn rows(paths: &[(ProtocolPath, PacketCount)], others: PacketCount) -> Vec<ProtocolRow> {
    let mut sums: BTreeMap<ProtocolPath, PacketCount> = BTreeMap::new();
    for (path, count) in paths {
        for len in 1..=path.len() {
            sums.entry(path.first(len)).or_default().add(*count);
        }
    }
    let mut rows = Vec::new();
    add_below(&sums, ProtocolPath::default(), &mut rows);
    if others.packets > 0 {
        let PacketCount { packets, bytes } = others;
        rows.push(ProtocolRow { path: "others".into(), name: "others".into(), depth: 0, packets, bytes });
    }
    rows
}

/// Adds the rows below a path. A path has at most 16 protocols, so this ends.
fn add_below(sums: &BTreeMap<ProtocolPath, PacketCount>, above: ProtocolPath, rows: &mut Vec<ProtocolRow>) {
    let depth = above.len();
    let below = sums.range(above..).take_while(|(path, _)| path.first(depth) == above);
    let mut below: Vec<_> = below.filter(|(path, _)| path.len() == depth + 1).collect();
    below.sort_by_key(|(path, count)| (Reverse(count.bytes), **path));
    for (path, PacketCount { packets, bytes }) in below {
        let name = path.last().map(|protocol| protocol.to_string()).unwrap_or_default();
        let (packets, bytes) = (*packets, *bytes);
        rows.push(ProtocolRow { path: path.to_string(), name, depth, packets, bytes });
        add_below(sums, *path, rows);
    }
}
