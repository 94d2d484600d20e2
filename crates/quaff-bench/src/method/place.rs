//! The directory for a measurement's files, on a real disk; removed afterwards.
//!
//! The directory is locked while in use (flock(2)). The next measurement on that disk removes directories without a
//! lock, which killed runs have left.

use crate::{Error, Result};
use quaff_os::{Try, disk};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "quaff-lab-";
/// The directory for large temporary files (hier(7)), and the current one.
const CANDIDATES: [&str; 2] = ["/var/tmp", "."];

/// Number of directories that this process has created.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The directory for a measurement's files; removed on drop.
#[derive(Debug)]
pub struct Place {
    pub path: PathBuf,
    _lock: File,
    runs: AtomicU32,
}

/// The directory for one run's files; removed on drop.
#[derive(Debug)]
pub struct RunDir {
    pub path: PathBuf,
}

impl Place {
    /// A place in `dir`; without it in `/var/tmp` or the current directory, whichever is on a writable disk.
    ///
    /// # Errors
    /// None is; the reason is that of the last one.
    pub fn find(dir: Option<&Path>) -> Result<Self> {
        if let Some(dir) = dir {
            return Self::make(dir);
        }
        let mut last = None;
        for dir in CANDIDATES {
            match Self::make(Path::new(dir)) {
                Err(error) => last = Some(error),
                place => return place,
            }
        }
        Err(last.unwrap_or_else(|| Error::Place("there is no directory for files".into())))
    }

    fn make(parent: &Path) -> Result<Self> {
        if disk::space(parent)?.is_memory {
            let parent = parent.display();
            return Err(Error::Place(format!("{parent} is memory, not a disk; choose another `dir`")));
        }
        sweep(parent);
        let parent = parent.canonicalize().trying(|| format!("find {}", parent.display()))?;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let dir = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&dir) {
                // Of another user, or of a process of another PID namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.trying(|| format!("create {}", dir.display()))?,
            }
            // Another process may remove the new directory before it is locked. Without locks nothing is removed.
            match File::open(&dir) {
                Ok(lock) if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) && dir.exists() => {
                    return Ok(Self { path: dir, _lock: lock, runs: AtomicU32::new(0) });
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).trying(|| format!("open {}", dir.display()))?;
                }
                _ => continue,
            }
        }
    }

    /// The directory in which it was created.
    pub fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Free bytes on that disk.
    pub fn free_bytes(&self) -> Result<u64> {
        Ok(disk::space(&self.path)?.free)
    }

    /// A directory for one run.
    pub fn run_dir(&self) -> Result<RunDir> {
        let path = self.path.join(self.runs.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&path).trying(|| format!("create {}", path.display()))?;
        Ok(RunDir { path })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next measurement removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl RunDir {
    /// All files in it, sorted by name.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        Ok(super::count::files(&self.path).trying(|| format!("list {}", self.path.display()))?)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Otherwise the place removes it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns whether a name is one that [`Place`] gives: the prefix, a process and a number.
fn is_place(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Removes the directories of killed runs in `parent`. Errors are ignored.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own = fs::metadata("/proc/self").map(|process| process.uid()).ok();
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_place)) {
        // Links are never followed: quaff creates none.
        let is_own = |found: fs::Metadata| found.is_dir() && Some(found.uid()) == own;
        if entry.metadata().is_ok_and(is_own)
            && File::open(entry.path()).is_ok_and(|dir| dir.try_lock().is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_removed_with_its_files() {
        let parent = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let place = Place::find(Some(parent.path())).expect("a place");
        let run = place.run_dir().expect("a directory");
        fs::write(run.path.join("f"), "1").expect("written");
        assert_eq!(run.files().expect("listed").len(), 1);
        let kept = run.path.clone();
        drop(run);
        assert!(!kept.exists() && place.path.exists());
        let kept = place.path.clone();
        drop(place);
        assert!(!kept.exists());
    }

    #[test]
    fn unlocked_directories_are_swept_and_others_stay() {
        let parent = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let used = Place::find(Some(parent.path())).expect("a place");
        let left = parent.path().join(format!("{PREFIX}1-1"));
        fs::create_dir(&left).expect("made");
        let others =
            ["quaff-notes", "quaff-lab-results", "quaff-lab-1-"].map(|name| parent.path().join(name));
        others.iter().for_each(|other| fs::create_dir(other).expect("made"));
        let _place = Place::find(Some(parent.path())).expect("a place");
        assert!(!left.exists());
        assert!(used.path.exists());
        assert!(others.iter().all(|other| other.exists()));
    }

    #[test]
    fn memory_is_refused() {
        let error = Place::find(Some(Path::new("/dev/shm"))).expect_err("it is memory");
        assert!(error.to_string().contains("dir"), "{error}");
    }
}
