//! A folder of rotated files: opens and names the next file, and removes old ones by the retention rules.
//!
//! Names show the state: a file is `.part` until it is complete and on disk, and one with a failed sync stays so.

use super::file_opener::{FileOpener, JobDone, NewFile, OpenPlan, remove_hidden};
use super::finisher::{Finish, FinishJob, FinisherDone, SyncFile, SyncJob, part_of};
use super::folder_lock::{FolderLock, Ring};
use super::name_template::NameTemplate;
use super::post_rotate::{CommandRuns, PostRotate};
use super::retention::{KeptFiles, disk_bytes};
use crate::error::is_full;
use crate::write::plan::{DirPlan, rotate_bytes_max};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{FileAccess, LockPatience, space};
use quaff_os::{Buffer, Wakeup};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval of the retention checks while a file grows, ns.
const LOOK_NS: u64 = 500_000_000;
/// Time that a full disk has to free the space of removed files, ns: the journal of a busy file system
/// commits late.
const LATE_NS: u64 = 30_000_000_000;
/// Another file is removed after this time without success, ns: preallocation of the next file may have
/// taken the space.
const MORE_NS: u64 = 2_000_000_000;
/// Pause between two attempts to write to a full disk.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Time for which restarting numbers wait for a file that the post-rotate command still has, ns.
const COMMAND_WAIT_NS: u64 = 2_000_000_000;
/// Files that may wait for their last writes. Each has preallocated space, which on a full disk would be
/// missing for the file being written.
const ENDING_FILES_MAX: u64 = 4;
/// Packets of several lanes are written late by less than this, ns: a name does not go back for them. A clock that was
/// set back further is followed.
const DISORDER_NS: u64 = 60_000_000_000;
/// Space that naming a file may need in the folder, bytes.
const NAME_BYTES: u64 = 64 << 10;

/// Bytes that are preallocated for a file without a limit of its size; for one that a number of packets ends.
const PREALLOCATED: u64 = 256 << 20;
const PREALLOCATED_FOR_PACKETS: u64 = 16 << 20;

/// The files of a rotation.
#[derive(Debug)]
pub struct Folder {
    open_plan: OpenPlan,
    names: NameTemplate,
    /// File numbers restart at 0 after this many.
    wrap: u64,
    /// The retention rule for the number of files; `u64::MAX` without one.
    files_max: u64,
    kept_files: KeptFiles,
    opener: FileOpener,
    post_rotate: Option<PostRotate>,
    /// The largest size of a file; `u64::MAX` without a limit.
    pub rotate_bytes: u64,
    /// Most packets of a file; `u64::MAX` without a limit.
    pub rotate_packets: u64,
    /// Ended files that are not among `kept_files` yet, and their bytes.
    unfinished: u64,
    unfinished_bytes: u64,
    /// Unfinished files that could not be named on a full disk.
    stuck: Vec<FinishJob>,
    /// Unfinished files that the opener is working on.
    in_progress: u64,
    opened: Option<io::Result<NewFile>>,
    /// The opener has been asked for a file.
    is_opening: bool,
    looked_ns: u64,
    /// The time in the name of the latest file, ns since 1970.
    named_ns: u64,
    /// Bytes removed since the last successful write, and the steady time of the last removal.
    made: u64,
    made_ns: u64,
    /// Steady time of the first failure on a full disk; `None` after a success.
    full_ns: Option<u64>,
    /// Results of the finishing thread, for the writer.
    file_events: Vec<FileEvent>,
    lock: FolderLock,
}

/// A file was synced or finished, or should have been.
#[derive(Debug)]
pub(super) enum FileEvent {
    /// A sync of the file that is being written, with its duration in ns.
    Synced { job: SyncJob, result: io::Result<()>, took_ns: u64 },
    /// The end of a file.
    Finished { job: FinishJob, result: io::Result<()> },
}

/// Ended files whose last writes are pending.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ending {
    pub files: u64,
    pub bytes: u64,
}

