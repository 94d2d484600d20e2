//! A table as plain strings: the same rows for terminal, Markdown and page.

use super::chart::svg::escape;
use crate::report::escape::{clean, plain};
use std::fmt::Write;

/// A cell without a value.
pub(super) const NONE: &str = "–";
/// Heading and cells of a column of verdicts: `open` if not every limit could be judged, a dash without a limit.
pub(super) const VERDICT: &str = "verdict";
pub(super) const PASS: &str = "pass";
pub(super) const FAIL: &str = "FAIL";
pub(super) const OPEN: &str = "open";
/// Minimum length of a row's name that may wrap, bytes.
const NAME_LONG: usize = 32;
/// Minimum length of a cell that may wrap, and of one with long lines, bytes.
const TEXT_LONG: usize = 24;
const SENTENCE_LONG: usize = 60;
/// Heading of a column of whole sentences.
pub(super) const SENTENCE: &str = "result";
/// Minimum number of rows for a table that scrolls inside itself, below fixed headings.
const LONG: usize = 40;

/// A table of a report: its columns and rows as texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub title: String,
    /// Defines the columns; shown after the rows. May be empty.
    pub note: String,
    /// True if rows become paragraphs on a narrow screen; the important figures come first and none is cut off.
    pub folds: bool,
    pub columns: Vec<Column>,
    /// Rows with one cell per column.
    pub rows: Vec<Row>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading shared with adjacent columns; empty without one.
    pub group: String,
    /// Heading, with the unit if the cells have none.
    pub head: String,
    /// True for numbers, which are right-aligned.
    pub right: bool,
    /// Columns of the highest rank are omitted first if the table is too wide; those of rank 0 never are.
    pub rank: usize,
    /// True for names, which may be cut where there is no room for them.
    pub may_be_cut: bool,
}

/// A row of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Index of the colour and sign of its subject in the charts.
    pub style: Option<usize>,
    /// True if it sums up other rows.
    pub is_total: bool,
    pub cells: Vec<String>,
}

impl Table {
    pub(super) fn new(title: &str) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a row of cells with headings; the first row defines the columns. A leading `>` in a heading marks a column
    /// of numbers, the number of `?` before it is the rank, and text before a `|` is the group.
    pub(super) fn push<H: AsRef<str>>(
        &mut self,
        style: Option<usize>,
        cells: impl IntoIterator<Item = (H, String)>,
    ) {
        let (heads, cells): (Vec<H>, Vec<String>) = cells.into_iter().unzip();
        if self.rows.is_empty() {
            self.columns = heads.iter().map(|head| Column::new(head.as_ref())).collect();
        }
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        let cells = cells.iter().map(|cell| clean(cell)).collect();
        self.rows.push(Row { style, is_total: false, cells });
    }

    /// Omits columns without a value in any row.
    pub(super) fn without_empty(self) -> Self {
        let has_value = |at: usize| self.rows.iter().any(|row| !matches!(row.cells[at].as_str(), "" | NONE));
        let keep: Vec<bool> = (0..self.columns.len()).map(has_value).collect();
        self.with_columns(&keep)
    }

