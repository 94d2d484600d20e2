//! The progress of an experiment, as its caller receives it.

use std::path::Path;

/// Receives the progress of an experiment with reports `R`, and can end it.
pub trait Events<R> {
    /// The current action: "dumpcap starts", "throughput, 512 B, trial 3 at 400 kpps".
    fn stage(&mut self, _what: &str) {}

    /// The folder of the measurement's files, which are some GiB and are removed at the end.
    fn place(&mut self, _dir: &Path) {}

    /// Called with each sentence that is added to the report's notes.
    fn note(&mut self, _sentence: &str) {}

    /// The partial report, at each milestone.
    fn so_far(&mut self, _report: &R) {}

    /// Polled frequently; `false` ends the experiment, which keeps its partial results.
    fn continues(&mut self) -> bool {
        true
    }
}
