//! Tables and paragraphs that fit the terminal, or `COLUMNS` without one. Where a table is too wide, names are cut,
//! then columns are left out and named in a line below it. Without a terminal and `COLUMNS` nothing is cut or left
//! out: a program may read it.

use crate::show;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Drawn, Width, presets,
};
use quaff::format;
use quaff_bench::report::{Column, Row, Table};
use quaff_os::terminal_columns;

/// Columns of paragraphs, and at least of tables, where nothing limits a line.
const WIDTH: u16 = 120;
const WIDTH_MIN: u16 = show::COLUMNS_MIN as u16;
/// Columns of a sentence in a line, at least.
const WORDS_WIDTH: usize = 16;
/// Columns of a figure at most; a longer text is a sentence.
const FIGURE_WIDTH: usize = 14;
/// Characters that a shortened name keeps: of the names of rows, which columns of rank 0 have, and of others.
const NAME_MIN: usize = 40;
const DETAIL_MIN: usize = 16;
/// Columns up to this rank have room before a cell has one line.
const RANK_OF_LINES: usize = 1;
/// Spaces at both sides of a cell, and between columns.
const SPACES: usize = 3;
/// A space at which no line ends.
const NO_BREAK: &str = "\u{a0}";
/// The place between two ends, at which a line ends first.
const BETWEEN_ENDS: &str = "\u{a0}→\u{a0}";

/// The columns of a table where the room is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    All,
    /// Those that fit. The flag that prints all of them, if the command has one.
    Fitting(Option<&'static str>),
}

impl Columns {
    /// Those of a command with `--wide`.
    pub(crate) fn wide(is_wide: bool) -> Self {
        if is_wide { Self::All } else { Self::Fitting(Some("--wide")) }
    }
}

/// A table of a report with its title above and its note below.
pub(crate) fn report_table(table: &Table, columns: Columns) -> String {
    titled(table, room(), columns)
}

/// As [`report_table`], of a result that is read by people: as wide as a paragraph where nothing limits a line.
pub(crate) fn result_table(table: &Table, columns: Columns) -> String {
    titled(table, Some(width()), columns)
}

fn titled(table: &Table, room: Option<u16>, columns: Columns) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}", wrapped("", &table.note)) };
    format!("{}\n{}{note}", wrapped("", &table.title), fitted(table, room, columns))
}

/// A table of columns, each with its heading, whether it holds numbers, and its rank: columns of the highest rank are
/// omitted first where the table does not fit, those of rank 0 never.
pub(crate) fn ranked(
    heads: &[(&str, bool, usize)],
    rows: impl Iterator<Item = Vec<String>>,
    columns: Columns,
) -> String {
    fitted(&table_of(heads, rows), room(), columns)
}

/// As [`ranked`], of columns that may hold names to shorten.
pub(crate) fn of_columns(
    heads: Vec<Column>,
    rows: impl Iterator<Item = Vec<String>>,
    columns: Columns,
) -> String {
    fitted(&with_rows(heads, rows), room(), columns)
}

/// As [`ranked`]; the columns under the headings `names` may be cut. Where all columns are printed, each row is a line,
/// however long; where nothing limits a line, only the first one of several tables has the heading.
pub(crate) fn listed(
    (heads, names): (&[(&str, bool, usize)], &[&str]),
    rows: impl Iterator<Item = Vec<String>>,
    is_first: bool,
    columns: Columns,
) -> String {
    let mut table = table_of(heads, rows);
    table.columns.iter_mut().for_each(|column| column.may_be_cut = names.contains(&column.head.as_str()));
    match (room(), columns) {
        (None, _) => one_list(&drawn(&table, u16::MAX), is_first),
        (Some(_), Columns::All) => drawn(&table, u16::MAX),
        (room, _) => fitted(&table, room, columns),
    }
}

/// A column of a table by its heading, whether it holds numbers, and its rank.
pub(crate) fn column(head: &str, right: bool, rank: usize) -> Column {
    Column { group: String::new(), head: head.to_owned(), right, rank, may_be_cut: false }
}

/// A table as a part of a list: without its last border, and after the first one without its heading.
fn one_list(table: &str, is_first: bool) -> String {
    const HEADING_LINES: usize = 2;
    let lines = table.lines().skip(if is_first { 0 } else { HEADING_LINES });
    lines.filter(|line| !line.starts_with('─')).collect::<Vec<_>>().join("\n")
}

