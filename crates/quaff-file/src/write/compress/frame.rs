//! Frames of zstd and lz4, members of gzip: compressed, stored, and empty. Each is complete by itself, so a file of
//! them is complete after any one, and is read by every program that reads concatenated frames.
//!
//! A stored frame holds its bytes as they are and costs a copy. An empty frame is the padding for aligned writes:
//! unlike a skippable one it is also read by programs that look for the magic number of data only.

use crate::read::Compression;
use flate2::{Compress, Crc, FlushCompress, Status};
use lz4_flex::block::{CompressTable, compress_into_with_table};
use std::io;
use zstd::stream::raw::{CParameter, Encoder as ZstdEncoder, InBuffer, Operation, OutBuffer};

/// RFC 8878 §3.1.1, and the largest block.
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528u32.to_le_bytes();
const ZSTD_BLOCK_BYTES: usize = 128 << 10;
/// Single segment with a content size of four bytes.
const ZSTD_SINGLE_SEGMENT: u8 = 0xA0;
/// A raw block of no bytes, and one that ends a frame.
const ZSTD_EMPTY_BLOCK: [u8; 3] = [0, 0, 0];
const ZSTD_LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// The lz4 frame format: version 1 with independent blocks of up to 256 KiB.
const LZ4_MAGIC: [u8; 4] = 0x184D_2204u32.to_le_bytes();
const LZ4_BLOCK_BYTES: usize = 256 << 10;
const LZ4_BLOCK_CODE: u8 = 0x50;
/// Flags and header checksum without options.
const LZ4_PLAIN: (u8, u8) = (0x60, 0xFB);
/// A block that is not compressed.
const LZ4_STORED: u32 = 1 << 31;
const LZ4_END: [u8; 4] = [0; 4];
/// Flags and header checksums of empty frames: without options, with a checksum of the contents, with their size, with
/// both. Each is four bytes longer than the one before.
const LZ4_EMPTY: [(u8, u8); 4] = [LZ4_PLAIN, (0x64, 0x08), (0x68, 0xEE), (0x6C, 0x23)];
const LZ4_EMPTY_BYTES: usize = 11;
const LZ4_EMPTY_BYTES_MAX: usize = 23;
/// xxHash-32 of nothing.
const LZ4_EMPTY_CHECKSUM: [u8; 4] = 0x02CC_5D05u32.to_le_bytes();

/// RFC 1952: deflate, no time, an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];
const GZIP_EXTRA: u8 = 1 << 2;
/// The largest stored block of deflate (RFC 1951 §3.2.4).
const GZIP_BLOCK_BYTES: usize = 65_535;
/// Identifies quaff's subfield of the extra field.
const GZIP_SUBFIELD: [u8; 2] = *b"qp";
/// An empty member with an empty subfield.
const GZIP_EMPTY_BYTES: usize = 26;
/// An empty deflate stream: one block of fixed codes.
const GZIP_NOTHING: [u8; 2] = [3, 0];

/// Bytes of a piece; before each one, the encoder checks whether the result is still wanted.
const PIECE_BYTES: usize = 64 << 10;
/// Room of a buffer beyond the bytes of a chunk. The encoder of lz4 asks for a tenth of a block. That of deflate gets
/// room for a piece at its worst and for all that it may hold back: some versions fail, or make damaged data, when
/// their output is full.
const ROOM_BYTES: usize = 4 * PIECE_BYTES;

/// A compression with its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec {
    pub compression: Compression,
    /// Of zstd 1 to 19, of gzip 1 to 9, of lz4 always 1.
    pub level: i32,
}

impl Codec {
    /// The fastest level.
    pub fn fastest(compression: Compression) -> Self {
        Self { compression, level: 1 }
    }

    /// Returns the highest level.
    pub fn level_max(compression: Compression) -> i32 {
        match compression {
            Compression::Zstd => 19,
            Compression::Gzip => 9,
            Compression::Lz4 => 1,
        }
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.compression {
            Compression::Lz4 => f.write_str("lz4"),
            other => write!(f, "{}:{}", other.name(), self.level),
        }
    }
}

/// The bytes of a frame in the order in which they are put.
struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Out<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }
}

