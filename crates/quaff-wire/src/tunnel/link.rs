//! From the first byte of a frame to its network layer: Ethernet, VLAN tags, Linux cooked, bare IP.

use super::packet::{Packet, Stop, Walk};
use super::{ip, mpls};
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

/// Takes one tunnel off a frame of link type `link`.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>, link: u16) -> Result<(), Stop> {
    match network(&mut walk.packet, link)? {
        ETHERTYPE_IPV4 => ip::v4(walk),
        ETHERTYPE_IPV6 => ip::v6(walk),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
            walk.source = None;
            mpls::strip(walk)
        }
        _ => Err(Stop::Plain),
    }
}

/// Moves to what is in the frame, and returns its EtherType.
#[inline]
fn network(packet: &mut Packet<'_>, link: u16) -> Result<u16, Stop> {
    if link == linktype::ETHERNET.linktype {
        return ethertype(packet, 12);
    }
    match link {
        LINUX_SLL => ethertype(packet, 14),
        LINUX_SLL2 => {
            let Some(&ethertype) = packet.peek() else { return Err(Stop::Plain) };
            packet.skip_outer(20)?;
            behind_tags(u16::from_be_bytes(ethertype), packet)
        }
        IPV4 => Ok(ETHERTYPE_IPV4),
        IPV6 => Ok(ETHERTYPE_IPV6),
        link if link == linktype::RAW.linktype => match packet.peek() {
            Some(&[first]) if first >> 4 == 4 => Ok(ETHERTYPE_IPV4),
            Some(&[first]) if first >> 4 == 6 => Ok(ETHERTYPE_IPV6),
            _ => Err(Stop::Plain),
        },
        _ => Err(Stop::Plain),
    }
}

/// The EtherType that stands after `before` bytes, or behind the tags that stand there.
#[inline]
fn ethertype(packet: &mut Packet<'_>, before: usize) -> Result<u16, Stop> {
    let Some(&ethertype) = packet.rest().get(before..).and_then(<[u8]>::first_chunk) else {
        return Err(Stop::Plain);
    };
    packet.skip_outer(before + 2)?;
    behind_tags(u16::from_be_bytes(ethertype), packet)
}

/// Steps over any number of VLAN tags.
#[inline]
fn behind_tags(mut ethertype: u16, packet: &mut Packet<'_>) -> Result<u16, Stop> {
    while is_tag(ethertype) {
        let Some(&[_, _, high, low]) = packet.peek() else { return Err(Stop::Plain) };
        ethertype = u16::from_be_bytes([high, low]);
        packet.skip_outer(4)?;
    }
    Ok(ethertype)
}

/// Whether this is the TPID of a VLAN tag: 802.1Q, 802.1ad, or what was used before 802.1ad.
#[inline]
pub(super) fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, 0x8100 | 0x88a8 | 0x9100)
}
