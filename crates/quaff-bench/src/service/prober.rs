//! Between methods and whoever makes trials: streams are asked for, what became of them is told.

use crate::Result;
use crate::experiment::Machine;
use crate::trial::Progress;
use crate::trial::StreamPlan;
use crate::trial::TrialReport;

/// What a trial goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// What is tested.
    Path,
    /// The same ends joined by nothing but a link: the instrument alone.
    Null,
}

/// A trial, whoever the ends are. One of the two ways may be empty, never both.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// What it goes over.
    pub over: Over,
    /// From the first end to the second.
    pub there: Vec<StreamPlan>,
    /// Back, at the same time.
    pub back: Vec<StreamPlan>,
    /// How long frames are waited for after the last one was sent, s.
    pub residual_s: f64,
    /// Whether the tally of each second is wanted.
    pub is_by_second: bool,
}

/// Who makes trials.
pub trait Prober {
    /// One trial. The report has the direction there, then that back; one in which nothing was to be sent is left
    /// out. `watch` is told some times a second; `false` from it ends the trial early, and what was measured by then
    /// is returned as an interrupted one.
    ///
    /// # Errors
    /// It could not be made. There is no bare link to ask for.
    fn trial(&mut self, ask: &Ask, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<TrialReport>;

    /// Whether there is a bare link between the same ends.
    fn has_null(&self) -> bool;

    /// The link's speed as the interfaces say it, Mbit/s; `None`: they say nothing.
    fn link_mbps(&self) -> Option<f64>;

    /// Where it runs: the machine, the interfaces.
    fn machine(&self) -> Machine;

    /// What a reader has to know of the path. One sentence each.
    fn notes(&self) -> Vec<String>;
}
