//! Geneve (RFC 8926).

use super::packet::{Stop, Walk, damaged};
use super::{Reason, TunnelKind, mpls};
use crate::net::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_TEB};

/// O flag: the packet carries a control message.
const CONTROL: u8 = 0x80;

/// Decapsulates Geneve; options are ignored.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let head = walk.packet.take::<8>(TunnelKind::Geneve)?;
    if head[0] >> 6 != 0 {
        return Err(damaged(TunnelKind::Geneve, Reason::Version));
    }
    if head[1] & CONTROL != 0 {
        return Err(Stop::Control);
    }
    walk.packet.skip(usize::from(head[0] & 0x3f) * 4, TunnelKind::Geneve)?;
    let vni = Some(u32::from_be_bytes([0, head[4], head[5], head[6]]));
    match u16::from_be_bytes([head[2], head[3]]) {
        ETHERTYPE_TEB => walk.ethernet(TunnelKind::Geneve, vni),
        ETHERTYPE_IPV4 => walk.ip(Some(4), TunnelKind::Geneve, vni),
        ETHERTYPE_IPV6 => walk.ip(Some(6), TunnelKind::Geneve, vni),
        ETHERTYPE_MPLS => mpls::inside(walk, TunnelKind::Geneve, vni),
        _ => Err(Stop::Plain),
    }
}
