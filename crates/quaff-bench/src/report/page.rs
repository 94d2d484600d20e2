//! The page of a bench, for a phone, a wide screen and paper.

use super::charts::Section;
use super::{html_layout, markdown, tables};
use crate::bench::result::Report;
use html_layout::Head;

/// Who wrote it.
const MAKER: &str = "quaff bench";

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    html_layout::page(&report.plan.title, MAKER, &body(report, sections))
}

fn body(report: &Report, sections: &[Section]) -> String {
    let tables = markdown::open_tables(report);
    let mut out = html_layout::header(&head(report, sections));
    out += "<main>\n<section id=\"summary\">\n";
    out += &html_layout::list("findings", &markdown::findings(report));
    out += &tables::summary(report).html();
    out += "</section>\n";
    let warnings = markdown::warnings(report);
    out += &html_layout::warnings(&warnings.first, warnings.folded());
    out += &html_layout::illustrated(sections, &tables);
    out += &html_layout::method(&markdown::method(report), &report.command);
    out += &html_layout::folded(&markdown::folded_tables(report));
    out + "</main>\n"
}

fn head(report: &Report, sections: &[Section]) -> Head {
    let mut bylines = vec![markdown::byline(report)];
    bylines.extend(report.plan.source.as_ref().map(|source| format!("After {}", source.title)));
    let titles = sections.iter().map(|section| section.title.to_owned());
    let tables = markdown::open_tables(report).into_iter().map(|table| table.title);
    Head {
        kicker: format!("{MAKER} · {}", report.plan.name),
        title: report.plan.title.clone(),
        bylines,
        links: titles.chain(tables).chain([html_layout::METHOD.to_owned()]).collect(),
    }
}
