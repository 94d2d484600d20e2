//! Throughput by RFC 2544 §26.1: the fastest rate without loss, found by bisection between a rate that lost and one that
//! did not.
//!
//! Intermediate trials may be shorter, the last one at the result is not (§24). One lossy trial refutes a rate:
//! [`super::mlr`] is for noisier systems.

use super::{Bounds, Measured, Search, Trial};

/// Parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BinaryPlan {
    /// The lowest load worth a trial.
    pub(crate) min: f64,
    /// The highest load that can be offered.
    pub(crate) max: f64,
    /// Length of intermediate trials, s.
    pub(crate) seconds: f64,
    /// Length of the trial at the result, s: 60 or more by RFC 2544 §24.
    pub(crate) final_seconds: f64,
    /// Width at which the search ends: (upper − lower) / upper.
    pub(crate) width: f64,
    /// Tolerated loss: 0 by RFC 2544.
    pub(crate) loss: f64,
}

/// The search.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    plan: BinaryPlan,
    results: Vec<Measured>,
}

impl Binary {
    pub(crate) fn new(plan: BinaryPlan) -> Self {
        Self { plan, results: Vec::new() }
    }

    /// The bounds so far. `lower` is the result when [`Search::next`] returns `None`.
    pub(crate) fn bounds(&self) -> Bounds {
        let upper = self.loads(|measured| self.is_lossy(measured)).min_by(f64::total_cmp);
        let refuted = self.has_refuted();
        let below = |load: &f64| upper.is_none_or(|upper| *load < upper);
        let counts = |measured: &Measured| !refuted || self.is_full(measured);
        let lower = self.loads(counts).filter(below).max_by(f64::total_cmp);
        Bounds { lower, upper }
    }

    /// The load in the middle; `None` when the bounds are close enough.
    fn middle(&self, Bounds { lower, upper }: Bounds) -> Option<f64> {
        let Some(upper) = upper else { return lower.is_none().then_some(self.plan.max) };
        let middle = ((lower.unwrap_or(0.0) + upper) / 2.0).round().max(self.plan.min);
        let wide = (upper - lower.unwrap_or(0.0)) / upper > self.plan.width;
        (wide && middle < upper && lower.is_none_or(|lower| lower < middle)).then_some(middle)
    }

    /// Returns whether a load passed a short trial and failed a full one: short trials prove nothing then.
    fn has_refuted(&self) -> bool {
        let passed = |load| self.loads(|measured| !self.is_lossy(measured)).any(|passed| passed == load);
        self.loads(|measured| self.is_full(measured) && self.is_lossy(measured)).any(passed)
    }

    fn loads(&self, of: impl Fn(&Measured) -> bool) -> impl Iterator<Item = f64> {
        self.results.iter().filter(move |measured| of(measured)).map(|measured| measured.trial.load)
    }

    fn is_lossy(&self, measured: &Measured) -> bool {
        measured.loss > self.plan.loss
    }

    fn is_full(&self, measured: &Measured) -> bool {
        measured.trial.seconds >= self.plan.final_seconds
    }
}

impl Search for Binary {
    fn next(&self) -> Option<Trial> {
        let bounds = self.bounds();
        if let Some(load) = self.middle(bounds) {
            let BinaryPlan { seconds, final_seconds, .. } = self.plan;
            return Some(Trial { load, seconds: if self.has_refuted() { final_seconds } else { seconds } });
        }
        let load = bounds.lower?;
        let proven = self.loads(|measured| self.is_full(measured)).any(|proven| proven == load);
        (!proven).then_some(Trial { load, seconds: self.plan.final_seconds })
    }

    fn tell(&mut self, measured: Measured) {
        self.results.push(measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: BinaryPlan =
        BinaryPlan { min: 10.0, max: 1024.0, seconds: 1.0, final_seconds: 60.0, width: 0.01, loss: 0.0 };

    fn search(plan: BinaryPlan, loss: impl Fn(Trial) -> f64) -> Binary {
        let mut search = Binary::new(plan);
        while let Some(trial) = search.next() {
            assert!(trial.load >= plan.min && trial.load <= plan.max, "{trial:?}");
            search.tell(Measured::new(trial, loss(trial)));
            assert!(search.results.len() < 100, "it ends");
        }
        search
    }

    #[test]
    fn each_trial_halves_the_range() {
        let found = search(PLAN, |trial| if trial.load > 700.0 { 0.1 } else { 0.0 });
        let loads: Vec<_> = found.results.iter().map(|measured| measured.trial.load).collect();
        assert_eq!(loads, [1024.0, 512.0, 768.0, 640.0, 704.0, 672.0, 688.0, 696.0, 700.0, 700.0]);
        assert_eq!(found.bounds(), Bounds { lower: Some(700.0), upper: Some(704.0) });
        // Only the last one is of full length.
        assert_eq!(found.results.iter().filter(|measured| measured.trial.seconds == 60.0).count(), 1);
    }

    #[test]
    fn the_highest_load_needs_a_full_trial_too() {
        let found = search(PLAN, |_| 0.0);
        assert_eq!(found.bounds(), Bounds { lower: Some(1024.0), upper: None });
        let seconds: Vec<_> = found.results.iter().map(|measured| measured.trial.seconds).collect();
        assert_eq!(seconds, [1.0, 60.0]);
    }

    #[test]
    fn a_rate_refuted_by_a_full_trial_is_searched_below() {
        // A buffer hides for a second what a minute shows.
        let loss = |trial: Trial| {
            let limit = if trial.seconds < 60.0 { 700.0 } else { 500.0 };
            if trial.load > limit { 0.1 } else { 0.0 }
        };
        let found = search(PLAN, loss);
        let Bounds { lower: Some(lower), upper: Some(upper) } = found.bounds() else { panic!("bounds") };
        assert!(lower <= 500.0 && upper > 500.0 && (upper - lower) / upper <= PLAN.width, "{lower} {upper}");
        // The bisection restarts from the refuted rate; it does not creep down.
        assert!(found.results.len() <= 20, "{} trials", found.results.len());
        let last = found.results.last().expect("a trial");
        assert_eq!((last.trial.load, last.trial.seconds, last.loss), (lower, 60.0, 0.0));
    }

    #[test]
    fn constant_loss_is_no_throughput() {
        let found = search(PLAN, |_| 0.001);
        assert_eq!(found.bounds(), Bounds { lower: None, upper: Some(10.0) });
    }

    #[test]
    fn loss_up_to_the_goal_is_none() {
        let found =
            search(BinaryPlan { loss: 0.005, ..PLAN }, |trial| if trial.load > 100.0 { 0.005 } else { 0.0 });
        assert_eq!(found.bounds(), Bounds { lower: Some(1024.0), upper: None });
    }
}
