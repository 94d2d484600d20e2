//! The result of a service test, as plain data: the body of `result.json`. Loss is a ratio, 0 to 1; delays are ms,
//! rates Mbit/s of the frame with its FCS (layer 2), sizes bytes with FCS, unless a name says otherwise.

use super::plan::{Limits, Plan};
use crate::experiment::{self, TrialRow};
pub use crate::trial::Delays;
use serde::{Deserialize, Serialize};

/// The whole result of a service test.
pub type Report = experiment::Report<Plan, Results>;

/// The figures and verdicts of all tests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Results {
    /// `None` without a plain link between the ends (existing interfaces); a note reports it.
    pub null: Option<Null>,
    /// RFC 2544: a row for each size and direction.
    pub throughput: Vec<Throughput>,
    pub latency: Vec<Latency>,
    pub frame_loss: Vec<FrameLoss>,
    pub back_to_back: Vec<BackToBack>,
    pub recovery: Vec<Recovery>,
    /// Y.1564: a row for each service, direction and step.
    pub configuration: Vec<Step>,
    /// Y.1564: a row for each run, service and direction.
    pub performance: Vec<Performance>,
    /// Counters of the tap between the ends, per direction, over all tests. Empty without a tap.
    pub tap: Vec<TapDirection>,
    /// `false` if a limit was not met; `None` if nothing was judged, some limit could not be judged, or the test was
    /// interrupted.
    pub passed: Option<bool>,
    /// Limits that could not be judged, and tests that ended in an error, one sentence each.
    pub unjudged: Vec<String>,
    /// The link rate to which loads refer, Mbit/s of layer 1.
    pub link_mbps: f64,
}

impl Results {
    /// True if any test has results.
    pub fn has_figures(&self) -> bool {
        let rfc2544 = self.throughput.len() + self.latency.len() + self.frame_loss.len();
        let bursts = self.back_to_back.len() + self.recovery.len();
        rfc2544 + bursts + self.configuration.len() + self.performance.len() > 0
    }
}

/// Counters of `quaff tap` for one direction, in frames: received = recorded + lost = forwarded + forward_dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapDirection {
    pub way: Way,
    /// Received by the port while recording.
    pub received: u64,
    /// Written to files.
    pub recorded: u64,
    /// Lost by the recorder; they were forwarded all the same.
    pub lost: u64,
    /// Received frames that the other port sent.
    pub forwarded: Option<u64>,
    /// Received frames that were not sent.
    pub forward_dropped: Option<u64>,
    /// Forwarded before the recording started or after it stopped.
    pub unrecorded: Option<u64>,
}

/// The null calibration: the tester over a plain link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Null {
    /// One-way delay, ms: minimum, mean, maximum, median.
    pub delay_ms: [f64; 4],
    /// PDV, ms: mean, maximum.
    pub delay_variation_ms: [f64; 2],
    /// Frame size, bytes with FCS, and the highest rate that was sent and received, frames/s.
    pub max_pps: Vec<(u32, f64)>,
}

/// The direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From `from` to `to`.
    There,
    /// From `to` to `from`.
    Back,
}

/// RFC 2544 §26.1: the highest rate without loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bytes with FCS.
    pub size: u32,
    pub way: Way,
    /// `rfc2544` or `mlr`.
    pub method: String,
    /// Highest rate without loss, frames/s; `None`: every rate had loss.
    pub pps: Option<f64>,
    /// Lowest rate with loss, frames/s; `None`: the tester or the line was the limit.
    pub upper_pps: Option<f64>,
    /// The line rate, frames/s.
    pub line_pps: f64,
    /// True if both bounds are known and as close as the plan requests.
    pub regular: bool,
    /// All trials in chronological order.
    pub trials: Vec<TrialRow>,
    /// Notes, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// §26.2: latency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub size: u32,
    pub way: Way,
    /// Offered rate, frames/s.
    pub pps: f64,
    /// Delay of the tagged frame of each trial, ms; their mean is the latency of RFC 2544.
    pub tagged_ms: Vec<f64>,
    /// Delays over all frames of all trials.
    pub all: Delays,
    /// Delay of the tester itself (median of the null calibration), ms.
    pub null_ms: Option<f64>,
}

