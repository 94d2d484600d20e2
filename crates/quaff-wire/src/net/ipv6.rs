//! IPv6 (RFC 8200): access to the fields of the fixed header, and its extension headers.

use super::fragment::Fragment;
use std::net::Ipv6Addr;

/// Length of the header without extensions.
pub(crate) const IPV6_BYTES: usize = 40;
/// Maximum number of extension headers that are followed.
pub(crate) const EXTENSIONS_MAX: usize = 12;
/// Number and length of the fragment header.
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const FRAGMENT_BYTES: usize = 8;
/// Hop-by-hop options.
pub(crate) const HOP_BY_HOP: u8 = 0;

pub(crate) const ROUTING: u8 = 43;
const AUTHENTICATION: u8 = 51;
/// Destination options.
pub(crate) const DESTINATION: u8 = 60;
pub(crate) const MOBILITY: u8 = 135;
pub(crate) const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// An IPv6 header. Fields are not validated against each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ipv6<'a>(&'a [u8; IPV6_BYTES]);

impl<'a> Ipv6<'a> {
    /// The header at the front of `bytes`, if it is complete.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    #[inline]
    pub(crate) fn is_v6(self) -> bool {
        self.0[0] >> 4 == 6
    }

    /// Length after this header; 0 in a jumbogram (RFC 2675) and in a packet that is yet to be segmented.
    #[inline]
    pub(crate) fn payload_bytes(self) -> u16 {
        u16::from_be_bytes([self.0[4], self.0[5]])
    }

    #[inline]
    pub(crate) fn next_header(self) -> u8 {
        self.0[6]
    }

    #[inline]
    pub(crate) fn source(self) -> Ipv6Addr {
        self.address(8)
    }

    #[inline]
    pub(crate) fn destination(self) -> Ipv6Addr {
        self.address(24)
    }

    #[inline]
    fn address(self, at: usize) -> Ipv6Addr {
        let octets: Option<&[u8; 16]> = self.0.get(at..).and_then(<[u8]>::first_chunk);
        Ipv6Addr::from(*octets.unwrap_or(&[0; 16]))
    }
}

/// True for the extension headers of IANA's registry (RFC 7045) whose length can be read.
#[inline]
pub(crate) fn is_extension(next: u8) -> bool {
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY | HIP | SHIM6)
}

/// Length of extension header `number` with length field `len` (RFC 8200; RFC 4302 for authentication).
#[inline]
pub(crate) fn extension_bytes(number: u8, len: u8) -> usize {
    match number {
        FRAGMENT => FRAGMENT_BYTES,
        AUTHENTICATION => (usize::from(len) + 2) * 4,
        _ => (usize::from(len) + 1) * 8,
    }
}

/// Reads a fragment header; `None` for an atomic fragment (RFC 6946), which is a complete datagram.
#[inline]
pub(crate) fn fragment(header: &[u8; FRAGMENT_BYTES]) -> Option<Fragment> {
    let word = u16::from_be_bytes([header[2], header[3]]);
    let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let (offset_bytes, more) = (word & 0xfff8, word & 1 != 0);
    (more || offset_bytes > 0).then_some(Fragment { id, offset_bytes, more })
}
