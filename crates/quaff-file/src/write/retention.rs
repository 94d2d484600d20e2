//! The finished files of a folder, oldest first, and which of them have to go.
//!
//! What an earlier run left counts too, a file that it could not finish among it: that one is
//! readable up to its last write, so it is given its final name and kept like any other.

use super::name_template::{Names, PART};
use crate::write::plan::Retention;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Lock, lock_file, space};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a file system may take to give back what was removed (btrfs: one commit, 30 s), ns.
const OWED_NS: u64 = 30_000_000_000;

/// How often a leftover is asked for its lock, and how long we wait in between.
const LOCK_TRIES: u32 = 10;
const LOCK_WAIT: Duration = Duration::from_millis(100);

/// Finished files.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    rule: Retention,
    files: VecDeque<(PathBuf, u64)>,
    bytes: u64,
    next_number: u64,
    owed: Owed,
    /// Files removed so far.
    pub pruned: u64,
}

/// Room that removed files will make, on file systems that free it later.
#[derive(Debug, Default)]
struct Owed {
    bytes: u64,
    /// What was free at the last look.
    free: u64,
    /// When the last file was removed.
    removed_ns: u64,
}

impl Shelf {
    /// Looks at what is in the folder.
    pub(super) fn open(dir: &Path, names: &Names, rule: Retention) -> Result<Self> {
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
        let mut shelf = Self {
            dir: dir.to_owned(),
            rule,
            files: VecDeque::new(),
            bytes: 0,
            next_number,
            owed: Owed::default(),
            pruned: 0,
        };
        for (_, path, bytes) in found {
            shelf.add(path, bytes);
        }
        Ok(shelf)
    }

    /// The number for the next name: higher than all that are there.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Puts a finished file on the shelf.
    pub(super) fn add(&mut self, path: PathBuf, bytes: u64) {
        self.bytes += bytes;
        self.files.push_back((path, bytes));
    }

    /// Removes the oldest files until the rule holds. `open_files` and `open_bytes` are those that
    /// are not on the shelf: being written, being finished, or about to be opened.
    pub(super) fn prune(&mut self, open_files: u64, open_bytes: u64) {
        // Asked once: some file systems free what is removed much later.
        let mut missing = self.missing_bytes();
        while missing > 0 || self.is_too_much(open_files, open_bytes) {
            let Some(bytes) = self.remove_oldest() else { return };
            missing = missing.saturating_sub(bytes);
        }
    }

    /// Removes the oldest files, whatever the rule, to make room for so many bytes on a full disk.
    /// Returns how much room that makes: 0 when there is no rule that allows it, or no file.
    pub(super) fn make_room(&mut self, bytes: u64) -> u64 {
        let mut made = 0;
        while made < bytes.max(1) && self.rule.is_any() {
            let Some(bytes) = self.remove_oldest() else { break };
            made += bytes;
        }
        made
    }

    /// Whether something was removed so lately that its room may not be there yet.
    pub(super) fn is_owed(&self) -> bool {
        self.pruned > 0 && steady_ns() - self.owed.removed_ns < OWED_NS
    }

    fn is_too_much(&self, open_files: u64, open_bytes: u64) -> bool {
        let files = self.rule.files.is_some_and(|most| self.files.len() as u64 + open_files > most);
        files || self.rule.bytes.is_some_and(|most| self.bytes + open_bytes > most)
    }

    /// How much the file system lacks of what is to be free.
    fn missing_bytes(&mut self) -> u64 {
        let Some(least) = self.rule.free_percent else { return 0 };
        let Ok(space) = space(&self.dir) else { return 0 };
        let least = (space.total as f64 * least / 100.0).ceil() as u64;
        least.saturating_sub(self.owed.look(space.free, steady_ns()))
    }

    /// Removes a file; `None` when there is none. Returns how much room that makes: none for a file
    /// that cannot be removed, or that somebody else has removed. Either is off the shelf.
    fn remove_oldest(&mut self) -> Option<u64> {
        let (path, bytes) = self.files.pop_front()?;
        self.bytes -= bytes;
        if fs::remove_file(path).is_err() {
            return Some(0);
        }
        self.pruned += 1;
        self.owed.add(bytes, steady_ns());
        Some(bytes)
    }
}

impl Owed {
    fn add(&mut self, bytes: u64, now_ns: u64) {
        self.bytes += bytes;
        self.removed_ns = now_ns;
    }

    /// What is free, and what is owed on top of it. Each rise of what is free pays.
    fn look(&mut self, free: u64, now_ns: u64) -> u64 {
        let paid = free.saturating_sub(self.free);
        self.bytes = if now_ns - self.removed_ns < OWED_NS { self.bytes.saturating_sub(paid) } else { 0 };
        self.free = free;
        free + self.bytes
    }
}

