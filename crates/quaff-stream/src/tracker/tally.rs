//! The packets and connections of a tracker, by their fate.

use crate::tally::add_fields;
use std::ops::AddAssign;

/// Counters of a tracker. Each packet is in exactly one term of [`Self::accounted`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackTally {
    pub packets: u64,
    /// Segments of connections, without those of reassembled datagrams.
    pub segments: u64,
    /// TCP fragments.
    pub fragments: u64,
    /// Packets of UDP conversations, fragments too.
    pub datagrams: u64,
    /// Packets without an IP header.
    pub not_ip: u64,
    pub not_tcp: u64,
    /// Packets truncated before the payload.
    pub truncated: u64,
    /// Packets with headers that no receiver accepts: too short, or longer than the packet.
    pub damaged: u64,
    /// Packets of connections that were not selected.
    pub unselected: u64,

    /// Reassembled datagrams that were segments.
    pub segments_whole: u64,
    pub connections: u64,
    /// Ended connections, by [`CloseReason`].
    pub ended: [u64; CloseReason::COUNT],
    /// Maximum number of concurrent connections.
    pub connections_high: u64,
    /// UDP conversations.
    pub udp: u64,
    /// Ended UDP conversations, by [`CloseReason`].
    pub udp_ended: [u64; CloseReason::COUNT],
}

add_fields!(TrackTally:
    packets, segments, fragments, datagrams, not_ip, not_tcp, truncated, damaged, unselected, segments_whole,
    connections, ended, connections_high, udp, udp_ended
);

impl TrackTally {
    /// True if every packet is counted exactly once.
    pub fn is_balanced(&self) -> bool {
        let Self { segments, fragments, datagrams, not_ip, not_tcp, truncated, damaged, unselected, .. } =
            *self;
        self.packets == segments + fragments + datagrams + not_ip + not_tcp + truncated + damaged + unselected
    }
}

/// Why a connection was removed from the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both directions had ended.
    Closed,
    Idle,
    /// The table was full.
    Evicted,
    /// Another connection started between the same endpoints.
    Reused,
    InputEnded,
}

impl CloseReason {
    /// Number of reasons.
    pub const COUNT: usize = 5;
    /// The names in the order of [`TrackTally::ended`].
    pub const NAMES: [&str; Self::COUNT] = ["closed", "idle", "evicted", "reused", "input_ended"];
}
