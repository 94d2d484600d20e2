//! Segments as they come, and events as the reader of a stream sees them.

use crate::held::Difference;

/// The sender of a segment, in the order in which the caller keeps the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
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

/// A TCP segment. Its checksum was valid, or was not checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment<'a> {
    pub sequence: u32,
    pub acknowledgment: u32,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32.
    pub flags: u8,
    /// As in the header, unscaled.
    pub window: u16,
    /// The shift of the option "window scale" (RFC 7323), which SYNs have.
    pub window_scale: Option<u8>,
    /// The urgent pointer.
    pub urgent: u16,
    /// The captured bytes of the payload.
    pub payload: &'a [u8],
    /// Bytes of the payload on the wire: more than captured if the snaplen cut them.
    pub wire_bytes: u32,
    /// ns since 1970.
    pub time_ns: u64,
}

/// A limit on bytes that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap {
    /// Of one direction of a connection.
    Direction,
    /// Of both directions.
    Flow,
    /// Of all connections of a lane.
    Lane,
    /// Of all lanes.
    Total,
}

impl Cap {
    pub(crate) const COUNT: usize = 4;
}

/// The reason for which bytes are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapCause {
    /// The receiver acknowledged them: the capture lacks them.
    Acknowledged,
    /// They did not come in time.
    Time,
    /// Memory was needed.
    Capped(Cap),
    /// The snaplen cut them.
    Snapped,
    /// The connection ended before they came.
    Ended,
}

impl GapCause {
    /// Number of causes.
    pub const COUNT: usize = 5;
    /// Their names, in the order of the counters.
    pub const NAMES: [&str; Self::COUNT] = ["acknowledged", "time", "capped", "snapped", "ended"];

    /// Its place in [`crate::tally::StreamTally::gaps`].
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

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    Fin,
    Reset,
    /// The reader wanted no more bytes: see [`crate::StreamPlan::cutoff_bytes`].
    Cutoff,
    Capped(Cap),
    /// The caller ended it: it was idle, or the input ended.
    Finished,
}

/// An event of one direction of a connection. Offsets count from the byte after SYN, or from the first one seen.
///
/// Data, urgent bytes and gaps come in the order of their offsets and leave no offset out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// The next bytes of the stream.
    Data { offset: u64, bytes: &'a [u8] },
    /// An urgent byte that the receiver takes out of the stream.
    Urgent { offset: u64, byte: u8 },
    /// Bytes that are missing.
    Gap { offset: u64, lost_bytes: u64, cause: GapCause },
    /// Two versions of the same bytes.
    Difference(Difference<'a>),
    /// The last event. `offset` is the length of the stream, gaps included.
    End { offset: u64, reason: EndReason },
}

/// The reader of streams.
pub trait StreamSink {
    /// Receives the next event of the bytes that `sender` sent.
    fn event(&mut self, sender: Sender, event: Event);
}