    /// Merges adjacent rows with the same figures under the names of all: "tap, run 1; run 2".
    pub(super) fn merged(mut self) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for row in self.rows {
            match rows.last_mut() {
                Some(last) if last.cells[1..] == row.cells[1..] => {
                    let name = row.cells[0].as_str();
                    let begin = name.find(", ").map_or("", |end| &name[..end + 2]);
                    let has_begin = last.cells[0].starts_with(begin);
                    let new = if has_begin { &name[begin.len()..] } else { name };
                    last.cells[0] += &format!("; {new}");
                }
                _ => rows.push(row),
            }
        }
        self.rows = rows;
        self
    }

    /// Keeps only the selected columns.
    fn with_columns(mut self, keep: &[bool]) -> Self {
        let mut kept = keep.iter();
        self.columns.retain(|_| *kept.next().unwrap_or(&true));
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.cells.retain(|_| *kept.next().unwrap_or(&true));
        }
        self
    }

    /// Omits the last column of the highest rank until the table `fits`.
    pub fn fitted(mut self, fits: impl Fn(&Self) -> bool) -> Self {
        while !fits(&self) {
            let Some(rank) = self.columns.iter().map(|column| column.rank).max().filter(|rank| *rank > 0)
            else {
                break;
            };
            let last = self.columns.iter().rposition(|column| column.rank == rank);
            let keep: Vec<bool> = (0..self.columns.len()).map(|at| Some(at) != last).collect();
            self = self.with_columns(&keep);
        }
        self
    }

    /// Renders the table as GitHub's Markdown.
    pub(super) fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut out = line(&mut self.columns.iter().map(|column| plain(&column.heading())));
        out += &line(&mut self.columns.iter().map(|c| if c.right { "---:" } else { "---" }.into()));
        for row in &self.rows {
            out += &line(&mut row.cells.iter().map(|text| plain(text)));
        }
        out
    }

    /// Renders the table and its note as HTML. The first column names the row.
    pub(super) fn html(&self) -> String {
        let is_long = self.rows.len() > LONG;
        let class = classes(&[(true, "scroll"), (is_long, "long")]);
        let folds = classes(&[(self.folds, "folds")]);
        let mut out =
            format!("<div class=\"table\"><div{class} tabindex=\"0\" role=\"region\" aria-label=\"");
        let _ = write!(out, "{}\"><table{folds}><thead>{}<tr>", escape(&self.title), self.html_groups());
        for (i, column) in self.columns.iter().enumerate() {
            // The first column names the rows, even if it holds numbers.
            let class = classes(&[(column.right && i > 0, "r"), (self.begins(i), "g")]);
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.head));
        }
        out += "</tr></thead><tbody>\n";
        for row in &self.rows {
            let _ = write!(out, "<tr{}>", classes(&[(row.is_total, "total")]));
            for (i, text) in row.cells.iter().enumerate() {
                out += &self.html_cell(i, text, row.style);
            }
            out += "</tr>\n";
        }
        let down = if is_long { "<span class=\"down\">more below ↓</span>" } else { "" };
        let _ = writeln!(
            out,
            "</tbody></table></div><p class=\"hint\" aria-hidden=\"true\">{down}<span>more to the right →</span></p></div>"
        );
        if !self.note.is_empty() {
            let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(&self.note));
        }
        out
    }

    /// The row of groups above the headings; empty if no column has a group.
    fn html_groups(&self) -> String {
        if self.columns.iter().all(|column| column.group.is_empty()) {
            return String::new();
        }
        let groups = self.columns.chunk_by(|a, b| a.group == b.group).map(|run| {
            let class = if run[0].group.is_empty() { "" } else { " class=\"g\" scope=\"colgroup\"" };
            format!("<th colspan=\"{}\"{class}>{}</th>", run.len(), escape(&run[0].group))
        });
        format!("<tr class=\"groups\">{}</tr>", groups.collect::<String>())
    }

    /// True if a group starts at this column.
    fn begins(&self, i: usize) -> bool {
        let group = &self.columns[i].group;
        !group.is_empty() && (i == 0 || self.columns[i - 1].group != *group)
    }

    fn html_cell(&self, i: usize, text: &str, style: Option<usize>) -> String {
        let column = &self.columns[i];
        let heading = column.heading();
        let is_loss = heading.contains("lost") || column.head.ends_with("here");
        let class = classes(&[
            (column.right, "r"),
            (self.folds && text == NONE, "none"),
            (self.begins(i), "g"),
            (is_loss && column.right && text == "0 %", "zero"),
            (column.head == VERDICT && text == PASS, "pass"),
            (column.head == VERDICT && text == FAIL, "fail"),
            (column.head == VERDICT && text == OPEN, "open"),
            (text.len() > TEXT_LONG, "t"),
            (text.len() > SENTENCE_LONG, "tt"),
        ]);
        let named = classes(&[(text.len() > NAME_LONG, "w")]);
        let text = escape(text);
        match (i, style) {
            (0, Some(style)) => {
                format!("<th scope=\"row\"{named}>{}{text}</th>", super::chart::mark::chip(style))
            }
            (0, None) => format!("<th scope=\"row\"{named}>{text}</th>"),
            // A sentence needs no heading in a row that is a paragraph.
            _ if self.folds && heading != VERDICT && heading != SENTENCE => {
                // The group is named at its first column.
                let group = if self.begins(i) { format!("{}: ", column.group) } else { String::new() };
                format!("<td{class} data-h=\"{} \">{text}</td>", escape(&(group + &column.head)))
            }
            _ => format!("<td{class}>{text}</td>"),
        }
    }
}

impl Column {
    fn new(head: &str) -> Self {
        let ranked = head.trim_start_matches('?');
        let rank = head.len() - ranked.len();
        let (right, words) = ranked.strip_prefix('>').map_or((false, ranked), |head| (true, head));
        let (group, head) = words.split_once('|').unwrap_or(("", words));
        Self { group: group.into(), head: head.into(), right, rank, may_be_cut: false }
    }

