//! A part of a file in memory, and what a thread saw in it ahead of the decoder.

use super::look::{Glance, Seen};
use quaff_os::Buffer;

/// Memory for a part, and for what is seen in it.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) buffer: Buffer,
    /// The result of a look, at this part or at one that had the room before.
    pub(super) seen: Option<Seen>,
}

/// A part of the file: the first `bytes` of the buffer.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) room: Room,
    pub(super) bytes: usize,
    /// Its offset in the file, if a crew has read it.
    pub(super) offset: u64,
    pub(super) glance: Option<Glance>,
}

/// The result of waiting for a part.
#[derive(Debug)]
pub(super) enum Next {
    Part(Part),
    /// The wait timed out.
    Idle,
    End,
}

impl Part {
    /// A part at which no thread has looked.
    pub(super) fn plain(buffer: Buffer, bytes: usize) -> Self {
        Self { room: Room { buffer, seen: None }, bytes, offset: 0, glance: None }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.room.buffer[..self.bytes]
    }
}
