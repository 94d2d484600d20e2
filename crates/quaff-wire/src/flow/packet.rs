//! The headers of a packet that a flow meter needs, for any link type, from one traversal.
//!
//! An ICMP error is a packet in its own right, whatever it quotes. Tunnels are not entered.

use crate::linktype::ETHERNET;
use crate::net::agreement::Numbers;
use crate::net::ipv4::Ipv4;
use crate::net::link::{self, IpPlace};
use crate::net::mpls::{LABEL_BYTES, Label};
use crate::net::vlan::{TAG_BYTES, Untagged};
use crate::net::{
    self, DatagramId, ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS,
    ETHERTYPE_MPLS_UPSTREAM, Fragment, ICMP, ICMPV6, IPV4_BYTES, Ip, SCTP, TCP, UDP, UDP_BYTES, be16, ipv6,
    tcp,
};
use std::net::IpAddr;

/// An IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowPacket {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// Source and destination port of TCP, UDP and SCTP; ICMP type << 8 | code, twice; otherwise 0.
    pub ports: [u16; 2],
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// TCP flags; 0 for other protocols, and if not captured.
    pub tcp_flags: u8,
    /// Outermost VLAN id; 0 without a tag.
    pub vlan: u16,
    /// VLAN id of the tag after the outermost one (QinQ, IEEE 802.1ad); 0 without a second tag.
    pub inner_vlan: u16,
    /// Top label of the MPLS stack; 0 without one.
    pub mpls_label: u32,
    /// Length of the IP packet, bytes: by its own length field, or the length on the wire if that is 0.
    pub ip_bytes: u32,
    /// The position of a fragment in its datagram. A later fragment has no ports.
    pub fragment: Option<Fragment>,
    /// Offset of the IP header.
    pub ip_offset: u32,
    /// Captured bytes of the transport header and its payload.
    pub transport: u32,
    pub end: u32,
    /// Bytes from the IP header to the end by a length field before it (PPPoE, IEEE 802.3); `u32::MAX` without one. A
    /// longer IP packet was cut, and no receiver takes it.
    pub room: u32,
}

/// Why a packet has no flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoFlow {
    /// No IP header at the expected place.
    NotIp,
    /// The packet is truncated before the ports, or a header is damaged.
    Truncated,
}

/// The fields of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFields {
    pub sequence: u32,
    pub acknowledgment: u32,
    /// Window, unscaled.
    pub window: u16,
    /// Length of the header with options, bytes.
    pub header_bytes: u32,
}

impl FlowPacket {
    /// Reads the headers of a frame of link type `linktype` with `bytes` captured of `wire_bytes`.
    #[inline]
    pub fn read(bytes: &[u8], wire_bytes: u32, linktype: u16) -> Result<Self, NoFlow> {
        match Self::plain(bytes, linktype).or_else(|| Self::plain_ipv6(bytes, linktype)) {
            Some(packet) => Ok(packet),
            None => Self::walk(bytes, wire_bytes, linktype),
        }
    }

    /// A fast path of [`Self::walk`] for most packets: Ethernet without tags, IPv4 without options, not a fragment, TCP
    /// or UDP. Where it is inlined, the compiler knows the other fields.
    #[inline]
    pub fn plain(bytes: &[u8], linktype: u16) -> Option<Self> {
        const TRANSPORT: usize = ETHERNET_BYTES + IPV4_BYTES;
        let headers = bytes.first_chunk::<{ TRANSPORT + 4 }>()?;
        let half = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let ip = Ipv4::new(&headers[ETHERNET_BYTES..])?;
        let (length, protocol) = (ip.total_bytes(), ip.protocol());
        let is_plain = linktype == ETHERNET.linktype
            && half(ETHERNET_BYTES - 2) == ETHERTYPE_IPV4
            && headers[ETHERNET_BYTES] == 0x45
            && matches!(protocol, TCP | UDP);
        if !is_plain || usize::from(length) < IPV4_BYTES + 4 || ip.fragment().is_some() {
            return None;
        }
        let end = bytes.len().min(ETHERNET_BYTES + usize::from(length));
        let flags = TRANSPORT + tcp::FLAGS_OFFSET;
        Some(Self {
            addresses: [ip.source().into(), ip.destination().into()],
            ports: [half(TRANSPORT), half(TRANSPORT + 2)],
            protocol,
            tos: headers[ETHERNET_BYTES + 1],
            ttl: headers[ETHERNET_BYTES + 8],
            tcp_flags: if protocol == TCP && flags < end { bytes[flags] } else { 0 },
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            ip_bytes: length.into(),
            fragment: None,
            ip_offset: ETHERNET_BYTES as u32,
            transport: TRANSPORT as u32,
            end: end as u32,
            room: u32::MAX,
        })
    }

