//! A report as data, rendered as a page and as Markdown: title, findings, warnings, charts with the table of the same
//! numbers, the method, folded tables. It does not know benches or services.

use super::chart::svg::escape;
use super::chart::{Chart, Section, Target};
use super::palette;
use super::table::{Table, or_none};
use crate::experiment::{Machine, Report, Source, SourceRow};
use crate::report::escape::{clean, plain, sentence, slug};
use quaff::format::{percent, span};
use quaff_wire::printable::quote;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Widths at which each chart is drawn, px: full page, half a page, phone. The page shows the one that fits, so that
/// text is never scaled.
const WIDTHS: [f64; 3] = [1100.0, 600.0, 356.0];
/// The last heading of every page.
const METHOD: &str = "How it was measured";
/// Reference to the files next to a page.
const BESIDE: &str = " Every number is in <code>result.json</code>, every picture as SVG beside this page.";

/// A report before it is written as HTML, Markdown or SVG.
#[derive(Debug, Default)]
pub struct Document {
    /// The command that generated it.
    pub(super) maker: &'static str,
    /// True if the page is the only file.
    pub(super) is_alone: bool,
    /// Name of the plan.
    pub(super) name: String,
    pub(super) title: String,
    /// The result in one line, shown above the title.
    pub(super) headline: Option<String>,
    /// Time, duration and machine.
    pub(super) byline: String,
    /// Title of the publication whose test is repeated.
    pub(super) source: Option<String>,
    /// CSS class and text of the overall verdict.
    pub(super) verdict: Option<[&'static str; 2]>,
    pub(super) findings: Vec<String>,
    /// The table of the findings, without a heading.
    pub(super) summary: Option<Table>,
    /// Tables before all others.
    pub(super) first: Vec<Table>,
    /// Warnings for readers who cite figures.
    pub(super) warnings: Vec<String>,
    /// Notes on single cases, folded under a title.
    pub(super) remarks: Option<(String, Vec<String>)>,
    pub(super) sections: Vec<Section>,
    /// All other tables; one that has the title of a section is shown there.
    pub(super) tables: Vec<Table>,
    /// Description of the method.
    pub(super) method: Vec<String>,
    pub(super) command: Vec<String>,
    /// Folded tables.
    pub(super) details: Vec<Table>,
}

/// The part of a report for a terminal.
#[derive(Debug, Default)]
pub struct Brief {
    /// Title and name of the plan, time and duration.
    pub heading: String,
    /// Findings, one sentence each.
    pub findings: Vec<String>,
    /// Non-empty tables.
    pub tables: Vec<Table>,
    /// Tables that are printed on request.
    pub details: Vec<Table>,
    /// Notes and warnings, one sentence each.
    pub notes: Vec<String>,
}

impl Document {
    /// Creates the header of a report by the command `maker`, with name, title and source of the plan.
    pub(super) fn of<P, B>(
        maker: &'static str,
        report: &Report<P, B>,
        name: &str,
        title: &str,
        source: Option<&Source>,
    ) -> Self {
        Self {
            maker,
            name: name.into(),
            title: title.into(),
            byline: byline(report),
            source: source.map(|source| source.title.clone()),
            command: report.command.clone(),
            ..Self::default()
        }
    }

