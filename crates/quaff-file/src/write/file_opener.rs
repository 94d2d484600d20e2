//! Two threads, one that opens the next file ahead of need and one that finishes the last one, so that a slow file
//! system call does not delay the writer.
//!
//! A file opened ahead has no name (O_TMPFILE): a crash leaves nothing, and a folder never shows more
//! files than the retention rule allows.

use super::finisher::{FinishJob, Finisher, FinisherDone, SyncFile, SyncJob, part_of};
use super::set_aside::SetAside;
use super::suffix::relatives;
use crate::Result;
use crate::error::is_full;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use quaff_os::disk::{FileAccess, Owners, direct_align, open_unnamed, rename_new, sync_all};
use quaff_os::{Buffer, Wakeup};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Folder and flags for opening files.
#[derive(Debug, Clone)]
pub(super) struct OpenPlan {
    pub dir: PathBuf,
    /// With O_DIRECT.
    pub direct: bool,
    /// Bytes to preallocate for each file, of what is free.
    pub preallocate: u64,
    /// With O_TMPFILE where the file system supports it; otherwise under hidden names.
    pub unnamed: bool,
    pub access: FileAccess,
    pub sync: SyncFile,
}

/// An open file without a final name. Dropped before [`NewFile::name`], it leaves nothing in the folder.
#[derive(Debug)]
pub(super) struct NewFile {
    pub file: Arc<File>,
    /// Preallocated space, until the file has a name.
    set_aside: SetAside,
    /// Its hidden path, on file systems without O_TMPFILE.
    hidden: Option<PathBuf>,
}

impl NewFile {
    /// Opens, preallocates and locks a file.
    pub(super) fn open(plan: &OpenPlan) -> io::Result<Self> {
        let unnamed = if plan.unnamed {
            open_unnamed(&plan.dir, plan.direct)
        } else {
            Err(ErrorKind::Unsupported.into())
        };
        let (file, hidden) = match unnamed {
            Ok(file) => (file, None),
            Err(error)
                if is_full(&error)
                    || matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
            {
                return Err(error);
            }
            Err(_) => open_hidden(plan)?,
        };
        let mut opened = Self { file: Arc::new(file), set_aside: SetAside::none(), hidden };
        plan.access.apply(&opened.file)?;
        opened.set_aside = SetAside::once(&opened.file, plan.preallocate);
        // A leftover is recognised by its free lock; where locks fail, no file is taken for one.
        let _ = opened.file.try_lock();
        Ok(opened)
    }

    /// Frees the space that was preallocated for it; returns whether there was any.
    pub(super) fn give_back(&mut self) -> bool {
        let had = self.set_aside.ahead();
        self.set_aside = SetAside::none();
        let is_back = had > 0 && self.file.set_len(0).is_ok();
        if is_back {
            // Some file systems free it only when their journal commits.
            let _ = sync_all(&self.file);
        }
        is_back
    }

