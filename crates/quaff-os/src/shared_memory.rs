//! Memory shared with the kernel: the mapping of a ring. Indices and states are atomic words; other
//! bytes are accessed only while the ring's protocol assigns them to user space.

use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A shared mapping with one owner in this process; unmapped on drop.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value is the only owner of its mapping, and no thread-local state refers to it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps `bytes` of `fd` at `offset`, with the page tables populated.
    pub(crate) fn map(fd: &OwnedFd, bytes: usize, offset: i64, what: &str) -> Result<Self> {
        Self::new(fd.as_raw_fd(), bytes, offset, libc::MAP_SHARED | libc::MAP_POPULATE, what)
    }

    /// Anonymous memory, for a test that acts as the kernel.
    #[cfg(test)]
    pub(crate) fn anonymous(bytes: usize) -> Self {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        Self::new(-1, bytes, 0, flags, "memory").expect("some memory")
    }

    /// As [`SharedMemory::map`], for memory that the kernel lets a process only read: a write would end the process.
    pub(crate) fn read_only(fd: &OwnedFd, bytes: usize, offset: i64, what: &str) -> Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::protected(fd.as_raw_fd(), bytes, offset, (libc::PROT_READ, flags), what)
    }

    /// Maps `bytes` of `fd` at `offset` with the given `MAP_*` flags.
    pub(crate) fn new(fd: i32, bytes: usize, offset: i64, flags: i32, what: &str) -> Result<Self> {
        Self::protected(fd, bytes, offset, (libc::PROT_READ | libc::PROT_WRITE, flags), what)
    }

    fn protected(
        fd: i32,
        bytes: usize,
        offset: i64,
        (protection, flags): (i32, i32),
        what: &str,
    ) -> Result<Self> {
        // SAFETY: a new mapping touches no memory that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, offset) };
        let failed = || Error::last(format!("map {what} of {bytes} bytes"));
        if start == libc::MAP_FAILED {
            return Err(failed());
        }
        Ok(Self { start: NonNull::new(start.cast()).ok_or_else(failed)?, bytes })
    }

    /// The first byte; the mapping begins at a page boundary.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The 32-bit word at `at`.
    ///
    /// # Panics
    /// When it lies outside the mapping or is not aligned.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.bytes, "word {at} of {} bytes", self.bytes);
        // SAFETY: inside the mapping and aligned, as asserted (a mapping begins at a page). The kernel
        // accesses such a word as a whole, and the methods below take bytes that are not such a word now.
        unsafe { AtomicU32::from_ptr(self.start.add(at).as_ptr().cast()) }
    }

    /// The 64-bit word at `at`.
    ///
    /// # Panics
    /// When it lies outside the mapping or is not aligned.
    #[inline]
    pub(crate) fn long_word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "word {at} of {} bytes", self.bytes);
        // SAFETY: as of `word`.
        unsafe { AtomicU64::from_ptr(self.start.add(at).as_ptr().cast()) }
    }

    /// Writes bytes at `at`. By the ring's protocol the kernel does not access them now.
    ///
    /// # Panics
    /// When they do not fit.
    #[inline]
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.bytes));
        // SAFETY: the range lies inside the mapping, as asserted. `bytes` does not overlap it, since no
        // method returns a slice of the mapping, and `&mut self` makes this the only access.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at).as_ptr(), bytes.len()) }
    }

    /// Copies `len` bytes from `from` to `to`. By the ring's protocol the kernel accesses neither now.
    ///
    /// # Panics
    /// When one of the ranges reaches outside the mapping.
    pub(crate) fn copy(&mut self, from: usize, to: usize, len: usize) {
        let inside = |at: usize| at.checked_add(len).is_some_and(|end| end <= self.bytes);
        assert!(inside(from) && inside(to));
        // SAFETY: both ranges lie inside the mapping, as asserted; ptr::copy permits overlap.
        unsafe { std::ptr::copy(self.start.add(from).as_ptr(), self.start.add(to).as_ptr(), len) }
    }

    /// Appends `len` bytes at `at` to `to`. By the ring's protocol the kernel does not write them now.
    ///
    /// # Panics
    /// When they reach outside the mapping.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn read(&self, at: usize, len: usize, to: &mut Vec<u8>) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.bytes));
        // SAFETY: the range lies inside the mapping, as asserted. The caller keeps the ring's protocol, by
        // which the kernel does not write there, and the slice does not outlive this call.
        to.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), len) });
    }

    /// Reads 8 bytes at `at`. By the ring's protocol the kernel does not write them now.
    ///
    /// # Panics
    /// When they reach outside the mapping.
    #[inline]
    pub(crate) fn read_u64(&self, at: usize) -> u64 {
        assert!(at.checked_add(8).is_some_and(|end| end <= self.bytes));
        // SAFETY: inside the mapping, as asserted; the read permits any alignment.
        unsafe { self.start.add(at).cast::<u64>().read_unaligned() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this size, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let mut shared = SharedMemory::anonymous(4096);
        shared.write(8, &[1, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(shared.word(12).load(Ordering::Relaxed), 2);
        assert_eq!(shared.read_u64(8), 0x2_0000_0001);
        shared.copy(8, 12, 8);
        assert_eq!((shared.read_u64(8), shared.read_u64(12)), (0x1_0000_0001, 0x2_0000_0001));
        let mut bytes = vec![7];
        shared.read(15, 2, &mut bytes);
        assert_eq!(bytes, [7, 0, 2]);
    }

    #[test]
    fn nothing_outside_is_touched() {
        let past_the_end: [fn(&mut SharedMemory) -> u64; 6] = [
            |shared| shared.word(4096).load(Ordering::Relaxed).into(),
            |shared| shared.word(2).load(Ordering::Relaxed).into(),
            |shared| {
                shared.write(4090, &[0; 7]);
                0
            },
            |shared| {
                shared.copy(0, 4090, 7);
                0
            },
            |shared| shared.read_u64(4089),
            |shared| {
                shared.read(4090, 7, &mut Vec::new());
                0
            },
        ];
        for access in past_the_end {
            let mut shared = SharedMemory::anonymous(4096);
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| access(&mut shared)));
            assert!(caught.is_err());
        }
    }
}
