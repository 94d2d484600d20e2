//! What came of a service test, as plain data: `result.json`. Loss is a ratio, 0 to 1; delays are ms, rates
//! Mbit/s of the frame with its FCS (layer 2) unless a name says otherwise.

use super::plan::{Limits, Plan};
use crate::bench::result::{Machine, TrialRow};
use serde::{Deserialize, Serialize};

/// The version of this shape.
pub const FORMAT: u32 = 1;

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// What was to be done.
    pub plan: Plan,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, RFC 3339, UTC.
    pub begun: String,
    /// How long it took, s.
    pub seconds: f64,
    /// It was ended before all was done.
    pub interrupted: bool,
    /// Where it ran, the interfaces and who reads the clocks among it.
    pub machine: Machine,
    /// The same ends joined by nothing but a link: what the instrument itself adds. `None` where there is no such
    /// link (interfaces that are there), and a note says so.
    pub null: Option<Null>,
    /// RFC 2544, a row for each size and direction.
    #[serde(default)]
    pub throughput: Vec<Throughput>,
    #[allow(missing_docs, reason = "named as its shape")]
    #[serde(default)]
    pub latency: Vec<Latency>,
    #[allow(missing_docs, reason = "named as its shape")]
    #[serde(default)]
    pub frame_loss: Vec<FrameLoss>,
    #[allow(missing_docs, reason = "named as its shape")]
    #[serde(default)]
    pub back_to_back: Vec<BackToBack>,
    #[allow(missing_docs, reason = "named as its shape")]
    #[serde(default)]
    pub recovery: Vec<Recovery>,
    /// Y.1564: a row for each service, direction and step.
    #[serde(default)]
    pub configuration: Vec<Step>,
    /// A row for each run, service and direction.
    #[serde(default)]
    pub performance: Vec<Performance>,
    /// Whether all limits were kept: `false` when one was not; `None` when nothing was judged, when something that was
    /// to be judged was not, or when it was interrupted.
    pub passed: Option<bool>,
    /// Limits that could not be judged, and tests that ended in an error: one sentence each.
    #[serde(default)]
    pub unjudged: Vec<String>,
    /// The link's speed by which line rates are reckoned, Mbit/s of layer 1.
    #[serde(default)]
    pub link_mbps: f64,
    /// What a reader has to know: warnings as sentences.
    pub notes: Vec<String>,
}

/// The instrument alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Null {
    /// One-way delay: smallest, mean, largest, and the median, ms.
    pub delay_ms: [f64; 4],
    /// Its variation, ms (PDV): mean, largest.
    pub delay_variation_ms: [f64; 2],
    /// The highest rate that could be sent and received, frames/s, by bytes with FCS.
    pub max_pps: Vec<(u32, f64)>,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From `from` to `to`.
    There,
    /// Back.
    Back,
}

/// RFC 2544 §26.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bytes with FCS.
    pub size: u32,
    #[allow(missing_docs, reason = "its type says it")]
    pub way: Way,
    /// `rfc2544` or `mlr`.
    pub method: String,
    /// Frames/s without loss; `None`: none was.
    pub pps: Option<f64>,
    /// The lowest rate that lost; `None`: none did, and the instrument or the line was the limit.
    pub upper_pps: Option<f64>,
    /// The line's highest, frames/s.
    pub line_pps: f64,
    /// Both bounds are known and as close as wanted.
    pub regular: bool,
    /// In the order of time.
    pub trials: Vec<TrialRow>,
    /// One sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// §26.2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    #[allow(missing_docs, reason = "as above")]
    pub size: u32,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// Frames/s.
    pub pps: f64,
    /// The tagged frame of each trial, ms; the mean of them is the RFC's latency.
    pub tagged_ms: Vec<f64>,
    /// Of all frames of all trials.
    pub all: crate::trial::Delays,
    /// How much of it the instrument adds (the null calibration's median), ms.
    pub null_ms: Option<f64>,
}

/// §26.3: one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrameLoss {
    #[allow(missing_docs, reason = "as above")]
    pub size: u32,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// Of the line rate, 0 to 1, that was wanted.
    pub load: f64,
    /// Frames/s that were sent (RFC 2285 offered load).
    pub offered_pps: f64,
    /// 0 to 1.
    pub loss: f64,
}

