//! Whole plans on a simulated path: order, notes, errors, interruption.

use super::*;
use crate::experiment::FORMAT;
use crate::service::plan::{Test, Ways};
use crate::service::prober::Over;
use crate::service::sim::{Sim, Watcher, plan, quiet, service, services_plan};

fn all_five() -> Plan {
    let sizes = || vec![64, 1518];
    plan(
        Vec::new(),
        vec![
            Test::Throughput { sizes: sizes(), method: Default::default(), seconds: 2.0, width: 0.02 },
            Test::Latency { sizes: sizes(), seconds: 1.0, repeats: 2 },
            Test::FrameLoss { sizes: sizes(), seconds: 1.0, step: 0.1 },
            Test::BackToBack { sizes: sizes(), seconds: 0.2, repeats: 2 },
            Test::Recovery { sizes: sizes(), seconds: 2.0, repeats: 1 },
        ],
    )
}

fn ran(plan: &Plan, sim: &mut Sim, watcher: &mut Watcher) -> Report {
    run_over(plan, &Context::default(), sim, watcher).expect("measured")
}

#[test]
fn all_of_a_plan_is_in_its_report() {
    let mut plan = all_five();
    plan.ways = Ways::Both;
    let mut watcher = quiet();
    let report = ran(&plan, &mut Sim::default(), &mut watcher);
    assert_eq!((report.format, report.interrupted, report.passed), (FORMAT, false, None));
    assert!(report.null.is_some());
    let rows =
        [report.throughput.len(), report.latency.len(), report.back_to_back.len(), report.recovery.len()];
    assert_eq!(rows, [4; 4], "two sizes, two ways");
    assert!(report.frame_loss.len() >= 8);
    // Notes of the prober, and clocks of the timestamps.
    assert!(report.notes.contains(&"A path in numbers.".into()));
    assert_eq!(report.machine.facts["time of arrival"], "kernel");
    // Shown after each test and at the end; the remaining time falls to zero.
    assert_eq!(watcher.shown, 6);
    assert!(watcher.began_s.is_some_and(|seconds| seconds > 10.0));
    assert!(watcher.left_s.last() < watcher.left_s.first());
    // Reading restores what was written.
    let text = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report);
}

#[test]
fn a_verdict_is_that_of_all_checks() {
    let services = || vec![service("A", 2.0)];
    let tests = || vec![Test::Performance { seconds: 2.0 }];
    let report = ran(&services_plan(services(), tests()), &mut Sim::default(), &mut quiet());
    assert_eq!(report.passed, Some(true));
    // Half of a performance test has no verdict.
    let mut watcher = Watcher { ends_in: Some(3), ..Watcher::default() };
    let report = ran(&services_plan(services(), tests()), &mut Sim::default(), &mut watcher);
    assert_eq!((report.performance.len(), report.interrupted, report.passed), (1, true, None));
    let mut lossy = Sim { loses_every: Some(20), ..Sim::default() };
    let report = ran(&services_plan(services(), tests()), &mut lossy, &mut quiet());
    assert_eq!(report.passed, Some(false));
}

#[test]
fn a_path_that_passes_nothing_is_not_measured() {
    let mut plan = all_five();
    let mut one_way = Sim { is_one_way: true, ..Sim::default() };
    // One direction works.
    ran(&plan, &mut one_way.clone(), &mut quiet());
    plan.ways = Ways::Both;
    let error = run_over(&plan, &Context::default(), &mut one_way, &mut quiet()).expect_err("no way back");
    assert!(error.to_string().contains("back") && !error.to_string().contains("there"), "{error}");
    assert_eq!(one_way.asked.len(), 3);
}

#[test]
fn a_service_greets_with_its_own_tag() {
    let mut tagged = service("A", 2.0);
    tagged.vlan = Some((100, 5));
    let mut sim = Sim::default();
    ran(&services_plan(vec![tagged], vec![Test::Performance { seconds: 1.0 }]), &mut sim, &mut quiet());
    assert_eq!(sim.asked[0].there[0].vlan, Some((100, 5)));
}

