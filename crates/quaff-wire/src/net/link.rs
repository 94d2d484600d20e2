//! The network header of a frame, for each supported link type, and the IP header after MPLS labels, PPPoE, SNAP and
//! backbone Ethernet headers.

use super::be16;
use super::ethernet::{
    ETHERNET_BYTES, ETHERTYPE_FABRICPATH, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS,
    ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_PBB, ETHERTYPE_PPPOE, ETHERTYPE_TEB, LENGTH_MAX, MACS_BYTES,
};
use super::mpls::skip_labels;
use super::vlan::{TAG_BYTES, Untagged, skip_tags};
use crate::linktype;

/// Link types of capture files (LINKTYPE_*, tcpdump.org/linktypes), and the numbers of platforms (DLT_*) that libpcap
/// has written into files instead.
pub(crate) mod types {
    pub(crate) const NULL: u16 = 0;
    pub(crate) const TOKEN_RING: u16 = 6;
    pub(crate) const SLIP: u16 = 8;
    pub(crate) const PPP: u16 = 9;
    pub(crate) const FDDI: u16 = 10;
    pub(crate) const ATM: [u16; 2] = [11, 100];
    pub(crate) const RAW: [u16; 3] = [12, 14, 101];
    pub(crate) const ENC: [u16; 2] = [13, 109];
    pub(crate) const PPP_HDLC: u16 = 50;
    pub(crate) const PPP_ETHER: u16 = 51;
    pub(crate) const SLIP_BSDOS: u16 = 102;
    pub(crate) const PPP_BSDOS: u16 = 103;
    pub(crate) const C_HDLC: u16 = 104;
    pub(crate) const FRAME_RELAY: u16 = 107;
    pub(crate) const LOOP: u16 = 108;
    pub(crate) const LINUX_SLL: u16 = 113;
    pub(crate) const PFLOG: u16 = 117;
    pub(crate) const PPP_PPPD: u16 = 166;
    pub(crate) const PPP_WITH_DIRECTION: u16 = 204;
    pub(crate) const C_HDLC_WITH_DIRECTION: u16 = 205;
    pub(crate) const FRAME_RELAY_WITH_DIRECTION: u16 = 206;
    pub(crate) const MPLS: u16 = 219;
    pub(crate) const IPV4: u16 = 228;
    pub(crate) const IPV6: u16 = 229;
    pub(crate) const LINUX_SLL2: u16 = 276;
}

/// True for link types (LINKTYPE_*) in whose packets IP is looked for.
pub fn is_known_link(linktype: u16) -> bool {
    use types::*;
    const BSD: [u16; 8] = [NULL, LOOP, PFLOG, SLIP, SLIP_BSDOS, PPP_BSDOS, MPLS, PPP_ETHER];
    const PPP_AND_HDLC: [u16; 6] =
        [PPP, PPP_HDLC, PPP_PPPD, PPP_WITH_DIRECTION, C_HDLC, C_HDLC_WITH_DIRECTION];
    const OTHERS: [u16; 8] =
        [LINUX_SLL, LINUX_SLL2, IPV4, IPV6, FRAME_RELAY, FRAME_RELAY_WITH_DIRECTION, FDDI, TOKEN_RING];
    let lists = [&BSD[..], &PPP_AND_HDLC, &OTHERS, &RAW, &ENC, &ATM];
    linktype == linktype::ETHERNET.linktype || lists.iter().any(|list| list.contains(&linktype))
}

/// Maximum number of headers between that of the link and that of IP which are stepped over.
const HEADERS_MAX: usize = 3;
/// Length of the PPPoE header: version and type, code, session, length (RFC 2516, section 4); offset of the length.
const PPPOE_BYTES: usize = 6;
const PPPOE_LENGTH: usize = 4;
/// The PPP address and control fields (RFC 1662), which a link may omit (RFC 1661, section 6.6).
const PPP_ADDRESS: [u8; 2] = [0xff, 3];
/// Address fields of Cisco HDLC: unicast, multicast.
const HDLC_ADDRESSES: [u8; 2] = [0x0f, 0x8f];
/// LLC and SNAP headers before an EtherType (RFC 1042).
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];