    /// A fast path of [`Self::walk`] for most IPv6 packets: Ethernet without tags, no extension headers, TCP or UDP.
    #[inline]
    pub fn plain_ipv6(bytes: &[u8], linktype: u16) -> Option<Self> {
        const TRANSPORT: usize = ETHERNET_BYTES + ipv6::IPV6_BYTES;
        let headers = bytes.first_chunk::<{ TRANSPORT + 4 }>()?;
        let half = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
        let ip = ipv6::Ipv6::new(&headers[ETHERNET_BYTES..])?;
        let (payload, protocol) = (ip.payload_bytes(), ip.next_header());
        let is_plain = linktype == ETHERNET.linktype
            && half(ETHERNET_BYTES - 2) == ETHERTYPE_IPV6
            && ip.is_v6()
            && matches!(protocol, TCP | UDP);
        if !is_plain || payload < 4 {
            return None;
        }
        let end = bytes.len().min(TRANSPORT + usize::from(payload));
        let flags = TRANSPORT + tcp::FLAGS_OFFSET;
        Some(Self {
            addresses: [ip.source().into(), ip.destination().into()],
            ports: [half(TRANSPORT), half(TRANSPORT + 2)],
            protocol,
            tos: headers[ETHERNET_BYTES] << 4 | headers[ETHERNET_BYTES + 1] >> 4,
            ttl: headers[ETHERNET_BYTES + 7],
            tcp_flags: if protocol == TCP && flags < end { bytes[flags] } else { 0 },
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            ip_bytes: u32::from(payload) + ipv6::IPV6_BYTES as u32,
            fragment: None,
            ip_offset: ETHERNET_BYTES as u32,
            transport: TRANSPORT as u32,
            end: end as u32,
            room: u32::MAX,
        })
    }

    /// Reads any supported headers.
    pub fn walk(bytes: &[u8], wire_bytes: u32, linktype: u16) -> Result<Self, NoFlow> {
        let (network, place) = network(bytes, linktype)?;
        let at = place.offset;
        let room = place.length.and_then(|length| length.end(bytes));
        let bytes = place.without_padding(bytes);
        let ip = net::ip_at(bytes, at).ok_or(NoFlow::Truncated)?;
        let ports = ports(&ip, bytes).ok_or(NoFlow::Truncated)?;
        let (tos, ttl, length) = match (ip.is_v6(), bytes.get(at..).and_then(<[u8]>::first_chunk::<8>)) {
            (_, None) => return Err(NoFlow::Truncated),
            (false, Some(header)) => {
                // `ip_at` has checked the 20 bytes of an IPv4 header.
                (
                    header[1],
                    bytes.get(at + 8).copied().unwrap_or(0),
                    u16::from_be_bytes([header[2], header[3]]).into(),
                )
            }
            (true, Some(header)) => {
                let payload = u32::from(u16::from_be_bytes([header[4], header[5]]));
                let length = if payload == 0 { 0 } else { payload + ipv6::IPV6_BYTES as u32 };
                (header[0] << 4 | header[1] >> 4, header[7], length)
            }
        };
        let room = room.map_or(u32::MAX, |end| end.saturating_sub(at) as u32);
        let ip_bytes: u32 = if length == 0 { wire_bytes.saturating_sub(at as u32).min(room) } else { length };
        let tcp_flags = match ip.protocol {
            TCP if !ip.is_later_fragment() => {
                let flags = ip.transport + tcp::FLAGS_OFFSET;
                if flags < ip.end { bytes.get(flags).copied().unwrap_or(0) } else { 0 }
            }
            _ => 0,
        };
        let ([vlan, inner_vlan], mpls_label) = labels(bytes, network);
        Ok(Self {
            addresses: ip.addresses,
            ports,
            protocol: ip.protocol,
            tos,
            ttl,
            tcp_flags,
            vlan,
            inner_vlan,
            mpls_label,
            ip_bytes,
            fragment: ip.fragment,
            ip_offset: at as u32,
            transport: ip.transport as u32,
            end: ip.end as u32,
            room,
        })
    }

