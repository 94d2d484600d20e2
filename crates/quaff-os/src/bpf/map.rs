//! An array map of one entry, mapped into memory: state shared by a program and user space.

use super::by_id;
use super::sys::{self, MapCreate};
use crate::Result;
use crate::mem::page_bytes;
use crate::shared_memory::SharedMemory;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// One entry of 64-bit words, initially zero, that a program (BPF_PSEUDO_MAP_VALUE) and user space access
/// concurrently.
#[derive(Debug)]
pub struct ArrayMap {
    memory: SharedMemory,
    fd: OwnedFd,
    words: usize,
}

// SAFETY: through `&self` the mapping is accessed by atomic operations only; `write`, which is not
// atomic, takes `&mut self`. The program's accesses happen in the kernel, on whole words.
unsafe impl Sync for ArrayMap {}

impl ArrayMap {
    /// Creates a map whose entry has `words` words. Needs Linux 5.5 and CAP_BPF.
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
        // SAFETY: these attributes hold no addresses, and BPF_MAP_CREATE returns a new descriptor.
        let fd = unsafe { sys::bpf_fd(sys::BPF_MAP_CREATE, &mut attr, || "create a BPF map".into()) }?;
        Self::map(fd, words)
    }

    /// Opens the map of a loaded program, by its ID. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// ENOENT when there is no such map; EPERM or ENODEV for one that cannot be mapped.
    pub fn open(id: u32) -> Result<Self> {
        let (fd, info) = by_id::map(id)?;
        Self::map(fd, info.value_bytes as usize / 8)
    }

    fn map(fd: OwnedFd, words: usize) -> Result<Self> {
        let bytes = (words * 8).next_multiple_of(page_bytes());
        let memory = SharedMemory::new(fd.as_raw_fd(), bytes, 0, libc::MAP_SHARED, "a BPF map")?;
        Ok(Self { memory, fd, words })
    }

    /// Sets word `index` after everything that this thread wrote before: a program that reads the new value by
    /// an atomic operation sees that too. A concurrent addition by the program happens entirely before or after.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn store(&self, index: usize, value: u64) {
        // Read by the program. Release: it sees the words and bytes written before.
        self.word(index).store(value, Ordering::Release);
    }

    /// The current value of word `index`, read before everything that this thread does afterwards.
    ///
    /// # Panics
    /// When there is no such word.
    pub fn load(&self, index: usize) -> u64 {
        // Written by the program or another thread. Acquire: later writes here do not overtake its reads.
        self.word(index).load(Ordering::Acquire)
    }

    /// Copies bytes to offset `at`, not atomically: a program that reads there meanwhile may see a mixture. The caller
    /// prevents that by [`store`](Self::store) and [`load`](Self::load).
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= self.words * 8), "{} bytes at {at}", bytes.len());
        // `&mut self` excludes other accesses in this process; the program's accesses happen in the kernel.
        self.memory.write(at, bytes);
    }

    /// Copies bytes from offset `at`. Each aligned word is read as a whole, so a concurrent
    /// [`store`](Self::store) is seen completely or not at all; words may differ in age.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        copy_out(self.words(), at, bytes);
    }

    /// The size of the entry, bytes.
    pub fn bytes(&self) -> usize {
        self.words * 8
    }

    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        &self.words()[index]
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `memory` has at least `words` words, begins at a page boundary, and lives as long as `self`.
        // Every access through `&self` is atomic; `write` takes `&mut self`, so it cannot run meanwhile.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast().as_ptr(), self.words) }
    }
}

/// Copies bytes that may begin and end within a word, one atomic load for each word.
fn copy_out(words: &[AtomicU64], at: usize, bytes: &mut [u8]) {
    let end = at.checked_add(bytes.len());
    assert!(end.is_some_and(|end| end <= words.len() * 8), "{} bytes at {at}", bytes.len());
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        // Written by a program or by `store` on any core. Relaxed: the words are independent values; a
        // reader that needs an order between them calls `load` first.
        let word = words[at / 8].load(Ordering::Relaxed).to_ne_bytes();
        let part = &word[at % 8..];
        let (now, later) = rest.split_at_mut(part.len().min(rest.len()));
        now.copy_from_slice(&part[..now.len()]);
        at += now.len();
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    proptest! {
        #[test]
        fn any_range_is_copied(
            bytes in prop::collection::vec(any::<u8>(), 64), at in 0usize..64, len in 0usize..64
        ) {
            let word = |chunk: &[u8]| AtomicU64::new(u64::from_ne_bytes(chunk.try_into().unwrap()));
            let words: Vec<_> = bytes.chunks_exact(8).map(word).collect();
            let len = len.min(64 - at);
            let mut found = vec![0; len];
            copy_out(&words, at, &mut found);
            prop_assert_eq!(&found, &bytes[at..at + len]);
        }
    }

    #[test]
    #[should_panic(expected = "8 bytes at 57")]
    fn nothing_beyond_the_end_is_read() {
        let words: Vec<_> = (0..8).map(AtomicU64::new).collect();
        copy_out(&words, 57, &mut [0; 8]);
    }

    /// A copy byte by byte, or of half words, sees parts of two values here.
    #[test]
    fn a_word_that_changes_meanwhile_is_never_torn() {
        let words: Vec<_> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let over = AtomicBool::new(false);
        let torn = std::thread::scope(|scope| {
            scope.spawn(|| {
                for value in (0..=255u8).cycle() {
                    let value = u64::from_ne_bytes([value; 8]);
                    words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let mut found = [0; 512];
            let torn = (0..20_000).any(|_| {
                copy_out(&words, 0, &mut found);
                found.chunks_exact(8).any(|word| word != [word[0]; 8])
            });
            // Read by the writer above; nothing is ordered by it.
            over.store(true, Ordering::Relaxed);
            torn
        });
        assert!(!torn);
    }
}
