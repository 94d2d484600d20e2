//! The constant tunnel headers that `generate` writes.

/// Length of [`erspan_ii`]: GRE with a sequence number (RFC 2890), ERSPAN type II.
pub(crate) const ERSPAN_II_BYTES: usize = 16;
/// Offset of the sequence number in it.
pub(crate) const ERSPAN_II_SEQUENCE: usize = 4;

/// GRE with sequence number 0, and ERSPAN type II with this session id (10 bits; draft-foschiano-erspan-03).
pub(crate) fn erspan_ii(session: u16) -> [u8; ERSPAN_II_BYTES] {
    let [high, low] = session.to_be_bytes();
    [0x10, 0, 0x88, 0xbe, 0, 0, 0, 0, 0x10, 0, high, low, 0, 0, 0, 0]
}

/// VXLAN with this network identifier (24 bits; RFC 7348).
pub(crate) fn vxlan(vni: u32) -> [u8; 8] {
    let [a, b, c, d] = (vni << 8).to_be_bytes();
    [8, 0, 0, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{GRE, UDP, ipv4, mpls, udp};
    use quaff_testpackets as build;
    use std::net::Ipv4Addr;

    #[test]
    fn headers_are_those_of_the_tests() {
        let ends = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let mirror = build::Erspan { session: 0x2a5, ..build::Erspan::default() };
        assert_eq!(erspan_ii(0x2a5)[..], build::erspan_ii(0, &mirror, 0, &[]));
        assert_eq!(vxlan(0x12_3456)[..], build::vxlan(0x12_3456, &[]));
        assert_eq!(udp::header([5, 4789], 3)[..], build::udp(5, 4789, b"abc")[..8]);
        for (protocol, payload_bytes) in [(GRE, 0), (UDP, 1480), (UDP, 70_000)] {
            let packet = build::ipv4(ends[0], ends[1], protocol, &[], &vec![0; payload_bytes]);
            assert_eq!(ipv4::header(ends, protocol, payload_bytes)[..], packet[..20]);
        }
        let mut labels = Vec::new();
        mpls::push_labels(&mut labels, &[16, 0xf_ffff]);
        assert_eq!(labels, build::mpls(&[16, 0xf_ffff], &[]));
    }
}
