//! What came of a bench, as plain data: `result.json`. Shapes and units only; nothing is computed here.
//!
//! Losses are ratios, 0 to 1. Times are s, sizes bytes without FCS, rates 1/s. A field that could not be
//! measured is null and a note says why.

use super::plan::Plan;
use crate::method::Run;
use quaff_lab::tool::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this shape.
pub const FORMAT: u32 = 1;

/// All of a bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// What was to be run.
    pub plan: Plan,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, RFC 3339, UTC.
    pub begun: String,
    /// How long it took, s.
    pub seconds: f64,
    /// It was ended before all was run.
    pub interrupted: bool,
    /// Where it ran.
    pub machine: Machine,
    /// Who was measured, and who could not be.
    pub rivals: Vec<ToolFacts>,
    /// What the generator did with nobody listening.
    pub calibration: Vec<Calibration>,
    /// What was measured.
    pub cases: Vec<Case>,
    /// Highest rates without loss.
    #[serde(default)]
    pub searches: Vec<Search>,
    /// Longest bursts without loss.
    #[serde(default)]
    pub bursts: Vec<Burst>,
    /// What a reader has to know: warnings as sentences.
    pub notes: Vec<String>,
}

/// The machine, by name and value, for people and for comparing: kernel, CPU, cores, governor, clock source,
/// virtualisation, memory, disk, NIC, driver, offloads, rings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Name → value.
    #[serde(flatten)]
    pub facts: BTreeMap<String, String>,
}

/// One that was to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFacts {
    /// Its name in tables.
    pub name: String,
    /// What it says of its version.
    pub version: Option<String>,
    /// The command line of its first run.
    pub command: Vec<String>,
    /// Why it was left out; `None` when it was measured.
    pub absent: Option<String>,
}

/// The generator alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Mean bytes of a frame.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    /// Frames/s that were wanted; `None`: as fast as possible.
    pub pps: Option<u64>,
    /// Frames/s that arrived at the interface.
    pub offered_pps: f64,
    /// What was sent and did not arrive, 0 to 1.
    pub lost: f64,
    /// How far the mean rate is from the wanted one, 0 to 1; `None` as fast as possible.
    pub pace_error: Option<f64>,
}

/// One rival on one workload under one setting: a point of a curve, a row of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Who.
    pub rival: String,
    /// The sweep's series.
    pub series: String,
    /// Mean bytes of a frame.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    pub mix: Option<String>,
    /// Frames/s that were wanted; `None`: as fast as possible.
    pub pps: Option<u64>,
    /// The rate in the words that it was asked in: "400 kpps", "950 Mbit/s", "as fast as possible".
    pub rate: String,
    /// The interface, on a bed with several.
    #[serde(default)]
    pub interface: Option<String>,
    /// What the rival was given and asked.
    pub setting: Setting,
    /// All runs, in the order of time.
    pub runs: Vec<Run>,
    /// The mean of the losses without the best and the worst; of fewer than three runs the mean of all.
    pub loss_trimmed: Option<f64>,
    /// The median of the losses.
    pub loss_median: Option<f64>,
    /// Smallest and largest loss.
    pub loss_spread: Option<[f64; 2]>,
    /// CPU of the capturer's process per second of traffic, 1 = a core; median.
    pub cpu_median: Option<f64>,
    /// What kept the figure from being better.
    pub limited_by: LimitedBy,
    /// What went wrong, and what to know: one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What a result was limited by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Nothing: all that was wanted was sent, and captured.
    Nothing,
    /// Frames could not be sent as fast as wanted: a result without loss is none about that rate.
    Generator,
    /// Frames were lost before the capturer: at the interface, in the kernel's queue.
    Receiver,
    /// What was under test lost frames.
    Rival,
    /// It could not be told, or no run came to its end.
    #[default]
    Unknown,
}

/// The highest rate without loss (or with less than a goal) that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Who.
    pub rival: String,
    /// Mean bytes of a frame.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    #[serde(default)]
    pub mix: Option<String>,
    /// What the rival was given and asked.
    #[serde(default)]
    pub setting: Setting,
    /// `rfc2544` or `mlr` (RFC 9971).
    pub method: String,
    /// The highest rate at which the goal was met, frames/s; `None`: at none.
    pub lower_pps: Option<f64>,
    /// The lowest at which it was not, frames/s; `None`: it was met at the most that could be sent.
    pub upper_pps: Option<f64>,
    /// As fast as possible in the null calibration, frames/s.
    pub max_pps: f64,
    /// (upper − lower) / upper that was wanted.
    pub width: f64,
    /// What it was limited by: the generator, when the most that could be sent was met.
    pub limited_by: LimitedBy,
    /// Both bounds exist and are as close as wanted. If not, the result is irregular (RFC 9971) and has to be
    /// marked so wherever it is shown.
    #[serde(default)]
    pub regular: bool,
    /// As fast as possible, before all others: it tells what can be offered, and does not count.
    #[serde(default)]
    pub warm_up: Option<TrialRow>,
    /// All trials that count, in the order of time.
    pub trials: Vec<TrialRow>,
    /// The result of a second, independent search, frames/s, and how far the two differ, 0 to 1.
    pub again: Option<[f64; 2]>,
    /// The trials of that one.
    #[serde(default)]
    pub trials_again: Vec<TrialRow>,
    /// What a rate had to stand (RFC 9971: to be reported); `None` where no rate was searched.
    #[serde(default)]
    pub goal: Option<GoalRow>,
    /// A typical rate of captured frames at `lower_pps`, frames/s ("Conditional Throughput", RFC 9971).
    #[serde(default)]
    pub throughput_pps: Option<f64>,
    /// Whatever one has to know.
    pub notes: Vec<String>,
}

/// What a rate had to stand ("Search Goal", RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoalRow {
    /// A result rests on trials of this length, s.
    pub final_seconds: f64,
    /// So much time of them decides, s.
    pub duration_sum_s: f64,
    /// Loss that is still taken for none, 0 to 1.
    pub loss_ratio: f64,
    /// The share of that time that may have lost more, 0 to 1.
    pub exceed_ratio: f64,
    /// The first trials are this long, s.
    pub initial_seconds: f64,
}

/// One trial of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrialRow {
    /// Frames/s that were wanted.
    pub pps: f64,
    /// How long, s.
    pub seconds: f64,
    /// Frames/s that arrived.
    pub offered_pps: f64,
    /// Lost of offered, 0 to 1.
    pub loss: f64,
}

/// Back-to-back frames (RFC 2544 §26.4, RFC 9004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Burst {
    /// Who.
    pub rival: String,
    /// Mean bytes of a frame.
    pub size: u32,
    /// The name of the mix or file; `None` for frames of one size.
    #[serde(default)]
    pub mix: Option<String>,
    /// What the rival was given and asked.
    #[serde(default)]
    pub setting: Setting,
    /// The longest burst without loss of each repetition, frames.
    pub frames: Vec<u64>,
    /// The most that was tried, frames.
    pub frames_max: u64,
    /// Frames/s within a burst.
    pub pps: f64,
    /// Buffer time, s: mean of `frames` / `pps` (RFC 9004 §5.4), and corrected by the throughput where known.
    pub buffer_s: Option<f64>,
    /// The corrected one.
    pub buffer_corrected_s: Option<f64>,
    /// Whatever one has to know.
    #[serde(default)]
    pub notes: Vec<String>,
}
