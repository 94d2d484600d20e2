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

    /// The next frame that is due at `now_ns`, and its time.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<(u64, Vec<u8>)> {
        self.due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.frames.pop().map(|Reverse(frame)| (frame.due_ns, frame.bytes))
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
        let left: Vec<_> =
            std::iter::from_fn(|| held.pop(8)).map(|(due_ns, bytes)| (due_ns, bytes[0])).collect();
        assert_eq!(left, [(5, 1), (5, 3), (7, 4)]);
        assert_eq!(held.due_ns(), Some(9));
        held.give_back(vec![1, 2]);
        assert_eq!((held.room(), held.room()), (vec![], vec![]));
    }
}
