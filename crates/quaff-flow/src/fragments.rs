//! Later fragments of a datagram find the ports of its first one, before or after them. Payload is not reassembled.
//!
//! A later fragment that comes before its first is held for at most [`WAIT_NS`]; without it, or when too many are
//! held, it is metered without ports. Both memories are bounded, and the oldest leaves first.

use crate::ledger::Count;
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::DatagramId;
use std::collections::{HashMap, VecDeque};

/// Time for which a later fragment waits for its first, and for which ports of a first one are known, ns. A fast
/// sender uses the 65,536 ids of IPv4 again soon after.
pub(crate) const WAIT_NS: u64 = 1_000_000_000;
/// Most later fragments that are held.
pub(crate) const HELD_MAX: usize = 4096;
/// Most first fragments whose ports are known.
pub(crate) const KNOWN_MAX: usize = 16_384;

/// A datagram, with its VLAN id and tunnel, since addresses may occur in several networks.
pub(crate) type Datagram = (DatagramId, u16, u32);

/// The protocol and the ports that the first fragment has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstFragment {
    pub(crate) protocol: u8,
    pub(crate) ports: [u16; 2],
}

/// A later fragment that waits.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) packet: FlowPacket,
    pub(crate) time_ns: u64,
    pub(crate) interface: u16,
    pub(crate) datagram: Datagram,
}

/// First fragments by datagram, and later ones that wait.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    known: HashMap<Datagram, (FirstFragment, u64)>,
    /// Known datagrams and their times, oldest first; an entry may be stale.
    known_order: VecDeque<(Datagram, u64)>,
    /// Held fragments and the times at which their wait ends, oldest first; empty places were released.
    held: VecDeque<(u64, Option<Held>)>,
    /// Number of the first place of `held`.
    base: u64,
    /// Places of the held fragments of a datagram.
    places: HashMap<Datagram, VecDeque<u64>>,
    count: Count,
}

impl Fragments {
    /// Notes a first fragment, and releases the later ones that were held for it.
    pub(crate) fn first(&mut self, datagram: Datagram, first: FirstFragment, now_ns: u64) -> Vec<Held> {
        while let Some((oldest, since_ns)) = self.known_order.front().copied() {
            if self.known_order.len() < KNOWN_MAX && now_ns.saturating_sub(since_ns) < WAIT_NS {
                break;
            }
            self.known_order.pop_front();
            if self.known.get(&oldest).is_some_and(|known| known.1 == since_ns) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(datagram, (first, now_ns));
        self.known_order.push_back((datagram, now_ns));
        let places = self.places.remove(&datagram).unwrap_or_default();
        let released: Vec<Held> = places.into_iter().filter_map(|place| self.take(place)).collect();
        self.trim();
        released
    }

    /// The ports of a datagram's first fragment, if it came less than [`WAIT_NS`] ago.
    pub(crate) fn known(&self, datagram: &Datagram, now_ns: u64) -> Option<FirstFragment> {
        let (first, since_ns) = self.known.get(datagram)?;
        (now_ns.saturating_sub(*since_ns) < WAIT_NS).then_some(*first)
    }

    /// Holds a later fragment; returns the oldest one if there are too many.
    pub(crate) fn hold(&mut self, fragment: Held, now_ns: u64) -> Option<Held> {
        self.count.add(fragment.packet.ip_bytes.into());
        let place = self.base + self.held.len() as u64;
        self.places.entry(fragment.datagram).or_default().push_back(place);
        self.held.push_back((now_ns.saturating_add(WAIT_NS), Some(fragment)));
        if self.held.len() > HELD_MAX { self.pop() } else { None }
    }

    /// The time at which the next wait ends, ns; `u64::MAX` without one.
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.held.front().map_or(u64::MAX, |(due_ns, _)| *due_ns)
    }

    /// Takes the oldest fragment, if its wait has ended.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Held> {
        if self.next_due_ns() > now_ns { None } else { self.pop() }
    }

    /// Takes the oldest fragment.
    pub(crate) fn pop(&mut self) -> Option<Held> {
        let place = self.base;
        let held = self.take(place)?;
        if let Some(places) = self.places.get_mut(&held.datagram) {
            // The oldest of all is the oldest of its datagram.
            places.pop_front();
            if places.is_empty() {
                self.places.remove(&held.datagram);
            }
        }
        self.trim();
        Some(held)
    }

    /// Forgets all first fragments: another era begins.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.known_order.clear();
    }

    /// The fragments that are held.
    pub(crate) fn count(&self) -> Count {
        self.count
    }

    fn take(&mut self, place: u64) -> Option<Held> {
        let at = place.checked_sub(self.base)? as usize;
        let held = self.held.get_mut(at)?.1.take()?;
        self.count.packets -= 1;
        self.count.bytes -= u64::from(held.packet.ip_bytes);
        Some(held)
    }

    /// Drops empty places at the front, so that the first one is of a fragment.
    fn trim(&mut self) {
        while self.held.front().is_some_and(|(_, held)| held.is_none()) {
            self.held.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(id: u32) -> Datagram {
        (DatagramId { addresses: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], id, protocol: 17 }, 0, 0)
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
            mpls_label: 0,
            ip_bytes: 100,
            fragment: None,
            ip_offset: 0,
            transport: 0,
            end: 0,
        };
        Held { packet, time_ns, interface: 0, datagram: datagram(id) }
    }

    const FIRST: FirstFragment = FirstFragment { protocol: 17, ports: [1, 2] };

    #[test]
    fn later_fragments_wait_for_their_first_and_then_know_it() {
        let mut fragments = Fragments::default();
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
        assert!(fragments.places.is_empty());
    }

    #[test]
    fn both_memories_are_bounded_and_the_oldest_leaves() {
        let mut fragments = Fragments::default();
        let released: Vec<u64> = (0..3 * HELD_MAX as u64)
            .filter_map(|at| fragments.hold(held(at as u32, at), 0))
            .map(|held| held.time_ns)
            .collect();
        assert!(released.iter().copied().eq(0..2 * HELD_MAX as u64));
        assert!(fragments.held.len() <= HELD_MAX && fragments.places.len() <= HELD_MAX);
        for id in 0..3 * KNOWN_MAX as u32 {
            fragments.first(datagram(id + 1_000_000), FIRST, 0);
        }
        assert!(fragments.known.len() <= KNOWN_MAX && fragments.known_order.len() <= KNOWN_MAX);
        assert!(fragments.known(&datagram(1_000_000 + 3 * KNOWN_MAX as u32 - 1), 0).is_some());
    }
}
