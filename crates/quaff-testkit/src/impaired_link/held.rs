//! Frames that wait until they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Frames in the order of their times; of equal times, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Held {
    frames: BinaryHeap<Reverse<Frame>>,
    /// Buffers of frames that have left.
    spare: Vec<Vec<u8>>,
    number: u64,
    /// The next number after the highest that has left.
    left: u64,
}

/// A frame that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) due_ns: u64,
    pub(super) bytes: Vec<u8>,
    /// One that arrived later has left already.
    pub(super) is_overtaken: bool,
}

#[derive(Debug)]
struct Frame {
    due_ns: u64,
    number: u64,
    bytes: Vec<u8>,
}

impl Held {
    /// An empty buffer.
    pub(super) fn room(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a frame until it is due.
    pub(super) fn push(&mut self, due_ns: u64, bytes: Vec<u8>) {
        self.frames.push(Reverse(Frame { due_ns, number: self.number, bytes }));
        self.number += 1;
    }

    /// Time at which the next frame is due.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.frames.peek().map(|Reverse(frame)| frame.due_ns)
    }

    /// The next frame that is due at `now_ns`.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<Due> {
        self.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        let Reverse(Frame { due_ns, number, bytes }) = self.frames.pop()?;
        let is_overtaken = number < self.left;
        self.left = self.left.max(number + 1);
        Some(Due { due_ns, bytes, is_overtaken })
    }

    /// Returns the buffer of a frame.
    pub(super) fn give_back(&mut self, mut room: Vec<u8>) {
        room.clear();
        self.spare.push(room);
    }
}

impl Ord for Frame {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

impl PartialOrd for Frame {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Frame {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_the_order_of_their_times() {
        let mut held = Held::default();
        for (due_ns, byte) in [(5, 1), (9, 2), (5, 3), (7, 4)] {
            held.push(due_ns, vec![byte]);
        }
        assert_eq!((held.due_ns(), held.pop(4)), (Some(5), None));
        let left = |held: &mut Held, now_ns| {
            let due = std::iter::from_fn(|| held.pop(now_ns));
            due.map(|due| (due.due_ns, due.bytes[0], due.is_overtaken)).collect::<Vec<_>>()
        };
        assert_eq!(left(&mut held, 8), [(5, 1, false), (5, 3, false), (7, 4, false)]);
        assert_eq!(left(&mut held, 9), [(9, 2, true)]);
        assert_eq!(held.due_ns(), None);
        held.give_back(vec![1, 2]);
        assert_eq!((held.room(), held.room()), (vec![], vec![]));
    }
}
