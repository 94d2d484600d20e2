//! Files decompressed side by side: the same bytes, the same error at the same place as by one thread, whatever the
//! frames are like.

use super::source::{Claim, Packed, Sizes, Source, Then};
use super::{Alarm, Shared, Unpackers};
use crate::read::decompress::{CompressedInput, Compression, Decompressor, Failure};
use crate::read::part::Next;
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;
use quaff_os::Buffer;
use std::io::{self, Cursor, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zstd::stream::raw::CParameter;

const PART: usize = 64 << 10;
const ZSTD_MAGIC: [u8; 4] = 0xFD2F_B528u32.to_le_bytes();

/// A file that is read in pieces of this size.
#[derive(Clone)]
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    size: usize,
    /// Reads fail from this offset on.
    fails_at: usize,
    /// A read at this offset or after it panics on a thread of the pool.
    panics_at: usize,
    /// The first read at this offset returns the end of the file, which then grows.
    ends_at: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = self.bytes.position() as usize;
        assert!(at < self.panics_at || std::thread::current().name() != Some("quaff-unpack"), "a made panic");
        if at >= self.fails_at {
            return Err(io::Error::from_raw_os_error(5));
        }
        if at == self.ends_at {
            self.ends_at = usize::MAX;
            return Ok(0);
        }
        let ends_at = if at < self.ends_at { self.ends_at } else { usize::MAX };
        let size = out.len().min(self.size).min(self.fails_at.min(ends_at) - at);
        self.bytes.read(&mut out[..size])
    }
}

impl Pieces {
    fn new(bytes: &[u8], size: usize) -> Self {
        let never = usize::MAX;
        let bytes = Cursor::new(bytes.to_vec());
        Self { bytes, size, fails_at: never, panics_at: never, ends_at: never }
    }

    /// The input after the first read.
    fn begun(mut self) -> CompressedInput {
        let mut buffer = Buffer::new(4096).unwrap();
        let size = self.size;
        self.size = 4096;
        let len = self.read(&mut buffer).unwrap();
        self.size = size;
        CompressedInput::new(Box::new(self), buffer, len)
    }
}

/// The contents of a file, the kind of its end, and the number of compressed bytes.
#[derive(PartialEq)]
struct Contents {
    bytes: Vec<u8>,
    end: String,
    used: u64,
}

fn end_of(failure: &Failure) -> String {
    format!("{failure:?}")
}

fn by_one_thread(compression: Compression, file: Pieces) -> Contents {
    let mut decompressor = Decompressor::of(compression, file.begun()).unwrap();
    let (mut bytes, mut out) = (Vec::new(), vec![0; 10_000]);
    loop {
        match decompressor.read(&mut out) {
            Ok(0) => return Contents { bytes, end: "end".to_owned(), used: decompressor.offset() },
            Ok(count) => bytes.extend_from_slice(&out[..count]),
            Err(failure) => return Contents { bytes, end: end_of(&failure), used: 0 },
        }
    }
}

fn start(compression: Compression, file: Pieces, helpers: usize, is_cached: bool) -> Unpackers {
    let packed = Packed { compression, input: file.begun(), is_cached, is_long: true };
    Unpackers::start(packed, PART, helpers).unwrap()
}

fn side_by_side(compression: Compression, file: Pieces, helpers: usize, is_cached: bool) -> Contents {
    let mut unpackers = start(compression, file, helpers, is_cached);
    let mut bytes = Vec::new();
    loop {
        match unpackers.next(Some(Duration::from_secs(60))) {
            Ok(Next::Part(part)) => {
                bytes.extend_from_slice(part.bytes());
                unpackers.recycle(part.room.buffer);
            }
            Ok(Next::End) => return Contents { bytes, end: "end".to_owned(), used: unpackers.used() },
            Ok(Next::Idle) => panic!("no result for a minute"),
            Err(failure) => {
                assert!(matches!(unpackers.next(None), Ok(Next::End)), "nothing follows");
                return Contents { bytes, end: end_of(&failure), used: 0 };
            }
        }
    }
}

