//! Retention: the finished files of a folder, oldest first, and the rules by which they are removed (`--keep-files`,
//! `--keep-size`, `--keep-free`).
//!
//! Files of earlier runs count too. A file that a killed run could not finish is readable up to its last
//! write: it gets its final name and is kept like the others. A file that a command has compressed is the same file
//! under another name, of the size that it has then.

use super::name_template::{NameTemplate, PART};
use super::suffix::variants;
use crate::write::plan::{ROTATE_BYTES_MIN, Retention};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{open_regular, rename_new, space};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Time after which a file system has freed removed files (btrfs: one commit, 30 s), ns.
const PENDING_FREE_NS: u64 = 30_000_000_000;

/// Attempts to lock a leftover file, and the pause between them.
const LOCK_TRIES: u32 = 10;
const LOCK_WAIT: Duration = Duration::from_millis(100);

/// Newest finished files that stay, however little space is free: other programs may have filled the disk.
const NEWEST_KEPT: usize = 2;
/// The same for the disk of which no byte is free.
const NEWEST_KEPT_FULL: usize = 1;

/// The finished files of a folder.
#[derive(Debug)]
pub(super) struct KeptFiles {
    dir: PathBuf,
    rule: Retention,
    files: VecDeque<KeptFile>,
    bytes: u64,
    /// The newest files that the post-rotate command has not finished yet: they stay.
    held: usize,
    next_number: u64,
    pending_free: PendingFree,
    /// Number of files removed so far, and those of them that are of earlier runs.
    pub pruned: u64,
    pub pruned_earlier: u64,
}

/// A finished file.
#[derive(Debug)]
struct KeptFile {
    /// Its name before a command compressed it.
    path: PathBuf,
    /// Size of it and of its [`variants`].
    bytes: u64,
    /// Its size is to be read again when the post-rotate command has ended.
    awaits_command: bool,
    is_earlier: bool,
}

/// Space of removed files that the file system has not freed yet.
#[derive(Debug, Default)]
struct PendingFree {
    bytes: u64,
    /// Free bytes at the last check.
    free: u64,
    /// Steady time of the last removal.
    removed_ns: u64,
}

impl KeptFiles {
    /// Scans the folder and finishes leftovers of killed runs.
    pub(super) fn open(dir: &Path, names: &NameTemplate, rule: Retention) -> Result<Self> {
        let mut found = BTreeMap::<PathBuf, (SystemTime, u64)>::new();
        let mut next_number = 0;
        for entry in fs::read_dir(dir).map_err(|errno| Error::path("read the folder", dir, errno))? {
            let Some(path) = entry.ok().map(|entry| entry.path()) else { continue };
            let Some(path) = finish_leftover(path, names) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (Some(number), Ok(meta)) = (names.number(&name), path.symlink_metadata()) else { continue };
            next_number = next_number.max(number + 1);
            if !meta.is_file() {
                continue;
            }
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let of = found.entry(dir.join(names.plain_name(&name))).or_insert((modified, 0));
            *of = (of.0.min(modified), of.1 + meta.len());
        }
        let mut found: Vec<_> = found.into_iter().map(|(path, (time, bytes))| (time, path, bytes)).collect();
        found.sort();
        let mut kept_files = Self {
            dir: dir.to_owned(),
            rule,
            files: VecDeque::new(),
            bytes: 0,
            held: 0,
            next_number,
            pending_free: PendingFree::default(),
            pruned: 0,
            pruned_earlier: 0,
        };
        for (_, path, bytes) in found {
            kept_files.add(path, bytes, false);
        }
        kept_files.files.iter_mut().for_each(|file| file.is_earlier = true);
        Ok(kept_files)
    }

    /// Returns the largest size of a file that leaves others to be removed: a quarter of what these files and the free
    /// space allow. `u64::MAX` without a rule.
    pub(super) fn share_bytes(&self) -> u64 {
        let Some(space) = space(&self.dir).ok().filter(|_| self.rule.is_any()) else { return u64::MAX };
        let most = self.bytes + space.free;
        // Where other programs leave less than the rule demands, a tenth of what is left.
        let usable = most.saturating_sub(self.least_free(space.total)).max(most / 10);
        (usable / 4).max(ROTATE_BYTES_MIN)
    }

