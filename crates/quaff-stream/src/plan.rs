//! Limits and rules of reassembly as plain data.

use crate::event::Cap;

/// The action when a cap is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapAction {
    /// Declare the earliest missing bytes a gap, and deliver the bytes held because of them.
    SkipGap,
    /// End this direction of the connection.
    CutStream,
    /// End both directions.
    StopFlow,
}

/// A limit, and the action when it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapRule {
    /// Limit of pages and records of held bytes, at least 4 KiB.
    pub limit_bytes: u64,
    pub action: CapAction,
}

/// The treatment of the urgent byte (RFC 6093).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UrgentRule {
    /// It stays in the stream, as with the socket option SO_OOBINLINE.
    #[default]
    Inline,
    /// It is removed from the stream, as sockets do without that option: the byte before the one that the pointer
    /// names.
    OutOfBand,
}

/// The resets that a receiver accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResetRule {
    /// At the next byte, or at the end of the sent data (RFC 5961).
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
    /// Action at the limit of [`crate::SharedMemory`].
    pub total_action: CapAction,
    /// Time that a hole waits for its bytes, ns.
    pub hole_wait_ns: u64,
    /// The same for an acknowledged hole, ns: a capture may have the acknowledgment before the bytes.
    pub ack_wait_ns: u64,
    /// Offset from which on bytes are not delivered.
    pub cutoff_bytes: u64,
    /// Distance beyond the window up to which bytes are accepted: acknowledgments may be late or missing in a capture.
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
