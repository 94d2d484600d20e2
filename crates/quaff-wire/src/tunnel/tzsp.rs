//! TZSP, the TaZmen Sniffer Protocol, used by wireless sensors and MikroTik's sniffer.

use super::packet::{Packet, Stop, Walk, damaged};
use super::{Reason, TunnelKind};

/// Packet types.
const RECEIVED: u8 = 0;
const FOR_TRANSMIT: u8 = 1;
const CONFIGURATION: u8 = 3;
const KEEPALIVE: u8 = 4;
const PORT_OPENER: u8 = 5;

/// Tags without a length: padding and end.
const TAG_PADDING: u8 = 0;
const TAG_END: u8 = 1;
/// Tag with the original length of the frame, two bytes.
const TAG_FRAME_LENGTH: u8 = 41;
/// Maximum number of tags that are followed.
const TAGS_MAX: usize = 64;

/// Encapsulated protocols with their LINKTYPE_*.
const ETHERNET: u16 = 1;
const IEEE802_11: (u16, u16) = (18, 105);
const PRISM: (u16, u16) = (119, 119);
const AVS: (u16, u16) = (127, 163);

/// Decapsulates TZSP.
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let &[version, kind, high, low] = walk.packet.take(TunnelKind::Tzsp)?;
    if version != 1 {
        return Err(damaged(TunnelKind::Tzsp, Reason::Version));
    }
    match kind {
        RECEIVED | FOR_TRANSMIT => {}
        CONFIGURATION | KEEPALIVE | PORT_OPENER => return Err(Stop::Control),
        _ => return Err(damaged(TunnelKind::Tzsp, Reason::Flags)),
    }
    tags(&mut walk.packet)?;
    let link = match u16::from_be_bytes([high, low]) {
        ETHERNET => return walk.ethernet(TunnelKind::Tzsp, None),
        protocol => [IEEE802_11, PRISM, AVS].into_iter().find(|(number, _)| *number == protocol),
    };
    let (_, link) = link.ok_or(Stop::Plain)?;
    walk.frame(link, TunnelKind::Tzsp, None)
}

/// Skips tags: number, length, value.
fn tags(packet: &mut Packet<'_>) -> Result<(), Stop> {
    let mut frame_len = None;
    for _ in 0..TAGS_MAX {
        match *packet.take(TunnelKind::Tzsp)? {
            [TAG_PADDING] => {}
            [TAG_END] => {
                if let Some(len) = frame_len {
                    packet.truncated(Some(u32::max(len, packet.wire_left().unwrap_or(0))));
                }
                return Ok(());
            }
            [tag] => {
                let &[len] = packet.take(TunnelKind::Tzsp)?;
                if let (TAG_FRAME_LENGTH, 2, Some(value)) = (tag, len, packet.peek()) {
                    frame_len = Some(u16::from_be_bytes(*value).into());
                }
                packet.skip(len.into(), TunnelKind::Tzsp)?;
            }
        }
    }
    Err(damaged(TunnelKind::Tzsp, Reason::Stack))
}