/// A `.part` that nobody holds a lock on is what a killed run left: it gives back what was set
/// aside behind its end, and gets its final name. One that holds nothing goes.
fn finish_leftover(path: PathBuf, names: &Names) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let Some(finished) = name.strip_suffix(PART) else { return Some(path) };
    names.number(finished)?;
    let file = File::options().write(true).open(&path).ok()?;
    if wait_for_lock(&file) != Lock::Taken {
        return None;
    }
    let bytes = file.metadata().ok()?.len();
    if bytes == 0 {
        // When it cannot be removed, the next run tries again.
        let _ = fs::remove_file(&path);
        return None;
    }
    // Where that is refused the file is still a good one, only larger.
    let _ = file.set_len(bytes);
    let to = path.with_file_name(finished);
    fs::rename(&path, &to).is_ok().then_some(to)
}

/// A process that was killed a moment ago may still hold its files: the kernel ends its writes under
/// way first.
pub(super) fn wait_for_lock(file: &File) -> Lock {
    for _ in 0..LOCK_TRIES {
        match lock_file(file) {
            Lock::Held => std::thread::sleep(LOCK_WAIT),
            lock => return lock,
        }
    }
    Lock::Held
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
        shelf.prune(1, 0);
        assert_eq!(shelf.pruned, 3);
        assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000003.pcapng", "q100-000004.pcapng"]);
        let rule = Retention { bytes: Some(25), ..Retention::default() };
        let mut shelf = Shelf::open(dir.path(), &names, rule).unwrap();
        shelf.prune(0, 10);
        assert_eq!(shelf.pruned, 1);
        assert_eq!((shelf.make_room(1), shelf.make_room(1), shelf.pruned), (10, 0, 2));
        assert_eq!(files(dir.path()), ["holiday.pcapng"]);
    }

    #[test]
    fn a_leftover_is_finished_unless_somebody_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        put(dir.path(), "q100-000002.pcapng.part", 10);
        let held = File::open(dir.path().join("q100-000002.pcapng.part")).unwrap();
        assert_eq!(lock_file(&held), Lock::Taken);
        Shelf::open(dir.path(), &names, Retention::default()).unwrap();
        assert_eq!(files(dir.path()), ["q100-000001.pcapng", "q100-000002.pcapng.part"]);
    }

    #[test]
    fn a_leftover_gives_back_what_was_set_aside_and_an_empty_one_goes() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        put(dir.path(), "q100-000002.pcapng.part", 0);
        let part = File::options().write(true).open(dir.path().join("q100-000001.pcapng.part")).unwrap();
        if !quaff_os::disk::preallocate(&part, 0, 1 << 20) {
            return quaff_os::testing::skip("a_leftover_gives_back", "no fallocate in the folder for tests");
        }
        drop(part);
        let mut shelf = Shelf::open(dir.path(), &names, Retention::default()).unwrap();
        assert_eq!((files(dir.path()), shelf.next_number()), (vec!["q100-000001.pcapng".to_owned()], 2));
        let left = fs::metadata(dir.path().join("q100-000001.pcapng")).unwrap();
        assert!(left.len() == 10 && left.blocks() * 512 < 1 << 19, "{left:?}");
    }

    #[test]
    fn what_a_file_system_frees_late_is_not_asked_for_twice() {
        const S: u64 = 1_000_000_000;
        let mut owed = Owed::default();
        assert_eq!(owed.look(100, 100 * S), 100);
        owed.add(50, 100 * S);
        assert_eq!(owed.look(100, 101 * S), 150, "not freed yet");
        assert_eq!(owed.look(90, 102 * S), 140, "somebody writes");
        assert_eq!(owed.look(120, 103 * S), 140, "freed in part");
        assert_eq!(owed.look(140, 104 * S), 140, "freed in full");
        owed.add(50, 104 * S);
        assert_eq!(owed.look(140, 140 * S), 140, "never freed: somebody else has it open");
    }

    #[test]
    fn what_cannot_be_removed_makes_no_room_and_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        (0..3).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
        let rule = Retention { files: Some(3), ..Retention::default() };
        let mut shelf = Shelf::open(dir.path(), &names, rule).unwrap();
        fs::remove_file(dir.path().join("q100-000000.pcapng")).unwrap();
        assert_eq!((shelf.make_room(15), shelf.pruned), (20, 2));
    }

    #[test]
    fn a_leftover_whose_writer_is_dying_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        let held = File::open(dir.path().join("q100-000001.pcapng.part")).unwrap();
        assert_eq!(lock_file(&held), Lock::Taken);
        let dying = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(250));
            drop(held);
        });
        Shelf::open(dir.path(), &names, Retention::default()).unwrap();
        dying.join().unwrap();
        assert_eq!(files(dir.path()), ["q100-000001.pcapng"]);
    }
}
