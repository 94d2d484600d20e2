//! What came of a trial, as plain data. Times are ns, where a name does not say otherwise; nothing is judged here.

use serde::{Deserialize, Serialize};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReport {
    /// In the order of the plan.
    pub directions: Vec<DirectionReport>,
    /// It was ended before all was sent.
    pub interrupted: bool,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DirectionReport {
    /// In the order of the plan.
    pub streams: Vec<StreamReport>,
    /// Who read the clock when a frame was sent: `user space, before the call`.
    pub tx_clock: String,
    /// Who read it when it arrived: `kernel` or `hardware`.
    pub rx_clock: String,
    /// Frames to the receiving interface that were none of these: somebody else's, an earlier trial's, and such of this
    /// one as came more than two million frames behind others of their stream (they count as lost).
    pub foreign: u64,
    /// Frames of ours with other bytes than were sent.
    pub corrupt: u64,
    /// Frames that arrived and that the meter did not get (`PACKET_STATISTICS`). They count as lost, and are no loss of
    /// the path.
    pub meter_dropped: u64,
    /// The same that the receiving interface counted as dropped, or this machine's queue in front of its stack (of any
    /// interface: `softnet_stat`, `netdev_max_backlog`).
    pub nic_dropped: u64,
    /// How late the sender was by its own word, ns: the longest, of frames too that were left out for it; without a pace
    /// the longest that it did not send. An interface that took nothing is not meant.
    pub late_max_ns: u64,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// Its id.
    pub id: u16,
    /// All phases together.
    pub total: Tally,
    /// Each phase by itself: frames belong to the phase in which they were sent.
    pub phases: Vec<Tally>,
    /// Each second of sending by itself, where that was asked for.
    pub seconds: Vec<Tally>,
    /// Of the whole stream; `None` when nothing arrived.
    pub delay: Option<Delays>,
    /// Runs of consecutive lost frames (RFC 3357 loss periods), and the longest of them, frames.
    pub loss_periods: u64,
    /// The longest.
    pub loss_period_max: u64,
}

/// Frames that were sent in some time, and what became of them. `sent = received + lost`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Frames that the kernel took.
    pub sent: u64,
    /// Bytes of them without FCS.
    pub sent_bytes: u64,
    /// Different frames of them that arrived.
    pub received: u64,
    /// Bytes of these without FCS.
    pub received_bytes: u64,
    /// Those that did not.
    pub lost: u64,
    /// Frames that were due and could not be sent, as the interface was down or had no carrier; not among `sent`.
    #[serde(default)]
    pub refused: u64,
    /// Frames that were due and were left out, as the sender was held up; not among `sent`.
    #[serde(default)]
    pub left_out: u64,
    /// Frames that arrived once more (RFC 5560).
    pub duplicates: u64,
    /// Frames that arrived behind one that was sent later (RFC 4737).
    pub reordered: u64,
    /// When the first was sent, ns since 1970; 0 when none was.
    pub first_ns: u64,
    /// When the last was sent.
    pub last_ns: u64,
    /// When the first lost one was sent; 0 when none was lost.
    pub first_lost_ns: u64,
    /// When the last lost one was sent.
    pub last_lost_ns: u64,
    /// When the first and the last of those that arrived did, ns since 1970; 0 when none did.
    pub arrived_ns: [u64; 2],
    /// Smallest, mean and largest one-way delay, ns; `None` when none arrived.
    pub delay_ns: Option<[f64; 3]>,
}

/// One-way delays and their variation, ns, of frames in the order of their arrival; those that came twice count once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Smallest, mean, largest.
    pub delay: [f64; 3],
    /// (quantile 0 to 1, ns) of the delay: 0.5, 0.9, 0.99, 0.999, 0.9999.
    pub quantiles: Vec<(f64, f64)>,
    /// PDV, above the smallest delay (RFC 5481 §4.2): mean, largest.
    pub pdv: [f64; 2],
    /// |IPDV|, between frames that were sent and arrived next to each other (RFC 3393, RFC 5481 §4.1): mean, largest.
    pub ipdv: [f64; 2],
    /// Jitter by RFC 4689 §3.2.5: the same of any two that arrived in a row: mean, largest.
    pub jitter_4689: [f64; 2],
    /// Smoothed (RFC 3550 §6.4.1, A.8), of any that arrived in a row: at the end, largest.
    pub jitter_3550: [f64; 2],
    /// (upper bound ns, frames) for a picture, at most 200, of the delay.
    pub histogram: Vec<(f64, u64)>,
}
