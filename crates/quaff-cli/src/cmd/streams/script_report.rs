//! The words about a run of scripts.

use crate::cmd::capture::terms;
use crate::show::{self, name};
use quaff::streams::{ScriptsReport, StreamSums};
use quaff_file::read::GONE;
use quaff_script::ScriptTally;

/// Prints the sums on stderr; of a quiet run the scripts that failed. Returns whether a failure of the run is in what
/// was printed.
pub(super) fn print(report: &ScriptsReport, is_quiet: bool) -> bool {
    if !is_quiet {
        show::say(words(report).trim_end());
        return true;
    }
    let failures: Vec<_> = report.scripts.iter().flat_map(failures).collect();
    failures.iter().for_each(|words| show::message(words));
    report.failure.is_none() && !failures.is_empty()
}

fn words(report: &ScriptsReport) -> String {
    let seconds = report.seconds.max(1e-9);
    let mut text = format!(
        "{}, {}, in {:.1} s, {}\n",
        show::number_of(report.packets, "packet"),
        show::number_of(report.flows, "flow"),
        report.seconds,
        show::pps(report.packets as f64 / seconds),
    );
    for script in &report.scripts {
        text += &script_words(script);
    }
    if report.files > 0 {
        text +=
            &format!("  {} with {}\n", show::number_of(report.files, "file"), show::bytes(report.file_bytes));
    }
    text += &missing_words(report);
    for missing in report.input.iter().flat_map(|input| &input.missing) {
        text += &format!("  MISSING: {}, {GONE}\n", name(missing));
    }
    for damage in report.input.iter().flat_map(|input| &input.damages) {
        text += &format!("  DAMAGED: {}; the packets before it are read\n", name(damage));
    }
    for note in &report.notes {
        text += &format!("  {}\n", name(note));
    }
    if let Some(failure) = &report.failure {
        text += &format!("  failed: {}\n", name(failure));
    }
    text
}

/// The line of a script, and one for each of its errors.
fn script_words(script: &ScriptTally) -> String {
    let ScriptTally { name: script_name, calls, ns, rows, alerts, saved, .. } = script;
    let each = if *calls > 0 { format!(", {} each", show::span_ns(ns / calls)) } else { String::new() };
    let mut text = format!("  {}: {}{each}", name(script_name), show::number_of(*calls, "call"));
    let counts = [(*rows, "rows"), (*alerts, "alerts"), (*saved, "flows saved")];
    show::present(counts).for_each(|words| text += &format!(", {words}"));
    text.push('\n');
    for words in failures(script) {
        text += &format!("    {}\n", name(&words));
    }
    text
}

/// The failures of a script, a sentence each.
fn failures(script: &ScriptTally) -> Vec<String> {
    let stopped = script
        .stopped_by
        .iter()
        .map(|by| format!("STOPPED: {by}; it missed {}", show::number_of(script.dropped, "event")));
    let skipped = (script.skipped > 0).then(|| {
        let skipped = show::number_of(script.skipped, "event");
        format!("{skipped} skipped: it used more than its share of the time while packets waited")
    });
    let errors = script
        .failures
        .iter()
        .map(|failure| format!("error, {}: {}", show::number_of(failure.count, "time"), failure.text));
    let rows = (script.rows_dropped > 0)
        .then(|| format!("{} dropped: no room", show::number_of(script.rows_dropped, "row")));
    stopped.chain(skipped).chain(errors).chain(rows).collect()
}

/// Packets, bytes and rows that are missing.
fn missing_words(report: &ScriptsReport) -> String {
    let counts = [
        (report.nic_dropped + report.kernel_dropped, "packets lost before the scripts"),
        (report.dropped_bytes, "bytes of rows and packets dropped: no room"),
        (report.files_refused, "flows without a file: raise --max-files"),
        (report.saved_packets_dropped, "packets of saved flows dropped: no room"),
    ];
    let own =
        [("filtered", "packets rejected by the filter"), ("not_tunnel", "packets dropped: not in a tunnel")];
    let text = show::counted("  ", counts) + &show::counted("  ", terms(report, false, &own));
    text + &report.streams.as_ref().map(stream_words).unwrap_or_default()
}

fn stream_words(streams: &StreamSums) -> String {
    let counts = [
        (streams.gaps.total().bytes, "bytes of streams missing in the capture"),
        (streams.bytes.capped, "bytes of streams dropped: memory was needed"),
        (streams.bytes.before_start, "bytes that no script saw: before the start of their stream"),
        (
            streams.bytes.after_end,
            "bytes that no script saw: after the end of their stream, never acknowledged",
        ),
        (streams.bytes.out_of_window, "bytes that no script saw: outside of the receiver's window"),
        (streams.bytes.late, "bytes that no script saw: they came after their gap had been declared"),
        (streams.datagrams.incomplete, "datagrams missing: not all of their fragments came"),
        (streams.ignored.truncated, "packets with cut headers"),
        (streams.connections.before_capture(), "directions began before the capture"),
        (
            streams.connections.syns_missing,
            "directions whose SYN is missing: that of the other side is there",
        ),
        (streams.connections.evicted, "connections ended early: too many at a time"),
    ];
    show::counted("  ", counts)
}
