//! The path of a frame: one step per header, with the headers that `net` and `tunnel` read. It never panics, copies or
//! allocates, and ends at a truncated or damaged header, whose protocol is the last one of the path.

use super::layer::{Layer, Path};
use super::services;
use crate::flow::FlowPacket;
use crate::linktype::{ETHERNET, RAW};
use crate::net::ethernet::{ETHERTYPE_FABRICPATH, ETHERTYPE_PBB, ETHERTYPE_PPPOE};
use crate::net::vlan::{TAG_BYTES, TPID_SERVICE, Untagged, is_tpid};
use crate::net::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_TEB,
    GRE, ICMP, ICMPV6, Ip, LENGTH_MAX, SCTP, TCP, UDP, UDP_BYTES, be16, ip_at, link, mpls,
};
use crate::tunnel::{Inner, Outcome, TunnelKind, TunnelKinds, strip};
use std::net::IpAddr;

/// Frames inside each other that are looked at.
const FRAMES_MAX: usize = 6;
/// Headers between that of the link and that of IP.
const HEADERS_MAX: usize = 4;
/// LINKTYPE of a stack of MPLS labels.
const LINKTYPE_MPLS: u16 = 219;

/// Protocol numbers of tunnels in IP (IANA), beside GRE and UDP.
const IP_IN_IP: [u8; 4] = [4, 41, 115, 137];
const L2TP: u8 = 115;
const NO_NEXT_HEADER: u8 = 59;
/// Destination ports of tunnels over UDP; a source port of 1701 is that of L2TP too.
const TUNNEL_PORTS: [u16; 9] = [1701, 2152, 4754, 4789, 4790, 6081, 6635, 8472, 37008];

/// LLC headers: of spanning trees (IEEE 802.1D), and SNAP with Cisco's discovery protocol.
const LLC_STP: [u8; 3] = [0x42, 0x42, 3];
const LLC_CDP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0];

/// The path of a usual packet, whose headers are `packet`: TCP or UDP in IP in Ethernet without tags; `None` if a
/// tunnel may be in it.
#[inline]
pub fn usual_path(packet: &FlowPacket, bytes: &[u8]) -> Option<Path> {
    const TCP_IN: [Path; 2] = [
        Path::of(&[Layer::Ethernet, Layer::Ip, Layer::Tcp]),
        Path::of(&[Layer::Ethernet, Layer::Ipv6, Layer::Tcp]),
    ];
    const UDP_IN: [Path; 2] = [
        Path::of(&[Layer::Ethernet, Layer::Ip, Layer::Udp]),
        Path::of(&[Layer::Ethernet, Layer::Ipv6, Layer::Udp]),
    ];
    let is_v6 = usize::from(packet.addresses[0].is_ipv6());
    let segment = bytes.get(packet.transport as usize..packet.end as usize).unwrap_or_default();
    if packet.protocol == TCP {
        return Some(with(TCP_IN[is_v6], of_segment(packet.ports, segment)));
    }
    let is_plain = packet.protocol == UDP && !may_carry(packet.ports);
    is_plain.then(|| with(UDP_IN[is_v6], of_datagram(packet.ports, segment)))
}

/// The path of a frame of link type `linktype` with `bytes` captured of `wire_bytes`. `addresses` gets source and
/// destination of each IP header, outermost first.
pub fn path(bytes: &[u8], wire_bytes: u32, linktype: u16, mut addresses: impl FnMut([IpAddr; 2])) -> Path {
    let mut walk = Walk { path: Path::default().with(of_link(linktype)), addresses: &mut addresses };
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

fn with(path: Path, layer: Option<Layer>) -> Path {
    layer.map_or(path, |layer| path.with(layer))
}

/// The application of a segment of TCP from its header on.
#[inline]
fn of_segment(ports: [u16; 2], segment: &[u8]) -> Option<Layer> {
    let header_bytes = usize::from(*segment.get(12)? >> 4) * 4;
    services::of_tcp(ports, segment.get(header_bytes..)?)
}

/// The application of a datagram of UDP from its header on.
#[inline]
fn of_datagram(ports: [u16; 2], datagram: &[u8]) -> Option<Layer> {
    services::of_udp(ports, datagram.get(UDP_BYTES..)?)
}

#[inline]
fn may_carry([source, destination]: [u16; 2]) -> bool {
    TUNNEL_PORTS.contains(&destination) || source == TUNNEL_PORTS[0]
}

/// The way through a frame.
struct Walk<'a, F> {
    path: Path,
    addresses: &'a mut F,
}