/// Returns the length of a buffer for any frame of `plain_bytes`, with its padding.
pub(super) fn bound(plain_bytes: usize, align: usize) -> usize {
    plain_bytes + plain_bytes / 8192 + ROOM_BYTES + 2 * align + 256
}

/// Puts `plain` into `out` as a stored frame; returns its length.
pub(super) fn store(compression: Compression, plain: &[u8], out: &mut [u8]) -> usize {
    let mut out = Out::new(out);
    match compression {
        Compression::Zstd => store_zstd(plain, &mut out),
        Compression::Lz4 => store_lz4(plain, &mut out),
        Compression::Gzip => store_gzip(plain, &mut out),
    }
    out.len
}

/// Returns `plain` as a stored frame, padded to a multiple of `align`.
pub(in crate::write) fn stored(compression: Compression, plain: &[u8], align: usize) -> Vec<u8> {
    let mut frame = vec![0; bound(plain.len(), align)];
    let len = store(compression, plain, &mut frame);
    let len = pad(compression, &mut frame, len, align);
    frame.truncate(len);
    frame
}

/// Returns `plain` as a frame at the fastest level, padded to a multiple of `align`.
pub(in crate::write) fn framed(compression: Compression, plain: &[u8], align: usize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; bound(plain.len(), align)];
    let mut encoder = Encoder::new(Codec::fastest(compression))?;
    let compressed = encoder.compress(plain, &mut frame, || true);
    let len = compressed.unwrap_or_else(|| store(compression, plain, &mut frame));
    let len = pad(compression, &mut frame, len, align);
    frame.truncate(len);
    Ok(frame)
}

/// Fills `out` up to a multiple of `align` with empty frames after its first `len` bytes; returns the new length.
pub(super) fn pad(compression: Compression, out: &mut [u8], len: usize, align: usize) -> usize {
    let mut gap = len.next_multiple_of(align) - len;
    if gap == 0 {
        return len;
    }
    while gap < empty_bytes_min(compression) {
        gap += align;
    }
    let mut out = Out::new(&mut out[len..]);
    match compression {
        Compression::Zstd => empty_zstd(gap, &mut out),
        Compression::Lz4 => empty_lz4(gap, &mut out),
        Compression::Gzip => empty_gzip(gap, &mut out),
    }
    len + out.len
}

/// The least length from which on empty frames can have any length.
fn empty_bytes_min(compression: Compression) -> usize {
    match compression {
        Compression::Zstd => 16,
        Compression::Lz4 => 96,
        Compression::Gzip => GZIP_EMPTY_BYTES,
    }
}

fn store_zstd(plain: &[u8], out: &mut Out<'_>) {
    out.put(&ZSTD_MAGIC);
    out.put(&[ZSTD_SINGLE_SEGMENT]);
    out.put(&(plain.len() as u32).to_le_bytes());
    let mut blocks = plain.chunks(ZSTD_BLOCK_BYTES).peekable();
    while let Some(block) = blocks.next() {
        let is_last = u32::from(blocks.peek().is_none());
        out.put(&((block.len() as u32) << 3 | is_last).to_le_bytes()[..3]);
        out.put(block);
    }
    if plain.is_empty() {
        out.put(&ZSTD_LAST_BLOCK);
    }
}

/// A window of 1 KiB, the contents' size in 0, 4 or 8 bytes, and raw blocks of no bytes: 9, 13 or 17 bytes and a
/// multiple of 3.
fn empty_zstd(bytes: usize, out: &mut Out<'_>) {
    let (flags, size_bytes) = [(0x00, 0), (0x80, 4), (0xC0, 8)][bytes % 3];
    out.put(&ZSTD_MAGIC);
    out.put(&[flags, 0]);
    out.put(&[0; 8][..size_bytes]);
    for _ in 0..(bytes - 9 - size_bytes) / 3 {
        out.put(&ZSTD_EMPTY_BLOCK);
    }
    out.put(&ZSTD_LAST_BLOCK);
}

fn begin_lz4((flags, checksum): (u8, u8), size: &[u8], out: &mut Out<'_>) {
    out.put(&LZ4_MAGIC);
    out.put(&[flags, LZ4_BLOCK_CODE]);
    out.put(size);
    out.put(&[checksum]);
}

