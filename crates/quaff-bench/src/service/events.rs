//! Whoever watches a service test is told what goes on, and may end it.

use super::plan::Plan;
use super::result::Report;

/// Told what goes on while a service test runs.
pub trait Events {
    /// It begins, and will take about `seconds`.
    fn begins(&mut self, _plan: &Plan, _seconds: f64) {}

    /// What is done now: "throughput, 512 B, trial 3 at 400 kpps".
    fn stage(&mut self, _what: &str) {}

    /// Some times a second while a trial runs.
    fn progress(&mut self, _now: &Now) {}

    /// A sentence that belongs into the report, too.
    fn note(&mut self, _sentence: &str) {}

    /// A result, as soon as it is known.
    fn line(&mut self, _line: &Line) {}

    /// All there is, as the report has it: after each test, and after each run of the performance test.
    fn so_far(&mut self, _report: &Report) {}

    /// Asked all the while; `false` ends it, and what was measured is kept.
    fn goes_on(&mut self) -> bool {
        true
    }
}

/// A moment of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// What is done, as in [`Events::stage`].
    pub what: String,
    /// How long this trial has been running, s.
    pub elapsed_s: f64,
    /// How long it sends, s.
    pub seconds: f64,
    /// Frames sent in it.
    pub sent: u64,
    /// Frames received in it.
    pub received: u64,
    /// How long all of it will take from now on, about, s.
    pub left_s: f64,
}

/// A result in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Which test: `throughput`, `latency`, `frame loss`, `back-to-back`, `recovery`, `configuration`, `performance`.
    pub test: String,
    /// Of what: "512 B", "512 B, there" where frames go both ways, "Voice, CIR 50 %, there, FLR".
    pub what: String,
    /// "at least 400 kpps: the instrument is the limit".
    pub measured: String,
    /// Whether the limit was kept; `None` where nothing was judged.
    pub passed: Option<bool>,
}
