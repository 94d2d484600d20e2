//! Files on disk: chunks become writes, in order, past the page cache where the disk allows it.
//!
//! ```text
//!   chunk → write ─┐ in order
//!   first, last ───┼──────────→ Disk → completions → slabs go home, packets are counted
//!   end of file ───┘
//! ```
//!
//! A packet is counted as written when the write that holds it has ended.

use super::Sink;
use super::folder::Folder;
use super::header::Heading;
use super::repack::Repack;
use crate::chunk::Chunk;
use crate::gauge::WriterGauges;
use crate::stop::{Reason, Stop};
use crate::tally::{Counts, WriterTally};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Disk, Write, Written, preallocate};
use quaff_os::event::Event;
use quaff_os::mem::Slab;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Space is set aside ahead of a file that grows in place, in steps of so many bytes.
const SET_ASIDE_BYTES: u64 = 256 << 20;
/// How long nothing happens at the most before the sink looks around.
const PATIENCE: Duration = Duration::from_millis(250);

/// One file in place, or a folder of files.
#[derive(Debug)]
pub struct Files {
    /// Ends every file and begins the next, in a rotation.
    folder: Option<Folder>,
    current: Current,
    heading: Heading,
    disk: Disk,
    /// What each pending write is, oldest first; ends of files stand between.
    tags: VecDeque<Tag>,
    repack: Option<Repack>,
    /// Packets in `repack` that no write holds yet.
    repacked: u64,
    home: VecDeque<(usize, Slab)>,
    counts: Vec<Counts>,
    lost: Vec<u64>,
    /// Set by a failure that ends the output: the file that it hit, and how much of that is valid.
    /// Files after it hold nothing.
    broken: Option<(Arc<File>, u64)>,
    /// Whether the end of the current file is in the queue.
    ended: bool,
    slots: Slots,
    progress_ns: u64,
    tally: WriterTally,
    bell: Event,
    stop: Stop,
    gauges: Arc<WriterGauges>,
}

/// What the parts of [`Files`] need from outside.
pub struct Parts {
    /// First and last blocks.
    pub heading: Heading,
    /// How bytes get to disk.
    pub disk: Disk,
    /// pcap on an aligned disk needs it.
    pub repack: Option<Repack>,
    /// Rotation slots.
    pub slots: Slots,
    /// Rung by the disk.
    pub bell: Event,
    /// Raised when the output cannot go on.
    pub stop: Stop,
    /// What others can see.
    pub gauges: Arc<WriterGauges>,
}

/// Where rotation slots lie in time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slots {
    /// Length, ns; 0 is one slot for ever.
    pub slot_ns: u64,
    /// Where slots begin, ns after midnight UTC.
    pub offset_ns: u64,
}

/// The file that is being written.
#[derive(Debug)]
struct Current {
    file: Arc<File>,
    path: PathBuf,
    /// Bytes handed to the disk.
    offset: u64,
    /// Bytes set aside; `u64::MAX` when that is somebody else's business, or impossible.
    set_aside: u64,
    packets: u64,
}

#[derive(Debug)]
enum Tag {
    /// A write with packets of a lane; `home` when its slab is the lane's.
    Packets { lane: usize, packets: u64, home: bool },
    /// A first or a last block.
    Own,
    /// A slab of the repacker.
    Repacked { packets: u64 },
    /// No write: the file before is complete, at so many bytes.
    End { file: Arc<File>, path: PathBuf, bytes: u64 },
}

impl Files {
    /// Writes one file in place.
    pub fn in_place(file: File, path: PathBuf, parts: Parts) -> Result<Self> {
        let current = Current { file: Arc::new(file), path, offset: 0, set_aside: 0, packets: 0 };
        Self::new(None, current, parts)
    }

    /// Writes files in a folder, the first of them from now on.
    pub fn in_folder(mut folder: Folder, parts: Parts) -> Result<Self> {
        let (file, path) = folder.next(parts.heading.start_ns)?;
        let current = Current { file, path, offset: 0, set_aside: u64::MAX, packets: 0 };
        Self::new(Some(folder), current, parts)
    }

