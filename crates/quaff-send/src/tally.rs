//! Counts of a source of frames, taken before any frame is sent.

use serde::Serialize;

/// Counts of the packets of a source, taken before any frame is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FeedTally {
    /// Packets in the source.
    pub seen: u64,
    /// Excluded by their number.
    pub excluded: u64,
    /// Not Ethernet frames.
    pub link_type: u64,
    /// Cut by the capture and sent as they are.
    pub cut: u64,
    pub rewritten: RewriteTally,
}

/// Counts of the rewriting of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RewriteTally {
    /// Dropped because the capture had cut them.
    pub cut_dropped: u64,
    /// Dropped because they exceed the MTU.
    pub mtu_skipped: u64,
    pub mtu_cut: u64,
    /// Sent as fragments.
    pub fragmented: u64,
    /// Number of these fragments.
    pub fragments: u64,
    /// Sent without a probe header, because they are too short.
    pub unstamped: u64,
}
