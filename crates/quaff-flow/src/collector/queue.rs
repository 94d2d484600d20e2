//! The queue of a sink: bounded in records, one producer, one consumer. The producer waits only where it asks to.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A handle of a queue; clones share the queue.
#[derive(Debug)]
pub(super) struct Queue<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// Closes a queue when its consumer ends, also by a panic, so that no producer waits for room forever.
#[derive(Debug)]
pub(super) struct CloseAtEnd<T>(pub(super) Queue<T>);

impl<T> Drop for CloseAtEnd<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Signalled when an item was added, or the queue was closed.
    filled: Condvar,
    /// Signalled when an item was taken.
    drained: Condvar,
    /// Maximum records.
    limit: usize,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>,
    records: usize,
    is_closed: bool,
}

/// The result of taking an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Popped<T> {
    Item(T),
    TimedOut,
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new(limit: usize) -> Self {
        let state = State { items: VecDeque::new(), records: 0, is_closed: false };
        let (filled, drained) = (Condvar::new(), Condvar::new());
        Self { shared: Arc::new(Shared { state: Mutex::new(state), filled, drained, limit }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item with this number of records, if there is room. An empty queue accepts any item.
    pub(super) fn push(&self, item: T, records: usize) -> Result<(), T> {
        let mut state = self.lock();
        let has_room = state.records == 0 || state.records + records <= self.shared.limit;
        if !has_room || state.is_closed {
            return Err(item);
        }
        state.records += records;
        state.items.push_back((item, records));
        drop(state);
        self.shared.filled.notify_one();
        Ok(())
    }

    /// Waits until there is room for this number of records, for at most `wait`.
    pub(super) fn wait_for_room(&self, records: usize, wait: Duration) {
        let is_full = |state: &mut State<T>| {
            state.records > 0 && state.records + records > self.shared.limit && !state.is_closed
        };
        drop(self.shared.drained.wait_timeout_while(self.lock(), wait, is_full));
    }

    /// Takes an item, waiting at most until `deadline`. A closed queue still returns its remaining items.
    pub(super) fn pop(&self, deadline: Instant) -> Popped<T> {
        let mut state = self.lock();
        loop {
            if let Some((item, records)) = state.items.pop_front() {
                state.records -= records;
                drop(state);
                self.shared.drained.notify_one();
                return Popped::Item(item);
            }
            if state.is_closed {
                return Popped::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Popped::TimedOut;
            }
            let waited = self.shared.filled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Number of queued records.
    pub(super) fn records(&self) -> usize {
        self.lock().records
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Closes the queue: nothing can be added any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.shared.filled.notify_all();
        self.shared.drained.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(5)
    }

    #[test]
    fn a_full_queue_refuses_and_an_empty_one_takes_any_size() {
        let queue = Queue::new(10);
        assert_eq!(queue.push('a', 25), Ok(()));
        assert_eq!(queue.push('b', 1), Err('b'));
        assert_eq!(queue.pop(soon()), Popped::Item('a'));
        assert_eq!(queue.records(), 0);
        assert_eq!(queue.push('d', 10), Ok(()));
    }

    #[test]
    fn a_closed_queue_is_emptied_first() {
        let queue = Queue::new(10);
        queue.push(1, 1).unwrap();
        queue.close();
        assert_eq!(queue.push(2, 1), Err(2));
        assert_eq!(queue.pop(soon()), Popped::Item(1));
        assert_eq!(queue.pop(soon()), Popped::Closed);
    }

    #[test]
    fn waiting_for_room_ends_when_something_is_taken() {
        let queue = Queue::new(1);
        queue.push((), 1).unwrap();
        let other = queue.clone();
        let thread = std::thread::spawn(move || {
            other.wait_for_room(1, Duration::from_secs(60));
            other.push((), 1)
        });
        while queue.pop(soon()) != Popped::Item(()) {}
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!(queue.pop(Instant::now()), Popped::Item(()));
        assert_eq!(queue.pop(soon()), Popped::TimedOut);
    }
}
