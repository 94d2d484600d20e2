//! The outer headers of a probe header: Ethernet, up to two VLAN tags, IPv4 (RFC 791), UDP (RFC 768).

use crate::checksum;
use crate::net::{
    ETHERTYPE_IPV4, IPV4_BYTES, UDP, UDP_BYTES, VlanTag, ethernet, ipv4, pseudo_header_sum, udp,
};
use std::net::{IpAddr, Ipv4Addr};

/// Largest frame that `generate` sends, bytes without FCS.
pub const FRAME_BYTES_MAX: usize = 9000;
/// Maximum number of VLAN tags: an outer (service) and an inner (customer) one.
pub(crate) const TAGS_MAX: usize = 2;

/// Addresses, tags and stream of a probe frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterHeaders {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    /// Outermost first; at most two.
    pub tags: Vec<VlanTag>,
    pub src_ip: Ipv4Addr,
    pub dst_ip: Ipv4Addr,
    /// Stream id, sent as UDP source port.
    pub stream: u16,
}

/// Why a probe frame cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProbeFrameError {
    #[error(
        "a frame of {frame_bytes} bytes is too small: headers, {tags} VLAN tag(s) and the probe header need {min}"
    )]
    Small {
        frame_bytes: usize,
        tags: usize,
        /// Smallest possible size.
        min: usize,
    },
    #[error("a frame of {0} bytes is too large; the largest is {FRAME_BYTES_MAX}")]
    Large(usize),
    #[error("{0} VLAN tags are too many; at most {TAGS_MAX}")]
    Tags(usize),
}

impl OuterHeaders {
    /// Rejects a frame of `frame_bytes` that cannot hold `min` bytes and its tags, or is too large.
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

    /// Returns a frame of `frame_bytes` with a zero probe header of `header_bytes`, the offset of that header, and the
    /// sum for the UDP checksum of everything else, including the pseudo-header.
    pub(super) fn frame(
        &self,
        (dscp, port): (u8, u16),
        frame_bytes: usize,
        header_bytes: usize,
    ) -> (Vec<u8>, usize, u16) {
        let mut bytes = Vec::with_capacity(frame_bytes);
        self.push_ethernet(&mut bytes, &self.tags);
        let udp_bytes = frame_bytes - bytes.len() - IPV4_BYTES;
        let ends = [self.src_ip, self.dst_ip];
        bytes.extend(ipv4::header_with(ends, UDP, udp_bytes, dscp << 2, None));
        let udp_offset = bytes.len();
        bytes.extend(udp::header([self.stream, port], udp_bytes - UDP_BYTES));
        let header_offset = bytes.len();
        bytes.resize(header_offset + header_bytes, 0);
        bytes.extend((header_bytes..frame_bytes - header_offset).map(|i| i as u8));
        let pseudo = pseudo_header_sum(ends.map(IpAddr::V4), UDP, udp_bytes);
        let base_sum = checksum::add(pseudo, checksum::sum(&bytes[udp_offset..]));
        (bytes, header_offset, base_sum)
    }

    /// Appends the Ethernet header with these tags.
    pub(super) fn push_ethernet(&self, bytes: &mut Vec<u8>, tags: &[VlanTag]) {
        ethernet::push_header(bytes, [self.dst_mac, self.src_mac], tags, ETHERTYPE_IPV4);
    }
}

/// Writes the probe header `encoded` at `offset`, and the UDP checksum before it. `base_sum` is the sum of the rest.
#[inline]
pub(super) fn put_header(frame: &mut [u8], offset: usize, base_sum: u16, encoded: &[u8]) {
    let sum = checksum::add(base_sum, checksum::sum(encoded));
    frame[offset - 2..offset].copy_from_slice(&udp::checksum(sum).to_be_bytes());
    frame[offset..offset + encoded.len()].copy_from_slice(encoded);
}
