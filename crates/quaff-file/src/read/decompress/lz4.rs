//! lz4: a sequence of frames, or the legacy format.

use super::step::{CompressedInput, Step, StepError, TRUNCATED};
use lz4_flex::frame::FrameDecoder;
use std::io::{ErrorKind, Read};

#[derive(Debug)]
pub(super) struct Lz4 {
    decoder: FrameDecoder<CompressedInput>,
    /// File offset of the current frame.
    began: u64,
    /// The legacy format has no end mark.
    is_legacy: bool,
}

impl Lz4 {
    pub(super) fn new(input: CompressedInput) -> Self {
        let began = input.position();
        // A file is in one format or the other.
        let is_legacy = began == 0 && input.buffered().starts_with(&0x184C_2102u32.to_le_bytes());
        Self { decoder: FrameDecoder::new(input), began, is_legacy }
    }

    pub(super) fn input(&self) -> &CompressedInput {
        self.decoder.get_ref()
    }

    pub(super) fn input_mut(&mut self) -> &mut CompressedInput {
        self.decoder.get_mut()
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, StepError> {
        match self.decoder.read(out) {
            Ok(0) => {}
            Ok(bytes) => return Ok(Step::Bytes(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(StepError::Data(TRUNCATED.into()));
            }
            Err(error) if error.raw_os_error().is_some() => return Err(StepError::Os(error)),
            Err(error) => return Err(StepError::Data(error.to_string())),
        }
        // Either the end of a frame, or of the file between two blocks. The decoder does not report which,
        // but it reads past the end of the file only in the second case.
        let input = self.decoder.get_ref();
        let (is_at_end, position) = (input.is_at_end, input.position());
        if !is_at_end {
            self.began = position;
            return Ok(Step::Bytes(0));
        }
        if position == self.began || self.is_legacy {
            Ok(Step::End)
        } else {
            Err(StepError::Data(TRUNCATED.into()))
        }
    }
}
