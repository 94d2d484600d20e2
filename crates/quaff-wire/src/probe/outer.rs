//! The headers around a probe header: Ethernet, up to two VLAN tags, IPv4 (RFC 791), UDP (RFC 768).

use crate::checksum;
use crate::net::{ETHERTYPE_IPV4, IPV4_BYTES, UDP, VlanTag};
use std::net::Ipv4Addr;

/// The largest frame, without FCS, that `generate` sends.
pub const FRAME_BYTES_MAX: usize = 9000;
/// The most VLAN tags: an outer (service) and an inner (customer) one.
pub(crate) const TAGS_MAX: usize = 2;

/// Addresses, tags and stream of a frame of probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterHeaders {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    /// The outer one first; at most two.
    pub tags: Vec<VlanTag>,
    pub src_ip: Ipv4Addr,
    pub dst_ip: Ipv4Addr,
    /// Sent as UDP source port.
    pub stream: u16,
}

/// A frame of probes that cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFrameError {
    #[error(
        "a frame of {frame_bytes} bytes is too small: headers, {tags} VLAN tag(s) and the probe header need {min}"
    )]
    Small {
        frame_bytes: usize,
        tags: usize,
        /// The smallest size that has room.
        min: usize,
    },
    #[error("a frame of {0} bytes is too large; the largest is {FRAME_BYTES_MAX}")]
    Large(usize),
    #[error("{0} VLAN tags are too many; at most {TAGS_MAX}")]
    Tags(usize),
}

impl OuterHeaders {
    /// Refuses a frame of `frame_bytes` that has no room for `min` bytes and its tags, or is too large.
    pub(super) fn check(&self, frame_bytes: usize, min: usize) -> Result<(), ProbeFrameError> {
        let tags = self.tags.len();
        if tags > TAGS_MAX {
            return Err(ProbeFrameError::Tags(tags));
        }
        if frame_bytes > FRAME_BYTES_MAX {
            return Err(ProbeFrameError::Large(frame_bytes));
        }
        if frame_bytes < min {
            return Err(ProbeFrameError::Small { frame_bytes, tags, min });
        }
        Ok(())
    }

    /// A frame of `frame_bytes` whose probe header of `header_bytes` is zero, the offset of that header, and the sum
    /// under the UDP checksum of all but the probe header and the checksum, pseudo header included.
    pub(super) fn frame(
        &self,
        (dscp, port): (u8, u16),
        frame_bytes: usize,
        header_bytes: usize,
    ) -> (Vec<u8>, usize, u16) {
        let mut bytes = Vec::with_capacity(frame_bytes);
        push_ethernet(&mut bytes, self);
        let ip_bytes = (frame_bytes - bytes.len()) as u16;
        let udp_bytes = ip_bytes - IPV4_BYTES as u16;
        push_ipv4(&mut bytes, self, dscp, ip_bytes);
        let udp_offset = bytes.len();
        push_udp(&mut bytes, self, port, udp_bytes);
        let header_offset = bytes.len();
        bytes.resize(header_offset + header_bytes, 0);
        bytes.extend((header_bytes..frame_bytes - header_offset).map(|i| i as u8));
        let base_sum = checksum::add(pseudo_header_sum(self, udp_bytes), checksum::sum(&bytes[udp_offset..]));
        (bytes, header_offset, base_sum)
    }
}

/// The UDP checksum of a frame whose sum is `base_sum` but for its probe header `encoded`.
#[inline]
pub(super) fn udp_checksum(base_sum: u16, encoded: &[u8]) -> [u8; 2] {
    let sum = checksum::add(base_sum, checksum::sum(encoded));
    // RFC 768: a checksum that computes to zero is sent as all ones.
    (if sum == 0xffff { 0xffff } else { !sum }).to_be_bytes()
}

pub(super) fn push_ethernet(bytes: &mut Vec<u8>, headers: &OuterHeaders) {
    bytes.extend(headers.dst_mac);
    bytes.extend(headers.src_mac);
    for tag in &headers.tags {
        bytes.extend(tag.tpid.to_be_bytes());
        bytes.extend(tag.tci.to_be_bytes());
    }
    bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
}

/// RFC 791 section 3.1: no options, identification 0, don't fragment, TTL 64; the code point of RFC 2474.
fn push_ipv4(bytes: &mut Vec<u8>, headers: &OuterHeaders, dscp: u8, total_length: u16) {
    let mut header = [0u8; IPV4_BYTES];
    header[0] = 0x45;
    header[1] = dscp << 2;
    header[2..4].copy_from_slice(&total_length.to_be_bytes());
    header[6] = 0x40;
    header[8] = 64;
    header[9] = UDP;
    header[12..16].copy_from_slice(&headers.src_ip.octets());
    header[16..20].copy_from_slice(&headers.dst_ip.octets());
    let checksum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(header);
}

/// RFC 768, with a checksum of zero, which is set with each probe header.
fn push_udp(bytes: &mut Vec<u8>, headers: &OuterHeaders, port: u16, length: u16) {
    for word in [headers.stream, port, length, 0] {
        bytes.extend(word.to_be_bytes());
    }
}

/// The part of an IPv4 header that the UDP checksum covers (RFC 768).
fn pseudo_header_sum(headers: &OuterHeaders, udp_length: u16) -> u16 {
    let addresses =
        checksum::add(checksum::sum(&headers.src_ip.octets()), checksum::sum(&headers.dst_ip.octets()));
    checksum::add(addresses, checksum::add(u16::from(UDP), udp_length))
}