fn table_of(heads: &[(&str, bool, usize)], rows: impl Iterator<Item = Vec<String>>) -> Table {
    with_rows(heads.iter().map(|&(head, right, rank)| column(head, right, rank)).collect(), rows)
}

fn with_rows(columns: Vec<Column>, rows: impl Iterator<Item = Vec<String>>) -> Table {
    let rows = rows.map(|cells| Row { style: None, is_total: false, cells }).collect();
    Table { columns, rows, ..Table::default() }
}

/// A table without its title and note, in the columns of a terminal. What does not fit is shortened, and then left out
/// and named below it.
fn fitted(table: &Table, room: Option<u16>, columns: Columns) -> String {
    let all = u16::try_from(need(table, usize::MAX, usize::MAX)).unwrap_or(u16::MAX);
    let (room, flag) = match (room, columns) {
        (None, _) => return drawn(&shortened(table, usize::MAX), all.max(WIDTH)),
        (Some(room), Columns::All) => return drawn(&shortened(table, usize::MAX), all.max(room)),
        (Some(room), Columns::Fitting(flag)) => (room, flag),
    };
    let width = usize::from(room);
    let table = parted(table.clone(), width);
    let kept = table.clone().fitted(|table| need(table, usize::MAX, 0) <= width);
    let mut is_kept = kept.columns.iter().peekable();
    let left_out = table.columns.iter().filter(|column| is_kept.next_if_eq(column).is_none());
    let left_out: Vec<_> = left_out.map(Column::heading).collect();
    let text = drawn(&shortened(&kept, name_max(&kept, width)), room);
    if left_out.is_empty() { text } else { format!("{text}\n{}", left_out_words(&left_out, flag, width)) }
}

/// The line on columns that are left out.
fn left_out_words(heads: &[String], flag: Option<&str>, width: usize) -> String {
    let ways = match flag {
        Some(flag) => format!("wider terminal, {flag}, or --json"),
        None => "wider terminal or --json".to_owned(),
    };
    let count = show::number_of(heads.len() as u64, "column");
    wrapped_in(width, "  ", &format!("{count} left out: {} ({ways})", heads.join(", ")))
}

/// The table with lines that end inside cells, where columns of the first ranks have no room otherwise: between the
/// ends of a connection, or, where not even those of rank 0 have room, at each space that does not begin a cell.
fn parted(mut table: Table, width: usize) -> Table {
    let mut replace = |rank: usize, from: &str, to: &str| {
        if need(&table, rank, 0) <= width {
            return;
        }
        for cell in table.rows.iter_mut().flat_map(|row| &mut row.cells) {
            let indent = cell.len() - cell.trim_start_matches(NO_BREAK).len();
            let words = cell.split_off(indent);
            cell.push_str(&words.replace(from, to));
        }
    };
    replace(RANK_OF_LINES, BETWEEN_ENDS, " →\u{a0}");
    replace(0, NO_BREAK, " ");
    table
}

/// Most characters of a name with which the table fits; 0 where it does not, and names have the least.
fn name_max(table: &Table, width: usize) -> usize {
    let cells = table.rows.iter().flat_map(|row| &row.cells);
    let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (mut fits, mut exceeds) = (0, longest + 1);
    while exceeds - fits > 1 {
        let middle = usize::midpoint(fits, exceeds);
        if need(table, usize::MAX, middle) <= width {
            fits = middle;
        } else {
            exceeds = middle;
        }
    }
    fits
}

/// The table with names of at most `name_max` characters, each in one line.
fn shortened(table: &Table, name_max: usize) -> Table {
    let mut table = table.clone();
    let Table { columns, rows, .. } = &mut table;
    for row in rows {
        for (column, cell) in columns.iter().zip(&mut row.cells) {
            if is_name(column, cell) {
                *cell = cut(cell, name_max.max(name_min(column))).replace(' ', NO_BREAK);
            }
        }
    }
    table
}

/// A name of up to `chars` characters; a longer one ends in an ellipsis.
fn cut(name: &str, chars: usize) -> String {
    match name.char_indices().nth(chars) {
        None => name.to_owned(),
        Some(_) => name.chars().take(chars - 1).chain(['…']).collect(),
    }
}

/// Returns whether a cell is a name that has to be in one line, and may be cut.
fn is_name(column: &Column, cell: &str) -> bool {
    column.may_be_cut && !cell.contains(NO_BREAK) && cell.chars().count() > name_min(column)
}

