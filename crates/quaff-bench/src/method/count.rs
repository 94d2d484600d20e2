//! The files of a capturer: their growth, and the frames in them as quaff reads them.

use crate::{Error, Result};
use quaff_file::read::CaptureFile;
use quaff_file::verify::{self, Options};
use quaff_lab::tool::Format;
use quaff_lab::topology::{Stage, Watch, pause};
use quaff_os::Try;
use quaff_wire::decode::Item;
use quaff_wire::flow::FlowCount;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Size of a Stenographer block, bytes.
const BLOCK_BYTES: u64 = 1 << 20;
/// `TPACKET_V3`, the version in a block header (struct tpacket_block_desc, linux/if_packet.h).
const BLOCK_VERSION: u32 = 2;

/// Depth to which a capturer's directories are searched.
const DEPTH_MAX: usize = 4;
/// Maximum number of files that are counted.
const FILES_MAX: usize = 10_000;

/// The contents of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Frames with a probe header, without duplicates; all frames in blocks, or if frames have no probe headers.
    pub(super) frames: u64,
    /// Size of all files, bytes.
    pub(super) bytes: u64,
    /// True if the loss counters in the files equal the missing frames; `None` without such counters.
    pub(super) accounted: Option<bool>,
}

/// The growth of all files in a directory.
#[derive(Debug)]
pub(super) struct Growth {
    dir: PathBuf,
    /// Size at the last look, bytes.
    pub(super) bytes: u64,
    first: Option<Instant>,
    last: Instant,
}

impl Growth {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            bytes: size(&files(dir).unwrap_or_default()),
            first: None,
            last: Instant::now(),
        }
    }

    pub(super) fn look(&mut self) {
        let bytes = size(&files(&self.dir).unwrap_or_default());
        if bytes != self.bytes {
            self.bytes = bytes;
            self.last = Instant::now();
            self.first.get_or_insert(self.last);
        }
    }

    /// Time since the last change.
    pub(super) fn still(&self) -> Duration {
        self.last.elapsed()
    }

    /// Time from the first to the last change.
    pub(super) fn span(&self) -> Duration {
        self.first.map_or(Duration::ZERO, |first| self.last - first)
    }
}

/// Total size of the files, bytes; files that were removed count as 0.
fn size(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

/// Counts the frames of all `files`.
///
/// # Errors
/// A file cannot be read to its end.
pub(super) fn count(
    files: &[PathBuf],
    format: Format,
    is_stamped: bool,
    watch: Watch<'_>,
) -> Result<Counted> {
    let (frames, accounted) = match format {
        Format::Capture => in_captures(files, is_stamped, watch)?,
        Format::Blocks => (files.iter().map(|file| in_blocks(file)).sum::<Result<u64>>()?, None),
    };
    Ok(Counted { frames, bytes: size(files), accounted })
}

/// Bytes of the frames in captures, without FCS, and number of flows, as senders count them.
///
/// # Errors
/// A file cannot be opened. A damaged one counts up to the damage, like its frames.
pub(super) fn contents(files: &[PathBuf], watch: Watch<'_>) -> Result<(u64, u64)> {
    let (mut bytes, mut flows) = (0, FlowCount::default());
    let mut add = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            bytes += u64::from(frame.wire_len);
            flows.add(frame.data, 0);
        }
    };
    for path in files {
        let mut file = CaptureFile::open(path)?;
        while file.pull(&mut add).unwrap_or(false) {
            if !watch(Stage::Counting) {
                return Err(Error::Interrupted);
            }
        }
    }
    Ok((bytes, flows.counts.unique))
}

/// All regular files below `dir`, sorted by name. Links are not followed; other kinds, such as a FIFO, are omitted.
pub(super) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    add_files(dir, DEPTH_MAX, &mut found)?;
    found.sort();
    Ok(found)
}

