//! Files on disk: chunks become writes, in order, past the page cache where the file system allows it.
//!
//! ```text
//!   chunk ─────────┐ in order
//!   header blocks ─┼──────────→ Disk → completions → buffers are freed, packets are counted
//!   end of file ───┘
//! ```
//!
//! A packet is counted as written when the write that holds it has completed.
//!
//! | module | contents |
//! |---|---|
//! | [`completion`] | completed and failed writes, and the ends of files |
//! | [`records`] | pcap, whose records straddle the edges of aligned writes |

mod completion;
mod records;
#[cfg(test)]
mod tests;

use super::Sink;
use super::folder::{Ending, Folder};
use super::header::Heading;
use super::repack::Repack;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use crate::write::target::StdoutEnd;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Disk, Write, preallocate};
use quaff_os::{Buffer, Reason, Stop, Wakeup};
use records::Records;
pub(super) use records::write_through_cache;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A file that grows in place is preallocated in steps of this size.
const SET_ASIDE_BYTES: u64 = 256 << 20;
/// Approximate size of an interface description with its first counters.
const INTERFACE_BYTES: u64 = 512;
/// Longest wait between two calls of `tick`, and for a completion.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// One file in place, or a folder of files.
#[derive(Debug)]
pub struct Files {
    /// `None` for one file in place.
    folder: Option<Folder>,
    current: Current,
    heading: Heading,
    disk: Disk,
    /// The purpose of each pending write, oldest first, and the ends of files between them.
    tags: VecDeque<Tag>,
    /// pcap on an aligned disk.
    records: Option<Records>,
    free_buffers: VecDeque<(usize, Buffer)>,
    counts: Vec<Counts>,
    /// The counts of each lane's last written chunk.
    written: Vec<Counts>,
    /// Set by a failure; later packets are lost.
    broken: bool,
    /// The file with the failed write, and its valid length. Files after it hold nothing.
    damaged: Option<(Arc<File>, u64)>,
    /// A file that could not be synced after all its writes completed, and the error.
    sync_failure: Option<(PathBuf, io::Error)>,
    /// For a file on stdout. Declared, and so dropped, after `disk`, which waits for its writes.
    _stdout_end: Option<StdoutEnd>,
    /// The end of the current file is queued.
    ended: bool,
    slots: Slots,
    /// Steady time of the last completion, or of the first pending write.
    progress_ns: u64,
    tally: WriterTally,
    wakeup: Wakeup,
    stop: Stop,
    gauges: Arc<WriterGauges>,
}

/// The parts that [`Files`] are made of.
pub struct Parts {
    pub heading: Heading,
    pub disk: Disk,
    /// Needed for pcap with aligned writes.
    pub repack: Option<Repack>,
    pub slots: Slots,
    /// Signalled by completed writes.
    pub wakeup: Wakeup,
    /// Raised when the output fails.
    pub stop: Stop,
    pub gauges: Arc<WriterGauges>,
}

/// The rotation slots of `rotate_time`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slots {
    /// Length, ns; 0 is one endless slot.
    pub slot_ns: u64,
    /// Start of a slot, ns after midnight UTC.
    pub offset_ns: u64,
}

/// The file that is being written.
#[derive(Debug)]
struct Current {
    file: Arc<File>,
    path: PathBuf,
    /// Bytes submitted.
    offset: u64,
    /// Bytes preallocated; `u64::MAX` when the folder does it, or the file system cannot.
    set_aside: u64,
    packets: u64,
    /// Number of interfaces described in the file.
    described: usize,
}

/// A number of packets from one lane.
#[derive(Debug, Clone, Copy)]
struct Share {
    lane: usize,
    packets: u64,
}

#[derive(Debug)]
enum Tag {
    /// A chunk in the lane's own buffer, and the lane's counts with it.
    Packets(Share, Counts),
    /// Blocks written by the sink itself: section header, interfaces, counters.
    FileBlocks,
    /// A buffer of [`Repack`].
    Repacked,
    /// No write: all writes of the file have been submitted; its length is `bytes`.
    End { file: Arc<File>, path: PathBuf, bytes: u64 },
}

impl Files {
    /// Creates a sink that writes one file in place.
    pub fn in_place(file: File, path: PathBuf, parts: Parts) -> Result<Self> {
        let current =
            Current { file: Arc::new(file), path, offset: 0, set_aside: 0, packets: 0, described: 0 };
        Self::new(None, current, parts)
    }

