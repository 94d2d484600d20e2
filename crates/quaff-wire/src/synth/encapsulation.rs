//! The headers before the IP header: MAC addresses, VLAN tags, MPLS labels, and a tunnel.

use crate::net::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, GRE, IPV4_BYTES, UDP, UDP_BYTES, VlanTag,
    ethernet, ipv4, mpls, udp,
};
use crate::tunnel::write::{self, ERSPAN_II_SEQUENCE};
use std::net::Ipv4Addr;

/// UDP port of VXLAN (RFC 7348).
const VXLAN_PORT: u16 = 4789;
/// Offsets in the outer headers: Ethernet, IPv4 without options, then GRE or UDP.
const OUTER_IP: usize = ETHERNET_BYTES;
const OUTER_TRANSPORT: usize = OUTER_IP + IPV4_BYTES;

/// The link headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkHeaders {
    /// Destination in the forward direction, source in the reverse direction.
    pub dst_mac: [u8; 6],
    /// Source in the forward direction, destination in the reverse direction.
    pub src_mac: [u8; 6],
    /// VLAN tags, outermost first.
    pub tags: Vec<VlanTag>,
    /// MPLS labels (20 bits), outermost first.
    pub labels: Vec<u32>,
}

impl LinkHeaders {
    /// All headers before the IP header of a frame.
    pub(super) fn header(&self, is_v4: bool, is_back: bool) -> Vec<u8> {
        let macs = if is_back { [self.src_mac, self.dst_mac] } else { [self.dst_mac, self.src_mac] };
        let ip = if is_v4 { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let ethertype = if self.labels.is_empty() { ip } else { ETHERTYPE_MPLS };
        let mut bytes = Vec::new();
        ethernet::push_header(&mut bytes, macs, &self.tags, ethertype);
        mpls::push_labels(&mut bytes, &self.labels);
        bytes
    }
}

/// A tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulation {
    /// ERSPAN type II with this session id (10 bits) and numbered frames, as a mirror port sends it.
    Erspan(u16),
    /// VXLAN with this network identifier (24 bits); the outer source port depends on the flow.
    Vxlan(u32),
}

/// The constant headers of a tunnel.
#[derive(Debug, Clone)]
pub(super) struct Outer {
    tunnel: Encapsulation,
    header: Vec<u8>,
    numbered: u32,
}

impl Outer {
    pub(super) fn new(tunnel: Encapsulation, link: &LinkHeaders, ends: [Ipv4Addr; 2]) -> Self {
        let (protocol, inside) = match tunnel {
            Encapsulation::Erspan(session) => (GRE, write::erspan_ii(session)),
            Encapsulation::Vxlan(vni) => {
                let vxlan = write::vxlan(vni);
                let udp = udp::header([0, VXLAN_PORT], vxlan.len());
                (UDP, std::array::from_fn(|i| if i < UDP_BYTES { udp[i] } else { vxlan[i - UDP_BYTES] }))
            }
        };
        let bare = LinkHeaders { tags: Vec::new(), labels: Vec::new(), ..link.clone() };
        let mut header = bare.header(true, false);
        header.extend(ipv4::header(ends, protocol, inside.len()));
        header.extend(inside);
        Self { tunnel, header, numbered: 0 }
    }

    /// Appends the headers for a frame of `bytes` bytes that belongs to `flow`.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, bytes: usize, flow: u64) {
        let start = out.len();
        out.extend(&self.header);
        let header = &mut out[start..];
        let total = (self.header.len() - OUTER_IP + bytes) as u16;
        header[OUTER_IP + 2..][..2].copy_from_slice(&total.to_be_bytes());
        ipv4::set_checksum(&mut header[OUTER_IP..OUTER_TRANSPORT]);
        match self.tunnel {
            Encapsulation::Erspan(_) => {
                header[OUTER_TRANSPORT + ERSPAN_II_SEQUENCE..][..4]
                    .copy_from_slice(&self.numbered.to_be_bytes());
                self.numbered = self.numbered.wrapping_add(1);
            }
            Encapsulation::Vxlan(_) => {
                // RFC 7348, section 5: from the dynamic range, by a hash of the inner headers.
                let port = 0xc000 | (flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as u16;
                header[OUTER_TRANSPORT..][..2].copy_from_slice(&port.to_be_bytes());
                header[OUTER_TRANSPORT + 4..][..2].copy_from_slice(&(total - 20).to_be_bytes());
            }
        }
    }
}
