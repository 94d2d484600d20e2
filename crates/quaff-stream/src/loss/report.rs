//! The evidence of a capture's loss as plain data.

use crate::key::Ends;
use quaff_wire::format::supported;
use serde::Serialize;

/// The evidence in the TCP connections of a capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LossReport {
    /// TCP connections, including those that started before the capture.
    pub flows: u64,
    /// Connections with acknowledged data.
    pub flows_with_evidence: u64,
    /// Connections of which acknowledged data are missing.
    pub flows_with_loss: u64,
    /// Directions with either data or acknowledgments captured, but not both.
    pub one_sided: u64,
    /// Connections of which one direction alone was captured, and acknowledges the other.
    pub one_way: u64,
    /// Directions whose SYN was not captured.
    pub midstream: u64,
    /// Connections with fragments, truncated headers, or packets out of time order; excluded.
    pub set_aside: u64,
    /// Directions whose data were acknowledged but not captured, if they are more than half as many as those with data:
    /// then a capture filter is more likely than a loss, and they are excluded.
    pub bare: u64,
    /// Directions in which more than a fifth of the segments arrived twice: the capture has copies.
    pub copied: u64,
    /// Connections that were evicted from a full table.
    pub evicted: u64,
    /// Captured data segments whose loss would have been seen.
    pub segments: u64,
    /// Bytes acknowledged by the receiver and never captured.
    pub acked_unseen_bytes: u64,
    /// Runs of such bytes: one packet each, or several.
    pub acked_unseen_runs: u64,
    pub acked_unseen_packets_estimate: u64,
    /// A 95 % interval of that number: at least one packet for each run. No upper end where nothing was captured.
    pub lost_packets_low: u64,
    pub lost_packets_high: Option<u64>,
    /// Share of data segments that the capture missed, and a 95 % interval; `None` without evidence.
    pub loss_ratio: Option<f64>,
    pub loss_low: Option<f64>,
    pub loss_high: Option<f64>,
    /// Times before the first loss and after the last one, ns since 1970.
    pub first_loss_ns: Option<u64>,
    pub last_loss_ns: Option<u64>,
    /// Bytes that arrived after later ones: lost before the capture and retransmitted, or out of order.
    pub filled_bytes: u64,
    /// Bytes that arrived again, without copies.
    pub retransmitted_bytes: u64,
    /// Bytes that arrived again in a copy of a packet, which a mirror port saw twice.
    pub copied_bytes: u64,
    /// Payload bytes that the snaplen cut off.
    pub snapped_bytes: u64,
    /// Missing bytes that only one of the endpoints has named.
    pub undecided_bytes: u64,
    /// Missing bytes that did not fit in the arena.
    pub untracked_bytes: u64,
    /// Leaps of sequence numbers over more than 128 MiB.
    pub jumps: u64,
    /// Leaps that acknowledgments confirm: a gap of the capture, or another connection.
    pub leaps_confirmed: u64,
    /// FINs that both endpoints have named but that were not captured.
    pub fins_unseen: u64,
    /// SYNs and SYN-ACKs that both endpoints have named but that were not captured, one for each connection.
    pub syns_unseen: u64,
    /// The same if there are more than eight, and more than connections with both: then a capture filter is more likely
    /// than a loss, and they are excluded.
    pub syns_set_aside: u64,
    /// Acknowledgments more than 128 MiB away.
    pub acks_ignored: u64,
    /// As `capture-loss.zeek` counts: acknowledgments, those of bytes not seen, and their ratio.
    pub zeek_acks: u64,
    pub zeek_gaps: u64,
    pub zeek_ratio: Option<f64>,
    /// Directions with SYN and FIN, and the sum of their "missed data", as tcptrace counts them.
    pub tcptrace_directions: u64,
    pub tcptrace_missed_bytes: u64,
    /// Parts of the capture with segments or drops: at most 64, of equal length.
    pub intervals: Vec<Interval>,
    /// By interface of the sender's packets, in the order of their numbers: at most 64, the last one for all others.
    pub interfaces: Vec<InterfaceLoss>,
    /// The connections with the most lost packets, worst first, at most 16.
    pub worst: Vec<FlowLoss>,
}

impl LossReport {
    /// A number of lost packets, with the digits that the interval of the estimate supports.
    pub fn supported(&self, packets: u64) -> u64 {
        supported(packets, self.acked_unseen_packets_estimate, self.lost_packets_low, self.lost_packets_high)
    }
}

/// The evidence of one interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct InterfaceLoss {
    /// Empty if the file has no name.
    pub name: String,
    pub segments: u64,
    /// Estimated number.
    pub lost_packets: u64,
    pub loss_ratio: Option<f64>,
    /// Drops that the file records at packets (`epb_dropcount`).
    pub recorded_drops: u64,
}

/// A connection with losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlowLoss {
    /// The endpoints, the lower one first.
    pub ends: Ends,
    /// Captured data segments of both directions whose loss would have been seen.
    pub segments: u64,
    /// Estimated number, by the mean size of its segments.
    pub lost_packets: u64,
    pub lost_bytes: u64,
}

/// A part of the capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Start, ns since 1970.
    pub from_ns: u64,
    pub to_ns: u64,
    /// Captured data segments of directions with acknowledgments.
    pub segments: u64,
    /// Estimated number.
    pub lost_packets: u64,
    pub loss_ratio: Option<f64>,
    /// Drops that the file records at packets (`epb_dropcount`).
    pub recorded_drops: u64,
    /// Missing numbers of mirrored packets.
    pub numbered_lost: u64,
}
