//! Retention: the finished files of a folder, oldest first, and the rules by which they are removed (`--keep-files`,
//! `--keep-size`, `--keep-free`).
//!
//! Files of earlier runs count too, in the order of their numbers: a time of a file or of its name is that of a clock
//! that may have been wrong. Only regular files of the user who writes, of root or of the owner of the folder count, by
//! the blocks that they take: what others put into a shared folder changes nothing.
//!
//! A file that a killed run could not finish is readable up to its last
//! write: it gets its final name and is kept like the others. A file that a command has compressed is the same file
//! under another name, of the size that it has then.

use super::folder_lock::Ring;
use super::name_template::{NameTemplate, PART};
use super::suffix::variants;
use crate::write::plan::{ROTATE_BYTES_MIN, Retention};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{LockPatience, Owners, open_regular, rename_new, space};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Time after which a file system has freed removed files (btrfs: one commit, 30 s), ns.
const PENDING_FREE_NS: u64 = 30_000_000_000;

/// The highest number that counts: a run never reaches it, and one after it exists.
const NUMBER_MAX: u64 = u64::MAX / 2;
/// A difference between the length of a file and its blocks that is rounding, bytes.
const ROUNDING_BYTES: u64 = 64 << 10;

/// Newest finished files that stay, however little space is free: other programs may have filled the disk.
const NEWEST_KEPT: usize = 2;
/// The same for the disk of which no byte is free.
const NEWEST_KEPT_FULL: usize = 1;

/// The finished files of a folder.
#[derive(Debug)]
pub(super) struct KeptFiles {
    dir: PathBuf,
    owners: Owners,
    rule: Retention,
    files: VecDeque<KeptFile>,
    bytes: u64,
    /// The newest files that the post-rotate command has not finished yet: they stay.
    held: usize,
    next_number: u64,
    pending_free: PendingFree,
    /// Files that are named as those of the folder and are not its own.
    strange: u64,
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
    /// Scans the folder and finishes leftovers of killed runs, which `patience` waits for. Where numbers restart after
    /// `wrap` files, `ring` is the position that an earlier run has left.
    pub(super) fn scan(
        dir: &Path,
        names: &NameTemplate,
        rule: Retention,
        patience: LockPatience,
        (wrap, ring): (Option<u64>, Option<&Ring>),
    ) -> Result<Self> {
        let failed = |errno| Error::path("read the folder", dir, errno);
        let owners = Owners::of(dir).map_err(failed)?;
        let mut found = BTreeMap::<PathBuf, FoundFile>::new();
        let (mut next_number, mut strange) = (0, 0);
        for entry in fs::read_dir(dir).map_err(failed)? {
            let Some(path) = entry.ok().map(|entry| entry.path()) else { continue };
            let Some(path) = finish_leftover(path, names, owners, patience) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (Some(number), Ok(meta)) = (names.number(&name), path.symlink_metadata()) else { continue };
            if !owners.own(&meta) || number > NUMBER_MAX {
                strange += 1;
                continue;
            }
            next_number = next_number.max(number + 1);
            if !meta.is_file() {
                continue;
            }
            let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let of =
                found.entry(dir.join(names.plain_name(&name))).or_insert(FoundFile::new(number, modified));
            of.modified = of.modified.min(modified);
            of.bytes += disk_bytes(&meta);
        }
        let mut kept_files = Self {
            dir: dir.to_owned(),
            owners,
            rule,
            files: VecDeque::new(),
            bytes: 0,
            held: 0,
            next_number: ring.map_or(next_number, |ring| ring.next.min(NUMBER_MAX)),
            pending_free: PendingFree::default(),
            strange,
            pruned: 0,
            pruned_earlier: 0,
        };
        for (path, file) in in_order(found, wrap, ring) {
            kept_files.add(path, file.bytes, false);
        }
        kept_files.files.iter_mut().for_each(|file| file.is_earlier = true);
        Ok(kept_files)
    }

    /// A sentence about files that do not count, though their names are those of the folder.
    pub(super) fn strange(&self) -> Option<String> {
        let (count, dir) = (self.strange, self.dir.display());
        (count > 0).then(|| {
            format!(
                "{dir} has files that are named as those of this capture, and are not its own (another owner, several \
                 names, or a number beyond all others): {count} of them do not count, and none is removed"
            )
        })
    }

    /// Returns the largest size of a file that leaves others to be removed: a quarter of what these files and the free
    /// space allow. `u64::MAX` without a rule.
    pub(super) fn share_bytes(&self) -> u64 {
        let Some(space) = space(&self.dir).ok().filter(|_| self.rule.is_any()) else { return u64::MAX };
        let most = self.bytes.saturating_add(space.free);
        // Where other programs leave less than the rule demands, a tenth of what is left.
        let usable = most.saturating_sub(self.least_free(space.total)).max(most / 10);
        (usable / 4).max(ROTATE_BYTES_MIN)
    }

