//! Files on disk: chunks become writes, in order, past the page cache where the disk allows it.
//!
//! ```text
//!   chunk → write ─┐ in order
//!   first, last ───┼──────────→ Disk → completions → buffers go home, packets are counted
//!   end of file ───┘
//! ```
//!
//! A packet is counted as written when the write that holds it has ended.
//!
//! | room | what it does |
//! |---|---|
//! | [`settle`] | what becomes of writes that have ended, well or not, and of files whose last one has |
//! | [`records`] | pcap, whose records go over the edges of aligned writes |

mod completion;
mod records;

use super::Sink;
use super::folder::{Ending, Folder};
use super::header::Heading;
use super::repack::Repack;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::disk::{Disk, Write, preallocate};
use quaff_os::mem::Buffer;
use quaff_os::stop::{Reason, Stop};
use quaff_os::wakeup::Wakeup;
use records::Records;
pub use records::write_through_cache;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Space is set aside ahead of a file that grows in place, in steps of so many bytes.
const SET_ASIDE_BYTES: u64 = 256 << 20;
/// What the description of an interface takes, with its first counters, about.
const INTERFACE_BYTES: u64 = 512;
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
    /// pcap on an aligned disk.
    records: Option<Records>,
    home: VecDeque<(usize, Buffer)>,
    counts: Vec<Counts>,
    /// What each lane had counted with the last chunk of it that is written.
    written: Vec<Counts>,
    /// Set by a failure that ends the output.
    broken: bool,
    /// The file that it hit, and how much of that is valid. Files after it hold nothing.
    hit: Option<(Arc<File>, u64)>,
    /// A file that may not be on disk, though all its writes ended well.
    trouble: Option<(PathBuf, io::Error)>,
    /// Whether the end of the current file is in the queue.
    ended: bool,
    slots: Slots,
    progress_ns: u64,
    tally: WriterTally,
    wakeup: Wakeup,
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
    /// Signalled by the disk.
    pub wakeup: Wakeup,
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
    /// Interfaces that it describes.
    described: usize,
}

/// Packets of a lane.
#[derive(Debug, Clone, Copy)]
struct Share {
    lane: usize,
    packets: u64,
}

#[derive(Debug)]
enum Tag {
    /// A chunk, whose buffer is the lane's, and what the lane had counted with it.
    Packets(Share, Counts),
    /// A first or a last block.
    Own,
    /// A buffer of the repacker.
    Repacked,
    /// No write: the file before is complete, at so many bytes.
    End { file: Arc<File>, path: PathBuf, bytes: u64 },
}

impl Files {
    /// Writes one file in place.
    pub fn in_place(file: File, path: PathBuf, parts: Parts) -> Result<Self> {
        let current =
            Current { file: Arc::new(file), path, offset: 0, set_aside: 0, packets: 0, described: 0 };
        Self::new(None, current, parts)
    }

