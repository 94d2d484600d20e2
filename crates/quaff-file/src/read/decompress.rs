//! Decompression of gzip, zstd and lz4, recognised by their first bytes and not by a file name.
//!
//! All bytes before the end of truncated or corrupt data are delivered. Where a library would discard them
//! at an error, this module splits the format into members, frames and blocks itself. Offsets are those in
//! the compressed file.

mod extent;
mod gzip;
mod lz4;
mod step;
#[cfg(test)]
mod tests;
mod zstd;

pub(super) use extent::Unknown;
use extent::{Extent, lz4_extent, zstd_extent};
use quaff_os::Buffer;
use std::io::{self, Read};
use std::ops::Range;
pub(super) use step::CompressedInput;
use step::{Step, StepError, TRUNCATED};

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The frame format and the legacy format.
    Lz4,
}

/// Bytes of a file that [`Compression::of`] needs.
pub const MAGIC_BYTES: usize = 4;

impl Compression {
    /// Returns the compression of a file with these first bytes.
    pub fn of(first: &[u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(*first.first_chunk()?);
        match magic {
            // RFC 1952: magic and the only method.
            _ if first.starts_with(&[0x1F, 0x8B, 8]) => Some(Self::Gzip),
            // RFC 8878: a frame, or a skippable one, with which pzstd begins.
            0xFD2F_B528 | 0x184D_2A50..=0x184D_2A5F => Some(Self::Zstd),
            // The frame format, or the legacy format.
            0x184D_2204 | 0x184C_2102 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Returns `gzip`, `zstd` or `lz4`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}

/// Returns the extent of the frame at the front of `bytes`, if `room` bytes are enough for its contents and its window.
pub(super) fn extent(compression: Compression, bytes: &[u8], room: u64) -> Result<Extent, Unknown> {
    match compression {
        Compression::Zstd => zstd_extent(bytes, room),
        Compression::Lz4 => lz4_extent(bytes, room),
        Compression::Gzip => Err(Unknown::Unfit),
    }
}

/// Room for any frame.
const ANY_ROOM: u64 = u64::MAX / 2;

/// Returns whether `bytes` begin with a whole frame of zstd or lz4 by the headers of its blocks, or member of gzip.
pub(super) fn is_whole_frame(compression: Compression, bytes: &[u8]) -> bool {
    match compression {
        Compression::Gzip => gzip::is_whole_member(bytes),
        Compression::Zstd | Compression::Lz4 => extent(compression, bytes, ANY_ROOM).is_ok(),
    }
}

/// Truncated or corrupt compressed data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{compression} data at offset {offset}: {reason}")]
pub struct Corruption {
    /// Name of the format.
    pub compression: &'static str,
    /// Offset in the compressed file.
    pub offset: u64,
    pub reason: String,
    /// The place of the frame that the file ends inside, if nothing else is wrong with it.
    pub cut_frame: Option<Range<u64>>,
}

/// An error of reading or decompressing a file.
#[derive(Debug)]
pub enum Failure {
    /// A system call failed.
    Os(io::Error),
    /// The compressed data are truncated or corrupt.
    Corrupt(Corruption),
}

/// Decompresses a file of one compression, piece by piece.
#[derive(Debug)]
pub struct Decompressor {
    compression: Compression,
    codec: Codec,
    /// An error after the bytes that were returned last.
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Codec {
    Gzip(Box<gzip::Gzip>),
    Zstd(Box<zstd::Zstd>),
    Lz4(Box<lz4::Lz4>),
}

impl Decompressor {
    /// Creates a decompressor for a file whose first `len` bytes are in `buffer`; `input` has the rest.
    pub fn new(
        compression: Compression,
        input: Box<dyn Read + Send>,
        buffer: Buffer,
        len: usize,
    ) -> io::Result<Self> {
        Self::of(compression, CompressedInput::new(input, buffer, len))
    }

    /// Creates a decompressor for the bytes of `input`, which are at the start of a file or of a frame.
    pub(super) fn of(compression: Compression, input: CompressedInput) -> io::Result<Self> {
        let codec = match compression {
            Compression::Gzip => Codec::Gzip(Box::new(gzip::Gzip::new(input))),
            Compression::Zstd => Codec::Zstd(Box::new(zstd::Zstd::new(input)?)),
            Compression::Lz4 => Codec::Lz4(Box::new(lz4::Lz4::new(input))),
        };
        Ok(Self { compression, codec, failure: None })
    }

    /// Decompresses the buffered bytes into `out`, at least one byte; 0 is the end of the file.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        self.read_until(out, u64::MAX)
    }

    /// As [`Decompressor::read`], but not past the first end of a frame of zstd or lz4 at the file offset `end` or
    /// after it: there it may return 0 too.
    pub(super) fn read_until(&mut self, out: &mut [u8], end: u64) -> Result<usize, Failure> {
        let mut done = 0;
        while done < out.len() && self.failure.is_none() {
            match self.step(&mut out[done..]) {
                Ok(Step::Bytes(bytes)) => done += bytes,
                Ok(Step::End) => break,
                Err(error) => self.failure = Some(self.failed(error)),
            }
            // More would need another read.
            if done > 0 && self.input().at == self.input().len || self.is_between_frames(end) {
                break;
            }
        }
        match self.failure.take_if(|_| done == 0) {
            Some(failure) => Err(failure),
            None => Ok(done),
        }
    }

    /// Returns whether a frame of zstd or lz4 has ended at the file offset `end` or after it, and no other has begun.
    pub(super) fn is_between_frames(&self, end: u64) -> bool {
        let is_between = match &self.codec {
            Codec::Gzip(_) => false,
            Codec::Zstd(zstd) => zstd.is_between_frames(),
            Codec::Lz4(lz4) => lz4.is_between_frames(),
        };
        is_between && self.offset() >= end && self.failure.is_none()
    }

    /// Returns the number of compressed bytes used so far.
    pub(super) fn offset(&self) -> u64 {
        let held = if let Codec::Zstd(zstd) = &self.codec { zstd.held() } else { 0 };
        self.input().position() - held as u64
    }

    fn step(&mut self, out: &mut [u8]) -> Result<Step, StepError> {
        match &mut self.codec {
            Codec::Gzip(gzip) => gzip.step(out),
            Codec::Zstd(zstd) => zstd.step(out),
            Codec::Lz4(lz4) => lz4.step(out),
        }
    }

    /// The compressed bytes. Between two frames others may take their place.
    pub(super) fn input_mut(&mut self) -> &mut CompressedInput {
        match &mut self.codec {
            Codec::Gzip(gzip) => gzip.input_mut(),
            Codec::Zstd(zstd) => zstd.input_mut(),
            Codec::Lz4(lz4) => lz4.input_mut(),
        }
    }

    fn input(&self) -> &CompressedInput {
        match &self.codec {
            Codec::Gzip(gzip) => gzip.input(),
            Codec::Zstd(zstd) => zstd.input(),
            Codec::Lz4(lz4) => lz4.input(),
        }
    }

    fn failed(&self, error: StepError) -> Failure {
        let reason = match error {
            StepError::Os(error) => return Failure::Os(error),
            StepError::Data(reason) => reason,
        };
        let is_cut = reason == TRUNCATED && self.input().is_at_end;
        let cut_frame = is_cut.then(|| self.frame_offset()..self.input().position());
        let (compression, offset) = (self.compression.name(), self.offset());
        Failure::Corrupt(Corruption { compression, offset, reason, cut_frame })
    }

    /// Returns the file offset of the frame or member that began last.
    fn frame_offset(&self) -> u64 {
        match &self.codec {
            Codec::Gzip(gzip) => gzip.member_offset(),
            Codec::Zstd(zstd) => zstd.frame_offset(),
            Codec::Lz4(lz4) => lz4.frame_offset(),
        }
    }
}
