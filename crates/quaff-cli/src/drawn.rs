//! Tables and sentences as text that fits a terminal.

use crate::show;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table as Drawn, presets};
use quaff_lab::report::{Table, words};
use quaff_os::terminal;

/// Columns where there is no terminal; longer words are wrapped.
const WIDTH: u16 = 120;
const WIDTH_MIN: u16 = 40;

/// A table of a report with its title above and its note below.
pub(crate) fn drawn(table: &Table) -> String {
    let heads: Vec<_> = table.columns.iter().map(|column| column.words()).collect();
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let right = (0..heads.len()).filter(|at| table.columns[*at].right);
    let rows = table.rows.iter().map(|row| row.cells.clone());
    titled(&table.title, &laid_out(&heads, right, rows), &table.note)
}

/// A table of words under `heads`; those columns stand at the right.
pub(crate) fn laid_out(
    heads: &[&str],
    right: impl Iterator<Item = usize>,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let mut drawn = empty(heads);
    for at in right {
        if let Some(column) = drawn.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        drawn.add_row(row.iter().map(|cell| together(cell)));
    }
    drawn.trim_fmt()
}

/// A table of words.
pub(crate) fn plain(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut drawn = empty(heads);
    for row in rows {
        drawn.add_row(row);
    }
    drawn.trim_fmt()
}

/// A table with its title above and its note below.
pub(crate) fn titled(title: &str, drawn: &str, note: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("\n{}", wrapped("", note)) };
    format!("{}\n{drawn}{note}", wrapped("", title))
}

/// Text that fits, behind a mark; its lines stand under each other.
pub(crate) fn wrapped(mark: &str, text: &str) -> String {
    let lines = show::wrap(usize::from(width()) - mark.len(), text);
    format!("{mark}{}", lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(mark.len()))))
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

/// A number and its sign stay together.
fn together(words: &str) -> String {
    words.replace(" %", "\u{a0}%")
}

/// "12 min 5 s" and such.
pub(crate) fn span(seconds: f64) -> String {
    words::span(seconds)
}

/// So long, about, where a second does not matter: "40 s", "2 min", "1 h 5 min".
pub(crate) fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => span(s),
    }
}
