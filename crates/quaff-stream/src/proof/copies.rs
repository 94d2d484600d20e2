//! Packets that a capture contains twice because a mirror port, or a second tap, saw them twice.
//!
//! A copy arrives within 1 ms, with the same length and the same 96 bytes from the IP header on, except TTL and header
//! checksum: the checksum of TCP or UDP covers the rest. At another place (interface, VLAN, MAC addresses or TTL
//! differ) that suffices. At the same place it also needs an IPv4 identification, which a sender changes when it
//! retransmits.

use quaff_os::prefetch_value;
use quaff_wire::add_each;
use quaff_wire::fingerprint;
use quaff_wire::flow::{FlowPacket, mix};
use quaff_wire::net::TCP;
use serde::Serialize;
use std::num::NonZeroU64;

/// Number of sets of the table, a power of two; a set has two packets. 384 KiB.
const SETS: usize = 1 << 13;
/// Bytes of a datagram that are compared.
const BYTES_MAX: usize = 96;
/// Maximum time between a packet and its copy, ns.
const WINDOW_NS: u64 = 1_000_000;

/// Counts of copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    /// Copies on another interface, or with another VLAN, MAC address or TTL.
    pub elsewhere: u64,
    /// Copies at the same place: TCP over IPv4 with an identification.
    pub same_place: u64,
    /// Packets evicted from the full table before the time limit: their copies were not recognised.
    pub unchecked: u64,
}

impl CopyReport {
    /// Adds the counts of other packets.
    pub(super) fn add(&mut self, other: Self) {
        add_each!(self, other; elsewhere, same_place, unchecked);
    }
}

/// A packet in the table.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// Hash of its bytes; 0 for none.
    hash: u64,
    time_ns: u64,
    /// Hash of its interface, VLAN, MAC addresses and TTL.
    place: u32,
}

/// The values of a packet that identify its copies. Its time is stored beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Digest {
    hash: NonZeroU64,
    place: u32,
    /// True for TCP over IPv4 with an identification.
    is_identified: bool,
}

/// The packets of the last millisecond.
#[derive(Debug, Default)]
pub(super) struct Copies {
    sets: Vec<[Seen; 2]>,
    pub(super) report: CopyReport,
}

impl Digest {
    /// Reads a packet; `None` if none of its bytes were captured. `secret` keys its hash.
    #[inline]
    pub(super) fn of(packet: &FlowPacket, bytes: &[u8], interface: u16, secret: u64) -> Option<Self> {
        let datagram = bytes.get(packet.ip_offset as usize..packet.end as usize)?;
        let head = &datagram[..datagram.len().min(BYTES_MAX)];
        let hash = NonZeroU64::MIN | fingerprint::packet(head, datagram.len(), secret);
        let is_identified = packet.protocol == TCP && has_identification(datagram);
        Some(Self { hash, place: place(packet, bytes, interface), is_identified })
    }
}

impl Copies {
    pub(super) fn new() -> Self {
        Self { sets: vec![[Seen::default(); 2]; SETS], report: CopyReport::default() }
    }

    /// Prefetches the packets that this one may be a copy of.
    #[inline]
    pub(super) fn prefetch(&self, digest: &Digest) {
        self.sets[set_of(digest.hash.get())].iter().for_each(prefetch_value);
    }

    /// Returns true for a copy.
    #[inline]
    pub(super) fn is_copy(&mut self, digest: &Digest, time_ns: u64) -> bool {
        let (hash, place) = (digest.hash.get(), digest.place);
        let set = &mut self.sets[set_of(hash)];
        let is_same = |seen: &Seen| seen.hash == hash && time_ns.abs_diff(seen.time_ns) <= WINDOW_NS;
        if let Some(first) = set.iter().find(|seen| is_same(seen)) {
            let is_elsewhere = first.place != place;
            let is_copy = is_elsewhere || digest.is_identified;
            let count = if is_elsewhere { &mut self.report.elsewhere } else { &mut self.report.same_place };
            *count += u64::from(is_copy);
            return is_copy;
        }
        let oldest = usize::from(set[1].time_ns < set[0].time_ns);
        let is_young = set[oldest].hash != 0 && time_ns.saturating_sub(set[oldest].time_ns) <= WINDOW_NS;
        self.report.unchecked += u64::from(is_young);
        set[oldest] = Seen { hash, time_ns, place };
        false
    }
}

/// The set of a hash.
#[inline]
fn set_of(hash: u64) -> usize {
    (hash >> 32) as usize % SETS
}

/// A hash of the place where the packet was seen.
#[inline]
fn place(packet: &FlowPacket, bytes: &[u8], interface: u16) -> u32 {
    let word = |at: usize| {
        bytes.get(at..at + 8).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
    };
    // MAC addresses and tags; the link header of other links.
    let words = packet.ip_offset as usize / 8;
    let first = if words > 0 { word(0) } else { 0 };
    let link = (1..words).fold(first, |sum, at| mix(sum, word(at * 8)));
    let marks = u64::from(packet.ttl) << 32 | u64::from(packet.vlan) << 16 | u64::from(interface);
    mix(link, marks) as u32
}

fn has_identification(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 4 == 4) && datagram.get(4..6) != Some(&[0, 0])
}
