//! The report of a run of flow metering, with its sums checked.
//!
//! ```text
//!   offered = received + all terms
//!   received = packets = packets_in_flows + packets_live + packets_held + packets_ignored
//!   packets_in_flows = those of each sink: sent - from_earlier + missed + unsuited + those left in its spool,
//!                      and those of `missed`
//! ```

use crate::format::{clause, number_of};
use crate::output::MeterEnd;
use crate::run;
use crate::tally::{self, RunSummary, has_summary};
use quaff_flow::collector::{FlowSum, SinkReport, Transport};
use quaff_flow::ledger::FlowLedger;
use serde::Serialize;

/// The result of a run of flow metering, in packets unless stated.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowReport {
    /// Packets given to the meter.
    pub packets: u64,
    /// Their bytes: IP header and payload by the header's own length; for packets without one, bytes on the wire.
    pub bytes: u64,
    /// Records that left the table.
    pub flows_exported: u64,
    /// The packets in them, and their IP bytes.
    pub packets_in_flows: u64,
    pub bytes_in_flows: u64,
    /// Packets that are in no flow: the sum of `ignored`, and their bytes.
    pub packets_ignored: u64,
    pub bytes_ignored: u64,
    pub ignored: Ignored,
    /// Packets of flows that are still in the table, and fragments that still wait for their first one: 0 unless the
    /// run failed.
    pub packets_live: u64,
    pub packets_held: u64,
    /// Records by the reason of their end.
    pub ended: Ended,
    /// Most flows in the table at a time.
    pub flows_high: u64,
    /// Fragments in flows without ports, because their first one did not come in time.
    pub fragments_unmatched: u64,
    /// Initial packets of QUIC that were not decrypted, because there were too many: their flows may lack names.
    pub quic_skipped: u64,
    /// Most bytes of memory of the tables, and what the plan allows.
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
    /// The most slots of a table that were probed for a packet.
    pub probes_max: u64,
    /// Records that no sink got, because the queue to the exporter was full, and the packets and IP bytes in them.
    pub missed: FlowSum,
    pub sinks: Vec<SinkReport>,
    #[serde(flatten)]
    pub run: RunSummary,
}

has_summary!(FlowReport);

/// Packets that are in no flow, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ignored {
    /// No IP header.
    pub not_ip: u64,
    /// The capture ends before the ports, or the header is damaged.
    pub truncated: u64,
    /// Not selected by the sampling.
    pub not_sampled: u64,
}

/// Records by the reason of their end (flowEndReason).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub idle: u64,
    pub active: u64,
    pub end_of_flow: u64,
    /// The run ended.
    pub forced: u64,
    /// The table was full.
    pub lack_of_resources: u64,
}

/// The results of all parts of a run.
pub(super) struct FlowsEnd {
    pub(super) run: run::Ended,
    pub(super) meters: Vec<MeterEnd>,
    pub(super) sinks: Vec<SinkReport>,
}

pub(super) fn sum_up(end: FlowsEnd, is_round_robin: bool) -> FlowReport {
    let FlowsEnd { run: mut end, meters, sinks } = end;
    let ledger: FlowLedger = meters.iter().map(|meter| meter.ledger).sum();
    let missed = not_queued(&meters);
    end.reasons.lossy.extend(sinks.iter().filter_map(missed_words));
    end.reasons.unknown.extend(sinks.iter().filter_map(spooled_words));
    end.reasons.unknown.extend(sinks.iter().filter_map(damaged_words));
    end.reasons.unknown.extend(sinks.iter().filter_map(open_words));
    end.reasons.unknown.extend(sinks.iter().filter_map(refused_words));
    end.reasons.notes.extend(sinks.iter().filter_map(unsuited_words));
    end.reasons.notes.extend(sinks.iter().filter_map(left_words));
    let ignored = ledger.ignored.total();
    let mut report = FlowReport {
        packets: ledger.seen.packets,
        bytes: ledger.seen.bytes,
        flows_exported: ledger.flows_exported(),
        packets_in_flows: ledger.exported.packets,
        bytes_in_flows: ledger.exported.bytes,
        packets_ignored: ignored.packets,
        bytes_ignored: ignored.bytes,
        ignored: Ignored::new(&ledger.ignored),
        packets_live: ledger.live.packets,
        packets_held: ledger.held.packets,
        ended: Ended::new(&ledger.flows_by_reason),
        flows_high: ledger.flows_high,
        fragments_unmatched: ledger.fragments_unmatched,
        quic_skipped: ledger.quic_skipped,
        memory_bytes: ledger.memory_bytes,
        memory_bytes_max: ledger.memory_bytes_max,
        probes_max: ledger.probes_max,
        missed,
        sinks,
        run: RunSummary::default(),
    };
    report.run = end.checked_summary(|received| report.check(&ledger, received, is_round_robin));
    report.judge();
    report
}

