//! Any frame is read without a panic; a probe header survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::probe::{Classified, OuterHeaders, ProbeFrame, classify};
use std::net::Ipv4Addr;

fuzz_target!(|input: (u16, &[u8])| {
    let (wire_len, frame) = input;
    if let Classified::Intact(header) = classify(frame, wire_len.into()) {
        let (src_ip, dst_ip) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let stream = header.stream;
        let headers = OuterHeaders { dst_mac: [2; 6], src_mac: [4; 6], tags: vec![], src_ip, dst_ip, stream };
        let mut made = ProbeFrame::new(&headers, 64).expect("a frame");
        made.set(&header);
        assert_eq!(classify(&made.bytes, 64), Classified::Intact(header));
    }
});