/// Characters that each name of a column may have.
fn name_min(column: &Column) -> usize {
    if column.rank == 0 { NAME_MIN } else { DETAIL_MIN }
}

/// The least width of the columns up to a rank, with names of at most `name_max` characters.
fn need(table: &Table, rank_max: usize, name_max: usize) -> usize {
    let width = |(at, column): (usize, &Column)| {
        let cells = || table.rows.iter().map(move |row| row.cells[at].as_str());
        let names = cells().filter(|cell| is_name(column, cell));
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        let others = cells().filter(|cell| !is_name(column, cell));
        let name_width = longest.min(name_max.max(name_min(column))) + SPACES;
        width_min(&column.heading(), others).max(name_width)
    };
    let columns = table.columns.iter().enumerate().filter(|(_, column)| column.rank <= rank_max);
    columns.map(width).sum()
}

/// All columns of a table in `width` columns.
fn drawn(table: &Table, width: u16) -> String {
    let heads: Vec<_> = table.columns.iter().map(Column::heading).collect();
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
    wrapped_in(usize::from(width()), mark, text)
}

fn wrapped_in(width: usize, mark: &str, text: &str) -> String {
    let indent = mark.chars().count().max(2);
    let lines = show::wrap(width - indent, text);
    format!("{mark}{}", lines.trim_end().replace('\n', &format!("\n{}", " ".repeat(indent))))
}

fn empty(heads: &[&str]) -> Drawn {
    let mut drawn = Drawn::new();
    let style = presets::UTF8_HORIZONTAL_ONLY.top_border(LineStyle::none()).row_separator(LineStyle::none());
    drawn.load_style(style).set_content_arrangement(ContentArrangement::Dynamic);
    drawn.set_width(width()).set_header(heads);
    drawn
}

/// Columns of paragraphs.
fn width() -> u16 {
    room().unwrap_or(WIDTH)
}

/// Columns of the terminal, or of `COLUMNS` without one, but at least the minimum; `None` where nothing limits a line.
pub(crate) fn room() -> Option<u16> {
    let columns = terminal_columns().or_else(|| columns_of(&std::env::var("COLUMNS").ok()?));
    columns.map(|columns| columns.max(WIDTH_MIN))
}

