//! Multiple Loss Ratio search (RFC 9971): highest loads under several goals at once, out of trials of which a
//! share may be lossy, with short trials where they are enough.
//!
//! The caller is the Manager and the Measurer: it states [`Input`], measures what [`Controller::next`] asks
//! for, and reports the [`GoalResult`]s with all that was configured. What the RFC leaves to the
//! implementation is decided here so: goals are searched in their order; before each come coarser targets
//! (shorter trials, twice the width); smaller loads are measured first; without a bound on one side the load
//! moves by steps that double.

mod classify;
mod select;

pub use classify::{Bound, classify, conditional_throughput};

use super::{Bounds, Measured, Search, Trial};

/// What a load has to stand ("Search Goal").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// A trial at least this long is of full length, s; above 0 ("Goal Final Trial Duration").
    pub final_s: f64,
    /// So much time of full-length trials decides in any case, s; above 0 ("Goal Duration Sum").
    pub duration_sum_s: f64,
    /// A trial that lost more is a high-loss one, 0 to below 1 ("Goal Loss Ratio").
    pub loss_ratio: f64,
    /// The share of time that high-loss trials may have, 0 to below 1 ("Goal Exceed Ratio").
    pub exceed_ratio: f64,
    /// Trials of the coarsest target are this long, s ("Goal Initial Trial Duration").
    pub initial_s: f64,
    /// (upper − lower) / upper at which the goal is reached; above 0 ("Goal Width").
    pub width: f64,
}

/// What a search is given ("Controller Input").
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The goals, in the order in which they are searched.
    pub goals: Vec<Goal>,
    /// The lowest load worth a trial, frames/s; at least one frame in the shortest trial.
    pub min: f64,
    /// The highest load that can be offered, frames/s.
    pub max: f64,
    /// Where to begin, frames/s: the forwarding rate at the maximum offered load, where it is known (RFC 2285
    /// §3.6.2). `None`: at the highest load.
    pub start: Option<f64>,
    /// Coarser targets before each goal: each has trials between the initial and the final length.
    pub preceding: u32,
    /// More trials than this are not made; the results are irregular then.
    pub trials_max: usize,
}

/// What was found for a goal ("Goal Result").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoalResult {
    /// The relevant bounds. Without an upper one the highest load has met the goal, and a higher one was not
    /// to be had; without a lower one the lowest load has failed it.
    pub bounds: Bounds,
    /// A typical forwarding rate at the lower bound, frames/s.
    pub conditional_throughput: Option<f64>,
    /// Both bounds exist and are as close as the goal wants. If not, the result is irregular and has to be
    /// marked so wherever it is shown.
    pub regular: bool,
}

/// The search ("Controller").
#[derive(Debug, Clone)]
pub struct Controller {
    input: Input,
    results: Vec<Measured>,
}

impl Goal {
    /// What RFC 2544 §24 wants of a throughput.
    pub const RFC2544: Self = Self {
        final_s: 60.0,
        duration_sum_s: 60.0,
        loss_ratio: 0.0,
        exceed_ratio: 0.0,
        initial_s: 60.0,
        width: 0.005,
    };

    /// Binary search with loss verification, two trials (ETSI GS NFV-TST 009 §12.3.3).
    pub const TST009: Self = Self { duration_sum_s: 120.0, exceed_ratio: 0.5, ..Self::RFC2544 };

    fn is_full(&self, trial: &Measured) -> bool {
        trial.trial.seconds >= self.final_s
    }

    /// The goal itself behind `preceding` coarser ones: lengths grow by equal ratios, widths halve.
    fn targets(&self, preceding: u32) -> Vec<Self> {
        let growth = (self.initial_s / self.final_s).min(1.0);
        let coarser = |before: u32| {
            let share = growth.powf(f64::from(before) / f64::from(preceding.max(1)));
            let width = (self.width * 2f64.powi(before as i32)).min(0.5);
            let final_s = if before == 0 { self.final_s } else { self.final_s * share };
            // One trial decides; what it got wrong shows at the goal itself.
            let duration_sum_s = if before == 0 { self.duration_sum_s } else { final_s };
            Self { final_s, duration_sum_s, width, ..*self }
        };
        (0..=preceding).rev().map(coarser).collect()
    }
}

impl Controller {
    /// One that has not begun.
    pub fn new(input: Input) -> Self {
        Self { input, results: Vec::new() }
    }

    /// What is known for each goal, in their order.
    pub fn goal_results(&self) -> Vec<GoalResult> {
        self.input.goals.iter().map(|goal| self.goal_result(goal)).collect()
    }

    /// All trials, in the order of time.
    pub fn results(&self) -> &[Measured] {
        &self.results
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
