//! Whatever the damage, salvage continues to the end: it reports each byte once, and the same however
//! the bytes are cut into pieces.

#![no_main]

mod pieces;

use libfuzzer_sys::fuzz_target;
use quaff_wire::decode::Decoder;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (one, other, file) = input;
    let read = |sizes: &[u8]| pieces::read(file, sizes, Decoder::salvaging(), 3 * (16 << 20));
    assert_eq!(read(&[one, other]), read(&[]));
});
