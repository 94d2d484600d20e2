//! The frame that `generate` sends: Ethernet, up to two VLAN tags, IPv4, UDP, a stamp, a pattern.
//!
//! A [`Frame`] is built once; per packet only its stamp and its UDP checksum change, so it keeps
//! the sum of all that does not. IPv4 is RFC 791, UDP RFC 768, tags IEEE 802.1Q. Nothing here
//! parses: reading a frame back is the business of `stamp`.

use crate::checksum;
use crate::stamp::{FRAME_BYTES_MIN, PORT, STAMP_BYTES, Stamp};
use crate::tunnel::build;
use std::net::Ipv4Addr;

/// The largest frame, without FCS, that `generate` knows how to ask for.
pub const FRAME_BYTES_MAX: usize = 9000;
/// At most so many VLAN tags: an outer (service) and an inner (customer) one.
pub const TAGS_MAX: usize = 2;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// TPID of a customer tag (802.1Q).
pub const TPID_CUSTOMER: u16 = 0x8100;
/// TPID of a service tag (802.1ad).
pub const TPID_SERVICE: u16 = 0x88a8;
/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// IP protocol number of GRE.
const PROTOCOL_GRE: u8 = 47;
/// Bytes of a GRE header without options (RFC 2784).
const GRE_BYTES: usize = 4;
/// Bytes that a mirror port puts before a frame: Ethernet, IPv4, GRE with its sequence number (RFC
/// 2890), ERSPAN type II (draft-foschiano-erspan-03).
pub const MIRROR_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + GRE_BYTES + 4 + 8;

/// Bytes of the two MAC addresses.
pub(crate) const MACS_BYTES: usize = 12;
/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = MACS_BYTES + 2;
/// Bytes of one VLAN tag, TPID and TCI.
pub const TAG_BYTES: usize = 4;
/// Bytes of an IPv4 header without options.
pub(crate) const IPV4_BYTES: usize = 20;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

/// A VLAN tag as it stands in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Which kind of tag: [`TPID_CUSTOMER`] or [`TPID_SERVICE`].
    pub tpid: u16,
    /// Priority 3 bits, drop eligible 1 bit, VLAN id 12 bits.
    pub tci: u16,
}

/// What the headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// Destination MAC.
    pub dst_mac: [u8; 6],
    /// Source MAC.
    pub src_mac: [u8; 6],
    /// VLAN tags, the outer one first; at most [`TAGS_MAX`].
    pub tags: Vec<Tag>,
    /// Source address.
    pub src_ip: Ipv4Addr,
    /// Destination address.
    pub dst_ip: Ipv4Addr,
    /// The stream id, sent as UDP source port.
    pub stream: u16,
}

/// Why a frame cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The stamp does not fit.
    #[error(
        "a frame of {frame_bytes} bytes is too small: headers, {tags} VLAN tag(s) and the stamp need {min}"
    )]
    Small {
        /// What was asked for.
        frame_bytes: usize,
        /// Number of VLAN tags.
        tags: usize,
        /// The smallest that would do.
        min: usize,
    },
    /// Over [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes is too large; the largest is {FRAME_BYTES_MAX}")]
    Large(usize),
    /// Over [`TAGS_MAX`].
    #[error("{0} VLAN tags are too many; at most {TAGS_MAX}")]
    Tags(usize),
}

/// One frame with a place for the stamp.
#[derive(Debug, Clone)]
pub struct Frame {
    bytes: Vec<u8>,
    stamp_offset: usize,
    base_sum: u16,
    tags: usize,
    /// Where the number of a mirror port stands.
    sequence_offset: Option<usize>,
}

