//! Recomputes the checksums of an IP packet.

use super::sctp;
use crate::checksum;
use crate::net::ipv6::{HIP, MOBILITY};
use crate::net::pseudo_header::Extension;
use crate::net::{self, ICMP, ICMPV6, Ip, SCTP, TCP, UDP, icmp, ipv4, tcp, udp};
use std::net::IpAddr;

/// UDP-Lite (RFC 3828) and DCCP (RFC 4340) have their checksum at UDP's offset.
const DCCP: u8 = 33;
const UDP_LITE: u8 = 136;
/// Protocols whose checksum covers the addresses over IPv6: OSPF (RFC 5340), PIM (RFC 7761), VRRP (RFC 9568).
const OSPF: u8 = 89;
const PIM: u8 = 103;
const VRRP: u8 = 112;
/// No next header (RFC 8200, section 4.7).
const NONE: u8 = 59;
/// Offset of the checksum in a mobility header, and in one of HIP.
const EXTENSION_CHECKSUM: usize = 4;

/// Offset in the frame of a checksum that also covers the addresses, of the packet whose IP header is at `at`.
pub(super) fn offset(frame: &[u8], at: usize, ip: &Ip) -> Option<usize> {
    let in_header = match ip.protocol {
        TCP => tcp::CHECKSUM_OFFSET,
        UDP | UDP_LITE | DCCP => udp::CHECKSUM_OFFSET,
        ICMPV6 | PIM if ip.is_v6() => icmp::CHECKSUM_OFFSET,
        OSPF if ip.is_v6() => 12,
        VRRP if ip.is_v6() => 6,
        NONE if ip.is_v6() => return last_extension(frame, at, ip).map(|last| last.at + EXTENSION_CHECKSUM),
        _ => return None,
    };
    Some(ip.transport + in_header)
}

/// The extension header that ends the packet at `at`, if it has a checksum: that of mobility (RFC 6275, section 6.1.1)
/// or of HIP (RFC 7401, section 5.1.1).
fn last_extension<'a>(frame: &'a [u8], at: usize, ip: &Ip) -> Option<Extension<'a>> {
    ip.extensions(frame, at).last().filter(|last| matches!(last.number, MOBILITY | HIP))
}

/// End of the packet at `at` according to its length field, although its bytes may end earlier.
pub(super) fn declared_end(frame: &[u8], at: usize) -> usize {
    let word = |offset: usize| usize::from(u16::from_be_bytes([frame[at + offset], frame[at + offset + 1]]));
    let (length, header) = if frame[at] >> 4 == 4 { (word(2), 0) } else { (word(4), 40) };
    if length == 0 { frame.len() } else { at + header + length }
}

/// Recomputes all checksums of the packet at `at`: that of IPv4, and for a complete unfragmented packet that of TCP,
/// UDP (if present), ICMP, ICMPv6, SCTP, mobility or HIP.
pub(super) fn recompute(frame: &mut [u8], at: usize) {
    let Some(ip) = net::ip_at(frame, at) else { return };
    if !ip.is_v6() {
        recompute_header(frame, at);
    }
    if ip.fragment.is_none() && declared_end(frame, at) == ip.end {
        recompute_transport(frame, at, &ip);
    }
}

/// Recomputes the checksum of the IPv4 header at `at`.
pub(super) fn recompute_header(frame: &mut [u8], at: usize) {
    let end = at + usize::from(frame[at] & 15) * 4;
    ipv4::set_checksum(&mut frame[at..end]);
}

fn recompute_transport(frame: &mut [u8], at: usize, ip: &Ip) {
    let ends = ip.ends(frame, at).map(|(address, _)| address);
    let offset = match ip.protocol {
        ICMP if !ip.is_v6() => icmp::CHECKSUM_OFFSET,
        TCP => tcp::CHECKSUM_OFFSET,
        UDP => udp::CHECKSUM_OFFSET,
        ICMPV6 if ip.is_v6() => icmp::CHECKSUM_OFFSET,
        SCTP => return sctp::recompute(&mut frame[ip.transport..ip.end]),
        NONE if ip.is_v6() => {
            let last = last_extension(frame, at, ip).map(|last| (last.number, last.at));
            let Some((number, from)) = last else { return };
            return put(&mut frame[from..ip.transport], EXTENSION_CHECKSUM, ends, number);
        }
        _ => return,
    };
    let bytes = &mut frame[ip.transport..ip.end];
    let bytes = match udp_length(bytes) {
        Some(length) if ip.protocol == UDP => &mut bytes[..length],
        _ => bytes,
    };
    put(bytes, offset, ends, ip.protocol);
}

/// Writes the checksum at `offset` in `bytes`, which it covers, with the pseudo header of `ends` and `protocol`.
fn put(bytes: &mut [u8], offset: usize, ends: [IpAddr; 2], protocol: u8) {
    let Some(old) = bytes.get_mut(offset..offset + 2) else { return };
    if protocol == UDP && old == [0, 0] {
        return; // No checksum (RFC 768).
    }
    old.fill(0);
    let pseudo = if protocol == ICMP { 0 } else { net::pseudo_header_sum(ends, protocol, bytes.len()) };
    let sum = checksum::add(pseudo, checksum::sum(bytes));
    let sum = if protocol == UDP { udp::checksum(sum) } else { !sum };
    bytes[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The length in a UDP header, if the datagram is complete.
fn udp_length(bytes: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]));
    (8..=bytes.len()).contains(&length).then_some(length)
}