    fn new(folder: Option<Folder>, current: Current, parts: Parts) -> Result<Self> {
        let lanes = parts.heading.interfaces.len();
        let mut files = Self {
            folder,
            current,
            heading: parts.heading,
            disk: parts.disk,
            repack: parts.repack,
            slots: parts.slots,
            bell: parts.bell,
            stop: parts.stop,
            gauges: parts.gauges,
            tags: VecDeque::new(),
            repacked: 0,
            home: VecDeque::new(),
            counts: vec![Counts::default(); lanes],
            lost: vec![0; lanes],
            broken: None,
            ended: false,
            progress_ns: 0,
            tally: WriterTally::default(),
        };
        files.put_own(&files.heading.first(&files.counts))?;
        Ok(files)
    }

    /// Hands the disk a write at the end of the current file.
    fn submit(&mut self, slab: Slab, len: usize, tag: Tag) -> Result<()> {
        if self.current.offset + len as u64 > self.current.set_aside {
            let is_set = preallocate(&self.current.file, self.current.set_aside, SET_ASIDE_BYTES);
            self.current.set_aside = if is_set { self.current.set_aside + SET_ASIDE_BYTES } else { u64::MAX };
        }
        if self.disk.pending() == 0 {
            self.progress_ns = steady_ns();
        }
        let write = Write { file: self.current.file.clone(), slab, len, offset: self.current.offset };
        self.current.offset += len as u64;
        self.tags.push_back(tag);
        self.disk.submit(write).map_err(|errno| Error::path("write", &self.current.path, errno))
    }

    fn put_own(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.repack.is_some() {
            return self.repack_bytes(bytes);
        }
        let mut slab = Slab::new(bytes.len())?;
        slab[..bytes.len()].copy_from_slice(bytes);
        self.submit(slab, bytes.len(), Tag::Own)
    }

    fn repack_bytes(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(repack) = &mut self.repack {
            bytes = &bytes[repack.fill(bytes)..];
            if repack.is_full() {
                self.submit_repacked()?;
            }
            if bytes.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Writes the aligned part of what has been repacked; waits for a spare slab if it has to.
    fn submit_repacked(&mut self) -> Result<()> {
        while self.repack.as_ref().is_some_and(|repack| !repack.has_spare()) {
            self.settle_or_wait()?;
        }
        if let Some((slab, len)) = self.repack.as_mut().and_then(Repack::take) {
            let packets = std::mem::take(&mut self.repacked);
            self.submit(slab, len, Tag::Repacked { packets })?;
        }
        Ok(())
    }

    /// Writes what is left behind the last aligned byte, through the page cache. Only while no
    /// other write is under way.
    fn write_tail(&mut self) -> Result<()> {
        let Some(tail) = self.repack.as_mut().and_then(Repack::tail) else { return Ok(()) };
        let through_cache = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&*self.current.file));
        let written = File::options()
            .write(true)
            .open(through_cache)
            .and_then(|file| file.write_all_at(tail, self.current.offset));
        let packets = std::mem::take(&mut self.repacked);
        match written {
            Ok(()) => self.count_written(packets, 0),
            Err(error) => {
                self.count_lost(0, packets);
                self.fail(&error, self.current.file.clone(), self.current.offset);
            }
        }
        Ok(())
    }

    /// Ends the current file: last blocks, and its end in the queue.
    fn end_current(&mut self) -> Result<()> {
        self.put_own(&self.heading.last(&self.counts, &self.lost))?;
        let mut bytes = self.current.offset;
        if self.repack.is_some() {
            self.submit_repacked()?;
            self.drain()?;
            let carried = self.repack.as_ref().map_or(0, |repack| repack.carried() as u64);
            self.tally.bytes += carried;
            bytes = self.current.offset + carried;
            self.write_tail()?;
            self.repack.iter_mut().for_each(Repack::clear);
        }
        let (file, path) = (self.current.file.clone(), self.current.path.clone());
        self.tags.push_back(Tag::End { file, path, bytes });
        self.ended = true;
        Ok(())
    }

