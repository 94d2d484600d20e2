//! Tables whose memory has a limit: sums by key in the order in which the keys came, and values that wait for an event.
//! Keys come from packets, so hashes are keyed with a random secret. It knows no protocol.

use quaff_wire::flow::mix;
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Time after which a value that waits leaves a full table, ns.
const WAIT_NS: u64 = 60_000_000_000;
/// Time between two searches for such values, ns.
const SEARCH_NS: u64 = 1_000_000_000;

/// Packets, and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PacketCount {
    pub packets: u64,
    pub bytes: u64,
}

impl PacketCount {
    #[inline]
    pub(super) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// A packet.
    #[inline]
    pub(super) fn one(wire_bytes: u32) -> Self {
        Self { packets: 1, bytes: wire_bytes.into() }
    }
}

/// Values by key. The order of the keys is that in which they came, whatever parts they came in.
#[derive(Debug)]
pub(super) struct Sums<K, V> {
    entries: Vec<(K, V)>,
    places: HashMap<K, u32, Secret>,
    /// The place found last: most packets have the key of the packet before them.
    last: usize,
}

impl<K, V> Default for Sums<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::default(), last: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Sums<K, V> {
    /// The value of `key`; `None` for a new key if there are `most` keys already.
    #[inline]
    pub(super) fn of(&mut self, key: K, most: usize) -> Option<&mut V> {
        let is_last = self.entries.get(self.last).is_some_and(|(last, _)| *last == key);
        if !is_last {
            self.last = self.find(key, most)?;
        }
        self.entries.get_mut(self.last).map(|(_, value)| value)
    }

    fn find(&mut self, key: K, most: usize) -> Option<usize> {
        if let Some(place) = self.places.get(&key) {
            return Some(*place as usize);
        }
        let place = self.entries.len();
        if place >= most {
            return None;
        }
        self.places.insert(key, place as u32);
        self.entries.push((key, V::default()));
        Some(place)
    }

    /// The keys with their values.
    pub(super) fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    /// Removes all keys, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.places.clear();
        self.last = 0;
    }
}

/// Hashes numbers with a secret.
#[derive(Debug, Clone)]
pub(super) struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Secret {
    type Hasher = Mixer;

    #[inline]
    fn build_hasher(&self) -> Mixer {
        Mixer(self.0)
    }
}

/// Mixes the numbers of a key.
#[derive(Debug)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0, number);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.0 = mix(mix(self.0, (number >> 64) as u64), number as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

/// Values that wait for an event, by key. In a full table the values leave that have waited for long.
#[derive(Debug)]
pub(super) struct Waiting<K, V> {
    values: HashMap<K, (u64, V)>,
    most: usize,
    searched_ns: Option<u64>,
}

impl<K: Eq + Hash + Copy, V> Waiting<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { values: HashMap::new(), most, searched_ns: None }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.values.remove(key).map(|(_, value)| value)
    }

    /// Adds a value from `now_ns` on. `left` gets those that leave for it; returns false if there is no room.
    pub(super) fn insert(&mut self, key: K, value: V, now_ns: u64, mut left: impl FnMut(K, V)) -> bool {
        if self.values.len() >= self.most {
            // A search looks at each value.
            let is_soon = self.searched_ns.is_some_and(|then_ns| now_ns.abs_diff(then_ns) < SEARCH_NS);
            if is_soon {
                return false;
            }
            self.searched_ns = Some(now_ns);
            let is_old = |_: &K, (since_ns, _): &mut (u64, V)| since_ns.saturating_add(WAIT_NS) <= now_ns;
            self.values.extract_if(is_old).for_each(|(key, (_, value))| left(key, value));
        }
        let has_room = self.values.len() < self.most;
        if has_room {
            self.values.insert(key, (now_ns, value));
        }
        has_room
    }

    /// Ends the wait of all values.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.values.drain().map(|(key, (_, value))| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_order_and_the_limit() {
        let mut sums = Sums::<u64, u64>::default();
        for key in [7, 7, 9, 7, 3, 9, 5] {
            if let Some(sum) = sums.of(key, 3) {
                *sum += 1;
            }
        }
        assert_eq!(sums.entries(), [(7, 3), (9, 2), (3, 1)]);
        assert_eq!(sums.of(5, 3), None);
        sums.clear();
        assert!(sums.of(5, 3).is_some() && sums.entries().len() == 1);
    }

    #[test]
    fn values_that_wait_for_long_leave_a_full_table_and_others_do_not() {
        let (mut waiting, mut left) = (Waiting::<u64, u64>::new(3), Vec::new());
        for (key, now_s) in [(1, 0), (2, 10), (3, 20)] {
            assert!(
                waiting.insert(key, 10 * key, now_s * 1_000_000_000, |key, value| left.push((key, value)))
            );
        }
        assert!(!waiting.insert(4, 40, 30_000_000_000, |_, _| ()));
        // Not searched again so soon, and then with the first one gone.
        assert!(!waiting.insert(4, 40, 30_500_000_000, |_, _| ()));
        assert!(waiting.insert(4, 40, 60_000_000_000, |key, value| left.push((key, value))));
        assert_eq!((left, waiting.remove(&1), waiting.get_mut(&4)), (vec![(1, 10)], None, Some(&mut 40)));
        assert_eq!(waiting.drain().count(), 3);
    }
}
