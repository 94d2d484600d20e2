//! How the files of a capturer grow: from outside, by their sizes.

use super::count::files;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Looks at all files in a directory.
#[derive(Debug)]
pub(super) struct Growth {
    dir: PathBuf,
    bytes: u64,
    first: Option<Instant>,
    last: Instant,
}

impl Growth {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), bytes: size(dir), first: None, last: Instant::now() }
    }

    /// Looks once more.
    pub(super) fn look(&mut self) {
        let bytes = size(&self.dir);
        if bytes != self.bytes {
            self.bytes = bytes;
            self.last = Instant::now();
            self.first.get_or_insert(self.last);
        }
    }

    /// How large they were at the last look, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long nothing has changed.
    pub(super) fn still(&self) -> Duration {
        self.last.elapsed()
    }

    /// From the first change to the last.
    pub(super) fn span(&self) -> Duration {
        self.first.map_or(Duration::ZERO, |first| self.last - first)
    }
}

/// A file that goes between being listed and being asked has no size.
fn size(dir: &Path) -> u64 {
    let files = files(dir).unwrap_or_default();
    files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
}
