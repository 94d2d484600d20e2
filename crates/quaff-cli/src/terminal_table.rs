//! Tables and paragraphs that fit the terminal.

use crate::show;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Drawn, Width, presets,
};
use quaff::format;
use quaff_bench::report::{Column, Row, Table};
use quaff_os::terminal_columns;

/// Columns where there is no terminal; longer words are wrapped.
const WIDTH: u16 = 120;
const WIDTH_MIN: u16 = show::COLUMNS_MIN as u16;
/// Columns of a sentence in a line, at least.
const WORDS_WIDTH: usize = 16;
/// Columns of a figure at most; a longer text is a sentence.
const FIGURE_WIDTH: usize = 14;
/// Spaces at both sides of a cell, and between columns.
const SPACES: usize = 3;
/// A space at which no line ends.
const NO_BREAK: &str = "\u{a0}";

/// A table of a report with its title above and its note below. The least important columns are omitted if they do
/// not fit, unless `all` is set.
pub(crate) fn report_table(table: &Table, all: bool) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}", wrapped("", &table.note)) };
    format!("{}\n{}{note}", wrapped("", &table.title), fitted(table, width(), all))
}

/// A table of `columns`, each with its heading, whether it holds numbers, and its rank: columns of the highest rank are
/// omitted first where the table does not fit, those of rank 0 never.
pub(crate) fn ranked(columns: &[(&str, bool, usize)], rows: impl Iterator<Item = Vec<String>>) -> String {
    fitted(&table_of(columns, rows), width(), false)
}

/// As [`ranked`] on a terminal; words that must stay together are parted where not even the columns of rank 0 fit.
/// Elsewhere all columns, and a line for each row, however long; the heading in the first one of several tables only.
pub(crate) fn listed(
    columns: &[(&str, bool, usize)],
    rows: impl Iterator<Item = Vec<String>>,
    is_first: bool,
) -> String {
    match terminal_columns() {
        Some(_) => listed_in(width(), columns, rows),
        None => one_list(&listed_in(u16::MAX, columns, rows), is_first),
    }
}

/// A table as a part of a list: without its last border, and after the first one without its heading.
fn one_list(table: &str, is_first: bool) -> String {
    const HEADING_LINES: usize = 2;
    let lines = table.lines().skip(if is_first { 0 } else { HEADING_LINES });
    lines.filter(|line| !line.starts_with('─')).collect::<Vec<_>>().join("\n")
}

fn listed_in(width: u16, columns: &[(&str, bool, usize)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = table_of(columns, rows);
    if need(&table, 0) > usize::from(width) {
        let cells = table.rows.iter_mut().flat_map(|row| &mut row.cells);
        cells.for_each(|cell| *cell = cell.replace(NO_BREAK, " "));
    }
    fitted(&table, width, false)
}

/// The least width of the columns up to a rank.
fn need(table: &Table, rank_max: usize) -> usize {
    let cells = |at: usize| table.rows.iter().map(move |row| row.cells[at].as_str());
    let columns = table.columns.iter().enumerate().filter(|(_, column)| column.rank <= rank_max);
    columns.map(|(at, column)| width_min(&column.heading(), cells(at))).sum()
}

fn table_of(columns: &[(&str, bool, usize)], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let column = |&(head, right, rank): &(&str, bool, usize)| {
        let head = head.to_owned();
        Column { group: String::new(), head, right, rank }
    };
    let row = |cells| Row { style: None, is_total: false, cells };
    let (columns, rows) = (columns.iter().map(column).collect(), rows.map(row).collect());
    Table { columns, rows, ..Table::default() }
}

/// A table without its title and note, with the columns that fit into `width`.
fn fitted(table: &Table, width: u16, all: bool) -> String {
    let room = usize::from(width);
    let table = table.clone().fitted(|table| all || need(table, usize::MAX) <= room);
    let heads: Vec<_> = table.columns.iter().map(|column| column.heading()).collect();
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let right = (0..heads.len()).filter(|at| table.columns[*at].right);
    laid_out(width, &heads, right, table.rows.iter().map(|row| row.cells.clone()))
}

/// A table of text under `heads` in `width` columns; the columns of `right` are aligned right.
fn laid_out(
    width: u16,
    heads: &[&str],
    right: impl Iterator<Item = usize>,
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let mut drawn = empty(heads);
    drawn.set_width(width);
    for row in &rows {
        drawn.add_row(row.iter().map(|cell| together(cell)));
    }
    let cells = |at: usize| rows.iter().filter_map(move |row| row.get(at)).map(String::as_str);
    let widths: Vec<usize> = heads.iter().enumerate().map(|(at, head)| width_min(head, cells(at))).collect();
    // Words are broken before lines are.
    let fits = widths.iter().sum::<usize>() <= usize::from(width);
    for (at, width) in widths.iter().enumerate().filter(|_| fits) {
        if let Some(column) = drawn.column_mut(at) {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width as u16 - 1)));
        }
    }
    for at in right {
        if let Some(column) = drawn.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // A search for "64 B" must find it.
    drawn.trim_fmt().replace(NO_BREAK, " ")
}

