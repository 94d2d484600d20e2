//! Compressed files: complete, of several parts, truncated, and damaged.

use super::{Compression, Decompressor, Unknown, extent};
use crate::read::{CaptureFile, Error, Options};
use crate::write::{Codec, CompressedWriter};
use quaff_os::Buffer;
use quaff_wire::decode::Item;
use quaff_wire::pcap::{Resolution, file_header};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

const PACKET_BYTES: usize = 100;

/// A pcap file of numbered packets that do not compress too well.
fn capture(packets: u32) -> Vec<u8> {
    let mut file = file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    for number in 0..packets {
        for word in [1_790_000_000, number, PACKET_BYTES as u32, PACKET_BYTES as u32] {
            file.extend(word.to_le_bytes());
        }
        let mut state = u64::from(number) + 1;
        file.extend((0..PACKET_BYTES).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 60) as u8
        }));
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_size(lz4_flex::frame::BlockSize::Max64KB)
        .block_checksums(true)
        .content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const ALL: [(&str, Pack); 3] = [("gzip", gzip), ("zstd", zstd), ("lz4", lz4)];

/// Returns the number of packets up to the first wrong one, and the error.
fn read_path(path: &Path) -> (u32, Option<Error>) {
    read_from(&mut CaptureFile::open(path).unwrap())
}

