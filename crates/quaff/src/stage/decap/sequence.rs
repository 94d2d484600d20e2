//! The sequence numbers of one session: missing packets were lost before the capture.
//!
//! RFC 2890 numbers GRE packets modulo 2^32. A slightly lower number is a late packet. A distant number, or several
//! lower ones in a row that were not missing, mean that the sender restarted.

/// Largest distance ahead that counts as a gap.
const AHEAD_MAX: u32 = 1 << 24;
/// Largest distance back that counts as late.
const BEHIND_MAX: u32 = 1024;
/// Length of a row of lower numbers, none of them missing, that counts as a restart.
const ROW_MAX: u32 = 8;

/// The sequence state of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    next: Option<u32>,
    /// The last 64 numbers received: bit 0 is the one before `next`.
    seen: u64,
    /// Numbers not received.
    pub(super) missing: u64,
    /// Numbers received after higher ones.
    pub(super) late: u64,
    /// Restarts of the sender.
    pub(super) restarts: u64,
    row: Row,
}

/// Consecutive lower numbers that were not missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    next: Option<u32>,
    length: u32,
}

impl Sequence {
    /// Counts a received number.
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
        } else if behind > BEHIND_MAX {
            self.restart(number);
        } else if behind <= 64 && self.seen & 1 << (behind - 1) == 0 {
            self.seen |= 1 << (behind - 1);
            self.missing = self.missing.saturating_sub(1);
            self.late += 1;
            self.row = Row::default();
        } else if self.is_long_row(number) {
            self.restart(number);
        }
    }

    fn is_long_row(&mut self, number: u32) -> bool {
        if self.row.next != Some(number) {
            self.row = Row::default();
        }
        self.row.next = Some(number.wrapping_add(1));
        self.row.length += 1;
        self.row.length >= ROW_MAX
    }

    fn restart(&mut self, number: u32) {
        self.restarts += 1;
        self.begin(number);
    }

    /// Starts at `number`; lower numbers are not missing.
    fn begin(&mut self, number: u32) {
        self.next = Some(number.wrapping_add(1));
        self.seen = u64::MAX;
        self.row = Row::default();
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
    fn gaps_late_packets_and_restarts_are_distinguished() {
        assert_eq!(noted(&[7, 8, 9]), (0, 0, 0));
        assert_eq!(noted(&[7, 10]), (2, 0, 0));
        assert_eq!(noted(&[7, 10, 9]), (1, 1, 0));
        assert_eq!(noted(&[7, 10, 9, 9]), (1, 1, 0), "twice");
        assert_eq!(noted(&[7, 6]), (0, 0, 0), "before the first");
        assert_eq!(noted(&[u32::MAX, 0, 2]), (1, 0, 0), "over the end");
        assert_eq!(noted(&[1_000_000_000, 5, 6, 8]), (1, 0, 1));
        let crossed: Vec<u32> = (0..=100).chain(109..=120).chain(101..=108).chain(121..200).collect();
        assert_eq!(noted(&crossed), (0, 8, 0), "a row that came late");
        let anew: Vec<u32> = (0..300).chain(0..300).collect();
        assert_eq!(noted(&anew), (0, 0, 1), "soon after the first beginning");
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