/// Records that no sink got.
fn not_queued(meters: &[MeterEnd]) -> FlowSum {
    meters.iter().fold(FlowSum::default(), |sum, meter| FlowSum {
        records: sum.records + meter.missed.records,
        packets: sum.packets + meter.missed.packets,
        bytes: sum.bytes + meter.missed.bytes,
    })
}

impl Ignored {
    fn new(by_reason: &quaff_flow::ledger::Ignored) -> Self {
        let [not_ip, truncated, not_sampled] =
            [by_reason.not_ip, by_reason.truncated, by_reason.not_sampled].map(|count| count.packets);
        Self { not_ip, truncated, not_sampled }
    }
}

impl Ended {
    fn new(by_reason: &[u64; 6]) -> Self {
        let [_, idle, active, end_of_flow, forced, lack_of_resources] = *by_reason;
        Self { idle, active, end_of_flow, forced, lack_of_resources }
    }
}

impl FlowReport {
    /// Checks the sums. A difference is a defect of quaff.
    fn check(&self, ledger: &FlowLedger, received: u64, is_round_robin: bool) -> Result<(), String> {
        ledger.check().map_err(|words| format!("the flows do not add up: {words}"))?;
        let in_flows = self.packets_in_flows + self.packets_live + self.packets_held;
        let sums = [
            ("received = packets", received, self.packets),
            (
                "packets = packets_in_flows + packets_live + packets_held + packets_ignored",
                self.packets,
                in_flows + self.packets_ignored,
            ),
            ("packets_live + packets_held = 0 at the end", self.packets_live + self.packets_held, 0),
        ];
        tally::check(sums.into_iter().chain(self.sums_of_sinks(is_round_robin)))
    }

    /// The sums of the sinks, each of which gets all records; collectors that take turns get all records together.
    /// Records that earlier runs left in a spool are in no sum of this run.
    fn sums_of_sinks(&self, is_round_robin: bool) -> Vec<(&'static str, u64, u64)> {
        let words =
            "packets_in_flows = sent + missed + unsuited of a sink, and those in its spool, and missed";
        let got = |sink: &SinkReport| {
            let sent = sink.sent.packets.saturating_sub(sink.from_earlier.packets);
            sent + sink.missed.total().packets + sink.unsuited.packets + sink.left_in_spool().packets
        };
        let is_dealt = |sink: &SinkReport| is_round_robin && sink.transport.is_some();
        let (dealt, whole): (Vec<_>, Vec<_>) = self.sinks.iter().partition(|sink| is_dealt(sink));
        let one = |got: u64| (words, self.packets_in_flows, got + self.missed.packets);
        let together = (!dealt.is_empty()).then(|| one(dealt.iter().map(|sink| got(sink)).sum()));
        whole.into_iter().map(|sink| one(got(sink))).chain(together).collect()
    }

    /// Sets the verdict, by the sums, the reasons beside them, and the failure.
    fn judge(&mut self) {
        let missed = self.sinks.iter().map(lost_records).sum::<u64>() + self.missed.records;
        self.run.judge(missed > 0);
    }
}

/// Returns the number of records that a sink wanted and missed. A reader that closed its output wanted those for which
/// there was no room before, and none of the later ones.
fn lost_records(sink: &SinkReport) -> u64 {
    if sink.is_closed { sink.missed.queue_full.records } else { sink.missed.total().records }
}

/// A sentence about a sink that did not get all records.
fn missed_words(sink: &SinkReport) -> Option<String> {
    let (missed, name) = (lost_records(sink), &sink.name);
    let reason = match &sink.failure {
        _ if sink.is_closed => ": its reader was slower than the meter".to_owned(),
        Some(failure) => format!(": {failure}"),
        None => String::new(),
    };
    (missed > 0).then(|| format!("{name} missed {}{reason}", number_of(missed, "record")))
}

