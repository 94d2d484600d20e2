//! Bytes that wait for earlier ones: disjoint chunks by offset, each with the extent of its segment.
//!
//! A search takes O(log n) in the number of chunks. Bytes that win by policy overwrite the old ones in place, so that
//! only bytes at new offsets need memory.

use crate::memory::{Memory, PAGE_BYTES, PAGE_COST, Place};
use crate::policy::Extent;
use std::collections::BTreeMap;

/// Charge for a chunk: its entry in a B-tree whose nodes are half full.
pub(crate) const CHUNK_COST: u64 = 2 * (size_of::<Chunk>() + size_of::<u64>()) as u64;
/// Number of overlapped chunks above which they are merged into few chunks with the origin of the arrival: otherwise a
/// flood of segments over many small chunks would traverse them again and again.
pub(crate) const OVERLAPS_MAX: usize = 64;
/// Maximum bytes of each version in an event about a difference.
pub(crate) const DIFFERENCE_BYTES_MAX: usize = 256;

/// Bytes at consecutive offsets, from one segment and in one page.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    end: u64,
    /// Extent of the segment or fragment that contained these bytes.
    origin: Extent,
    place: Place,
    time_ns: u64,
    /// True if the receiver may not have accepted these bytes: any other bytes replace them.
    is_tentative: bool,
}

/// New bytes at `start`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
    /// Extent of their segment, as far as the receiver could accept it.
    pub(crate) origin: Extent,
    pub(crate) time_ns: u64,
    pub(crate) is_tentative: bool,
}

