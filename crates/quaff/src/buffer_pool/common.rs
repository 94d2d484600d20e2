//! The common buffers: populated, and not in use by any lane. Lanes borrow them, writers repay them, the pool's thread
//! adds new ones; none of these threads waits for another.

use super::stack::Stack;
use quaff_os::Buffer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A stack of buffers for any number of threads: the one that was put last is taken first.
#[derive(Debug)]
pub(super) struct Common {
    /// A slot for each common buffer. Only the thread that has taken the number of a slot from a stack uses the slot,
    /// so the mutex is always free.
    slots: Box<[Mutex<Option<Buffer>>]>,
    full: Stack,
    empty: Stack,
    /// Full slots, and those that are just being filled or emptied. Written by all threads, read by lanes and by the
    /// pool's thread to choose what to do next. A number only: Relaxed.
    ready: AtomicUsize,
    /// Buffers that are mapped and not populated yet. Written by the pool's thread, read by lanes. Release and acquire:
    /// a lane that sees less of them sees more in `ready`.
    unready: AtomicUsize,
}

impl Common {
    /// Room for `count` buffers, none of which is populated yet.
    pub(super) fn new(count: usize) -> Self {
        let (full, empty) = (Stack::new(count), Stack::new(count));
        (0..count as u32).for_each(|slot| empty.push(slot));
        let slots = (0..count).map(|_| Mutex::default()).collect();
        Self { slots, full, empty, ready: AtomicUsize::new(0), unready: AtomicUsize::new(count) }
    }

    /// Returns the number of all common buffers, whether they are in use or not.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Adds a buffer.
    pub(super) fn put(&self, buffer: Buffer) {
        self.ready.fetch_add(1, Ordering::Relaxed);
        let slot = self.empty.pop();
        assert!(slot.is_some(), "there is a slot for every common buffer");
        let Some(slot) = slot else { return };
        *self.slots[slot as usize].lock().unwrap_or_else(PoisonError::into_inner) = Some(buffer);
        self.full.push(slot);
    }

    /// Removes a buffer, if there is one.
    pub(super) fn take(&self) -> Option<Buffer> {
        let slot = self.full.pop()?;
        let buffer = self.slots[slot as usize].lock().unwrap_or_else(PoisonError::into_inner).take();
        self.empty.push(slot);
        self.ready.fetch_sub(1, Ordering::Relaxed);
        buffer
    }

    /// Returns the number of buffers that can be taken; it may change at any moment.
    pub(super) fn ready(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }

    /// Sets the number of buffers that are still to be populated.
    pub(super) fn set_unready(&self, buffers: usize) {
        self.unready.store(buffers, Ordering::Release);
    }

    /// Returns whether the next buffer comes only when one is repaid.
    pub(super) fn is_empty(&self) -> bool {
        self.unready.load(Ordering::Acquire) == 0 && self.ready() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_many_threads_take_and_put_stay_the_same() {
        const COUNT: usize = 16;
        let common = Common::new(COUNT);
        (0..COUNT as u8).for_each(|number| {
            let mut buffer = Buffer::new(1).unwrap();
            buffer[0] = number;
            common.put(buffer);
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let common = &common;
                scope.spawn(move || {
                    let mut held: Vec<Buffer> = Vec::new();
                    for turn in 0..20_000 {
                        if (turn + thread) % 7 < 4 {
                            held.extend(common.take());
                        } else {
                            held.pop().into_iter().for_each(|buffer| common.put(buffer));
                        }
                    }
                    held.into_iter().for_each(|buffer| common.put(buffer));
                });
            }
        });
        assert_eq!(common.ready(), COUNT);
        let mut numbers: Vec<_> = std::iter::from_fn(|| common.take()).map(|buffer| buffer[0]).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..COUNT as u8));
    }

    #[test]
    fn without_buffers_it_is_empty_once_none_is_to_come() {
        let common = Common::new(1);
        assert!(common.take().is_none() && !common.is_empty(), "one is still to be populated");
        common.put(Buffer::new(1).unwrap());
        common.set_unready(0);
        assert!(!common.is_empty());
        assert!(common.take().is_some() && common.is_empty());
    }
}
