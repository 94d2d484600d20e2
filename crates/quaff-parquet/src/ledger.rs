//! The counters of a segment, stored in the metadata of its file. With them a reader can prove that nothing is missing:
//! the sequence numbers of a probe have no gaps, and rows, packets and bytes add up.

use crate::schema::SCHEMA_VERSION;
use parquet::file::metadata::KeyValue;
use quaff_flow::collector::FlowSum;
use quaff_flow::export::Names;
use quaff_flow::ledger::{Count, Ignored};

/// The counters of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentLedger {
    /// The scheme of the column names.
    pub names: Names,
    pub probe: String,
    /// Start of the run, µs since 1970.
    pub boot: u64,
    /// Number of the segment in its run, from 1 without gaps.
    pub sequence: u64,
    /// Rows, and their packets and IP bytes.
    pub kept: FlowSum,
    /// Time of the first and of the last packet, µs since 1970; 0 without rows.
    pub first_packet_us: u64,
    pub last_packet_us: u64,
    /// Records that are lost: they belong in this segment or in the gap before it.
    pub missed: FlowSum,
    /// Packets without a flow, since the previous segment.
    pub ignored: Ignored,
    /// The meter's counters added up when the segment was closed.
    pub is_conserved: bool,
    /// The meter looked for applications: rows without one are unknown. Segments of earlier versions do not have it.
    pub has_applications: bool,
    /// SHA-256 of the first `hashed_bytes` bytes of the file, which are all row groups; hexadecimal.
    pub sha256: String,
    pub hashed_bytes: u64,
}

/// The metadata key of the schema version; every segment has it.
pub(crate) const VERSION_KEY: &str = "quaff.schema";
/// The metadata key of the columns of applications, and its value if they were recorded.
const APPLICATIONS_KEY: &str = "quaff.applications";
const RECORDED: &str = "recorded";

impl SegmentLedger {
    /// The key-value metadata of the file.
    pub(crate) fn entries(&self) -> Vec<KeyValue> {
        let mut entries = vec![
            (VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
            ("quaff.names".to_owned(), self.names.word().to_owned()),
            ("quaff.probe".to_owned(), self.probe.clone()),
            ("quaff.identity".to_owned(), if self.is_conserved { "holds" } else { "broken" }.to_owned()),
            (APPLICATIONS_KEY.to_owned(), if self.has_applications { RECORDED } else { "none" }.to_owned()),
            ("quaff.sha256".to_owned(), self.sha256.clone()),
        ];
        let mut copy = self.clone();
        for (key, number) in copy.numbers() {
            entries.push((format!("quaff.{key}"), number.to_string()));
        }
        entries.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect()
    }

    /// Parses the key-value metadata of a file.
    pub(crate) fn parse(entries: &[KeyValue]) -> Result<Self, String> {
        let find = |key: &str| {
            let found =
                entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref());
            found.ok_or_else(|| format!("the key {key} is missing"))
        };
        match find(VERSION_KEY)?.parse::<u32>() {
            Ok(SCHEMA_VERSION) => {}
            _ => {
                let version = find(VERSION_KEY)?;
                return Err(format!(
                    "the schema version is {version}; this quaff reads version {SCHEMA_VERSION}"
                ));
            }
        }
        let mut ledger = Self {
            names: find("quaff.names")?.parse()?,
            probe: find("quaff.probe")?.to_owned(),
            is_conserved: find("quaff.identity")? == "holds",
            has_applications: find(APPLICATIONS_KEY).is_ok_and(|word| word == RECORDED),
            sha256: find("quaff.sha256")?.to_owned(),
            ..Self::default()
        };
        for (key, number) in ledger.numbers() {
            let text = find(&format!("quaff.{key}"))?;
            *number = text.parse().map_err(|_| format!("the key quaff.{key} is not a number: {text:?}"))?;
        }
        Ok(ledger)
    }

    /// The numbers with their keys, to write and to parse.
    fn numbers(&mut self) -> [(&'static str, &mut u64); 17] {
        let Ignored { not_ip, truncated, not_sampled } = &mut self.ignored;
        [
            ("boot", &mut self.boot),
            ("sequence", &mut self.sequence),
            ("rows", &mut self.kept.records),
            ("packets", &mut self.kept.packets),
            ("bytes", &mut self.kept.bytes),
            ("first_packet_us", &mut self.first_packet_us),
            ("last_packet_us", &mut self.last_packet_us),
            ("missed_rows", &mut self.missed.records),
            ("missed_packets", &mut self.missed.packets),
            ("missed_bytes", &mut self.missed.bytes),
            ("not_ip_packets", &mut not_ip.packets),
            ("not_ip_bytes", &mut not_ip.bytes),
            ("truncated_packets", &mut truncated.packets),
            ("truncated_bytes", &mut truncated.bytes),
            ("not_sampled_packets", &mut not_sampled.packets),
            ("not_sampled_bytes", &mut not_sampled.bytes),
            ("hashed_bytes", &mut self.hashed_bytes),
        ]
    }
}

/// Packets that were ignored since `before`.
pub(crate) fn ignored_since(now: Ignored, before: Ignored) -> Ignored {
    let since = |now: Count, before: Count| Count {
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    };
    Ignored {
        not_ip: since(now.not_ip, before.not_ip),
        truncated: since(now.truncated, before.truncated),
        not_sampled: since(now.not_sampled, before.not_sampled),
    }
}

/// Records that were lost since `before`.
pub(crate) fn missed_since(now: FlowSum, before: FlowSum) -> FlowSum {
    FlowSum {
        records: now.records.saturating_sub(before.records),
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}
