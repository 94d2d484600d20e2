//! Comparisons of benches with known differences.

use super::*;
use crate::bench::result::{Burst, Case, LimitedBy, Results, Search, ToolFacts};
use crate::method::Run;
use quaff_lab::tool::Setting;

fn report(cases: Vec<Case>) -> Report {
    let plan = serde_json::json!({ "name": "test", "title": "A test", "rivals": ["one"] });
    let plan = serde_json::from_value(plan).expect("a plan");
    let mut report = Report::new(&plan, &[]);
    report.cases = cases;
    report
}

/// A case with runs of 2 s, given as loss and CPU time, s.
fn case(rival: &str, runs: &[(f64, f64)]) -> Case {
    let run = |&(loss, cpu_user_s): &(f64, f64)| Run {
        loss: Some(loss),
        seconds: 2.0,
        cpu_user_s,
        ..Run::default()
    };
    Case {
        rival: rival.into(),
        size: 512,
        pps: Some(400_000),
        rate: "400 kpps".into(),
        runs: runs.iter().map(run).collect(),
        limited_by: LimitedBy::Nothing,
        ..Case::default()
    }
}

fn search(lower: Option<f64>, upper: Option<f64>, again: Option<[f64; 2]>) -> Search {
    Search {
        rival: "one".into(),
        size: 64,
        mix: None,
        setting: Setting::default(),
        method: "mlr".into(),
        lower_pps: lower,
        upper_pps: upper,
        max_pps: 3e6,
        width: 0.05,
        limited_by: LimitedBy::Rival,
        regular: upper.is_some(),
        warm_up: None,
        trials: Vec::new(),
        again,
        trials_again: Vec::new(),
        goal: None,
        throughput_pps: lower,
        notes: Vec::new(),
    }
}

fn verdicts(compared: &Comparison) -> Vec<(Figure, Verdict)> {
    compared.rows.iter().map(|row| (row.what, row.verdict)).collect()
}

const BEFORE: [(f64, f64); 5] = [(0.10, 1.0), (0.12, 1.1), (0.11, 1.2), (0.13, 1.3), (0.09, 1.4)];

#[test]
fn a_bench_is_the_same_as_itself() {
    let one = report(vec![case("one", &BEFORE)]);
    let compared = compare(&one, &one);
    assert_eq!(verdicts(&compared), [(Figure::Loss, Verdict::Same), (Figure::Cpu, Verdict::Same)]);
    assert!(compared.facts.is_empty() && compared.only_a.is_empty() && compared.only_b.is_empty());
    let loss = &compared.rows[0];
    assert_eq!((loss.a.value, loss.a.spread, loss.a.runs), (0.11, [0.09, 0.13], 5));
    assert_eq!(loss.a, loss.b);
    assert!(!compared.is_worse());
}

#[test]
fn a_row_is_flat_json() {
    let one = report(vec![case("one", &BEFORE)]);
    let json = serde_json::to_value(&compare(&one, &one).rows[0]).expect("JSON");
    let fields: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = ["what", "rival", "series", "size", "mix", "rate", "interface", "setting"].to_vec();
    expected.extend(["a", "b", "p", "verdict"]);
    assert!(
        fields.len() == expected.len() && expected.iter().all(|field| fields.contains(field)),
        "{fields:?}"
    );
}

#[test]
fn values_beyond_all_runs_of_the_other_are_a_difference() {
    // Less loss, more CPU.
    let after = [(0.0, 2.0), (0.01, 2.1), (0.0, 2.2), (0.0, 2.3), (0.0, 2.4)];
    let compared = compare(&report(vec![case("one", &BEFORE)]), &report(vec![case("one", &after)]));
    assert_eq!(verdicts(&compared), [(Figure::Loss, Verdict::Better), (Figure::Cpu, Verdict::Worse)]);
    assert!((compared.rows[1].p.expect("a chance") - 2.0 / 252.0).abs() < 1e-12);
    assert!(compared.is_worse());
    // In the opposite direction.
    let back = compare(&report(vec![case("one", &after)]), &report(vec![case("one", &BEFORE)]));
    assert_eq!(verdicts(&back), [(Figure::Loss, Verdict::Worse), (Figure::Cpu, Verdict::Better)]);
}

