//! VXLAN (RFC 7348) and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).

use super::packet::{Carrier, Found, Packet, Stop, damaged};
use super::{Control, Kind, Reason, mpls};

/// I: the VNI is valid.
const INSTANCE: u8 = 0x08;
/// GPE, P: there is a next protocol; without it, it is Ethernet.
const NEXT_PROTOCOL: u8 = 0x04;
/// GPE, O: the packet is for operations, and not for a tenant.
const OAM: u8 = 0x01;
/// GPE: the two bits of the version.
const VERSION: u8 = 0x30;

/// VXLAN. All bits but I are to be ignored on receipt.
#[inline]
pub(super) fn strip(packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    let (head, packet) = packet.take::<8>(Kind::Vxlan)?;
    if head[0] & INSTANCE == 0 {
        return Err(damaged(Kind::Vxlan, Reason::Flags));
    }
    Found::ethernet(packet, carrier.session(Kind::Vxlan, Some(vni(head))))
}

/// VXLAN-GPE.
pub(super) fn gpe(packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    let (head, packet) = packet.take::<8>(Kind::Vxlan)?;
    let flags = head[0];
    if flags & VERSION != 0 {
        return Err(damaged(Kind::Vxlan, Reason::Version));
    }
    if flags & INSTANCE == 0 {
        return Err(damaged(Kind::Vxlan, Reason::Flags));
    }
    if flags & OAM != 0 {
        return Err(Stop::Control(Control::VxlanOam));
    }
    let session = carrier.session(Kind::Vxlan, Some(vni(head)));
    match head[3] {
        _ if flags & NEXT_PROTOCOL == 0 => Found::ethernet(packet, session),
        1 => Found::ip(packet, Some(4), session),
        2 => Found::ip(packet, Some(6), session),
        3 => Found::ethernet(packet, session),
        5 => Ok(Found { session, ..mpls::strip(packet, carrier)? }),
        _ => Err(Stop::Plain),
    }
}

fn vni(head: &[u8; 8]) -> u32 {
    u32::from_be_bytes([0, head[4], head[5], head[6]])
}
