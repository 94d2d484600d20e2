//! One step of a decompressor, and the compressed bytes that it reads.

use quaff_os::Buffer;
use std::fmt;
use std::io::{self, Read};

/// The compressed bytes, in a buffer that is refilled when it is used up.
pub(super) struct CompressedInput {
    pub(super) input: Box<dyn Read + Send>,
    pub(super) buffer: Buffer,
    /// The buffered bytes are `buffer[at..len]`.
    pub(super) at: usize,
    pub(super) len: usize,
    /// File offset of `buffer[0]`.
    pub(super) offset: u64,
    /// A read past the last byte was attempted.
    pub(super) is_at_end: bool,
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

impl CompressedInput {
    /// Returns the buffered bytes, after a read if there are none; empty at the end of the file.
    pub(super) fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at == self.len {
            self.offset += self.len as u64;
            (self.at, self.len) = (0, 0);
            self.len = self.input.read(&mut self.buffer)?;
            self.is_at_end = self.len == 0;
        }
        Ok(&self.buffer[self.at..self.len])
    }

    /// Returns the buffered bytes without a read.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.at..self.len]
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Returns the file offset of the next byte.
    pub(super) fn position(&self) -> u64 {
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
