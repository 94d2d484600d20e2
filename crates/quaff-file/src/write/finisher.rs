//! The thread that syncs files: the file that is being written, at intervals (`--fsync`), and each file when it ends.
//! A slow sync delays neither the writer nor the next file.
//!
//! The kernel reports a failed writeback to one fsync(2) only, and drops the data: a later success proves nothing. So
//! one thread does all syncs in order, and a file with a failed sync keeps its `.part`.

use super::name_template::PART;
use crate::Result;
use crate::error::is_full;
use quaff_os::Wakeup;
use quaff_os::clock::steady_ns;
use quaff_os::disk::{rename_new, sync_all, sync_folder};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Writes the data and the length of a file to disk: [`File::sync_data`].
pub(super) type SyncFile = fn(&File) -> io::Result<()>;

/// Returns the name of a file until it is finished.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(PART);
    part.into()
}

/// A file to be synced while it is written.
#[derive(Debug)]
pub(super) struct SyncJob {
    pub file: Arc<File>,
    /// Its name.
    pub path: PathBuf,
    /// Its length, by completed writes.
    pub bytes: u64,
    /// Sync its folder too: its name is new.
    pub is_new: bool,
}

/// A file to be truncated, synced and named.
#[derive(Debug)]
pub(super) struct FinishJob {
    pub file: Arc<File>,
    /// Its final path, and the name that it has.
    pub path: PathBuf,
    pub name: PathBuf,
    /// Its final length, and the part of it that earlier syncs cover.
    pub bytes: u64,
    pub synced: u64,
    /// Packets in it.
    pub packets: u64,
    /// It ends before a failed write.
    pub is_cut: bool,
    /// Steady time of the first failed attempt.
    pub stuck_ns: Option<u64>,
}

impl FinishJob {
    /// A file whose name is `path` with `.part` appended.
    pub(super) fn new(file: Arc<File>, path: PathBuf, bytes: u64, synced: u64) -> Self {
        let name = part_of(&path);
        Self { file, path, name, bytes, synced, packets: 0, is_cut: false, stuck_ns: None }
    }
}

/// The result of a [`FinishJob`].
#[derive(Debug)]
pub(super) enum Finish {
    /// The file has its final length and name, and is on disk.
    Named,
    /// The disk was too full to name it; another attempt may succeed.
    Stuck,
    /// It may not be on disk, or has no final name. `None` if an earlier sync of it has failed, which was reported.
    Failed(Option<io::Error>),
}

/// A job that is done.
#[derive(Debug)]
pub(super) enum FinisherDone {
    /// A sync and its result, with the duration in ns.
    Synced(SyncJob, io::Result<()>, u64),
    Finished(FinishJob, Finish),
}

#[derive(Debug)]
enum Job {
    Sync(SyncJob),
    Finish(FinishJob),
}

