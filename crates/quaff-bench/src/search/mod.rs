//! Searches for a highest load or a longest burst, as state machines: `next` returns the next trial, `tell` takes its
//! result. No I/O, no clock, and no knowledge of the system under test.
//!
//! ```text
//!    driver:  while let Some(trial) = search.next() { search.tell(measure(trial)) }
//!
//!    binary   RFC 2544 §26.1: between a load that lost and one that did not, the middle
//!    mlr      RFC 9971: several goals, short trials first, a share of lossy trials tolerated
//!    curve    RFC 2544 §26.3: from the highest load downwards
//!    burst    RFC 2544 §26.4 and RFC 9004: the longest burst of frames back to back
//! ```
//!
//! The next trial is computed from all results each time; there is no other state. Loads are whole frames per second at
//! one interface ("Trial Load", RFC 9971), times s, losses ratios, 0 to 1.

mod binary;
mod burst;
mod curve;
pub(crate) mod mlr;
mod step;

pub(crate) use binary::{Binary, BinaryPlan};
pub(crate) use burst::{Burst, BurstPlan, corrected_buffer_s};
pub(crate) use curve::Curve;

/// A trial to make ("Trial Input", RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    /// Frames/s.
    pub(crate) load: f64,
    pub(crate) seconds: f64,
}

/// The result of a trial ("Trial Result").
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) trial: Trial,
    /// Lost of offered, 0 to 1.
    pub(crate) loss: f64,
    /// Time that counts in sums of times, s ("Trial Effective Duration"); mostly the trial's own.
    pub(crate) effective_s: f64,
}

impl Measured {
    /// A trial that took as long as planned.
    pub(crate) fn new(trial: Trial, loss: f64) -> Self {
        Self { trial, loss, effective_s: trial.seconds }
    }
}

/// The two loads around a result.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Bounds {
    /// The highest load that met the goal, below `upper`.
    pub(crate) lower: Option<f64>,
    /// The lowest that did not; `None`: the highest possible load met it.
    pub(crate) upper: Option<f64>,
}

impl Bounds {
    /// (upper − lower) / upper; `None` when one of them is missing.
    pub(crate) fn width(&self) -> Option<f64> {
        Some((self.upper? - self.lower?) / self.upper?)
    }
}

/// A search over loads.
pub(crate) trait Search {
    /// The next trial; `None` at the end of the search.
    fn next(&self) -> Option<Trial>;
    /// Adds the result of a trial.
    fn tell(&mut self, measured: Measured);
}
