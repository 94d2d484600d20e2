//! A folder of files: which one comes next, what it is called, and which old ones have to go.

use super::file_opener::{Finish, Fresh, Keeper, Kept, Opening, part_of, remove_hidden};
use super::name_template::Names;
use super::post_rotate::After;
use super::retention::{Shelf, wait_for_lock};
use crate::tally::Runs;
use crate::write::plan::DirPlan;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::Lock;
use quaff_os::mem::Buffer;
use quaff_os::wakeup::Wakeup;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the rule is held against the disk while a file grows, ns.
const LOOK_NS: u64 = 500_000_000;
/// How long a full disk has to show the room that removed files made: a journal of a busy disk is not
/// in a hurry, ns.
const LATE_NS: u64 = 30_000_000_000;
/// One file more goes for each such time in which that is of no use: the room may have been taken by
/// another file of ours, ns.
const MORE_NS: u64 = 2_000_000_000;
/// How often it is asked meanwhile.
const ASK: Duration = Duration::from_millis(100);
/// Files that may wait for their last writes. Each has room set aside, and on a full disk it would be the
/// files to come that have it, and not the one being written.
const ENDING_FILES_MAX: u64 = 4;
/// Naming a file on a full disk: what a folder may need for it, bytes.
const NAME_BYTES: u64 = 64 << 10;

/// The folder of a rotation.
#[derive(Debug)]
pub struct Folder {
    opening: Opening,
    names: Names,
    /// After so many numbers they begin anew.
    wrap: u64,
    /// So many files may be there.
    files_max: u64,
    shelf: Shelf,
    keeper: Keeper,
    after: Option<After>,
    /// A file gets no larger than this.
    pub rotate_bytes: u64,
    /// Files handed to the keeper that are not on the shelf yet.
    unfinished: u64,
    unfinished_bytes: u64,
    /// Those of them that did not get their names because the disk was full.
    stuck: Vec<Finish>,
    /// Those of them that the keeper has in hand, and will speak of.
    in_hand: u64,
    opened: Option<io::Result<Fresh>>,
    looked_ns: u64,
    /// Room made on a full disk since something last fitted, bytes, and when that was.
    made: u64,
    made_ns: u64,
    /// Since when nothing fits, steady ns; `None` when something did.
    full_ns: Option<u64>,
    /// A file that could not be finished: path and why.
    pub trouble: Option<(PathBuf, io::Error)>,
    /// Open as long as we write here: its lock says so.
    _lock: File,
}

/// Files that have ended, and whose last writes have not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ending {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether an error means that there is no room: none on the disk, or none that we may use.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

impl Folder {
    /// Looks at the folder, cleans up after runs that were killed, and has the first file opened.
    /// `extension` is what the names end in, without the dot.
    pub fn open(plan: &DirPlan, extension: &'static str, direct: bool, wakeup: Wakeup) -> Result<Self> {
        let preallocate = plan.rotate_bytes.unwrap_or(256 << 20).min(1 << 30);
        let opening = Opening { dir: plan.dir.clone(), direct, preallocate, unnamed: true };
        Self::with(opening, plan, extension, wakeup)
    }

    fn with(opening: Opening, plan: &DirPlan, extension: &'static str, wakeup: Wakeup) -> Result<Self> {
        let names = Names::new(&plan.name, extension)?;
        let lock = lock(&plan.dir)?;
        let shelf = Shelf::open(&plan.dir, &names, plan.retention)?;
        let after = plan.exec.as_deref().map(After::start).transpose()?;
        let keeper = Keeper::start(opening.clone(), wakeup)?;
        keeper.open_next();
        Ok(Self {
            opening,
            names,
            wrap: plan.retention.files.filter(|_| plan.wrap).unwrap_or(u64::MAX),
            files_max: plan.retention.files.unwrap_or(u64::MAX),
            shelf,
            keeper,
            after,
            rotate_bytes: plan.rotate_bytes.unwrap_or(u64::MAX),
            unfinished: 0,
            unfinished_bytes: 0,
            stuck: Vec::new(),
            in_hand: 0,
            opened: None,
            looked_ns: 0,
            made: 0,
            made_ns: 0,
            full_ns: None,
            trouble: None,
            _lock: lock,
        })
    }

    /// The next file and its final path; it is there under that path with `.part` behind, and begins
    /// with `first`, so that it is a capture file from its first moment on. Before that, what has to
    /// go for it goes. `time_ns` is when the file begins.
    pub fn next(&mut self, time_ns: u64, first: &[u8], ending: Ending) -> Result<(Arc<File>, PathBuf)> {
        self.prune(self.room(), ending);
        let mut fresh = self.take_opened()?;
        self.begin(&fresh.file, first)?;
        // Meanwhile another one may have been finished, and its rule and its number are due.
        self.prune(self.room(), ending);
        let path = self.name(&mut fresh, time_ns, ending)?;
        // Only now: a hidden file is never there twice.
        self.keeper.open_next();
        Ok((fresh.file.clone(), path))
    }