    /// Leaves the offset of stdout at its end.
    pub(super) fn on_stdout(self) -> Self {
        Self { _stdout_end: Some(StdoutEnd), ..self }
    }

    /// Creates a sink that writes a folder of files, and begins the first.
    pub fn in_folder(mut folder: Folder, parts: Parts) -> Result<Self> {
        let counts = vec![Counts::default(); parts.heading.lanes];
        let (first, described) = first_direct(&parts.heading, &counts, parts.repack.is_some());
        let (file, path) = folder.next(parts.heading.start_ns, &first, Ending::default())?;
        let offset = first.len() as u64;
        let current = Current { file, path, offset, set_aside: u64::MAX, packets: 0, described };
        Self::new(Some(folder), current, parts)
    }

    fn new(folder: Option<Folder>, current: Current, parts: Parts) -> Result<Self> {
        let lanes = parts.heading.lanes;
        let mut files = Self {
            folder,
            current,
            heading: parts.heading,
            disk: parts.disk,
            records: parts.repack.map(Records::new),
            slots: parts.slots,
            wakeup: parts.wakeup,
            stop: parts.stop,
            gauges: parts.gauges,
            tags: VecDeque::new(),
            free_buffers: VecDeque::new(),
            counts: vec![Counts::default(); lanes],
            written: vec![Counts::default(); lanes],
            broken: false,
            damaged: None,
            sync_failure: None,
            _stdout_end: None,
            ended: false,
            progress_ns: 0,
            tally: WriterTally::default(),
        };
        files.begin_current()?;
        Ok(files)
    }

    /// Submits a write at the end of the current file.
    fn submit(&mut self, buffer: Buffer, len: usize, tag: Tag) -> Result<()> {
        let end = self.current.offset + len as u64;
        set_aside(&self.current.file, &mut self.current.set_aside, end);
        if self.disk.pending() == 0 {
            self.progress_ns = steady_ns();
        }
        let write = Write { file: self.current.file.clone(), buffer, len, offset: self.current.offset };
        self.current.offset += len as u64;
        self.tags.push_back(tag);
        self.disk.submit(write).map_err(|errno| Error::path("write", &self.current.path, errno))
    }

    fn put_blocks(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.records.is_some() {
            return self.repack(Share { lane: 0, packets: 0 }, bytes);
        }
        let mut buffer = Buffer::new(bytes.len())?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.submit(buffer, bytes.len(), Tag::FileBlocks)
    }

    /// Writes the last blocks of the current file and queues its end. After a failure meanwhile,
    /// `finish` queues the end.
    fn end_current(&mut self) -> Result<()> {
        self.put_blocks(&self.heading.last(&self.counts, &self.counts, self.current.described))?;
        let carried = self.end_records()?;
        if self.broken {
            return Ok(());
        }
        let (file, path) = (self.current.file.clone(), self.current.path.clone());
        self.tags.push_back(Tag::End { file, path, bytes: self.current.offset + carried });
        self.ended = true;
        Ok(())
    }

    /// Writes the header of the current file, unless the folder has written it.
    fn begin_current(&mut self) -> Result<()> {
        if self.current.offset > 0 {
            self.tally.bytes += self.current.offset;
            return Ok(());
        }
        let (first, described) = self.heading.first(&self.counts);
        self.current.described = described;
        self.put_blocks(&first)
    }

    /// Describes the interfaces found since the file began, before a chunk that refers to them.
    fn describe(&mut self, interfaces: usize) -> Result<()> {
        if self.current.described >= interfaces {
            return Ok(());
        }
        let (more, described) = self.heading.more(self.current.described..interfaces);
        self.current.described = described;
        self.put_blocks(&more)
    }