fn read_from(file: &mut CaptureFile) -> (u32, Option<Error>) {
    let (mut packets, mut is_right) = (0, true);
    loop {
        let pulled = file.pull(|item| {
            if let Item::Frame(frame) = item {
                is_right &= frame.time_ns == 1_790_000_000_000_000_000 + u64::from(packets);
                packets += u32::from(is_right);
            }
        });
        match pulled {
            Ok(true) => {}
            Ok(false) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

fn read(bytes: &[u8]) -> (u32, Option<Error>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    read_path(file.path())
}

/// Returns the offset of the corruption in the compressed file.
#[track_caller]
fn corrupt_at(error: Option<Error>, compression: &str) -> u64 {
    let Some(Error::Corrupt { corruption, .. }) = error else { panic!("{error:?}") };
    assert_eq!(corruption.compression, compression);
    corruption.offset
}

#[test]
fn whole_files_of_one_part_or_several() {
    let whole = capture(100_000);
    let (one, two) = whole.split_at(whole.len() / 3);
    for (compression, pack) in ALL {
        assert!(matches!(read(&pack(&whole)), (100_000, None)), "{compression}");
        assert!(matches!(read(&[pack(one), pack(two)].concat()), (100_000, None)), "{compression}");
        assert!(
            matches!(read(&[pack(one), pack(&[]), pack(two)].concat()), (100_000, None)),
            "{compression}"
        );
    }
    assert!(matches!(read(&[gzip(&whole), vec![0; 1000]].concat()), (100_000, None)), "zeros after it");
}

/// A frame may ask for any window; the decoder would allocate it before the first byte.
#[test]
fn a_zstd_window_beyond_128_mib_is_refused() {
    let head = |log: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0][..], &[(log - 10) << 3], &[1, 0, 0]].concat();
    for (log, is_refused) in [(27, false), (28, true), (41, true)] {
        let (packets, error) = read(&head(log));
        let Some(error) = error else { panic!("{log}: an empty file") };
        // The first bytes of the header were accepted.
        let is_corrupt = matches!(&error, Error::Corrupt { corruption, .. } if corruption.offset == 5);
        assert_eq!((packets, is_corrupt), (0, is_refused), "{log}: {error}");
    }
}

#[test]
fn bytes_before_a_truncation_are_delivered() {
    let whole = capture(20_000);
    for (compression, pack) in ALL {
        let packed = pack(&whole);
        for part in [2, 10, 100, 500, 900, 990, 999] {
            let cut = packed.len() * part / 1000;
            let (packets, error) = read(&packed[..cut]);
            // Formats with blocks are decompressed up to the last whole block.
            let block_packets = if compression == "gzip" { 300 } else { (128 << 10) / 116 + 2 };
            let expected = (20_000 * part / 1000) as u32;
            assert!(
                packets + block_packets >= expected && packets <= expected + 300,
                "{compression} {part} {packets}"
            );
            assert_eq!(corrupt_at(error, compression), cut as u64, "{part}");
        }
        for cut in 1..=4 {
            let (packets, error) = read(&packed[..packed.len() - cut]);
            assert_eq!(packets, 20_000, "{compression} {cut}");
            assert_eq!(corrupt_at(error, compression), (packed.len() - cut) as u64);
        }
    }
}

#[test]
fn bytes_before_damage_are_delivered() {
    let whole = capture(20_000);
    for (compression, pack) in ALL {
        let packed = pack(&whole);
        for part in [100, 400, 900] {
            let at = packed.len() * part / 1000;
            let mut damaged = packed.clone();
            damaged[at..at + 200].fill(0xA5);
            let (packets, error) = read(&damaged);
            let expected = (20_000 * part / 1000) as u32;
            let block_packets = if compression == "gzip" { 400 } else { (128 << 10) / 116 + 2 };
            assert!(packets + block_packets >= expected, "{compression} {part} {packets} {error:?}");
            // Corrupt data can inflate to plausible packets for a while, until the checksum at the end.
            let offset = match error {
                Some(Error::Corrupt { corruption, .. }) => corruption.offset,
                Some(Error::Damage { .. }) if compression == "gzip" => at as u64,
                other => panic!("{compression} {part} {other:?}"),
            };
            assert!(offset + (160 << 10) >= at as u64, "{compression} {part} {offset}");
        }
        let trailing = [packed.clone(), b"and something else".to_vec()].concat();
        let (packets, error) = read(&trailing);
        assert_eq!(packets, 20_000);
        assert!(corrupt_at(error, compression) >= packed.len() as u64, "{compression}");
    }
}

/// Files of the usual tools, through a pipe.
#[test]
fn files_of_the_tools_are_read() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&capture(50_000)).unwrap();
    for command in ["gzip -c", "zstd -c -q", "lz4 -c -q", "lz4 -l -c -q", "pzstd -c -q"] {
        let words: Vec<_> = command.split(' ').collect();
        let from = std::fs::File::open(file.path()).unwrap();
        let child = Command::new(words[0]).args(&words[1..]).stdin(from).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            quaff_os::testing::skip("files_of_the_tools_are_read", &format!("{} is not installed", words[0]));
            continue;
        };
        let out = child.stdout.take().unwrap();
        let path = format!("/proc/self/fd/{}", out.as_raw_fd());
        assert!(matches!(read_path(Path::new(&path)), (50_000, None)), "{command}");
        child.wait().unwrap();
    }
}

/// Gives its bytes in pieces of this size.
struct Pieces(std::io::Cursor<Vec<u8>>, usize);

impl std::io::Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let size = out.len().min(self.1);
        self.0.read(&mut out[..size])
    }
}

/// Decompresses a corrupt zstd frame, `room` bytes at a time.
fn unpacked(bytes: &[u8], room: usize) -> Vec<u8> {
    unpacked_from(bytes, room, usize::MAX)
}

/// The same, from reads of at most `piece_bytes`.
fn unpacked_from(bytes: &[u8], room: usize, piece_bytes: usize) -> Vec<u8> {
    let mut buffer = Buffer::new(4096).unwrap();
    buffer[..4].copy_from_slice(&bytes[..4]);
    let rest = Pieces(std::io::Cursor::new(bytes[4..].to_vec()), piece_bytes);
    let mut unpack = Decompressor::new(Compression::Zstd, Box::new(rest), buffer, 4).unwrap();
    let (mut all, mut out) = (Vec::new(), vec![0; room]);
    loop {
        match unpack.read(&mut out) {
            Ok(0) => panic!("it is whole"),
            Ok(count) => all.extend_from_slice(&out[..count]),
            Err(_) => return all,
        }
    }
}

