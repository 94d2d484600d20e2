//! The outer IPv4 or IPv6 header of a tunnel: offset, length and protocol of its payload.
//!
//! An invalid outer IP header is not a damaged tunnel: such a packet is plain.

use super::packet::{Stop, Walk};
use super::{TunnelFragment, TunnelKind, TunnelKinds, gre, l2tp, mpls, udp};
use crate::net::ipv4::{IPV4_BYTES, Ipv4};
use crate::net::ipv6::{self, EXTENSIONS_MAX, FRAGMENT, FRAGMENT_BYTES, IPV6_BYTES, Ipv6, is_extension};
use crate::net::{DatagramId, Fragment, GRE, UDP};
use std::net::IpAddr;

/// Protocol numbers (IANA).
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const L2TP: u8 = 115;
const MPLS: u8 = 137;

/// IPv4 (RFC 791).
#[inline]
pub(super) fn v4(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let Some(header) = Ipv4::new(walk.packet.rest()) else { return Err(Stop::Plain) };
    let protocol = header.protocol();
    if !could_carry(protocol, walk.kinds) || !header.is_v4() {
        return Err(Stop::Plain);
    }
    let (header_bytes, total_bytes) = (header.header_bytes(), header.total_bytes());
    // A total length of 0 means a large packet that the kernel has not yet segmented (BIG TCP).
    if total_bytes != 0 {
        walk.packet.limit(total_bytes.into());
    }
    if header_bytes < IPV4_BYTES || (total_bytes != 0 && usize::from(total_bytes) < header_bytes) {
        return Err(Stop::Plain);
    }
    let source = IpAddr::V4(header.source());
    walk.source = Some(source);
    let start = walk.packet.at();
    walk.packet.skip_outer(header_bytes)?;
    let Some(fragment) = header.fragment() else { return payload(protocol, walk) };
    let addresses = [source, header.destination().into()];
    let datagram = DatagramId { addresses, id: fragment.id, protocol };
    Err(stop_at_fragment(walk, datagram, protocol, start, fragment))
}

/// IPv6 (RFC 8200).
#[inline]
pub(super) fn v6(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let Some(header) = Ipv6::new(walk.packet.rest()) else { return Err(Stop::Plain) };
    let next = header.next_header();
    if !(could_carry(next, walk.kinds) || is_extension(next)) || !header.is_v6() {
        return Err(Stop::Plain);
    }
    // A payload length of 0 means a jumbogram (RFC 2675), or a packet not yet segmented.
    let payload_bytes = header.payload_bytes();
    if payload_bytes != 0 {
        walk.packet.limit(IPV6_BYTES as u32 + u32::from(payload_bytes));
    }
    let source = IpAddr::V6(header.source());
    walk.source = Some(source);
    let start = walk.packet.at();
    walk.packet.skip_outer(IPV6_BYTES)?;
    if !is_extension(next) {
        return payload(next, walk);
    }
    extensions(next, Some((start, [source, header.destination().into()])), walk)
}

/// Skips extension headers.
///
/// `header` is the offset of the IPv6 header, and its addresses. A reassembled datagram has none, and a fragment header
/// in it is meaningless.
fn extensions(mut next: u8, header: Option<(usize, [IpAddr; 2])>, walk: &mut Walk<'_>) -> Result<(), Stop> {
    for _ in 0..EXTENSIONS_MAX {
        if !is_extension(next) {
            return payload(next, walk);
        }
        let Some(extension) = walk.packet.peek::<FRAGMENT_BYTES>() else { return Err(Stop::Plain) };
        let after = extension[0];
        if next == FRAGMENT {
            let (start, addresses) = header.ok_or(Stop::Plain)?;
            walk.packet.skip_outer(FRAGMENT_BYTES)?;
            if let Some(fragment) = ipv6::fragment(extension) {
                let datagram = DatagramId { addresses, id: fragment.id, protocol: FRAGMENT };
                return Err(stop_at_fragment(walk, datagram, after, start, fragment));
            }
        } else {
            walk.packet.skip_outer(ipv6::extension_bytes(next, extension[1]))?;
        }
        next = after;
    }
    Err(Stop::Plain)
}

/// Decapsulates the payload of a reassembled datagram.
pub(super) fn datagram(protocol: u8, walk: &mut Walk<'_>) -> Result<(), Stop> {
    extensions(protocol, None, walk)
}

/// True if a tunnel of these kinds may be in this protocol. A marker packet is UDP, too.
#[inline]
fn could_carry(protocol: u8, kinds: TunnelKinds) -> bool {
    match protocol {
        GRE => kinds.intersects(gre::KINDS),
        UDP => kinds.intersects(udp::KINDS.with(TunnelKind::Erspan)),
        IPV4 | IPV6 => kinds.contains(TunnelKind::Ipip),
        L2TP => kinds.contains(TunnelKind::L2tp),
        MPLS => kinds.contains(TunnelKind::Mpls),
        _ => false,
    }
}

/// True if a tunnel may be in this protocol.
pub(crate) fn may_be_in_ip(protocol: u8) -> bool {
    could_carry(protocol, TunnelKinds::ALL)
}

/// Decapsulates a tunnel in the payload of an IP packet.
#[inline]
fn payload(protocol: u8, walk: &mut Walk<'_>) -> Result<(), Stop> {
    match protocol {
        GRE => gre::strip(walk),
        UDP => udp::strip(walk),
        IPV4 => ipip(walk, 4),
        IPV6 => ipip(walk, 6),
        L2TP => l2tp::on_ip(walk),
        MPLS => mpls::strip(walk),
        _ => Err(Stop::Plain),
    }
}

/// IP directly in IP (RFC 2003, 2473, 4213).
fn ipip(walk: &mut Walk<'_>, version: u8) -> Result<(), Stop> {
    walk.wants(TunnelKind::Ipip)?;
    walk.ip(Some(version), TunnelKind::Ipip, None)
}

/// Stops at a fragment, unless it cannot belong to a wanted tunnel.
#[cold]
fn stop_at_fragment(
    walk: &mut Walk<'_>,
    datagram: DatagramId,
    protocol: u8,
    header: usize,
    fragment: Fragment,
) -> Stop {
    let wanted = match protocol {
        UDP => walk.kinds.intersects(udp::KINDS),
        _ => could_carry(protocol, walk.kinds) || is_extension(protocol),
    };
    if !wanted {
        return Stop::Plain;
    }
    let (start, len) = (walk.packet.at() as u32, walk.packet.rest().len() as u32);
    walk.fragment = Some(TunnelFragment {
        datagram,
        protocol,
        offset: fragment.offset_bytes.into(),
        more: fragment.more,
        start,
        len,
        wire_len: walk.packet.wire_left().unwrap_or(len),
        header_start: header as u32,
        header_len: start - header as u32,
        plain: fragment.offset_bytes == 0 && is_plain(protocol, *walk),
    });
    Stop::Fragment
}

/// True if the first fragment shows that the datagram has no wanted tunnel; later fragments show nothing.
fn is_plain(protocol: u8, mut walk: Walk<'_>) -> bool {
    matches!(datagram(protocol, &mut walk), Err(Stop::Plain | Stop::Control | Stop::Marker))
}
