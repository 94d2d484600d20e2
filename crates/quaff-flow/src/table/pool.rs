//! The records of a table, in blocks of small or huge pages, which are allocated one by one and never move.

use super::hot::Hot;
use crate::wheel::{Link, Links, NONE};
use quaff_os::{HUGE_BYTES, prefer_huge_pages, prefetch_value};
use quaff_wire::flow::IndexLine;
use std::mem::MaybeUninit;

/// Minimum bytes of a table in huge pages: in a smaller one, partly used pages would be a large part.
const HUGE_FROM_BYTES: u64 = 64 << 20;

/// The kind of pages of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    Huge,
}

impl Pages {
    /// The pages for a table with this limit of bytes.
    pub(crate) fn of(bytes_max: u64) -> Self {
        if bytes_max < HUGE_FROM_BYTES { Self::Small } else { Self::Huge }
    }

    /// Maximum memory that is provided but not yet used by the index or a record.
    pub(crate) fn spare_bytes(self) -> u64 {
        match self {
            Self::Small => 0,
            Self::Huge => 2 * HUGE_BYTES as u64,
        }
    }

    /// The function that prepares the blocks of the index.
    pub(super) fn of_index(self) -> fn(&mut [MaybeUninit<IndexLine>]) {
        match self {
            Self::Small => |_| {},
            Self::Huge => prefer_huge_pages,
        }
    }

    /// An empty block, whose memory the kernel provides in these pages at its first use.
    pub(super) fn block<T>(self, capacity: usize) -> Vec<T> {
        let mut block = Vec::with_capacity(capacity);
        if self == Self::Huge {
            prefer_huge_pages(block.spare_capacity_mut());
        }
        block
    }
}

/// Records of a block: 8 MiB, whose pages the kernel provides at their first use.
const BLOCK: usize = 1 << 16;

/// The records, by number.
#[derive(Debug)]
pub(crate) struct Pool {
    blocks: Vec<Vec<Hot>>,
    pages: Pages,
    /// The first free record; free records are linked by `link.next`.
    free: u32,
    /// Records in use, records ever used, and the maximum.
    flows: u32,
    used: u32,
    flows_max: u32,
}

impl Pool {
    /// A pool of at most `flows_max` records.
    pub(super) fn new(flows_max: u32, pages: Pages) -> Self {
        let flows_max = flows_max.clamp(1, 1 << 30);
        Self { blocks: Vec::new(), pages, free: NONE, flows: 0, used: 0, flows_max }
    }

    /// The record, if there is one with this number.
    #[inline]
    pub(super) fn get(&self, flow: u32) -> Option<&Hot> {
        self.blocks.get(flow as usize / BLOCK)?.get(flow as usize % BLOCK)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, flow: u32) -> Option<&mut Hot> {
        self.blocks.get_mut(flow as usize / BLOCK)?.get_mut(flow as usize % BLOCK)
    }

    /// The record of a flow in the table.
    #[inline]
    pub(crate) fn hot(&self, flow: u32) -> &Hot {
        &self.blocks[flow as usize / BLOCK][flow as usize % BLOCK]
    }

    #[inline]
    pub(crate) fn hot_mut(&mut self, flow: u32) -> &mut Hot {
        &mut self.blocks[flow as usize / BLOCK][flow as usize % BLOCK]
    }

    /// Takes a free record; `None` at the limit.
    pub(super) fn take(&mut self, hot: Hot) -> Option<u32> {
        let flow = self.free;
        if flow != NONE {
            let place = self.hot_mut(flow);
            let next = std::mem::replace(place, hot).link.next;
            self.free = next;
            // The next new flow is written to that record, and its link is the free record after it.
            if let Some(next) = self.get(next) {
                prefetch_value(next);
            }
            self.flows += 1;
            return Some(flow);
        }
        if self.used == self.flows_max {
            return None;
        }
        if (self.used as usize).is_multiple_of(BLOCK) {
            self.blocks.push(self.pages.block(BLOCK.min((self.flows_max - self.used) as usize)));
        }
        self.blocks.last_mut()?.push(hot);
        self.used += 1;
        self.flows += 1;
        Some(self.used - 1)
    }

    /// Frees a record.
    pub(super) fn free(&mut self, flow: u32) {
        let link = Link { next: self.free, previous: NONE };
        *self.hot_mut(flow) = Hot { link, ..Hot::default() };
        self.free = flow;
        self.flows -= 1;
    }

    pub(super) fn flows(&self) -> u32 {
        self.flows
    }

    /// The next number of the records that were ever used; the first one after the last.
    pub(crate) fn after(&self, flow: u32) -> u32 {
        if flow + 1 < self.used { flow + 1 } else { 0 }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        u64::from(self.used) * size_of::<Hot>() as u64
    }
}

impl Links for Pool {
    fn link(&self, entry: u32) -> Link {
        self.hot(entry).link
    }

    fn set_next(&mut self, entry: u32, next: u32) {
        self.hot_mut(entry).link.next = next;
    }

    fn set_previous(&mut self, entry: u32, previous: u32) {
        self.hot_mut(entry).link.previous = previous;
    }

    fn prefetch(&self, entry: u32) {
        prefetch_value(self.hot(entry));
    }
}
