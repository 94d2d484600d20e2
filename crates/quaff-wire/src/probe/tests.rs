//! Probe headers that are written, damaged and classified.

use super::header::LATE_NS_MAX;
use super::outer::TAGS_MAX;
use super::*;
use crate::checksum;
use crate::net::{MACS_BYTES, TAG_BYTES, TPID_CUSTOMER, TPID_SERVICE, VlanTag};
use proptest::prelude::*;
use std::net::Ipv4Addr;

const STREAM: u16 = 4711;

fn headers(tags: usize) -> OuterHeaders {
    let both = [VlanTag { tpid: TPID_SERVICE, tci: 100 }, VlanTag { tpid: TPID_CUSTOMER, tci: 0x2fff }];
    OuterHeaders {
        dst_mac: [2, 0, 0, 0, 0, 2],
        src_mac: [2, 0, 0, 0, 0, 1],
        tags: both[TAGS_MAX - tags..].to_vec(),
        src_ip: Ipv4Addr::new(198, 18, 0, 1),
        dst_ip: Ipv4Addr::new(198, 18, 0, 2),
        stream: STREAM,
    }
}

fn frame(tags: usize, frame_bytes: usize, header: &ProbeHeader) -> Vec<u8> {
    let mut frame = ProbeFrame::new(&headers(tags), frame_bytes).unwrap();
    frame.set(header);
    frame.bytes
}

fn some_header() -> ProbeHeader {
    ProbeHeader {
        stream: STREAM,
        seq: 77,
        intended_ns: 1_800_000_000_123,
        late_ns: 5,
        last: false,
        bounded: true,
    }
}

/// Recomputes both checksums after a test has changed a header deliberately.
fn repair(frame: &mut [u8], ip: usize) {
    frame[ip + 10..ip + 12].fill(0);
    let sum = !checksum::sum(&frame[ip..ip + 20]);
    frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    frame[ip + 26..ip + 28].fill(0);
    let pseudo = checksum::sum(&frame[ip + 12..ip + 20]);
    let length = (frame.len() - ip - 20) as u16;
    let pseudo = checksum::add(checksum::add(pseudo, 17), length);
    let sum = !checksum::add(pseudo, checksum::sum(&frame[ip + 20..]));
    frame[ip + 26..ip + 28].copy_from_slice(&sum.to_be_bytes());
}

fn headers_of_any_kind() -> impl Strategy<Value = ProbeHeader> {
    (any::<u64>(), any::<u64>(), 0..=LATE_NS_MAX, any::<bool>(), any::<bool>()).prop_map(
        |(seq, intended_ns, late_ns, last, bounded)| ProbeHeader {
            stream: STREAM,
            seq,
            intended_ns,
            late_ns,
            last,
            bounded,
        },
    )
}

proptest! {
    #[test]
    fn a_written_header_is_read(header in headers_of_any_kind(), tags in 0..=TAGS_MAX, size in 72usize..2000) {
        let frame = frame(tags, size, &header);
        prop_assert_eq!(classify(&frame, size), Classified::Intact(header));
    }

    #[test]
    fn a_cut_frame_is_still_verified(
        header in headers_of_any_kind(), tags in 0..=TAGS_MAX, size in 72usize..2000, cut in 72usize..2000,
    ) {
        let whole = frame(tags, size, &header);
        let cut = &whole[..cut.min(size)];
        prop_assert_eq!(classify(cut, size), Classified::Intact(header));
    }

    #[test]
    fn a_flipped_byte_is_noticed(
        header in headers_of_any_kind(), tags in 0..=TAGS_MAX, size in 72usize..300, at in 0usize..300, xor in 1u8..,
    ) {
        let mut frame = frame(tags, size, &header);
        let at = at % size;
        frame[at] ^= xor;
        let has_no_checksum = at < MACS_BYTES
            || (0..tags).any(|tag| (at - MACS_BYTES) / TAG_BYTES == tag && at % TAG_BYTES >= 2);
        // A service TPID and a customer TPID differ in both bytes: a single flip cannot convert them.
        let expected = if has_no_checksum { Classified::Intact(header) } else { Classified::Corrupt };
        prop_assert_eq!(classify(&frame, size), expected, "byte {} ^ {:#x}", at, xor);
    }

    #[test]
    fn a_frame_that_lost_its_end_is_corrupt(header in headers_of_any_kind(), size in 72usize..300, lost in 1usize..200) {
        let whole = frame(0, size, &header);
        let left = (size - lost.min(size - 42)).max(42);
        prop_assert_eq!(classify(&whole[..left], left), Classified::Corrupt);
    }

    #[test]
    fn noise_is_foreign_and_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..200), wire_len in 0usize..300,
    ) {
        prop_assert_eq!(classify(&noise, wire_len), Classified::Foreign);
    }

    #[test]
    fn half_noise_never_panics(
        header in headers_of_any_kind(), noise in prop::collection::vec((0usize..90, any::<u8>()), 0..8),
        len in 0usize..90, wire_len in 0usize..300,
    ) {
        let mut frame = frame(1, 90, &header);
        for (at, byte) in noise {
            frame[at] = byte;
        }
        classify(&frame[..len], wire_len);
    }
}

