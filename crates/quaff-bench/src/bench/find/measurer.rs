//! The seam between searches and runs: the workload that a search asks for, and what runs it.

use crate::Result;
use crate::bench::result::Report;
use crate::method::Run;
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;

/// One run that a search requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) struct Workload<'a> {
    pub(in crate::bench) rival: &'a str,
    pub(in crate::bench) size: &'a Size,
    /// Frames/s; `None`: as fast as possible.
    pub(in crate::bench) pps: Option<u64>,
    /// Number of frames.
    pub(in crate::bench) count: u64,
    pub(in crate::bench) setting: &'a Setting,
}

/// Runs the trials of searches.
pub(in crate::bench) trait Measurer {
    /// Performs one run. Failures of the rival are in [`Run::failed`].
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] ends all searches; any other error ends the current one.
    fn measure(&mut self, workload: &Workload<'_>) -> Result<Run>;

    /// Highest rate without a capturer, frames/s.
    ///
    /// # Errors
    /// As [`Measurer::measure`].
    fn max_pps(&mut self, size: &Size) -> Result<f64>;

    /// Largest number of frames of one run that fit on the disk; `None`: no limit.
    fn frames_max(&mut self, size: &Size, setting: &Setting) -> Option<u64>;

    /// Describes the current trial, for progress: "dumpcap, 64 B, highest rate, trial 7".
    fn about(&mut self, words: &str);

    /// Publishes the partial report after a search.
    fn found(&mut self, _report: &Report) {}
}
