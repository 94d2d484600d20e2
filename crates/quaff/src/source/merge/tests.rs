//! Compressed files of a merge that are open at once.

use super::*;
use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use std::io::Write;
use tempfile::NamedTempFile;

const PACKETS: u32 = 5000;
const PACKET_BYTES: usize = 1400;

/// A zstd file of packets that do not compress, each a millisecond after the one before it.
fn file(first_ms: u64) -> NamedTempFile {
    let mut bytes = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    let (mut room, mut state) = (vec![0; 2 * PACKET_BYTES], first_ms);
    for number in 0..u64::from(PACKETS) {
        let data: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(PACKET_BYTES)
        .collect();
        let time_ns = (1_700_000_000_000 + first_ms + number) * 1_000_000;
        let packet = Record { time_ns, bytes: &data, len: PACKET_BYTES as u32, ..Record::default() };
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &packet);
        bytes.extend(&room[..written]);
    }
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&zstd::bulk::compress(&bytes, 1).unwrap()).unwrap();
    file
}

/// Merges files; returns the numbers of packets, of files that were open at once, and of those with threads for their
/// frames.
fn merge(files: &[NamedTempFile]) -> (u64, u64, usize) {
    let plan = ReadPlan {
        files: files.iter().map(|file| file.path().to_owned()).collect(),
        order: ReadOrder::ByTime,
        lanes: Some(4),
        ..ReadPlan::default()
    };
    let (interfaces, gauges) = (Interfaces::new(Vec::new()), Arc::default());
    let mut merge = Merge::open(plan, Format::Pcap, interfaces, Stop::default(), gauges, None).unwrap();
    let (mut frames, mut packets, mut with_threads, mut batches) = (Vec::new(), 0, 0, 0);
    loop {
        match merge.pull(&mut frames, Duration::from_secs(1)).unwrap() {
            Pull::End => return (packets, merge.tally.open_max, with_threads),
            Pull::Idle => {}
            Pull::Batch => packets += frames.len() as u64,
        }
        batches += 1;
        // The text is long.
        if batches % 5 == 0 {
            with_threads = with_threads.max(format!("{:?}", merge.inputs).matches("Unpackers {").count());
        }
    }
}

#[test]
fn of_files_that_are_open_at_once_one_is_decompressed_by_several_threads() {
    let together: Vec<_> = (0..4).map(file).collect();
    assert_eq!(merge(&together), (4 * u64::from(PACKETS), 4, 1));
    let in_turn: Vec<_> = (0..2).map(|number| file(number * 10 * u64::from(PACKETS))).collect();
    assert_eq!(merge(&in_turn), (2 * u64::from(PACKETS), 1, 1));
}
