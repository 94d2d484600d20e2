//! Builds an IP packet from a 5-tuple and a payload: IPv4 or IPv6; UDP, TCP or ICMP; with correct checksums.
//!
//! IPv4 is RFC 791, IPv6 RFC 8200, UDP RFC 768, TCP RFC 9293, ICMP RFC 792 and RFC 4443.

use super::content::{PayloadSlice, Pool};
use super::tuples::Tuple;
use crate::checksum;
use crate::net::icmp::HEADER_BYTES as ICMP_BYTES;
use crate::net::tcp::TCP_BYTES;
use crate::net::{ICMP, ICMPV6, TCP, UDP, UDP_BYTES, ipv4, pseudo_header_sum, udp};
use crate::probe::HEADER_BYTES;
use std::net::IpAddr;

/// The transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp {
        seq: u32,
        ack: u32,
        flags: u8,
    },
    /// An ICMP or ICMPv6 echo request.
    Icmp {
        id: u16,
        seq: u16,
    },
}

/// The transport payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload<'a> {
    pub(super) probe: Option<[u8; HEADER_BYTES]>,
    pub(super) pool: &'a Pool,
    pub(super) slice: PayloadSlice,
}

/// Offsets relative to the start of the buffer that the packet was appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Offset of the IP header.
    pub(super) ip: usize,
    /// Offset of the transport header.
    pub(super) transport: usize,
    /// Offset of the transport checksum; `None` in a fragment.
    pub(super) checksum: Option<usize>,
    /// Offset after the last byte of the datagram.
    pub(super) end: usize,
}

impl Transport {
    /// Length of the header.
    pub(super) fn header_bytes(self) -> usize {
        match self {
            Self::Udp => UDP_BYTES,
            Self::Tcp { .. } => TCP_BYTES,
            Self::Icmp { .. } => ICMP_BYTES,
        }
    }

    fn protocol(self, is_v4: bool) -> u8 {
        match self {
            Self::Udp => UDP,
            Self::Tcp { .. } => TCP,
            Self::Icmp { .. } if is_v4 => ICMP,
            Self::Icmp { .. } => ICMPV6,
        }
    }

    /// The header with a zero checksum, and the checksum's offset.
    fn header(self, tuple: &Tuple, bytes: usize) -> ([u8; TCP_BYTES], usize) {
        let mut header = [0; TCP_BYTES];
        let mut put = |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
        let [src, dst] = tuple.ports;
        let checksum = match self {
            Self::Udp => {
                put(0, &src.to_be_bytes());
                put(2, &dst.to_be_bytes());
                put(4, &(bytes as u16).to_be_bytes());
                6
            }
            Self::Tcp { seq, ack, flags } => {
                put(0, &src.to_be_bytes());
                put(2, &dst.to_be_bytes());
                put(4, &seq.to_be_bytes());
                put(8, &ack.to_be_bytes());
                // Data offset of five words; largest window without scaling.
                put(12, &[5 << 4, flags, 0xff, 0xff]);
                16
            }
            Self::Icmp { id, seq } => {
                put(0, &[if tuple.addresses[0].is_ipv4() { 8 } else { 128 }]);
                put(4, &id.to_be_bytes());
                put(6, &seq.to_be_bytes());
                2
            }
        };
        (header, checksum)
    }
}

impl Payload<'_> {
    pub(super) fn len(&self) -> usize {
        self.slice.len() + self.probe.map_or(0, |_| HEADER_BYTES)
    }
}

/// Appends a packet. With an `id` it may be fragmented; without one it has Don't Fragment.
pub(super) fn push(
    out: &mut Vec<u8>,
    tuple: &Tuple,
    transport: Transport,
    payload: &Payload<'_>,
    id: Option<u16>,
) -> Layout {
    let is_v4 = tuple.addresses[0].is_ipv4();
    let header_bytes = transport.header_bytes();
    let bytes = header_bytes + payload.len();
    let protocol = transport.protocol(is_v4);
    let ip = out.len();
    push_ip(out, tuple.addresses, protocol, bytes, id);
    let at = out.len();
    let (header, checksum_at) = transport.header(tuple, bytes);
    let header = &header[..header_bytes];
    // RFC 792: ICMP has no pseudo-header.
    let mut sum = if protocol == ICMP { 0 } else { pseudo_header_sum(tuple.addresses, protocol, bytes) };
    sum = checksum::add(sum, checksum::sum(header));
    out.extend(header);
    if let Some(probe) = payload.probe {
        sum = checksum::add(sum, checksum::sum(&probe));
        out.extend(probe);
    }
    sum = checksum::add(sum, payload.pool.sum(payload.slice));
    out.extend_from_slice(payload.pool.bytes(payload.slice));
    let complement = if transport == Transport::Udp { udp::checksum(sum) } else { !sum };
    out[at + checksum_at..][..2].copy_from_slice(&complement.to_be_bytes());
    Layout { ip, transport: at, checksum: Some(at + checksum_at), end: out.len() }
}

fn push_ip(out: &mut Vec<u8>, addresses: [IpAddr; 2], protocol: u8, bytes: usize, id: Option<u16>) {
    match addresses {
        [IpAddr::V4(src), IpAddr::V4(dst)] => {
            out.extend(ipv4::header_with([src, dst], protocol, bytes, 0, id));
        }
        [src, dst] => {
            out.extend([0x60, 0, 0, 0]);
            out.extend((bytes as u16).to_be_bytes());
            out.extend([protocol, 64]);
            out.extend(octets(src));
            out.extend(octets(dst));
        }
    }
}

/// The 16 bytes of an IPv6 address; an IPv4 address is mapped.
fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
