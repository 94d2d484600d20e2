//! Searches for a highest load or a longest burst as state machines: `next` returns the next trial, `tell` takes its
//! result. No I/O, no clock, no knowledge of the system under test.
//!
//! ```text
//!    driver:  search.run(|trial| measure(trial)); next and tell for two searches at the same time
//!
//!    highest  binary  RFC 2544 §26.1: bisection between a lossy load and one without loss
//!             mlr     RFC 9971: short trials first, a share of lossy trials is tolerated
//!    curve    RFC 2544 §26.3: from the highest load downwards
//!    burst    RFC 2544 §26.4 and RFC 9004: the longest back-to-back burst
//! ```
//!
//! The next trial is computed from all results each time; there is no other state. Loads are whole frames/s at one
//! interface ("Trial Load", RFC 9971), times s, losses ratios, 0 to 1.

mod binary;
mod burst;
mod curve;
mod goal;
mod highest;
mod mlr;
mod select;

pub(crate) use burst::{Burst, BurstPlan, buffer_s};
pub(crate) use curve::Curve;
pub(crate) use goal::{Goal, Input};
pub(crate) use highest::Highest;

/// A trial to run ("Trial Input", RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    /// Frames/s.
    pub(crate) load: f64,
    pub(crate) seconds: f64,
}

/// The result of a trial ("Trial Result").
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    trial: Trial,
    /// Lost frames / offered frames, 0 to 1.
    loss: f64,
}

/// The bounds of a result.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Bounds {
    /// The highest load that met the goal, below `upper`.
    pub(crate) lower: Option<f64>,
    /// The lowest load that did not meet it; `None`: the highest possible load met it.
    pub(crate) upper: Option<f64>,
}

impl Bounds {
    /// (upper − lower) / upper; `None` without both bounds.
    fn width(&self) -> Option<f64> {
        Some((self.upper? - self.lower?) / self.upper?)
    }

    /// True if both exist and are as close as `width`. Otherwise the result is irregular (RFC 9971) and must be marked
    /// as such wherever it is shown.
    pub(crate) fn are_close(&self, width: f64) -> bool {
        self.width().is_some_and(|found| found <= width)
    }
}

/// A search over loads.
pub(crate) trait Search {
    /// The next trial; `None` at the end of the search.
    fn next(&self) -> Option<Trial>;
    /// Adds the result of a trial: lost frames / offered frames, 0 to 1.
    fn tell(&mut self, trial: Trial, loss: f64);

    /// Runs all trials; `measure` returns the loss of one. An error ends the search, which keeps its results.
    fn run<E>(&mut self, mut measure: impl FnMut(Trial) -> Result<f64, E>) -> Result<(), E> {
        while let Some(trial) = self.next() {
            self.tell(trial, measure(trial)?);
        }
        Ok(())
    }
}
