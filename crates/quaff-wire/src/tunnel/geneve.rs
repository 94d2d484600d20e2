//! Geneve (RFC 8926).

use super::link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_TEB};
use super::packet::{Carrier, Found, Packet, Stop, damaged};
use super::{Control, Kind, Reason, mpls};

/// O: the packet carries a control message.
const CONTROL: u8 = 0x80;

/// Takes off Geneve with its options, whatever they are.
#[inline]
pub(super) fn strip(packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    let (head, packet) = packet.take::<8>(Kind::Geneve)?;
    if head[0] >> 6 != 0 {
        return Err(damaged(Kind::Geneve, Reason::Version));
    }
    if head[1] & CONTROL != 0 {
        return Err(Stop::Control(Control::GeneveControl));
    }
    let packet = packet.skip(usize::from(head[0] & 0x3f) * 4, Kind::Geneve)?;
    let vni = u32::from_be_bytes([0, head[4], head[5], head[6]]);
    let session = carrier.session(Kind::Geneve, Some(vni));
    match u16::from_be_bytes([head[2], head[3]]) {
        ETHERTYPE_TEB => Found::ethernet(packet, session),
        ETHERTYPE_IPV4 => Found::ip(packet, Some(4), session),
        ETHERTYPE_IPV6 => Found::ip(packet, Some(6), session),
        ETHERTYPE_MPLS => Ok(Found { session, ..mpls::strip(packet, carrier)? }),
        _ => Err(Stop::Plain),
    }
}
