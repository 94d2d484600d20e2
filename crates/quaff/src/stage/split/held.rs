//! Fragments that came before the first of their datagram, which alone says where they belong. Memory
//! and time are bounded: the oldest goes on by what it says itself.

use super::recent::Table;
use crate::batch::Frame;
use quaff_wire::split::FrameFlow;
use std::collections::VecDeque;

/// How long one waits, ns. Fragments are sent back to back; two ways that they took differ by less.
const PATIENCE_NS: u64 = 1_000_000_000;
/// The most that is held back.
const FRAMES_MAX: usize = 4096;
const BYTES_MAX: usize = 16 << 20;

/// Fragments that wait.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Those that came first are in front. One of a datagram whose first has come is `None`.
    all: VecDeque<Option<Piece>>,
    /// How many of each datagram there are.
    counts: Table<usize>,
    bytes: usize,
}

#[derive(Debug)]
struct Piece {
    datagram: u64,
    frame: Frame,
    bytes: Box<[u8]>,
    found: FrameFlow,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Holds a fragment back, which lies in `bytes`.
    pub(super) fn add(&mut self, datagram: u64, frame: Frame, bytes: &[u8], found: FrameFlow) {
        *self.counts.entry(datagram).or_default() += 1;
        self.bytes += bytes.len();
        self.all.push_back(Some(Piece { datagram, frame, bytes: bytes.into(), found }));
    }

    /// The next fragment of a datagram, in the order in which they came.
    pub(super) fn take(&mut self, datagram: u64) -> Option<(Frame, Box<[u8]>, FrameFlow)> {
        if !self.counts.contains_key(&datagram) {
            return None;
        }
        let is_one = |piece: &Option<Piece>| piece.as_ref().is_some_and(|piece| piece.datagram == datagram);
        let at = self.all.iter().position(is_one)?;
        let piece = self.all[at].take()?;
        self.forget(&piece);
        Some((piece.frame, piece.bytes, piece.found))
    }

    /// One that has waited too long, or has to make room; with its datagram.
    pub(super) fn take_expired(
        &mut self,
        now_ns: u64,
        is_last: bool,
    ) -> Option<(u64, Frame, Box<[u8]>, FrameFlow)> {
        loop {
            let is_full = self.all.len() > FRAMES_MAX || self.bytes > BYTES_MAX;
            if let Some(first) = self.all.front()?
                && !is_last
                && !is_full
                && now_ns.abs_diff(first.frame.time_ns) <= PATIENCE_NS
            {
                return None;
            }
            if let Some(piece) = self.all.pop_front()? {
                self.forget(&piece);
                return Some((piece.datagram, piece.frame, piece.bytes, piece.found));
            }
        }
    }

    fn forget(&mut self, piece: &Piece) {
        self.bytes -= piece.bytes.len();
        if let Some(count) = self.counts.get_mut(&piece.datagram) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&piece.datagram);
            }
        }
        if self.counts.is_empty() {
            self.all.clear();
        }
    }
}
