//! An index of the file that was sent: a hash of each frame's content, and a hash table to find it.
//!
//! 40 bytes of memory per frame; contents that occur more than once have a list, and so have long or negative gaps.

use quaff_wire::fingerprint::Sketch;
use std::collections::HashMap;

/// A frame of the file, and how it was received.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Number of times that it was received, over all loops.
    pub(super) got: u32,
    /// The encoded [`Claim`].
    claim: u32,
    flow: u32,
    half: u16,
    len: u16,
    /// Time since the frame before it in the file, ns; [`GAP_ELSEWHERE`] if that does not fit.
    gap_ns: u32,
}

/// The gap is in [`Index::long_gaps_ns`].
const GAP_ELSEWHERE: u32 = u32::MAX;

/// The loop of the file in which a frame was last received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// Not received.
    Free,
    /// Received with the same content.
    Same(u32),
    /// A similar frame was received instead.
    Similar(u32),
}

/// Set in [`Entry::claim`] when the claim is [`Claim::Similar`].
const SIMILAR: u32 = 1 << 31;
/// Largest number of loops that can be distinguished.
pub(super) const LOOPS_MAX: u64 = (SIMILAR - 1) as u64;

impl Entry {
    fn new(sketch: Sketch, gap_ns: u32) -> Self {
        Self { got: 0, claim: 0, flow: sketch.flow, half: sketch.half, len: sketch.len, gap_ns }
    }

    pub(super) fn sketch(&self) -> Sketch {
        Sketch { flow: self.flow, half: self.half, len: self.len }
    }

    pub(super) fn claim(&self) -> Claim {
        match self.claim {
            0 => Claim::Free,
            claim if claim & SIMILAR != 0 => Claim::Similar((claim & !SIMILAR) - 1),
            claim => Claim::Same(claim - 1),
        }
    }

    pub(super) fn set(&mut self, claim: Claim) {
        self.claim = match claim {
            Claim::Free => 0,
            Claim::Same(turn) => turn + 1,
            Claim::Similar(turn) => (turn + 1) | SIMILAR,
        };
    }
}

/// All frames of the file, in order.
#[derive(Debug, Default)]
pub(super) struct Index {
    contents: Vec<u64>,
    pub(super) entries: Vec<Entry>,
    /// Open addressing: the upper half of a content, and the index of its first frame plus one.
    slots: Vec<u64>,
    /// The indices of contents that occur more than once, by the first of them.
    repeats: HashMap<u32, Vec<u32>>,
    /// Gaps below 0 or above 4.29 s, ns, by the index of their frame.
    long_gaps_ns: HashMap<u32, i64>,
}

impl Index {
    /// Appends a frame that came `gap_ns` after its predecessor; `false` when the index is full.
    pub(super) fn push(&mut self, content: u64, sketch: Sketch, gap_ns: i64) -> bool {
        if self.contents.len() >= (u32::MAX - 1) as usize {
            return false;
        }
        let short = u32::try_from(gap_ns).ok().filter(|gap| *gap != GAP_ELSEWHERE);
        if short.is_none() {
            self.long_gaps_ns.insert(self.contents.len() as u32, gap_ns);
        }
        self.contents.push(content);
        self.entries.push(Entry::new(sketch, short.unwrap_or(GAP_ELSEWHERE)));
        true
    }

    /// Time between the frame at `place` and its predecessor in the file, ns.
    pub(super) fn gap_ns(&self, place: u64) -> i64 {
        match self.entries[place as usize].gap_ns {
            GAP_ELSEWHERE => self.long_gaps_ns.get(&(place as u32)).copied().unwrap_or_default(),
            gap_ns => gap_ns.into(),
        }
    }

    /// Builds the hash table, after all frames were appended.
    pub(super) fn build(&mut self) {
        self.slots = vec![0; self.contents.len() * 3 / 2 + 1];
        for place in 0..self.contents.len() {
            let content = self.contents[place];
            let slot = self.slot(content);
            match self.slots[slot] as u32 {
                0 => self.slots[slot] = (content >> 32 << 32) | (place as u64 + 1),
                first => self.repeats.entry(first - 1).or_insert_with(|| vec![first - 1]).push(place as u32),
            }
        }
    }

    /// Returns the slot of a content, or the empty one for it.
    fn slot(&self, content: u64) -> usize {
        let slots = self.slots.len();
        // Scales the content from 2^64 to the number of slots.
        let spread = content.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = ((u128::from(spread) * slots as u128) >> 64) as usize;
        loop {
            let found = self.slots[slot];
            let is_it =
                || found >> 32 == content >> 32 && self.contents[found as u32 as usize - 1] == content;
            if found == 0 || is_it() {
                return slot;
            }
            slot = if slot + 1 == slots { 0 } else { slot + 1 };
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.contents.len() as u64
    }

    /// Returns `true` if the frame at `place` has this content.
    #[inline]
    pub(super) fn is(&self, place: u64, content: u64) -> bool {
        self.contents.get(place as usize) == Some(&content)
    }

    /// Returns the first place with this content.
    pub(super) fn find(&self, content: u64) -> Option<u32> {
        (self.slots[self.slot(content)] as u32).checked_sub(1)
    }

    /// Returns `true` if the content with this first place occurs more than once.
    pub(super) fn is_repeated(&self, first: u32) -> bool {
        self.repeats.contains_key(&first)
    }

    /// Returns the places of each content that occurs more than once, in order.
    pub(super) fn repeats(&self) -> impl Iterator<Item = &[u32]> {
        self.repeats.values().map(Vec::as_slice)
    }

    pub(super) fn entry(&mut self, place: u64) -> &mut Entry {
        &mut self.entries[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_found_again_with_all_their_places() {
        let sketch = Sketch { flow: 1, half: 2, len: 3 };
        let mut index = Index::default();
        let content = |n: u64| (n % 700).wrapping_mul(0x1234_5678_9abc_def1);
        (0..1000).for_each(|n| assert!(index.push(content(n), sketch, 0)));
        index.build();
        for n in 0..700 {
            assert_eq!(index.find(content(n)), Some(n as u32));
            assert_eq!(index.is_repeated(n as u32), n < 300);
        }
        assert_eq!(index.find(5), None);
        let mut repeats: Vec<_> = index.repeats().collect();
        repeats.sort_unstable();
        let expected: Vec<_> = (0..300).map(|n| [n, n + 700]).collect();
        assert_eq!(repeats, expected);
    }

    #[test]
    fn gaps_of_any_length_are_exact() {
        let gaps =
            [0, 1, 16_777_217, 4_294_967_294, 4_294_967_295, 4_294_967_296, 511_000_000_001, -1, i64::MIN];
        let mut index = Index::default();
        gaps.into_iter().for_each(|gap| assert!(index.push(1, Sketch { flow: 1, half: 2, len: 3 }, gap)));
        assert_eq!((0..gaps.len() as u64).map(|place| index.gap_ns(place)).collect::<Vec<_>>(), gaps);
    }

    #[test]
    fn an_empty_file_holds_nothing() {
        let mut index = Index::default();
        index.build();
        assert_eq!((index.find(0), index.len()), (None, 0));
    }

    #[test]
    fn claims_come_back_as_they_were_set() {
        let mut entry = Entry::new(Sketch { flow: 1, half: 2, len: 3 }, 0);
        let last = LOOPS_MAX as u32 - 1;
        for claim in [Claim::Same(0), Claim::Similar(0), Claim::Same(last), Claim::Similar(last), Claim::Free]
        {
            entry.set(claim);
            assert_eq!(entry.claim(), claim);
        }
    }
}
