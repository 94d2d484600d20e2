//! Holes in sequence numbers: a sorted list per direction, all in one bounded arena.
//!
//! Sequence numbers wrap: of two numbers, the later one is less than 2 GiB ahead.

/// No hole.
const NONE: u16 = u16::MAX;
/// Maximum number of holes of all directions: 2.5 MiB.
const HOLES_MAX: usize = NONE as usize;
/// Maximum number of holes of a direction, which bounds the time of a segment's search.
pub(super) const LIST_MAX: u16 = 64;

/// Bytes from `from` to `sequence`; negative if that comes first.
#[inline]
pub(super) fn ahead(sequence: u32, from: u32) -> i64 {
    i64::from(sequence.wrapping_sub(from) as i32)
}

/// Bytes that were not seen, between others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) start: u32,
    pub(super) end: u32,
    next: u16,
    /// Position of the loss in the order of all segments.
    pub(super) place: u32,
    /// Times of the segment before the hole, and of the packet that revealed it, ns since 1970.
    pub(super) before_ns: u64,
    pub(super) after_ns: u64,
    /// Time since which the receiver's acknowledgments cover all of it; 0 before.
    pub(super) acked_ns: u64,
}

/// The holes of one direction in the order of sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct HoleList {
    first: u16,
    last: u16,
    count: u16,
}

impl Default for HoleList {
    fn default() -> Self {
        Self { first: NONE, last: NONE, count: 0 }
    }
}

impl HoleList {
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Hole {
    pub(super) fn new(start: u32, end: u32) -> Self {
        Self { start, end, next: NONE, ..Self::default() }
    }

    /// Adds the position in the order of segments, and the times around the hole.
    pub(super) fn at(self, place: u32, before_ns: u64, after_ns: u64) -> Self {
        Self { place, before_ns, after_ns, ..self }
    }

    pub(super) fn bytes(&self) -> u32 {
        self.end.wrapping_sub(self.start)
    }
}

/// The holes of all directions.
#[derive(Debug, Default)]
pub(super) struct Holes {
    all: Vec<Hole>,
    /// The first free entry; free entries are linked by `next`.
    free: Option<u16>,
    /// Bytes of holes that did not fit in the arena.
    pub(super) untracked_bytes: u64,
    /// Bytes of the smaller parts of holes that were split in a full list.
    pub(super) split_bytes: u64,
    /// Number of holes visited.
    #[cfg(test)]
    looks: u64,
}

impl Holes {
    /// Stores a hole; `None` at the limit.
    fn store(&mut self, hole: Hole) -> Option<u16> {
        if let Some(at) = self.free {
            let next = self.all[at as usize].next;
            self.free = (next != NONE).then_some(next);
            self.all[at as usize] = hole;
            return Some(at);
        }
        if self.all.len() == HOLES_MAX {
            self.untracked_bytes += u64::from(hole.bytes());
            return None;
        }
        self.all.push(hole);
        Some((self.all.len() - 1) as u16)
    }

