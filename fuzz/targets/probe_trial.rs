//! Any frame is read without a panic; a probe header survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::probe::Classified;
use quaff_wire::probe::trial::{TrialHeader, classify};

fuzz_target!(|input: (u16, u64, &[u8])| {
    let (wire_len, arrived_ns, frame) = input;
    if let Classified::Intact(header) = classify(frame, wire_len.into(), arrived_ns) {
        assert_eq!(TrialHeader::decode(header.stream, &header.encode(), arrived_ns), Some(header));
    }
});