#[track_caller]
fn assert_equal(compression: Compression, file: &Pieces, helpers: usize, is_cached: bool) -> Contents {
    let one = by_one_thread(compression, file.clone());
    let many = side_by_side(compression, file.clone(), helpers, is_cached);
    assert_eq!((&many.end, many.bytes.len(), many.used), (&one.end, one.bytes.len(), one.used));
    assert!(many.bytes == one.bytes, "other bytes");
    many
}

/// Bytes that compress by about a half, or noise.
fn contents(seed: u64, len: usize, is_noise: bool) -> Vec<u8> {
    let mut state = seed + 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> if is_noise { 56 } else { 60 }) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A frame of zstd with the usual parameters but these.
fn zstd_frame(bytes: &[u8], has_size: bool, has_checksum: bool, window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.set_parameter(CParameter::WindowLog(window_log)).unwrap();
    encoder.include_checksum(has_checksum).unwrap();
    if has_size {
        encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
    }
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A frame of zstd with these blocks: type, size in the header, bytes.
fn zstd_blocks(claimed: u32, blocks: &[(u32, usize, Vec<u8>)]) -> Vec<u8> {
    // A window of 1 KiB, and a size of four bytes.
    let mut frame = [&ZSTD_MAGIC[..], &[0x80, 0], &claimed.to_le_bytes()].concat();
    for (at, (kind, size, bytes)) in blocks.iter().enumerate() {
        let is_last = u32::from(at + 1 == blocks.len());
        frame.extend(&((*size as u32) << 3 | kind << 1 | is_last).to_le_bytes()[..3]);
        frame.extend(bytes);
    }
    frame
}

/// A frame that holds these bytes in raw blocks, and claims to hold others.
fn lying(claimed: usize, bytes: &[u8]) -> Vec<u8> {
    let blocks: Vec<_> = bytes.chunks(1000).map(|block| (0, block.len(), block.to_vec())).collect();
    zstd_blocks(claimed as u32, &blocks)
}

fn lz4_frame(bytes: &[u8], info: &FrameInfo) -> Vec<u8> {
    let info = if info.content_size.is_some() {
        info.clone().content_size(Some(bytes.len() as u64))
    } else {
        info.clone()
    };
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A part of a made file.
#[derive(Debug, Clone)]
enum Made {
    Frame {
        len: usize,
        is_noise: bool,
        has_size: bool,
        has_checksum: bool,
        window_log: u32,
    },
    Skippable(usize),
    /// Raw blocks of no bytes.
    Padding(usize),
    /// One byte many times.
    Repeated(usize),
    /// A raw block that is longer than the window.
    LongBlock(usize),
    Lying(usize, usize),
}

fn made() -> impl Strategy<Value = Made> {
    let frame = (0usize..3 * PART, any::<[bool; 3]>(), 12u32..20).prop_map(
        |(len, [is_noise, has_size, has_checksum], window_log)| {
            let len = if window_log % 2 == 0 { len / 16 } else { len };
            Made::Frame { len, is_noise, has_size, has_checksum, window_log }
        },
    );
    prop_oneof![
        20 => frame,
        3 => (0usize..2 * PART).prop_map(Made::Skippable),
        5 => (0usize..1000).prop_map(Made::Padding),
        3 => (0usize..1000).prop_map(Made::Repeated),
        1 => (0usize..1500).prop_map(Made::LongBlock),
        1 => (0usize..PART, 0usize..3 * PART).prop_map(|(claimed, len)| Made::Lying(claimed, len)),
    ]
}

impl Made {
    fn zstd(&self, seed: u64) -> Vec<u8> {
        match *self {
            Self::Frame { len, is_noise, has_size, has_checksum, window_log } => {
                zstd_frame(&contents(seed, len, is_noise), has_size, has_checksum, window_log)
            }
            Self::Skippable(len) => {
                [&[0x5A, 0x2A, 0x4D, 0x18][..], &(len as u32).to_le_bytes(), &vec![7; len]].concat()
            }
            Self::Padding(blocks) => zstd_blocks(0, &vec![(0, 0, vec![]); blocks + 1]),
            Self::Repeated(size) => zstd_blocks(3 * size as u32, &vec![(1, size, vec![9]); 3]),
            Self::LongBlock(size) => zstd_blocks(size as u32, &[(0, size, contents(seed, size, true))]),
            Self::Lying(claimed, len) => lying(claimed, &contents(seed, len, true)),
        }
    }

    fn lz4(&self, seed: u64, info: &FrameInfo) -> Vec<u8> {
        match *self {
            Self::Frame { len, is_noise, .. } => lz4_frame(&contents(seed, len, is_noise), info),
            Self::Repeated(size) => lz4_frame(&vec![9; 300 * size], info),
            Self::Skippable(_) | Self::Padding(_) | Self::LongBlock(_) | Self::Lying(..) => {
                lz4_frame(&[], info)
            }
        }
    }
}

/// Damage, and the way of reading.
#[derive(Debug, Clone)]
struct Case {
    /// Places of flipped bits, parts of the file.
    flips: Vec<(f64, u8)>,
    /// The part of the file that is there, and the part whose reading fails; with 1 all of it.
    kept: f64,
    readable: f64,
    garbage: Vec<u8>,
    piece_bytes: usize,
    helpers: usize,
    is_cached: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let whole = || prop_oneof![3 => Just(1.0), 1 => 0.0..1.0];
    let flips = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec((0.0..1.0, 0u8..8), 1..3)];
    let garbage = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 1..30)];
    let ways = (1usize..100_000, 1usize..5, any::<bool>());
    (flips, whole(), whole(), garbage, ways).prop_map(
        |(flips, kept, readable, garbage, (piece_bytes, helpers, is_cached))| Case {
            flips,
            kept,
            readable,
            garbage,
            piece_bytes,
            helpers,
            is_cached,
        },
    )
}

