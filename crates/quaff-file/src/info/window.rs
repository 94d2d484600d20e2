//! A window that moves over a file: large pieces from the disk, small ones from the page cache, which stay in the
//! processor's cache while their headers are read.
//!
//! Read, not mapped: a file that is truncated meanwhile ends, where a mapping would end the process. It never decodes.

use quaff_os::disk::Reader;
use quaff_os::{Buffer, Result, Try};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes read at once from the page cache: with what was left over they fit a core's second-level cache.
pub(super) const CACHED_BYTES: usize = 256 << 10;
/// Bytes read at once from the disk.
const DISK_BYTES: usize = 4 << 20;
/// Room before a piece for the bytes left over from the previous one.
const ROOM_BYTES: usize = 256 << 10;
/// The same for units of up to 16 MiB, the longest that are decoded.
const LARGE_BYTES: usize = 17 << 20;
/// Offsets of reads are multiples of this, as O_DIRECT requires; more than any disk needs.
const ALIGN: u64 = 64 << 10;
/// Bytes of the file for which one check decides whether they are in the page cache.
const LOOK_BYTES: u64 = 8 << 20;

/// The bytes of a file from some offset on.
#[derive(Debug)]
pub(super) struct Window {
    reader: Reader,
    buffer: Buffer,
    /// Pieces are read to this offset in the buffer.
    room: usize,
    /// The current bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// File offset of the next piece.
    next: u64,
    /// Bytes of a piece in the page cache.
    cached_bytes: usize,
    is_cached: bool,
    /// `is_cached` is valid up to this offset.
    looked: u64,
}

impl Window {
    /// Opens a regular file.
    pub(super) fn open(path: &Path, cached_bytes: usize) -> Result<Self> {
        let reader = Reader::open(path)?;
        let buffer = Buffer::new(ROOM_BYTES + DISK_BYTES)?;
        let (start, end) = (ROOM_BYTES, ROOM_BYTES);
        let (next, is_cached, looked) = (0, true, 0);
        Ok(Self { reader, buffer, room: ROOM_BYTES, start, end, next, cached_bytes, is_cached, looked })
    }

    /// Returns device, inode and size of the file.
    pub(super) fn identity(&self) -> Result<(u64, u64, u64)> {
        let found = self.reader.file.metadata().trying(|| "read the metadata of an open file")?;
        Ok((found.dev(), found.ino(), found.len()))
    }

    /// Continues at `offset`, with a piece if there are bytes.
    pub(super) fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.next = offset - offset % ALIGN;
        (self.start, self.end, self.looked) = (self.room, self.room, 0);
        let skipped = (offset - self.next) as usize;
        while self.bytes().len() <= skipped && self.more(skipped + 1)? {}
        self.start = (self.start + skipped).min(self.end);
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Drops bytes from the front.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Reads until the window has `needed` bytes or a piece was read; `false` at the end of the file.
    pub(super) fn more(&mut self, needed: usize) -> io::Result<bool> {
        let left = self.end - self.start;
        if left > self.room || needed > self.buffer.len() - self.room {
            self.enlarge()?;
        }
        self.buffer.copy_within(self.start..self.end, self.room - left);
        (self.start, self.end) = (self.room - left, self.room);
        let usual = if self.is_cached()? { self.cached_bytes } else { DISK_BYTES };
        let lacks = needed.saturating_sub(left).next_multiple_of(ALIGN as usize);
        let piece = usual.max(lacks).min(self.buffer.len() - self.room);
        let piece = &mut self.buffer[self.room..self.room + piece];
        let bytes = loop {
            let read = match self.is_cached {
                true => self.reader.file.read_at(piece, self.next),
                false => self.reader.read_at(piece, self.next),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        self.end += bytes;
        self.next += bytes as u64;
        Ok(bytes > 0)
    }

    /// Returns whether the next piece is in the page cache.
    fn is_cached(&mut self) -> io::Result<bool> {
        if self.next >= self.looked {
            self.looked = self.next + LOOK_BYTES;
            let left = self.reader.file.metadata()?.len().saturating_sub(self.next);
            self.is_cached = self.reader.is_cached(self.next, left.min(LOOK_BYTES));
        }
        Ok(self.is_cached)
    }

    fn enlarge(&mut self) -> io::Result<()> {
        let mut buffer = Buffer::new(2 * LARGE_BYTES).map_err(io::Error::other)?;
        let left = self.end - self.start;
        buffer[LARGE_BYTES - left..LARGE_BYTES].copy_from_slice(&self.buffer[self.start..self.end]);
        (self.buffer, self.room) = (buffer, LARGE_BYTES);
        (self.start, self.end) = (LARGE_BYTES - left, LARGE_BYTES);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i * 7 % 251) as u8).collect()
    }

    #[test]
    fn bytes_are_those_of_the_file_wherever_it_begins() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = pattern(1_000_003);
        file.write_all(&content).unwrap();
        for cold in [false, true] {
            if cold {
                file.as_file().sync_all().unwrap();
                let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
                nix::fcntl::posix_fadvise(file.as_file(), 0, 0, advice).unwrap();
            }
            for offset in [0, 1, 65_535, 65_536, 300_000, 1_000_002, 1_000_003, 2_000_000] {
                let mut window = Window::open(file.path(), 64 << 10).unwrap();
                window.seek(offset).unwrap();
                let mut all = Vec::new();
                for taken in (1..).map(|i| i * 7919 % 100_000) {
                    let there = window.bytes().len().min(taken);
                    all.extend_from_slice(&window.bytes()[..there]);
                    window.consume(there);
                    if window.bytes().is_empty() && !window.more(1).unwrap() {
                        break;
                    }
                }
                assert!(all == content[content.len().min(offset as usize)..], "{offset} {cold}");
            }
        }
    }

    #[test]
    fn a_long_unit_is_read_as_a_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = pattern(18 << 20);
        file.write_all(&content).unwrap();
        let mut window = Window::open(file.path(), 64 << 10).unwrap();
        window.seek(100_001).unwrap();
        while window.bytes().len() < 16 << 20 {
            assert!(window.more(16 << 20).unwrap());
        }
        assert!(window.bytes() == &content[100_001..100_001 + window.bytes().len()]);
        file.as_file().set_len(1000).unwrap();
        assert!(!window.more(17 << 20).unwrap(), "a truncated file ends");
    }
}
