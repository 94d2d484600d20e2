//! MPLS label stacks (RFC 3032) and what is under them: IP, or an Ethernet pseudowire (RFC 4448).
//!
//! Nothing in a label stack says what follows; the label's meaning is known to its routers only.
//! So it is guessed, the way routers do for load balancing (RFC 4928): 4 and 6 in the first four
//! bits are IP if the lengths fit, and Ethernet must begin with something that Ethernet begins
//! with. What is neither is called damaged, not handed on as a frame.

use super::packet::{Carrier, Found, Packet, Stop, damaged};
use super::{Control, Kind, Reason, Session, guess};

/// Labels in a row that are followed.
const LABELS_MAX: usize = 16;
/// Reserved labels (RFC 3032, 6790, 5586).
const IPV4_EXPLICIT_NULL: u32 = 0;
const IPV6_EXPLICIT_NULL: u32 = 2;
const ENTROPY_INDICATOR: u32 = 7;
const ASSOCIATED_CHANNEL: u32 = 13;
/// Bytes of a pseudowire's control word.
const CONTROL_WORD: usize = 4;

/// Takes off a label stack. The session is the bottom label; an entropy label names no session.
pub(super) fn strip(mut packet: Packet<'_>, carrier: Carrier) -> Result<Found<'_>, Stop> {
    let (mut service, mut above) = (None, None);
    carrier.wants(Kind::Mpls)?;
    for _ in 0..LABELS_MAX {
        let (entry, rest) = packet.take(Kind::Mpls)?;
        let entry = u32::from_be_bytes(*entry);
        let label = entry >> 12;
        if label != ENTROPY_INDICATOR && above != Some(ENTROPY_INDICATOR) {
            service = Some(label);
        }
        (above, packet) = (Some(label), rest);
        if entry & 0x100 != 0 {
            return payload(packet, label, carrier.session(Kind::Mpls, service));
        }
    }
    Err(damaged(Kind::Mpls, Reason::Stack))
}

fn payload(packet: Packet<'_>, bottom: u32, session: Session) -> Result<Found<'_>, Stop> {
    let (&[first], _) = packet.take(Kind::Mpls)?;
    match (bottom, first >> 4) {
        (ASSOCIATED_CHANNEL, _) => Err(Stop::Control(Control::MplsOam)),
        (IPV4_EXPLICIT_NULL, 4) | (IPV6_EXPLICIT_NULL, 6) if ip_fits(packet) => ip(packet, session),
        (IPV4_EXPLICIT_NULL | IPV6_EXPLICIT_NULL, _) => Err(damaged(Kind::Mpls, Reason::Payload)),
        (_, 4 | 6) if ip_fits(packet) => ip(packet, session),
        _ => pseudowire(packet, session),
    }
}

/// An IP packet without the padding that a short Ethernet frame had behind it.
fn ip(mut packet: Packet<'_>, session: Session) -> Result<Found<'_>, Stop> {
    if let Some(len) = ip_len(packet.rest()) {
        packet.limit(len);
    }
    Found::ip(packet, None, session)
}

/// The length that an IP header gives; `None` if it gives none, as in big TCP, or is not all there.
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

/// Whether what begins with 4 or 6 can be an IP packet.
fn ip_fits(packet: Packet<'_>) -> bool {
    let bytes = packet.rest();
    let left = packet.wire_left().unwrap_or(u32::MAX);
    !matches!(bytes.first(), Some(0x40..=0x44)) && ip_len(bytes).is_none_or(|len| (20..=left).contains(&len))
}

/// Ethernet, with or without a control word, or the associated channel of a pseudowire.
fn pseudowire(packet: Packet<'_>, session: Session) -> Result<Found<'_>, Stop> {
    let bytes = packet.rest();
    if let (0, Some(frame)) = (bytes.first().map_or(1, |first| first >> 4), bytes.get(CONTROL_WORD..)) {
        let frame_left = packet.wire_left().map(|left| left.saturating_sub(CONTROL_WORD as u32));
        if guess::is_control_word(bytes) && guess::is_ethernet(frame, frame_left) {
            return Found::ethernet(packet.skip(CONTROL_WORD, Kind::Mpls)?, session);
        }
    }
    if guess::is_ethernet(bytes, packet.wire_left()) {
        return Found::ethernet(packet, session);
    }
    match bytes {
        // RFC 4385 section 5: 0001, version 0, reserved.
        [0x10, 0, ..] => Err(Stop::Control(Control::MplsOam)),
        _ => {
            packet.take::<14>(Kind::Mpls)?;
            Err(damaged(Kind::Mpls, Reason::Payload))
        }
    }
}
