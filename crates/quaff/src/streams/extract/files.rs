//! Writes the bytes of streams to files: a buffer for each stream, with a limit for all of them, and few open files.
//!
//! A small stream is opened, written and closed once, at its end. A file that is open for long may be closed for
//! another one, and is opened again when its buffer is full.

use super::super::folder::{Folder, Identity, identity_of};
use crate::Result;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;

/// Bytes that a stream collects before it writes.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes in all buffers.
const BUFFERS_BYTES_MAX: usize = 64 << 20;
/// Files that stay open.
const OPEN_MAX: usize = 256;

/// The identity of a stream in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) place: u32,
    /// The side: 0 for A, 1 for B.
    pub(super) side: usize,
    /// Number of the connection.
    pub(super) number: u64,
}

#[derive(Debug, Default)]
pub(super) struct StreamFile {
    buffer: Vec<u8>,
    /// The file, once it is made and may be opened again.
    identity: Option<Identity>,
    /// Its last index among the open files.
    pen: Option<usize>,
    /// Bytes in the file and in the buffer.
    pub(super) bytes: u64,
}

impl StreamFile {
    pub(super) fn has_buffer(&self) -> bool {
        self.buffer.capacity() > 0
    }
}

/// An open file.
#[derive(Debug)]
struct Pen {
    owner: Owner,
    file: File,
    /// The time of the last use; larger is later.
    used: u64,
}

/// The files of a run.
#[derive(Debug)]
pub(super) struct Files {
    folder: Folder,
    pens: Vec<Pen>,
    uses: u64,
    /// Bytes in buffers, as allocated.
    buffered_bytes: usize,
    buffers: usize,
    /// Streams with a buffer, by the time of its first byte. An entry may be stale.
    waiting: VecDeque<Owner>,
    pub(super) made: u64,
}

impl Files {
    pub(super) fn new(folder: Folder) -> Self {
        Self {
            folder,
            pens: Vec::new(),
            uses: 0,
            buffered_bytes: 0,
            buffers: 0,
            waiting: VecDeque::new(),
            made: 0,
        }
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Adds bytes to a stream. `name` is that of its file.
    #[inline]
    pub(super) fn put(
        &mut self,
        owner: Owner,
        to: &mut StreamFile,
        bytes: &[u8],
        name: impl Fn() -> String,
    ) -> Result<()> {
        to.bytes += bytes.len() as u64;
        if to.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush(owner, to, &name)?;
            if bytes.len() >= BUFFER_BYTES {
                return self.write(owner, to, bytes, &name);
            }
        }
        let before = to.buffer.capacity();
        to.buffer.extend_from_slice(bytes);
        let grown = to.buffer.capacity() - before;
        if grown > 0 {
            self.note_growth(owner, before == 0, grown);
        }
        Ok(())
    }

    #[cold]
    fn note_growth(&mut self, owner: Owner, is_new: bool, grown: usize) {
        self.buffered_bytes += grown;
        if !is_new {
            return;
        }
        self.buffers += 1;
        self.waiting.push_back(owner);
    }

    /// Removes the entries of streams that have ended, when most entries are stale.
    pub(super) fn forget_stale(&mut self, has_buffer: impl Fn(&Owner) -> bool) {
        if self.waiting.len() > 2 * self.buffers + 1024 {
            self.waiting.retain(has_buffer);
        }
    }

    /// A stream whose buffer must be written, while buffers have more than their limit.
    pub(super) fn overdue(&mut self) -> Option<Owner> {
        if self.buffered_bytes > BUFFERS_BYTES_MAX { self.waiting.pop_front() } else { None }
    }

    /// Writes the buffer of a stream and frees it.
    pub(super) fn relieve(
        &mut self,
        owner: Owner,
        of: &mut StreamFile,
        name: impl Fn() -> String,
    ) -> Result<()> {
        let flushed = self.flush(owner, of, &name);
        self.free(of);
        flushed
    }

    /// Ends a stream: writes its buffer and closes its file.
    pub(super) fn end(&mut self, owner: Owner, of: &mut StreamFile, name: impl Fn() -> String) -> Result<()> {
        let flushed = match (of.buffer.is_empty(), self.pen(owner, of)) {
            (true, _) => Ok(()),
            (false, Some(_)) => self.flush(owner, of, &name),
            // A file that is written once needs no place among the open files.
            (false, None) => self.open(of, &name()).and_then(|mut file| {
                file.write_all(&of.buffer).map_err(|error| self.folder.error("write to", &name(), error))
            }),
        };
        if let Some(pen) = self.pen(owner, of) {
            self.pens.swap_remove(pen);
        }
        self.free(of);
        flushed
    }

    /// Drops the bytes in a buffer.
    fn free(&mut self, of: &mut StreamFile) {
        let buffer = std::mem::take(&mut of.buffer);
        self.buffered_bytes -= buffer.capacity();
        self.buffers -= usize::from(buffer.capacity() > 0);
    }

    fn flush(&mut self, owner: Owner, of: &mut StreamFile, name: &impl Fn() -> String) -> Result<()> {
        let buffer = std::mem::take(&mut of.buffer);
        let written = if buffer.is_empty() { Ok(()) } else { self.write(owner, of, &buffer, name) };
        of.buffer = buffer;
        of.buffer.clear();
        written
    }

    fn write(
        &mut self,
        owner: Owner,
        to: &mut StreamFile,
        bytes: &[u8],
        name: &impl Fn() -> String,
    ) -> Result<()> {
        let pen = match self.pen(owner, to) {
            Some(pen) => pen,
            None => {
                let name = name();
                let file = self.open(to, &name)?;
                let identity =
                    identity_of(&file).map_err(|error| self.folder.error("look at", &name, error))?;
                to.identity = Some(identity);
                self.take_pen(Pen { owner, file, used: 0 })
            }
        };
        self.uses += 1;
        (to.pen, self.pens[pen].used) = (Some(pen), self.uses);
        self.pens[pen].file.write_all(bytes).map_err(|error| self.folder.error("write to", &name(), error))
    }

    /// Returns the index of a stream's open file; it changes when another file is closed.
    fn pen(&self, owner: Owner, of: &StreamFile) -> Option<usize> {
        let (last, is_its) = (of.pen?, |pen: &Pen| pen.owner == owner);
        match self.pens.get(last).is_some_and(is_its) {
            true => Some(last),
            false => self.pens.iter().position(is_its),
        }
    }

    /// Adds an open file; the one that was used longest ago is closed if there are too many.
    fn take_pen(&mut self, pen: Pen) -> usize {
        if self.pens.len() < OPEN_MAX {
            self.pens.push(pen);
            return self.pens.len() - 1;
        }
        let oldest = (0..self.pens.len()).min_by_key(|at| self.pens[*at].used).unwrap_or(0);
        self.pens[oldest] = pen;
        oldest
    }

    /// Opens the file of a stream, or makes it. One that stays open gets its identity from the caller.
    fn open(&mut self, of: &StreamFile, name: &str) -> Result<File> {
        if let Some(identity) = of.identity {
            return self.folder.append(name, identity);
        }
        let file = self.folder.create(name)?;
        self.made += 1;
        Ok(file)
    }
}
