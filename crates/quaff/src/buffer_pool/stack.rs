//! A stack of numbers for any number of threads, none of which waits for another (R. K. Treiber 1986).
//!
//! A thread that loses its core in the middle of a call, such as one of the lowest priority, delays no other thread, as
//! it would with a mutex.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(test)]
use tests::step;

/// The place before each access to an atomic, at which the tests exchange threads.
#[cfg(not(test))]
fn step() {}

/// Numbers below a limit, each at most once in the stack.
#[derive(Debug)]
pub(super) struct Stack {
    /// The low half is the top number plus one, 0 without one. The high half counts the changes, so that a number that
    /// has left and returned is not taken for one that has stayed, except after exactly 2^32 changes during one call.
    ///
    /// All threads read and write it. Acquire and release: the thread that takes a number sees all that the one that
    /// pushed it has done before.
    top: AtomicU64,
    /// For each number, the one below it plus one. Written by the thread that pushes the number, read by those that
    /// pop it. Relaxed: `top` publishes it, and a thread that has read an outdated one fails to change `top`.
    below: Box<[AtomicU32]>,
}

/// `top` after a change to `number` plus one.
fn changed(top: u64, number: u32) -> u64 {
    ((top >> 32).wrapping_add(1) << 32) | u64::from(number)
}

impl Stack {
    /// An empty stack for numbers below `limit`.
    pub(super) fn new(limit: usize) -> Self {
        Self { top: AtomicU64::new(0), below: (0..limit).map(|_| AtomicU32::new(0)).collect() }
    }

    /// Adds a number, which must not be in the stack.
    pub(super) fn push(&self, number: u32) {
        step();
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            step();
            self.below[number as usize].store(top as u32, Ordering::Relaxed);
            step();
            let pushed = changed(top, number + 1);
            match self.top.compare_exchange(top, pushed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Removes the number that was added last.
    pub(super) fn pop(&self) -> Option<u32> {
        step();
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            let number = (top as u32).checked_sub(1)?;
            step();
            let below = self.below[number as usize].load(Ordering::Relaxed);
            step();
            let popped = changed(top, below);
            match self.top.compare_exchange(top, popped, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(now) => top = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::{Arc, Condvar, Mutex};

    /// Threads of which one runs at a time, from one access to an atomic to the next.
    #[derive(Default)]
    struct Turns {
        states: Mutex<Vec<State>>,
        changed: Condvar,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum State {
        Runs,
        Waits,
        Ended,
    }

    thread_local! {
        /// The turns that this thread waits for, and its number there.
        static PLACE: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
    }

    pub(super) fn step() {
        PLACE.with_borrow(|place| place.iter().for_each(|(turns, at)| turns.wait(*at)));
    }

    impl Turns {
        fn set(&self, at: usize, state: State) {
            self.states.lock().unwrap()[at] = state;
            self.changed.notify_all();
        }

        fn wait(&self, at: usize) {
            self.set(at, State::Waits);
            let states = self.states.lock().unwrap();
            drop(self.changed.wait_while(states, |states| states[at] == State::Waits).unwrap());
        }

        /// The threads that wait, once none runs.
        fn waiting(&self) -> Vec<usize> {
            let states = self.states.lock().unwrap();
            let states = self.changed.wait_while(states, |states| states.contains(&State::Runs)).unwrap();
            (0..states.len()).filter(|at| states[*at] == State::Waits).collect()
        }
    }

    /// A thread, and the numbers that it has at its end.
    type Body = fn(&Stack) -> Vec<u32>;

    /// Runs the threads in the order of `path`, which grows to the end of the run: each decision with the number of
    /// threads to choose from. Returns all numbers that threads or the stack have at the end.
    fn run(start: &[u32], bodies: &[Body], path: &mut Vec<(usize, usize)>) -> Vec<u32> {
        let stack = Stack::new(4);
        start.iter().for_each(|number| stack.push(*number));
        let turns = Arc::<Turns>::default();
        turns.states.lock().unwrap().resize(bodies.len(), State::Runs);
        let (stack, turns) = (&stack, &turns);
        let mut numbers = std::thread::scope(|scope| {
            let spawn = |(at, body): (usize, &Body)| {
                let body = *body;
                scope.spawn(move || {
                    PLACE.set(Some((turns.clone(), at)));
                    let numbers = body(stack);
                    turns.set(at, State::Ended);
                    numbers
                })
            };
            let threads: Vec<_> = bodies.iter().enumerate().map(spawn).collect();
            for depth in 0.. {
                let waiting = turns.waiting();
                if waiting.is_empty() {
                    break;
                }
                if depth == path.len() {
                    path.push((0, waiting.len()));
                }
                turns.set(waiting[path[depth].0], State::Runs);
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        numbers.extend(std::iter::from_fn(|| stack.pop()));
        numbers.sort_unstable();
        numbers
    }

    /// Runs the threads in every order; each number must be in one place at the end. Returns the number of orders.
    fn in_every_order(start: &[u32], bodies: &[Body], wanted: &[u32]) -> usize {
        let (mut path, mut orders) = (Vec::new(), 0);
        loop {
            assert_eq!(run(start, bodies, &mut path), wanted, "in the order {path:?}");
            orders += 1;
            while path.last().is_some_and(|(choice, of)| choice + 1 == *of) {
                path.pop();
            }
            match path.last_mut() {
                Some((choice, _)) => *choice += 1,
                None => return orders,
            }
        }
    }

    /// A number that leaves and returns while another thread is about to pop it.
    #[test]
    fn a_top_that_left_and_returned_is_seen_as_a_change() {
        let slow: Body = |stack| stack.pop().into_iter().collect();
        let quick: Body = |stack| {
            let (one, other) = (stack.pop(), stack.pop());
            one.into_iter().for_each(|number| stack.push(number));
            other.into_iter().collect()
        };
        let orders = in_every_order(&[0, 1], &[slow, quick], &[0, 1]);
        assert!(orders >= 220, "{orders}");
    }

    #[test]
    fn every_number_is_in_one_place_in_every_order() {
        let first: Body = |stack| {
            stack.push(0);
            Vec::new()
        };
        let second: Body = |stack| {
            stack.push(1);
            Vec::new()
        };
        let third: Body = |stack| stack.pop().into_iter().collect();
        let orders = in_every_order(&[2], &[first, second, third], &[0, 1, 2]);
        assert!(orders >= 1680, "{orders}");
    }

    #[test]
    fn the_number_added_last_is_removed_first() {
        let stack = Stack::new(3);
        [2, 0, 1].into_iter().for_each(|number| stack.push(number));
        assert_eq!(std::iter::from_fn(|| stack.pop()).collect::<Vec<_>>(), [1, 0, 2]);
    }
}
