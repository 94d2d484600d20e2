//! Results as text: tables that fit a terminal, and the sentences around them.

use super::pivot::{self, Pivot};
use crate::terminal_table::{self, report_table, span, wrapped};
use quaff_bench::bench::result::Report;
use quaff_bench::report::{self, Table};

/// A result: what was measured, how it compares, and what one has to know. With `all` the single runs, the
/// machine and the command lines too.
pub(super) fn whole(report: &Report, all: bool) -> String {
    let mut parts = vec![heading(report)];
    let has_rows = |table: &&Table| !table.rows.is_empty();
    let pivots = pivot::losses(report).into_iter().chain(pivot::cpu(report));
    parts.extend(pivots.map(|pivot| pivoted(&pivot)));
    let found =
        [report::searches(report), report::bursts(report), report::summary(report), report::source(report)];
    parts.extend(found.iter().filter(has_rows).map(|table| report_table(table, all)));
    if all {
        let details = [
            report::calibration(report),
            report::cases(report),
            report::runs(report),
            report::trials(report),
            report::rivals(report),
            report::machine(report),
        ];
        parts.extend(details.iter().filter(has_rows).map(|table| report_table(table, all)));
    }
    parts.extend(notes(report));
    parts.join("\n\n")
}

fn heading(report: &Report) -> String {
    let took = span(report.seconds);
    let how = if report.interrupted { "interrupted after" } else { "in" };
    let (title, name) = (&report.plan.title, &report.plan.name);
    wrapped("", &format!("{title} ({name}), {} {how} {took}", report.begun))
}

/// Skipped capturers, and other notes.
fn notes(report: &Report) -> Option<String> {
    let absent = report
        .rivals
        .iter()
        .filter_map(|rival| rival.absent.as_ref().map(|why| format!("{} was left out: {why}", rival.name)));
    let notes: Vec<_> = absent
        .chain(report.plan.notes.iter().chain(&report.notes).cloned())
        .map(|note| wrapped("- ", &note))
        .collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}

fn pivoted(pivot: &Pivot) -> String {
    let heads: Vec<_> = pivot.heads.iter().map(String::as_str).collect();
    // Sizes and figures stand at the right, the words of a rate at the left.
    let right = (0..heads.len()).filter(|at| *at != 1);
    terminal_table::titled(
        &pivot.title,
        &terminal_table::laid_out(&heads, right, pivot.rows.iter().cloned()),
        &pivot.note,
    )
}
