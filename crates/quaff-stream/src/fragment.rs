//! Reassembly of IP fragments for streams into datagrams, within limits of memory, number and time.
//!
//! The held ranges and the end, once known, are equivalent to the hole list of RFC 815. An atomic fragment (RFC 6946)
//! is a complete datagram and is not passed here.

use crate::held::{Arrival, Difference, Held, OVERLAPS_MAX};
use crate::key::words;
use crate::memory::Memory;
use crate::policy::{Extent, FragmentPolicy};
use crate::tally::FragmentTally;
use quaff_os::prefetch_value;
use quaff_wire::flow::{FlowIndex, mix};
use quaff_wire::net::{DatagramId, TCP, UDP};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// Largest possible end of a datagram, bytes.
const PAYLOAD_BYTES_MAX: u64 = 65_535;
/// Maximum number of kept header bytes of the first fragment.
const HEADER_BYTES_MAX: usize = 256;
/// Charge for a datagram in addition to its bytes: its record and the growth of the records' vector, its share of a
/// maximally sparse index, its entry in the order.
const DATAGRAM_COST: u64 = (2 * size_of::<Datagram>() + 24 + 2 * size_of::<Turn>() + HEADER_BYTES_MAX) as u64;

/// Identifies a datagram, with VLAN id and tunnel, since addresses may occur in several networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramKey {
    pub datagram: DatagramId,
    pub vlan: u16,
    pub tunnel: u32,
}

impl DatagramKey {
    fn hash(&self, secret: u64) -> u32 {
        let DatagramId { addresses, id, protocol } = self.datagram;
        let [[a, b], [c, d]] = addresses.map(words);
        // Both IPv4 addresses fit in one word.
        let sum = match a | c {
            0 => mix(secret, b << 32 ^ d),
            _ => [a, b, c, d].into_iter().fold(secret, mix),
        };
        let sum = mix(sum, u64::from(id) << 32 | u64::from(self.vlan) << 16 | u64::from(protocol));
        let sum = mix(sum, self.tunnel.into());
        (sum >> 32) as u32 ^ sum as u32
    }
}

/// One fragment.
#[derive(Debug, Clone, Copy)]
pub struct FragmentPacket<'a> {
    /// Offset of the payload within the datagram's payload.
    pub offset: u16,
    /// More Fragments flag: set in all fragments but the last one.
    pub more: bool,
    /// Protocol of the datagram's payload, according to this fragment.
    pub protocol: u8,
    /// The IP header, up to the payload.
    pub header: &'a [u8],
    /// Captured bytes of the payload.
    pub payload: &'a [u8],
    /// Length of the payload on the wire, bytes.
    pub wire_bytes: u32,
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
}

/// Why a datagram is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// Its fragments did not arrive in time.
    Expired,
    /// It was evicted for newer ones, or no memory was left.
    Capped,
    /// Two of its fragments overlap, and the policy drops it for that.
    Overlap,
    /// The caller ended the reassembly.
    Finished,
}

/// An event of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentEvent<'a> {
    /// The datagram is complete.
    Whole {
        /// Protocol according to the first fragment.
        protocol: u8,
        /// The headers of the first fragment, at most 256 bytes.
        header: &'a [u8],
        payload: &'a [u8],
        /// Timestamp of its earliest fragment, ns since 1970.
        since_ns: u64,
    },
    /// Two different versions of the same bytes.
    Difference(Difference<'a>),
    /// A fragment so short or placed such that a filter could miss ports or flags (RFC 1858, RFC 3128).
    Tiny { offset: u16, payload_bytes: u32 },
    /// The datagram was dropped, with this number of held bytes.
    Dropped { reason: DropReason, bytes: u64 },
}

/// A reader of datagrams: receives the events of each in their order.
pub trait FragmentSink {
    /// Receives the next event of a datagram.
    fn event(&mut self, datagram: &DatagramKey, event: FragmentEvent);
}

/// The limits of a [`Defragmenter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentPlan {
    /// Memory for incomplete datagrams, bytes: pages and records.
    pub limit_bytes: u64,
    pub datagrams_max: usize,
    /// Time limit from the earliest fragment of a datagram, ns.
    pub wait_ns: u64,
}

impl Default for FragmentPlan {
    fn default() -> Self {
        Self { limit_bytes: 16 << 20, datagrams_max: 65_536, wait_ns: 30_000_000_000 }
    }
}

/// An incomplete datagram, or a free record.
#[derive(Debug)]
struct Datagram {
    key: DatagramKey,
    hash: u32,
    /// Distinguishes successive datagrams in the same record; 0 in a free record.
    number: u64,
    held: Held,
    /// The end of the payload, once the last fragment has arrived.
    total: Option<u64>,
    header: Vec<u8>,
    protocol: u8,
    has_first: bool,
    since_ns: u64,
    /// True if an overlap killed it: its later fragments are dropped.
    is_dead: bool,
}

