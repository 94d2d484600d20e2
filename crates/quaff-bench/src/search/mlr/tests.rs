//! Searches of systems with known limits.

use super::*;

const GOAL: Goal = Goal {
    final_s: 4.0,
    duration_sum_s: 8.0,
    loss_ratio: 0.0,
    exceed_ratio: 0.5,
    initial_s: 1.0,
    width: 0.02,
};

fn input(goals: &[Goal]) -> Input {
    Input { goals: goals.to_vec(), min: 1000.0, max: 1_500_000.0, start: None, preceding: 2, trials_max: 500 }
}

/// Runs a search; `loss` takes the trial and the number of those before.
fn search(input: Input, mut loss: impl FnMut(Trial, usize) -> f64) -> Controller {
    let (min, max, trials_max) = (input.min, input.max, input.trials_max);
    let mut controller = Controller::new(input);
    while let Some(trial) = controller.next() {
        assert!((min..=max).contains(&trial.load) && trial.load.fract() == 0.0, "{trial:?}");
        let made = controller.results.len();
        controller.tell(Measured::new(trial, loss(trial, made)));
    }
    assert!(controller.results.len() < trials_max, "it ends by itself");
    controller
}

/// A system that loses all above `limit`.
fn hard(limit: f64) -> impl Fn(Trial, usize) -> f64 {
    move |trial, _| (1.0 - limit / trial.load).max(0.0)
}

