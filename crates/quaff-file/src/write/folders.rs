//! Several folders as one sink: lanes are distributed over them, and each folder has its own writer.
//!
//! ```text
//!   chunks of lanes → Folders ─┬ orders → thread: Files → /d0
//!                              └ orders → thread: Files → /d1
//! ```
//!
//! With as many lanes as folders, or more, each lane has its folder. With fewer lanes, the files of a lane go to its
//! folders in turn, so that each file covers a time without gaps, and the buffer holds what waits for the other disks.
//! A folder that fails ends; its unwritten chunks, and all later ones, go to another folder. This module itself writes
//! nothing.

use super::Sink;
use super::folder_writer::{FolderRun, FolderWriter, OpenFolder};
use crate::Result;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use crate::write::file::HandedBack;
use quaff_os::{Buffer, Reason, Stop};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Longest wait between two calls of `tick`.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// Interval at which the gauges show the writers' progress at the end.
const END_WAIT: Duration = Duration::from_millis(5);
/// Bytes of a file for blocks outside of chunks: header, interfaces, counters.
const BLOCK_BYTES: u64 = 64 << 10;

/// Several folders.
pub(super) struct Folders {
    writers: Vec<FolderWriter>,
    /// The folder of each lane.
    shares: Vec<Share>,
    /// Bytes of a lane after which the next folder has its turn; `u64::MAX` if each lane has its own folder.
    turn_bytes: u64,
    /// Raised when the last folder fails.
    stop: Stop,
    gauges: Arc<WriterGauges>,
}

/// The folder that gets the chunks of a lane.
#[derive(Debug, Default)]
struct Share {
    folder: usize,
    /// Bytes assigned to it in this turn.
    dealt: u64,
    /// The newest counts of the lane.
    counts: Counts,
    /// The next chunk follows one in another folder.
    is_moved: bool,
}

impl Folders {
    /// Starts a writer for each folder. The wakeup of `run` is signalled by all of them.
    pub(super) fn start(
        folders: Vec<OpenFolder>,
        run: &FolderRun,
        stop: Stop,
        gauges: Arc<WriterGauges>,
    ) -> Result<Self> {
        let (lanes, count) = (run.heading.lanes, folders.len());
        let smallest = folders.iter().map(|open| open.folder.rotate_bytes).min().unwrap_or(u64::MAX);
        let turn_bytes = if lanes < count { smallest.saturating_sub(BLOCK_BYTES) } else { u64::MAX };
        let shares = (0..lanes).map(|lane| Share { folder: lane % count, ..Share::default() }).collect();
        let start = |(number, open)| {
            let lanes = (0..lanes).filter(|lane| lane % count == number).collect();
            FolderWriter::start(open, run.clone(), lanes, number)
        };
        let writers = folders.into_iter().enumerate().map(start).collect::<Result<_>>()?;
        Ok(Self { writers, shares, turn_bytes, stop, gauges })
    }

    /// Returns the folder that has the next turn: of those that share the lane, the one with the fewest chunks waiting;
    /// the first in order among equals. It may be the current one.
    fn next_folder(&self, lane: usize) -> usize {
        let (count, from) = (self.writers.len(), self.shares[lane].folder);
        let step = self.shares.len().min(count);
        let others = (1..=count).map(|after| (from + after) % count);
        let others = others.filter(|folder| self.writers[*folder].is_alive() && folder % step == lane % step);
        others.min_by_key(|folder| self.writers[*folder].pending).unwrap_or(from)
    }

    /// Ends the turn of the current folder of a lane; the next one begins.
    fn end_turn(&mut self, lane: usize) -> Result<()> {
        let (from, to) = (self.shares[lane].folder, self.next_folder(lane));
        if to != from {
            self.writers[from].release(lane)?;
            self.shares[lane].is_moved = true;
        }
        (self.shares[lane].folder, self.shares[lane].dealt) = (to, 0);
        Ok(())
    }

    /// Ends the folders that have failed.
    fn retire_failed(&mut self) -> Result<()> {
        for folder in 0..self.writers.len() {
            if let Some(reason) = self.writers[folder].new_failure() {
                self.writers[folder].failure = Some(reason.clone());
                match self.writers.iter().any(FolderWriter::is_alive) {
                    true => self.relocate(folder)?,
                    false => {
                        self.writers[folder].keep_all()?;
                        self.stop.raise(reason);
                    }
                }
            }
        }
        Ok(())
    }

