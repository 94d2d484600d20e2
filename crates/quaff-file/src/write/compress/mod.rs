//! Compression (`--compress`) between the lanes and the writer of the disk: each chunk becomes one frame, so a file is
//! complete after each completed write.
//!
//! ```text
//!   chunk → queue → threads → frame ┐ in order
//!   rotation slots, counts ─────────┴──────────→ the sink that writes
//! ```
//!
//! A chunk's buffer returns to its lane as soon as its frame is made. Compression never costs a packet: when the
//! threads do not keep up and too many buffers wait for them, chunks are stored, which costs a copy, until few wait. A
//! disk that does not keep up is no reason for that: it would only have more to write.
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | frames of each format: compressed, stored, and empty for padding |
//! | [`workers`] | the threads |
//! | [`writer`] | files of tools that make packets, without threads |

mod frame;
#[cfg(test)]
mod tests;
mod workers;
mod writer;

pub use frame::Codec;
pub(super) use frame::{framed, stored};
pub use writer::CompressedWriter;

use super::Sink;
use super::chunk::Chunk;
use super::plan::CompressPlan;
use crate::Result;
use crate::tally::{CompressionTally, Counts, WriterTally};
use frame::bound;
use quaff_os::{Buffer, Wakeup};
use std::collections::VecDeque;
use std::time::Duration;
use workers::{Job, Workers};

/// Frames that may wait for the disk or be written, beside those in work.
const FRAMES_MAX: usize = 6;
/// Longest single wait for a thread at the end.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// A sink that compresses what it passes on.
pub(super) struct Compress {
    disk: Box<dyn Sink>,
    workers: Workers,
    align: usize,
    /// Everything not passed on yet, oldest first.
    queue: VecDeque<Entry>,
    /// Number of the next chunk for the threads.
    next_number: u64,
    /// Chunks of the queue that the threads compress.
    in_work: usize,
    /// Buffers of the queue that wait for a thread, in bytes, and the most that may before chunks are stored.
    waiting_bytes: u64,
    backlog_bytes: u64,
    /// The threads do not keep up.
    is_late: bool,
    frames: FrameBuffers,
    free_buffers: VecDeque<(usize, Buffer)>,
    tally: CompressionTally,
    wakeup: Wakeup,
}

/// An element of the queue.
enum Entry {
    /// A chunk that waits for a thread.
    Plain(usize, Chunk),
    /// The chunk of this number is with a thread.
    InWork(u64),
    Frame(usize, Chunk),
    Note(usize, Counts),
    Slot(u64),
}

/// Buffers for frames, made when they are needed and used again.
#[derive(Default)]
struct FrameBuffers {
    free: Vec<Buffer>,
    /// Buffers in use by the threads, the queue or the disk; those of the disk are also counted alone.
    used: usize,
    on_disk: usize,
    most: usize,
}

impl FrameBuffers {
    fn take(&mut self, bytes: usize) -> Result<Buffer> {
        self.used += 1;
        match self.free.pop().filter(|buffer| buffer.len() >= bytes) {
            Some(buffer) => Ok(buffer),
            None => Ok(Buffer::new(bytes)?),
        }
    }

    fn recycle(&mut self, buffer: Buffer) {
        self.used -= 1;
        self.on_disk -= 1;
        self.free.push(buffer);
    }

    fn has_any(&self) -> bool {
        self.used < self.most
    }

    /// Returns whether frames wait for the disk, and not the disk for frames.
    fn is_disk_late(&self) -> bool {
        2 * self.on_disk > self.most
    }
}

impl Compress {
    /// Starts the threads. Frames are passed on to `disk`, whose writes are aligned to `align`; `wakeup` belongs to the
    /// calling thread.
    pub(super) fn start(
        disk: Box<dyn Sink>,
        plan: &CompressPlan,
        align: usize,
        wakeup: &Wakeup,
    ) -> Result<Self> {
        let workers = Workers::start(plan, align, wakeup)?;
        let most = 2 * workers.count() + FRAMES_MAX;
        Ok(Self {
            disk,
            align,
            queue: VecDeque::new(),
            next_number: 0,
            in_work: 0,
            waiting_bytes: 0,
            backlog_bytes: plan.backlog_bytes.unwrap_or(u64::MAX),
            is_late: false,
            frames: FrameBuffers { most, ..FrameBuffers::default() },
            free_buffers: VecDeque::new(),
            tally: CompressionTally::new(plan.codec.compression.name(), plan.codec.level),
            wakeup: wakeup.clone(),
            workers,
        })
    }

