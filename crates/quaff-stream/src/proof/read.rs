//! Packets as the meter takes them: all that their bytes contribute to the evidence, read without any table. One core
//! may read packets while another one, which owns the tables, takes them in batches.

use super::copies::Digest;
use super::rtp;
use crate::key::words;
use crate::loss::{self, LossMeter};
use quaff_wire::flow::{FlowPacket, mix};
use quaff_wire::net::UDP;
use quaff_wire::tunnel::GreSequence;
use std::net::IpAddr;
use std::num::NonZeroU64;

const GRE: u8 = 47;
const QUIC_PORT: u16 = 443;

/// Packets, and drops at packets, of a full batch: 64 KiB, which the caches of both cores hold.
const BATCH: usize = 512;

/// A packet that was read but not yet processed: two cache lines, which another core may have to load.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Read {
    pub(super) time_ns: u64,
    pub(super) digest: Option<Digest>,
    pub(super) numbers: Numbered,
    pub(super) host: Option<Host>,
    pub(super) tcp: Option<loss::Read>,
}

const _: () = assert!(size_of::<Read>() == 128);

/// The number of a packet, after a keyed hash of its sender.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbered {
    /// The GRE sequence number of a mirror session.
    Erspan(u64, u32),
    /// That of another tunnel.
    Gre(u64, u32),
    Rtp(u64, u32),
    /// One of its ports is that of QUIC.
    Quic,
    None,
}

/// The pair of hosts of an IPv4 packet, and its identification.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) key: NonZeroU64,
    pub(super) number: u16,
}

/// Drops that the file records at a packet.
#[derive(Debug)]
pub(super) struct Drops {
    /// Number of packets in the batch before it.
    pub(super) after: usize,
    pub(super) time_ns: u64,
    pub(super) drops: u64,
    pub(super) interface: u16,
}

/// Packets of a [`ProofReader`], in order, for its meter.
#[derive(Debug)]
pub struct ProofBatch {
    pub(super) reads: Vec<Read>,
    pub(super) drops: Vec<Drops>,
}

/// Reads packets into batches, for a meter that may run on another core.
#[derive(Debug)]
pub struct ProofReader {
    hashes: Hashes,
    batch: ProofBatch,
}

/// The secrets of the hashes in a [`Read`]: those of one meter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashes {
    tcp: u64,
    copies: u64,
    senders: u64,
}

impl Default for ProofBatch {
    /// An empty batch with room for a full one.
    fn default() -> Self {
        Self { reads: Vec::with_capacity(BATCH), drops: Vec::new() }
    }
}

impl ProofBatch {
    #[inline]
    fn is_full(&self) -> bool {
        self.reads.len() >= BATCH
    }

    /// Removes all packets, and keeps the memory.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.drops.clear();
    }
}

impl ProofReader {
    /// Creates a reader with an empty batch. `secret` is that of the meter.
    pub fn new(secret: u64) -> Self {
        Self { hashes: Hashes::new(secret), batch: ProofBatch::default() }
    }

    /// Reads a packet of link type `linktype` with `bytes` captured of `wire_bytes`. Returns true if the batch is full:
    /// it must be taken, or replaced by an empty one, before the next packet.
    #[inline]
    pub fn packet(
        &mut self,
        bytes: &[u8],
        wire_bytes: u32,
        linktype: u16,
        time_ns: u64,
        interface: u16,
    ) -> bool {
        // For a plain packet most fields are known at compile time.
        match FlowPacket::plain(bytes, linktype) {
            Some(packet) => self.batch.reads.push(self.hashes.read(&packet, bytes, time_ns, interface)),
            None => self.walk(bytes, (wire_bytes, linktype), time_ns, interface),
        }
        self.batch.is_full()
    }

    #[inline(never)]
    fn walk(&mut self, bytes: &[u8], kind: (u32, u16), time_ns: u64, interface: u16) {
        self.batch.reads.extend(self.hashes.walk(bytes, kind, time_ns, interface));
    }