impl Frame {
    /// A frame of `frame_bytes` (without FCS, tags included) whose stamp is all zero.
    pub fn new(headers: &Headers, frame_bytes: usize) -> Result<Self, FrameError> {
        let tags = headers.tags.len();
        let min = FRAME_BYTES_MIN + tags * TAG_BYTES;
        if tags > TAGS_MAX {
            return Err(FrameError::Tags(tags));
        }
        if frame_bytes > FRAME_BYTES_MAX {
            return Err(FrameError::Large(frame_bytes));
        }
        if frame_bytes < min {
            return Err(FrameError::Small { frame_bytes, tags, min });
        }
        let mut bytes = Vec::with_capacity(frame_bytes);
        push_ethernet(&mut bytes, headers);
        let ip_bytes = (frame_bytes - bytes.len()) as u16;
        push_ipv4(&mut bytes, headers, 0, ip_bytes);
        let udp_offset = bytes.len();
        push_udp(&mut bytes, headers, PORT, ip_bytes - IPV4_BYTES as u16);
        let stamp_offset = bytes.len();
        bytes.extend([0; STAMP_BYTES]);
        bytes.extend((STAMP_BYTES..frame_bytes - stamp_offset).map(|i| i as u8));
        let pseudo = pseudo_header_sum(headers, ip_bytes - IPV4_BYTES as u16);
        let base_sum = checksum::add(pseudo, checksum::sum(&bytes[udp_offset..]));
        Ok(Self { bytes, stamp_offset, base_sum, tags, sequence_offset: None })
    }

    /// The frame as a switch's mirror port sends it, inside ERSPAN type II with this session id (10
    /// bits), and numbered by its stamp. Outer addresses are those of `headers`.
    pub fn mirrored(self, headers: &Headers, session: u16) -> Self {
        let mut bytes = Vec::with_capacity(MIRROR_BYTES + self.bytes.len());
        push_ethernet(&mut bytes, &Headers { tags: Vec::new(), ..headers.clone() });
        let mirror = build::Erspan { session, ..build::Erspan::default() };
        let gre = build::erspan_ii(0, &mirror, 0, &self.bytes);
        bytes.extend(build::ipv4(headers.src_ip, headers.dst_ip, PROTOCOL_GRE, &[], &gre));
        let sequence_offset = Some(ETHERNET_BYTES + IPV4_BYTES + GRE_BYTES);
        Self { bytes, stamp_offset: self.stamp_offset + MIRROR_BYTES, sequence_offset, ..self }
    }

    /// Writes `stamp` and the UDP checksum that goes with it. The stream id stays the frame's own.
    pub fn set(&mut self, stamp: &Stamp) {
        let encoded = stamp.encode();
        let sum = checksum::add(self.base_sum, checksum::sum(&encoded));
        // RFC 768: a checksum that computes to zero is sent as all ones.
        let checksum = if sum == 0xffff { 0xffff } else { !sum };
        self.bytes[self.stamp_offset..][..STAMP_BYTES].copy_from_slice(&encoded);
        let at = self.checksum_offset();
        self.bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        if let Some(at) = self.sequence_offset {
            self.bytes[at..at + 4].copy_from_slice(&(stamp.seq as u32).to_be_bytes());
        }
    }

    /// The bytes of the frame, without FCS.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many VLAN tags it has.
    pub fn tags(&self) -> usize {
        self.tags
    }

    /// Where the stamp begins.
    pub fn stamp_offset(&self) -> usize {
        self.stamp_offset
    }

    /// Where the number of a mirror port stands, which is the lower half of the stamp's.
    pub fn sequence_offset(&self) -> Option<usize> {
        self.sequence_offset
    }

    /// Where the UDP checksum stands.
    pub fn checksum_offset(&self) -> usize {
        self.stamp_offset - 2
    }

    /// The sum under the UDP checksum of all but stamp and checksum, pseudo header included.
    pub fn base_sum(&self) -> u16 {
        self.base_sum
    }
}

pub(crate) fn push_ethernet(bytes: &mut Vec<u8>, headers: &Headers) {
    bytes.extend(headers.dst_mac);
    bytes.extend(headers.src_mac);
    for tag in &headers.tags {
        bytes.extend(tag.tpid.to_be_bytes());
        bytes.extend(tag.tci.to_be_bytes());
    }
    bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
}

/// RFC 791 section 3.1: no options, identification 0, don't fragment, TTL 64; the code point of RFC 2474.
pub(crate) fn push_ipv4(bytes: &mut Vec<u8>, headers: &Headers, dscp: u8, total_length: u16) {
    let mut header = [0u8; IPV4_BYTES];
    header[0] = 0x45;
    header[1] = dscp << 2;
    header[2..4].copy_from_slice(&total_length.to_be_bytes());
    header[6] = 0x40;
    header[8] = 64;
    header[9] = PROTOCOL_UDP;
    header[12..16].copy_from_slice(&headers.src_ip.octets());
    header[16..20].copy_from_slice(&headers.dst_ip.octets());
    let checksum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(header);
}

