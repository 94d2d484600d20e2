//! Any bytes, cut into any pieces, are read without a panic, and read the same as in one piece.

#![no_main]

mod pieces;

use libfuzzer_sys::fuzz_target;
use quaff_wire::decode::Decoder;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (one, other, file) = input;
    let read = |sizes: &[u8]| pieces::read(file, sizes, Decoder::default(), (16 << 20) + 64);
    assert_eq!(read(&[one, other]), read(&[]));
});
