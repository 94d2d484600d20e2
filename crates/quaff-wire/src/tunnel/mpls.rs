//! MPLS label stacks (RFC 3032) and what is under them: IP, or an Ethernet pseudowire (RFC 4448).
//!
//! A label stack has no payload type; only the routers know the meaning of a label. So the payload is guessed, as
//! routers do for load balancing (RFC 4928): 4 or 6 in the first four bits is IP if the lengths fit, and Ethernet must
//! look like Ethernet ([`guess`]). Anything else counts as damaged.

use super::packet::{Packet, Stop, Walk, damaged};
use super::{Reason, TunnelKind, guess};
use crate::net::mpls::{
    ASSOCIATED_CHANNEL, ENTROPY_INDICATOR, IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL, LABELS_MAX, Label,
};

/// Bytes of a pseudowire's control word.
const CONTROL_WORD: usize = 4;

/// Decapsulates a label stack. The session is the bottom label; an entropy label does not identify a session.
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    walk.wants(TunnelKind::Mpls)?;
    let (mut service, mut above) = (None, None);
    for _ in 0..LABELS_MAX {
        let entry = Label::new(*walk.packet.take(TunnelKind::Mpls)?);
        let label = entry.value();
        if label != ENTROPY_INDICATOR && above != Some(ENTROPY_INDICATOR) {
            service = Some(label);
        }
        above = Some(label);
        if entry.is_bottom() {
            return payload(walk, label, service);
        }
    }
    Err(damaged(TunnelKind::Mpls, Reason::Stack))
}

/// Decapsulates a label stack directly inside another tunnel, which provides the session.
pub(super) fn inside(walk: &mut Walk<'_>, kind: TunnelKind, id: Option<u32>) -> Result<(), Stop> {
    strip(walk)?;
    (walk.found.kind, walk.found.id) = (kind, id);
    Ok(())
}

fn payload(walk: &mut Walk<'_>, bottom: u32, label: Option<u32>) -> Result<(), Stop> {
    let Some(&[first]) = walk.packet.peek() else { return walk.ip(None, TunnelKind::Mpls, label) };
    match (bottom, first >> 4) {
        (ASSOCIATED_CHANNEL, _) => Err(Stop::Control),
        (IPV4_EXPLICIT_NULL, 4) | (IPV6_EXPLICIT_NULL, 6) if ip_fits(&walk.packet) => ip(walk, label),
        (IPV4_EXPLICIT_NULL | IPV6_EXPLICIT_NULL, _) => Err(damaged(TunnelKind::Mpls, Reason::Payload)),
        (_, 4 | 6) if ip_fits(&walk.packet) => ip(walk, label),
        _ => pseudowire(walk, label),
    }
}

/// Decapsulates an IP packet, without the padding of a short Ethernet frame.
fn ip(walk: &mut Walk<'_>, label: Option<u32>) -> Result<(), Stop> {
    if let Some(len) = ip_len(walk.packet.rest()) {
        walk.packet.limit(len);
    }
    walk.ip(None, TunnelKind::Mpls, label)
}

/// The length from an IP header; `None` if it is 0 (big TCP) or the header is incomplete.
fn ip_len(bytes: &[u8]) -> Option<u32> {
    let (header_len, field) = match *bytes.first_chunk::<6>()? {
        [0x40..=0x4f, _, high, low, ..] => (0, [high, low]),
        [.., high, low] => (40, [high, low]),
    };
    match u16::from_be_bytes(field) {
        0 => None,
        len => Some(header_len + u32::from(len)),
    }
}

/// Returns true if the rest, which begins with 4 or 6, can be an IP packet.
fn ip_fits(packet: &Packet<'_>) -> bool {
    let bytes = packet.rest();
    let left = packet.wire_left().unwrap_or(u32::MAX);
    !matches!(bytes.first(), Some(0x40..=0x44)) && ip_len(bytes).is_none_or(|len| (20..=left).contains(&len))
}

/// Decapsulates a pseudowire: Ethernet, with or without a control word, or an associated channel.
fn pseudowire(walk: &mut Walk<'_>, label: Option<u32>) -> Result<(), Stop> {
    let (bytes, left) = (walk.packet.rest(), walk.packet.wire_left());
    let after_word = bytes.get(CONTROL_WORD..).filter(|_| guess::is_control_word(bytes));
    let left_after = left.map(|left| left.saturating_sub(CONTROL_WORD as u32));
    if after_word.is_some_and(|frame| guess::is_ethernet(frame, left_after)) {
        walk.packet.skip(CONTROL_WORD, TunnelKind::Mpls)?;
        return walk.ethernet(TunnelKind::Mpls, label);
    }
    if guess::is_ethernet(bytes, left) {
        return walk.ethernet(TunnelKind::Mpls, label);
    }
    // RFC 4385 section 5: 0001, version 0, reserved.
    if bytes.starts_with(&[0x10, 0]) {
        return Err(Stop::Control);
    }
    walk.packet.take::<14>(TunnelKind::Mpls)?;
    Err(damaged(TunnelKind::Mpls, Reason::Payload))
}