impl Case {
    fn check(&self, compression: Compression, mut file: Vec<u8>) {
        file.extend(&self.garbage);
        // The magic number decides before.
        let place = |part: f64, len: usize| 4 + (len.saturating_sub(4) as f64 * part) as usize;
        for (part, bit) in &self.flips {
            let at = place(*part, file.len());
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        file.truncate(place(self.kept, file.len()));
        let mut pieces = Pieces::new(&file, self.piece_bytes);
        if self.readable < 1.0 {
            pieces.fails_at = place(self.readable, file.len()).max(4096);
        }
        assert_equal(compression, &pieces, self.helpers, self.is_cached);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn files_of_zstd_are_the_same_by_many_threads(
        files in prop::collection::vec(made(), 1..20), case in case(),
    ) {
        let frames = files.iter().zip(0..).map(|(made, seed)| made.zstd(seed));
        case.check(Compression::Zstd, frames.flatten().collect());
    }

    #[test]
    fn files_of_lz4_are_the_same_by_many_threads(
        files in prop::collection::vec((made(), any::<[bool; 5]>()), 1..20), case in case(), is_mixed in any::<bool>(),
    ) {
        let mut file = Vec::new();
        for ((made, options), seed) in files.iter().zip(0..) {
            let [has_checksum, has_checksums, has_size, is_linked, is_long] =
                if is_mixed { *options } else { files[0].1 };
            let info = FrameInfo::new()
                .block_size(if is_long { BlockSize::Max256KB } else { BlockSize::Max64KB })
                .block_mode(if is_linked { BlockMode::Linked } else { BlockMode::Independent })
                .content_checksum(has_checksum)
                .block_checksums(has_checksums)
                .content_size(has_size.then_some(0));
            file.extend(made.lz4(seed, &info));
        }
        case.check(Compression::Lz4, file);
    }
}

/// Three short frames, a padding, and a skippable frame where the format has one.
fn small_file(compression: Compression) -> Vec<u8> {
    let text = |seed| contents(seed, 70, false);
    match compression {
        Compression::Zstd => [
            zstd_frame(&text(1), true, true, 12),
            Made::Padding(2).zstd(0),
            zstd_frame(&text(2), false, true, 12),
            Made::Skippable(5).zstd(0),
            zstd_frame(&text(3), true, false, 12),
        ]
        .concat(),
        _ => {
            let info = FrameInfo::new().block_size(BlockSize::Max64KB).content_checksum(true);
            // A frame with an empty block before another one.
            let empty = [&[4, 0x22, 0x4D, 0x18, 0x60, 0x40, 0x82, 0, 0, 0, 0x80][..], &[2, 0, 0, 0x80, 1, 2]];
            let odd = [&empty.concat()[..], &[0; 4]].concat();
            [lz4_frame(&text(1), &info), lz4_frame(&text(2), &info), odd].concat()
        }
    }
}

#[test]
fn a_file_may_be_cut_anywhere() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let file = small_file(compression);
        let mut ends = 0;
        for cut in 4..=file.len() {
            let found = assert_equal(compression, &Pieces::new(&file[..cut], 50), 2, cut % 2 == 0);
            ends += usize::from(found.end == "end");
            let failing = Pieces { fails_at: cut, ..Pieces::new(&file, 50) };
            assert!(assert_equal(compression, &failing, 2, cut % 2 == 0).end.starts_with("Os"), "{cut}");
        }
        // After each frame.
        assert_eq!(ends, if compression == Compression::Zstd { 5 } else { 3 }, "{compression:?}");
    }
}