    /// Does everything that can be done without waiting.
    fn pump(&mut self) -> Result<()> {
        self.take_done();
        self.take_written()?;
        self.pass_on()?;
        self.watch_backlog();
        self.give_work()
    }

    fn take_done(&mut self) {
        while let Some(done) = self.workers.done() {
            self.in_work -= 1;
            self.tally.count(done.plain_bytes as u64, done.frame.len as u64, done.is_rushed);
            self.free_buffers.push_back((done.lane, done.plain));
            let number = done.number;
            let is_it = |entry: &Entry| matches!(entry, Entry::InWork(of) if *of == number);
            if let Some(at) = self.queue.iter().position(is_it) {
                self.queue[at] = Entry::Frame(done.lane, done.frame);
            }
        }
    }

    /// Takes back the buffers of frames that are written or abandoned.
    fn take_written(&mut self) -> Result<()> {
        while let Some((_, buffer)) = self.disk.reap()? {
            self.frames.recycle(buffer);
        }
        Ok(())
    }

    /// Passes on the entries that wait for no older one.
    fn pass_on(&mut self) -> Result<()> {
        let is_ready = |entry: &mut Entry| !matches!(entry, Entry::Plain(..) | Entry::InWork(_));
        while let Some(entry) = self.queue.pop_front_if(is_ready) {
            match entry {
                Entry::Frame(lane, chunk) => {
                    self.frames.on_disk += 1;
                    self.disk.push(lane, chunk)?;
                }
                Entry::Note(lane, counts) => self.disk.note(lane, counts),
                Entry::Slot(slot) => self.disk.begin_slot(slot)?,
                Entry::Plain(..) | Entry::InWork(_) => {}
            }
        }
        Ok(())
    }

    /// Decides whether chunks are stored: from the moment at which too many bytes wait until a quarter of that number
    /// does.
    fn watch_backlog(&mut self) {
        let least = if self.is_late { self.backlog_bytes / 4 } else { self.backlog_bytes };
        let is_late = self.waiting_bytes > least && !self.frames.is_disk_late();
        if is_late != self.is_late {
            self.is_late = is_late;
            self.workers.set_late(is_late);
        }
    }

    /// Gives each thread up to two chunks: one to compress, and one to continue with at once.
    fn give_work(&mut self) -> Result<()> {
        while self.in_work < 2 * self.workers.count() && self.frames.has_any() {
            let Some(at) = self.queue.iter().position(|entry| matches!(entry, Entry::Plain(..))) else {
                break;
            };
            let number = self.next_number;
            let taken = std::mem::replace(&mut self.queue[at], Entry::InWork(number));
            let Entry::Plain(lane, chunk) = taken else { break };
            let out = self.frames.take(bound(chunk.buffer.len(), self.align))?;
            self.next_number += 1;
            self.in_work += 1;
            self.waiting_bytes -= chunk.buffer.len() as u64;
            self.workers.send(Job { number, lane, chunk, out })?;
        }
        Ok(())
    }

    /// Chunks that have not been passed on.
    fn chunks(&self) -> usize {
        self.queue.iter().filter(|entry| !matches!(entry, Entry::Note(..) | Entry::Slot(_))).count()
    }
}

impl Sink for Compress {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.waiting_bytes += chunk.buffer.len() as u64;
        self.queue.push_back(Entry::Plain(lane, chunk));
        self.pump()
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        match self.queue.is_empty() {
            true => self.disk.note(lane, counts),
            false => self.queue.push_back(Entry::Note(lane, counts)),
        }
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.queue.push_back(Entry::Slot(slot));
        self.pump()
    }

    fn tick(&mut self) -> Result<()> {
        self.workers.check()?;
        self.pump()?;
        self.disk.tick()
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        if self.free_buffers.is_empty() {
            self.pump()?;
        }
        Ok(self.free_buffers.pop_front())
    }

    fn pending(&self) -> usize {
        self.chunks() + self.free_buffers.len() + self.disk.pending()
    }

    fn mixes_lanes(&self) -> bool {
        self.disk.mixes_lanes()
    }

    fn max_wait(&self) -> Duration {
        self.disk.max_wait()
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.pump()?;
        while !self.queue.is_empty() {
            self.wakeup.wait(WAIT_MAX)?;
            self.workers.check()?;
            self.pump()?;
        }
        let written = self.disk.finish()?;
        Ok(WriterTally { compression: Some(self.tally.clone()), ..written })
    }
}
