//! IPv4 (RFC 791): access to the fields of the fixed header.

use super::fragment::Fragment;
use crate::checksum;
use std::net::Ipv4Addr;

/// Length of a header without options.
pub(crate) const IPV4_BYTES: usize = 20;

/// The fixed part of an IPv4 header. Fields are not validated against each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ipv4<'a>(&'a [u8; IPV4_BYTES]);

impl<'a> Ipv4<'a> {
    /// The header at the front of `bytes`, if its fixed part is complete.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(Self)
    }

    #[inline]
    pub(crate) fn is_v4(self) -> bool {
        self.0[0] >> 4 == 4
    }

    /// Length of the header with options; below 20 in a damaged one.
    #[inline]
    pub(crate) fn header_bytes(self) -> usize {
        usize::from(self.0[0] & 15) * 4
    }

    /// Length of header and payload; 0 in a packet that the card or the kernel has yet to segment.
    #[inline]
    pub(crate) fn total_bytes(self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// The fragment fields; `None` for an unfragmented datagram.
    #[inline]
    pub(crate) fn fragment(self) -> Option<Fragment> {
        let flags = u16::from_be_bytes([self.0[6], self.0[7]]);
        let (offset_bytes, more) = ((flags & 0x1fff) * 8, flags & 0x2000 != 0);
        (more || offset_bytes > 0).then(|| Fragment {
            id: u32::from(u16::from_be_bytes([self.0[4], self.0[5]])),
            offset_bytes,
            more,
        })
    }

    #[inline]
    pub(crate) fn protocol(self) -> u8 {
        self.0[9]
    }

    #[inline]
    pub(crate) fn source(self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[12], self.0[13], self.0[14], self.0[15])
    }

    #[inline]
    pub(crate) fn destination(self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[16], self.0[17], self.0[18], self.0[19])
    }
}

/// A header without options before `payload_bytes`, with identification 1 and TTL 64. The total length is 0 if it does
/// not fit.
pub(crate) fn header(ends: [Ipv4Addr; 2], protocol: u8, payload_bytes: usize) -> [u8; IPV4_BYTES] {
    header_with(ends, protocol, payload_bytes, 0, Some(1))
}

/// The same with a type of service; without an identification, Don't Fragment is set.
pub(crate) fn header_with(
    [source, destination]: [Ipv4Addr; 2],
    protocol: u8,
    payload_bytes: usize,
    service: u8,
    id: Option<u16>,
) -> [u8; IPV4_BYTES] {
    let mut header = [0; IPV4_BYTES];
    header[..2].copy_from_slice(&[0x45, service]);
    header[2..4].copy_from_slice(&u16::try_from(IPV4_BYTES + payload_bytes).unwrap_or(0).to_be_bytes());
    header[4..6].copy_from_slice(&id.unwrap_or(0).to_be_bytes());
    header[6] = if id.is_some() { 0 } else { 0x40 };
    header[8..10].copy_from_slice(&[64, protocol]);
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    set_checksum(&mut header);
    header
}

/// Recomputes the checksum of a header.
pub(crate) fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = !checksum::sum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