    /// Moves the lanes of a failed folder, and what it has not written, to other folders.
    fn relocate(&mut self, failed: usize) -> Result<()> {
        let HandedBack { mut chunks, written } = self.writers[failed].hand_back()?;
        for (lane, written) in written.into_iter().enumerate() {
            if self.shares[lane].folder == failed {
                (self.shares[lane].folder, self.shares[lane].is_moved) = (self.next_living(lane), true);
            }
            // A chunk that begins a turn knows what is before it; this is for one within a turn.
            let mut before = Some(Arc::new(written));
            for (_, mut chunk) in chunks.extract_if(.., |(of, _)| *of == lane) {
                chunk.before = chunk.before.or(before.take());
                self.shares[lane].is_moved = true;
                self.writers[self.shares[lane].folder].push(lane, chunk)?;
            }
        }
        Ok(())
    }

    /// Returns the folder that replaces a lane's failed one.
    fn next_living(&self, lane: usize) -> usize {
        let next = self.next_folder(lane);
        if self.writers[next].is_alive() {
            return next;
        }
        let living = (0..self.writers.len()).filter(|folder| self.writers[*folder].is_alive());
        let lanes_of = |folder: &usize| self.shares.iter().filter(|share| share.folder == *folder).count();
        living.min_by_key(lanes_of).unwrap_or(next)
    }

    fn show(&self) {
        let sum = |of: fn(&WriterGauges) -> u64| self.writers.iter().map(|writer| of(&writer.gauges)).sum();
        self.gauges.written.set(sum(|gauges| gauges.written.get()));
        self.gauges.bytes.set(sum(|gauges| gauges.bytes.get()));
        self.gauges.lost.set(sum(|gauges| gauges.lost.get()));
        self.gauges.answers.set(sum(|gauges| gauges.answers.get()));
        self.gauges
            .removed_file
            .set(self.writers.iter().map(|writer| writer.gauges.removed_file.get()).max().unwrap_or(0));
        // Phases follow each other: the gauge shows that of the writer which has the most to do.
        let phases = self.writers.iter().map(|writer| writer.gauges.phase.get());
        self.gauges.phase.set(phases.min().unwrap_or(WriterGauges::WRITING));
    }
}

impl Sink for Folders {
    fn push(&mut self, lane: usize, mut chunk: Chunk) -> Result<()> {
        let bytes = chunk.len as u64;
        let dealt = self.shares[lane].dealt;
        if dealt > 0 && dealt + bytes > self.turn_bytes {
            self.end_turn(lane)?;
        }
        let share = &mut self.shares[lane];
        if std::mem::take(&mut share.is_moved) {
            chunk.before = Some(Arc::new(share.counts.clone()));
        }
        share.dealt += bytes;
        share.counts.clone_from(&chunk.counts);
        self.writers[share.folder].push(lane, chunk)
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        let share = &mut self.shares[lane];
        share.counts.clone_from(&counts);
        // A writer that has ended is found by `tick`.
        let _ = self.writers[share.folder].note(lane, counts);
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.writers
            .iter_mut()
            .filter(|writer| writer.is_alive())
            .try_for_each(|writer| writer.begin_slot(slot))
    }

    fn tick(&mut self) -> Result<()> {
        self.retire_failed()?;
        self.show();
        self.writers.iter_mut().try_for_each(FolderWriter::check)
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        Ok(self.writers.iter_mut().find_map(FolderWriter::reap))
    }

    fn pending(&self) -> usize {
        self.writers.iter().map(|writer| writer.pending).sum()
    }

    /// False: a disk that blocks must not delay a lane of another folder.
    fn mixes_lanes(&self) -> bool {
        false
    }

    fn max_wait(&self) -> Duration {
        WAIT_MAX
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.writers.iter_mut().try_for_each(FolderWriter::begin_finish)?;
        while !self.writers.iter().all(FolderWriter::is_over) {
            self.show();
            std::thread::sleep(END_WAIT);
        }
        let mut sum = WriterTally::default();
        for writer in &mut self.writers {
            let failure = writer.failure.as_ref().map(|reason| match reason {
                Reason::WriteError(error) => error.clone(),
                _ => "the disk is full".to_owned(),
            });
            sum.add_folder(writer.dir.display().to_string(), writer.finish()?, failure);
        }
        self.show();
        Ok(sum)
    }
}
