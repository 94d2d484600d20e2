//! gzip (RFC 1952): a sequence of members, each deflated data between a header and a checksum.

use super::step::{CompressedInput, Step, StepError, TRUNCATED};
use flate2::read::GzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::io::{self, Read};

/// FHCRC, FEXTRA, FNAME, FCOMMENT: the optional fields of a header.
const HEAD_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;
/// Contents of a member that are checked at most.
const MEMBER_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Gzip {
    input: CompressedInput,
    inflate: Decompress,
    crc: Crc,
    /// Decompressed bytes of the member so far.
    bytes: u64,
    position: Position,
    /// File offset of the member.
    began: u64,
    /// The last step filled the output: the decompressor may hold more bytes.
    output_full: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Header,
    Data,
    /// Checksum and length.
    Trailer,
    /// After a member: another one, zero padding, or the end.
    BetweenMembers,
}

/// Returns whether `bytes` begin with a whole member; one that is very long counts as such.
pub(super) fn is_whole_member(bytes: &[u8]) -> bool {
    io::copy(&mut GzDecoder::new(bytes).take(MEMBER_BYTES_MAX), &mut io::sink()).is_ok()
}

impl Gzip {
    pub(super) fn new(input: CompressedInput) -> Self {
        let (inflate, crc) = (Decompress::new(false), Crc::new());
        Self { input, inflate, crc, bytes: 0, position: Position::Header, began: 0, output_full: false }
    }

    pub(super) fn input(&self) -> &CompressedInput {
        &self.input
    }

    pub(super) fn input_mut(&mut self) -> &mut CompressedInput {
        &mut self.input
    }

    pub(super) fn member_offset(&self) -> u64 {
        self.began
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, StepError> {
        if self.position == Position::BetweenMembers && !self.has_another()? {
            return Ok(Step::End);
        }
        if self.position == Position::Trailer {
            // A step of its own, so that an error here does not discard decompressed bytes.
            self.trailer()?;
            return Ok(Step::Bytes(0));
        }
        if self.position != Position::Data {
            self.header()?;
            self.position = Position::Data;
        }
        let bytes = if self.output_full { self.input.buffered() } else { self.input.fill()? };
        let is_end = bytes.is_empty() && !self.output_full;
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(bytes, out, FlushDecompress::None);
        let read = (self.inflate.total_in() - read) as usize;
        let written = (self.inflate.total_out() - written) as usize;
        self.output_full = written == out.len();
        self.input.consume(read);
        self.crc.update(&out[..written]);
        self.bytes += written as u64;
        match status {
            // Returns the bytes before the error first; the next call fails again.
            Err(_) if written > 0 => {}
            Err(error) => return Err(StepError::Data(error.to_string())),
            Ok(Status::StreamEnd) => self.position = Position::Trailer,
            Ok(_) if is_end && written == 0 => return Err(StepError::Data(TRUNCATED.into())),
            Ok(_) => {}
        }
        Ok(Step::Bytes(written))
    }

    fn has_another(&mut self) -> Result<bool, StepError> {
        loop {
            match self.input.fill()?.first() {
                None => return Ok(false),
                Some(0) => self.input.consume(1),
                Some(_) => return Ok(true),
            }
        }
    }

    fn header(&mut self) -> Result<(), StepError> {
        self.began = self.input.position();
        let [m0, m1, method, flags, _mtime @ .., _xfl, _os] = self.take::<10>()?;
        if [m0, m1, method] != [0x1F, 0x8B, 8] || flags & RESERVED != 0 {
            return Err(StepError::Data("not followed by a gzip member".into()));
        }
        if flags & EXTRA != 0 {
            let length = u16::from_le_bytes(self.take()?);
            for _ in 0..length {
                self.take::<1>()?;
            }
        }
        for text in [NAME, COMMENT] {
            while flags & text != 0 && self.take()? != [0] {}
        }
        if flags & HEAD_CRC != 0 {
            self.take::<2>()?;
        }
        Ok(())
    }

    /// Checks checksum and length of the member.
    fn trailer(&mut self) -> Result<(), StepError> {
        let (crc, bytes) = (u32::from_le_bytes(self.take()?), u32::from_le_bytes(self.take()?));
        if (crc, bytes) != (self.crc.sum(), self.bytes as u32) {
            return Err(StepError::Data("wrong checksum or length".into()));
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.bytes = 0;
        self.position = Position::BetweenMembers;
        Ok(())
    }

    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], StepError> {
        let mut taken = [0; BYTES];
        for byte in &mut taken {
            *byte = *self.input.fill()?.first().ok_or(StepError::Data(TRUNCATED.into()))?;
            self.input.consume(1);
        }
        Ok(taken)
    }
}