    /// A sentence if the rule on free space cannot hold whatever is removed, because other programs fill the disk.
    pub(super) fn unmet(&self) -> Option<String> {
        let percent = self.rule.free_percent?;
        let space = space(&self.dir).ok()?;
        let most = self.bytes.saturating_add(space.free);
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

    /// The next number, counted without restarts.
    pub(super) fn position(&self) -> u64 {
        self.next_number
    }

    /// Adds a finished file. With `awaits_command`, the post-rotate command will run for it, and may compress it.
    pub(super) fn add(&mut self, path: PathBuf, bytes: u64, awaits_command: bool) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.files.push_back(KeptFile { path, bytes, awaits_command, is_earlier: false });
    }

    /// Adds a file that may not be on disk, under the name that it has. It counts as older than those that are held.
    pub(super) fn add_unfinished(&mut self, name: PathBuf, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let file = KeptFile { path: name, bytes, awaits_command: false, is_earlier: false };
        self.files.insert(self.files.len().saturating_sub(self.held), file);
    }

    /// Keeps the `newest` files, whatever the rules demand. The command has ended for all others.
    pub(super) fn hold(&mut self, newest: u64) {
        self.held = usize::try_from(newest).unwrap_or(usize::MAX);
        let ended = self.files.len().saturating_sub(self.held);
        for file in self.files.iter_mut().take(ended).filter(|file| file.awaits_command) {
            file.awaits_command = false;
            let before = std::mem::replace(&mut file.bytes, size_on_disk(&file.path, self.owners));
            self.bytes = self.bytes.saturating_sub(before).saturating_add(file.bytes);
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
        let files =
            self.rule.files.is_some_and(|most| (self.files.len() as u64).saturating_add(open_files) > most);
        files || self.rule.bytes.is_some_and(|most| self.bytes.saturating_add(open_bytes) > most)
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
        let (removed, bytes, is_earlier) = (remove(path, self.owners), *bytes, *is_earlier);
        if removed.as_ref().is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            *at += 1;
            return Some(0);
        }
        self.files.remove(*at);
        self.bytes = self.bytes.saturating_sub(bytes);
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

/// A file of an earlier run, with its variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FoundFile {
    number: u64,
    bytes: u64,
    modified: SystemTime,
}

impl FoundFile {
    fn new(number: u64, modified: SystemTime) -> Self {
        Self { number, bytes: 0, modified }
    }
}

/// The files of earlier runs, oldest first: by their numbers. Those that have restarted are known by the position of
/// the last run. Where an earlier version has left none, the times of the files, which only their owner can set, are
/// all that shows where the numbers restarted.
fn in_order(
    found: BTreeMap<PathBuf, FoundFile>,
    wrap: Option<u64>,
    ring: Option<&Ring>,
) -> Vec<(PathBuf, FoundFile)> {
    let mut files: Vec<_> = found.into_iter().collect();
    match (wrap, ring) {
        (Some(_), None) => files.sort_by(|(a, of_a), (b, of_b)| (of_a.modified, a).cmp(&(of_b.modified, b))),
        _ => files.sort_by_key(|(path, file)| {
            (ring.map_or(file.number, |ring| ring.turn(file.number)), path.clone())
        }),
    }
    files
}

/// Bytes that a file takes on disk: its blocks, as a length may be far from them. Rounding to whole blocks does not
/// count, because the file that is being written counts by its length.
pub(super) fn disk_bytes(found: &Metadata) -> u64 {
    let (blocks, length) = (found.blocks().saturating_mul(512), found.len());
    if blocks.abs_diff(length) <= ROUNDING_BYTES { length } else { blocks }
}

/// Removes a file and its variants; `NotFound` if there is none of these users.
fn remove(path: &Path, owners: Owners) -> io::Result<()> {
    let (mut is_removed, mut failure) = (false, None);
    for variant in variants(path) {
        // What another user has put there instead stays, and frees nothing. A folder is an error below.
        if variant.symlink_metadata().is_ok_and(|found| !found.is_dir() && !owners.own_file(&found)) {
            continue;
        }
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
fn size_on_disk(path: &Path, owners: Owners) -> u64 {
    let sizes = variants(path).filter_map(|path| path.symlink_metadata().ok());
    sizes.filter(|meta| owners.own_file(meta)).map(|meta| disk_bytes(&meta)).sum()
}

/// An unlocked `.part` of these users is a leftover of a killed run: its preallocated space is freed and it gets its
/// final name. An empty one is removed.
fn finish_leftover(
    path: PathBuf,
    names: &NameTemplate,
    owners: Owners,
    patience: LockPatience,
) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let Some(finished) = name.strip_suffix(PART) else { return Some(path) };
    names.number(finished)?;
    // Other users may put anything into the folder, and hold it.
    let file = open_regular(&path).ok()?;
    if !owners.own_file(&file.metadata().ok()?) || patience.lock(&file).is_err() {
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

#[cfg(test)]
mod tests;
