//! One walk over the headers of a frame, from the MAC addresses to the transport header, by offsets into bytes that
//! stay where they are. Nothing here panics, copies or allocates.

use super::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use super::ip::{self, Ip, ip_at};
use super::link::{self, LengthField};

/// The layers of an Ethernet frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// Number of VLAN tags.
    pub tags: usize,
    /// The EtherType after the tags; a TPID if the frame ends inside a tag.
    pub ethertype: u16,
    /// Offset of the network header.
    pub network: usize,
    /// Offset of the IP header: that of the network header, unless labels or other headers precede it.
    pub ip_offset: usize,
    pub ip: Option<Ip>,
    /// A length field in between that depends on the length of the IP packet.
    pub length: Option<LengthField>,
}

/// Finds the layers of an Ethernet frame; `None` if its header is truncated.
#[inline]
pub fn layers(frame: &[u8]) -> Option<Layers> {
    let network = link::ethernet(frame)?;
    let place = link::ip_place(frame, network);
    let (ip_offset, length) = place.map_or((network.offset, None), |place| (place.offset, place.length));
    let ip = match network.ethertype {
        ETHERTYPE_IPV4 => ip::ipv4_at(frame, ip_offset),
        ETHERTYPE_IPV6 => ip::ipv6_at(frame, ip_offset),
        _ => place.and_then(|place| ip_at(place.without_padding(frame), place.offset)),
    };
    let (tags, ethertype, network) = (network.tags, network.ethertype, network.offset);
    Some(Layers { tags, ethertype, network, ip_offset, ip, length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{ETHERNET_BYTES, Fragment, TCP, UDP};
    use proptest::prelude::*;

    /// MAC addresses, tags, and an IPv4 header with UDP ports 1 and 2.
    fn ipv4_frame(tags: &[u16], flags: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tpid in tags {
            frame.extend(tpid.to_be_bytes());
            frame.extend([0, 5]);
        }
        frame.extend([8, 0, 0x46, 0, 0, 32, 0, 7]);
        frame.extend(flags.to_be_bytes());
        frame.extend([64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1, 0, 1, 0, 2, 0, 8, 0, 0]);
        frame.extend([0; 20]);
        frame
    }

    #[test]
    fn tags_and_options_are_stepped_over_and_padding_is_left_out() {
        let frame = ipv4_frame(&[0x88a8, 0x8100], 0);
        let found = layers(&frame).unwrap();
        let ip = found.ip.unwrap();
        assert_eq!((found.tags, found.network, found.ethertype), (2, 22, 0x0800));
        assert_eq!((ip.transport, ip.end, ip.fragment), (46, 54, None));
        assert_eq!(ip.ports(&frame), Some([1, 2]));
        assert_eq!(ip.addresses.map(|ip| ip.to_string()), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let first = layers(&ipv4_frame(&[], 0x2000)).unwrap().ip.unwrap();
        assert_eq!(first.fragment, Some(Fragment { id: 7, offset_bytes: 0, more: true }));
        assert!(first.ports(&ipv4_frame(&[], 0x2000)).is_some());
        let frame = ipv4_frame(&[], 3);
        let last = layers(&frame).unwrap().ip.unwrap();
        assert_eq!(last.fragment, Some(Fragment { id: 7, offset_bytes: 24, more: false }));
        assert_eq!(last.ports(&frame), None);
    }

    #[test]
    fn extension_headers_of_ipv6_are_stepped_over() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 0, 64]);
        frame.extend([1; 16]);
        frame.extend([2; 16]);
        frame.extend([44, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend([TCP, 0, 0, 1, 0, 0, 0, 9]);
        frame.extend([0, 80, 1, 0, 0, 0, 0, 0]);
        let ip = layers(&frame).unwrap().ip.unwrap();
        assert!(ip.is_v6());
        assert_eq!((ip.protocol, ip.transport, ip.end), (TCP, 70, 78));
        assert_eq!(ip.fragment, Some(Fragment { id: 9, offset_bytes: 0, more: true }));
        assert_eq!(ip.ports(&frame), Some([80, 256]));
    }

    proptest! {
        #[test]
        fn whatever_lies_there_the_offsets_are_inside(mut frame in prop::collection::vec(any::<u8>(), 0..200), ethertype: prop::sample::Index) {
            let known = [0x0800u16, 0x86dd, 0x8100, 0x9200];
            if frame.len() >= ETHERNET_BYTES {
                frame[12..14].copy_from_slice(&known[ethertype.index(known.len())].to_be_bytes());
            }
            if let Some(ip) = layers(&frame).and_then(|found| found.ip) {
                prop_assert!(ip.transport <= ip.end && ip.end <= frame.len());
                let _ = ip.ports(&frame);
            }
        }
    }
}
