//! A hierarchical timing wheel with ticks of 1 ms: six levels of 256 slots, which cover all times of 64-bit ns.
//!
//! An entry is in the lowest level that reaches its tick, so of entries 30 s ahead at most those of 256 ms begin at
//! once.
//!
//! The wheel is lazy: a packet does not move its flow. When the slot of an entry begins, the entry is returned to its
//! owner, who computes the time at which it is due: now, or later, and then files the entry again. Every slot that
//! begins is emptied, however far the time moves at once; bit maps skip the empty slots. The owner need not advance the
//! time before [`Wheel::next_ns`]: nothing begins until then, and entries may be filed nevertheless.
//!
//! Entries are numbers of records, which contain the links, so the wheel itself never grows. The next entry of a list
//! is known only when its record has been loaded from memory. So a slot distributes its entries to [`CHAINS`] lists in
//! turn, and returns them in the same turn: while one is processed, the records of the next ones are being loaded.
//! Entries leave a slot in the order in which they were filed; if one was removed, the later ones of its chain move up.

/// Length of a tick, ns.
pub(crate) const TICK_NS: u64 = 1_000_000;
/// No entry.
pub(crate) const NONE: u32 = u32::MAX;
/// Marks the end of a chain; the lower bits are the number of the chain.
const END: u32 = 1 << 31;

const SLOT_BITS: u32 = 8;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
/// Chains of a slot, whose records are loaded in parallel. Their ends are one cache line.
const CHAINS: usize = 8;

pub(crate) const WHEEL_BYTES: u64 = (size_of::<Wheel>() + LEVELS * SLOTS * size_of::<Slot>()) as u64;

/// The neighbours of an entry in its chain: entries below [`END`], or the chain itself.
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
    /// Prefetches an entry, which is returned soon.
    fn prefetch(&self, entry: u32);
}

/// The first and last entries of each chain, or the chain itself.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Slot {
    first: [u32; CHAINS],
    last: [u32; CHAINS],
}

/// The slot that has begun, moved out of the wheel: the next entry of each chain, and the chain of the next entry.
#[derive(Debug)]
struct Begun {
    next: [u32; CHAINS],
    turn: usize,
}

#[derive(Debug)]
pub(crate) struct Wheel {
    /// The current tick: every slot up to it has begun.
    at: u64,
    /// No slot with entries begins before this tick.
    next: u64,
    /// The first tick of the next slot with entries in each level; `u64::MAX` in an empty level.
    next_of: [u64; LEVELS],
    slots: Vec<Slot>,
    /// The chain that receives the next entry of each slot.
    turns: [[u8; SLOTS]; LEVELS],
    begun: Begun,
    /// A bit for each slot with entries.
    occupied: [[u64; SLOTS / 64]; LEVELS],
}

/// The first tick at or after `due_ns`.
#[inline]
pub(crate) fn tick_of(due_ns: u64) -> u64 {
    due_ns.div_ceil(TICK_NS)
}

