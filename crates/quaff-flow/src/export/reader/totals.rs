//! The counters of a file of IPFIX, and those that it records of itself at the end of a run.

use super::super::element::PRIVATE;
use super::super::message::Carried;
use super::super::options::set_ledger;
use crate::ledger::FlowLedger;
use crate::record::FlowRecord;

/// One run of a meter: the records that were read, and what the file says of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    found: Carried,
    /// Data records that are missing by the sequence of the messages.
    pub(super) missing: u64,
    /// Records, by the exporter (exportedFlowRecordTotalCount); `None` before the end of the run.
    exported: Option<u64>,
    ledger: Option<FlowLedger>,
}

/// The counters of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IpfixTotals {
    /// Records that were read, with their packets and bytes.
    pub found: Carried,
    /// Records of the exporter that are not there.
    pub missing_records: u64,
    /// Packets that the meter put into records of which the file has none.
    pub missing_packets: u64,
    /// Runs, and those without an end: cut, killed, or still being written.
    pub runs: u64,
    pub open_runs: u64,
    /// Packets without a flow, by the ledgers of the meters.
    pub ledger: FlowLedger,
    /// A template has both directions of a conversation.
    pub has_biflows: bool,
}

impl Run {
    pub(super) fn see(&mut self, record: &FlowRecord) {
        add(&mut self.found, Carried { records: 1, packets: record.packets(), bytes: record.bytes() });
    }

    /// Takes a counter of options.
    pub(super) fn set(&mut self, pen: u32, id: u16, number: u64) {
        match (pen, id) {
            // exportedFlowRecordTotalCount.
            (0, 42) => self.exported = Some(number),
            (PRIVATE, _) => {
                let mut ledger = self.ledger.unwrap_or_default();
                if set_ledger(&mut ledger, id, number) {
                    self.ledger = Some(ledger);
                }
            }
            _ => {}
        }
    }

    /// Adds the results of a message.
    pub(super) fn add(&mut self, message: &Self) {
        add(&mut self.found, message.found);
        self.exported = message.exported.or(self.exported);
        self.ledger = message.ledger.or(self.ledger);
    }
}

impl IpfixTotals {
    /// Adds a run that has ended.
    pub(super) fn end(&mut self, run: &Run) {
        if *run == Run::default() {
            return;
        }
        add(&mut self.found, run.found);
        let short = run.exported.unwrap_or(0).saturating_sub(run.found.records);
        self.missing_records = self.missing_records.saturating_add(short.max(run.missing));
        self.runs += 1;
        self.open_runs += u64::from(run.exported.is_none());
        let Some(ledger) = run.ledger else { return };
        let short = ledger.exported.packets.saturating_sub(run.found.packets);
        self.missing_packets = self.missing_packets.saturating_add(short);
        let (sum, of) = (&mut self.ledger.ignored, ledger.ignored);
        for (sum, of) in [
            (&mut sum.not_ip, of.not_ip),
            (&mut sum.truncated, of.truncated),
            (&mut sum.not_sampled, of.not_sampled),
        ] {
            sum.packets = sum.packets.saturating_add(of.packets);
            sum.bytes = sum.bytes.saturating_add(of.bytes);
        }
    }
}

/// Adds counts, which a file may claim to be of any size.
fn add(sum: &mut Carried, more: Carried) {
    sum.records = sum.records.saturating_add(more.records);
    sum.packets = sum.packets.saturating_add(more.packets);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}
