//! The connections of a lane by key, in two lists (open, closed) by the time of their last packets; the UDP
//! conversations of a lane in a table of their own.
//!
//! A connection moves to the end of its list once it has been idle for a second, so the order is accurate to a second,
//! and most packets touch no neighbour.

use crate::attempt::Attempt;
use crate::conversation::Conversation;
use crate::key::Key;
use quaff_os::prefetch_value;
use quaff_wire::flow::FlowIndex;

/// Index of no connection.
const NONE: u32 = u32::MAX;
/// Idle time after which a connection moves in its list, ns.
pub(super) const STEP_NS: u64 = 1_000_000_000;

/// A connection in the table.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) conversation: Conversation,
    /// Number in the order of first packets, from 1.
    pub(super) number: u64,
    pub(super) last_ns: u64,
    pub(super) attempt: Option<Attempt>,
    /// Time of its entry in a wait queue, ns; `u64::MAX` without one.
    pub(super) due_ns: u64,
}

/// The list of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open = 0,
    Closed = 1,
}

#[derive(Debug)]
struct Slot<T> {
    key: Key,
    tracked: Option<T>,
    state: State,
    /// Time by which it is sorted in its list, ns.
    touched_ns: u64,
    before: u32,
    after: u32,
}

/// First and last entry of a list.
#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

/// The connections, with a record `T` of each.
#[derive(Debug)]
pub(super) struct Table<T> {
    index: FlowIndex,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    lists: [List; 2],
    secret: u64,
}

impl<T> Table<T> {
    /// Creates an empty table. `secret` keys its hash: random, and unknown to the senders of packets.
    pub(super) fn new(secret: u64) -> Self {
        let lists = [List { first: NONE, last: NONE }; 2];
        Self { index: FlowIndex::default(), slots: Vec::new(), free: Vec::new(), lists, secret }
    }

    /// The connection with this key, whose hash is `hash`.
    #[inline]
    pub(super) fn find(&self, key: &Key, hash: u32) -> Option<u32> {
        self.index.find(hash, |place: u32| self.slots[place as usize].key == *key)
    }

    #[inline]
    pub(super) fn get(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.tracked.as_mut()
    }

    /// The key of a connection.
    pub(super) fn key(&self, place: u32) -> Option<Key> {
        self.slots.get(place as usize).map(|slot| slot.key)
    }

    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Number of indices ever used.
    pub(super) fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The longest-idle connection in this state, and the time of its last packet to within a second.
    pub(super) fn oldest(&self, state: State) -> Option<(u32, u64)> {
        let place = self.lists[state as usize].first;
        self.slots.get(place as usize).map(|slot| (place, slot.touched_ns))
    }

    /// Adds an open connection whose last packet came at `touched_ns`.
    pub(super) fn insert(&mut self, key: Key, tracked: T, touched_ns: u64) -> u32 {
        let hash = key.hash(self.secret);
        let (state, tracked) = (State::Open, Some(tracked));
        let slot = Slot { key, tracked, state, touched_ns, before: NONE, after: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(hash, place);
        self.link(place);
        place
    }

    /// Updates a connection with a packet at `time_ns`; `state` is its current state.
    #[inline]
    pub(super) fn touch(&mut self, place: u32, state: State, time_ns: u64) {
        let slot = &mut self.slots[place as usize];
        if slot.state == state && time_ns.saturating_sub(slot.touched_ns) < STEP_NS {
            return;
        }
        self.unlink(place);
        let slot = &mut self.slots[place as usize];
        (slot.state, slot.touched_ns) = (state, time_ns);
        self.link(place);
    }

    /// Prefetches the first line of a hash.
    #[inline]
    pub(super) fn prefetch_line(&self, hash: u32) {
        prefetch_value(self.index.line(hash));
    }

    /// Prefetches the connection that the first line of a hash has.
    #[inline]
    pub(super) fn prefetch_likely(&self, hash: u32) {
        self.prefetch(self.index.first(hash));
    }

    /// Prefetches a connection.
    #[inline]
    pub(super) fn prefetch(&self, place: u32) {
        if let Some(slot) = self.slots.get(place as usize) {
            prefetch_value(slot);
        }
    }

    /// Prefetches the data for ending the next connection of a list: its line of the index, and the record of the one
    /// after it.
    #[inline]
    fn prefetch_after(&self, place: u32) {
        let Some(next) = self.slots.get(self.slots[place as usize].after as usize) else { return };
        if next.tracked.is_some() {
            prefetch_value(self.index.line(next.key.hash(self.secret)));
        }
        self.prefetch(next.after);
    }

    /// Removes and returns a connection.
    pub(super) fn remove(&mut self, place: u32) -> Option<T> {
        self.slots.get(place as usize)?;
        self.prefetch_after(place);
        let slot = self.slots.get_mut(place as usize)?;
        let (key, tracked) = (slot.key, slot.tracked.take()?);
        self.index.remove(key.hash(self.secret), place);
        self.unlink(place);
        self.free.push(place);
        Some(tracked)
    }

    /// Appends a connection to the list of its state.
    fn link(&mut self, place: u32) {
        let list = &mut self.lists[self.slots[place as usize].state as usize];
        let last = std::mem::replace(&mut list.last, place);
        match self.slots.get_mut(last as usize) {
            Some(slot) => slot.after = place,
            None => list.first = place,
        }
        let slot = &mut self.slots[place as usize];
        (slot.before, slot.after) = (last, NONE);
    }

    fn unlink(&mut self, place: u32) {
        let Slot { state, before, after, .. } = self.slots[place as usize];
        let list = &mut self.lists[state as usize];
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => list.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => list.last = before,
        }
    }
}