fn add_files(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() && found.len() < FILES_MAX {
            found.push(entry.path());
        } else if kind.is_dir() && depth > 0 {
            add_files(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

fn in_captures(files: &[PathBuf], is_stamped: bool, watch: Watch<'_>) -> Result<(u64, Option<bool>)> {
    let files = files.to_vec();
    // The reading thread cannot be stopped; after an interruption it ends by itself.
    let reading = quaff_os::spawn("quaff-count", move || verify::verify(&files, Options::default(), |_| {}))?;
    pause(watch, Stage::Counting)?;
    while !reading.is_finished() {
        pause(watch, Stage::Counting)?;
    }
    let defect =
        |_| Error::Tool { name: "the file".into(), what: "a defect of quaff: the reader panicked".into() };
    let report = reading.join().map_err(defect)?;
    match report.outcome.error {
        // A writer stopped within a record leaves an incomplete file, whose complete frames count.
        Some(error) if report.outcome.unreadable => Err(Error::Tool { name: "the file".into(), what: error }),
        _ => {
            let agrees = |ledger: verify::Ledger| ledger.consistent && ledger.unexplained == 0;
            let frames = if is_stamped { report.outcome.received } else { report.outcome.frames };
            Ok((frames, report.outcome.ledger.map(agrees)))
        }
    }
}

/// Sums the packet counts of the block headers.
fn in_blocks(path: &Path) -> Result<u64> {
    let tried = || format!("read {}", path.display());
    let file = File::open(path).trying(tried)?;
    let size = file.metadata().trying(tried)?.len();
    let (mut frames, mut head) = (0, [0; 16]);
    for offset in (0..size).step_by(BLOCK_BYTES as usize) {
        file.read_exact_at(&mut head, offset).trying(tried)?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (version, packets) = (word(0), word(12));
        // A reserved block that was never written is all zeros.
        if version != BLOCK_VERSION && (version, packets) != (0, 0) {
            let what = format!("no block at offset {offset}: version {version}");
            return Err(Error::Tool { name: path.display().to_string(), what });
        }
        frames += u64::from(packets);
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_and_timed() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut growth = Growth::new(dir.path());
        assert_eq!(growth.span(), Duration::ZERO);
        fs::write(dir.path().join("a"), "1").expect("written");
        growth.look();
        std::thread::sleep(Duration::from_millis(30));
        growth.look();
        assert!(growth.still() >= Duration::from_millis(30));
        fs::write(dir.path().join("a"), "12").expect("written");
        growth.look();
        assert!(growth.span() >= Duration::from_millis(30));
        assert!(growth.still() < Duration::from_millis(30));
    }

    #[test]
    fn blocks_are_counted_by_their_heads() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("PKT0")).expect("made");
        let path = dir.path().join("PKT0/.1");
        let mut bytes = vec![0; 3 << 20];
        for (block, packets) in [(0, 661u32), (1, 7)] {
            let at = block << 20;
            bytes[at..at + 4].copy_from_slice(&BLOCK_VERSION.to_ne_bytes());
            bytes[at + 12..at + 16].copy_from_slice(&packets.to_ne_bytes());
        }
        fs::write(&path, &bytes).expect("written");
        let files = files(dir.path()).expect("listed");
        let counted = count(&files, Format::Blocks, true, &mut |_| true).expect("counted");
        assert_eq!(counted, Counted { frames: 668, bytes: 3 << 20, accounted: None });

        bytes[1 << 20] = 9;
        fs::write(&path, &bytes).expect("written");
        let error = count(&files, Format::Blocks, true, &mut |_| true).expect_err("no version 9");
        assert!(error.to_string().contains("offset 1048576"), "{error}");
    }

    #[test]
    fn bytes_on_the_wire_and_flows_are_counted_up_to_damage() {
        // libpcap format: magic, version 2.4, snaplen, Ethernet; UDP frames, cut to 42 of 100 bytes.
        let words = |words: [u32; 6]| words.into_iter().flat_map(u32::to_ne_bytes).collect::<Vec<u8>>();
        let mut bytes = words([0xa1b2_c3d4, 0x0004_0002, 0, 0, 42, 1]);
        for port in [5u16, 5, 6] {
            bytes.extend([1u32, 0, 42, 100].into_iter().flat_map(u32::to_ne_bytes));
            bytes.extend([0; 12]);
            bytes.extend([8, 0, 0x45, 0, 0, 86, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes.extend([port, 53, 66, 0].into_iter().flat_map(u16::to_be_bytes));
        }
        let dir = tempfile::tempdir().expect("a directory");
        let [whole, torn] = ["whole", "torn"].map(|name| dir.path().join(name));
        fs::write(&whole, &bytes).expect("written");
        fs::write(&torn, &bytes[..bytes.len() - 1]).expect("written");
        let counted = |files: &[PathBuf]| contents(files, &mut |_| true).expect("counted");
        assert_eq!(counted(std::slice::from_ref(&whole)), (300, 2));
        assert_eq!(counted(&[torn]), (200, 1));
        let stopped = contents(&[whole], &mut |_| false);
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    }

    #[test]
    fn only_files_are_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b/c/d/e/f")).expect("made");
        for name in ["1", "a/2", "a/b/c/d/e/f/too-deep"] {
            fs::write(path(name), "x").expect("written");
        }
        std::os::unix::fs::symlink("/dev/zero", path("zero")).expect("linked");
        std::os::unix::fs::symlink(".", path("loop")).expect("linked");
        let made = std::process::Command::new("mkfifo").arg(path("fifo")).status().expect("mkfifo runs");
        assert!(made.success());
        assert_eq!(files(dir.path()).expect("listed"), [path("1"), path("a/2")]);
    }

    #[test]
    fn an_interruption_does_not_wait_for_a_reading() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("capture"), "not one").expect("written");
        let files = files(dir.path()).expect("listed");
        let stopped = count(&files, Format::Capture, true, &mut |_| false);
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    }

    #[test]
    fn a_file_that_is_no_capture_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("capture"), "not one").expect("written");
        let files = files(dir.path()).expect("listed");
        assert!(count(&files, Format::Capture, true, &mut |_| true).is_err());
    }
}
