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
    /// Back, at the same time.
    pub(super) back: Vec<StreamPlan>,
    /// Wait for late frames after the last one was sent, s.
    pub(super) residual_s: f64,
    /// Count a tally for each second.
    pub(super) is_by_second: bool,
}

/// Makes trials.
pub(super) trait Prober {
    /// One trial. The report has the direction there, then that back; one in which nothing was to be sent is left
    /// out. `watch` is called several times a second; `false` from it ends the trial early, and the partial
    /// result is returned as interrupted.
    ///
    /// # Errors
    /// It could not be made. There is no bare link to ask for.
    fn trial(&mut self, ask: &Ask, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<TrialReport>;

    /// True with a plain link between the same ends.
    fn has_null(&self) -> bool;

    /// The link rate that the interfaces report, Mbit/s.
    fn link_mbps(&self) -> Option<f64>;

    /// Facts of the machine and the interfaces.
    fn machine(&self) -> Machine;

    /// Remarks on the path, one sentence each.
    fn notes(&self) -> Vec<String>;

    /// Ends the tap in the path, if there is one, and returns its account. No trial follows.
    ///
    /// # Errors
    /// The tap failed.
    fn end_tap(&mut self) -> Result<Vec<TapDirection>> {
        Ok(Vec::new())
    }
}
