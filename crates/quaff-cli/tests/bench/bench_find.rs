//! Searches in a real lab: coarse and short, since what is looked at is that they end, add up and clean up,
//! not how fast this machine is.

use quaff_bench::bench::plan::{Find, Method, Plan, Wanted};
use quaff_bench::bench::result::{LimitedBy, Report};
use quaff_bench::bench::{Context, Events, run};
use quaff_bench::experiment;
use quaff_lab::tool;
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::path::Path;

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
/// s.
const TRIAL: f64 = 0.3;
/// Some 3 Mpps of 512-byte frames for the longest trial.
const ROOM_BYTES: u64 = 2 << 30;

/// Interrupts after a number of stages, or never.
struct Watcher {
    stages_max: usize,
    stages: Vec<String>,
}

impl Events for Watcher {}

impl experiment::Events<Report> for Watcher {
    fn stage(&mut self, what: &str) {
        self.stages.push(what.to_owned());
    }

    fn continues(&mut self) -> bool {
        self.stages.len() < self.stages_max
    }
}

fn find(what: Wanted) -> Find {
    Find {
        what,
        method: Method::Mlr,
        sizes: vec![Size::Bytes(512)],
        setting: Setting::default(),
        rivals: Vec::new(),
        seconds: TRIAL,
        goal_loss: 0.0,
        width: 0.1,
        repeats: Some(1),
    }
}

/// Runs searches; `None` after a skip.
fn found(test: &str, names: &[&str], finds: Vec<Find>, watcher: &mut Watcher) -> Option<Report> {
    testing::lab(test)?;
    if !testing::space(test, Path::new("/var/tmp"), ROOM_BYTES) {
        return None;
    }
    let plan = serde_json::json!({ "name": "test", "title": "A test", "rivals": names });
    let mut plan: Plan = serde_json::from_value(plan).expect("a plan");
    plan.finds = finds;
    let context = Context {
        quaff: QUAFF.into(),
        dir: Some("/var/tmp".into()),
        command: Vec::new(),
        rivals: tool::shipped(Path::new(QUAFF)),
    };
    Some(run(&plan, &context, watcher).expect("it runs"))
}

#[test]
fn a_highest_rate_is_bracketed_by_trials() {
    let mut watcher = Watcher { stages_max: usize::MAX, stages: Vec::new() };
    let finds = vec![Find { repeats: Some(2), width: 0.3, ..find(Wanted::Max) }];
    let Some(report) = found(test_name!(), &["quaff"], finds, &mut watcher) else {
        return;
    };
    let search = &report.searches[0];
    assert!(search.max_pps > 1000.0 && search.trials.len() > 1, "{search:?}");
    assert!(search.trials.iter().all(|trial| trial.offered_pps > 0.0 && (0.0..=1.0).contains(&trial.loss)));
    if let Some(lower) = search.lower_pps {
        let proof = |trial: &&quaff_bench::bench::result::TrialRow| {
            trial.loss == 0.0 && trial.offered_pps >= lower * 0.97
        };
        assert!(search.trials.iter().any(|trial| proof(&trial)), "{search:?}");
        assert!(search.upper_pps.is_none_or(|upper| upper > lower), "{search:?}");
    }
    if search.upper_pps.is_none() {
        assert_eq!(search.limited_by, LimitedBy::Generator, "{search:?}");
    }
    assert!(search.again.is_some() && !search.trials_again.is_empty(), "{search:?}");
    assert!(watcher.stages.iter().any(|stage| stage.contains("quaff, 512 B, highest rate, trial 2")));
}

#[test]
fn bursts_and_curves_are_measured() {
    let mut watcher = Watcher { stages_max: usize::MAX, stages: Vec::new() };
    let finds = vec![find(Wanted::Burst), find(Wanted::Curve)];
    let Some(report) = found(test_name!(), &["quaff"], finds, &mut watcher) else {
        return;
    };
    let burst = &report.bursts[0];
    assert_eq!(burst.frames.len(), 1);
    assert!(burst.frames[0] <= burst.frames_max && burst.pps > 1000.0, "{burst:?}");
    let rates: Vec<_> = report.cases.iter().map(|case| case.pps).collect();
    assert!(rates.len() >= 3 && rates[0].is_none(), "{rates:?}");
    assert!(rates.windows(2).skip(1).all(|pair| pair[0] > pair[1]), "{rates:?}");
    assert!(report.cases.iter().all(|case| case.loss_median.is_some() && case.runs[0].offered > 0));
}

#[test]
fn an_interrupted_search_keeps_its_trials() {
    let test = test_name!();
    let mut watcher = Watcher { stages_max: 60, stages: Vec::new() };
    let Some(report) = found(test, &["quaff"], vec![find(Wanted::Max)], &mut watcher) else { return };
    assert!(report.interrupted);
    let search = &report.searches[0];
    assert!(search.notes.iter().any(|note| note.contains("interrupted")), "{search:?}");
}
