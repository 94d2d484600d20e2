//! A ring buffer of a BPF program (BPF_MAP_TYPE_RINGBUF, Documentation/bpf/ringbuf.rst): the program reserves records
//! on any core, and one reader takes them in that order. It never interprets a record.
//!
//! The kernel maps the data twice in a row, so that a record is contiguous also where the ring begins again.

use super::by_id;
use super::sys::{self, MapCreate};
use crate::mem::page_bytes;
use crate::shared_memory::SharedMemory;
use crate::{Error, Result};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// linux/bpf.h: the record is not complete; the reader skips it; bytes before it.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTES: usize = 8;

/// The map, for a program.
#[derive(Debug)]
pub struct RingMap {
    fd: OwnedFd,
}

impl RingMap {
    /// Creates a ring of `bytes`, a power of two and at least a page. Needs Linux 5.8.
    ///
    /// # Errors
    /// EINVAL for another size; ENOMEM when the machine does not have that much.
    pub fn new(name: &str, bytes: usize) -> Result<Self> {
        let mut attr = MapCreate {
            map_type: sys::BPF_MAP_TYPE_RINGBUF,
            max_entries: bytes as u32,
            map_name: sys::name(name),
            ..MapCreate::default()
        };
        let tried = || format!("create a BPF ring buffer of {bytes} bytes");
        // SAFETY: these attributes hold no addresses, and BPF_MAP_CREATE returns a new descriptor.
        let fd = unsafe { sys::bpf_fd(sys::BPF_MAP_CREATE, &mut attr, tried) }?;
        Ok(Self { fd })
    }

    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// A record that was read and not released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Offset in [`RingReader::bytes`].
    pub start: usize,
    pub len: usize,
}

/// The only reader of a ring.
#[derive(Debug)]
pub struct RingReader {
    /// The position of the reader, which it writes.
    consumer: SharedMemory,
    /// The position of the program, then the data, twice.
    produced: SharedMemory,
    fd: OwnedFd,
    page_bytes: usize,
    ring_bytes: usize,
    /// Read so far; positions only grow.
    taken: u64,
    released: u64,
}

impl RingReader {
    /// Opens the ring of a loaded program by its ID. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// EINVAL when the map is no ring buffer; ENOENT when there is none.
    pub fn open(id: u32) -> Result<Self> {
        let (fd, info) = by_id::map(id)?;
        if info.map_type != sys::BPF_MAP_TYPE_RINGBUF {
            let tried = format!("read the BPF map with ID {id} as a ring buffer");
            return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EINVAL)));
        }
        let (page_bytes, ring_bytes) = (page_bytes(), info.max_entries as usize);
        let consumer = SharedMemory::map(&fd, page_bytes, 0, "the reader's page of a BPF ring buffer")?;
        let all_bytes = page_bytes + 2 * ring_bytes;
        let produced = SharedMemory::read_only(&fd, all_bytes, page_bytes as i64, "a BPF ring buffer")?;
        // Written by an earlier reader. Acquire: it has finished with all before.
        let taken = consumer.long_word(0).load(Ordering::Acquire);
        Ok(Self { consumer, produced, fd, page_bytes, ring_bytes, taken, released: taken })
    }

    /// The size of the ring, bytes.
    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// The data, twice. Only the bytes of records that were read and not released may be read: the kernel writes to the
    /// rest meanwhile.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has the page of positions and 2 * ring_bytes of data, and lives as long as `self`. The
        // kernel does not write to what was read until `release`, which takes `&mut self`.
        unsafe {
            let start = self.produced.start().add(self.page_bytes);
            std::slice::from_raw_parts(start.as_ptr(), 2 * self.ring_bytes)
        }
    }

    /// The next record that is complete; `None` without one.
    #[inline]
    pub fn read(&mut self) -> Option<Record> {
        loop {
            let (at, word) = self.header(self.taken)?;
            let len = (word & !DISCARDED) as usize;
            self.taken += stride(len);
            if word & DISCARDED == 0 {
                return Some(Record { start: at + HEADER_BYTES, len });
            }
        }
    }

    /// The number of records that wait.
    pub fn ready(&self) -> usize {
        let (mut at, mut count) = (self.taken, 0);
        while let Some((_, word)) = self.header(at) {
            at += stride((word & !DISCARDED) as usize);
            count += usize::from(word & DISCARDED == 0);
        }
        count
    }

    /// The offset of the record at a position, and its first word; `None` when it is not complete.
    #[inline]
    fn header(&self, position: u64) -> Option<(usize, u32)> {
        // Written by the program on any core. Acquire: the first word of each record before it is visible.
        let produced = self.produced.long_word(0).load(Ordering::Acquire);
        if position >= produced {
            return None;
        }
        let at = position as usize & (self.ring_bytes - 1);
        // Written by the program. Acquire: a record that is not busy is complete.
        let word = self.produced.word(self.page_bytes + at).load(Ordering::Acquire);
        (word & BUSY == 0).then_some((at, word))
    }

    /// Returns the room of all records that were read to the program.
    #[inline]
    pub fn release(&mut self) {
        self.released = self.taken;
        // Written here, read by the program. Release: it overwrites a record only after it was read.
        self.consumer.long_word(0).store(self.taken, Ordering::Release);
    }

    /// Bytes of records that were not released.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        // Written by the program. Relaxed: the number alone counts.
        (self.produced.long_word(0).load(Ordering::Relaxed) - self.released) as usize
    }
}

