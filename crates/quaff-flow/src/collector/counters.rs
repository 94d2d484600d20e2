//! The counters of a sink: what it sent, and what it did not send, by reason.

use super::Transport;
use crate::export::Carried;
use crate::record::FlowRecord;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that the sink's thread and its feeding thread write, and any thread reads.
///
/// All are Relaxed: each is an independent sum that publishes nothing else, and exact once the sink's thread is joined.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Records that the queue accepted.
    pub(super) given: Sum,
    pub(super) sent: Sum,
    pub(super) messages: AtomicU64,
    /// Bytes of messages, or of a file.
    pub(super) bytes: AtomicU64,
    /// Messages that define templates.
    pub(super) templates: AtomicU64,
    /// Connections after the first one.
    pub(super) reconnects: AtomicU64,
    /// 1 while connected, and for sinks without a connection.
    pub(super) is_up: AtomicU64,
    pub(super) spooled: Sum,
    pub(super) from_spool: Sum,
    /// Part of `from_spool` that earlier runs spooled.
    pub(super) from_earlier: Sum,
    /// Bytes of the spool that were damaged and skipped.
    pub(super) spool_damaged_bytes: AtomicU64,
    /// Segments of the spool that a killed run left open.
    pub(super) spool_open_files: AtomicU64,
    /// Sends that the kernel refused.
    pub(super) errors: AtomicU64,
    pub(super) missed_queue: Sum,
    pub(super) missed_away: Sum,
    pub(super) missed_spool: Sum,
    pub(super) missed_errors: Sum,
    pub(super) missed_end: Sum,
    /// Records excluded by the sink's format or policy.
    pub(super) unsuited: Sum,
}