/// An entry in the order of earliest fragments.
#[derive(Debug, Clone, Copy)]
struct Turn {
    place: u32,
    hash: u32,
    number: u64,
    since_ns: u64,
}

/// The incomplete datagrams by key.
#[derive(Debug)]
struct Open {
    index: FlowIndex,
    /// Secret key of the hash, unknown to the senders of packets.
    secret: u64,
    places: Vec<Datagram>,
    free: Vec<u32>,
    number: u64,
}

impl Open {
    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn get_mut(&mut self, place: u32) -> &mut Datagram {
        &mut self.places[place as usize]
    }

    fn find(&self, key: &DatagramKey, hash: u32) -> Option<u32> {
        self.index.find(hash, |place| self.places[place as usize].key == *key)
    }

    /// Adds a new datagram, in a free record if there is one.
    fn begin(&mut self, key: DatagramKey, hash: u32, since_ns: u64) -> Turn {
        let free = self.free.pop();
        let place = free.unwrap_or(self.places.len() as u32);
        // A reused record keeps the memory of its header.
        let mut header = free.map_or_else(Vec::new, |place| std::mem::take(&mut self.get_mut(place).header));
        header.clear();
        self.number += 1;
        let number = self.number;
        let (held, total, protocol, has_first, is_dead) = (Held::default(), None, 0, false, false);
        let datagram =
            Datagram { key, hash, number, held, total, header, protocol, has_first, since_ns, is_dead };
        match free {
            Some(place) => *self.get_mut(place) = datagram,
            None => self.places.push(datagram),
        }
        self.index.insert(hash, place);
        Turn { place, hash, number, since_ns }
    }

    /// Frees the record of a datagram that holds no bytes.
    fn remove(&mut self, place: u32) {
        let datagram = self.get_mut(place);
        datagram.number = 0;
        let hash = datagram.hash;
        self.index.remove(hash, place);
        self.free.push(place);
    }

    fn is_there(&self, turn: &Turn) -> bool {
        self.places[turn.place as usize].number == turn.number
    }

    /// Prefetches the datagram of this turn, which may be evicted next.
    fn prefetch(&self, turn: &Turn) {
        prefetch_value(&self.places[turn.place as usize]);
        prefetch_value(self.index.line(turn.hash));
    }
}

/// Reassembles datagrams.
#[derive(Debug)]
pub struct Defragmenter {
    plan: FragmentPlan,
    memory: Memory,
    open: Open,
    /// Oldest first. Entries may be stale.
    order: VecDeque<Turn>,
    tally: FragmentTally,
    scratch: Vec<u8>,
}

impl Defragmenter {
    /// Creates a defragmenter without datagrams and with an index of 16 KiB.
    pub fn new(plan: FragmentPlan) -> Self {
        let (index, secret) = (FlowIndex::default(), RandomState::new().hash_one(0));
        Self {
            plan,
            memory: Memory::new(plan.limit_bytes, None),
            open: Open { index, secret, places: Vec::new(), free: Vec::new(), number: 0 },
            order: VecDeque::new(),
            tally: FragmentTally::default(),
            scratch: Vec::new(),
        }
    }

    /// The counters of all datagrams so far.
    pub fn tally(&self) -> &FragmentTally {
        &self.tally
    }

    /// Bytes charged for incomplete datagrams.
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Processes a fragment. `policy` is that of the destination.
    pub fn take<S: FragmentSink + ?Sized>(
        &mut self,
        key: DatagramKey,
        policy: FragmentPolicy,
        packet: &FragmentPacket,
        sink: &mut S,
    ) {
        self.expire(packet.time_ns, sink);
        self.tally.fragments += 1;
        self.tally.seen_bytes += packet.payload.len() as u64;
        self.note_oddities(&key, packet, sink);
        let Some(payload) = self.usable(&key, packet) else {
            self.tally.refused_bytes += packet.payload.len() as u64;
            return;
        };
        self.tally.refused_bytes += (packet.payload.len() - payload.len()) as u64;
        let start = u64::from(packet.offset);
        let origin = Extent { start, end: start + payload.len() as u64 };
        let new = Arrival { start, bytes: payload, origin, time_ns: packet.time_ns, is_tentative: false };
        match self.place(key, packet.time_ns, sink) {
            None => self.tally.capped_bytes += payload.len() as u64,
            Some(place) if self.open.get_mut(place).is_dead => {
                self.tally.killed_bytes += payload.len() as u64;
            }
            Some(place) => self.add(place, policy, &new, packet, sink),
        }
    }