/// A sentence about a reader that has closed its output.
fn left_words(sink: &SinkReport) -> Option<String> {
    let (name, sent) = (&sink.name, sink.sent.records);
    sink.is_closed.then(|| format!("{name}: its reader left, after {} at most", number_of(sent, "record")))
}

/// A sentence about records that no collector has yet.
fn spooled_words(sink: &SinkReport) -> Option<String> {
    let records = sink.left_in_spool().records;
    let words = format!("for {} are in its spool, and the next run sends them", sink.name);
    (records > 0).then(|| clause(records, "record", &words))
}

/// A sentence about records of earlier runs that no collector gets.
fn damaged_words(sink: &SinkReport) -> Option<String> {
    let (bytes, files) = (sink.spool_damaged_bytes, &sink.spool_damaged_files);
    if bytes == 0 && files.is_empty() {
        return None;
    }
    let kept = match &files[..] {
        [] => String::new(),
        [file] => format!(" ({file} has them)"),
        [file, more @ ..] => {
            format!(" ({file} and {} have them)", number_of(more.len() as u64, "more file"))
        }
    };
    let words = format!("of the spool of {} are damaged, and the records in them are lost{kept}", sink.name);
    Some(clause(bytes, "byte", &words))
}

/// A sentence about segments of a spool whose end no run has recorded.
fn open_words(sink: &SinkReport) -> Option<String> {
    let words = || {
        let (files, name) = (sink.spool_open_files, &sink.name);
        format!(
            "a run that was killed left segments of the spool of {name} open, which may lack records: {files}"
        )
    };
    (sink.spool_open_files > 0).then(words)
}

/// A sentence about messages over UDP that the other side has refused.
fn refused_words(sink: &SinkReport) -> Option<String> {
    let words = || {
        format!(
            "{} of {} to {}: perhaps no collector listens there",
            number_of(sink.errors, "error"),
            number_of(sink.messages, "message"),
            sink.name
        )
    };
    (sink.errors > 0 && sink.transport == Some(Transport::Udp)).then(words)
}