impl Arrival<'_> {
    /// Follows a start of the stream that has moved up by so many bytes.
    pub(crate) fn move_back(&mut self, bytes: u64) {
        self.start = self.start.saturating_sub(bytes);
        let Extent { start, end } = self.origin;
        self.origin = Extent { start: start.saturating_sub(bytes), end: end.saturating_sub(bytes) };
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Two versions of the same bytes: from the first to the last that differs, cut at [`DIFFERENCE_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference<'a> {
    /// Offset of the first byte that differs.
    pub offset: u64,
    /// The version that arrived first.
    pub old: &'a [u8],
    pub new: &'a [u8],
    /// Number of bytes that differ, including those after the cut.
    pub differing: u32,
    /// True if the policy keeps the new version.
    pub is_new_kept: bool,
}

/// The memory that an arrival needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Bytes at offsets that are not held.
    pub(crate) bytes: u64,
    /// Upper bound of the charge for pages and chunks.
    pub(crate) cost: u64,
    /// Number of chunks with bytes at these offsets.
    pub(crate) overlaps: usize,
}

/// Counts of bytes that arrived in two versions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// Pairs of equal bytes.
    pub(crate) duplicate: u64,
    /// Pairs of different bytes.
    pub(crate) overlapped: u64,
    /// Differences reported.
    pub(crate) differences: u64,
}

/// The first held bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First {
    pub(crate) start: u64,
    pub(crate) time_ns: u64,
    pub(crate) is_tentative: bool,
}

/// The chunks of one stream or datagram. They must be removed through the lane's memory before this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    chunks: BTreeMap<u64, Chunk>,
    /// The page to which bytes are appended.
    open: Option<u32>,
    pages: u32,
    bytes: u64,
}

impl Held {
    /// Number of held bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Charge for these chunks.
    pub(crate) fn cost(&self) -> u64 {
        u64::from(self.pages) * PAGE_COST + self.chunks.len() as u64 * CHUNK_COST
    }

    pub(crate) fn first(&self) -> Option<First> {
        let (start, chunk) = self.chunks.first_key_value()?;
        let Chunk { time_ns, is_tentative, .. } = *chunk;
        Some(First { start: *start, time_ns, is_tentative })
    }

    /// The offset after the last held byte.
    pub(crate) fn end(&self) -> Option<u64> {
        self.chunks.last_key_value().map(|(_, chunk)| chunk.end)
    }

    /// True if confirmed bytes follow the first chunk without a hole.
    pub(crate) fn is_followed(&self) -> bool {
        let mut end = self.chunks.first_key_value().map_or(0, |(start, _)| *start);
        for (start, chunk) in &self.chunks {
            if *start != end || !chunk.is_tentative {
                return *start == end;
            }
            end = chunk.end;
        }
        false
    }

    /// The chunks with bytes between `start` and `end`, and their starts.
    fn overlaps(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Chunk)> + '_ {
        let before = self.chunks.range(..start).next_back().filter(move |(_, chunk)| chunk.end > start);
        before.into_iter().chain(self.chunks.range(start..end.max(start))).map(|(at, chunk)| (*at, *chunk))
    }

    /// Computes the memory that an arrival needs.
    pub(crate) fn need(&self, new: &Arrival, memory: &Memory, wins: impl Fn(Extent, Extent) -> bool) -> Need {
        let (mut covered, mut chunks, mut ranges, mut at, mut overlaps) = (0, 0, 0, new.start, 0);
        for (start, chunk) in self.overlaps(new.start, new.end()) {
            let (from, to) = (start.max(new.start), chunk.end.min(new.end()));
            covered += to - from;
            overlaps += 1;
            ranges += u64::from(from > at);
            at = to;
            if chunk.is_tentative || wins(chunk.origin, new.origin) {
                chunks += u64::from(start < from) + u64::from(to < chunk.end);
            }
        }
        ranges += u64::from(new.end() > at);
        let bytes = new.bytes.len() as u64 - covered;
        let room = self.open.map_or(0, |page| memory.room(page)) as u64;
        let pages = bytes.saturating_sub(room).div_ceil(PAGE_BYTES as u64);
        let cost = pages * PAGE_COST + (chunks + ranges + pages) * CHUNK_COST;
        Need { bytes, cost, overlaps }
    }

    /// Decides about bytes of which another version is held: new bytes that win overwrite the old ones.
    pub(crate) fn overlay(
        &mut self,
        new: &Arrival,
        memory: &mut Memory,
        wins: impl Fn(Extent, Extent) -> bool,
        mut report: impl FnMut(Difference),
    ) -> Overlap {
        let mut overlap = Overlap::default();
        let overlaps: Vec<(u64, Chunk)> = self.overlaps(new.start, new.end()).collect();
        for (start, chunk) in overlaps {
            let (from, to) = (start.max(new.start), chunk.end.min(new.end()));
            let bytes = &new.bytes[(from - new.start) as usize..(to - new.start) as usize];
            let place = chunk.place_of(from, start);
            let old = memory.bytes(place, bytes.len());
            let is_new_kept = chunk.is_tentative || wins(chunk.origin, new.origin);
            let difference = difference(from, old, bytes, is_new_kept);
            let differing = difference.map_or(0, |difference| u64::from(difference.differing));
            overlap.overlapped += differing;
            overlap.duplicate += bytes.len() as u64 - differing;
            if let Some(difference) = difference {
                overlap.differences += 1;
                report(difference);
            }
            if is_new_kept {
                memory.bytes_mut(place, bytes.len()).copy_from_slice(bytes);
                let changed = Chunk {
                    end: to,
                    origin: new.origin,
                    place,
                    time_ns: chunk.time_ns,
                    is_tentative: new.is_tentative,
                };
                self.replace(start, chunk, from, changed, memory);
            }
        }
        overlap
    }

    /// Replaces a part of a chunk by `changed`, which starts at `from`.
    fn replace(&mut self, start: u64, chunk: Chunk, from: u64, changed: Chunk, memory: &mut Memory) {
        let to = changed.end;
        if start < from {
            self.chunks.insert(start, Chunk { end: from, ..chunk });
            self.note_cut(chunk.place.page, memory);
        }
        if to < chunk.end {
            self.chunks.insert(to, Chunk { place: chunk.place_of(to, start), ..chunk });
            self.note_cut(chunk.place.page, memory);
        }
        self.chunks.insert(from, changed);
    }

    fn note_cut(&mut self, page: u32, memory: &mut Memory) {
        memory.add_chunk(page);
        memory.charge(CHUNK_COST);
    }

    /// Holds the bytes of an arrival at offsets that are not held. There must be room, see [`Self::need`].
    pub(crate) fn insert(&mut self, new: &Arrival, memory: &mut Memory) {
        let (mut at, end) = (new.start, new.end());
        while at < end {
            let next = self.overlaps(at, end).next().map(|(start, chunk)| (start, chunk.end));
            let (free_to, then) = next.unwrap_or((end, end));
            if at < free_to {
                self.put(new, at, free_to, memory);
            }
            at = then.max(at);
        }
    }

    /// Copies the bytes of an arrival between `from` and `to` into pages.
    fn put(&mut self, new: &Arrival, from: u64, to: u64, memory: &mut Memory) {
        let mut at = from;
        while at < to {
            let page = match self.open.filter(|page| memory.room(*page) > 0) {
                Some(page) => page,
                None => {
                    memory.charge(PAGE_COST);
                    self.pages += 1;
                    *self.open.insert(memory.take_page())
                }
            };
            let end = to.min(at + memory.room(page) as u64);
            let place =
                memory.append(page, &new.bytes[(at - new.start) as usize..(end - new.start) as usize]);
            memory.charge(CHUNK_COST);
            let Arrival { origin, time_ns, is_tentative, .. } = *new;
            self.chunks.insert(at, Chunk { end, origin, place, time_ns, is_tentative });
            self.bytes += end - at;
            at = end;
        }
    }

    /// Moves all offsets by so many bytes.
    pub(crate) fn move_by(&mut self, by: i64) {
        let moved = |offset: u64| offset.saturating_add_signed(by);
        let chunks = std::mem::take(&mut self.chunks);
        self.chunks = chunks
            .into_iter()
            .map(|(start, chunk)| {
                let Extent { start: from, end: to } = chunk.origin;
                let origin = Extent { start: moved(from), end: moved(to) };
                (moved(start), Chunk { end: moved(chunk.end), origin, ..chunk })
            })
            .collect();
    }

    /// Removes the tentative bytes; returns their number.
    pub(crate) fn drop_tentative(&mut self, memory: &mut Memory) -> u64 {
        let before = self.bytes;
        let tentative = self.chunks.iter().filter(|(_, chunk)| chunk.is_tentative);
        let starts: Vec<u64> = tentative.map(|(start, _)| *start).collect();
        for start in starts {
            if let Some(chunk) = self.chunks.remove(&start) {
                self.forget(start, chunk, memory);
            }
        }
        before - self.bytes
    }

    /// Removes the first chunk after passing its bytes to `take`.
    pub(crate) fn pop<R>(&mut self, memory: &mut Memory, take: impl FnOnce(u64, &[u8]) -> R) -> Option<R> {
        let (start, chunk) = self.chunks.pop_first()?;
        let result = take(start, memory.bytes(chunk.place, (chunk.end - start) as usize));
        self.forget(start, chunk, memory);
        Some(result)
    }

    /// Splits the chunk that contains `offset` there.
    pub(crate) fn cut(&mut self, offset: u64, memory: &mut Memory) {
        let before = self.chunks.range(..offset).next_back().map(|(start, chunk)| (*start, *chunk));
        if let Some((start, chunk)) = before.filter(|(_, chunk)| chunk.end > offset) {
            self.chunks.insert(start, Chunk { end: offset, ..chunk });
            self.chunks.insert(offset, Chunk { place: chunk.place_of(offset, start), ..chunk });
            self.note_cut(chunk.place.page, memory);
        }
    }

    /// The temporary charge of [`Self::merge`].
    pub(crate) fn merge_cost(new: &Arrival) -> u64 {
        (new.bytes.len() / PAGE_BYTES + 2) as u64 * PAGE_COST + 4 * CHUNK_COST
    }

    /// Merges the offsets of an arrival, all of which are held, into as few chunks as possible, with its origin.
    pub(crate) fn merge(&mut self, new: &Arrival, memory: &mut Memory) {
        self.cut(new.start, memory);
        self.cut(new.end(), memory);
        let (mut bytes, mut time_ns) = (Vec::with_capacity(new.bytes.len()), new.time_ns);
        let first = |held: &Self| {
            let mut chunks = held.chunks.range(new.start..new.end());
            chunks.next().map(|(start, chunk)| (*start, *chunk))
        };
        while let Some((start, chunk)) = first(self) {
            self.chunks.remove(&start);
            bytes.extend_from_slice(memory.bytes(chunk.place, (chunk.end - start) as usize));
            time_ns = time_ns.min(chunk.time_ns);
            self.forget(start, chunk, memory);
        }
        let merged = Arrival { bytes: &bytes, time_ns, ..*new };
        self.put(&merged, new.start, new.end(), memory);
    }

    /// Confirms the bytes of the first chunk.
    pub(crate) fn confirm_first(&mut self) {
        if let Some(mut first) = self.chunks.first_entry() {
            first.get_mut().is_tentative = false;
        }
    }

    /// Removes the bytes from `offset` on; returns their number.
    pub(crate) fn truncate(&mut self, offset: u64, memory: &mut Memory) -> u64 {
        let before = self.bytes;
        while let Some((start, chunk)) = self.chunks.pop_last() {
            if chunk.end <= offset {
                self.chunks.insert(start, chunk);
                break;
            }
            if start < offset {
                self.bytes -= chunk.end - offset;
                self.chunks.insert(start, Chunk { end: offset, ..chunk });
                break;
            }
            self.forget(start, chunk, memory);
        }
        before - self.bytes
    }

    /// Returns the memory of a removed chunk.
    fn forget(&mut self, start: u64, chunk: Chunk, memory: &mut Memory) {
        self.bytes -= chunk.end - start;
        memory.discharge(CHUNK_COST);
        let page = chunk.place.page;
        if memory.remove_chunk(page) && self.open != Some(page) {
            self.free_page(page, memory);
        }
        if let Some(open) = self.open.filter(|_| self.chunks.is_empty()) {
            self.free_page(open, memory);
        }
    }

    fn free_page(&mut self, page: u32, memory: &mut Memory) {
        self.open = self.open.filter(|open| *open != page);
        self.pages -= 1;
        memory.free_page(page);
        memory.discharge(PAGE_COST);
    }
}

impl Chunk {
    /// The place of the byte at `offset` of a chunk that starts at `start`.
    fn place_of(&self, offset: u64, start: u64) -> Place {
        Place { page: self.place.page, at: self.place.at + (offset - start) as u16 }
    }
}

/// The range in which two versions differ.
fn difference<'a>(offset: u64, old: &'a [u8], new: &'a [u8], is_new_kept: bool) -> Option<Difference<'a>> {
    if old == new {
        return None;
    }
    let differs = |at: &usize| old[*at] != new[*at];
    let first = (0..old.len()).find(differs)?;
    let last = (0..old.len()).rfind(differs)?;
    let differing = (first..=last).filter(differs).count() as u32;
    let end = (last + 1).min(first + DIFFERENCE_BYTES_MAX);
    let (old, new) = (&old[first..end], &new[first..end]);
    Some(Difference { offset: offset + first as u64, old, new, differing, is_new_kept })
}
