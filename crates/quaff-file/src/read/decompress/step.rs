//! One step of a decompressor, and the compressed bytes that it reads.

use quaff_os::Buffer;
use std::fmt;
use std::io::{self, Read};

/// The compressed bytes, in a buffer that is refilled when it is used up.
pub(in crate::read) struct CompressedInput {
    pub(super) input: Box<dyn Read + Send>,
    pub(super) buffer: Buffer,
    /// The buffered bytes are `buffer[at..len]`.
    pub(super) at: usize,
    pub(super) len: usize,
    /// File offset of `buffer[0]`.
    pub(super) offset: u64,
    /// A read past the last byte was attempted.
    pub(super) is_at_end: bool,
    /// A read has returned the end of the file. Nothing is read afterwards, even if the file has grown.
    has_end: bool,
}

/// The result of one step of a decompressor.
#[derive(Debug)]
pub(super) enum Step {
    /// This many bytes; more may follow.
    Bytes(usize),
    /// The regular end of the file.
    End,
}

/// An error of one step.
#[derive(Debug)]
pub(super) enum StepError {
    Os(io::Error),
    Data(String),
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

pub(super) const TRUNCATED: &str = "truncated";

/// Reads past the page cache begin and end at a page, in the file and in memory.
const PAGE_BYTES: usize = 4096;

impl CompressedInput {
    /// The first `len` bytes of a file are in `buffer`; `input` has the rest.
    pub(in crate::read) fn new(input: Box<dyn Read + Send>, buffer: Buffer, len: usize) -> Self {
        Self { input, buffer, at: 0, len, offset: 0, is_at_end: false, has_end: false }
    }

    /// No bytes, and a buffer for others.
    pub(in crate::read) fn empty(buffer: Buffer) -> Self {
        Self { has_end: true, ..Self::new(Box::new(io::empty()), buffer, 0) }
    }

    /// Continues in `buffer`, which has room for all buffered bytes.
    pub(in crate::read) fn in_buffer(mut self, mut buffer: Buffer) -> Self {
        buffer[..self.len].copy_from_slice(&self.buffer[..self.len]);
        self.buffer = buffer;
        self
    }

    /// Reads more after the buffered bytes; `false` at the end of the file, or if they fill the buffer.
    pub(in crate::read) fn extend(&mut self) -> io::Result<bool> {
        let used = self.at / PAGE_BYTES * PAGE_BYTES;
        if self.len == self.buffer.len() && used > 0 {
            self.discard(used);
        }
        if self.has_end || self.len == self.buffer.len() {
            return Ok(false);
        }
        let more = self.input.read(&mut self.buffer[self.len..])?;
        self.len += more;
        self.has_end = more == 0;
        Ok(more > 0)
    }

    /// Moves the buffered bytes, so that the buffer begins `used` bytes later in the file.
    fn discard(&mut self, used: usize) {
        self.buffer.copy_within(used..self.len, 0);
        (self.at, self.len, self.offset) = (self.at - used, self.len - used, self.offset + used as u64);
    }

    /// Returns the buffered bytes, after reads until there are `bytes`, at most a page; fewer at the end of the file.
    pub(super) fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.len - self.at < bytes {
            if self.len == self.buffer.len() && self.at < PAGE_BYTES {
                // The buffer is one page.
                self.discard(self.at);
            }
            if !self.extend()? {
                break;
            }
        }
        Ok(self.buffered())
    }

    /// Passes the first `bytes` of the buffered ones to `to`, which has none. Copies those or the others, whichever are
    /// fewer; both buffers have the same size.
    pub(in crate::read) fn pass(&mut self, bytes: usize, to: &mut Self) {
        let end = self.at + bytes;
        if bytes <= self.len - end {
            to.buffer[..bytes].copy_from_slice(&self.buffer[self.at..end]);
            (to.at, to.len, to.offset) = (0, bytes, self.position());
            self.at = end;
        } else {
            let used = end / PAGE_BYTES * PAGE_BYTES;
            to.buffer[..self.len - used].copy_from_slice(&self.buffer[used..self.len]);
            std::mem::swap(&mut self.buffer, &mut to.buffer);
            (to.at, to.len, to.offset) = (self.at, end, self.offset);
            (self.at, self.len, self.offset) = (end - used, self.len - used, self.offset + used as u64);
        }
        to.is_at_end = false;
    }

    /// Returns whether all bytes of the file were used.
    pub(in crate::read) fn is_over(&self) -> bool {
        self.has_end && self.at == self.len
    }

    /// Returns the buffered bytes, after a read if there are none; empty at the end of the file.
    pub(super) fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at == self.len {
            self.offset += self.len as u64;
            (self.at, self.len) = (0, 0);
            if !self.has_end {
                self.len = self.input.read(&mut self.buffer)?;
                self.has_end = self.len == 0;
            }
            self.is_at_end = self.has_end;
        }
        Ok(&self.buffer[self.at..self.len])
    }

    /// Returns the buffered bytes without a read.
    pub(in crate::read) fn buffered(&self) -> &[u8] {
        &self.buffer[self.at..self.len]
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Returns the file offset of the next byte.
    pub(in crate::read) fn position(&self) -> u64 {
        self.offset + self.at as u64
    }
}

impl fmt::Debug for CompressedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompressedInput").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl Read for CompressedInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let there = self.fill()?;
        let count = there.len().min(out.len());
        out[..count].copy_from_slice(&there[..count]);
        self.consume(count);
        Ok(count)
    }
}