fn store_lz4(plain: &[u8], out: &mut Out<'_>) {
    begin_lz4(LZ4_PLAIN, &[], out);
    for block in plain.chunks(LZ4_BLOCK_BYTES) {
        out.put(&(block.len() as u32 | LZ4_STORED).to_le_bytes());
        out.put(block);
    }
    out.put(&LZ4_END);
}

/// As many frames of 11, 15, 19 or 23 bytes as it takes.
fn empty_lz4(bytes: usize, out: &mut Out<'_>) {
    let fits = |frames: &usize| (bytes - frames * LZ4_EMPTY_BYTES).is_multiple_of(4);
    let least = bytes.div_ceil(LZ4_EMPTY_BYTES_MAX);
    let frames = (least..least + 4).find(fits).unwrap_or(least);
    let mut steps = (bytes - frames * LZ4_EMPTY_BYTES) / 4;
    for _ in 0..frames {
        let longer = steps.min(LZ4_EMPTY.len() - 1);
        steps -= longer;
        let (has_checksum, size_bytes) = (longer % 2 == 1, longer / 2 * 8);
        begin_lz4(LZ4_EMPTY[longer], &[0; 8][..size_bytes], out);
        out.put(&LZ4_END);
        if has_checksum {
            out.put(&LZ4_EMPTY_CHECKSUM);
        }
    }
}

fn store_gzip(plain: &[u8], out: &mut Out<'_>) {
    out.put(&GZIP_HEADER);
    let mut blocks = plain.chunks(GZIP_BLOCK_BYTES).peekable();
    while let Some(block) = blocks.next() {
        let len = block.len() as u16;
        out.put(&[u8::from(blocks.peek().is_none())]);
        out.put(&len.to_le_bytes());
        out.put(&(!len).to_le_bytes());
        out.put(block);
    }
    if plain.is_empty() {
        out.put(&GZIP_NOTHING);
    }
    let mut crc = Crc::new();
    crc.update(plain);
    end_gzip(&crc, out);
}

fn end_gzip(crc: &Crc, out: &mut Out<'_>) {
    out.put(&crc.sum().to_le_bytes());
    out.put(&crc.amount().to_le_bytes());
}

/// An empty member whose extra field has the missing bytes.
fn empty_gzip(bytes: usize, out: &mut Out<'_>) {
    let zeros = bytes - GZIP_EMPTY_BYTES;
    let mut header = GZIP_HEADER;
    header[3] = GZIP_EXTRA;
    out.put(&header);
    out.put(&(zeros as u16 + 4).to_le_bytes());
    out.put(&GZIP_SUBFIELD);
    out.put(&(zeros as u16).to_le_bytes());
    out.room()[..zeros].fill(0);
    out.len += zeros;
    out.put(&GZIP_NOTHING);
    end_gzip(&Crc::new(), out);
}

/// Compresses chunks; each thread has one.
pub(super) enum Encoder {
    Zstd(ZstdEncoder<'static>),
    Lz4(CompressTable),
    /// With its level.
    Gzip(Compress, flate2::Compression),
}

impl Encoder {
    pub(super) fn new(codec: Codec) -> io::Result<Self> {
        Ok(match codec.compression {
            Compression::Zstd => {
                let mut encoder = ZstdEncoder::new(codec.level)?;
                encoder.set_parameter(CParameter::ChecksumFlag(true))?;
                Self::Zstd(encoder)
            }
            Compression::Lz4 => Self::Lz4(CompressTable::large()),
            Compression::Gzip => {
                let level = flate2::Compression::new(codec.level as u32);
                Self::Gzip(Compress::new(level, false), level)
            }
        })
    }

