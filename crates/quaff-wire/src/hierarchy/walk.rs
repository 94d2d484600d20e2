//! The path of a frame: one step per header, with the headers that `net` and `tunnel` read. It never panics, copies or
//! allocates, and ends at a truncated or damaged header, whose protocol is the last one of the path.

use super::protocol::{Protocol, ProtocolPath};
use super::services;
use crate::flow::FlowPacket;
use crate::linktype::{ETHERNET, RAW};
use crate::net::ethernet::{ETHERTYPE_FABRICPATH, ETHERTYPE_PBB, ETHERTYPE_PPPOE};
use crate::net::link::types;
use crate::net::vlan::{TAG_BYTES, TPID_SERVICE, Untagged, is_tpid};
use crate::net::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_TEB,
    GRE, ICMP, ICMPV6, Ip, LENGTH_MAX, SCTP, TCP, UDP, UDP_BYTES, be16, ip_at, link, mpls,
};
use crate::tunnel::{self, Inner, Outcome, TunnelKind, TunnelKinds, strip};
use std::net::IpAddr;

/// Frames inside each other that are looked at.
const FRAMES_MAX: usize = 6;
/// Headers between that of the link and that of IP.
const HEADERS_MAX: usize = 4;

/// Protocol number (IANA).
const NO_NEXT_HEADER: u8 = 59;
/// Protocol of a Linux cooked header before an LLC header (ETH_P_802_2, linux/if_ether.h). Other small numbers there
/// are no lengths.
const COOKED_LLC: u16 = 4;

/// LLC headers: spanning trees (IEEE 802.1D), SNAP with those of Cisco for each VLAN (PVST+), SNAP with Cisco's
/// discovery protocol.
const LLC_STP: [u8; 3] = [0x42, 0x42, 3];
const LLC_PVST: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0x0c, 1, 0x0b];
const LLC_CDP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0];

/// The path of a usual packet, whose headers are `packet`: TCP or UDP in IP in Ethernet without tags; `None` if a
/// tunnel may be in it.
#[inline]
pub fn usual_path(packet: &FlowPacket, bytes: &[u8]) -> Option<ProtocolPath> {
    const TCP_IN: [ProtocolPath; 2] = [
        ProtocolPath::of(&[Protocol::Ethernet, Protocol::Ip, Protocol::Tcp]),
        ProtocolPath::of(&[Protocol::Ethernet, Protocol::Ipv6, Protocol::Tcp]),
    ];
    const UDP_IN: [ProtocolPath; 2] = [
        ProtocolPath::of(&[Protocol::Ethernet, Protocol::Ip, Protocol::Udp]),
        ProtocolPath::of(&[Protocol::Ethernet, Protocol::Ipv6, Protocol::Udp]),
    ];
    let is_v6 = usize::from(packet.addresses[0].is_ipv6());
    let segment = bytes.get(packet.transport as usize..packet.end as usize).unwrap_or_default();
    if packet.protocol == TCP {
        return Some(with(TCP_IN[is_v6], of_segment(packet.ports, segment)));
    }
    let is_plain = packet.protocol == UDP && !tunnel::may_be_in_udp(packet.ports);
    is_plain.then(|| with(UDP_IN[is_v6], of_datagram(packet.ports, segment)))
}

/// The path of a frame of link type `linktype` with `bytes` captured of `wire_bytes`. `addresses` gets source and
/// destination of each IP header, outermost first.
pub fn path(
    bytes: &[u8],
    wire_bytes: u32,
    linktype: u16,
    mut addresses: impl FnMut([IpAddr; 2]),
) -> ProtocolPath {
    let mut walk = Walk { path: ProtocolPath::default().with(of_link(linktype)), addresses: &mut addresses };
    let (mut rest, mut left, mut linktype) = (bytes, wire_bytes, linktype);
    for _ in 0..FRAMES_MAX {
        let Some(inner) = walk.frame(rest, left, linktype) else { break };
        let start = inner.start as usize;
        rest = rest.get(start..start + inner.len as usize).unwrap_or_default();
        (left, linktype) = (inner.wire_len.unwrap_or(inner.len), inner.linktype);
        if linktype != RAW.linktype {
            walk.add(of_link(linktype));
        }
    }
    walk.path
}

#[inline]
fn with(path: ProtocolPath, protocol: Option<Protocol>) -> ProtocolPath {
    protocol.map_or(path, |protocol| path.with(protocol))
}

/// The application of a segment of TCP from its header on.
#[inline]
fn of_segment(ports: [u16; 2], segment: &[u8]) -> Option<Protocol> {
    let header_bytes = usize::from(*segment.get(12)? >> 4) * 4;
    services::of_tcp(ports, segment.get(header_bytes..)?)
}

/// The application of a datagram of UDP from its header on.
#[inline]
fn of_datagram(ports: [u16; 2], datagram: &[u8]) -> Option<Protocol> {
    services::of_udp(ports, datagram.get(UDP_BYTES..)?)
}

/// The way through a frame.
struct Walk<'a, F> {
    path: ProtocolPath,
    addresses: &'a mut F,
}

