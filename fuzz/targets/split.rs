//! Any frame of any link type has one conversation; which of its fields count changes only which one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::flow::FlowKey;
use quaff_wire::split::{Completeness, SplitFields, frame_flow};
use quaff_wire::tunnel::TunnelKinds;

/// Ethernet, bare IP, and whatever else is known, and one that is not.
const LINKS: [u16; 29] = [
    1, 101, 0, 9, 113, 228, 229, 276, 105, 6, 8, 10, 12, 14, 50, 51, 100, 102, 103, 104, 107, 108, 109, 117,
    166, 204, 205, 206, 219,
];

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (link, fields, frame) = input;
    let linktype = LINKS[usize::from(link) % LINKS.len()];
    let by = SplitFields { macs: fields & 1 != 0, addresses: fields & 2 != 0, ports: fields & 4 != 0 };
    for kinds in [TunnelKinds::default(), TunnelKinds::ALL] {
        let found = frame_flow(frame, frame.len() as u32, linktype, by, (kinds, 4));
        // A split by MAC addresses alone never waits for another frame.
        if kinds == TunnelKinds::default() && !(by.addresses || by.ports) {
            assert!(
                found.what == Completeness::Whole && matches!(found.key, FlowKey::Macs(_) | FlowKey::Nothing)
            );
        }
        assert_eq!(found, frame_flow(frame, frame.len() as u32, linktype, by, (kinds, 4)));
    }
    // Turned round, an Ethernet frame without more than MAC addresses is the same.
    if let Some(macs) = frame.first_chunk::<12>().filter(|_| linktype == 1) {
        let turned = [&macs[6..], &macs[..6], &frame[12..]].concat();
        let key =
            |frame: &[u8]| frame_flow(frame, frame.len() as u32, 1, by, (TunnelKinds::default(), 0)).key;
        assert_eq!(key(frame), key(&turned));
    }
});
