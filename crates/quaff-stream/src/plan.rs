//! The limits and rules of reassembly, as plain data.

use crate::event::Cap;

/// The action when a cap is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapAction {
    /// Declare the earliest missing bytes a gap, and deliver those that wait for them.
    SkipGap,
    /// End this direction of the connection.
    CutStream,
    /// End both directions.
    StopFlow,
}

/// A limit, and the action when it is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapRule {
    /// Pages and records of bytes that wait. The least that is useful is 4 KiB.
    pub limit_bytes: u64,
    pub action: CapAction,
}

/// The urgent byte's place (RFC 6093).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UrgentRule {
    /// In the stream, as with the socket option SO_OOBINLINE.
    #[default]
    Inline,
    /// Outside of it, as sockets have it without that option: the byte before the one that the pointer names.
    OutOfBand,
}

/// The resets that a receiver accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResetRule {
    /// At the next byte, or at the end of what was sent (RFC 5961).
    #[default]
    Exact,
    /// Anywhere in the window (RFC 793).
    InWindow,
}

/// The rules for all streams of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPlan {
    pub direction: CapRule,
    pub flow: CapRule,
    pub lane: CapRule,
    /// The limit itself is that of [`crate::SharedMemory`].
    pub total_action: CapAction,
    /// Time for which a hole waits for its bytes, ns.
    pub hole_wait_ns: u64,
    /// The same for one whose bytes were acknowledged, ns: the acknowledgment may precede them in a capture.
    pub ack_wait_ns: u64,
    /// Offset from which on bytes are not delivered.
    pub cutoff_bytes: u64,
    /// Distance beyond the window at which bytes are still taken: acknowledgments may be late in a capture, or missing.
    pub window_slack_bytes: u64,
    pub urgent: UrgentRule,
    pub reset: ResetRule,
}

impl Default for StreamPlan {
    fn default() -> Self {
        let rule = |limit_bytes, action| CapRule { limit_bytes, action };
        Self {
            direction: rule(4 << 20, CapAction::SkipGap),
            flow: rule(6 << 20, CapAction::SkipGap),
            lane: rule(64 << 20, CapAction::SkipGap),
            total_action: CapAction::SkipGap,
            hole_wait_ns: 10_000_000_000,
            ack_wait_ns: 0,
            cutoff_bytes: u64::MAX,
            window_slack_bytes: 16 << 20,
            urgent: UrgentRule::Inline,
            reset: ResetRule::Exact,
        }
    }
}

impl StreamPlan {
    pub(crate) fn action(&self, cap: Cap) -> CapAction {
        match cap {
            Cap::Direction => self.direction.action,
            Cap::Flow => self.flow.action,
            Cap::Lane => self.lane.action,
            Cap::Total => self.total_action,
        }
    }
}
