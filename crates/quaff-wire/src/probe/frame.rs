//! Frames with probe headers: outer headers, a probe header, a pattern.
//!
//! A [`ProbeFrame`] is built once; per packet only its probe header and its UDP checksum change, so it stores the sum
//! of everything else. Nothing is parsed here: [`super::classify`] reads frames.

use super::classify::{PAYLOAD_OFFSET, ProbeLayout};
use super::header::ProbeHeader;
use super::outer::{OuterHeaders, ProbeFrameError, put_header};
use super::trial::TrialHeader;
use crate::net::{ETHERNET_BYTES, GRE, IPV4_BYTES, TAG_BYTES, ipv4};
use crate::tunnel::write::{self, ERSPAN_II_BYTES, ERSPAN_II_SEQUENCE};
use std::marker::PhantomData;

/// Length of the headers of a mirror port: Ethernet, IPv4, GRE and ERSPAN type II.
pub const MIRROR_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + ERSPAN_II_BYTES;

/// A frame with a place for a probe header: of `generate` or, as `ProbeFrame<TrialHeader>`, of a trial.
#[derive(Debug, Clone)]
pub struct ProbeFrame<H = ProbeHeader> {
    /// The frame, without FCS.
    pub bytes: Vec<u8>,
    /// Offset of the probe header; the UDP checksum is in the two bytes before it.
    pub header_offset: usize,
    /// Offset of the ERSPAN sequence number, which is the lower half of the probe header's.
    pub sequence_offset: Option<usize>,
    /// Sum for the UDP checksum without probe header and checksum, including the pseudo-header.
    base_sum: u16,
    kind: PhantomData<H>,
}

impl<H> ProbeFrame<H> {
    fn build(
        headers: &OuterHeaders,
        dscp: u8,
        frame_bytes: usize,
        layout: &ProbeLayout,
    ) -> Result<Self, ProbeFrameError> {
        let needed = PAYLOAD_OFFSET + layout.bytes + headers.tags.len() * TAG_BYTES;
        headers.check(frame_bytes, needed.max(layout.frame_bytes_min))?;
        let (bytes, header_offset, base_sum) = headers.frame((dscp, layout.port), frame_bytes, layout.bytes);
        Ok(Self { bytes, header_offset, sequence_offset: None, base_sum, kind: PhantomData })
    }

    #[inline]
    fn put(&mut self, encoded: &[u8]) {
        put_header(&mut self.bytes, self.header_offset, self.base_sum, encoded);
    }
}

impl ProbeFrame {
    /// A frame of `frame_bytes` (without FCS, with tags) with a zero probe header.
    pub fn new(headers: &OuterHeaders, frame_bytes: usize) -> Result<Self, ProbeFrameError> {
        Self::build(headers, 0, frame_bytes, &ProbeHeader::LAYOUT)
    }

    /// The frame as a mirror port sends it: inside ERSPAN type II with this session id (10 bits), numbered by its probe
    /// header, with the outer addresses of `headers`.
    pub fn mirrored(self, headers: &OuterHeaders, session: u16) -> Self {
        let mut bytes = Vec::with_capacity(MIRROR_BYTES + self.bytes.len());
        headers.push_ethernet(&mut bytes, &[]);
        let ends = [headers.src_ip, headers.dst_ip];
        bytes.extend(ipv4::header(ends, GRE, ERSPAN_II_BYTES + self.bytes.len()));
        bytes.extend(write::erspan_ii(session));
        bytes.extend(&self.bytes);
        let sequence_offset = Some(ETHERNET_BYTES + IPV4_BYTES + ERSPAN_II_SEQUENCE);
        Self { bytes, header_offset: self.header_offset + MIRROR_BYTES, sequence_offset, ..self }
    }

    /// Writes `header` and the matching UDP checksum. The stream id stays that of the frame.
    pub fn set(&mut self, header: &ProbeHeader) {
        self.put(&header.encode());
        if let Some(at) = self.sequence_offset {
            self.bytes[at..at + 4].copy_from_slice(&(header.seq as u32).to_be_bytes());
        }
    }
}

