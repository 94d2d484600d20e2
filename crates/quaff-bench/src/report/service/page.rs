//! The page of a service test, for a phone, a wide screen and paper.

use super::markdown;
use crate::report::charts::Section;
use crate::report::html_layout::{self, Head};
use crate::service::result::Report;

/// Who wrote it.
const MAKER: &str = "quaff service";

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    html_layout::page(&report.plan.title, MAKER, &body(report, sections))
}

fn body(report: &Report, sections: &[Section]) -> String {
    let mut out = html_layout::header(&head(report, sections));
    let [class, words] = markdown::banner(report);
    out += &format!("<main>\n<section id=\"summary\">\n<p class=\"verdict {class}\">{words}</p>\n");
    out += &html_layout::list("findings", &markdown::findings(report));
    out += "</section>\n";
    for table in markdown::first_tables(report) {
        out += &html_layout::section(&table);
    }
    out += &html_layout::warnings(&markdown::warnings(report), None);
    out += &html_layout::illustrated(sections, &markdown::open_tables(report));
    out += &html_layout::method(&markdown::method(report), &report.command);
    out += &html_layout::folded(&markdown::folded_tables(report));
    out + "</main>\n"
}

fn head(report: &Report, sections: &[Section]) -> Head {
    let mut bylines = vec![markdown::byline(report)];
    bylines.extend(report.plan.source.as_ref().map(|source| format!("After {}", source.title)));
    let first = markdown::first_tables(report).into_iter().map(|table| table.title);
    let titles = sections.iter().map(|section| section.title.to_owned());
    let tables = markdown::open_tables(report).into_iter().map(|table| table.title);
    Head {
        kicker: format!("{MAKER} · {}", report.plan.name),
        title: report.plan.title.clone(),
        bylines,
        links: first.chain(titles).chain(tables).chain([html_layout::METHOD.to_owned()]).collect(),
    }
}
