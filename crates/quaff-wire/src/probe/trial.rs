//! The probe header in each frame of a trial, which its meter recognises.
//!
//! RFC 2544's shortest frame has 64 bytes with FCS, which leaves 60 for all headers, a VLAN tag and the probe header:
//! less than [`ProbeHeader`](super::ProbeHeader) needs. A frame of a trial is Ethernet, IPv4, UDP; the probe header is
//! the first [`HEADER_BYTES`] bytes of the UDP payload:
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 2 | magic, [`MAGIC`] |
//! | 2 | 5 | sequence number, from 0 |
//! | 7 | 7 | send time, ns since 1970 (UTC) modulo 2^56 (2.3 years) |
//!
//! All integers are in network byte order. The stream id is the UDP source port, the destination port is [`PORT`]. The
//! UDP checksum (RFC 768) is never zero; payload byte `i` after the probe header is `i mod 256`.

use super::classify::{Classified, ProbeLayout, classify_payload};

/// Length of a probe header.
const HEADER_BYTES: usize = 14;
/// The first two bytes of the UDP payload: "qm".
const MAGIC: u16 = 0x716d;
/// UDP destination port of a trial's frames.
const PORT: u16 = 29046;
/// Shortest Ethernet frame without FCS. A probe header and one VLAN tag fill it.
const FRAME_BYTES_MIN: usize = 60;
/// Length of a sequence number: 40 bits last for 12 days at a million frames/s.
const SEQ_BYTES: usize = 5;
const TIME_BYTES: usize = 7;

/// The probe header of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialHeader {
    /// Stream id: the UDP source port, not part of the header's own bytes.
    pub stream: u16,
    /// Sequence number in the stream, below 2^40.
    pub seq: u64,
    /// Send time, ns since 1970 (UTC). Only the lower 56 bits are transmitted.
    pub sent_ns: u64,
}

impl TrialHeader {
    /// Its layout.
    pub const LAYOUT: ProbeLayout =
        ProbeLayout { port: PORT, magic: MAGIC, bytes: HEADER_BYTES, frame_bytes_min: FRAME_BYTES_MIN };

