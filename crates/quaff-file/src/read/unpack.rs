//! gzip, zstd and lz4, told by their first bytes and not by a name.
//!
//! All that can be decompressed before the data end or stop making sense is delivered, whichever
//! comes first: the frames are taken apart here as far as the libraries would throw away what they
//! have when they meet an error. Offsets are those in the compressed file.

mod gzip;
mod lz4;
#[cfg(test)]
mod tests;
mod zstd;

use quaff_os::mem::Buffer;
use std::fmt;
use std::io::{self, Read};

/// A way of packing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// gzip (RFC 1952).
    Gzip,
    /// zstd (RFC 8878).
    Zstd,
    /// lz4, the frame format and its predecessor.
    Lz4,
}

/// Enough of a file to tell how it is packed.
pub const MAGIC_BYTES: usize = 4;

impl Packing {
    /// How a file that begins like this is packed, if it is.
    pub fn of(first: &[u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(*first.first_chunk()?);
        match magic {
            // RFC 1952: magic, and the only method there is.
            _ if first.starts_with(&[0x1F, 0x8B, 8]) => Some(Self::Gzip),
            // RFC 8878: a frame; or one that is skipped, as pzstd puts at the beginning.
            0xFD2F_B528 | 0x184D_2A50..=0x184D_2A5F => Some(Self::Zstd),
            // LZ4 frame format; or its predecessor.
            0x184D_2204 | 0x184C_2102 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// `gzip`, `zstd` or `lz4`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }
}

/// Compressed data that end too early, or stop making sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{packing} data at offset {offset}: {reason}")]
pub struct Torn {
    /// `gzip`, `zstd` or `lz4`.
    pub packing: &'static str,
    /// Offset in the compressed file.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Why there are no more bytes, when it is not the end of the file.
#[derive(Debug)]
pub enum Failure {
    /// The kernel refused.
    Os(io::Error),
    /// The data are damaged.
    Torn(Torn),
}

/// The compressed bytes: read in pieces, used up as the decompressor likes.
struct Packed {
    input: Box<dyn Read + Send>,
    buffer: Buffer,
    /// What is left of the piece at hand: `buffer[at..len]`.
    at: usize,
    len: usize,
    /// Offset in the file of the first byte of the piece.
    offset: u64,
    /// Whether bytes were asked for behind the last one.
    is_at_end: bool,
}

/// A decompressor.
#[derive(Debug)]
pub struct Unpack {
    packing: Packing,
    kind: Kind,
    /// What went wrong after the bytes that were given last.
    failure: Option<Failure>,
}

#[derive(Debug)]
enum Kind {
    Gzip(Box<gzip::Gzip>),
    Zstd(Box<zstd::Zstd>),
    Lz4(Box<lz4::Lz4>),
}

/// What one step of a decompressor came to.
#[derive(Debug)]
enum Step {
    /// So many bytes, and perhaps more.
    Bytes(usize),
    /// The end of the file, where it may end.
    End,
}

/// Why it cannot go on.
#[derive(Debug)]
enum Fault {
    Os(io::Error),
    Data(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

const CUT_OFF: &str = "they end here, in the middle";

impl Unpack {
    /// Unpacks `input`, whose first `len` bytes are in `buffer`; the rest is read into it too.
    pub fn new(
        packing: Packing,
        input: Box<dyn Read + Send>,
        buffer: Buffer,
        len: usize,
    ) -> io::Result<Self> {
        let packed = Packed { input, buffer, at: 0, len, offset: 0, is_at_end: false };
        let kind = match packing {
            Packing::Gzip => Kind::Gzip(Box::new(gzip::Gzip::new(packed))),
            Packing::Zstd => Kind::Zstd(Box::new(zstd::Zstd::new(packed)?)),
            Packing::Lz4 => Kind::Lz4(Box::new(lz4::Lz4::new(packed))),
        };
        Ok(Self { packing, kind, failure: None })
    }

    /// Fills `out` as far as the compressed bytes at hand go, which is at least something; 0 is the
    /// end.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let mut done = 0;
        while done < out.len() && self.failure.is_none() {
            match self.step(&mut out[done..]) {
                Ok(Step::Bytes(bytes)) => done += bytes,
                Ok(Step::End) => break,
                Err(fault) => self.failure = Some(self.failed(fault)),
            }
            // More would have to be waited for.
            if done > 0 && self.packed().at == self.packed().len {
                break;
            }
        }
        match self.failure.take_if(|_| done == 0) {
            Some(failure) => Err(failure),
            None => Ok(done),
        }
    }

    /// Bytes of the compressed file used so far.
    pub fn offset(&self) -> u64 {
        let held = if let Kind::Zstd(zstd) = &self.kind { zstd.held() } else { 0 };
        self.packed().position() - held as u64
    }

    fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        match &mut self.kind {
            Kind::Gzip(gzip) => gzip.step(out),
            Kind::Zstd(zstd) => zstd.step(out),
            Kind::Lz4(lz4) => lz4.step(out),
        }
    }

    fn packed(&self) -> &Packed {
        match &self.kind {
            Kind::Gzip(gzip) => gzip.packed(),
            Kind::Zstd(zstd) => zstd.packed(),
            Kind::Lz4(lz4) => lz4.packed(),
        }
    }

    fn failed(&self, fault: Fault) -> Failure {
        match fault {
            Fault::Os(error) => Failure::Os(error),
            Fault::Data(reason) => {
                Failure::Torn(Torn { packing: self.packing.name(), offset: self.offset(), reason })
            }
        }
    }
}

impl Packed {
    /// The bytes at hand; none at the end of the file.
    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at == self.len {
            self.offset += self.len as u64;
            (self.at, self.len) = (0, 0);
            self.len = self.input.read(&mut self.buffer)?;
            self.is_at_end = self.len == 0;
        }
        Ok(&self.buffer[self.at..self.len])
    }

    /// What is left of them without waiting for more.
    fn at_hand(&self) -> &[u8] {
        &self.buffer[self.at..self.len]
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Offset in the file of the next byte.
    fn position(&self) -> u64 {
        self.offset + self.at as u64
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("position", &self.position()).finish_non_exhaustive()
    }
}

impl Read for Packed {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let there = self.fill()?;
        let count = there.len().min(out.len());
        out[..count].copy_from_slice(&there[..count]);
        self.consume(count);
        Ok(count)
    }
}
