//! The report of a bench: files that say the same as the result, and a page that a browser draws.
//!
//! `QUAFF_SAMPLE_OUT=DIR cargo test -p quaff-bench --test reports -- report::` leaves the sample's report in
//! DIR, to be looked at.

use crate::any_report::{self, EVIL};
use quaff_bench::bench::result::Report;
use quaff_bench::report;
use quaff_bench::testing::sample_report;
use quaff_testkit::test_name;
use std::fs;

#[test]
fn a_folder_has_all_of_it() {
    any_report::has_all_of_it(&sample_report(), 10);
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    any_report::gives_the_same_bytes(&sample_report());
}

#[test]
fn a_file_that_is_no_result_is_refused_with_its_name_and_line() {
    any_report::refuses_what_is_no_result(&sample_report(), "/cases/1/runs/0/offered");
}

#[test]
fn a_bench_that_was_interrupted_at_once_has_a_report_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut empty = sample_report();
    (empty.cases, empty.searches, empty.bursts, empty.calibration) = (vec![], vec![], vec![], vec![]);
    empty.interrupted = true;
    let files = report::write(&empty, dir.path()).unwrap();
    assert_eq!(files.len(), 3, "a picture of nothing: {files:?}");
    assert!(fs::read_to_string(&files[1]).unwrap().contains("It was interrupted"));
}

/// The sample with [`EVIL`] wherever there are words that need not be of a certain kind.
fn evil_report() -> Report {
    const KINDS: [&str; 8] =
        ["limited_by", "setting", "bed", "sweeps", "finds", "content", "begun", "format"];
    let mut value = serde_json::to_value(sample_report()).unwrap();
    // Of two with one name, half stay what they are, so that there are several of everything.
    for part in ["plan", "command", "rivals", "calibration", "searches", "bursts", "notes"] {
        any_report::spoil(&mut value[part], &KINDS);
    }
    let cases = value["cases"].as_array_mut().unwrap();
    cases.iter_mut().step_by(2).for_each(|case| any_report::spoil(case, &KINDS));
    value["machine"] = serde_json::json!({ EVIL: EVIL, "cpu": EVIL });
    let mut report: Report = serde_json::from_value(value).unwrap();
    report.cases[0].notes = vec![EVIL.into()];
    report.cases[0].runs[0].failed = Some(EVIL.into());
    report.cases[0].interface = Some(EVIL.into());
    report
}

#[test]
fn texts_of_other_programs_stay_text() {
    any_report::has_text_for_evil(&evil_report());
}

#[test]
fn a_browser_runs_nothing_of_what_others_say() {
    any_report::runs_no_evil(test_name!(), &evil_report());
}

#[test]
fn the_page_asks_nothing_of_a_network_and_its_fragments_are_there_once() {
    any_report::is_one_page(&sample_report());
}

#[test]
fn the_first_screen_has_the_finding_and_its_figures() {
    insta::assert_snapshot!(any_report::first_screen(&sample_report()));
}

#[test]
fn a_browser_draws_the_page_and_shows_values() {
    let test = test_name!();
    any_report::is_drawn(test, &sample_report(), 8.0, PROBE, |seen| {
        let curve = seen.line("hover-curve");
        assert!(curve.contains("quaff") && curve.contains("0 % (5 runs) lost"), "{seen:?}");
        assert!(curve.contains("% of a core"), "{seen:?}");
        assert!(seen.line("hover-cell").contains("quaff"), "{seen:?}");
        assert!(seen.line("hover-bar").contains(" % "), "{seen:?}");
        assert!(seen.line("keys").contains("800 Mbit/s"), "{seen:?}");
    });
}

const PROBE: &str = r##"
  const focused = holding(".l");
  say("hover-curve", hover(focused.querySelector(".col .m")));
  say("hover-cell", hover(holding(".cell").querySelector(".cell rect")));
  say("hover-bar", hover(holding(".bar").querySelector(".bar")));
"##;
