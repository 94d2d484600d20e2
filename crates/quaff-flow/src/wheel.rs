//! A hierarchical timing wheel of 1 ms: six levels of 256 slots, which reach as far as ns in 64 bits.
//!
//! The level of an entry is the lowest one that reaches its tick, so at most 256 ms of entries 30 s ahead begin at
//! once.
//!
//! It is lazy: a packet does not move its flow. When the slot of an entry begins, the entry is handed out, and its
//! owner computes when it is due: now, or at a later time, for which it files the entry again. Every slot that
//! begins is drained, however far the time moves at once; empty stretches are skipped by bit maps.
//!
//! Entries are numbers of records, which have the links: the wheel itself never grows.

/// ns of a tick.
pub(crate) const TICK_NS: u64 = 1_000_000;
/// No entry.
pub(crate) const NONE: u32 = u32::MAX;
/// Marks the end of a list: the lower bits name the list.
const END: u32 = 1 << 31;

const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
/// The list of entries whose slot has begun.
const PENDING: usize = LEVELS * SLOTS;

/// The neighbours of an entry in its list: entries below [`END`], or the list itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) next: u32,
    pub(crate) previous: u32,
}

/// The owner of the entries.
pub(crate) trait Links {
    fn link(&self, entry: u32) -> Link;
    fn set_next(&mut self, entry: u32, next: u32);
    fn set_previous(&mut self, entry: u32, previous: u32);
}

#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

/// The wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The current tick: every slot up to it has begun.
    at: u64,
    lists: Vec<List>,
    /// A bit for each slot with entries.
    occupied: [[u64; SLOTS / 64]; LEVELS],
}

/// The first tick at which something due at `due_ns` has to be looked at.
#[inline]
pub(crate) fn tick_of(due_ns: u64) -> u64 {
    due_ns.div_ceil(TICK_NS)
}