/// A sentence about records that a format cannot hold.
fn unsuited_words(sink: &SinkReport) -> Option<String> {
    let records = sink.unsuited.records;
    let words = format!("are not exported as {}", sink.kind);
    (records > 0).then(|| format!("{}: {}", sink.name, clause(records, "record", &words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::{LaneTally, Verdict};
    use quaff_flow::collector::Missed;
    use quaff_flow::ledger::Count;

    fn flows(records: u64) -> FlowSum {
        FlowSum { records, packets: 10 * records, bytes: 1000 * records }
    }

    fn sink(name: &str, sent: u64) -> SinkReport {
        SinkReport { name: name.into(), sent: flows(sent), ..SinkReport::default() }
    }

    fn collector(name: &str, sent: u64) -> SinkReport {
        SinkReport { transport: Some(Transport::Udp), ..sink(name, sent) }
    }

    /// The report of a run in which 10 records with 100 packets left a table, and `sinks` got them.
    fn report(sinks: Vec<SinkReport>, is_round_robin: bool) -> FlowReport {
        let exported = Count { packets: 100, bytes: 10_000 };
        let ledger = FlowLedger {
            seen: exported,
            exported,
            flows_by_reason: [0, 10, 0, 0, 0, 0],
            ..FlowLedger::default()
        };
        let lane = LaneTally { offered: 100, received: 100, packed: 100, ..LaneTally::default() };
        let run = run::Ended { lanes: vec![lane], seconds: 1.0, ..run::Ended::default() };
        let meters = vec![MeterEnd { ledger, missed: FlowSum::default() }];
        sum_up(FlowsEnd { run, meters, sinks }, is_round_robin)
    }

    #[test]
    fn each_sink_has_all_packets_and_collectors_in_turns_have_them_together() {
        let good = report(vec![sink("a", 10), collector("b", 10)], false);
        assert_eq!((good.verdict, &good.failure), (Verdict::Lossless, &None));
        let turns = report(vec![sink("a", 10), collector("b", 4), collector("c", 6)], true);
        assert_eq!((turns.verdict, &turns.failure), (Verdict::Lossless, &None));
        for (sinks, is_round_robin) in [
            (vec![sink("a", 9)], false),
            (vec![collector("b", 4), collector("c", 6)], false),
            (vec![collector("b", 4), collector("c", 5)], true),
        ] {
            let failure = report(sinks, is_round_robin).run.failure.unwrap_or_default();
            assert!(failure.contains("packets_in_flows = sent + missed"), "{failure}");
        }
    }

    #[test]
    fn records_that_a_sink_missed_are_lost_unless_its_reader_left() {
        let missed = Missed { errors: flows(3), ..Missed::default() };
        let full = SinkReport { missed, failure: Some("full".into()), ..sink("a", 7) };
        let lossy = report(vec![full.clone()], false);
        assert_eq!((lossy.verdict, &lossy.failure), (Verdict::Lossy, &None));
        assert_eq!(lossy.reasons.lossy, ["a missed 3 records: full"]);
        let left = report(vec![SinkReport { is_closed: true, ..full.clone() }], false);
        assert_eq!((left.verdict, &left.failure), (Verdict::Lossless, &None));
        assert_eq!(left.reasons.notes, ["a: its reader left, after 7 records at most"]);
        let missed = Missed { errors: flows(1), queue_full: flows(2), ..Missed::default() };
        let slow = report(vec![SinkReport { is_closed: true, missed, ..full }], false);
        assert_eq!((slow.verdict, &slow.failure), (Verdict::Lossy, &None));
        assert_eq!(slow.reasons.lossy, ["a missed 2 records: its reader was slower than the meter"]);
    }

    #[test]
    fn a_collector_that_answers_with_errors_or_has_records_on_disk_is_no_proof() {
        let unheard = SinkReport { errors: 326, messages: 327, ..collector("udp://h:1", 10) };
        let unheard = report(vec![unheard], false);
        assert_eq!(unheard.verdict, Verdict::Unknown);
        assert!(
            unheard.reasons.unknown[0].starts_with("326 errors of 327 messages to udp://h:1"),
            "{:?}",
            unheard.reasons
        );
        let spooled = SinkReport { spooled: flows(10), ..collector("tcp://h:1", 0) };
        let spooled = report(vec![spooled], false);
        assert_eq!((spooled.verdict, &spooled.failure), (Verdict::Unknown, &None));
        // It delivered as many records of an earlier run as it left of its own.
        let earlier = SinkReport {
            spooled: flows(10),
            from_spool: flows(30),
            from_earlier: flows(30),
            ..collector("tcp://h:1", 30)
        };
        let both = report(vec![earlier.clone()], false);
        assert_eq!((both.verdict, &both.failure), (Verdict::Unknown, &None));
        assert!(both.reasons.unknown[0].starts_with("10 records for tcp://h:1"), "{:?}", both.reasons);
        // A record too few, in the spool or out of it.
        for sink in
            [SinkReport { spooled: flows(9), ..earlier.clone() }, SinkReport { sent: flows(31), ..earlier }]
        {
            let failure = report(vec![sink], false).run.failure.unwrap_or_default();
            assert!(failure.contains("those in its spool"), "{failure}");
        }
        let damaged = SinkReport {
            spool_damaged_bytes: 7,
            spool_damaged_files: vec!["/s/a.damaged".into()],
            ..collector("tcp://h:1", 10)
        };
        let damaged = report(vec![damaged], false);
        assert_eq!((damaged.verdict, &damaged.failure), (Verdict::Unknown, &None));
        assert!(damaged.reasons.unknown[0].ends_with("(/s/a.damaged has them)"), "{:?}", damaged.reasons);
        let open = report(vec![SinkReport { spool_open_files: 1, ..collector("tcp://h:1", 10) }], false);
        assert_eq!((open.verdict, &open.failure), (Verdict::Unknown, &None));
        assert!(open.reasons.unknown[0].contains("may lack records: 1"), "{:?}", open.reasons);
        let v5 = SinkReport { unsuited: flows(2), kind: "netflow5", ..collector("udp://h:1", 8) };
        let v5 = report(vec![v5], false);
        assert_eq!((v5.verdict, &v5.failure), (Verdict::Lossless, &None), "left out by the format");
    }
}
