//! ERSPAN types I, II and III (draft-foschiano-erspan-03, section 4).

use super::packet::{Carrier, Found, Packet, Stop, damaged};
use super::{Direction, ErspanTime, Granularity, Kind, Reason, Upper};

/// TPID of the tag that type II says was removed.
const TPID_8021Q: u16 = 0x8100;
/// The En field of type II: the frame had an 802.1Q tag, which is not in it any more.
const ENCAPSULATION_8021Q: u16 = 2;
/// The FT field of type III.
const FRAME_ETHERNET: u16 = 0;
const FRAME_IP: u16 = 2;

/// Takes off ERSPAN behind its GRE header.
///
/// Type I has no header: that is when GRE has no sequence number and is not of type III's
/// protocol. Else the version says the type, as Wireshark has it too: type III is also seen
/// without a sequence number.
#[inline]
pub(super) fn strip(
    packet: Packet<'_>,
    carrier: Carrier,
    is_iii: bool,
    sequence: Option<u32>,
) -> Result<Found<'_>, Stop> {
    if sequence.is_none() && !is_iii {
        return Found::ethernet(packet, carrier.session(Kind::Erspan, None));
    }
    let (head, rest) = packet.take::<8>(Kind::Erspan)?;
    let found = match head[0] >> 4 {
        1 => type_ii(head, rest, carrier)?,
        2 => type_iii(head, rest, carrier)?,
        _ => return Err(damaged(Kind::Erspan, Reason::Version)),
    };
    Ok(Found { sequence, ..found })
}

/// Ver 4, VLAN 12, COS 3, En 2, T 1, session 10; reserved 12, index 20.
fn type_ii<'a>(head: &[u8; 8], mut packet: Packet<'a>, carrier: Carrier) -> Result<Found<'a>, Stop> {
    let [vlan, rest] = [u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]])];
    if rest & 0x0400 != 0 {
        packet.truncated(None);
    }
    let found = Found::ethernet(packet, carrier.session(Kind::Erspan, Some(u32::from(rest & 0x03ff))))?;
    // COS has the place in the second word that it has in a TCI. An ISL header (En 1) was
    // removed too, but that is no 802.1Q tag, and a frame is not given one that it never had.
    let removed = rest >> 11 & 3 == ENCAPSULATION_8021Q;
    Ok(Found { tag: removed.then_some((TPID_8021Q, rest & 0xe000 | vlan & 0x0fff)), ..found })
}

/// Ver 4, VLAN 12, COS 3, BSO 2, T 1, session 10; timestamp 32; SGT 16, P 1, FT 5, hardware 6, D 1,
/// Gra 2, O 1. No field says whether a tag was removed, so none is put back.
fn type_iii<'a>(head: &[u8; 8], packet: Packet<'a>, carrier: Carrier) -> Result<Found<'a>, Stop> {
    let (&[_, _, high, low], mut packet) = packet.take(Kind::Erspan)?;
    let (first, last) = (u16::from_be_bytes([head[2], head[3]]), u16::from_be_bytes([high, low]));
    let mut upper = None;
    if last & 1 != 0 {
        let (subheader, rest) = packet.take::<8>(Kind::Erspan)?;
        upper = upper_of(subheader);
        packet = rest;
    }
    if first & 0x0400 != 0 {
        packet.truncated(None);
    }
    let session = carrier.session(Kind::Erspan, Some(u32::from(first & 0x03ff)));
    let found = match last >> 10 & 0x1f {
        FRAME_ETHERNET => Found::ethernet(packet, session)?,
        FRAME_IP => Found::ip(packet, None, session)?,
        _ => return Err(damaged(Kind::Erspan, Reason::Flags)),
    };
    let timestamp = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let granularity = Granularity::of((last >> 1 & 3) as u8);
    let direction = if last & 8 == 0 { Direction::Ingress } else { Direction::Egress };
    Ok(Found {
        time: Some(ErspanTime { timestamp, granularity, upper }),
        direction: Some(direction),
        ..found
    })
}

/// The platform subheader: platform 6 bits, 26 bits of its own, and 32 bits of time in some.
fn upper_of(subheader: &[u8; 8]) -> Option<Upper> {
    let word = u32::from_be_bytes([subheader[4], subheader[5], subheader[6], subheader[7]]);
    match subheader[0] >> 2 {
        3 | 7 => Some(Upper::Ticks(word)),
        5 | 6 => Some(Upper::Seconds(word)),
        _ => None,
    }
}
