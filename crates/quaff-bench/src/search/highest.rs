//! A search for the highest load that meets a goal, with two methods to select its trials.

use super::{Bounds, Measured, Search, Trial, binary, mlr};
use crate::experiment::Method;

/// RFC 9971: duration sum in units of a full-length trial: two trials, of which one may be lossy.
const DURATION_SUM: f64 = 2.0;
const EXCEED_RATIO: f64 = 0.5;
/// Number of coarser targets before the goal.
const PRECEDING: u32 = 1;
/// Safety limit: more trials than any converging search needs.
const TRIALS_MAX: usize = 100;

/// Criteria for a load ("Search Goal").
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// Minimum duration of a full-length trial, s; above 0 ("Goal Final Trial Duration"; RFC 2544 §24: 60 or more).
    pub(crate) final_s: f64,
    /// Total duration of full-length trials that always decides, s; above 0 ("Goal Duration Sum").
    pub(crate) duration_sum_s: f64,
    /// Loss ratio above which a trial is a high-loss one, 0 to below 1 ("Goal Loss Ratio"); 0 in RFC 2544.
    pub(crate) loss_ratio: f64,
    /// Tolerated share of the duration of high-loss trials, 0 to below 1 ("Goal Exceed Ratio").
    pub(crate) exceed_ratio: f64,
    /// Duration of the initial trials, s ("Goal Initial Trial Duration").
    pub(crate) initial_s: f64,
    /// (upper − lower) / upper at which the search ends; above 0 ("Goal Width").
    pub(crate) width: f64,
}

/// Parameters of a search ("Controller Input").
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    pub(crate) method: Method,
    pub(crate) goal: Goal,
    /// Lowest load worth a trial, frames/s; at least one frame in the shortest trial.
    pub(crate) min: f64,
    /// Highest load that can be offered, frames/s.
    pub(crate) max: f64,
    /// First load of [`Method::Mlr`], frames/s: the forwarding rate at the maximum offered load, if known (RFC 2285
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
    /// Maximum number of trials for [`Method::Mlr`]; a search that reaches it is irregular.
    pub(super) trials_max: usize,
}

impl Goal {
    /// The goal of a `method`: one or two lossy trials reject a load.
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

    /// The bounds so far; final once [`Search::next`] returns `None`. Without an upper bound the highest load met the
    /// goal;
    /// without a lower bound the lowest load failed it.
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
            // A load without loss forwards all frames.
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
