//! A fragment of an IP packet (RFC 791 section 3.2, RFC 8200 section 4.5), for reassembly.

use crate::net::DatagramId;

/// A fragment of a datagram that may carry a tunnel.
///
/// Its bytes are `bytes[start..][..len]` of the input of `strip`. A reassembled datagram is passed to
/// [`super::strip_datagram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelFragment {
    pub datagram: DatagramId,
    /// Protocol of the payload. In IPv6, that of the first fragment applies.
    pub protocol: u8,
    /// Offset of its payload within the datagram's payload, bytes.
    pub offset: u32,
    /// More Fragments flag: set in all fragments but the last one.
    pub more: bool,
    /// Offset of its payload in the input.
    pub start: u32,
    /// Captured bytes of its payload.
    pub len: u32,
    /// Length of its payload on the wire, bytes.
    pub wire_len: u32,
    /// Offset of its IP header in the input.
    pub header_start: u32,
    /// Length of that header with options and extension headers, up to `start`.
    pub header_len: u32,
    /// True only for the first fragment, if it shows that the datagram has no wanted tunnel, so that its other
    /// fragments may pass unchanged.
    pub plain: bool,
}