/// The place of a frame's IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpPlace {
    pub(crate) offset: usize,
    pub(crate) length: Option<LengthField>,
}

/// A length field before the IP header that counts bytes up to the end of the packet, of PPPoE or IEEE 802.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthField {
    /// Offset of the 16-bit field.
    pub(crate) at: usize,
    /// Offset of the first byte that it counts.
    pub(crate) from: usize,
}

impl LengthField {
    /// The end of the packet by this field; what follows is padding.
    pub(crate) fn end(self, bytes: &[u8]) -> Option<usize> {
        be16(bytes, self.at).map(|length| self.from + usize::from(length))
    }
}

impl IpPlace {
    /// The bytes up to the end of the packet by a length field before the IP header, if there is one.
    #[inline]
    pub(crate) fn without_padding(self, bytes: &[u8]) -> &[u8] {
        let end = self.length.and_then(|length| length.end(bytes));
        end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
    }
}

/// Finds the network header of a frame of link type `linktype`. This is the one table of link types: what it knows, all
/// commands read. `None` for other link types, for what is no network layer, and if the link header is truncated.
#[inline]
pub(crate) fn network(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    if linktype == linktype::ETHERNET.linktype { ethernet(bytes) } else { not_ethernet(bytes, linktype) }
}

fn not_ethernet(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    match linktype {
        types::LINUX_SLL => Some(skip_tags(bytes, be16(bytes, 14)?, 16)),
        types::LINUX_SLL2 if bytes.len() >= 20 => Some(skip_tags(bytes, be16(bytes, 0)?, 20)),
        _ if types::RAW.contains(&linktype) => bare(bytes, 0),
        types::IPV4 => Some(found(ETHERTYPE_IPV4, 0)),
        types::IPV6 => Some(found(ETHERTYPE_IPV6, 0)),
        // The address family is in the writer's byte order, and that of IPv6 in the numbering of its system.
        types::NULL | types::LOOP => bare(bytes, 4),
        _ if types::ENC.contains(&linktype) => bare(bytes, 12),
        types::PFLOG => bare(bytes, usize::from(*bytes.first()?).next_multiple_of(4)),
        types::SLIP => bare(bytes, 16),
        types::SLIP_BSDOS => bare(bytes, 24),
        types::PPP | types::PPP_HDLC => ppp_frame(bytes, 0),
        // The first byte of the address is replaced by a direction, or preceded by one.
        types::PPP_PPPD if matches!(bytes, [0 | 1, 3, ..]) => ppp(bytes, 2),
        types::PPP_PPPD => ppp_frame(bytes, 0),
        types::PPP_WITH_DIRECTION => ppp_frame(bytes, 1),
        types::PPP_BSDOS => Some(found(ppp_ethertype(be16(bytes, 5)?)?, 24)),
        types::PPP_ETHER => Some(found(ETHERTYPE_PPPOE, 0)),
        types::C_HDLC => hdlc(bytes, 0),
        types::C_HDLC_WITH_DIRECTION => hdlc(bytes, 1),
        types::FRAME_RELAY => frame_relay(bytes, 0),
        types::FRAME_RELAY_WITH_DIRECTION => frame_relay(bytes, 1),
        types::MPLS => Some(found(ETHERTYPE_MPLS, 0)),
        types::FDDI => snap(bytes, 13),
        types::TOKEN_RING => snap(bytes, 14 + token_ring_route_bytes(bytes)?),
        _ if types::ATM.contains(&linktype) => snap(bytes, 0),
        _ => None,
    }
}

/// Offset of the IP header of a frame of any link type, also after other headers; `None` if there is none.
pub(crate) fn ip_offset(bytes: &[u8], linktype: u16) -> Option<usize> {
    Some(ip_place(bytes, network(bytes, linktype)?)?.offset)
}

/// The range of a frame's VLAN tags (Ethernet, Linux cooked 1), which may be cut out; empty without tags.
pub fn tags_range(bytes: &[u8], linktype: u16) -> std::ops::Range<usize> {
    let at = match linktype {
        linktype if linktype == linktype::ETHERNET.linktype => MACS_BYTES,
        types::LINUX_SLL => 14,
        _ => return 0..0,
    };
    let tags = be16(bytes, at).map_or(0, |tpid| skip_tags(bytes, tpid, at + 2).tags);
    at..at + tags * TAG_BYTES
}

