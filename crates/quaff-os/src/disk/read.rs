//! Reads files through the page cache where it has them, else with O_DIRECT.
//!
//! Measured with a 4 GB file on a virtio disk: in the page cache 13 GB/s buffered and 2.2 GB/s with
//! O_DIRECT; otherwise 0.4 GB/s buffered and 1.1 to 2.2 GB/s with O_DIRECT. So each read chooses anew, and
//! a long file that is read once does not evict other pages.

use crate::mem::page_bytes;
use crate::{Result, Try};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Number of cachestat(2), Linux 6.5; the same on every architecture of the common table.
const SYS_CACHESTAT: libc::c_long = 451;

/// A file that is read in pieces, each buffered or direct, whichever is faster.
#[derive(Debug)]
pub struct Reader {
    /// Opened without O_DIRECT.
    pub file: File,
    /// The same file with O_DIRECT; `None` where that is not supported or has failed.
    direct: Option<File>,
    direct_align: usize,
}

impl Reader {
    /// Opens a regular file for reading.
    pub fn open(path: &Path) -> Result<Self> {
        let file = super::open_found(path).trying(|| format!("open {}", path.display()))?;
        let flags = OFlag::O_DIRECT | OFlag::O_NONBLOCK;
        let direct = File::options().read(true).custom_flags(flags.bits()).open(path).ok();
        let known = direct.as_ref().and_then(super::direct_align);
        let direct_align = known.unwrap_or(1);
        Ok(Self { file, direct: direct.filter(|_| known.is_some()), direct_align })
    }

    /// Reads at `offset` into `piece`, which should begin at a page boundary, as a [`crate::mem::Buffer`] does.
    /// Returns 0 at the end of the file.
    pub fn read_at(&mut self, piece: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.wants_direct(piece, offset)
            && let Some(file) = &self.direct
        {
            match file.read_at(piece, offset) {
                Ok(bytes) => return Ok(bytes),
                // The buffered read below shows whether the file or only O_DIRECT failed.
                Err(_) => self.direct = None,
            }
        }
        self.file.read_at(piece, offset)
    }

    /// Returns whether at least half of this part of the file is in the page cache, or it cannot be read otherwise.
    /// Then small pieces read from [`Reader::file`] are the fastest.
    pub fn is_cached(&self, offset: u64, bytes: u64) -> bool {
        self.direct.is_none() || self.is_in_memory(offset, bytes)
    }

    /// Returns whether at least half of this part of the file is known to be in the page cache.
    pub fn is_in_memory(&self, offset: u64, bytes: u64) -> bool {
        // Of the end of the file, half of what is there.
        let bytes = self.bytes_left(offset).min(bytes);
        cached_bytes(&self.file, offset, bytes).is_some_and(|cached| cached >= bytes / 2)
    }

    fn wants_direct(&self, piece: &[u8], offset: u64) -> bool {
        let is_aligned =
            offset.is_multiple_of(self.direct_align as u64) && piece.len().is_multiple_of(self.direct_align);
        if self.direct.is_none() || !is_aligned {
            return false;
        }
        let bytes = self.bytes_left(offset).min(piece.len() as u64);
        cached_bytes(&self.file, offset, bytes).is_none_or(|cached| cached < bytes / 2)
    }

    /// Bytes from `offset` to the end of the file.
    fn bytes_left(&self, offset: u64) -> u64 {
        self.file.metadata().map_or(u64::MAX, |file| file.len().saturating_sub(offset))
    }
}

/// `struct cachestat_range` (linux/mman.h).
#[repr(C)]
struct Range {
    off: u64,
    len: u64,
}

/// `struct cachestat` (linux/mman.h).
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    nr_cache: u64,
    nr_dirty: u64,
    nr_writeback: u64,
    nr_evicted: u64,
    nr_recently_evicted: u64,
}

/// Bytes of this part of the file in the page cache, in whole pages; `None` before Linux 6.5, or for another
/// user's file.
fn cached_bytes(file: &impl AsFd, offset: u64, bytes: u64) -> Option<u64> {
    let (range, mut found) = (Range { off: offset, len: bytes }, Cachestat::default());
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one structure and writes the other; both have its layout and outlive the
    // call.
    let done = unsafe { libc::syscall(SYS_CACHESTAT, fd, &raw const range, &raw mut found, 0) };
    (done == 0).then(|| found.nr_cache * page_bytes() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Buffer;
    use std::io::Write;

    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i % 251) as u8).collect()
    }

    fn read_all(reader: &mut Reader, buffer: &mut Buffer) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let bytes = reader.read_at(buffer, all.len() as u64).unwrap();
            if bytes == 0 {
                return all;
            }
            all.extend_from_slice(&buffer[..bytes]);
        }
    }

    #[test]
    fn buffered_and_direct_reads_agree() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content = pattern(300_001);
        file.write_all(&content).unwrap();
        file.as_file().sync_all().unwrap();
        let mut buffer = Buffer::new(1 << 16).unwrap();
        let mut reader = Reader::open(file.path()).unwrap();
        assert!(read_all(&mut reader, &mut buffer) == content);
        // `None`: a kernel before 6.5.
        assert_eq!(reader.is_in_memory(0, 300_000), cached_bytes(&reader.file, 0, 300_000).is_some());
        // Empty the page cache, so that the read is direct where possible.
        nix::fcntl::posix_fadvise(file.as_file(), 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .unwrap();
        assert!(read_all(&mut reader, &mut buffer) == content);
        reader.direct = None;
        assert!(read_all(&mut reader, &mut buffer) == content);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Reader::open(Path::new("/nowhere/at all")).unwrap_err();
        assert!(error.to_string().starts_with("cannot open /nowhere/at all: No such file"), "{error}");
    }

    #[test]
    fn written_bytes_are_in_the_page_cache() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        // `None`: a kernel before 6.5.
        let cached = cached_bytes(&file, 0, 100_000);
        assert!(cached.is_none_or(|bytes| (100_000..=200_000).contains(&bytes)), "{cached:?}");
        assert!(cached_bytes(&file, 1 << 30, 4096).is_none_or(|bytes| bytes == 0));
    }
}
