//! Means of the last seconds of a group: a ring with the bytes of each second, as iftop has one of each two.

use super::Cell;

/// Lengths of the windows of the means, seconds.
pub(super) const WINDOWS_S: [u64; 3] = [2, 10, 40];
/// Seconds of the ring: the longest window, and those that come while the records of its last second are awaited.
pub(super) const SECONDS: usize = 48;
/// A second, ns.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// The bytes of a group in the last seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// The newest second with bytes, since 1970.
    newest: u64,
    /// The bytes of that second, until there are bytes of another one: of a flood most groups have no more.
    alone: u64,
    /// The bytes of each second, at its number modulo [`SECONDS`].
    ring: Option<Box<[u64; SECONDS]>>,
    /// Means of the windows before the last look, bits per second.
    pub(super) means: [u64; 3],
}

/// The time of a look back: of the first packet, and of the end of the windows, ns since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
}

impl Recent {
    /// Adds the bytes of a second; those of a second that has left the ring are forgotten.
    pub(super) fn add(&mut self, second: &Cell) {
        let Cell { at, bytes, .. } = *second;
        let is_first = self.ring.is_none() && self.alone == 0;
        if is_first || (self.ring.is_none() && at == self.newest) {
            (self.newest, self.alone) = (at, self.alone.saturating_add(bytes));
            return;
        }
        let (newest, alone) = (self.newest, self.alone);
        let ring = self.ring.get_or_insert_with(|| {
            let mut ring = Box::new([0; SECONDS]);
            ring[place(newest)] = alone;
            ring
        });
        if at > newest {
            // The seconds between have no bytes.
            let passed = (at - newest).min(SECONDS as u64);
            (at - passed + 1..=at).for_each(|second| ring[place(second)] = 0);
            self.newest = at;
        }
        if self.newest - at < SECONDS as u64 {
            let sum = &mut ring[place(at)];
            *sum = sum.saturating_add(bytes);
        }
    }

    /// Adds the seconds of another group.
    pub(super) fn join(&mut self, other: &Self) {
        for at in other.oldest()..=other.newest {
            let bytes = other.bytes_in(at);
            if bytes > 0 {
                self.add(&Cell { at, packets: 0, bytes });
            }
        }
        for (mean, more) in self.means.iter_mut().zip(other.means) {
            *mean = mean.saturating_add(more);
        }
    }

    /// The oldest second that may have bytes.
    fn oldest(&self) -> u64 {
        match self.ring {
            None => self.newest,
            Some(_) => self.newest.saturating_sub(SECONDS as u64 - 1),
        }
    }

    fn bytes_in(&self, second: u64) -> u64 {
        match &self.ring {
            None if second == self.newest => self.alone,
            Some(ring) if second <= self.newest && self.newest - second < SECONDS as u64 => {
                ring[place(second)]
            }
            _ => 0,
        }
    }

    /// Computes the means; returns whether all its seconds are before the windows.
    pub(super) fn look_back(&mut self, look: Look) -> bool {
        self.means = WINDOWS_S.map(|seconds| {
            let bits = u128::from(self.bytes_before(look, seconds)) * 8 * u128::from(SECOND_NS);
            u64::try_from(bits / u128::from(look.window_ns(seconds).max(1))).unwrap_or(u64::MAX)
        });
        self.newest.saturating_add(SECONDS as u64) < look.end_ns / SECOND_NS
    }

    /// The bytes of a window. Of a second that is partly in it, those in proportion.
    fn bytes_before(&self, look: Look, seconds: u64) -> u64 {
        let (end, part_ns) = (look.end_ns / SECOND_NS, look.end_ns % SECOND_NS);
        let oldest = end.saturating_sub(seconds);
        // Seconds without bytes are not visited: in a flood there are many groups, each with one second.
        let first = (oldest + 1).max(self.oldest());
        let last = (end + u64::from(part_ns > 0)).min(self.newest + 1);
        let whole = (first..last).map(|second| self.bytes_in(second)).fold(0, u64::saturating_add);
        let cut = u128::from(self.bytes_in(oldest));
        let is_cut = look.window_ns(seconds) == seconds * SECOND_NS;
        let share = if is_cut { cut * u128::from(SECOND_NS - part_ns) / u128::from(SECOND_NS) } else { cut };
        whole.saturating_add(share as u64)
    }
}

