//! Any frame of any link type has a path of protocols, and the quick way to it gives the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::flow::FlowPacket;
use quaff_wire::hierarchy::{path, usual_path};

/// Ethernet, bare IP, and whatever else is known, and one that is not.
const LINKS: [u16; 29] = [
    1, 101, 0, 9, 113, 228, 229, 276, 105, 6, 8, 10, 12, 14, 50, 51, 100, 102, 103, 104, 107, 108, 109, 117,
    166, 204, 205, 206, 219,
];

fuzz_target!(|input: (u8, u32, &[u8])| {
    let (link, wire_bytes, frame) = input;
    let linktype = LINKS[usize::from(link) % LINKS.len()];
    let mut headers = 0;
    let found = path(frame, wire_bytes, linktype, |_| headers += 1);
    assert!(headers <= found.len());
    let plain = FlowPacket::plain(frame, linktype).or_else(|| FlowPacket::plain_ipv6(frame, linktype));
    if let Some(usual) = plain.and_then(|packet| usual_path(&packet, frame)) {
        assert_eq!((usual, headers), (found, 1));
    }
});
