//! lz4: a sequence of frames, or the legacy format. The result for a frame does not depend on those before it.

use super::extent::{
    LZ4_BLOCK_CHECKSUM, LZ4_CONTENT_CHECKSUM, LZ4_CONTENT_SIZE, LZ4_DICTIONARY, LZ4_INDEPENDENT, LZ4_MAGIC,
    LZ4_STORED,
};
use super::step::{CompressedInput, Step, StepError, TRUNCATED};
use lz4_flex::frame::FrameDecoder;
use quaff_os::Buffer;
use std::io::{self, ErrorKind, Read};

/// The magic number of the legacy format, whose blocks have up to 8 MiB and no end mark.
const LEGACY_MAGIC: u64 = 0x184C_2102;

#[derive(Debug)]
pub(super) struct Lz4 {
    decoder: FrameDecoder<Frames>,
    /// The layout that the decoder has memory for; `None` before the first frame.
    layout: Option<Layout>,
    /// File offset of the current frame.
    began: u64,
}

/// The properties of a frame that decide how much memory the decoder takes. It keeps that for later frames, and with
/// more of it accepts longer blocks of a frame that contradicts its header: so each layout gets a new decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Frame { is_linked: bool, block_size_code: u8 },
    Legacy,
}

impl Layout {
    /// Bytes of a header that are enough for it.
    const BYTES: usize = 6;

    /// The layout of the frame at the front of `bytes`; `None` if that is too short, or no frame.
    fn of(bytes: &[u8]) -> Option<Self> {
        match u64::from(u32::from_le_bytes(*bytes.first_chunk()?)) {
            LZ4_MAGIC => {
                let is_linked = u64::from(*bytes.get(4)?) & LZ4_INDEPENDENT == 0;
                Some(Self::Frame { is_linked, block_size_code: *bytes.get(5)? })
            }
            LEGACY_MAGIC => Some(Self::Legacy),
            _ => None,
        }
    }
}

impl Lz4 {
    pub(super) fn new(input: CompressedInput) -> Self {
        let began = input.position();
        Self { decoder: FrameDecoder::new(Frames::new(input)), layout: None, began }
    }

    pub(super) fn input(&self) -> &CompressedInput {
        &self.decoder.get_ref().input
    }

    pub(super) fn input_mut(&mut self) -> &mut CompressedInput {
        &mut self.decoder.get_mut().input
    }

    pub(super) fn frame_offset(&self) -> u64 {
        self.began
    }

    /// Returns whether a frame has ended and no byte of another one was taken.
    pub(super) fn is_between_frames(&self) -> bool {
        self.decoder.get_ref().place.is_between_frames()
    }

    pub(super) fn step(&mut self, out: &mut [u8]) -> Result<Step, StepError> {
        if self.is_between_frames() {
            self.begin()?;
        }
        match self.decoder.read(out) {
            Ok(0) => {}
            Ok(bytes) => return Ok(Step::Bytes(bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(StepError::Data(TRUNCATED.into()));
            }
            Err(error) if error.raw_os_error().is_some() => return Err(StepError::Os(error)),
            Err(error) => return Err(StepError::Data(error.to_string())),
        }
        // The end of a frame, a block without contents, or the end of the file, which the decoder does not report
        // between two blocks.
        let Frames { input, place } = self.decoder.get_ref();
        if input.position() == self.began {
            Ok(Step::End)
        } else if place.is_between_frames() || !input.is_at_end {
            Ok(Step::Bytes(0))
        } else if place.is_legacy() {
            Ok(Step::End)
        } else {
            Err(StepError::Data(TRUNCATED.into()))
        }
    }

    /// Begins the next frame, with a decoder for its layout. A header that has none is refused by any decoder.
    fn begin(&mut self) -> Result<(), StepError> {
        let input = self.input_mut();
        let (began, layout) = (input.position(), Layout::of(input.peek(Layout::BYTES)?));
        self.began = began;
        let Some(layout) = layout else { return Ok(()) };
        if self.layout.is_some_and(|last| last != layout) {
            let none = Buffer::new(1).map_err(|error| StepError::Os(error.errno))?;
            let frames = std::mem::replace(self.decoder.get_mut(), Frames::new(CompressedInput::empty(none)));
            self.decoder = FrameDecoder::new(frames);
        }
        self.layout = Some(layout);
        Ok(())
    }
}

/// The compressed bytes, for the decoder, which does not report the end of a frame.
#[derive(Debug)]
struct Frames {
    input: CompressedInput,
    place: Place,
}

impl Frames {
    fn new(input: CompressedInput) -> Self {
        Self { input, place: Place::default() }
    }
}

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(out)?;
        self.place.pass(&out[..bytes]);
        Ok(bytes)
    }
}

/// The place in a frame that the decoder has read up to. It checks nothing: the decoder refuses what is wrong.
#[derive(Debug, Default)]
struct Place {
    part: FramePart,
    /// The first bytes of the header, or the header of a block, as far as they were read.
    first: [u8; Layout::BYTES],
    count: usize,
    /// Bytes of the rest of the header, of a block or of a checksum.
    rest: u64,
    block_checksum_bytes: u64,
    content_checksum_bytes: u64,
}

/// The part of a frame that follows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FramePart {
    #[default]
    Header,
    Block,
    LegacyBlock,
}

impl Place {
    fn is_between_frames(&self) -> bool {
        self.part == FramePart::Header && self.count == 0 && self.rest == 0
    }

    fn is_legacy(&self) -> bool {
        self.part == FramePart::LegacyBlock
    }

    /// Moves past `bytes`.
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((byte, others)) = bytes.split_first() {
            if self.rest > 0 {
                let passed = self.rest.min(bytes.len() as u64);
                self.rest -= passed;
                bytes = &bytes[passed as usize..];
            } else {
                self.first[self.count] = *byte;
                self.count += 1;
                bytes = others;
                self.parse_first();
            }
        }
    }

    /// Parses the first bytes once there are enough.
    fn parse_first(&mut self) {
        let first = &self.first[..self.count];
        match self.part {
            FramePart::Header => match Layout::of(first) {
                Some(Layout::Frame { .. }) => self.parse_flags(u64::from(self.first[4])),
                Some(Layout::Legacy) => {
                    *self = Self { part: FramePart::LegacyBlock, ..Self::default() };
                }
                // It is refused.
                None if self.count == Layout::BYTES => self.count = 0,
                None => {}
            },
            FramePart::Block | FramePart::LegacyBlock => {
                if let Some(header) = first.first_chunk() {
                    self.parse_block_header(u64::from(u32::from_le_bytes(*header)));
                }
            }
        }
    }

    fn parse_flags(&mut self, flags: u64) {
        let bytes_if = |flag: u64, bytes: u64| if flags & flag != 0 { bytes } else { 0 };
        *self = Self {
            part: FramePart::Block,
            // With the checksum of the header.
            rest: 1 + bytes_if(LZ4_CONTENT_SIZE, 8) + bytes_if(LZ4_DICTIONARY, 4),
            block_checksum_bytes: bytes_if(LZ4_BLOCK_CHECKSUM, 4),
            content_checksum_bytes: bytes_if(LZ4_CONTENT_CHECKSUM, 4),
            ..Self::default()
        };
    }

    fn parse_block_header(&mut self, header: u64) {
        self.count = 0;
        if header == 0 {
            *self = Self { rest: self.content_checksum_bytes, ..Self::default() };
        } else {
            self.rest = (header & !LZ4_STORED) + self.block_checksum_bytes;
        }
    }
}
