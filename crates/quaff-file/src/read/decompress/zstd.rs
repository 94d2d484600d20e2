//! zstd (RFC 8878): a sequence of frames. The result for a frame does not depend on those before it.

use super::extent::{Unknown, zstd_memory_log};
use super::step::{CompressedInput, Step, StepError, TRUNCATED};
use std::{fmt, io};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

pub(super) struct Zstd {
    input: CompressedInput,
    context: Context,
    /// The context of an earlier frame, between whose kind and another one a file may change.
    spare: Option<Context>,
    /// The decoder's next block, possibly incomplete. The decoder gets whole blocks, so that its result
    /// for a damaged one does not depend on the sizes of reads.
    block: Vec<u8>,
    /// Bytes that the decoder asks for: one block and the header of the next; 0 between frames.
    wanted: usize,
    /// File offset of the frame that began last.
    began: u64,
    /// Bytes of the next frame's header, as far as it is known.
    header_bytes: usize,
    /// The last step filled the output: the decoder may hold more bytes.
    output_full: bool,
}

/// A decoder with memory for windows of one size. A decoder keeps its memory from frame to frame, and finds less wrong
/// with a frame that contradicts its header if it has more: so the size follows from the header alone.
struct Context {
    decoder: Decoder<'static>,
    /// The logarithm of the window; 0 before the first frame.
    memory_log: u32,
}

/// The largest window that is accepted, and the largest of a context in reserve.
const MEMORY_LOG_MAX: u32 = 27;
const SPARE_LOG_MAX: u32 = 22;
/// Least length of a frame header.
const HEADER_BYTES: usize = 5;
/// The header of a block is passed separately, so that an error in it does not discard the block before.
const BLOCK_HEAD_BYTES: usize = 3;
/// Largest block (RFC 8878 §3.1.1.2.3); larger skippable frames are passed in parts.
const BLOCK_BYTES_MAX: usize = 128 << 10;

impl Zstd {
    pub(super) fn new(input: CompressedInput) -> io::Result<Self> {
        let context = Context { decoder: Decoder::new()?, memory_log: 0 };
        let (block, header_bytes) = (Vec::new(), HEADER_BYTES);
        let (began, spare) = (input.position(), None);
        Ok(Self { input, context, spare, block, wanted: 0, began, header_bytes, output_full: false })
    }

    pub(super) fn input(&self) -> &CompressedInput {
        &self.input
    }

    pub(super) fn input_mut(&mut self) -> &mut CompressedInput {
        &mut self.input
    }

    pub(super) fn frame_offset(&self) -> u64 {
        self.began
    }

    /// Returns whether a frame has ended and no byte of another one was taken.
    pub(super) fn is_between_frames(&self) -> bool {
        self.wanted == 0 && self.block.is_empty()
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
        let begins = self.wanted == 0 && !self.output_full;
        if begins {
            self.began = self.input.position() - self.block.len() as u64;
            match zstd_memory_log(&self.block) {
                // The context is chosen by the whole header.
                Err(Unknown::Partial) if !is_end => {
                    self.header_bytes = self.block.len() + 1;
                    return Ok(Step::Bytes(0));
                }
                Ok(log @ ..=MEMORY_LOG_MAX) => self.choose_context(log)?,
                Ok(_) | Err(_) => {}
            }
            self.header_bytes = HEADER_BYTES;
        }
        let given = match (self.output_full, begins) {
            (true, _) => 0,
            // The last byte of a header is passed alone. In the bytes of the call that completes a header the decoder
            // looks for a whole frame, and a dictionary ID and a size may look like one: it would end there.
            (false, true) if self.block.len() > HEADER_BYTES => self.block.len() - 1,
            (false, _) => self.block.len(),
        };
        let mut input = InBuffer::around(&self.block[..given]);
        let mut output = OutBuffer::around(&mut *out);
        let done = self.context.decoder.run(&mut input, &mut output);
        let (read, written) = (input.pos(), output.pos());
        self.output_full = written == out.len();
        let wanted = done.map_err(|error| StepError::Data(error.to_string()))?;
        self.block.drain(..read);
        // Without input between two frames, the decoder asks for another frame.
        if wanted == 0 || read + written > 0 {
            self.wanted = wanted;
        }
        if is_end && written == 0 && (!begins || self.block.is_empty()) {
            return Err(StepError::Data(TRUNCATED.into()));
        }
        Ok(Step::Bytes(written))
    }

    /// Makes a context with memory for windows of this size the present one.
    fn choose_context(&mut self, log: u32) -> Result<(), StepError> {
        if ![0, log].contains(&self.context.memory_log) {
            let found = self.spare.take_if(|spare| spare.memory_log == log);
            let next = match found {
                Some(context) => context,
                None => Context { decoder: Decoder::new()?, memory_log: 0 },
            };
            let last = std::mem::replace(&mut self.context, next);
            if last.memory_log <= SPARE_LOG_MAX {
                self.spare = Some(last);
            }
        }
        self.context.prepare(log).map_err(|error| StepError::Data(error.to_string()))
    }

    /// Adds buffered bytes to the decoder's next block.
    fn gather(&mut self) -> io::Result<Gathered> {
        let wanted = match self.wanted {
            0 => self.header_bytes,
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

impl Context {
    /// Begins a frame with a window of this size, and abandons it: the decoder then has memory for that, and does not
    /// return it after many frames that need less.
    fn prepare(&mut self, log: u32) -> io::Result<()> {
        let header = [0x28, 0xB5, 0x2F, 0xFD, 0, (log as u8 - 10) << 3];
        self.decoder.run(&mut InBuffer::around(&header), &mut OutBuffer::around(&mut [0u8; 0][..]))?;
        self.memory_log = log;
        self.decoder.reinit()
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
