//! What to write where, as plain data: format, output, rotation and retention.

use crate::{Error, Result};
use std::path::PathBuf;
use std::time::Duration;

/// The smallest chunk: it holds the largest packet.
pub const CHUNK_BYTES_MIN: usize = 512 << 10;
/// The smallest file of a rotation.
const ROTATE_BYTES_MIN: u64 = 2 << 20;
/// A file of a rotation holds at least so many chunks, so that it ends close to its size.
const CHUNKS_PER_FILE: u64 = 16;

/// The format of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// pcapng: several interfaces, ns, direction, and the ledger inside.
    #[default]
    Pcapng,
    /// pcap with ns.
    Pcap,
    /// pcap with µs, for old readers.
    PcapUs,
}

impl Format {
    /// The ending of its files' names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::Pcap | Self::PcapUs => "pcap",
        }
    }
}

/// Where a capture goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// `-w FILE`, in place.
    File(PathBuf),
    /// `-w -`.
    Stdout,
    /// `--dir DIR`: a file after another.
    Dir(DirPlan),
}

/// A folder of files.
#[derive(Debug, Clone, PartialEq)]
pub struct DirPlan {
    /// The folder; it must exist.
    pub dir: PathBuf,
    /// strftime template of the names, without number and ending.
    pub name: String,
    /// A file gets no larger than this, bytes.
    pub rotate_bytes: Option<u64>,
    /// A file covers no more than this, aligned to the clock.
    pub rotate_time: Option<Duration>,
    /// What may stay.
    pub retention: Retention,
    /// Whether the numbers in names begin anew after as many files as may stay.
    pub wrap: bool,
    /// What to run after each finished file, in the shell's language; its path follows.
    pub exec: Option<String>,
}

/// How much of a folder of files stays. The oldest go first, those of earlier runs among them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Retention {
    /// At most so many files, the one being written among them.
    pub files: Option<u64>,
    /// At most so many bytes.
    pub bytes: Option<u64>,
    /// At least so many percent of the file system stay free.
    pub free_percent: Option<f64>,
}

impl Retention {
    /// Whether anything may be removed at all.
    pub fn is_any(&self) -> bool {
        self.files.is_some() || self.bytes.is_some() || self.free_percent.is_some()
    }
}

impl DirPlan {
    /// Checks the rules of the folder; returns the chunk size that goes with them, bytes.
    pub fn validate(&mut self, chunk_bytes: usize) -> Result<usize> {
        let dir = self;
        let refuse = |words: &str| Err(Error::Plan(words.to_owned()));
        if dir.rotate_time.is_some_and(|time| time < Duration::from_secs(1)) {
            return refuse("--rotate-time is 1s at least");
        }
        if dir.retention.files.is_some_and(|files| files < 2) {
            return refuse("--keep-files is 2 at least: the file being written is one of them");
        }
        if dir.wrap && dir.retention.files.is_none() {
            return refuse("--wrap begins anew after as many files as --keep-files says: give both");
        }
        if dir.retention.free_percent.is_some_and(|percent| !(0.0..100.0).contains(&percent)) {
            return refuse("--keep-free is a percentage below 100");
        }
        if dir.rotate_bytes.is_none() && dir.rotate_time.is_none() {
            // Retention needs files that can go: an eighth of what may stay, or 1 GiB.
            dir.rotate_bytes =
                Some(dir.retention.bytes.map_or(1 << 30, |bytes| (bytes / 8).max(ROTATE_BYTES_MIN)));
        }
        if let (None, Some(bytes)) = (dir.rotate_bytes, dir.retention.bytes) {
            // Files that end by the clock alone could be larger than what may stay.
            dir.rotate_bytes = Some((bytes / 2).max(ROTATE_BYTES_MIN));
        }
        if let (Some(keep), Some(rotate)) = (dir.retention.bytes, dir.rotate_bytes)
            && keep < 2 * rotate
        {
            return refuse("--keep-size must hold two files at least: raise it, or lower --rotate-size");
        }
        let rotate = dir.rotate_bytes.unwrap_or(u64::MAX);
        if rotate < ROTATE_BYTES_MIN {
            return refuse("--rotate-size is 2M at least");
        }
        let most = (rotate / CHUNKS_PER_FILE).min(chunk_bytes as u64) as usize;
        Ok((most / CHUNK_BYTES_MIN * CHUNK_BYTES_MIN).max(CHUNK_BYTES_MIN))
    }
}