    fn release(&mut self, at: u16) {
        self.all[at as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(at);
    }

    /// Appends a hole to its list.
    pub(super) fn push(&mut self, list: &mut HoleList, hole: Hole) {
        let Some(at) = self.store(hole) else { return };
        match list.last {
            NONE => list.first = at,
            last => self.all[last as usize].next = at,
        }
        list.last = at;
        list.count += 1;
    }

    /// The first hole of a list.
    #[inline]
    pub(super) fn first(&self, list: &HoleList) -> Option<&Hole> {
        self.all.get(list.first as usize)
    }

    /// Removes the first hole of a list.
    pub(super) fn pop(&mut self, list: &mut HoleList) -> Option<Hole> {
        let (first, hole) = (list.first, *self.first(list)?);
        self.unlink(list, NONE, first);
        Some(hole)
    }

    /// Removes a hole from its list, after the one at `previous`.
    fn unlink(&mut self, list: &mut HoleList, previous: u16, at: u16) {
        let next = self.all[at as usize].next;
        match previous {
            NONE => list.first = next,
            previous => self.all[previous as usize].next = next,
        }
        if list.last == at {
            list.last = previous;
        }
        list.count -= 1;
        self.release(at);
    }

    /// Marks holes before `acknowledgment` as acknowledged; returns the number of newly marked ones.
    pub(super) fn acknowledge(&mut self, list: &HoleList, acknowledgment: u32, now_ns: u64) -> usize {
        let (mut at, mut new) = (list.first, 0);
        while let Some(hole) =
            self.all.get_mut(at as usize).filter(|hole| ahead(hole.end, acknowledgment) <= 0)
        {
            if hole.acked_ns == 0 {
                hole.acked_ns = now_ns.max(1);
                new += 1;
            }
            at = hole.next;
        }
        new
    }

    /// Unmarks holes at or after `acknowledgment`, whatever an earlier packet acknowledged.
    pub(super) fn take_back(&mut self, list: &HoleList, acknowledgment: u32) {
        let mut at = list.first;
        while let Some(hole) = self.all.get_mut(at as usize) {
            if ahead(hole.end, acknowledgment) > 0 {
                hole.acked_ns = 0;
            }
            at = hole.next;
        }
    }

    /// Fills the holes between `start` and `end`; returns the number of bytes that were missing.
    pub(super) fn fill(&mut self, list: &mut HoleList, start: u32, end: u32) -> u32 {
        let (mut previous, mut at, mut filled) = (NONE, list.first, 0);
        while let Some(hole) = self.all.get(at as usize).copied().filter(|hole| ahead(hole.start, end) < 0) {
            #[cfg(test)]
            {
                self.looks += 1;
            }
            let from = if ahead(hole.start, start) > 0 { hole.start } else { start };
            let to = if ahead(hole.end, end) < 0 { hole.end } else { end };
            if ahead(to, from) > 0 {
                filled += to.wrapping_sub(from);
                match (from == hole.start, to == hole.end) {
                    (true, true) => {
                        self.unlink(list, previous, at);
                        at = hole.next;
                        continue;
                    }
                    (true, false) => self.all[at as usize].start = to,
                    (false, true) => self.all[at as usize].end = from,
                    (false, false) => self.split(list, at, from, to),
                }
            }
            (previous, at) = (at, hole.next);
        }
        filled
    }

    /// Splits a hole around received bytes. A full list keeps only the larger part.
    fn split(&mut self, list: &mut HoleList, at: u16, from: u32, to: u32) {
        let whole = self.all[at as usize];
        let [first, second] = [Hole { end: from, ..whole }, Hole { start: to, ..whole }];
        if list.count < LIST_MAX {
            self.all[at as usize] = first;
            // The second part takes over `next`.
            let Some(new) = self.store(second) else { return };
            self.all[at as usize].next = new;
            if list.last == at {
                list.last = new;
            }
            list.count += 1;
            return;
        }
        let is_first = first.bytes() >= second.bytes();
        let (kept, other) = if is_first { (first, second) } else { (second, first) };
        self.all[at as usize] = kept;
        self.split_bytes += u64::from(other.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(holes: &Holes, list: &HoleList) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        let mut at = list.first;
        while let Some(hole) = holes.all.get(at as usize) {
            found.push((hole.start, hole.end));
            at = hole.next;
        }
        assert_eq!(found.len(), usize::from(list.count));
        found
    }

    proptest! {
        /// Compared with a map of single bytes, with wrapping numbers.
        #[test]
        fn holes_are_those_of_a_map_of_bytes(base: u32, steps in prop::collection::vec((any::<bool>(), 1u32..30, 1u32..30), 1..60)) {
            let (mut holes, mut list, mut top) = (Holes::default(), HoleList::default(), 0u32);
            let mut missing = vec![false; 4000];
            for (is_hole, one, other) in steps {
                if is_hole {
                    let (start, end) = (top + one, top + one + other);
                    holes.push(&mut list, Hole::new(base.wrapping_add(start), base.wrapping_add(end)));
                    missing[start as usize..end as usize].fill(true);
                    top = end;
                } else {
                    let start = (one * 31 + other * 7) % (top + 1);
                    let end = start + other;
                    let expected = missing[start as usize..end as usize].iter().filter(|is| **is).count();
                    let filled = holes.fill(&mut list, base.wrapping_add(start), base.wrapping_add(end));
                    prop_assert_eq!(filled as usize, expected);
                    missing[start as usize..end as usize].fill(false);
                }
                let mut at = 0;
                let mut model = Vec::new();
                while let Some(start) = missing[at..].iter().position(|is| *is).map(|found| at + found) {
                    let end = missing[start..].iter().position(|is| !*is).map_or(missing.len(), |found| start + found);
                    model.push((base.wrapping_add(start as u32), base.wrapping_add(end as u32)));
                    at = end;
                }
                prop_assert_eq!(ranges(&holes, &list), model);
            }
            while holes.pop(&mut list).is_some() {}
            prop_assert!(list.is_empty() && list.count() == 0 && list.last == NONE);
        }
    }

    #[test]
    fn the_arena_has_a_limit_and_is_reused() {
        let (mut holes, mut list) = (Holes::default(), HoleList::default());
        let hole = |at: u32| Hole::new(at * 10, at * 10 + 4);
        (0..HOLES_MAX as u32 - 1).for_each(|at| holes.push(&mut HoleList::default(), hole(at)));
        (0..3).for_each(|at| holes.push(&mut list, hole(at)));
        assert_eq!((list.count(), holes.untracked_bytes, holes.all.len()), (1, 8, HOLES_MAX));
        assert_eq!(holes.pop(&mut list).map(|hole| hole.bytes()), Some(4));
        holes.push(&mut list, hole(7));
        assert_eq!((list.count(), holes.untracked_bytes), (1, 8));
    }

    /// Single bytes in a long hole, as one connection may send them.
    #[test]
    fn a_hole_that_is_split_again_and_again_costs_a_bounded_time() {
        let (mut holes, mut list) = (Holes::default(), HoleList::default());
        holes.push(&mut list, Hole::new(0, 134_000_000));
        for byte in 0..100_000 {
            holes.fill(&mut list, byte * 2 + 1, byte * 2 + 2);
        }
        let kept: u64 = ranges(&holes, &list).iter().map(|(start, end)| u64::from(end - start)).sum();
        assert_eq!((list.count(), kept + holes.split_bytes), (LIST_MAX, 134_000_000 - 100_000));
        assert!(holes.looks <= 100_000 * u64::from(LIST_MAX) && holes.all.len() == usize::from(LIST_MAX));
    }

    #[test]
    fn an_acknowledgment_that_goes_back_takes_its_holes_back() {
        let (mut holes, mut list) = (Holes::default(), HoleList::default());
        (0..3).for_each(|at| holes.push(&mut list, Hole::new(at * 10, at * 10 + 4)));
        assert_eq!(holes.acknowledge(&list, 24, 5), 3);
        holes.take_back(&list, 14);
        assert_eq!(holes.acknowledge(&list, 14, 9), 0);
        assert_eq!((holes.acknowledge(&list, 30, 9), holes.first(&list).unwrap().acked_ns), (1, 5));
    }
}
