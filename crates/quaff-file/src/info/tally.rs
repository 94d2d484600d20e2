//! The counters of a file or of a part of it: packets, bytes, cut packets and recorded drops, by interface.
//!
//! Parts are joined with [`Tally::absorb`]. This module never reads files.

use super::order::Order;
use crate::verify::ledger::InterfaceCounters;
use quaff_wire::decode::{Frame, Interface, Statistics};
use serde::Serialize;

/// The counters of a file, or of a part of it in one section.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) packets: u64,
    pub(super) order: Order,
    pub(super) places: DropPlaces,
    /// Of the current section.
    pub(super) interfaces: Vec<InterfaceTally>,
    /// A time of 0 means that the packet has none, as in a Simple Packet Block.
    pub(super) is_zero_no_time: bool,
}

/// The packets of an interface.
#[derive(Debug, Clone)]
pub(super) struct InterfaceTally {
    pub(super) counters: InterfaceCounters,
    pub(super) sizes: Sizes,
    /// Times of the earliest and the latest packet.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Blocks of counters.
    pub(super) statistics: u64,
}

/// Sums over packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) packets: u64,
    pub(super) captured_bytes: u64,
    pub(super) wire_bytes: u64,
    /// Length on the wire of the shortest and the longest packet.
    pub(super) min: u32,
    pub(super) max: u32,
    /// Packets that were captured shorter than they were on the wire, and the bytes that are missing.
    pub(super) cut_packets: u64,
    pub(super) cut_bytes: u64,
}

/// A packet before which others were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DropPlace {
    /// Its number in the file, from 1.
    pub packet: u64,
    /// ns since 1970.
    pub time_ns: u64,
    /// Packets lost before it.
    pub drops: u64,
}

/// Places where packets were lost, by the packets after them (`epb_dropcount`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DropPlaces {
    pub count: u64,
    pub first: Option<DropPlace>,
    pub last: Option<DropPlace>,
    /// The place with the most drops; the first of equal ones.
    pub largest: Option<DropPlace>,
}

impl Tally {
    /// Counts a part of a file whose section describes this number of interfaces.
    pub(super) fn of_part(interfaces: usize, floor_ns: u64, is_zero_no_time: bool) -> Self {
        let interfaces = vec![InterfaceTally::default(); interfaces];
        Self { order: Order::of_part(floor_ns), interfaces, is_zero_no_time, ..Self::default() }
    }

    /// Begins with a new interface.
    pub(super) fn interface(&mut self, interface: &Interface<'_>) {
        let counters = InterfaceCounters::new(interface);
        self.interfaces.push(InterfaceTally { counters, ..InterfaceTally::default() });
    }

    #[inline]
    pub(super) fn frame(&mut self, frame: &Frame<'_>) {
        self.packets += 1;
        let is_timed = frame.time_ns > 0 || !self.is_zero_no_time;
        if is_timed {
            self.order.take(frame.time_ns, self.packets);
        }
        if frame.dropcount > 0 {
            let place = DropPlace { packet: self.packets, time_ns: frame.time_ns, drops: frame.dropcount };
            self.places.note(place);
        }
        // The decoder refuses packets of interfaces that were not described.
        let Some(interface) = self.interfaces.get_mut(frame.interface as usize) else { return };
        interface.counters.frames(1);
        interface.counters.drops(frame.dropcount);
        interface.sizes.take(frame.data.len() as u32, frame.wire_len);
        if is_timed {
            interface.first_ns = interface.first_ns.min(frame.time_ns);
            interface.last_ns = interface.last_ns.max(frame.time_ns);
        }
    }

    pub(super) fn statistics(&mut self, statistics: Statistics) {
        if let Some(interface) = self.interfaces.get_mut(statistics.interface as usize) {
            interface.counters.statistics(statistics);
            interface.statistics += 1;
        }
    }

    /// Takes the part that follows, which must be of the same section; see [`Order::can_absorb`].
    pub(super) fn absorb(&mut self, later: &Self) {
        self.order.absorb(&later.order, self.packets);
        self.places.absorb(&later.places, self.packets);
        self.packets += later.packets;
        for (interface, later) in self.interfaces.iter_mut().zip(&later.interfaces) {
            interface.absorb(later);
        }
    }
}

impl Default for InterfaceTally {
    fn default() -> Self {
        let (counters, sizes) = (InterfaceCounters::default(), Sizes::default());
        Self { counters, sizes, first_ns: u64::MAX, last_ns: 0, statistics: 0 }
    }
}

impl InterfaceTally {
    fn absorb(&mut self, later: &Self) {
        self.counters.absorb(&later.counters);
        self.sizes.absorb(&later.sizes);
        self.first_ns = self.first_ns.min(later.first_ns);
        self.last_ns = self.last_ns.max(later.last_ns);
        self.statistics += later.statistics;
    }

    /// Times of the earliest and the latest packet; `None` without any.
    pub(super) fn times(&self) -> Option<(u64, u64)> {
        (self.first_ns <= self.last_ns).then_some((self.first_ns, self.last_ns))
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            packets: 0,
            captured_bytes: 0,
            wire_bytes: 0,
            min: u32::MAX,
            max: 0,
            cut_packets: 0,
            cut_bytes: 0,
        }
    }
}

impl Sizes {
    #[inline]
    fn take(&mut self, captured: u32, wire_len: u32) {
        self.packets += 1;
        self.captured_bytes += u64::from(captured);
        self.wire_bytes += u64::from(wire_len);
        (self.min, self.max) = (self.min.min(wire_len), self.max.max(wire_len));
        let lacks = wire_len.saturating_sub(captured);
        self.cut_packets += u64::from(lacks > 0);
        self.cut_bytes += u64::from(lacks);
    }

    pub(super) fn absorb(&mut self, other: &Self) {
        self.packets += other.packets;
        self.captured_bytes += other.captured_bytes;
        self.wire_bytes += other.wire_bytes;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        self.cut_packets += other.cut_packets;
        self.cut_bytes += other.cut_bytes;
    }
}

impl DropPlaces {
    #[cold]
    fn note(&mut self, place: DropPlace) {
        self.count += 1;
        self.first.get_or_insert(place);
        self.last = Some(place);
        if self.largest.is_none_or(|largest| place.drops > largest.drops) {
            self.largest = Some(place);
        }
    }

    fn absorb(&mut self, later: &Self, packets: u64) {
        let moved = |place: DropPlace| DropPlace { packet: place.packet + packets, ..place };
        self.count += later.count;
        self.first = self.first.or(later.first.map(moved));
        self.last = later.last.map(moved).or(self.last);
        if let Some(largest) = later.largest.map(moved)
            && self.largest.is_none_or(|known| largest.drops > known.drops)
        {
            self.largest = Some(largest);
        }
    }
}