/// The value of `COLUMNS` (POSIX); 0 and what is no number count as none.
fn columns_of(value: &str) -> Option<u16> {
    value.trim().parse::<u16>().ok().filter(|columns| *columns > 0)
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

    const FITTING: Columns = Columns::Fitting(Some("--wide"));

    /// A table in so many columns, with the ranked columns and one row.
    fn shown(room: u16, heads: &[(&str, bool, usize)], row: &[&str]) -> String {
        let row = row.iter().map(|cell| (*cell).to_owned()).collect();
        fitted(&table_of(heads, [row].into_iter()), Some(room), FITTING)
    }

    #[test]
    fn the_least_important_columns_are_omitted_first_and_named() {
        let [name, detail, value] = ["x".repeat(30), "y".repeat(50), "z".repeat(40)];
        let heads = [("name", false, 0), ("detail", false, 2), ("value", true, 1)];
        let text = shown(120, &heads, &[&name, &detail, &value]);
        assert!(text.contains(&name) && text.contains(&value) && !text.contains(&detail), "{text}");
        assert!(
            text.ends_with("\n  1 column left out: detail (wider terminal, --wide, or --json)"),
            "{text}"
        );
        let text = shown(60, &heads, &[&name, &detail, &value]);
        assert!(text.contains("2 columns left out: detail, value"), "{text}");
        let text = shown(120, &heads[..2], &[&name, &detail]);
        assert!(text.contains(&detail) && !text.contains("left out"), "{text}");
    }

    #[test]
    fn nothing_is_left_out_where_nothing_limits_a_line_or_all_is_wanted() {
        let long = "x".repeat(200);
        let heads = [("name", false, 0), ("detail", false, 2), ("value", true, 1)];
        let mut table = table_of(&heads, [vec![long.clone(), long.clone(), "1".to_owned()]].into_iter());
        table.columns.iter_mut().for_each(|column| column.may_be_cut = true);
        for (room, columns) in [(None, FITTING), (None, Columns::All), (Some(80), Columns::All)] {
            let text = fitted(&table, room, columns);
            assert_eq!(text.matches(&long).count(), 2, "{text}");
            assert!(text.contains("value") && !text.contains("left out"), "{text}");
            assert_eq!(text.lines().count(), 4, "{text}");
        }
    }

    #[test]
    fn names_are_shortened_before_columns_are_left_out() {
        let long = format!("tls {}", "x".repeat(50));
        let row = vec!["7".to_owned(), long.clone(), "1,234".to_owned()];
        let heads = [("number", true, 0), ("application", false, 2), ("bytes", true, 1)];
        let mut table = table_of(&heads, [row].into_iter());
        table.columns[1].may_be_cut = true;
        let shown = |room| fitted(&table, Some(room), FITTING);
        assert!(shown(80).contains(&long) && !shown(80).contains('…'), "{}", shown(80));
        // 9 + 8 columns are those of the numbers, and a name has 3 beside its characters.
        for room in [40, 60] {
            let text = shown(room);
            let name = format!("{}…", &long[..usize::from(room) - 17 - 3 - 1]);
            assert!(text.contains(&name) && text.lines().count() == 4, "{room}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(room)), "{text}");
        }
        // What has to stay of it has no room here.
        let text = fitted(&table, Some(35), FITTING);
        assert!(!text.contains("tls") && text.contains("1 column left out: application"), "{text}");
        assert_eq!((cut("abcd", 4), cut("abcde", 4)), ("abcd".to_owned(), "abc…".to_owned()));
    }

    #[test]
    fn words_that_stay_together_are_parted_where_there_is_no_room() {
        let heads = [("number", true, 0), ("connection", false, 0), ("more", false, 2)];
        let row = ["u1", "udp\u{a0}10.0.0.1:4711\u{a0}→\u{a0}10.0.0.2:53", "more"];
        for (room, has_more) in [(120, true), (45, false)] {
            let text = shown(room, &heads, &row);
            assert!(text.contains("udp 10.0.0.1:4711 → 10.0.0.2:53"), "{text}");
            assert_eq!(text.contains("left out: more"), !has_more, "{text}");
        }
        // Between the ends first: then there is room for more.
        let text = shown(40, &heads, &row);
        assert!(text.contains("udp 10.0.0.1:4711") && text.contains("→ 10.0.0.2:53"), "{text}");
        assert!(!text.contains("4711 →") && !text.contains("left out"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn a_line_ends_at_each_space_where_not_even_two_ends_have_room_but_an_indent_stays() {
        let end = format!("[{}]:53", "2001:db8:".repeat(3));
        let connection = format!("udp {end} → {end}").replace(' ', NO_BREAK);
        let indented = format!("{NO_BREAK}{NO_BREAK}udp");
        let heads = [("number", true, 0), ("connection", false, 0)];
        let rows = [&connection, &indented].map(|cell| vec!["1".to_owned(), cell.clone()]);
        let table = parted(table_of(&heads, rows.into_iter()), 45);
        assert_eq!(table.rows[0].cells[1], format!("udp {end} → {end}"));
        assert_eq!(table.rows[1].cells[1], indented);
    }

    #[test]
    fn columns_are_those_of_the_environment_without_a_terminal() {
        for (value, columns) in
            [("80", Some(80)), (" 132\n", Some(132)), ("0", None), ("", None), ("wide", None)]
        {
            assert_eq!(columns_of(value), columns, "{value:?}");
        }
    }

    #[test]
    fn tables_of_one_list_have_one_heading() {
        let heads = [("number", true, 0), ("connection", false, 0)];
        let table = drawn(&table_of(&heads, [vec!["1".into(), "tcp".into()]].into_iter()), u16::MAX);
        let lines = |is_first: bool| one_list(&table, is_first).lines().count();
        assert_eq!((table.lines().count(), lines(true), lines(false)), (4, 3, 1), "{table}");
        assert!(one_list(&table, false).contains("tcp"), "{table}");
    }

    #[test]
    fn words_are_not_broken_and_figures_stay_with_their_units() {
        let long = "a sentence of many words that does not fit into one line of any terminal that is not very wide indeed";
        let row = ["verdict", "1.99 µs", "20,000,000", long].map(String::from).to_vec();
        let text =
            laid_out(WIDTH, &["what", "delay", "frames that were sent", "to know"], 1..3, [row].into_iter());
        for whole in ["verdict", "1.99 µs", "20,000,000", "sentence"] {
            assert!(text.contains(whole), "{whole}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{text}");
    }
}