impl AsFd for RingReader {
    /// Readable while a record waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes from one record to the next.
fn stride(len: usize) -> u64 {
    (HEADER_BYTES + len).next_multiple_of(8) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const PAGE: usize = 4096;
    const RING: usize = 64;

    /// A ring whose program is a test, at a position from which it begins again after 32 bytes.
    fn reader() -> RingReader {
        let at = (RING / 2) as u64;
        let reader = RingReader {
            consumer: SharedMemory::anonymous(PAGE),
            produced: SharedMemory::anonymous(PAGE + 2 * RING),
            fd: File::open("/dev/null").expect("a descriptor").into(),
            page_bytes: PAGE,
            ring_bytes: RING,
            taken: at,
            released: at,
        };
        reader.produced.long_word(0).store(at, Ordering::Release);
        reader
    }

    impl RingReader {
        /// Reserves a record of `len` bytes; returns the offset of its first word.
        fn reserve(&self, len: u32) -> usize {
            let position = self.produced.long_word(0);
            let at = position.load(Ordering::Acquire);
            let word = PAGE + at as usize % RING;
            self.produced.word(word).store(len | BUSY, Ordering::Release);
            position.store(at + stride(len as usize), Ordering::Release);
            word
        }

        fn submit(&self, word: usize, flag: u32) {
            let of = self.produced.word(word);
            of.store(of.load(Ordering::Acquire) & !BUSY | flag, Ordering::Release);
        }
    }

    #[test]
    fn records_are_read_in_the_order_of_their_room_and_discarded_ones_are_skipped() {
        let mut reader = reader();
        let [first, second, third] = [10, 4, 10].map(|len| reader.reserve(len));
        reader.submit(third, 0);
        reader.submit(second, DISCARDED);
        assert_eq!((reader.read(), reader.ready()), (None, 0), "the first one is not complete");
        reader.submit(first, 0);
        assert_eq!(reader.ready(), 2);
        assert_eq!(reader.read(), Some(Record { start: 40, len: 10 }));
        // After 24 and 16 bytes the ring has begun again.
        assert_eq!(reader.read(), Some(Record { start: 16, len: 10 }));
        assert_eq!((reader.read(), reader.used_bytes()), (None, 64));
        reader.release();
        assert_eq!((reader.used_bytes(), reader.consumer.long_word(0).load(Ordering::Acquire)), (0, 96));
    }
}
