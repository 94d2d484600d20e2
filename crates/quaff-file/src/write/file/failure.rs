//! After a failure of a file in a folder: the next file, or the end of the output.
//!
//! An error that may concern one file or one moment costs that file only: it ends before the failed write, and what was
//! not written goes into the next one. Without a success in between, the third failure ends the output. The same holds
//! for syncs, except that all writes of the file stay in it, and count.

use super::state::Files;
use crate::Result;
use crate::error::is_full;
use crate::write::folder::Folder;
use nix::libc;
use quaff_os::Reason;
use quaff_os::clock::steady_ns;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// Failures without a successful write in between that end the output.
const FAILURES_MAX: u32 = 3;
/// Failures that are named in the report.
const NAMED_MAX: usize = 16;
/// Pause before another file after the second failure.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for which a full disk is given to get room for another file, ns, and the interval of checks. Packets wait in
/// the buffer.
const ROOM_WAIT_NS: u64 = 3_000_000_000;
const ROOM_CHECK: Duration = Duration::from_millis(100);

impl Files {
    /// Records a failure at `path`. It ends the output, unless the next file of a folder may succeed.
    pub(super) fn fail(&mut self, path: &Path, error: &io::Error) {
        self.broken = true;
        self.failures.in_a_row += 1;
        self.failures.is_full = is_full(error);
        self.name_failure(path, &error.to_string());
        if self.folder.is_none() || !may_pass(error) || self.failures.in_a_row >= FAILURES_MAX {
            self.end_output(error);
        }
    }

    /// Records that the file `name` may not be on disk, or has no final name. Nothing that was written counts as lost.
    pub(super) fn fail_sync(&mut self, name: &Path, tried: &str, error: &io::Error) {
        self.tally.failed_files += 1;
        self.tally.unsynced_files += 1;
        self.failures.syncs_in_a_row += 1;
        self.name_failure(name, &format!("cannot {tried} it: {error}"));
        let is_passing = may_pass(error) || error.kind() == ErrorKind::AlreadyExists;
        if self.folder.is_none() || !is_passing || self.failures.syncs_in_a_row >= FAILURES_MAX {
            self.end_output(error);
        }
    }

    fn name_failure(&mut self, path: &Path, what: &str) {
        path.clone_into(&mut self.failures.path);
        if self.tally.failures.len() < NAMED_MAX {
            self.tally.failures.push(format!("{}: {what}", path.display()));
        }
    }

    pub(super) fn end_output(&mut self, error: &io::Error) {
        self.failures.is_final = true;
        let reason = match is_full(error) {
            true => Reason::DiskFull,
            false => Reason::WriteError(format!("{}: {error}", self.failures.path.display())),
        };
        if self.folder.is_none() {
            // Whatever asked the run to end before: its only file has failed.
            self.tally.limit = Some(reason.clone());
        }
        self.stop.raise(reason);
    }

    /// After a failure, ends the broken file and begins the next, whose first packet is of `time_ns`.
    pub(super) fn begin_again(&mut self, time_ns: u64) -> Result<()> {
        while self.broken && !self.failures.is_final {
            if !self.wait_to_begin() {
                self.end_output(&ErrorKind::StorageFull.into());
                break;
            }
            if !self.ended {
                self.queue_end(self.current.offset);
            }
            self.end_files();
            self.damaged = None;
            self.begin_next(time_ns)?;
        }
        Ok(())
    }

    /// Waits until another file may succeed; `false` if the disk stays full.
    fn wait_to_begin(&mut self) -> bool {
        if self.failures.in_a_row > 1 {
            std::thread::sleep(PAUSE);
        }
        !self.failures.is_full || self.gets_room()
    }

    /// Waits until a full disk has room for another file of the folder; `false` if it stays full.
    pub(super) fn gets_room(&mut self) -> bool {
        let until_ns = steady_ns() + ROOM_WAIT_NS;
        while !self.folder.as_mut().is_some_and(Folder::has_room) {
            // The end of the run is no reason to drop packets in memory.
            if self.folder.is_none() || steady_ns() >= until_ns {
                return false;
            }
            std::thread::sleep(ROOM_CHECK);
        }
        true
    }

    /// Sets the counts back to those of the last written chunks: the next file begins with them.
    pub(super) fn restore_counts(&mut self) {
        self.readmit_waiting();
        for (lane, (counts, written)) in self.counts.iter_mut().zip(&self.written).enumerate() {
            self.noted.push((lane, std::mem::replace(counts, written.clone())));
        }
    }

    /// Takes the counts that came after the last chunk.
    pub(super) fn take_noted(&mut self) {
        for (lane, counts) in self.noted.drain(..) {
            if counts.packed >= self.counts[lane].packed {
                self.counts[lane] = counts;
            }
        }
    }

    /// Counts the waiting chunks as lost, unless another folder can take them.
    pub(super) fn lose_waiting(&mut self) {
        if let Some(handed_back) = &mut self.sharing.handed_back {
            handed_back.extend(self.waiting.drain(..));
            return self.noted.clear();
        }
        while let Some((lane, chunk)) = self.waiting.pop_front() {
            self.count_lost(chunk.packets);
            self.counts[lane] = chunk.counts;
            self.free_buffers.push_back((lane, chunk.buffer));
        }
        self.take_noted();
    }
}

/// Returns whether an error may concern one file or one moment, so that the next file can succeed.
fn may_pass(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    let device = [libc::EIO, libc::EREMOTEIO, libc::ENODATA, libc::EILSEQ, libc::ETIMEDOUT, libc::ESTALE];
    // A file may be as long as its file system or a limit permits (EFBIG): the next one has room.
    is_full(error) || errno.is_some_and(|errno| device.contains(&errno) || errno == libc::EFBIG)
}
