//! Any frame is read without a panic; a stamp survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::stamp::{Read, Stamp, read};

fuzz_target!(|input: (u16, &[u8])| {
    let (wire_len, frame) = input;
    if let Read::Stamp(stamp) = read(frame, wire_len.into()) {
        assert_eq!(Stamp::decode(stamp.stream, &stamp.encode()), Some(stamp));
    }
});
