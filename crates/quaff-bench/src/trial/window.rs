//! The arrived sequence numbers of a stream: a bit for each of the last two million.
//!
//! ```text
//!   settled: received or lost │ floor ... may still arrive ... next │ not sent yet, as far as is known
//! ```
//!
//! Memory and time do not depend on loss.

/// Frames that arrive this far after the newest one count as lost.
pub(super) const WINDOW_FRAMES: u64 = 1 << 21;
const WORD_FRAMES: u64 = 64;
const WORDS: usize = (WINDOW_FRAMES / WORD_FRAMES) as usize;

/// The class of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// No later-sent frame has arrived before it.
    InOrder,
    /// Arrived after a later-sent frame (RFC 4737).
    Late,
    /// Already arrived (RFC 5560).
    Duplicate,
    /// Already counted as lost.
    TooLate,
}

/// The sequence numbers of one stream.
#[derive(Debug)]
pub(super) struct Window {
    bits: Box<[u64]>,
    /// Lower numbers are settled; a multiple of [`WORD_FRAMES`].
    floor: u64,
    /// One above the highest number that has arrived.
    next: u64,
}

impl Window {
    pub(super) fn new() -> Self {
        Self { bits: vec![0; WORDS].into(), floor: 0, next: 0 }
    }

    /// Records a number. Numbers that become lost are passed to `lose` as ranges, first and last, in order; adjacent
    /// ranges are not joined.
    #[inline]
    pub(super) fn take(&mut self, seq: u64, mut lose: impl FnMut(u64, u64)) -> Arrival {
        if seq < self.floor {
            return Arrival::TooLate;
        }
        while seq - self.floor >= WINDOW_FRAMES {
            self.settle(WORD_FRAMES, &mut lose);
        }
        let (word, bit) = (&mut self.bits[word_of(seq)], 1 << (seq % WORD_FRAMES));
        if *word & bit != 0 {
            return Arrival::Duplicate;
        }
        *word |= bit;
        if seq < self.next {
            return Arrival::Late;
        }
        self.next = seq + 1;
        Arrival::InOrder
    }

    /// Settles all numbers below `sent`.
    pub(super) fn finish(&mut self, sent: u64, mut lose: impl FnMut(u64, u64)) {
        while self.floor < sent {
            self.settle((sent - self.floor).min(WORD_FRAMES), &mut lose);
        }
    }

    /// Settles the word at the floor, whose first `frames` numbers were sent.
    fn settle(&mut self, frames: u64, lose: &mut impl FnMut(u64, u64)) {
        let word = std::mem::take(&mut self.bits[word_of(self.floor)]);
        let was_sent = u64::MAX >> (WORD_FRAMES - frames);
        let mut missing = !word & was_sent;
        while missing != 0 {
            let first = missing.trailing_zeros();
            let frames = (missing >> first).trailing_ones();
            lose(self.floor + u64::from(first), self.floor + u64::from(first + frames - 1));
            // Shifting by 64 bits overflows.
            missing &= u64::MAX.checked_shl(first + frames).unwrap_or(0);
        }
        self.floor += WORD_FRAMES;
    }
}

fn word_of(seq: u64) -> usize {
    (seq / WORD_FRAMES % WORDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Takes all numbers; returns the class of each, and the lost ones.
    fn run(seqs: &[u64], sent: u64) -> (Vec<Arrival>, Vec<u64>) {
        let (mut window, mut lost) = (Window::new(), Vec::new());
        let arrivals =
            seqs.iter().map(|seq| window.take(*seq, |first, last| lost.extend(first..=last))).collect();
        window.finish(sent, |first, last| lost.extend(first..=last));
        (arrivals, lost)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn same_as_a_naive_set(seqs in prop::collection::vec(0u64..200, 0..300), more in 0u64..200) {
            let sent = seqs.iter().max().map_or(0, |highest| highest + 1) + more;
            let (mut seen, mut next) = (HashSet::new(), 0);
            let expected: Vec<_> = seqs.iter().map(|&seq| {
                let arrival = match (seen.insert(seq), seq < next) {
                    (false, _) => Arrival::Duplicate,
                    (true, true) => Arrival::Late,
                    (true, false) => Arrival::InOrder,
                };
                next = next.max(seq + 1);
                arrival
            }).collect();
            let missing: Vec<_> = (0..sent).filter(|seq| !seen.contains(seq)).collect();
            prop_assert_eq!(run(&seqs, sent), (expected, missing));
        }
    }

    #[test]
    fn late_frames_are_lost_and_a_long_gap_is_one() {
        let far = 3 * WINDOW_FRAMES + 17;
        let (arrivals, lost) = run(&[0, 5, far, 4, far - 17, far], far + 1);
        let expected = [
            Arrival::InOrder,
            Arrival::InOrder,
            Arrival::InOrder,
            Arrival::TooLate,
            Arrival::Late,
            Arrival::Duplicate,
        ];
        assert_eq!(arrivals, expected);
        assert_eq!(lost.len() as u64, far + 1 - 4);
        assert!(lost.windows(2).all(|pair| pair[0] < pair[1]), "each number is lost once, in order");
    }

    #[test]
    fn the_ring_of_bits_begins_clean_again() {
        let all: Vec<_> = (0..2 * WINDOW_FRAMES + 100).collect();
        let (arrivals, lost) = run(&all, all.len() as u64);
        assert!(arrivals.iter().all(|arrival| *arrival == Arrival::InOrder));
        assert!(lost.is_empty(), "{lost:?}");
    }
}
