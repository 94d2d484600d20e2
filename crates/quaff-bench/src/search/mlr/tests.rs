//! Searches of systems with known limits.

use super::*;
use crate::experiment::Method;
use crate::search::{Bounds, Highest, Search};

const GOAL: Goal = Goal {
    final_s: 4.0,
    duration_sum_s: 8.0,
    loss_ratio: 0.0,
    exceed_ratio: 0.5,
    initial_s: 1.0,
    width: 0.02,
};

/// A search for `goal` that has not started.
fn controller(goal: Goal, start: Option<f64>) -> Highest {
    let input = Input { method: Method::Mlr, goal, min: 1000.0, max: 1_500_000.0, start };
    Highest { preceding: 2, trials_max: 500, ..Highest::new(input) }
}

/// Runs a search; `loss` gets each trial and its index.
fn search(mut search: Highest, mut loss: impl FnMut(Trial, usize) -> f64) -> Highest {
    let (min, max) = (search.input.min, search.input.max);
    while let Some(trial) = search.next() {
        assert!((min..=max).contains(&trial.load) && trial.load.fract() == 0.0, "{trial:?}");
        search.tell(trial, loss(trial, search.results.len()));
    }
    assert!(search.results.len() < search.trials_max, "it ends by itself");
    search
}

fn is_regular(search: &Highest) -> bool {
    search.bounds().are_close(GOAL.width)
}

/// A system that loses frames above `limit`.
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
            let found = search(controller(GOAL, start), hard(limit));
            let (lower, upper) =
                (found.bounds().lower.expect("a lower"), found.bounds().upper.expect("an upper"));
            assert!(lower <= limit && limit < upper && is_regular(&found), "{limit} {start:?}: {found:?}");
            assert!((upper - lower) / upper <= GOAL.width, "{limit}: {lower} to {upper}");
            assert_eq!(found.conditional_throughput(), Some(lower));
        }
    }
}

#[test]
fn a_good_start_saves_trials() {
    let trials = |start| search(controller(GOAL, start), hard(100_000.0)).results.len();
    assert!(trials(Some(101_000.0)) < trials(None), "{} {}", trials(Some(101_000.0)), trials(None));
    assert!(trials(Some(101_000.0)) <= 16, "{}", trials(Some(101_000.0)));
}

#[test]
fn the_highest_load_met_is_an_irregular_result() {
    let found = search(controller(GOAL, None), |_, _| 0.0);
    assert_eq!(found.bounds(), Bounds { lower: Some(1_500_000.0), upper: None });
    assert!(!is_regular(&found));
    // One trial per target: 1 s, 2 s and 4 s; one of two trials suffices at an exceed ratio of 0.5.
    let seconds: Vec<_> = found.results.iter().map(|measured| measured.trial.seconds).collect();
    assert_eq!(seconds, [1.0, 2.0, 4.0]);
}

#[test]
fn the_lowest_load_failed_is_an_irregular_result() {
    let result = search(controller(GOAL, None), |_, _| 0.1);
    assert_eq!(result.bounds(), Bounds { lower: None, upper: Some(1000.0) });
    assert_eq!((result.conditional_throughput(), is_regular(&result)), (None, false));
}

#[test]
fn a_result_rests_on_trials_of_full_length() {
    // A buffer hides in short trials a loss that long ones show.
    let loss = |trial: Trial, _| {
        let limit = if trial.seconds < 4.0 { 800_000.0 } else { 500_000.0 };
        (1.0 - limit / trial.load).max(0.0)
    };
    let found = search(controller(GOAL, None), loss);
    let (lower, upper) = (found.bounds().lower.expect("a lower"), found.bounds().upper.expect("an upper"));
    assert!(lower <= 500_000.0 && 500_000.0 < upper && is_regular(&found), "{found:?}");
    let full = |measured: &&Measured| measured.trial.load == lower && measured.trial.seconds >= GOAL.final_s;
    assert!(found.results.iter().any(|measured| full(&measured)));
}