impl Folder {
    /// Locks and scans the folder, finishes what killed runs left, and opens the first file in the
    /// background. `extension` has no dot.
    pub fn open(
        plan: &DirPlan,
        extension: &'static str,
        direct: bool,
        access: FileAccess,
        wakeup: Wakeup,
    ) -> Result<Self> {
        let usual = if plan.rotate_packets.is_some() { PREALLOCATED_FOR_PACKETS } else { PREALLOCATED };
        let preallocate = plan.rotate_bytes.unwrap_or(usual).min(1 << 30);
        let (dir, sync): (_, SyncFile) = (plan.dir.clone(), File::sync_data);
        let open_plan = OpenPlan { dir, direct, preallocate, unnamed: true, access, sync };
        Self::with(open_plan, plan, extension, wakeup)
    }

    /// A folder whose files are synced by `sync`.
    #[cfg(test)]
    pub(super) fn with_sync(plan: &DirPlan, extension: &'static str, sync: SyncFile) -> Result<Self> {
        let dir = plan.dir.clone();
        let open_plan = OpenPlan {
            dir,
            direct: false,
            preallocate: 0,
            unnamed: true,
            access: FileAccess::default(),
            sync,
        };
        Self::with(open_plan, plan, extension, Wakeup::new()?)
    }

    fn with(
        mut open_plan: OpenPlan,
        plan: &DirPlan,
        extension: &'static str,
        wakeup: Wakeup,
    ) -> Result<Self> {
        let names = plan.name_template(extension)?;
        let patience = LockPatience::begin();
        let mut lock = FolderLock::take(&plan.dir, patience)?;
        remove_hidden(&plan.dir);
        let wrap = plan.retention.files.filter(|_| plan.wrap);
        let ring = wrap.and_then(|wrap| lock.ring(&plan.name, wrap));
        let kept_files = KeptFiles::scan(&plan.dir, &names, plan.retention, patience, (wrap, ring))?;
        let next = kept_files.position();
        lock.keep(wrap.map(|wrap| Ring { next, wrap, template: plan.name.clone() }));
        let rotate_bytes = plan.rotate_bytes.unwrap_or_else(|| kept_files.share_bytes());
        let rotate_bytes = rotate_bytes.min(rotate_bytes_max(&plan.dir));
        open_plan.preallocate = open_plan.preallocate.min(rotate_bytes);
        let post_rotate =
            plan.exec.as_deref().map(|command| PostRotate::start(command, &plan.dir)).transpose()?;
        let opener = FileOpener::start(open_plan.clone(), wakeup)?;
        opener.open_next();
        Ok(Self {
            open_plan,
            names,
            wrap: wrap.unwrap_or(u64::MAX),
            files_max: plan.retention.files.unwrap_or(u64::MAX),
            kept_files,
            opener,
            post_rotate,
            rotate_bytes,
            rotate_packets: plan.rotate_packets.unwrap_or(u64::MAX),
            unfinished: 0,
            unfinished_bytes: 0,
            stuck: Vec::new(),
            in_progress: 0,
            opened: None,
            is_opening: true,
            looked_ns: 0,
            named_ns: 0,
            made: 0,
            made_ns: 0,
            full_ns: None,
            file_events: Vec::new(),
            lock,
        })
    }

    /// Returns the next file and its final path, after pruning old files. Until it is finished its name
    /// ends in `.part`. It begins with `first`, so that it is a valid capture file from the start;
    /// `time_ns` is its first packet's time.
    pub(super) fn next(
        &mut self,
        time_ns: u64,
        first: &[u8],
        ending: Ending,
    ) -> Result<(Arc<File>, PathBuf)> {
        self.await_finishing(ending);
        self.prune(self.room(), ending);
        let mut new_file = self.take_opened()?;
        self.begin(&new_file.file, first)?;
        // Meanwhile another file may have been finished, which counts for the rules and for its number.
        self.prune(self.room(), ending);
        self.named_ns = name_time_ns(self.named_ns, time_ns);
        let path = self.name(&mut new_file, self.named_ns, ending)?;
        // Only now, so that there is at most one hidden file.
        self.open_next();
        Ok((new_file.file.clone(), path))
    }

