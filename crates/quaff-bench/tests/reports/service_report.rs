//! The report of a service test: files that say the same as the result, and a page that a browser draws.
//!
//! `QUAFF_SAMPLE_OUT=DIR cargo test -p quaff-bench --test reports -- service_report::` leaves the sample's report in
//! DIR, to be looked at.

use crate::any_report::{self, EVIL};
use quaff_bench::report::{read, write};
use quaff_bench::service::result::{Report, Results};
use quaff_bench::testing::{sample_report, sample_service_report};
use quaff_testkit::test_name;
use std::fs;

#[test]
fn a_folder_has_all_of_it() {
    any_report::has_all_of_it(&sample_service_report(), 15);
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    any_report::gives_the_same_bytes(&sample_service_report());
}

#[test]
fn a_file_that_is_no_result_is_refused_with_its_name_and_line() {
    any_report::refuses_what_is_no_result(&sample_service_report(), "/throughput/0/trials/0/pps");
    let dir = tempfile::tempdir().unwrap();
    write(&sample_report(), dir.path()).unwrap();
    let refused = read::<Report>(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("is not a result of a service test"), "a bench's: {refused}");
}

/// A report in which nothing was measured yet.
fn empty() -> Report {
    Report { interrupted: true, body: Results::default(), ..sample_service_report() }
}

#[test]
fn a_test_that_was_interrupted_at_once_has_a_report_too() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(&empty(), dir.path()).unwrap();
    assert_eq!(files.len(), 3, "a picture of nothing: {files:?}");
    let paper = fs::read_to_string(&files[1]).unwrap();
    assert!(paper.contains("It was interrupted") && paper.contains("nothing was judged"), "{paper}");
}

#[test]
fn figures_that_are_missing_are_dashes() {
    let dir = tempfile::tempdir().unwrap();
    let mut report = sample_service_report();
    for line in &mut report.performance {
        line.figures = Default::default();
        line.checks.clear();
        line.seconds.iter_mut().for_each(|second| *second = Default::default());
    }
    for found in &mut report.throughput {
        (found.pps, found.upper_pps) = (None, None);
        found.trials.clear();
    }
    for found in &mut report.latency {
        (found.all.histogram, found.all.quantiles, found.null_ms) = (vec![], vec![], None);
        found.tagged_ms.clear();
    }
    report.back_to_back.iter_mut().for_each(|found| found.frames.clear());
    report.recovery.iter_mut().for_each(|found| found.seconds.clear());
    report.configuration.iter_mut().for_each(|step| step.figures = Default::default());
    report.plan.services.iter_mut().for_each(|service| service.sizes.clear());
    for file in write(&report, dir.path()).unwrap() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            !text.contains("NaN") && !text.contains("inf,") && !text.contains("inf\""),
            "{}",
            file.display()
        );
    }
}

/// The sample with [`EVIL`] wherever there are words that need not be of a certain kind.
fn evil_report() -> Report {
    let mut value = serde_json::to_value(sample_service_report()).unwrap();
    any_report::spoil(&mut value, &["path", "ways", "way", "tests", "begun", "format"]);
    value["machine"] = serde_json::json!({ EVIL: EVIL, "cpu": EVIL });
    serde_json::from_value(value).unwrap()
}

#[test]
fn texts_of_other_programs_stay_text() {
    any_report::has_text_for_evil(&evil_report());
}

#[test]
fn the_page_asks_nothing_of_a_network_and_its_fragments_are_there_once() {
    any_report::is_one_page(&sample_service_report());
}

#[test]
fn a_browser_runs_nothing_of_what_others_say() {
    any_report::runs_no_evil(test_name!(), &evil_report());
}

#[test]
fn the_first_screen_has_the_finding_and_its_figures() {
    insta::assert_snapshot!(any_report::first_screen(&sample_service_report()));
}

#[test]
fn a_browser_draws_the_page_and_shows_values() {
    let test = test_name!();
    any_report::is_drawn(test, &sample_service_report(), 12.0, PROBE, |seen| {
        assert_eq!(seen.line("verdict"), "✗ Failed", "{seen:?}");
        let second = seen.line("hover-second");
        assert!(second.contains("seconds") || second.contains("second "), "{seen:?}");
        assert!(second.contains("Mbit/s") && second.contains("µs"), "{seen:?}");
        assert!(seen.line("hover-strip").contains("median"), "{seen:?}");
        assert!(seen.line("hover-bar").contains("Mbit/s"), "{seen:?}");
        assert!(seen.number("outage-width") > 20.0, "{seen:?}");
        assert!(seen.line("keys").contains("second"), "{seen:?}");
    });
}

const PROBE: &str = r##"
  say("verdict", document.querySelector(".verdict").textContent);
  const focused = holding(".band");
  focused.scrollIntoView({ block: "center", behavior: "instant" });
  const { x, y, width, height } = box(focused);
  say("hover-second", hoverAt(focused, x + width / 3, y + height / 2));
  say("hover-strip", hover(pictures.flatMap((svg) => [...svg.querySelectorAll(".q3")])[0]));
  say("hover-bar", hover(holding(".bar").querySelector(".bar")));
  say("outage-width", Math.max(...pictures.flatMap((svg) => [...svg.querySelectorAll(".gap")])
    .map((gap) => gap.getBoundingClientRect().width)));
"##;