    /// Adds drops that the file records at a packet. Returns true if the batch is full.
    pub fn note_drops(&mut self, time_ns: u64, drops: u64, interface: u16) -> bool {
        let after = self.batch.reads.len();
        self.batch.drops.push(Drops { after, time_ns, drops, interface });
        self.batch.drops.len() >= BATCH
    }

    /// The batch of the packets read.
    pub fn batch(&mut self) -> &mut ProofBatch {
        &mut self.batch
    }
}

impl Hashes {
    pub(super) fn new(secret: u64) -> Self {
        Self { tcp: secret, copies: mix(secret, 1), senders: mix(secret, 2) }
    }

    /// Reads a packet of any supported headers; `None` without an IP packet.
    #[inline]
    pub(super) fn walk(
        &self,
        bytes: &[u8],
        (wire_bytes, linktype): (u32, u16),
        time_ns: u64,
        interface: u16,
    ) -> Option<Read> {
        let plain = FlowPacket::plain_ipv6(bytes, linktype);
        let packet = plain.or_else(|| FlowPacket::walk(bytes, wire_bytes, linktype).ok())?;
        Some(self.read(&packet, bytes, time_ns, interface))
    }

    /// Reads a packet whose headers were parsed from `bytes`.
    #[inline(always)]
    pub(super) fn read(&self, packet: &FlowPacket, bytes: &[u8], time_ns: u64, interface: u16) -> Read {
        let is_later = packet.is_later_fragment();
        let numbers = match packet.protocol {
            GRE if !is_later => self.gre(packet, bytes),
            UDP if !is_later => self.udp(packet, bytes),
            _ => Numbered::None,
        };
        Read {
            time_ns,
            digest: Digest::of(packet, bytes, interface, self.copies),
            numbers,
            host: if packet.fragment.is_none() { self.host(packet, bytes) } else { None },
            tcp: LossMeter::read(packet, bytes, interface, self.tcp),
        }
    }

    #[inline(never)]
    fn gre(&self, packet: &FlowPacket, bytes: &[u8]) -> Numbered {
        let header = bytes.get(packet.transport as usize..packet.end as usize).and_then(GreSequence::read);
        let Some(GreSequence { sequence, is_erspan, id }) = header else { return Numbered::None };
        let key = self.pair(packet, id.into());
        if is_erspan { Numbered::Erspan(key, sequence) } else { Numbered::Gre(key, sequence) }
    }

    #[inline]
    fn udp(&self, packet: &FlowPacket, bytes: &[u8]) -> Numbered {
        if packet.ports[0] == QUIC_PORT || packet.ports[1] == QUIC_PORT {
            return Numbered::Quic;
        }
        let Some(rtp) = rtp::read(packet, bytes) else { return Numbered::None };
        let [from, to] = [u64::from(packet.ports[0]), u64::from(packet.ports[1])];
        let key = self.pair(packet, from << 48 | to << 32 | u64::from(rtp.source));
        Numbered::Rtp(key, rtp.sequence.into())
    }

    /// The pair of hosts of an IPv4 packet, and its identification.
    #[inline]
    fn host(&self, packet: &FlowPacket, bytes: &[u8]) -> Option<Host> {
        let at = packet.ip_offset as usize;
        let &[high, low] = bytes.get(at + 4..at + 6).and_then(<[u8]>::first_chunk)?;
        if packet.addresses[0].is_ipv6() {
            return None;
        }
        let key = NonZeroU64::MIN | self.pair(packet, 0);
        Some(Host { key, number: u16::from_be_bytes([high, low]) })
    }

    /// A keyed hash of source and destination.
    #[inline]
    fn pair(&self, packet: &FlowPacket, id: u64) -> u64 {
        let begun = if id == 0 { self.senders } else { mix(self.senders, id) };
        match packet.addresses {
            // Both fit in one word.
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                mix(begun, u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()))
            }
            both => both.map(words).iter().flatten().fold(begun, |sum, word| mix(sum, *word)),
        }
    }
}
