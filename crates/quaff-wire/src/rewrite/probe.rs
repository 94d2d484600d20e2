//! Replaces the payload of a frame by a probe header, so that `verify` can follow replayed frames.

use crate::checksum;
use crate::net::{self, ETHERTYPE_IPV4, IPV4_BYTES, UDP, UDP_BYTES, ipv4, udp};
use crate::probe::{HEADER_BYTES, PORT, ProbeHeader, TAGS_MAX};
use std::net::{IpAddr, Ipv4Addr};

/// Addresses for frames without IPv4 (RFC 2544, section C.2.2).
const OTHERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];

/// Turns the frame into a generated one. MAC addresses, tags and IPv4 addresses stay; so does the length, unless the
/// probe header would not fit. The rest is new: IPv4, UDP, probe header, pattern.
///
/// Returns false, and changes nothing, if the frame is too short for Ethernet, too long for IPv4, or has more tags than
/// a generated frame.
pub fn insert_probe(frame: &mut Vec<u8>, header: &ProbeHeader) -> bool {
    let Some(layers) = net::layers(frame) else { return false };
    let at = layers.network;
    let payload = at + IPV4_BYTES + UDP_BYTES;
    let bytes = frame.len().max(payload + HEADER_BYTES);
    let Ok(total) = u16::try_from(bytes - at) else { return false };
    if layers.tags > TAGS_MAX {
        return false;
    }
    let [source, destination] = match layers.ip.map(|ip| ip.addresses) {
        Some([IpAddr::V4(source), IpAddr::V4(destination)]) => [source, destination],
        _ => OTHERS,
    };
    frame.resize(bytes, 0);
    frame[at - 2..at].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    let length = usize::from(total) - IPV4_BYTES;
    let ends = [source, destination];
    frame[at..at + IPV4_BYTES].copy_from_slice(&ipv4::header_with(ends, UDP, length, 0, None));
    let udp = udp::header([header.stream, PORT], length - UDP_BYTES);
    frame[at + IPV4_BYTES..payload].copy_from_slice(&udp);
    frame[payload..payload + HEADER_BYTES].copy_from_slice(&header.encode());
    for (i, byte) in frame[payload..].iter_mut().enumerate().skip(HEADER_BYTES) {
        *byte = i as u8;
    }
    let pseudo = net::pseudo_header_sum(ends.map(IpAddr::V4), UDP, length);
    let sum = checksum::add(pseudo, checksum::sum(&frame[at + IPV4_BYTES..]));
    frame[payload - 2..payload].copy_from_slice(&udp::checksum(sum).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Classified, classify};
    use proptest::prelude::*;
    use quaff_testpackets as build;

    proptest! {
        #[test]
        fn an_inserted_header_is_read(tags in 0usize..=2, ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806]), payload in prop::collection::vec(any::<u8>(), 0..1500), seq: u64, stream: u16) {
            let tags = &[(0x88a8, 5), (0x8100, 6)][..tags];
            let before = build::ethernet(tags, ethertype, &payload);
            let mut frame = before.clone();
            let expected = ProbeHeader { stream, seq, intended_ns: seq / 3, late_ns: 0, last: false, bounded: false };
            prop_assert!(insert_probe(&mut frame, &expected));
            prop_assert_eq!(classify(&frame, frame.len()), Classified::Intact(expected));
            prop_assert_eq!(&frame[..12 + 4 * tags.len()], &before[..12 + 4 * tags.len()]);
            prop_assert_eq!(frame.len(), before.len().max(64 + 4 * tags.len()));
        }
    }

    #[test]
    fn addresses_stay_and_unfit_frames_are_refused() {
        let ips = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let mut frame =
            build::ethernet(&[], 0x0800, &build::ipv4(ips[0], ips[1], 6, &[1, 1, 1, 0], &[0; 30]));
        let some = ProbeHeader { stream: 1, seq: 0, intended_ns: 0, late_ns: 0, last: false, bounded: false };
        assert!(insert_probe(&mut frame, &some));
        assert_eq!(net::layers(&frame).unwrap().ip.unwrap().addresses, ips.map(IpAddr::from));
        assert!(!insert_probe(&mut vec![0; 13], &some));
        assert!(!insert_probe(&mut vec![0; 70_000], &some));
        let tags = [(0x88a8, 1), (0x88a8, 2), (0x8100, 3)];
        assert!(!insert_probe(&mut build::ethernet(&tags, 0x0800, &[0; 60]), &some));
    }
}