    /// Links the file as `path` with `.part` appended; EEXIST if either name exists, or a file that retention
    /// takes for the same: compressed, or plain.
    pub(super) fn name(&mut self, path: &Path) -> io::Result<()> {
        let part = part_of(path);
        // In this order: the other thread may be renaming an earlier file from the one name to the other.
        if part.symlink_metadata().is_ok()
            || relatives(path).iter().any(|path| path.symlink_metadata().is_ok())
        {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match &self.hidden {
            Some(hidden) => rename_new(hidden, &part)?,
            None => link_unnamed(&self.file, &part)?,
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // The next run removes it if this fails.
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Prefix of hidden files; the process id and a number follow.
const HIDDEN: &str = ".quaff-next-";
/// Makes hidden names unique within the process.
static HIDDEN_NUMBER: AtomicU64 = AtomicU64::new(0);

fn open_hidden(plan: &OpenPlan) -> io::Result<(File, Option<PathBuf>)> {
    let path = hidden_path(&plan.dir);
    Ok((create(&path, plan.direct)?, Some(path)))
}

fn hidden_path(dir: &Path) -> PathBuf {
    // Different numbers need no order between threads.
    let number = HIDDEN_NUMBER.fetch_add(1, Ordering::Relaxed);
    dir.join(format!("{HIDDEN}{}-{number}", std::process::id()))
}

fn create(path: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { nix::libc::O_DIRECT } else { 0 };
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o640).custom_flags(flags).open(path)
}

/// Returns the alignment of direct writes to files in the folder, by a write to a hidden file; 1 where O_DIRECT is not
/// supported.
pub(super) fn probe_named(dir: &Path) -> io::Result<usize> {
    let path = hidden_path(dir);
    let created = create(&path, true);
    let align = created.as_ref().ok().and_then(|file| direct_align(file).filter(|align| takes(file, *align)));
    // An open that is refused may have created the file. The next run removes one that remains.
    let _ = fs::remove_file(&path);
    match created {
        Err(error) if error.kind() != ErrorKind::InvalidInput => Err(error),
        _ => Ok(align.unwrap_or(1)),
    }
}

/// Returns whether a direct write succeeds. Some FUSE file systems open a file with O_DIRECT and then refuse to write
/// to it.
fn takes(file: &File, align: usize) -> bool {
    Buffer::new(align).is_ok_and(|buffer| file.write_all_at(&buffer[..align], 0).is_ok())
}

/// Removes hidden files of killed runs. The caller must hold the lock of the folder.
pub(super) fn remove_hidden(dir: &Path) {
    let (Ok(entries), Ok(owners)) = (fs::read_dir(dir), Owners::of(dir)) else { return };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(HIDDEN);
        if is_named && entry.metadata().is_ok_and(|found| owners.own_file(&found)) {
            // One that remains only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The result of a job of the opener.
#[derive(Debug)]
pub(super) enum JobDone {
    /// The next file is open.
    Opened(io::Result<NewFile>),
    /// The finishing thread has done a job.
    Finisher(FinisherDone),
}

impl From<FinisherDone> for JobDone {
    fn from(done: FinisherDone) -> Self {
        Self::Finisher(done)
    }
}

/// An opening and a finishing thread, so that a slow sync does not delay the next file. They end after
/// their last job when this is dropped.
#[derive(Debug)]
pub(super) struct FileOpener {
    opens: Option<Sender<()>>,
    opening: Option<JoinHandle<()>>,
    finisher: Finisher,
    done: Receiver<JobDone>,
}

impl FileOpener {
    /// Starts the threads; `wakeup` is signalled after each job.
    pub(super) fn start(plan: OpenPlan, wakeup: Wakeup) -> Result<Self> {
        let (opens, to_open) = channel();
        let (outbox, done) = channel();
        let finisher = Finisher::start(outbox.clone(), wakeup.clone(), plan.sync)?;
        let body = move || open_all(&plan, &to_open, &outbox, &wakeup);
        let opening = quaff_os::spawn("quaff-opener", body)?;
        Ok(Self { opens: Some(opens), opening: Some(opening), finisher, done })
    }

    /// Queues the opening of the next file.
    pub(super) fn open_next(&self) {
        // Sending cannot fail: the thread ends only after `drop` has dropped the sender.
        if let Some(opens) = &self.opens {
            let _ = opens.send(());
        }
    }

    /// Queues a sync of the file that is being written.
    pub(super) fn sync(&self, job: SyncJob) {
        self.finisher.sync(job);
    }

    /// Queues the finishing of a file.
    pub(super) fn finish(&self, job: FinishJob) {
        self.finisher.finish(job);
    }

    /// Returns the oldest completed job, if any.
    pub(super) fn done(&self) -> Option<JobDone> {
        self.done.try_recv().ok()
    }

    /// Waits for the next completed job; `None` when the threads have ended.
    pub(super) fn wait(&self) -> Option<JobDone> {
        self.done.recv().ok()
    }
}

impl Drop for FileOpener {
    fn drop(&mut self) {
        self.opens = None;
        if let Some(thread) = self.opening.take() {
            let _ = thread.join();
        }
    }
}

/// The opening thread.
fn open_all(plan: &OpenPlan, inbox: &Receiver<()>, outbox: &Sender<JobDone>, wakeup: &Wakeup) {
    while let Ok(()) = inbox.recv() {
        if outbox.send(JobDone::Opened(NewFile::open(plan))).is_err() {
            return;
        }
        wakeup.signal();
    }
}

/// Names an unnamed file. EEXIST when the name is taken.
fn link_unnamed(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(AT_FDCWD, Path::new(&from), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::Errno;
    use std::time::{Duration, Instant};

    #[test]
    fn a_named_file_shows_the_same_alignment_and_leaves_nothing() {
        for dir in [env!("CARGO_MANIFEST_DIR"), "/dev/shm"] {
            let dir = tempfile::tempdir_in(dir).unwrap();
            let expected = open_unnamed(dir.path(), true).ok().map(|file| direct_align(&file).unwrap_or(1));
            let found = probe_named(dir.path()).unwrap();
            assert_eq!(found, expected.unwrap_or(found), "{}", dir.path().display());
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        assert!(probe_named(Path::new("/proc")).is_err());
    }

    /// With the two looks of [`NewFile::name`] in the other order, one of some thousand renames falls between them.
    #[test]
    fn the_name_of_a_file_that_is_being_finished_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let plan = OpenPlan {
            dir: dir.path().to_owned(),
            direct: false,
            preallocate: 0,
            unnamed: true,
            access: FileAccess::default(),
            sync: File::sync_data,
        };
        let mut next = NewFile::open(&plan).unwrap();
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            fs::write(part_of(&path), b"an earlier file").unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| rename_new(&part_of(&path), &path).unwrap());
                for _ in 0..20 {
                    assert_eq!(next.name(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
                }
            });
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn an_unnamed_file_appears_when_it_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(file) = open_unnamed(dir.path(), false) else {
            return quaff_os::testing::skip(
                "an_unnamed_file_appears_when_it_is_linked",
                "no O_TMPFILE in the test folder",
            );
        };
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().join("a.part");
        link_unnamed(&file, &path).unwrap();
        assert_eq!(link_unnamed(&file, &path).unwrap_err().raw_os_error(), Some(Errno::EEXIST as i32));
        assert!(path.exists());
    }
}
