//! A fragment of an IP packet (RFC 791 section 3.2, RFC 8200 section 4.5), for reassembly.

use crate::net::DatagramId;

/// A fragment of a datagram that may carry a tunnel.
///
/// Its bytes are `bytes[start..][..len]` of what was given to `strip`. A reassembled
/// datagram goes to [`super::strip_datagram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelFragment {
    pub datagram: DatagramId,
    /// Protocol of the payload. In IPv6, that of the first fragment counts.
    pub protocol: u8,
    /// Offset of its payload in the datagram's, bytes.
    pub offset: u32,
    /// Set in all fragments but the last one.
    pub more: bool,
    /// Offset of its payload in the bytes given.
    pub start: u32,
    /// Captured bytes of its payload.
    pub len: u32,
    /// Bytes that its payload had on the wire.
    pub wire_len: u32,
    /// Offset of its IP header in the bytes given.
    pub header_start: u32,
    /// Bytes of that header, with options and extension headers, up to `start`.
    pub header_len: u32,
    /// Only in the first fragment: it shows that no wanted tunnel is in the datagram, whose other
    /// fragments can pass as they are.
    pub plain: bool,
}
