//! Any frame is read without a panic; a probe header of a trial survives being written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_wire::probe::{Classified, OuterHeaders, ProbeFrame, TrialHeader};
use std::net::Ipv4Addr;

fuzz_target!(|input: (u16, u64, &[u8])| {
    let (wire_len, arrived_ns, frame) = input;
    if let Classified::Intact(header) = TrialHeader::classify(frame, wire_len.into(), arrived_ns) {
        let (src_ip, dst_ip) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST);
        let stream = header.stream;
        let headers = OuterHeaders { dst_mac: [2; 6], src_mac: [4; 6], tags: vec![], src_ip, dst_ip, stream };
        let mut made = ProbeFrame::trial(&headers, 0, 60).expect("a frame");
        made.set(&header);
        assert_eq!(TrialHeader::classify(&made.bytes, 60, arrived_ns), Classified::Intact(header));
    }
});
