//! Any bytes are read as a segment of a spool without a panic, and only messages of the right length come out.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_flow::collector::parse_segment;

fuzz_target!(|bytes: &[u8]| {
    let messages = parse_segment(bytes);
    let total: usize = messages.iter().map(|message| message.bytes.len()).sum();
    assert!(total <= bytes.len());
});
