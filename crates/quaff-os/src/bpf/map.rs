//! An array map of one entry, mapped into memory: the state that a program and its user share.

use super::sys::{self, MapCreate};
use crate::mem::page_bytes;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// One entry of 64-bit words, zero at first, seen by a program (BPF_PSEUDO_MAP_VALUE) and, at the
/// same time, by user space.
#[derive(Debug)]
pub struct ArrayMap {
    fd: OwnedFd,
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is shared memory that is only ever accessed by atomic operations.
unsafe impl Send for ArrayMap {}
// SAFETY: as above.
unsafe impl Sync for ArrayMap {}

impl ArrayMap {
    /// Makes a map whose entry has `words` words. Needs Linux 5.5 and CAP_BPF.
    pub fn new(name: &str, words: usize) -> Result<Self> {
        let mut attr = MapCreate {
            map_type: sys::BPF_MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: (words * 8) as u32,
            max_entries: 1,
            map_flags: sys::BPF_F_MMAPABLE,
            map_name: sys::name(name),
            ..MapCreate::default()
        };
        // SAFETY: these attributes hold no addresses.
        let fd = unsafe { sys::bpf_fd(sys::BPF_MAP_CREATE, &mut attr, || "create a BPF map".into()) }?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let bytes = mapped_bytes(words);
        // SAFETY: a new mapping touches no memory that exists.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        let failed = || Error::last("map a BPF map into memory");
        if start == libc::MAP_FAILED {
            return Err(failed());
        }
        Ok(Self { fd, start: NonNull::new(start.cast()).ok_or_else(failed)?, words })
    }

    /// Word `index` as it is now.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    /// Sets word `index`. A program that adds to the same word at this moment wins or loses as a whole.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Relaxed);
    }

    /// Sets word `index` after all that this thread has written before: a program that reads the new
    /// value by an atomic operation sees the rest too.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn publish(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    /// Word `index` as it is now, before anything that this thread does later.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn observe(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Copies bytes to offset `at`. Whoever shares the map with a program sees to it that the program
    /// does not read there meanwhile, or that it may read a mixture.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.words * 8), "{} bytes at {at}", bytes.len());
        // SAFETY: the range was just checked to be within the mapping, which only this value refers
        // to; `&mut self` keeps other threads away, and no reference into the mapping is alive.
        unsafe {
            let to = self.start.as_ptr().cast::<u8>().add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }

    /// Copies bytes from offset `at`, as they are now.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.words * 8), "{} bytes at {at}", bytes.len());
        // SAFETY: the range was just checked to be within the mapping, and `bytes` is not in it, for
        // no reference into the mapping is alive.
        unsafe {
            let from = self.start.as_ptr().cast::<u8>().add(at);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.words * 8
    }

    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        // SAFETY: the mapping holds `words` aligned words until drop; the kernel keeps its pages.
        unsafe { self.start.add(index).as_ref() }
    }
}

impl Drop for ArrayMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this very size, and no reference outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), mapped_bytes(self.words)) };
    }
}

fn mapped_bytes(words: usize) -> usize {
    (words * 8).next_multiple_of(page_bytes())
}
