//! Files on disk: chunks become writes, in order, past the page cache where the file system allows it.
//!
//! ```text
//!   chunk ─────────┐ in order
//!   header blocks ─┼──────────→ Disk → completions → buffers are freed, packets are counted
//!   end of file ───┘
//! ```
//!
//! A packet is counted as written when the write that holds it has completed. After a failed write the file ends
//! before it, and a folder continues with the next file: pcapng chunks that were not written go there.
//!
//! | module | contents |
//! |---|---|
//! | [`completion`] | completed and failed writes, and the ends of files |
//! | [`failure`] | the next file after a failure, or the end of the output |
//! | [`full_disk`] | the part of the last write that fits on a disk that stays full |
//! | [`regular_sync`] | the sync of the file being written, every so often, and the results of all syncs |
//! | [`handover`] | lanes that come and go, where there are several folders |
//! | [`removed`] | files that another process removes while they are written |
//! | [`limit`] | the end of the output by its size or its number of files |
//! | [`state`] | the state that all of these work on |
//! | [`records`], [`repacking`] | pcap, whose records straddle the edges of aligned writes |

mod completion;
mod failure;
mod full_disk;
mod handover;
mod limit;
mod records;
mod regular_sync;
mod removed;
mod repacking;
mod state;
#[cfg(test)]
mod tests;

use super::Sink;
use super::folder::{Ending, Folder};
use super::header::{Described, Heading};
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use crate::write::stdout::StdoutEnd;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::Write;
use quaff_os::{Buffer, Reason};
use records::Records;
pub(super) use records::write_through_cache;
pub(super) use state::HandedBack;
use state::{ChunkTag, Current, Failures, Limit, RegularSync, Sharing, Tag};
pub use state::{Files, Parts};
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Approximate size of an interface description with its first counters.
const INTERFACE_BYTES: u64 = 512;
/// Longest wait between two calls of `tick`, and for a completion.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// The same while a single file has nothing to do but to look whether its name is still there.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(1);