#[test]
fn values_within_the_spread_are_no_difference() {
    // The median is a fifth higher, and the ranges of the runs overlap.
    let after = [(0.14, 1.0), (0.12, 1.1), (0.13, 1.2), (0.10, 1.3), (0.15, 1.4)];
    let compared = compare(&report(vec![case("one", &BEFORE)]), &report(vec![case("one", &after)]));
    assert_eq!(verdicts(&compared)[0], (Figure::Loss, Verdict::Same));
    assert!(compared.rows[0].b.value - compared.rows[0].a.value > 0.015);
}

#[test]
fn three_runs_tell_nothing() {
    let (few, other) = ([(0.1, 1.0); 3], [(0.9, 3.0); 3]);
    let compared = compare(&report(vec![case("one", &few)]), &report(vec![case("one", &other)]));
    assert_eq!(verdicts(&compared), [(Figure::Loss, Verdict::TooFew), (Figure::Cpu, Verdict::TooFew)]);
    assert!(compared.notes.iter().any(|note| note.contains("At least four")), "{:?}", compared.notes);
    // Four runs can.
    let (few, other) = ([(0.1, 1.0); 4], [(0.9, 3.0); 4]);
    let compared = compare(&report(vec![case("one", &few)]), &report(vec![case("one", &other)]));
    assert_eq!(verdicts(&compared)[0], (Figure::Loss, Verdict::Worse));
}

#[test]
fn a_case_of_only_one_result_is_listed_once() {
    let other =
        Case { setting: Setting { buffer_mib: Some(1), ..Setting::default() }, ..case("one", &BEFORE) };
    let compared = compare(&report(vec![case("one", &BEFORE)]), &report(vec![other]));
    assert!(compared.rows.is_empty());
    assert_eq!(compared.only_a, ["one, 512 B, 400 kpps"]);
    assert_eq!(compared.only_b, ["one, 512 B, 400 kpps, 1 MiB of buffer"]);
}

#[test]
fn runs_that_failed_are_no_runs() {
    let mut failed = case("one", &BEFORE);
    for run in &mut failed.runs {
        run.failed = Some("it crashed".into());
    }
    let compared = compare(&report(vec![case("one", &BEFORE)]), &report(vec![failed]));
    assert!(compared.rows.is_empty(), "{:?}", compared.rows);
    assert_eq!(compared.only_a.len(), 1);
}

#[test]
fn searches_differ_when_their_bounds_do_not_touch() {
    let with = |search| Report {
        body: Results { searches: vec![search], ..Results::default() },
        ..report(Vec::new())
    };
    let verdict = |a, b| compare(&with(a), &with(b)).rows[0].verdict;
    let around = |lower: f64| search(Some(lower), Some(lower * 1.04), Some([lower * 0.98, 0.02]));
    assert_eq!(verdict(around(400e3), around(410e3)), Verdict::Same);
    assert_eq!(verdict(around(400e3), around(500e3)), Verdict::Better);
    assert_eq!(verdict(around(500e3), around(400e3)), Verdict::Worse);
    // A noisy search spans both of its results.
    let noisy = search(Some(400e3), Some(416e3), Some([520e3, 0.23]));
    assert_eq!(verdict(noisy, around(500e3)), Verdict::Same);
    // Without an upper bound.
    let open = |lower| search(Some(lower), None, None);
    assert_eq!(verdict(open(400e3), around(500e3)), Verdict::Same);
    assert_eq!(verdict(open(600e3), around(500e3)), Verdict::Worse);
    assert_eq!(verdict(around(500e3), open(600e3)), Verdict::Better);
    assert_eq!(verdict(open(500e3), open(600e3)), Verdict::Same);
    // The same if the generator was the limit.
    let slow = |lower| Search { limited_by: LimitedBy::Generator, ..around(lower) };
    assert_eq!(verdict(slow(400e3), around(500e3)), Verdict::Same);
    assert_eq!(verdict(slow(600e3), around(500e3)), Verdict::Worse);
    // Without a lower bound there is nothing to compare.
    assert!(compare(&with(search(None, Some(1000.0), None)), &with(around(1e5))).rows.is_empty());
}

