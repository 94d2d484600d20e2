//! Tables and sentences of a hand-computed service test.

use super::view::View;
use super::{tables, text, trials};
use crate::experiment::SourceRow;
use crate::report::{Reported, Table};
use crate::service::plan::{Limits, Ways};
use crate::service::result::{Check, Figures, Performance, Report, Second, Throughput, Way};
use crate::testing::sample_service_report;
use quaff::format::percent;

/// A report with one service whose runs have these figures and verdicts.
fn report_of(runs: &[(Figures, bool)]) -> Report {
    let mut report = sample_service_report();
    let first = report.performance[0].clone();
    let line = |(i, (figures, passed)): (usize, &(Figures, bool))| Performance {
        run: i as u32 + 1,
        figures: figures.clone(),
        checks: vec![Check {
            what: "FLR".into(),
            limit: "at most 0.3 %".into(),
            measured: percent(figures.loss),
            passed: *passed,
        }],
        seconds: (0..10).map(|_| Second { available: true, ..Second::default() }).collect(),
        limits: Limits { loss_ratio: Some(0.003), ..Limits::default() },
        ..first.clone()
    };
    report.performance = runs.iter().enumerate().map(line).collect();
    report.plan.services.truncate(1);
    report.plan.ways = Ways::There;
    report.configuration.clear();
    report.passed = Some(runs.iter().all(|(_, passed)| *passed));
    report
}

fn figures(received: [f64; 3], sent: u64, lost: u64, delay: [f64; 3]) -> Figures {
    Figures {
        received_mbps: received,
        sent,
        lost,
        loss: lost as f64 / sent as f64,
        delay_ms: Some(delay),
        delay_variation_ms: Some([0.0, delay[1] - delay[0], delay[2] - delay[0]]),
        availability: Some(1.0),
        within: [Some(1.0), Some(0.999_999_9)],
        ..Figures::default()
    }
}

/// The cell of a row below a heading, with its group.
#[track_caller]
fn cell<'a>(table: &'a Table, row: usize, words: &str) -> &'a str {
    let heads: Vec<String> = table.columns.iter().map(|column| column.heading()).collect();
    let at = heads.iter().position(|head| head == words).unwrap_or_else(|| panic!("{words}: {heads:?}"));
    &table.rows[row].cells[at]
}

#[test]
fn the_overall_line_is_the_whitepapers() {
    let runs = [
        (figures([971.62, 971.62, 971.62], 1000, 0, [0.010, 0.020, 0.100]), true),
        (figures([971.60, 971.61, 971.63], 3000, 4, [0.008, 0.040, 0.400]), true),
    ];
    let table = tables::performance(&View::new(&report_of(&runs)));
    assert_eq!(table.rows.len(), 3);
    assert!(table.rows[0].is_total && !table.rows[1].is_total);
    let overall = |words: &str| cell(&table, 0, words).to_owned();
    assert_eq!(overall("run"), "Overall");
    assert_eq!(overall("Mbit/s min"), "971.60");
    assert_eq!(overall("Mbit/s max"), "971.63");
    assert_eq!(overall("frames sent"), "4,000");
    assert_eq!(overall("frames lost"), "4");
    assert_eq!(overall("frames loss ratio"), "0.1 %");
    assert_eq!(overall("FTD min"), "8 µs");
    assert_eq!(overall("FTD avg"), "30 µs");
    assert_eq!(overall("FTD max"), "400 µs");
    assert_eq!(overall("FTD % within"), "100");
    // Nearly all is not all.
    assert_eq!(overall("FDV % within"), "99.9999");
    assert_eq!(overall("available %"), "100");
    assert_eq!(cell(&table, 2, "run"), "run 2");
    assert_eq!(cell(&table, 2, "begun"), "21:08:04", "the date is that of the test");
}

