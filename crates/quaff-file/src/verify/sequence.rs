//! The sequence numbers of one stream: received, missing, late and duplicate frames.
//!
//! Only the gaps take memory, up to a limit: a hostile file has one at each frame. A frame that follows its
//! predecessor, as nearly all do, costs two comparisons.

use quaff_wire::probe::ProbeHeader;
use serde::Serialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;

/// The state in which a received stream ended; better ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
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
#[derive(Debug, Clone)]
pub(super) struct Sequence {
    /// Numbers below this one are not expected.
    lowest: u64,
    highest: u64,
    /// Capture time of the frame with the highest number.
    highest_ns: u64,
    /// The gaps, by their first missing number.
    gaps: BTreeMap<u64, Missing>,
    unkept: Unkept,
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

/// The number of gaps that may still be kept, in all streams together. Each takes about 50 bytes.
#[derive(Debug, Clone)]
pub(super) struct GapRoom(u64);

/// Gaps that were counted and not kept: a late frame of one is not recognised, and counts as a duplicate.
#[derive(Debug, Clone, Default)]
struct Unkept {
    count: u64,
    /// The gaps with the lowest and the highest numbers.
    ends: Option<[(u64, Missing); 2]>,
}

impl Default for GapRoom {
    fn default() -> Self {
        Self(8 << 20)
    }
}

impl Sequence {
    /// Begins with the first frame received. Unless `from_first`, the stream is expected to begin at 0.
    pub(super) fn begin(stamp: &ProbeHeader, time_ns: u64, from_first: bool, room: &mut GapRoom) -> Self {
        let mut begun = Self {
            lowest: if from_first { stamp.seq } else { 0 },
            highest: stamp.seq,
            highest_ns: time_ns,
            gaps: BTreeMap::new(),
            unkept: Unkept::default(),
            received: 1,
            lost: 0,
            duplicates: 0,
            reordered: 0,
            bounded: stamp.bounded,
            last_seen: stamp.last,
            from_first,
        };
        if begun.lowest < stamp.seq {
            begun.lose(0..=stamp.seq - 1, [None, Some(time_ns)], room);
        }
        begun
    }

    /// Takes the next frame in the order of the file.
    #[inline]
    pub(super) fn take(&mut self, stamp: &ProbeHeader, time_ns: u64, room: &mut GapRoom) {
        self.bounded |= stamp.bounded;
        self.last_seen |= stamp.last;
        if stamp.seq > self.highest {
            if stamp.seq - self.highest > 1 {
                self.lose(self.highest + 1..=stamp.seq - 1, [Some(self.highest_ns), Some(time_ns)], room);
            }
            self.highest = stamp.seq;
            self.highest_ns = time_ns;
            self.received += 1;
        } else {
            self.take_late(stamp.seq, time_ns, room);
        }
    }

    #[cold]
    fn take_late(&mut self, seq: u64, time_ns: u64, room: &mut GapRoom) {
        if seq < self.lowest && self.from_first {
            if self.lowest - seq > 1 {
                self.lose(seq + 1..=self.lowest - 1, [Some(time_ns), None], room);
            }
            self.lowest = seq;
        } else if !self.find(seq, room) {
            self.duplicates += 1;
            return;
        }
        self.received += 1;
        self.reordered += 1;
    }

    /// Counts the missing `numbers`, between frames with these times.
    fn lose(&mut self, numbers: RangeInclusive<u64>, times_ns: [Option<u64>; 2], room: &mut GapRoom) {
        let [before_ns, after_ns] = times_ns.map(|time_ns| time_ns.and_then(NonZeroU64::new));
        let (first, last) = numbers.into_inner();
        self.lost = self.lost.saturating_add(last - first + 1);
        self.keep(first, Missing { last, before_ns, after_ns }, room);
    }

    fn keep(&mut self, first: u64, missing: Missing, room: &mut GapRoom) {
        if room.0 == 0 {
            self.unkept.add(first, missing);
        } else {
            room.0 -= 1;
            self.gaps.insert(first, missing);
        }
    }

    /// Removes `seq` from its gap; `false` if it is in none.
    fn find(&mut self, seq: u64, room: &mut GapRoom) -> bool {
        let Some((&first, &missing)) = self.gaps.range(..=seq).next_back() else { return false };
        if missing.last < seq {
            return false;
        }
        // The rest was lost between the same two frames.
        self.gaps.remove(&first);
        room.0 += 1;
        if first < seq {
            self.keep(first, Missing { last: seq - 1, ..missing }, room);
        }
        if seq < missing.last {
            self.keep(seq + 1, missing, room);
        }
        self.lost -= 1;
        true
    }

