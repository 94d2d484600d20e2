//! Sums by key within a limit, in the order in which the keys came, and the hashes of keys. Keys come from packets, so
//! hashes are keyed with a random secret. It knows no protocol.
//!
//! A table is a list of its keys with their values, and an index of them that grows line by line: a large one costs
//! little more memory than its keys, and is never copied. Keys of a part keep their hashes, which the thread that found
//! them has calculated, and are looked up in groups, whose memory is loaded in parallel.

use quaff_os::prefetch_value;
use quaff_wire::flow::{FlowIndex, mix};
use serde::Serialize;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

/// Keys of a part whose memory is loaded before the first of them is added.
const GROUP: usize = 32;

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
    /// The hashes of the keys.
    hashes: Vec<u32>,
    /// The places of the keys in `entries`.
    index: FlowIndex,
    /// The place found last: most packets have the key of the packet before them.
    last: usize,
}

impl<K, V> Default for Sums<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), hashes: Vec::new(), index: FlowIndex::default(), last: 0 }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Sums<K, V> {
    /// The value of `key`; `None` for a new key if there are `most` keys already.
    #[inline]
    pub(super) fn of(&mut self, key: K, most: usize) -> Option<&mut V> {
        let place = self.place(key, most)?;
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    /// The place of `key` in the order of the keys, which it keeps; `None` for a new key if there are `most` already.
    #[inline]
    fn place(&mut self, key: K, most: usize) -> Option<usize> {
        let is_last = self.entries.get(self.last).is_some_and(|(last, _)| *last == key);
        if !is_last {
            self.last = self.find(key, hash_of(&key), most)?;
        }
        Some(self.last)
    }

    fn find(&mut self, key: K, hash: u32, most: usize) -> Option<usize> {
        let entries = &self.entries;
        let known = self.index.find(hash, |place| entries[place as usize].0 == key);
        if let Some(place) = known {
            return Some(place as usize);
        }
        let place = self.entries.len();
        if place >= most {
            return None;
        }
        self.index.insert(hash, place as u32);
        self.hashes.push(hash);
        self.entries.push((key, V::default()));
        Some(place)
    }

    /// Adds the keys and values of a part, in their order. `add` gets the value of each key here, or `None` for a new
    /// one if there are `most` keys already, and the value of the part.
    pub(super) fn absorb(&mut self, part: &Self, most: usize, mut add: impl FnMut(Option<&mut V>, &V)) {
        for (entries, hashes) in part.entries.chunks(GROUP).zip(part.hashes.chunks(GROUP)) {
            let likely = self.prefetch(hashes);
            for ((key, value), (hash, likely)) in entries.iter().zip(hashes.iter().zip(likely)) {
                let is_likely = self.entries.get(likely as usize).is_some_and(|(known, _)| known == key);
                let place = if is_likely { Some(likely as usize) } else { self.find(*key, *hash, most) };
                let sum = self.entries.get_mut(place.unwrap_or(usize::MAX)).map(|(_, sum)| sum);
                add(sum, value);
            }
        }
    }

    /// Prefetches the entries that likely have these hashes, and returns their places, or [`FlowIndex::NONE`].
    #[inline]
    fn prefetch(&self, hashes: &[u32]) -> [u32; GROUP] {
        hashes.iter().for_each(|hash| prefetch_value(self.index.line(*hash)));
        let mut likely = [FlowIndex::NONE; GROUP];
        for (likely, hash) in likely.iter_mut().zip(hashes) {
            *likely = self.index.first(*hash);
            if let Some(entry) = self.entries.get(*likely as usize) {
                prefetch_value(entry);
            }
        }
        likely
    }

    /// The keys with their values.
    pub(super) fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    /// The keys with their values; the memory of the index is freed.
    pub(super) fn into_entries(self) -> Vec<(K, V)> {
        self.entries
    }

    /// Removes all keys, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.hashes.clear();
        self.index.clear();
        self.last = 0;
    }
}

/// Values of servers, of which so many have one each; all others have one together.
#[derive(Debug)]
pub(super) struct Servers<K, V> {
    pub(super) known: Sums<K, V>,
    pub(super) others: V,
}

