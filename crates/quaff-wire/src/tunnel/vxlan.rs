//! VXLAN (RFC 7348) and VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).

use super::packet::{Stop, Walk, damaged};
use super::{Reason, TunnelKind, mpls};

/// I flag: the VNI is valid.
const INSTANCE: u8 = 0x08;
/// GPE, P flag: there is a next protocol; otherwise the payload is Ethernet.
const NEXT_PROTOCOL: u8 = 0x04;
/// GPE, O flag: an OAM packet.
const OAM: u8 = 0x01;
/// GPE: the version bits.
const VERSION: u8 = 0x30;

/// Decapsulates VXLAN. All flags but I are ignored on receipt.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let head = walk.packet.take::<8>(TunnelKind::Vxlan)?;
    if head[0] & INSTANCE == 0 {
        return Err(damaged(TunnelKind::Vxlan, Reason::Flags));
    }
    walk.ethernet(TunnelKind::Vxlan, vni(head))
}

/// Decapsulates VXLAN-GPE.
pub(super) fn gpe(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let head = walk.packet.take::<8>(TunnelKind::Vxlan)?;
    let flags = head[0];
    if flags & VERSION != 0 {
        return Err(damaged(TunnelKind::Vxlan, Reason::Version));
    }
    if flags & INSTANCE == 0 {
        return Err(damaged(TunnelKind::Vxlan, Reason::Flags));
    }
    if flags & OAM != 0 {
        return Err(Stop::Control);
    }
    match head[3] {
        _ if flags & NEXT_PROTOCOL == 0 => walk.ethernet(TunnelKind::Vxlan, vni(head)),
        1 => walk.ip(Some(4), TunnelKind::Vxlan, vni(head)),
        2 => walk.ip(Some(6), TunnelKind::Vxlan, vni(head)),
        3 => walk.ethernet(TunnelKind::Vxlan, vni(head)),
        5 => mpls::inside(walk, TunnelKind::Vxlan, vni(head)),
        _ => Err(Stop::Plain),
    }
}

fn vni(head: &[u8; 8]) -> Option<u32> {
    Some(u32::from_be_bytes([0, head[4], head[5], head[6]]))
}
