//! The page: one file that asks nothing of a network, for a phone, a wide screen and paper.

use super::chart::svg::escape;
use super::chart::{Chart, Target};
use super::charts::Section;
use super::palette;
use super::paper;
use super::table::Table;
use super::tables;
use super::words::slug;
use crate::bench::result::Report;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Widths that each picture is drawn at; the page shows the one that fits, so that no text shrinks.
const WIDTHS: [f64; 2] = [720.0, 356.0];
/// And the width of those that are worth a whole wide screen.
const BROAD: f64 = 1460.0;

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    let body = body(report, sections);
    let nonce = nonce(&body);
    let title = escape(&report.plan.title);
    // Only what carries the nonce may run or style, and nothing may be fetched: what a capturer says of
    // itself stands on this page too.
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"generator\" content=\"quaff bench\">\n<title>{title}</title>\n\
         <style nonce=\"{nonce}\">\n{}{STYLE}</style>\n</head>\n<body>\n{body}\
         <div id=\"tip\" hidden></div>\n<div id=\"live\" class=\"unseen\" aria-live=\"polite\"></div>\n\
         <script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
        palette::page_style()
    )
}

fn body(report: &Report, sections: &[Section]) -> String {
    let mut out = String::new();
    header(&mut out, report, sections);
    out += "<main>\n<section id=\"summary\">\n";
    out += "<ul class=\"findings\">\n";
    for line in paper::findings(report) {
        let _ = writeln!(out, "<li>{}</li>", escape(&line));
    }
    out += "</ul>\n";
    out += &tables::summary(report).html();
    out += "</section>\n";
    warnings(&mut out, report);
    let tables = paper::open_tables(report);
    for section in sections {
        pictures(&mut out, section, tables.iter().find(|table| table.title == section.title));
    }
    for table in &tables {
        if !sections.iter().any(|section| section.title == table.title) {
            out += &self::section(table);
        }
    }
    method(&mut out, report);
    for table in paper::folded_tables(report) {
        let _ = writeln!(
            out,
            "<details id=\"{}\"><summary>{}</summary>",
            slug(&table.title),
            escape(&table.title)
        );
        let _ = writeln!(out, "{}</details>", table.html());
    }
    out += "</main>\n<footer>Written by <b>quaff bench</b>. Every number is in <code>result.json</code>, every picture \
            as SVG beside this page.</footer>\n";
    out
}

fn header(out: &mut String, report: &Report, sections: &[Section]) {
    let _ = writeln!(
        out,
        "<header><p class=\"kicker\">quaff bench · {}</p><button id=\"theme\" type=\"button\" hidden></button>\n\
         <h1>{}</h1>\n<p class=\"byline\">{}</p>",
        escape(&report.plan.name),
        escape(&report.plan.title),
        escape(&paper::byline(report))
    );
    if let Some(source) = &report.plan.source {
        let _ = writeln!(out, "<p class=\"byline\">After {}</p>", escape(&source.title));
    }
    out.push_str("<nav aria-label=\"On this page\">");
    let titles = sections.iter().map(|section| section.title.to_owned());
    let tables = paper::open_tables(report).into_iter().map(|table| table.title);
    let last = ["How it was measured".to_owned()];
    for title in super::view::distinct(titles.chain(tables).chain(last)) {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", slug(&title), escape(&title));
    }
    out.push_str("</nav></header>\n");
}

fn warnings(out: &mut String, report: &Report) {
    let warnings = paper::warnings(report);
    if warnings.is_empty() {
        return;
    }
    let list = |lines: &[String]| {
        let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        format!("<ul>\n{items}</ul>")
    };
    let _ = write!(out, "<section class=\"warn\"><h2>To know</h2>\n{}", list(&warnings.first));
    if let Some(summary) = warnings.summary() {
        let _ = write!(out, "<details><summary>{summary}</summary>{}</details>", list(&warnings.single));
    }
    out.push_str("</section>\n");
}

/// The pictures of a section, and the table of the same numbers. What all pictures say is said once.
fn pictures(out: &mut String, section: &Section, table: Option<&Table>) {
    let _ = writeln!(out, "<section id=\"{}\"><h2>{}</h2>", slug(section.title), section.title);
    let captions = super::view::distinct(section.charts.iter().map(|chart| &chart.caption));
    let alone = section.charts.len() == 1;
    if let ([caption], false) = (&captions[..], alone) {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(caption));
    }
    out.push_str("<div class=\"pics\">\n");
    for chart in &section.charts {
        let title = if alone && chart.title == section.title { "" } else { chart.title.as_str() };
        let caption = if captions.len() == 1 && !alone { "" } else { chart.caption.as_str() };
        out.push_str(&figure(chart, title, caption));
    }
    out.push_str("</div>\n");
    out.push_str(&table.map(Table::html).unwrap_or_default());
    out.push_str("</section>\n");
}

fn figure(chart: &Chart, title: &str, caption: &str) -> String {
    let broad = chart.is_broad().then_some(BROAD);
    let widths = broad.into_iter().chain(WIDTHS);
    let drawn: String = widths.map(|width| chart.draw(width, Target::Page)).collect();
    let tagged = |tag: &str, words: &str| match words {
        "" => String::new(),
        words => format!("<{tag}>{}</{tag}>\n", escape(words)),
    };
    format!(
        "<figure id=\"{}\"{}>{}{drawn}{}</figure>\n",
        escape(&chart.name),
        if broad.is_some() { " class=\"broad\"" } else { "" },
        tagged("h3", title),
        tagged("figcaption", caption)
    )
}

fn section(table: &Table) -> String {
    let note = match table.note.as_str() {
        "" => String::new(),
        note => format!("<p>{}</p>\n", escape(note)),
    };
    let title = escape(&table.title);
    format!("<section id=\"{}\"><h2>{title}</h2>\n{note}{}</section>\n", slug(&table.title), table.html())
}

fn method(out: &mut String, report: &Report) {
    out.push_str("<section id=\"how-it-was-measured\"><h2>How it was measured</h2>\n<ul class=\"method\">\n");
    for line in paper::method(report) {
        let _ = writeln!(out, "<li>{}</li>", escape(&line));
    }
    let _ = writeln!(out, "</ul>\n<pre tabindex=\"0\">{}</pre></section>", escape(&paper::command(report)));
}

/// A word that what stands in `body` cannot have known (FNV-1a of all of it).
fn nonce(body: &str) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = |start: u64| body.as_bytes().iter().fold(start, step);
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}