    /// Counts the missing numbers up to `count`, after all files were read.
    pub(super) fn expect(&mut self, count: u64, room: &mut GapRoom) {
        if count > 0 && count - 1 > self.highest {
            self.lose(self.highest + 1..=count - 1, [Some(self.highest_ns), None], room);
        }
    }

    /// Adds the frames of the same stream that another lane received: only those that both lack are missing.
    pub(super) fn add(&mut self, other: &Self, room: &mut GapRoom) {
        let (lowest, highest) = (self.lowest.min(other.lowest), self.highest.max(other.highest));
        let both = [self.missing_in(lowest, highest), other.missing_in(lowest, highest)];
        let unkept = self.unkept.count + other.unkept.count;
        let came = self.received + other.received;
        room.0 += self.gaps.len() as u64;
        (self.gaps, self.lost) = (BTreeMap::new(), 0);
        for (first, missing) in common(&both) {
            self.lost = self.lost.saturating_add(missing.last - first + 1);
            self.keep(first, missing, room);
        }
        let span = (highest - lowest).saturating_add(1);
        if unkept > 0 {
            // The numbers in gaps that were not kept are not known: all frames that arrived count as different ones.
            self.lost = span.saturating_sub(came);
            self.unkept.count = unkept;
        }
        self.received = span.saturating_sub(self.lost);
        self.duplicates += other.duplicates + came.saturating_sub(self.received);
        self.reordered += other.reordered;
        self.highest_ns = if other.highest > self.highest { other.highest_ns } else { self.highest_ns };
        (self.lowest, self.highest) = (lowest, highest);
        self.bounded |= other.bounded;
        self.last_seen |= other.last_seen;
    }

    /// The runs of numbers from `lowest` to `highest` that it lacks, in their order.
    fn missing_in(&self, lowest: u64, highest: u64) -> Vec<(u64, Missing)> {
        let before = self.lowest.checked_sub(1).filter(|last| *last >= lowest);
        let before = before.map(|last| (lowest, Missing { last, before_ns: None, after_ns: None }));
        let highest_ns = NonZeroU64::new(self.highest_ns);
        let after = Missing { last: highest, before_ns: highest_ns, after_ns: None };
        let after = (self.highest < highest).then(|| (self.highest + 1, after));
        let gaps = self.gaps.iter().map(|(first, missing)| (*first, *missing));
        before.into_iter().chain(gaps).chain(after).collect()
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    pub(super) fn end(&self) -> StreamEnd {
        match (self.last_seen, self.bounded) {
            (true, _) => StreamEnd::Seen,
            (false, true) => StreamEnd::Missing,
            (false, false) => StreamEnd::Open,
        }
    }

    pub(super) fn gap_count(&self) -> u64 {
        self.gaps.len() as u64 + self.unkept.count
    }

    /// The number of gaps in which late frames were not recognised.
    pub(super) fn unkept_gaps(&self) -> u64 {
        self.unkept.count
    }

    /// Returns the first and the last gap in the order of the numbers.
    pub(super) fn gaps_at_ends(&self, stream: u16) -> Option<(Gap, Gap)> {
        let gap = |(first, missing): (u64, Missing)| Gap {
            stream,
            first,
            last: missing.last,
            frames: missing.last - first + 1,
            before_ns: missing.before_ns.map(NonZeroU64::get),
            after_ns: missing.after_ns.map(NonZeroU64::get),
        };
        let ends = [self.gaps.first_key_value(), self.gaps.last_key_value()];
        let ends = ends.into_iter().flatten().map(|(first, missing)| (*first, *missing));
        let all: Vec<_> = ends.chain(self.unkept.ends.into_iter().flatten()).collect();
        let by_number = |(first, _): &&(u64, Missing)| *first;
        Some((gap(*all.iter().min_by_key(by_number)?), gap(*all.iter().max_by_key(by_number)?)))
    }
}

/// The runs of numbers that both lack, with the times of the nearest frames around each that are known.
fn common([one, other]: &[Vec<(u64, Missing)>; 2]) -> Vec<(u64, Missing)> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::new();
    while let (Some((first, missing)), Some((other_first, other_missing))) = (one.peek(), other.peek()) {
        let from = *first.max(other_first);
        let last = missing.last.min(other_missing.last);
        if from <= last {
            // The frame before it is in the lane whose run begins there, the one after it where a run ends.
            let of_first = |at: &u64, of: &Missing| of.before_ns.filter(|_| *at == from);
            let of_last = |of: &Missing| of.after_ns.filter(|_| of.last == last);
            let before_ns = of_first(first, missing).max(of_first(other_first, other_missing));
            let ends = [of_last(missing), of_last(other_missing)];
            both.push((from, Missing { last, before_ns, after_ns: ends.into_iter().flatten().min() }));
        }
        let shorter = if missing.last <= other_missing.last { &mut one } else { &mut other };
        shorter.next();
    }
    both
}

impl Unkept {
    fn add(&mut self, first: u64, missing: Missing) {
        self.count += 1;
        let gap = (first, missing);
        let [low, high] = self.ends.unwrap_or([gap; 2]);
        self.ends = Some([if first < low.0 { gap } else { low }, if first > high.0 { gap } else { high }]);
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
        model_in(&mut GapRoom::default(), seqs, from_first)
    }

