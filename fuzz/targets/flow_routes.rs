//! Any bytes are read as a file of AS numbers, text or a MaxMind database, or refused; each address is answered.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_flow::export::{AsTable, Routes};
use std::net::IpAddr;

const MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

fn ask(bytes: Vec<u8>) {
    let Ok(table) = AsTable::parse(bytes) else { return };
    for text in ["0.0.0.0", "10.1.2.3", "192.0.2.1", "255.255.255.255", "::", "::ffff:10.1.2.3", "2001:db8::1"] {
        let address: IpAddr = text.parse().expect("an address");
        assert!(table.route(address).prefix_bits <= 128);
    }
}

fuzz_target!(|bytes: &[u8]| {
    ask(bytes.to_vec());
    // The first byte splits the rest into tree and metadata, so that the marker need not be found by chance.
    if let Some((split, rest)) = bytes.split_first() {
        let (tree, metadata) = rest.split_at(usize::from(*split).min(rest.len()));
        ask([tree, MARKER, metadata].concat());
    }
});
