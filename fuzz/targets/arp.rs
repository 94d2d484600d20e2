//! Any frame is read without a panic; what it says survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::net::Arp;

fuzz_target!(|frame: &[u8]| {
    if let Some(arp) = Arp::read(frame) {
        assert_eq!(Arp::read(&arp.frame(None)), Some(arp));
    }
});
