//! The result types of `strip`.

use super::{Direction, ErspanTime, Session, TunnelFragment, TunnelKind};
use std::fmt;
use std::net::IpAddr;

/// The result of decapsulating one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No tunnel of the wanted kinds, or one with an unsupported payload.
    Plain,
    /// A tunnel with an inner frame.
    Inner(Inner),
    /// A fragment of an IP packet that may be a tunnel: the datagram must be reassembled first.
    Fragment(TunnelFragment),
    /// A tunnel with an invalid header. Nothing was decapsulated.
    Damaged(Damage),
    /// A packet of a tunnel without a frame: keepalive, control, OAM, signalling.
    Control,
    /// An ERSPAN type III marker, which relates a switch's counter to UTC, without a frame.
    Marker(Marker),
}

///
/// `session`, `sequence`, `time` and `direction` come from one tunnel header: of nested tunnels the outermost one with
/// a sequence number, since a mirror port adds that; otherwise the outermost one with a session number; otherwise the
/// outermost. `tag` comes from the innermost header, because it belongs to the inner frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner {
    /// Offset of the inner frame in the input.
    pub start: u32,
    /// Captured bytes of the inner frame.
    pub len: u32,
    /// Its length before the capture truncated it. `None` if a mirror truncated it (ERSPAN's T bit) and no inner length
    /// gives the original length.
    pub wire_len: Option<u32>,
    /// LINKTYPE_* of the inner frame: Ethernet, RAW for bare IP, or those of TZSP.
    pub linktype: u16,
    /// The VLAN tag (TPID, TCI) that was removed according to ERSPAN type II: it belongs after the MAC addresses. `len`
    /// and `wire_len` exclude it.
    pub tag: Option<(u16, u16)>,
    /// The tunnel's session.
    pub session: Session,
    /// GRE sequence number; in ERSPAN one per session, which counts packets.
    pub sequence: Option<u32>,
    /// Hardware timestamp of ERSPAN type III.
    pub time: Option<ErspanTime>,
    /// Direction of ERSPAN type III.
    pub direction: Option<Direction>,
    /// Number of decapsulated tunnels.
    pub depth: u8,
    /// A nested tunnel that was left in place because its header is invalid.
    pub damage: Option<Damage>,
}

/// Why a tunnel header is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The capture truncated the packet in the header.
    Cut,
    /// The packet ends in its header.
    Short,
    /// An unknown version.
    Version,
    /// Invalid flags or type.
    Flags,
    /// An impossible length.
    Length,
    /// The payload contradicts the header, or is not recognised.
    Payload,
    /// Too many consecutive headers of one kind.
    Stack,
}

impl Reason {
    /// All reasons in numeric order.
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

/// An invalid tunnel header: the kind of tunnel, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Damage {
    pub kind: TunnelKind,
    pub reason: Reason,
}

impl Damage {
    /// Number of values, for arrays of counters.
    pub const COUNT: usize = TunnelKind::ALL.len() * Reason::ALL.len();

    /// Index in an array of counters, below [`Damage::COUNT`].
    pub fn index(self) -> usize {
        self.kind as usize * Reason::ALL.len() + self.reason as usize
    }

    /// All values, each at its [`Damage::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        TunnelKind::ALL
            .into_iter()
            .flat_map(|kind| Reason::ALL.into_iter().map(move |reason| Self { kind, reason }))
    }
}

impl fmt::Display for Damage {
    /// For example `erspan: unknown version`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

/// An ERSPAN type III marker packet: at `utc_s` and `utc_us` the switch's counter was `timestamp`. There is no public
/// specification; this is the layout that Wireshark's dissector (`erspan-marker`) found in real packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The sender, as in [`Session::source`].
    pub source: IpAddr,
    /// Lower 8 bits of the session id.
    pub session: u8,
    /// Unit of the counter, ns; `None` if only the switch knows it.
    pub tick_ns: Option<u32>,
    /// Offset of the sender's time from UTC, s; positive if ahead.
    pub utc_offset_s: u8,
    /// The 48-bit counter; frames carry its lower 32 bits.
    pub timestamp: u64,
    /// Seconds since 1970.
    pub utc_s: u32,
    /// Additional microseconds.
    pub utc_us: u32,
}
