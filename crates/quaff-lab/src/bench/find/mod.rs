//! Highest rates, longest bursts and loss curves of rivals: [`crate::search`] says what to try, a [`Measurer`]
//! runs it, and what was found goes into the report.

use super::plan::{Setting, Size};
use super::result::Run;
use crate::Result;

/// One run that a search asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload<'a> {
    /// Who.
    pub rival: &'a str,
    /// Sizes of frames.
    pub size: &'a Size,
    /// Frames/s; `None`: as fast as possible.
    pub pps: Option<u64>,
    /// Frames.
    pub count: u64,
    /// What the rival is given and asked.
    pub setting: &'a Setting,
}

/// Who runs what searches ask for.
pub trait Measurer {
    /// One run. What the rival does wrong is in [`Run::failed`].
    ///
    /// # Errors
    /// [`crate::Error::Interrupted`] ends all searches; any other error ends the one that asked.
    fn measure(&mut self, workload: &Workload<'_>) -> Result<Run>;

    /// Frames/s that arrive as fast as possible with nobody listening.
    ///
    /// # Errors
    /// As [`Measurer::measure`].
    fn max_pps(&mut self, size: &Size) -> Result<f64>;

    /// The most frames of one run that there is room for; `None`: as many as one likes.
    fn frames_max(&mut self, size: &Size, setting: &Setting) -> Option<u64>;

    /// What is being searched, for a progress line: "dumpcap, 64 B, highest rate: trial 7".
    fn about(&mut self, words: &str);
}
