//! Rounds with a fake case runner: order, partial results, abandoned cases.

use super::*;
use crate::bench::find::{Measurer, Workload};
use crate::bench::finder::Finder;
use crate::bench::jobs::tests::plan;
use crate::bench::result::LimitedBy;
use quaff_lab::tool::Output;
use quaff_lab::topology::CoreUse;
use quaff_lab::traffic::Size;
use std::collections::BTreeMap;

/// Captures everything, except as configured.
#[derive(Default)]
struct Fake {
    ran: Vec<(String, u32, Option<u64>, u64)>,
    nulls: usize,
    /// Rivals that fail, and with what.
    broken: BTreeMap<&'static str, &'static str>,
    /// Lost frames per hundred, by rival.
    losses: BTreeMap<&'static str, u64>,
    free: u64,
    steal: f64,
    null_fails: Option<u32>,
    /// Factor of the generator's rate from its fifth run on.
    slower: f64,
    /// The setup fails, not the rival.
    no_lab: bool,
}

impl CaseRunner for Fake {
    fn null(&mut self, traffic: &Traffic, _: usize, watch: Watch<'_>) -> Result<Sent> {
        self.nulls += 1;
        if !watch(Stage::Sending) {
            return Err(Error::Interrupted);
        }
        if self.null_fails == Some(traffic.frame_bytes) {
            return Err(Error::Tool { name: "the generator".into(), what: "frames do not fit".into() });
        }
        let slower = if self.nulls > 4 { 1.0 + self.slower } else { 1.0 };
        let seconds = slower * traffic.count as f64 / traffic.pps.map_or(2e6, |pps| pps as f64);
        let all = traffic.count;
        Ok(Sent { intended: all, sent: all, offered: all, seconds, ..Sent::default() })
    }

    fn run(
        &mut self,
        rival: &str,
        traffic: &Traffic,
        _: &Setting,
        _: usize,
        watch: Watch<'_>,
    ) -> Result<Run> {
        if !watch(Stage::Starting) {
            return Err(Error::Interrupted);
        }
        if self.no_lab {
            return Err(Error::Place("the disk is gone".into()));
        }
        self.ran.push((rival.to_owned(), traffic.frame_bytes, traffic.pps, traffic.count));
        if let Some(what) = self.broken.get(rival) {
            return Ok(Run { failed: Some(format!("{rival} {what}")), ..Run::default() });
        }
        let loss = *self.losses.get(rival).unwrap_or(&0) as f64 / 100.0;
        let seconds = traffic.count as f64 / traffic.pps.map_or(1e6, |pps| pps as f64);
        let captured = Some((traffic.count as f64 * (1.0 - loss)) as u64);
        let cores = vec![CoreUse { steal: self.steal, ..CoreUse::default() }];
        let all = traffic.count;
        Ok(Run { intended: all, offered: all, captured, loss: Some(loss), seconds, cores, ..Run::default() })
    }

    fn can(&self, rival: &str, setting: &Setting) -> Result<(), String> {
        match (rival, setting.compression) {
            ("other", 1..) => Err("other does not compress each packet".into()),
            _ => Ok(()),
        }
    }

    fn free(&self) -> Result<(u64, String)> {
        Ok((self.free, "/files".into()))
    }
}

/// Counts events, and interrupts after a number of polls.
#[derive(Default)]
struct Ear {
    begun: Vec<usize>,
    done: Vec<Duration>,
    stages: Vec<String>,
    notes: Vec<String>,
    so_far: Vec<usize>,
    looks: usize,
    looks_max: Option<usize>,
}

impl experiment::Events<Report> for Ear {
    fn stage(&mut self, what: &str) {
        self.stages.push(what.to_owned());
    }
    fn note(&mut self, sentence: &str) {
        self.notes.push(sentence.to_owned());
    }
    fn so_far(&mut self, report: &Report) {
        self.so_far.push(report.cases.iter().map(|case| case.runs.len()).sum());
    }
    fn continues(&mut self) -> bool {
        self.looks += 1;
        self.looks_max.is_none_or(|max| self.looks <= max)
    }
}

impl Events for Ear {
    fn begins(&mut self, runs_total: usize) {
        self.begun.push(runs_total);
    }
    fn run_done(&mut self, case: &Case, run: &Run, left: Duration) {
        assert_eq!(case.runs.last(), Some(run));
        self.done.push(left);
    }
}

fn bench(plan: &Plan, runner: &mut Fake, ear: &mut Ear) -> Result<Report> {
    Report::fill(plan, &[], |report| {
        let can = |_: &str, setting: &Setting| Ok(setting.clone());
        let jobs = Jobs::of(plan, &["quaff", "other"], &[None], &can, &|_, _| true)?;
        rounds(plan, jobs, runner, report, ear)
    })
}

