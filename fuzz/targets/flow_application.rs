//! Any payload of TCP and UDP, in packets of any size and of both directions, is metered with its application: no
//! panic, each name is a text, and each packet is in a flow. Frames of QUIC are also sealed, so that they are read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_flow::Meter;
use quaff_flow::packet::Packet;
use quaff_flow::plan::{ExtrasPlan, MeterPlan};
use quaff_flow::record::FlowRecord;
use quaff_testpackets as build;
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Version;

const ID: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const PORTS: [u16; 4] = [53, 80, 443, 8443];
const PAYLOAD_BYTES_MAX: usize = 1400;
const DATAGRAM_BYTES_MIN: usize = 1200;

/// A datagram with an Initial packet of QUIC with these frames, as a client sends it (RFC 9000, section 14.1; RFC 9001,
/// section 5).
fn sealed(is_v2: bool, number: u32, frames: &[u8]) -> Vec<u8> {
    let (version, first) = if is_v2 { (Version::V2, 0xd3) } else { (Version::V1, 0xc3) };
    let wire: [u8; 4] = if is_v2 { [0x6b, 0x33, 0x43, 0xcf] } else { [0, 0, 0, 1] };
    let mut header = [&[first][..], &wire, &[8], &ID, &[0, 0]].concat();
    header.extend((4 + frames.len() as u16 + 16 | 0x4000).to_be_bytes());
    header.extend(number.to_be_bytes());
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite()).expect("a suite of QUIC");
    let keys = suite.keys(&ID, Side::Client, version).local;
    let mut payload = frames.to_vec();
    let tag = keys.packet.encrypt_in_place(number.into(), &header, &mut payload).expect("a payload");
    payload.extend(tag.as_ref());
    let (first, rest) = header.split_first_mut().expect("a header");
    let at = rest.len() - 4;
    keys.header.encrypt_in_place(&payload[..16], first, &mut rest[at..]).expect("a sample");
    let mut datagram = [header, payload].concat();
    datagram.resize(datagram.len().max(DATAGRAM_BYTES_MIN), 0);
    datagram
}

fn frame(protocol: u8, ports: [u16; 2], is_back: bool, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let (ends, ports) = match is_back {
        false => ([[10, 0, 0, 1], [10, 0, 0, 2]], ports),
        true => ([[10, 0, 0, 2], [10, 0, 0, 1]], [ports[1], ports[0]]),
    };
    let transport = match protocol {
        17 => build::udp(ports[0], ports[1], payload),
        _ => {
            let mut header = ports.map(u16::to_be_bytes).concat();
            header.extend(sequence.to_be_bytes());
            header.extend([0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
            [&header[..], payload].concat()
        }
    };
    build::ethernet(&[], 0x0800, &build::ipv4(ends[0].into(), ends[1].into(), protocol, &[], &transport))
}

fn check(frames: &[Vec<u8>]) {
    let extras = ExtrasPlan { application: true, addresses: true, payload_bytes: 9, ..ExtrasPlan::default() };
    let extras = ExtrasPlan { tcp: true, ack_times: true, ..extras };
    let (mut meter, mut records) = (Meter::new(MeterPlan { extras, ..MeterPlan::default() }, [1, 2]), Vec::new());
    let packets: Vec<Packet<'_>> = frames
        .iter()
        .map(|bytes| Packet { bytes, time_ns: 1, wire_bytes: bytes.len() as u32, linktype: 1, ..Packet::default() })
        .collect();
    meter.take(&packets, &mut records);
    meter.finish(&mut records);
    meter.ledger().check().expect("conservation");
    assert_eq!(records.iter().map(FlowRecord::packets).sum::<u64>(), frames.len() as u64);
    for (_, name) in records.iter().filter_map(|record| record.extras.as_ref()).flat_map(|extras| &extras.addresses) {
        assert!(name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
    }
    for application in records.iter().filter_map(|record| record.extras.as_ref()?.application.as_ref()) {
        for text in [&application.server_name, &application.alpn].into_iter().flatten() {
            assert!(text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let ports = [40_000, PORTS[usize::from(choice & 3)]];
    // The second byte of each piece is its direction, the first one its length.
    let (mut pieces, mut left) = (Vec::new(), rest);
    while let [length, direction, more @ ..] = left {
        let (piece, after) = more.split_at((usize::from(*length) * 6).min(more.len()).min(PAYLOAD_BYTES_MAX));
        pieces.push((direction & 1 == 1, piece));
        left = after;
    }
    for protocol in [6, 17] {
        let mut sequence = 0;
        let frames: Vec<Vec<u8>> = pieces
            .iter()
            .map(|(is_back, piece)| {
                sequence += piece.len() as u32;
                frame(protocol, ports, *is_back, sequence, piece)
            })
            .collect();
        check(&frames);
    }
    let sealed: Vec<Vec<u8>> = pieces
        .iter()
        .enumerate()
        .map(|(number, (is_back, piece))| frame(17, ports, *is_back, 0, &sealed(choice & 4 != 0, number as u32, piece)))
        .collect();
    check(&sealed);
});
