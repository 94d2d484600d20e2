//! The reports of `quaff generate` as text and JSON. It never prints.

use crate::cmd::sending::{Counts, confirmation, counts, dropped, dropped_of, lateness, pace, sent, time};
use crate::show::{self, name};
use quaff_send::{ReplayReport, ReplayVia, SendReport, WriteReport};
use quaff_wire::synth::{HARMS, Made};

/// Describes the report of a stream that is made where it is sent.
pub(super) fn describe_send(report: &SendReport) -> String {
    let how = if report.via == "inject" { "injected into" } else { "sent from" };
    let missing = report.sent.saturating_sub(report.confirmed);
    let drops = dropped(missing, [(report.interface.as_str(), report.drops)]);
    let SendReport { intended, sent, confirmed, .. } = *report;
    let counts = Counts { intended, sent, confirmed };
    let mut text = format!(
        "{} B frames of stream {} {how} {}\n  intended   {}\n  sent       {}\n  confirmed  {}  ({})\n",
        report.frame_bytes,
        report.stream,
        name(&report.interface),
        show::count(report.intended),
        show::count(report.sent),
        show::count(report.confirmed),
        confirmation(report.witness, report.others, &counts, drops.as_deref(), report.interrupted),
    );
    text += &time(report.seconds, report.pps, report.bits_per_second);
    text += &pace(report.pace_error, "the mean gap");
    text += &lateness(report.lateness);
    text + &show::counted("  retried    ", [(report.retried, "times because the queue was full")])
}

/// Describes the report of frames that were made in user space.
pub(super) fn describe_replay(report: &ReplayReport) -> String {
    let how = if report.via == ReplayVia::Inject { "injected into" } else { "sent from" };
    let names: Vec<_> = report.interfaces.iter().map(|one| name(&one.name)).collect();
    let drops = dropped_of(report);
    let counts = counts(report);
    let verdict = confirmation(report.witness, report.others, &counts, drops.as_deref(), report.interrupted);
    let mut text =
        format!("frames {how} {}\n  intended   {}\n", names.join(" and "), show::count(report.intended));
    text += &sent(report, &verdict);
    let left_out = report.skipped.too_large + report.skipped.too_short;
    let why = " (larger than the MTU or a page, or truncated too short)";
    text += &show::counted("  skipped    ", [(left_out, why)]);
    text +=
        &show::counted("  starved    ", [(report.starved, "times: frames were not generated fast enough")]);
    text + &pace(report.pace_error, "the planned duration") + &lateness(report.lateness)
}

/// Describes the report of frames written to a file.
pub(super) fn describe_write(report: &WriteReport, file: &str) -> String {
    format!(
        "frames written to {}\n  intended   {}\n  written    {}{}\n  bytes      {}\n  time       \
         {:.3} s from the first to the last, written in {:.3} s\n",
        name(file),
        show::count(report.intended),
        show::count(report.confirmed),
        if report.interrupted { "  (interrupted)" } else { "" },
        show::count(report.bytes),
        report.seconds,
        report.took_seconds,
    )
}

/// Describes the counts of the frames made.
pub(super) fn describe_made(made: &Made) -> String {
    let text =
        format!("  flows      {}\n  stamped    {}\n", show::count(made.flows), show::count(made.stamped));
    let damaged = HARMS.iter().zip(made.damaged).map(|(name, count)| (count, format!("({name})")));
    text + &show::counted("  damaged    ", damaged)
}

/// The counts of the frames made, as JSON.
pub(super) fn made_as_json(made: &Made) -> serde_json::Value {
    let damaged: serde_json::Map<_, _> =
        HARMS.iter().zip(made.damaged).map(|(name, count)| ((*name).to_owned(), count.into())).collect();
    serde_json::json!({
        "frames": made.frames, "bytes": made.bytes, "stamped": made.stamped, "flows": made.flows,
        "damaged": damaged,
    })
}