    /// A sentence if the rule on free space cannot hold whatever is removed, because other programs fill the disk.
    pub(super) fn unmet(&self) -> Option<String> {
        let percent = self.rule.free_percent?;
        let space = space(&self.dir).ok()?;
        let most = self.bytes + space.free;
        let left = 100.0 * most as f64 / space.total.max(1) as f64;
        (self.least_free(space.total) > most).then(|| {
            format!(
                "`keep-free` {percent} % cannot be met: without the files of {} {left:.1} % of its file system would \
                 be free, because other files fill it; the newest {NEWEST_KEPT} files of the capture are kept",
                self.dir.display()
            )
        })
    }

    /// Returns the free bytes that the rule demands of a file system of `total` bytes.
    fn least_free(&self, total: u64) -> u64 {
        self.rule.free_percent.map_or(0, |least| (total as f64 * least / 100.0).ceil() as u64)
    }

    /// Returns the number for the next name, higher than those of all existing files.
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Adds a finished file. With `awaits_command`, the post-rotate command will run for it, and may compress it.
    pub(super) fn add(&mut self, path: PathBuf, bytes: u64, awaits_command: bool) {
        self.bytes += bytes;
        self.files.push_back(KeptFile { path, bytes, awaits_command, is_earlier: false });
    }

    /// Adds a file that may not be on disk, under the name that it has. It counts as older than those that are held.
    pub(super) fn add_unfinished(&mut self, name: PathBuf, bytes: u64) {
        self.bytes += bytes;
        let file = KeptFile { path: name, bytes, awaits_command: false, is_earlier: false };
        self.files.insert(self.files.len().saturating_sub(self.held), file);
    }

    /// Keeps the `newest` files, whatever the rules demand. The command has ended for all others.
    pub(super) fn hold(&mut self, newest: u64) {
        self.held = usize::try_from(newest).unwrap_or(usize::MAX);
        let ended = self.files.len().saturating_sub(self.held);
        for file in self.files.iter_mut().take(ended).filter(|file| file.awaits_command) {
            file.awaits_command = false;
            let before = std::mem::replace(&mut file.bytes, size_on_disk(&file.path));
            self.bytes = self.bytes + file.bytes - before;
        }
    }

    /// Removes the oldest files until the rules hold. `open_files` and `open_bytes` count the files being
    /// written, being finished, or about to be opened.
    pub(super) fn prune(&mut self, open_files: u64, open_bytes: u64) {
        // Measured once: some file systems free removed files much later.
        let (mut missing, mut at) = (self.missing_bytes(), 0);
        while missing > 0 && self.files.len() > at + NEWEST_KEPT || self.is_too_much(open_files, open_bytes) {
            let Some(bytes) = self.remove_from(&mut at) else { return };
            missing = missing.saturating_sub(bytes);
        }
    }

    /// Removes the oldest files to make room for `bytes` on a full disk; the newest stays. Returns the size of the
    /// removed files: 0 without a retention rule or without a file that may be removed.
    pub(super) fn make_room(&mut self, bytes: u64) -> u64 {
        let (mut made, mut at) = (0, 0);
        while made < bytes.max(1) && self.rule.is_any() && self.files.len() > at + NEWEST_KEPT_FULL {
            let Some(bytes) = self.remove_from(&mut at) else { break };
            made += bytes;
        }
        made
    }

    /// Returns `true` while the space of a removed file may still be freed.
    pub(super) fn frees_later(&self) -> bool {
        self.pruned > 0 && steady_ns() - self.pending_free.removed_ns < PENDING_FREE_NS
    }

    fn is_too_much(&self, open_files: u64, open_bytes: u64) -> bool {
        let files = self.rule.files.is_some_and(|most| self.files.len() as u64 + open_files > most);
        files || self.rule.bytes.is_some_and(|most| self.bytes + open_bytes > most)
    }

    /// Returns how many bytes less than `free_percent` are free.
    fn missing_bytes(&mut self) -> u64 {
        let Some(space) = self.rule.free_percent.and_then(|_| space(&self.dir).ok()) else { return 0 };
        let least = self.least_free(space.total);
        least.saturating_sub(self.pending_free.expected_free(space.free, steady_ns()))
    }

