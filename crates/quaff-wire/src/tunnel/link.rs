//! From the first byte of a frame to its network layer: Ethernet, VLAN tags, Linux cooked, bare IP.

use super::packet::{Carrier, Found, Packet, Stop};
use super::{Kinds, ip, mpls};
use crate::linktype;

/// LINKTYPE_LINUX_SLL.
const LINUX_SLL: u16 = 113;
/// LINKTYPE_LINUX_SLL2.
const LINUX_SLL2: u16 = 276;
/// LINKTYPE_IPV4.
const IPV4: u16 = 228;
/// LINKTYPE_IPV6.
const IPV6: u16 = 229;

/// EtherType of IPv4.
pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of MPLS, downstream-assigned labels (RFC 5332).
pub(super) const ETHERTYPE_MPLS: u16 = 0x8847;
/// EtherType of MPLS, upstream-assigned labels.
pub(super) const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
/// Transparent Ethernet bridging: a whole Ethernet frame (RFC 7637, 8926).
pub(super) const ETHERTYPE_TEB: u16 = 0x6558;

/// Takes one tunnel off a frame.
#[inline]
pub(super) fn strip(packet: Packet<'_>, link: u16, kinds: Kinds) -> Result<Found<'_>, Stop> {
    let (ethertype, packet) = network(packet, link)?;
    match ethertype {
        ETHERTYPE_IPV4 => ip::v4(packet, kinds),
        ETHERTYPE_IPV6 => ip::v6(packet, kinds),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => mpls::strip(packet, Carrier { kinds, source: None }),
        _ => Err(Stop::Plain),
    }
}

/// The EtherType of what is in the frame, and where that begins.
#[inline]
fn network(packet: Packet<'_>, link: u16) -> Result<(u16, Packet<'_>), Stop> {
    if link == linktype::ETHERNET.linktype {
        return ethertype(packet, 12);
    }
    match link {
        LINUX_SLL => ethertype(packet, 14),
        LINUX_SLL2 => {
            let Some(&[high, low]) = packet.peek() else { return Err(Stop::Plain) };
            tagged(u16::from_be_bytes([high, low]), packet.skip_outer(20)?)
        }
        IPV4 => Ok((ETHERTYPE_IPV4, packet)),
        IPV6 => Ok((ETHERTYPE_IPV6, packet)),
        link if link == linktype::RAW.linktype => match packet.peek() {
            Some(&[first]) if first >> 4 == 4 => Ok((ETHERTYPE_IPV4, packet)),
            Some(&[first]) if first >> 4 == 6 => Ok((ETHERTYPE_IPV6, packet)),
            _ => Err(Stop::Plain),
        },
        _ => Err(Stop::Plain),
    }
}

/// The EtherType that stands after `before` bytes, or behind the tags that stand there.
#[inline]
fn ethertype(packet: Packet<'_>, before: usize) -> Result<(u16, Packet<'_>), Stop> {
    let Some(&[high, low]) = packet.rest().get(before..).and_then(<[u8]>::first_chunk) else {
        return Err(Stop::Plain);
    };
    tagged(u16::from_be_bytes([high, low]), packet.skip_outer(before + 2)?)
}

/// Steps over any number of VLAN tags.
#[inline]
fn tagged(mut ethertype: u16, mut packet: Packet<'_>) -> Result<(u16, Packet<'_>), Stop> {
    while is_tag(ethertype) {
        let Some(&[_, _, high, low]) = packet.peek() else { return Err(Stop::Plain) };
        ethertype = u16::from_be_bytes([high, low]);
        packet = packet.skip_outer(4)?;
    }
    Ok((ethertype, packet))
}

/// Whether this is the TPID of a VLAN tag: 802.1Q, 802.1ad, or what was used before 802.1ad.
#[inline]
pub(super) fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}
