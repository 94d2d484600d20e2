//! IPv4 and IPv6 around a tunnel: where the payload is, how long, of which protocol.
//!
//! A broken outer IP header is no broken tunnel: such a packet is plain.

use super::packet::{Carrier, Found, Packet, Stop};
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
pub(super) fn v4(mut packet: Packet<'_>, kinds: Kinds) -> Result<Found<'_>, Stop> {
    let Some(head) = packet.peek::<20>() else { return Err(Stop::Plain) };
    let protocol = head[9];
    if !could_carry(protocol, kinds) || head[0] >> 4 != 4 {
        return Err(Stop::Plain);
    }
    let header_len = usize::from(head[0] & 15) * 4;
    let total_len = u16::from_be_bytes([head[2], head[3]]);
    // A total length of 0 is a large packet that the kernel has not segmented yet (big TCP).
    if total_len != 0 {
        packet.limit(total_len.into());
    }
    if header_len < 20 || (total_len != 0 && usize::from(total_len) < header_len) {
        return Err(Stop::Plain);
    }
    let source = IpAddr::V4(Ipv4Addr::new(head[12], head[13], head[14], head[15]));
    let header = packet.at();
    let packet = packet.skip_outer(header_len)?;
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    if fragment & 0x3fff == 0 {
        return payload(protocol, packet, Carrier { kinds, source: Some(source) });
    }
    let destination = IpAddr::V4(Ipv4Addr::new(head[16], head[17], head[18], head[19]));
    let id = u16::from_be_bytes([head[4], head[5]]).into();
    let key = FragmentKey { source, destination, id, protocol };
    Err(fragment_of(
        packet,
        kinds,
        key,
        protocol,
        header,
        u32::from(fragment & 0x1fff) * 8,
        fragment & 0x2000 != 0,
    ))
}

/// IPv6 (RFC 8200).
#[inline]
pub(super) fn v6(mut packet: Packet<'_>, kinds: Kinds) -> Result<Found<'_>, Stop> {
    let Some(head) = packet.peek::<40>() else { return Err(Stop::Plain) };
    let next = head[6];
    if !(could_carry(next, kinds) || is_extension(next)) || head[0] >> 4 != 6 {
        return Err(Stop::Plain);
    }
    // A payload length of 0 is a jumbogram (RFC 2675), or a packet not segmented yet.
    let payload_len = u16::from_be_bytes([head[4], head[5]]);
    if payload_len != 0 {
        packet.limit(40 + u32::from(payload_len));
    }
    let address = |at: usize| {
        let octets: Option<&[u8; 16]> = head.get(at..).and_then(<[u8]>::first_chunk);
        IpAddr::V6(Ipv6Addr::from(*octets.unwrap_or(&[0; 16])))
    };
    let addresses = [address(8), address(24)];
    extensions(next, Some(packet.at()), packet.skip_outer(40)?, kinds, addresses)
}

/// Follows extension headers to what they precede. `header` is where the IPv6 header begins; in a
/// datagram that was fragmented there is none, and a fragment header in it has no meaning.
fn extensions(
    mut next: u8,
    header: Option<usize>,
    mut packet: Packet<'_>,
    kinds: Kinds,
    [source, destination]: [IpAddr; 2],
) -> Result<Found<'_>, Stop> {
    for _ in 0..EXTENSIONS_MAX {
        if !is_extension(next) {
            return payload(next, packet, Carrier { kinds, source: Some(source) });
        }
        let Some(head) = packet.peek::<8>() else { return Err(Stop::Plain) };
        if next == FRAGMENT {
            let (fragment, id) =
                (u16::from_be_bytes([head[2], head[3]]), [head[4], head[5], head[6], head[7]]);
            packet = packet.skip_outer(8)?;
            let header = header.ok_or(Stop::Plain)?;
            if fragment & 0xfff9 != 0 {
                let id = u32::from_be_bytes(id);
                let key = FragmentKey { source, destination, id, protocol: FRAGMENT };
                let (offset, more) = (u32::from(fragment & 0xfff8), fragment & 1 != 0);
                return Err(fragment_of(packet, kinds, key, head[0], header, offset, more));
            }
        } else {
            packet = packet.skip_outer(extension_len(next, head[1]))?;
        }
        next = head[0];
    }
    Err(Stop::Plain)
}

/// Bytes of an extension header whose length field says `len`.
fn extension_len(header: u8, len: u8) -> usize {
    if header == AUTHENTICATION { (usize::from(len) + 2) * 4 } else { (usize::from(len) + 1) * 8 }
}

fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6)
}

/// The payload of a datagram that was put together.
pub(super) fn datagram(
    protocol: u8,
    packet: Packet<'_>,
    kinds: Kinds,
    source: IpAddr,
) -> Result<Found<'_>, Stop> {
    extensions(protocol, None, packet, kinds, [source, source])
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
fn payload(protocol: u8, packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    match protocol {
        GRE => gre::strip(packet, carrier),
        UDP => udp::strip(packet, carrier),
        IPV4 => ipip(packet, carrier, 4),
        IPV6 => ipip(packet, carrier, 6),
        L2TP => l2tp::on_ip(packet, carrier),
        MPLS => mpls::strip(packet, carrier),
        _ => Err(Stop::Plain),
    }
}

/// IP directly in IP (RFC 2003, 2473, 4213).
fn ipip(packet: Packet<'_>, carrier: Carrier, version: u8) -> Result<Found<'_>, Stop> {
    carrier.wants(Kind::Ipip)?;
    Found::ip(packet, Some(version), carrier.session(Kind::Ipip, None))
}

/// A fragment, unless nothing of the wanted kinds can come of it.
fn fragment_of(
    packet: Packet<'_>,
    kinds: Kinds,
    key: FragmentKey,
    protocol: u8,
    header: usize,
    offset: u32,
    more: bool,
) -> Stop {
    // No marker packet is so large that it comes in pieces.
    let wanted = if protocol == UDP {
        kinds.intersects(udp::KINDS)
    } else {
        could_carry(protocol, kinds) || is_extension(protocol)
    };
    if !wanted {
        return Stop::Plain;
    }
    // Only the first fragment shows what the datagram is.
    let plain = offset == 0
        && matches!(datagram(protocol, packet, kinds, key.source), Err(Stop::Plain | Stop::Control(_)));
    let len = packet.rest().len() as u32;
    Stop::Fragment(Fragment {
        key,
        protocol,
        offset,
        more,
        start: packet.at() as u32,
        len,
        wire_len: packet.wire_left().unwrap_or(len),
        header_start: header as u32,
        header_len: (packet.at() - header) as u32,
        plain,
    })
}
