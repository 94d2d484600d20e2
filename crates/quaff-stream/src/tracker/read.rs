//! A packet as the tracker takes it: all that its headers say, read without any connection. Another thread may read
//! packets ahead of the tracker.

use crate::event::{Segment, Sender};
use crate::key::Key;
use quaff_wire::flow::{FlowPacket, NoFlow};
use quaff_wire::net::TCP;
use quaff_wire::net::agreement::SYN;

/// Length of a TCP header without options.
const TCP_BYTES: u32 = 20;

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct TrackPacket<'a> {
    /// Captured bytes, from the link header on.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes.
    pub wire_bytes: u32,
    /// LINKTYPE of `bytes`.
    pub linktype: u16,
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
}

/// Reads packets for one tracker.
#[derive(Debug, Clone, Copy)]
pub struct TrackReader {
    secret: u64,
}

/// A packet that was read.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrackRead {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) hash: u32,
    pub(super) sender: Sender,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    window_scale: Option<u8>,
    window: u16,
    urgent: u16,
    /// Offsets of the captured payload.
    payload_at: u32,
    payload_end: u32,
    wire_bytes: u32,
}

/// The kind of a packet. All but the first five have a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    NotIp,
    NotTcp,
    Truncated,
    /// Longer than what carries it.
    Damaged,
    Fragment,
    Segment,
    /// Its header is truncated, or damaged.
    TruncatedSegment,
    DamagedSegment,
}

impl TrackReader {
    pub(super) fn new(secret: u64) -> Self {
        Self { secret }
    }

    /// Reads a packet.
    #[inline]
    pub fn read(&self, packet: &TrackPacket<'_>) -> TrackRead {
        let TrackPacket { bytes, wire_bytes, linktype, .. } = *packet;
        let of = |kind| TrackRead { kind, ..TrackRead::default() };
        match FlowPacket::read(bytes, wire_bytes, linktype) {
            Ok(read) if read.protocol != TCP => of(Kind::NotTcp),
            Ok(read) if read.ip_offset + read.ip_bytes > wire_bytes || read.ip_bytes > read.room => {
                of(Kind::Damaged)
            }
            Ok(read) if read.fragment.is_some() => of(Kind::Fragment),
            Ok(read) => self.segment(&read, bytes),
            Err(NoFlow::NotIp) => of(Kind::NotIp),
            Err(NoFlow::Truncated) => of(Kind::Truncated),
        }
    }

    /// Reads a packet that is not fragmented, or no longer.
    #[inline]
    pub(super) fn segment(&self, read: &FlowPacket, bytes: &[u8]) -> TrackRead {
        let (key, sender) = Key::of(read);
        let known = TrackRead { key, hash: key.hash(self.secret), sender, ..TrackRead::default() };
        let Some(header) = read.tcp(bytes) else {
            return TrackRead { kind: Kind::TruncatedSegment, ..known };
        };
        let payload_at = read.transport + header.header_bytes;
        let wire_bytes = (read.ip_offset + read.ip_bytes).checked_sub(payload_at);
        let Some(wire_bytes) = wire_bytes.filter(|_| header.header_bytes >= TCP_BYTES) else {
            return TrackRead { kind: Kind::DamagedSegment, ..known };
        };
        let urgent = bytes.get(read.transport as usize + 18..).and_then(<[u8]>::first_chunk::<2>);
        TrackRead {
            kind: Kind::Segment,
            sequence: header.sequence,
            acknowledgment: header.acknowledgment,
            flags: read.tcp_flags,
            window: header.window,
            window_scale: if read.tcp_flags & SYN == 0 { None } else { read.window_scale(bytes) },
            urgent: urgent.map_or(0, |urgent| u16::from_be_bytes(*urgent)),
            payload_at,
            payload_end: read.end,
            wire_bytes,
            ..known
        }
    }
}

impl TrackRead {
    /// The segment of a packet with these bytes.
    #[inline]
    pub(super) fn segment<'a>(&self, bytes: &'a [u8], time_ns: u64) -> Segment<'a> {
        Segment {
            sequence: self.sequence,
            acknowledgment: self.acknowledgment,
            flags: self.flags,
            window: self.window,
            window_scale: self.window_scale,
            urgent: self.urgent,
            payload: bytes.get(self.payload_at as usize..self.payload_end as usize).unwrap_or_default(),
            wire_bytes: self.wire_bytes,
            time_ns,
        }
    }
}
