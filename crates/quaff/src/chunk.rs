//! Chunks: what a lane hands to the writer. Whole blocks of a file, ready to be written.

use crate::tally::Counts;
use quaff_os::mem::Buffer;
use quaff_os::wakeup::Wakeup;
use rtrb::Consumer;

/// A piece of a file.
#[derive(Debug)]
pub struct Chunk {
    /// Memory; the first `len` bytes are file contents.
    pub buffer: Buffer,
    /// Bytes of file contents.
    pub len: usize,
    /// Packets in it.
    pub packets: u64,
    /// The rotation slot that its packets belong to.
    pub slot: u64,
    /// Time of its first packet, ns since 1970; 0 when it holds none.
    pub first_ns: u64,
    /// What the lane had counted when the chunk was sealed.
    pub counts: Counts,
    /// How many of the run's interfaces have to be described before it.
    pub interfaces: usize,
}

/// What travels from a lane to the writer.
#[derive(Debug)]
pub enum Parcel {
    /// File contents.
    Chunk(Chunk),
    /// No packet of an earlier slot than this will follow. Sent when a link is idle.
    Slot(u64, Counts),
    /// Nothing more will follow.
    End(Counts),
}

impl Parcel {
    /// The slot that the parcel belongs to; `End` belongs to any.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Chunk(chunk) => Some(chunk.slot),
            Self::Slot(slot, _) => Some(*slot),
            Self::End(_) => None,
        }
    }
}

/// Where a lane gets empty buffers: those that came home from the writer last (they are in the cache),
/// then fresh ones, of which somebody always has some ready. So memory that has not been used yet is
/// used only when all that has been is out.
#[derive(Debug)]
pub struct Supply {
    home: Consumer<Buffer>,
    /// Those that have come home, the last one on top; has a place for all.
    warm: Vec<Buffer>,
    fresh: Consumer<Buffer>,
    /// Signalled when a fresh one was taken, so that another is made ready.
    more: Wakeup,
    count: usize,
    /// Fresh ones that this lane has taken.
    taken: usize,
}

impl Supply {
    /// A supply of `count` buffers in all.
    pub fn new(home: Consumer<Buffer>, fresh: Consumer<Buffer>, more: Wakeup, count: usize) -> Self {
        Self { home, warm: Vec::with_capacity(count), fresh, more, count, taken: 0 }
    }

    /// An empty buffer, if there is one.
    pub fn take(&mut self) -> Option<Buffer> {
        while let Ok(buffer) = self.home.pop() {
            self.warm.push(buffer);
        }
        if let Some(buffer) = self.warm.pop() {
            return Some(buffer);
        }
        let buffer = self.fresh.pop().ok()?;
        self.taken += 1;
        self.more.signal();
        Some(buffer)
    }

    /// Buffers that are out: being filled, waiting, being written.
    pub fn out(&self) -> usize {
        self.taken - self.warm.len() - self.home.slots()
    }

    /// Buffers in all.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether every buffer that this lane has taken is home again.
    pub fn is_whole(&self) -> bool {
        self.out() == 0
    }
}
