//! The report of a bench of flow meters: files that say the same as the result.
//!
//! `QUAFF_SAMPLE_OUT=DIR cargo test -p quaff-bench --test reports -- flow_report::` leaves the sample's report in
//! DIR, to be looked at.

use crate::any_report;
use quaff_bench::flow::result::Report;
use quaff_bench::report::{is_of, write};
use quaff_bench::service;
use quaff_bench::testing::sample_flow_report;

#[test]
fn a_folder_has_all_of_it() {
    any_report::has_all_of_it(&sample_flow_report(), 5);
}

#[test]
fn the_same_result_gives_the_same_bytes() {
    any_report::gives_the_same_bytes(&sample_flow_report());
}

#[test]
fn a_file_that_is_no_result_is_refused_with_its_name_and_line() {
    any_report::refuses_what_is_no_result(&sample_flow_report(), "/cases/1/runs/0/offered");
}

#[test]
fn a_result_is_recognised_as_that_of_its_experiment() {
    let dir = tempfile::tempdir().unwrap();
    write(&sample_flow_report(), dir.path()).unwrap();
    assert!(is_of::<Report>(dir.path()) && is_of::<Report>(&dir.path().join("result.json")));
    assert!(!is_of::<quaff_bench::bench::result::Report>(dir.path()));
    assert!(!is_of::<service::result::Report>(dir.path()));
    write(&quaff_bench::testing::sample_report(), dir.path()).unwrap();
    assert!(!is_of::<Report>(dir.path()));
}