#[test]
fn longer_bursts_are_better() {
    let with = |frames: Vec<u64>| {
        let burst = Burst {
            rival: "one".into(),
            size: 64,
            mix: None,
            setting: Setting::default(),
            frames,
            frames_max: 1_000_000,
            pps: 1e6,
            buffer_s: None,
            buffer_corrected_s: None,
            notes: Vec::new(),
        };
        Report { body: Results { bursts: vec![burst], ..Results::default() }, ..report(Vec::new()) }
    };
    let compared = compare(&with(vec![100, 110, 120, 130, 140]), &with(vec![200, 210, 220, 230, 240]));
    assert_eq!(verdicts(&compared), [(Figure::Burst, Verdict::Better)]);
    assert_eq!(compared.rows[0].b.value - compared.rows[0].a.value, 100.0);
}

#[test]
fn circumstances_that_differ_are_listed() {
    let with = |kernel: &str, version: &str| {
        let mut report = report(Vec::new());
        report.machine.facts.insert("kernel".into(), kernel.into());
        report.machine.facts.insert("CPU".into(), "the same".into());
        let rival =
            ToolFacts { name: "one".into(), version: Some(version.into()), command: vec![], absent: None };
        report.rivals.push(rival);
        report
    };
    let compared = compare(&with("6.18", "1.0"), &Report { interrupted: true, ..with("6.19", "1.1") });
    let fact =
        |name: &str, a: &str, b: &str| Fact { name: name.into(), a: Some(a.into()), b: Some(b.into()) };
    assert_eq!(compared.facts, [fact("kernel", "6.18", "6.19"), fact("version of one", "1.0", "1.1")]);
    assert_eq!(compared.notes, ["B was interrupted before all runs were done."]);
}

#[test]
fn different_plans_are_listed_and_another_topology_is_a_warning() {
    let find: crate::bench::plan::Find =
        serde_json::from_value(serde_json::json!({ "what": "max", "sizes": [{ "bytes": 64 }] }))
            .expect("a find");
    let with = |seconds, bed| {
        let mut report = report(Vec::new());
        report.plan.finds = vec![crate::bench::plan::Find { seconds, ..find.clone() }];
        report.plan.bed = bed;
        report
    };
    let compared = compare(&with(3.0, Topology::Direct), &with(60.0, Topology::Span));
    let names: Vec<_> = compared.facts.iter().map(|fact| fact.name.as_str()).collect();
    assert_eq!(names, ["bed", "search 1, highest rate"]);
    let last = compared.facts[1].b.as_deref();
    assert_eq!(last, Some("mlr, trials of 60 s, loss up to 0 %, bounds within 5 %"));
    assert!(compared.notes[0].contains("different topologies"), "{:?}", compared.notes);
    let same = compare(&with(3.0, Topology::Direct), &with(3.0, Topology::Direct));
    assert!(same.facts.is_empty() && same.notes.is_empty());
}

#[test]
fn many_comparisons_find_some_difference_by_chance() {
    let cases = (0..20).map(|number| case(&format!("rival {number}"), &BEFORE)).collect();
    let one = report(cases);
    let notes = compare(&one, &one).notes;
    assert!(notes.iter().any(|note| note.contains("Of 40 comparisons of runs about 2")), "{notes:?}");
}
