//! Highest rates, longest bursts and loss curves of capturers: [`crate::search`] selects the trials, a [`Measurer`]
//! runs them.
//!
//! Searches of one rival and size are far apart in time: all rivals are searched at all sizes before the second search
//! of the first starts. A temporary change of the machine then appears as a difference between the two.

mod burst;
mod curve;
mod highest;
mod line;

use super::plan::{Find, Plan, Wanted};
use super::result::Report;
use crate::method::Run;
use crate::{Error, Result};
use line::{Line, Stop};
use quaff_lab::tool::Setting;
use quaff_lab::traffic::Size;

/// One run that a search requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Workload<'a> {
    pub(super) rival: &'a str,
    pub(super) size: &'a Size,
    /// Frames/s; `None`: as fast as possible.
    pub(super) pps: Option<u64>,
    /// Number of frames.
    pub(super) count: u64,
    pub(super) setting: &'a Setting,
}

/// Runs the trials of searches.
pub(super) trait Measurer {
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

/// Runs all searches of `plan`. Results are in `report` as soon as they are known; an interrupted search leaves a
/// partial result and a note.
///
/// # Errors
/// [`Error::Interrupted`].
pub(super) fn find(plan: &Plan, measurer: &mut dyn Measurer, report: &mut Report) -> Result<()> {
    for find in &plan.finds {
        let rivals = rivals(plan, find, report);
        match find.what {
            Wanted::Max => highest::all(find, &rivals, measurer, report),
            Wanted::Burst => each(find, &rivals, measurer, report, burst::search),
            Wanted::Curve => each(find, &rivals, measurer, report, curve::search),
        }?;
    }
    Ok(())
}

/// Number of searches that [`find()`] runs.
pub(super) fn count(plan: &Plan, report: &Report) -> usize {
    let of = |find: &Find| {
        let each = find.sizes.len() * rivals(plan, find, report).len();
        if find.what == Wanted::Max { each * highest::repeats(find) as usize } else { each }
    };
    plan.finds.iter().map(of).sum()
}

/// The rivals of `find` that are installed.
fn rivals(plan: &Plan, find: &Find, report: &Report) -> Vec<String> {
    let wanted = |name: &&String| find.rivals.is_empty() || find.rivals.contains(name);
    let absent =
        |name: &&String| report.rivals.iter().any(|facts| facts.name == **name && facts.absent.is_some());
    plan.rivals.iter().filter(wanted).filter(|name| !absent(name)).cloned().collect()
}

/// Calls `search` for each size and rival in the order of a table; it adds its result to the report. An interrupted
/// search
/// ends all.
fn each(
    find: &Find,
    rivals: &[String],
    measurer: &mut dyn Measurer,
    report: &mut Report,
    mut search: impl FnMut(Line<'_>, &mut Report) -> Result<(), Stop>,
) -> Result<()> {
    for size in &find.sizes {
        for rival in rivals {
            let ended = search(Line::new(rival, size, find, measurer), report);
            measurer.found(report);
            if let Err(Stop::Interrupted) = ended {
                return Err(Error::Interrupted);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