/// The network header of an Ethernet frame.
#[inline]
pub(crate) fn ethernet(bytes: &[u8]) -> Option<Untagged> {
    Some(skip_tags(bytes, be16(bytes, MACS_BYTES)?, ETHERNET_BYTES))
}

/// The packet of a PPP frame at `at`, by its EtherType. Address and control fields may be left out, and a link that is
/// described as PPP may be of Cisco HDLC.
fn ppp_frame(bytes: &[u8], at: usize) -> Option<Untagged> {
    let frame = bytes.get(at..)?;
    match frame {
        _ if frame.starts_with(&PPP_ADDRESS) => ppp(bytes, at + PPP_ADDRESS.len()),
        [address, 0, ..] if HDLC_ADDRESSES.contains(address) => hdlc(bytes, at),
        _ => ppp(bytes, at),
    }
}

/// The packet after the PPP protocol field at `at`, which is one byte long if that is odd (RFC 1661, section 6.5).
fn ppp(bytes: &[u8], at: usize) -> Option<Untagged> {
    let first = *bytes.get(at)?;
    let (protocol, offset) = if first & 1 == 1 { (first.into(), at + 1) } else { (be16(bytes, at)?, at + 2) };
    Some(found(ppp_ethertype(protocol)?, offset))
}

/// The EtherType of a PPP protocol (RFC 1332, 5072, 3032).
fn ppp_ethertype(protocol: u16) -> Option<u16> {
    match protocol {
        0x0021 => Some(ETHERTYPE_IPV4),
        0x0057 => Some(ETHERTYPE_IPV6),
        0x0281 => Some(ETHERTYPE_MPLS),
        0x0283 => Some(ETHERTYPE_MPLS_UPSTREAM),
        _ => None,
    }
}

/// The packet of a Cisco HDLC frame at `at`: address, control, EtherType.
fn hdlc(bytes: &[u8], at: usize) -> Option<Untagged> {
    HDLC_ADDRESSES.contains(bytes.get(at)?).then_some(())?;
    Some(skip_tags(bytes, be16(bytes, at + 2)?, at + 4))
}

/// The packet of a Frame Relay frame at `at`: an address of two to four bytes (Q.922), and the header of RFC 2427, or
/// an EtherType as Cisco has it.
fn frame_relay(bytes: &[u8], at: usize) -> Option<Untagged> {
    const UNNUMBERED: u8 = 3;
    // The lowest bit of the last byte of the address is set.
    let address = bytes.get(at..)?.iter().take(4).position(|byte| byte & 1 == 1)?;
    let at = at + (1..4).contains(&address).then_some(address + 1)?;
    if *bytes.get(at)? != UNNUMBERED {
        return Some(skip_tags(bytes, be16(bytes, at)?, at + 2));
    }
    let at = if *bytes.get(at + 1)? == 0 { at + 2 } else { at + 1 };
    match *bytes.get(at)? {
        0xcc => Some(found(ETHERTYPE_IPV4, at + 1)),
        0x8e => Some(found(ETHERTYPE_IPV6, at + 1)),
        0xcf => ppp(bytes, at + 1),
        0x80 if bytes.get(at + 1..)?.starts_with(&SNAP[3..]) => {
            Some(skip_tags(bytes, be16(bytes, at + 4)?, at + 6))
        }
        _ => None,
    }
}

/// The packet after the LLC and SNAP headers at `at`.
fn snap(bytes: &[u8], at: usize) -> Option<Untagged> {
    bytes.get(at..)?.starts_with(&SNAP).then_some(())?;
    Some(skip_tags(bytes, be16(bytes, at + SNAP.len())?, at + SNAP.len() + 2))
}

/// Length of the route after the addresses of a Token Ring frame (IEEE 802.5), which the source address announces.
fn token_ring_route_bytes(bytes: &[u8]) -> Option<usize> {
    let has_route = bytes.get(8)? & 0x80 != 0;
    Some(if has_route { usize::from(bytes.get(14)? & 0x1f) } else { 0 })
}

