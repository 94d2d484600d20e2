//! The output of `quaff flows`: the progress line, and the report in the form of capture's.

use super::progress::{Progress, Totals};
use crate::cmd::capture::{decap_words, places, terms};
use crate::exit::{Exit, RunEnd};
use crate::shell::{Part, ReadProgress};
use crate::show::{self, Stream, name};
use crate::written_file::WrittenFile;
use anyhow::Context;
use quaff::flows::{FlowReport, Flows};
use quaff::tally::Verdict;
use quaff_file::read::GONE;
use quaff_flow::collector::{FlowSum, Missed, SinkReport};
use std::time::Instant;

/// The progress line.
pub(super) struct Line {
    read: ReadProgress,
    last: Progress,
    at: Instant,
}

impl Line {
    pub(super) fn new(read: ReadProgress) -> Self {
        Self { read, last: Progress::default(), at: Instant::now() }
    }

    /// The line's parts; rates are those since the call before.
    pub(super) fn parts(&mut self, flows: &Flows, now: &Progress) -> Vec<Part> {
        let seconds = self.at.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, last: u64| now.saturating_sub(last) as f64 / seconds;
        let pps = show::pps(rate(now.packets, self.last.packets));
        let bits = show::bits(rate(now.bytes, self.last.bytes) * 8.0);
        let input_bytes = flows.lanes.iter().map(|lane| lane.input_bytes.get()).sum();
        let (active, exported) = (show::number_of(now.active, "flow"), show::count(now.exported.flows));
        let missed = match now.missed.flows {
            0 => String::new(),
            flows => format!("sinks missed {}", show::count(flows)),
        };
        let parts = vec![
            self.read.part(input_bytes),
            Part::new(format!("{pps} {bits}"), pps, 4),
            Part::new(format!("{active}, {exported} exported"), active, 2),
            Part::new(format!("lost {}", show::count(now.dropped)), "", 3),
            Part::new(missed, "", 3),
        ];
        (self.last, self.at) = (*now, Instant::now());
        parts
    }
}

impl Progress {
    /// Takes the counters of the end.
    pub(super) fn end(&mut self, report: &FlowReport) {
        let exported = Totals {
            flows: report.flows_exported,
            packets: report.packets_in_flows,
            bytes: report.bytes_in_flows,
        };
        let plus = |sum: Totals, of: FlowSum| Totals {
            flows: sum.flows + of.records,
            packets: sum.packets + of.packets,
            bytes: sum.bytes + of.bytes,
        };
        let missed = report.sinks.iter().map(|sink| sink.missed.total());
        let missed = missed.chain([report.missed]).fold(Totals::default(), plus);
        let sent = report.sinks.iter().map(|sink| sink.sent).fold(Totals::default(), plus);
        let (allocated, probes_max) = (report.flows_high, report.probes_max);
        let queue_max = report.sinks.iter().map(|sink| sink.queue_max).max().unwrap_or(0);
        *self = Self {
            packets: report.packets,
            exported,
            missed,
            sent,
            active: 0,
            received: report.interfaces.iter().map(|lane| lane.received).sum(),
            dropped: report.nic_dropped + report.kernel_dropped,
            allocated,
            queued: 0,
            queue_max,
            probes_max,
            is_last: true,
            ..*self
        };
    }
}

/// The place of --ledger.
pub(super) enum Ledger {
    Stdout,
    File(WrittenFile),
}

/// Writes the report as JSON: into a file or to stdout, as --ledger says, and to `json`.
pub(super) fn write_json(
    report: &FlowReport,
    ledger: Option<Ledger>,
    json: Option<Stream>,
) -> anyhow::Result<()> {
    match ledger {
        None => {}
        Some(Ledger::Stdout) => show::json(Stream::Stdout, report)?,
        Some(Ledger::File(file)) => {
            let text = serde_json::to_string(report).context("write the ledger as JSON")?;
            file.write(&(text + "\n"))?;
        }
    }
    json.map_or(Ok(()), |stream| show::json(stream, report))
}

/// Prints the report in words, on stderr; when quiet, only why it is not a good one.
pub(super) fn print(report: &FlowReport, is_quiet: bool) {
    match is_quiet {
        false => show::say(words(report).trim_end()),
        true => reasons(report),
    }
}

/// The reasons of an exit status that is not 0, a sentence each.
fn why(report: &FlowReport) -> Vec<String> {
    if Exit::of(report) == Exit::Done {
        return Vec::new();
    }
    let damages = report.input.iter().flat_map(|input| &input.damages);
    let missing = report.input.iter().flat_map(|input| &input.missing);
    let missing = missing.map(|path| format!("MISSING: {path}, {GONE}"));
    let damages = damages.map(|damage| format!("DAMAGED: {damage}")).chain(missing);
    let lost = lost_words(report);
    let lost = lost.lines().map(|line| line.trim().to_owned());
    let found: Vec<_> = report.failure.iter().cloned().chain(damages).chain(lost).collect();
    if found.is_empty() { RunEnd::from(report).why().into_iter().collect() } else { found }
}

