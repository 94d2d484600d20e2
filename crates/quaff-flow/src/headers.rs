//! The headers of a packet in a batch: its key, and the fields that its flow sums up.

use crate::key::{Keys, PacketKey};
use crate::packet::{Instant, Packet};
use quaff_wire::flow::{FlowPacket, NoFlow};

/// Flags of TCP (RFC 9293, section 3.1).
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A packet of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers {
    pub(crate) of: PacketKey,
    /// The first flow that the index found, or [`NONE`](crate::wheel::NONE).
    pub(crate) candidate: u32,
    pub(crate) ip_bytes: u32,
    pub(crate) time_ns: u64,
    pub(crate) now: Instant,
    /// Sequence number of a TCP packet with SYN.
    pub(crate) sequence: u32,
    /// Index of the packet in its batch.
    pub(crate) number: u32,
    pub(crate) tcp_flags: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) is_fragment: bool,
}

impl Headers {
    /// Builds the headers from the parsed fields, for index `number` of a batch. Inlined, as the key is, because most
    /// of it is constant for a plain packet.
    #[inline(always)]
    pub(crate) fn new(
        keys: &Keys,
        read: &FlowPacket,
        packet: &Packet<'_>,
        now: Instant,
        number: u32,
    ) -> Self {
        Self {
            of: keys.key(read, packet.tunnel, packet.interface),
            candidate: crate::wheel::NONE,
            ip_bytes: read.ip_bytes,
            time_ns: packet.time_ns,
            now,
            sequence: match read.tcp_flags & SYN {
                0 => 0,
                _ => read.tcp(packet.bytes).map_or(0, |tcp| tcp.sequence),
            },
            number,
            tcp_flags: read.tcp_flags,
            tos: read.tos,
            ttl: read.ttl,
            is_fragment: read.fragment.is_some(),
        }
    }
}

/// Reads the headers of a packet.
#[inline]
pub(crate) fn read(packet: &Packet<'_>) -> Result<FlowPacket, NoFlow> {
    let mut read = FlowPacket::read(packet.bytes, packet.wire_bytes, packet.linktype)?;
    add_tag(&mut read, packet);
    Ok(read)
}

/// Adds the VLAN tag that the kernel removed, which was the outermost one.
#[inline]
pub(crate) fn add_tag(read: &mut FlowPacket, packet: &Packet<'_>) {
    if let Some((_, tci)) = packet.tag {
        (read.vlan, read.inner_vlan) = (tci & 0xfff, read.vlan);
    }
}
