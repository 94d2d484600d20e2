//! Tables and sentences of the sample.

use super::*;
use crate::testing::sample_flow_report as sample;

fn row<'a>(table: &'a crate::report::Table, name: &str) -> Vec<&'a str> {
    let row =
        table.rows.iter().find(|row| row.cells[0] == name).unwrap_or_else(|| panic!("{name}: {table:?}"));
    row.cells.iter().map(String::as_str).collect()
}

#[test]
fn sent_and_reported_stand_in_one_column() {
    let table = tables::live(&sample());
    let names: Vec<&str> = table.rows.iter().map(|row| row.cells[0].as_str()).collect();
    let meters = ["quaff", "softflowd", "nfpcapd", "fprobe"];
    let expected: Vec<&str> = ["sent at 50 kflows/s"].into_iter().chain(meters).collect();
    assert_eq!(names[..5], expected);
    assert_eq!(names[5], "sent at 100 kflows/s");
    let (sent, quaff) = (row(&table, "sent at 50 kflows/s"), row(&table, "quaff"));
    assert_eq!(sent[1..4], ["7,410,572", "2,528,074,424", "997,328"]);
    assert_eq!(quaff[1..6], ["7,410,572", "2,528,074,424", "997,328", "0 %", "lossless"]);
}

#[test]
fn speeds_with_a_file_are_ratios_to_quaff() {
    let table = tables::files(&sample());
    let softflowd = row(&table, "softflowd");
    assert_eq!(softflowd[1..5], ["769 kpps", "6.19 ×", "0 %", "lossless"]);
    assert!(table.rows.iter().all(|row| row.cells[0] != "fprobe"), "it reads no files");
    assert!(text::findings(&sample())[0].contains("6.19 × softflowd"));
}

#[test]
fn the_headline_has_the_worst_of_each_meter() {
    let line = text::headline(&sample()).expect("there are cases");
    assert!(
        line.starts_with("Packets lost at most: quaff none; softflowd 6.2 % at 100 kflows/s; "),
        "{line}"
    );
    assert!(line.contains("; nfpcapd 41 % at 100 kflows/s"), "{line}");
}

#[test]
fn failures_and_gaps_of_the_collector_are_warnings() {
    let warnings = text::warnings(&sample()).join("\n");
    for words in [
        "softflowd, 100 kflows/s: failed: ended while it was to capture: out of memory",
        "nfpcapd, 100 kflows/s: the collector missed 17 datagrams",
        "nfpcapd, 100 kflows/s: 3 sets of records had no template",
        "yaf was skipped: it is not installed",
        "fprobe: IPv4 only.",
    ] {
        assert!(warnings.contains(words), "{words} in\n{warnings}");
    }
}

#[test]
fn an_empty_report_has_a_page() {
    let mut report = sample();
    report.body = Results::default();
    report.interrupted = true;
    let page = report.document().html();
    assert!(page.contains("It was interrupted") && text::headline(&report).is_none());
}
