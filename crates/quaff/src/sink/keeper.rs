//! The keeper: a thread that opens the next file ahead of need and finishes the last one, so that a
//! slow file system call costs nobody anything.
//!
//! A file that is opened ahead has no name (O_TMPFILE): a crash leaves nothing behind, and a folder
//! never shows more files than its rule allows.

use super::names::PART;
use crate::{Error, Result};
use quaff_os::disk::{exists, link_unnamed, lock_file, open_unnamed, preallocate};
use quaff_os::event::Event;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// How files of a folder are opened.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The folder.
    pub dir: PathBuf,
    /// Past the page cache.
    pub direct: bool,
    /// Bytes to set aside for each file.
    pub preallocate: u64,
}

/// A file that is open and has no final name yet.
#[derive(Debug)]
pub struct Fresh {
    /// The file.
    pub file: Arc<File>,
    /// Where it can be found meanwhile, on file systems that know no unnamed files.
    hidden: Option<PathBuf>,
}

impl Fresh {
    /// Opens one.
    pub fn open(opening: &Opening) -> io::Result<Self> {
        let (file, hidden) = match open_unnamed(&opening.dir, opening.direct) {
            Ok(file) => (file, None),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::StorageFull | ErrorKind::NotFound
                ) =>
            {
                return Err(error);
            }
            Err(_) => open_hidden(opening)?,
        };
        preallocate(&file, 0, opening.preallocate);
        lock_file(&file);
        Ok(Self { file: Arc::new(file), hidden })
    }

    /// Names it `path` with `.part` behind; EEXIST when there is such a file, finished or not.
    pub fn name(&self, path: &Path) -> io::Result<PathBuf> {
        let part = part_of(path);
        if exists(path) || exists(&part) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match &self.hidden {
            Some(hidden) => fs::rename(hidden, &part)?,
            None => link_unnamed(&self.file, &part)?,
        }
        Ok(part)
    }
}

fn open_hidden(opening: &Opening) -> io::Result<(File, Option<PathBuf>)> {
    let path = opening.dir.join(format!(".quaff-next-{}", std::process::id()));
    let flags = if opening.direct { nix::libc::O_DIRECT } else { 0 };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true).mode(0o640).custom_flags(flags);
    Ok((options.open(&path)?, Some(path)))
}

/// What a file is called until it is finished.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    part.into()
}

enum Job {
    Open,
    Finish { file: Arc<File>, path: PathBuf, bytes: u64 },
}

/// What the keeper has done.
#[derive(Debug)]
pub enum Kept {
    /// The next file is open.
    Opened(io::Result<Fresh>),
    /// A file has its final length and name, and is on disk.
    Finished(PathBuf, u64, io::Result<()>),
}

/// The thread. It ends when this is dropped, after its last job.
#[derive(Debug)]
pub struct Keeper {
    jobs: Option<Sender<Job>>,
    done: Receiver<Kept>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it; `bell` rings when something is done.
    pub fn start(opening: Opening, bell: Event) -> Result<Self> {
        let (jobs, inbox) = channel();
        let (outbox, done) = channel();
        let thread = std::thread::Builder::new()
            .name("quaff-keeper".into())
            .spawn(move || keep(&opening, &inbox, &outbox, &bell))
            .map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// Has the next file opened.
    pub fn open_next(&self) {
        self.send(Job::Open);
    }

    /// Has a file finished: cut to `bytes`, on disk, and named `path`.
    pub fn finish(&self, file: Arc<File>, path: PathBuf, bytes: u64) {
        self.send(Job::Finish { file, path, bytes });
    }

    /// What has been done since it was last asked.
    pub fn done(&self) -> Option<Kept> {
        self.done.try_recv().ok()
    }

    /// Waits for the next thing to be done; `None` when the thread has gone.
    pub fn wait(&self) -> Option<Kept> {
        self.done.recv().ok()
    }

    fn send(&self, job: Job) {
        // The thread only ends when `jobs` is dropped, which `drop` alone does.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep(opening: &Opening, inbox: &Receiver<Job>, outbox: &Sender<Kept>, bell: &Event) {
    while let Ok(job) = inbox.recv() {
        let kept = match job {
            Job::Open => Kept::Opened(Fresh::open(opening)),
            Job::Finish { file, path, bytes } => {
                let finished = finish(&file, &path, bytes);
                Kept::Finished(path, bytes, finished)
            }
        };
        if outbox.send(kept).is_err() {
            return;
        }
        bell.ring();
    }
}

/// Gives back what was set aside behind the end, brings the file to disk, and only then names it.
fn finish(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.sync_data()?;
    fs::rename(part_of(path), path)
}
