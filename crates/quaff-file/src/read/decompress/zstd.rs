//! zstd (RFC 8878): a sequence of frames.

use super::step::{CompressedInput, Step, StepError, TRUNCATED};
use std::{fmt, io};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

pub(super) struct Zstd {
    input: CompressedInput,
    decoder: Decoder<'static>,
    /// The decoder's next block, possibly incomplete. The decoder gets whole blocks, so that its result
    /// for a damaged one does not depend on the sizes of reads.
    block: Vec<u8>,
    /// Bytes that the decoder asks for: one block and the header of the next; 0 between frames.
    wanted: usize,
    /// The last step filled the output: the decoder may hold more bytes.
    output_full: bool,
}

/// Least length of a frame header.
const HEADER_BYTES: usize = 5;
/// The header of a block is passed separately, so that an error in it does not discard the block before.
const BLOCK_HEAD_BYTES: usize = 3;
/// Largest block (RFC 8878 §3.1.1.2.3); larger skippable frames are passed in parts.
const BLOCK_BYTES_MAX: usize = 128 << 10;

impl Zstd {
    pub(super) fn new(input: CompressedInput) -> io::Result<Self> {
        Ok(Self { input, decoder: Decoder::new()?, block: Vec::new(), wanted: 0, output_full: false })
    }

    pub(super) fn input(&self) -> &CompressedInput {
        &self.input
    }

    /// Returns the number of bytes read but not yet passed to the decoder.
    pub(super) fn held(&self) -> usize {
        self.block.len()
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, StepError> {
        // Held bytes are returned in a step of their own: a failing step would discard them.
        let is_end = match self.output_full {
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
        let given = if self.output_full { 0 } else { self.block.len() };
        let mut input = InBuffer::around(&self.block[..given]);
        let mut output = OutBuffer::around(&mut *out);
        let done = self.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.output_full = written == out.len();
        let wanted = done.map_err(|error| StepError::Data(error.to_string()))?;
        self.block.drain(..read);
        // Without input between two frames, the decoder asks for another frame.
        if wanted == 0 || read + written > 0 {
            self.wanted = wanted;
        }
        if is_end && written == 0 {
            return Err(StepError::Data(TRUNCATED.into()));
        }
        Ok(Step::Bytes(written))
    }

    /// Adds buffered bytes to the decoder's next block.
    fn gather(&mut self) -> io::Result<Gathered> {
        let wanted = match self.wanted {
            0 => HEADER_BYTES,
            wanted => wanted.saturating_sub(BLOCK_HEAD_BYTES).clamp(1, BLOCK_BYTES_MAX),
        };
        let missing = wanted.saturating_sub(self.block.len());
        if missing == 0 {
            return Ok(Gathered::All);
        }
        let bytes = self.input.fill()?;
        if bytes.is_empty() {
            return Ok(Gathered::End);
        }
        let taken = missing.min(bytes.len());
        self.block.extend_from_slice(&bytes[..taken]);
        self.input.consume(taken);
        Ok(if taken == missing { Gathered::All } else { Gathered::Part })
    }
}

/// The state of the decoder's next block.
enum Gathered {
    /// Incomplete.
    Part,
    /// Complete.
    All,
    /// The file ends here.
    End,
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").field("input", &self.input).field("wanted", &self.wanted).finish()
    }
}
