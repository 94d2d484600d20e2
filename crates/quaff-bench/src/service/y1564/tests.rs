//! The two Y.1564 tests on simulated paths. A line of 10 Mbit/s carries 1225 frames/s of 1000 B: 9.8 Mbit/s.

use super::{Kind, run};
use crate::service::plan::{Plan, Service, Test, Ways};
use crate::service::result::{Check, Report, Step, Way};
use crate::service::sim::{self, Sim, Watcher, quiet, service, services_plan};
use crate::service::test_context::TestContext;
use crate::{Error, Result};

const STEPS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

fn configuration() -> Vec<Test> {
    vec![Test::Configuration { seconds: 4.0, steps: STEPS.to_vec() }]
}

fn run_with(plan: &Plan, sim: &mut Sim, watcher: &mut Watcher) -> (Report, Vec<String>, Result<()>) {
    let mut report = sim::report(plan);
    let mut ctx = TestContext::new(plan, sim, watcher);
    let ended = plan.tests.iter().try_for_each(|test| run(test, &mut ctx, &mut report));
    let notes = ctx.notes.clone();
    (report, notes, ended)
}

fn steps(service: Service, sim: &mut Sim) -> (Vec<Step>, Vec<String>) {
    let (report, notes, ended) = run_with(&services_plan(vec![service], configuration()), sim, &mut quiet());
    ended.expect("measured");
    (report.body.configuration, notes)
}

fn failed(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|check| !check.passed).map(|check| check.what.as_str()).collect()
}

fn step<'s>(steps: &'s [Step], what: &str) -> &'s Step {
    steps.iter().find(|step| step.what == what).unwrap_or_else(|| panic!("no {what} in {steps:?}"))
}

/// CIR 2, EIR 1 Mbit/s, bursts of 10 and 5 frames.
fn profile() -> Service {
    Service { eir_mbps: 1.0, cbs_bytes: 10_000, ebs_bytes: 5_000, ..service("Video", 2.0) }
}

#[test]
fn a_path_that_polices_by_the_profile_passes_all_steps() {
    let mut sim = Sim { policer: Some((3.0, 15_000.0)), ..Sim::default() };
    let (steps, notes) = steps(profile(), &mut sim);
    let what: Vec<_> = steps.iter().map(|step| step.what.as_str()).collect();
    assert_eq!(what, ["CIR 25 %", "CIR 50 %", "CIR 75 %", "CIR", "CIR+EIR", "policing", "CBS", "EBS"]);
    for step in &steps {
        assert!(!step.checks.is_empty() && failed(&step.checks).is_empty(), "{step:?}");
    }
    assert_eq!(notes.iter().filter(|note| note.contains("Video")).count(), 0, "{notes:?}");
    // 2 + 1.25 × 1 Mbit/s were sent; 3 Mbit/s and a burst arrived.
    let policing = step(&steps, "policing");
    assert!((policing.figures.sent_mbps - 3.25).abs() < 0.01, "{policing:?}");
    assert!((policing.figures.received_mbps[1] - 3.03).abs() < 0.02, "{policing:?}");
    let judged: Vec<_> = step(&steps, "CIR").checks.iter().map(|check| check.what.as_str()).collect();
    assert_eq!(judged, ["IR", "FLR", "FTD", "FDV"]);
}

#[test]
fn a_path_that_does_not_police_fails_only_that() {
    let (steps_made, _) = steps(profile(), &mut Sim::default());
    let failed_steps: Vec<_> =
        steps_made.iter().filter(|step| !failed(&step.checks).is_empty()).map(|step| &step.what).collect();
    assert_eq!(failed_steps, ["policing"]);
    assert_eq!(failed(&step(&steps_made, "policing").checks), ["IR"]);
    // Without a policing requirement it is no fault.
    let unpoliced = Service { is_policed: false, ..profile() };
    let (steps_made, _) = steps(unpoliced, &mut Sim::default());
    assert!(steps_made.iter().all(|step| failed(&step.checks).is_empty()), "{steps_made:?}");
}

#[test]
fn a_path_that_polices_too_early_fails_the_rates() {
    // 1.7 of 2 Mbit/s, and bursts of five frames.
    let mut sim = Sim { policer: Some((1.7, 5_000.0)), ..Sim::default() };
    let (steps, _) = steps(profile(), &mut sim);
    for (what, wrong) in [
        ("CIR 25 %", &[][..]),
        ("CIR 75 %", &[]),
        ("CIR", &["IR", "FLR"]),
        ("CIR+EIR", &["IR"]),
        ("policing", &["IR"]),
        ("CBS", &["FLR"]),
        ("EBS", &["CBS"]),
    ] {
        assert_eq!(failed(&step(&steps, what).checks), wrong, "{what}");
    }
}

