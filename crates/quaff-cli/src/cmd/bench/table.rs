//! Results as text: tables that fit a terminal, and the sentences around them.

use super::pivot::{self, Pivot};
use crate::show;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Drawn, presets};
use quaff_lab::bench::result::Report;
use quaff_lab::report::{self, Table, words};
use quaff_os::terminal;

/// Columns where there is no terminal; longer words are wrapped.
const WIDTH: u16 = 120;
const WIDTH_MIN: u16 = 40;
/// What a terminal has room for of a search; the rest is in the report.
const SEARCHES: [&str; 8] = [
    "capturer",
    "frames",
    "highest without loss",
    "beside the best",
    "Gbit/s",
    "second search",
    "apart",
    "limited by",
];

/// A result: what was measured, how it compares, and what one has to know. With `all` the single runs, the
/// machine and the command lines too.
pub(super) fn whole(report: &Report, all: bool) -> String {
    let mut parts = vec![heading(report)];
    let has_rows = |table: &&Table| !table.rows.is_empty();
    let pivots = pivot::losses(report).into_iter().chain(pivot::cpu(report));
    parts.extend(pivots.map(|pivot| pivoted(&pivot)));
    let searches = report::searches(report);
    let searches = if all { searches } else { with_columns(searches, &SEARCHES) };
    let found = [searches, report::bursts(report), report::summary(report), report::source(report)];
    parts.extend(found.iter().filter(has_rows).map(drawn));
    if all {
        let details = [
            report::calibration(report),
            report::cases(report),
            report::runs(report),
            report::trials(report),
            report::rivals(report),
            report::machine(report),
        ];
        parts.extend(details.iter().filter(has_rows).map(drawn));
    }
    parts.extend(notes(report));
    parts.join("\n\n")
}

/// Only these columns of a table, as far as it has them.
fn with_columns(mut table: Table, heads: &[&str]) -> Table {
    let kept: Vec<bool> = table.columns.iter().map(|column| heads.contains(&column.head.as_str())).collect();
    let mut at = kept.iter();
    table.columns.retain(|_| at.next().is_some_and(|is_kept| *is_kept));
    for row in &mut table.rows {
        let mut at = kept.iter();
        row.cells.retain(|_| at.next().is_some_and(|is_kept| *is_kept));
    }
    table
}

fn heading(report: &Report) -> String {
    let took = span(report.seconds);
    let how = if report.interrupted { "interrupted after" } else { "in" };
    let (title, name) = (&report.plan.title, &report.plan.name);
    wrapped("", &format!("{title} ({name}), {} {how} {took}", report.begun))
}

/// Who was left out, and whatever else has to be known.
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

fn drawn(table: &Table) -> String {
    let heads: Vec<_> = table.columns.iter().map(|column| column.head.as_str()).collect();
    let mut drawn = empty(&heads);
    align_right(&mut drawn, (0..heads.len()).filter(|at| table.columns[*at].right));
    for row in &table.rows {
        drawn.add_row(row.cells.iter().map(|cell| together(cell)));
    }
    titled(&table.title, &drawn, &table.note)
}

fn pivoted(pivot: &Pivot) -> String {
    let heads: Vec<_> = pivot.heads.iter().map(String::as_str).collect();
    let mut drawn = empty(&heads);
    // Sizes and figures stand at the right, the words of a rate at the left.
    align_right(&mut drawn, (0..heads.len()).filter(|at| *at != 1));
    for row in &pivot.rows {
        drawn.add_row(row.iter().map(|cell| together(cell)));
    }
    titled(&pivot.title, &drawn, &pivot.note)
}

fn titled(title: &str, drawn: &Drawn, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("\n{}", wrapped("", note)) };
    format!("{}\n{}{note}", wrapped("", title), drawn.trim_fmt())
}

/// Text that fits, behind a mark; its lines stand under each other.
pub(super) fn wrapped(mark: &str, text: &str) -> String {
    let lines = show::wrap(usize::from(width()) - mark.len(), text);
    format!("{mark}{}", lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(mark.len()))))
}

/// A table of words.
pub(super) fn plain(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut drawn = empty(heads);
    for row in rows {
        drawn.add_row(row);
    }
    drawn.trim_fmt()
}

fn empty(heads: &[&str]) -> Drawn {
    let mut drawn = Drawn::new();
    let style = presets::UTF8_HORIZONTAL_ONLY.top_border(LineStyle::none()).row_separator(LineStyle::none());
    drawn.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    drawn.set_width(width()).set_header(heads);
    drawn
}

/// Columns that there are; a terminal that is too narrow for anything is taken for one that is not.
fn width() -> u16 {
    terminal::columns().unwrap_or(WIDTH).max(WIDTH_MIN)
}

fn align_right(drawn: &mut Drawn, columns: impl Iterator<Item = usize>) {
    for at in columns {
        if let Some(column) = drawn.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A number and its sign stay together.
fn together(words: &str) -> String {
    words.replace(" %", "\u{a0}%")
}

/// "about 12 min" and such, without "about".
pub(super) fn span(seconds: f64) -> String {
    words::span(seconds)
}

/// So long, about, where a second does not matter: "40 s", "2 min", "1 h 5 min".
pub(super) fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => span(s),
    }
}