/// RFC 768, with a checksum of zero that [`Frame::set`] fills in.
pub(crate) fn push_udp(bytes: &mut Vec<u8>, headers: &Headers, port: u16, length: u16) {
    for word in [headers.stream, port, length, 0] {
        bytes.extend(word.to_be_bytes());
    }
}

/// The part of an IPv4 header that the UDP checksum covers (RFC 768).
pub(crate) fn pseudo_header_sum(headers: &Headers, udp_length: u16) -> u16 {
    let addresses =
        checksum::add(checksum::sum(&headers.src_ip.octets()), checksum::sum(&headers.dst_ip.octets()));
    checksum::add(addresses, checksum::add(u16::from(PROTOCOL_UDP), udp_length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;

    pub(crate) fn headers(tags: Vec<Tag>) -> Headers {
        Headers {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags,
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: 7,
        }
    }

    fn tag() -> impl Strategy<Value = Tag> {
        (prop::sample::select(vec![TPID_CUSTOMER, TPID_SERVICE]), any::<u16>())
            .prop_map(|(tpid, tci)| Tag { tpid, tci })
    }

    fn stamp() -> impl Strategy<Value = Stamp> {
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(seq, intended_ns, late_ns)| Stamp {
            stream: 7,
            seq,
            intended_ns,
            late_ns,
            last: late_ns & 1 == 1,
            bounded: late_ns & 2 == 2,
        })
    }

    #[test]
    fn limits_are_told() {
        let one = headers(vec![Tag { tpid: TPID_CUSTOMER, tci: 5 }]);
        assert!(Frame::new(&headers(vec![]), 64).is_ok());
        assert_eq!(
            Frame::new(&headers(vec![]), 63).unwrap_err(),
            FrameError::Small { frame_bytes: 63, tags: 0, min: 64 }
        );
        assert_eq!(
            Frame::new(&one, 67).unwrap_err(),
            FrameError::Small { frame_bytes: 67, tags: 1, min: 68 }
        );
        assert_eq!(Frame::new(&one, 9001).unwrap_err(), FrameError::Large(9001));
        assert_eq!(Frame::new(&headers(vec![one.tags[0]; 3]), 100).unwrap_err(), FrameError::Tags(3));
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let mut frame = Frame::new(&headers(vec![]), 64).unwrap();
        let mut seen = false;
        // One of 65536 consecutive low words makes the sum come out as 0xffff.
        for seq in 0..=0xffff {
            frame.set(&Stamp { stream: 7, seq, intended_ns: 0, late_ns: 0, last: false, bounded: false });
            let at = frame.checksum_offset();
            let checksum = &frame.bytes()[at..at + 2];
            assert_ne!(checksum, [0, 0]);
            seen |= checksum == [0xff, 0xff];
        }
        assert!(seen);
    }

    proptest! {
        #[test]
        fn etherparse_reads_what_was_meant(
            tags in prop::collection::vec(tag(), 0..=2),
            frame_bytes in 72usize..=9000,
            stamp in stamp(),
        ) {
            let headers = headers(tags);
            let mut frame = Frame::new(&headers, frame_bytes).unwrap();
            frame.set(&stamp);
            prop_assert_eq!(frame.bytes().len(), frame_bytes);
            let packet = SlicedPacket::from_ethernet(frame.bytes()).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
            let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("no UDP") };
            let ip = ip.header().to_header();
            prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            prop_assert_eq!(ip.time_to_live, 64);
            prop_assert!(ip.dont_fragment);
            prop_assert_eq!(ip.source, headers.src_ip.octets());
            prop_assert_eq!(ip.destination, headers.dst_ip.octets());
            let header = udp.to_header();
            prop_assert_eq!((header.source_port, header.destination_port), (7, PORT));
            let right = header.calc_checksum_ipv4(&ip, udp.payload()).unwrap();
            prop_assert_eq!(header.checksum, right);
            prop_assert_eq!(packet.vlan_ids().len(), headers.tags.len());
            prop_assert_eq!(&udp.payload()[..STAMP_BYTES], &stamp.encode()[..]);
            for (i, byte) in udp.payload().iter().enumerate().skip(STAMP_BYTES) {
                prop_assert_eq!(*byte, i as u8);
            }
        }
    }
}
