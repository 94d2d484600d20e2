//! zstd (RFC 8878): frames one after another.

use super::{CUT_OFF, Fault, Packed, Step};
use std::fmt;
use std::io;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

pub(super) struct Zstd {
    packed: Packed,
    decoder: Decoder<'static>,
    /// How many bytes the decoder would like next: those of one block, and the head of the one behind
    /// it. 0 between frames.
    wanted: usize,
    /// There was no room for all that it had.
    holds_back: bool,
}

/// Enough for the head of a frame.
const HEAD_BYTES: usize = 5;
/// The head of a block. It is given apart, so that an error in it costs nothing of the block before.
const BLOCK_HEAD_BYTES: usize = 3;

impl Zstd {
    pub(super) fn new(packed: Packed) -> io::Result<Self> {
        Ok(Self { packed, decoder: Decoder::new()?, wanted: 0, holds_back: false })
    }

    pub(super) fn packed(&self) -> &Packed {
        &self.packed
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        // What it holds comes alone: of a step that fails, nothing would be given.
        let bytes = if self.holds_back { &[] } else { self.packed.fill()? };
        let is_end = bytes.is_empty() && !self.holds_back;
        if is_end && self.wanted == 0 {
            return Ok(Step::End);
        }
        let wanted =
            if self.wanted == 0 { HEAD_BYTES } else { self.wanted.saturating_sub(BLOCK_HEAD_BYTES).max(1) };
        let mut input = InBuffer::around(&bytes[..wanted.min(bytes.len())]);
        let mut output = OutBuffer::around(&mut *out);
        let done = self.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.holds_back = written == out.len();
        self.packed.consume(read);
        let wanted = done.map_err(|error| Fault::Data(error.to_string()))?;
        // Asked for nothing between two frames, it would like to have another one.
        if wanted == 0 || read + written > 0 {
            self.wanted = wanted;
        }
        if is_end && written == 0 {
            return Err(Fault::Data(CUT_OFF.into()));
        }
        Ok(Step::Bytes(written))
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("packed", &self.packed).field("wanted", &self.wanted).finish()
    }
}