    /// Renders the page: one file that loads nothing from a network.
    pub(super) fn html(&self) -> String {
        let (body, maker, title) = (self.html_body(), self.maker, escape(&self.heading()));
        let nonce = nonce(&body);
        let beside = if self.is_alone { "" } else { BESIDE };
        // Only elements with the nonce may run or style, and nothing may be fetched: the page also contains output of
        // the tools.
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
        );
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"generator\" content=\"{maker}\">\n<title>{title}</title>\n\
             <style nonce=\"{nonce}\">\n{}{STYLE}</style>\n</head>\n<body>\n{body}\
             <footer>Written by <b>{maker}</b>.{beside}</footer>\n\
             <div id=\"tip\" hidden></div>\n<div id=\"live\" class=\"unseen\" aria-live=\"polite\"></div>\n\
             <script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
            palette::page_style()
        )
    }

    fn html_body(&self) -> String {
        let mut out = self.html_header();
        out += "<main>\n<section id=\"summary\">\n";
        out += &self.summary.as_ref().map(Table::html).unwrap_or_default();
        let _ = writeln!(out, "<ul class=\"findings\">\n{}</ul>", html_items(&self.findings));
        out += &self.html_about();
        out += "</section>\n";
        out.extend(self.first.iter().map(html_table));
        out += &self.html_warnings();
        for section in &self.sections {
            html_charts(&mut out, section, self.table_of(section));
        }
        out.extend(self.tables_alone().map(html_table));
        let (method, command) = (html_items(&self.method), escape(&command_line(&self.command)));
        let _ = writeln!(
            out,
            "<section id=\"{}\"><h2>{METHOD}</h2>\n<ul class=\"method\">\n{method}</ul>\n\
             <pre tabindex=\"0\">{command}</pre></section>",
            slug(METHOD)
        );
        for table in &self.details {
            let (id, title) = (slug(&table.title), escape(&table.title));
            let _ =
                writeln!(out, "<details id=\"{id}\"><summary>{title}</summary>\n{}</details>", table.html());
        }
        out + "</main>\n"
    }

    /// The finding, and the title of the plan.
    fn html_header(&self) -> String {
        let verdict =
            self.verdict.map(|[class, words]| format!("<span class=\"verdict {class}\">{words}</span> "));
        let title =
            self.headline.as_ref().map(|_| format!("<p class=\"byline\">{}</p>\n", escape(&self.title)));
        format!(
            "<header><p class=\"kicker\">{} · {}</p><button id=\"theme\" type=\"button\" hidden></button>\n\
             <h1>{}{}</h1>\n{}</header>\n",
            self.maker,
            escape(&self.name),
            verdict.unwrap_or_default(),
            escape(&unbroken(self.headline.as_ref().unwrap_or(&self.title))),
            title.unwrap_or_default()
        )
    }

    /// Time, machine and source, with links to the sections.
    fn html_about(&self) -> String {
        let mut out = String::new();
        let source = self.source.as_ref().map(|title| format!("After {title}"));
        for line in [Some(self.byline.clone()), source].into_iter().flatten() {
            let _ = writeln!(out, "<p class=\"byline\">{}</p>", escape(&line));
        }
        out.push_str("<nav class=\"scroll\" aria-label=\"On this page\">");
        let first = self.first.iter().map(|table| table.title.as_str());
        let sections = self.sections.iter().map(|section| section.title);
        let tables = self.tables.iter().map(|table| table.title.as_str());
        for title in distinct(first.chain(sections).chain(tables).chain([METHOD])) {
            let _ = write!(out, "<a href=\"#{}\">{}</a>", slug(title), escape(title));
        }
        out + "</nav>\n"
    }

    fn html_warnings(&self) -> String {
        if self.warnings.is_empty() && self.remarks.is_none() {
            return String::new();
        }
        let list = |lines: &[String]| format!("<ul>\n{}</ul>", html_items(lines));
        let remarks = self.remarks.as_ref().map(|(title, lines)| {
            format!("<details><summary>{}</summary>{}</details>", escape(title), list(lines))
        });
        let (warnings, remarks) = (list(&self.warnings), remarks.unwrap_or_default());
        format!("<section class=\"warn\"><h2>To know</h2>\n{warnings}{remarks}</section>\n")
    }

    /// Renders the whole report as Markdown; charts are links to separate files.
    pub(super) fn markdown(&self) -> String {
        let title = self.headline.as_ref().map_or(String::new(), |_| format!("{}\n\n", plain(&self.title)));
        let mut out = format!("# {}\n\n{title}", plain(&self.heading()));
        out.extend(self.summary.iter().map(|table| format!("{}\n", markdown_table(table))));
        out += &markdown_list(&self.findings);
        let source = self.source.as_ref().map(|title| format!("After {}\n\n", plain(title)));
        let _ = write!(out, "\n{}\n\n{}", plain(&self.byline), source.unwrap_or_default());
        out.extend(
            self.first.iter().map(|table| format!("## {}\n\n{}\n", table.title, markdown_table(table))),
        );
        if !self.warnings.is_empty() || self.remarks.is_some() {
            let _ = writeln!(out, "## To know\n\n{}", markdown_list(&self.warnings));
        }
        if let Some((title, lines)) = &self.remarks {
            let lines = markdown_list(lines);
            let _ = writeln!(out, "<details><summary>{title}</summary>\n\n{lines}\n</details>\n");
        }
        for section in &self.sections {
            let _ = writeln!(out, "## {}\n", section.title);
            for chart in &section.charts {
                let (title, name) = (plain(&chart.title), &chart.name);
                let _ = writeln!(out, "![{title}]({name}.svg)\n\n*{title}.* {}\n", chart.caption);
            }
            out.extend(self.table_of(section).map(|table| format!("{}\n", markdown_table(table))));
        }
        for table in self.tables_alone() {
            let _ = writeln!(out, "## {}\n\n{}", table.title, markdown_table(table));
        }
        let _ = writeln!(out, "## {METHOD}\n");
        out.extend(self.method.iter().map(|line| format!("- {line}\n")));
        let command = command_line(&self.command);
        // A fence longer than any run of backticks in the command.
        let run = command.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(3.max(run + 1));
        let _ = writeln!(out, "\n{fence}\n{command}\n{fence}\n");
        for table in &self.details {
            let (title, table) = (&table.title, markdown_table(table));
            let _ = writeln!(out, "<details><summary>{title}</summary>\n\n{table}\n</details>\n");
        }
        out
    }

    /// The finding as plain text: "Failed: 1 of 3 limits did not hold".
    fn heading(&self) -> String {
        let words = self.headline.as_ref().unwrap_or(&self.title);
        let verdict = self.verdict.map(|[_, verdict]| verdict.trim_start_matches(['✓', '✗', ' ']));
        verdict.map_or_else(|| words.clone(), |verdict| format!("{verdict}: {words}"))
    }

    fn table_of(&self, section: &Section) -> Option<&Table> {
        self.tables.iter().find(|table| table.title == section.title)
    }

    fn tables_alone(&self) -> impl Iterator<Item = &Table> {
        let is_alone = |table: &&Table| !self.sections.iter().any(|section| section.title == table.title);
        self.tables.iter().filter(is_alone)
    }
}

