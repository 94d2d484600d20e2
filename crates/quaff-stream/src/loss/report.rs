//! The evidence of a capture's loss as plain data.

use crate::key::Ends;
use serde::Serialize;

/// The evidence that the TCP connections of a capture hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LossReport {
    /// TCP connections, those begun before the capture included.
    pub flows: u64,
    /// Connections with acknowledged data.
    pub flows_with_evidence: u64,
    /// Directions of which data or acknowledgments were captured, and not both.
    pub one_sided: u64,
    /// Directions whose SYN was not captured.
    pub midstream: u64,
    /// Connections with fragments, with headers that the snaplen has cut, or with packets out of the order of time.
    pub set_aside: u64,
    /// Directions whose data were acknowledged, and of which no segment of data was captured, where they are more than
    /// half as many as those with data: a capture filter is more likely than a loss, and they count for nothing.
    pub bare: u64,
    /// Directions of which more than a fifth of the segments came twice: the capture has copies.
    pub copied: u64,
    /// Connections that left a full table early.
    pub evicted: u64,
    /// Captured data segments whose loss would have been seen.
    pub segments: u64,
    /// Acknowledged by the receiver, and never captured.
    pub acked_unseen_bytes: u64,
    /// Runs of such bytes: a packet each, or more.
    pub acked_unseen_runs: u64,
    pub acked_unseen_packets_estimate: u64,
    /// The share of data segments that the capture lacks, and an interval of 95 %; `None` without evidence.
    pub loss_ratio: Option<f64>,
    pub loss_low: Option<f64>,
    pub loss_high: Option<f64>,
    /// Times before the first loss and after the last one, ns since 1970.
    pub first_loss_ns: Option<u64>,
    pub last_loss_ns: Option<u64>,
    /// Bytes that came after later ones: lost before the capture and sent again, or out of order.
    pub filled_bytes: u64,
    /// Bytes that came again, without those of copies.
    pub retransmitted_bytes: u64,
    /// Bytes that came again in a copy of a packet: a mirror port saw it twice.
    pub copied_bytes: u64,
    /// Bytes of payload that the snaplen cut.
    pub snapped_bytes: u64,
    /// Bytes that are missing, and that one of the two ends alone has named.
    pub undecided_bytes: u64,
    /// Those for which there was no room.
    pub untracked_bytes: u64,
    /// Leaps of sequence numbers over more than 128 MiB.
    pub jumps: u64,
    /// Those that acknowledgments confirm: a gap of the capture, or another connection.
    pub leaps_confirmed: u64,
    /// FINs that both ends have named, and that were not captured.
    pub fins_unseen: u64,
    /// Acknowledgments more than 128 MiB away.
    pub acks_ignored: u64,
    /// As `capture-loss.zeek` counts: acknowledgments, those of bytes that were not seen, and their ratio.
    pub zeek_acks: u64,
    pub zeek_gaps: u64,
    pub zeek_ratio: Option<f64>,
    /// Directions with SYN and FIN, and the sum of their "missed data", as tcptrace counts it.
    pub tcptrace_directions: u64,
    pub tcptrace_missed_bytes: u64,
    /// Parts of the capture with segments or drops: at most 64, of equal length.
    pub intervals: Vec<Interval>,
    /// By interface of the sender's packets, in the order of their numbers: at most 64, the last one with all others.
    pub interfaces: Vec<InterfaceLoss>,
    /// The connections with the most lost packets: at most 16, the worst first.
    pub worst: Vec<FlowLoss>,
}

/// The evidence of one interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterfaceLoss {
    /// Empty where the file has no name.
    pub name: String,
    pub segments: u64,
    /// An estimate.
    pub lost_packets: u64,
    pub loss_ratio: Option<f64>,
    /// Drops that the file records at packets (`epb_dropcount`).
    pub recorded_drops: u64,
}

/// A connection with losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlowLoss {
    /// The lower end first.
    pub ends: Ends,
    /// Captured data segments of both directions whose loss would have been seen.
    pub segments: u64,
    /// An estimate, by the mean size of its segments.
    pub lost_packets: u64,
    pub lost_bytes: u64,
}

/// A part of the capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Interval {
    /// ns since 1970.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Captured data segments of directions with acknowledgments.
    pub segments: u64,
    /// An estimate.
    pub lost_packets: u64,
    pub loss_ratio: Option<f64>,
    /// Drops that the file records at packets (`epb_dropcount`).
    pub recorded_drops: u64,
    /// Numbers of mirrored packets that are missing here.
    pub numbered_lost: u64,
}