/// §26.3: one point of a loss curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameLoss {
    pub size: u32,
    pub way: Way,
    /// Requested share of the line rate, 0 to 1.
    pub load: f64,
    /// Offered load (RFC 2285), frames/s.
    pub offered_pps: f64,
    /// Loss ratio, 0 to 1.
    pub loss: f64,
}

/// §26.4: back-to-back frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    pub size: u32,
    pub way: Way,
    /// The longest burst without loss of each repetition, frames.
    pub frames: Vec<u64>,
    /// Longest burst that was tried, frames: a result of this length is a lower bound.
    pub frames_max: u64,
    /// Rate within a burst, frames/s.
    pub pps: f64,
    /// Mean of `frames` / `pps`, s.
    pub buffer_s: Option<f64>,
    /// Buffer time corrected by the throughput (RFC 9004 §5.4), s.
    pub buffer_corrected_s: Option<f64>,
}

/// §26.5: system recovery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    pub size: u32,
    pub way: Way,
    /// 110 % of the throughput, as sent, frames/s; the rate then falls to half of it.
    pub overload_pps: f64,
    /// Per repetition: time from the change of rate to the last lost frame, s; 0 without a later loss.
    pub seconds: Vec<f64>,
    /// One sentence each: "the overload lost nothing: the line or the instrument is the limit".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Y.1564 §8.1: a step of the service configuration test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub service: String,
    pub way: Way,
    /// `CIR 25 %`, `CIR`, `CIR+EIR`, `policing`, `CBS`, `EBS`.
    pub what: String,
    pub figures: Figures,
    pub checks: Vec<Check>,
}

/// Y.1564 §8.2: a row of the service performance test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Number of the run, from 1.
    pub run: u32,
    pub service: String,
    pub way: Way,
    /// Start time, RFC 3339, UTC.
    pub begun: String,
    /// Delay, delay variation and loss cover available seconds only.
    pub figures: Figures,
    pub limits: Limits,
    pub checks: Vec<Check>,
    /// Per-second data for charts.
    pub seconds: Vec<Second>,
}

/// The measured figures of a service over a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requested information rate, Mbit/s.
    pub asked_mbps: f64,
    pub sent_mbps: f64,
    /// Received rate, Mbit/s: minimum, mean and maximum over seconds.
    pub received_mbps: [f64; 3],
    /// Frames sent, and frames due that a dead link refused.
    pub sent: u64,
    /// Frames lost, including those that a dead link refused.
    pub lost: u64,
    /// `lost` of `sent`, 0 to 1.
    pub loss: f64,
    /// One-way delay, ms: minimum, mean, maximum; `None` if nothing arrived.
    pub delay_ms: Option<[f64; 3]>,
    /// PDV (RFC 5481 §4.2), ms: minimum (0 by definition), mean, maximum.
    pub delay_variation_ms: Option<[f64; 3]>,
    /// ms: |IPDV| mean and maximum, RFC 4689 jitter mean and maximum, RFC 3550 jitter at the end and maximum.
    pub others_ms: Option<[f64; 6]>,
    pub duplicates: u64,
    pub reordered: u64,
    /// Share of available seconds, 0 to 1 (Y.1563); `None` if not evaluated.
    pub availability: Option<f64>,
    pub unavailable_s: u64,
    /// Frames sent and lost in unavailable seconds. `sent`, `lost`, `loss`, `delay_ms` and `delay_variation_ms` exclude
    /// them; all other figures include them.
    #[serde(default)]
    pub unavailable: [u64; 2],
    /// Seconds in which more than half of the frames were lost.
    pub severely_errored_s: u64,
    /// Shares of frames within the limits of delay and delay variation, 0 to 1 (the whitepaper's "%").
    pub within: [Option<f64>; 2],
}

/// A limit and the measured value, both as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// `FLR`, `FTD`, `FDV`, `IR`, `AVAIL`.
    pub what: String,
    /// For example "at most 100 ms".
    pub limit: String,
    pub measured: String,
    pub passed: bool,
}

/// One second of a performance test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    pub sent: u64,
    pub lost: u64,
    /// Delay, ms: minimum, mean, maximum; `None` if nothing arrived.
    pub delay_ms: Option<[f64; 3]>,
    /// True if the second is available as Y.1563 defines it.
    pub available: bool,
}
