//! The progress of an experiment, as its caller receives it.

/// Receives the progress of an experiment with reports `R`, and can end it.
pub trait Events<R> {
    /// The current action: "dumpcap starts", "throughput, 512 B, trial 3 at 400 kpps".
    fn stage(&mut self, _what: &str) {}

    /// Called with each sentence that is added to the report's notes.
    fn note(&mut self, _sentence: &str) {}

    /// The partial report, at each milestone.
    fn so_far(&mut self, _report: &R) {}

    /// Polled frequently; `false` ends the experiment, which keeps its partial results.
    fn continues(&mut self) -> bool {
        true
    }
}
