//! Files that are being written: their names, and the frame that a compressed one may end inside. It decodes no packet.

use super::decompress::{Compression, is_whole_frame};
use quaff_wire::format::number_of;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most compressed bytes of a frame of a recorder: more than those of a chunk that is stored.
const FRAME_BYTES_MAX: u64 = 8 << 20;
/// Places that look like the beginning of a frame, at most: chance makes one or two.
const CANDIDATES_MAX: usize = 64;

/// The name that a file of a rotation gets when it is complete; `None` if it has that name.
pub fn finished(path: &Path) -> Option<PathBuf> {
    path.extension().is_some_and(|end| end == "part").then(|| path.with_extension(""))
}

/// Returns whether a path names nothing, or a link to nothing.
pub fn is_gone(path: &Path) -> bool {
    path.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The words on a file that was found in a folder and is gone, after its path.
pub const GONE: &str =
    "gone since its folder was listed, or a link to nothing; its packets are not in the result";

/// The note on a file that is being written, and ends with `bytes` of an unfinished packet or frame (`unit`).
pub(crate) fn unfinished_note(path: &Path, bytes: u64, unit: &str) -> String {
    format!(
        "{} is being written, or its recorder was killed: it is read up to its last whole packet, and ends with {} of an \
         unfinished {unit}",
        path.display(),
        number_of(bytes, "byte")
    )
}

/// The length of the frame of `file` that is at `place`, and ends with the bytes that were there; `None` if it cannot
/// be the last one of a recorder. A frame in which another one begins has a damaged length, and more may be lost than
/// that.
pub(super) fn unfinished_frame(file: &File, compression: Compression, place: Range<u64>) -> Option<u64> {
    let bytes = place.end.checked_sub(place.start).filter(|bytes| *bytes <= FRAME_BYTES_MAX)?;
    let mut frame = vec![0; bytes as usize];
    file.read_exact_at(&mut frame, place.start).ok()?;
    let is_last = !has_whole_frame(compression, frame.get(1..).unwrap_or_default());
    is_last.then_some(bytes)
}

/// Returns whether a whole frame is anywhere in `bytes`. So many beginnings of frames that all cannot be looked at
/// count as one.
fn has_whole_frame(compression: Compression, bytes: &[u8]) -> bool {
    let mut candidates = 0;
    (0..bytes.len()).map(|at| &bytes[at..]).filter(|rest| Compression::of(rest) == Some(compression)).any(
        |rest| {
            candidates += 1;
            candidates > CANDIDATES_MAX || is_whole_frame(compression, rest)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::{Codec, CompressedWriter};
    use std::io::Write;

    /// Frames of noise, which is stored, and their lengths.
    fn frames(compression: Compression, plain_bytes: usize) -> [Vec<u8>; 2] {
        [1u32, 2].map(|seed| {
            let mut state = seed;
            let noise = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            });
            let plain: Vec<_> = noise.take(plain_bytes).collect();
            let mut frame = Vec::new();
            let mut writer = CompressedWriter::new(&mut frame, Codec::fastest(compression)).unwrap();
            writer.write_all(&plain).unwrap();
            writer.flush().unwrap();
            drop(writer);
            frame
        })
    }

    #[test]
    fn a_frame_is_unfinished_unless_a_whole_one_follows() {
        for compression in [Compression::Gzip, Compression::Zstd, Compression::Lz4] {
            let [one, two] = frames(compression, 200_000);
            let half = &one[..one.len() / 2];
            let found = |bytes: &[u8], start: u64| {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(bytes).unwrap();
                unfinished_frame(&file, compression, start..bytes.len() as u64)
            };
            assert_eq!(found(half, 0), Some(half.len() as u64), "{compression:?}");
            assert_eq!(found(&[&two, half].concat(), two.len() as u64), Some(half.len() as u64));
            assert_eq!(found(&[half, &two].concat(), 0), None, "{compression:?}");
            // The one that follows is not whole either.
            assert!(found(&[half, &two[..1000]].concat(), 0).is_some(), "{compression:?}");
            let long = vec![7; FRAME_BYTES_MAX as usize + 1];
            assert_eq!(found(&long, 0), None);
        }
    }

    #[test]
    fn a_file_of_nothing_but_beginnings_of_frames_is_none_of_a_recorder() {
        let bytes = 0xFD2F_B528u32.to_le_bytes().repeat(10_000);
        assert!(has_whole_frame(Compression::Zstd, &bytes));
    }
}
