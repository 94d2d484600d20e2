//! Throughput by RFC 2544 §26.1: bisection between a rate that lost frames and one that did not.
//!
//! Intermediate trials may be shorter, the final one at the result may not (§24). One lossy trial refutes a rate;
//! [`super::mlr`] suits noisier systems.

use super::select::{Bound, Seen};
use super::{Bounds, Goal, Input, Measured, Trial};

/// The next trial; `None` at the end of the search.
pub(super) fn next(input: &Input, results: &[Measured]) -> Option<Trial> {
    let goal = &input.goal;
    let bounds = bounds(goal, results);
    if let Some(load) = middle(input, bounds) {
        let seconds = if has_refuted(goal, results) { goal.final_s } else { goal.initial_s };
        return Some(Trial { load, seconds });
    }
    let load = bounds.lower?;
    let is_proven = results.iter().any(|measured| measured.trial.load == load && goal.is_full(measured));
    (!is_proven).then_some(Trial { load, seconds: goal.final_s })
}

/// The bounds so far.
pub(super) fn bounds(goal: &Goal, results: &[Measured]) -> Bounds {
    let refuted = has_refuted(goal, results);
    let class = |load: f64| {
        let mut here = results.iter().filter(|measured| measured.trial.load == load);
        if here.clone().any(|measured| goal.is_lossy(measured)) {
            Bound::Upper
        } else if !refuted || here.any(|measured| goal.is_full(measured)) {
            Bound::Lower
        } else {
            Bound::Undecided
        }
    };
    Seen::of(results.iter().map(|measured| measured.trial.load), class).bounds()
}

/// The load in the middle; `None` if the bounds are close enough.
fn middle(input: &Input, Bounds { lower, upper }: Bounds) -> Option<f64> {
    let Some(upper) = upper else { return lower.is_none().then_some(input.max) };
    let middle = ((lower.unwrap_or(0.0) + upper) / 2.0).round().max(input.min);
    let wide = (upper - lower.unwrap_or(0.0)) / upper > input.goal.width;
    (wide && middle < upper && lower.is_none_or(|lower| lower < middle)).then_some(middle)
}

/// True if a load passed a short trial and failed a full one: short trials prove nothing then.
fn has_refuted(goal: &Goal, results: &[Measured]) -> bool {
    let mut failed = results.iter().filter(|measured| goal.is_full(measured) && goal.is_lossy(measured));
    let passed =
        |load: f64| results.iter().any(|measured| measured.trial.load == load && !goal.is_lossy(measured));
    failed.any(|measured| passed(measured.trial.load))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Method;
    use crate::search::{Highest, Search};

    const WIDTH: f64 = 0.01;

    fn search(loss_ratio: f64, loss: impl Fn(Trial) -> f64) -> Highest {
        let method = Method::Rfc2544;
        let goal = Goal::new(method, 60.0, 1.0, loss_ratio, WIDTH);
        let mut search = Highest::new(Input { method, goal, min: 10.0, max: 1024.0, start: None });
        while let Some(trial) = search.next() {
            assert!((10.0..=1024.0).contains(&trial.load), "{trial:?}");
            search.tell(trial, loss(trial));
            assert!(search.results.len() < 100, "it ends");
        }
        search
    }

    #[test]
    fn each_trial_halves_the_range() {
        let found = search(0.0, |trial| if trial.load > 700.0 { 0.1 } else { 0.0 });
        let loads: Vec<_> = found.results.iter().map(|measured| measured.trial.load).collect();
        assert_eq!(loads, [1024.0, 512.0, 768.0, 640.0, 704.0, 672.0, 688.0, 696.0, 700.0, 700.0]);
        assert_eq!(found.bounds(), Bounds { lower: Some(700.0), upper: Some(704.0) });
        // Only the final trial has full length.
        assert_eq!(found.results.iter().filter(|measured| measured.trial.seconds == 60.0).count(), 1);
    }

    #[test]
    fn the_highest_load_needs_a_full_trial_too() {
        let found = search(0.0, |_| 0.0);
        assert_eq!(found.bounds(), Bounds { lower: Some(1024.0), upper: None });
        let seconds: Vec<_> = found.results.iter().map(|measured| measured.trial.seconds).collect();
        assert_eq!(seconds, [1.0, 60.0]);
    }

    #[test]
    fn a_rate_refuted_by_a_full_trial_is_searched_below() {
        // A buffer hides for a second a loss that a minute shows.
        let loss = |trial: Trial| {
            let limit = if trial.seconds < 60.0 { 700.0 } else { 500.0 };
            if trial.load > limit { 0.1 } else { 0.0 }
        };
        let found = search(0.0, loss);
        let Bounds { lower: Some(lower), upper: Some(upper) } = found.bounds() else { panic!("bounds") };
        assert!(lower <= 500.0 && upper > 500.0 && (upper - lower) / upper <= WIDTH, "{lower} {upper}");
        // The bisection restarts from the refuted rate instead of descending in small steps.
        assert!(found.results.len() <= 20, "{} trials", found.results.len());
        let last = found.results.last().expect("a trial");
        assert_eq!((last.trial.load, last.trial.seconds, last.loss), (lower, 60.0, 0.0));
    }

    #[test]
    fn constant_loss_is_no_throughput() {
        let found = search(0.0, |_| 0.001);
        assert_eq!(found.bounds(), Bounds { lower: None, upper: Some(10.0) });
    }

    #[test]
    fn loss_up_to_the_goal_is_none() {
        let found = search(0.005, |trial| if trial.load > 100.0 { 0.005 } else { 0.0 });
        assert_eq!(found.bounds(), Bounds { lower: Some(1024.0), upper: None });
    }
}