    /// Compresses `plain` into a frame; returns its length. `None` if the frame would be no shorter than a stored one,
    /// or if it is no longer wanted, which is checked before each piece.
    pub(super) fn compress(
        &mut self,
        plain: &[u8],
        out: &mut [u8],
        is_wanted: impl Fn() -> bool,
    ) -> Option<usize> {
        match self {
            Self::Zstd(encoder) => zstd(encoder, plain, &mut out[..plain.len()], is_wanted),
            Self::Lz4(table) => lz4(table, plain, out, is_wanted),
            Self::Gzip(deflate, level) => {
                let done = gzip(deflate, plain, out, is_wanted);
                if done.is_none() {
                    // A reset in the middle of a block keeps a part of its state.
                    *deflate = Compress::new(*level, false);
                }
                done
            }
        }
    }
}

fn zstd(
    encoder: &mut ZstdEncoder<'static>,
    plain: &[u8],
    out: &mut [u8],
    is_wanted: impl Fn() -> bool,
) -> Option<usize> {
    encoder.reinit().ok()?;
    encoder.set_pledged_src_size(Some(plain.len() as u64)).ok()?;
    let room = out.len();
    let mut out = OutBuffer::around(out);
    for piece in plain.chunks(PIECE_BYTES) {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            if out.pos() == room || !is_wanted() {
                return None;
            }
            encoder.run(&mut input, &mut out).ok()?;
        }
    }
    while encoder.finish(&mut out, true).ok()? > 0 {
        if out.pos() == room {
            return None;
        }
    }
    Some(out.pos())
}

fn lz4(
    table: &mut CompressTable,
    plain: &[u8],
    out: &mut [u8],
    is_wanted: impl Fn() -> bool,
) -> Option<usize> {
    let mut out = Out::new(out);
    begin_lz4(LZ4_PLAIN, &[], &mut out);
    for block in plain.chunks(LZ4_BLOCK_BYTES) {
        if !is_wanted() {
            return None;
        }
        let head = out.len;
        out.len += 4;
        let len = compress_into_with_table(block, out.room(), table).ok().filter(|len| *len < block.len());
        let len = len.map_or(block.len() as u32 | LZ4_STORED, |len| len as u32);
        out.bytes[head..head + 4].copy_from_slice(&len.to_le_bytes());
        if len & LZ4_STORED == 0 {
            out.len += len as usize;
        } else {
            out.put(block);
        }
    }
    out.put(&LZ4_END);
    Some(out.len)
}

fn gzip(deflate: &mut Compress, plain: &[u8], out: &mut [u8], is_wanted: impl Fn() -> bool) -> Option<usize> {
    let mut out = Out::new(out);
    out.put(&GZIP_HEADER);
    deflate.reset();
    let mut crc = Crc::new();
    for piece in plain.chunks(PIECE_BYTES) {
        crc.update(piece);
        let mut left = piece;
        while !left.is_empty() {
            if !is_wanted() {
                return None;
            }
            let (read, _) = deflate_some(deflate, left, &mut out, FlushCompress::None)?;
            left = &left[read..];
        }
    }
    while deflate_some(deflate, &[], &mut out, FlushCompress::Finish)?.1 != Status::StreamEnd {}
    end_gzip(&crc, &mut out);
    Some(out.len).filter(|len| *len < plain.len())
}

