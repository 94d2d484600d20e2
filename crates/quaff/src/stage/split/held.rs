//! Fragments that arrived before the first one of their datagram, which has the ports. Memory and time are bounded: the
//! oldest is released first.

use super::recent::Table;
use crate::batch::Frame;
use quaff_wire::split::FrameFlow;
use std::collections::VecDeque;

/// Timeout, ns. Fragments are sent back to back; two paths differ by less.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Maximum of the frames and bytes held back.
const FRAMES_MAX: usize = 4096;
const BYTES_MAX: usize = 16 << 20;

/// The fragments held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// By arrival, oldest first. A released fragment is `None`.
    all: VecDeque<Option<HeldFragment>>,
    /// Number of fragments of each datagram.
    counts: Table<usize>,
    bytes: usize,
}

#[derive(Debug)]
struct HeldFragment {
    datagram: u64,
    frame: Frame,
    bytes: Box<[u8]>,
    found: FrameFlow,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Holds a fragment back, whose frame is `bytes`.
    pub(super) fn add(&mut self, datagram: u64, frame: Frame, bytes: &[u8], found: FrameFlow) {
        *self.counts.entry(datagram).or_default() += 1;
        self.bytes += bytes.len();
        self.all.push_back(Some(HeldFragment { datagram, frame, bytes: bytes.into(), found }));
    }

    /// Removes the next fragment of a datagram, in order of arrival.
    pub(super) fn take(&mut self, datagram: u64) -> Option<(Frame, Box<[u8]>, FrameFlow)> {
        if !self.counts.contains_key(&datagram) {
            return None;
        }
        let is_one = |fragment: &Option<HeldFragment>| {
            fragment.as_ref().is_some_and(|fragment| fragment.datagram == datagram)
        };
        let at = self.all.iter().position(is_one)?;
        let fragment = self.all[at].take()?;
        self.release(&fragment);
        Some((fragment.frame, fragment.bytes, fragment.found))
    }

    /// Removes a fragment that has timed out or exceeds the memory limit, with its datagram.
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
                && now_ns.abs_diff(first.frame.time_ns) <= TIMEOUT_NS
            {
                return None;
            }
            if let Some(fragment) = self.all.pop_front()? {
                self.release(&fragment);
                return Some((fragment.datagram, fragment.frame, fragment.bytes, fragment.found));
            }
        }
    }

    fn release(&mut self, fragment: &HeldFragment) {
        self.bytes -= fragment.bytes.len();
        if let Some(count) = self.counts.get_mut(&fragment.datagram) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&fragment.datagram);
            }
        }
        if self.counts.is_empty() {
            self.all.clear();
        }
    }
}