/// The non-empty tables.
pub(super) fn filled<const N: usize>(tables: [Table; N]) -> Vec<Table> {
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// The distinct values in the order of appearance.
pub(super) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// The distinct lines, each as a sentence.
pub(super) fn sentences(lines: &[String]) -> Vec<String> {
    distinct(lines.iter().map(|line| sentence(line)))
}

/// Time, duration and machine.
fn byline<P, B>(Report { begun, seconds, machine, .. }: &Report<P, B>) -> String {
    let fact = |name: &str| {
        let mut facts = machine.facts.iter();
        facts.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let kernel =
        |kernel: String| if kernel.starts_with("Linux") { kernel } else { format!("Linux {kernel}") };
    let cores = |cores: String| if cores == "1" { "1 core".into() } else { format!("{cores} cores") };
    let facts = [fact("cpu"), fact("cores").map(cores), fact("virtualisation"), fact("kernel").map(kernel)];
    let begun = begun.replace('T', " ").replace('Z', " UTC");
    let when = format!("{begun}, {}", span(*seconds));
    [when].into_iter().chain(facts.into_iter().flatten()).collect::<Vec<_>>().join(" · ")
}

/// The heading of a [`Brief`], with name and title of the plan.
pub(super) fn heading<P, B>(report: &Report<P, B>, name: &str, title: &str) -> String {
    let how = if report.interrupted { "interrupted after" } else { "in" };
    format!("{title} ({name}), {} {how} {}", report.begun, span(report.seconds))
}

/// The facts of a machine.
pub(super) fn machine(machine: &Machine) -> Table {
    let mut table = Table::new("The machine");
    for (name, value) in &machine.facts {
        table.push(None, [("fact", name.clone()), ("value", value.clone())]);
    }
    table
}

/// The figures that a source reports, with `more` columns. `number` formats figures other than its loss.
pub(super) fn source_table(
    title: &str,
    source: &Source,
    loss: fn(&SourceRow) -> Option<f64>,
    number: fn(f64) -> String,
    more: impl Fn(&SourceRow) -> Vec<(String, String)>,
) -> Table {
    let mut table = Table::new(title);
    table.note.clone_from(&source.what);
    let names = distinct(source.rows.iter().flat_map(|row| row.figures.keys()));
    for row in &source.rows {
        let cells = [
            ("there", row.rival.clone()),
            (">frames, with FCS", or_none(row.size.map(|bytes| format!("{bytes} B")))),
            ("rate", row.rate.clone()),
            (">lost there", or_none(loss(row).map(percent))),
        ];
        let cells = cells.into_iter().map(|(head, cell)| (head.to_owned(), cell));
        let figure =
            |name: &&String| (format!(">{name}"), or_none(row.figures.get(*name).copied().map(number)));
        table.push(None, cells.chain(names.iter().map(figure)).chain(more(row)));
    }
    table.without_empty().merged()
}

/// Name of the standard of a search method.
pub(super) fn method_words(method: &str) -> String {
    match method {
        "rfc2544" => "RFC 2544 §26.1".into(),
        "mlr" => "RFC 9971".into(),
        other => other.into(),
    }
}

fn html_items(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect()
}

fn html_table(table: &Table) -> String {
    let (id, title) = (slug(&table.title), escape(&table.title));
    format!("<section id=\"{id}\"><h2>{title}</h2>\n{}</section>\n", table.html())
}

/// The charts of a section, and the table of the same numbers. A common caption is shown once, after the charts.
fn html_charts(out: &mut String, section: &Section, table: Option<&Table>) {
    let _ = writeln!(out, "<section id=\"{}\"><h2>{}</h2>", slug(section.title), section.title);
    let captions = distinct(section.charts.iter().map(|chart| &chart.caption));
    let single = section.charts.len() == 1;
    out.push_str("<div class=\"pics\">\n");
    for (chart, is_full) in section.charts.iter().zip(full_widths(&section.charts)) {
        let title = if single && chart.title == section.title { "" } else { chart.title.as_str() };
        let caption = if captions.len() == 1 && !single { "" } else { chart.caption.as_str() };
        out.push_str(&html_figure(chart, is_full, title, caption));
    }
    out.push_str("</div>\n");
    if let ([caption], false) = (&captions[..], single) {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(caption));
    }
    let _ = writeln!(out, "{}</section>", table.map(Table::html).unwrap_or_default());
}

/// True for charts that take the full width: broad ones, and those without a neighbour in their row.
fn full_widths(charts: &[Chart]) -> Vec<bool> {
    let mut full: Vec<bool> = charts.iter().map(Chart::is_broad).collect();
    // The left chart, if it may still get a neighbour.
    let mut left = None;
    for i in 0..=full.len() {
        match (full.get(i).copied(), left.take()) {
            (Some(false), None) => left = Some(i),
            (None | Some(true), Some(alone)) => full[alone] = true,
            _ => {}
        }
    }
    full
}

fn html_figure(chart: &Chart, is_full: bool, title: &str, caption: &str) -> String {
    let drawn: String = WIDTHS.into_iter().map(|width| chart.draw(width, Target::Page)).collect();
    let tagged = |tag: &str, words: &str| match words {
        "" => String::new(),
        words => format!("<{tag}>{}</{tag}>\n", escape(words)),
    };
    format!(
        "<figure id=\"{}\"{}>{}{drawn}{}</figure>\n",
        escape(&chart.name),
        if is_full { " class=\"full\"" } else { "" },
        tagged("h3", title),
        tagged("figcaption", caption)
    )
}

fn markdown_list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {}\n", plain(line))).collect()
}