/// Reproducible noise, 0 to 1 (xorshift, Marsaglia 2003).
fn noise() -> impl FnMut() -> f64 {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn a_hard_limit_is_found_to_the_width() {
    for limit in [1_001.0, 5_000.0, 123_456.0, 900_000.0, 1_499_999.0] {
        for start in [None, Some(limit), Some(2_000.0), Some(3_000_000.0)] {
            let found = search(Input { start, ..input(&[GOAL]) }, hard(limit)).goal_results()[0];
            let (lower, upper) =
                (found.bounds.lower.expect("a lower"), found.bounds.upper.expect("an upper"));
            assert!(lower <= limit && limit < upper && found.regular, "{limit} {start:?}: {found:?}");
            assert!((upper - lower) / upper <= GOAL.width, "{limit}: {lower} to {upper}");
            assert_eq!(found.conditional_throughput, Some(lower));
        }
    }
}

#[test]
fn a_good_start_saves_trials() {
    let trials = |start| search(Input { start, ..input(&[GOAL]) }, hard(100_000.0)).results.len();
    assert!(trials(Some(101_000.0)) < trials(None), "{} {}", trials(Some(101_000.0)), trials(None));
    assert!(trials(Some(101_000.0)) <= 16, "{}", trials(Some(101_000.0)));
}

#[test]
fn the_highest_load_met_is_an_irregular_result() {
    let found = search(input(&[GOAL]), |_, _| 0.0);
    let result = found.goal_results()[0];
    assert_eq!(result.bounds, Bounds { lower: Some(1_500_000.0), upper: None });
    assert!(!result.regular);
    // Each target once: 1 s, 2 s and 4 s; one of two trials is enough at an exceed ratio of a half.
    let seconds: Vec<_> = found.results.iter().map(|measured| measured.trial.seconds).collect();
    assert_eq!(seconds, [1.0, 2.0, 4.0]);
}

#[test]
fn the_lowest_load_failed_is_an_irregular_result() {
    let result = search(input(&[GOAL]), |_, _| 0.1).goal_results()[0];
    assert_eq!(result.bounds, Bounds { lower: None, upper: Some(1000.0) });
    assert_eq!((result.conditional_throughput, result.regular), (None, false));
}

#[test]
fn a_result_rests_on_trials_of_full_length() {
    // A buffer hides in short trials what long ones show.
    let loss = |trial: Trial, _| {
        let limit = if trial.seconds < 4.0 { 800_000.0 } else { 500_000.0 };
        (1.0 - limit / trial.load).max(0.0)
    };
    let found = search(input(&[GOAL]), loss);
    let result = found.goal_results()[0];
    let (lower, upper) = (result.bounds.lower.expect("a lower"), result.bounds.upper.expect("an upper"));
    assert!(lower <= 500_000.0 && 500_000.0 < upper && result.regular, "{result:?}");
    let full = |measured: &&Measured| measured.trial.load == lower && measured.trial.seconds >= GOAL.final_s;
    assert!(found.results.iter().any(|measured| full(&measured)));
}

#[test]
fn noise_that_strikes_rarely_is_tolerated() {
    // One trial in five loses something at any load.
    let mut random = noise();
    let noisy = |trial: Trial, _| if random() < 0.2 { 0.01 } else { hard(700_000.0)(trial, 0) };
    let goal = Goal { duration_sum_s: 20.0, ..GOAL };
    let result =
        search(Input { start: Some(700_000.0), preceding: 0, ..input(&[goal]) }, noisy).goal_results()[0];
    let lower = result.bounds.lower.expect("a lower");
    assert!(lower > 650_000.0 && lower <= 700_000.0, "{result:?}");
    // The same noise with no loss tolerated: the result is anywhere below.
    let mut random = noise();
    let noisy = |trial: Trial, _| if random() < 0.2 { 0.01 } else { hard(700_000.0)(trial, 0) };
    let strict = Goal { exceed_ratio: 0.0, duration_sum_s: 20.0, ..GOAL };
    let result =
        search(Input { start: Some(700_000.0), preceding: 0, ..input(&[strict]) }, noisy).goal_results()[0];
    assert!(result.bounds.lower.is_none_or(|lower| lower < 650_000.0), "{result:?}");
}

#[test]
fn several_goals_share_their_trials() {
    let partial = Goal { loss_ratio: 0.005, ..GOAL };
    // Loses a little from 400 k on, and much from 800 k on.
    let loss = |trial: Trial, _| match trial.load {
        load if load > 800_000.0 => 1.0 - 800_000.0 / load,
        load if load > 400_000.0 => 0.001,
        _ => 0.0,
    };
    let both = search(input(&[GOAL, partial]), loss);
    let [none, some] = both.goal_results()[..] else { panic!("two results") };
    let near = |found: Option<f64>, limit: f64| found.is_some_and(|load| (load / limit - 1.0).abs() < 0.03);
    assert!(near(none.bounds.lower, 400_000.0) && near(some.bounds.lower, 804_000.0), "{none:?} {some:?}");
    // A typical rate there, which is not the load.
    let throughput = some.conditional_throughput.expect("a rate");
    assert!(throughput <= 800_000.0 && throughput > 760_000.0, "{throughput}");
    let alone = |goal| search(input(&[goal]), loss).results.len();
    assert!(both.results.len() < alone(GOAL) + alone(partial));
}

#[test]
fn an_upper_bound_below_outweighs_a_lower_bound_above() {
    // Loss inversion: 500 k fails, 600 k would not.
    let goal = Goal { exceed_ratio: 0.0, duration_sum_s: 4.0, ..GOAL };
    let fails = Measured::new(Trial { load: 500_000.0, seconds: 4.0 }, 0.1);
    let meets = |load| Measured::new(Trial { load, seconds: 4.0 }, 0.0);
    let mut controller = Controller::new(input(&[goal]));
    for measured in [meets(600_000.0), fails, meets(400_000.0)] {
        controller.tell(measured);
    }
    let bounds = controller.goal_results()[0].bounds;
    assert_eq!(bounds, Bounds { lower: Some(400_000.0), upper: Some(500_000.0) });
}

#[test]
fn a_search_that_is_cut_short_has_a_result() {
    let mut controller = Controller::new(Input { trials_max: 3, ..input(&[GOAL]) });
    while let Some(trial) = controller.next() {
        controller.tell(Measured::new(trial, hard(1_400_000.0)(trial, 0)));
    }
    assert_eq!(controller.results.len(), 3);
    assert!(!controller.goal_results()[0].regular);
}

#[test]
fn bounds_that_are_far_apart_are_irregular() {
    let measured = |load, loss| Measured::new(Trial { load, seconds: 8.0 }, loss);
    let mut controller = Controller::new(input(&[GOAL]));
    controller.tell(measured(500_000.0, 0.0));
    controller.tell(measured(520_000.0, 0.1));
    let wide = controller.goal_results()[0];
    assert_eq!(wide.bounds, Bounds { lower: Some(500_000.0), upper: Some(520_000.0) });
    assert!(!wide.regular);
    controller.tell(measured(510_000.0, 0.0));
    assert!(controller.goal_results()[0].regular);
}

#[test]
fn targets_grow_towards_the_goal() {
    let targets = GOAL.targets(2);
    let shape: Vec<_> = targets.iter().map(|goal| (goal.final_s, goal.duration_sum_s, goal.width)).collect();
    assert_eq!(shape, [(1.0, 1.0, 0.08), (2.0, 2.0, 0.04), (4.0, 8.0, 0.02)]);
    assert_eq!(targets[2], GOAL);
    assert_eq!(GOAL.targets(0), [GOAL]);
}
