//! lz4: frames one after another.

use super::{CUT_OFF, Fault, Packed, Step};
use lz4_flex::frame::FrameDecoder;
use std::io::{ErrorKind, Read};

#[derive(Debug)]
pub(super) struct Lz4 {
    decoder: FrameDecoder<Packed>,
    /// Where the frame at hand began.
    began: u64,
    /// The predecessor of the format has no mark at its end.
    is_legacy: bool,
}

impl Lz4 {
    pub(super) fn new(packed: Packed) -> Self {
        let is_legacy = packed.buffer.starts_with(&0x184C_2102u32.to_le_bytes());
        Self { decoder: FrameDecoder::new(packed), began: 0, is_legacy }
    }

    pub(super) fn packed(&self) -> &Packed {
        self.decoder.get_ref()
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        match self.decoder.read(out) {
            Ok(0) => {}
            Ok(bytes) => return Ok(Step::Bytes(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(Fault::Data(CUT_OFF.into()));
            }
            Err(error) if error.raw_os_error().is_some() => return Err(Fault::Os(error)),
            Err(error) => return Err(Fault::Data(error.to_string())),
        }
        // The end of a frame, or of the file between two blocks: the decoder does not tell which,
        // but only at the second one has it asked for more than there was.
        let packed = self.decoder.get_ref();
        let (is_at_end, position) = (packed.is_at_end, packed.position());
        if !is_at_end {
            self.began = position;
            return Ok(Step::Bytes(0));
        }
        if position == self.began || self.is_legacy {
            Ok(Step::End)
        } else {
            Err(Fault::Data(CUT_OFF.into()))
        }
    }
}