/// §26.4.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    #[allow(missing_docs, reason = "as above")]
    pub size: u32,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// The longest burst without loss of each repetition, frames.
    pub frames: Vec<u64>,
    /// The most that was tried: a result there is only a lower bound.
    pub frames_max: u64,
    /// Frames/s within a burst.
    pub pps: f64,
    /// Mean of `frames` / `pps`, s.
    pub buffer_s: Option<f64>,
    /// Corrected by the throughput (RFC 9004 §5.4), s.
    pub buffer_corrected_s: Option<f64>,
}

/// §26.5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    #[allow(missing_docs, reason = "as above")]
    pub size: u32,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// 110 % of the throughput, frames/s, as it was sent, and the half of it.
    pub overload_pps: f64,
    /// From the change of rate to the last lost frame, s, of each repetition; 0 when none was lost after it.
    pub seconds: Vec<f64>,
    /// One sentence each: "the overload lost nothing: the line or the instrument is the limit".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Y.1564 §8.1: a step of the service configuration test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    #[allow(missing_docs, reason = "its type says it")]
    pub service: String,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// `CIR 25 %`, `CIR`, `CIR+EIR`, `policing`, `CBS`, `EBS`.
    pub what: String,
    /// What was measured.
    pub figures: Figures,
    /// What was judged.
    pub checks: Vec<Check>,
}

/// Y.1564 §8.2: a line of the service performance test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Which run, from 1.
    pub run: u32,
    #[allow(missing_docs, reason = "its type says it")]
    pub service: String,
    #[allow(missing_docs, reason = "as above")]
    pub way: Way,
    /// When it began, RFC 3339, UTC.
    pub begun: String,
    /// What was measured: delay, variation and loss of available seconds only.
    pub figures: Figures,
    /// What the service has to stand.
    pub limits: Limits,
    /// What was judged.
    pub checks: Vec<Check>,
    /// A second each, for pictures.
    pub seconds: Vec<Second>,
}

/// What was measured of a service in some time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Information rate that was to be sent, Mbit/s.
    pub asked_mbps: f64,
    /// That was sent.
    pub sent_mbps: f64,
    /// That arrived: smallest, mean and largest of a second.
    pub received_mbps: [f64; 3],
    /// Frames sent, and those that were due and that a dead link did not take.
    pub sent: u64,
    /// Frames lost, those that a dead link did not take among them, and their ratio to those sent.
    pub lost: u64,
    #[allow(missing_docs, reason = "with lost")]
    pub loss: f64,
    /// One-way delay: smallest, mean, largest, ms; `None` when nothing arrived.
    pub delay_ms: Option<[f64; 3]>,
    /// PDV (RFC 5481 §4.2): smallest (0 by definition), mean, largest, ms.
    pub delay_variation_ms: Option<[f64; 3]>,
    /// |IPDV| mean and largest, RFC 4689 jitter mean and largest, RFC 3550 jitter at the end and largest, ms.
    pub others_ms: Option<[f64; 6]>,
    #[allow(missing_docs, reason = "RFC 5560")]
    pub duplicates: u64,
    #[allow(missing_docs, reason = "RFC 4737")]
    pub reordered: u64,
    /// Share of seconds that were available, 0 to 1 (Y.1563); `None` where it is not asked.
    pub availability: Option<f64>,
    /// Seconds that were not.
    pub unavailable_s: u64,
    /// Frames sent and lost in these. They are not in `sent`, `lost`, `loss`, `delay_ms` and `delay_variation_ms`; all
    /// other figures are of all frames.
    #[serde(default)]
    pub unavailable: [u64; 2],
    /// Seconds in which more than half was lost (severely errored).
    pub severely_errored_s: u64,
    /// Shares of frames within the limits of delay and of its variation, 0 to 1 (the whitepaper's "%").
    pub within: [Option<f64>; 2],
}

/// A limit, and what stood against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// `FLR`, `FTD`, `FDV`, `IR`, `AVAIL`.
    pub what: String,
    /// In words: "at most 100 ms".
    pub limit: String,
    /// In words.
    pub measured: String,
    #[allow(missing_docs, reason = "its type says it")]
    pub passed: bool,
}

/// A second of a performance test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Frames sent in it.
    pub sent: u64,
    /// Of these.
    pub lost: u64,
    /// Smallest, mean, largest delay, ms; `None` when nothing of it arrived.
    pub delay_ms: Option<[f64; 3]>,
    /// By Y.1563.
    pub available: bool,
}
