//! A table as plain strings: the same rows for the terminal, for Markdown and for the page.

use super::chart::svg::escape;
use super::words::{clean, plain};
use std::fmt::Write;

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
    /// Its heading, with the unit where its cells have none.
    pub head: String,
    /// Whether it holds numbers, which stand at the right.
    pub right: bool,
}

/// A row of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The colour and sign of the rival that it is about, by number, as in the pictures.
    pub style: Option<usize>,
    /// Its cells.
    pub cells: Vec<String>,
}

impl Table {
    /// A table without rows; a heading that begins with `>` is a column of numbers.
    pub(super) fn new(title: &str, heads: &[&str]) -> Self {
        let column = |head: &&str| match head.strip_prefix('>') {
            Some(head) => Column { head: head.into(), right: true },
            None => Column { head: (*head).into(), right: false },
        };
        Self { title: title.into(), columns: heads.iter().map(column).collect(), ..Self::default() }
    }

    pub(super) fn push<const N: usize>(&mut self, style: Option<usize>, cells: [String; N]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.title);
        self.rows.push(Row { style, cells: cells.map(|cell| clean(&cell)).into() });
    }

    /// Leaves out columns whose cells say the same nothing in each row: empty, or a dash.
    pub(super) fn without_empty(mut self) -> Self {
        let says = |i: usize| self.rows.iter().any(|row| !matches!(row.cells[i].as_str(), "" | "–"));
        let keep: Vec<bool> = (0..self.columns.len()).map(says).collect();
        let mut kept = keep.iter();
        self.columns.retain(|_| *kept.next().unwrap_or(&true));
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.cells.retain(|_| *kept.next().unwrap_or(&true));
        }
        self
    }

    /// As GitHub's Markdown has tables.
    pub(super) fn markdown(&self) -> String {
        let cell = plain;
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let mut out = line(&mut self.columns.iter().map(|column| cell(&column.head)));
        out += &line(&mut self.columns.iter().map(|c| if c.right { "---:" } else { "---" }.into()));
        for row in &self.rows {
            out += &line(&mut row.cells.iter().map(|text| cell(text)));
        }
        out
    }

    /// As a table of the page. The first column names its row.
    pub(super) fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
        let _ = write!(out, "{}\"><table><thead><tr>", escape(&self.title));
        for column in &self.columns {
            let class = if column.right { " class=\"r\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.head));
        }
        out += "</tr></thead><tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for (i, (text, column)) in row.cells.iter().zip(&self.columns).enumerate() {
                out += &html_cell(i, text, column, row.style);
            }
            out += "</tr>\n";
        }
        out + "</tbody></table></div>\n"
    }
}

fn html_cell(i: usize, text: &str, column: &Column, style: Option<usize>) -> String {
    let is_loss = column.head.contains("lost") || column.head.ends_with("here");
    let class = match (column.right, text) {
        (true, "0 %") if is_loss => " class=\"r zero\"",
        (true, _) => " class=\"r\"",
        (false, _) => "",
    };
    let text = escape(text);
    match (i, style) {
        (0, Some(style)) => format!("<th scope=\"row\">{}{text}</th>", super::chart::mark::chip(style)),
        (0, None) => format!("<th scope=\"row\">{text}</th>"),
        _ => format!("<td{class}>{text}</td>"),
    }
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
}