    /// Group and heading.
    pub fn heading(&self) -> String {
        if self.group.is_empty() { self.head.clone() } else { format!("{} {}", self.group, self.head) }
    }
}

/// The text, or a dash.
pub(super) fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| NONE.into())
}

/// The `class` attribute with the names that apply; empty without any.
fn classes(all: &[(bool, &str)]) -> String {
    let held: Vec<&str> = all.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    if held.is_empty() { String::new() } else { format!(" class=\"{}\"", held.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one row.
    fn table<const N: usize>(cells: [(&str, &str); N]) -> Table {
        let mut table = Table::new("T");
        table.push(None, cells.map(|(head, cell)| (head, cell.to_owned())));
        table
    }

    #[test]
    fn the_same_rows_for_markdown_and_page() {
        let table = table([("name", "a|b <x>"), (">lost", "0 %"), (">empty", NONE)]).without_empty();
        assert_eq!(table.markdown(), "| name | lost |\n| --- | ---: |\n| a\\|b \\<x> | 0 % |\n");
        let html = table.html();
        assert!(html.contains("<th scope=\"row\">a|b &lt;x&gt;</th><td class=\"r zero\">0 %</td>"), "{html}");
    }

    #[test]
    fn a_note_follows_the_rows_and_a_folded_row_has_its_headings() {
        let mut table = table([("name", "a"), (">lost|mean", "1 %"), ("where", NONE), ("verdict", PASS)]);
        table.note = "Mean: of all.".into();
        table.folds = true;
        let html = table.html();
        assert!(html.contains("<table class=\"folds\">"), "{html}");
        assert!(html.contains("<td class=\"r g\" data-h=\"lost: mean \">1 %</td>"), "{html}");
        assert!(
            html.contains("<td class=\"none\" data-h=\"where \">–</td><td class=\"pass\">pass</td>"),
            "{html}"
        );
        assert!(html.ends_with("<p class=\"soft\">Mean: of all.</p>\n"), "{html}");
    }

    #[test]
    fn rows_with_the_same_figures_are_one() {
        let mut all = table([("there", "tap, overall"), (">lost", "0 %")]);
        let rows = [("tap, 7:05", "0 %"), ("tap, 7:06", "1 %"), ("span", "1 %"), ("tap, 7:08", "0 %")];
        for (name, lost) in rows {
            all.push(None, [("there", name.to_owned()), (">lost", lost.to_owned())]);
        }
        let names: Vec<String> = all.merged().rows.into_iter().map(|mut row| row.cells.remove(0)).collect();
        assert_eq!(names, ["tap, overall; 7:05", "tap, 7:06; span", "tap, 7:08"]);
    }

    #[test]
    fn only_a_long_table_scrolls_in_itself_and_shows_it() {
        let mut table = table([("name", "a")]);
        assert!(!table.html().contains("more below") && table.html().contains("more to the right"));
        table.rows = vec![table.rows[0].clone(); LONG + 1];
        let html = table.html();
        assert!(html.contains("<div class=\"scroll long\"") && html.contains("more below"), "{html}");
    }

    #[test]
    fn the_least_important_columns_are_omitted_first() {
        let table = table([("name", "a"), ("?>lost", "1"), ("??when", "now"), ("?>sent", "2")]);
        let cells =
            |room: usize| table.clone().fitted(|table| table.columns.len() <= room).rows[0].cells.join(" ");
        assert_eq!([4, 3, 2, 0].map(cells), ["a 1 now 2", "a 1 2", "a 1", "a"]);
        assert!(table.columns[1].right && table.columns[2].head == "when");
    }

    #[test]
    fn groups_are_above_their_columns_and_verdicts_are_marked() {
        let mut table =
            table([("run", "1"), (">delay, ms|min", "0.1"), (">delay, ms|max", "0.2"), ("verdict", "FAIL")]);
        table.rows[0].is_total = true;
        let html = table.html();
        let groups = "<tr class=\"groups\"><th colspan=\"1\"></th><th colspan=\"2\" class=\"g\" scope=\"colgroup\">\
                      delay, ms</th><th colspan=\"1\"></th></tr>";
        assert!(html.contains(groups), "{html}");
        assert!(
            html.contains("<td class=\"fail\">FAIL</td>") && html.contains("<tr class=\"total\">"),
            "{html}"
        );
        assert!(table.markdown().starts_with("| run | delay, ms min | delay, ms max | verdict |"));
    }
}
