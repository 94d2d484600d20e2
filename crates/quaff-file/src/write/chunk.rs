//! Chunks: what a lane hands to the writer. Whole blocks of a file, ready to be written.

use crate::tally::Counts;
use quaff_os::mem::Buffer;

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
