//! ERSPAN types I, II and III (draft-foschiano-erspan-03, section 4).

use super::packet::{Stop, Walk, damaged};
use super::session::tick_ns;
use super::{Direction, ErspanTime, Reason, TunnelKind, Upper};
use crate::net::TPID_CUSTOMER;

/// En field of type II: the frame had an 802.1Q tag, which should have been removed.
const ENCAPSULATION_8021Q: u16 = 2;
/// T bit and session id, in the second word of both types.
const TRUNCATED: u16 = 0x0400;
pub(super) const SESSION: u16 = 0x03ff;
/// The FT field of type III.
const FRAME_ETHERNET: u16 = 0;
const FRAME_IP: u16 = 2;

/// Decapsulates ERSPAN after its GRE header was read.
///
/// Type I has no header: it is recognised by GRE without a sequence number and without type III's protocol. Otherwise
/// the version decides, as in Wireshark: type III also occurs without a sequence number.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>, is_iii: bool) -> Result<(), Stop> {
    if walk.found.sequence.is_none() && !is_iii {
        return walk.ethernet(TunnelKind::Erspan, None);
    }
    let head = walk.packet.take::<8>(TunnelKind::Erspan)?;
    match head[0] >> 4 {
        1 => type_ii(head, walk),
        2 => type_iii(head, walk),
        _ => Err(damaged(TunnelKind::Erspan, Reason::Version)),
    }
}

/// Ver 4, VLAN 12, COS 3, En 2, T 1, session 10; reserved 12, index 20.
fn type_ii(head: &[u8; 8], walk: &mut Walk<'_>) -> Result<(), Stop> {
    let [vlan, rest] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
    if rest & TRUNCATED != 0 {
        walk.packet.truncated(None);
    }
    // COS has the same place in the second word as in a TCI. A removed ISL header (En 1) is not an 802.1Q tag, so none
    // is restored.
    if rest >> 11 & 3 == ENCAPSULATION_8021Q && !has_tag(walk, vlan & 0x0fff) {
        walk.found.tag = Some((TPID_CUSTOMER, rest & 0xe000 | vlan & 0x0fff));
    }
    walk.ethernet(TunnelKind::Erspan, Some(u32::from(rest & SESSION)))
}

/// True if the mirrored frame starts with a tag of `vlan`: some devices set En to 2 and leave the tag in the frame. The
/// priority is not compared, because the header has no DEI; the frame keeps its own.
fn has_tag(walk: &Walk<'_>, vlan: u16) -> bool {
    walk.packet.peek::<16>().is_some_and(|frame| {
        let [tpid, tci] = [[frame[12], frame[13]], [frame[14], frame[15]]].map(u16::from_be_bytes);
        tpid == TPID_CUSTOMER && tci & 0x0fff == vlan
    })
}

/// Ver 4, VLAN 12, COS 3, BSO 2, T 1, session 10; timestamp 32; SGT 16, P 1, FT 5, hardware 6, D 1, Gra 2, O 1. No
/// field shows whether a tag was removed, so none is restored.
fn type_iii(head: &[u8; 8], walk: &mut Walk<'_>) -> Result<(), Stop> {
    let &[_, _, high, low] = walk.packet.take(TunnelKind::Erspan)?;
    let [first, last] = [[head[2], head[3]], [high, low]].map(u16::from_be_bytes);
    let mut upper = None;
    if last & 1 != 0 {
        upper = upper_of(walk.packet.take::<8>(TunnelKind::Erspan)?);
    }
    if first & TRUNCATED != 0 {
        walk.packet.truncated(None);
    }
    let timestamp = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let tick_ns = tick_ns((last >> 1 & 3) as u8);
    walk.found.time = Some(ErspanTime { timestamp, tick_ns, upper });
    walk.found.direction = Some(if last & 8 == 0 { Direction::Ingress } else { Direction::Egress });
    let session = Some(u32::from(first & SESSION));
    match last >> 10 & 0x1f {
        FRAME_ETHERNET => walk.ethernet(TunnelKind::Erspan, session),
        FRAME_IP => walk.ip(None, TunnelKind::Erspan, session),
        _ => Err(damaged(TunnelKind::Erspan, Reason::Flags)),
    }
}

/// The platform subheader: platform 6 bits, 26 platform-specific bits, and 32 bits of time on some platforms.
fn upper_of(subheader: &[u8; 8]) -> Option<Upper> {
    let word = u32::from_be_bytes([subheader[4], subheader[5], subheader[6], subheader[7]]);
    match subheader[0] >> 2 {
        3 | 7 => Some(Upper::Ticks(word)),
        5 | 6 => Some(Upper::Seconds(word)),
        _ => None,
    }
}
