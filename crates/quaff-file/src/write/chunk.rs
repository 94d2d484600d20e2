//! Chunks: buffers full of whole blocks of a file, which lanes send to the writer.

use crate::tally::Counts;
use quaff_os::Buffer;

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
}

/// A message from a lane to the writer.
#[derive(Debug)]
pub enum LaneMessage {
    Chunk(Chunk),
    /// No packet of an earlier slot follows; sent when a link is idle.
    Slot(u64, Counts),
    /// Nothing follows.
    End(Counts),
}

impl LaneMessage {
    /// Returns the slot of the message; `End` has none.
    pub fn slot(&self) -> Option<u64> {
        match self {
            Self::Chunk(chunk) => Some(chunk.slot),
            Self::Slot(slot, _) => Some(*slot),
            Self::End(_) => None,
        }
    }
}
