//! Searches for a highest load or a longest burst, as state machines: `next` says what to try, `tell` takes
//! what came of it. No I/O, no clock, and nothing of what is under test: a capturer or a forwarder, frames
//! lost on the way or never written.
//!
//! ```text
//!    driver:  while let Some(trial) = search.next() { search.tell(measure(trial)) }
//!
//!    binary   RFC 2544 §26.1: between a load that lost and one that did not, the middle
//!    mlr      RFC 9971: several goals, short trials first, a share of lossy trials tolerated
//!    curve    RFC 2544 §26.3: from the highest load downwards
//!    burst    RFC 2544 §26.4 and RFC 9004: how many frames back to back
//! ```
//!
//! What comes next is worked out each time from all that was measured; there is no other state that could
//! disagree with it. Loads are whole frames per second at one interface ("Trial Load", RFC 9971), times s,
//! losses ratios, 0 to 1.

mod binary;
mod burst;
mod curve;
pub mod mlr;
mod step;

pub use binary::{Binary, BinaryPlan};
pub use burst::{Burst, BurstPlan, corrected_buffer_s};
pub use curve::Curve;

/// What is to be tried ("Trial Input", RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Frames/s that are wanted.
    pub load: f64,
    /// How long, s.
    pub seconds: f64,
}

/// What came of a trial ("Trial Result").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What was tried.
    pub trial: Trial,
    /// Lost of offered, 0 to 1.
    pub loss: f64,
    /// The time that counts when times are summed up, s ("Trial Effective Duration"); mostly the trial's own.
    pub effective_s: f64,
}

impl Measured {
    /// A trial that took as long as it was to.
    pub fn new(trial: Trial, loss: f64) -> Self {
        Self { trial, loss, effective_s: trial.seconds }
    }
}

/// The two loads that a result lies between.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bounds {
    /// The highest at which the goal was met, below `upper`.
    pub lower: Option<f64>,
    /// The lowest at which it was not; `None`: it was met at the highest load there is.
    pub upper: Option<f64>,
}

impl Bounds {
    /// (upper − lower) / upper; `None` when one of them is missing.
    pub fn width(&self) -> Option<f64> {
        Some((self.upper? - self.lower?) / self.upper?)
    }
}

/// A search over loads.
pub trait Search {
    /// What to try next; `None` when all that is wanted is known.
    fn next(&self) -> Option<Trial>;
    /// What came of a trial.
    fn tell(&mut self, measured: Measured);
}