    /// Counts fragments that are cut such that they hide headers.
    fn note_oddities<S: FragmentSink + ?Sized>(
        &mut self,
        key: &DatagramKey,
        packet: &FragmentPacket,
        sink: &mut S,
    ) {
        let least = match packet.protocol {
            TCP => 16, // up to the flags and the window
            UDP => 8,
            _ => 0,
        };
        let is_tiny = packet.offset == 0 && packet.more && packet.wire_bytes < least;
        let is_at_eight = packet.offset == 8 && packet.protocol == TCP;
        self.tally.tiny += u64::from(is_tiny);
        self.tally.tcp_at_eight += u64::from(is_at_eight);
        if is_tiny || is_at_eight {
            let (offset, payload_bytes) = (packet.offset, packet.wire_bytes);
            sink.event(key, FragmentEvent::Tiny { offset, payload_bytes });
        }
    }

    /// The bytes that a receiver accepts: whole units of eight bytes, except in the last fragment.
    fn usable<'a>(&mut self, key: &DatagramKey, packet: &FragmentPacket<'a>) -> Option<&'a [u8]> {
        let bytes = packet.payload.len();
        let is_cut = bytes < packet.wire_bytes as usize;
        if u64::from(packet.offset) + u64::from(packet.wire_bytes) > PAYLOAD_BYTES_MAX {
            self.tally.oversized += 1;
            return None;
        }
        let whole_units = if packet.more { bytes / 8 * 8 } else { bytes };
        // IPv4 receivers drop the rest of a unit, IPv6 receivers the fragment (RFC 8200 section 4.5).
        let is_odd = whole_units != bytes && key.datagram.addresses[0].is_ipv6();
        (!is_cut && !is_odd && whole_units > 0).then(|| &packet.payload[..whole_units])
    }

    /// The index of a datagram, which is created if needed; `None` if no memory is left for one.
    fn place<S: FragmentSink + ?Sized>(
        &mut self,
        key: DatagramKey,
        time_ns: u64,
        sink: &mut S,
    ) -> Option<u32> {
        let hash = key.hash(self.open.secret);
        if let Some(place) = self.open.find(&key, hash) {
            return Some(place);
        }
        while self.open.len() >= self.plan.datagrams_max || self.memory.refusal(DATAGRAM_COST).is_some() {
            if !self.evict(u64::MAX, sink) {
                return None;
            }
        }
        // Stale entries are removed once they are the majority.
        if self.order.len() > 2 * self.open.len() + 64 {
            self.order.retain(|turn| self.open.is_there(turn));
        }
        self.memory.charge(DATAGRAM_COST);
        let turn = self.open.begin(key, hash, time_ns);
        self.order.push_back(turn);
        Some(turn.place)
    }

    /// Adds bytes to a datagram, which may complete it.
    fn add<S: FragmentSink + ?Sized>(
        &mut self,
        place: u32,
        policy: FragmentPolicy,
        new: &Arrival,
        packet: &FragmentPacket,
        sink: &mut S,
    ) {
        let bytes = new.bytes.len() as u64;
        let is_strict = policy == FragmentPolicy::Linux;
        let datagram = &mut self.open.places[place as usize];
        let (key, number) = (datagram.key, datagram.number);
        if contradicts_end(datagram, new.end(), packet.more) {
            self.tally.end_conflicts += 1;
            match is_strict {
                true => self.kill(place, bytes, sink),
                false => self.tally.refused_bytes += bytes,
            }
            return;
        }
        let wins = |old, new| policy.new_wins(old, new);
        let need = datagram.held.need(new, &self.memory, wins);
        if need.overlaps > 0 {
            // Without room the decision does not matter.
            let report = |difference: Difference| sink.event(&key, FragmentEvent::Difference(difference));
            let overlap = datagram.held.overlay(new, &mut self.memory, wins, report);
            self.tally.differences += overlap.differences;
            if is_strict && need.bytes > 0 {
                self.kill(place, bytes, sink);
                return;
            }
            self.tally.duplicate_bytes += overlap.duplicate;
            self.tally.overlapped_bytes += overlap.overlapped;
        }
        while self.memory.refusal(need.cost).is_some() {
            if !self.evict(number, sink) {
                self.tally.capped_bytes += need.bytes;
                self.drop_datagram(place, DropReason::Capped, sink);
                return;
            }
        }
        let datagram = &mut self.open.places[place as usize];
        datagram.held.insert(new, &mut self.memory);
        if need.overlaps > OVERLAPS_MAX && self.memory.refusal(Held::merge_cost(new)).is_none() {
            datagram.held.merge(new, &mut self.memory);
        }
        self.tally.held_bytes += need.bytes;
        if !packet.more {
            datagram.total = Some(new.end());
        }
        if new.start == 0 && !datagram.has_first {
            let kept = packet.header.len().min(HEADER_BYTES_MAX);
            (datagram.has_first, datagram.protocol) = (true, packet.protocol);
            datagram.header.extend_from_slice(&packet.header[..kept]);
        }
        if datagram.total == Some(datagram.held.bytes()) {
            self.finish_datagram(place, sink);
        }
    }

    /// Passes on a complete datagram.
    fn finish_datagram<S: FragmentSink + ?Sized>(&mut self, place: u32, sink: &mut S) {
        self.scratch.clear();
        let datagram = &mut self.open.places[place as usize];
        let scratch = &mut self.scratch;
        while datagram.held.pop(&mut self.memory, |_, bytes| scratch.extend_from_slice(bytes)).is_some() {}
        self.memory.discharge(DATAGRAM_COST);
        self.tally.held_bytes -= self.scratch.len() as u64;
        self.tally.whole_bytes += self.scratch.len() as u64;
        self.tally.wholes += 1;
        let Datagram { key, protocol, since_ns, ref header, .. } = *datagram;
        sink.event(&key, FragmentEvent::Whole { protocol, header, payload: &self.scratch, since_ns });
        self.open.remove(place);
    }

    /// Drops the held bytes of a datagram, and the `bytes` that arrived last. The record remains, to drop later
    /// fragments.
    fn kill<S: FragmentSink + ?Sized>(&mut self, place: u32, bytes: u64, sink: &mut S) {
        let datagram = &mut self.open.places[place as usize];
        let held = datagram.held.truncate(0, &mut self.memory);
        self.tally.held_bytes -= held;
        self.tally.killed_bytes += held + bytes;
        self.tally.killed += 1;
        datagram.is_dead = true;
        sink.event(&datagram.key, FragmentEvent::Dropped { reason: DropReason::Overlap, bytes: held });
    }

    /// Drops a datagram.
    fn drop_datagram<S: FragmentSink + ?Sized>(&mut self, place: u32, reason: DropReason, sink: &mut S) {
        let datagram = &mut self.open.places[place as usize];
        let (key, is_dead) = (datagram.key, datagram.is_dead);
        let bytes = datagram.held.truncate(0, &mut self.memory);
        self.memory.discharge(DATAGRAM_COST);
        self.open.remove(place);
        self.tally.held_bytes -= bytes;
        if is_dead {
            return;
        }
        let (count, sum) = match reason {
            DropReason::Capped => (&mut self.tally.capped, &mut self.tally.capped_bytes),
            _ => (&mut self.tally.expired, &mut self.tally.expired_bytes),
        };
        *count += 1;
        *sum += bytes;
        sink.event(&key, FragmentEvent::Dropped { reason, bytes });
    }

    /// Takes the next turn, and prefetches the one after it. Returns true if its datagram still exists.
    fn next_turn(&mut self) -> Option<(Turn, bool)> {
        let turn = self.order.pop_front()?;
        if let Some(next) = self.order.get(1) {
            self.open.prefetch(next);
        }
        let is_there = self.open.is_there(&turn);
        Some((turn, is_there))
    }

    /// Drops the oldest datagram; returns false if there is none, or if its number is `except`.
    fn evict<S: FragmentSink + ?Sized>(&mut self, except: u64, sink: &mut S) -> bool {
        while self.order.front().is_some_and(|turn| turn.number != except) {
            if let Some((turn, true)) = self.next_turn() {
                self.drop_datagram(turn.place, DropReason::Capped, sink);
                return true;
            }
        }
        false
    }

    /// Drops datagrams that have expired at `now_ns`.
    pub fn expire<S: FragmentSink + ?Sized>(&mut self, now_ns: u64, sink: &mut S) {
        self.drop_while(
            |since_ns, wait_ns| since_ns.saturating_add(wait_ns) <= now_ns,
            DropReason::Expired,
            sink,
        );
    }

    /// Drops all incomplete datagrams.
    pub fn finish<S: FragmentSink + ?Sized>(&mut self, sink: &mut S) {
        self.drop_while(|_, _| true, DropReason::Finished, sink);
    }

    /// Drops the oldest datagrams while `is_over` holds for their time and the wait.
    fn drop_while<S: FragmentSink + ?Sized>(
        &mut self,
        is_over: impl Fn(u64, u64) -> bool,
        reason: DropReason,
        sink: &mut S,
    ) {
        while self.order.front().is_some_and(|turn| is_over(turn.since_ns, self.plan.wait_ns)) {
            if let Some((turn, true)) = self.next_turn() {
                self.drop_datagram(turn.place, reason, sink);
            }
        }
    }
}

/// True if a fragment that ends at `end` contradicts the end that other fragments determined.
fn contradicts_end(datagram: &Datagram, end: u64, more: bool) -> bool {
    match datagram.total {
        Some(total) if more => end > total,
        Some(total) => end != total,
        None => !more && datagram.held.end().is_some_and(|held| held > end),
    }
}