    /// Removes the file `at`, counted from the oldest; `None` when there is none that may be removed. Returns its size,
    /// or 0 if it no longer existed or could not be removed. In the latter case it stays in the books, to be tried
    /// again the next time, and `at` moves past it.
    fn remove_from(&mut self, at: &mut usize) -> Option<u64> {
        let is_free = at.saturating_add(self.held) < self.files.len();
        let KeptFile { path, bytes, is_earlier, .. } = self.files.get(*at).filter(|_| is_free)?;
        let (removed, bytes, is_earlier) = (remove(path), *bytes, *is_earlier);
        if removed.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            *at += 1;
            return Some(0);
        }
        self.files.remove(*at);
        self.bytes -= bytes;
        if removed.is_err() {
            return Some(0);
        }
        self.pruned += 1;
        self.pruned_earlier += u64::from(is_earlier);
        self.pending_free.add(bytes, steady_ns());
        Some(bytes)
    }
}

impl PendingFree {
    fn add(&mut self, bytes: u64, now_ns: u64) {
        self.bytes += bytes;
        self.removed_ns = now_ns;
    }

    /// Returns the free bytes plus those still to be freed; a rise of `free` reduces the latter.
    fn expected_free(&mut self, free: u64, now_ns: u64) -> u64 {
        let freed = free.saturating_sub(self.free);
        self.bytes =
            if now_ns - self.removed_ns < PENDING_FREE_NS { self.bytes.saturating_sub(freed) } else { 0 };
        self.free = free;
        free + self.bytes
    }
}

/// Removes a file and its variants; `NotFound` if there is none.
fn remove(path: &Path) -> io::Result<()> {
    let (mut is_removed, mut failure) = (false, None);
    for variant in variants(path) {
        match fs::remove_file(variant) {
            Ok(()) => is_removed = true,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => failure = Some(error),
        }
    }
    let none = (!is_removed).then(|| ErrorKind::NotFound.into());
    failure.or(none).map_or(Ok(()), Err)
}

/// The size of a file and its variants: what a command has left of it.
fn size_on_disk(path: &Path) -> u64 {
    let sizes = variants(path).filter_map(|path| path.symlink_metadata().ok());
    sizes.filter(|meta| meta.is_file()).map(|meta| meta.len()).sum()
}

/// An unlocked `.part` is a leftover of a killed run: its preallocated space is freed and it gets its
/// final name. An empty one is removed.
fn finish_leftover(path: PathBuf, names: &NameTemplate) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let Some(finished) = name.strip_suffix(PART) else { return Some(path) };
    names.number(finished)?;
    // Other users may put anything into the folder.
    let file = open_regular(&path).ok()?;
    if wait_for_lock(&file).is_err() {
        return None;
    }
    let bytes = file.metadata().ok()?.len();
    if bytes == 0 {
        // The next run tries again if this fails.
        let _ = fs::remove_file(&path);
        return None;
    }
    // If this fails, the file is valid but takes more space.
    let _ = file.set_len(bytes);
    let to = path.with_file_name(finished);
    rename_new(&path, &to).is_ok().then_some(to)
}

