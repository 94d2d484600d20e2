//! The report of verify in words.

use super::words::{drop_words, ledger_words, line, print_end, row, verdict};
use super::{numbers, tcp};
use crate::show::{self, name};
use quaff_file::verify::{self, Gap, Report, StreamEnd};
use std::fmt::Write;

/// Prints the report; `next` is the command that shows what each connection lacks, for those that lack data.
pub(super) fn print(out: &mut impl Write, report: &Report, next: Option<&str>) -> std::fmt::Result {
    let has_numbers = report.has_numbers();
    match report.outcome.is_judged {
        true if has_numbers => {
            let frames = show::number_of(report.outcome.received, "frame");
            let complete = format!("{frames}, none missing, duplicate or damaged");
            verdict(out, &report.outcome.reasons, &complete)?;
        }
        true => print_verdict(out, report)?,
        false => writeln!(
            out,
            "nothing to judge by: none of {} has a probe header of 'quaff generate', no TCP connection has \
             acknowledged data to judge by, no mirror, tunnel or RTP source numbers its packets, and no loss is \
             recorded; --against FILE compares with the file that was sent",
            show::number_of(report.outcome.frames, "frame")
        )?,
    }
    if report.outcome.frames == 0 {
        return Ok(());
    }
    if has_numbers {
        print_numbers(out, report)?;
    }
    if let Some(command) = next.filter(|_| !has_numbers && report.tcp.loss.acked_unseen_bytes > 0) {
        line(out, "connections", &format!("the missing bytes of each: {command}"))?;
    }
    tcp::print(out, &report.tcp)?;
    numbers::print(out, &report.numbers)?;
    numbers::print_copies(out, &report.copies, report.tcp.loss.copied_bytes)?;
    let ledger = report.outcome.ledger.as_ref();
    line(out, "ledger", &if has_numbers { ledger_words(ledger) } else { drop_words(ledger) })?;
    print_end(out, &report.outcome, report.outcome.frames)
}

/// The first lines of a capture without numbered frames, and the reasons that are not in it.
fn print_verdict(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    let (outcome, lost) = (&report.outcome, report.lost_here() > 0);
    if !outcome.complete && !lost {
        return verdict(out, &outcome.reasons, "");
    }
    writeln!(out, "{}", name(&report.verdict))?;
    let others = outcome.reasons.iter().filter(|reason| !verify::LOST_HERE.contains(&reason.as_str()));
    others.map(|reason| name(reason)).try_for_each(|reason| writeln!(out, "- {reason}"))
}

/// The frames with numbers.
fn print_numbers(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    row(out, "received", report.outcome.received, "")?;
    let gaps = match report.gaps.count {
        0 => String::new(),
        count => format!("in {}", show::number_of(count, "gap")),
    };
    row(out, "lost", report.outcome.lost, &gaps)?;
    print_gaps(out, report)?;
    row(out, "duplicates", report.outcome.duplicates, "")?;
    row(out, "reordered", report.outcome.reordered, "")?;
    row(out, "corrupt", report.corrupt, "")?;
    row(out, "unnumbered", report.foreign, "")?;
    print_streams(out, report)?;
    report.end.map_or(Ok(()), |end| line(out, "end", end_words(end)))
}

fn print_gaps(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    let (Some(first), Some(last)) = (&report.gaps.first, &report.gaps.last) else { return Ok(()) };
    let many = report.streams.len() > 1;
    if first == last {
        row(out, "  the gap", first.frames, &gap_words(first, many))
    } else {
        row(out, "  first gap", first.frames, &gap_words(first, many))?;
        row(out, "  last gap", last.frames, &gap_words(last, many))
    }
}

fn gap_words(gap: &Gap, many: bool) -> String {
    let stream = if many { format!("stream {}, ", gap.stream) } else { String::new() };
    let numbers = match gap.frames {
        1 => format!("number {}", show::count(gap.first)),
        _ => format!("numbers {} to {}", show::count(gap.first), show::count(gap.last)),
    };
    let when = match (gap.before_ns, gap.after_ns) {
        (Some(before), Some(after)) => {
            format!("within {} from {}", show::span_ns(after.saturating_sub(before)), show::time_ns(before))
        }
        (None, Some(after)) => {
            format!(
                "before {}, the time of the first frame (--from-first if older files were removed)",
                show::time_ns(after)
            )
        }
        (Some(before), None) => format!("after {}", show::time_ns(before)),
        (None, None) => "at an unknown time".into(),
    };
    format!("{stream}{numbers}, {when}")
}

/// Each stream in a line, when there are several; the first few of very many.
fn print_streams(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    const SHOWN_MAX: usize = 16;
    if report.streams.len() < 2 {
        return Ok(());
    }
    for stream in report.streams.iter().take(SHOWN_MAX) {
        let what = format!("  {}", stream.stream);
        let note = format!("lost {}, {}", show::count(stream.lost), end_words(stream.end));
        row(out, &what, stream.received, &note)?;
    }
    match report.streams.len().saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => line(
            out,
            "  …",
            &format!("and {}; --json lists all", show::number_of(more as u64, "more stream")),
        ),
    }
}

fn end_words(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Seen => "the last frame was received",
        StreamEnd::Open => "open: the generator had no planned end",
        StreamEnd::Missing => "MISSING: the last frame of the stream was not received",
    }
}
