//! Recently used values in bounded memory: two generations, of which the older one is dropped.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// A table whose keys are hashes.
pub(super) type Table<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

/// Keeps each value for at least `span_ns` after its last use, and at most twice that; less if there are more than
/// `most` values.
#[derive(Debug)]
pub(super) struct Recent<V> {
    young: Table<V>,
    old: Table<V>,
    /// Start of the young generation, ns since 1970.
    since_ns: u64,
    span_ns: u64,
    most: usize,
}

impl<V: Copy> Recent<V> {
    pub(super) fn new(span_ns: u64, most: usize) -> Self {
        Self { young: Table::default(), old: Table::default(), since_ns: 0, span_ns, most }
    }

    pub(super) fn get(&mut self, key: u64, now_ns: u64) -> Option<V> {
        self.turn(now_ns);
        if let Some(value) = self.young.get(&key) {
            return Some(*value);
        }
        let value = self.old.remove(&key)?;
        self.young.insert(key, value);
        Some(value)
    }

    pub(super) fn insert(&mut self, key: u64, value: V, now_ns: u64) {
        self.turn(now_ns);
        self.young.insert(key, value);
    }

    /// Starts a new generation if due. A distant time belongs to another file, or the clock was set.
    fn turn(&mut self, now_ns: u64) {
        let gone_ns = now_ns.abs_diff(self.since_ns);
        if gone_ns < self.span_ns && self.young.len() < self.most {
            return;
        }
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        if gone_ns >= 2 * self.span_ns {
            self.old.clear();
        }
        self.since_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_values_stay_and_others_expire() {
        let mut recent = Recent::new(100, 10);
        recent.insert(1, 'a', 1000);
        recent.insert(2, 'b', 1000);
        assert_eq!(recent.get(1, 1099), Some('a'));
        assert_eq!(recent.get(1, 1150), Some('a'));
        assert_eq!((recent.get(1, 1260), recent.get(2, 1260)), (Some('a'), None));
        assert_eq!(recent.get(1, 1500), None, "not used for two spans");
        recent.insert(1, 'c', 1500);
        assert_eq!(recent.get(1, 5), None, "another time");
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = Recent::new(u64::MAX / 4, 10);
        (0..1000).for_each(|key| recent.insert(key, key, 1));
        let known = (0..1000).filter(|key| recent.get(*key, 1).is_some()).count();
        assert!((10..=20).contains(&known), "{known}");
    }
}
