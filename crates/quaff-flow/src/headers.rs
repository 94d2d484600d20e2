//! The headers of a packet in a batch: its key, and the fields that its flow sums up.

use crate::key::{Keys, PacketKey};
use crate::packet::{Instant, Packet};
use quaff_wire::flow::{FlowPacket, NoFlow};
use quaff_wire::net::agreement::{Numbers, RST, SYN};

/// A packet of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Headers {
    pub(crate) of: PacketKey,
    /// The first flow that the index found, or [`NONE`](crate::wheel::NONE).
    pub(crate) candidate: u32,
    pub(crate) ip_bytes: u32,
    pub(crate) time_ns: u64,
    pub(crate) now: Instant,
    /// Sequence number and acknowledgment of a TCP packet with SYN or RST; of others 0 before
    /// [`Self::with_numbers`], unless `has_numbers`.
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    /// Index of the packet among those that the meter can look into; [`NONE`](crate::wheel::NONE) if it cannot.
    pub(crate) number: u32,
    pub(crate) tcp_flags: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) is_fragment: bool,
    /// The numbers of TCP are those of the packet, whatever its flags.
    pub(crate) has_numbers: bool,
}

impl Headers {
    /// Builds the headers from the parsed fields, for the packet with index `number`. Inlined, as the key is, because
    /// most of it is constant for a plain packet. With `has_numbers`, those of each packet of TCP are read.
    #[inline(always)]
    pub(crate) fn new(
        keys: &Keys,
        read: &FlowPacket,
        packet: &Packet<'_>,
        (now, has_numbers): (Instant, bool),
        number: u32,
    ) -> Self {
        let Numbers { sequence, acknowledgment, .. } = match read.tcp_flags & (SYN | RST) {
            0 if !has_numbers => Numbers::default(),
            _ => read.numbers(packet.bytes),
        };
        Self {
            of: keys.key(read, packet.tunnel, packet.interface),
            candidate: crate::wheel::NONE,
            ip_bytes: read.ip_bytes,
            time_ns: packet.time_ns,
            now,
            sequence,
            acknowledgment,
            number,
            tcp_flags: read.tcp_flags,
            tos: read.tos,
            ttl: read.ttl,
            is_fragment: read.fragment.is_some(),
            has_numbers,
        }
    }

    /// The same with the numbers of `packet`, from which it was built.
    #[cold]
    pub(crate) fn with_numbers(&self, packet: &Packet<'_>) -> Self {
        let numbers = read(packet).map_or(Numbers::default(), |read| read.numbers(packet.bytes));
        let Numbers { sequence, acknowledgment, .. } = numbers;
        Self { sequence, acknowledgment, has_numbers: true, ..*self }
    }

    /// The fields that decide about begin and end of a connection.
    pub(crate) fn numbers(&self) -> Numbers {
        let Self { tcp_flags: flags, sequence, acknowledgment, .. } = *self;
        Numbers { flags, sequence, acknowledgment }
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
