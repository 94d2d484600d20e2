//! gzip (RFC 1952): members one after another, each deflated data between a head and a checksum.

use super::{CUT_OFF, Fault, Packed, Step};
use flate2::{Crc, Decompress, FlushDecompress, Status};

/// FHCRC, FEXTRA, FNAME, FCOMMENT: what of a head is optional.
const HEAD_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

#[derive(Debug)]
pub(super) struct Gzip {
    packed: Packed,
    inflate: Decompress,
    crc: Crc,
    /// Bytes of the member so far.
    bytes: u64,
    place: Place,
    /// There was no room for all that was unpacked.
    holds_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    /// Before its checksum.
    Tail,
    /// Behind a member: another one, zeros that fill a tape's block, or the end.
    Behind,
}

impl Gzip {
    pub(super) fn new(packed: Packed) -> Self {
        let (inflate, crc) = (Decompress::new(false), Crc::new());
        Self { packed, inflate, crc, bytes: 0, place: Place::Before, holds_back: false }
    }

    pub(super) fn packed(&self) -> &Packed {
        &self.packed
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        if self.place == Place::Behind && !self.has_another()? {
            return Ok(Step::End);
        }
        if self.place == Place::Tail {
            // Apart from the step before, so that what that unpacked is given whatever is found here.
            self.tail()?;
            return Ok(Step::Bytes(0));
        }
        if self.place != Place::Inside {
            self.head()?;
            self.place = Place::Inside;
        }
        let bytes = if self.holds_back { self.packed.at_hand() } else { self.packed.fill()? };
        let is_end = bytes.is_empty() && !self.holds_back;
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self.inflate.decompress(bytes, out, FlushDecompress::None);
        let read = (self.inflate.total_in() - read) as usize;
        let written = (self.inflate.total_out() - written) as usize;
        self.holds_back = written == out.len();
        self.packed.consume(read);
        self.crc.update(&out[..written]);
        self.bytes += written as u64;
        match status {
            // What came out before the error is given first; the same call then errs again.
            Err(_) if written > 0 => {}
            Err(error) => return Err(Fault::Data(error.to_string())),
            Ok(Status::StreamEnd) => self.place = Place::Tail,
            Ok(_) if is_end && written == 0 => return Err(Fault::Data(CUT_OFF.into())),
            Ok(_) => {}
        }
        Ok(Step::Bytes(written))
    }

    fn has_another(&mut self) -> Result<bool, Fault> {
        loop {
            match self.packed.fill()?.first() {
                None => return Ok(false),
                Some(0) => self.packed.consume(1),
                Some(_) => return Ok(true),
            }
        }
    }

    fn head(&mut self) -> Result<(), Fault> {
        let [m0, m1, method, flags, _mtime @ .., _xfl, _os] = self.take::<10>()?;
        if [m0, m1, method] != [0x1F, 0x8B, 8] || flags & RESERVED != 0 {
            return Err(Fault::Data("what follows is no gzip member".into()));
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

    /// Checksum and length of the member.
    fn tail(&mut self) -> Result<(), Fault> {
        let (crc, bytes) = (u32::from_le_bytes(self.take()?), u32::from_le_bytes(self.take()?));
        if (crc, bytes) != (self.crc.sum(), self.bytes as u32) {
            return Err(Fault::Data("the checksum of what was unpacked is another one".into()));
        }
        self.inflate.reset(false);
        self.crc.reset();
        self.bytes = 0;
        self.place = Place::Behind;
        Ok(())
    }

    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Fault> {
        let mut taken = [0; BYTES];
        for byte in &mut taken {
            *byte = *self.packed.fill()?.first().ok_or(Fault::Data(CUT_OFF.into()))?;
            self.packed.consume(1);
        }
        Ok(taken)
    }
}
