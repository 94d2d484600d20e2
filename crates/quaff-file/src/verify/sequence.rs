//! The sequence numbers of one stream: received, missing, late and duplicate frames.
//!
//! Only the gaps take memory. A frame that follows its predecessor, as nearly all do, costs two
//! comparisons.

use quaff_wire::probe::ProbeHeader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// The end of a stream as far as it was received; better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The frame marked as the last was received.
    Seen,
    /// The stream had no planned end.
    Open,
    /// The stream had a planned end, and its last frame was not received: at least one frame after the last
    /// received one is lost.
    Missing,
}

/// A run of sequence numbers that were not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub stream: u16,
    /// First missing number.
    pub first: u64,
    /// Last missing number.
    pub last: u64,
    pub frames: u64,
    /// Capture time of the frame before the gap, ns since 1970.
    pub before_ns: Option<u64>,
    /// Capture time of the frame after the gap, ns since 1970.
    pub after_ns: Option<u64>,
}

/// The sequence numbers of one stream.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Numbers below this one are not expected.
    lowest: u64,
    highest: u64,
    /// Capture time of the frame with the highest number.
    highest_ns: u64,
    /// The gaps, by their first missing number.
    gaps: BTreeMap<u64, Missing>,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    bounded: bool,
    last_seen: bool,
    from_first: bool,
}

/// A gap: 32 bytes in the map, since there can be millions. A frame without a time has time 0.
#[derive(Debug, Clone, Copy)]
struct Missing {
    last: u64,
    before_ns: Option<NonZeroU64>,
    after_ns: Option<NonZeroU64>,
}

impl Sequence {
    /// Begins with the first frame received. Unless `from_first`, the stream is expected to begin at 0.
    pub(super) fn begin(stamp: &ProbeHeader, time_ns: u64, from_first: bool) -> Self {
        let mut begun = Self {
            lowest: if from_first { stamp.seq } else { 0 },
            highest: stamp.seq,
            highest_ns: time_ns,
            gaps: BTreeMap::new(),
            received: 1,
            lost: 0,
            duplicates: 0,
            reordered: 0,
            bounded: stamp.bounded,
            last_seen: stamp.last,
            from_first,
        };
        if begun.lowest < stamp.seq {
            begun.lose(0, stamp.seq - 1, None, Some(time_ns));
        }
        begun
    }

    /// Takes the next frame in the order of the file.
    #[inline]
    pub(super) fn take(&mut self, stamp: &ProbeHeader, time_ns: u64) {
        self.bounded |= stamp.bounded;
        self.last_seen |= stamp.last;
        if stamp.seq > self.highest {
            if stamp.seq - self.highest > 1 {
                self.lose(self.highest + 1, stamp.seq - 1, Some(self.highest_ns), Some(time_ns));
            }
            self.highest = stamp.seq;
            self.highest_ns = time_ns;
            self.received += 1;
        } else {
            self.take_late(stamp.seq, time_ns);
        }
    }

    #[cold]
    fn take_late(&mut self, seq: u64, time_ns: u64) {
        if seq < self.lowest && self.from_first {
            if self.lowest - seq > 1 {
                self.lose(seq + 1, self.lowest - 1, Some(time_ns), None);
            }
            self.lowest = seq;
        } else if !self.find(seq) {
            self.duplicates += 1;
            return;
        }
        self.received += 1;
        self.reordered += 1;
    }

    fn lose(&mut self, first: u64, last: u64, before_ns: Option<u64>, after_ns: Option<u64>) {
        let [before_ns, after_ns] = [before_ns, after_ns].map(|time_ns| time_ns.and_then(NonZeroU64::new));
        self.gaps.insert(first, Missing { last, before_ns, after_ns });
        self.lost = self.lost.saturating_add(last - first + 1);
    }

    /// Removes `seq` from its gap; `false` if it is in none.
    fn find(&mut self, seq: u64) -> bool {
        let Some((&first, &missing)) = self.gaps.range(..=seq).next_back() else { return false };
        if missing.last < seq {
            return false;
        }
        // The rest was lost between the same two frames.
        self.gaps.remove(&first);
        if first < seq {
            self.gaps.insert(first, Missing { last: seq - 1, ..missing });
        }
        if seq < missing.last {
            self.gaps.insert(seq + 1, missing);
        }
        self.lost -= 1;
        true
    }

