//! The memory of a lane for held bytes: pages of 2 KiB, a cap for the lane, and one shared by all lanes.
//!
//! Freed pages go to the lane's own free list, so that eventually nothing is allocated. A page belongs to one stream or
//! datagram. The charge covers pages and records of chunks, however few bytes they hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a page.
pub(crate) const PAGE_BYTES: usize = 2048;
/// Charge for a page: its bytes and its record.
pub(crate) const PAGE_COST: u64 = PAGE_BYTES as u64 + size_of::<Page>() as u64;
/// Bytes that a lane leases at a time from the shared memory.
const LEASE_BYTES: u64 = 64 << 10;

/// The limit that all lanes share.
#[derive(Debug)]
pub struct SharedMemory {
    limit_bytes: u64,
    /// Bytes leased to lanes. Each lane adds what it leases and subtracts what it returns; no other memory depends on
    /// it, hence Relaxed.
    leased_bytes: AtomicU64,
}

impl SharedMemory {
    /// Creates a limit in bytes; lanes lease 64 KiB at a time.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, leased_bytes: AtomicU64::new(0) })
    }

    /// Bytes leased to lanes.
    pub fn leased_bytes(&self) -> u64 {
        self.leased_bytes.load(Ordering::Relaxed)
    }

    /// Leases `bytes` if the limit allows it.
    fn lease(&self, bytes: u64) -> bool {
        let before = self.leased_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit_bytes;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: u64) {
        self.leased_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A page number, and an offset in the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u32,
    pub(crate) at: u16,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8; PAGE_BYTES]>,
    /// Bytes written since the page was taken.
    filled: u16,
    /// Number of chunks whose bytes are in it.
    chunks: u16,
}

/// The limit that refuses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Lane,
    Total,
}

/// The pages of a lane.
#[derive(Debug)]
pub(crate) struct Memory {
    limit_bytes: u64,
    shared: Option<Arc<SharedMemory>>,
    leased_bytes: u64,
    used_bytes: u64,
    pages: Vec<Page>,
    free: Vec<u32>,
}

impl Memory {
    pub(crate) fn new(limit_bytes: u64, shared: Option<Arc<SharedMemory>>) -> Self {
        Self { limit_bytes, shared, leased_bytes: 0, used_bytes: 0, pages: Vec::new(), free: Vec::new() }
    }

    /// Bytes charged.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Returns `None` if `bytes` more fit, and leases them if the memory is shared; otherwise the exceeded limit.
    pub(crate) fn refusal(&mut self, bytes: u64) -> Option<Full> {
        let wanted = self.used_bytes + bytes;
        if wanted > self.limit_bytes {
            return Some(Full::Lane);
        }
        let Some(shared) = &self.shared else { return None };
        if wanted > self.leased_bytes {
            let missing = (wanted - self.leased_bytes).next_multiple_of(LEASE_BYTES);
            if !shared.lease(missing) {
                return Some(Full::Total);
            }
            self.leased_bytes += missing;
        }
        None
    }

    /// Charges bytes that [`Self::refusal`] allowed.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.used_bytes += bytes;
    }

    /// Returns charged bytes, and leases that are not needed soon.
    pub(crate) fn discharge(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
        let spare = self.leased_bytes.saturating_sub(self.used_bytes) / LEASE_BYTES;
        if let Some(shared) = self.shared.as_ref().filter(|_| spare >= 2) {
            shared.give_back((spare - 1) * LEASE_BYTES);
            self.leased_bytes -= (spare - 1) * LEASE_BYTES;
        }
    }

    /// Takes an empty page, for which the caller has charged.
    pub(crate) fn take_page(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.pages.push(Page { bytes: Box::new([0; PAGE_BYTES]), filled: 0, chunks: 0 });
            self.pages.len() as u32 - 1
        })
    }

    /// Frees a page.
    pub(crate) fn free_page(&mut self, page: u32) {
        let returned = &mut self.pages[page as usize];
        debug_assert_eq!(returned.chunks, 0, "a page with chunks was freed");
        returned.filled = 0;
        self.free.push(page);
    }

    /// Free bytes of a page.
    pub(crate) fn room(&self, page: u32) -> usize {
        PAGE_BYTES - usize::from(self.pages[page as usize].filled)
    }

    /// Appends a chunk of bytes to a page that has room for them.
    pub(crate) fn append(&mut self, page: u32, bytes: &[u8]) -> Place {
        let Page { bytes: all, filled, chunks } = &mut self.pages[page as usize];
        let at = *filled;
        all[usize::from(at)..usize::from(at) + bytes.len()].copy_from_slice(bytes);
        *filled += bytes.len() as u16;
        *chunks += 1;
        Place { page, at }
    }

    /// Notes that a chunk of a page was split.
    pub(crate) fn add_chunk(&mut self, page: u32) {
        self.pages[page as usize].chunks += 1;
    }

    /// Notes that a chunk was removed from a page; returns true if it was the last one.
    pub(crate) fn remove_chunk(&mut self, page: u32) -> bool {
        let page = &mut self.pages[page as usize];
        page.chunks -= 1;
        if page.chunks == 0 {
            page.filled = 0;
        }
        page.chunks == 0
    }

    /// `len` bytes at a place.
    pub(crate) fn bytes(&self, place: Place, len: usize) -> &[u8] {
        let at = usize::from(place.at);
        &self.pages[place.page as usize].bytes[at..at + len]
    }

    /// The same, mutable.
    pub(crate) fn bytes_mut(&mut self, place: Place, len: usize) -> &mut [u8] {
        let at = usize::from(place.at);
        &mut self.pages[place.page as usize].bytes[at..at + len]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.give_back(self.leased_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_lease_from_what_they_share_and_return_it() {
        let shared = SharedMemory::new(3 * LEASE_BYTES);
        let mut lanes = [0; 2].map(|_| Memory::new(10 * LEASE_BYTES, Some(shared.clone())));
        assert_eq!(lanes[0].refusal(2 * LEASE_BYTES), None);
        lanes[0].charge(2 * LEASE_BYTES);
        assert_eq!(lanes[1].refusal(LEASE_BYTES + 1), Some(Full::Total));
        assert_eq!(lanes[1].refusal(LEASE_BYTES), None);
        assert_eq!(lanes[0].refusal(9 * LEASE_BYTES), Some(Full::Lane));
        lanes[0].discharge(2 * LEASE_BYTES);
        assert_eq!(shared.leased_bytes(), 2 * LEASE_BYTES);
        drop(lanes);
        assert_eq!(shared.leased_bytes(), 0);
    }
}
