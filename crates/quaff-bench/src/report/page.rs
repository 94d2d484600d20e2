//! The page of a bench, for a phone, a wide screen and paper.

use super::charts::Section;
use super::{paper, shell, tables};
use crate::bench::result::Report;
use shell::Head;

/// Who wrote it.
const MAKER: &str = "quaff bench";

/// The whole page.
pub(super) fn page(report: &Report, sections: &[Section]) -> String {
    shell::page(&report.plan.title, MAKER, &body(report, sections))
}

fn body(report: &Report, sections: &[Section]) -> String {
    let tables = paper::open_tables(report);
    let mut out = shell::header(&head(report, sections));
    out += "<main>\n<section id=\"summary\">\n";
    out += &shell::list("findings", &paper::findings(report));
    out += &tables::summary(report).html();
    out += "</section>\n";
    let warnings = paper::warnings(report);
    out += &shell::warnings(&warnings.first, warnings.folded());
    out += &shell::illustrated(sections, &tables);
    out += &shell::method(&paper::method(report), &report.command);
    out += &shell::folded(&paper::folded_tables(report));
    out + "</main>\n"
}

fn head(report: &Report, sections: &[Section]) -> Head {
    let mut bylines = vec![paper::byline(report)];
    bylines.extend(report.plan.source.as_ref().map(|source| format!("After {}", source.title)));
    let titles = sections.iter().map(|section| section.title.to_owned());
    let tables = paper::open_tables(report).into_iter().map(|table| table.title);
    Head {
        kicker: format!("{MAKER} · {}", report.plan.name),
        title: report.plan.title.clone(),
        bylines,
        links: titles.chain(tables).chain([shell::METHOD.to_owned()]).collect(),
    }
}