impl<F: FnMut([IpAddr; 2])> Walk<'_, F> {
    fn add(&mut self, layer: Layer) {
        self.path = self.path.with(layer);
    }

    /// Adds the protocols of a frame after its link; returns the frame inside it.
    fn frame(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16) -> Option<Inner> {
        let mut network = link::network(bytes, linktype)?;
        let mut end = bytes.len();
        self.add_tags(bytes, network);
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
            self.add(if tpid == Some(TPID_SERVICE) { Layer::ServiceVlan } else { Layer::Vlan });
        }
    }

    /// Adds a protocol that is not IP, and what is in PPPoE and LLC.
    fn add_between(&mut self, bytes: &[u8], network: Untagged) {
        let layer = of_ethertype(network.ethertype);
        self.add(layer);
        let rest = bytes.get(network.offset..).unwrap_or_default();
        match layer {
            Layer::Pppoe => self.add(Layer::Ppp),
            Layer::Llc if rest.starts_with(&LLC_STP) => self.add(Layer::Stp),
            Layer::Llc if rest.starts_with(&LLC_CDP) => self.add(Layer::Cdp),
            _ => {}
        }
    }

    /// Adds the link of the frame after a header of this EtherType.
    fn add_under(&mut self, ethertype: u16) {
        if matches!(ethertype, ETHERTYPE_PBB | ETHERTYPE_FABRICPATH) {
            self.add(Layer::Ethernet);
        }
    }

    /// Adds the labels of an MPLS stack at `at`; returns the frame after them.
    fn labels(&mut self, bytes: &[u8], wire_bytes: u32, at: usize) -> Option<Inner> {
        let stack = bytes.get(at..)?;
        let labels = mpls::skip_labels(stack).map_or(1, |(bytes, _)| bytes / mpls::LABEL_BYTES);
        (0..labels).for_each(|_| self.add(Layer::Mpls));
        inside(stack, wire_bytes, LINKTYPE_MPLS, at)
    }

    /// Adds IP and what it carries; returns the frame inside a tunnel.
    fn ip(&mut self, bytes: &[u8], wire_bytes: u32, network: Untagged) -> Option<Inner> {
        let at = network.offset;
        let Some(ip) = ip_at(bytes, at) else {
            self.add(if network.ethertype == ETHERTYPE_IPV6 { Layer::Ipv6 } else { Layer::Ip });
            return None;
        };
        self.add(if ip.is_v6() { Layer::Ipv6 } else { Layer::Ip });
        (self.addresses)(ip.addresses);
        if ip.is_later_fragment() {
            self.add(Layer::Data);
            return None;
        }
        let packet = bytes.get(at..ip.end)?;
        let tunnel = || inside(packet, wire_bytes, RAW.linktype, at);
        match ip.protocol {
            UDP => self.udp(&ip, bytes, tunnel),
            GRE => {
                self.add(Layer::Gre);
                self.add_tunnel(tunnel())
            }
            protocol if IP_IN_IP.contains(&protocol) => {
                if protocol == L2TP {
                    self.add(Layer::L2tp);
                }
                self.add_tunnel(tunnel())
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

    fn udp(&mut self, ip: &Ip, bytes: &[u8], tunnel: impl Fn() -> Option<Inner>) -> Option<Inner> {
        self.add(Layer::Udp);
        let ports = ip.ports(bytes)?;
        if may_carry(ports)
            && let Some(inner) = tunnel()
        {
            if inner.session.kind == TunnelKind::Gre || inner.session.kind == TunnelKind::Nvgre {
                self.add(Layer::Gre);
            }
            return self.add_tunnel(Some(inner));
        }
        let datagram = bytes.get(ip.transport..ip.end).unwrap_or_default();
        self.path = with(self.path, of_datagram(ports, datagram));
        None
    }

    /// Adds the header of a tunnel that is not named by its protocol number.
    fn add_tunnel(&mut self, inner: Option<Inner>) -> Option<Inner> {
        let layer = match inner.as_ref()?.session.kind {
            TunnelKind::Erspan => Layer::Erspan,
            TunnelKind::Vxlan => Layer::Vxlan,
            TunnelKind::Geneve => Layer::Geneve,
            TunnelKind::Mpls => Layer::Mpls,
            TunnelKind::Gtp => Layer::Gtp,
            TunnelKind::Tzsp => Layer::Tzsp,
            TunnelKind::L2tp if self.path.last() != Some(Layer::L2tp) => Layer::L2tp,
            TunnelKind::Gre | TunnelKind::Nvgre | TunnelKind::Ipip | TunnelKind::L2tp => return inner,
        };
        self.add(layer);
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

/// The protocol of a link type (LINKTYPE_*, tcpdump.org/linktypes).
fn of_link(linktype: u16) -> Layer {
    match linktype {
        _ if linktype == ETHERNET.linktype => Layer::Ethernet,
        0 | 108 => Layer::Null,
        6 => Layer::TokenRing,
        8 | 102 => Layer::Slip,
        9 | 50 | 103 | 166 | 204 => Layer::Ppp,
        10 => Layer::Fddi,
        11 | 100 => Layer::Atm,
        12 | 14 | 101 | 228 | 229 => Layer::Raw,
        13 | 109 => Layer::Enc,
        104 | 205 => Layer::Hdlc,
        107 | 206 => Layer::FrameRelay,
        113 | 276 => Layer::Sll,
        117 => Layer::Pflog,
        // The session and the labels are rows already.
        51 | LINKTYPE_MPLS => Layer::None,
        _ => Layer::OtherLink,
    }
}

/// The protocol of an EtherType other than those of IP and MPLS (IANA, IEEE).
fn of_ethertype(ethertype: u16) -> Layer {
    match ethertype {
        0..=LENGTH_MAX => Layer::Llc,
        ETHERTYPE_ARP | 0x8035 => Layer::Arp,
        ETHERTYPE_PPPOE => Layer::Pppoe,
        ETHERTYPE_PBB => Layer::Backbone,
        ETHERTYPE_FABRICPATH => Layer::FabricPath,
        ETHERTYPE_TEB => Layer::Ethernet,
        0x8809 => Layer::Slow,
        0x8863 => Layer::PppoeDiscovery,
        0x888e => Layer::Eapol,
        0x88cc => Layer::Lldp,
        0x88e5 => Layer::Macsec,
        0x88f7 => Layer::Ptp,
        0x8902 => Layer::Cfm,
        0x9000 => Layer::Loopback,
        // The capture ends in the tag.
        tpid if is_tpid(tpid) => Layer::Vlan,
        _ => Layer::Data,
    }
}

/// The protocol of a number in IP (IANA).
fn of_protocol(protocol: u8) -> Layer {
    match protocol {
        TCP => Layer::Tcp,
        UDP => Layer::Udp,
        ICMP => Layer::Icmp,
        ICMPV6 => Layer::Icmpv6,
        SCTP => Layer::Sctp,
        2 => Layer::Igmp,
        33 => Layer::Dccp,
        50 => Layer::Esp,
        51 => Layer::Ah,
        88 => Layer::Eigrp,
        89 => Layer::Ospf,
        103 => Layer::Pim,
        112 => Layer::Vrrp,
        136 => Layer::UdpLite,
        _ => Layer::Data,
    }
}

#[cfg(test)]
mod tests;
