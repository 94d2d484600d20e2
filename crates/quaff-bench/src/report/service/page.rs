//! The page of a service test, for a phone, a wide screen and paper.

use super::paper;
use crate::report::charts::Section;
use crate::report::shell::{self, Head};
use crate::service::result::Report;

/// Who wrote it.
const MAKER: &str = "quaff service";

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    shell::page(&report.plan.title, MAKER, &body(report, sections))
}

fn body(report: &Report, sections: &[Section]) -> String {
    let mut out = shell::header(&head(report, sections));
    let [class, words] = paper::banner(report);
    out += &format!("<main>\n<section id=\"summary\">\n<p class=\"verdict {class}\">{words}</p>\n");
    out += &shell::list("findings", &paper::findings(report));
    out += "</section>\n";
    for table in paper::first_tables(report) {
        out += &shell::section(&table);
    }
    out += &shell::warnings(&paper::warnings(report), None);
    out += &shell::illustrated(sections, &paper::open_tables(report));
    out += &shell::method(&paper::method(report), &report.command);
    out += &shell::folded(&paper::folded_tables(report));
    out + "</main>\n"
}

fn head(report: &Report, sections: &[Section]) -> Head {
    let mut bylines = vec![paper::byline(report)];
    bylines.extend(report.plan.source.as_ref().map(|source| format!("After {}", source.title)));
    let first = paper::first_tables(report).into_iter().map(|table| table.title);
    let titles = sections.iter().map(|section| section.title.to_owned());
    let tables = paper::open_tables(report).into_iter().map(|table| table.title);
    Head {
        kicker: format!("{MAKER} · {}", report.plan.name),
        title: report.plan.title.clone(),
        bylines,
        links: first.chain(titles).chain(tables).chain([shell::METHOD.to_owned()]).collect(),
    }
}
