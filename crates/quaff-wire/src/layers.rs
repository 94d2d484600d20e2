//! Where the headers of an Ethernet frame lie, for those who rewrite, sort or match frames.
//!
//! One walk from the MAC addresses to the transport header, by offsets into bytes that stay where they
//! are. Tunnels are not entered: [`crate::tunnel`] does that. A frame that is cut or damaged has the
//! layers before the damage; nothing here panics or copies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of a VLAN tag (IEEE 802.1Q).
pub const TAG_BYTES: usize = 4;
/// EtherTypes of tags: IEEE 802.1Q, 802.1ad, and two that older switches put in front.
pub const TPIDS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// Protocol numbers (IANA).
pub const ICMP: u8 = 1;
#[allow(missing_docs, reason = "as above")]
pub const TCP: u8 = 6;
#[allow(missing_docs, reason = "as above")]
pub const UDP: u8 = 17;
#[allow(missing_docs, reason = "as above")]
pub const ICMPV6: u8 = 58;
#[allow(missing_docs, reason = "as above")]
pub const SCTP: u8 = 132;

/// Tags and extension headers beyond these are not followed.
const TAGS_MAX: usize = 4;
const EXTENSIONS_MAX: usize = 8;

/// What lies where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layers {
    /// VLAN tags.
    pub tags: usize,
    /// What the network header is, behind the tags.
    pub ethertype: u16,
    /// Where it begins.
    pub network: usize,
    /// What it says, when it is IP.
    pub ip: Option<Ip>,
}

/// An IP header (RFC 791, RFC 8200), and what is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// Where the datagram ends: its own length, or the end of the bytes where that is earlier.
    pub end: usize,
    /// What follows the header and its extensions.
    pub protocol: u8,
    /// Where that begins: in a fragment that is not the first one, in the middle of something.
    pub transport: usize,
    /// Set when it is one of several pieces.
    pub fragment: Option<Fragment>,
}

/// A piece of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// The same in each piece.
    pub id: u32,
    /// Where the piece belongs, bytes.
    pub offset_bytes: u16,
    /// Whether others follow.
    pub more: bool,
}

impl Ip {
    /// Source and destination port of TCP, UDP and SCTP, where they are there.
    pub fn ports(&self, frame: &[u8]) -> Option<[u16; 2]> {
        if !matches!(self.protocol, TCP | UDP | SCTP)
            || self.fragment.is_some_and(|piece| piece.offset_bytes > 0)
        {
            return None;
        }
        let bytes = frame.get(self.transport..self.end)?.first_chunk::<4>()?;
        Some([u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])])
    }

    /// Whether it is IPv6.
    pub fn is_v6(&self) -> bool {
        self.addresses[0].is_ipv6()
    }
}

/// The longest frame, without FCS, that Linux sends on a link of this MTU and that begins as this one
/// does: an MTU counts neither the Ethernet header nor one tag of IEEE 802.1Q, but those of 802.1ad and others
/// (`packet_extra_vlan_len_allowed` in net/packet/af_packet.c).
pub fn frame_bytes_max(frame: &[u8], mtu: usize) -> usize {
    let is_tagged = be16(frame, ETHERNET_BYTES - 2) == Some(TPIDS[0]);
    mtu + ETHERNET_BYTES + if is_tagged { TAG_BYTES } else { 0 }
}

/// The layers of an Ethernet frame; `None` when not even its header is there.
pub fn ethernet(frame: &[u8]) -> Option<Layers> {
    let mut network = ETHERNET_BYTES;
    let mut tags = 0;
    let mut ethertype = be16(frame, network - 2)?;
    while TPIDS.contains(&ethertype) && tags < TAGS_MAX {
        match be16(frame, network + 2) {
            Some(behind) => ethertype = behind,
            None => break,
        }
        network += TAG_BYTES;
        tags += 1;
    }
    let ip = match ethertype {
        0x0800 => ipv4(frame, network),
        0x86dd => ipv6(frame, network),
        _ => None,
    };
    Some(Layers { tags, ethertype, network, ip })
}

