//! Drops packets that a mirror or a second tap has delivered before, by their length and a hash of their bytes.
//!
//! Two packets are equal if all their bytes to be stored are; time, interface and length on the wire do not count.
//! The hash is keyed with a random number, so packets cannot be made that hide others.

use super::Stage;
use crate::batch::{Batch, Frame, Memory};
use crate::plan::{DedupWindow, WINDOW_PACKETS_MAX};
use crate::tally::LaneTally;
use quaff_file::tally::Counts;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// A hash of the bytes of a packet, and the number of bytes.
type Key = (u64, u32);

/// The stage that drops duplicates. A dropped duplicate stays in the window for later packets.
#[derive(Debug)]
pub(crate) struct Dedup {
    window: DedupWindow,
    hash: RandomState,
    /// The packets of the window with their times, ns, oldest first.
    recent: VecDeque<(Key, u64)>,
    /// For each packet, its number of copies in the window, and the time of the last one, ns.
    seen: HashMap<Key, (u32, u64)>,
    removed: u64,
    is_over: bool,
}

impl Dedup {
    pub(crate) fn new(window: DedupWindow) -> Self {
        Self {
            window,
            hash: RandomState::new(),
            recent: VecDeque::new(),
            seen: HashMap::new(),
            removed: 0,
            is_over: false,
        }
    }

    fn key(&self, frame: &Frame, memory: Memory<'_>) -> Key {
        let bytes = memory.of(frame);
        let bytes = &bytes[..bytes.len().min(frame.keep as usize)];
        (self.hash.hash_one(bytes), bytes.len() as u32)
    }

    /// Returns whether a packet is a duplicate, and adds it to the window.
    fn is_duplicate(&mut self, key: Key, time_ns: u64) -> bool {
        while self.recent.front().is_some_and(|(_, oldest_ns)| self.is_over(*oldest_ns, time_ns)) {
            self.forget_oldest();
        }
        let since_ns = |before_ns: u64| time_ns.checked_sub(before_ns);
        let found = self.seen.get(&key).is_some_and(|(_, last_ns)| match self.window {
            DedupWindow::Packets(_) => true,
            DedupWindow::Time(window_ns) => since_ns(*last_ns).is_some_and(|ns| ns <= window_ns),
        });
        self.recent.push_back((key, time_ns));
        let (times, last_ns) = self.seen.entry(key).or_default();
        (*times, *last_ns) = (*times + 1, time_ns);
        found
    }

    /// Returns whether the oldest packet leaves the window when the next one, of `time_ns`, arrives.
    fn is_over(&self, oldest_ns: u64, time_ns: u64) -> bool {
        let packets = self.recent.len() + 1;
        match self.window {
            DedupWindow::Packets(most) => packets > most as usize,
            DedupWindow::Time(window_ns) => {
                packets > WINDOW_PACKETS_MAX as usize || time_ns.saturating_sub(oldest_ns) > window_ns
            }
        }
    }

    fn forget_oldest(&mut self) {
        let Some((key, _)) = self.recent.pop_front() else { return };
        let Some((times, _)) = self.seen.get_mut(&key) else { return };
        *times -= 1;
        if *times == 0 {
            self.seen.remove(&key);
        }
    }
}

impl Stage for Dedup {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let memory = Memory { bytes: batch.bytes, scratch: batch.scratch, options: &[], ids: &[] };
        let before = batch.frames.len();
        batch.frames.retain(|frame| !self.is_duplicate(self.key(frame, memory), frame.time_ns));
        let removed = (before - batch.frames.len()) as u64;
        tally.duplicates += removed;
        self.removed += removed;
        self.is_over |= batch.is_last;
    }

    /// Adds the number of duplicates to the lane's counters.
    fn count(&self, counts: &mut Counts) {
        counts.duplicates_removed = if self.is_over { self.removed } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The positions of the packets (contents and times) that are kept.
    fn kept(window: DedupWindow, packets: &[(u8, u64)]) -> Vec<usize> {
        let mut stage = Dedup::new(window);
        let bytes: Vec<u8> = packets.iter().flat_map(|(content, _)| [*content; 3]).collect();
        let frame = |(at, (_, time_ns)): (usize, &(u8, u64))| Frame {
            time_ns: *time_ns,
            start: at as u32 * 3,
            len: 3,
            wire_len: 3,
            keep: 3,
            interface: at as u16,
            ..Frame::default()
        };
        let mut frames: Vec<_> = packets.iter().enumerate().map(frame).collect();
        let (mut scratch, mut tally) = (Vec::new(), LaneTally::default());
        let mut batch = Batch {
            bytes: &bytes,
            scratch: &mut scratch,
            frames: &mut frames,
            ids: &mut Vec::new(),
            now_ns: 0,
            is_last: false,
        };
        stage.pass(&mut batch, &mut tally);
        assert_eq!(frames.len() as u64 + tally.duplicates, packets.len() as u64);
        frames.iter().map(|frame| frame.interface.into()).collect()
    }

    #[test]
    fn a_window_counts_the_packet_itself() {
        let packets = [(1, 0), (2, 0), (3, 0), (1, 0), (9, 0), (1, 0)];
        assert_eq!(kept(DedupWindow::Packets(5), &packets), [0, 1, 2, 4]);
        assert_eq!(kept(DedupWindow::Packets(4), &packets), [0, 1, 2, 4]);
        // The fourth is a duplicate only in a window of four; the last one always is one of the fourth.
        assert_eq!(kept(DedupWindow::Packets(3), &packets), [0, 1, 2, 3, 4]);
        assert_eq!(kept(DedupWindow::Packets(1), &[(1, 0), (1, 0)]), [0, 1]);
    }

    #[test]
    fn only_bytes_to_be_stored_count() {
        let mut stage = Dedup::new(DedupWindow::Packets(5));
        let bytes = [1, 2, 3, 1, 2, 4];
        let frame = |start, keep| Frame { start, len: 3, keep, ..Frame::default() };
        let memory = Memory { bytes: &bytes, scratch: &[], options: &[], ids: &[] };
        assert_eq!(stage.key(&frame(0, 2), memory), stage.key(&frame(3, 2), memory));
        assert_ne!(stage.key(&frame(0, 3), memory), stage.key(&frame(3, 3), memory));
        let key = stage.key(&frame(0, 2), memory);
        assert!(!stage.is_duplicate(key, 0) && stage.is_duplicate(key, 9));
    }

    proptest! {
        /// As a comparison with each earlier packet.
        #[test]
        fn windows_are_those_of_a_search(packets in prop::collection::vec((0u8..4, 0u64..40), 0..60), most in 1u32..8, window_ns in 0u64..9) {
            let by_number = |at: usize| {
                let first = at.saturating_sub(most as usize - 1);
                packets[first..at].iter().all(|before| before.0 != packets[at].0)
            };
            let expected: Vec<_> = (0..packets.len()).filter(|at| by_number(*at)).collect();
            prop_assert_eq!(kept(DedupWindow::Packets(most), &packets), expected);
            let mut sorted = packets.clone();
            sorted.sort_by_key(|packet| packet.1);
            let by_time = |at: usize| {
                let (content, now_ns) = sorted[at];
                sorted[..at].iter().all(|before| before.0 != content || now_ns - before.1 > window_ns)
            };
            let expected: Vec<_> = (0..sorted.len()).filter(|at| by_time(*at)).collect();
            prop_assert_eq!(kept(DedupWindow::Time(window_ns), &sorted), expected);
        }
    }
}