    /// Ends the current file and begins the next, whose first packet is of `time_ns`.
    fn rotate(&mut self, time_ns: u64) -> Result<()> {
        if self.folder.is_none() || self.broken {
            return Ok(());
        }
        self.complete_ready()?;
        let ending_max = self.folder.as_ref().map_or(u64::MAX, Folder::ending_max);
        while self.ending().files >= ending_max && !self.broken {
            self.complete_or_wait()?;
        }
        if !self.broken {
            self.end_current()?;
        }
        if self.broken {
            return Ok(());
        }
        let ending = self.ending();
        let (first, described) = first_direct(&self.heading, &self.counts, self.records.is_some());
        let Some(folder) = &mut self.folder else { return Ok(()) };
        match folder.next(time_ns, &first, ending) {
            Ok((file, path)) => {
                let offset = first.len() as u64;
                self.current = Current { file, path, offset, set_aside: u64::MAX, packets: 0, described };
                self.ended = false;
                self.begin_current()
            }
            Err(Error::Path { errno, path, .. }) => {
                // The old files are complete, and no file is being written.
                self.fail(&path, &errno);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the files whose end is queued.
    fn ending(&self) -> Ending {
        let mut ending = Ending::default();
        for tag in &self.tags {
            if let Tag::End { bytes, .. } = tag {
                ending.files += 1;
                ending.bytes += bytes;
            }
        }
        ending
    }
}

/// Preallocates the next step of a file that grows to `end`. `until` is the end of the space preallocated so far;
/// `u64::MAX` where the file system does not support it.
pub(super) fn set_aside(file: &File, until: &mut u64, end: u64) {
    if end > *until {
        let is_set = preallocate(file, *until, SET_ASIDE_BYTES);
        *until = if is_set { *until + SET_ASIDE_BYTES } else { u64::MAX };
    }
}

/// Returns the header that is written before the file has a name; empty for pcap with aligned writes,
/// where the header shares a write with the first packets.
fn first_direct(heading: &Heading, counts: &[Counts], is_repacked: bool) -> (Vec<u8>, usize) {
    if is_repacked { (Vec::new(), 0) } else { heading.first(counts) }
}

impl Sink for Files {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        let rotate_bytes = self.folder.as_ref().map_or(u64::MAX, |folder| folder.rotate_bytes);
        let carried = self.records.as_ref().map_or(0, Records::carried);
        let new = chunk.interfaces.saturating_sub(self.current.described) as u64 * INTERFACE_BYTES;
        let room = self.current.offset + carried + chunk.len as u64 + new + 3 * self.heading.align as u64;
        if room > rotate_bytes && self.current.packets > 0 {
            self.rotate(chunk.first_ns)?;
        }
        if !self.broken {
            self.describe(chunk.interfaces)?;
        }
        self.counts[lane].clone_from(&chunk.counts);
        let share = Share { lane, packets: chunk.packets };
        if self.broken {
            self.count_lost(share);
            self.free_buffers.push_back((lane, chunk.buffer));
            return Ok(());
        }
        self.current.packets += chunk.packets;
        if self.records.is_some() {
            self.repack(share, &chunk.buffer[..chunk.len])?;
            self.free_buffers.push_back((lane, chunk.buffer));
            return Ok(());
        }
        self.submit(chunk.buffer, chunk.len, Tag::Packets(share, chunk.counts))
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.counts[lane] = counts;
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.rotate(slot * self.slots.slot_ns + self.slots.offset_ns)
    }

    fn tick(&mut self) -> Result<()> {
        let ending = self.ending();
        if let Some(folder) = &mut self.folder {
            if self.ended {
                folder.collect_finished();
            } else {
                folder.tick(self.current.offset, ending);
            }
            if let Some((path, error)) = &folder.failure {
                self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            }
        }
        self.flush_records()
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        loop {
            if let Some(free) = self.free_buffers.pop_front() {
                return Ok(Some(free));
            }
            if !self.complete_one()? {
                return Ok(None);
            }
        }
    }

    fn pending(&self) -> usize {
        self.disk.pending() + self.free_buffers.len()
    }

    fn max_wait(&self) -> Duration {
        WAIT_MAX
    }

    fn finish(&mut self) -> Result<WriterTally> {
        if !self.broken {
            self.end_current()?;
        }
        self.drain()?;
        if !self.ended {
            let (file, path) = (self.current.file.clone(), self.current.path.clone());
            self.tags.push_back(Tag::End { file, path, bytes: self.current.offset });
            self.ended = true;
        }
        self.end_files();
        if let Some(folder) = &mut self.folder {
            folder.finish_all();
            self.tally.pruned = folder.pruned();
            let runs = folder.finish_post_rotate();
            (self.tally.commands, self.tally.commands_failed) = (runs.count, runs.failed);
            self.sync_failure = folder.failure.take();
        }
        if let Some((path, error)) = self.sync_failure.take() {
            self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            // The first reason to stop is kept, but a run whose file may not be on disk has failed.
            if !matches!(self.stop.reason(), Some(Reason::WriteError(_) | Reason::DiskFull)) {
                return Err(Error::path("sync", path, error));
            }
        }
        Ok(self.tally.clone())
    }
}
