//! The plan of an output as plain data: format, target, rotation and retention.

use crate::write::compress::Codec;
use crate::write::format::Format;
use crate::write::name_template::NameTemplate;
use crate::{Error, Result};
use quaff_os::disk::file_bytes_max;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Smallest chunk, bytes: it holds the largest packet.
pub(super) const CHUNK_BYTES_MIN: usize = 512 << 10;
/// Smallest `rotate_bytes`: tcpdump's `-C 2`. Files consist of whole chunks: three of the smallest ones are more than
/// three quarters of this size, and the single one that fits 1,000,000 bytes would be half of that.
pub const ROTATE_BYTES_MIN: u64 = 2_000_000;
/// Least number of chunks in a file of a rotation, so that it ends close to its size.
const CHUNKS_PER_FILE: u64 = 16;

/// Space for the last blocks of a file that ends at the longest length that is permitted, bytes.
const LAST_BLOCKS_BYTES: u64 = 512 << 10;

/// The largest size at which a file in `dir` may end: files may not be longer than the limit of the process
/// (RLIMIT_FSIZE) and that of the file system (4 GiB on FAT). `u64::MAX` without either.
pub(super) fn rotate_bytes_max(dir: &Path) -> u64 {
    match file_bytes_max(dir) {
        u64::MAX => u64::MAX,
        most => most.saturating_sub(LAST_BLOCKS_BYTES),
    }
}

/// Compression of an output, a frame for each chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressPlan {
    pub codec: Codec,
    /// Number of threads, at least one.
    pub threads: usize,
    /// Cores of the threads: one each if there are as many, otherwise all of them for each; empty for those of the
    /// thread that starts them.
    pub cores: Vec<usize>,
    /// Bytes of buffers that may wait for the threads before chunks are stored uncompressed; `None` if the input can
    /// wait.
    pub backlog_bytes: Option<u64>,
}

impl CompressPlan {
    /// One thread on any core.
    pub fn new(codec: Codec) -> Self {
        Self { codec, threads: 1, cores: Vec::new(), backlog_bytes: None }
    }

    pub(super) fn cores_of(&self, thread: usize) -> Vec<usize> {
        match self.cores.get(thread).filter(|_| self.cores.len() == self.threads) {
            Some(core) => vec![*core],
            None => self.cores.clone(),
        }
    }
}

/// The target of a capture.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// One file, pipe or device, written in place.
    File(PathBuf),
    Stdout,
    /// A program that runs already.
    Pipe(Pipe),
    /// A folder of rotated files.
    Dir(DirPlan),
    /// Several of them, each with a writer of its own; they differ in `dir` alone.
    Dirs(Vec<DirPlan>),
}

impl Output {
    /// Returns the folders; none for other outputs.
    pub fn folders(&self) -> &[DirPlan] {
        match self {
            Self::Dir(dir) => std::slice::from_ref(dir),
            Self::Dirs(dirs) => dirs,
            _ => &[],
        }
    }

    /// Returns the folders, mutable; none for other outputs.
    pub fn folders_mut(&mut self) -> &mut [DirPlan] {
        match self {
            Self::Dir(dir) => std::slice::from_mut(dir),
            Self::Dirs(dirs) => dirs,
            _ => &mut [],
        }
    }
}

/// The pipe to a program that is started before the run. Clones share it, and the output takes it once: the program
/// reads its end when the output has ended.
#[derive(Debug, Clone)]
pub struct Pipe {
    /// The program, for messages.
    pub program: &'static str,
    end: Arc<Mutex<Option<File>>>,
}

impl Pipe {
    /// A pipe to `program`, whose end is set later.
    pub fn to(program: &'static str) -> Self {
        Self { program, end: Arc::default() }
    }

    /// Sets the end that is written to.
    pub fn set(&self, end: File) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    pub(super) fn take(&self) -> Result<File> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        end.ok_or_else(|| Error::Defect(format!("there is no pipe to {}", self.program)))
    }
}

impl PartialEq for Pipe {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.end, &other.end)
    }
}

/// A folder of rotated files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirPlan {
    /// The folder; it must exist.
    pub dir: PathBuf,
    /// strftime template of the names; see [`super::name_template`].
    pub name: String,
    /// Names and the boundaries of `rotate_time` are in UTC instead of local time.
    pub utc: bool,
    /// Largest size of a file, bytes. `None` with a retention rule: a quarter of the space that the rule leaves.
    pub rotate_bytes: Option<u64>,
    /// Longest time that a file covers, aligned to midnight.
    pub rotate_time: Option<Duration>,
    /// `rotate_time` is counted from the start of the capture, not aligned to midnight.
    pub rotates_from_start: bool,
    /// Most packets of a file: as many, if nothing else ends it.
    pub rotate_packets: Option<u64>,
    pub retention: Retention,
    /// Restart the numbers in names at 0 after `retention.files` files.
    pub wrap: bool,
    /// Shell command to run for each finished file; the file's path is appended.
    pub exec: Option<String>,
}

