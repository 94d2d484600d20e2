//! The sync of the file that is being written, at the interval of `--fsync`, and the results of all syncs.
//!
//! A sync never delays a write: it runs on a thread, for what was written when it began. A file with a failed sync
//! takes no further chunk, because no later sync of it proves anything.

use super::state::{Files, InPlace, RegularSync};
use crate::Result;
use crate::write::descriptor::has_name;
use crate::write::finisher::{Finisher, FinisherDone, SyncJob};
use crate::write::folder::{FileEvent, Folder};
use quaff_os::clock::steady_ns;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

impl Files {
    /// Syncs the file that is being written every `interval`; without one only at its end.
    pub(in crate::write) fn sync_every(mut self, interval: Option<Duration>) -> Result<Self> {
        let Some(interval) = interval else { return Ok(self) };
        self.regular_sync.interval_ns = Some(interval.as_nanos().try_into().unwrap_or(u64::MAX));
        if self.folder.is_none() {
            let (outbox, done) = channel();
            let finisher = Finisher::start(outbox, self.wakeup.clone(), File::sync_data)?;
            self.regular_sync.in_place = Some(InPlace { finisher, done });
        }
        Ok(self)
    }

    fn is_unsynced(&self) -> bool {
        let is_open = !self.broken && !self.ended && !self.current.is_suspect;
        is_open && self.current.written > self.current.sync_begun
    }

    /// Returns the time until the next sync; zero if it is due.
    pub(super) fn sync_wait(&self) -> Duration {
        let RegularSync { interval_ns, begun_ns, is_running, .. } = self.regular_sync;
        let Some(interval_ns) = interval_ns.filter(|_| !is_running && self.is_unsynced()) else {
            return Duration::MAX;
        };
        Duration::from_nanos(begun_ns.saturating_add(interval_ns).saturating_sub(steady_ns()))
    }

    /// Begins a sync of what has been written, if an interval has passed since the last one began.
    pub(super) fn sync_if_due(&mut self) {
        if !self.sync_wait().is_zero() {
            return;
        }
        let (current, sync) = (&mut self.current, &mut self.regular_sync);
        let is_new = current.sync_begun == 0;
        current.sync_begun = current.written;
        (sync.begun_ns, sync.is_running) = (steady_ns(), true);
        let (file, bytes) = (current.file.clone(), current.written);
        match (&self.folder, &sync.in_place) {
            (Some(folder), _) => folder.sync(file, &current.path, bytes, is_new),
            (None, Some(in_place)) => {
                let path = current.path.clone();
                in_place.finisher.sync(SyncJob { file, path, bytes, is_new: false });
            }
            (None, None) => {}
        }
    }

    /// Handles the syncs that have ended, and the files that were finished or could not be finished.
    pub(super) fn take_file_events(&mut self) {
        let of_folder = self.folder.as_mut().map(Folder::take_file_events).unwrap_or_default();
        of_folder.into_iter().for_each(|event| self.on_file_event(event));
        while let Some(done) = self.regular_sync.in_place.as_ref().and_then(|of| of.done.try_recv().ok()) {
            self.on_done_in_place(done);
        }
    }

    fn on_file_event(&mut self, event: FileEvent) {
        match event {
            FileEvent::Synced { job, result, took_ns } => {
                self.regular_sync.is_running = false;
                self.tally.sync_high_ns = self.tally.sync_high_ns.max(took_ns);
                let is_current = Arc::ptr_eq(&job.file, &self.current.file);
                match result {
                    // The bytes of a file that has ended count when it is finished.
                    Ok(()) if is_current && !self.ended => {
                        self.count_synced(job.bytes, self.current.synced);
                        self.current.synced = job.bytes;
                    }
                    Ok(()) => self.failures.syncs_in_a_row = 0,
                    Err(error) => {
                        self.current.is_suspect |= is_current;
                        self.fail_sync(&job.path, "sync", &error);
                        if self.folder.is_none() {
                            self.sync_failure.get_or_insert((job.path, error));
                        }
                    }
                }
            }
            FileEvent::Finished { job, result: Ok(()) } => self.count_synced(job.bytes, job.synced),
            FileEvent::Finished { job, result: Err(_) } if !has_name(&job.file) => {
                self.tally.failed_files -= u64::from(job.is_cut);
                self.count_removed(job.path, job.packets, job.bytes, job.synced);
            }
            FileEvent::Finished { job, result: Err(error) } => {
                // A file that ends before a failed write counts already.
                self.tally.failed_files -= u64::from(job.is_cut);
                self.fail_sync(&job.name, "finish", &error);
            }
        }
    }

    fn on_done_in_place(&mut self, done: FinisherDone) {
        if let FinisherDone::Synced(job, result, took_ns) = done {
            self.on_file_event(FileEvent::Synced { job, result, took_ns });
        }
    }

    /// Counts the bytes of a file that is on disk up to `bytes` and was up to `before`, which may be more after a
    /// failed write.
    fn count_synced(&mut self, bytes: u64, before: u64) {
        self.failures.syncs_in_a_row = 0;
        self.tally.synced_bytes = (self.tally.synced_bytes + bytes).saturating_sub(before);
    }

    /// Ends a file in place: it gets its length, and is synced.
    pub(super) fn finish_in_place(&mut self, file: &File, path: PathBuf, bytes: u64) {
        // The kernel reports a failure to one sync only: first to the one that may be running.
        while self.regular_sync.is_running {
            match self.regular_sync.in_place.as_ref().and_then(|of| of.done.recv().ok()) {
                Some(done) => self.on_done_in_place(done),
                None => break,
            }
        }
        // Frees the space preallocated after the end; keeping it does no harm.
        let _ = file.set_len(bytes);
        if self.current.had_name && !has_name(file) {
            return self.count_removed(path, self.tally.written, bytes, self.current.synced);
        }
        // Writes through the page cache may still fail on their way to the disk.
        match file.sync_data() {
            Ok(()) if self.sync_failure.is_none() => {
                self.count_synced(bytes, self.current.synced);
            }
            Ok(()) => {}
            Err(error) => drop(self.sync_failure.get_or_insert((path, error))),
        }
    }
}
