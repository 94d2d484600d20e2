//! The compressed bytes of a file, of which threads take whole frames in turn. It starts no threads.
//!
//! The ends of frames are found by the headers of their blocks. A frame that is larger than a room, cut off, or none at
//! all is streamed: decompressed in pieces by the thread that takes it.

use crate::read::decompress::{CompressedInput, Compression, Decompressor, Failure, Unknown, extent};
use quaff_os::Buffer;

/// A compressed file whose first bytes were read.
#[derive(Debug)]
pub(in crate::read) struct Packed {
    pub(in crate::read) compression: Compression,
    pub(in crate::read) input: CompressedInput,
    /// It is in the page cache, so that a read waits for no disk.
    pub(in crate::read) is_cached: bool,
    /// It is a regular file that has more bytes, and is not followed.
    pub(in crate::read) is_long: bool,
}

/// Sizes of memory, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The contents of several frames, or a piece of one that is streamed.
    pub(super) part: usize,
    /// The contents of one frame.
    pub(super) room: usize,
}

/// The compressed bytes, in order.
#[derive(Debug)]
pub(super) struct Source {
    compression: Compression,
    sizes: Sizes,
    /// The bytes that were not taken.
    input: CompressedInput,
    /// A decompressor for frames in pieces, which has the input while they are streamed.
    stream: Option<Decompressor>,
    /// While frames are streamed: the offset from which on whole frames are taken again.
    streams_until: Option<u64>,
    /// Compressed bytes that are streamed at least: a quarter of a part, since the change back costs more than short
    /// frames, and twice as many each time that there was no whole frame to take.
    stream_bytes: u64,
    /// The number of the next result.
    next: u64,
}

/// The outcome of taking bytes from the source.
#[derive(Debug)]
pub(super) enum Claim {
    /// Whole frames, to be decompressed into the room.
    Frames(Decompressor, Buffer),
    /// A piece of one that was decompressed under the lock.
    Streamed(Unpacked),
}

/// A result: the first `bytes` of a room.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) room: Buffer,
    pub(super) bytes: usize,
    /// Compressed bytes up to its end.
    pub(super) used: u64,
    pub(super) then: Then,
}

/// The continuation of a result.
#[derive(Debug)]
pub(super) enum Then {
    /// The result with the next number.
    Next,
    /// More of the same frame, which was longer than its room.
    More(Decompressor),
    Failed(Failure),
    End,
}

impl Then {
    /// Returns whether no result follows.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::End)
    }
}

impl Packed {
    /// Returns whether threads may share the file.
    pub(in crate::read) fn is_divisible(&self) -> bool {
        self.is_long && self.compression != Compression::Gzip
    }

    /// A decompressor of the whole file.
    pub(in crate::read) fn decompressor(self) -> Result<Decompressor, Failure> {
        Decompressor::of(self.compression, self.input).map_err(Failure::Os)
    }
}

impl Source {
    pub(super) fn new(packed: Packed, sizes: Sizes) -> Result<Self, Failure> {
        let Packed { compression, input, .. } = packed;
        let input = input.in_buffer(new_buffer(sizes.packed())?);
        let stream_bytes = sizes.stream_bytes_min();
        Ok(Self { compression, sizes, input, stream: None, streams_until: None, stream_bytes, next: 0 })
    }

    /// Returns whether the next bytes are those of a frame that is streamed.
    pub(super) fn is_streaming(&self) -> bool {
        self.streams_until.is_some()
    }

    /// Takes the next frames, for a decompressor without work, and the number of their result; without whole frames the
    /// next piece of one.
    pub(super) fn claim(&mut self, mut room: Buffer, idle: &mut Option<Decompressor>) -> (u64, Claim) {
        let number = self.next;
        self.next += 1;
        let streamed = loop {
            if let Some(bytes) = self.gather() {
                match self.pass(bytes, idle) {
                    Ok(job) => return (number, Claim::Frames(job, room)),
                    Err(failure) => break Err(failure),
                }
            }
            match self.stream(&mut room) {
                // A frame has ended: the next one may be taken whole.
                Ok(0) if !self.is_streaming() && !self.input.is_over() => {}
                streamed => break streamed,
            }
        };
        (number, Claim::Streamed(self.streamed(room, streamed)))
    }

