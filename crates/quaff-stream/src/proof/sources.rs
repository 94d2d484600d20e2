//! Senders of numbered packets within a limit, in sets of four. A new sender replaces the longest-idle one, preferably
//! one without evidence.

use super::counter::{Change, Counter, Rules};
use super::report::NumberReport;
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
    /// Number of sets, a power of two.
    sets: usize,
    /// Keyed hashes of the senders in each set; 0 for none. Empty before the first sender.
    keys: Vec<[u64; WAYS]>,
    all: Vec<[Source; WAYS]>,
    pub(super) totals: NumberReport,
}

impl Sources {
    pub(super) fn new(rules: Rules, sets: usize) -> Self {
        Self { rules, sets, keys: Vec::new(), all: Vec::new(), totals: NumberReport::default() }
    }

    /// The set of a key, by a mask: a remainder takes the processor as long as many other steps.
    #[inline]
    fn place(&self, key: u64) -> usize {
        (key >> 32) as usize & (self.sets - 1)
    }

    /// Processes the number of a packet.
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
                    self.totals.evicted += 1;
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

    /// Prefetches the keys of the set that contains `key`.
    #[inline]
    pub(super) fn prefetch_keys(&self, key: u64) {
        if let Some(keys) = self.keys.get(self.place(key)) {
            prefetch_value(keys);
        }
    }

    /// Prefetches the sender with this key; for a new one all that it may replace.
    #[inline]
    pub(super) fn prefetch(&self, key: u64) {
        let place = self.place(key);
        let (Some(keys), Some(set)) = (self.keys.get(place), self.all.get(place)) else { return };
        match keys.iter().position(|known| *known == key | 1) {
            Some(at) => prefetch_value(&set[at]),
            None => prefetch_value(set),
        }
    }

    /// True if this is the next number of a known sender.
    pub(super) fn expects(&self, key: u64, number: u32) -> bool {
        let place = self.place(key);
        let at = self.keys.get(place).and_then(|keys| keys.iter().position(|known| *known == key | 1));
        at.is_some_and(|at| self.all[place][at].counter.is_before(number, &self.rules))
    }

    /// Ends all senders and returns their report; passes on the resulting changes.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Change)) -> NumberReport {
        let known =
            self.keys.iter().flatten().zip(self.all.iter_mut().flatten()).filter(|(key, _)| **key != 0);
        for (_, source) in known {
            source.counter.finish(&self.rules, &mut self.totals).into_iter().for_each(&mut each);
        }
        self.keys.clear();
        self.all.clear();
        self.totals.finished()
    }
}