    /// Encodes the header as in the table above.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..2].copy_from_slice(&MAGIC.to_be_bytes());
        out[2..2 + SEQ_BYTES].copy_from_slice(&self.seq.to_be_bytes()[8 - SEQ_BYTES..]);
        out[2 + SEQ_BYTES..].copy_from_slice(&self.sent_ns.to_be_bytes()[8 - TIME_BYTES..]);
        out
    }

    /// Decodes the first [`HEADER_BYTES`] of a UDP payload that arrived at `arrived_ns`, which supplies the upper bits
    /// of the send time: both times must be within 1.1 years. `None` without the magic.
    fn decode(stream: u16, payload: &[u8], arrived_ns: u64) -> Option<Self> {
        let header = payload.first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| header[at + i]));
        if word(0) >> 48 != u64::from(MAGIC) {
            return None;
        }
        let (seq, sent) = (word(2) >> 24, word(6));
        // The signed difference of the lower 56 bits; the upper byte of `sent` belongs to the sequence number.
        let delay_ns = (arrived_ns.wrapping_sub(sent) << 8) as i64 >> 8;
        Some(Self { stream, seq, sent_ns: arrived_ns.wrapping_sub_signed(delay_ns) })
    }

    /// Classifies `frame`, the captured bytes of a frame with `wire_len` bytes on the wire that arrived at `arrived_ns`
    /// since
    /// 1970. VLAN tags, IP options and bytes after the datagram are accepted.
    #[inline]
    pub fn classify(frame: &[u8], wire_len: usize, arrived_ns: u64) -> Classified<Self> {
        classify_payload(frame, wire_len, &Self::LAYOUT, |payload| {
            Self::decode(payload.stream, payload.bytes, arrived_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{MACS_BYTES, TPID_CUSTOMER, VlanTag};
    use crate::probe;
    use crate::probe::{OuterHeaders, ProbeFrame, ProbeFrameError};
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const STREAM: u16 = 4711;
    const NOW_NS: u64 = 1_800_000_000_000_000_123;

    fn headers(is_tagged: bool) -> OuterHeaders {
        OuterHeaders {
            dst_mac: [2, 0, 0, 0, 0, 2],
            src_mac: [2, 0, 0, 0, 0, 1],
            tags: is_tagged.then_some(VlanTag { tpid: TPID_CUSTOMER, tci: 0xa064 }).into_iter().collect(),
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: STREAM,
        }
    }

    fn frame(is_tagged: bool, size: usize, trial_header: &TrialHeader) -> Vec<u8> {
        let mut frame = ProbeFrame::trial(&headers(is_tagged), 46, size).unwrap();
        frame.set(trial_header);
        frame.bytes.to_vec()
    }

    fn trial_header(seq: u64, sent_ns: u64) -> TrialHeader {
        TrialHeader { stream: STREAM, seq, sent_ns }
    }

    fn trial_headers() -> impl Strategy<Value = TrialHeader> {
        (0..1u64 << 40, NOW_NS - (1 << 54)..NOW_NS + (1 << 54))
            .prop_map(|(seq, sent_ns)| trial_header(seq, sent_ns))
    }

    #[test]
    fn the_table_of_the_module() {
        let bytes = trial_header(0x01_0203_0405, 0xff0a_0b0c_0d0e_0f10).encode();
        assert_eq!(&bytes[..2], b"qm");
        assert_eq!(bytes[2..], [1, 2, 3, 4, 5, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10]);
    }

    #[test]
    fn the_shortest_frame_has_room_for_a_tag() {
        for is_tagged in [false, true] {
            let sent = trial_header(7, NOW_NS);
            let bytes = frame(is_tagged, FRAME_BYTES_MIN, &sent);
            assert_eq!(bytes.len(), 60);
            assert_eq!(TrialHeader::classify(&bytes, 60, NOW_NS + 5), Classified::Intact(sent));
            assert_eq!(
                ProbeFrame::trial(&headers(is_tagged), 0, 59).unwrap_err(),
                ProbeFrameError::Small { frame_bytes: 59, tags: is_tagged.into(), min: 60 }
            );
        }
    }

    #[test]
    fn the_time_comes_back_across_the_wrap() {
        let wrap = 26 << 56;
        for (sent_ns, arrived_ns) in [(wrap - 3, wrap + 4), (wrap + 4, wrap - 3), (wrap, wrap), (0, 9)] {
            let payload = trial_header(1, sent_ns).encode();
            assert_eq!(
                TrialHeader::decode(STREAM, &payload, arrived_ns),
                Some(trial_header(1, sent_ns)),
                "{arrived_ns}"
            );
        }
    }

    #[test]
    fn the_two_layouts_are_foreign_to_each_other() {
        let ours = frame(false, 100, &trial_header(1, NOW_NS));
        assert_eq!(probe::classify(&ours, 100), probe::Classified::Foreign);
        let mut theirs = crate::probe::ProbeFrame::new(&headers(false), 100).unwrap();
        theirs.set(&probe::ProbeHeader {
            stream: STREAM,
            seq: 1,
            intended_ns: NOW_NS,
            late_ns: 0,
            last: false,
            bounded: false,
        });
        assert_eq!(TrialHeader::classify(&theirs.bytes, 100, NOW_NS), Classified::Foreign);
    }

    proptest! {
        #[test]
        fn a_written_header_is_read(sent in trial_headers(), is_tagged: bool, size in 60usize..2000) {
            let frame = frame(is_tagged, size, &sent);
            prop_assert_eq!(frame.len(), size);
            prop_assert_eq!(TrialHeader::classify(&frame, size, NOW_NS), Classified::Intact(sent));
        }

        #[test]
        fn etherparse_reads_what_was_meant(sent in trial_headers(), is_tagged: bool, size in 60usize..=9000) {
            let bytes = frame(is_tagged, size, &sent);
            let packet = SlicedPacket::from_ethernet(&bytes).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
            let Some(TransportSlice::Udp(udp)) = &packet.transport else { panic!("no UDP") };
            let (ip, header) = (ip.header().to_header(), udp.to_header());
            prop_assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            prop_assert_eq!(ip.dscp.value(), 46);
            prop_assert_eq!((header.source_port, header.destination_port), (STREAM, PORT));
            prop_assert_eq!(header.checksum, header.calc_checksum_ipv4(&ip, udp.payload()).unwrap());
            prop_assert_eq!(packet.vlan_ids().len(), usize::from(is_tagged));
            for (i, byte) in udp.payload().iter().enumerate().skip(HEADER_BYTES) {
                prop_assert_eq!(*byte, i as u8);
            }
        }

        #[test]
        fn a_flipped_byte_is_noticed(
            sent in trial_headers(), is_tagged: bool, size in 60usize..300, at in 0usize..300, xor in 1u8..,
        ) {
            let mut frame = frame(is_tagged, size, &sent);
            let at = at % size;
            frame[at] ^= xor;
            let is_tci = is_tagged && (MACS_BYTES + 2..MACS_BYTES + 4).contains(&at);
            let expected = if at < MACS_BYTES || is_tci { Classified::Intact(sent) } else { Classified::Corrupt };
            prop_assert_eq!(TrialHeader::classify(&frame, size, NOW_NS), expected, "byte {} ^ {:#x}", at, xor);
        }

        #[test]
        fn half_noise_never_panics(
            sent in trial_headers(), noise in prop::collection::vec((0usize..90, any::<u8>()), 0..8),
            len in 0usize..90, wire_len in 0usize..300, arrived_ns: u64,
        ) {
            let mut frame = frame(true, 90, &sent);
            for (at, byte) in noise {
                frame[at] = byte;
            }
            TrialHeader::classify(&frame[..len], wire_len, arrived_ns);
        }
    }
}
