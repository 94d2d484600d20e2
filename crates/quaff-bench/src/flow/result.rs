//! The result of a bench of flow meters as plain data: the body of `result.json`, and the summaries of its cases.
//!
//! Losses are ratios, 0 to 1. Times are s, rates 1/s.

use super::plan::Plan;
use crate::experiment;
use crate::method::{Load, MeterRun};
use crate::stats::{median, spread};
use quaff::tally::Verdict;
use serde::{Deserialize, Serialize};

/// The whole result of a bench of flow meters.
pub type Report = experiment::Report<Plan, Results>;

/// The measured part of a [`Report`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// All meters of the plan, including those that were not measured.
    pub meters: Vec<MeterFacts>,
    /// One pass of the traffic.
    pub traffic: Option<TrafficFacts>,
    /// The generator alone, at each rate.
    pub calibration: Vec<FlowCalibration>,
    /// Cases on an interface.
    pub cases: Vec<FlowCase>,
    /// Cases on a file.
    pub files: Vec<FlowCase>,
    /// Highest rates without loss.
    pub searches: Vec<FlowSearch>,
}

/// A meter of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterFacts {
    pub name: String,
    /// The version that it reports.
    pub version: Option<String>,
    /// Export protocol.
    pub protocol: String,
    /// A property that explains its results; empty without one.
    pub remark: String,
    /// Its command line on an interface.
    pub command: Vec<String>,
    /// Why it was skipped; `None` if it was measured.
    pub absent: Option<String>,
}

/// One pass of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficFacts {
    /// The capture, or a description of the generated traffic.
    pub name: String,
    pub load: Load,
}

/// The generator alone, without a meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowCalibration {
    /// Requested flows/s; `None`: as fast as possible.
    pub fps: Option<f64>,
    /// Flows/s and frames/s that arrived.
    pub offered_fps: f64,
    pub offered_pps: f64,
}

/// One meter at one rate, or on the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowCase {
    pub meter: String,
    /// Requested flows/s; `None` for a file.
    pub fps: Option<f64>,
    /// All runs in chronological order.
    pub runs: Vec<MeterRun>,
    pub loss_median: Option<f64>,
    /// Minimum and maximum loss.
    pub loss_spread: Option<[f64; 2]>,
    /// Median frames/s and flows/s: offered by the generator, or read from the file.
    pub pps_median: Option<f64>,
    pub fps_median: Option<f64>,
    /// Median CPU time of the meter per million packets, s.
    pub cpu_per_million: Option<f64>,
    /// Largest peak memory of the runs, bytes.
    pub memory_bytes: Option<u64>,
    /// Lossless if all runs were; lossy if any was; else unknown.
    pub verdict: Verdict,
}

/// The highest rate without loss that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowSearch {
    pub meter: String,
    /// Highest rate that met the goal, and lowest rate that missed it, flows/s.
    pub lower_fps: Option<f64>,
    pub upper_fps: Option<f64>,
    /// Highest rate of the generator, flows/s.
    pub max_fps: f64,
    /// True if both bounds exist and are as close as requested.
    pub regular: bool,
    /// All trials in chronological order.
    pub trials: Vec<FlowTrial>,
    /// Why the search ended early; `None` if it did not.
    pub failed: Option<String>,
}

/// One trial of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlowTrial {
    /// Requested flows/s.
    pub fps: f64,
    /// Duration, s.
    pub seconds: f64,
    /// Lost packets / sent packets, 0 to 1.
    pub loss: f64,
}

impl Results {
    /// True if any run or search was measured.
    pub fn has_figures(&self) -> bool {
        let mut cases = self.cases.iter().chain(&self.files);
        cases.any(|case| !case.runs.is_empty()) || !self.searches.is_empty()
    }
}

impl FlowCase {
    /// Summarises its runs.
    pub(super) fn summarise(&mut self) {
        let done: Vec<&MeterRun> = self.runs.iter().filter(|run| run.failed.is_none()).collect();
        let values = |of: fn(&MeterRun) -> f64| done.iter().map(|run| of(run)).collect::<Vec<f64>>();
        let losses: Vec<f64> = done.iter().filter_map(|run| run.loss).collect();
        let figures = (
            median(&losses),
            spread(&losses),
            median(&values(MeterRun::pps)),
            median(&values(MeterRun::fps)),
            median(&values(MeterRun::cpu_per_million)),
            done.iter().map(|run| run.memory_bytes).max(),
        );
        (self.loss_median, self.loss_spread, self.pps_median, self.fps_median, ..) = figures;
        (.., self.cpu_per_million, self.memory_bytes) = figures;
        let is = |verdict: Verdict| move |run: &MeterRun| run.verdict == verdict;
        self.verdict = match () {
            () if self.runs.iter().any(is(Verdict::Lossy)) => Verdict::Lossy,
            () if !self.runs.is_empty() && self.runs.iter().all(is(Verdict::Lossless)) => Verdict::Lossless,
            () => Verdict::Unknown,
        };
    }
}

/// Summarises the runs of all cases.
pub(crate) fn summarise(report: &mut Report) {
    let Results { cases, files, .. } = &mut report.body;
    cases.iter_mut().chain(files).for_each(FlowCase::summarise);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_as_good_as_its_worst_run() {
        let run = |verdict, loss, seconds| MeterRun {
            sent: Load { frames: 1000, packets: 1000, bytes: 0, flows: 100 },
            offered: 1000,
            seconds,
            loss: Some(loss),
            verdict,
            cpu_s: 0.001,
            memory_bytes: (seconds * 10.0) as u64,
            ..MeterRun::default()
        };
        let mut case = FlowCase {
            runs: vec![
                run(Verdict::Lossless, 0.0, 1.0),
                run(Verdict::Lossless, 0.0, 2.0),
                run(Verdict::Lossless, 0.0, 4.0),
            ],
            ..FlowCase::default()
        };
        case.summarise();
        assert_eq!(
            (case.verdict, case.loss_median, case.memory_bytes),
            (Verdict::Lossless, Some(0.0), Some(40))
        );
        assert_eq!((case.pps_median, case.fps_median), (Some(500.0), Some(50.0)));
        assert!(case.cpu_per_million.is_some_and(|cpu| (cpu - 1.0).abs() < 1e-9), "{case:?}");
        case.runs[1] = run(Verdict::Lossy, 0.1, 2.0);
        case.summarise();
        assert_eq!((case.verdict, case.loss_spread), (Verdict::Lossy, Some([0.0, 0.1])));
        case.runs[1] = MeterRun { failed: Some("it crashed".into()), ..MeterRun::default() };
        case.summarise();
        assert_eq!((case.verdict, case.loss_spread), (Verdict::Unknown, Some([0.0, 0.0])));
        case.runs.clear();
        case.summarise();
        assert_eq!((case.verdict, case.loss_median), (Verdict::Unknown, None));
    }
}
