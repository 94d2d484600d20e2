//! The conversations whose first bytes are kept until their application is known, the longest-held one first.

use crate::streams::protocol::StreamProtocol;
use std::collections::VecDeque;

/// Bytes kept of all conversations together. Beyond, the longest-held one is named by what has come: with 2 KiB of each
/// side, 16,384 conversations.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Entries of conversations that hold no more bytes, which may stay in the queue.
const STALE_SPARE: usize = 1024;

/// A conversation that holds bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) protocol: StreamProtocol,
    pub(super) place: u32,
    /// Its order among all: at this place there may be another one by now.
    pub(super) order: u64,
}

/// The conversations that hold bytes.
#[derive(Debug)]
pub(super) struct Unnamed {
    /// Longest-held first. Entries may be stale.
    queue: VecDeque<Holder>,
    /// Conversations that hold bytes, and their sum.
    holders: usize,
    held_bytes: usize,
    held_bytes_max: usize,
}

impl Default for Unnamed {
    fn default() -> Self {
        Self { queue: VecDeque::new(), holders: 0, held_bytes: 0, held_bytes_max: HELD_BYTES_MAX }
    }
}

impl Unnamed {
    /// Notes that a conversation holds `now` bytes instead of `before`.
    pub(super) fn change(&mut self, holder: Holder, before: usize, now: usize) {
        self.held_bytes = self.held_bytes - before + now;
        if before == 0 && now > 0 {
            self.holders += 1;
            self.queue.push_back(holder);
        }
        if before > 0 && now == 0 {
            self.holders -= 1;
        }
    }

    /// The longest-held conversation, if all hold more than the limit; it may hold no more.
    pub(super) fn pop_beyond_limit(&mut self) -> Option<Holder> {
        if self.held_bytes > self.held_bytes_max { self.queue.pop_front() } else { None }
    }

    /// Removes stale entries once they are the majority.
    pub(super) fn tidy(&mut self, holds: impl Fn(&Holder) -> bool) {
        if self.queue.len() > 2 * self.holders + STALE_SPARE {
            self.queue.retain(holds);
        }
    }

    /// Returns true if nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held_bytes == 0 && self.holders == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(order: u64) -> Holder {
        Holder { protocol: StreamProtocol::Udp, place: order as u32, order }
    }

    #[test]
    fn the_longest_held_one_leaves_beyond_the_limit() {
        let mut unnamed = Unnamed { held_bytes_max: 100, ..Unnamed::default() };
        unnamed.change(holder(1), 0, 40);
        unnamed.change(holder(2), 0, 40);
        unnamed.change(holder(1), 40, 60);
        assert_eq!(unnamed.pop_beyond_limit(), None);
        unnamed.change(holder(3), 0, 1);
        assert_eq!(unnamed.pop_beyond_limit(), Some(holder(1)));
        unnamed.change(holder(1), 60, 0);
        assert_eq!(unnamed.pop_beyond_limit(), None);
        unnamed.change(holder(2), 40, 0);
        assert!(!unnamed.is_empty());
        unnamed.change(holder(3), 1, 0);
        assert!(unnamed.is_empty());
    }

    #[test]
    fn entries_of_conversations_that_are_named_do_not_pile_up() {
        let mut unnamed = Unnamed::default();
        for order in 0..100_000 {
            unnamed.change(holder(order), 0, 10);
            if order > 0 {
                unnamed.change(holder(order), 10, 0);
            }
            unnamed.tidy(|holder| holder.order == 0);
            assert!(unnamed.queue.len() <= 3 + STALE_SPARE, "{order}");
        }
        assert!(unnamed.queue.contains(&holder(0)));
    }
}
