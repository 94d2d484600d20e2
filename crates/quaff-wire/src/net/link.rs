//! The network header of a frame, for each link type that quaff parses.

use super::be16;
use super::ethernet::{ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, MACS_BYTES};
use super::vlan::{Untagged, skip_tags};
use crate::linktype;

/// LINKTYPE_LINUX_SLL.
pub(crate) const LINUX_SLL: u16 = 113;
/// LINKTYPE_LINUX_SLL2.
pub(crate) const LINUX_SLL2: u16 = 276;
/// LINKTYPE_IPV4.
pub(crate) const IPV4: u16 = 228;
/// LINKTYPE_IPV6.
pub(crate) const IPV6: u16 = 229;

/// Finds the network header of a frame of link type `linktype`: Ethernet, Linux cooked 1 and 2, bare IP; `None` for
/// others, and where the link header is cut.
#[inline]
pub(crate) fn network(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    if linktype == linktype::ETHERNET.linktype { ethernet(bytes) } else { not_ethernet(bytes, linktype) }
}

fn not_ethernet(bytes: &[u8], linktype: u16) -> Option<Untagged> {
    match linktype {
        LINUX_SLL => Some(skip_tags(bytes, be16(bytes, 14)?, 16)),
        LINUX_SLL2 if bytes.len() >= 20 => Some(skip_tags(bytes, be16(bytes, 0)?, 20)),
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

/// The network header of an Ethernet frame.
#[inline]
pub(crate) fn ethernet(bytes: &[u8]) -> Option<Untagged> {
    Some(skip_tags(bytes, be16(bytes, MACS_BYTES)?, ETHERNET_BYTES))
}

fn bare(ethertype: u16) -> Untagged {
    Untagged { ethertype, offset: 0, tags: 0 }
}