/// The longest time that a file covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileTime {
    pub(super) time: Duration,
    /// It is counted from the start of the capture, not aligned to midnight.
    pub(super) is_from_start: bool,
}

/// Limits at which an output ends. Later packets are not written, and not lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileLimit {
    /// Largest number of files, in a folder.
    pub files: Option<u64>,
    /// Largest size of all files of the run together, bytes.
    pub bytes: Option<u64>,
}

impl FileLimit {
    /// Returns `true` if any limit is set.
    pub fn is_any(&self) -> bool {
        self.files.is_some() || self.bytes.is_some()
    }
}

/// Limits on the files of a folder. The oldest are removed first, including those of earlier runs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Retention {
    /// Largest number of files, including the one being written.
    pub files: Option<u64>,
    /// Largest size of all files, bytes.
    pub bytes: Option<u64>,
    /// Least free space of the file system, percent.
    pub free_percent: Option<f64>,
}

impl Retention {
    /// Returns `true` if any limit is set.
    pub fn is_any(&self) -> bool {
        self.files.is_some() || self.bytes.is_some() || self.free_percent.is_some()
    }
}

impl DirPlan {
    /// Returns the time of a file.
    pub(super) fn file_time(&self) -> Option<FileTime> {
        Some(FileTime { time: self.rotate_time?, is_from_start: self.rotates_from_start })
    }

    /// Returns the template of its files' names, in the time zone of the plan.
    pub(super) fn name_template(&self, extension: &str) -> Result<NameTemplate> {
        let names = NameTemplate::new(&self.name, extension)?;
        Ok(if self.utc { names.in_utc() } else { names })
    }

    /// Checks the plan and fills in the size of files; returns the chunk size for it, bytes.
    pub fn validate(&mut self, chunk_bytes: usize) -> Result<usize> {
        let dir = self;
        NameTemplate::new(&dir.name, Format::default().extension())?;
        let refuse = |words: &str| Err(Error::Plan(words.to_owned()));
        if dir.rotate_time.is_some_and(|time| time < Duration::from_secs(1)) {
            return refuse("`rotate-time` must be at least 1s");
        }
        if dir.retention.files.is_some_and(|files| files < 2) {
            return refuse("`keep-files` must be at least 2: the file being written counts");
        }
        if dir.wrap && dir.retention.files.is_none() {
            return refuse("`wrap` needs `keep-files`: numbers restart after that many files");
        }
        if dir.retention.free_percent.is_some_and(|percent| !(0.0..100.0).contains(&percent)) {
            return refuse("`keep-free` must be a percentage below 100");
        }
        if dir.rotate_packets == Some(0) {
            return refuse("`rotate-packets` must be at least 1");
        }
        if dir.rotate_packets.is_some() && dir.rotate_time.is_some() {
            return refuse("a file ends by `rotate-packets` or by `rotate-time`: leave one of them out");
        }
        if dir.rotate_bytes.is_none() && dir.rotate_time.is_none() && dir.rotate_packets.is_none() {
            // Retention needs files that can be removed: an eighth of `keep-size`, or 1 GiB.
            dir.rotate_bytes =
                Some(dir.retention.bytes.map_or(1 << 30, |bytes| (bytes / 8).max(ROTATE_BYTES_MIN)));
        }
        if let (None, Some(bytes)) = (dir.rotate_bytes, dir.retention.bytes) {
            // Files that end by time or by packets alone could exceed `keep-size`.
            dir.rotate_bytes = Some((bytes / 2).max(ROTATE_BYTES_MIN));
        }
        if let (Some(keep), Some(rotate)) = (dir.retention.bytes, dir.rotate_bytes)
            && keep < 2 * rotate
        {
            return refuse("`keep-size` must hold at least two files: raise it, or lower `rotate-size`");
        }
        if dir.rotate_bytes.is_some_and(|bytes| bytes < ROTATE_BYTES_MIN) {
            return refuse("`rotate-size` must be at least 2M");
        }
        let most = rotate_bytes_max(&dir.dir);
        if most < ROTATE_BYTES_MIN {
            return refuse("a file may not have 3 MB here: raise the limit of the shell (ulimit -f)");
        }
        if most < u64::MAX {
            dir.rotate_bytes = Some(dir.rotate_bytes.unwrap_or(u64::MAX).min(most));
        }
        let rotate = dir.rotate_bytes.unwrap_or(u64::MAX);
        let most = (rotate / CHUNKS_PER_FILE).min(chunk_bytes as u64) as usize;
        Ok((most / CHUNK_BYTES_MIN * CHUNK_BYTES_MIN).max(CHUNK_BYTES_MIN))
    }
}
