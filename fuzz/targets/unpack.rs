//! gzip, zstd and lz4: no panic, and the same bytes and the same kind of end however the compressed
//! bytes are cut into pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_file::read::{Compression, Decompressor, Failure, MAGIC_BYTES};
use quaff_os::Buffer;
use std::io::{self, Read};

/// The most that is unpacked of a bomb.
const BYTES_MAX: usize = 1 << 18;
/// The most reads of a run: into room for one byte, a bomb would take a million of them.
const READS_MAX: usize = 1 << 12;
/// The most of an lz4 file: for each block or frame of some bytes the decoder clears up to 8 MiB of memory.
const LZ4_BYTES_MAX: usize = 200;

/// Gives its bytes in pieces of this size.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    size: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = &self.bytes[self.at..];
        let count = left.len().min(self.size).min(out.len());
        out[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// The output of a decompressor.
struct Unpacked {
    bytes: Vec<u8>,
    /// True at the end of a whole file, false at an error; `None` if there is more than the limits admit.
    end: Option<bool>,
}

fn unpack(compression: Compression, bytes: &[u8], size: usize, room: usize) -> Unpacked {
    let mut buffer = Buffer::new(4096).expect("memory");
    buffer[..MAGIC_BYTES].copy_from_slice(&bytes[..MAGIC_BYTES]);
    let input = Pieces { bytes: bytes.to_vec(), at: MAGIC_BYTES, size };
    let mut unpack =
        Decompressor::new(compression, Box::new(input), buffer, MAGIC_BYTES).expect("a decompressor");
    let (mut all, mut out) = (Vec::new(), vec![0; room]);
    for _ in 0..READS_MAX {
        match unpack.read(&mut out) {
            Ok(0) => return Unpacked { bytes: all, end: Some(true) },
            Ok(count) => all.extend_from_slice(&out[..count]),
            Err(Failure::Os(error)) => panic!("{error}"),
            Err(Failure::Corrupt(corruption)) => {
                assert!(corruption.offset <= bytes.len() as u64);
                return Unpacked { bytes: all, end: Some(false) };
            }
        }
        if all.len() >= BYTES_MAX {
            break;
        }
    }
    Unpacked { bytes: all, end: None }
}

fuzz_target!(|input: (u8, u8, u16, &[u8])| {
    let (kind, size, room, body) = input;
    let magic = [[0x1F, 0x8B, 8, 0], [0x28, 0xB5, 0x2F, 0xFD], [4, 0x22, 0x4D, 0x18], [2, 0x21, 0x4C, 0x18]];
    let mut bytes = [&magic[usize::from(kind) % magic.len()], body].concat();
    let compression = Compression::of(&bytes).expect("magic bytes");
    if compression == Compression::Lz4 {
        bytes.truncate(LZ4_BYTES_MAX);
    }
    let whole = unpack(compression, &bytes, usize::MAX, 1 << 16);
    let pieces = unpack(compression, &bytes, usize::from(size).max(1), usize::from(room).max(1));
    let both = whole.bytes.len().min(pieces.bytes.len());
    assert_eq!(pieces.bytes[..both], whole.bytes[..both]);
    match (whole.end, pieces.end) {
        (Some(whole_end), Some(end)) => assert_eq!((pieces.bytes.len(), end), (whole.bytes.len(), whole_end)),
        (Some(_), None) => assert!(pieces.bytes.len() <= whole.bytes.len()),
        (None, Some(_)) => assert!(whole.bytes.len() <= pieces.bytes.len()),
        (None, None) => {}
    }
});
