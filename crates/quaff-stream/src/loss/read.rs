//! A packet as the meter takes it: everything that its captured bytes contribute, read without any table.
//!
//! It is small because it may go to another core, whose caches then load each of its lines again.

use crate::event::Sender;
use crate::key::Key;
use quaff_wire::flow::{FlowPacket, TcpFields};
use quaff_wire::net::TCP;

/// Longest plausible payload, bytes.
const PAYLOAD_BYTES_MAX: u32 = 1 << 20;

/// A packet of a connection that was read but not yet processed. Its time is stored beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(super) key: Key,
    pub(super) hash: u32,
    /// The likely index of its connection, once that has been prefetched.
    pub(super) likely: u32,
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// Length of its payload on the wire.
    pub(super) bytes: u32,
    /// Bytes of its payload that the snaplen cut off.
    pub(super) snapped_bytes: u32,
    /// Number of its interface.
    pub(super) interface: u16,
    pub(super) flags: u8,
    pub(super) sender: Sender,
    pub(super) evidence: Evidence,
}

const _: () = assert!(size_of::<Option<Read>>() == 72);

/// The evidence of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// That of its segment.
    Segment,
    /// The receiver drops the packet.
    None,
    /// A fragment, or a truncated header: the connection is excluded, since its evidence would mislead.
    SetAside,
}

/// The fields of a segment that are evidence.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    sequence: u32,
    acknowledgment: u32,
    bytes: u32,
    snapped_bytes: u32,
}

impl Read {
    /// Reads a packet of an interface whose headers were parsed from `bytes`; `None` if it belongs to no connection.
    /// `secret` is that of the meter, and `unknown` the index of no connection.
    #[inline]
    pub(super) fn of(
        packet: &FlowPacket,
        bytes: &[u8],
        interface: u16,
        (secret, unknown): (u64, u32),
    ) -> Option<Self> {
        if packet.protocol != TCP || packet.is_later_fragment() {
            return None;
        }
        let (key, sender) = Key::of(packet);
        let (evidence, fields) = evidence(packet, bytes);
        let Fields { sequence, acknowledgment, bytes, snapped_bytes } = fields;
        Some(Self {
            key,
            hash: key.hash(secret),
            likely: unknown,
            sequence,
            acknowledgment,
            bytes,
            snapped_bytes,
            interface,
            flags: packet.tcp_flags,
            sender,
            evidence,
        })
    }
}

#[inline]
fn evidence(packet: &FlowPacket, bytes: &[u8]) -> (Evidence, Fields) {
    let Some(header) = packet.tcp(bytes).filter(|_| packet.fragment.is_none()) else {
        return (Evidence::SetAside, Fields::default());
    };
    let payload = payload_bytes(packet, &header).filter(|_| packet.ip_bytes <= packet.room);
    let Some(bytes) = payload else { return (Evidence::None, Fields::default()) };
    if bytes > PAYLOAD_BYTES_MAX {
        return (Evidence::SetAside, Fields::default());
    }
    let end = packet.ip_offset + packet.ip_bytes;
    let snapped_bytes = end.saturating_sub(packet.end).min(bytes);
    let TcpFields { sequence, acknowledgment, .. } = header;
    (Evidence::Segment, Fields { sequence, acknowledgment, bytes, snapped_bytes })
}

/// The length of the payload on the wire; `None` if the header is invalid.
#[inline]
fn payload_bytes(packet: &FlowPacket, header: &TcpFields) -> Option<u32> {
    let before = packet.transport - packet.ip_offset + header.header_bytes;
    packet.ip_bytes.checked_sub(before).filter(|_| header.header_bytes >= 20)
}
