//! Sequence numbers of RTP (RFC 3550, section 5.1), recognised with caution: nothing in a datagram identifies it as
//! RTP.
//! The version, a payload type that RTCP does not use (RFC 5761) and ports above 1023 make a candidate; consecutive
//! numbers make it a source.

use quaff_wire::flow::FlowPacket;
use quaff_wire::net::UDP;

const HEADER_BYTES: usize = 12;
const UDP_BYTES: usize = 8;
const PORT_MIN: u16 = 1024;
/// Payload types that RTCP uses, or that are unassigned.
const NO_PAYLOAD: std::ops::RangeInclusive<u8> = 64..=95;

/// The number of a packet that may be RTP, and its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RtpNumber {
    pub(super) sequence: u16,
    pub(super) source: u32,
}

/// Reads the header of a datagram that may be RTP.
#[inline]
pub(super) fn read(packet: &FlowPacket, bytes: &[u8]) -> Option<RtpNumber> {
    if packet.protocol != UDP || packet.ports.iter().any(|port| *port < PORT_MIN) {
        return None;
    }
    let datagram = bytes.get(packet.transport as usize..packet.end as usize)?;
    let header = datagram.get(UDP_BYTES..)?.first_chunk::<HEADER_BYTES>()?;
    let contributors = usize::from(header[0] & 15);
    let is_rtp = header[0] >> 6 == 2 && !NO_PAYLOAD.contains(&(header[1] & 0x7f));
    let before = packet.transport - packet.ip_offset + (UDP_BYTES + HEADER_BYTES + contributors * 4) as u32;
    (is_rtp && packet.ip_bytes >= before).then(|| RtpNumber {
        sequence: u16::from_be_bytes([header[2], header[3]]),
        source: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
    })
}
