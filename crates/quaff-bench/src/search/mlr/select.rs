//! The next load under one target: the result of the target before, then a step. A load that is undecided moves no bound,
//! so that it is tried again.

use super::{Bound, Goal, classify};
use crate::search::step::{self, Known, Range};
use crate::search::{Bounds, Measured};

/// All loads that were tried, classified under a target.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    target: &'a Goal,
    /// Ascending.
    loads: Vec<Load>,
}

#[derive(Debug, Clone, Copy)]
struct Load {
    load: f64,
    bound: Bound,
}

impl<'a> Seen<'a> {
    pub(super) fn of(target: &'a Goal, results: &[Measured]) -> Self {
        let mut loads: Vec<f64> = results.iter().map(|measured| measured.trial.load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let seen = |load: f64| {
            let here = results.iter().filter(|measured| measured.trial.load == load);
            Load { load, bound: classify(target, here) }
        };
        Self { target, loads: loads.into_iter().map(seen).collect() }
    }

    /// The relevant bounds: the smallest upper one, and the largest lower one below it.
    pub(super) fn bounds(&self) -> Bounds {
        let upper = self.all(Bound::Upper).next();
        let lower = self.all(Bound::Lower).filter(|load| upper.is_none_or(|upper| *load < upper)).last();
        Bounds { lower, upper }
    }

    /// The next load; `None` when the bounds are close enough, or at the end of the range. `hints` ascend.
    pub(super) fn next(&self, hints: &[f64], min: f64, max: f64) -> Option<f64> {
        let bounds = self.bounds();
        let range = Range { min, max, width: self.target.width };
        if bounds.width().is_some_and(|width| width <= self.target.width) {
            return None;
        }
        self.hinted(hints, bounds, &range).or_else(|| {
            let count = |bound| self.all(bound).count();
            step::next(&Known { bounds, goods: count(Bound::Lower), bads: count(Bound::Upper) }, &range)
        })
    }

    /// The smallest load from the target before that this one has not decided.
    fn hinted(&self, hints: &[f64], bounds: Bounds, range: &Range) -> Option<f64> {
        let within = |hint: &f64| hint.round().clamp(range.min, range.max);
        hints.iter().map(within).find(|hint| is_open(*hint, bounds))
    }

    fn all(&self, bound: Bound) -> impl Iterator<Item = f64> + '_ {
        self.loads.iter().filter(move |load| load.bound == bound).map(|load| load.load)
    }
}

/// Returns whether the bounds leave a load undecided.
fn is_open(load: f64, bounds: Bounds) -> bool {
    bounds.lower.is_none_or(|lower| load > lower) && bounds.upper.is_none_or(|upper| load < upper)
}
