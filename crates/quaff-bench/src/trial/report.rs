//! The report of a trial as plain data. Times are ns unless a name says otherwise; nothing is judged here.

use super::tally::Tally;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialReport {
    /// One per direction, in the order of the plan.
    pub(crate) directions: Vec<DirectionReport>,
    /// True if the trial was stopped early.
    pub(crate) interrupted: bool,
}

/// The report of one direction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DirectionReport {
    /// One per stream, in the order of the plan.
    pub(crate) streams: Vec<StreamReport>,
    /// Clock of the send timestamps: `user space, before the call`.
    pub(crate) tx_clock: String,
    /// Clock of the arrival timestamps: `kernel` or `hardware`.
    pub(crate) rx_clock: String,
    /// Other frames that arrived at the receiving interface: from other programs, from earlier trials, and those of
    /// this trial that came more than two million frames after later ones of their stream (these count as lost).
    pub(crate) foreign: u64,
    /// Damaged frames of this trial.
    pub(crate) corrupt: u64,
    /// Frames that arrived and were dropped by the meter's socket (`PACKET_STATISTICS`). They count as lost, although
    /// the path did not lose them.
    pub(crate) meter_dropped: u64,
    /// The same for frames that the receiving interface or its driver dropped, and for those that may have been
    /// dropped: on the interfaces below it, or by a backlog of its cores (`softnet_stat`, `netdev_max_backlog`).
    pub(crate) nic_dropped: u64,
    /// Maximum lateness of the sender, ns, including omitted frames; without a rate, its longest pause. Times in which
    /// the interface accepted no frames do not count.
    pub(crate) late_max_ns: u64,
}

/// The report of one stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamReport {
    pub(crate) id: u16,
    /// Tally of all phases together.
    pub(crate) total: Tally,
    /// Tally of each phase; a frame belongs to the phase in which it was sent.
    pub(crate) phases: Vec<Tally>,
    /// Tally of each second of sending, if the plan requests it.
    pub(crate) seconds: Vec<Tally>,
    /// Delays of the whole stream; `None` if no frame arrived.
    pub(crate) delay: Option<Delays>,
    /// Runs of consecutive lost frames (RFC 3357 loss periods).
    pub(crate) loss_periods: u64,
    /// The longest of these, frames.
    pub(crate) loss_period_max: u64,
}

/// One-way delays and their variation, ns, in the order of arrival, without duplicates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Minimum, mean, maximum.
    pub delay: [f64; 3],
    /// (quantile 0 to 1, ns) of the delay: 0.5, 0.9, 0.99, 0.999, 0.9999.
    pub quantiles: Vec<(f64, f64)>,
    /// PDV relative to the minimum delay (RFC 5481 §4.2): mean, maximum.
    pub pdv: [f64; 2],
    /// |IPDV| of frames with consecutive numbers that arrived consecutively (RFC 3393, RFC 5481 §4.1): mean, maximum.
    pub ipdv: [f64; 2],
    /// Jitter by RFC 4689 §3.2.5 of any two consecutive arrivals: mean, maximum.
    pub jitter_4689: [f64; 2],
    /// Smoothed jitter (RFC 3550 §6.4.1, A.8) of any two consecutive arrivals: at the end, maximum.
    pub jitter_3550: [f64; 2],
    /// Chart of the delay: (upper bound ns, frames), at most 200 columns.
    pub histogram: Vec<(f64, u64)>,
}
