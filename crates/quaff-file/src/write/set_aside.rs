//! Preallocation: space that files get before they need it, so that they lie in few pieces (fallocate(2)).
//!
//! It depends on the free space: all files of this process together have at most an eighth of that preallocated, so
//! that enough is left for many files and for other programs. It never changes the length of a file.

use quaff_os::disk::{free_bytes, preallocate};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest and smallest step in which a file gets space, bytes: a smaller one is not worth the call.
const STEP_BYTES_MAX: u64 = 256 << 20;
const STEP_BYTES_MIN: u64 = 4 << 20;
/// All files together may preallocate the free space divided by this.
const SHARE: u64 = 8;
/// One file gets what is left of that share divided by this.
const FILE_SHARE: u64 = 4;
/// Bytes that a file grows until it asks again after it got nothing.
const ASK_AGAIN_BYTES: u64 = 64 << 20;

/// Bytes that files of this process have ahead of their ends. Each [`SetAside`] adds and takes away its own; all read
/// it. Relaxed: a limit that may be exceeded by what threads ask for at the same moment.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// The space that one file has got.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Its end in the file.
    until: u64,
    /// The file asks for more when it grows beyond.
    ask_at: u64,
    /// Its share of [`AHEAD`].
    ahead: u64,
}

impl SetAside {
    /// Space of up to `wanted` bytes for an empty file, which gets no more later.
    pub(super) fn once(file: &File, wanted: u64) -> Self {
        let mut aside = Self { ask_at: u64::MAX, ..Self::default() };
        let bytes = wanted.min(left_bytes(free_bytes(file), AHEAD.load(Ordering::Relaxed)));
        if bytes > 0 && preallocate(file, 0, bytes) {
            aside.until = bytes;
            aside.hold(bytes);
        }
        aside
    }

    /// No space, now or later.
    pub(super) fn none() -> Self {
        Self { ask_at: u64::MAX, ..Self::default() }
    }

    /// Before a write from `start` to `end`: gets the next step if the file grows beyond its space.
    pub(super) fn grow(&mut self, file: &File, start: u64, end: u64) {
        if end > self.ask_at {
            self.hold(0);
            let step = step_bytes(free_bytes(file), AHEAD.load(Ordering::Relaxed));
            let from = self.until.max(start);
            self.ask_at = if step == 0 {
                end + ASK_AGAIN_BYTES
            } else if preallocate(file, from, step) {
                self.until = from + step;
                self.until
            } else {
                // The file system cannot, or has become full.
                u64::MAX
            };
        }
        self.hold(self.until.saturating_sub(end));
    }

    /// Returns the bytes ahead of the end of the file.
    pub(super) fn ahead(&self) -> u64 {
        self.ahead
    }

    fn hold(&mut self, bytes: u64) {
        // Wraps for fewer than before, as atomics do.
        AHEAD.fetch_add(bytes.wrapping_sub(self.ahead), Ordering::Relaxed);
        self.ahead = bytes;
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        self.hold(0);
    }
}

/// Returns the rest of the share, if `free` bytes are free and files have preallocated `ahead`.
fn left_bytes(free: u64, ahead: u64) -> u64 {
    (free.saturating_add(ahead) / SHARE).saturating_sub(ahead)
}

/// The next step of a file; 0 when little is left.
fn step_bytes(free: u64, ahead: u64) -> u64 {
    let step = (left_bytes(free, ahead) / FILE_SHARE).min(STEP_BYTES_MAX);
    if step < STEP_BYTES_MIN { 0 } else { step }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_take_a_share_of_what_is_free_and_one_file_large_steps() {
        assert_eq!(step_bytes(200 << 30, 0), STEP_BYTES_MAX);
        assert_eq!((step_bytes(64 << 20, 0), step_bytes(0, 0)), (0, 0));
        // 250 files on a disk with 34 GB.
        let (total, mut ahead, mut got) = (34_000_000_000, 0, 0);
        for _ in 0..250 {
            let step = step_bytes(total - ahead, ahead);
            got += u32::from(step > 0);
            ahead += step;
        }
        assert!(got > 20 && ahead <= total / SHARE, "{got} files, {ahead} bytes");
        assert_eq!(left_bytes(total - ahead, ahead), total / SHARE - ahead);
    }

    #[test]
    fn a_file_gives_its_part_of_the_share_back() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut aside = SetAside::default();
        aside.grow(&file, 0, 1 << 20);
        if aside.ask_at == u64::MAX || aside.until == 0 {
            return quaff_os::testing::skip(
                "a_file_gives_its_part_of_the_share_back",
                "no fallocate, or no room",
            );
        }
        assert_eq!(aside.ahead(), aside.until - (1 << 20));
        assert!(
            file.metadata().unwrap().blocks() * 512 >= aside.until && file.metadata().unwrap().len() == 0
        );
        let end = aside.until;
        aside.grow(&file, 1 << 20, end);
        assert_eq!(aside.ahead(), 0);
        aside.grow(&file, end, end + 1);
        assert!(aside.ahead() > 0 && aside.until > end);
        let once = SetAside::once(&file, 1 << 20);
        assert_eq!((once.ahead(), SetAside::none().ahead()), (1 << 20, 0));
    }
}
