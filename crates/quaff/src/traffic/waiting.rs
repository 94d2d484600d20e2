//! Values that wait for an event, by key, within a limit. Keys come from packets, so their hashes are keyed with a
//! random secret. It knows no protocol.
//!
//! A full table is searched for those that can leave: the settled ones, and those that have waited for long.

use super::tables::hash_of;
use quaff_wire::flow::FlowIndex;
use std::hash::Hash;

/// Values that wait, by key.
#[derive(Debug)]
pub(super) struct Waiting<K, V> {
    /// The values; `None` at a place that is free.
    slots: Vec<Option<Slot<K, V>>>,
    free: Vec<u32>,
    /// The places of the keys in `slots`.
    index: FlowIndex,
    most: usize,
    wait_ns: u64,
    /// Calls of [`Self::insert`] since the last search.
    inserts: usize,
}

/// A value, with the time from which it waits.
#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    hash: u32,
    since_ns: Option<u64>,
    value: V,
}

impl<K: Eq + Hash + Copy, V> Waiting<K, V> {
    /// A table of at most `most` values, which leave it when it is full and they have waited for `wait_ns`.
    pub(super) fn new(most: usize, wait_ns: u64) -> Self {
        let (slots, free, index) = (Vec::new(), Vec::new(), FlowIndex::default());
        Self { slots, free, index, most, wait_ns, inserts: 0 }
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn find(&self, key: &K) -> Option<u32> {
        // Some tables are nearly always empty: those cost no hash.
        if self.len() == 0 {
            return None;
        }
        let is_it = |slot: &Slot<K, V>| slot.key == *key;
        self.index.find(hash_of(key), |place| self.slots[place as usize].as_ref().is_some_and(is_it))
    }

    fn slot_mut(&mut self, key: &K) -> Option<&mut Slot<K, V>> {
        let place = self.find(key)?;
        self.slots[place as usize].as_mut()
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.slot_mut(key).map(|slot| &mut slot.value)
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.find(key)?;
        self.take(place).map(|slot| slot.value)
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
        left: impl FnMut(K, V),
    ) -> bool {
        self.inserts += 1;
        if self.len() >= self.most && self.inserts > self.most / 4 {
            self.inserts = 0;
            self.search(now_ns, is_settled, left);
        }
        let has_room = self.len() < self.most;
        if has_room {
            self.put(Slot { key, hash: hash_of(&key), since_ns: now_ns, value });
        }
        has_room
    }

    /// Removes the values that can leave at `now_ns`.
    fn search(&mut self, now_ns: Option<u64>, is_settled: impl Fn(&V) -> bool, mut left: impl FnMut(K, V)) {
        let wait_ns = self.wait_ns;
        let is_old = |since_ns: u64, now_ns: u64| since_ns.saturating_add(wait_ns) <= now_ns;
        let can_leave = |slot: &Slot<K, V>| {
            is_settled(&slot.value)
                || slot.since_ns.zip(now_ns).is_some_and(|(since_ns, now_ns)| is_old(since_ns, now_ns))
        };
        for place in 0..self.slots.len() {
            if self.slots[place].as_ref().is_some_and(can_leave)
                && let Some(Slot { key, value, .. }) = self.take(place as u32)
            {
                left(key, value);
            }
        }
    }

    fn put(&mut self, slot: Slot<K, V>) {
        let hash = slot.hash;
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = Some(slot);
                place
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(hash, place);
    }

    fn take(&mut self, place: u32) -> Option<Slot<K, V>> {
        let slot = self.slots[place as usize].take()?;
        self.index.remove(slot.hash, place);
        self.free.push(place);
        Some(slot)
    }

    /// Replaces the value of a known key, which waits from `now_ns` on, and returns the one before it.
    pub(super) fn renew(&mut self, key: &K, value: V, now_ns: Option<u64>) -> Option<V> {
        let slot = self.slot_mut(key)?;
        slot.since_ns = now_ns;
        Some(std::mem::replace(&mut slot.value, value))
    }

    /// Ends the wait of all values.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (K, V)> {
        self.index.clear();
        self.free.clear();
        self.slots.drain(..).flatten().map(|slot| (slot.key, slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    const S: u64 = 1_000_000_000;

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

    /// Keys come, are renewed and leave in a mixed order, and the table has what a map would have.
    #[test]
    fn places_that_are_free_are_taken_again() {
        let mut waiting = Waiting::<u64, u64>::new(1000, 60 * S);
        let mut expected = BTreeMap::new();
        for step in 0..20_000u64 {
            let key = step * 7919 % 1009 % 700;
            if step % 3 == 0 {
                assert_eq!(waiting.remove(&key), expected.remove(&key), "{step}");
                continue;
            }
            match waiting.renew(&key, step, None) {
                Some(before) => assert_eq!(expected.insert(key, step), Some(before), "{step}"),
                None => {
                    assert!(waiting.insert(key, step, None, |_| false, |_, _| ()));
                    assert_eq!(expected.insert(key, step), None, "{step}");
                }
            }
        }
        assert!(waiting.slots.len() <= 700, "{}", waiting.slots.len());
        assert!((0..700).all(|key| waiting.get_mut(&key).copied() == expected.get(&key).copied()));
        assert_eq!(waiting.drain().collect::<BTreeMap<_, _>>(), expected);
        assert!(waiting.get_mut(&1).is_none() && waiting.drain().count() == 0);
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