impl ProbeFrame<TrialHeader> {
    /// A frame of a trial of `frame_bytes` (without FCS, with tags) with a zero probe header, and a differentiated
    /// services code point (RFC 2474, 0 to 63).
    pub fn trial(headers: &OuterHeaders, dscp: u8, frame_bytes: usize) -> Result<Self, ProbeFrameError> {
        Self::build(headers, dscp, frame_bytes, &TrialHeader::LAYOUT)
    }

    /// Writes `header` and the matching UDP checksum. The stream id stays that of the frame.
    #[inline]
    pub fn set(&mut self, header: &TrialHeader) {
        self.put(&header.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::{HEADER_BYTES, PORT};
    use super::*;
    use crate::net::{TPID_CUSTOMER, TPID_SERVICE, VlanTag};
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    pub(crate) fn headers(tags: Vec<VlanTag>) -> OuterHeaders {
        OuterHeaders {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags,
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: 7,
        }
    }

    fn tag() -> impl Strategy<Value = VlanTag> {
        (prop::sample::select(vec![TPID_CUSTOMER, TPID_SERVICE]), any::<u16>())
            .prop_map(|(tpid, tci)| VlanTag { tpid, tci })
    }

    fn probe_header() -> impl Strategy<Value = ProbeHeader> {
        (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(seq, intended_ns, late_ns)| ProbeHeader {
            stream: 7,
            seq,
            intended_ns,
            late_ns,
            last: late_ns & 1 == 1,
            bounded: late_ns & 2 == 2,
        })
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let one = headers(vec![VlanTag { tpid: TPID_CUSTOMER, tci: 5 }]);
        assert!(ProbeFrame::new(&headers(vec![]), 64).is_ok());
        assert_eq!(
            ProbeFrame::new(&headers(vec![]), 63).unwrap_err(),
            ProbeFrameError::Small { frame_bytes: 63, tags: 0, min: 64 }
        );
        assert_eq!(
            ProbeFrame::new(&one, 67).unwrap_err(),
            ProbeFrameError::Small { frame_bytes: 67, tags: 1, min: 68 }
        );
        assert_eq!(ProbeFrame::new(&one, 9001).unwrap_err(), ProbeFrameError::Large(9001));
        assert_eq!(
            ProbeFrame::new(&headers(vec![one.tags[0]; 3]), 100).unwrap_err(),
            ProbeFrameError::Tags(3)
        );
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let mut frame = ProbeFrame::new(&headers(vec![]), 64).unwrap();
        let mut seen = false;
        // For one of 65536 consecutive low words the sum is 0xffff.
        for seq in 0..=0xffff {
            frame.set(&ProbeHeader {
                stream: 7,
                seq,
                intended_ns: 0,
                late_ns: 0,
                last: false,
                bounded: false,
            });
            let at = frame.header_offset - 2;
            let checksum = &frame.bytes[at..at + 2];
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
            header in probe_header(),
        ) {
            let headers = headers(tags);
            let mut frame = ProbeFrame::new(&headers, frame_bytes).unwrap();
            frame.set(&header);
            prop_assert_eq!(frame.bytes.len(), frame_bytes);
            let packet = SlicedPacket::from_ethernet(&frame.bytes).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
            let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("no UDP") };
            let ip = ip.header().to_header();
            prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            prop_assert_eq!(ip.time_to_live, 64);
            prop_assert!(ip.dont_fragment);
            prop_assert_eq!(ip.source, headers.src_ip.octets());
            prop_assert_eq!(ip.destination, headers.dst_ip.octets());
            let udp_header = udp.to_header();
            prop_assert_eq!((udp_header.source_port, udp_header.destination_port), (7, PORT));
            let right = udp_header.calc_checksum_ipv4(&ip, udp.payload()).unwrap();
            prop_assert_eq!(udp_header.checksum, right);
            prop_assert_eq!(packet.vlan_ids().len(), headers.tags.len());
            prop_assert_eq!(&udp.payload()[..HEADER_BYTES], &header.encode()[..]);
            for (i, byte) in udp.payload().iter().enumerate().skip(HEADER_BYTES) {
                prop_assert_eq!(*byte, i as u8);
            }
        }
    }
}