/// The IP header at `at`, of either version, as in a frame without a link header.
pub fn ip(frame: &[u8], at: usize) -> Option<Ip> {
    match frame.get(at)? >> 4 {
        4 => ipv4(frame, at),
        6 => ipv6(frame, at),
        _ => None,
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Ip> {
    let header = frame.get(at..)?.first_chunk::<20>()?;
    let header_bytes = usize::from(header[0] & 15) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // A length of 0 is what a sender leaves whose card was to cut the datagram up.
    let total_bytes = if total_bytes == 0 { frame.len() - at } else { total_bytes };
    if header[0] >> 4 != 4
        || header_bytes < 20
        || total_bytes < header_bytes
        || at + header_bytes > frame.len()
    {
        return None;
    }
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let (offset_bytes, more) = ((flags & 0x1fff) * 8, flags & 0x2000 != 0);
    let id = u32::from(u16::from_be_bytes([header[4], header[5]]));
    let address =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]).into();
    Some(Ip {
        addresses: [address(12), address(16)],
        end: frame.len().min(at + total_bytes),
        protocol: header[9],
        transport: at + header_bytes,
        fragment: (more || offset_bytes > 0).then_some(Fragment { id, offset_bytes, more }),
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Ip> {
    let header = frame.get(at..)?.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = if payload_bytes == 0 { frame.len() } else { frame.len().min(at + 40 + payload_bytes) };
    let address = |at: usize| {
        let bytes: [u8; 16] = header[at..at + 16].try_into().unwrap_or_default();
        Ipv6Addr::from(bytes).into()
    };
    let mut ip = Ip {
        addresses: [address(8), address(24)],
        end,
        protocol: header[6],
        transport: at + 40,
        fragment: None,
    };
    for _ in 0..EXTENSIONS_MAX {
        if !step(frame, &mut ip) {
            break;
        }
    }
    Some(ip)
}

/// Goes over one extension header (RFC 8200, section 4); says whether there was one.
fn step(frame: &[u8], ip: &mut Ip) -> bool {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    let is_middle = ip.fragment.is_some_and(|piece| piece.offset_bytes > 0);
    let Some(header) = frame.get(ip.transport..ip.end).and_then(|bytes| bytes.first_chunk::<8>()) else {
        return false;
    };
    let bytes = match ip.protocol {
        _ if is_middle => return false,
        HOP_BY_HOP | ROUTING | DESTINATION => 8 + usize::from(header[1]) * 8,
        AUTHENTICATION => 8 + usize::from(header[1]) * 4,
        FRAGMENT => {
            let word = u16::from_be_bytes([header[2], header[3]]);
            let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            let piece = Fragment { id, offset_bytes: word & 0xfff8, more: word & 1 != 0 };
            // An atomic fragment (RFC 6946) is whole.
            ip.fragment = (piece.more || piece.offset_bytes > 0).then_some(piece);
            8
        }
        _ => return false,
    };
    if ip.transport + bytes > ip.end {
        return false;
    }
    ip.protocol = header[0];
    ip.transport += bytes;
    true
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// MAC addresses, tags, and an IPv4 header with UDP ports 1 and 2 behind it.
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
    fn one_tag_of_802_1q_may_be_on_top_of_the_mtu() {
        let frame = |ethertype: [u8; 2]| [[0; 12].as_slice(), &ethertype].concat();
        assert_eq!(frame_bytes_max(&frame([8, 0]), 1500), 1514);
        assert_eq!(frame_bytes_max(&frame([0x81, 0]), 1500), 1518);
        assert_eq!(frame_bytes_max(&frame([0x88, 0xa8]), 1500), 1514);
        assert_eq!(frame_bytes_max(&[], 1500), 1514);
    }

    #[test]
    fn tags_and_options_are_stepped_over_and_padding_is_left_out() {
        let frame = ipv4_frame(&[0x88a8, 0x8100], 0);
        let layers = ethernet(&frame).unwrap();
        let ip = layers.ip.unwrap();
        assert_eq!((layers.tags, layers.network, layers.ethertype), (2, 22, 0x0800));
        assert_eq!((ip.transport, ip.end, ip.fragment), (46, 54, None));
        assert_eq!(ip.ports(&frame), Some([1, 2]));
        assert_eq!(ip.addresses.map(|ip| ip.to_string()), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn only_the_first_fragment_has_ports() {
        let first = ethernet(&ipv4_frame(&[], 0x2000)).unwrap().ip.unwrap();
        assert_eq!(first.fragment, Some(Fragment { id: 7, offset_bytes: 0, more: true }));
        assert!(first.ports(&ipv4_frame(&[], 0x2000)).is_some());
        let frame = ipv4_frame(&[], 3);
        let last = ethernet(&frame).unwrap().ip.unwrap();
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
        let ip = ethernet(&frame).unwrap().ip.unwrap();
        assert!(ip.is_v6());
        assert_eq!((ip.protocol, ip.transport, ip.end), (TCP, 70, 78));
        assert_eq!(ip.fragment, Some(Fragment { id: 9, offset_bytes: 0, more: true }));
        assert_eq!(ip.ports(&frame), Some([80, 256]));
    }

    proptest! {
        #[test]
        fn whatever_lies_there_the_offsets_are_inside(mut frame in prop::collection::vec(any::<u8>(), 0..200), ethertype: prop::sample::Index) {
            let known = [0x0800u16, 0x86dd, 0x8100, 0x88a8];
            if frame.len() >= ETHERNET_BYTES {
                frame[12..14].copy_from_slice(&known[ethertype.index(known.len())].to_be_bytes());
            }
            if let Some(ip) = ethernet(&frame).and_then(|layers| layers.ip) {
                prop_assert!(ip.transport <= ip.end && ip.end <= frame.len());
                let _ = ip.ports(&frame);
            }
        }
    }
}
