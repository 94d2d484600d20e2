//! Capture files of plain traffic, made without a network: a few flows, each frame unlike the others.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use quaff_wire::Record;
use quaff_wire::checksum;
use quaff_wire::pcap::{self, Resolution};
use std::path::Path;

/// 2023-11-14T22:13:20Z; frame `n` has the time `n` times 50 µs later.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;
pub(crate) const STEP_NS: u64 = 50_000;
/// Conversations in a file, two flows each.
pub(crate) const PAIRS: u64 = 8;

/// Frame `n`: UDP between a client and a server, back and forth.
pub(crate) fn frame(n: u64) -> Vec<u8> {
    let payload_bytes = 6 + (n * 37 % 900) as usize;
    let is_answer = n / PAIRS % 2 == 1;
    let (client, server) = ([10, 0, 0, 1 + (n % PAIRS) as u8], [10, 1, 0, 1]);
    let (from, to) = if is_answer { (server, client) } else { (client, server) };
    let ports: [u16; 2] = if is_answer { [7000, 40_000] } else { [40_000, 7000] };
    let mut frame = if is_answer {
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]
    } else {
        vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]
    };
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + payload_bytes as u16).to_be_bytes());
    frame.extend((n as u16).to_be_bytes());
    frame.extend([0, 0, 64, 17, 0, 0]);
    frame.extend(from);
    frame.extend(to);
    let sum = !checksum::sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ports[0].to_be_bytes());
    frame.extend(ports[1].to_be_bytes());
    frame.extend((8 + payload_bytes as u16).to_be_bytes());
    // No checksum (RFC 768).
    frame.extend([0, 0]);
    frame.extend((0..payload_bytes).map(|at| (n >> (at % 6 * 8)) as u8));
    frame
}

/// A pcap file with µs, as most are.
pub(crate) fn pcap(frames: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
    let mut file = pcap::file_header(Resolution::Microseconds, 65_535, 1).to_vec();
    for (time_ns, bytes) in frames {
        let record = Record { time_ns, bytes: &bytes, len: bytes.len() as u32, ..Record::default() };
        let mut room = vec![0; pcap::record_bytes(bytes.len())];
        pcap::record(&mut room, Resolution::Microseconds, &record);
        file.extend(room);
    }
    file
}

/// The time of frame `n`.
pub(crate) fn time_ns(n: u64) -> u64 {
    START_NS + n * STEP_NS
}

/// Writes the first `count` frames as a file.
pub(crate) fn write(path: &Path, count: u64) {
    std::fs::write(path, pcap((0..count).map(|n| (time_ns(n), frame(n))))).expect("a file is written");
}
