//! The progress of a service test, as its caller receives it.

use super::result::Report;
use crate::experiment;

/// Receives the progress of a service test.
pub trait Events: experiment::Events<Report> {
    /// Called once, with the estimated duration of the whole test, s.
    fn begins(&mut self, _seconds: f64) {}

    /// Several times a second during a trial.
    fn progress(&mut self, _now: &Now) {}

    /// A result, as soon as it is known.
    fn line(&mut self, _line: &Line) {}
}

/// The state of a running trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// As in [`experiment::Events::stage`].
    pub what: String,
    /// Elapsed time of this trial, s.
    pub elapsed_s: f64,
    /// Sending time of this trial, s.
    pub seconds: f64,
    /// Frames sent so far in this trial.
    pub sent: u64,
    pub received: u64,
    /// Estimated remaining time of the whole test, s.
    pub left_s: f64,
}

/// A result of a test as a line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The test's name: `throughput`, `latency`, `frame loss`, `back-to-back`, `recovery`, `configuration`,
    /// `performance`.
    pub test: String,
    /// The subject: "512 B", "512 B, there" in tests of both directions, "Voice, CIR 50 %, there, FLR".
    pub what: String,
    /// "at least 400 kpps: the instrument is the limit".
    pub measured: String,
    /// `None` where nothing was judged.
    pub passed: Option<bool>,
}
