//! The interface between methods and trials: streams in, tallies out.

use super::result::TapDirection;
use crate::Result;
use crate::experiment::Machine;
use crate::trial::Progress;
use crate::trial::StreamPlan;
use crate::trial::TrialReport;

/// The path of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// The path under test.
    Path,
    /// A plain link between the same ends: the tester alone.
    Null,
}

/// The streams of a trial. One of the two directions may be empty, never both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ask {
    pub(super) over: Over,
    /// From the first end to the second.
    pub(super) there: Vec<StreamPlan>,
    /// From the second end to the first, at the same time.
    pub(super) back: Vec<StreamPlan>,
    /// Time to wait for late frames after the last one was sent, s.
    pub(super) residual_s: f64,
    /// Keep a tally for each second.
    pub(super) is_by_second: bool,
}

/// Runs trials.
pub(super) trait Prober {
    /// Runs one trial. The report has the forward direction, then the reverse one; a direction without streams is
    /// omitted. `watch` is called several times a second; returning `false` ends the trial early, and the partial
    /// result is returned as interrupted.
    ///
    /// # Errors
    /// The trial could not be run, or there is no bare link.
    fn trial(&mut self, ask: &Ask, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<TrialReport>;

    /// True if there is a plain link between the same ends.
    fn has_null(&self) -> bool;

    /// The link rate that the interfaces report, Mbit/s.
    fn link_mbps(&self) -> Option<f64>;

    /// Facts of the machine and the interfaces.
    fn machine(&self) -> Machine;

    /// Notes on the path, one sentence each.
    fn notes(&self) -> Vec<String>;

    /// Stops the tap in the path, if any, and returns its counters. No trial may follow.
    ///
    /// # Errors
    /// The tap failed.
    fn end_tap(&mut self) -> Result<Vec<TapDirection>> {
        Ok(Vec::new())
    }
}