#[test]
fn the_first_screen_has_the_finding_and_the_sources_numbers_are_there_once() {
    let mut report = sample_service_report();
    let source = report.plan.source.as_mut().unwrap();
    let again = (1..=5).map(|run| SourceRow { rival: format!("tap, run {run}"), ..source.rows[0].clone() });
    source.rows = again.collect();
    let markdown = report.document().markdown();
    assert!(markdown.starts_with("# Failed: 4 of 152 limits did not hold, over a bridge\n"), "{markdown}");
    assert_eq!(markdown.matches("971.63").count(), 1, "{markdown}");
    assert!(markdown.contains("| tap, run 1; run 2; run 3; run 4; run 5 |"), "{markdown}");
    let title = &report.plan.source.as_ref().unwrap().title;
    assert_eq!(markdown.matches(title).count(), 1, "{markdown}");
    let place = |words: &str| markdown.find(words).unwrap_or_else(|| panic!("{words}: {markdown}"));
    assert!(place("| voice, there") < place("unavailable for 12 s"), "figures before sentences");
    assert!(place("| Overall |") < place("FTD: frame transfer delay"), "figures before definitions");
    assert!(place("Limits that did not hold") < place("## Service performance"));
}

#[test]
fn one_run_has_no_overall_line() {
    let table = tables::performance(&View::new(&report_of(&[(figures([1.0; 3], 10, 0, [0.1; 3]), true)])));
    assert_eq!(table.rows.len(), 1);
    assert_eq!(cell(&table, 0, "run"), "run 1");
}

#[test]
fn one_limit_in_one_run_fails_all_of_it_and_is_named() {
    let good = figures([2.0; 3], 1000, 0, [0.1; 3]);
    let runs = [(good.clone(), true), (figures([2.0; 3], 1000, 31, [0.1; 3]), false), (good, true)];
    let report = report_of(&runs);
    let table = tables::performance(&View::new(&report));
    let verdicts: Vec<&str> = (0..4).map(|row| cell(&table, row, "verdict")).collect();
    assert_eq!(verdicts, ["FAIL", "pass", "FAIL", "pass"]);
    let failed = tables::checks(&View::new(&report), true);
    assert_eq!(failed.rows.len(), 1);
    assert_eq!(cell(&failed, 0, "where"), "performance, run 2");
    assert_eq!(cell(&failed, 0, "measured"), "3.1 %");
    assert_eq!(text::banner(&report)[0], "fail");
    assert_eq!(text::findings(&View::new(&report))[0], "Failed: 1 of 3 limits did not hold, over a bridge.");
}

#[test]
fn a_limit_that_was_not_judged_is_neither_passed_nor_failed() {
    let mut report = report_of(&[(figures([2.0; 3], 1000, 0, [0.1; 3]), true)]);
    report.performance[0].checks.clear();
    report.performance[0].limits = Limits::default();
    report.passed = None;
    assert_eq!(text::banner(&report), ["none", "Measured"]);
    assert_eq!(text::headline(&View::new(&report)), "frames went over a bridge; nothing was judged");
    assert!(tables::performance(&View::new(&report)).columns.iter().all(|column| column.head != "verdict"));
    assert_eq!(text::findings(&View::new(&report))[0], "Frames went over a bridge; nothing was judged.");
}

#[test]
fn an_outage_is_reported_with_its_length() {
    let mut line = figures([0.0, 1.6, 2.0], 1000, 0, [0.1; 3]);
    (line.availability, line.unavailable_s, line.unavailable) = (Some(0.8), 12, [2400, 2300]);
    let said = text::findings(&View::new(&report_of(&[(line, true)])));
    let expected = "voice, run 1: unavailable for 12 s, 80 % available; 2,300 frames were lost meanwhile.";
    assert_eq!(said[1], expected);
}

#[test]
fn a_limit_of_the_instrument_is_not_called_the_paths() {
    let found = |pps: Option<f64>, upper_pps: Option<f64>, regular| Throughput {
        size: 64,
        way: Way::There,
        method: "rfc2544".into(),
        pps,
        upper_pps,
        line_pps: 1_488_095.0,
        regular,
        trials: vec![],
        notes: vec![],
    };
    let mut report = sample_service_report();
    report.plan.ways = Ways::There;
    report.throughput = vec![
        found(Some(7e5), None, false),
        found(Some(5e5), Some(5.02e5), true),
        found(Some(1_488_095.0), None, false),
        found(None, Some(1e4), false),
        found(Some(5e5), Some(9e5), false),
        found(None, None, false),
    ];
    let table = trials::throughput(&View::new(&report));
    let results: Vec<&str> = (0..6).map(|row| cell(&table, row, "result")).collect();
    let expected = [
        "irregular: only a lower bound",
        "the path was the limit",
        "the line was the limit",
        "irregular: loss at every rate",
        "irregular: not as close as requested",
        "not found: the instrument was the limit",
    ];
    assert_eq!(results, expected);
    assert_eq!(trials::throughput_words(&report.throughput[0]), "≥ 700 kpps (47 %)");
    assert_eq!(cell(&table, 1, "of the line"), "33.6 %");
}

