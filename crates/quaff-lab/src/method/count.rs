//! How many of the frames that were sent are in the files, by our own reading of each of them.

use super::run::Watch;
use crate::rival::Format;
use crate::{Error, Result};
use quaff::verify::{self, Options};
use quaff_os::Try;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The size of a Stenographer's block, bytes.
const BLOCK_BYTES: u64 = 1 << 20;
/// `TPACKET_V3`, the version that a block says (struct tpacket_block_desc, linux/if_packet.h).
const BLOCK_VERSION: u32 = 2;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Different frames of those that were sent; for blocks and without stamps, all frames.
    pub(super) frames: u64,
    /// The size of all files, bytes.
    pub(super) bytes: u64,
    /// Whether what the files say of losses is just what is missing; `None` when they do not say.
    pub(super) accounted: Option<bool>,
}

/// Counts in all `files`: different stamped frames, or where they have no stamps all frames.
///
/// # Errors
/// A file that cannot be read, or not to its end.
pub(super) fn count(
    files: &[PathBuf],
    format: Format,
    is_stamped: bool,
    watch: Watch<'_>,
) -> Result<Counted> {
    let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum();
    let (frames, accounted) = match format {
        Format::Capture => in_captures(files, is_stamped, watch)?,
        Format::Blocks => (files.iter().map(|file| in_blocks(file)).sum::<Result<u64>>()?, None),
    };
    Ok(Counted { frames, bytes, accounted })
}

/// All files in `dir` and in the directories that are in it, by name.
pub(super) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

fn in_captures(files: &[PathBuf], is_stamped: bool, watch: Watch<'_>) -> Result<(u64, Option<bool>)> {
    let report = verify::verify(files, Options::default(), |_| {
        // A reader cannot be stopped; the next wait will see that it should have been.
        let _ = watch(super::Stage::Counting);
    });
    match report.error {
        // A writer that was stopped in the middle of a record leaves a file that is not quite whole,
        // and the frames before that are captured all the same.
        Some(error) if report.unreadable => Err(Error::Rival { name: "the file".into(), what: error }),
        _ => {
            let agrees = |ledger: verify::Ledger| ledger.consistent && ledger.unexplained == 0;
            Ok((if is_stamped { report.received } else { report.frames }, report.ledger.map(agrees)))
        }
    }
}

/// Sums up what the heads of the blocks say.
fn in_blocks(path: &Path) -> Result<u64> {
    let tried = || format!("read {}", path.display());
    let file = File::open(path).trying(tried)?;
    let size = file.metadata().trying(tried)?.len();
    let (mut frames, mut head) = (0, [0; 16]);
    for offset in (0..size).step_by(BLOCK_BYTES as usize) {
        file.read_exact_at(&mut head, offset).trying(tried)?;
        let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (version, packets) = (word(0), word(12));
        // A block that was set aside and never written is all zeros.
        if version != BLOCK_VERSION && (version, packets) != (0, 0) {
            let what = format!("no block at offset {offset}: version {version}");
            return Err(Error::Rival { name: path.display().to_string(), what });
        }
        frames += u64::from(packets);
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_file_that_is_no_capture_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("capture"), "not one").expect("written");
        let files = files(dir.path()).expect("listed");
        assert!(count(&files, Format::Capture, true, &mut |_| true).is_err());
    }
}
