//! The table of recent packets, by their contents, shared by all lanes of a run: its memory is fixed, and it never
//! decides what is done with a packet.
//!
//! Lanes take blocks from the kernel at different times, so a packet and its duplicate may be compared in any order,
//! and many packets apart. Entries are therefore overwritten by number and not by a clock: each shard is a ring of
//! entries in the order of their arrival, with a chain for each bucket, newest first. The time of overwritten entries
//! shows whether any was overwritten too early.
//!
//! This is the only state that the lanes of a capture share. A lane holds the lock of one of 64 shards for a look-up; a
//! lane that needs the same shard at that moment waits for it, while its packets are in the kernel's ring.

use quaff_wire::flow::mix;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, PoisonError};

/// Longest time between two sightings of a packet, ns.
const WINDOW_NS: u64 = 1_000_000;
/// Packets that are remembered for several lanes, and for files, in which those of several lanes are out of order:
/// 29 MiB.
const SHARED_ENTRIES: usize = 1 << 19;
/// Packets that are remembered for a single live lane: 3.6 MiB.
const OWN_ENTRIES: usize = 1 << 16;
const SHARDS: usize = 64;
/// Most entries of a chain that are compared: up to this many equal packets in a window are compared exactly.
const WALK_MAX: usize = 512;
/// Number of entries older than the window after which no younger ones are expected in a chain.
const OLD_MAX: usize = 16;
/// Number of places that are distinguished for a packet.
const PLACES: usize = 4;
/// A step of the clock of this size makes overwritten entries irrelevant for later packets, ns.
const STEP_NS: u64 = 10_000_000_000;

/// A packet on a lane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighting {
    /// A hash of its contents.
    pub(super) key: u64,
    /// A hash of its place.
    pub(super) place: u32,
    pub(super) time_ns: u64,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    First,
    /// Seen before at another place.
    Elsewhere,
    /// Seen before at the same place only.
    SamePlace,
    /// Not found, but the table did not have all packets of the window.
    Unchecked,
}

/// A packet that was compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The number that all its sightings have.
    pub(super) id: u64,
    pub(super) fate: Fate,
}

/// The table.
pub(crate) struct RecentPackets {
    shards: Vec<Mutex<Shard>>,
    /// Keyed with random numbers, so that no sender can make two packets that are taken for one.
    hash: RandomState,
    secret: u64,
    /// 0 of files, whose numbers are the same in each run.
    id_secret: u64,
}

impl RecentPackets {
    /// A table for `lanes` lanes.
    pub(crate) fn new(lanes: usize, is_live: bool) -> Self {
        let entries = if lanes == 1 && is_live { OWN_ENTRIES } else { SHARED_ENTRIES };
        Self::with(if lanes == 1 { 1 } else { SHARDS }, entries, is_live)
    }

    /// `shards` and `entries` are powers of two.
    pub(super) fn with(shards: usize, entries: usize, is_live: bool) -> Self {
        let hash = RandomState::new();
        let id_secret = if is_live { hash.hash_one(2) } else { 0 };
        let all = (0..shards).map(|_| Mutex::new(Shard::new(entries / shards))).collect();
        Self { shards: all, secret: hash.hash_one(1), hash, id_secret }
    }

    /// Hashes contents.
    pub(super) fn hasher(&self) -> impl Hasher + use<> {
        self.hash.build_hasher()
    }

    /// Keys other hashes of packets.
    pub(super) fn secret(&self) -> u64 {
        self.secret
    }

    /// Returns the number of a new packet. Other captures have other numbers, so that files can be merged.
    pub(super) fn id(&self, count: u64) -> u64 {
        mix(self.id_secret, count)
    }

    /// Compares a packet with those before it, and remembers it; `new_id` is its number if it is the first sighting.
    pub(super) fn see(&self, sighting: &Sighting, new_id: u64) -> Seen {
        let shard = &self.shards[(sighting.key >> 56) as usize % self.shards.len()];
        shard.lock().unwrap_or_else(PoisonError::into_inner).see(sighting, new_id)
    }
}

/// A packet that is remembered.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    key: u64,
    time_ns: u64,
    id: u64,
    /// 0 for none.
    places: [u32; PLACES],
    /// The number of the entry before it in its chain; 0 for none.
    older: u64,
}