#[test]
fn loss_stands_by_load_and_size_and_what_could_not_be_sent_is_marked() {
    let report = sample_service_report();
    let table = trials::frame_loss(&View::new(&report));
    assert_eq!(table.rows.len(), 10);
    assert_eq!(cell(&table, 0, "offered, of the line"), "100 %");
    // 1.2 Mpps were sent of 1.49, and 590 k of them arrived.
    assert_eq!(cell(&table, 0, "lost of frames of 64 B, there"), "50.8 % *");
    assert_eq!(cell(&table, 9, "lost of frames of 64 B, there"), "0 %");
    assert!(table.note.starts_with("*:"));
}

#[test]
fn buffers_and_recovery_are_means_with_both_ends() {
    let mut report = sample_service_report();
    report.plan.ways = Ways::There;
    report.back_to_back.truncate(1);
    (report.back_to_back[0].frames, report.back_to_back[0].frames_max) = (vec![1000, 2000, 3000], 9000);
    (report.back_to_back[0].buffer_s, report.back_to_back[0].buffer_corrected_s) = (Some(0.002), Some(0.001));
    let table = trials::back_to_back(&View::new(&report));
    assert_eq!(cell(&table, 0, "longest burst, frames mean"), "2,000");
    assert_eq!(cell(&table, 0, "longest burst, frames shortest"), "1,000");
    assert_eq!(cell(&table, 0, "longest burst, frames std. deviation"), "1,000");
    assert_eq!(cell(&table, 0, "buffer corrected"), "1 ms");
    report.back_to_back[0].frames = vec![9000, 9000, 3000];
    let table = trials::back_to_back(&View::new(&report));
    assert_eq!(cell(&table, 0, "longest burst, frames mean"), "≥ 7,000");
    report.recovery.truncate(1);
    report.recovery[0].seconds = vec![0.001, 0.003];
    let table = trials::recovery(&View::new(&report));
    assert_eq!(cell(&table, 0, "loss after the overload mean"), "2 ms");
}

#[test]
fn a_note_of_several_sizes_appears_once() {
    let mut report = sample_service_report();
    report.plan.ways = Ways::There;
    report.recovery.retain(|found| found.way == Way::There);
    let said = text::warnings(&View::new(&report));
    let of_recovery: Vec<&String> = said.iter().filter(|line| line.starts_with("Recovery")).collect();
    assert_eq!(of_recovery.len(), 1, "{said:?}");
    assert!(
        of_recovery[0].starts_with("Recovery, 256 B; 512 B; 1024 B; 1280 B; 1518 B: the overload"),
        "{said:?}"
    );
}

#[test]
fn a_limit_that_could_not_be_judged_leaves_the_verdict_open() {
    let good = figures([2.0; 3], 1000, 0, [0.1; 3]);
    let mut report = report_of(&[(good.clone(), true), (good, true)]);
    report.performance[1].limits.delay_ms = Some(1.0);
    report.passed = None;
    report.unjudged = vec!["voice, run 2: the delay was not judged".into()];
    let table = tables::performance(&View::new(&report));
    let verdicts: Vec<&str> = (0..3).map(|row| cell(&table, row, "verdict")).collect();
    assert_eq!(verdicts, ["open", "pass", "open"]);
    assert_eq!(text::banner(&report), ["open", "Not all was judged"]);
    assert!(text::findings(&View::new(&report))[0].starts_with("Not all was judged: 2 of the 2"));
    assert!(
        text::warnings(&View::new(&report)).iter().any(|line| line.starts_with("Not judged: voice, run 2"))
    );
    // One that failed outweighs it.
    report.performance[0].checks[0].passed = false;
    report.passed = Some(false);
    assert_eq!(cell(&tables::performance(&View::new(&report)), 0, "verdict"), "FAIL");
    (report.passed, report.interrupted) = (Some(true), true);
    assert_eq!(text::banner(&report)[0], "open", "half a test");
}
