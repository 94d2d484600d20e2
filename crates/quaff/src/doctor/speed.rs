//! Test writes: measures the write rate of a folder with the writes of a capture that has a queue, large aligned blocks
//! that bypass the page cache where possible, in order. The file is removed.

use super::readings::WriteRate;
use crate::plan::CHUNK_BYTES;
use quaff_os::disk::{Disk, Write, direct_align, open_unnamed, preallocate, sync_all};
use quaff_os::{Buffer, Errno, Wakeup};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Blocks in circulation: two vectored writes, and one block to spare.
const BUFFERS: usize = 17;
/// Blocks preallocated at a time, as by a capture.
const AHEAD: u64 = 16;

/// Writes to `dir` as a capture does, for `time` and up to `bytes_max`. Returns the bytes written and the time in s.
///
/// # Errors
/// No file can be created in `dir`, or a write fails.
pub fn write_rate(dir: &Path, time: Duration, bytes_max: u64) -> io::Result<(u64, f64)> {
    TestFile::open(dir)?.write(time, bytes_max).map(|rate| (rate.bytes, rate.seconds))
}

/// A file that is removed when it is closed.
pub(super) struct TestFile {
    file: Arc<File>,
    /// Alignment of direct writes, bytes; `None` without O_DIRECT.
    pub(super) direct_align: Option<usize>,
}

impl TestFile {
    /// Creates the file in `dir`.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let file = match open_unnamed(dir, true) {
            Ok(file) => file,
            Err(error) if error.raw_os_error().is_some_and(is_refusal) => {
                open_unnamed(dir, false).or_else(|_| open_named(dir))?
            }
            Err(error) => return Err(error),
        };
        let direct_align = direct_align(&file);
        Ok(Self { file: Arc::new(file), direct_align })
    }

    /// Writes for `time` and up to `bytes_max`.
    pub(super) fn write(self, time: Duration, bytes_max: u64) -> io::Result<WriteRate> {
        let wakeup = Wakeup::new().map_err(|error| error.errno)?;
        let mut buffers = buffers()?;
        let mut disk = Disk::new(&wakeup);
        let (mut offset, mut written) = (0, 0);
        let started = Instant::now();
        loop {
            let has_time = started.elapsed() < time && offset + CHUNK_BYTES as u64 <= bytes_max;
            if has_time && let Some(buffer) = buffers.pop_front() {
                if offset % (AHEAD * CHUNK_BYTES as u64) == 0 {
                    preallocate(&self.file, offset, AHEAD * CHUNK_BYTES as u64);
                }
                disk.submit(Write { file: self.file.clone(), buffer, len: CHUNK_BYTES, offset })?;
                offset += CHUNK_BYTES as u64;
            }
            while let Some(done) = disk.reap()? {
                done.result?;
                written += done.write.len as u64;
                buffers.push_back(done.write.buffer);
            }
            if disk.pending() == 0 && !has_time {
                break;
            }
            if disk.pending() > 0 && (buffers.is_empty() || !has_time) {
                wakeup.wait(Duration::from_millis(100)).map_err(|error| error.errno)?;
            }
        }
        if self.direct_align.is_none() {
            sync_all(&self.file)?;
        }
        Ok(WriteRate { bytes: written, seconds: started.elapsed().as_secs_f64() })
    }
}

/// Errors of file systems without O_DIRECT or O_TMPFILE.
fn is_refusal(errno: i32) -> bool {
    // ENOENT may also mean that the folder does not exist; then a file with a name fails too.
    matches!(Errno::from_raw(errno), Errno::EINVAL | Errno::EISDIR | Errno::EOPNOTSUPP | Errno::ENOENT)
}

/// Creates a file with a name and unlinks it, for file systems without O_TMPFILE.
fn open_named(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!(".quaff-doctor-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Buffers of incompressible bytes.
fn buffers() -> io::Result<VecDeque<Buffer>> {
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    let mut one = || {
        let mut buffer = Buffer::new(CHUNK_BYTES)?;
        buffer.populate()?;
        for bytes in buffer.chunks_exact_mut(8) {
            // Marsaglia's xorshift64.
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(buffer)
    };
    (0..BUFFERS).map(|_| one()).collect::<Result<_, quaff_os::Error>>().map_err(|error| error.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_counted_and_removed() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let most = 3 * CHUNK_BYTES as u64;
        let rate = TestFile::open(dir.path()).unwrap().write(Duration::from_secs(20), most + 17).unwrap();
        assert_eq!(rate.bytes, most);
        assert!(rate.seconds > 0.0 && rate.bytes_per_second() > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let rate = TestFile::open(dir.path()).unwrap().write(Duration::ZERO, most).unwrap();
        assert_eq!(rate.bytes, 0);
    }

    #[test]
    fn memory_has_no_direct_writes() {
        if let Ok(file) = TestFile::open(Path::new("/dev/shm")) {
            assert_eq!(file.direct_align, None);
        }
        assert!(TestFile::open(Path::new("/no/such/folder")).is_err());
    }
}