fn words(report: &FlowReport) -> String {
    let mut text = headline(report, report.flows_exported);
    text += &lost_words(report);
    text += &ignored_words(report);
    text += &ended_words(report);
    let has_other_places = report.nic_dropped + report.kernel_dropped + report.filtered > 0;
    for decap in report.interfaces.iter().filter_map(|lane| lane.decap.as_ref()) {
        text += &decap_words(decap, has_other_places);
    }
    report.sinks.iter().for_each(|sink| text += &sink_words(sink));
    text + &remarks(report)
}

fn headline(report: &FlowReport, flows: u64) -> String {
    let verdict = match report.verdict {
        Verdict::Lossless => "none lost",
        Verdict::Lossy => "lossy",
        Verdict::Unknown => "unknown if lossless",
    };
    format!(
        "{} in {}, {} ignored, in {:.1} s, {verdict}\n",
        show::number_of(report.packets_in_flows, "packet"),
        show::number_of(flows, "flow"),
        show::count(report.packets_ignored),
        report.seconds
    )
}

/// Prints the report of a run whose flows are shown elsewhere: its sums, what was lost or ignored, and remarks; of a
/// quiet run the failure. `flows` is their number: those that were metered in pieces have several records.
pub(super) fn sum_up(report: &FlowReport, flows: u64, is_quiet: bool) {
    let words = || headline(report, flows) + &lost_words(report) + &ignored_words(report) + &remarks(report);
    match is_quiet {
        false => show::say(words().trim_end()),
        true => reasons(report),
    }
}

/// Prints the failure, or the reasons of a verdict: a status that is not 0 has its reason in words.
fn reasons(report: &FlowReport) {
    why(report).iter().for_each(|words| show::message(words));
}

/// Notes, damage of input files, and the failure.
fn remarks(report: &FlowReport) -> String {
    let mut text = String::new();
    let of_input = report.input.iter().flat_map(|input| &input.notes);
    for note in report.reasons.notes.iter().chain(of_input) {
        text += &format!("  {}\n", name(note));
    }
    for missing in report.input.iter().flat_map(|input| &input.missing) {
        text += &format!("  MISSING: {}, {GONE}\n", name(missing));
    }
    for damage in report.input.iter().flat_map(|input| &input.damages) {
        text += &format!("  DAMAGED: {}; the packets before it are metered\n", name(damage));
    }
    if let Some(failure) = &report.failure {
        text += &format!("  failed: {}\n", name(failure));
    }
    text
}

/// Lost packets by place, and the reasons of the verdict.
fn lost_words(report: &FlowReport) -> String {
    let mut text = show::counted("  lost ", places(report, std::iter::empty()));
    text += &show::counted(
        "  ",
        [(report.missed.records, "records missed by all sinks: the queue to the exporter was full")],
    );
    for reason in &report.reasons.lossy {
        text += &format!("  lossy: {}\n", name(reason));
    }
    for reason in &report.reasons.unknown {
        text += &format!("  unknown if lossless: {}\n", name(reason));
    }
    text
}

/// Packets that are in no flow.
fn ignored_words(report: &FlowReport) -> String {
    let ignored = &report.ignored;
    let counts = [
        (ignored.not_ip, "ignored: not IP"),
        (ignored.truncated, "ignored: cut before the ports, or damaged"),
        (ignored.not_sampled, "ignored: not sampled"),
        (report.fragments_unmatched, "fragments in flows without ports: their first one is missing"),
        (report.quic_skipped, "packets (Initial) of QUIC not decrypted for names: there were too many"),
        (
            report.interfaces.iter().map(|lane| lane.oversize).sum(),
            "larger than the MTU: merged by GRO or TSO, and counted as one packet each",
        ),
    ];
    let own = [("unsuited", "of more interfaces than a run can have")];
    show::counted("  ", terms(report, false, &own)) + &show::counted("  ", counts)
}

/// Records by the reason of their end.
fn ended_words(report: &FlowReport) -> String {
    let ended = &report.ended;
    let counts = [
        (ended.idle, "flows ended idle"),
        (ended.active, "pieces ended by the active timeout"),
        (ended.end_of_flow, "flows closed"),
        (ended.forced, "flows ended with the run"),
        (ended.lack_of_resources, "flows ended early, because the table was full: raise --max-flows"),
    ];
    show::counted("  ", counts)
}

/// Records that a sink got and missed.
fn sink_words(sink: &SinkReport) -> String {
    let (to, records) = (name(&sink.name), show::number_of(sink.sent.records, "record"));
    let mut text = format!("  {to}: {records}, {}", show::bytes(sink.bytes));
    if sink.kind == "parquet" {
        text += &format!(" in {}", show::number_of(sink.messages, "segment"));
    }
    // What a reader that left did not want is no news.
    let missed = match sink.is_closed {
        true => Missed { queue_full: sink.missed.queue_full, ..Missed::default() },
        false => sink.missed,
    };
    let counts = [
        (missed.queue_full.records, "missed: it is too slow (raise --queue)"),
        (missed.away.records, "missed while it was away"),
        (missed.spool.records, "missed: the spool was full or could not be written"),
        (missed.errors.records, "missed: they could not be sent or written"),
        (missed.at_end.records, "missed: it did not take them in time at the end"),
        (sink.left_in_spool().records, "in its spool"),
    ];
    show::present(counts).for_each(|words| text += &format!(", {words}"));
    if let Some(failure) = sink.failure.as_ref().filter(|_| !sink.is_closed) {
        text += &format!("; {}", name(failure));
    }
    text + "\n"
}
