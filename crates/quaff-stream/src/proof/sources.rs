//! Senders of numbered packets within a limit: sets of four. A new sender takes the place of the one that was idle
//! longest, of those that prove nothing first.

use super::counter::{Change, Counter, Rules, Totals};
use quaff_os::prefetch_value;

const WAYS: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    last_ns: u64,
    counter: Counter,
}

/// The senders of one kind.
#[derive(Debug)]
pub(super) struct Sources {
    rules: Rules,
    /// A power of two.
    sets: usize,
    /// Keyed hashes of what the senders of a set are known by; 0 for none. Empty before the first sender.
    keys: Vec<[u64; WAYS]>,
    all: Vec<[Source; WAYS]>,
    pub(super) totals: Totals,
    /// Senders that left a full set.
    pub(super) evicted: u64,
}

impl Sources {
    pub(super) fn new(rules: Rules, sets: usize) -> Self {
        Self { rules, sets, keys: Vec::new(), all: Vec::new(), totals: Totals::default(), evicted: 0 }
    }

    /// The set of a key. A mask: the processor needs as long for a remainder as for many other steps.
    #[inline]
    fn place(&self, key: u64) -> usize {
        (key >> 32) as usize & (self.sets - 1)
    }

    /// Takes the number of a packet.
    #[inline]
    pub(super) fn take(&mut self, key: u64, number: u32, time_ns: u64) -> Option<Change> {
        let (key, rules) = (key | 1, self.rules);
        if self.all.is_empty() {
            self.keys = vec![[0; WAYS]; self.sets];
            self.all = vec![[Source::default(); WAYS]; self.sets];
        }
        let place = self.place(key);
        let (keys, set) = (&mut self.keys[place], &mut self.all[place]);
        let mut change = None;
        let at = match keys.iter().position(|known| *known == key) {
            Some(at) => at,
            None => {
                let worth = |at: &usize| (set[*at].counter.has_evidence(&rules), set[*at].last_ns);
                let at = (0..WAYS).min_by_key(worth).unwrap_or(0);
                if keys[at] != 0 {
                    self.evicted += 1;
                    change = set[at].counter.finish(&rules, &mut self.totals);
                }
                (keys[at], set[at]) = (key, Source::default());
                at
            }
        };
        let source = &mut set[at];
        source.last_ns = time_ns;
        let next = source.counter.take(number, time_ns, &rules, &mut self.totals);
        change.or(next)
    }

    /// Has the processor load the keys among which `key` is.
    #[inline]
    pub(super) fn prefetch_keys(&self, key: u64) {
        if let Some(keys) = self.keys.get(self.place(key)) {
            prefetch_value(keys);
        }
    }

    /// Has the processor load the sender with this key; of a new one all whose place it may take.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        let place = self.place(key);
        let (Some(keys), Some(set)) = (self.keys.get(place), self.all.get(place)) else { return };
        match keys.iter().position(|known| *known == key | 1) {
            Some(at) => prefetch_value(&set[at]),
            None => prefetch_value(set),
        }
    }

    /// Returns true if a known sender's next number would be this one.
    pub(super) fn expects(&self, key: u64, number: u32) -> bool {
        let place = self.place(key);
        let at = self.keys.get(place).and_then(|keys| keys.iter().position(|known| *known == key | 1));
        at.is_some_and(|at| self.all[place][at].counter.is_before(number, &self.rules))
    }

    /// Ends all of them; passes on what that changes.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Change)) {
        let known =
            self.keys.iter().flatten().zip(self.all.iter_mut().flatten()).filter(|(key, _)| **key != 0);
        for (_, source) in known {
            source.counter.finish(&self.rules, &mut self.totals).into_iter().for_each(&mut each);
        }
        self.keys.clear();
        self.all.clear();
    }
}
