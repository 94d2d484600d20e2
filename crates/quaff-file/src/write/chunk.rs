//! Chunks: buffers full of whole blocks of a file, which lanes send to the writer.

use crate::tally::Counts;
use quaff_os::Buffer;
use std::sync::Arc;

/// Whole blocks of a file, ready to be written.
#[derive(Debug)]
pub struct Chunk {
    /// The first `len` bytes are file contents.
    pub buffer: Buffer,
    pub len: usize,
    pub packets: u64,
    /// The rotation slot of its packets.
    pub slot: u64,
    /// Time of its first packet, ns since 1970; 0 without packets.
    pub first_ns: u64,
    /// The lane's counts when the chunk was sealed.
    pub counts: Counts,
    /// Number of the run's interfaces that must be described before it.
    pub interfaces: usize,
    /// The lane's counts before it, if its predecessor is in another folder: it begins a file.
    pub before: Option<Arc<Counts>>,
}

/// A part of a chunk, which ends where the next one begins. Each spans a flush interval: while the output stands
/// still, a lane without spare buffers puts several into one, and the writer takes them apart.
#[derive(Debug)]
pub struct Part {
    /// Offset of its end, a multiple of the alignment.
    pub end: usize,
    /// As those of [`Chunk`].
    pub packets: u64,
    pub first_ns: u64,
    pub counts: Counts,
    pub interfaces: usize,
}

impl Chunk {
    /// Takes a chunk apart; its own fields are those of what follows the last part. The last of the result has the
    /// chunk's buffer, the others have new ones.
    pub fn split(mut self, parts: Vec<Part>) -> crate::Result<Vec<Self>> {
        let (mut from, mut pieces) = (0, Vec::with_capacity(parts.len() + 1));
        for Part { end, packets, first_ns, counts, interfaces } in parts {
            let len = end - from;
            let mut buffer = Buffer::new(len)?;
            buffer[..len].copy_from_slice(&self.buffer[from..end]);
            let before = self.before.take();
            pieces.push(Self { buffer, len, packets, slot: self.slot, first_ns, counts, interfaces, before });
            from = end;
        }
        self.buffer.copy_within(from..self.len, 0);
        self.len -= from;
        pieces.push(self);
        Ok(pieces)
    }
}

/// A message from a lane to the writer.
#[derive(Debug)]
pub enum LaneMessage {
    Chunk(Chunk),
    /// A chunk whose first parts are these; see [`Chunk::split`].
    Parts(Chunk, Vec<Part>),
    /// No packet of an earlier slot follows; sent when a link is idle.
    Slot(u64, Counts),
    /// No packet before this time follows, ns since 1970; sent to outputs that order packets.
    Mark(u64),
    /// Nothing follows.
    End(Counts),
}

impl LaneMessage {
    /// Returns the slot of the message; a mark and the end have none.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Chunk(chunk) | Self::Parts(chunk, _) => Some(chunk.slot),
            Self::Slot(slot, _) => Some(*slot),
            Self::Mark(_) | Self::End(_) => None,
        }
    }
}
