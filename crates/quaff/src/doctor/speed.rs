//! How fast a folder takes what is written to it, as a capture writes: large aligned blocks, past the page
//! cache where that is to be had, one after the other. Nothing of it stays.

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

/// Blocks that go round.
const SLABS: usize = 5;
/// Space is set aside for so many at a time, as a capture does.
const AHEAD: u64 = 16;

/// Measures how fast `dir` takes new blocks: as a capture writes them, for `time` and no more than `bytes_max`.
///
/// # Errors
/// No file can be made in `dir`, or writing fails.
pub fn write_rate(dir: &Path, time: Duration, bytes_max: u64) -> io::Result<WriteRate> {
    Trial::open(dir)?.write(time, bytes_max)
}

/// A file that goes when it is closed, and how direct writes to it are aligned.
pub(super) struct Trial {
    file: Arc<File>,
    /// `None` where they are not to be had.
    pub(super) direct_align: Option<usize>,
}

impl Trial {
    /// Makes it in `dir`.
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

    /// Writes for `time`, and no more than `bytes_max`.
    pub(super) fn write(self, time: Duration, bytes_max: u64) -> io::Result<WriteRate> {
        let wakeup = Wakeup::new().map_err(|error| error.errno)?;
        let mut buffers = buffers()?;
        let mut disk = Disk::new(&wakeup);
        let (mut offset, mut written) = (0, 0);
        let begun = Instant::now();
        loop {
            let goes_on = begun.elapsed() < time && offset + CHUNK_BYTES as u64 <= bytes_max;
            if goes_on && let Some(buffer) = buffers.pop_front() {
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
            if disk.pending() == 0 && !goes_on {
                break;
            }
            if disk.pending() > 0 && (buffers.is_empty() || !goes_on) {
                wakeup.wait(Duration::from_millis(100)).map_err(|error| error.errno)?;
            }
        }
        if self.direct_align.is_none() {
            sync_all(&self.file)?;
        }
        Ok(WriteRate { bytes: written, seconds: begun.elapsed().as_secs_f64() })
    }
}

/// What file systems say that have no O_DIRECT, or no files without a name.
fn is_refusal(errno: i32) -> bool {
    // ENOENT is also what a folder says that is not there; then a file with a name says it once more.
    matches!(Errno::from_raw(errno), Errno::EINVAL | Errno::EISDIR | Errno::EOPNOTSUPP | Errno::ENOENT)
}

/// Where files cannot be without a name, it has one for a moment.
fn open_named(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!(".quaff-doctor-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Full of bytes that no file system can make smaller.
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
    (0..SLABS).map(|_| one()).collect::<Result<_, quaff_os::Error>>().map_err(|error| error.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_counted_and_gone() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let most = 3 * CHUNK_BYTES as u64;
        let rate = Trial::open(dir.path()).unwrap().write(Duration::from_secs(20), most + 17).unwrap();
        assert_eq!(rate.bytes, most);
        assert!(rate.seconds > 0.0 && rate.bytes_per_second() > 0.0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let rate = Trial::open(dir.path()).unwrap().write(Duration::ZERO, most).unwrap();
        assert_eq!(rate.bytes, 0);
    }

    #[test]
    fn memory_has_no_direct_writes() {
        if let Ok(trial) = Trial::open(Path::new("/dev/shm")) {
            assert_eq!(trial.direct_align, None);
        }
        assert!(Trial::open(Path::new("/no/such/folder")).is_err());
    }
}