/// The thread. It ends after its last job when this is dropped.
#[derive(Debug)]
pub(super) struct Finisher {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Finisher {
    /// Starts the thread; `wakeup` is signalled after each job.
    pub(super) fn start<T>(outbox: Sender<T>, wakeup: Wakeup, sync: SyncFile) -> Result<Self>
    where
        T: From<FinisherDone> + Send + 'static,
    {
        let (jobs, inbox) = channel();
        let mut work = Work { sync, suspects: Vec::new() };
        let body = move || {
            while let Ok(job) = inbox.recv() {
                if outbox.send(work.run(job).into()).is_err() {
                    return;
                }
                wakeup.signal();
            }
        };
        let thread = quaff_os::spawn("quaff-finisher", body)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(super) fn sync(&self, job: SyncJob) {
        self.send(Job::Sync(job));
    }

    pub(super) fn finish(&self, job: FinishJob) {
        self.send(Job::Finish(job));
    }

    /// Sending cannot fail: the thread ends only after `drop` has dropped the sender.
    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Work {
    sync: SyncFile,
    /// Unfinished files with a failed sync.
    suspects: Vec<Weak<File>>,
}

impl Work {
    fn run(&mut self, job: Job) -> FinisherDone {
        match job {
            Job::Sync(job) => {
                let begun_ns = steady_ns();
                let synced = self.sync_now(&job);
                FinisherDone::Synced(job, synced, steady_ns() - begun_ns)
            }
            Job::Finish(mut job) => {
                let finish = self.finish(&mut job);
                FinisherDone::Finished(job, finish)
            }
        }
    }

    fn sync_now(&mut self, job: &SyncJob) -> io::Result<()> {
        if let Err(error) = (self.sync)(&job.file) {
            self.suspects.push(Arc::downgrade(&job.file));
            return Err(error);
        }
        if job.is_new { sync_parent(&job.path) } else { Ok(()) }
    }

    fn finish(&mut self, job: &mut FinishJob) -> Finish {
        // A dead reference keeps its allocation, so addresses are not used twice.
        let is_it = |suspect: &Weak<File>| suspect.as_ptr() == Arc::as_ptr(&job.file);
        let is_suspect = self.suspects.iter().any(is_it);
        self.suspects.retain(|suspect| !is_it(suspect) && suspect.strong_count() > 0);
        if is_suspect {
            // Frees the space preallocated after the end; keeping it does no harm.
            let _ = job.file.set_len(job.bytes);
            return Finish::Failed(None);
        }
        let finished = self.try_finish(job).or_else(|failure| match failure {
            // A commit of the file system frees the space of removed files, which rename(2), unlike a write, does not
            // wait for.
            Finish::Stuck => sync_all(&job.file).map_err(without_space).and_then(|()| self.try_finish(job)),
            failure => Err(failure),
        });
        finished.map_or_else(|failure| failure, |()| Finish::Named)
    }

    fn try_finish(&self, job: &mut FinishJob) -> Result<(), Finish> {
        job.file.set_len(job.bytes).map_err(without_space)?;
        (self.sync)(&job.file).map_err(|error| Finish::Failed(Some(error)))?;
        name(job).map_err(without_space)
    }
}

fn without_space(error: io::Error) -> Finish {
    if is_full(&error) { Finish::Stuck } else { Finish::Failed(Some(error)) }
}

/// Gives a synced file its final name, and syncs the name. EEXIST when another program has taken the name: the file
/// stays a `.part`.
fn name(job: &mut FinishJob) -> io::Result<()> {
    if job.name != job.path {
        rename_new(&job.name, &job.path)?;
        job.name.clone_from(&job.path);
    }
    sync_parent(&job.path)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), sync_folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;

    fn work() -> Work {
        Work { sync: File::sync_data, suspects: Vec::new() }
    }

    fn fails(_: &File) -> io::Result<()> {
        Err(quaff_os::Errno::EIO.into())
    }

    #[test]
    fn a_finished_file_replaces_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = Arc::new(File::create(part_of(&path)).unwrap());
        fs::write(&path, b"of another program").unwrap();
        let mut job = FinishJob::new(file, path.clone(), 0, 0);
        let Finish::Failed(Some(error)) = work().finish(&mut job) else { panic!("it was named") };
        assert_eq!((error.kind(), &job.name), (ErrorKind::AlreadyExists, &part_of(&path)));
        assert_eq!(fs::read(&path).unwrap(), b"of another program");
        fs::remove_file(&path).unwrap();
        assert!(matches!(work().finish(&mut job), Finish::Named));
        assert!(path.exists() && !part_of(&path).exists() && job.name == path);
    }

    #[test]
    fn a_file_whose_sync_failed_keeps_its_part_though_a_later_sync_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let [bad, good] = ["bad", "good"].map(|name| dir.path().join(name));
        let [of_bad, of_good] = [&bad, &good].map(|path| Arc::new(File::create(part_of(path)).unwrap()));
        let mut work = Work { sync: fails, suspects: Vec::new() };
        let job = SyncJob { file: of_bad.clone(), path: part_of(&bad), bytes: 0, is_new: true };
        assert!(work.sync_now(&job).is_err());
        work.sync = File::sync_data;
        assert!(work.sync_now(&SyncJob { file: of_good.clone(), path: part_of(&good), ..job }).is_ok());
        let mut finish = |file, path: &PathBuf| work.finish(&mut FinishJob::new(file, path.clone(), 9, 0));
        assert!(matches!(finish(of_bad, &bad), Finish::Failed(None)));
        assert!(matches!(finish(of_good, &good), Finish::Named));
        assert!(!bad.exists() && good.exists());
        assert_eq!(part_of(&bad).metadata().unwrap().len(), 9);
        assert!(work.suspects.is_empty());
    }

    #[test]
    fn a_file_whose_last_sync_fails_is_not_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = Arc::new(File::create(part_of(&path)).unwrap());
        let mut work = Work { sync: fails, suspects: Vec::new() };
        let finish = work.finish(&mut FinishJob::new(file, path.clone(), 0, 0));
        assert!(matches!(finish, Finish::Failed(Some(_))) && !path.exists(), "{finish:?}");
    }
}
