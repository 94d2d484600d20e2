//! The report of a comparison with the file that was sent, as text.

use super::words::{ledger_words, line, print_end, row, verdict};
use crate::show;
use quaff_file::Quantiles;
use quaff_file::verify::Gaps;
use quaff_file::verify::against::{Matched, Run};
use std::fmt::{Result, Write};

pub(super) fn print(out: &mut impl Write, report: &Matched) -> Result {
    let frames = show::count(report.outcome.received);
    verdict(out, &report.outcome.reasons, &format!("{frames} frames, none missing, altered or duplicate"))?;
    let sent = if report.sent == report.in_file {
        String::new()
    } else {
        format!("of {} in the file", show::count(report.in_file))
    };
    row(out, "sent", report.sent, &sent)?;
    row(out, "received", report.outcome.received, "")?;
    row(out, "lost", report.outcome.lost, &gap_words(&report.gaps))?;
    row(out, "altered", report.altered, "")?;
    row(out, "duplicates", report.outcome.duplicates, "")?;
    row(out, "reordered", report.outcome.reordered, &late_words(&report.late))?;
    if report.outcome.surplus > 0 {
        row(out, "surplus", report.outcome.surplus, "beyond the expected number")?;
    }
    row(out, "extra", report.extra, "")?;
    if report.spacing_error_ns.count > 0 {
        line(out, "timing", &timing_words(&report.spacing_error_ns))?;
    }
    line(out, "ledger", &ledger_words(report.outcome.ledger.as_ref()))?;
    print_end(out, &report.outcome, report.in_file + report.outcome.frames)
}

fn gap_words(gaps: &Gaps<Run>) -> String {
    let run = |run: Run| match run.last - run.first {
        0 => format!("frame {}", show::count(run.first)),
        _ => format!("frames {} to {}", show::count(run.first), show::count(run.last)),
    };
    match (gaps.first, gaps.last) {
        (Some(first), Some(last)) if first == last => format!("{} of the file", run(first)),
        (Some(first), Some(last)) => {
            format!("in {} gaps: {} of the file, … {}", show::count(gaps.count), run(first), run(last))
        }
        _ => String::new(),
    }
}

fn late_words(late: &Quantiles) -> String {
    match late.count {
        0 => String::new(),
        _ => format!("late by {} positions (p50), {} at most", show::count(late.p50), show::count(late.max)),
    }
}

fn timing_words(error: &Quantiles) -> String {
    format!(
        "gaps between frames differ from the file's by {} (p50), {} (p99), {} at most",
        show::span_ns(error.p50),
        show::span_ns(error.p99),
        show::span_ns(error.max),
    )
}
