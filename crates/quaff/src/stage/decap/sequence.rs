//! The sequence numbers of one session: what is missing was lost before it reached us.
//!
//! RFC 2890 numbers GRE packets modulo 2^32. A number that is a little behind came late, one that is
//! far away in either direction means that the sender began anew.

/// How far ahead a number may be to count as a gap.
const AHEAD_MAX: u32 = 1 << 24;
/// How far behind a number may be to count as late.
const BEHIND_MAX: u32 = 1024;

/// Keeps the books on one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    next: Option<u32>,
    /// Of the last 64 numbers, which have come: bit 0 is the one before `next`.
    seen: u64,
    /// Numbers that have not come.
    pub(super) missing: u64,
    /// Numbers that came after higher ones.
    pub(super) late: u64,
    /// How often the sender began anew.
    pub(super) restarts: u64,
}

impl Sequence {
    /// Notes that a number has come.
    #[inline]
    pub(super) fn note(&mut self, number: u32) {
        if self.next == Some(number) {
            self.seen = self.seen << 1 | 1;
            self.next = Some(number.wrapping_add(1));
        } else {
            self.note_odd(number);
        }
    }

    #[cold]
    fn note_odd(&mut self, number: u32) {
        let Some(next) = self.next else { return self.begin(number) };
        let (ahead, behind) = (number.wrapping_sub(next), next.wrapping_sub(number));
        if ahead < AHEAD_MAX {
            self.missing += u64::from(ahead);
            self.seen = self.seen.checked_shl(ahead + 1).unwrap_or(0) | 1;
            self.next = Some(number.wrapping_add(1));
        } else if behind <= 64 {
            let bit = 1 << (behind - 1);
            let is_new = self.seen & bit == 0;
            self.seen |= bit;
            self.missing -= u64::from(is_new).min(self.missing);
            self.late += u64::from(is_new);
        } else if behind <= BEHIND_MAX {
            self.missing = self.missing.saturating_sub(1);
            self.late += 1;
        } else {
            self.restarts += 1;
            self.begin(number);
        }
    }

    /// What came before the first number nobody misses.
    fn begin(&mut self, number: u32) {
        self.next = Some(number.wrapping_add(1));
        self.seen = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noted(numbers: &[u32]) -> (u64, u64, u64) {
        let mut sequence = Sequence::default();
        numbers.iter().for_each(|number| sequence.note(*number));
        (sequence.missing, sequence.late, sequence.restarts)
    }

    #[test]
    fn gaps_late_ones_and_new_beginnings_are_told_apart() {
        assert_eq!(noted(&[7, 8, 9]), (0, 0, 0));
        assert_eq!(noted(&[7, 10]), (2, 0, 0));
        assert_eq!(noted(&[7, 10, 9]), (1, 1, 0));
        assert_eq!(noted(&[7, 10, 9, 9]), (1, 1, 0), "twice");
        assert_eq!(noted(&[7, 6]), (0, 0, 0), "before the first");
        assert_eq!(noted(&[u32::MAX, 0, 2]), (1, 0, 0), "over the end");
        assert_eq!(noted(&[1_000_000_000, 5, 6, 8]), (1, 0, 1));
        assert_eq!(noted(&[0, 0, 0, 0]), (0, 0, 0), "a sender that does not count");
    }

    proptest! {
        #[test]
        fn any_loss_and_little_disorder_is_counted(
            first in any::<u32>(),
            kept in prop::collection::vec(any::<bool>(), 2..500),
            swaps in prop::collection::vec(0usize..500, 0..50),
        ) {
            let mut numbers: Vec<u32> = (0..kept.len())
                .filter(|i| kept[*i] || *i == 0 || *i == kept.len() - 1)
                .map(|i| first.wrapping_add(i as u32))
                .collect();
            let lost = kept.len() - numbers.len();
            // The first stays the first, and the last comes last.
            let inner = numbers.len() - 1;
            for at in swaps {
                let at = 1 + at % inner.max(1);
                if at + 1 < inner {
                    numbers.swap(at, at + 1);
                }
            }
            let (missing, _, restarts) = noted(&numbers);
            prop_assert_eq!((missing, restarts), (lost as u64, 0));
        }
    }
}
