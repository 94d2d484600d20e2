//! The result of a bench as plain data: the body of `result.json`. Nothing is computed here.
//!
//! Losses are ratios, 0 to 1. Times are s, sizes bytes without FCS, rates 1/s. A value that could not be measured is
//! null, and a note gives the reason.

pub use crate::experiment::{Machine, TrialRow};

use super::plan::Plan;
use crate::experiment;
use crate::method::{ReadRun, Run};
use quaff_lab::tool::Setting;
use serde::{Deserialize, Serialize};

/// The content of `result.json`: the header of an experiment, the plan, and the results.
pub type Report = experiment::Report<Plan, Results>;

/// The measured part of a [`Report`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The capturers of the plan, measured or not.
    pub rivals: Vec<ToolFacts>,
    /// The generator alone, for each workload.
    pub calibration: Vec<Calibration>,
    pub cases: Vec<Case>,
    /// Highest rates without loss.
    #[serde(default)]
    pub searches: Vec<Search>,
    /// Longest bursts without loss.
    #[serde(default)]
    pub bursts: Vec<Burst>,
    /// Programs that read a capture file.
    #[serde(default)]
    pub readings: Vec<ReadCase>,
}

impl Results {
    /// True if any run or search was measured.
    pub fn has_figures(&self) -> bool {
        let has_runs = self.cases.iter().any(|case| !case.runs.is_empty());
        let has_readings = self.readings.iter().any(|case| !case.runs.is_empty());
        has_runs || has_readings || !self.searches.is_empty() || !self.bursts.is_empty()
    }
}

/// A capturer of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFacts {
    pub name: String,
    /// The version that it reports.
    pub version: Option<String>,
    /// The command line of its first run.
    pub command: Vec<String>,
    /// Why it was skipped; `None` if it was measured.
    pub absent: Option<String>,
}

/// The generator alone, without a capturer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Mean frame size, bytes.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    /// Requested rate, frames/s; `None`: as fast as possible.
    pub pps: Option<u64>,
    /// Frames/s that arrived at the interface.
    pub offered_pps: f64,
    /// Share of the sent frames that did not arrive, 0 to 1.
    pub lost: f64,
    /// Relative deviation of the mean rate from the requested one; `None` as fast as possible.
    pub pace_error: Option<f64>,
}

/// One capturer with one workload and setting: a point of a curve, a row of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub rival: String,
    /// The series of its sweep.
    pub series: String,
    /// Mean frame size, bytes.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    /// Requested rate, frames/s; `None`: as fast as possible.
    pub pps: Option<u64>,
    /// As requested: "400 kpps", "950 Mbit/s", "as fast as possible".
    pub rate: String,
    /// The receiving interface or capture point, if there are several.
    pub interface: Option<String>,
    pub setting: Setting,
    /// All runs in chronological order.
    pub runs: Vec<Run>,
    /// Mean loss without the best and the worst run; with fewer than three runs the mean of all.
    pub loss_trimmed: Option<f64>,
    pub loss_median: Option<f64>,
    /// Minimum and maximum loss.
    pub loss_spread: Option<[f64; 2]>,
    /// Median CPU time of the capturer per second of traffic; 1 is one core.
    pub cpu_median: Option<f64>,
    /// Median of Jain's fairness index over its lanes, 1/lanes to 1; `None` with one lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    pub limited_by: LimitedBy,
    /// Failures and notes, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The limiting part of the setup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// All requested frames were sent and captured.
    Nothing,
    /// Frames were sent below the requested rate: a result without loss proves nothing about that rate.
    Generator,
    /// Frames were lost before the capturer: at the mirror port, on the interface, or in a kernel queue.
    Receiver,
    /// The tool under test lost frames.
    Rival,
    /// Not determined, or no run completed.
    #[default]
    Unknown,
}

/// The highest rate without loss (or with less than a goal) that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub rival: String,
    /// Mean frame size, bytes.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    #[serde(default)]
    pub setting: Setting,
    /// `rfc2544` or `mlr` (RFC 9971).
    pub method: String,
    /// Highest rate that met the goal, frames/s; `None`: no rate did.
    pub lower_pps: Option<f64>,
    /// Lowest rate that missed the goal, frames/s; `None`: the goal was met at the highest rate that could be sent.
    pub upper_pps: Option<f64>,
    /// Highest rate of the null calibration, frames/s.
    pub max_pps: f64,
    /// Requested final width, (upper − lower) / upper.
    pub width: f64,
    /// The generator, if the goal was met at the highest rate that could be sent.
    pub limited_by: LimitedBy,
    /// True if both bounds exist and are as close as requested. Otherwise the result is irregular (RFC 9971) and must
    /// be marked as such wherever it is shown.
    #[serde(default)]
    pub regular: bool,
    /// The first trial, as fast as possible: it measures the highest offered rate, and is not part of the search.
    pub warm_up: Option<TrialRow>,
    /// All trials in chronological order.
    pub trials: Vec<TrialRow>,
    /// Result of a second, independent search, frames/s, and the relative difference of the two.
    pub again: Option<[f64; 2]>,
    /// The trials of the second search.
    #[serde(default)]
    pub trials_again: Vec<TrialRow>,
    /// The search goal, which RFC 9971 requires to report; `None` where no rate was searched.
    pub goal: Option<GoalRow>,
    /// Conditional throughput at `lower_pps` (RFC 9971): a typical rate of captured frames, frames/s.
    pub throughput_pps: Option<f64>,
    pub notes: Vec<String>,
}

/// One reader of a capture file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadCase {
    /// The series of its reading.
    pub series: String,
    pub reader: String,
    pub version: Option<String>,
    /// Name of the capture.
    pub file: String,
    /// Frames of the file, and their bytes.
    pub frames: u64,
    pub bytes: u64,
    /// All runs in chronological order.
    pub runs: Vec<ReadRun>,
    /// Median frames/s from the start of the reader to its end.
    pub pps_median: Option<f64>,
    /// Median CPU time per million frames, s.
    pub cpu_per_million: Option<f64>,
    /// Largest peak memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Command line of its runs, with DIR for the output directory.
    pub command: Vec<String>,
    /// Why it was skipped; `None` if it was measured.
    pub absent: Option<String>,
    /// A property that explains its results; empty without one.
    pub remark: String,
}

/// The search goal of RFC 9971.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoalRow {
    /// Duration of a full-length trial, s.
    pub final_seconds: f64,
    /// Total duration of full-length trials that decides on a rate, s.
    pub duration_sum_s: f64,
    /// Largest loss ratio that counts as no loss.
    pub loss_ratio: f64,
    /// Share of `duration_sum_s` that may exceed `loss_ratio`, 0 to 1.
    pub exceed_ratio: f64,
    /// Duration of the initial trials, s.
    pub initial_seconds: f64,
}

/// Back-to-back frames (RFC 2544 §26.4, RFC 9004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    pub rival: String,
    /// Mean frame size, bytes.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    #[serde(default)]
    pub setting: Setting,
    /// The longest burst without loss of each repetition, frames.
    pub frames: Vec<u64>,
    /// Longest burst that was tried, frames.
    pub frames_max: u64,
    /// Rate within a burst, frames/s.
    pub pps: f64,
    /// Buffer time, s: mean of `frames` / `pps` (RFC 9004 §5.4).
    pub buffer_s: Option<f64>,
    /// Buffer time corrected by the throughput, s; `None` if that is unknown.
    pub buffer_corrected_s: Option<f64>,
    #[serde(default)]
    pub notes: Vec<String>,
}
