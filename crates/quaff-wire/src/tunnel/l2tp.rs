//! L2TPv3 with an Ethernet payload (RFC 3931, RFC 4719), over IP and UDP.
//!
//! Control messages negotiate the presence and length of a cookie and the presence of an L2-specific sublayer; data
//! packets do not contain this. The layouts are therefore tried, most common first: Linux's default is no cookie and
//! the default sublayer of 4 bytes. The first layout after which an Ethernet frame may start is used.

use super::packet::{Stop, Walk, damaged};
use super::{Reason, TunnelKind, guess};

/// T flag: a control message.
const CONTROL: u16 = 0x8000;

/// Bytes between session id and frame, and the offset of a default sublayer in them.
const LAYOUTS: [(usize, Option<usize>); 6] =
    [(4, Some(0)), (0, None), (8, Some(4)), (12, Some(8)), (4, None), (8, None)];

/// Over IP (RFC 3931 section 4.1.1): session 0 is the control channel.
pub(super) fn on_ip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.wants(TunnelKind::L2tp)?;
    match u32::from_be_bytes(*walk.packet.take(TunnelKind::L2tp)?) {
        0 => Err(Stop::Control),
        session => frame(walk, session),
    }
}

/// Over UDP (RFC 3931 section 4.1.2). Version 2 carries PPP and is not supported.
pub(super) fn on_udp(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let &[high, low, _, _] = walk.packet.take(TunnelKind::L2tp)?;
    let flags = u16::from_be_bytes([high, low]);
    match flags & 0xf {
        2 => return Err(Stop::Plain),
        3 => {}
        _ => return Err(damaged(TunnelKind::L2tp, Reason::Version)),
    }
    if flags & CONTROL != 0 {
        return Err(Stop::Control);
    }
    let session = u32::from_be_bytes(*walk.packet.take(TunnelKind::L2tp)?);
    frame(walk, session)
}

fn frame(walk: &mut Walk<'_>, session: u32) -> Result<(), Stop> {
    let (bytes, left) = (walk.packet.rest(), walk.packet.wire_left());
    for (len, sublayer) in LAYOUTS {
        let left = left.map(|left| left.saturating_sub(len as u32));
        let fits = sublayer.is_none_or(|at| bytes.get(at..).is_some_and(is_default_sublayer));
        if fits && bytes.get(len..).is_some_and(|frame| guess::is_ethernet(frame, left)) {
            walk.packet.skip(len, TunnelKind::L2tp)?;
            return walk.ethernet(TunnelKind::L2tp, Some(session));
        }
    }
    walk.packet.take::<14>(TunnelKind::L2tp)?;
    Err(damaged(TunnelKind::L2tp, Reason::Payload))
}

/// RFC 3931 section 4.6: an S bit, other bits 0, and a 24-bit sequence number if S is set.
fn is_default_sublayer(bytes: &[u8]) -> bool {
    match bytes.first_chunk::<4>() {
        Some([0x40, ..]) => true,
        Some(word) => *word == [0; 4],
        None => false,
    }
}
