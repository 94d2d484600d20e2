//! A search for the highest load that meets a goal, with two methods to select its trials.

use super::goal::Input;
use super::{Bounds, Measured, Search, Trial, binary, mlr};
use crate::experiment::Method;

/// Number of coarser targets before the goal.
const PRECEDING: u32 = 1;
/// Safety limit: more trials than any converging search needs.
const TRIALS_MAX: usize = 100;

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
            Method::Mlr => {
                let Self { input, results, preceding, trials_max } = self;
                mlr::next(input, results, *preceding, *trials_max)
            }
            Method::Rfc2544 => binary::next(&self.input, &self.results),
        }
    }

    fn tell(&mut self, trial: Trial, loss: f64) {
        self.results.push(Measured { trial, loss });
    }
}
