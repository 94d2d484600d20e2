//! Multiple Loss Ratio search (RFC 9971): the highest loads under several goals at once, with a tolerated share of lossy
//! trials, and with short trials where they are enough.
//!
//! The caller is the Manager and the Measurer: it sets [`Input`], makes the trials of [`Controller::next`], and reports
//! the [`GoalResult`]s. Choices that the RFC leaves to the implementation: goals are searched in their order; coarser
//! targets (shorter trials, twice the width) precede each; smaller loads are measured first; without a bound on one side
//! the load moves by steps that double.

mod classify;
mod select;

use classify::{Bound, classify, conditional_throughput};

use super::{Bounds, Measured, Search, Trial};

/// Criteria for a load ("Search Goal").
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// A trial at least this long is of full length, s; above 0 ("Goal Final Trial Duration").
    pub(crate) final_s: f64,
    /// Time of full-length trials that always decides, s; above 0 ("Goal Duration Sum").
    pub(crate) duration_sum_s: f64,
    /// A trial with more loss is a high-loss one, 0 to below 1 ("Goal Loss Ratio").
    pub(crate) loss_ratio: f64,
    /// Tolerated share of time of high-loss trials, 0 to below 1 ("Goal Exceed Ratio").
    pub(crate) exceed_ratio: f64,
    /// Length of trials of the coarsest target, s ("Goal Initial Trial Duration").
    pub(crate) initial_s: f64,
    /// (upper − lower) / upper at which the goal is reached; above 0 ("Goal Width").
    pub(crate) width: f64,
}

/// Parameters of a search ("Controller Input").
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// In the order of the search.
    pub(crate) goals: Vec<Goal>,
    /// The lowest load worth a trial, frames/s; at least one frame in the shortest trial.
    pub(crate) min: f64,
    /// The highest load that can be offered, frames/s.
    pub(crate) max: f64,
    /// The first load, frames/s: the forwarding rate at the maximum offered load, if known (RFC 2285 §3.6.2). `None`: the
    /// highest load.
    pub(crate) start: Option<f64>,
    /// Number of coarser targets before each goal, with trials between the initial and the final length.
    pub(crate) preceding: u32,
    /// Limit of trials; at the limit, results are irregular.
    pub(crate) trials_max: usize,
}

/// The result for a goal ("Goal Result").
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GoalResult {
    /// The relevant bounds. Without an upper one the highest load met the goal; without a lower one the lowest load failed
    /// it.
    pub(crate) bounds: Bounds,
    /// A typical forwarding rate at the lower bound, frames/s.
    pub(crate) conditional_throughput: Option<f64>,
    /// Both bounds exist and are close enough. Otherwise the result is irregular and must be marked so wherever it is
    /// shown.
    pub(crate) regular: bool,
}

/// The search ("Controller").
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    input: Input,
    results: Vec<Measured>,
}

impl Goal {
    fn is_full(&self, trial: &Measured) -> bool {
        trial.trial.seconds >= self.final_s
    }

    /// The goal after `preceding` coarser ones: lengths grow by equal ratios, widths halve.
    fn targets(&self, preceding: u32) -> Vec<Self> {
        let growth = (self.initial_s / self.final_s).min(1.0);
        let coarser = |before: u32| {
            let share = growth.powf(f64::from(before) / f64::from(preceding.max(1)));
            let width = (self.width * 2f64.powi(before as i32)).min(0.5);
            let final_s = if before == 0 { self.final_s } else { self.final_s * share };
            // One trial decides; its errors show at the goal itself.
            let duration_sum_s = if before == 0 { self.duration_sum_s } else { final_s };
            Self { final_s, duration_sum_s, width, ..*self }
        };
        (0..=preceding).rev().map(coarser).collect()
    }
}

impl Controller {
    pub(crate) fn new(input: Input) -> Self {
        Self { input, results: Vec::new() }
    }

    /// The results so far, in the order of the goals.
    pub(crate) fn goal_results(&self) -> Vec<GoalResult> {
        self.input.goals.iter().map(|goal| self.goal_result(goal)).collect()
    }

    fn goal_result(&self, goal: &Goal) -> GoalResult {
        let bounds = select::Seen::of(goal, &self.results).bounds();
        let throughput = |load: f64| {
            conditional_throughput(goal, load, self.results.iter().filter(|trial| trial.trial.load == load))
        };
        GoalResult {
            bounds,
            conditional_throughput: bounds.lower.and_then(throughput),
            regular: bounds.width().is_some_and(|width| width <= goal.width),
        }
    }
}

impl Search for Controller {
    fn next(&self) -> Option<Trial> {
        if self.results.len() >= self.input.trials_max {
            return None;
        }
        let mut hints: Vec<f64> = self.input.start.into_iter().collect();
        for goal in &self.input.goals {
            for target in goal.targets(self.input.preceding) {
                let seen = select::Seen::of(&target, &self.results);
                if let Some(load) = seen.next(&hints, self.input.min, self.input.max) {
                    return Some(Trial { load, seconds: target.final_s });
                }
                let bounds = seen.bounds();
                hints = bounds.lower.into_iter().chain(bounds.upper).collect();
            }
        }
        None
    }

    fn tell(&mut self, measured: Measured) {
        self.results.push(measured);
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
