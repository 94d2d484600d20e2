//! Gives later fragments of a datagram the ports of its first one, which may arrive before or after them. Payload is
//! not reassembled.
//!
//! A later fragment that arrives before the first one is held for at most [`WAIT_NS`]; if the first one does not
//! arrive, or too many are held, it is metered without ports. Both lists are bounded, and lose their oldest entries
//! first.

use crate::ledger::Count;
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::DatagramId;
use std::collections::{HashMap, VecDeque};

/// Time for which later fragments are held, and for which the ports of a first one are kept, ns. A fast sender reuses
/// the 65,536 IDs of IPv4 soon after.
pub(crate) const WAIT_NS: u64 = 1_000_000_000;
/// Maximum held later fragments.
const HELD_MAX: usize = 4096;
/// Maximum first fragments whose ports are kept.
const KNOWN_MAX: usize = 16_384;

/// The limits of both lists, powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentLimits {
    held_max: usize,
    known_max: usize,
}

impl FragmentLimits {
    /// The limits that need at most `bytes` of memory: [`HELD_MAX`] and [`KNOWN_MAX`], or the same fraction of both, at
    /// least one.
    pub(crate) fn within(bytes: u64) -> Self {
        let parts = (0..=HELD_MAX.ilog2())
            .map(|halved| Self { held_max: HELD_MAX >> halved, known_max: KNOWN_MAX >> halved });
        let least = Self { held_max: 1, known_max: KNOWN_MAX / HELD_MAX };
        parts.into_iter().find(|limits| limits.memory_bytes() <= bytes).unwrap_or(least)
    }

    /// Bytes of memory needed with these limits.
    pub(crate) fn memory_bytes(self) -> u64 {
        let lists = self.held_max * size_of::<Place>() + self.known_max * size_of::<(Datagram, u64)>();
        // Each bucket has one byte for its tag.
        let maps = buckets(self.held_max) * (size_of::<(Datagram, Chain)>() + 1)
            + buckets(self.known_max) * (size_of::<(Datagram, (FirstFragment, u64))>() + 1);
        (lists + maps) as u64
    }
}

/// Buckets of a map that has this number of entries and never grows: seven of eight buckets may be full, and a map that
/// is at most half full removes the marks of deleted entries in place.
fn buckets(entries: usize) -> usize {
    (2 * entries * 8 / 7).next_power_of_two().max(8)
}

/// A datagram, with its VLAN IDs and tunnel, because the same addresses may occur in several networks.
pub(crate) type Datagram = (DatagramId, [u16; 2], u32);

/// The protocol and the ports of a first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    pub(crate) protocol: u8,
    pub(crate) ports: [u16; 2],
}

/// A held later fragment.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) packet: FlowPacket,
    pub(crate) time_ns: u64,
    pub(crate) interface: u16,
    pub(crate) datagram: Datagram,
}

/// A place in the list of held fragments.
#[derive(Debug)]
struct Place {
    /// The end of its wait, ns.
    due_ns: u64,
    /// `None` after it was released.
    held: Option<Held>,
    /// Number of the place of the next fragment of the same datagram.
    next: Option<u64>,
}

/// Numbers of the first and the last place of the held fragments of a datagram.
type Chain = (u64, u64);

/// The first fragments by datagram, and the held later ones.
#[derive(Debug)]
pub(crate) struct Fragments {
    limits: FragmentLimits,
    known: HashMap<Datagram, (FirstFragment, u64)>,
    /// Known datagrams and their times, oldest first; an entry may be stale.
    known_order: VecDeque<(Datagram, u64)>,
    /// Held fragments, oldest first.
    held: VecDeque<Place>,
    /// Number of the first place of `held`.
    base: u64,
    /// Datagrams of which fragments are held.
    chains: HashMap<Datagram, Chain>,
    count: Count,
}

impl Fragments {
    /// Allocates no memory before the first fragment.
    pub(crate) fn new(limits: FragmentLimits) -> Self {
        Self {
            limits,
            known: HashMap::new(),
            known_order: VecDeque::new(),
            held: VecDeque::new(),
            base: 0,
            chains: HashMap::new(),
            count: Count::default(),
        }
    }