#[test]
fn noise_that_strikes_rarely_is_tolerated() {
    // One trial in five loses frames at any load.
    let mut random = noise();
    let noisy = |trial: Trial, _| if random() < 0.2 { 0.01 } else { hard(700_000.0)(trial, 0) };
    let goal = Goal { duration_sum_s: 20.0, ..GOAL };
    let result = search(Highest { preceding: 0, ..controller(goal, Some(700_000.0)) }, noisy);
    let lower = result.bounds().lower.expect("a lower");
    assert!(lower > 650_000.0 && lower <= 700_000.0, "{result:?}");
    // With the same noise and no tolerated loss the result is arbitrarily low.
    let mut random = noise();
    let noisy = |trial: Trial, _| if random() < 0.2 { 0.01 } else { hard(700_000.0)(trial, 0) };
    let strict = Goal { exceed_ratio: 0.0, duration_sum_s: 20.0, ..GOAL };
    let result = search(Highest { preceding: 0, ..controller(strict, Some(700_000.0)) }, noisy);
    assert!(result.bounds().lower.is_none_or(|lower| lower < 650_000.0), "{result:?}");
}

#[test]
fn a_tolerated_loss_is_searched_for_and_its_rate_is_typical() {
    let partial = Goal { loss_ratio: 0.005, ..GOAL };
    // Low loss from 400 k on, high loss from 800 k on.
    let loss = |trial: Trial, _| match trial.load {
        load if load > 800_000.0 => 1.0 - 800_000.0 / load,
        load if load > 400_000.0 => 0.001,
        _ => 0.0,
    };
    let near = |found: Option<f64>, limit: f64| found.is_some_and(|load| (load / limit - 1.0).abs() < 0.03);
    let [none, some] = [GOAL, partial].map(|goal| search(controller(goal, None), loss));
    assert!(
        near(none.bounds().lower, 400_000.0) && near(some.bounds().lower, 804_000.0),
        "{none:?} {some:?}"
    );
    // The conditional throughput differs from the load.
    let throughput = some.conditional_throughput().expect("a rate");
    assert!(throughput <= 800_000.0 && throughput > 760_000.0, "{throughput}");
}

#[test]
fn an_upper_bound_below_outweighs_a_lower_bound_above() {
    // Loss inversion: 500 k fails, 600 k would not.
    let goal = Goal { exceed_ratio: 0.0, duration_sum_s: 4.0, ..GOAL };
    let mut controller = controller(goal, None);
    for (load, loss) in [(600_000.0, 0.0), (500_000.0, 0.1), (400_000.0, 0.0)] {
        controller.tell(Trial { load, seconds: 4.0 }, loss);
    }
    assert_eq!(controller.bounds(), Bounds { lower: Some(400_000.0), upper: Some(500_000.0) });
}

#[test]
fn a_search_that_is_cut_short_has_a_result() {
    let mut controller = Highest { trials_max: 3, ..controller(GOAL, None) };
    let ended = controller.run(|trial| Ok::<_, ()>(hard(1_400_000.0)(trial, 0)));
    assert_eq!(ended, Ok(()));
    assert_eq!(controller.results.len(), 3);
    assert!(!is_regular(&controller));
}

#[test]
fn an_error_ends_a_search_that_keeps_its_results() {
    let mut controller = controller(GOAL, None);
    let ended = controller.run(|trial| if trial.load < 1_000_000.0 { Err("gone") } else { Ok(0.9) });
    assert_eq!(ended, Err("gone"));
    assert!(!controller.results.is_empty() && controller.results.iter().all(|kept| kept.loss == 0.9));
    assert!(controller.next().is_some_and(|trial| trial.load < 1_000_000.0));
}

#[test]
fn bounds_that_are_far_apart_are_irregular() {
    let at = |load| Trial { load, seconds: 8.0 };
    let mut controller = controller(GOAL, None);
    controller.tell(at(500_000.0), 0.0);
    controller.tell(at(520_000.0), 0.1);
    assert_eq!(controller.bounds(), Bounds { lower: Some(500_000.0), upper: Some(520_000.0) });
    assert!(!is_regular(&controller));
    controller.tell(at(510_000.0), 0.0);
    assert!(is_regular(&controller));
}

#[test]
fn targets_grow_towards_the_goal() {
    let three = targets(&GOAL, 2);
    let shape: Vec<_> = three.iter().map(|goal| (goal.final_s, goal.duration_sum_s, goal.width)).collect();
    assert_eq!(shape, [(1.0, 1.0, 0.08), (2.0, 2.0, 0.04), (4.0, 8.0, 0.02)]);
    assert_eq!(three[2], GOAL);
    assert_eq!(targets(&GOAL, 0), [GOAL]);
}
