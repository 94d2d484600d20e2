//! Reports in words.

use crate::show;
use quaff_send::replay::{ReplayReport, ReplayVia};
use quaff_send::synth::WriteReport;
use quaff_send::{Lateness, SendReport, Witness};
use quaff_wire::synth::{HARMS, Made};

/// The report of the plain stream.
pub(super) fn in_words(report: &SendReport) -> String {
    let how = if report.via == "inject" { "injected into" } else { "sent from" };
    let mut text = format!(
        "{} B frames of stream {} {how} {}\n  intended   {}\n  sent       {}\n  confirmed  {}  ({})\n  \
         time       {:.3} s, {}, {}\n",
        report.frame_bytes,
        report.stream,
        report.interface,
        show::count(report.intended),
        show::count(report.sent),
        show::count(report.confirmed),
        verdict(report),
        report.seconds,
        show::pps(report.pps),
        show::bits(report.bits_per_second),
    );
    if let Some(error) = report.pace_error {
        text += &format!("  pace       {:+.4} % from the mean gap\n", error * 100.0);
    }
    text += &report.lateness.map_or_else(String::new, lateness);
    if report.retried > 0 {
        text += &format!("  retried    {} times because the queue was full\n", show::count(report.retried));
    }
    text
}

/// The counter that confirmed the frames, and whether the counts agree.
fn verdict(report: &SendReport) -> String {
    conclude(report.witness, report.others, report.agrees(), report.interrupted)
}

fn conclude(witness: Witness, others: u64, agrees: bool, interrupted: bool) -> String {
    let mut words = vec![
        match witness {
            Witness::Tap => "by a packet tap",
            Witness::RxOtherhostDropped => "by rx_otherhost_dropped",
            Witness::TxPackets => "by tx_packets",
            Witness::Softnet => "by the softnet counters",
        }
        .to_owned(),
    ];
    if others > 0 {
        words.push(format!("{} of them from other senders", show::count(others)));
    }
    if !agrees {
        words.push("the counts do not agree".to_owned());
    }
    if interrupted {
        words.push("interrupted".to_owned());
    }
    words.join(", ")
}

fn lateness(late: Lateness) -> String {
    let [mean, p50, p99, max] = [late.mean_ns, late.p50_ns, late.p99_ns, late.max_ns].map(show::span_ns);
    format!("  late       mean {mean}, median {p50}, p99 {p99}, max {max}\n")
}

/// The report of frames that were made one by one.
pub(super) fn replayed_in_words(report: &ReplayReport) -> String {
    let how = if report.via == ReplayVia::Inject { "injected into" } else { "sent from" };
    let names: Vec<_> = report.interfaces.iter().map(|one| one.name.as_str()).collect();
    let mut text = format!(
        "frames {how} {}\n  intended   {}\n  sent       {}  ({})\n  confirmed  {}  ({})\n  \
         time       {:.3} s, {}, {}\n",
        names.join(" and "),
        show::count(report.intended),
        show::count(report.sent),
        show::bytes(report.bytes),
        show::count(report.confirmed),
        conclude(report.witness, report.others, report.agrees(), report.interrupted),
        report.seconds,
        show::pps(report.pps),
        show::bits(report.bits_per_second),
    );
    let left_out = report.skipped.too_large + report.skipped.too_short;
    if left_out > 0 {
        text += &format!(
            "  skipped    {}  (larger than the MTU or a page, or truncated too short)\n",
            show::count(left_out)
        );
    }
    if report.starved > 0 {
        text += &format!(
            "  starved    {} times: frames were not generated fast enough\n",
            show::count(report.starved)
        );
    }
    if let Some(error) = report.pace_error {
        text += &format!("  pace       {:+.4} % from the planned duration\n", error * 100.0);
    }
    text + &report.lateness.map_or_else(String::new, lateness)
}

/// The report of frames written to a file.
pub(super) fn written_in_words(report: &WriteReport, file: &str) -> String {
    format!(
        "frames written to {file}\n  intended   {}\n  written    {}{}\n  bytes      {}\n  time       \
         {:.3} s from the first to the last, written in {:.3} s\n",
        show::count(report.intended),
        show::count(report.confirmed),
        if report.interrupted { "  (interrupted)" } else { "" },
        show::count(report.bytes),
        report.seconds,
        report.took_seconds,
    )
}

/// The frames made, as text.
pub(super) fn made_in_words(made: &Made) -> String {
    let mut text =
        format!("  flows      {}\n  stamped    {}\n", show::count(made.flows), show::count(made.stamped));
    for (name, count) in HARMS.iter().zip(made.damaged).filter(|(_, count)| *count > 0) {
        text += &format!("  damaged    {} ({name})\n", show::count(count));
    }
    text
}

/// The same, for JSON.
pub(super) fn made_as_json(made: &Made) -> serde_json::Value {
    let damaged: serde_json::Map<_, _> =
        HARMS.iter().zip(made.damaged).map(|(name, count)| ((*name).to_owned(), count.into())).collect();
    serde_json::json!({
        "frames": made.frames, "bytes": made.bytes, "stamped": made.stamped, "flows": made.flows,
        "damaged": damaged,
    })
}