    /// Goes on to the next file, which begins at `time_ns`.
    fn roll(&mut self, time_ns: u64) -> Result<()> {
        if self.folder.is_none() || self.broken.is_some() {
            return Ok(());
        }
        self.end_current()?;
        self.settle_ready()?;
        let Some(folder) = &mut self.folder else { return Ok(()) };
        match folder.next(time_ns) {
            Ok((file, path)) => {
                self.current = Current { file, path, offset: 0, set_aside: u64::MAX, packets: 0 };
                self.ended = false;
                self.put_own(&self.heading.first(&self.counts))
            }
            Err(Error::Path { errno, .. }) => {
                // The old file is complete; there is no new one to lose anything of.
                self.fail(&errno, self.current.file.clone(), self.current.offset);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Deals with one ended write, if there is one.
    fn settle_one(&mut self) -> Result<bool> {
        self.end_files();
        let reaped = self.disk.reap().map_err(|errno| Error::path("write", &self.current.path, errno))?;
        let Some(Written { write, result }) = reaped else { return Ok(false) };
        let now_ns = steady_ns();
        self.tally.write_high_ns = self.tally.write_high_ns.max(now_ns - self.progress_ns);
        self.progress_ns = now_ns;
        match result {
            Ok(()) => self.settle_written(write),
            Err(error) if error.kind() == ErrorKind::StorageFull && self.make_room() => {
                self.disk.retry(write).map_err(|errno| Error::path("write", &self.current.path, errno))?;
            }
            Err(error) => self.settle_failed(&error, write),
        }
        self.end_files();
        Ok(true)
    }

    fn settle_written(&mut self, write: Write) {
        let bytes = write.len as u64;
        match self.tags.pop_front() {
            Some(Tag::Packets { lane, packets, home }) => {
                self.count_written(packets, bytes);
                if home {
                    self.home.push_back((lane, write.slab));
                }
            }
            Some(Tag::Repacked { packets }) => {
                self.count_written(packets, bytes);
                if let Some(repack) = &mut self.repack {
                    repack.give_back(write.slab);
                }
            }
            _ => self.count_written(0, bytes),
        }
    }

    /// A write failed for good: it and all behind it are lost, and its file ends before it.
    fn settle_failed(&mut self, error: &io::Error, write: Write) {
        self.fail(error, write.file.clone(), write.offset);
        let mut ends = Vec::new();
        let abandoned: Vec<_> = std::iter::once(write).chain(self.disk.abandon()).collect();
        for write in abandoned {
            while let Some(end) = self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. })) {
                ends.push(end);
            }
            match self.tags.pop_front() {
                Some(Tag::Packets { lane, packets, home }) => {
                    self.count_lost(lane, packets);
                    if home {
                        self.home.push_back((lane, write.slab));
                    }
                }
                Some(Tag::Repacked { packets }) => self.count_lost(0, packets),
                _ => {}
            }
        }
        ends.into_iter().rev().for_each(|end| self.tags.push_front(end));
    }

    /// Ends files whose last write has ended.
    fn end_files(&mut self) {
        while let Some(Tag::End { file, path, bytes }) =
            self.tags.pop_front_if(|tag| matches!(tag, Tag::End { .. }))
        {
            let bytes = match self.broken.take() {
                None => bytes,
                Some((broken, cut)) if Arc::ptr_eq(&broken, &file) => {
                    let bytes = self.last_words(&file, cut);
                    self.broken = Some((broken, bytes));
                    bytes
                }
                after => {
                    self.broken = after;
                    0
                }
            };
            match &mut self.folder {
                Some(folder) if bytes == 0 => folder.discard(&path),
                Some(folder) => {
                    self.tally.files += 1;
                    folder.finish(file, path, bytes);
                }
                None => {
                    self.tally.files += 1;
                    // What was set aside behind the end is given back; if not, it does no harm.
                    let _ = file.set_len(bytes);
                }
            }
        }
    }

