//! The link header of a frame: Ethernet, VLAN tags, Linux cooked, PPP, HDLC, bare IP.

use super::packet::{Stop, Walk};
use super::{ip, mpls};
use crate::net::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, link};

/// Decapsulates one tunnel of a frame of link type `linktype`.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>, linktype: u16) -> Result<(), Stop> {
    let network = link::network(walk.packet.rest(), linktype).ok_or(Stop::Plain)?;
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
