//! The lock of a folder: one capture at a time, as two would remove each other's files by their retention rules.
//!
//! Its file also keeps the next number where numbers restart: a later run orders the files by it.

use super::format::Format;
use super::name_template::NameTemplate;
use crate::error::is_full;
use crate::{Error, Result};
use nix::fcntl::OFlag;
use quaff_os::disk::{LockPatience, PrivateLock};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::Path;

/// The file of the lock.
const NAME: &str = ".quaff-lock";
/// Most bytes of it that are read.
const TEXT_BYTES_MAX: u64 = 4096;

/// The position in numbers that restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ring {
    /// The next number, counted without restarts.
    pub next: u64,
    /// Numbers restart after so many.
    pub wrap: u64,
    /// The template of the names.
    pub template: String,
}

impl Ring {
    fn head(&self) -> String {
        format!("next {:020} of {:020}\n", self.next, self.wrap)
    }

    fn text(&self) -> String {
        format!("{}{}\n", self.head(), self.template)
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_once('\n')?;
        let (next, wrap) = head.strip_prefix("next ")?.split_once(" of ")?;
        let template = rest.strip_suffix('\n')?.to_owned();
        let wrap = wrap.parse().ok().filter(|wrap| *wrap > 0)?;
        Some(Self { next: next.parse().ok()?, wrap, template })
    }

    /// The number of a file counted without restarts: the last one before the next that ends so.
    pub(super) fn turn(&self, number: u64) -> u64 {
        if number >= self.wrap || self.next <= number {
            return number;
        }
        let last = self.next - 1;
        last - (last - number) % self.wrap
    }
}

/// The order of files whose numbers restart, for a reader of their folder.
#[derive(Debug)]
pub struct Turns {
    ring: Ring,
    /// The template of the names, with each suffix that the files may have.
    names: Vec<NameTemplate>,
}

impl Turns {
    /// The position that a recorder keeps in the folder `dir`, or has left there; `None` without one.
    pub fn of(dir: &Path) -> Option<Self> {
        // In the folder of another user it may be anything.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(dir.join(NAME)).ok()?;
        let mut text = String::new();
        file.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
        let ring = Ring::parse(&text)?;
        let suffixes = [Format::Pcap, Format::Pcapng].map(Format::extension);
        let names = suffixes.iter().filter_map(|suffix| NameTemplate::new(&ring.template, suffix).ok());
        Some(Self { names: names.collect(), ring })
    }

    /// The number of the file of this name, counted without restarts; `None` of a file that is not the recorder's.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.names.iter().find_map(|names| names.number(name)).map(|number| self.ring.turn(number))
    }
}

/// A folder that is locked.
#[derive(Debug)]
pub(super) struct FolderLock {
    /// `None` on a full disk: retention may make room later.
    lock: Option<PrivateLock>,
    ring: Option<Ring>,
}

impl FolderLock {
    /// Locks a folder.
    pub(super) fn take(dir: &Path, patience: LockPatience) -> Result<Self> {
        match PrivateLock::take(dir, NAME, patience) {
            Ok(lock) => Ok(Self { ring: Ring::parse(&lock.text()), lock: Some(lock) }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Error::Plan(format!(
                "another capture is writing to {}: use a separate folder for each",
                dir.display()
            ))),
            Err(error) if is_full(&error) => Ok(Self { lock: None, ring: None }),
            Err(error) => Err(Error::path("lock the folder", dir, error)),
        }
    }

    /// The position that an earlier run has left, if its names were made as these.
    pub(super) fn ring(&self, template: &str, wrap: u64) -> Option<&Ring> {
        self.ring.as_ref().filter(|ring| ring.template == template && ring.wrap == wrap)
    }

    /// Keeps the position from now on, or none where numbers do not restart.
    pub(super) fn keep(&mut self, ring: Option<Ring>) {
        self.ring = ring;
        let Some(lock) = &mut self.lock else { return };
        lock.is_kept = self.ring.is_some();
        let text = self.ring.as_ref().map_or(String::new(), Ring::text);
        // Without it, a later run goes by what it finds.
        let _: io::Result<()> =
            lock.file.set_len(0).and_then(|()| lock.file.write_all_at(text.as_bytes(), 0));
    }

    /// Notes the next number.
    pub(super) fn note_next(&mut self, next: u64) {
        if let (Some(ring), Some(lock)) = (&mut self.ring, &self.lock) {
            ring.next = next;
            let _: io::Result<()> = lock.file.write_all_at(ring.head().as_bytes(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(dir: &Path) -> Result<FolderLock> {
        FolderLock::take(dir, LockPatience::begin())
    }

    #[test]
    fn a_position_is_kept_for_the_next_run_of_the_same_names() {
        let dir = tempfile::tempdir().unwrap();
        let left = || std::fs::read_dir(dir.path()).unwrap().count();
        let mut lock = take(dir.path()).unwrap();
        assert!(take(dir.path()).unwrap_err().to_string().contains("another capture is writing"));
        assert_eq!(lock.ring("q%i", 3), None);
        lock.keep(Some(Ring { next: 3, wrap: 3, template: "q%i".into() }));
        lock.note_next(u64::MAX);
        drop(lock);
        let mut lock = take(dir.path()).unwrap();
        assert_eq!(lock.ring("q%i", 3).map(|ring| ring.next), Some(u64::MAX));
        assert_eq!((lock.ring("q%i", 4), lock.ring("r%i", 3)), (None, None));
        lock.keep(None);
        drop(lock);
        assert_eq!(left(), 0);
        for text in ["", "next 1 of 2", "next x of 2\nq\n", "next 1\nq\n", "of 1", "next 1 of 0\nq\n"] {
            assert_eq!(Ring::parse(text), None, "{text}");
        }
    }
}