    fn begin(&mut self, file: &File, first: &[u8]) -> Result<()> {
        let mut buffer = Buffer::new(first.len())?;
        buffer[..first.len()].copy_from_slice(first);
        loop {
            match file.write_all_at(&buffer[..first.len()], 0) {
                Ok(()) => return Ok(()),
                Err(error) if is_full(&error) && self.make_room(NAME_BYTES) => {}
                Err(error) => return Err(Error::path("begin a file in", &self.opening.dir, error)),
            }
        }
    }

    fn name(&mut self, fresh: &mut Fresh, time_ns: u64, ending: Ending) -> Result<PathBuf> {
        let mut taken = 0;
        let mut path = self.next_path(time_ns);
        loop {
            match fresh.name(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let pruned = self.pruned();
                    path = self.path_instead(time_ns, taken + 1, ending);
                    // A file that went has freed a number, and it may be any of them.
                    taken = if self.pruned() > pruned { 0 } else { taken + 1 };
                }
                Err(error) if is_full(&error) && self.make_room(NAME_BYTES) => {}
                Err(error) => return Err(Error::path("name the file", path, error)),
            }
        }
    }

    fn next_path(&mut self, time_ns: u64) -> PathBuf {
        let number = self.shelf.next_number() % self.wrap;
        self.opening.dir.join(self.names.name(time_ns, number))
    }

    /// Another path, after `taken` ones that were there already. Where numbers begin anew they all are
    /// when the oldest file could not go because it is not finished: that is waited for. What stays
    /// taken then is not ours to remove, and the numbers go on behind it.
    fn path_instead(&mut self, time_ns: u64, taken: u64, ending: Ending) -> PathBuf {
        if taken.is_multiple_of(self.wrap) && !self.wait_for_one() {
            self.wrap = u64::MAX;
        }
        self.prune(self.room(), ending);
        self.next_path(time_ns)
    }

    /// Has a file finished.
    pub fn finish(&mut self, file: Arc<File>, path: PathBuf, bytes: u64) {
        self.unfinished += 1;
        self.unfinished_bytes += bytes;
        self.in_hand += 1;
        self.keeper.finish(Finish { file, path, bytes, stuck_ns: None });
    }

    /// Removes a file that nothing was written to.
    pub fn discard(&mut self, path: &Path) {
        // An empty .part that stays is cleaned up by the next run.
        let _ = std::fs::remove_file(part_of(path));
    }

    /// Hears what the keeper has done.
    pub fn hear_all(&mut self) {
        while let Some(kept) = self.keeper.done() {
            self.hear(kept);
        }
        self.free_stuck();
    }

    /// The same, and holds the rule against the disk now and then. For when a file is being written,
    /// which counts: `current_bytes` are its own.
    pub fn tick(&mut self, current_bytes: u64, ending: Ending) {
        self.hear_all();
        let now_ns = steady_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            self.prune(current_bytes, ending);
        }
    }

    /// So many files may wait for their last writes when one more ends and the next begins: all of them
    /// together are no more than the rule allows.
    pub fn ending_max(&self) -> u64 {
        (self.files_max - 1).clamp(1, ENDING_FILES_MAX)
    }

    /// What the next file may need.
    fn room(&self) -> u64 {
        if self.rotate_bytes == u64::MAX { 0 } else { self.rotate_bytes }
    }

    fn prune(&mut self, current_bytes: u64, ending: Ending) {
        let open_files = self.unfinished + ending.files + 1;
        self.shelf.prune(open_files, self.unfinished_bytes + ending.bytes + current_bytes);
    }

    /// Files removed so far.
    pub fn pruned(&self) -> u64 {
        self.shelf.pruned
    }

    /// Makes room for so many bytes on a full disk; what did not fit is to be tried again. `false`
    /// when the rule does not allow it, when there is nothing left to remove, or when the room that
    /// was made is of no use.
    pub fn make_room(&mut self, bytes: u64) -> bool {
        let now_ns = steady_ns();
        if now_ns - *self.full_ns.get_or_insert(now_ns) >= LATE_NS {
            return false;
        }
        if self.made >= bytes.max(1) + self.opening.preallocate && now_ns - self.made_ns < MORE_NS {
            // Enough for it has been removed, and for what the next file may have set aside of that
            // meanwhile. Some file systems take their time to give it back.
            std::thread::sleep(ASK);
            return true;
        }
        loop {
            let made = self.shelf.make_room(bytes);
            if made > 0 {
                self.made += made;
                self.made_ns = steady_ns();
                return true;
            }
            if !self.wait_for_one() {
                // Nothing is left, but what went before may still make room.
                std::thread::sleep(ASK);
                return self.shelf.is_owed();
            }
        }
    }

    /// Hears that something fitted.
    pub fn has_room(&mut self) {
        (self.made, self.full_ns) = (0, None);
    }

    /// Waits until every file is finished.
    pub fn settle(&mut self) {
        loop {
            while self.wait_for_one() {}
            if self.stuck.is_empty() {
                break;
            }
            self.free_stuck();
        }
        self.shelf.prune(0, 0);
    }

    /// Waits until the user's command has had every finished file. Call it after [`Self::settle`].
    pub fn finish_after(&mut self) -> Runs {
        self.after.take().map(After::finish).unwrap_or_default()
    }

    /// Makes room for the names of finished files.
    fn free_stuck(&mut self) {
        while let Some(mut job) = self.stuck.pop() {
            let now_ns = steady_ns();
            let since_ns = *job.stuck_ns.get_or_insert(now_ns);
            if now_ns - since_ns < LATE_NS && self.make_room(NAME_BYTES) {
                self.in_hand += 1;
                self.keeper.finish(job);
            } else {
                self.unfinished -= 1;
                self.unfinished_bytes -= job.bytes;
                self.trouble = Some((job.path, ErrorKind::StorageFull.into()));
            }
        }
    }

    fn wait_for_one(&mut self) -> bool {
        if self.in_hand == 0 {
            return false;
        }
        let kept = self.keeper.wait();
        kept.map(|kept| self.hear(kept)).is_some()
    }

    fn take_opened(&mut self) -> Result<Fresh> {
        loop {
            match self.opened.take() {
                Some(Ok(fresh)) => return Ok(fresh),
                Some(Err(error)) if is_full(&error) && self.make_room(NAME_BYTES) => {
                    self.keeper.open_next();
                }
                Some(Err(error)) => return Err(Error::path("open a file in", &self.opening.dir, error)),
                None => match self.keeper.wait() {
                    Some(kept) => self.hear(kept),
                    None => return Err(Error::Defect("the file keeper is gone".into())),
                },
            }
        }
    }

    fn hear(&mut self, kept: Kept) {
        match kept {
            Kept::Opened(opened) => self.opened = Some(opened),
            Kept::Finished(job, Err(error)) if is_full(&error) => {
                self.in_hand -= 1;
                self.stuck.push(job);
            }
            Kept::Finished(job, finished) => {
                self.in_hand -= 1;
                self.unfinished -= 1;
                self.unfinished_bytes -= job.bytes;
                match finished {
                    Ok(()) => {
                        if let Some(after) = &self.after {
                            after.add(job.path.clone());
                        }
                        self.shelf.add(job.path, job.bytes);
                    }
                    Err(error) => self.trouble = Some((job.path, error)),
                }
            }
        }
    }
}