    /// Counts the missing numbers up to `count`, after all files were read.
    pub(super) fn expect(&mut self, count: u64) {
        if count > 0 && count - 1 > self.highest {
            self.lose(self.highest + 1, count - 1, Some(self.highest_ns), None);
        }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn end(&self) -> End {
        match (self.last_seen, self.bounded) {
            (true, _) => End::Seen,
            (false, true) => End::Missing,
            (false, false) => End::Open,
        }
    }

    pub(super) fn gap_count(&self) -> u64 {
        self.gaps.len() as u64
    }

    /// Returns the first and the last gap in the order of the numbers.
    pub(super) fn gaps_at_ends(&self, stream: u16) -> Option<(Gap, Gap)> {
        let gap = |(&first, missing): (&u64, &Missing)| Gap {
            stream,
            first,
            last: missing.last,
            frames: missing.last - first + 1,
            before_ns: missing.before_ns.map(NonZeroU64::get),
            after_ns: missing.after_ns.map(NonZeroU64::get),
        };
        Some((gap(self.gaps.first_key_value()?), gap(self.gaps.last_key_value()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn stamp(seq: u64) -> ProbeHeader {
        ProbeHeader { stream: 7, seq, intended_ns: 0, late_ns: 0, last: false, bounded: false }
    }

    /// The n-th frame of a file has the time n + 100.
    fn model(seqs: &[u64], from_first: bool) -> Sequence {
        let mut sequence = Sequence::begin(&stamp(seqs[0]), 100, from_first);
        for (i, seq) in seqs.iter().enumerate().skip(1) {
            sequence.take(&stamp(*seq), 100 + i as u64);
        }
        sequence
    }

    fn missing(sequence: &Sequence) -> Vec<u64> {
        sequence.gaps.iter().flat_map(|(first, gap)| *first..=gap.last).collect()
    }

    /// The times of the frames around `lost`: the highest before, and the first higher one.
    fn passed(seqs: &[u64], lost: u64) -> [Option<u64>; 2] {
        let after = seqs.iter().position(|seq| *seq > lost).unwrap();
        let highest = seqs[..after].iter().max();
        let before = highest.map(|highest| seqs.iter().position(|seq| seq == highest).unwrap());
        [before.map(|i| 100 + i as u64), Some(100 + after as u64)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn same_as_a_naive_set(seqs in prop::collection::vec(0u64..40, 1..80), from_first: bool) {
            let sequence = model(&seqs, from_first);
            let (mut seen, mut reordered, mut highest) = (HashSet::new(), 0, None);
            for seq in &seqs {
                reordered += u64::from(seen.insert(*seq) && highest.is_some_and(|highest| *seq < highest));
                highest = highest.max(Some(*seq));
            }
            let lowest = if from_first { *seqs.iter().min().unwrap() } else { 0 };
            let lost: Vec<u64> = (lowest..highest.unwrap()).filter(|seq| !seen.contains(seq)).collect();
            prop_assert_eq!(sequence.received, seen.len() as u64);
            prop_assert_eq!(sequence.duplicates, (seqs.len() - seen.len()) as u64);
            prop_assert_eq!(sequence.reordered, reordered);
            prop_assert_eq!(sequence.lost, lost.len() as u64);
            prop_assert_eq!(missing(&sequence), lost.clone());
            if !from_first {
                prop_assert_eq!(sequence.received + sequence.lost, sequence.highest() + 1);
                for (first, gap) in &sequence.gaps {
                    let times = [gap.before_ns, gap.after_ns].map(|time| time.map(NonZeroU64::get));
                    prop_assert_eq!(times, passed(&seqs, *first));
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers() {
        let mut sequence = model(&[u64::MAX, 0, u64::MAX, 1], false);
        assert_eq!((sequence.received, sequence.duplicates, sequence.lost), (3, 1, u64::MAX - 2));
        sequence.expect(5);
        sequence.expect(0);
        assert_eq!(sequence.gap_count(), 1);
    }

    #[test]
    fn a_gap_is_named_with_its_times() {
        let (first, last) = model(&[0, 3, 4, 9], false).gaps_at_ends(7).unwrap();
        let gap = |first, last, before, after| Gap {
            stream: 7,
            first,
            last,
            frames: last - first + 1,
            before_ns: Some(before),
            after_ns: Some(after),
        };
        assert_eq!((first, last), (gap(1, 2, 100, 101), gap(5, 8, 102, 103)));
        assert_eq!(model(&[0, 1], false).gaps_at_ends(7), None);
    }

    #[test]
    fn a_lost_tail_is_expected() {
        let mut sequence = model(&[0, 1], false);
        sequence.expect(2);
        assert_eq!(sequence.lost, 0);
        sequence.expect(5);
        assert_eq!(sequence.lost, 3);
        let (tail, _) = sequence.gaps_at_ends(7).unwrap();
        assert_eq!((tail.first, tail.last, tail.before_ns, tail.after_ns), (2, 4, Some(101), None));
    }

    #[test]
    fn the_three_ends() {
        let end = |last, bounded| Sequence::begin(&ProbeHeader { last, bounded, ..stamp(0) }, 0, false).end();
        assert_eq!(end(true, true), End::Seen);
        assert_eq!(end(false, true), End::Missing);
        assert_eq!(end(false, false), End::Open);
    }
}