impl Look {
    /// The time of a window: shorter while the first packet is younger.
    pub(super) fn window_ns(self, seconds: u64) -> u64 {
        (seconds * SECOND_NS).min(self.end_ns.saturating_sub(self.begin_ns))
    }
}

fn place(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The time of second 1,000,000, and of the next ones.
    fn at_ns(second: u64) -> u64 {
        (1_000_000 + second) * SECOND_NS
    }

    fn of(seconds: &[(u64, u64)]) -> Recent {
        let mut recent = Recent::default();
        for (second, bytes) in seconds {
            recent.add(&Cell { at: 1_000_000 + second, packets: 1, bytes: *bytes });
        }
        recent
    }

    fn means(mut recent: Recent, begin_ns: u64, end_ns: u64) -> [u64; 3] {
        recent.look_back(Look { begin_ns, end_ns });
        recent.means
    }

    #[test]
    fn windows_have_the_bytes_of_their_whole_seconds() {
        let recent = of(&[(0, 500), (31, 100), (38, 1000), (39, 3000), (40, 7000)]);
        // The second that has just begun is in no window, and the first one not in the last 40.
        assert_eq!(means(recent.clone(), 0, at_ns(41)), [8 * 10_000 / 2, 8 * 11_100 / 10, 8 * 11_100 / 40]);
        assert_eq!(means(recent.clone(), 0, at_ns(40)), [8 * 4000 / 2, 8 * 4100 / 10, 8 * 4600 / 40]);
        // A run of five seconds has no longer window.
        assert_eq!(means(recent, at_ns(36), at_ns(41)), [8 * 5000, 8 * 11_100 / 5, 8 * 11_100 / 5]);
    }

    #[test]
    fn the_end_of_a_file_is_within_a_second() {
        let recent = of(&[(0, 1000), (1, 300), (2, 60)]);
        let end_ns = at_ns(2) + SECOND_NS / 4;
        assert_eq!(means(recent.clone(), 0, end_ns)[0], 8 * (750 + 300 + 60) / 2);
        // All of a file that is shorter than a window.
        let begin_ns = at_ns(0) + SECOND_NS / 2;
        assert_eq!(means(recent, begin_ns, end_ns), [1360 * 8 * 4 / 7; 3]);
    }

    #[test]
    fn a_group_with_one_second_has_no_ring_and_old_groups_are_past() {
        let mut recent = of(&[(5, 10), (5, 20)]);
        assert!(recent.ring.is_none() && recent.bytes_in(1_000_005) == 30);
        assert!(!recent.look_back(Look { begin_ns: 0, end_ns: at_ns(53) }));
        assert!(recent.look_back(Look { begin_ns: 0, end_ns: at_ns(54) }));
        assert_eq!(size_of::<Recent>(), 48, "docs/security.md has it");
    }

    proptest! {
        /// A ring has what a list of all seconds has, in whatever order they come.
        #[test]
        fn sums_are_those_of_a_list(
            pieces in prop::collection::vec((0u64..90, 1u64..1000), 0..80),
            cut in 0usize..80,
        ) {
            let newest = pieces.iter().map(|(second, _)| *second).max().unwrap_or(0);
            let end = newest + 1;
            let sum = |seconds: u64| {
                let is_in = |second: u64| second + seconds >= end;
                pieces.iter().filter(|(second, _)| is_in(*second)).map(|(_, bytes)| bytes).sum::<u64>()
            };
            let expected = WINDOWS_S.map(|seconds| 8 * sum(seconds) / seconds);
            prop_assert_eq!(means(of(&pieces), 0, at_ns(end)), expected);
            let (one, other) = pieces.split_at(cut.min(pieces.len()));
            let mut joined = of(one);
            joined.join(&of(other));
            prop_assert_eq!(means(joined, 0, at_ns(end)), expected);
        }
    }
}