#[test]
fn an_overload_is_a_quarter_of_the_larger_rate() {
    let load = |cir: f64, eir: f64| {
        let service = Service { eir_mbps: eir, ..service("A", cir) };
        Kind::Policing.load(&service, 1.0, 1000.0).expect("a load").mbps
    };
    assert!((load(100.0, 40.0) - 150.0).abs() < 1e-9);
    assert!((load(100.0, 20.0) - 125.0).abs() < 1e-9);
    // An EIR below a fifth of the CIR: a quarter of the CIR.
    assert!((load(100.0, 10.0) - 135.0).abs() < 1e-9);
    assert!((load(100.0, 0.0) - 125.0).abs() < 1e-9);
    // 10 Mbit/s carry 9.8 Mbit/s of such frames.
    assert!(Kind::Cir(1.0).load(&service("A", 9.9), 1.0, 10.0).is_some());
    assert!(Kind::Policing.load(&service("A", 9.0), 1.0, 10.0).is_none());
}

#[test]
fn bursts_come_again_when_their_tokens_have() {
    let service = Service { cbs_bytes: 10_500, ..service("A", 2.0) };
    let load = Kind::Cbs.load(&service, 4.0, 10.0).expect("a load");
    // Ten frames in 8.16 ms, then 10 500 B at 2 Mbit/s in 42 ms plus 5 %: 52.26 ms, 76 times; limited to 50.
    assert_eq!(load.phases.len(), 100);
    assert_eq!(load.phases[1].length, crate::trial::Length::Frames(10));
    let crate::trial::Length::Seconds(pause_s) = load.phases[0].length else {
        panic!("{:?}", load.phases[0])
    };
    assert!((pause_s - 0.0441).abs() < 1e-9, "{pause_s}");
    // At least one, however short the step.
    assert_eq!(Kind::Cbs.load(&service, 0.01, 10.0).expect("a load").phases.len(), 2);
}

#[test]
fn a_rate_above_the_lines_is_not_tested() {
    let (steps, notes) = steps(service("Wide", 9.0), &mut Sim::default());
    assert_eq!(steps.len(), 4);
    assert!(notes.iter().any(|note| note.contains("Wide, policing: not tested")), "{notes:?}");
}

#[test]
fn a_rate_that_was_not_sent_is_not_passed() {
    // 2 Mbit/s are 250 frames/s; 200 can be sent: the steps up to 75 % were.
    let (steps, notes) = steps(service("A", 2.0), &mut Sim { generator_pps: 200.0, ..Sim::default() });
    assert!(!step(&steps, "CIR 75 %").checks.is_empty());
    assert!(step(&steps, "CIR").checks.is_empty() && step(&steps, "policing").checks.is_empty());
    assert!(notes.iter().any(|note| note.contains("is the limit; only what failed")), "{notes:?}");
    // A loss at a lower rate is still a loss.
    let mut lossy = Sim { generator_pps: 200.0, loses_every: Some(10), ..Sim::default() };
    let (steps, _) = steps_of(&mut lossy);
    assert_eq!(failed(&step(&steps, "CIR").checks), ["IR", "FLR"]);
}

fn steps_of(sim: &mut Sim) -> (Vec<Step>, Vec<String>) {
    steps(service("A", 2.0), sim)
}

#[test]
fn all_services_are_sent_at_once_and_judged_one_by_one() {
    let tight = Service { sizes: vec![64, 936], ..service("Data", 2.0) };
    let mut voice = service("Voice", 1.0);
    voice.limits.delay_ms = Some(0.05);
    let mut plan = services_plan(vec![voice, tight], vec![Test::Performance { seconds: 3.0 }]);
    (plan.ways, plan.runs) = (Ways::Both, 2);
    let mut sim = Sim::default();
    let mut watcher = quiet();
    let (report, _, ended) = run_with(&plan, &mut sim, &mut watcher);
    ended.expect("measured");
    assert_eq!(sim.asked.len(), 2);
    assert!(sim.asked.iter().all(|ask| ask.there.len() == 2 && ask.back.len() == 2 && ask.is_by_second));
    let mut ids: Vec<u16> =
        sim.asked[0].there.iter().chain(&sim.asked[0].back).map(|stream| stream.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4, "ids differ");
    let rows: Vec<_> = report
        .performance
        .iter()
        .map(|row| (row.run, row.service.as_str(), row.way, failed(&row.checks)))
        .collect();
    let run = |run| {
        [
            (run, "Voice", Way::There, vec!["FTD"]),
            (run, "Data", Way::There, vec![]),
            (run, "Voice", Way::Back, vec!["FTD"]),
            (run, "Data", Way::Back, vec![]),
        ]
    };
    assert_eq!(rows, [run(1), run(2)].concat());
    // 500 B on average, sent in turn, 2 Mbit/s.
    let data = &report.performance[1].figures;
    assert_eq!(data.sent, 1500);
    assert!((data.sent_mbps - 2.0).abs() < 0.01 && (data.received_mbps[0] - 2.0).abs() < 0.02, "{data:?}");
    assert_eq!((watcher.shown, report.passed), (2, Some(false)));
    assert!(
        watcher
            .lines
            .iter()
            .any(|line| line.what == "Voice, run 1, there, FTD" && line.passed == Some(false))
    );
}

