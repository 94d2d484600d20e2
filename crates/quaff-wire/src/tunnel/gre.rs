//! GRE version 0 (RFC 2784, 2890, and the routing field of RFC 1701), and NVGRE (RFC 7637).

use super::link::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_TEB};
use super::packet::{Carrier, Found, Packet, Stop, damaged};
use super::{Control, Kind, Reason, Session, erspan, mpls};

/// Flags of the first byte.
const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;

/// ERSPAN types I and II.
const ERSPAN: u16 = 0x88be;
/// ERSPAN type III.
const ERSPAN_III: u16 = 0x22eb;

/// More source route entries than this are damage.
const ROUTES_MAX: usize = 16;

/// VSIDs that RFC 7637 section 3.2 lets a network use.
const VSIDS: std::ops::RangeInclusive<u32> = 0x00_1000..=0xff_fffe;

/// What the optional fields say.
#[derive(Default)]
struct Fields {
    key: Option<u32>,
    sequence: Option<u32>,
}

/// Takes off GRE and what it carries.
#[inline]
pub(super) fn strip(packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    let (&[flags, version, high, low], rest) = packet.take(Kind::Gre)?;
    let protocol = u16::from_be_bytes([high, low]);
    let kind = match protocol {
        ERSPAN | ERSPAN_III => Kind::Erspan,
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => Kind::Mpls,
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 | ETHERTYPE_TEB | 0 => Kind::Gre,
        _ => return Err(Stop::Plain),
    };
    carrier.wants(kind)?;
    match version & 7 {
        0 => {}
        // PPTP (RFC 2637) is another protocol.
        1 => return Err(Stop::Plain),
        _ => return Err(damaged(kind, Reason::Version)),
    }
    let (fields, packet) = optional(rest, flags, kind)?;
    match protocol {
        ERSPAN | ERSPAN_III => erspan::strip(packet, carrier, protocol == ERSPAN_III, fields.sequence),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => {
            Ok(Found { sequence: fields.sequence, ..mpls::strip(packet, carrier)? })
        }
        0 => Err(Stop::Control(Control::GreKeepalive)),
        _ => {
            let session = session(flags, protocol, &fields, carrier);
            let found = match protocol {
                ETHERTYPE_IPV4 => Found::ip(packet, Some(4), session)?,
                ETHERTYPE_IPV6 => Found::ip(packet, Some(6), session)?,
                _ => Found::ethernet(packet, session)?,
            };
            Ok(Found { sequence: fields.sequence, ..found })
        }
    }
}

/// The fields that the flags announce: checksum and offset, key, sequence, source routes.
#[inline]
fn optional(mut packet: Packet<'_>, flags: u8, kind: Kind) -> Result<(Fields, Packet<'_>), Stop> {
    let mut fields = Fields::default();
    if flags & (CHECKSUM | ROUTING) != 0 {
        packet = packet.skip(4, kind)?;
    }
    if flags & KEY != 0 {
        let (key, rest) = packet.take(kind)?;
        (fields.key, packet) = (Some(u32::from_be_bytes(*key)), rest);
    }
    if flags & SEQUENCE != 0 {
        let (sequence, rest) = packet.take(kind)?;
        (fields.sequence, packet) = (Some(u32::from_be_bytes(*sequence)), rest);
    }
    if flags & ROUTING != 0 {
        packet = routes(packet, kind)?;
    }
    Ok((fields, packet))
}

/// Source route entries (RFC 1701): address family, offset, length, data; the last is all zero.
fn routes(mut packet: Packet<'_>, kind: Kind) -> Result<Packet<'_>, Stop> {
    for _ in 0..ROUTES_MAX {
        let (&[high, low, _, len], rest) = packet.take(kind)?;
        packet = rest.skip(len.into(), kind)?;
        if u16::from_be_bytes([high, low]) == 0 && len == 0 {
            return Ok(packet);
        }
    }
    Err(damaged(kind, Reason::Stack))
}

/// NVGRE is GRE with Ethernet in it, a key, and neither checksum nor sequence; its key is 24 bits
/// of VSID and 8 of flow. Keys whose VSID is reserved are GRE's own.
fn session(flags: u8, protocol: u16, fields: &Fields, carrier: Carrier) -> Session {
    match fields.key {
        Some(key) if protocol == ETHERTYPE_TEB && flags == KEY && VSIDS.contains(&(key >> 8)) => {
            carrier.session(Kind::Nvgre, Some(key >> 8))
        }
        key => carrier.session(Kind::Gre, key),
    }
}
