//! Segments as input, and stream events as output.

use crate::held::Difference;

/// The sender of a segment, in the caller's order of the two endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sender {
    #[default]
    A,
    B,
}

impl Sender {
    /// The receiver.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// 0 for A, 1 for B.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The segments of one end of a connection in a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Presence {
    /// Nothing, except perhaps a reset.
    #[default]
    Absent,
    /// The other end acknowledges segments that were not captured.
    Acknowledged,
    /// At least one segment, which is no reset.
    Captured,
}

/// A TCP segment whose checksum was valid, or was not checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment<'a> {
    pub sequence: u32,
    pub acknowledgment: u32,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32.
    pub flags: u8,
    /// Window as in the header, unscaled.
    pub window: u16,
    /// Shift of the window scale option (RFC 7323), present in SYNs only.
    pub window_scale: Option<u8>,
    /// Urgent pointer.
    pub urgent: u16,
    /// Captured bytes of the payload.
    pub payload: &'a [u8],
    /// Length of the payload on the wire, bytes: more than captured if the snaplen truncated it.
    pub wire_bytes: u32,
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
}

/// A limit on held bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// For one direction of a connection.
    Direction,
    /// For both directions.
    Flow,
    /// For all connections of a lane.
    Lane,
    /// For all lanes.
    Total,
}

impl Cap {
    pub(crate) const COUNT: usize = 4;
}

/// Why bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    /// The receiver acknowledged them: the capture missed them.
    Acknowledged,
    /// They did not arrive in time.
    Time,
    /// Memory was needed.
    Capped(Cap),
    /// The snaplen cut them off.
    Snapped,
    /// The connection ended before they arrived.
    Ended,
}

impl GapCause {
    /// Number of causes.
    pub const COUNT: usize = 5;
    /// The names in the order of the counters.
    pub const NAMES: [&str; Self::COUNT] = ["acknowledged", "time", "capped", "snapped", "ended"];

    /// Index in [`crate::tally::StreamTally::gaps`].
    pub fn index(self) -> usize {
        match self {
            Self::Acknowledged => 0,
            Self::Time => 1,
            Self::Capped(_) => 2,
            Self::Snapped => 3,
            Self::Ended => 4,
        }
    }
}

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    Fin,
    Reset,
    /// The reader wanted no more bytes, see [`crate::StreamPlan::cutoff_bytes`].
    Cutoff,
    Capped(Cap),
    /// The caller ended it: it was idle, or the input ended.
    Finished,
}

/// An event of one direction of a connection. Offset 0 is the byte after the SYN, or the first one seen.
///
/// Data, urgent bytes and gaps are reported in order of their offsets and cover every offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The next bytes of the stream.
    Data { offset: u64, bytes: &'a [u8] },
    /// An urgent byte that the receiver removes from the stream.
    Urgent { offset: u64, byte: u8 },
    /// Missing bytes.
    Gap { offset: u64, lost_bytes: u64, cause: GapCause },
    /// Two different versions of the same bytes.
    Difference(Difference<'a>),
    /// The last event. `offset` is the length of the stream, including gaps.
    End { offset: u64, reason: EndReason },
}

/// A reader of streams: receives the events of both directions in their order.
pub trait StreamSink {
    /// Receives the next event of the bytes that `sender` sent.
    fn event(&mut self, sender: Sender, event: Event);
}
