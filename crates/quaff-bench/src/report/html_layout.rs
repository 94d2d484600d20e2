//! What every page and every paper is made of: a head, pictures with the table of the same numbers, lists,
//! folded tables. It knows nothing of what a report is about.

use super::chart::svg::escape;
use super::chart::{Chart, Target};
use super::charts::Section;
use super::palette;
use super::table::Table;
use super::view::distinct;
use crate::bench::result::Machine;
use crate::words::{clean, plain, quote, slug, span};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Widths that each picture is drawn at; the page shows the one that fits, so that no text shrinks.
const WIDTHS: [f64; 2] = [720.0, 356.0];
/// And the width of those that are worth a whole wide screen.
const BROAD: f64 = 1460.0;
/// The last heading of every page.
pub(super) const METHOD: &str = "How it was measured";

/// What stands at the top of a page.
pub(super) struct Head {
    /// Above the title.
    pub(super) kicker: String,
    pub(super) title: String,
    /// Below it.
    pub(super) bylines: Vec<String>,
    /// Titles of what is on the page.
    pub(super) links: Vec<String>,
}

/// The whole page: one file that asks nothing of a network. `maker` is the command that wrote it.
pub(super) fn page(title: &str, maker: &str, body: &str) -> String {
    let nonce = nonce(body);
    let title = escape(title);
    // Only what carries the nonce may run or style, and nothing may be fetched: what a capturer says of
    // itself stands on this page too.
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'"
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"generator\" content=\"{maker}\">\n<title>{title}</title>\n\
         <style nonce=\"{nonce}\">\n{}{STYLE}</style>\n</head>\n<body>\n{body}\
         <footer>Written by <b>{maker}</b>. Every number is in <code>result.json</code>, every picture \
            as SVG beside this page.</footer>\n\
         <div id=\"tip\" hidden></div>\n<div id=\"live\" class=\"unseen\" aria-live=\"polite\"></div>\n\
         <script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n",
        palette::page_style()
    )
}

/// The head of a page, with links to all that is on it.
pub(super) fn header(head: &Head) -> String {
    let mut out = format!(
        "<header><p class=\"kicker\">{}</p><button id=\"theme\" type=\"button\" hidden></button>\n\
         <h1>{}</h1>\n",
        escape(&head.kicker),
        escape(&head.title)
    );
    for line in &head.bylines {
        let _ = writeln!(out, "<p class=\"byline\">{}</p>", escape(line));
    }
    out.push_str("<nav aria-label=\"On this page\">");
    for title in distinct(head.links.iter()) {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", slug(title), escape(title));
    }
    out.push_str("</nav></header>\n");
    out
}