#[test]
fn blocks_of_the_legacy_format_of_lz4_are_read_in_a_row() {
    let mut file = 0x184C_2102u32.to_le_bytes().to_vec();
    for seed in 0..20 {
        let block = lz4_flex::block::compress(&contents(seed, PART, false));
        file.extend((block.len() as u32).to_le_bytes());
        file.extend(block);
    }
    let found = assert_equal(Compression::Lz4, &Pieces::new(&file, 10_000), 2, true);
    assert_eq!((found.bytes.len(), found.end.as_str()), (20 * PART, "end"));
}

#[test]
fn any_byte_may_be_wrong() {
    for compression in [Compression::Zstd, Compression::Lz4] {
        let file = small_file(compression);
        for at in 4..file.len() {
            for wrong in [0, 0xFF, file[at] ^ 1, file[at] ^ 0x80] {
                let mut damaged = file.clone();
                damaged[at] = wrong;
                assert_equal(compression, &Pieces::new(&damaged, 1000), 1, at % 2 == 0);
            }
        }
    }
}

/// The contents of frames that the source gives, `Ok` for those that were taken whole.
fn claims(compression: Compression, file: &[u8], room: usize) -> Vec<Result<usize, usize>> {
    let input = Pieces::new(file, 10_000).begun();
    let packed = Packed { compression, input, is_cached: true, is_long: true };
    let (mut source, mut idle) = (Source::new(packed, Sizes { part: PART, room }).unwrap(), None);
    let mut claims = Vec::new();
    loop {
        let (number, claim) = source.claim(Buffer::new(room + 1).unwrap(), &mut idle);
        assert_eq!(number, claims.len() as u64);
        let is_whole = matches!(claim, Claim::Frames(..));
        let unpacked = claim.unpack(&mut idle);
        match unpacked.then {
            Then::End => return claims,
            Then::Failed(failure) => panic!("{failure:?}"),
            Then::Next | Then::More(_) => {
                claims.push(if is_whole { Ok(unpacked.bytes) } else { Err(unpacked.bytes) });
            }
        }
    }
}

