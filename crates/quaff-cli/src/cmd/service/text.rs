//! The result of a service test as text: the verdict, the tables, and the sentences around them.

use crate::terminal_table::{report_table, span, wrapped};
use quaff_bench::report::{Table, service as report};
use quaff_bench::service::result::Report;

/// A result: what it came to, each part of it, and what one has to know. With `all` every limit, every trial,
/// the services and the machine too.
pub(super) fn whole(result: &Report, all: bool) -> String {
    let mut parts = vec![heading(result)];
    parts.push(marked("", &report::findings(result)));
    let has_rows = |table: &&Table| !table.rows.is_empty();
    let tables = [
        report::glance(result),
        report::performance(result),
        report::checks(result, true),
        report::configuration(result),
        report::throughput(result),
        report::latency(result),
        report::frame_loss(result),
        report::back_to_back(result),
        report::recovery(result),
        report::source(result),
    ];
    parts.extend(tables.iter().filter(has_rows).map(|table| report_table(table, all)));
    if all {
        let details = [
            report::variation(result),
            report::checks(result, false),
            report::trials(result),
            report::services(result),
            report::null(result),
            report::machine(result),
        ];
        parts.extend(details.iter().filter(has_rows).map(|table| report_table(table, all)));
    }
    parts.push(marked("- ", &report::warnings(result)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn heading(result: &Report) -> String {
    let how = if result.interrupted { "interrupted after" } else { "in" };
    let (title, name, took) = (&result.plan.title, &result.plan.name, span(result.seconds));
    wrapped("", &format!("{title} ({name}), {} {how} {took}", result.begun))
}

fn marked(mark: &str, sentences: &[String]) -> String {
    sentences.iter().map(|sentence| wrapped(mark, sentence)).collect::<Vec<_>>().join("\n")
}