impl Wheel {
    /// A wheel whose time is `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        let lists = (0..=PENDING).map(List::empty).collect();
        Self { at: now_ns / TICK_NS, lists, occupied: [[0; SLOTS / 64]; LEVELS] }
    }

    /// The time at which the next tick begins, ns.
    #[inline]
    pub(crate) fn next_tick_ns(&self) -> u64 {
        (self.at + 1).saturating_mul(TICK_NS)
    }

    /// Returns whether the tick of `due_ns` has begun.
    #[inline]
    pub(crate) fn has_reached(&self, due_ns: u64) -> bool {
        tick_of(due_ns) <= self.at
    }

    /// Sets the time of a wheel without entries.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        debug_assert!(self.occupied.as_flattened().iter().all(|bits| *bits == 0));
        self.at = now_ns / TICK_NS;
    }

    /// Files an entry for the tick of `due_ns`, at least one tick ahead.
    pub(crate) fn file(&mut self, entry: u32, due_ns: u64, links: &mut impl Links) {
        let slot = self.slot(tick_of(due_ns).max(self.at + 1));
        self.occupied[slot / SLOTS][slot % SLOTS / 64] |= 1 << (slot % 64);
        self.push(slot, entry, links);
    }

    /// The slot of a later tick: of the lowest level whose slots reach it from the current one on. It is never the
    /// current slot of a level, which has begun.
    fn slot(&self, tick: u64) -> usize {
        let digit = |ticks: u64, level: usize| ticks >> (level as u32 * SLOT_BITS);
        let reaches = |level: &usize| digit(tick, *level) - digit(self.at, *level) < SLOTS as u64;
        let level = (0..LEVELS).find(reaches);
        debug_assert!(level.is_some(), "ns in 64 bits are below 2^48 ticks");
        let level = level.unwrap_or(LEVELS - 1);
        level * SLOTS + digit(tick, level) as usize % SLOTS
    }

    fn push(&mut self, list: usize, entry: u32, links: &mut impl Links) {
        let last = self.lists[list].last;
        links.set_next(entry, END | list as u32);
        links.set_previous(entry, last);
        match last & END {
            0 => links.set_next(last, entry),
            _ => self.lists[list].first = entry,
        }
        self.lists[list].last = entry;
    }

    /// Takes an entry out of its list.
    pub(crate) fn remove(&mut self, entry: u32, links: &mut impl Links) {
        let Link { next, previous } = links.link(entry);
        match next & END {
            0 => links.set_previous(next, previous),
            _ => self.lists[(next & !END) as usize].last = previous,
        }
        match previous & END {
            0 => links.set_next(previous, next),
            _ => self.lists[(previous & !END) as usize].first = next,
        }
        if next & previous & END != 0 {
            self.clear(next);
        }
    }

    /// Clears the bit of a list that has become empty.
    fn clear(&mut self, list: u32) {
        let slot = (list & !END) as usize;
        if slot < PENDING {
            self.occupied[slot / SLOTS][slot % SLOTS / 64] &= !(1 << (slot % 64));
        }
    }

    /// Moves the time to `now_ns` as far as no slot with entries begins, and takes the next entry of one that has
    /// begun; `None` when the time has reached `now_ns`.
    pub(crate) fn pop_begun(&mut self, now_ns: u64, links: &mut impl Links) -> Option<u32> {
        let now = now_ns / TICK_NS;
        loop {
            let first = self.lists[PENDING].first;
            if first & END == 0 {
                self.remove(first, links);
                return Some(first);
            }
            match self.next_begin() {
                Some((tick, slot)) if tick <= now => {
                    self.at = self.at.max(tick);
                    self.begin(slot, links);
                }
                _ => {
                    self.at = self.at.max(now);
                    return None;
                }
            }
        }
    }

    /// Moves the entries of a slot to the pending ones, which are none.
    fn begin(&mut self, slot: usize, links: &mut impl Links) {
        let List { first, last } = self.lists[slot];
        self.lists[slot] = List::empty(slot);
        self.clear(END | slot as u32);
        links.set_previous(first, END | PENDING as u32);
        links.set_next(last, END | PENDING as u32);
        self.lists[PENDING] = List { first, last };
    }

    /// The slot with entries that begins next, and its first tick. That is a tick which has begun where slots of
    /// several levels begin at once.
    fn next_begin(&self) -> Option<(u64, usize)> {
        let of_level = |level: usize| {
            let shift = level as u32 * SLOT_BITS;
            let digit = (self.at >> shift) as usize % SLOTS;
            let next = self.occupied_from(level, digit).or_else(|| self.occupied_from(level, 0))?;
            let ahead = (next + SLOTS - digit) % SLOTS;
            Some((((self.at >> shift) + ahead as u64) << shift, level * SLOTS + next))
        };
        (0..LEVELS).filter_map(of_level).min()
    }

    /// The first slot of a level with entries, from `slot` on.
    #[inline]
    fn occupied_from(&self, level: usize, slot: usize) -> Option<usize> {
        (slot / 64..SLOTS / 64).find_map(|word| {
            let from = slot.saturating_sub(word * 64) as u32;
            let bits = self.occupied[level][word] & (u64::MAX << from);
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// The entry that was filed for the earliest time, to within its slot, and that slot's last tick, ns.
    pub(crate) fn earliest(&self) -> Option<(u32, u64)> {
        let pending = self.lists[PENDING].first;
        if pending & END == 0 {
            return Some((pending, self.at * TICK_NS));
        }
        let (tick, slot) = self.next_begin()?;
        let last = tick + (1 << ((slot / SLOTS) as u32 * SLOT_BITS)) - 1;
        Some((self.lists[slot].first, last.saturating_mul(TICK_NS)))
    }
}

impl List {
    fn empty(number: usize) -> Self {
        let end = END | number as u32;
        Self { first: end, last: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Links for Vec<Link> {
        fn link(&self, entry: u32) -> Link {
            self[entry as usize]
        }

        fn set_next(&mut self, entry: u32, next: u32) {
            self[entry as usize].next = next;
        }

        fn set_previous(&mut self, entry: u32, previous: u32) {
            self[entry as usize].previous = previous;
        }
    }

    /// An operation on wheel and model: file for so many ns ahead, remove one, move the time by ns.
    #[derive(Debug, Clone)]
    enum Step {
        File(u64),
        Remove(prop::sample::Index),
        Move(u64),
    }

    fn ahead() -> impl Strategy<Value = u64> {
        prop_oneof![0..3 * TICK_NS, 0..1000 * TICK_NS, 0..200_000 * TICK_NS, 0..1u64 << 60]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => ahead().prop_map(Step::File),
            1 => any::<prop::sample::Index>().prop_map(Step::Remove),
            2 => ahead().prop_map(Step::Move),
        ]
    }

    /// Hands out what has begun, files again what is not due; returns the entries that were due.
    fn drain(wheel: &mut Wheel, now_ns: u64, due: &BTreeMap<u32, u64>, links: &mut Vec<Link>) -> Vec<u32> {
        let mut ended = Vec::new();
        while let Some(entry) = wheel.pop_begun(now_ns, links) {
            match wheel.has_reached(due[&entry]) {
                true => ended.push(entry),
                false => wheel.file(entry, due[&entry], links),
            }
        }
        ended
    }

    proptest! {
        #[test]
        fn entries_are_handed_out_within_a_tick_and_never_early(start in prop_oneof![Just(0u64), 0..1u64 << 63], steps in prop::collection::vec(step(), 0..200)) {
            let (mut wheel, mut links, mut now_ns) = (Wheel::new(start), Vec::new(), start);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::File(ahead_ns) => {
                        let (entry, due_ns) = (links.len() as u32, now_ns.saturating_add(ahead_ns));
                        links.push(Link::default());
                        wheel.file(entry, due_ns, &mut links);
                        model.insert(entry, due_ns);
                    }
                    Step::Remove(index) if !model.is_empty() => {
                        let entry = *model.keys().nth(index.index(model.len())).unwrap();
                        model.remove(&entry);
                        wheel.remove(entry, &mut links);
                    }
                    Step::Remove(_) => {}
                    Step::Move(ns) => {
                        let before_ns = now_ns;
                        now_ns = now_ns.saturating_add(ns);
                        let ended = drain(&mut wheel, now_ns, &model, &mut links);
                        prop_assert!(ended.iter().all(|entry| model[entry] <= now_ns), "early");
                        // What was due before the tick in which the time stands is late, unless it was filed in that
                        // very tick for the past: then it is due in the next.
                        let is_ended = |due_ns: u64| due_ns <= now_ns / TICK_NS * TICK_NS && now_ns / TICK_NS > before_ns / TICK_NS;
                        ended.iter().for_each(|entry| _ = model.remove(entry));
                        prop_assert!(model.values().all(|due_ns| !is_ended(*due_ns)), "late");
                    }
                }
                let first = wheel.earliest();
                prop_assert_eq!(first.is_some(), !model.is_empty());
                if let Some((entry, slot_ns)) = first {
                    prop_assert!(model.contains_key(&entry));
                    let earliest = model.values().map(|due_ns| tick_of(*due_ns)).min().unwrap();
                    prop_assert!(slot_ns / TICK_NS >= earliest.min(u64::MAX / TICK_NS));
                }
            }
            let ended = drain(&mut wheel, u64::MAX, &model, &mut links);
            prop_assert!(model.iter().all(|(entry, due_ns)| ended.contains(entry) || tick_of(*due_ns) > u64::MAX / TICK_NS));
        }
    }

    /// An entry each ms, due 30 s later, for 70 s: most that begin at once are those of a slot of 256 ms.
    #[test]
    fn entries_30_s_ahead_begin_a_few_at_a_time() {
        const AHEAD: u64 = 30_000;
        let (mut wheel, mut links, mut most) = (Wheel::new(0), vec![Link::default(); 70_000], 0);
        for ms in 0..70_000u32 {
            wheel.file(ms, (u64::from(ms) + AHEAD) * TICK_NS, &mut links);
            let mut begun = 0;
            while let Some(entry) = wheel.pop_begun(u64::from(ms) * TICK_NS, &mut links) {
                let due_ns = (u64::from(entry) + AHEAD) * TICK_NS;
                if !wheel.has_reached(due_ns) {
                    wheel.file(entry, due_ns, &mut links);
                }
                begun += 1;
            }
            most = most.max(begun);
        }
        assert!(most <= 257, "{most} at once");
    }

    #[test]
    fn entries_of_a_slot_come_in_the_order_of_filing() {
        let (mut wheel, mut links) = (Wheel::new(0), vec![Link::default(); 5]);
        (0..5).for_each(|entry| wheel.file(entry, 7 * TICK_NS, &mut links));
        wheel.remove(2, &mut links);
        assert_eq!(wheel.pop_begun(6 * TICK_NS + 5, &mut links), None);
        let taken: Vec<u32> = std::iter::from_fn(|| wheel.pop_begun(7 * TICK_NS, &mut links)).collect();
        assert_eq!(taken, [0, 1, 3, 4]);
        assert_eq!(wheel.earliest(), None);
    }
}
