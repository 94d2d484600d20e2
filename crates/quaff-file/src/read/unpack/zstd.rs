//! zstd (RFC 8878): frames one after another.

use super::{CUT_OFF, Fault, Packed, Step};
use std::fmt;
use std::io;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

pub(super) struct Zstd {
    packed: Packed,
    decoder: Decoder<'static>,
    /// What the decoder is to get next and what is not all there yet: it gets whole blocks, so that what
    /// it makes of a damaged one does not depend on the pieces that the file comes in.
    block: Vec<u8>,
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
/// No block is larger (RFC 8878 §3.1.1.2.3); a frame to be skipped may be, and is in pieces.
const BLOCK_BYTES_MAX: usize = 128 << 10;

impl Zstd {
    pub(super) fn new(packed: Packed) -> io::Result<Self> {
        Ok(Self { packed, decoder: Decoder::new()?, block: Vec::new(), wanted: 0, holds_back: false })
    }

    pub(super) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// Bytes that were taken from the file and that the decoder has not got yet.
    pub(super) fn held(&self) -> usize {
        self.block.len()
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        // What it holds comes alone: of a step that fails, nothing would be given.
        let is_end = match self.holds_back {
            true => false,
            false => match self.gather()? {
                Gathered::Part => return Ok(Step::Bytes(0)),
                Gathered::All => false,
                Gathered::End => true,
            },
        };
        if is_end && self.wanted == 0 && self.block.is_empty() {
            return Ok(Step::End);
        }
        let given = if self.holds_back { 0 } else { self.block.len() };
        let mut input = InBuffer::around(&self.block[..given]);
        let mut output = OutBuffer::around(&mut *out);
        let done = self.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.holds_back = written == out.len();
        let wanted = done.map_err(|error| Fault::Data(error.to_string()))?;
        self.block.drain(..read);
        // Asked for nothing between two frames, it would like to have another one.
        if wanted == 0 || read + written > 0 {
            self.wanted = wanted;
        }
        if is_end && written == 0 {
            return Err(Fault::Data(CUT_OFF.into()));
        }
        Ok(Step::Bytes(written))
    }

    /// Takes what is at hand of what the decoder is to get next.
    fn gather(&mut self) -> io::Result<Gathered> {
        let wanted = match self.wanted {
            0 => HEAD_BYTES,
            wanted => wanted.saturating_sub(BLOCK_HEAD_BYTES).clamp(1, BLOCK_BYTES_MAX),
        };
        let missing = wanted.saturating_sub(self.block.len());
        if missing == 0 {
            return Ok(Gathered::All);
        }
        let bytes = self.packed.fill()?;
        if bytes.is_empty() {
            return Ok(Gathered::End);
        }
        let taken = missing.min(bytes.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.packed.consume(taken);
        Ok(if taken == missing { Gathered::All } else { Gathered::Part })
    }
}

/// What there is for the decoder.
enum Gathered {
    /// More is to come.
    Part,
    /// All of a block.
    All,
    /// What is left: the file ends here.
    End,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("packed", &self.packed).field("wanted", &self.wanted).finish()
    }
}