fn roomy() -> Fake {
    Fake { free: 1 << 40, ..Fake::default() }
}

#[test]
fn each_case_is_run_as_often_as_the_plan_says_after_one_warm_up() {
    let (mut runner, mut ear) = (roomy(), Ear::default());
    runner.losses.insert("other", 25);
    let report = bench(&plan(), &mut runner, &mut ear).expect("a report");
    assert_eq!((runner.nulls, runner.ran.len()), (4 + 1, 2 + 8 * 3));
    assert_eq!((ear.begun, ear.so_far), (vec![24], vec![8, 16, 24]));
    assert_ne!(runner.ran[0].0, runner.ran[1].0, "each is warmed up");
    assert!(runner.ran[..2].iter().all(|ran| ran.3 <= 5000));
    assert_eq!(report.calibration.len(), 4);
    assert!(report.cases.iter().all(|case| case.runs.iter().map(|run| run.round).eq(1..=3)));
    // Each round has each case once, in any order.
    for round in runner.ran[2..].chunks(8) {
        let mut all = round.to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 8);
    }
    assert_ne!(runner.ran[2..10], runner.ran[10..18], "another order in another round");
    let of = |rival: &str, pps| {
        report.cases.iter().find(|case| case.rival == rival && case.pps == pps).expect("a case")
    };
    assert_eq!(of("quaff", Some(1000)).limited_by, LimitedBy::Nothing);
    assert_eq!(of("quaff", None).limited_by, LimitedBy::Generator);
    assert_eq!(
        (of("other", None).limited_by, of("other", None).loss_trimmed),
        (LimitedBy::Rival, Some(0.25))
    );
    assert_eq!((report.interrupted, report.notes.len()), (false, 0));
    assert_eq!(ear.done.len(), 24);
    assert_eq!(ear.done.last(), Some(&Duration::ZERO));
    assert!(ear.done[0] > Duration::from_secs(1) && ear.stages.contains(&"other starts".to_owned()));
}

#[test]
fn an_interruption_keeps_what_there_is() {
    // Four calibrations and two warm-ups poll once each, then five runs.
    let (mut runner, mut ear) = (roomy(), Ear { looks_max: Some(11), ..Ear::default() });
    let report = bench(&plan(), &mut runner, &mut ear).expect("a report all the same");
    assert!(report.interrupted);
    assert_eq!(report.cases.iter().map(|case| case.runs.len()).sum::<usize>(), 5);
    let measured = report.cases.iter().filter(|case| !case.runs.is_empty());
    assert!(measured.clone().all(|case| case.limited_by != LimitedBy::Unknown && case.loss_median.is_some()));
    assert_eq!(report.cases.len(), 8);

    let (mut runner, mut ear) = (roomy(), Ear { looks_max: Some(2), ..Ear::default() });
    let report = bench(&plan(), &mut runner, &mut ear).expect("a report all the same");
    assert_eq!((report.interrupted, report.calibration.len(), runner.ran.len()), (true, 2, 0));
}

#[test]
fn one_that_never_works_is_abandoned_and_the_others_continue() {
    let (mut runner, mut ear) = (roomy(), Ear::default());
    runner.broken.insert("other", "ended before it captured: no such device");
    let plan = Plan { runs: 5, ..plan() };
    let report = bench(&plan, &mut runner, &mut ear).expect("a report");
    let ran = |name: &str| runner.ran.iter().filter(|ran| ran.0 == name).count();
    assert!(ran("quaff") >= 20);
    assert!(ran("other") <= RIVAL_STRIKES + 1, "{}", ran("other"));
    let other =
        report.cases.iter().find(|case| case.rival == "other" && !case.runs.is_empty()).expect("a case");
    assert_eq!(other.notes[0], "other ended before it captured: no such device.");
    assert!(other.notes.contains(&"Abandoned: no run was completed.".to_owned()), "{:?}", other.notes);
    assert_eq!((other.limited_by, other.loss_median), (LimitedBy::Unknown, None));
}

#[test]
fn faults_outside_a_capturer_count_against_none() {
    let (mut runner, mut ear) = (Fake { no_lab: true, ..roomy() }, Ear::default());
    let report = bench(&Plan { runs: 4, ..plan() }, &mut runner, &mut ear).expect("a report");
    assert!(report.cases.iter().all(|case| case.runs.len() == CASE_STRIKES), "no rival was abandoned");
    assert_eq!(report.cases[0].notes[0], "the disk is gone.");
}