#[test]
fn an_outage_of_twelve_seconds_is_twelve_seconds_of_unavailability() {
    let plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 40.0 }]);
    let mut sim = Sim { outage_s: Some([15.0, 27.0]), ..Sim::default() };
    let (report, _, ended) = run_with(&plan, &mut sim, &mut quiet());
    ended.expect("measured");
    let row = &report.performance[0];
    assert_eq!((row.figures.unavailable_s, row.figures.severely_errored_s), (12, 12));
    assert_eq!((row.figures.lost, row.figures.unavailable), (0, [3000, 3000]));
    assert!((row.figures.availability.expect("asked") - 0.7).abs() < 1e-12);
    assert_eq!(failed(&row.checks), ["AVAIL"]);
    // Nine seconds count as loss, not as unavailability.
    let mut sim = Sim { outage_s: Some([15.0, 24.0]), ..Sim::default() };
    let (report, ..) = run_with(&plan, &mut sim, &mut quiet());
    let row = &report.performance[0];
    assert_eq!((row.figures.unavailable_s, row.figures.lost), (0, 2250));
    assert_eq!(failed(&row.checks), ["FLR"]);
}

#[test]
fn a_dead_link_is_an_outage_and_no_pass() {
    let plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 40.0 }]);
    let mut sim = Sim { refuses_s: Some([15.0, 27.0]), ..Sim::default() };
    let (report, _, ended) = run_with(&plan, &mut sim, &mut quiet());
    ended.expect("measured");
    let row = &report.performance[0];
    assert_eq!((row.figures.unavailable_s, row.figures.unavailable), (12, [3000, 3000]));
    assert_eq!(failed(&row.checks), ["AVAIL"]);
    assert_eq!(report.passed, Some(false));
    // Until the end; and too short for an outage.
    for (refuses_s, wrong) in [([30.0, 50.0], "AVAIL"), ([15.0, 15.4], "FLR")] {
        let mut sim = Sim { refuses_s: Some(refuses_s), ..Sim::default() };
        let (report, ..) = run_with(&plan, &mut sim, &mut quiet());
        assert_eq!(failed(&report.performance[0].checks), [wrong], "{refuses_s:?}");
    }
}

#[test]
fn a_run_that_was_ended_early_is_kept() {
    let mut plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 10.0 }]);
    plan.runs = 3;
    let mut watcher = Watcher { ends_in: Some(2), ..Watcher::default() };
    let (report, _, ended) = run_with(&plan, &mut Sim::default(), &mut watcher);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    let seconds: Vec<_> = report.performance.iter().map(|row| row.seconds.len()).collect();
    assert_eq!(seconds, [10, 5]);
    assert!((report.performance[1].figures.sent_mbps - 2.0).abs() < 0.01);
    assert_eq!(watcher.shown, 2);
}

#[test]
fn a_queue_that_delivers_later_polices_all_the_same() {
    let of = |arrived_ns: [u64; 2]| {
        let total = crate::trial::Tally {
            received: 1625,
            received_bytes: 1625 * 996,
            arrived_ns,
            ..Default::default()
        };
        let stream = crate::trial::StreamReport { total, ..sim::no_stream(1) };
        crate::service::figures::most_mbps(&stream, 4.0)
    };
    // 13 Mbit in 4 s, or in the 5.2 s over which they arrived.
    assert!((of([0, 0]) - 3.25).abs() < 1e-9);
    assert!((of([1_000_000_000, 6_200_000_000]) - 2.5).abs() < 1e-9);
}

#[test]
fn an_overload_that_bursts_may_swallow_is_not_judged() {
    // 2.5 Mbit/s for 4 s; a burst of 250 kB is 0.5 Mbit/s.
    let service = Service { cbs_bytes: 250_000, ..service("A", 2.0) };
    let (steps, notes) = steps(service, &mut Sim::default());
    assert!(step(&steps, "policing").checks.iter().all(|check| check.limit.starts_with("at least")));
    assert!(notes.iter().any(|note| note.contains("policing was not judged")), "{notes:?}");
}

#[test]
fn a_step_that_only_the_instrument_spoilt_is_sent_again() {
    let tries = |slow_in: Vec<usize>| {
        let mut sim = Sim { generator_pps: 400.0, slow_in, ..Sim::default() };
        let (steps, _) = steps(service("A", 2.0), &mut sim);
        (steps.len(), step(&steps, "CIR").checks.len(), sim.asked.len())
    };
    assert_eq!(tries(vec![]), (5, 4, 5));
    assert_eq!(tries(vec![3]), (5, 4, 6));
    // The attempts are limited; then the step stays unjudged.
    assert_eq!(tries(vec![3, 4, 5]), (5, 0, 7));
}

#[test]
fn services_that_do_not_fit_are_noted() {
    let services = vec![service("A", 6.0), service("B", 6.0)];
    let plan = services_plan(services, vec![Test::Performance { seconds: 1.0 }]);
    let (_, notes, _) = run_with(&plan, &mut Sim::default(), &mut quiet());
    assert!(notes.iter().any(|note| note.contains("122 % of the line's rate")), "{notes:?}");
}
