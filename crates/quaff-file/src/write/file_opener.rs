//! The keeper: threads that open the next file ahead of need and finish the last one, so that a slow
//! file system call costs nobody anything.
//!
//! A file that is opened ahead has no name (O_TMPFILE): a crash leaves nothing behind, and a folder
//! never shows more files than its rule allows.

use super::folder::is_full;
use super::name_template::PART;
use crate::{Error, Result};
use quaff_os::disk::{exists, link_unnamed, lock_file, open_unnamed, preallocate, sync_all};
use quaff_os::wakeup::Wakeup;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// How files of a folder are opened.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    /// The folder.
    pub dir: PathBuf,
    /// Past the page cache.
    pub direct: bool,
    /// Bytes to set aside for each file.
    pub preallocate: u64,
    /// Without a name where the file system can do that; else all are opened under hidden names.
    pub unnamed: bool,
}

/// A file that is open and has no final name yet. It leaves nothing behind if it never gets one.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The file.
    pub file: Arc<File>,
    /// Where it can be found meanwhile, on file systems that know no unnamed files.
    hidden: Option<PathBuf>,
}

impl Fresh {
    /// Opens one.
    pub(super) fn open(opening: &Opening) -> io::Result<Self> {
        let unnamed = if opening.unnamed {
            open_unnamed(&opening.dir, opening.direct)
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
            Err(_) => open_hidden(opening)?,
        };
        preallocate(&file, 0, opening.preallocate);
        // What cannot be locked is not taken for a leftover either.
        lock_file(&file);
        Ok(Self { file: Arc::new(file), hidden })
    }

    /// Names it `path` with `.part` behind; EEXIST when there is such a file, finished or not.
    pub(super) fn name(&mut self, path: &Path) -> io::Result<()> {
        let part = part_of(path);
        if exists(path) || exists(&part) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match &self.hidden {
            Some(hidden) => fs::rename(hidden, &part)?,
            None => link_unnamed(&self.file, &part)?,
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // What stays behind is removed by the next run.
            let _ = fs::remove_file(hidden);
        }
    }
}

/// What hidden files are called: this, and a number.
const HIDDEN: &str = ".quaff-next-";
/// No file of this process gets the hidden name of another.
static HIDDEN_NUMBER: AtomicU64 = AtomicU64::new(0);

fn open_hidden(opening: &Opening) -> io::Result<(File, Option<PathBuf>)> {
    let flags = if opening.direct { nix::libc::O_DIRECT } else { 0 };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o640).custom_flags(flags);
    // Names of different numbers need no order between threads.
    let number = HIDDEN_NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = opening.dir.join(format!("{HIDDEN}{}-{number}", std::process::id()));
    Ok((options.open(&path)?, Some(path)))
}

/// Removes hidden files that a killed run left. Only for who has the folder to himself.
pub(super) fn remove_hidden(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(HIDDEN) {
            // One that stays does no harm but to the space it takes.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What a file is called until it is finished.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    part.into()
}

/// A file that is to be finished.
#[derive(Debug)]
pub(super) struct Finish {
    /// The file.
    pub file: Arc<File>,
    /// Its final path.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// When that was first tried in vain, steady ns; `None` before.
    pub stuck_ns: Option<u64>,
}

/// What the keeper has done.
#[derive(Debug)]
pub(super) enum Kept {
    /// The next file is open.
    Opened(io::Result<Fresh>),
    /// A file has its final length and name, and is on disk.
    Finished(Finish, io::Result<()>),
}

/// Two threads, so that a file that takes long to reach the disk does not hold up the next one.
/// They end when this is dropped, after their last job.
#[derive(Debug)]
pub(super) struct Keeper {
    opens: Option<Sender<()>>,
    finishes: Option<Sender<Finish>>,
    done: Receiver<Kept>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts them; `wakeup` signals when something is done.
    pub(super) fn start(opening: Opening, wakeup: Wakeup) -> Result<Self> {
        let (opens, to_open) = channel();
        let (finishes, to_finish) = channel();
        let (outbox, done) = channel();
        let (open_outbox, open_bell) = (outbox.clone(), wakeup.clone());
        let mut keeper = Self { opens: Some(opens), finishes: Some(finishes), done, threads: Vec::new() };
        keeper.spawn("quaff-opener", move || {
            work(&to_open, &open_outbox, &open_bell, |()| Kept::Opened(Fresh::open(&opening)));
        })?;
        keeper.spawn("quaff-keeper", move || {
            work(&to_finish, &outbox, &wakeup, |job: Finish| {
                let finished = match finish(&job.file, &job.path, job.bytes) {
                    Err(error) if is_full(&error) => finish_again(&job.file, &job.path, job.bytes),
                    finished => finished,
                };
                Kept::Finished(job, finished)
            });
        })?;
        Ok(keeper)
    }

    /// Has the next file opened.
    pub(super) fn open_next(&self) {
        send(self.opens.as_ref(), ());
    }

    /// Has a file finished: cut to its length, on disk, and named.
    pub(super) fn finish(&self, job: Finish) {
        send(self.finishes.as_ref(), job);
    }

    /// What has been done since it was last asked.
    pub(super) fn done(&self) -> Option<Kept> {
        self.done.try_recv().ok()
    }

    /// Waits for the next thing to be done; `None` when the threads have gone.
    pub(super) fn wait(&self) -> Option<Kept> {
        self.done.recv().ok()
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        (self.opens, self.finishes) = (None, None);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The threads only end when the senders are dropped, which `drop` alone does.
fn send<T>(to: Option<&Sender<T>>, job: T) {
    if let Some(to) = to {
        let _ = to.send(job);
    }
}

fn work<T>(inbox: &Receiver<T>, outbox: &Sender<Kept>, wakeup: &Wakeup, mut job: impl FnMut(T) -> Kept) {
    while let Ok(next) = inbox.recv() {
        if outbox.send(job(next)).is_err() {
            return;
        }
        wakeup.signal();
    }
}

/// Gives back what was set aside behind the end, brings the file to disk, and only then names it.
fn finish(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.sync_data()?;
    fs::rename(part_of(path), path)
}

/// A journal gives back what was removed once it is on disk itself, and rename(2) does not wait for
/// that as writes do.
fn finish_again(file: &File, path: &Path, bytes: u64) -> io::Result<()> {
    sync_all(file)?;
    finish(file, path, bytes)
}