#[test]
fn a_machine_that_changes_during_a_bench_is_noted() {
    let (mut runner, mut ear) = (Fake { slower: 0.5, ..roomy() }, Ear::default());
    let report = bench(&plan(), &mut runner, &mut ear).expect("a report");
    assert!(report.notes[0].contains("2000000 frames/s arrived at the start"), "{:?}", report.notes);
}

#[test]
fn cases_without_room_on_the_disk_are_omitted_beforehand() {
    // 1.5 kB × 5000 and 64 B × 5000, each plus 16 MiB.
    let mut runner = Fake { free: 21 << 20, ..Fake::default() };
    let report = bench(&plan(), &mut runner, &mut Ear::default()).expect("a report");
    assert!(runner.ran.iter().all(|ran| ran.1 == 64), "{:?}", runner.ran);
    assert_eq!(report.cases.iter().filter(|case| case.runs.is_empty()).count(), 4);
    assert!(report.notes[0].contains("1500 B") && report.notes[0].contains("/files"), "{:?}", report.notes);

    let mut runner = Fake { free: 1 << 20, ..Fake::default() };
    let error = bench(&plan(), &mut runner, &mut Ear::default()).expect_err("no room at all");
    assert!(error.to_string().contains("`dir`"), "{error}");
}

#[test]
fn traffic_that_cannot_be_sent_costs_only_its_own_cases() {
    let mut runner = Fake { null_fails: Some(1500), ..roomy() };
    let mut ear = Ear::default();
    let report = bench(&plan(), &mut runner, &mut ear).expect("a report");
    assert_eq!(ear.begun, [12]);
    assert!(runner.ran.iter().all(|ran| ran.1 == 64));
    assert_eq!(
        report.notes[0],
        "1500 B, as fast as possible: the generator: frames do not fit; its cases are skipped."
    );
    assert_eq!(report.notes, ear.notes);
}

#[test]
fn stolen_time_is_noted_once() {
    let mut runner = Fake { steal: 0.2, ..roomy() };
    let report = bench(&plan(), &mut runner, &mut Ear::default()).expect("a report");
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].contains("20 % of a core's time"), "{:?}", report.notes);
}

#[test]
fn a_generator_that_is_too_slow_alone_is_noted() {
    let traffic = Traffic::bytes(64, Some(1000), 2000);
    let sent = Sent { intended: 2000, sent: 2000, offered: 2000, seconds: 2.5, ..Sent::default() };
    let slow = calibration(&traffic, &sent);
    assert_eq!((slow.offered_pps, slow.lost), (800.0, 0.0));
    assert!((slow.pace_error.expect("paced") - 0.2).abs() < 1e-12);
    assert!(doubt(&traffic, &slow).is_some_and(|note| note.contains("deviates from that rate by 20.0 %")));
    let lossy = calibration(&traffic, &Sent { offered: 1000, seconds: 2.0, ..sent });
    assert!(doubt(&traffic, &lossy).is_some_and(|note| note.contains("50.00 % of the frames")));
}

#[test]
fn searches_ask_the_same_runner() {
    let (mut runner, mut ear) = (roomy(), Ear { looks_max: Some(2), ..Ear::default() });
    runner.free = 10 << 30;
    let mut finder = Finder::new(&mut runner, &mut ear, 2);
    let (size, setting) = (Size::Bytes(936), Setting::default());
    let workload = Workload { rival: "other", size: &size, pps: Some(1000), count: 500, setting: &setting };
    finder.about("other, 936 B: trial 1");
    assert_eq!(finder.max_pps(&size).expect("a rate"), 2e6);
    assert_eq!(finder.max_pps(&size).expect("it is known"), 2e6);
    assert_eq!(finder.measure(&workload).expect("a run").offered, 500);
    // 9 GiB for frames of 936 bytes, each plus 64.
    let most = finder.frames_max(&size, &setting).expect("a disk has an end");
    assert!((9_600_000..9_700_000).contains(&most), "{most}");
    assert_eq!(finder.frames_max(&size, &Setting { output: Output::Null, ..Setting::default() }), None);
    let zlib = Setting { compression: 6, ..Setting::default() };
    let error = finder.measure(&Workload { setting: &zlib, ..workload }).expect_err("it cannot");
    assert!(error.to_string().contains("other does not compress"), "{error}");
    assert!(matches!(finder.measure(&workload), Err(Error::Interrupted)), "the third look says no");
    assert_eq!((runner.nulls, runner.ran.len()), (1, 1));
    assert_eq!(
        ear.stages[..2],
        ["the generator sends without a capturer", "search 1 of 2: other, 936 B: trial 1 starts"]
    );
}
