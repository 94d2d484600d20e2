//! The packets and connections of a tracker, by their fate.

use crate::tally::add_fields;
use std::ops::AddAssign;

/// Counters of a tracker. Each packet is in exactly one term of [`Self::accounted`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackTally {
    pub packets: u64,
    /// Segments of a connection, those of whole datagrams left out.
    pub segments: u64,
    /// Fragments of TCP.
    pub fragments: u64,
    /// No IP header.
    pub not_ip: u64,
    pub not_tcp: u64,
    /// The capture ends before the payload.
    pub truncated: u64,
    /// Headers that no receiver takes: too short, or longer than the packet.
    pub damaged: u64,
    /// Of other connections than the one asked for.
    pub unselected: u64,

    /// Datagrams that were put together from fragments, and were segments.
    pub segments_whole: u64,
    pub connections: u64,
    /// Connections by the reason of their end, by [`CloseReason`].
    pub ended: [u64; CloseReason::COUNT],
    /// Most connections at a time.
    pub connections_high: u64,
}

add_fields!(
    TrackTally:
    packets,
    segments,
    fragments,
    not_ip,
    not_tcp,
    truncated,
    damaged,
    unselected,
    segments_whole,
    connections,
    ended,
    connections_high,
);

impl TrackTally {
    /// Returns true if each packet has a fate.
    pub fn is_balanced(&self) -> bool {
        let Self { segments, fragments, not_ip, not_tcp, truncated, damaged, unselected, .. } = *self;
        self.packets == segments + fragments + not_ip + not_tcp + truncated + damaged + unselected
    }
}

/// The reason for which a connection left the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both directions had ended.
    Closed,
    Idle,
    /// The table was full.
    Evicted,
    /// Another connection began between the same ends.
    Reused,
    InputEnded,
}

impl CloseReason {
    /// Number of reasons.
    pub const COUNT: usize = 5;
    /// Their names, in the order of [`TrackTally::ended`].
    pub const NAMES: [&str; Self::COUNT] = ["closed", "idle", "evicted", "reused", "input_ended"];
}
