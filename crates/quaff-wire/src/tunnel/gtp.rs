//! GTP-U version 1 (3GPP TS 29.281).

use super::packet::{Stop, Walk, damaged};
use super::{Reason, TunnelKind};

/// Message type of a user packet.
const T_PDU: u8 = 255;
/// Any of E, S, PN: four more bytes follow.
const OPTIONAL: u8 = 0x07;
/// E: the last of those bytes is the type of an extension header.
const EXTENSION: u8 = 0x04;
/// Maximum number of extension headers that are followed.
const EXTENSIONS_MAX: usize = 16;

/// Decapsulates GTP-U; all messages but a T-PDU are signalling.
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let head = walk.packet.take::<8>(TunnelKind::Gtp)?;
    // Version 1, and protocol type GTP; charging records (GTP') have another protocol type.
    if head[0] & 0xf0 != 0x30 {
        return Err(damaged(TunnelKind::Gtp, Reason::Version));
    }
    if head[1] != T_PDU {
        return Err(Stop::Control);
    }
    walk.packet.limit(u16::from_be_bytes([head[2], head[3]]).into());
    if head[0] & OPTIONAL != 0 {
        let &[_, _, _, next] = walk.packet.take(TunnelKind::Gtp)?;
        if head[0] & EXTENSION != 0 {
            extensions(next, walk)?;
        }
    }
    let teid = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    walk.ip(None, TunnelKind::Gtp, Some(teid))
}

/// Skips extension headers: a length in units of 4 bytes, content, and the type of the next one.
fn extensions(mut next: u8, walk: &mut Walk<'_>) -> Result<(), Stop> {
    for _ in 0..EXTENSIONS_MAX {
        if next == 0 {
            return Ok(());
        }
        let &[len] = walk.packet.take(TunnelKind::Gtp)?;
        if len == 0 {
            return Err(damaged(TunnelKind::Gtp, Reason::Length));
        }
        walk.packet.skip(usize::from(len) * 4 - 2, TunnelKind::Gtp)?;
        [next] = *walk.packet.take(TunnelKind::Gtp)?;
    }
    Err(damaged(TunnelKind::Gtp, Reason::Stack))
}
