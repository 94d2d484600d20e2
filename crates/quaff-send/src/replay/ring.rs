//! The ring of frames in a BPF map, in the order in which the program reads them. It never runs the program.
//!
//! An item never crosses the end of the map, and holds the offset of the next one. Either all frames of a run are
//! written before it starts, and the last item points to the first; or frames are written while others are read, as far
//! as [`Ring::has_room`] allows.

use super::unique::Places;
use crate::bpf_live::FRAME_BYTES_MAX;
use crate::error::SendError;
use crate::schedule::Deadline;
use quaff_os::bpf::ArrayMap;
use std::collections::VecDeque;

/// The shortest frame that kernels accept (`ETH_HLEN`).
pub(super) const FRAME_BYTES_MIN: usize = 14;
/// Bytes of the header that precedes each frame.
pub(super) const HEADER_BYTES: usize = 24;
/// Latest deadline, ns: the sum with the time of the first frame does not overflow.
const DUE_NS_MAX: u64 = u64::MAX / 2;
/// Largest item, bytes: each item starts at least this far before the end of the map.
pub(super) const ITEM_BYTES_MAX: usize = HEADER_BYTES + FRAME_BYTES_MAX;

/// Offsets of the fields of that header.
pub(super) mod field {
    /// Deadline after the start of the pass: u64, ns.
    pub(crate) const DUE_NS: usize = 0;
    /// Fraction of the deadline: u32, 2^-32 ns.
    pub(crate) const FRACTION: usize = 8;
    /// Offset of the next item: u32.
    pub(crate) const NEXT: usize = 12;
    /// Bytes of the frame: u16.
    pub(crate) const LEN: usize = 16;
    /// Offset in the frame of the number that decreases from pass to pass: u16, 0 for none.
    pub(crate) const DOWN: usize = 18;
    /// Offset in the frame of the number that increases from pass to pass: u16, 0 for none.
    pub(crate) const UP: usize = 20;
    /// 1 if the frame is the last one of a pass: u16.
    pub(crate) const LAST: usize = 22;
}

/// The map and the state of its writer.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) map: ArrayMap,
    /// Offset of the next item to write.
    at: usize,
    /// Offsets of the items that the program has not yet read, oldest first.
    starts: VecDeque<u32>,
    /// Number of frames written so far.
    pub(super) pushed: u64,
    taken: u64,
}

impl Ring {
    /// Creates a map of `bytes` bytes, rounded up to whole pages.
    pub(super) fn new(bytes: usize) -> Result<Self, SendError> {
        let words = bytes.max(2 * ITEM_BYTES_MAX).next_multiple_of(4096) / 8;
        let map = ArrayMap::new("quaff_frames", words)?;
        Ok(Self { map, at: 0, starts: VecDeque::new(), pushed: 0, taken: 0 })
    }

    /// Frees the items of the first `taken` frames, which the program has read.
    pub(super) fn take(&mut self, taken: u64) {
        while self.taken < taken && self.starts.pop_front().is_some() {
            self.taken += 1;
        }
    }

    /// Returns `true` if a frame of `frame_bytes` bytes can be written now.
    pub(super) fn has_room(&self, frame_bytes: usize) -> bool {
        let Some(&oldest) = self.starts.front() else { return true };
        let (oldest, (end, next)) = (oldest as usize, self.end_and_next(frame_bytes));
        // The next item must not start at the oldest one, or a full ring would look empty.
        if oldest < self.at { next != 0 || oldest != 0 } else { end < oldest }
    }

    /// End of an item written now, and offset of the next one.
    fn end_and_next(&self, frame_bytes: usize) -> (usize, usize) {
        let end = (self.at + HEADER_BYTES + frame_bytes).next_multiple_of(8);
        let fits = end + ITEM_BYTES_MAX <= self.map.bytes();
        (end, if fits { end } else { 0 })
    }

    /// Writes a frame of [`FRAME_BYTES_MIN`] to [`FRAME_BYTES_MAX`] bytes, for which there must be room.
    pub(super) fn push(&mut self, frame: &[u8], due: Deadline, places: Places) {
        let (_, next) = self.end_and_next(frame.len());
        let mut header = [0; HEADER_BYTES];
        header[field::DUE_NS..][..8].copy_from_slice(&due.ns.min(DUE_NS_MAX).to_ne_bytes());
        header[field::FRACTION..][..4].copy_from_slice(&due.fraction.to_ne_bytes());
        header[field::NEXT..][..4].copy_from_slice(&(next as u32).to_ne_bytes());
        header[field::LEN..][..2].copy_from_slice(&(frame.len() as u16).to_ne_bytes());
        header[field::DOWN..][..2].copy_from_slice(&places.down.to_ne_bytes());
        header[field::UP..][..2].copy_from_slice(&places.up.to_ne_bytes());
        self.map.write(self.at, &header);
        self.map.write(self.at + HEADER_BYTES, frame);
        self.starts.push_back(self.at as u32);
        self.at = next;
        self.pushed += 1;
    }

    /// Makes the first item follow the last one, in a new pass.
    pub(super) fn close(&mut self) {
        if let Some(latest) = self.starts.back() {
            self.map.write(*latest as usize + field::NEXT, &0u32.to_ne_bytes());
            self.map.write(*latest as usize + field::LAST, &1u16.to_ne_bytes());
        }
        self.starts = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::testing;

    /// Reads the items from the map alone, as the program does.
    #[test]
    fn a_reader_of_any_lag_reads_all_frames_in_order() {
        let mut ring = match Ring::new(0) {
            Ok(ring) => ring,
            Err(SendError::Os(error)) if testing::is_refusal(&error) => {
                return testing::skip("a_reader_of_any_lag_reads_all_frames_in_order", &error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        let (mut at, mut taken) = (0, 0u64);
        let len = |number: u64| 14 + (number * 7919 % 900) as usize;
        for number in 0..5000u64 {
            let frame = vec![number as u8; len(number)];
            while !ring.has_room(frame.len()) {
                // The reader takes up to three frames.
                for _ in 0..=taken % 3 {
                    if taken < number {
                        let mut header = [0; HEADER_BYTES];
                        ring.map.read(at, &mut header);
                        let mut content = vec![0; len(taken)];
                        ring.map.read(at + HEADER_BYTES, &mut content);
                        let found = u16::from_ne_bytes([header[field::LEN], header[field::LEN + 1]]);
                        assert_eq!(usize::from(found), len(taken));
                        assert!(content.iter().all(|byte| *byte == taken as u8), "{taken}");
                        assert_eq!(header[..8], taken.to_ne_bytes());
                        let next = header[field::NEXT..][..4].try_into().unwrap();
                        at = u32::from_ne_bytes(next) as usize;
                        assert!(at + ITEM_BYTES_MAX <= ring.map.bytes());
                        taken += 1;
                    }
                }
                ring.take(taken);
            }
            ring.push(&frame, Deadline { ns: number, fraction: 0 }, Places::default());
        }
        assert!(taken > 4900, "{taken}: the ring holds few frames");
    }
}
