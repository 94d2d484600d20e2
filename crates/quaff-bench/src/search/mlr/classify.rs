//! Load classification and conditional throughput from the trials at one load, as in the appendices of RFC 9971.

use super::{Goal, Measured};
use crate::search::select::Bound;

/// Durations of the trials at one load for one goal, s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sums {
    pub(super) full_high_s: f64,
    pub(super) full_low_s: f64,
    pub(super) short_high_s: f64,
    pub(super) short_low_s: f64,
}

/// Values derived from [`Sums`], named as in RFC 9971's "Load Classification Logic".
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) balancing_s: f64,
    pub(super) positive_excess_s: f64,
    pub(super) effective_high_s: f64,
    pub(super) effective_full_s: f64,
    pub(super) effective_whole_s: f64,
    pub(super) missing_s: f64,
    pub(super) pessimistic_high_s: f64,
}

impl Sums {
    /// Sums of the trials at `load`.
    pub(super) fn of(goal: &Goal, load: f64, results: &[Measured]) -> Self {
        let mut sums = Self::default();
        for measured in results.iter().filter(|measured| measured.trial.load == load) {
            let sum = match (goal.is_full(measured), goal.is_lossy(measured)) {
                (true, true) => &mut sums.full_high_s,
                (true, false) => &mut sums.full_low_s,
                (false, true) => &mut sums.short_high_s,
                (false, false) => &mut sums.short_low_s,
            };
            *sum += measured.trial.seconds;
        }
        sums
    }

    pub(super) fn estimate(&self, goal: &Goal) -> Estimate {
        let balancing_s = self.short_low_s * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        let positive_excess_s = (self.short_high_s - balancing_s).max(0.0);
        let effective_high_s = self.full_high_s + positive_excess_s;
        let effective_full_s = self.full_low_s + effective_high_s;
        let effective_whole_s = effective_full_s.max(goal.duration_sum_s);
        Estimate {
            balancing_s,
            positive_excess_s,
            effective_high_s,
            effective_full_s,
            effective_whole_s,
            missing_s: effective_whole_s - effective_full_s,
            pessimistic_high_s: effective_whole_s - self.full_low_s,
        }
    }
}

impl Estimate {
    pub(super) fn bound(&self, goal: &Goal) -> Bound {
        let quantile_s = self.effective_whole_s * goal.exceed_ratio;
        let optimistic = self.effective_high_s <= quantile_s;
        let pessimistic = self.pessimistic_high_s <= quantile_s;
        match (optimistic, pessimistic) {
            (true, true) => Bound::Lower,
            (false, false) => Bound::Upper,
            _ => Bound::Undecided,
        }
    }
}

/// Classifies a load by the trials at it (RFC 9971, "Load Classification Code").
pub(super) fn classify(goal: &Goal, load: f64, results: &[Measured]) -> Bound {
    Sums::of(goal, load, results).estimate(goal).bound(goal)
}

/// A typical forwarding rate at `load`, frames/s (RFC 9971, "Conditional Throughput Code"); `None` without a
/// full-length trial.
pub(in crate::search) fn conditional_throughput(goal: &Goal, load: f64, results: &[Measured]) -> Option<f64> {
    let is_full = |measured: &&Measured| measured.trial.load == load && goal.is_full(measured);
    let mut full: Vec<_> = results.iter().filter(is_full).collect();
    full.sort_by(|one, other| one.loss.total_cmp(&other.loss));
    let full_s: f64 = full.iter().map(|measured| measured.trial.seconds).sum();
    let mut remaining_s = full_s.max(goal.duration_sum_s) * (1.0 - goal.exceed_ratio);
    let mut quantile_loss = None;
    for measured in full {
        if remaining_s <= 0.0 {
            break;
        }
        quantile_loss = Some(measured.loss);
        remaining_s -= measured.trial.seconds;
    }
    // Missing trials count as total loss.
    let loss = if remaining_s > 0.0 { 1.0 } else { quantile_loss? };
    quantile_loss.map(|_| load * (1.0 - loss))
}