    /// After a failure: cuts a file back to what is valid, and adds what was lost if there is room.
    /// Returns how long the file is now.
    fn last_words(&mut self, file: &File, cut: u64) -> u64 {
        // What was set aside behind the end goes first, so that there may be room for a few words.
        let _ = file.set_len(cut);
        let last = self.heading.last(&self.counts, &self.lost);
        let Ok(mut slab) = Slab::new(last.len()) else { return cut };
        slab[..last.len()].copy_from_slice(&last);
        match file.write_all_at(&slab[..last.len()], cut) {
            Ok(()) => {
                self.tally.bytes += last.len() as u64;
                cut + last.len() as u64
            }
            Err(_) => {
                let _ = file.set_len(cut);
                cut
            }
        }
    }

    fn make_room(&mut self) -> bool {
        self.folder.as_mut().is_some_and(Folder::make_room)
    }

    fn fail(&mut self, error: &io::Error, file: Arc<File>, valid_bytes: u64) {
        self.broken.get_or_insert((file, valid_bytes));
        self.stop.raise(match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Reason::DiskFull,
            _ => Reason::WriteError(format!("{}: {error}", self.current.path.display())),
        });
    }

    fn count_written(&mut self, packets: u64, bytes: u64) {
        self.tally.written += packets;
        self.tally.bytes += bytes;
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
    }

    fn count_lost(&mut self, lane: usize, packets: u64) {
        self.tally.lost += packets;
        self.lost[lane] += packets;
        self.gauges.lost.set(self.tally.lost);
    }

    fn settle_ready(&mut self) -> Result<()> {
        while self.settle_one()? {}
        Ok(())
    }

    fn settle_or_wait(&mut self) -> Result<()> {
        if !self.settle_one()? {
            self.bell.wait(PATIENCE)?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        while self.disk.pending() > 0 {
            self.settle_or_wait()?;
        }
        self.end_files();
        Ok(())
    }
}

impl Sink for Files {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        let rotate_bytes = self.folder.as_ref().map_or(u64::MAX, |folder| folder.rotate_bytes);
        let room = self.current.offset + chunk.len as u64 + 2 * self.heading.align as u64;
        if room > rotate_bytes && self.current.packets > 0 {
            self.roll(chunk.first_ns)?;
        }
        self.counts[lane] = chunk.counts;
        if self.broken.is_some() {
            self.count_lost(lane, chunk.packets);
            self.home.push_back((lane, chunk.slab));
            return Ok(());
        }
        self.current.packets += chunk.packets;
        if self.repack.is_some() {
            self.repacked += chunk.packets;
            self.repack_bytes(&chunk.slab[..chunk.len])?;
            self.home.push_back((lane, chunk.slab));
            return Ok(());
        }
        self.submit(chunk.slab, chunk.len, Tag::Packets { lane, packets: chunk.packets, home: true })
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.counts[lane] = counts;
    }

    fn turn(&mut self, slot: u64) -> Result<()> {
        self.roll(slot * self.slots.slot_ns + self.slots.offset_ns)
    }

    fn tick(&mut self) -> Result<()> {
        if let Some(folder) = &mut self.folder {
            folder.tick(self.current.offset);
            if let Some((path, error)) = folder.trouble.take() {
                self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            }
        }
        if self.repack.is_some() && self.broken.is_none() && self.disk.pending() == 0 {
            self.submit_repacked()?;
            if self.disk.pending() == 0 {
                self.write_tail()?;
            }
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Slab)>> {
        loop {
            if let Some(home) = self.home.pop_front() {
                return Ok(Some(home));
            }
            if !self.settle_one()? {
                return Ok(None);
            }
        }
    }

    fn pending(&self) -> usize {
        self.disk.pending() + self.home.len()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn finish(&mut self) -> Result<WriterTally> {
        if self.broken.is_none() {
            self.end_current()?;
            self.drain()?;
        }
        if self.broken.is_some() && !self.ended {
            let (file, path) = (self.current.file.clone(), self.current.path.clone());
            self.tags.push_back(Tag::End { file, path, bytes: self.current.offset });
        }
        self.end_files();
        if let Some(folder) = &mut self.folder {
            folder.settle();
            self.tally.pruned = folder.pruned;
            if let Some((path, error)) = folder.trouble.take() {
                self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            }
        }
        Ok(self.tally.clone())
    }
}