    /// True for a fragment that is not the first of its datagram.
    #[inline]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset_bytes > 0)
    }

    /// The datagram of a fragment.
    pub fn datagram(&self) -> Option<DatagramId> {
        let protocol = if self.addresses[0].is_ipv6() { ipv6::FRAGMENT } else { self.protocol };
        self.fragment.map(|fragment| DatagramId { addresses: self.addresses, id: fragment.id, protocol })
    }

    /// The fields of the TCP header in the same `bytes`; `None` for other protocols, and if not captured.
    #[inline]
    pub fn tcp(&self, bytes: &[u8]) -> Option<TcpFields> {
        if self.protocol != TCP || self.is_later_fragment() {
            return None;
        }
        let segment = bytes.get(self.transport as usize..self.end as usize)?;
        let header = segment.first_chunk::<{ tcp::TCP_BYTES }>()?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Some(TcpFields {
            sequence: word(4),
            acknowledgment: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            header_bytes: u32::from(header[12] >> 4) * 4,
        })
    }

    /// Offset of the payload: after the header of TCP or UDP, otherwise after the IP header.
    #[inline]
    pub fn payload_at(&self, tcp: Option<TcpFields>) -> u32 {
        let header_bytes = match (tcp, self.protocol) {
            (Some(tcp), _) => tcp.header_bytes,
            (None, UDP) if !self.is_later_fragment() => UDP_BYTES as u32,
            (None, _) => 0,
        };
        self.transport.saturating_add(header_bytes)
    }

    /// The flags and the numbers of a segment of TCP; 0 where they were not captured.
    #[inline]
    pub fn numbers(&self, bytes: &[u8]) -> Numbers {
        let (sequence, acknowledgment) =
            self.tcp(bytes).map_or((0, 0), |tcp| (tcp.sequence, tcp.acknowledgment));
        Numbers { flags: self.tcp_flags, sequence, acknowledgment }
    }

    /// The window scale of TCP (RFC 7323) in the same `bytes`; present in SYNs only.
    pub fn window_scale(&self, bytes: &[u8]) -> Option<u8> {
        let header_bytes = self.tcp(bytes)?.header_bytes as usize;
        let captured = bytes.get(self.transport as usize..self.end as usize)?;
        let options = captured.get(tcp::TCP_BYTES..header_bytes.min(captured.len()))?;
        tcp::window_scale(options)
    }
}

/// The request that an ICMP or ICMPv6 message belongs to: its own type << 8 | code, or for a reply that of the request
/// (RFC 792, RFC 4443, RFC 4620). `None` for other messages.
pub fn icmp_request(protocol: u8, type_code: u16) -> Option<u16> {
    let [kind, code] = type_code.to_be_bytes();
    let request = match (protocol, kind) {
        (ICMP, 8 | 13 | 15 | 17) | (ICMPV6, 128 | 139) => kind,
        (ICMP, 0) => 8,
        (ICMP, 14 | 16 | 18) | (ICMPV6, 129 | 140) => kind - 1,
        _ => return None,
    };
    Some(u16::from_be_bytes([request, code]))
}