/// An IP packet without an EtherType, at `at`.
fn bare(bytes: &[u8], at: usize) -> Option<Untagged> {
    match bytes.get(at)? >> 4 {
        4 => Some(found(ETHERTYPE_IPV4, at)),
        6 => Some(found(ETHERTYPE_IPV6, at)),
        _ => None,
    }
}

fn found(ethertype: u16, offset: usize) -> Untagged {
    Untagged { ethertype, offset, tags: 0 }
}

/// Finds the IP header at or after the network header of a frame.
#[inline]
pub(crate) fn ip_place(bytes: &[u8], network: Untagged) -> Option<IpPlace> {
    match network.ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(IpPlace { offset: network.offset, length: None }),
        _ => ip_under(bytes, network),
    }
}

/// Finds the IP header after other headers.
#[cold]
fn ip_under(bytes: &[u8], mut network: Untagged) -> Option<IpPlace> {
    let mut length = None;
    for _ in 0..=HEADERS_MAX {
        let at = network.offset;
        match network.ethertype {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Some(IpPlace { offset: at, length }),
            ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
                let at = at + skip_labels(bytes.get(at..)?)?.0;
                return matches!(bytes.get(at)? >> 4, 4 | 6).then_some(IpPlace { offset: at, length });
            }
            _ => {
                let (next, field) = under(bytes, network)?;
                (network, length) = (next, field.or(length));
            }
        }
    }
    None
}

/// Steps over one header that another network header follows, of PPPoE, SNAP or a backbone, and returns the next one,
/// with the length field of the header.
#[cold]
pub(crate) fn under(bytes: &[u8], network: Untagged) -> Option<(Untagged, Option<LengthField>)> {
    let at = network.offset;
    match network.ethertype {
        ETHERTYPE_TEB | ETHERTYPE_PBB | ETHERTYPE_FABRICPATH => {
            let at = at + inner_frame(network.ethertype);
            let inner = ethernet(bytes.get(at..)?)?;
            Some((Untagged { offset: at + inner.offset, ..inner }, None))
        }
        ETHERTYPE_PPPOE => {
            let length = LengthField { at: at + PPPOE_LENGTH, from: at + PPPOE_BYTES };
            Some((ppp(bytes, length.from)?, Some(length)))
        }
        0..=LENGTH_MAX => {
            let is_ip = |next: &Untagged| [ETHERTYPE_IPV4, ETHERTYPE_IPV6].contains(&next.ethertype);
            let next = snap(bytes, at).filter(is_ip)?;
            // Linux cooked has no length there, but a small number of its own.
            let is_length = network.ethertype >= 8 && be16(bytes, at - 2) == Some(network.ethertype);
            Some((next, is_length.then_some(LengthField { at: at - 2, from: at })))
        }
        _ => None,
    }
}

/// Offset of the Ethernet frame after a header of this EtherType.
fn inner_frame(ethertype: u16) -> usize {
    match ethertype {
        ETHERTYPE_PBB => 4,
        ETHERTYPE_FABRICPATH => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list and the table are the same.
    #[test]
    fn a_link_type_is_known_if_some_packet_of_it_has_a_network_header() {
        let with = |head: &[u8]| [head, &[0x45; 90]].concat();
        let mut ppp_bsdos = with(&[]);
        ppp_bsdos[5..7].copy_from_slice(&[0, 0x21]);
        let snap = |before: usize| with(&[&vec![0x50; before][..], &SNAP, &[8, 0]].concat());
        let frames = [
            with(&[]),
            with(&[0x21]),
            with(&[0, 0x21]),
            with(&[0x0f, 0, 8, 0]),
            with(&[1, 0x0f, 0, 8, 0]),
            with(&[0x18, 0x41, 3, 0xcc]),
            with(&[1, 0x18, 0x41, 3, 0xcc]),
            ppp_bsdos,
            snap(0),
            snap(13),
            snap(14),
        ];
        for linktype in 0..=u16::MAX {
            let is_found = frames.iter().any(|frame| network(frame, linktype).is_some());
            assert_eq!(is_known_link(linktype), is_found, "{linktype}");
        }
    }
}
