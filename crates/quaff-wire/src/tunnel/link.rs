//! The link header of a frame, and what may stand between it and the tunnel: Ethernet, VLAN tags, Linux cooked, PPP,
//! HDLC, Frame Relay, loopbacks, bare IP; PPPoE, SNAP, backbone Ethernet.

use super::packet::{Stop, Walk};
use super::{ip, mpls};
use crate::net::vlan::Untagged;
use crate::net::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, be16, link};

/// Maximum number of headers between that of the link and that of the tunnel.
const HEADERS_MAX: usize = 3;

/// Decapsulates one tunnel of a frame of link type `linktype`.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>, linktype: u16) -> Result<(), Stop> {
    let mut network = link::network(walk.packet.rest(), linktype).ok_or(Stop::Plain)?;
    if !may_carry(network.ethertype) {
        network = under(walk, network)?;
    }
    walk.packet.skip_outer(network.offset)?;
    match network.ethertype {
        ETHERTYPE_IPV4 => ip::v4(walk),
        ETHERTYPE_IPV6 => ip::v6(walk),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
            walk.source = None;
            mpls::strip(walk)
        }
        _ => Err(Stop::Plain),
    }
}

/// True for network headers that a tunnel may follow.
#[inline]
fn may_carry(ethertype: u16) -> bool {
    matches!(ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6 | ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM)
}

/// The network header after PPPoE, SNAP or a backbone's headers. Where one of them has a length, the packet ends there.
#[cold]
fn under(walk: &mut Walk<'_>, mut network: Untagged) -> Result<Untagged, Stop> {
    for _ in 0..HEADERS_MAX {
        let bytes = walk.packet.rest();
        let (next, field) = link::under(bytes, network).ok_or(Stop::Plain)?;
        if let Some(field) = field
            && let Some(length) = be16(bytes, field.at).filter(|length| *length > 0)
        {
            walk.packet.limit(field.from as u32 + u32::from(length));
        }
        if may_carry(next.ethertype) {
            return Ok(next);
        }
        network = next;
    }
    Err(Stop::Plain)
}
