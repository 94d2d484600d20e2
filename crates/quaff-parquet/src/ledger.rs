//! The counters of a segment, as they stand in the metadata of its file. They let a reader prove that nothing is
//! missing: the sequence of a probe has no gaps, and rows, packets and bytes add up.

use crate::schema::SCHEMA_VERSION;
use parquet::file::metadata::KeyValue;
use quaff_flow::collector::FlowSum;
use quaff_flow::export::Names;
use quaff_flow::ledger::{Count, Ignored};

/// The counters of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentLedger {
    /// The names of the columns.
    pub names: Names,
    pub probe: String,
    /// The start of the run, µs since 1970.
    pub boot: u64,
    /// The number of the segment in its run, from 1 without a gap.
    pub sequence: u64,
    /// Rows, and the packets and IP bytes in them.
    pub kept: FlowSum,
    /// Times of the earliest and the latest packet, µs since 1970; 0 without rows.
    pub first_packet_us: u64,
    pub last_packet_us: u64,
    /// Records that should be in this segment or in the gap before it, and are in none.
    pub missed: FlowSum,
    /// Packets in no flow, since the segment before.
    pub ignored: Ignored,
    /// The counters of the meter added up when the segment was closed.
    pub is_conserved: bool,
    /// SHA-256 of the first `hashed_bytes` bytes of the file, which are all row groups; hexadecimal.
    pub sha256: String,
    pub hashed_bytes: u64,
}

/// The key of the schema's version, which every segment has.
pub(crate) const VERSION_KEY: &str = "quaff.schema";

impl SegmentLedger {
    /// The metadata of the file.
    pub(crate) fn entries(&self) -> Vec<KeyValue> {
        let mut entries = vec![
            (VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
            ("quaff.names".to_owned(), self.names.word().to_owned()),
            ("quaff.probe".to_owned(), self.probe.clone()),
            ("quaff.identity".to_owned(), if self.is_conserved { "holds" } else { "broken" }.to_owned()),
            ("quaff.sha256".to_owned(), self.sha256.clone()),
        ];
        let mut copy = self.clone();
        for (key, number) in copy.numbers() {
            entries.push((format!("quaff.{key}"), number.to_string()));
        }
        entries.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect()
    }

    /// Reads the metadata of a file.
    pub(crate) fn parse(entries: &[KeyValue]) -> Result<Self, String> {
        let find = |key: &str| {
            let found =
                entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref());
            found.ok_or_else(|| format!("it has no key {key}"))
        };
        match find(VERSION_KEY)?.parse::<u32>() {
            Ok(SCHEMA_VERSION) => {}
            _ => {
                let version = find(VERSION_KEY)?;
                return Err(format!(
                    "its schema has version {version}, and this quaff reads {SCHEMA_VERSION}"
                ));
            }
        }
        let mut ledger = Self {
            names: find("quaff.names")?.parse()?,
            probe: find("quaff.probe")?.to_owned(),
            is_conserved: find("quaff.identity")? == "holds",
            sha256: find("quaff.sha256")?.to_owned(),
            ..Self::default()
        };
        for (key, number) in ledger.numbers() {
            let text = find(&format!("quaff.{key}"))?;
            *number = text.parse().map_err(|_| format!("its key quaff.{key} is not a number: {text:?}"))?;
        }
        Ok(ledger)
    }

    /// The numbers with their keys, for writing and for reading.
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

/// Packets that were ignored since an earlier moment.
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

/// Records that were missed since an earlier moment.
pub(crate) fn missed_since(now: FlowSum, before: FlowSum) -> FlowSum {
    FlowSum {
        records: now.records.saturating_sub(before.records),
        packets: now.packets.saturating_sub(before.packets),
        bytes: now.bytes.saturating_sub(before.bytes),
    }
}