impl Wheel {
    /// A wheel whose time is `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            at: now_ns / TICK_NS,
            next: u64::MAX,
            next_of: [u64::MAX; LEVELS],
            slots: (0..LEVELS * SLOTS).map(Slot::empty).collect(),
            turns: [[0; SLOTS]; LEVELS],
            begun: Begun { next: [END; CHAINS], turn: 0 },
            occupied: [[0; SLOTS / 64]; LEVELS],
        }
    }

    /// The time before which no slot with entries begins, ns; `u64::MAX` without entries.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next.saturating_mul(TICK_NS)
    }

    /// True if the tick of `due_ns` has begun.
    #[inline]
    pub(crate) fn has_reached(&self, due_ns: u64) -> bool {
        tick_of(due_ns) <= self.at
    }

    /// Sets the time of a wheel without entries.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        debug_assert!(self.occupied.as_flattened().iter().all(|bits| *bits == 0));
        (self.at, self.next) = (now_ns / TICK_NS, u64::MAX);
    }

    /// Files an entry for the tick of `due_ns`, at least one tick ahead.
    pub(crate) fn file(&mut self, entry: u32, due_ns: u64, links: &mut impl Links) {
        let (slot, begin) = self.slot(tick_of(due_ns).max(self.at + 1));
        self.next = self.next.min(begin);
        let next_of = &mut self.next_of[slot / SLOTS];
        *next_of = (*next_of).min(begin);
        self.occupied[slot / SLOTS][slot % SLOTS / 64] |= 1 << (slot % 64);
        self.push(slot, entry, links);
    }

    /// The slot of a later tick, and the slot's first tick. The slot is in the lowest level that reaches the tick from
    /// its current slot on, and is never that current slot, which has begun.
    #[inline]
    fn slot(&self, tick: u64) -> (usize, u64) {
        let digit = |ticks: u64, level: usize| ticks >> (level as u32 * SLOT_BITS);
        let reaches = |level: &usize| digit(tick, *level) - digit(self.at, *level) < SLOTS as u64;
        let level = (0..LEVELS).find(reaches);
        debug_assert!(level.is_some(), "ns in 64 bits are below 2^48 ticks");
        let level = level.unwrap_or(LEVELS - 1);
        let first = digit(tick, level) << (level as u32 * SLOT_BITS);
        (level * SLOTS + digit(tick, level) as usize % SLOTS, first)
    }

    fn push(&mut self, slot: usize, entry: u32, links: &mut impl Links) {
        let turn = &mut self.turns[slot / SLOTS][slot % SLOTS];
        let chain = usize::from(*turn) % CHAINS;
        *turn = (chain + 1) as u8;
        let ends = &mut self.slots[slot];
        let last = std::mem::replace(&mut ends.last[chain], entry);
        links.set_next(entry, END | (slot * CHAINS + chain) as u32);
        links.set_previous(entry, last);
        match last & END {
            0 => links.set_next(last, entry),
            _ => ends.first[chain] = entry,
        }
    }

    /// Removes an entry from its slot, which must not have begun.
    pub(crate) fn remove(&mut self, entry: u32, links: &mut impl Links) {
        debug_assert!(self.begun.is_empty(), "entries of a slot that has begun are out of it");
        let place = |chain: u32| ((chain & !END) as usize / CHAINS, chain as usize % CHAINS);
        let Link { next, previous } = links.link(entry);
        match (next & END, place(next)) {
            (0, _) => links.set_previous(next, previous),
            (_, (slot, chain)) => self.slots[slot].last[chain] = previous,
        }
        match (previous & END, place(previous)) {
            (0, _) => links.set_next(previous, next),
            (_, (slot, chain)) => self.slots[slot].first[chain] = next,
        }
        if next & previous & END != 0 {
            let (slot, _) = place(next);
            if self.slots[slot].first.iter().all(|first| first & END != 0) {
                self.clear(slot);
            }
        }
    }

    /// Resets an empty slot to one that was never used.
    fn clear(&mut self, slot: usize) {
        self.turns[slot / SLOTS][slot % SLOTS] = 0;
        self.occupied[slot / SLOTS][slot % SLOTS / 64] &= !(1 << (slot % 64));
        self.find_next(slot / SLOTS);
    }

    /// Returns the next entry of a slot that has begun; otherwise advances the time to the next slot with entries, at
    /// most to `now_ns`. `None` when the time has reached `now_ns`.
    pub(crate) fn pop_begun(&mut self, now_ns: u64, links: &mut impl Links) -> Option<u32> {
        let now = now_ns / TICK_NS;
        loop {
            if let Some(entry) = self.begun.take(links) {
                return Some(entry);
            }
            match self.next_begin() {
                Some((tick, slot)) if tick <= now => {
                    self.at = self.at.max(tick);
                    self.begin(slot, links);
                }
                next => {
                    self.at = self.at.max(now);
                    self.next = next.map_or(u64::MAX, |(tick, _)| tick);
                    return None;
                }
            }
        }
    }

    /// Removes and returns an entry of the earliest slot, without advancing the time. Only to empty a wheel: nothing
    /// may be filed before this returns `None`.
    pub(crate) fn pop_earliest(&mut self, links: &mut impl Links) -> Option<u32> {
        if self.begun.is_empty() {
            let (_, slot) = self.next_begin()?;
            self.begin(slot, links);
        }
        self.begun.take(links)
    }

    /// The entry that is returned `turns` after the next one, if it is known: at most [`CHAINS`] are.
    #[inline]
    pub(crate) fn begun_ahead(&self, turns: usize) -> Option<u32> {
        let entry = self.begun.next[(self.begun.turn + turns) % CHAINS];
        (entry & END == 0).then_some(entry)
    }

    /// Begins a slot: moves its chains out of the wheel. Those of the previous one are empty.
    fn begin(&mut self, slot: usize, links: &mut impl Links) {
        let Slot { first, .. } = std::mem::replace(&mut self.slots[slot], Slot::empty(slot));
        first.iter().filter(|entry| *entry & END == 0).for_each(|entry| links.prefetch(*entry));
        self.begun = Begun { next: first, turn: 0 };
        self.clear(slot);
    }

    /// The next slot with entries, and its first tick, which may have begun already if slots of several levels begin at
    /// once.
    #[inline]
    fn next_begin(&self) -> Option<(u64, usize)> {
        let (mut first, mut level) = (self.next_of[0], 0);
        for (at, next) in self.next_of.iter().enumerate().skip(1) {
            if *next < first {
                (first, level) = (*next, at);
            }
        }
        let digit = (first >> (level as u32 * SLOT_BITS)) as usize % SLOTS;
        (first != u64::MAX).then_some((first, level * SLOTS + digit))
    }

    /// Finds the next slot with entries in a level.
    fn find_next(&mut self, level: usize) {
        let shift = level as u32 * SLOT_BITS;
        let digit = (self.at >> shift) as usize % SLOTS;
        let next = self.occupied_from(level, digit).or_else(|| self.occupied_from(level, 0));
        self.next_of[level] = next.map_or(u64::MAX, |next| {
            let ahead = (next + SLOTS - digit) % SLOTS;
            ((self.at >> shift) + ahead as u64) << shift
        });
    }

    /// The first slot with entries in a level, from `slot` on.
    #[inline]
    fn occupied_from(&self, level: usize, slot: usize) -> Option<usize> {
        (slot / 64..SLOTS / 64).find_map(|word| {
            let from = slot.saturating_sub(word * 64) as u32;
            let bits = self.occupied[level][word] & (u64::MAX << from);
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

impl Slot {
    fn empty(number: usize) -> Self {
        let ends = std::array::from_fn(|chain| END | (number * CHAINS + chain) as u32);
        Self { first: ends, last: ends }
    }
}

impl Begun {
    fn is_empty(&self) -> bool {
        self.next.iter().all(|entry| entry & END != 0)
    }

    /// Removes and returns the next entry, and prefetches the one after it in its chain, which follows those of the
    /// other chains.
    #[inline]
    fn take(&mut self, links: &impl Links) -> Option<u32> {
        let has_entry = |turn: &usize| self.next[turn % CHAINS] & END == 0;
        let chain = (self.turn..self.turn + CHAINS).find(has_entry)? % CHAINS;
        let entry = self.next[chain];
        let next = links.link(entry).next;
        if next & END == 0 {
            links.prefetch(next);
        }
        (self.next[chain], self.turn) = (next, chain + 1);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// Links, and the entries that were prefetched.
    #[derive(Default)]
    struct Records {
        links: Vec<Link>,
        fetched: RefCell<Vec<u32>>,
    }

    impl Records {
        fn new(entries: usize) -> Self {
            Self { links: vec![Link::default(); entries], ..Self::default() }
        }
    }

    impl Links for Records {
        fn link(&self, entry: u32) -> Link {
            self.links[entry as usize]
        }

        fn set_next(&mut self, entry: u32, next: u32) {
            self.links[entry as usize].next = next;
        }

        fn set_previous(&mut self, entry: u32, previous: u32) {
            self.links[entry as usize].previous = previous;
        }

        fn prefetch(&self, entry: u32) {
            self.fetched.borrow_mut().push(entry);
        }
    }

    /// An operation on the wheel and its model: file an entry this number of ns ahead, remove one, advance the time by
    /// ns.
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

    /// Takes the entries that have begun, files those that are not due again; returns those that were due.
    fn drain(wheel: &mut Wheel, now_ns: u64, due: &BTreeMap<u32, u64>, links: &mut Records) -> Vec<u32> {
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
        fn entries_are_handed_out_within_a_tick_and_never_early(start in prop_oneof![Just(0u64), 0..1u64 << 63], steps in prop::collection::vec(step(), 0..200), by_time: bool) {
            let (mut wheel, mut links, mut now_ns) = (Wheel::new(start), Records::default(), start);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::File(ahead_ns) => {
                        let (entry, due_ns) = (links.links.len() as u32, now_ns.saturating_add(ahead_ns));
                        links.links.push(Link::default());
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
                        // As in the meter, the time of the wheel stands still while nothing begins.
                        let ended = if now_ns < wheel.next_ns() { Vec::new() } else { drain(&mut wheel, now_ns, &model, &mut links) };
                        prop_assert!(ended.iter().all(|entry| model[entry] <= now_ns), "early");
                        // An entry that was due before the current tick is late, unless it was filed during this tick
                        // for a past time: then it is due in the next one.
                        let is_ended = |due_ns: u64| due_ns <= now_ns / TICK_NS * TICK_NS && now_ns / TICK_NS > before_ns / TICK_NS;
                        ended.iter().for_each(|entry| _ = model.remove(entry));
                        prop_assert!(model.values().all(|due_ns| !is_ended(*due_ns)), "late");
                    }
                }
                let is_occupied = wheel.occupied.as_flattened().iter().any(|bits| *bits != 0);
                prop_assert_eq!(is_occupied, !model.is_empty());
                // The known next slots equal those of the bit maps.
                let known = wheel.next_of;
                (0..LEVELS).for_each(|level| wheel.find_next(level));
                prop_assert_eq!(known, wheel.next_of);
            }
            let mut ended = match by_time {
                true => drain(&mut wheel, u64::MAX, &model, &mut links),
                false => std::iter::from_fn(|| wheel.pop_earliest(&mut links)).collect(),
            };
            ended.sort_unstable();
            let is_reached = |due_ns: u64| !by_time || tick_of(due_ns) <= u64::MAX / TICK_NS;
            let reached = model.iter().filter(|(_, due_ns)| is_reached(**due_ns)).map(|(entry, _)| *entry);
            prop_assert_eq!(ended, reached.collect::<Vec<u32>>(), "each once");
        }
    }

    /// An entry per ms, due 30 s later, for 70 s: at most those of a slot of 256 ms begin at once.
    #[test]
    fn entries_30_s_ahead_begin_a_few_at_a_time() {
        const AHEAD: u64 = 30_000;
        let (mut wheel, mut links, mut most) = (Wheel::new(0), Records::new(70_000), 0);
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

    fn begun(wheel: &mut Wheel, ms: u64, links: &mut Records) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_begun(ms * TICK_NS, links)).collect()
    }

    #[test]
    fn entries_of_a_slot_come_in_the_order_of_filing() {
        let (mut wheel, mut links) = (Wheel::new(0), Records::new(99));
        (0..99).for_each(|entry| wheel.file(entry, 7 * TICK_NS, &mut links));
        assert_eq!(wheel.pop_begun(6 * TICK_NS + 5, &mut links), None);
        assert!(begun(&mut wheel, 7, &mut links).into_iter().eq(0..99));
        // The same slot again: if an entry was removed, the later ones of its chain move up.
        assert!(begun(&mut wheel, 8, &mut links).is_empty());
        (0..99).for_each(|entry| wheel.file(entry, 263 * TICK_NS, &mut links));
        wheel.remove(2, &mut links);
        let taken = begun(&mut wheel, 263, &mut links);
        let chain = |of: u32| taken.iter().copied().filter(move |entry| entry % CHAINS as u32 == of);
        assert!(
            (0..CHAINS as u32).all(|of| chain(of).eq((of..99).step_by(CHAINS).filter(|entry| *entry != 2)))
        );
        assert!(taken[..10].iter().eq(&[0, 1, 10, 3, 4, 5, 6, 7, 8, 9]));
    }

    /// A slot whose entries were all removed equals one that never had any.
    #[test]
    fn a_slot_may_lose_all_entries_in_any_order() {
        for step in [1, 7, 8, 13] {
            let (mut wheel, mut links) = (Wheel::new(0), Records::new(30));
            (0..30).for_each(|entry| wheel.file(entry, 9 * TICK_NS, &mut links));
            let order = |at: u32| at * step % 29;
            (0..29).for_each(|at| {
                if step > 1 || at > 3 {
                    wheel.remove(order(at), &mut links)
                }
            });
            let left: &[u32] = if step > 1 { &[29] } else { &[0, 1, 2, 3, 29] };
            assert_eq!(begun(&mut wheel, 9, &mut links), left);
            wheel.file(5, 12 * TICK_NS, &mut links);
            wheel.remove(5, &mut links);
            assert_eq!((wheel.next_begin(), wheel.pop_earliest(&mut links)), (None, None));
        }
    }

    /// The next entries of all chains have been prefetched when one is taken, so none waits for the previous one.
    #[test]
    fn records_are_fetched_ahead_of_their_turns() {
        let (mut wheel, mut links) = (Wheel::new(0), Records::new(99));
        (0..99).for_each(|entry| wheel.file(entry, 7 * TICK_NS, &mut links));
        assert!(links.fetched.borrow().is_empty());
        for entry in 0..99 {
            assert_eq!(wheel.pop_begun(7 * TICK_NS, &mut links), Some(entry));
            let fetched = (entry + 1 + CHAINS as u32).min(99);
            assert!(links.fetched.borrow().iter().copied().eq(0..fetched), "after {entry}");
            let ahead = (0..CHAINS).map_while(|turns| wheel.begun_ahead(turns));
            assert!(ahead.eq(entry + 1..fetched), "after {entry}");
        }
    }
}