impl<F: FnMut([IpAddr; 2])> Walk<'_, F> {
    fn add(&mut self, protocol: Protocol) {
        self.path = self.path.with(protocol);
    }

    /// Adds the protocols of a frame after its link; returns the frame inside it.
    fn frame(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16) -> Option<Inner> {
        let mut network = link::network(bytes, linktype)?;
        let mut end = bytes.len();
        self.add_tags(bytes, network);
        if is_cooked_number(network, linktype) {
            self.add(Protocol::Data);
            return None;
        }
        for _ in 0..HEADERS_MAX {
            let bytes = bytes.get(..end).unwrap_or(bytes);
            match network.ethertype {
                ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return self.ip(bytes, wire_bytes, network),
                ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
                    return self.labels(bytes, wire_bytes, network.offset);
                }
                _ => self.add_between(bytes, network),
            }
            let (next, length) = link::under(bytes, network)?;
            end = length.and_then(|length| length.end(bytes)).map_or(end, |until| until.min(end));
            self.add_under(network.ethertype);
            self.add_tags(bytes, next);
            network = next;
        }
        None
    }

    /// Adds the VLAN tags before a network header.
    fn add_tags(&mut self, bytes: &[u8], network: Untagged) {
        for tag in (1..=network.tags).rev() {
            let at = network.offset.checked_sub(2 + TAG_BYTES * tag);
            let tpid = at.and_then(|at| be16(bytes, at));
            self.add(if tpid == Some(TPID_SERVICE) { Protocol::ServiceVlan } else { Protocol::Vlan });
        }
    }

    /// Adds a protocol that is not IP, and what is in PPPoE and LLC.
    fn add_between(&mut self, bytes: &[u8], network: Untagged) {
        let protocol = of_ethertype(network.ethertype);
        self.add(protocol);
        let rest = bytes.get(network.offset..).unwrap_or_default();
        match protocol {
            Protocol::Pppoe => self.add(Protocol::Ppp),
            Protocol::Llc if rest.starts_with(&LLC_STP) || rest.starts_with(&LLC_PVST) => {
                self.add(Protocol::Stp);
            }
            Protocol::Llc if rest.starts_with(&LLC_CDP) => self.add(Protocol::Cdp),
            _ => {}
        }
    }

    /// Adds the link of the frame after a header of this EtherType.
    fn add_under(&mut self, ethertype: u16) {
        if matches!(ethertype, ETHERTYPE_PBB | ETHERTYPE_FABRICPATH) {
            self.add(Protocol::Ethernet);
        }
    }

    /// Adds the labels of an MPLS stack at `at`; returns the frame after them.
    fn labels(&mut self, bytes: &[u8], wire_bytes: u32, at: usize) -> Option<Inner> {
        let stack = bytes.get(at..)?;
        let labels = mpls::skip_labels(stack).map_or(1, |(bytes, _)| bytes / mpls::LABEL_BYTES);
        (0..labels).for_each(|_| self.add(Protocol::Mpls));
        inside(stack, wire_bytes, types::MPLS, at)
    }

    /// Adds IP and what it carries; returns the frame inside a tunnel.
    fn ip(&mut self, bytes: &[u8], wire_bytes: u32, network: Untagged) -> Option<Inner> {
        let at = network.offset;
        let Some(ip) = ip_at(bytes, at) else {
            self.add(if network.ethertype == ETHERTYPE_IPV6 { Protocol::Ipv6 } else { Protocol::Ip });
            return None;
        };
        self.add(if ip.is_v6() { Protocol::Ipv6 } else { Protocol::Ip });
        (self.addresses)(ip.addresses);
        if ip.is_later_fragment() {
            self.add(Protocol::Data);
            return None;
        }
        let packet = bytes.get(at..ip.end)?;
        let inner = || inside(packet, wire_bytes, RAW.linktype, at);
        match ip.protocol {
            UDP => self.udp(&ip, bytes, inner),
            GRE => {
                self.add(Protocol::Gre);
                self.add_tunnel(inner())
            }
            protocol if tunnel::may_be_in_ip(protocol) => {
                if of_protocol(protocol) == Protocol::L2tp {
                    self.add(Protocol::L2tp);
                }
                self.add_tunnel(inner())
            }
            NO_NEXT_HEADER => None,
            protocol => {
                self.add(of_protocol(protocol));
                if protocol == TCP {
                    let segment = bytes.get(ip.transport..ip.end).unwrap_or_default();
                    let ports = ip.ports(bytes).unwrap_or_default();
                    self.path = with(self.path, of_segment(ports, segment));
                }
                None
            }
        }
    }

    fn udp(&mut self, ip: &Ip, bytes: &[u8], inner: impl Fn() -> Option<Inner>) -> Option<Inner> {
        self.add(Protocol::Udp);
        let ports = ip.ports(bytes)?;
        if tunnel::may_be_in_udp(ports)
            && let Some(inner) = inner()
        {
            if inner.session.kind == TunnelKind::Gre || inner.session.kind == TunnelKind::Nvgre {
                self.add(Protocol::Gre);
            }
            return self.add_tunnel(Some(inner));
        }
        let datagram = bytes.get(ip.transport..ip.end).unwrap_or_default();
        self.path = with(self.path, of_datagram(ports, datagram));
        None
    }

    /// Adds the header of a tunnel that is not named by its protocol number.
    fn add_tunnel(&mut self, inner: Option<Inner>) -> Option<Inner> {
        let protocol = match inner.as_ref()?.session.kind {
            TunnelKind::Erspan => Protocol::Erspan,
            TunnelKind::Vxlan => Protocol::Vxlan,
            TunnelKind::Geneve => Protocol::Geneve,
            TunnelKind::Mpls => Protocol::Mpls,
            TunnelKind::Gtp => Protocol::Gtp,
            TunnelKind::Tzsp => Protocol::Tzsp,
            TunnelKind::L2tp if self.path.last() != Some(Protocol::L2tp) => Protocol::L2tp,
            TunnelKind::Gre | TunnelKind::Nvgre | TunnelKind::Ipip | TunnelKind::L2tp => return inner,
        };
        self.add(protocol);
        inner
    }
}