impl Entry {
    fn is_known_at(&self, place: u32) -> bool {
        self.places.contains(&place)
    }

    /// Adds a place. Beyond the last slot, places are not distinguished.
    fn add(&mut self, place: u32) {
        if let Some(free) = self.places.iter_mut().find(|known| **known == 0) {
            *free = place;
        }
    }
}

/// The entries of a part of all keys, on cache lines of its own, so that lanes disturb each other less.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    /// A ring; an entry is at its number modulo its length, a power of two.
    entries: Vec<Entry>,
    /// The number of the newest entry of each chain; 0 for none.
    newest: Vec<u64>,
    /// The number of the next entry.
    next: u64,
    /// The latest time of overwritten entries; 0 before the first.
    forgotten_ns: u64,
}

/// A walk along a chain.
#[derive(Debug, Default)]
struct Walk {
    /// The oldest equal packet of the window that was not seen at this place.
    elsewhere: Option<u64>,
    is_at_same_place: bool,
    /// The walk ended before all entries of the window.
    is_cut: bool,
}

impl Shard {
    fn new(entries: usize) -> Self {
        let (next, forgotten_ns) = (1, 0);
        Self { entries: vec![Entry::default(); entries], newest: vec![0; entries], next, forgotten_ns }
    }

    fn see(&mut self, sighting: &Sighting, new_id: u64) -> Seen {
        let sighting = &Sighting { place: sighting.place | 1, ..*sighting };
        let walk = self.walk(sighting);
        if let Some(number) = walk.elsewhere {
            let at = self.slot(number);
            self.entries[at].add(sighting.place);
            return Seen { id: self.entries[at].id, fate: Fate::Elsewhere };
        }
        let has_forgotten =
            self.forgotten_ns > 0 && sighting.time_ns <= self.forgotten_ns.saturating_add(WINDOW_NS);
        let fate = match (walk.is_cut || has_forgotten, walk.is_at_same_place) {
            (true, _) => Fate::Unchecked,
            (false, true) => Fate::SamePlace,
            (false, false) => Fate::First,
        };
        self.remember(sighting, new_id);
        Seen { id: new_id, fate }
    }

    fn walk(&self, sighting: &Sighting) -> Walk {
        let (mut walk, mut number) = (Walk::default(), self.newest[self.slot(sighting.key)]);
        let (mut walked, mut old) = (0, 0);
        while let Some(entry) = self.entry(number) {
            let is_old = entry.time_ns.saturating_add(WINDOW_NS) < sighting.time_ns;
            old += usize::from(is_old);
            if walked == WALK_MAX || old > OLD_MAX {
                walk.is_cut = !is_old;
                break;
            }
            if entry.key == sighting.key && entry.time_ns.abs_diff(sighting.time_ns) <= WINDOW_NS {
                match entry.is_known_at(sighting.place) {
                    true => walk.is_at_same_place = true,
                    false => walk.elsewhere = Some(number),
                }
            }
            (number, walked) = (entry.older, walked + 1);
        }
        walk
    }

    fn remember(&mut self, sighting: &Sighting, id: u64) {
        let Sighting { key, place, time_ns } = *sighting;
        let (number, chain) = (self.next, self.slot(key));
        let at = self.slot(number);
        let forgotten_ns = self.entries[at].time_ns;
        if forgotten_ns > self.forgotten_ns || forgotten_ns.saturating_add(STEP_NS) < self.forgotten_ns {
            self.forgotten_ns = forgotten_ns;
        }
        let mut places = [0; PLACES];
        places[0] = place;
        self.entries[at] = Entry { key, time_ns, id, places, older: self.newest[chain] };
        self.newest[chain] = number;
        self.next += 1;
    }

    /// Returns the index of a number in the ring, or of a key among the chains.
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.entries.len() - 1)
    }

    /// The entry with this number, unless there is none, or it was overwritten.
    fn entry(&self, number: u64) -> Option<&Entry> {
        let is_there = number > 0 && number + self.entries.len() as u64 >= self.next;
        is_there.then(|| &self.entries[self.slot(number)])
    }
}
