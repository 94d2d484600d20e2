//! Two threads that open the next file ahead of need and finish the last one, so that a slow file system
//! call does not delay the writer.
//!
//! A file opened ahead has no name (O_TMPFILE): a crash leaves nothing, and a folder never shows more
//! files than the retention rule allows.

use super::name_template::PART;
use crate::error::is_full;
use crate::{Error, Result};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::linkat;
use quaff_os::disk::{direct_align, open_unnamed, preallocate, rename_new, sync_all, sync_folder};
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
    /// Bytes to preallocate for each file.
    pub preallocate: u64,
    /// With O_TMPFILE where the file system supports it; otherwise under hidden names.
    pub unnamed: bool,
}

/// An open file without a final name. Dropped before [`NewFile::name`], it leaves nothing in the folder.
#[derive(Debug)]
pub(super) struct NewFile {
    pub file: Arc<File>,
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
        preallocate(&file, 0, plan.preallocate);
        // A leftover is recognised by its free lock; where locks fail, no file is taken for one.
        let _ = file.try_lock();
        Ok(Self { file: Arc::new(file), hidden })
    }

    /// Links the file as `path` with `.part` appended; EEXIST if either name exists.
    pub(super) fn name(&mut self, path: &Path) -> io::Result<()> {
        let part = part_of(path);
        // In this order: the other thread may be renaming an earlier file from the one name to the other.
        if part.symlink_metadata().is_ok() || path.symlink_metadata().is_ok() {
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

/// Some file systems of FUSE open a file with O_DIRECT, and refuse to write to it.
fn takes(file: &File, align: usize) -> bool {
    Buffer::new(align).is_ok_and(|buffer| file.write_all_at(&buffer[..align], 0).is_ok())
}

/// Removes hidden files of killed runs. The caller must hold the lock of the folder.
pub(super) fn remove_hidden(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(HIDDEN) {
            // One that remains only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the name of a file until it is finished.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    part.into()
}

/// A file to be truncated, synced and named.
#[derive(Debug)]
pub(super) struct FinishJob {
    pub file: Arc<File>,
    /// Its final path.
    pub path: PathBuf,
    /// Its final length.
    pub bytes: u64,
    /// Steady time of the first failed attempt.
    pub stuck_ns: Option<u64>,
}

/// The result of a job of the opener.
#[derive(Debug)]
pub(super) enum JobDone {
    /// The next file is open.
    Opened(io::Result<NewFile>),
    /// A file has its final length and name, and is on disk.
    Finished(FinishJob, io::Result<()>),
}

/// An opening and a finishing thread, so that a slow sync does not delay the next file. They end after
/// their last job when this is dropped.
#[derive(Debug)]
pub(super) struct FileOpener {
    opens: Option<Sender<()>>,
    finishes: Option<Sender<FinishJob>>,
    done: Receiver<JobDone>,
    threads: Vec<JoinHandle<()>>,
}

impl FileOpener {
    /// Starts the threads; `wakeup` is signalled after each job.
    pub(super) fn start(plan: OpenPlan, wakeup: Wakeup) -> Result<Self> {
        let (opens, to_open) = channel();
        let (finishes, to_finish) = channel();
        let (outbox, done) = channel();
        let (open_outbox, open_wakeup) = (outbox.clone(), wakeup.clone());
        let mut opener = Self { opens: Some(opens), finishes: Some(finishes), done, threads: Vec::new() };
        opener.spawn("quaff-opener", move || {
            work(&to_open, &open_outbox, &open_wakeup, |()| JobDone::Opened(NewFile::open(&plan)));
        })?;
        opener.spawn("quaff-opener", move || {
            work(&to_finish, &outbox, &wakeup, |job: FinishJob| {
                let finished = match finish(&job.file, &job.path, job.bytes) {
                    Err(error) if is_full(&error) => finish_again(&job.file, &job.path, job.bytes),
                    finished => finished,
                };
                JobDone::Finished(job, finished)
            });
        })?;
        Ok(opener)
    }

    /// Queues the opening of the next file.
    pub(super) fn open_next(&self) {
        send(self.opens.as_ref(), ());
    }

    /// Queues the finishing of a file.
    pub(super) fn finish(&self, job: FinishJob) {
        send(self.finishes.as_ref(), job);
    }

    /// Returns the oldest completed job, if any.
    pub(super) fn done(&self) -> Option<JobDone> {
        self.done.try_recv().ok()
    }

    /// Waits for the next completed job; `None` when the threads have ended.
    pub(super) fn wait(&self) -> Option<JobDone> {
        self.done.recv().ok()
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for FileOpener {
    fn drop(&mut self) {
        (self.opens, self.finishes) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sending cannot fail: the threads end only after `drop` has dropped the senders.
fn send<T>(to: Option<&Sender<T>>, job: T) {
    if let Some(to) = to {
        let _ = to.send(job);
    }
}

fn work<T>(
    inbox: &Receiver<T>,
    outbox: &Sender<JobDone>,
    wakeup: &Wakeup,
    mut job: impl FnMut(T) -> JobDone,
) {
    while let Ok(next) = inbox.recv() {
        if outbox.send(job(next)).is_err() {
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

/// Truncates the file to its length, syncs it, and only then gives it its final name, which is synced too. EEXIST when
/// another program has taken the name: the file stays a `.part`.
fn finish(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.sync_data()?;
    rename_new(&part_of(path), path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Syncs the file system's journal first, which frees the space of removed files: rename(2), unlike a
/// write, does not wait for that.
fn finish_again(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    sync_all(file)?;
    finish(file, path, bytes)
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

    #[test]
    fn a_finished_file_replaces_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = File::create(part_of(&path)).unwrap();
        fs::write(&path, b"of another program").unwrap();
        assert_eq!(finish(&file, &path, 0).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"of another program");
        fs::remove_file(&path).unwrap();
        finish(&file, &path, 0).unwrap();
        assert!(path.exists() && !part_of(&path).exists());
    }

    /// With the two looks of [`NewFile::name`] in the other order, one of some thousand renames falls between them.
    #[test]
    fn the_name_of_a_file_that_is_being_finished_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let plan = OpenPlan { dir: dir.path().to_owned(), direct: false, preallocate: 0, unnamed: true };
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