#[test]
fn a_test_that_cannot_run_does_not_end_the_others() {
    let tests =
        vec![Test::Configuration { seconds: 1.0, steps: vec![1.0] }, Test::Performance { seconds: 1.0 }];
    let plan = services_plan(vec![service("A", 2.0)], tests);
    // Trials: the check of the path, the null delay, the first step.
    let report = ran(&plan, &mut Sim { fails_at: Some(2), ..Sim::default() }, &mut quiet());
    assert_eq!((report.configuration.len(), report.performance.len()), (0, 1));
    assert!(report.notes.iter().any(|note| note.contains("the interface is gone")), "{:?}", report.notes);
    // The judged checks passed, but not everything was judged.
    assert!(!report.performance[0].checks.is_empty() && report.unjudged.len() == 1);
    assert_eq!(report.passed, None);
    // Without any other result it is an error.
    let plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 1.0 }]);
    let mut sim = Sim { fails_at: Some(2), ..Sim::default() };
    let error = run_over(&plan, &Context::default(), &mut sim, &mut quiet()).expect_err("nothing measured");
    assert!(error.to_string().contains("gone"), "{error}");
}

#[test]
fn it_can_be_ended_in_any_trial() {
    let mut plan = all_five();
    plan.services = vec![service("A", 2.0)];
    plan.tests.push(Test::Configuration { seconds: 1.0, steps: vec![0.5, 1.0] });
    plan.tests.push(Test::Performance { seconds: 1.0 });
    let mut sim = Sim { forwards_pps: [600.0; 2], ..Sim::default() };
    let whole = ran(&plan, &mut sim, &mut quiet());
    assert!(!whole.interrupted);
    for trial in 1..=sim.asked.len() {
        let mut watcher = Watcher { ends_in: Some(trial), ..Watcher::default() };
        let report = ran(&plan, &mut Sim { asked: Vec::new(), ..sim.clone() }, &mut watcher);
        assert!(report.interrupted, "trial {trial}");
        assert_eq!(watcher.left_s.len(), trial, "no trial after the end");
        let measured = report.throughput.len() + report.latency.len() + report.configuration.len();
        assert!(trial < 20 || measured > 0, "trial {trial}: what was measured is kept");
    }
}

#[test]
fn a_plan_that_makes_no_sense_is_not_run() {
    let mut plan = all_five();
    plan.tests.clear();
    let mut sim = Sim::default();
    let error = run_over(&plan, &Context::default(), &mut sim, &mut quiet()).expect_err("no sense");
    assert!(error.to_string().contains("no tests"), "{error}");
    assert!(sim.asked.is_empty());
}

#[test]
fn pauses_stand_between_trials_and_end_with_an_interruption() {
    let mut plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 1.0 }]);
    plan.pause_s = 0.12;
    let begun = std::time::Instant::now();
    let mut sim = Sim::default();
    ran(&plan, &mut sim, &mut quiet());
    // Three trials, two pauses.
    assert_eq!(sim.asked.len(), 3);
    assert!(begun.elapsed().as_secs_f64() >= 0.24);
    plan.pause_s = 600.0;
    let mut watcher = Watcher { ends_in: Some(1), ..Watcher::default() };
    assert!(ran(&plan, &mut Sim::default(), &mut watcher).interrupted);
}

#[test]
fn links_that_say_nothing_are_taken_for_gigabit_ones() {
    let mut plan = services_plan(vec![service("A", 2.0)], vec![Test::Performance { seconds: 1.0 }]);
    plan.link_mbps = None;
    let report = ran(&plan, &mut Sim::default(), &mut quiet());
    assert!(report.notes.iter().any(|note| note.contains("1000 Mbit/s is assumed")), "{:?}", report.notes);
    let report = ran(&plan, &mut Sim { link_mbps: Some(10.0), ..Sim::default() }, &mut quiet());
    assert!(!report.notes.iter().any(|note| note.contains("is assumed")), "{:?}", report.notes);
}

#[test]
fn the_short_presets_run_from_end_to_end() {
    // A hundredth of the rates: the simulator counts each frame.
    for (name, ..) in Plan::PRESETS {
        let mut plan = Plan::preset(name, true).expect("a preset");
        plan.link_mbps = plan.link_mbps.map(|mbps| mbps / 100.0);
        for service in &mut plan.services {
            service.cir_mbps /= 100.0;
            service.eir_mbps /= 100.0;
            (service.cbs_bytes, service.ebs_bytes) = (service.cbs_bytes / 5, service.ebs_bytes / 5);
        }
        let mut sim = Sim::default();
        let report = ran(&plan, &mut sim, &mut quiet());
        assert!(report.passed != Some(false), "{name}: {report:?}");
        assert_eq!(
            report.performance.len(),
            if plan.services.is_empty() { 0 } else { plan.services.len() * plan.runs as usize }
        );
        assert!(sim.asked.iter().any(|ask| ask.over == Over::Null), "{name}");
    }
}
