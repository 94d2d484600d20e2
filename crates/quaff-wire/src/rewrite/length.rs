//! Frames that the capture truncated: padded, or with corrected lengths.

use super::sums;
use crate::net::{self, Ip, LengthField, UDP};

/// The treatment of a truncated frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixLength {
    /// Pad it with zeros to its length on the wire, and recompute the transport checksum. A frame that claims an
    /// impossible length is not sent.
    Pad,
    /// Set the lengths in its headers to the captured bytes, and update the checksums.
    Cut,
    /// Skip it.
    Drop,
}

/// Limit of padding: the largest IP packet and its preceding headers; a file may claim any length.
pub(super) const PAD_BYTES_MAX: usize = (1 << 16) + 64;

/// Pads to `wire_len` bytes.
pub(super) fn pad(frame: &mut Vec<u8>, wire_len: usize) {
    frame.resize(wire_len, 0);
    if let Some(layers) = net::layers(frame) {
        settle(frame, layers.ip_offset, layers.ip);
    }
}

/// Truncates to `bytes`, corrects the lengths in the headers, and returns the new length.
pub(super) fn cut(frame: &mut Vec<u8>, bytes: usize) -> usize {
    frame.truncate(bytes);
    let Some(layers) = net::layers(frame) else { return frame.len() };
    let Some(ip) = layers.ip else { return frame.len() };
    let end = frame.len();
    let (at, offset) = (layers.ip_offset, if ip.is_v6() { 4 } else { 2 });
    if sums::declared_end(frame, at) > end {
        let header = if ip.is_v6() { 40 } else { 0 };
        put16(frame, at + offset, end - at - header);
        put_length(frame, layers.length);
        let is_first = ip.fragment.is_none_or(|fragment| fragment.offset_bytes == 0);
        if ip.protocol == UDP && is_first && ip.fragment.is_none() && ip.end >= ip.transport + 8 {
            put16(frame, ip.transport + 4, end - ip.transport);
        }
    }
    let ip = net::ip_at(frame, at);
    settle(frame, at, ip);
    end
}

/// Sets a length field before the IP header for a frame that ends with its packet.
pub(super) fn put_length(frame: &mut [u8], field: Option<LengthField>) {
    if let Some(LengthField { at, from }) = field {
        put16(frame, at, frame.len().saturating_sub(from));
    }
}

fn put16(frame: &mut [u8], at: usize, value: usize) {
    frame[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// Updates the checksums after a change of length. That of the first fragment of a UDP datagram over IPv4 cannot be
/// computed;
/// no checksum (RFC 768) is better than a wrong one.
fn settle(frame: &mut [u8], network: usize, ip: Option<Ip>) {
    let Some(ip) = ip else { return };
    sums::recompute(frame, network);
    let is_first = ip.fragment.is_some_and(|fragment| fragment.offset_bytes == 0);
    if is_first && !ip.is_v6() && ip.protocol == UDP && ip.end >= ip.transport + 8 {
        frame[ip.transport + 6..ip.transport + 8].fill(0);
    }
}
