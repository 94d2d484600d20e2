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
    /// Truncated by the capture and sent as they are.
    pub cut: u64,
    pub rewritten: RewriteTally,
}

/// Counts of the rewriting of one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RewriteTally {
    /// Dropped because the capture had truncated them.
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

/// Shortest unpaced run that has a rate: frames are handed to the kernel in batches, ns.
const RATE_NS_MIN: u64 = 10_000_000;

/// Frames/s of a run between its first and last frame; `None` if the run is too short.
pub(crate) fn mean_pps(frames: u64, span_ns: u64, is_paced: bool) -> Option<f64> {
    let has_rate = span_ns > 0 && (is_paced || span_ns >= RATE_NS_MIN);
    has_rate.then(|| frames.saturating_sub(1) as f64 / (span_ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_too_short_has_no_rate() {
        assert_eq!(mean_pps(20, 460, false), None);
        assert_eq!(mean_pps(1, 0, true), None);
        assert_eq!(mean_pps(21, 200_000, true), Some(100_000.0));
        assert_eq!(mean_pps(10_001, 10_000_000, false), Some(1_000_000.0));
    }
}