/// One capture writes to a folder: the rule of one would remove the files of the other.
fn lock(dir: &Path) -> Result<File> {
    let folder = File::open(dir).map_err(|errno| Error::path("read the folder", dir, errno))?;
    match wait_for_lock(&folder) {
        Lock::Held => Err(Error::Plan(format!(
            "another capture writes to {}: give each a folder of its own",
            dir.display()
        ))),
        Lock::Taken => {
            remove_hidden(dir);
            Ok(folder)
        }
        Lock::Unknown => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::plan::Retention;
    use std::os::unix::fs::FileExt;

    fn folder(dir: &Path, unnamed: bool, retention: Retention) -> Result<Folder> {
        let plan = DirPlan {
            dir: dir.to_owned(),
            name: "q".into(),
            rotate_bytes: Some(1 << 20),
            rotate_time: None,
            retention,
            wrap: false,
            exec: None,
        };
        let opening = Opening { dir: dir.to_owned(), direct: false, preallocate: 100, unnamed };
        Folder::with(opening, &plan, "pcapng", Wakeup::new().unwrap())
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write(folder: &mut Folder, files: u8) {
        for number in 0..files {
            let (file, path) = folder.next(0, &[], Ending::default()).unwrap();
            file.write_all_at(&[number; 100], 0).unwrap();
            folder.finish(file, path, 100);
        }
        folder.settle();
    }

    #[test]
    fn every_file_keeps_its_bytes_with_unnamed_files_and_without() {
        for unnamed in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            // What a killed run left.
            std::fs::write(dir.path().join(".quaff-next-1-0"), b"stale").unwrap();
            let mut folder = folder(dir.path(), unnamed, Retention::default()).unwrap();
            write(&mut folder, 20);
            assert!(folder.trouble.is_none(), "{:?}", folder.trouble);
            drop(folder);
            let names = names(dir.path());
            assert_eq!(names.len(), 20, "{names:?}");
            for (number, name) in names.iter().enumerate() {
                assert_eq!(*name, format!("q-{number:06}.pcapng"));
                assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), [number as u8; 100], "{name}");
            }
        }
    }

    /// A folder that numbers its files anew after two.
    fn wrapping(dir: &Path) -> Folder {
        let retention = Retention { files: Some(2), ..Retention::default() };
        let plan = DirPlan {
            dir: dir.to_owned(),
            name: "pcap%3i".into(),
            rotate_bytes: Some(1 << 20),
            rotate_time: None,
            retention,
            wrap: true,
            exec: None,
        };
        let opening = Opening { dir: dir.to_owned(), direct: false, preallocate: 100, unnamed: true };
        Folder::with(opening, &plan, "pcap", Wakeup::new().unwrap()).unwrap()
    }

    #[test]
    fn numbers_begin_anew_and_the_newest_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let last_bytes = || {
            names(dir.path())
                .iter()
                .map(|name| std::fs::read(dir.path().join(name)).unwrap()[0])
                .collect::<Vec<_>>()
        };
        let mut folder = wrapping(dir.path());
        // Each ends while the one before may be unfinished, as in a capture.
        let mut before: Option<(Arc<File>, PathBuf)> = None;
        for number in 0..7 {
            let ending = Ending { files: before.is_some().into(), bytes: 100 };
            let (file, path) = folder.next(0, &[], ending).unwrap();
            file.write_all_at(&[number; 100], 0).unwrap();
            // File systems tell times to some ms.
            std::thread::sleep(Duration::from_millis(20));
            if let Some((file, path)) = before.replace((file, path)) {
                folder.finish(file, path, 100);
            }
        }
        let (file, path) = before.unwrap();
        folder.settle();
        std::thread::sleep(Duration::from_millis(20));
        folder.finish(file, path, 100);
        folder.settle();
        assert!(folder.trouble.is_none(), "{:?}", folder.trouble);
        drop(folder);
        assert_eq!(names(dir.path()), ["pcap000", "pcap001"]);
        assert_eq!(last_bytes(), [6, 5]);
        // Another run goes on where the oldest file was.
        let mut folder = wrapping(dir.path());
        write(&mut folder, 1);
        drop(folder);
        assert_eq!(last_bytes(), [6, 0]);
    }

    #[test]
    fn a_name_that_a_stranger_holds_is_left_to_him() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = wrapping(dir.path());
        std::fs::write(dir.path().join("pcap000"), b"late").unwrap();
        std::fs::write(dir.path().join("pcap001"), b"later").unwrap();
        write(&mut folder, 1);
        assert_eq!(names(dir.path()), ["pcap000", "pcap001", "pcap002"]);
    }

    #[test]
    fn a_folder_has_one_capture() {
        let dir = tempfile::tempdir().unwrap();
        let first = folder(dir.path(), true, Retention::default()).unwrap();
        let refused = folder(dir.path(), true, Retention::default()).unwrap_err();
        assert!(refused.to_string().contains("another capture writes to"), "{refused}");
        drop(first);
        folder(dir.path(), true, Retention::default()).unwrap();
    }

    #[test]
    fn room_is_made_for_what_is_asked_and_not_for_more() {
        let dir = tempfile::tempdir().unwrap();
        let retention = Retention { bytes: Some(1 << 30), ..Retention::default() };
        let mut folder = folder(dir.path(), true, retention).unwrap();
        write(&mut folder, 10);
        assert!(folder.make_room(150), "two files");
        assert_eq!(folder.pruned(), 2);
        assert!(folder.make_room(150), "the next file has set some of it aside");
        assert_eq!(folder.pruned(), 4);
        assert!(folder.make_room(150), "they are given time to be freed");
        assert_eq!(folder.pruned(), 4);
        folder.made_ns -= MORE_NS;
        assert!(folder.make_room(50), "somebody else took it");
        assert_eq!(folder.pruned(), 5);
        folder.full_ns = folder.full_ns.map(|since_ns| since_ns - LATE_NS);
        assert!(!folder.make_room(150), "that was of no use");
        folder.has_room();
        assert!(folder.make_room(1));
        assert_eq!((folder.pruned(), names(dir.path()).len()), (6, 4));
        assert!(folder.make_room(1 << 20) && folder.pruned() == 10, "all there is");
        assert!(folder.make_room(1 << 20), "nothing is left, but what went may still make room");
        folder.full_ns = folder.full_ns.map(|since_ns| since_ns - LATE_NS);
        assert!(!folder.make_room(1 << 20), "it does not");
    }

    #[test]
    fn what_no_rule_allows_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), true, Retention::default()).unwrap();
        write(&mut folder, 2);
        assert!(!folder.make_room(1));
        assert_eq!(folder.pruned(), 0);
    }
}
