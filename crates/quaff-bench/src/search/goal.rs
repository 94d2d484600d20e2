//! The goal of a search for the highest load, and its parameters.

use super::Measured;
use crate::experiment::Method;

/// RFC 9971: duration sum in units of a full-length trial: two trials, of which one may be lossy.
const DURATION_SUM: f64 = 2.0;
const EXCEED_RATIO: f64 = 0.5;

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