#[test]
fn frames_are_taken_whole_and_only_the_others_are_streamed() {
    let frame = |len| zstd_frame(&contents(len as u64, len, true), true, true, 16);
    let claims = |file: &[u8], room| claims(Compression::Zstd, file, room);
    let long = 3 * PART;
    // Short ones together, up to a part.
    let short: Vec<u8> = (0..10).flat_map(|_| frame(PART / 8)).collect();
    assert_eq!(claims(&short, PART), [Ok(PART / 2), Ok(PART / 2 + PART / 8), Ok(PART / 8)]);
    // A long one between others: streamed in pieces, and those after it are taken whole again.
    let file = [frame(PART), frame(long), frame(PART - 1), frame(PART)].concat();
    let found = claims(&file, PART);
    let streamed: usize = found.iter().filter_map(|claim| claim.err()).sum();
    assert_eq!(streamed, long, "{found:?}");
    assert_eq!(found.first(), Some(&Ok(PART)));
    assert_eq!(found[found.len() - 2..], [Ok(PART - 1), Ok(PART)], "{found:?}");
    // After many of them one that could be taken whole is streamed too.
    let many = [frame(long).repeat(8), frame(PART), frame(PART)].concat();
    assert_eq!(claims(&many, PART).last(), Some(&Err(PART)));
    // Where there is room it is taken whole.
    assert_eq!(claims(&file, long), [Ok(PART), Ok(long), Ok(PART - 1), Ok(PART)]);
    // One that claims nothing is continued in another room.
    let unknown = zstd_frame(&contents(1, PART * 3 / 2, false), false, true, 16);
    assert_eq!(claims(&unknown, PART), [Ok(PART + 4096)]);
    // Memory is that of the window.
    let wide = zstd_frame(&contents(1, 1000, true), false, true, 18);
    assert_eq!(claims(&[frame(100), wide].concat(), PART), [Ok(100), Err(1000)]);
}

#[test]
fn frames_of_lz4_are_taken_whole_again_after_one_that_is_streamed() {
    let info = FrameInfo::new().block_size(BlockSize::Max64KB).content_size(Some(0)).content_checksum(true);
    let frame = |len| lz4_frame(&contents(len as u64, len, true), &info);
    let file = [frame(PART), frame(3 * PART), frame(PART - 1), frame(PART)].concat();
    let found = claims(Compression::Lz4, &file, PART);
    let streamed: usize = found.iter().filter_map(|claim| claim.err()).sum();
    assert_eq!((found.first(), streamed), (Some(&Ok(PART)), 3 * PART), "{found:?}");
    assert_eq!(found[found.len() - 2..], [Ok(PART - 1), Ok(PART)], "{found:?}");
}

/// Any way to read: helpers, and whether the decoder helps.
const WAYS: [(usize, bool); 4] = [(1, false), (1, true), (4, false), (4, true)];

#[test]
fn a_frame_may_claim_any_size() {
    let before = zstd_frame(&contents(1, 1000, true), true, true, 16);
    for size in [u64::MAX, u64::MAX - 262_144, 0xF0 << 56, (1 << 63) + (1 << 19)] {
        // The window is the size, or the longest.
        for header in [&[0xE0][..], &[0xC0, 0xFF]] {
            let frame = [&ZSTD_MAGIC[..], header, &size.to_le_bytes(), &[1, 0, 0]].concat();
            for file in [frame.clone(), [&before[..], &frame].concat()] {
                for (helpers, is_cached) in WAYS {
                    let pieces = Pieces::new(&file, 1000);
                    let found = assert_equal(Compression::Zstd, &pieces, helpers, is_cached);
                    assert!(found.end.contains("too much memory"), "{size:x}: {}", found.end);
                }
            }
        }
    }
}

#[test]
fn blocks_of_lz4_that_are_too_long_are_the_same_after_any_frame() {
    let info = |size, mode| FrameInfo::new().block_size(size).block_mode(mode);
    let plain = lz4_frame(&[], &info(BlockSize::Max64KB, BlockMode::Linked));
    // Stored blocks fill the decoder's memory; then one has more than a block may have.
    let stored = [&(1 << 31 | 1u32 << 16).to_le_bytes()[..], &contents(1, 64 << 10, true)].concat();
    let long = lz4_flex::block::compress(&vec![9; 100 << 10]);
    let long = [&(long.len() as u32).to_le_bytes()[..], &long].concat();
    let frame = [&plain[..plain.len() - 4], &stored.repeat(3), &long, &[0; 4]].concat();
    let alone = by_one_thread(Compression::Lz4, Pieces::new(&frame, 10_000));
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
        for mode in [BlockMode::Linked, BlockMode::Independent] {
            let before = contents(2, PART / 2, true);
            let file = [lz4_frame(&before, &info(size, mode)), frame.clone()].concat();
            for (helpers, is_cached) in WAYS {
                let pieces = Pieces::new(&file, 10_000);
                let found = assert_equal(Compression::Lz4, &pieces, helpers, is_cached);
                assert!(found.bytes[before.len()..] == alone.bytes, "{size:?} {mode:?}");
                assert_eq!(found.end == "end", alone.end == "end", "{size:?} {mode:?}: {}", found.end);
            }
        }
    }
}

