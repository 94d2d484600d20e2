//! The highest load that meets a goal: one search, two methods to select its trials.

use super::{Bounds, Measured, Search, Trial, binary, mlr};
use crate::experiment::Method;

/// RFC 9971: the time of full-length trials that decides, in units of their length: two, of which one may be lossy.
const DURATION_SUM: f64 = 2.0;
const EXCEED_RATIO: f64 = 0.5;
/// Coarser targets before the goal.
const PRECEDING: u32 = 1;
/// More trials than any search needs that makes headway.
const TRIALS_MAX: usize = 100;

/// Criteria for a load ("Search Goal").
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// A trial at least this long is of full length, s; above 0 ("Goal Final Trial Duration"; RFC 2544 §24: 60 or
    /// more).
    pub(crate) final_s: f64,
    /// Time of full-length trials that always decides, s; above 0 ("Goal Duration Sum").
    pub(crate) duration_sum_s: f64,
    /// A trial with more loss is a high-loss one, 0 to below 1 ("Goal Loss Ratio"); 0 by RFC 2544.
    pub(crate) loss_ratio: f64,
    /// Tolerated share of time of high-loss trials, 0 to below 1 ("Goal Exceed Ratio").
    pub(crate) exceed_ratio: f64,
    /// Length of the first trials, s ("Goal Initial Trial Duration").
    pub(crate) initial_s: f64,
    /// (upper − lower) / upper at which the goal is reached; above 0 ("Goal Width").
    pub(crate) width: f64,
}

/// Parameters of a search ("Controller Input").
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    pub(crate) method: Method,
    pub(crate) goal: Goal,
    /// The lowest load worth a trial, frames/s; at least one frame in the shortest trial.
    pub(crate) min: f64,
    /// The highest load that can be offered, frames/s.
    pub(crate) max: f64,
    /// The first load of [`Method::Mlr`], frames/s: the forwarding rate at the maximum offered load, if known (RFC 2285
    /// §3.6.2). `None`: the highest load.
    pub(crate) start: Option<f64>,
}

/// The search ("Controller").
#[derive(Debug, Clone)]
pub(crate) struct Highest {
    pub(super) input: Input,
    pub(super) results: Vec<Measured>,
    /// Number of coarser targets before the goal, with trials between the initial and the final length.
    pub(super) preceding: u32,
    /// Limit of trials by [`Method::Mlr`]; at the limit, results are irregular.
    pub(super) trials_max: usize,
}

impl Goal {
    /// The goal of a `method`: one lossy trial rejects a load, or two do.
    pub(crate) fn new(method: Method, final_s: f64, initial_s: f64, loss_ratio: f64, width: f64) -> Self {
        let (sum, exceed_ratio) = match method {
            Method::Mlr => (DURATION_SUM, EXCEED_RATIO),
            Method::Rfc2544 => (1.0, 0.0),
        };
        Self { final_s, duration_sum_s: final_s * sum, loss_ratio, exceed_ratio, initial_s, width }
    }

    pub(super) fn is_full(&self, measured: &Measured) -> bool {
        measured.trial.seconds >= self.final_s
    }

    pub(super) fn is_lossy(&self, measured: &Measured) -> bool {
        measured.loss > self.loss_ratio
    }
}

impl Highest {
    pub(crate) fn new(input: Input) -> Self {
        Self { input, results: Vec::new(), preceding: PRECEDING, trials_max: TRIALS_MAX }
    }

    /// The bounds so far; they are the result when [`Search::next`] returns `None`. Without an upper one the highest
    /// load met the goal; without a lower one the lowest load failed it.
    pub(crate) fn bounds(&self) -> Bounds {
        match self.input.method {
            Method::Mlr => mlr::seen(&self.input.goal, &self.results).bounds(),
            Method::Rfc2544 => binary::bounds(&self.input.goal, &self.results),
        }
    }

    /// A typical forwarding rate at the lower bound, frames/s ("Conditional Throughput", RFC 9971).
    pub(crate) fn conditional_throughput(&self) -> Option<f64> {
        let load = self.bounds().lower?;
        match self.input.method {
            Method::Mlr => mlr::conditional_throughput(&self.input.goal, load, &self.results),
            // Of a load without loss all frames are forwarded.
            Method::Rfc2544 => Some(load),
        }
    }
}

impl Search for Highest {
    fn next(&self) -> Option<Trial> {
        match self.input.method {
            Method::Mlr => mlr::next(self),
            Method::Rfc2544 => binary::next(&self.input, &self.results),
        }
    }

    fn tell(&mut self, trial: Trial, loss: f64) {
        self.results.push(Measured { trial, loss });
    }
}