/// A table, followed by its note.
fn markdown_table(table: &Table) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("\n{}\n", plain(&table.note)) };
    format!("{}{note}", table.markdown())
}

/// The text with no-break spaces between numbers and units.
fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut last = ' ';
    while let Some(char) = chars.next() {
        let is_unit = |c: &char| c.is_alphabetic() || *c == '%';
        let parts_unit = char == ' ' && last.is_ascii_digit() && chars.peek().is_some_and(is_unit);
        out.push(if parts_unit { '\u{a0}' } else { char });
        last = char;
    }
    out
}

/// The command line, quoted for a shell.
fn command_line(command: &[String]) -> String {
    clean(&command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}

/// A token that `body` does not contain (FNV-1a of `body`).
fn nonce(body: &str) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = |start: u64| body.as_bytes().iter().fold(start, step);
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::Shape;
    use crate::report::chart::scale::{Scale, Unit};
    use crate::report::chart::strips::{Panel, Strips};

    #[test]
    fn no_chart_stands_beside_an_empty_place() {
        let chart = |panels: usize| {
            let panel = Panel { title: String::new(), rows: Vec::new(), limits: Vec::new() };
            let x = Scale::up_to(1.0, Unit::Number);
            Chart::new("", "", Shape::Strips(Strips { label: String::new(), x, panels: vec![panel; panels] }))
        };
        let full = |panels: &[usize]| full_widths(&panels.iter().map(|n| chart(*n)).collect::<Vec<_>>());
        assert_eq!(full(&[1]), [true]);
        assert_eq!(full(&[1, 1]), [false, false]);
        assert_eq!(full(&[1, 1, 1]), [false, false, true]);
        assert_eq!(full(&[1, 9, 1, 1]), [true, true, false, false]);
        assert!(full(&[]).is_empty());
    }

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(unbroken("lost 61 % at 1500 B, 3 more"), "lost 61\u{a0}% at 1500\u{a0}B, 3\u{a0}more");
    }

    #[test]
    fn the_finding_is_the_title_and_the_definitions_follow_the_figures() {
        let mut table = Table::new("T");
        table.push(None, [("name", "a".to_owned())]);
        table.note = "Defined.".into();
        let document = Document {
            title: "A plan".into(),
            headline: Some("1 of 3 limits did not hold".into()),
            verdict: Some(["fail", "✗ Failed"]),
            summary: Some(table),
            findings: vec!["Found.".into()],
            byline: "today".into(),
            ..Document::default()
        };
        assert_eq!(document.heading(), "Failed: 1 of 3 limits did not hold");
        let order = |text: String, parts: &[&str]| {
            let places: Vec<_> = parts.iter().map(|part| text.find(part)).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {text}");
        };
        order(
            document.html_body(),
            &["✗ Failed</span> 1", "A plan", "<tbody>", "Defined.", "Found.", "today"],
        );
        order(document.markdown(), &["# Failed: 1", "A plan", "| a |", "Defined.", "Found.", "today"]);
    }
}