#[test]
fn an_error_in_a_block_does_not_discard_the_one_before() {
    // A frame with a checksum; a block of 1000 times the same byte.
    let good = [&[0x28, 0xB5, 0x2F, 0xFD, 4, 0x58][..], &[0x42, 0x1F, 0, 7]].concat();
    let reserved_kind = [&good[..], &[7, 0, 0]].concat();
    let wrong_checksum = [&good[..], &[1, 0, 0], &[1, 2, 3, 4]].concat();
    for bytes in [good, reserved_kind, wrong_checksum] {
        for room in [1, 100, 999, 1000, 1001, 4096] {
            assert_eq!(unpacked(&bytes, room), vec![7; 1000], "{room} {bytes:x?}");
        }
    }
}

#[test]
fn a_contradictory_frame_does_not_depend_on_read_sizes() {
    // The header announces 256 bytes; the raw block has 320.
    let head = [0x28, 0xB5, 0x2F, 0xFD, 0x54, 0, 0, 0, 0, 0x0A, 0];
    let bytes = [&head[..], &[1; 320], &[1, 0, 0], &[0; 4]].concat();
    let whole = unpacked(&bytes, 4096);
    for piece_bytes in [1, 7, 64, 300] {
        assert_eq!(unpacked_from(&bytes, 4096, piece_bytes), whole, "{piece_bytes}");
    }
}

#[test]
fn a_contradictory_frame_does_not_depend_on_those_before_it() {
    // The header announces ten bytes; raw blocks have half a million.
    let head = [&[0x28, 0xB5, 0x2F, 0xFD, 0x80, 0][..], &10u32.to_le_bytes()].concat();
    let block = |is_last: u32| [&(1000 << 3 | is_last).to_le_bytes()[..3], &[7; 1000]].concat();
    let frame = [head, block(0).repeat(500), block(1)].concat();
    let alone = unpacked(&frame, 4096);
    assert!((1000..500_000).contains(&alone.len()), "{}", alone.len());
    for before in [vec![1; 100], vec![2; 300_000]] {
        let found = unpacked(&[zstd(&before), frame.clone()].concat(), 4096);
        assert!(found[before.len()..] == alone, "{} bytes after {}", found.len(), before.len());
        let again = [zstd(&before), zstd(b"short"), zstd(&before), frame.clone()].concat();
        assert_eq!(unpacked(&again, 4096).len(), 2 * before.len() + 5 + alone.len());
    }
}

/// A header may have bytes that look like a whole frame to the decoder, if it gets them in one call.
#[test]
fn a_frame_within_a_header_is_part_of_it() {
    // A dictionary and a size of 4, which look like a frame of four bytes to be skipped; a window, a dictionary and a
    // size of 0, which look like one of a byte, and need no room.
    let of_4 = [&[0xE3, 0x50, 0x2A, 0x4D, 0x18][..], &4u64.to_le_bytes()].concat();
    let of_0 = [&[0x83, 0x50, 0x2A, 0x4D, 0x18, 1][..], &[0; 4]].concat();
    for header in [of_4, of_0] {
        let frame = [&[0x28, 0xB5, 0x2F, 0xFD][..], &header].concat();
        for room in [1, 4096] {
            assert!(unpacked(&[frame.clone(), zstd(b"after")].concat(), room).is_empty(), "{header:x?}");
        }
    }
}

#[test]
fn a_frame_to_be_skipped_may_be_of_any_size() {
    let skipped = [&[0x50, 0x2A, 0x4D, 0x18, 0, 0, 16, 0][..], &vec![9; 1 << 20]].concat();
    let bytes = [zstd(b"before"), skipped, zstd(b"after"), vec![1, 2, 3, 4, 5, 6]].concat();
    for piece_bytes in [1000, usize::MAX] {
        assert_eq!(unpacked_from(&bytes, 4096, piece_bytes), b"beforeafter");
    }
}