/// A process killed a moment ago may still hold its files: the kernel completes its pending writes first.
pub(super) fn wait_for_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            lock => return lock,
        }
    }
    Err(TryLockError::WouldBlock)
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
    fn a_file_that_may_not_be_on_disk_is_older_than_those_that_are_held() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q", "pcapng").unwrap();
        let rule = Retention { files: Some(2), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["done", "held-1", "held-2", "bad.part"] {
            put(dir.path(), name, 10);
        }
        ["done", "held-1", "held-2"].into_iter().for_each(|name| kept_files.add(path(name), 10, false));
        kept_files.hold(2);
        kept_files.add_unfinished(path("bad.part"), 10);
        kept_files.prune(0, 0);
        assert_eq!((files(dir.path()), kept_files.bytes), (vec!["held-1".into(), "held-2".into()], 20));
    }

    #[test]
    fn the_oldest_are_removed_first_and_other_files_never() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        for number in 0..5 {
            put(dir.path(), &format!("q100-{number:06}.pcapng"), 10);
        }
        put(dir.path(), "holiday.pcapng", 10);
        let rule = Retention { files: Some(3), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        assert_eq!(kept_files.next_number(), 5);
        kept_files.prune(1, 0);
        assert_eq!(kept_files.pruned, 3);
        assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000003.pcapng", "q100-000004.pcapng"]);
        let rule = Retention { bytes: Some(25), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        kept_files.prune(0, 10);
        assert_eq!((kept_files.pruned, kept_files.pruned_earlier), (1, 1));
        assert_eq!((kept_files.make_room(1), kept_files.pruned), (0, 1), "the newest stays");
        assert_eq!(files(dir.path()), ["holiday.pcapng", "q100-000004.pcapng"]);
    }

    #[test]
    fn a_leftover_is_finished_unless_a_process_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        put(dir.path(), "q100-000002.pcapng.part", 10);
        let held = File::open(dir.path().join("q100-000002.pcapng.part")).unwrap();
        held.try_lock().unwrap();
        KeptFiles::open(dir.path(), &names, Retention::default()).unwrap();
        assert_eq!(files(dir.path()), ["q100-000001.pcapng", "q100-000002.pcapng.part"]);
    }

    #[test]
    fn a_leftover_is_trimmed_and_an_empty_one_removed() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        put(dir.path(), "q100-000002.pcapng.part", 0);
        let part = File::options().write(true).open(dir.path().join("q100-000001.pcapng.part")).unwrap();
        if !quaff_os::disk::preallocate(&part, 0, 1 << 20) {
            return quaff_os::testing::skip("a_leftover_is_trimmed", "no fallocate in the folder for tests");
        }
        drop(part);
        let mut kept_files = KeptFiles::open(dir.path(), &names, Retention::default()).unwrap();
        assert_eq!((files(dir.path()), kept_files.next_number()), (vec!["q100-000001.pcapng".to_owned()], 2));
        let left = fs::metadata(dir.path().join("q100-000001.pcapng")).unwrap();
        assert!(left.len() == 10 && left.blocks() * 512 < 1 << 19, "{left:?}");
    }

    #[test]
    fn space_that_is_freed_late_is_counted_once() {
        const S: u64 = 1_000_000_000;
        let mut pending_free = PendingFree::default();
        assert_eq!(pending_free.expected_free(100, 100 * S), 100);
        pending_free.add(50, 100 * S);
        assert_eq!(pending_free.expected_free(100, 101 * S), 150, "not freed yet");
        assert_eq!(pending_free.expected_free(90, 102 * S), 140, "another process writes");
        assert_eq!(pending_free.expected_free(120, 103 * S), 140, "freed in part");
        assert_eq!(pending_free.expected_free(140, 104 * S), 140, "freed in full");
        pending_free.add(50, 104 * S);
        assert_eq!(pending_free.expected_free(140, 140 * S), 140, "never freed: another process has it open");
    }

    #[test]
    fn a_file_that_cannot_be_removed_makes_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        (0..3).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
        let rule = Retention { files: Some(3), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        fs::remove_file(dir.path().join("q100-000000.pcapng")).unwrap();
        assert_eq!((kept_files.make_room(15), kept_files.pruned), (10, 1));
    }

    #[test]
    fn a_file_that_cannot_be_removed_stays_in_the_books() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        (0..4).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
        let rule = Retention { bytes: Some(25), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        // A folder in its place cannot be removed as a file.
        let oldest = dir.path().join("q100-000000.pcapng");
        fs::remove_file(&oldest).unwrap();
        fs::create_dir(&oldest).unwrap();
        kept_files.prune(0, 0);
        assert_eq!(
            (kept_files.pruned, kept_files.bytes, kept_files.files.len()),
            (2, 20, 2),
            "it still counts"
        );
        fs::remove_dir(&oldest).unwrap();
        fs::write(&oldest, [0; 10]).unwrap();
        kept_files.prune(0, 10);
        assert_eq!((kept_files.pruned, files(dir.path())), (3, vec!["q100-000003.pcapng".to_owned()]));
    }

    #[test]
    fn files_that_a_command_has_not_had_stay() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        (0..4).for_each(|number| put(dir.path(), &format!("q100-{number:06}.pcapng"), 10));
        let rule = Retention { bytes: Some(5), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        kept_files.hold(3);
        kept_files.prune(0, 0);
        assert_eq!((kept_files.pruned, kept_files.make_room(1)), (1, 0));
        kept_files.hold(1);
        assert_eq!((kept_files.make_room(15), kept_files.make_room(1)), (20, 0));
    }

    #[test]
    fn a_file_that_a_command_compresses_counts_as_what_is_left_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q", "pcapng").unwrap();
        let rule = Retention { files: Some(2), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        let path = |number: u64| dir.path().join(format!("q-{number:06}.pcapng"));
        for number in 0..4 {
            put(dir.path(), &format!("q-{number:06}.pcapng"), 10);
            kept_files.add(path(number), 10, true);
            // The command: it has not had the newest file yet.
            kept_files.hold(1);
            kept_files.prune(0, 0);
            assert!(path(number).exists(), "it had no turn");
            fs::remove_file(path(number)).unwrap();
            put(dir.path(), &format!("q-{number:06}.pcapng.gz"), 3);
            kept_files.hold(0);
        }
        kept_files.prune(0, 0);
        let left = ["q-000002.pcapng.gz", "q-000003.pcapng.gz"].map(str::to_owned);
        assert_eq!((files(dir.path()), kept_files.bytes, kept_files.pruned), (left.to_vec(), 6, 2));
        // One that keeps both counts once, and an earlier run's files are known by their plain names.
        put(dir.path(), "q-000003.pcapng", 10);
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        assert_eq!((kept_files.files.len(), kept_files.bytes, kept_files.next_number()), (2, 16, 4));
        kept_files.prune(1, 0);
        assert_eq!(files(dir.path()), ["q-000003.pcapng", "q-000003.pcapng.gz"]);
        kept_files.prune(2, 0);
        assert_eq!((files(dir.path()).len(), kept_files.pruned, kept_files.bytes), (0, 2, 0));
    }

    /// 100 % can never be free: as if another program had filled the disk.
    #[test]
    fn the_newest_files_stay_on_a_disk_that_others_fill() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q", "pcapng").unwrap();
        (0..5).for_each(|number| put(dir.path(), &format!("q-{number:06}.pcapng"), 10));
        let rule = Retention { free_percent: Some(100.0), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        let said = kept_files.unmet().expect("a rule that cannot be met");
        assert!(
            said.starts_with("`keep-free` 100 % cannot be met") && said.contains("other files"),
            "{said}"
        );
        kept_files.prune(1, 0);
        assert_eq!(
            (files(dir.path()), kept_files.pruned),
            (vec!["q-000003.pcapng".into(), "q-000004.pcapng".into()], 3)
        );
        assert!(kept_files.share_bytes() > ROTATE_BYTES_MIN || space(dir.path()).unwrap().free < 100 << 20);
        let rule = Retention { free_percent: Some(0.0), ..Retention::default() };
        assert_eq!(KeptFiles::open(dir.path(), &names, rule).unwrap().unmet(), None);
    }

    #[test]
    fn links_and_pipes_are_no_leftovers() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        put(dir.path(), "precious", 10);
        let path = |name: &str| dir.path().join(name);
        std::os::unix::fs::symlink(path("precious"), path("q100-000001.pcapng.part")).unwrap();
        nix::unistd::mkfifo(&path("q100-000002.pcapng.part"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(path("precious"), path("q100-000003.pcapng")).unwrap();
        let rule = Retention { files: Some(2), ..Retention::default() };
        let mut kept_files = KeptFiles::open(dir.path(), &names, rule).unwrap();
        assert_eq!((kept_files.files.len(), kept_files.next_number()), (0, 4));
        assert_eq!(files(dir.path()).len(), 4, "nothing is renamed or removed");
    }

    #[test]
    fn a_leftover_is_finished_after_its_dying_writer_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let names = NameTemplate::new("q%j", "pcapng").unwrap();
        put(dir.path(), "q100-000001.pcapng.part", 10);
        let held = File::open(dir.path().join("q100-000001.pcapng.part")).unwrap();
        held.try_lock().unwrap();
        let dying = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(250));
            drop(held);
        });
        KeptFiles::open(dir.path(), &names, Retention::default()).unwrap();
        dying.join().unwrap();
        assert_eq!(files(dir.path()), ["q100-000001.pcapng"]);
    }
}