#[test]
fn the_table_of_the_module() {
    let header = ProbeHeader { last: true, ..some_header() };
    let bytes = header.encode();
    assert_eq!(&bytes[..2], b"qu");
    assert_eq!(bytes[2..10], 77u64.to_be_bytes());
    assert_eq!(bytes[10..18], 1_800_000_000_123u64.to_be_bytes());
    assert_eq!(bytes[18..22], (0xc000_0000u32 | 5).to_be_bytes());
    let late = ProbeHeader { late_ns: u32::MAX, ..header };
    assert_eq!(ProbeHeader::decode(STREAM, &late.encode()).unwrap().late_ns, LATE_NS_MAX);
}

#[test]
fn bytes_after_the_datagram_are_not_ours() {
    let mut bytes = frame(0, 64, &some_header());
    bytes.extend([0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(classify(&bytes, 68), Classified::Intact(some_header()));
    assert_eq!(classify(&bytes[..64], 68), Classified::Intact(some_header()));
}

#[test]
fn ip_options_are_accepted() {
    let plain = frame(0, 100, &some_header());
    let mut bytes = plain[..34].to_vec();
    bytes.extend([1, 1, 1, 0]);
    bytes.extend(&plain[34..]);
    bytes[14] = 0x46;
    bytes[16..18].copy_from_slice(&90u16.to_be_bytes());
    bytes[24..26].fill(0);
    let sum = !checksum::sum(&bytes[14..38]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(classify(&bytes, 104), Classified::Intact(some_header()));
}

#[test]
fn other_peoples_datagrams_are_foreign() {
    let ours = frame(0, 200, &some_header());
    let changed = |at: usize, word: u16| {
        let mut bytes = ours.clone();
        bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
        repair(&mut bytes, 14);
        bytes
    };
    assert_eq!(classify(&changed(36, 53), 200), Classified::Foreign, "another port");
    let other_magic = changed(42, 0x7176);
    assert_eq!(classify(&other_magic, 200), Classified::Foreign, "another magic");
    assert_eq!(classify(&other_magic[..80], 200), Classified::Foreign, "another magic, cut");
    let mut unsummed = other_magic;
    unsummed[40..42].fill(0);
    assert_eq!(classify(&unsummed, 200), Classified::Foreign, "another magic, no checksum");
    let mut tcp = ours.clone();
    tcp[23] = 6;
    tcp[42] = 0;
    assert_eq!(classify(&tcp, 200), Classified::Foreign, "another protocol");
}

#[test]
fn damage_is_corrupt() {
    let ours = frame(0, 200, &some_header());
    let mut unsummed = ours.clone();
    unsummed[40..42].fill(0);
    assert_eq!(classify(&unsummed, 200), Classified::Corrupt, "no checksum");
    let mut fragment = ours.clone();
    fragment[20] = 0x20;
    assert_eq!(classify(&fragment, 200), Classified::Corrupt, "a fragment");
    assert_eq!(classify(&ours[..60], 200), Classified::Corrupt, "cut inside the probe header");
    assert_eq!(classify(&ours[..42], 200), Classified::Corrupt, "cut before the probe header");
    assert_eq!(classify(&ours[..41], 200), Classified::Foreign, "cut before the payload is known");
    let mut garbled = ours;
    garbled[42..].fill(0x55);
    assert_eq!(classify(&garbled, 200), Classified::Corrupt, "our port, all else gone");
}
