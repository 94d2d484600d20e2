//! A table as plain strings: the same rows for the terminal, for Markdown and for the page.

use super::chart::svg::escape;
use crate::words::{clean, plain};
use std::fmt::Write;

/// The heading of a column of verdicts, and what stands in it: `open` where not all that was to be judged could be,
/// a dash where nothing was.
pub(super) const VERDICT: &str = "verdict";
pub(super) const PASS: &str = "pass";
pub(super) const FAIL: &str = "FAIL";
pub(super) const OPEN: &str = "open";

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What a reader needs to know of its columns; empty for nothing.
    pub note: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell for every column.
    pub rows: Vec<Row>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it has in common with the columns beside it; empty for nothing.
    pub group: String,
    /// Its heading, with the unit where its cells have none.
    pub head: String,
    /// Whether it holds numbers, which stand at the right.
    pub right: bool,
    /// Where there is no room for all, columns of the highest rank are left out first; those of rank 0 stay.
    pub rank: usize,
}

/// A row of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The colour and sign of the rival that it is about, by number, as in the pictures.
    pub style: Option<usize>,
    /// It sums up others.
    pub is_total: bool,
    /// Its cells.
    pub cells: Vec<String>,
}

impl Table {
    /// A table without rows. A heading that begins with `>` is a column of numbers, as many `?` before that are its rank,
    /// and what stands before a `|` in it is a group.
    pub(super) fn new(title: &str, heads: &[&str]) -> Self {
        let column = |head: &&str| {
            let ranked = head.trim_start_matches('?');
            let rank = head.len() - ranked.len();
            let (right, words) = ranked.strip_prefix('>').map_or((false, ranked), |head| (true, head));
            let (group, head) = words.split_once('|').unwrap_or(("", words));
            Column { group: group.into(), head: head.into(), right, rank }
        };
        Self { title: title.into(), columns: heads.iter().map(column).collect(), ..Self::default() }
    }

    pub(super) fn push<const N: usize>(&mut self, style: Option<usize>, cells: [String; N]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        let cells = cells.map(|cell| clean(&cell)).into();
        self.rows.push(Row { style, is_total: false, cells });
    }

    /// Leaves out columns whose cells say the same nothing in each row: empty, or a dash.
    pub(super) fn without_empty(self) -> Self {
        let says = |i: usize| self.rows.iter().any(|row| !matches!(row.cells[i].as_str(), "" | "–"));
        let keep: Vec<bool> = (0..self.columns.len()).map(says).collect();
        self.with_columns(&keep)
    }

    /// Only the columns that are kept.
    fn with_columns(mut self, keep: &[bool]) -> Self {
        let mut kept = keep.iter();
        self.columns.retain(|_| *kept.next().unwrap_or(&true));
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.cells.retain(|_| *kept.next().unwrap_or(&true));
        }
        self
    }

    /// Without the last column of the highest rank, again and again, until what is left `fits`.
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

    /// As GitHub's Markdown has tables.
    pub(super) fn markdown(&self) -> String {
        let cell = plain;
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut out = line(&mut self.columns.iter().map(|column| cell(&column.words())));
        out += &line(&mut self.columns.iter().map(|c| if c.right { "---:" } else { "---" }.into()));
        for row in &self.rows {
            out += &line(&mut row.cells.iter().map(|text| cell(text)));
        }
        out
    }

    /// As a table of the page. The first column names its row.
    pub(super) fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
        let _ = write!(out, "{}\"><table><thead>{}<tr>", escape(&self.title), self.html_groups());
        for (i, column) in self.columns.iter().enumerate() {
            let class = classes(&[(column.right, "r"), (self.begins(i), "g")]);
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.head));
        }
        out += "</tr></thead><tbody>\n";
        for row in &self.rows {
            out += &format!("<tr{}>", classes(&[(row.is_total, "total")]));
            for (i, text) in row.cells.iter().enumerate().take(self.columns.len()) {
                out += &self.html_cell(i, text, row.style);
            }
            out += "</tr>\n";
        }
        out + "</tbody></table></div>\n"
    }

    /// The line of groups over the headings; nothing where no column has one.
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

    /// Whether a group begins with this column.
    fn begins(&self, i: usize) -> bool {
        let group = &self.columns[i].group;
        !group.is_empty() && (i == 0 || self.columns[i - 1].group != *group)
    }

    fn html_cell(&self, i: usize, text: &str, style: Option<usize>) -> String {
        let column = &self.columns[i];
        let is_loss = column.head.contains("lost") || column.head.ends_with("here");
        let class = classes(&[
            (column.right, "r"),
            (self.begins(i), "g"),
            (is_loss && column.right && text == "0 %", "zero"),
            (column.head == VERDICT && text == PASS, "pass"),
            (column.head == VERDICT && text == FAIL, "fail"),
            (column.head == VERDICT && text == OPEN, "open"),
        ]);
        let text = escape(text);
        match (i, style) {
            (0, Some(style)) => format!("<th scope=\"row\">{}{text}</th>", super::chart::mark::chip(style)),
            (0, None) => format!("<th scope=\"row\">{text}</th>"),
            _ => format!("<td{class}>{text}</td>"),
        }
    }
}

impl Column {
    /// Its group and its heading.
    pub fn words(&self) -> String {
        if self.group.is_empty() { self.head.clone() } else { format!("{} {}", self.group, self.head) }
    }
}

/// The attribute with those that hold; nothing when none does.
fn classes(all: &[(bool, &str)]) -> String {
    let held: Vec<&str> = all.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    if held.is_empty() { String::new() } else { format!(" class=\"{}\"", held.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rows_for_markdown_and_page() {
        let mut table = Table::new("T", &["name", ">lost", ">empty"]);
        table.push(None, ["a|b <x>".into(), "0 %".into(), "–".into()]);
        let table = table.without_empty();
        assert_eq!(table.markdown(), "| name | lost |\n| --- | ---: |\n| a\\|b \\<x> | 0 % |\n");
        let html = table.html();
        assert!(html.contains("<th scope=\"row\">a|b &lt;x&gt;</th><td class=\"r zero\">0 %</td>"), "{html}");
    }

    #[test]
    fn where_there_is_no_room_what_matters_least_goes_first() {
        let mut table = Table::new("T", &["name", "?>lost", "??when", "?>sent"]);
        table.push(None, ["a", "1", "now", "2"].map(String::from));
        let cells =
            |room: usize| table.clone().fitted(|table| table.columns.len() <= room).rows[0].cells.join(" ");
        assert_eq!([4, 3, 2, 0].map(cells), ["a 1 now 2", "a 1 2", "a 1", "a"]);
        assert!(table.columns[1].right && table.columns[2].head == "when");
    }

    #[test]
    fn groups_stand_over_their_columns_and_verdicts_are_marked() {
        let mut table = Table::new("T", &["run", ">delay, ms|min", ">delay, ms|max", "verdict"]);
        table.push(None, ["1".into(), "0.1".into(), "0.2".into(), "FAIL".into()]);
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