/// True for ICMP and ICMPv6.
#[inline]
pub fn is_icmp(protocol: u8) -> bool {
    matches!(protocol, ICMP | ICMPV6)
}

#[inline]
fn network(bytes: &[u8], linktype: u16) -> Result<(Untagged, IpPlace), NoFlow> {
    let network = link::network(bytes, linktype).ok_or(NoFlow::NotIp)?;
    let place = link::ip_place(bytes, network).ok_or(NoFlow::NotIp)?;
    Ok((network, place))
}

/// The two outermost VLAN ids and the top MPLS label.
#[inline]
fn labels(bytes: &[u8], network: Untagged) -> ([u16; 2], u32) {
    // The TCI of the first tag is where the network header of an untagged frame would start.
    let vlan = |from_end: usize| be16(bytes, network.offset - TAG_BYTES * from_end).unwrap_or(0) & 0xfff;
    let vlans = match network.tags {
        0 => [0; 2],
        1 => [vlan(1), 0],
        tags => [vlan(tags), vlan(tags - 1)],
    };
    let mpls_label = match network.ethertype {
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
            let label = bytes.get(network.offset..).and_then(<[u8]>::first_chunk::<LABEL_BYTES>);
            label.map_or(0, |label| Label::new(*label).value())
        }
        _ => 0,
    };
    (vlans, mpls_label)
}