/// The frame in the first tunnel of `bytes`, which are of link type `linktype` and at `at` of the frame around them.
fn inside(bytes: &[u8], wire_bytes: u32, linktype: u16, at: usize) -> Option<Inner> {
    match strip(bytes, wire_bytes.saturating_sub(at as u32), linktype, TunnelKinds::ALL, 1) {
        Outcome::Inner(inner) => Some(Inner { start: inner.start + at as u32, ..inner }),
        _ => None,
    }
}

/// True for a number of a Linux cooked header that is neither an EtherType nor the one of LLC.
fn is_cooked_number(network: Untagged, linktype: u16) -> bool {
    let is_cooked = matches!(linktype, types::LINUX_SLL | types::LINUX_SLL2) && network.tags == 0;
    is_cooked && network.ethertype <= LENGTH_MAX && network.ethertype != COOKED_LLC
}

/// The protocol of a link type (LINKTYPE_*, tcpdump.org/linktypes).
fn of_link(linktype: u16) -> Protocol {
    match linktype {
        _ if linktype == ETHERNET.linktype => Protocol::Ethernet,
        _ if types::RAW.contains(&linktype) => Protocol::Raw,
        _ if types::ATM.contains(&linktype) => Protocol::Atm,
        _ if types::ENC.contains(&linktype) => Protocol::Enc,
        types::IPV4 | types::IPV6 => Protocol::Raw,
        types::NULL | types::LOOP => Protocol::Null,
        types::TOKEN_RING => Protocol::TokenRing,
        types::FDDI => Protocol::Fddi,
        types::SLIP | types::SLIP_BSDOS => Protocol::Slip,
        types::PPP | types::PPP_HDLC | types::PPP_BSDOS | types::PPP_PPPD | types::PPP_WITH_DIRECTION => {
            Protocol::Ppp
        }
        types::C_HDLC | types::C_HDLC_WITH_DIRECTION => Protocol::Hdlc,
        types::FRAME_RELAY | types::FRAME_RELAY_WITH_DIRECTION => Protocol::FrameRelay,
        types::LINUX_SLL | types::LINUX_SLL2 => Protocol::Sll,
        types::PFLOG => Protocol::Pflog,
        // The session and the labels are rows already.
        types::PPP_ETHER | types::MPLS => Protocol::None,
        _ => Protocol::OtherLink,
    }
}

/// The protocol of an EtherType other than those of IP and MPLS (IANA, IEEE).
fn of_ethertype(ethertype: u16) -> Protocol {
    match ethertype {
        0..=LENGTH_MAX => Protocol::Llc,
        ETHERTYPE_ARP | 0x8035 => Protocol::Arp,
        ETHERTYPE_PPPOE => Protocol::Pppoe,
        ETHERTYPE_PBB => Protocol::Backbone,
        ETHERTYPE_FABRICPATH => Protocol::FabricPath,
        ETHERTYPE_TEB => Protocol::Ethernet,
        0x8809 => Protocol::Slow,
        0x8863 => Protocol::PppoeDiscovery,
        0x888e => Protocol::Eapol,
        0x88cc => Protocol::Lldp,
        0x88e5 => Protocol::Macsec,
        0x88f7 => Protocol::Ptp,
        0x8902 => Protocol::Cfm,
        0x9000 => Protocol::Loopback,
        // The capture ends in the tag.
        tpid if is_tpid(tpid) => Protocol::Vlan,
        _ => Protocol::Data,
    }
}

/// The protocol of a number in IP (IANA).
fn of_protocol(protocol: u8) -> Protocol {
    match protocol {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        ICMP => Protocol::Icmp,
        ICMPV6 => Protocol::Icmpv6,
        SCTP => Protocol::Sctp,
        2 => Protocol::Igmp,
        33 => Protocol::Dccp,
        50 => Protocol::Esp,
        51 => Protocol::Ah,
        88 => Protocol::Eigrp,
        89 => Protocol::Ospf,
        103 => Protocol::Pim,
        112 => Protocol::Vrrp,
        115 => Protocol::L2tp,
        136 => Protocol::UdpLite,
        _ => Protocol::Data,
    }
}

#[cfg(test)]
mod tests;
