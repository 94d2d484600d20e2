//! GRE version 0 (RFC 2784, 2890, and the routing field of RFC 1701), and NVGRE (RFC 7637).

use super::packet::{Stop, Walk, damaged};
use super::{Reason, TunnelKind, TunnelKinds, erspan, mpls};
use crate::net::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_TEB};

/// Tunnels over GRE.
pub(super) const KINDS: TunnelKinds =
    TunnelKinds::NONE.with(TunnelKind::Erspan).with(TunnelKind::Gre).with(TunnelKind::Mpls);

/// Flags of the first byte.
const CHECKSUM: u8 = 0x80;
const ROUTING: u8 = 0x40;
const KEY: u8 = 0x20;
const SEQUENCE: u8 = 0x10;

/// ERSPAN types I and II.
const ERSPAN: u16 = 0x88be;
/// ERSPAN type III.
const ERSPAN_III: u16 = 0x22eb;
/// An IPv4 packet that a router redirects to a cache (WCCP: draft-mclaggan-wccp-v2rev1, section 4.12.1).
const WCCP: u16 = 0x883e;
/// Length of the redirect header before the packet in WCCP version 2; version 1 has none.
const REDIRECT_BYTES: usize = 4;

/// Maximum number of source route entries; more mean damage.
const ROUTES_MAX: usize = 16;

/// VSIDs available to networks (RFC 7637 section 3.2).
const VSIDS: std::ops::RangeInclusive<u32> = 0x00_1000..=0xff_fffe;

/// The sequence number of a GRE header, and the counter that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreSequence {
    pub sequence: u32,
    pub is_erspan: bool,
    /// The ERSPAN session; otherwise the key, 0 without one.
    pub id: u32,
}

impl GreSequence {
    /// Reads the header at the front of `bytes`; `None` without a sequence number, or if it is truncated.
    ///
    /// The payload does not matter: keepalives and ERSPAN markers are numbered, too. PPTP is excluded, since
    /// acknowledgments skip its numbers (RFC 2637), and so are source routes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let &[flags, version, high, low] = bytes.first_chunk::<4>()?;
        if flags & SEQUENCE == 0 || flags & ROUTING != 0 || version & 7 != 0 {
            return None;
        }
        let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let key_at = if flags & CHECKSUM != 0 { 8 } else { 4 };
        let has_key = flags & KEY != 0;
        let sequence_at = if has_key { key_at + 4 } else { key_at };
        let protocol = u16::from_be_bytes([high, low]);
        let is_erspan = matches!(protocol, ERSPAN | ERSPAN_III);
        let id = match (is_erspan, has_key) {
            (true, _) => word(sequence_at + 4)? & u32::from(erspan::SESSION),
            (false, true) => word(key_at)?,
            (false, false) => 0,
        };
        Some(Self { sequence: word(sequence_at)?, is_erspan, id })
    }
}

/// Decapsulates GRE and its payload.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let &[flags, version, high, low] = walk.packet.take(TunnelKind::Gre)?;
    let protocol = u16::from_be_bytes([high, low]);
    let kind = match protocol {
        ERSPAN | ERSPAN_III => TunnelKind::Erspan,
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => TunnelKind::Mpls,
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 | ETHERTYPE_TEB | WCCP | 0 => TunnelKind::Gre,
        _ => return Err(Stop::Plain),
    };
    walk.wants(kind)?;
    match version & 7 {
        0 => {}
        // PPTP (RFC 2637) is another protocol.
        1 => return Err(Stop::Plain),
        _ => return Err(damaged(kind, Reason::Version)),
    }
    let key = optional(walk, flags, kind)?;
    match protocol {
        ERSPAN | ERSPAN_III => erspan::strip(walk, protocol == ERSPAN_III),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => mpls::strip(walk),
        ETHERTYPE_IPV4 => walk.ip(Some(4), TunnelKind::Gre, key),
        ETHERTYPE_IPV6 => walk.ip(Some(6), TunnelKind::Gre, key),
        ETHERTYPE_TEB => ethernet(walk, flags, key),
        WCCP => redirected(walk, key),
        _ => Err(Stop::Control),
    }
}

/// Skips the optional fields that the flags announce: checksum and offset, key, sequence number, source routes. Returns
/// the key.
#[inline]
fn optional(walk: &mut Walk<'_>, flags: u8, kind: TunnelKind) -> Result<Option<u32>, Stop> {
    let mut key = None;
    if flags & (CHECKSUM | ROUTING) != 0 {
        walk.packet.skip(4, kind)?;
    }
    if flags & KEY != 0 {
        key = Some(u32::from_be_bytes(*walk.packet.take(kind)?));
    }
    if flags & SEQUENCE != 0 {
        walk.found.sequence = Some(u32::from_be_bytes(*walk.packet.take(kind)?));
    }
    if flags & ROUTING != 0 {
        routes(walk, kind)?;
    }
    Ok(key)
}

/// Skips source route entries (RFC 1701): address family, offset, length, data; the last one is all zero.
fn routes(walk: &mut Walk<'_>, kind: TunnelKind) -> Result<(), Stop> {
    for _ in 0..ROUTES_MAX {
        let &[high, low, _, len] = walk.packet.take(kind)?;
        walk.packet.skip(len.into(), kind)?;
        if [high, low, len] == [0; 3] {
            return Ok(());
        }
    }
    Err(damaged(kind, Reason::Stack))
}

/// Decapsulates WCCP. Only version 2 has a redirect header, and nothing announces it: no such header starts like IPv4,
/// with a version and a valid length.
fn redirected(walk: &mut Walk<'_>, key: Option<u32>) -> Result<(), Stop> {
    if !matches!(walk.packet.peek(), Some([0x45..=0x4f])) {
        walk.packet.skip(REDIRECT_BYTES, TunnelKind::Gre)?;
    }
    walk.ip(Some(4), TunnelKind::Gre, key)
}

/// NVGRE is GRE with an Ethernet payload and a key, without checksum and sequence number; the key has 24 bits of VSID
/// and 8 of flow. Keys with a reserved VSID are plain GRE.
fn ethernet(walk: &mut Walk<'_>, flags: u8, key: Option<u32>) -> Result<(), Stop> {
    match key {
        Some(key) if flags == KEY && VSIDS.contains(&(key >> 8)) => {
            walk.ethernet(TunnelKind::Nvgre, Some(key >> 8))
        }
        key => walk.ethernet(TunnelKind::Gre, key),
    }
}