    fn model_in(room: &mut GapRoom, seqs: &[u64], from_first: bool) -> Sequence {
        let mut sequence = Sequence::begin(&stamp(seqs[0]), 100, from_first, room);
        for (i, seq) in seqs.iter().enumerate().skip(1) {
            sequence.take(&stamp(*seq), 100 + i as u64, room);
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
        fn lanes_that_share_a_stream_are_added(seqs in prop::collection::vec((0u64..60, 0usize..3), 1..90)) {
            let mut room = GapRoom::default();
            let lanes: Vec<Vec<u64>> = (0..3)
                .map(|lane| seqs.iter().filter(|(_, of)| *of == lane).map(|(seq, _)| *seq).collect())
                .collect();
            let mut lanes = lanes.iter().filter(|seqs| !seqs.is_empty());
            let mut sum = lanes.next().map(|seqs| model_in(&mut room, seqs, true)).unwrap();
            for seqs in lanes {
                sum.add(&model(seqs, true), &mut room);
            }
            let all: Vec<u64> = seqs.iter().map(|(seq, _)| *seq).collect();
            let alone = model(&all, true);
            prop_assert_eq!(missing(&sum), missing(&alone));
            let counts = |of: &Sequence| (of.received, of.lost, of.duplicates, of.lowest, of.highest);
            prop_assert_eq!(counts(&sum), counts(&alone));
            prop_assert_eq!(room.0, GapRoom::default().0 - sum.gaps.len() as u64);
        }

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
        sequence.expect(5, &mut GapRoom::default());
        sequence.expect(0, &mut GapRoom::default());
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
    fn a_gap_at_each_frame_takes_memory_up_to_a_limit() {
        let seqs: Vec<u64> = (0..100).map(|i| 2 * i).collect();
        let mut room = GapRoom(10);
        let mut sequence = model_in(&mut room, &seqs, false);
        assert_eq!((sequence.gaps.len(), sequence.gap_count(), sequence.unkept_gaps()), (10, 99, 89));
        assert_eq!((sequence.received, sequence.lost), (100, 99));
        let (first, last) = sequence.gaps_at_ends(7).unwrap();
        assert_eq!((first.first, last.first), (1, 197));
        sequence.take(&stamp(1), 300, &mut room);
        assert_eq!((sequence.reordered, sequence.lost), (1, 98), "a late frame of a gap that is kept");
        sequence.take(&stamp(99), 300, &mut room);
        assert_eq!((sequence.duplicates, sequence.lost), (1, 98), "and of one that is not");
        sequence.take(&stamp(1000), 301, &mut room);
        assert_eq!((sequence.gaps.len(), sequence.gap_count()), (10, 99), "there is room again");
    }

    #[test]
    fn a_lost_tail_is_expected() {
        let mut sequence = model(&[0, 1], false);
        sequence.expect(2, &mut GapRoom::default());
        assert_eq!(sequence.lost, 0);
        sequence.expect(5, &mut GapRoom::default());
        assert_eq!(sequence.lost, 3);
        let (tail, _) = sequence.gaps_at_ends(7).unwrap();
        assert_eq!((tail.first, tail.last, tail.before_ns, tail.after_ns), (2, 4, Some(101), None));
    }

    #[test]
    fn the_three_ends() {
        let end = |last, bounded| {
            let stamp = ProbeHeader { last, bounded, ..stamp(0) };
            Sequence::begin(&stamp, 0, false, &mut GapRoom::default()).end()
        };
        assert_eq!(end(true, true), StreamEnd::Seen);
        assert_eq!(end(false, true), StreamEnd::Missing);
        assert_eq!(end(false, false), StreamEnd::Open);
    }
}
