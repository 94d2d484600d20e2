//! The types that `strip` returns.

use super::{Direction, ErspanTime, Session, TunnelFragment, TunnelKind};
use std::fmt;
use std::net::IpAddr;

/// The result of looking for a tunnel in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No tunnel of the wanted kinds, or one whose payload is not a known kind of frame.
    Plain,
    /// A tunnel, and where the inner frame is.
    Inner(Inner),
    /// A fragment of an IP packet that may be a tunnel: reassemble the datagram first.
    Fragment(TunnelFragment),
    /// A tunnel with an invalid header. Nothing was taken off.
    Damaged(Damage),
    /// A packet of a tunnel that carries no frame: keepalive, control, OAM, signal.
    Control,
    /// An ERSPAN type III marker, which ties a switch's counter to UTC, and carries no frame either.
    Marker(Marker),
}

/// An inner frame.
///
/// `session`, `sequence`, `time` and `direction` belong together and come from one tunnel header:
/// of nested tunnels it is the outermost one with a sequence number, since that is what a mirror
/// port adds; if none has one, the outermost one whose session has a number; else the outermost.
/// `tag` comes from the innermost, because it belongs to the frame that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner {
    /// Offset of the inner frame in the bytes that were given.
    pub start: u32,
    /// Captured bytes of the inner frame.
    pub len: u32,
    /// Its length before a capture cut it. `None` when a mirror truncated it (ERSPAN's T bit) and
    /// no length further in gives its original length.
    pub wire_len: Option<u32>,
    /// LINKTYPE_* of the inner frame: Ethernet, RAW for bare IP, and those of TZSP.
    pub linktype: u16,
    /// The VLAN tag (TPID, TCI) that ERSPAN type II says was removed: belongs after the MAC addresses.
    /// Neither `len` nor `wire_len` count it.
    pub tag: Option<(u16, u16)>,
    /// The tunnel that it came through.
    pub session: Session,
    /// GRE sequence number; ERSPAN has one per session, that counts packets.
    pub sequence: Option<u32>,
    /// ERSPAN type III hardware time.
    pub time: Option<ErspanTime>,
    /// ERSPAN type III direction.
    pub direction: Option<Direction>,
    /// Number of tunnels that were taken off.
    pub depth: u8,
    /// A tunnel in the inner frame that was left in place because its header is invalid.
    pub damage: Option<Damage>,
}

/// The reason why a tunnel header is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The capture kept too few bytes of the packet.
    Cut,
    /// The packet ends before its header does.
    Short,
    /// An unknown version.
    Version,
    /// Invalid flags or type.
    Flags,
    /// An impossible length.
    Length,
    /// The payload contradicts the header, or is not recognised.
    Payload,
    /// More headers in a row than any sender writes.
    Stack,
}

impl Reason {
    /// All of them, in the order of their numbers.
    const ALL: [Self; 7] =
        [Self::Cut, Self::Short, Self::Version, Self::Flags, Self::Length, Self::Payload, Self::Stack];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "header cut off by the capture",
            Self::Short => "packet ends in the header",
            Self::Version => "unknown version",
            Self::Flags => "impossible flags or type",
            Self::Length => "impossible length",
            Self::Payload => "payload is not what the header says",
            Self::Stack => "too many headers in a row",
        })
    }
}

/// An invalid tunnel header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Damage {
    pub kind: TunnelKind,
    pub reason: Reason,
}

impl Damage {
    /// The number of reasons: the length of an array of counters.
    pub const COUNT: usize = TunnelKind::ALL.len() * Reason::ALL.len();

    /// Its place in an array of counters, below [`Damage::COUNT`].
    pub fn index(self) -> usize {
        self.kind as usize * Reason::ALL.len() + self.reason as usize
    }

    /// All of them, each at its [`Damage::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        TunnelKind::ALL
            .into_iter()
            .flat_map(|kind| Reason::ALL.into_iter().map(move |reason| Self { kind, reason }))
    }
}

impl fmt::Display for Damage {
    /// For instance `erspan: unknown version`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

/// An ERSPAN type III marker packet: at `utc_s` and `utc_us` the switch's counter stood at
/// `timestamp`. There is no public specification; this is the layout that Wireshark's dissector
/// (`erspan-marker`) found in real packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The sender, as in [`Session::source`].
    pub source: IpAddr,
    /// The lower 8 bits of the session id.
    pub session: u8,
    /// The unit of the counter, ns; `None` when only the switch knows.
    pub tick_ns: Option<u32>,
    /// Seconds that the sender's time is ahead of UTC.
    pub utc_offset_s: u8,
    /// The counter, 48 bits; frames carry its lower 32.
    pub timestamp: u64,
    /// Seconds since 1970.
    pub utc_s: u32,
    /// Microseconds on top.
    pub utc_us: u32,
}