    /// Writes files in a folder, the first of them from now on.
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
            home: VecDeque::new(),
            counts: vec![Counts::default(); lanes],
            written: vec![Counts::default(); lanes],
            broken: false,
            hit: None,
            trouble: None,
            ended: false,
            progress_ns: 0,
            tally: WriterTally::default(),
        };
        files.begin_current()?;
        Ok(files)
    }

    /// Hands the disk a write at the end of the current file.
    fn submit(&mut self, buffer: Buffer, len: usize, tag: Tag) -> Result<()> {
        if self.current.offset + len as u64 > self.current.set_aside {
            let is_set = preallocate(&self.current.file, self.current.set_aside, SET_ASIDE_BYTES);
            self.current.set_aside = if is_set { self.current.set_aside + SET_ASIDE_BYTES } else { u64::MAX };
        }
        if self.disk.pending() == 0 {
            self.progress_ns = steady_ns();
        }
        let write = Write { file: self.current.file.clone(), buffer, len, offset: self.current.offset };
        self.current.offset += len as u64;
        self.tags.push_back(tag);
        self.disk.submit(write).map_err(|errno| Error::path("write", &self.current.path, errno))
    }

    fn put_own(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.records.is_some() {
            return self.repack(Share { lane: 0, packets: 0 }, bytes);
        }
        let mut buffer = Buffer::new(bytes.len())?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        self.submit(buffer, bytes.len(), Tag::Own)
    }

    /// Ends the current file: last blocks, and its end in the queue. When it breaks meanwhile, its
    /// end is still to come.
    fn end_current(&mut self) -> Result<()> {
        self.put_own(&self.heading.last(&self.counts, &self.counts, self.current.described))?;
        let carried = self.end_records()?;
        if self.broken {
            return Ok(());
        }
        let (file, path) = (self.current.file.clone(), self.current.path.clone());
        self.tags.push_back(Tag::End { file, path, bytes: self.current.offset + carried });
        self.ended = true;
        Ok(())
    }

    /// Begins the current file, unless the folder has done so.
    fn begin_current(&mut self) -> Result<()> {
        if self.current.offset > 0 {
            self.tally.bytes += self.current.offset;
            return Ok(());
        }
        let (first, described) = self.heading.first(&self.counts);
        self.current.described = described;
        self.put_own(&first)
    }

    /// Describes what has been found since the file began, before a chunk that speaks of it.
    fn describe(&mut self, interfaces: usize) -> Result<()> {
        if self.current.described >= interfaces {
            return Ok(());
        }
        let (more, described) = self.heading.more(self.current.described..interfaces);
        self.current.described = described;
        self.put_own(&more)
    }

    /// Goes on to the next file, which begins at `time_ns`.
    fn roll(&mut self, time_ns: u64) -> Result<()> {
        if self.folder.is_none() || self.broken {
            return Ok(());
        }
        self.settle_ready()?;
        let ending_max = self.folder.as_ref().map_or(u64::MAX, Folder::ending_max);
        while self.ending().files >= ending_max && !self.broken {
            self.settle_or_wait()?;
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
                // The old files are complete; there is no new one to lose anything of.
                self.fail(&path, &errno);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Files whose end is in the queue.
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

/// The first bytes of a file, where they can be written before it has a name: pcap on an aligned
/// disk has to put them together with its first packets.
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
            self.roll(chunk.first_ns)?;
        }
        if !self.broken {
            self.describe(chunk.interfaces)?;
        }
        self.counts[lane].clone_from(&chunk.counts);
        let share = Share { lane, packets: chunk.packets };
        if self.broken {
            self.count_lost(share);
            self.home.push_back((lane, chunk.buffer));
            return Ok(());
        }
        self.current.packets += chunk.packets;
        if self.records.is_some() {
            self.repack(share, &chunk.buffer[..chunk.len])?;
            self.home.push_back((lane, chunk.buffer));
            return Ok(());
        }
        self.submit(chunk.buffer, chunk.len, Tag::Packets(share, chunk.counts))
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.counts[lane] = counts;
    }

    fn turn(&mut self, slot: u64) -> Result<()> {
        self.roll(slot * self.slots.slot_ns + self.slots.offset_ns)
    }

    fn tick(&mut self) -> Result<()> {
        let ending = self.ending();
        if let Some(folder) = &mut self.folder {
            if self.ended {
                folder.hear_all();
            } else {
                folder.tick(self.current.offset, ending);
            }
            if let Some((path, error)) = &folder.trouble {
                self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            }
        }
        self.flush_records()
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
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
            folder.settle();
            self.tally.pruned = folder.pruned();
            self.tally.after = folder.finish_after();
            self.trouble = folder.trouble.take();
        }
        if let Some((path, error)) = self.trouble.take() {
            self.stop.raise(Reason::WriteError(format!("{}: {error}", path.display())));
            // What ended the run first stays its reason, but a run whose file may not be there has
            // failed, whatever ended it.
            if !matches!(self.stop.reason(), Some(Reason::WriteError(_) | Reason::DiskFull)) {
                return Err(Error::path("bring to disk", path, error));
            }
        }
        Ok(self.tally.clone())
    }
}
