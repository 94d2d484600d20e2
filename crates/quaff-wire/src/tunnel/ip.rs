//! IPv4 and IPv6 around a tunnel: where the payload is, how long, of which protocol.
//!
//! A broken outer IP header is no broken tunnel: such a packet is plain.

use super::packet::{Stop, Walk};
use super::{Fragment, FragmentKey, Kind, Kinds, gre, l2tp, mpls, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Protocol numbers (IANA).
const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const L2TP: u8 = 115;
const MPLS: u8 = 137;

/// IPv6 extension headers (RFC 8200, 4302, 6275, 7401, 5533).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// More extension headers than this are not followed.
const EXTENSIONS_MAX: usize = 12;

/// IPv4 (RFC 791).
#[inline]
pub(super) fn v4(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let Some(head) = walk.packet.peek::<20>() else { return Err(Stop::Plain) };
    let protocol = head[9];
    if !could_carry(protocol, walk.kinds) || head[0] >> 4 != 4 {
        return Err(Stop::Plain);
    }
    let header_len = usize::from(head[0] & 15) * 4;
    let total_len = u16::from_be_bytes([head[2], head[3]]);
    // A total length of 0 is a large packet that the kernel has not segmented yet (big TCP).
    if total_len != 0 {
        walk.packet.limit(total_len.into());
    }
    if header_len < 20 || (total_len != 0 && usize::from(total_len) < header_len) {
        return Err(Stop::Plain);
    }
    let source = IpAddr::V4(Ipv4Addr::new(head[12], head[13], head[14], head[15]));
    walk.source = Some(source);
    let header = walk.packet.at();
    walk.packet.skip_outer(header_len)?;
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    if fragment & 0x3fff == 0 {
        return payload(protocol, walk);
    }
    let destination = IpAddr::V4(Ipv4Addr::new(head[16], head[17], head[18], head[19]));
    let id = u16::from_be_bytes([head[4], head[5]]).into();
    let key = FragmentKey { source, destination, id, protocol };
    Err(piece(walk, key, protocol, header, u32::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0))
}

/// IPv6 (RFC 8200).
#[inline]
pub(super) fn v6(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let Some(head) = walk.packet.peek::<40>() else { return Err(Stop::Plain) };
    let next = head[6];
    if !(could_carry(next, walk.kinds) || is_extension(next)) || head[0] >> 4 != 6 {
        return Err(Stop::Plain);
    }
    // A payload length of 0 is a jumbogram (RFC 2675), or a packet not segmented yet.
    let payload_len = u16::from_be_bytes([head[4], head[5]]);
    if payload_len != 0 {
        walk.packet.limit(40 + u32::from(payload_len));
    }
    let address = |at: usize| {
        let octets: Option<&[u8; 16]> = head.get(at..).and_then(<[u8]>::first_chunk);
        IpAddr::V6(Ipv6Addr::from(*octets.unwrap_or(&[0; 16])))
    };
    walk.source = Some(address(8));
    let header = walk.packet.at();
    walk.packet.skip_outer(40)?;
    if !is_extension(next) {
        return payload(next, walk);
    }
    extensions(next, Some((header, [address(8), address(24)])), walk)
}

/// Follows extension headers to what they precede.
///
/// `header` is where the IPv6 header begins, and its addresses. In a datagram that was fragmented
/// there is none, and a fragment header in it has no meaning.
fn extensions(mut next: u8, header: Option<(usize, [IpAddr; 2])>, walk: &mut Walk<'_>) -> Result<(), Stop> {
    for _ in 0..EXTENSIONS_MAX {
        if !is_extension(next) {
            return payload(next, walk);
        }
        let Some(&[after, len, high, low, id @ ..]) = walk.packet.peek::<8>() else {
            return Err(Stop::Plain);
        };
        if next == FRAGMENT {
            let (start, [source, destination]) = header.ok_or(Stop::Plain)?;
            walk.packet.skip_outer(8)?;
            let fragment = u16::from_be_bytes([high, low]);
            if fragment & 0xfff9 != 0 {
                let id = u32::from_be_bytes(id);
                let key = FragmentKey { source, destination, id, protocol: FRAGMENT };
                let (offset, more) = (u32::from(fragment & 0xfff8), fragment & 1 != 0);
                return Err(piece(walk, key, after, start, offset, more));
            }
        } else {
            walk.packet.skip_outer(extension_len(next, len))?;
        }
        next = after;
    }
    Err(Stop::Plain)
}

/// Bytes of an extension header whose length field says `len`.
fn extension_len(header: u8, len: u8) -> usize {
    if header == AUTHENTICATION { (usize::from(len) + 2) * 4 } else { (usize::from(len) + 1) * 8 }
}

#[inline]
fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6)
}

/// The payload of a datagram that was put together.
pub(super) fn datagram(protocol: u8, walk: &mut Walk<'_>) -> Result<(), Stop> {
    extensions(protocol, None, walk)
}

/// Whether a tunnel of these kinds could ride on this protocol. A marker packet is UDP too.
#[inline]
fn could_carry(protocol: u8, kinds: Kinds) -> bool {
    const ON_GRE: Kinds = Kinds::NONE.with(Kind::Erspan).with(Kind::Gre).with(Kind::Mpls);
    match protocol {
        GRE => kinds.intersects(ON_GRE),
        UDP => kinds.intersects(udp::KINDS.with(Kind::Erspan)),
        IPV4 | IPV6 => kinds.contains(Kind::Ipip),
        L2TP => kinds.contains(Kind::L2tp),
        MPLS => kinds.contains(Kind::Mpls),
        _ => false,
    }
}

/// What is in an IP packet.
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
    walk.wants(Kind::Ipip)?;
    walk.ip(Some(version), Kind::Ipip, None)
}

/// A fragment, unless nothing of the wanted kinds can come of it.
#[cold]
fn piece(
    walk: &mut Walk<'_>,
    key: FragmentKey,
    protocol: u8,
    header: usize,
    offset: u32,
    more: bool,
) -> Stop {
    // No marker packet is so large that it comes in pieces.
    let wanted = if protocol == UDP {
        walk.kinds.intersects(udp::KINDS)
    } else {
        could_carry(protocol, walk.kinds) || is_extension(protocol)
    };
    if !wanted {
        return Stop::Plain;
    }
    let (start, len) = (walk.packet.at() as u32, walk.packet.rest().len() as u32);
    walk.fragment = Some(Fragment {
        key,
        protocol,
        offset,
        more,
        start,
        len,
        wire_len: walk.packet.wire_left().unwrap_or(len),
        header_start: header as u32,
        header_len: start - header as u32,
        plain: offset == 0 && is_plain(protocol, *walk),
    });
    Stop::Fragment
}

/// Whether the first fragment shows that no wanted tunnel is in the datagram; the others show nothing.
fn is_plain(protocol: u8, mut walk: Walk<'_>) -> bool {
    matches!(datagram(protocol, &mut walk), Err(Stop::Plain | Stop::Control(_) | Stop::Marker))
}