    /// Finds whole frames for a room at the front of the input, and returns the number of their bytes; `None` without
    /// one. More is read while they fill less than half a part.
    fn gather(&mut self) -> Option<usize> {
        let (mut packed, mut plain) = (0, 0);
        let part = self.sizes.part as u64;
        while !self.is_streaming() {
            let rest = &self.input.buffered()[packed..];
            match extent(self.compression, rest, self.sizes.room as u64) {
                Ok(frame) if packed == 0 || plain + frame.plain_bytes <= part => {
                    packed += frame.packed_bytes;
                    plain += frame.plain_bytes;
                }
                // An error of reading comes again, after the bytes before it.
                Err(Unknown::Partial) if plain < part / 2 && self.input.extend().unwrap_or(false) => {}
                _ => break,
            }
        }
        (packed > 0).then_some(packed)
    }

    /// Passes whole frames to a decompressor.
    fn pass(&mut self, bytes: usize, idle: &mut Option<Decompressor>) -> Result<Decompressor, Failure> {
        let mut job = match idle.take() {
            Some(job) => job,
            None => {
                let input = CompressedInput::empty(new_buffer(self.sizes.packed())?);
                Decompressor::of(self.compression, input).map_err(Failure::Os)?
            }
        };
        self.input.pass(bytes, job.input_mut());
        self.stream_bytes = self.sizes.stream_bytes_min();
        Ok(job)
    }

    /// Decompresses a piece of the next frame; returns the number of its bytes, and 0 also at the end of a frame and of
    /// the file.
    fn stream(&mut self, room: &mut [u8]) -> Result<usize, Failure> {
        if !self.is_streaming() && self.input.is_over() {
            return Ok(0);
        }
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let input = CompressedInput::empty(new_buffer(1)?);
                none.insert(Decompressor::of(self.compression, input).map_err(Failure::Os)?)
            }
        };
        let until = match self.streams_until {
            Some(until) => until,
            None => {
                let until = self.input.position().saturating_add(self.stream_bytes);
                std::mem::swap(&mut self.input, stream.input_mut());
                *self.streams_until.insert(until)
            }
        };
        let bytes = stream.read_until(&mut room[..self.sizes.part], until)?;
        if stream.is_between_frames(until) {
            std::mem::swap(&mut self.input, stream.input_mut());
            self.streams_until = None;
            self.stream_bytes = self.stream_bytes.saturating_mul(2);
        }
        Ok(bytes)
    }

    /// The result of streaming a piece into `room`.
    fn streamed(&self, room: Buffer, streamed: Result<usize, Failure>) -> Unpacked {
        let streaming = self.stream.as_ref().filter(|_| self.is_streaming());
        let used = streaming.map_or_else(|| self.input.position(), Decompressor::offset);
        let (bytes, then) = match streamed {
            Ok(0) => (0, Then::End),
            Ok(bytes) => (bytes, Then::Next),
            Err(failure) => (0, Then::Failed(failure)),
        };
        Unpacked { room, bytes, used, then }
    }
}

impl Sizes {
    fn stream_bytes_min(&self) -> u64 {
        self.part as u64 / 4
    }

    /// The compressed bytes for a room: a stored frame is longer than its contents, and begins anywhere in a page.
    fn packed(&self) -> usize {
        self.room + self.room / 64 + (8 << 10)
    }
}

impl Claim {
    /// Decompresses the frames that were taken. Their decompressor has no work afterwards, unless the room is full.
    pub(super) fn unpack(self, idle: &mut Option<Decompressor>) -> Unpacked {
        match self {
            Self::Frames(job, room) => {
                let (unpacked, job) = unpack(job, room);
                *idle = job;
                unpacked
            }
            Self::Streamed(unpacked) => unpacked,
        }
    }
}

/// Decompresses the frames of `job` into `room`; returns the job too, if nothing is left of it.
pub(super) fn unpack(mut job: Decompressor, mut room: Buffer) -> (Unpacked, Option<Decompressor>) {
    let mut bytes = 0;
    let ended = loop {
        match job.read(&mut room[bytes..]) {
            Ok(0) => break Ok(bytes < room.len()),
            Ok(more) => bytes += more,
            Err(failure) => break Err(failure),
        }
    };
    let used = job.offset();
    let (then, idle) = match ended {
        Ok(true) => (Then::Next, Some(job)),
        Ok(false) => (Then::More(job), None),
        Err(failure) => (Then::Failed(failure), None),
    };
    (Unpacked { room, bytes, used, then }, idle)
}

fn new_buffer(bytes: usize) -> Result<Buffer, Failure> {
    Buffer::new(bytes).map_err(|error| Failure::Os(error.errno))
}