    /// Waits for files that are being finished, while these, those in `ending` and the next one are more than the rule
    /// permits: none of them can be removed.
    fn await_finishing(&mut self, ending: Ending) {
        while self.unfinished + ending.files + 1 > self.files_max && self.wait_for_one() {}
    }

    fn begin(&mut self, file: &File, first: &[u8]) -> Result<()> {
        let mut buffer = Buffer::new(first.len())?;
        buffer[..first.len()].copy_from_slice(first);
        loop {
            match file.write_all_at(&buffer[..first.len()], 0) {
                Ok(()) => return Ok(()),
                Err(error) if is_full(&error) && self.make_room(NAME_BYTES) => {}
                Err(error) => return Err(Error::path("begin a file in", &self.open_plan.dir, error)),
            }
        }
    }

    fn name(&mut self, new_file: &mut NewFile, time_ns: u64, ending: Ending) -> Result<PathBuf> {
        let mut taken = 0;
        let mut path = self.next_path(time_ns);
        loop {
            match new_file.name(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let pruned = self.pruned();
                    path = self.path_instead(time_ns, taken + 1, ending);
                    // Pruning may have freed any of the numbers.
                    taken = if self.pruned() > pruned { 0 } else { taken + 1 };
                }
                Err(error) if is_full(&error) && self.make_room(NAME_BYTES) => {}
                Err(error) => return Err(Error::path("name the file", path, error)),
            }
        }
    }

    fn next_path(&mut self, time_ns: u64) -> PathBuf {
        let number = self.kept_files.next_number() % self.wrap;
        self.lock.note_next(self.kept_files.position());
        self.open_plan.dir.join(self.names.name(time_ns, number))
    }

    /// Returns another path after `taken` existing ones. With restarting numbers all may exist because
    /// the oldest file is not finished yet: that is waited for. If they still exist then, they belong to
    /// other programs, and the numbers continue upwards.
    fn path_instead(&mut self, time_ns: u64, taken: u64, ending: Ending) -> PathBuf {
        if taken.is_multiple_of(self.wrap) && !self.wait_for_one() && !self.wait_for_command() {
            self.wrap = u64::MAX;
        }
        self.prune(self.room(), ending);
        self.next_path(time_ns)
    }

    /// Syncs the file that is being written, in the background.
    pub(super) fn sync(&self, file: Arc<File>, path: &Path, bytes: u64, is_new: bool) {
        self.opener.sync(SyncJob { file, path: part_of(path), bytes, is_new });
    }

    /// Truncates, syncs and names an ended file in the background.
    pub(super) fn finish(&mut self, job: FinishJob) {
        self.unfinished += 1;
        self.unfinished_bytes += job.bytes;
        self.in_progress += 1;
        self.opener.finish(job);
    }

    /// Returns the results of syncs and of finished files since the last call.
    pub(super) fn take_file_events(&mut self) -> Vec<FileEvent> {
        std::mem::take(&mut self.file_events)
    }

    /// Returns the first failure of a sync or of a finished file since the last call.
    pub(super) fn take_failure(&mut self) -> Option<(PathBuf, io::Error)> {
        self.take_file_events().into_iter().find_map(|event| match event {
            FileEvent::Synced { job, result, .. } => result.err().map(|error| (job.path, error)),
            FileEvent::Finished { job, result } => result.err().map(|error| (job.name, error)),
        })
    }

    /// Removes an empty file.
    pub(super) fn discard(&mut self, path: &Path) {
        // The next run removes an empty .part that remains.
        let _ = std::fs::remove_file(part_of(path));
    }

    /// Handles all jobs that the opener has completed.
    pub(super) fn collect_finished(&mut self) {
        while let Some(done) = self.opener.done() {
            self.handle(done);
        }
        self.free_stuck();
    }

    /// Handles completed jobs, and regularly applies the retention rules while a file of `current_bytes`
    /// is being written.
    pub(super) fn tick(&mut self, current_bytes: u64, ending: Ending) {
        self.collect_finished();
        let now_ns = steady_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            self.prune(current_bytes, ending);
        }
    }

    /// Returns how many ended files may have writes pending when the next file begins, so that the
    /// retention rule holds for all together.
    pub(super) fn ending_max(&self) -> u64 {
        (self.files_max - 1).clamp(1, ENDING_FILES_MAX)
    }

    /// Returns the space that the next file may need, bytes.
    fn room(&self) -> u64 {
        if self.rotate_bytes == u64::MAX { 0 } else { self.rotate_bytes }
    }

    /// Keeps the files that the post-rotate command has not had yet. Returns their number.
    fn hold(&mut self) -> u64 {
        let waiting = self.post_rotate.as_ref().map_or(0, PostRotate::waiting);
        self.kept_files.hold(waiting);
        waiting
    }

    fn prune(&mut self, current_bytes: u64, ending: Ending) {
        self.hold();
        let open_files = self.unfinished + ending.files + 1;
        self.kept_files.prune(open_files, self.unfinished_bytes + ending.bytes + current_bytes);
    }

    /// Returns the number of files removed so far.
    pub(super) fn pruned(&self) -> u64 {
        self.kept_files.pruned
    }

    /// Returns the number of those that earlier runs had left.
    pub(super) fn pruned_earlier(&self) -> u64 {
        self.kept_files.pruned_earlier
    }

    /// A warning if a retention rule cannot be met.
    pub(super) fn unmet_rule(&self) -> Option<String> {
        self.kept_files.unmet()
    }

    /// A remark on files that do not count.
    pub(super) fn strange_files(&self) -> Option<String> {
        self.kept_files.strange()
    }

    /// Removes old files to make room for `bytes` on a full disk; the caller then tries again. `false`
    /// without a retention rule, without a file to remove, or when removing files has not helped.
    pub(super) fn make_room(&mut self, bytes: u64) -> bool {
        let now_ns = steady_ns();
        if now_ns - *self.full_ns.get_or_insert(now_ns) >= LATE_NS {
            return false;
        }
        if self.made >= bytes.max(1) + self.open_plan.preallocate && now_ns - self.made_ns < MORE_NS {
            // Enough has been removed, also for the preallocation of the next file. Some file systems
            // free it later.
            std::thread::sleep(RETRY_PAUSE);
            return true;
        }
        loop {
            while let Some(done) = self.opener.done() {
                self.handle(done);
            }
            let held = self.hold();
            let made = self.kept_files.make_room(bytes);
            if made > 0 {
                self.made += made;
                self.made_ns = steady_ns();
                return true;
            }
            if self.give_back() {
                return true;
            }
            if !self.wait_for_one() {
                // No file is left, but the space of removed ones may still be freed, and the post-rotate command may
                // end, after which its file may be removed.
                std::thread::sleep(RETRY_PAUSE);
                return held > 0 || self.kept_files.frees_later();
            }
        }
    }

    /// Gives the space back that is set aside for the next file; returns whether there was any.
    fn give_back(&mut self) -> bool {
        self.opened.iter_mut().flatten().any(NewFile::give_back)
    }

    /// Returns whether the file system has room for another file, after one that did not fit.
    pub(super) fn has_room(&mut self) -> bool {
        self.collect_finished();
        let is_set_aside = |file: &NewFile| file.file.metadata().map_or(0, |found| found.blocks() * 512);
        let set_aside = self.opened.iter().flatten().map(is_set_aside).sum::<u64>();
        let free = space(&self.open_plan.dir).map_or(0, |space| space.free);
        free.saturating_add(set_aside) >= self.open_plan.preallocate
    }

    /// Records a successful write.
    pub(super) fn note_success(&mut self) {
        (self.made, self.full_ns) = (0, None);
    }

    /// Waits until every file is finished.
    pub(super) fn finish_all(&mut self) {
        loop {
            while self.wait_for_one() {}
            if self.stuck.is_empty() {
                break;
            }
            self.free_stuck();
        }
        self.hold();
        self.kept_files.prune(0, 0);
    }

    /// Waits until the post-rotate command has run for every finished file, which the retention rules may remove then;
    /// call it after [`Self::finish_all`].
    pub(super) fn finish_post_rotate(&mut self) -> CommandRuns {
        let runs = self.post_rotate.take().map(PostRotate::finish).unwrap_or_default();
        self.hold();
        self.kept_files.prune(0, 0);
        runs
    }

    /// Makes room for the names of files that could not be named, and retries them.
    fn free_stuck(&mut self) {
        while let Some(mut job) = self.stuck.pop() {
            let now_ns = steady_ns();
            let since_ns = *job.stuck_ns.get_or_insert(now_ns);
            if now_ns - since_ns < LATE_NS && self.make_room(NAME_BYTES) {
                self.in_progress += 1;
                self.opener.finish(job);
            } else {
                self.end(job, Err(Some(ErrorKind::StorageFull.into())));
            }
        }
    }

    /// Waits until the post-rotate command has had another file; `false` without one, or if it takes too long.
    fn wait_for_command(&mut self) -> bool {
        let (waiting, until_ns) = (self.hold(), steady_ns() + COMMAND_WAIT_NS);
        while waiting > 0 && steady_ns() < until_ns {
            if self.hold() < waiting {
                return true;
            }
            std::thread::sleep(RETRY_PAUSE);
        }
        false
    }

    fn wait_for_one(&mut self) -> bool {
        if self.in_progress == 0 {
            return false;
        }
        let done = self.opener.wait();
        done.map(|done| self.handle(done)).is_some()
    }

    fn open_next(&mut self) {
        self.is_opening = true;
        self.opener.open_next();
    }

    fn take_opened(&mut self) -> Result<NewFile> {
        loop {
            match self.opened.take() {
                Some(Ok(new_file)) => return Ok(new_file),
                Some(Err(error)) if is_full(&error) && self.make_room(NAME_BYTES) => {
                    self.open_next();
                }
                Some(Err(error)) => return Err(Error::path("open a file in", &self.open_plan.dir, error)),
                // The last one could not begin.
                None if !self.is_opening => self.open_next(),
                None => match self.opener.wait() {
                    Some(done) => self.handle(done),
                    None => return Err(Error::Defect("the file opener has ended".into())),
                },
            }
        }
    }

    fn handle(&mut self, done: JobDone) {
        match done {
            JobDone::Opened(opened) => (self.opened, self.is_opening) = (Some(opened), false),
            JobDone::Finisher(FinisherDone::Synced(job, result, took_ns)) => {
                self.file_events.push(FileEvent::Synced { job, result, took_ns });
            }
            JobDone::Finisher(FinisherDone::Finished(job, finish)) => {
                self.in_progress -= 1;
                match finish {
                    Finish::Named => self.end(job, Ok(())),
                    Finish::Stuck => self.stuck.push(job),
                    Finish::Failed(error) => self.end(job, Err(error)),
                }
            }
        }
    }

    /// Adds a file to the books, for better or worse. An error that was reported before is `None`.
    fn end(&mut self, job: FinishJob, finished: Result<(), Option<io::Error>>) {
        self.unfinished -= 1;
        self.unfinished_bytes -= job.bytes;
        let result = match finished {
            Ok(()) => {
                if let Some(post_rotate) = &self.post_rotate {
                    post_rotate.add(job.path.clone());
                }
                let bytes = job.file.metadata().map_or(job.bytes, |found| disk_bytes(&found));
                self.kept_files.add(job.path.clone(), bytes, self.post_rotate.is_some());
                Ok(())
            }
            Err(error) => {
                self.hold();
                // One that another process has removed, or moved away, takes no space of the rules.
                if job.name.symlink_metadata().is_ok() {
                    self.kept_files.add_unfinished(job.name.clone(), job.bytes);
                }
                let Some(error) = error else { return };
                Err(error)
            }
        };
        self.file_events.push(FileEvent::Finished { job, result });
    }
}

/// The time in the name of a file whose first packet is of `time_ns`, after one named by `before_ns`: names sort as the
/// files were written.
fn name_time_ns(before_ns: u64, time_ns: u64) -> u64 {
    if before_ns.saturating_sub(time_ns) < DISORDER_NS { before_ns.max(time_ns) } else { time_ns }
}

#[cfg(test)]
mod tests;