/// The place of a server, which it keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerPlace(u32);

impl ServerPlace {
    /// The place of the servers without a value of their own.
    pub(super) const OTHERS: Self = Self(u32::MAX);
}

impl<K, V: Default> Default for Servers<K, V> {
    fn default() -> Self {
        Self { known: Sums::default(), others: V::default() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Servers<K, V> {
    /// The value of a server; that of the others for a new one if there are `most` already.
    pub(super) fn of(&mut self, server: K, most: usize) -> &mut V {
        let place = self.place(server, most);
        self.at(place)
    }

    /// The place of a server; that of the others for a new one if there are `most` already.
    pub(super) fn place(&mut self, server: K, most: usize) -> ServerPlace {
        self.known.place(server, most).map_or(ServerPlace::OTHERS, |place| ServerPlace(place as u32))
    }

    /// The value of a place.
    pub(super) fn at(&mut self, place: ServerPlace) -> &mut V {
        self.known.entries.get_mut(place.0 as usize).map_or(&mut self.others, |(_, value)| value)
    }
}

/// The keyed hash of a key. All tables of the process have one secret, so that the hashes of one thread find keys in
/// the table of another.
#[inline]
pub(super) fn hash_of<K: Hash>(key: &K) -> u32 {
    let mut mixer = Mixer(secret());
    key.hash(&mut mixer);
    let sum = mixer.finish();
    (sum >> 32) as u32 ^ sum as u32
}

#[inline]
fn secret() -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    *SECRET.get_or_init(|| RandomState::new().hash_one(0))
}

/// Mixes the numbers of a key.
struct Mixer(u64);

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
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.write_u64((number >> 64) as u64);
        // The second half of most paths through the hierarchy of protocols is empty.
        if number as u64 != 0 {
            self.write_u64(number as u64);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(size_of::<u64>()) {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::SocketAddr;

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

    /// Keys one by one, and in parts of any size: new and known ones, within the limit and beyond it.
    #[test]
    fn parts_are_added_as_their_keys_one_by_one() {
        let keys: Vec<u64> = (0..3000).map(|number| number * number % 1009 + number % 7).collect();
        let most = 400;
        let (mut expected, mut others) = (Sums::<u64, u64>::default(), 0);
        keys.iter().for_each(|key| *expected.of(*key, most).unwrap_or(&mut others) += 1);
        assert!(others > 0 && expected.entries().len() == most);
        for size in [1, GROUP - 1, GROUP, 500, keys.len()] {
            let [mut sums, mut part] = [(); 2].map(|()| Sums::<u64, u64>::default());
            let mut missed = 0;
            for keys in keys.chunks(size) {
                keys.iter().for_each(|key| *part.of(*key, usize::MAX).unwrap() += 1);
                sums.absorb(&part, most, |sum, count| *sum.unwrap_or(&mut missed) += count);
                part.clear();
            }
            assert_eq!(sums.entries(), expected.entries(), "{size}");
            assert_eq!(missed, others, "{size}");
        }
    }

    #[test]
    fn a_server_keeps_its_place_and_those_without_one_are_together() {
        let mut servers = Servers::<u64, u64>::default();
        let places = [5, 6, 7, 5, 8].map(|server| servers.place(server, 2));
        places.into_iter().for_each(|place| *servers.at(place) += 1);
        *servers.of(6, 2) += 1;
        *servers.of(9, 2) += 1;
        assert_eq!((servers.known.entries(), servers.others), (&[(5, 2), (6, 2)][..], 3));
    }

    #[test]
    fn different_keys_have_different_hashes() {
        let ends = (0..1000).map(|port| hash_of(&SocketAddr::new([10, 0, 0, 1].into(), port)));
        let numbers = (0..1000u128).flat_map(|number| [hash_of(&number), hash_of(&(number << 64))]);
        let texts = (0..1000).map(|number: u32| hash_of(&number.to_string()));
        // There are 3,999 different keys, and two of 2^32 hashes may be equal by chance.
        let all: BTreeSet<u32> = ends.chain(numbers).chain(texts).collect();
        assert!(all.len() >= 3_990, "{}", all.len());
    }
}
