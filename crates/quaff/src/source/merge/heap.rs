//! The cursors of a merge, by the places of their next packets in the output. It knows nothing of packets.

/// The place of a packet in the output: by time, then by the number of its file, then the file itself before its late
/// packets (`run` 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u128);

impl Key {
    const LAST: Self = Self(u128::MAX);

    #[inline]
    pub(super) fn new(time_ns: u64, input: u32, run: u32) -> Self {
        Self(u128::from(time_ns) << 64 | u128::from(input) << 32 | u128::from(run))
    }

    /// The same cursor with a packet of another time.
    #[inline]
    pub(super) fn at(self, time_ns: u64) -> Self {
        Self(u128::from(time_ns) << 64 | u128::from(self.0 as u64))
    }

    pub(super) fn input(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn run(self) -> u32 {
        self.0 as u32
    }
}

/// A binary heap with the smallest key first. Unlike that of the library it shows the second one.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<Key>);

impl Heap {
    pub(super) fn first(&self) -> Option<Key> {
        self.0.first().copied()
    }

    /// The smallest key but the first.
    #[inline]
    pub(super) fn second(&self) -> Key {
        let after = |at: usize| self.0.get(at).copied().unwrap_or(Key::LAST);
        after(1).min(after(2))
    }

    pub(super) fn push(&mut self, key: Key) {
        let mut at = self.0.len();
        self.0.push(key);
        while at > 0 && self.0[at] < self.0[(at - 1) / 2] {
            self.0.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    pub(super) fn pop_first(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.replace_first(last);
        }
    }

    /// Replaces the first key, of which there must be one.
    #[inline]
    pub(super) fn replace_first(&mut self, key: Key) {
        let (keys, mut at) = (&mut self.0[..], 0);
        loop {
            let mut child = 2 * at + 1;
            if child >= keys.len() {
                break;
            }
            child += usize::from(child + 1 < keys.len() && keys[child + 1] < keys[child]);
            if key <= keys[child] {
                break;
            }
            keys[at] = keys[child];
            at = child;
        }
        keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_is_before_its_late_packets_and_these_before_the_next_file() {
        let [file, run, next] = [(0, 0), (0, 1), (1, 0)].map(|(input, run)| Key::new(7, input, run));
        assert!(file < run && run < next && next < Key::new(8, 0, 0));
        assert_eq!((run.input(), run.run(), run.at(9)), (0, 1, Key::new(9, 0, 1)));
    }

    proptest! {
        #[test]
        fn keys_leave_in_order(times in proptest::collection::vec((0_u64..20, 0_u64..20), 0..100)) {
            let mut heap = Heap::default();
            let mut left = Vec::new();
            for (at, (time_ns, later)) in times.iter().enumerate() {
                let key = Key::new(*time_ns, at as u32, 0);
                heap.push(key);
                left.push(key);
                left.sort_unstable();
                prop_assert_eq!(heap.first(), left.first().copied());
                prop_assert_eq!(heap.second(), left.get(1).copied().unwrap_or(Key::LAST));
                if at % 3 == 0 {
                    let next = left[0].at(later + 5);
                    heap.replace_first(next);
                    left[0] = next;
                    left.sort_unstable();
                }
            }
            for key in left {
                prop_assert_eq!(heap.first(), Some(key));
                heap.pop_first();
            }
            prop_assert_eq!(heap.first(), None);
        }
    }
}
