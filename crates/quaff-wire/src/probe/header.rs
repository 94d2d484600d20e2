//! The probe header in each generated frame, which `verify` recognises.
//!
//! A generated frame is Ethernet, IPv4 or IPv6, UDP; the probe header is the first [`HEADER_BYTES`] bytes of the UDP
//! payload, so that it fits in the smallest frame (64 B without FCS = 14 + 20 + 8 + 22; 84 B in IPv6):
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 2 | magic, [`MAGIC`] |
//! | 2 | 8 | sequence number, from 0 |
//! | 10 | 8 | intended send time, ns since 1970 (UTC) |
//! | 18 | 4 | bit 31 [`LAST`], bit 30 [`BOUNDED`], bits 0-29: lateness of sending, ns (saturates at 1.07 s) |
//!
//! All integers are in network byte order. The stream id is the UDP source port, the destination port is [`PORT`]; the
//! UDP checksum (RFC 768) covers probe header and stream id, and is never zero here. Payload byte `i` after the probe
//! header is `i mod 256`, so that the checksum of a frame cut by a snaplen can still be verified.

use super::classify::{Classified, PAYLOAD_OFFSET, ProbeLayout, classify_payload};

/// Length of a probe header.
pub(crate) const HEADER_BYTES: usize = 22;
/// The first two bytes of the UDP payload: "qu".
pub(crate) const MAGIC: u16 = 0x7175;
/// UDP destination port of generated frames.
pub(crate) const PORT: u16 = 29045;
/// Flag of the last frame of a stream of known length.
pub const LAST: u32 = 1 << 31;
/// Flag of every frame of a stream of known length.
pub const BOUNDED: u32 = 1 << 30;
/// Largest lateness that a probe header can express, ns.
pub const LATE_NS_MAX: u32 = BOUNDED - 1;

/// The probe header of `generate` and of `replay --stamp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeHeader {
    /// Stream id: the UDP source port, not part of the header's own bytes.
    pub stream: u16,
    /// Sequence number, from 0.
    pub seq: u64,
    /// Intended send time, ns since 1970 (UTC).
    pub intended_ns: u64,
    /// Delay of the actual send time, ns; at most [`LATE_NS_MAX`].
    pub late_ns: u32,
    /// True in the last frame of a bounded stream.
    pub last: bool,
    /// True if the length of the stream was known in advance, so that a frame with `last` must arrive.
    pub bounded: bool,
}

impl ProbeHeader {
    /// Its layout; the smallest frame has 64 bytes.
    pub const LAYOUT: ProbeLayout = ProbeLayout {
        port: PORT,
        magic: MAGIC,
        bytes: HEADER_BYTES,
        frame_bytes_min: PAYLOAD_OFFSET + HEADER_BYTES,
    };

    /// Encodes the header as in the table above.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut word = self.late_ns.min(LATE_NS_MAX);
        if self.last {
            word |= LAST;
        }
        if self.bounded {
            word |= BOUNDED;
        }
        let mut out = [0; HEADER_BYTES];
        out[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2..10].copy_from_slice(&self.seq.to_be_bytes());
        out[10..18].copy_from_slice(&self.intended_ns.to_be_bytes());
        out[18..22].copy_from_slice(&word.to_be_bytes());
        out
    }

    /// Decodes the first [`HEADER_BYTES`] of a UDP payload; `None` without the magic.
    pub(crate) fn decode(stream: u16, payload: &[u8]) -> Option<Self> {
        let header = payload.first_chunk::<HEADER_BYTES>()?;
        let (magic, rest) = header.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (intended, rest) = rest.split_first_chunk()?;
        let word = u32::from_be_bytes(*rest.first_chunk()?);
        (u16::from_be_bytes(*magic) == MAGIC).then_some(Self {
            stream,
            seq: u64::from_be_bytes(*seq),
            intended_ns: u64::from_be_bytes(*intended),
            late_ns: word & LATE_NS_MAX,
            last: word & LAST != 0,
            bounded: word & BOUNDED != 0,
        })
    }
}

/// Classifies `frame`, the captured bytes, perhaps cut by a snaplen, of a frame with `wire_len` bytes on the wire.
///
/// Up to two VLAN tags, IP options and bytes after the datagram (padding, an FCS) are accepted. A frame to our port
/// that was truncated before the end of its probe header is [`Classified::Corrupt`].
pub fn classify(frame: &[u8], wire_len: usize) -> Classified<ProbeHeader> {
    classify_payload(frame, wire_len, &ProbeHeader::LAYOUT, |payload| {
        ProbeHeader::decode(payload.stream, payload.bytes)
    })
}
