//! Any frame is read without a panic; a probe header survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::probe::{Classified, ProbeHeader, classify};

fuzz_target!(|input: (u16, &[u8])| {
    let (wire_len, frame) = input;
    if let Classified::Intact(header) = classify(frame, wire_len.into()) {
        assert_eq!(ProbeHeader::decode(header.stream, &header.encode()), Some(header));
    }
});
