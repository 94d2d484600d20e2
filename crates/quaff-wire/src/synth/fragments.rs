//! Fragments of synthetic datagrams (RFC 791, RFC 8200 section 4.5).

use crate::net::ipv4::set_checksum;
use crate::net::ipv6::{FRAGMENT, FRAGMENT_BYTES, IPV6_BYTES};

/// Splits an IPv4 packet into fragments whose payload is at most `fragment` bytes (a multiple of 8).
pub(super) fn ipv4_fragments(packet: &[u8], fragment: usize) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(usize::from(packet[0] & 15) * 4);
    let count = payload.chunks(fragment).count();
    let build = |(number, chunk): (usize, &[u8])| {
        let mut bytes = header.to_vec();
        let more = if number + 1 < count { 0x2000 } else { 0 };
        bytes[2..4].copy_from_slice(&((header.len() + chunk.len()) as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&((number * fragment / 8) as u16 | more).to_be_bytes());
        set_checksum(&mut bytes);
        bytes.extend(chunk);
        bytes
    };
    payload.chunks(fragment).enumerate().map(build).collect()
}

/// Splits an IPv6 packet without extension headers into fragments whose payload is at most `fragment` bytes (a multiple
/// of 8).
pub(super) fn ipv6_fragments(packet: &[u8], id: u32, fragment: usize) -> Vec<Vec<u8>> {
    let (header, payload) = packet.split_at(IPV6_BYTES);
    let count = payload.chunks(fragment).count();
    let build = |(number, chunk): (usize, &[u8])| {
        let mut bytes = header.to_vec();
        bytes[4..6].copy_from_slice(&((FRAGMENT_BYTES + chunk.len()) as u16).to_be_bytes());
        bytes[6] = FRAGMENT;
        bytes.extend([header[6], 0]);
        bytes.extend(((number * fragment) as u16 | u16::from(number + 1 < count)).to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend(chunk);
        bytes
    };
    payload.chunks(fragment).enumerate().map(build).collect()
}
