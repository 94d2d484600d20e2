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

/// LINKTYPE_NULL, LINKTYPE_LOOP: BSD loopback with an address family of 4 bytes.
pub(crate) const NULL: u16 = 0;
pub(crate) const LOOP: u16 = 108;
/// LINKTYPE_PPP.
const PPP: u16 = 9;
/// LINKTYPE_PPP_HDLC: PPP in HDLC-like framing (RFC 1662), or Cisco HDLC.
const PPP_HDLC: u16 = 50;
/// LINKTYPE_C_HDLC: Cisco HDLC: address, control, EtherType.
const C_HDLC: u16 = 104;
/// LINKTYPE_LINUX_SLL.
pub(crate) const LINUX_SLL: u16 = 113;
/// LINKTYPE_LINUX_SLL2.
pub(crate) const LINUX_SLL2: u16 = 276;
/// LINKTYPE_IPV4.
pub(crate) const IPV4: u16 = 228;
/// LINKTYPE_IPV6.
pub(crate) const IPV6: u16 = 229;

/// Maximum nesting of Ethernet headers that is followed.
const ETHERNETS_MAX: u8 = 2;
/// Length of the PPPoE header: version and type, code, session, length (RFC 2516, section 4); offset of the length.
const PPPOE_BYTES: usize = 6;
const PPPOE_LENGTH: usize = 4;
/// The PPP address and control fields (RFC 1662), which a link may omit.
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

/// Finds the network header of a frame of link type `linktype`: Ethernet, Linux cooked 1 and 2, PPP, Cisco HDLC, bare
/// IP;
/// `None` for others, and if the link header is truncated.
#[inline]
pub(crate) fn network(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    if linktype == linktype::ETHERNET.linktype { ethernet(bytes) } else { not_ethernet(bytes, linktype) }
}

fn not_ethernet(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    match linktype {
        LINUX_SLL => Some(skip_tags(bytes, be16(bytes, 14)?, 16)),
        LINUX_SLL2 if bytes.len() >= 20 => Some(skip_tags(bytes, be16(bytes, 0)?, 20)),
        PPP => ppp(bytes, if bytes.starts_with(&PPP_ADDRESS) { PPP_ADDRESS.len() } else { 0 }),
        PPP_HDLC | C_HDLC if HDLC_ADDRESSES.contains(bytes.first()?) => {
            Some(skip_tags(bytes, be16(bytes, 2)?, 4))
        }
        PPP_HDLC if bytes.starts_with(&PPP_ADDRESS) => ppp(bytes, PPP_ADDRESS.len()),
        IPV4 => Some(bare(ETHERTYPE_IPV4)),
        IPV6 => Some(bare(ETHERTYPE_IPV6)),
        linktype if linktype == linktype::RAW.linktype => match bytes.first()? >> 4 {
            4 => Some(bare(ETHERTYPE_IPV4)),
            6 => Some(bare(ETHERTYPE_IPV6)),
            _ => None,
        },
        _ => None,
    }
}

/// The range of a frame's VLAN tags (Ethernet, Linux cooked 1), which may be cut out; empty without tags.
pub fn tags_range(bytes: &[u8], linktype: u16) -> std::ops::Range<usize> {
    let at = match linktype {
        linktype if linktype == linktype::ETHERNET.linktype => MACS_BYTES,
        LINUX_SLL => 14,
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

/// The packet after the PPP protocol field at `at` (RFC 1332, 5072, 3032), by its EtherType.
fn ppp(bytes: &[u8], at: usize) -> Option<Untagged> {
    let ethertype = match be16(bytes, at)? {
        0x0021 => ETHERTYPE_IPV4,
        0x0057 => ETHERTYPE_IPV6,
        0x0281 => ETHERTYPE_MPLS,
        0x0283 => ETHERTYPE_MPLS_UPSTREAM,
        _ => return None,
    };
    Some(Untagged { ethertype, offset: at + 2, tags: 0 })
}

/// Finds the IP header at or after the network header of a frame.
#[inline]
pub(crate) fn ip_place(bytes: &[u8], network: Untagged) -> Option<IpPlace> {
    match network.ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(IpPlace { offset: network.offset, length: None }),
        _ => ip_under(bytes, network, ETHERNETS_MAX),
    }
}

/// Finds the IP header after other headers; up to `deeper` Ethernet headers are followed.
#[cold]
fn ip_under(bytes: &[u8], network: Untagged, deeper: u8) -> Option<IpPlace> {
    let (at, found) = (network.offset, |offset, length| Some(IpPlace { offset, length }));
    match network.ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => found(at, None),
        ETHERTYPE_TEB | ETHERTYPE_PBB | ETHERTYPE_FABRICPATH if deeper > 0 => {
            let at = at + inner_frame(network.ethertype);
            let inner = ethernet(bytes.get(at..)?)?;
            ip_under(bytes, Untagged { offset: at + inner.offset, ..inner }, deeper - 1)
        }
        ETHERTYPE_PPPOE => {
            let length = LengthField { at: at + PPPOE_LENGTH, from: at + PPPOE_BYTES };
            let inner = ip_under(bytes, ppp(bytes, length.from)?, 0)?;
            found(inner.offset, Some(length))
        }
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
            let at = at + skip_labels(bytes.get(at..)?)?.0;
            matches!(bytes.get(at)? >> 4, 4 | 6).then_some(IpPlace { offset: at, length: None })
        }
        0..=LENGTH_MAX => {
            let snap = bytes.get(at..)?.first_chunk::<8>()?;
            let is_ip = snap.starts_with(&SNAP) && [ETHERTYPE_IPV4, ETHERTYPE_IPV6].contains(&be16(snap, 6)?);
            is_ip.then_some(IpPlace { offset: at + 8, length: Some(LengthField { at: at - 2, from: at }) })
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

fn bare(ethertype: u16) -> Untagged {
    Untagged { ethertype, offset: 0, tags: 0 }
}