#[test]
fn a_file_that_grows_after_its_end_was_read_ends_there() {
    let frame = |len| zstd_frame(&contents(len as u64, len, true), true, true, 16);
    let file = [frame(PART), frame(5 * PART), frame(PART)].concat();
    let last = file.len() - frame(PART).len();
    for ends_at in [frame(PART).len() + 2 * PART, last, last + 100] {
        for (helpers, is_cached) in WAYS {
            let pieces = Pieces { ends_at, ..Pieces::new(&file, 10_000) };
            let found = assert_equal(Compression::Zstd, &pieces, helpers, is_cached);
            assert_eq!(found.end == "end", ends_at == last, "{}", found.end);
            assert!(found.bytes.len() <= 6 * PART + 100, "{}", found.bytes.len());
        }
    }
}

#[test]
fn an_error_that_the_decoder_finds_itself_ends_the_work() {
    let frames = (0..20).flat_map(|seed| zstd_frame(&contents(seed, PART, true), true, true, 16));
    // Longer than a room, and taken whole.
    let lie = lying(PART / 2, &contents(5, PART + 5000, true));
    // The error is in the first part, in the one that continues it, or it is the end.
    let mut damaged: Vec<u8> = frames.clone().collect();
    damaged[100] ^= 1;
    for file in [damaged, lie.into_iter().chain(frames.clone()).collect(), frames.collect()] {
        let packed = Packed {
            compression: Compression::Zstd,
            input: Pieces::new(&file, 20_000).begun(),
            is_cached: true,
            is_long: true,
        };
        // Without threads the decoder does all of the work.
        let (mut unpackers, _sender) = Unpackers::new(packed, PART, 1).unwrap();
        loop {
            match unpackers.next(Some(Duration::from_secs(60))) {
                Ok(Next::Part(part)) => unpackers.recycle(part.room.buffer),
                Ok(Next::Idle) => panic!("no result for a minute"),
                Ok(Next::End) | Err(_) => break,
            }
        }
        assert!(unpackers.shared.rooms().is_over);
    }
}

#[test]
fn a_frame_that_lies_about_its_length_is_continued_in_order() {
    let honest = |seed| zstd_frame(&contents(seed, PART - 100, true), true, true, 16);
    let lie = lying(PART / 2, &contents(5, 5 * PART, true));
    let mut file: Vec<u8> = (0..6).flat_map(honest).collect();
    file.extend(lie);
    file.extend((6..20).flat_map(honest));
    for (helpers, is_cached) in WAYS {
        let found = assert_equal(Compression::Zstd, &Pieces::new(&file, 30_000), helpers, is_cached);
        assert!(found.bytes.len() > 6 * (PART - 100) + 5 * PART - 1000, "{}", found.bytes.len());
        assert_ne!(found.end, "end");
    }
}

#[test]
fn a_thread_that_panics_is_an_error_and_the_decoder_does_not_wait() {
    let file: Vec<u8> =
        (0..40).flat_map(|seed| zstd_frame(&contents(seed, PART, true), true, true, 16)).collect();
    let whole = by_one_thread(Compression::Zstd, Pieces::new(&file, 20_000));
    for helpers in [1, 3] {
        let pieces = Pieces { panics_at: file.len() / 2, ..Pieces::new(&file, 20_000) };
        let found = side_by_side(Compression::Zstd, pieces, helpers, false);
        assert!(found.end.contains("a thread that decompresses has panicked"), "{}", found.end);
        assert!(whole.bytes.starts_with(&found.bytes) && found.bytes.len() < whole.bytes.len());
    }
}