/// Compresses some of `plain`; returns the number of bytes read. `None` without enough room.
fn deflate_some(
    deflate: &mut Compress,
    plain: &[u8],
    out: &mut Out<'_>,
    flush: FlushCompress,
) -> Option<(usize, Status)> {
    if out.room().len() < ROOM_BYTES {
        return None;
    }
    let (read, written) = (deflate.total_in(), deflate.total_out());
    let status = deflate.compress(plain, out.room(), flush).ok()?;
    out.len += (deflate.total_out() - written) as usize;
    Some(((deflate.total_in() - read) as usize, status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Decompressor;
    use quaff_os::Buffer;
    use std::io::{Cursor, Write};
    use std::process::{Command, Stdio};

    const ALL: [Compression; 3] = [Compression::Zstd, Compression::Lz4, Compression::Gzip];

    /// Text that compresses, or noise that does not.
    fn sample(bytes: usize, is_noise: bool) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..bytes).map(|at| if is_noise { next() } else { (at / 7 % 50) as u8 ^ next() & 1 }).collect()
    }

    fn read(compression: Compression, frames: &[u8]) -> Vec<u8> {
        let (mut buffer, mut all) = (Buffer::new(1 << 16).unwrap(), Vec::new());
        let first = frames.len().min(buffer.len());
        buffer[..first].copy_from_slice(&frames[..first]);
        let rest = Cursor::new(frames[first..].to_vec());
        let mut reader = Decompressor::new(compression, Box::new(rest), buffer, first).unwrap();
        let mut out = vec![0; 300_000];
        loop {
            match reader.read(&mut out).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&out[..count]),
            }
        }
    }

    /// The contents of the frames by another program; `None` without it.
    fn read_by_tool(compression: Compression, frames: &[u8]) -> Option<Vec<u8>> {
        let tool = match compression {
            Compression::Zstd => "zstd",
            Compression::Lz4 => "lz4",
            Compression::Gzip => "gzip",
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(frames).unwrap();
        let input = file.reopen().unwrap();
        let done = Command::new(tool).arg("-dc").stdin(Stdio::from(input)).output().ok()?;
        assert!(done.status.success(), "{tool}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(done.stderr.is_empty(), "{tool}: {}", String::from_utf8_lossy(&done.stderr));
        Some(done.stdout)
    }

    fn check(compression: Compression, frames: &[u8], plain: &[u8]) {
        assert!(read(compression, frames) == plain, "{compression:?}: our reader");
        if let Some(found) = read_by_tool(compression, frames) {
            assert!(found == plain, "{compression:?}: {} of {} bytes by its tool", found.len(), plain.len());
        }
    }

    #[test]
    fn frames_of_any_size_and_alignment_are_read_by_us_and_by_the_tools() {
        for compression in ALL {
            let mut encoder = Encoder::new(Codec::fastest(compression)).unwrap();
            let (mut file, mut plain, mut compressed) = (Vec::new(), Vec::new(), 0);
            for (number, bytes) in
                [1 << 20, 0, 1, 65_535, 65_536, 131_072, 131_073, 700_001].iter().enumerate()
            {
                let align = [1, 512, 4096][number % 3];
                let part = sample(*bytes, number % 4 == 3);
                let mut out = vec![0xAA; bound(part.len(), align)];
                let len = encoder.compress(&part, &mut out, || true);
                compressed += usize::from(len.is_some());
                let len = len.unwrap_or_else(|| store(compression, &part, &mut out));
                let len = pad(compression, &mut out, len, align);
                assert!(len.is_multiple_of(align));
                file.extend_from_slice(&out[..len]);
                plain.extend_from_slice(&part);
                file.extend(stored(compression, &part, align));
                plain.extend_from_slice(&part);
            }
            assert!(compressed >= 4 && file.len() < plain.len(), "{compression:?}: {compressed}");
            check(compression, &file, &plain);
        }
    }

    #[test]
    fn padding_has_any_length_and_no_contents() {
        for compression in ALL {
            let least = empty_bytes_min(compression);
            let begin = stored(compression, b"begin", 1);
            let mut all = begin.clone();
            for gap in least..least + 600 {
                // A length that needs exactly this gap.
                let align = 4096;
                let mut out = vec![0xAA; 3 * align];
                let len = pad(compression, &mut out, align - gap, align);
                assert_eq!(len, align, "{compression:?} {gap}");
                all.extend_from_slice(&out[align - gap..align]);
                if gap % 97 == 0 {
                    check(compression, &[&begin[..], &out[align - gap..align]].concat(), b"begin");
                }
            }
            all.extend(stored(compression, b" and end", 512));
            check(compression, &all, b"begin and end");
            for gap in 1..least {
                let mut out = vec![0; 8192];
                assert_eq!(pad(compression, &mut out, 512 - gap, 512), 1024, "{compression:?} {gap}");
            }
        }
    }

    #[test]
    fn chunks_that_do_not_shrink_are_stored_and_unwanted_ones_abandoned() {
        for compression in ALL {
            let mut encoder = Encoder::new(Codec::fastest(compression)).unwrap();
            let noise = sample(1 << 20, true);
            let mut out = vec![0; bound(noise.len(), 1)];
            let len = encoder.compress(&noise, &mut out, || true);
            assert!(len.is_none_or(|len| len <= noise.len() + 64), "{compression:?} {len:?}");
            let text = sample(1 << 20, false);
            let looks = std::cell::Cell::new(0);
            let is_wanted = || looks.replace(looks.get() + 1) < 2;
            assert_eq!(encoder.compress(&text, &mut out, is_wanted), None, "{compression:?}");
            // The abandoned frame leaves no bytes in the output.
            let len = encoder.compress(&text, &mut out, || true).unwrap();
            check(compression, &out[..len], &text);
        }
    }
}