impl Files {
    /// Creates a sink that writes one file in place.
    pub fn in_place(file: File, path: PathBuf, parts: Parts) -> Result<Self> {
        Self::new(None, Current::new(Arc::new(file), path), parts)
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
        Self::new(Some(folder), Current::begun(file, path, &first, described), parts)
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
            waiting: VecDeque::new(),
            noted: Vec::new(),
            broken: false,
            failures: Failures::default(),
            limit: Limit::default(),
            regular_sync: RegularSync::default(),
            sharing: Sharing::default(),
            damaged: None,
            sync_failure: None,
            name_looked_ns: 0,
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
        self.current.set_aside.grow(&self.current.file, self.current.offset, end);
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
            return self.repack(0, bytes);
        }
        let mut buffer = Buffer::new(bytes.len())?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.submit(buffer, bytes.len(), Tag::FileBlocks)
    }

    /// Writes the last blocks of the current file and queues its end. After a failure meanwhile,
    /// `finish` queues the end.
    fn end_current(&mut self) -> Result<()> {
        self.heading.make_ready();
        self.describe(self.heading.counted(&self.counts))?;
        self.put_blocks(&self.heading.last(&self.counts, &self.counts, self.current.described))?;
        let carried = self.end_records()?;
        if self.broken {
            return Ok(());
        }
        self.queue_end(self.current.offset + carried);
        Ok(())
    }

    /// Queues the end of the current file at `bytes`.
    fn queue_end(&mut self, bytes: u64) {
        // pcap ends after its last aligned write.
        self.current.offset = bytes;
        let Current { file, path, packets, begun, synced, .. } = &self.current;
        let (file, path, packets) = (file.clone(), path.clone(), *packets);
        self.tags.push_back(Tag::End { file, path, packets, bytes, begun: *begun, synced: *synced });
        self.ended = true;
    }

    /// Writes the header of the current file, unless the folder has written it.
    fn begin_current(&mut self) -> Result<()> {
        if self.current.offset > 0 {
            self.tally.bytes += self.current.offset;
            return Ok(());
        }
        self.begin_waiting()
    }

    /// Writes the header if it is still missing: that of the first file may wait for the first packet, and that of a
    /// pcap file for the first write.
    fn begin_waiting(&mut self) -> Result<()> {
        if self.current.described.interfaces > 0 || !self.heading.is_ready() {
            return Ok(());
        }
        let (first, described) = self.heading.first_of_run();
        self.current.described = described;
        self.put_blocks(&first)
    }

    /// Describes the interfaces found since the file began, before a chunk or counters that refer to them.
    fn describe(&mut self, interfaces: usize) -> Result<()> {
        self.begin_waiting()?;
        let described = self.current.described.interfaces;
        if described >= interfaces {
            return Ok(());
        }
        let (more, described) = self.heading.more(described..interfaces);
        self.current.described.interfaces = described;
        self.put_blocks(&more)
    }

    /// Ends the current file and begins the next, whose first packet is of `time_ns`.
    fn rotate(&mut self, time_ns: u64) -> Result<()> {
        let has_ended = self.limit.is_reached || self.failures.is_final;
        if self.folder.is_none() || self.broken || has_ended || self.ends_at_file() {
            return Ok(());
        }
        self.end_in_folder()?;
        if self.broken { Ok(()) } else { self.begin_next(time_ns) }
    }

    /// Begins the next file of the folder, after the end of the current one.
    fn begin_next(&mut self, time_ns: u64) -> Result<()> {
        let ending = self.ending();
        self.heading.absent.append(&mut self.sharing.leaving);
        let (first, described) = first_direct(&self.heading, &self.counts, self.records.is_some());
        let Some(folder) = &mut self.folder else { return Ok(()) };
        match folder.next(time_ns, &first, ending) {
            Ok((file, path)) => {
                self.count_file();
                self.current = Current::begun(file, path, &first, described);
                (self.ended, self.broken) = (false, false);
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

    /// Submits the chunks of `waiting`, each to the current file or the next one.
    fn put_waiting(&mut self) -> Result<()> {
        while let Some((_, chunk)) = self.waiting.front() {
            let (first_ns, len, interfaces) = (chunk.first_ns, chunk.len as u64, chunk.interfaces);
            let packets = self.current.packets.saturating_add(chunk.packets);
            let names = chunk.counts.names;
            if self.limit.is_reached {
                self.skip_waiting();
                break;
            }
            if self.begin_turn()? {
                continue;
            }
            self.begin_again(first_ns)?;
            if self.failures.is_final {
                break;
            }
            let limits = self.folder.as_ref().map(|folder| (folder.rotate_bytes, folder.rotate_packets));
            let (rotate_bytes, rotate_packets) = limits.unwrap_or((u64::MAX, u64::MAX));
            let carried = self.records.as_ref().map_or(0, Records::carried);
            let described = self.current.described;
            let new = interfaces.saturating_sub(described.interfaces) as u64 * INTERFACE_BYTES;
            let new = new + self.heading.names_bytes(described.names..names);
            let room = self.current.offset + carried + len + new + 3 * self.heading.align as u64;
            let is_full = room > rotate_bytes || packets > rotate_packets;
            if is_full && self.current.packets > 0 || self.current.is_suspect {
                self.rotate(first_ns)?;
            }
            if self.limit.is_reached {
                continue;
            }
            if !self.broken {
                self.describe(interfaces)?;
            }
            // After a failure meanwhile, older chunks may be in front of this one.
            if !self.broken
                && let Some((lane, mut chunk)) = self.waiting.pop_front()
            {
                self.keep_to_limit(&mut chunk);
                match chunk.len {
                    0 => self.free_buffers.push_back((lane, chunk.buffer)),
                    _ => self.put(lane, chunk)?,
                }
            }
        }
        if self.failures.is_final {
            self.lose_waiting();
        } else if self.waiting.is_empty() {
            self.take_noted();
        }
        Ok(())
    }

    /// Submits a chunk at the end of the current file.
    fn put(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.counts[lane].clone_from(&chunk.counts);
        self.current.packets += chunk.packets;
        if self.records.is_some() {
            self.repack(chunk.packets, &chunk.buffer[..chunk.len])?;
            self.free_buffers.push_back((lane, chunk.buffer));
            return Ok(());
        }
        let Chunk { buffer, len, packets, slot, first_ns, counts, interfaces, before } = chunk;
        let tag = ChunkTag { lane, packets, slot, first_ns, counts, interfaces, before };
        self.submit(buffer, len, Tag::Chunk(tag))
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

/// Returns the header that is written before the file has a name; empty for pcap with aligned writes,
/// where the header shares a write with the first packets, and for a header that waits for the first packet.
fn first_direct(heading: &Heading, counts: &[Counts], is_repacked: bool) -> (Vec<u8>, Described) {
    if is_repacked || !heading.is_ready() {
        (Vec::new(), Described::default())
    } else {
        heading.first(counts)
    }
}

impl Sink for Files {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.waiting.push_back((lane, chunk));
        self.put_waiting()
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        if self.failures.is_final && self.sharing.handed_back.is_some() || self.limit.is_reached {
            return;
        }
        self.noted.push((lane, counts));
        if self.waiting.is_empty() {
            self.take_noted();
        }
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.rotate(self.slots.start_ns(slot))
    }

    fn tick(&mut self) -> Result<()> {
        let ending = self.ending();
        if let Some(folder) = &mut self.folder {
            if self.ended {
                folder.collect_finished();
            } else {
                folder.tick(self.current.offset, ending);
            }
        }
        self.take_file_events();
        self.look_at_name();
        self.put_waiting()?;
        self.flush_records()?;
        self.sync_if_due();
        Ok(())
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
        self.disk.pending() + self.free_buffers.len() + self.waiting.len()
    }

    fn max_wait(&self) -> Duration {
        // Whatever ends the wait of an idle file signals the wakeup; a folder has threads beside it that do not.
        let is_idle = self.folder.is_none() && self.pending() == 0 && self.waiting.is_empty();
        self.sync_wait().min(if is_idle { IDLE_WAIT_MAX } else { WAIT_MAX })
    }

    fn finish(&mut self) -> Result<WriterTally> {
        loop {
            self.put_waiting()?;
            if !self.broken {
                self.end_current()?;
            }
            self.drain()?;
            if self.waiting.is_empty() {
                break;
            }
        }
        self.gauges.phase.set(WriterGauges::SYNCING);
        if !self.ended {
            self.queue_end(self.current.offset);
        }
        self.end_files();
        if let Some(folder) = &mut self.folder {
            folder.finish_all();
        }
        self.gauges.phase.set(WriterGauges::ON_DISK);
        if let Some(folder) = &mut self.folder {
            let runs = folder.finish_post_rotate();
            (self.tally.pruned, self.tally.pruned_earlier) = (folder.pruned(), folder.pruned_earlier());
            self.tally.notes.extend(folder.unmet_rule());
            (self.tally.commands, self.tally.commands_failed) = (runs.count, runs.failed);
        }
        self.take_file_events();
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