/// Records, packets and bytes of flows.
#[derive(Debug, Default)]
pub(super) struct Sum {
    records: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Sum {
    pub(super) fn add(&self, carried: Carried) {
        self.records.fetch_add(carried.records, Ordering::Relaxed);
        self.packets.fetch_add(carried.packets, Ordering::Relaxed);
        self.bytes.fetch_add(carried.bytes, Ordering::Relaxed);
    }

    /// Replaces the sums.
    pub(super) fn set(&self, carried: Carried) {
        self.records.store(carried.records, Ordering::Relaxed);
        self.packets.store(carried.packets, Ordering::Relaxed);
        self.bytes.store(carried.bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> FlowSum {
        FlowSum {
            records: self.records.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Number of flow records, with their packets and IP bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FlowSum {
    pub records: u64,
    pub packets: u64,
    pub bytes: u64,
}

impl From<FlowSum> for Carried {
    fn from(sum: FlowSum) -> Self {
        Self { records: sum.records, packets: sum.packets, bytes: sum.bytes }
    }
}

impl FlowSum {
    fn minus(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_sub(other.records),
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            records: self.records + other.records,
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// Records that a sink did not send, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// The sink's queue was full, because the sink is slower than the meter.
    pub queue_full: FlowSum,
    /// The collector was down or too slow, and there is no spool.
    pub away: FlowSum,
    /// The spool was full, or could not be written.
    pub spool: FlowSum,
    /// The kernel refused to send or to write.
    pub errors: FlowSum,
    /// Still queued when the run ended. Records in the spool stay there and do not count as missed.
    pub at_end: FlowSum,
}

impl Missed {
    /// The sum over all reasons.
    pub fn total(&self) -> FlowSum {
        let reasons = [self.away, self.spool, self.errors, self.at_end];
        reasons.into_iter().fold(self.queue_full, FlowSum::plus)
    }
}

/// A snapshot of a sink's counters, also at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SinkReport {
    /// `udp://HOST:PORT`, or the path of a file or a folder.
    pub name: String,
    /// `netflow5`, `netflow9`, `ipfix`, `json`, `csv`, `zeek`, `parquet`, `memory`.
    pub kind: &'static str,
    /// Records sent or written; a bidirectional flow may be two.
    pub sent: FlowSum,
    pub missed: Missed,
    /// Records that the format or the policy excludes, such as IPv6 in NetFlow v5.
    pub unsuited: FlowSum,
    /// Records in the queue.
    pub queued: u64,
    pub queue_max: u64,
    pub messages: u64,
    pub bytes: u64,
    pub templates: u64,
    pub errors: u64,
    pub reconnects: u64,
    /// True if the collector is connected; always true for UDP and files.
    pub is_up: bool,
    /// Records that this run put into the spool.
    pub spooled: FlowSum,
    /// Records sent from the spool and acknowledged; also in `sent`.
    pub from_spool: FlowSum,
    /// Part of `from_spool` that earlier runs spooled.
    pub from_earlier: FlowSum,
    pub spool_damaged_bytes: u64,
    /// Segments of the spool that a killed run left open: they may have had more records.
    pub spool_open_files: u64,
    /// Damaged segments of the spool, where they are kept.
    pub spool_damaged_files: Vec<String>,
    /// The error that ended the sink, or the error of the last attempt to connect.
    pub failure: Option<String>,
    /// True if the reader of a pipe closed it.
    #[serde(skip)]
    pub is_closed: bool,
    /// The transport to a collector; `None` for a file.
    #[serde(skip)]
    pub transport: Option<Transport>,
}

impl SinkReport {
    /// Records of this run that are in the spool. The records given to a sink are these plus `sent` without
    /// `from_earlier`, `missed` and `unsuited`.
    pub fn left_in_spool(&self) -> FlowSum {
        self.spooled.minus(self.from_spool.minus(self.from_earlier))
    }

    /// Counts the part of `given` that is in no other sum as missed at the end: the thread hangs or has panicked.
    pub(super) fn leave_behind(&mut self, given: FlowSum) {
        let missed = self.missed.total().minus(self.missed.queue_full);
        let sent = self.sent.minus(self.from_earlier);
        let counted = sent.plus(missed).plus(self.unsuited).plus(self.left_in_spool());
        self.missed.at_end = self.missed.at_end.plus(given.minus(counted));
    }
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Missed records so far, by reason.
    pub(super) fn missed(&self) -> Missed {
        Missed {
            queue_full: self.missed_queue.get(),
            away: self.missed_away.get(),
            spool: self.missed_spool.get(),
            errors: self.missed_errors.get(),
            at_end: self.missed_end.get(),
        }
    }

    /// A snapshot of the counters.
    pub(super) fn report(&self, name: &str, kind: &'static str) -> SinkReport {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SinkReport {
            name: name.to_owned(),
            kind,
            sent: self.sent.get(),
            missed: self.missed(),
            unsuited: self.unsuited.get(),
            queued: 0,
            queue_max: 0,
            messages: load(&self.messages),
            bytes: load(&self.bytes),
            templates: load(&self.templates),
            errors: load(&self.errors),
            reconnects: load(&self.reconnects),
            is_up: load(&self.is_up) != 0,
            spooled: self.spooled.get(),
            from_spool: self.from_spool.get(),
            from_earlier: self.from_earlier.get(),
            spool_damaged_bytes: load(&self.spool_damaged_bytes),
            spool_open_files: load(&self.spool_open_files),
            spool_damaged_files: Vec::new(),
            failure: None,
            is_closed: false,
            transport: None,
        }
    }
}

/// Records, packets and bytes of a batch, as a sink would have sent them: of a conversation one record, or one for
/// each of its directions.
pub(super) fn carried_by(records: &[FlowRecord], is_biflow: bool) -> Carried {
    let mut sum = Carried::default();
    for record in records {
        let directions = [&record.forward, &record.reverse];
        let directions = directions.into_iter().filter(|direction| direction.packets > 0).count() as u64;
        let records = if is_biflow { 1 } else { directions };
        sum += Carried { records, packets: record.packets(), bytes: record.bytes() };
    }
    sum
}
