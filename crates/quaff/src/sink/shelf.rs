//! The finished files of a folder, oldest first, and which of them have to go.
//!
//! What an earlier run left counts too, a file that it could not finish among it: that one is
//! readable up to its last write, so it is given its final name and kept like any other.

use super::names::{Names, PART};
use crate::plan::Retention;
use crate::{Error, Result};
use quaff_os::disk::{lock_file, space};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Finished files.
#[derive(Debug)]
pub struct Shelf {
    dir: PathBuf,
    rule: Retention,
    files: VecDeque<(PathBuf, u64)>,
    bytes: u64,
    next_number: u64,
}

impl Shelf {
    /// Looks at what is in the folder.
    pub fn open(dir: &Path, names: &Names, rule: Retention) -> Result<Self> {
        let mut found = Vec::new();
        let mut next_number = 0;
        for entry in fs::read_dir(dir).map_err(|errno| Error::path("read the folder", dir, errno))? {
            let Some(path) = entry.ok().map(|entry| entry.path()) else { continue };
            let Some(path) = finish_leftover(path, names) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (Some(number), Ok(meta)) = (names.number(&name), fs::metadata(&path)) else { continue };
            next_number = next_number.max(number + 1);
            found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, meta.len()));
        }
        found.sort();
        let mut shelf = Self { dir: dir.to_owned(), rule, files: VecDeque::new(), bytes: 0, next_number };
        for (_, path, bytes) in found {
            shelf.add(path, bytes);
        }
        Ok(shelf)
    }

    /// The number for the next name: higher than all that are there.
    pub fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Puts a finished file on the shelf.
    pub fn add(&mut self, path: PathBuf, bytes: u64) {
        self.bytes += bytes;
        self.files.push_back((path, bytes));
    }

    /// Removes the oldest files until the rule holds. `open_files` and `open_bytes` are those that
    /// are not on the shelf: being written, being finished, or about to be opened.
    pub fn prune(&mut self, open_files: u64, open_bytes: u64) -> u64 {
        let mut removed = 0;
        while self.is_too_much(open_files, open_bytes) && self.remove_oldest() {
            removed += 1;
        }
        removed
    }

    /// Removes the oldest file, whatever the rule, to make room on a full disk. `false` when there
    /// is no rule that allows it, or no file.
    pub fn make_room(&mut self) -> bool {
        self.rule.is_any() && self.remove_oldest()
    }

    fn is_too_much(&self, open_files: u64, open_bytes: u64) -> bool {
        let files = self.rule.files.is_some_and(|most| self.files.len() as u64 + open_files > most);
        let bytes = self.rule.bytes.is_some_and(|most| self.bytes + open_bytes > most);
        files || bytes || self.rule.free_percent.is_some_and(|least| self.free_percent() < least)
    }

    fn free_percent(&self) -> f64 {
        space(&self.dir).map_or(100.0, |space| 100.0 * space.free as f64 / space.total.max(1) as f64)
    }

    /// A file that somebody else has removed is gone too.
    fn remove_oldest(&mut self) -> bool {
        let Some((path, bytes)) = self.files.pop_front() else { return false };
        self.bytes -= bytes;
        // When it cannot be removed there is nothing to be done but to go on to the next.
        let _ = fs::remove_file(path);
        true
    }
}

/// A `.part` that nobody holds a lock on is what a killed run left: it gets its final name.
fn finish_leftover(path: PathBuf, names: &Names) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let Some(finished) = name.strip_suffix(PART) else { return Some(path) };
    names.number(finished)?;
    let is_abandoned = File::open(&path).is_ok_and(|file| lock_file(&file));
    let to = path.with_file_name(finished);
    (is_abandoned && fs::rename(&path, &to).is_ok()).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn put(dir: &Path, name: &str, bytes: usize) {
        fs::write(dir.join(name), vec![0; bytes]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }

    #[test]
    fn the_oldest_go_first_and_strangers_stay() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        for number in 0..5 {
            put(dir.path(), &format!("q100-{number:06}.pcapng"), 10);
        }
        put(dir.path(), "holiday.pcapng", 10);
        let rule = Retention { files: Some(3), ..Retention::default() };
        let mut shelf = Shelf::open(dir.path(), &names, rule).unwrap();
        assert_eq!(shelf.next_number(), 5);
        assert_eq!(shelf.prune(1, 0), 3);
        assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000003.pcapng", "q100-000004.pcapng"]);
        let rule = Retention { bytes: Some(25), ..Retention::default() };
        let mut shelf = Shelf::open(dir.path(), &names, rule).unwrap();
        assert_eq!(shelf.prune(0, 10), 1);
        assert!(shelf.make_room() && !shelf.make_room());
        assert_eq!(files(dir.path()), ["holiday.pcapng"]);
    }

    #[test]
    fn a_leftover_is_finished_unless_somebody_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        put(dir.path(), "q100-000002.pcapng.part", 10);
        let held = File::open(dir.path().join("q100-000002.pcapng.part")).unwrap();
        assert!(lock_file(&held));
        Shelf::open(dir.path(), &names, Retention::default()).unwrap();
        assert_eq!(files(dir.path()), ["q100-000001.pcapng", "q100-000002.pcapng.part"]);
    }
}
