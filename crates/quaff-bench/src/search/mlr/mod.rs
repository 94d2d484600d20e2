//! Multiple Loss Ratio search (RFC 9971): the highest load that meets a goal, which tolerates a share of lossy trials;
//! short trials are used where they suffice.
//!
//! The caller of [`super::Highest`] is the Manager and the Measurer. Choices that the RFC leaves to the implementation:
//! coarser targets (shorter trials, twice the width) precede the goal; smaller loads are measured first; without a
//! bound on one side the load moves in doubling steps.

mod classify;

pub(super) use classify::conditional_throughput;

use super::select::{Range, Seen};
use super::{Goal, Input, Measured, Trial};
use classify::classify;

/// The next trial; `None` at the end of the search, and after `trials_max` trials.
pub(super) fn next(input: &Input, results: &[Measured], preceding: u32, trials_max: usize) -> Option<Trial> {
    if results.len() >= trials_max {
        return None;
    }
    let mut hints: Vec<f64> = input.start.into_iter().collect();
    for target in targets(&input.goal, preceding) {
        let seen = seen(&target, results);
        let range = Range { min: input.min, max: input.max, width: target.width };
        if let Some(load) = seen.next(&hints, &range) {
            return Some(Trial { load, seconds: target.final_s });
        }
        let bounds = seen.bounds();
        hints = bounds.lower.into_iter().chain(bounds.upper).collect();
    }
    None
}

/// All tried loads, classified for a target.
pub(super) fn seen(target: &Goal, results: &[Measured]) -> Seen {
    Seen::of(results.iter().map(|measured| measured.trial.load), |load| classify(target, load, results))
}

/// The goal, preceded by `preceding` coarser ones: durations grow geometrically, widths halve.
fn targets(goal: &Goal, preceding: u32) -> Vec<Goal> {
    let growth = (goal.initial_s / goal.final_s).min(1.0);
    let coarser = |before: u32| {
        let share = growth.powf(f64::from(before) / f64::from(preceding.max(1)));
        let width = (goal.width * 2f64.powi(before as i32)).min(0.5);
        let final_s = if before == 0 { goal.final_s } else { goal.final_s * share };
        // One trial decides; an error is corrected at the goal itself.
        let duration_sum_s = if before == 0 { goal.duration_sum_s } else { final_s };
        Goal { final_s, duration_sum_s, width, ..*goal }
    };
    (0..=preceding).rev().map(coarser).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