/// The ports, or their substitutes; `None` if they are missing.
#[inline]
fn ports(ip: &Ip, bytes: &[u8]) -> Option<[u16; 2]> {
    if ip.is_later_fragment() {
        return Some([0; 2]);
    }
    match ip.protocol {
        TCP | UDP | SCTP => ip.ports(bytes),
        ICMP | ICMPV6 => be16(bytes.get(ip.transport..ip.end)?, 0).map(|type_code| [type_code; 2]),
        _ => Some([0; 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linktype::RAW;
    use proptest::prelude::*;
    use quaff_testpackets as build;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn udp() -> Vec<u8> {
        build::ipv4(A, B, UDP, &[], &build::udp(1, 2, b"payload"))
    }

    fn read(bytes: &[u8]) -> Result<FlowPacket, NoFlow> {
        FlowPacket::read(bytes, bytes.len() as u32, ETHERNET.linktype)
    }

    #[test]
    fn tags_labels_and_padding_are_read_off() {
        let tagged = build::ethernet(&[(0x88a8, 0xa007), (0x8100, 2)], 0x0800, &udp());
        let padded = [&tagged[..], &[0; 30]].concat();
        let packet = read(&padded).unwrap();
        assert_eq!((packet.vlan, packet.inner_vlan, packet.mpls_label, packet.ip_bytes), (7, 2, 0, 35));
        assert_eq!((packet.ports, packet.protocol, packet.ttl), ([1, 2], UDP, 64));
        assert_eq!(&padded[packet.transport as usize + 8..packet.end as usize], b"payload");
        let labelled =
            read(&build::ethernet(&[(0x8100, 5)], 0x8847, &build::mpls(&[70000, 3], &udp()))).unwrap();
        assert_eq!((labelled.vlan, labelled.mpls_label, labelled.ports), (5, 70000, [1, 2]));
        let three =
            read(&build::ethernet(&[(0x88a8, 1), (0x8100, 0xe002), (0x8100, 3)], 0x0800, &udp())).unwrap();
        assert_eq!((three.vlan, three.inner_vlan, labelled.inner_vlan), (1, 2, 0));
        let raw = FlowPacket::read(&udp(), 35, RAW.linktype).unwrap();
        assert_eq!((raw.vlan, raw.addresses), (0, packet.addresses));
        let loopback = [&[2, 0, 0, 0], &udp()[..]].concat();
        assert_eq!(FlowPacket::read(&loopback, 39, 0).unwrap().ports, [1, 2]);
    }

    /// PPPoE (RFC 2516) and IEEE 802.3 count what follows them: the rest of the frame is padding, whatever IP says.
    #[test]
    fn the_packet_ends_where_a_length_before_it_does() {
        let pppoe = |cut: u16| {
            let length = (udp().len() as u16 + 2 - cut).to_be_bytes();
            let header = [&[0x11, 0, 0, 1][..], &length, &[0, 0x21]].concat();
            build::ethernet(&[(0x8100, 5)], 0x8864, &[&header[..], &udp(), &[0; 9]].concat())
        };
        let llc = |cut: u16| {
            let length = udp().len() as u16 + 8 - cut;
            build::ethernet(&[], length, &[&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &udp(), &[0; 9]].concat())
        };
        for frame in [pppoe, llc] {
            let (whole, cut) = (read(&frame(0)).unwrap(), read(&frame(3)).unwrap());
            assert_eq!((whole.room, whole.ip_bytes, whole.end - whole.transport), (35, 35, 15));
            assert_eq!((cut.room, cut.ip_bytes, cut.end - cut.transport), (32, 35, 12));
            let layers = crate::net::layers(&frame(3)).unwrap();
            assert_eq!(layers.ip.unwrap().end as u32, cut.end);
            // Of less than the headers nothing is read.
            assert!(read(&frame(25)).is_err());
        }
        assert_eq!(read(&build::ethernet(&[], 0x0800, &udp())).unwrap().room, u32::MAX);
    }

    #[test]
    fn fields_of_ipv6_and_of_tcp() {
        let [one, two] = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED];
        let segment = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x60, 0x12, 1, 2, 0, 0, 0, 0, 1, 1, 1, 1, b'x'];
        let mut packet = build::ipv6(one, two, TCP, &segment);
        packet[..2].copy_from_slice(&[0x6b, 0x80]);
        packet[7] = 9;
        let frame = build::ethernet(&[], 0x86dd, &packet);
        let found = read(&frame).unwrap();
        assert_eq!((found.tos, found.ttl, found.tcp_flags, found.ip_bytes), (0xb8, 9, 0x12, 65));
        let expected = TcpFields { sequence: 5, acknowledgment: 6, window: 0x102, header_bytes: 24 };
        assert_eq!(found.tcp(&frame), Some(expected));
        assert_eq!(read(&frame[..60]).unwrap().tcp(&frame[..60]), None, "cut in the header");
    }

    #[test]
    fn the_window_scale_is_found_among_the_options() {
        let segment = |options: &[u8]| {
            let words = (20 + options.len()) as u8 / 4;
            let head = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, words << 4, 2, 1, 2, 0, 0, 0, 0];
            build::ethernet(&[], 0x0800, &build::ipv4(A, B, TCP, &[], &[&head, options].concat()))
        };
        let scale = |options: &[u8]| {
            let frame = segment(options);
            read(&frame).unwrap().window_scale(&frame)
        };
        assert_eq!(scale(&[2, 4, 5, 0xb4, 1, 3, 3, 7]), Some(7));
        assert_eq!(scale(&[2, 4, 5, 0xb4]), None);
        assert_eq!(scale(&[0, 0, 0, 0, 3, 3, 7, 0]), None, "after the end of the list");
        for damaged in [[8, 0, 3, 3], [8, 1, 3, 3], [8, 90, 3, 3], [1, 1, 3, 3], [1, 1, 1, 3]] {
            assert_eq!(scale(&damaged), None, "{damaged:?}");
        }
        let cut = segment(&[1, 3, 3, 7]);
        assert_eq!(read(&cut[..56]).unwrap().window_scale(&cut[..56]), None, "cut by the snaplen");
    }

    #[test]
    fn packets_without_a_flow_say_why() {
        let frame = build::ethernet(&[], 0x0800, &udp());
        assert_eq!(read(&build::ethernet(&[], 0x0806, &[0; 28])), Err(NoFlow::NotIp));
        assert_eq!(FlowPacket::read(&frame, 49, 127), Err(NoFlow::NotIp), "radiotap");
        for cut in ETHERNET_AND_IP..ETHERNET_AND_IP + 4 {
            assert_eq!(read(&frame[..cut]), Err(NoFlow::Truncated), "{cut}");
        }
        assert!(read(&frame[..ETHERNET_AND_IP + 4]).is_ok());
        assert_eq!(read(&frame[..30]), Err(NoFlow::Truncated));
    }

    const ETHERNET_AND_IP: usize = 34;
    const ETHERNET_AND_IPV6: usize = 54;

    #[test]
    fn a_later_fragment_has_no_ports() {
        let pieces = build::ipv4_fragments(&udp(), 8);
        let found: Vec<_> =
            pieces.iter().map(|piece| read(&build::ethernet(&[], 0x0800, piece)).unwrap()).collect();
        assert_eq!(found[0].ports, [1, 2]);
        assert!(!found[0].is_later_fragment() && found[1].is_later_fragment());
        assert_eq!((found[1].ports, found[1].ip_bytes), ([0; 2], 27));
    }

    #[test]
    fn replies_of_icmp_name_their_request() {
        let request =
            |protocol, kind: u8| icmp_request(protocol, u16::from_be_bytes([kind, 0])).map(|of| of >> 8);
        assert_eq!([8, 0, 14, 3].map(|kind| request(ICMP, kind)), [Some(8), Some(8), Some(13), None]);
        assert_eq!([128, 129, 135].map(|kind| request(ICMPV6, kind)), [Some(128), Some(128), None]);
    }

    proptest! {
        /// Plain frames, most with one byte changed, truncated anywhere.
        #[test]
        fn plain_packets_are_read_as_by_the_walk(is_tcp: bool, at in 0usize..70, value: u8, len in 30usize..60, linktype in prop::sample::select(vec![1u16, 1, 101])) {
            let transport = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 0x12, 1, 2, 0, 0, 0, 0, b'x'];
            let protocol = if is_tcp { TCP } else { UDP };
            let mut frame = build::ethernet(&[], 0x0800, &build::ipv4(A, B, protocol, &[], &transport));
            frame.truncate(len);
            prop_assert_eq!(FlowPacket::plain(&frame, 1).is_some(), len >= ETHERNET_AND_IP + 4);
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
            prop_assert_eq!(FlowPacket::read(&frame, 90, linktype), FlowPacket::walk(&frame, 90, linktype));
        }

        #[test]
        fn plain_packets_of_ipv6_are_read_as_by_the_walk(is_tcp: bool, at in 12usize..80, value: u8, len in 40usize..80, linktype in prop::sample::select(vec![1u16, 1, 101])) {
            let transport = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 0x12, 1, 2, 0, 0, 0, 0, b'x'];
            let protocol = if is_tcp { TCP } else { UDP };
            let [one, two] = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED];
            let mut frame = build::ethernet(&[], 0x86dd, &build::ipv6(one, two, protocol, &transport));
            frame.truncate(len);
            prop_assert_eq!(FlowPacket::plain_ipv6(&frame, 1).is_some(), len >= ETHERNET_AND_IPV6 + 4);
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
            prop_assert_eq!(FlowPacket::read(&frame, 90, linktype), FlowPacket::walk(&frame, 90, linktype));
        }

        #[test]
        fn whatever_lies_there_is_read_inside_the_bytes(mut frame in prop::collection::vec(any::<u8>(), 0..120), linktype in prop::sample::select((0u16..300).collect::<Vec<_>>()), ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x8100, 0x8847])) {
            if let Some(place) = frame.get_mut(12..14) {
                place.copy_from_slice(&ethertype.to_be_bytes());
            }
            if let Ok(packet) = FlowPacket::read(&frame, 9000, linktype) {
                prop_assert!(packet.transport <= packet.end && packet.end as usize <= frame.len());
                let _ = packet.tcp(&frame);
            }
        }
    }
}
