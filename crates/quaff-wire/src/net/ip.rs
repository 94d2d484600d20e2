//! IP of either version as a common set of offsets: addresses, end of the datagram, transport header.

use super::fragment::Fragment;
use super::ipv4::{IPV4_BYTES, Ipv4};
use super::ipv6::{self, EXTENSIONS_MAX, FRAGMENT, IPV6_BYTES, Ipv6};
use super::{SCTP, TCP, UDP, be16};
use std::net::IpAddr;

/// An IP header (RFC 791, RFC 8200), and the place of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// End of the datagram: by its length field, or the end of the bytes if that is earlier.
    pub end: usize,
    /// The protocol after the header and its extensions.
    pub protocol: u8,
    /// Offset of that protocol's header; in a later fragment, of its data.
    pub transport: usize,
    pub fragment: Option<Fragment>,
}

/// The fields shared by all fragments of a datagram (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatagramId {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// 16 bits in IPv4, 32 bits in IPv6.
    pub id: u32,
    /// IPv4: the protocol. IPv6: 44, since only the first fragment names the protocol reliably.
    pub protocol: u8,
}

impl Ip {
    /// Source and destination port of TCP, UDP and SCTP; `None` for other protocols, and if the header is not captured
    /// or is in another fragment.
    #[inline]
    pub fn ports(&self, frame: &[u8]) -> Option<[u16; 2]> {
        if !matches!(self.protocol, TCP | UDP | SCTP) || self.is_later_fragment() {
            return None;
        }
        let bytes = frame.get(self.transport..self.end)?;
        Some([be16(bytes, 0)?, be16(bytes, 2)?])
    }

    /// True for IPv6.
    pub fn is_v6(&self) -> bool {
        self.addresses[0].is_ipv6()
    }

    /// True for a fragment that is not the first of its datagram.
    #[inline]
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset_bytes > 0)
    }

    /// Skips one extension header (RFC 8200, section 4); returns false if there is none.
    #[inline]
    fn skip_extension(&mut self, frame: &[u8]) -> bool {
        if !ipv6::is_extension(self.protocol) || self.is_later_fragment() {
            return false;
        }
        let header = frame.get(self.transport..self.end).and_then(|bytes| bytes.first_chunk::<8>());
        let Some(header) = header else { return false };
        let bytes = ipv6::extension_bytes(self.protocol, header[1]);
        if self.protocol == FRAGMENT {
            self.fragment = ipv6::fragment(header);
        }
        if self.transport + bytes > self.end {
            return false;
        }
        self.protocol = header[0];
        self.transport += bytes;
        true
    }
}

/// The IP header of either version at offset `at`, as in a frame without a link header.
#[inline]
pub(crate) fn ip_at(frame: &[u8], at: usize) -> Option<Ip> {
    match frame.get(at)? >> 4 {
        4 => ipv4_at(frame, at),
        6 => ipv6_at(frame, at),
        _ => None,
    }
}

/// Source and destination of the IP header at the front of `bytes`, whose length fields may be invalid.
pub(crate) fn addresses(bytes: &[u8]) -> Option<[IpAddr; 2]> {
    match bytes.first()? >> 4 {
        4 => Ipv4::new(bytes).map(|header| [header.source().into(), header.destination().into()]),
        6 => Ipv6::new(bytes).map(|header| [header.source().into(), header.destination().into()]),
        _ => None,
    }
}

#[inline]
pub(super) fn ipv4_at(frame: &[u8], at: usize) -> Option<Ip> {
    let header = Ipv4::new(frame.get(at..)?)?;
    let header_bytes = header.header_bytes();
    let total_bytes = match header.total_bytes() {
        0 => frame.len() - at,
        bytes => bytes.into(),
    };
    if !header.is_v4()
        || header_bytes < IPV4_BYTES
        || total_bytes < header_bytes
        || at + header_bytes > frame.len()
    {
        return None;
    }
    Some(Ip {
        addresses: [header.source().into(), header.destination().into()],
        end: frame.len().min(at + total_bytes),
        protocol: header.protocol(),
        transport: at + header_bytes,
        fragment: header.fragment(),
    })
}

#[inline]
pub(super) fn ipv6_at(frame: &[u8], at: usize) -> Option<Ip> {
    let header = Ipv6::new(frame.get(at..)?).filter(|header| header.is_v6())?;
    let end = match header.payload_bytes() {
        0 => frame.len(),
        bytes => frame.len().min(at + IPV6_BYTES + usize::from(bytes)),
    };
    let mut ip = Ip {
        addresses: [header.source().into(), header.destination().into()],
        end,
        protocol: header.next_header(),
        transport: at + IPV6_BYTES,
        fragment: None,
    };
    for _ in 0..EXTENSIONS_MAX {
        if !ip.skip_extension(frame) {
            break;
        }
    }
    Some(ip)
}