#[test]
fn frames_of_a_file_are_read_by_any_number_of_threads() {
    let whole = capture(200_000);
    for compression in [Compression::Zstd, Compression::Lz4] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = CompressedWriter::new(&mut file, Codec::fastest(compression)).unwrap();
        writer.write_all(&whole).unwrap();
        writer.flush().unwrap();
        file.as_file().sync_all().unwrap();
        let bytes = file.as_file().metadata().unwrap().len();
        assert!(bytes > 8 << 20, "{bytes}");
        for is_cached in [true, false] {
            for helpers in [0, 1, 3] {
                if !is_cached {
                    let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
                    nix::fcntl::posix_fadvise(file.as_file(), 0, 0, advice).unwrap();
                }
                let options = Options { helpers: Some(helpers), ..Options::default() };
                let mut capture = CaptureFile::open_with(file.path(), options).unwrap();
                assert!(capture.pull(|_| {}).unwrap());
                let reader = format!("{capture:?}");
                assert_eq!(reader.contains("Unpackers"), helpers > 0, "{reader}");
                drop(capture);
                // The memory of one thread, if many files are open.
                let options =
                    Options { helpers: Some(helpers), is_beside_others: true, ..Options::default() };
                let mut capture = CaptureFile::open_with(file.path(), options).unwrap();
                assert!(capture.pull(|_| {}).unwrap());
                let reader = format!("{capture:?}");
                assert!(!reader.contains("Unpackers"), "{reader}");
                drop(capture);
                let options = Options { helpers: Some(helpers), ..Options::default() };
                let mut capture = CaptureFile::open_with(file.path(), options).unwrap();
                let (packets, error) = read_from(&mut capture);
                assert_eq!(
                    (packets, capture.used()),
                    (200_000, bytes),
                    "{compression:?} {helpers} {error:?}"
                );
                assert_eq!(capture.compression(), Some(compression.name()));
            }
        }
    }
}

#[test]
fn the_extent_of_a_frame_is_known_at_its_last_byte() {
    let text = capture(3000);
    let stored = [&[0x28, 0xB5, 0x2F, 0xFD, 0xA0][..], &8u32.to_le_bytes(), &[0x41, 0, 0], &[7; 8]].concat();
    let skippable = [&[0x50, 0x2A, 0x4D, 0x18, 9, 0, 0, 0][..], &[1; 9]].concat();
    let unknown = zstd(&text);
    let frames = [
        (Compression::Zstd, unknown, text.len().next_multiple_of(128 << 10)),
        (Compression::Zstd, zstd::bulk::compress(&text, 3).unwrap(), text.len()),
        (Compression::Zstd, stored, 8),
        (Compression::Zstd, skippable, 0),
        (Compression::Lz4, lz4(&text), text.len().next_multiple_of(64 << 10)),
    ];
    for (compression, frame, plain_bytes) in frames {
        for cut in 0..frame.len() {
            assert_eq!(extent(compression, &frame[..cut], 1 << 20), Err(Unknown::Partial), "{cut}");
        }
        let followed = [&frame[..], &[0x28, 0xB5, 0x2F]].concat();
        let found = extent(compression, &followed, 1 << 20).unwrap();
        assert_eq!((found.packed_bytes, found.plain_bytes), (frame.len(), plain_bytes as u64));
        if plain_bytes > 8 {
            assert_eq!(extent(compression, &followed, 100 << 10), Err(Unknown::Unfit), "{compression:?}");
        }
    }
    for (compression, bytes) in [
        (Compression::Zstd, &[1; 40][..]),
        (Compression::Zstd, &[0x28, 0xB5, 0x2F, 0xFD, 0x28, 0, 0, 0, 0]),
        (Compression::Lz4, &[0x02, 0x21, 0x4C, 0x18, 1, 1, 1, 1]),
        (Compression::Lz4, &[0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0]),
        (Compression::Lz4, &[0x04, 0x22, 0x4D, 0x18, 0x60, 0x30, 0, 0, 0, 0, 0]),
        (Compression::Gzip, &[0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0]),
    ] {
        assert_eq!(extent(compression, bytes, 1 << 20), Err(Unknown::Unfit), "{bytes:x?}");
    }
}
