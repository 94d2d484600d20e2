//! Memory for packets: page-aligned, of huge pages where available, populated before use.
//!
//! The first access to a page is slow (0.4 to 3 GB/s in a virtual machine), so a [`Buffer`] can be
//! populated and locked before it is needed. The memory never moves: the kernel may write from it
//! to disk while the `Buffer` moves from thread to thread.

use crate::{Error, Result};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The size of a transparent huge page on x86-64 and on arm64 with 4 KiB pages.
pub const HUGE_BYTES: usize = 2 << 20;

/// An anonymous mapping with one owner. Zeroed, and aligned to a page, or to 2 MiB when it is
/// at least that large.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    /// The pages are from the pool of huge pages (`vm.nr_hugepages`).
    is_hugetlb: bool,
}

// SAFETY: a Buffer is the only owner of its mapping, and no thread-local state refers to it.
unsafe impl Send for Buffer {}
// SAFETY: a shared reference only reads: `populate` and `lock` keep the contents.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps `bytes`, rounded up to whole pages, without populating them.
    pub fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(page_bytes());
        let spare = if bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let start = map(bytes + spare, 0)?;
        let skip = if spare == 0 { 0 } else { start.as_ptr().align_offset(HUGE_BYTES) };
        unmap(start, skip);
        // SAFETY: skip < HUGE_BYTES = spare, so both pointers stay within the mapping made above.
        let (start, tail) = unsafe { (start.add(skip), start.add(skip + bytes)) };
        unmap(tail, spare - skip);
        Ok(Self { start, bytes, is_hugetlb: false })
    }

    /// Maps `bytes` as [`Buffer::new`] does, from the pool of huge pages where it has enough, and otherwise with the
    /// advice to use transparent ones.
    pub fn with_huge_pages(bytes: usize) -> Result<Self> {
        let flags = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
        // The kernel reserves the pages here, or refuses the mapping.
        if bytes > 0
            && bytes.is_multiple_of(HUGE_BYTES)
            && let Ok(start) = map(bytes, flags)
        {
            return Ok(Self { start, bytes, is_hugetlb: true });
        }
        Self::new(bytes).inspect(Self::advise_huge)
    }

    /// Makes every page present and writable, with huge pages where possible.
    ///
    /// # Errors
    /// ENOMEM or EFAULT: the machine does not have that much memory.
    pub fn populate(&self) -> Result<()> {
        self.advise_huge();
        self.fault_in()
    }

    /// Makes every page present and writable, of the size that was advised last.
    ///
    /// # Errors
    /// As [`Buffer::populate`].
    pub fn fault_in(&self) -> Result<()> {
        let tried = || format!("populate {} MiB of memory", self.bytes >> 20);
        // SAFETY: the range is our own mapping; MADV_POPULATE_WRITE (Linux 5.14) faults pages in and keeps contents.
        match unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(Error::last(tried()).advise("use a smaller `ring` or `buffer`")),
        }
    }

    /// Makes every page present as [`Buffer::populate`] does, with small pages unless it is from the pool of huge ones.
    ///
    /// # Errors
    /// As [`Buffer::populate`].
    pub fn populate_small(&self) -> Result<()> {
        self.advise_small();
        self.fault_in()
    }

    /// Makes pages that are not present yet small ones, unless they are from the pool of huge ones.
    pub fn advise_small(&self) {
        // SAFETY: the range is our own mapping, and the advice changes no contents. It may fail, which changes nothing.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// Makes every page present as [`Buffer::populate`] does, for a thread of low priority, and zeroes the first byte
    /// of each.
    ///
    /// It writes to the pages: a fault holds the lock of this mapping alone, where MADV_POPULATE_WRITE holds that of
    /// all memory of the process, and a thread that loses its core inside would keep the others waiting.
    pub fn touch(&mut self) -> Result<()> {
        if self.is_hugetlb {
            // A limit of the control group would end the process with SIGBUS at a write, but is an error here.
            return self.populate();
        }
        let page = page_bytes();
        self.chunks_mut(page).for_each(|page| page[0] = 0);
        Ok(())
    }

    /// Locks the pages in memory: those that are present at once, others as soon as they are (mlock2(2)). Needs
    /// CAP_IPC_LOCK or a sufficient RLIMIT_MEMLOCK.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: the range is our own mapping.
        match unsafe { libc::mlock2(self.start.as_ptr().cast(), self.bytes, libc::MLOCK_ONFAULT) } {
            0 => Ok(()),
            _ => Err(Error::last(format!("lock {} MiB of memory", self.bytes >> 20))
                .advise("raise 'ulimit -l' or grant CAP_IPC_LOCK")),
        }
    }

    /// Takes pages that are not present yet from the NUMA node `node` while it has free memory, otherwise from other
    /// nodes (mbind(2), MPOL_PREFERRED).
    pub fn prefer_node(&self, node: usize) -> Result<()> {
        let (mask, bits) = node_mask(node);
        let policy = libc::MPOL_PREFERRED as libc::c_ulong;
        let (start, flags) = (self.start.as_ptr(), 0 as libc::c_ulong);
        // SAFETY: the range is our own mapping, whose contents a policy keeps; the kernel reads `bits` - 1 bits of the
        // mask, which has as many.
        let done =
            unsafe { libc::syscall(libc::SYS_mbind, start, self.bytes, policy, mask.as_ptr(), bits, flags) };
        match done {
            0 => Ok(()),
            _ => Err(Error::last(format!("prefer the memory of node {node}"))),
        }
    }

    /// The first byte, for [`crate::Filling`].
    #[inline]
    pub(crate) fn start_mut(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn advise_huge(&self) {
        // SAFETY: the range is our own mapping, and the advice changes no contents. The call may fail
        // where there are no huge pages, which changes nothing.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_HUGEPAGE) };
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `bytes` long, zeroed by the kernel, and ours until drop.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only view.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

/// Hints the processor to load the cache line at offset `at` of `bytes`. `at` may be out of range.
#[inline]
pub fn prefetch(bytes: &[u8], at: usize) {
    prefetch_line(bytes.as_ptr().wrapping_add(at));
}

/// Asks the kernel for huge pages where memory that is not used yet spans whole ones. Fewer misses of the TLB are worth
/// it for tables that are read at random.
pub fn prefer_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let range = memory.as_mut_ptr_range();
    let page = page_bytes();
    let (start, end) = ((range.start as usize).next_multiple_of(page), range.end as usize / page * page);
    let Some(bytes) = end.checked_sub(start) else { return };
    // SAFETY: the pages from `start` to `end` are inside `memory`, which the caller holds alone, and the advice
    // changes no contents. It may fail, which changes nothing.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

/// Hints the processor to load the cache lines of `value`.
#[inline]
pub fn prefetch_value<T>(value: &T) {
    let start = (&raw const *value).cast::<u8>();
    (0..size_of::<T>()).step_by(64).for_each(|at| prefetch_line(start.wrapping_add(at)));
}

#[inline]
pub(crate) fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is no memory access in the language's sense and never faults, whatever the
    // address; SSE is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The size of a page, in bytes.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf reads a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A set of one NUMA node as mbind(2) takes it, and the number of its bits plus one: the kernel subtracts one.
fn node_mask(node: usize) -> (Vec<libc::c_ulong>, libc::c_ulong) {
    let word_bits = libc::c_ulong::BITS as usize;
    let mut mask = vec![0; node / word_bits + 1];
    mask[node / word_bits] = 1 << (node % word_bits);
    let bits = (mask.len() * word_bits + 1) as libc::c_ulong;
    (mask, bits)
}

fn map(bytes: usize, flags: libc::c_int) -> Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new anonymous mapping touches no memory that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    let failed = || Error::last(format!("map {} MiB of memory", bytes >> 20));
    if start == libc::MAP_FAILED { Err(failed()) } else { NonNull::new(start.cast()).ok_or_else(failed) }
}

fn unmap(start: NonNull<u8>, bytes: usize) {
    if bytes > 0 {
        // SAFETY: callers pass ranges of a mapping that they own and do not use afterwards.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_writable() {
        for bytes in [1, 4096, HUGE_BYTES - 1, HUGE_BYTES, 5 << 20] {
            let mut buffer = Buffer::new(bytes).unwrap();
            assert!(buffer.len() >= bytes);
            let align = if buffer.len() >= HUGE_BYTES { HUGE_BYTES } else { page_bytes() };
            assert_eq!(buffer.as_ptr() as usize % align, 0);
            buffer.populate().unwrap();
            assert!(buffer.iter().all(|byte| *byte == 0));
            let last = buffer.len() - 1;
            buffer[last] = 7;
            assert_eq!(buffer[last], 7);
        }
    }

    /// Resident bytes of this mapping, by mincore(2).
    fn resident_bytes(buffer: &Buffer) -> usize {
        let mut pages = vec![0u8; buffer.len() / page_bytes()];
        // SAFETY: the range is a mapping of the buffer, and the kernel writes a byte for each of its pages.
        let done = unsafe { libc::mincore(buffer.start.as_ptr().cast(), buffer.bytes, pages.as_mut_ptr()) };
        assert_eq!(done, 0, "mincore(2)");
        pages.iter().filter(|page| **page & 1 == 1).count() * page_bytes()
    }

    #[test]
    fn a_buffer_is_resident_once_it_is_touched_and_not_before() {
        for bytes in [64 << 10, 4 << 20] {
            let mut buffer = Buffer::with_huge_pages(bytes).unwrap();
            assert_eq!(buffer.len(), bytes);
            // Refused where the limit is smaller; the rest holds either way.
            let locked = buffer.lock();
            if !buffer.is_hugetlb {
                assert_eq!(resident_bytes(&buffer), 0, "a lock faults nothing in: {locked:?}");
            }
            buffer.touch().unwrap();
            assert_eq!(resident_bytes(&buffer), bytes);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_set_of_nodes_has_one_bit() {
        assert_eq!(node_mask(0), (vec![1], 65));
        assert_eq!(node_mask(63), (vec![1 << 63], 65));
        assert_eq!(node_mask(70), (vec![0, 1 << 6], 129));
    }

    #[test]
    fn a_buffer_has_the_policy_of_its_node() {
        let buffer = Buffer::with_huge_pages(4 << 20).unwrap();
        match buffer.prefer_node(0) {
            // A kernel without nodes, or a container that forbids the call.
            Err(error) if matches!(error.errno.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                return crate::testing::skip("a_buffer_has_the_policy_of_its_node", &error.to_string());
            }
            done => done.unwrap(),
        }
        /// Asks for the policy at an address; linux/mempolicy.h.
        const MPOL_F_ADDR: libc::c_ulong = 1 << 1;
        let policy = |address: *mut u8| {
            let (mut policy, mut nodes) = (0 as libc::c_int, [0 as libc::c_ulong; 16]);
            let bits = (nodes.len() * 64 + 1) as libc::c_ulong;
            // SAFETY: the kernel writes a number and at most `bits` bits; it only looks the address up.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_get_mempolicy,
                    &raw mut policy,
                    nodes.as_mut_ptr(),
                    bits,
                    address,
                    MPOL_F_ADDR,
                )
            };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            (policy, nodes[0])
        };
        let start = buffer.start.as_ptr();
        // SAFETY: the last byte of the mapping.
        let last = unsafe { start.add(buffer.bytes - 1) };
        assert_eq!([policy(start), policy(last)], [(libc::MPOL_PREFERRED, 1); 2]);
        buffer.populate().unwrap();
        assert!(buffer.prefer_node(5000).is_err(), "there is no such node");
    }

    #[test]
    fn a_buffer_crosses_threads() {
        let mut buffer = Buffer::new(1).unwrap();
        buffer[0] = 42;
        assert_eq!(std::thread::spawn(move || buffer[0]).join().unwrap(), 42);
    }
}