#[test]
fn a_panic_outside_the_lock_ends_the_work_too() {
    let file: Vec<u8> =
        (0..100).flat_map(|seed| zstd_frame(&contents(seed, PART, true), true, true, 16)).collect();
    let mut unpackers = start(Compression::Zstd, Pieces::new(&file, 20_000), 2, false);
    let shared = unpackers.shared.clone();
    let panicking = std::thread::spawn(move || {
        let _alarm = Alarm(&shared);
        panic!("a made panic");
    });
    assert!(panicking.join().is_err());
    let failure = loop {
        match unpackers.next(Some(Duration::from_secs(60))) {
            Ok(Next::Part(part)) => unpackers.recycle(part.room.buffer),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => break failure,
        }
    };
    assert!(end_of(&failure).contains("has panicked"), "{failure:?}");
}

/// Waits until no thread has the memory any more, but so many others.
fn assert_ended(shared: &Arc<Shared>, others: usize) {
    let begin = Instant::now();
    while Arc::strong_count(shared) > others {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} have it", Arc::strong_count(shared));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_end_with_the_file_and_with_its_reader() {
    let frame = |len| zstd_frame(&contents(1, len, true), true, true, 16);
    for file in [(0..40).flat_map(|_| frame(PART)).collect::<Vec<u8>>(), frame(40 * PART)] {
        for parts in [0, 1, 5, usize::MAX] {
            let mut unpackers = start(Compression::Zstd, Pieces::new(&file, 20_000), 3, false);
            let shared = unpackers.shared.clone();
            for _ in 0..parts {
                match unpackers.next(None).unwrap() {
                    Next::Part(part) => unpackers.recycle(part.room.buffer),
                    _ => break,
                }
            }
            if parts == usize::MAX {
                assert_ended(&shared, 2);
                assert!(matches!(unpackers.next(None), Ok(Next::End)));
            }
            drop(unpackers);
            assert_ended(&shared, 1);
        }
    }
}

/// A file of which whole pages are read, as a disk wants it.
struct Aligned(Pieces);

impl Read for Aligned {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = self.0.bytes.position();
        let is_at_end = at == self.0.bytes.get_ref().len() as u64;
        let numbers = [at as usize, out.len(), out.as_ptr() as usize];
        assert!(is_at_end || numbers.iter().all(|number| number % 4096 == 0), "{numbers:?}");
        self.0.read(out)
    }
}

#[test]
fn reads_begin_and_end_at_pages() {
    let lens = [PART, 3 * PART, 100, 1000, PART / 3, PART, PART - 7, 2 * PART, PART];
    let frames = (0..5).flat_map(|_| lens).map(|len| zstd_frame(&contents(1, len, true), true, true, 16));
    let file: Vec<u8> = frames.flatten().collect();
    let input = CompressedInput::new(
        Box::new(Aligned(Pieces::new(&file, usize::MAX))),
        Buffer::new(8192).unwrap(),
        0,
    );
    let packed = Packed { compression: Compression::Zstd, input, is_cached: false, is_long: true };
    let mut unpackers = Unpackers::start(packed, PART, 1).unwrap();
    let mut bytes = 0;
    loop {
        match unpackers.next(None).unwrap() {
            Next::Part(part) => {
                bytes += part.bytes;
                unpackers.recycle(part.room.buffer);
            }
            end => {
                assert!(matches!(end, Next::End), "{end:?}");
                break;
            }
        }
    }
    assert_eq!(bytes, 5 * lens.iter().sum::<usize>());
}

#[test]
fn a_wait_for_a_slow_file_times_out() {
    /// A file whose reading takes a while.
    struct Slow(Pieces);
    impl Read for Slow {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(300));
            self.0.read(out)
        }
    }
    let file = zstd_frame(&contents(1, 1000, true), true, true, 16);
    let buffer = Buffer::new(4096).unwrap();
    let input = CompressedInput::new(Box::new(Slow(Pieces::new(&file, 10_000))), buffer, 0);
    let packed = Packed { compression: Compression::Zstd, input, is_cached: false, is_long: true };
    let mut unpackers = Unpackers::start(packed, PART, 1).unwrap();
    let mut idle = 0;
    loop {
        match unpackers.next(Some(Duration::from_millis(1))).unwrap() {
            Next::Idle => idle += 1,
            Next::Part(part) => assert_eq!(part.bytes, 1000),
            Next::End => break,
        }
    }
    assert!(idle > 0);
}
