//! Reports in words.

use crate::show;
use quaff::send::synth::WriteReport;
use quaff::send::{SendReport, Witness};
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
        text += &format!("  pace       {:+.4} % off the mean gap\n", error * 100.0);
    }
    if let Some(late) = report.lateness {
        let [mean, p50, p99, max] = [late.mean_ns, late.p50_ns, late.p99_ns, late.max_ns].map(nanoseconds);
        text += &format!("  late       mean {mean}, median {p50}, p99 {p99}, max {max}\n");
    }
    if report.retried > 0 {
        text += &format!("  retried    {} times for want of room\n", show::count(report.retried));
    }
    text
}

/// Who has confirmed, and what the three counts mean together.
fn verdict(report: &SendReport) -> String {
    let mut words = vec![
        match report.witness {
            Witness::Tap => "by a counting tap",
            Witness::RxOtherhostDropped => "by rx_otherhost_dropped",
            Witness::TxPackets => "by tx_packets",
            Witness::Softnet => "by what the stack took in",
        }
        .to_owned(),
    ];
    if report.others() > 0 {
        words.push(format!("{} of them others'", show::count(report.others())));
    }
    if !report.agrees() {
        words.push("the counts do not agree".to_owned());
    }
    if report.interrupted {
        words.push("ended early".to_owned());
    }
    words.join(", ")
}

/// A span of time in the unit that reads best.
pub(super) fn nanoseconds(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// What came of writing to a file.
pub(super) fn written_in_words(report: &WriteReport, file: &str) -> String {
    format!(
        "frames written to {file}\n  intended   {}\n  written    {}{}\n  bytes      {}\n  time       \
         {:.3} s from the first to the last, written in {:.3} s\n",
        show::count(report.intended),
        show::count(report.confirmed),
        if report.interrupted { "  (ended early)" } else { "" },
        show::count(report.bytes),
        report.seconds,
        report.took_seconds,
    )
}

/// What frames were made.
pub(super) fn made_in_words(made: &Made) -> String {
    let mut text =
        format!("  flows      {}\n  stamped    {}\n", show::count(made.flows), show::count(made.stamped));
    for ((_, name), count) in HARMS.iter().zip(made.damaged).filter(|(_, count)| *count > 0) {
        text += &format!("  damaged    {} ({name})\n", show::count(count));
    }
    text
}

/// The same, for JSON.
pub(super) fn made_as_json(made: &Made) -> serde_json::Value {
    let damaged: serde_json::Map<_, _> =
        HARMS.iter().zip(made.damaged).map(|((_, name), count)| ((*name).to_owned(), count.into())).collect();
    serde_json::json!({
        "frames": made.frames, "bytes": made.bytes, "stamped": made.stamped, "flows": made.flows,
        "damaged": damaged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        assert_eq!(nanoseconds(256), "256 ns");
        assert_eq!(nanoseconds(27_392), "27.4 µs");
        assert_eq!(nanoseconds(3_210_000), "3.2 ms");
        assert_eq!(nanoseconds(1_500_000_000), "1.50 s");
    }
}