    /// Bytes of allocated memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        if self.held.capacity() == 0 { 0 } else { self.limits.memory_bytes() }
    }

    /// Allocates all memory at the first fragment, so that nothing grows later.
    fn allocate(&mut self) {
        if self.held.capacity() == 0 {
            let FragmentLimits { held_max, known_max } = self.limits;
            self.held.reserve_exact(held_max);
            self.known_order.reserve_exact(known_max);
            self.chains.reserve(2 * held_max);
            self.known.reserve(2 * known_max);
        }
    }

    /// Adds a first fragment, and releases the later ones that were held for it.
    pub(crate) fn first(&mut self, datagram: Datagram, first: FirstFragment, now_ns: u64) -> Vec<Held> {
        self.allocate();
        while let Some((oldest, since_ns)) = self.known_order.front().copied() {
            if self.known_order.len() < self.limits.known_max && now_ns.saturating_sub(since_ns) < WAIT_NS {
                break;
            }
            self.known_order.pop_front();
            if self.known.get(&oldest).is_some_and(|known| known.1 == since_ns) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(datagram, (first, now_ns));
        self.known_order.push_back((datagram, now_ns));
        let mut released = Vec::new();
        let mut next = self.chains.remove(&datagram).map(|(oldest, _)| oldest);
        while let Some((held, after)) = next.and_then(|place| self.take(place)) {
            released.push(held);
            next = after;
        }
        self.trim();
        released
    }

    /// The ports of a datagram's first fragment, if it arrived less than [`WAIT_NS`] ago.
    pub(crate) fn known(&self, datagram: &Datagram, now_ns: u64) -> Option<FirstFragment> {
        let (first, since_ns) = self.known.get(datagram)?;
        (now_ns.saturating_sub(*since_ns) < WAIT_NS).then_some(*first)
    }

    /// Holds a later fragment; returns the oldest one if there are too many.
    pub(crate) fn hold(&mut self, fragment: Held, now_ns: u64) -> Option<Held> {
        self.allocate();
        let oldest = if self.held.len() < self.limits.held_max { None } else { self.pop() };
        self.count.add(fragment.packet.ip_bytes.into());
        let number = self.base + self.held.len() as u64;
        let chain = self.chains.entry(fragment.datagram).or_insert((number, number));
        let before = std::mem::replace(&mut chain.1, number);
        if let Some(before) = before.checked_sub(self.base).filter(|_| before != number) {
            self.held[before as usize].next = Some(number);
        }
        let due_ns = now_ns.saturating_add(WAIT_NS);
        self.held.push_back(Place { due_ns, held: Some(fragment), next: None });
        oldest
    }

    /// The time at which the next wait ends, ns; `u64::MAX` without one.
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.held.front().map_or(u64::MAX, |place| place.due_ns)
    }

    /// Removes and returns the oldest fragment, if its wait has ended.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Held> {
        if self.next_due_ns() > now_ns { None } else { self.pop() }
    }

    /// Removes and returns the oldest fragment.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        // The oldest of all fragments is also the oldest of its datagram.
        let (held, next) = self.take(self.base)?;
        match (next, self.chains.get_mut(&held.datagram)) {
            (Some(next), Some(chain)) => chain.0 = next,
            _ => drop(self.chains.remove(&held.datagram)),
        }
        self.trim();
        Some(held)
    }

    /// Removes all first fragments, because another era begins.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.known_order.clear();
    }

    /// The held fragments.
    pub(crate) fn count(&self) -> Count {
        self.count
    }

    /// Removes the fragment of a place; returns it, and the next place of its chain.
    fn take(&mut self, number: u64) -> Option<(Held, Option<u64>)> {
        let at = number.checked_sub(self.base)? as usize;
        let place = self.held.get_mut(at)?;
        let held = place.held.take()?;
        self.count.packets -= 1;
        self.count.bytes -= u64::from(held.packet.ip_bytes);
        Some((held, place.next))
    }

    /// Removes empty places at the front.
    fn trim(&mut self) {
        while self.held.front().is_some_and(|place| place.held.is_none()) {
            self.held.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(id: u32) -> Datagram {
        (DatagramId { addresses: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], id, protocol: 17 }, [0; 2], 0)
    }

    fn held(id: u32, time_ns: u64) -> Held {
        let packet = FlowPacket {
            addresses: datagram(id).0.addresses,
            ports: [0; 2],
            protocol: 17,
            tos: 0,
            ttl: 64,
            tcp_flags: 0,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            ip_bytes: 100,
            fragment: None,
            ip_offset: 0,
            transport: 0,
            end: 0,
            room: u32::MAX,
        };
        Held { packet, time_ns, interface: 0, datagram: datagram(id) }
    }

    const FIRST: FirstFragment = FirstFragment { protocol: 17, ports: [1, 2] };

    #[test]
    fn later_fragments_wait_for_their_first_and_then_know_it() {
        let mut fragments = Fragments::new(FragmentLimits::within(u64::MAX));
        assert!(fragments.hold(held(1, 5), 5).is_none() && fragments.hold(held(2, 6), 6).is_none());
        assert!(fragments.hold(held(1, 7), 7).is_none());
        assert_eq!(fragments.count(), Count { packets: 3, bytes: 300 });
        let released = fragments.first(datagram(1), FIRST, 8);
        assert_eq!(released.iter().map(|held| held.time_ns).collect::<Vec<_>>(), [5, 7]);
        assert_eq!(fragments.known(&datagram(1), 8 + WAIT_NS - 1), Some(FIRST));
        assert_eq!(fragments.known(&datagram(1), 8 + WAIT_NS), None);
        assert_eq!((fragments.next_due_ns(), fragments.count().packets), (6 + WAIT_NS, 1));
        assert!(fragments.pop_due(5 + WAIT_NS).is_none());
        assert_eq!(fragments.pop_due(6 + WAIT_NS).unwrap().time_ns, 6);
        assert_eq!((fragments.count(), fragments.next_due_ns()), (Count::default(), u64::MAX));
        assert!(fragments.chains.is_empty());
    }

    #[test]
    fn both_memories_are_bounded_and_the_oldest_leaves() {
        let mut fragments = Fragments::new(FragmentLimits::within(u64::MAX));
        let released: Vec<u64> = (0..3 * HELD_MAX as u64)
            .filter_map(|at| fragments.hold(held(at as u32, at), 0))
            .map(|held| held.time_ns)
            .collect();
        assert!(released.iter().copied().eq(0..2 * HELD_MAX as u64));
        assert!(fragments.held.len() <= HELD_MAX && fragments.chains.len() <= HELD_MAX);
        for id in 0..3 * KNOWN_MAX as u32 {
            fragments.first(datagram(id + 1_000_000), FIRST, 0);
        }
        assert!(fragments.known.len() <= KNOWN_MAX && fragments.known_order.len() <= KNOWN_MAX);
        assert!(fragments.known(&datagram(1_000_000 + 3 * KNOWN_MAX as u32 - 1), 0).is_some());
    }

    #[test]
    fn memory_is_what_the_limits_say_whatever_comes() {
        assert_eq!(
            FragmentLimits::within(u64::MAX),
            FragmentLimits { held_max: HELD_MAX, known_max: KNOWN_MAX }
        );
        for bytes in [0, 100_000, 1 << 20, u64::MAX] {
            let limits = FragmentLimits::within(bytes);
            let FragmentLimits { held_max, known_max } = limits;
            assert!(limits.memory_bytes() <= bytes.max(4096), "{limits:?}: {} bytes", limits.memory_bytes());
            let mut fragments = Fragments::new(limits);
            assert_eq!(fragments.memory_bytes(), 0);
            // Few datagrams with many fragments, many with few, and first fragments in between.
            for number in 0..6 * known_max as u32 {
                let id = if number / 1000 % 2 == 0 { number } else { number % 7 };
                fragments.hold(held(id, 0), 0);
                fragments.first(datagram(if number % 3 == 0 { id } else { number + 5_000_000 }), FIRST, 0);
            }
            assert_eq!(fragments.memory_bytes(), limits.memory_bytes());
            assert_eq!((fragments.held.capacity(), fragments.known_order.capacity()), (held_max, known_max));
            assert!(fragments.known.len() <= known_max && fragments.chains.len() <= held_max);
            for (capacity, entries) in
                [(fragments.chains.capacity(), held_max), (fragments.known.capacity(), known_max)]
            {
                assert!(capacity < buckets(entries), "{capacity} places for {entries}");
            }
        }
    }
}
