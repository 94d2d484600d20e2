//! Tables whose memory has a limit: sums by key in the order in which the keys came, and values that wait for an event.
//! Keys come from packets, so hashes are keyed with a random secret. It knows no protocol.

use quaff_wire::flow::mix;
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

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

/// Values of servers, of which so many have one each; all others have one together.
#[derive(Debug)]
pub(super) struct Servers<K, V> {
    pub(super) known: HashMap<K, V>,
    pub(super) others: V,
}

impl<K, V: Default> Default for Servers<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), others: V::default() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Servers<K, V> {
    /// The value of a server; that of the others for a new one if there are `most` already.
    pub(super) fn of(&mut self, server: K, most: usize) -> &mut V {
        if self.known.len() >= most && !self.known.contains_key(&server) {
            return &mut self.others;
        }
        self.known.entry(server).or_default()
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

    /// The keys with their values, without the memory that finds them.
    pub(super) fn into_entries(self) -> Vec<(K, V)> {
        self.entries
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

/// Values that wait for an event, by key. A full table is searched for those that can leave: the settled ones, and
/// those that have waited for long.
#[derive(Debug)]
pub(super) struct Waiting<K, V> {
    /// With the times from which they wait.
    values: HashMap<K, (Option<u64>, V)>,
    most: usize,
    wait_ns: u64,
    /// Calls of [`Self::insert`] since the last search.
    inserts: usize,
}

impl<K: Eq + Hash + Copy, V> Waiting<K, V> {
    /// A table of at most `most` values, which leave it when it is full and they have waited for `wait_ns`.
    pub(super) fn new(most: usize, wait_ns: u64) -> Self {
        Self { values: HashMap::new(), most, wait_ns, inserts: 0 }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.values.remove(key).map(|(_, value)| value)
    }

    /// Adds the value of a new key from `now_ns` on. `left` gets those that leave for it; returns false if there is no
    /// room. A value without a time leaves only when it is settled.
    ///
    /// A search looks at each value, so there is one for a quarter as many calls as the table has values: neither the
    /// times nor the keys of packets make searches more frequent.
    pub(super) fn insert(
        &mut self,
        key: K,
        value: V,
        now_ns: Option<u64>,
        is_settled: impl Fn(&V) -> bool,
        mut left: impl FnMut(K, V),
    ) -> bool {
        self.inserts += 1;
        if self.values.len() >= self.most && self.inserts > self.most / 4 {
            self.inserts = 0;
            let is_old = |since_ns: u64, now_ns: u64| since_ns.saturating_add(self.wait_ns) <= now_ns;
            let can_leave = |_: &K, (since_ns, value): &mut (Option<u64>, V)| {
                is_settled(value)
                    || since_ns.zip(now_ns).is_some_and(|(since_ns, now_ns)| is_old(since_ns, now_ns))
            };
            self.values.extract_if(can_leave).for_each(|(key, (_, value))| left(key, value));
        }
        let has_room = self.values.len() < self.most;
        if has_room {
            self.values.insert(key, (now_ns, value));
        }
        has_room
    }

    /// Replaces the value of a known key, which waits from `now_ns` on, and returns the one before it.
    pub(super) fn renew(&mut self, key: &K, value: V, now_ns: Option<u64>) -> Option<V> {
        let known = self.values.get_mut(key)?;
        Some(std::mem::replace(known, (now_ns, value)).1)
    }

    /// Ends the wait of all values.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.values.drain().map(|(key, (_, value))| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const S: u64 = 1_000_000_000;

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
        let (mut waiting, mut left) = (Waiting::<u64, u64>::new(3, 60 * S), Vec::new());
        for (key, now_s) in [(1, 0), (2, 10), (3, 20)] {
            let mut leave = |key, value| left.push((key, value));
            assert!(waiting.insert(key, 10 * key, Some(now_s * S), |_| false, &mut leave));
        }
        assert!(!waiting.insert(4, 40, Some(59 * S), |_| false, |_, _| ()));
        assert!(!waiting.insert(4, 40, None, |_| false, |_, _| ()));
        assert!(waiting.insert(4, 40, Some(60 * S), |_| false, |key, value| left.push((key, value))));
        assert_eq!((left, waiting.remove(&1), waiting.get_mut(&4)), (vec![(1, 10)], None, Some(&mut 40)));
        assert_eq!(waiting.drain().count(), 3);
    }

    #[test]
    fn a_value_that_is_renewed_waits_from_then_on() {
        let mut waiting = Waiting::<u64, u64>::new(1, 60 * S);
        assert!(waiting.insert(1, 10, Some(0), |_| false, |_, _| ()));
        assert_eq!((waiting.renew(&1, 11, Some(50 * S)), waiting.renew(&2, 20, Some(0))), (Some(10), None));
        assert!(!waiting.insert(3, 30, Some(61 * S), |_| false, |_, _| ()));
        assert!(waiting.insert(3, 30, Some(110 * S), |_| false, |_, _| ()));
    }

    #[test]
    fn settled_values_leave_a_full_table_however_young_they_are() {
        let (mut waiting, mut left) = (Waiting::<u64, u64>::new(4, 60 * S), 0);
        for key in 0..100 {
            // Even values are settled.
            let now_ns = (key % 3 > 0).then_some(S);
            assert!(
                waiting.insert(key, key, now_ns, |value| value % 2 == 0, |_, _| left += 1) || key % 2 == 1
            );
        }
        assert!(left > 0, "{left}");
    }

    #[test]
    fn times_do_not_make_searches_more_frequent() {
        let (mut waiting, looks) = (Waiting::<u64, ()>::new(1000, 60 * S), Cell::new(0));
        for key in 0..11_000 {
            let now_ns = Some(if key % 2 == 0 { S } else { 3 * S });
            let look = |(): &()| {
                looks.set(looks.get() + 1);
                false
            };
            assert_eq!(waiting.insert(key, (), now_ns, look, |_, ()| ()), key < 1000);
        }
        assert!((10_000..=44_000).contains(&looks.get()), "{}", looks.get());
    }
}