/// Width of a column, with a space at both sides and one between columns: numbers stay with their units, and words
/// are not broken.
fn width_min<'a>(head: &str, cells: impl Iterator<Item = &'a str>) -> usize {
    let longest = |words: &str| words.split([' ', '\n']).map(|word| word.chars().count()).max().unwrap_or(0);
    let cell = |words: &str| longest(&together(words)).max(words.chars().count().min(WORDS_WIDTH));
    cells.map(cell).max().unwrap_or(0).max(longest(head)) + SPACES
}

/// A table of words.
pub(crate) fn plain(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut drawn = empty(heads);
    for row in rows {
        drawn.add_row(row);
    }
    drawn.trim_fmt()
}

/// Text wrapped after a mark; its further lines are indented, so that no words of others begin a line as a message
/// of quaff does.
pub(crate) fn wrapped(mark: &str, text: &str) -> String {
    let indent = mark.chars().count().max(2);
    let lines = show::wrap(usize::from(width()) - indent, text);
    format!("{mark}{}", lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent))))
}

fn empty(heads: &[&str]) -> Drawn {
    let mut drawn = Drawn::new();
    let style = presets::UTF8_HORIZONTAL_ONLY.top_border(LineStyle::none()).row_separator(LineStyle::none());
    drawn.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    drawn.set_width(width()).set_header(heads);
    drawn
}

/// Columns of the terminal, but at least the minimum.
fn width() -> u16 {
    terminal_columns().unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// The text with spaces at which no line ends between a number and its unit.
fn together(words: &str) -> String {
    if words.chars().count() <= FIGURE_WIDTH {
        words.replace(' ', NO_BREAK)
    } else {
        words.replace(" %", "\u{a0}%")
    }
}

/// An approximate duration: "40 s", "2 min", "1 h 5 min".
pub(crate) fn about(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{:.0} min", s / 60.0),
        s => format::span(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_columns_are_omitted_first() {
        let words = |columns: usize| ["x".repeat(30), "y".repeat(50), "z".repeat(40)][..columns].to_vec();
        let heads = [("name", false, 0), ("detail", false, 2), ("value", true, 1)];
        let text = ranked(&heads, [words(3)].into_iter());
        assert!(text.contains("name") && text.contains("value") && !text.contains("detail"), "{text}");
        let text = ranked(&heads[..2], [words(2)].into_iter());
        assert!(text.contains("detail"), "{text}");
    }

    #[test]
    fn words_that_stay_together_are_parted_where_there_is_no_room() {
        let heads = [("number", true, 0), ("connection", false, 0), ("more", false, 1)];
        let row = ["u1", "udp\u{a0}10.0.0.1:4711\u{a0}→\u{a0}10.0.0.2:53", "more"].map(String::from).to_vec();
        let shown = |width: u16| listed_in(width, &heads, [row.clone()].into_iter());
        for (width, has_more) in [(u16::MAX, true), (45, false)] {
            let text = shown(width);
            assert!(text.contains("udp 10.0.0.1:4711 → 10.0.0.2:53"), "{text}");
            assert_eq!(text.contains("more"), has_more, "{text}");
        }
        let text = shown(40);
        assert!(text.contains("10.0.0.1:4711") && text.contains("10.0.0.2:53"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn tables_of_one_list_have_one_heading() {
        let heads = [("number", true, 0), ("connection", false, 0)];
        let table = listed_in(u16::MAX, &heads, [vec!["1".into(), "tcp".into()]].into_iter());
        let lines = |is_first: bool| one_list(&table, is_first).lines().count();
        assert_eq!((table.lines().count(), lines(true), lines(false)), (4, 3, 1), "{table}");
        assert!(one_list(&table, false).contains("tcp"), "{table}");
    }

    #[test]
    fn words_are_not_broken_and_figures_stay_with_their_units() {
        let long = "a sentence of many words that does not fit into one line of any terminal that is not very wide indeed";
        let row = ["verdict", "1.99 µs", "20,000,000", long].map(String::from).to_vec();
        let text = laid_out(
            width(),
            &["what", "delay", "frames that were sent", "to know"],
            1..3,
            [row].into_iter(),
        );
        for whole in ["verdict", "1.99 µs", "20,000,000", "sentence"] {
            assert!(text.contains(whole), "{whole}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{text}");
    }
}