/// Sentences under each other.
pub(super) fn list(class: &str, lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

/// What a reader has to know before citing a number; nothing when there is nothing. What is `folded` has a title.
pub(super) fn warnings(lines: &[String], folded: Option<(String, &[String])>) -> String {
    if lines.is_empty() && folded.is_none() {
        return String::new();
    }
    let list = |lines: &[String]| {
        let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
        format!("<ul>\n{items}</ul>")
    };
    let rest = folded.map(|(title, lines)| {
        format!("<details><summary>{}</summary>{}</details>", escape(&title), list(lines))
    });
    let rest = rest.unwrap_or_default();
    format!("<section class=\"warn\"><h2>To know</h2>\n{}{rest}</section>\n", list(lines))
}

/// Sections with pictures, each with the table of the same title; then the tables that have no picture.
pub(super) fn illustrated(sections: &[Section], tables: &[Table]) -> String {
    let mut out = String::new();
    for section in sections {
        pictures(&mut out, section, tables.iter().find(|table| table.title == section.title));
    }
    for table in alone(sections, tables) {
        out += &self::section(table);
    }
    out
}

/// Tables without a picture.
fn alone<'a>(sections: &'a [Section], tables: &'a [Table]) -> impl Iterator<Item = &'a Table> {
    tables.iter().filter(|table| !sections.iter().any(|section| section.title == table.title))
}

/// The pictures of a section, and the table of the same numbers. What all pictures say is said once.
fn pictures(out: &mut String, section: &Section, table: Option<&Table>) {
    let _ = writeln!(out, "<section id=\"{}\"><h2>{}</h2>", slug(section.title), section.title);
    let captions = distinct(section.charts.iter().map(|chart| &chart.caption));
    let single = section.charts.len() == 1;
    if let ([caption], false) = (&captions[..], single) {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escape(caption));
    }
    out.push_str("<div class=\"pics\">\n");
    for chart in &section.charts {
        let title = if single && chart.title == section.title { "" } else { chart.title.as_str() };
        let caption = if captions.len() == 1 && !single { "" } else { chart.caption.as_str() };
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

pub(super) fn section(table: &Table) -> String {
    let note = match table.note.as_str() {
        "" => String::new(),
        note => format!("<p>{}</p>\n", escape(note)),
    };
    let title = escape(&table.title);
    format!("<section id=\"{}\"><h2>{title}</h2>\n{note}{}</section>\n", slug(&table.title), table.html())
}

/// How it was measured, and with which command line.
pub(super) fn method(lines: &[String], command: &[String]) -> String {
    let command = escape(&command_line(command));
    format!(
        "<section id=\"{}\"><h2>{METHOD}</h2>\n{}<pre tabindex=\"0\">{command}</pre></section>\n",
        slug(METHOD),
        list("method", lines)
    )
}

/// Tables for who checks.
pub(super) fn folded(tables: &[Table]) -> String {
    let one = |table: &Table| {
        let (id, title) = (slug(&table.title), escape(&table.title));
        format!("<details id=\"{id}\"><summary>{title}</summary>\n{}</details>\n", table.html())
    };
    tables.iter().map(one).collect()
}

/// Sentences as Markdown has lists.
pub(super) fn listed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {}\n", plain(line))).collect()
}

/// As [`warnings`], in Markdown.
pub(super) fn warned(lines: &[String], folded: Option<(String, &[String])>) -> String {
    let mut out = String::new();
    if !lines.is_empty() || folded.is_some() {
        let _ = writeln!(out, "## To know\n\n{}", listed(lines));
    }
    if let Some((title, lines)) = folded {
        let _ = writeln!(out, "<details><summary>{title}</summary>\n\n{}\n</details>\n", listed(lines));
    }
    out
}

/// As [`illustrated`], in Markdown; pictures are links to the files beside it.
pub(super) fn linked(sections: &[Section], tables: &[Table]) -> String {
    let mut out = String::new();
    for section in sections {
        let _ = writeln!(out, "## {}\n", section.title);
        for chart in &section.charts {
            let (title, name) = (plain(&chart.title), &chart.name);
            let _ = writeln!(out, "![{title}]({name}.svg)\n\n*{title}.* {}\n", chart.caption);
        }
        if let Some(table) = tables.iter().find(|table| table.title == section.title) {
            let _ = writeln!(out, "{}", table.markdown());
        }
    }
    for table in alone(sections, tables) {
        out += &titled(table);
    }
    out
}

/// As [`method`], in Markdown.
pub(super) fn methodical(lines: &[String], command: &[String]) -> String {
    let mut out = format!("## {METHOD}\n\n");
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
    let command = command_line(command);
    // A fence that nothing in it can end.
    let fence = "`".repeat(3.max(longest_run(&command, '`') + 1));
    let _ = writeln!(out, "\n{fence}\n{command}\n{fence}\n");
    out
}

/// As [`folded`], in Markdown.
pub(super) fn collapsed(tables: &[Table]) -> String {
    let one = |table: &Table| {
        let body = titled(table);
        let body = body.split_once('\n').map_or("", |(_, rest)| rest);
        format!("<details><summary>{}</summary>\n{body}</details>\n\n", table.title)
    };
    tables.iter().map(one).collect()
}

/// When, how long, where.
pub(super) fn byline(begun: &str, seconds: f64, machine: &Machine) -> String {
    let fact = |name: &str| {
        let mut facts = machine.facts.iter();
        facts.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    };
    let kernel =
        |kernel: String| if kernel.starts_with("Linux") { kernel } else { format!("Linux {kernel}") };
    let cores = |cores: String| if cores == "1" { "1 core".into() } else { format!("{cores} cores") };
    let facts = [fact("cpu"), fact("cores").map(cores), fact("virtualisation"), fact("kernel").map(kernel)];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let begun = begun.replace('T', " ").replace('Z', " UTC");
    [format!("{begun}, {}", span(seconds)), facts.join(" · ")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" · ")
}

/// The facts of a machine.
pub(super) fn machine(machine: &Machine) -> Table {
    let mut table = Table::new("The machine", &["fact", "value"]);
    for (name, value) in &machine.facts {
        table.push(None, [name.clone(), value.clone()]);
    }
    table
}

/// The command line, as a shell takes it.
fn command_line(command: &[String]) -> String {
    clean(&command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "))
}

fn titled(table: &Table) -> String {
    let note = if table.note.is_empty() { String::new() } else { format!("{}\n\n", plain(&table.note)) };
    format!("## {}\n\n{note}{}\n", table.title, table.markdown())
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(|run| run.chars().count()).max().unwrap_or(0)
}

/// A word that what stands in `body` cannot have known (FNV-1a of all of it).
fn nonce(body: &str) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = |start: u64| body.as_bytes().iter().fold(start, step);
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
}
