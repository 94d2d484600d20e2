//! Random lanes against a sort, and the limits of the wait.

use super::*;
use crate::Interfaces;
use crate::write::header::Heading;
use proptest::prelude::*;
use quaff_os::Stop;
use quaff_wire::Record;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::pcapng::{self, Interface, Section, Statistics};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A packet: its time, and its number in its lane.
type Packet = (u64, u32);

const LANES: usize = 3;
const MS: u64 = 1_000_000;

/// The blocks of packets, each of 8 bytes: the lane and the number; counters follow every fourth.
fn blocks(lane: usize, packets: &[Packet], resolution: Option<Resolution>) -> Vec<u8> {
    let mut blocks = Vec::new();
    for (time_ns, number) in packets {
        let bytes = [(lane as u32).to_ne_bytes(), number.to_ne_bytes()].concat();
        let record = Record {
            time_ns: *time_ns,
            bytes: &bytes,
            len: 8,
            dropped: u64::from(*number % 7 == 3),
            ..Record::default()
        };
        let mut room = [0; 256];
        let written = match resolution {
            None => pcapng::epb(&mut room, lane as u32, &record),
            Some(resolution) => quaff_wire::pcap::record(&mut room, resolution, &record),
        };
        blocks.extend_from_slice(&room[..written]);
        if resolution.is_none() && number % 4 == 0 {
            pcapng::isb(
                &mut blocks,
                &Statistics { interface: lane as u32, time_ns: *time_ns, ..Statistics::default() },
            );
        }
    }
    blocks
}

/// The packets of a pcapng file, as time, interface and number.
fn packets_of(file: &[u8]) -> Vec<(u64, usize, u32)> {
    let (mut rest, mut decoder, mut found) = (file, Decoder::default(), vec![]);
    while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
        if let Item::Frame(frame) = item {
            let word = |at: usize| u32::from_ne_bytes(*frame.data[at..].first_chunk().unwrap());
            assert_eq!(
                (frame.interface, frame.dropcount),
                (word(0), u64::from(word(4) % 7 == 3)),
                "its own options"
            );
            found.push((frame.time_ns, word(0) as usize, word(4)));
        }
    }
    found
}

/// A sink into a pipe for lanes with an interface each, and what its reader has received at its end.
fn ordered() -> (Ordered, JoinHandle<Vec<u8>>) {
    let (mut reader, writer) = io::pipe().unwrap();
    let out = File::from(OwnedFd::from(writer));
    let interface =
        |number: usize| Interface { name: format!("eth{number}"), linktype: 1, ..Interface::default() };
    let heading = Heading {
        format: Format::Pcapng,
        section: Section::default(),
        interfaces: Interfaces::new((0..LANES).map(interface).collect()),
        lanes: LANES,
        known: LANES,
        start_ns: 1,
        align: 1,
        compression: None,
        absent: Default::default(),
    };
    let stream = Stream::new(out, heading, Stop::default(), None, Arc::default());
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    });
    (Ordered::new(stream, Format::Pcapng, LANES, Duration::from_millis(200)), reading)
}

fn chunk(lane: usize, packets: &[Packet]) -> Chunk {
    let blocks = blocks(lane, packets, None);
    let mut buffer = Buffer::new(blocks.len()).unwrap();
    buffer[..blocks.len()].copy_from_slice(&blocks);
    let packed = packets.last().map_or(0, |(_, number)| u64::from(*number) + 1);
    Chunk {
        buffer,
        len: blocks.len(),
        packets: packets.len() as u64,
        slot: 0,
        first_ns: packets.first().map_or(0, |(time_ns, _)| *time_ns),
        counts: Counts { packed, ..Counts::default() },
        interfaces: LANES,
        before: None,
    }
}

/// Sets the clock of the wait ahead, as if lanes had sent nothing for so long.
fn pass(ordered: &mut Ordered, ns: u64) {
    ordered.tick().unwrap();
    ordered.clock_ns += ns;
    ordered.tick().unwrap();
}

fn end(mut ordered: Ordered, reading: JoinHandle<Vec<u8>>) -> (WriterTally, Vec<(u64, usize, u32)>) {
    let tally = ordered.finish().unwrap();
    drop(ordered);
    (tally, packets_of(&reading.join().unwrap()))
}

/// A lane: the steps from a packet to the next one, ns, some of them back within what a ring may have; and the sizes of
/// its chunks.
fn lane() -> impl Strategy<Value = (Vec<i64>, Vec<usize>)> {
    let step =
        prop_oneof![3 => 0..2 * MS as i64, 1 => -3 * MS as i64..0, 1 => Just(0), 1 => 0..300 * MS as i64];
    (proptest::collection::vec(step, 0..120), proptest::collection::vec(1..20_usize, 1..6))
}

/// The packets of a lane in chunks. A step back is at most from the latest time to [`UNORDERED_NS`] before it.
fn chunks((steps, sizes): &(Vec<i64>, Vec<usize>)) -> Vec<Vec<Packet>> {
    let (mut time_ns, mut latest_ns, mut packets) = (1_000_000_000_000_u64, 0, vec![]);
    for (number, step) in steps.iter().enumerate() {
        time_ns = time_ns.saturating_add_signed(*step).max(u64::saturating_sub(latest_ns, UNORDERED_NS - 1));
        latest_ns = latest_ns.max(time_ns);
        packets.push((time_ns, number as u32));
    }
    let (mut chunks, mut sizes) = (vec![], sizes.iter().cycle());
    while !packets.is_empty() {
        let size = packets.len().min(*sizes.next().unwrap());
        chunks.push(packets.drain(..size).collect());
    }
    chunks
}

proptest! {
    /// Chunks come in any order of the lanes; those of a lane in its own.
    #[test]
    fn packets_of_random_lanes_leave_as_a_stable_sort_has_them(
        lanes in proptest::collection::vec(lane(), LANES),
        turns in proptest::collection::vec(0..LANES, 0..60),
    ) {
        let mut left: Vec<_> = lanes.iter().map(|lane| chunks(lane).into_iter()).collect();
        let mut expected = Vec::new();
        for (lane, packets) in left.iter().enumerate() {
            expected.extend(packets.clone().flatten().map(|(time_ns, number)| (time_ns, lane, number)));
        }
        expected.sort_by_key(|(time_ns, lane, _)| (*time_ns, *lane));
        let (mut ordered, reading) = ordered();
        for lane in turns.into_iter().chain((0..LANES).flat_map(|lane| std::iter::repeat_n(lane, 120))) {
            match left[lane].next() {
                Some(packets) => ordered.push(lane, chunk(lane, &packets)).unwrap(),
                None => ordered.mark(lane, u64::MAX),
            }
            ordered.tick().unwrap();
        }
        let held = ordered.waiting.bytes;
        let (tally, found) = end(ordered, reading);
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!((tally.written, tally.late, held), (expected.len() as u64, 0, 0));
    }

    #[test]
    fn records_of_pcap_leave_sorted(times in proptest::collection::vec(0..50_u64, 0..100), is_ns in any::<bool>()) {
        let resolution = if is_ns { Resolution::Nanoseconds } else { Resolution::Microseconds };
        let packets: Vec<_> = times.iter().zip(0..).map(|(time, number)| (time * 1000 + 7_000_000_000, number)).collect();
        let mut waiting = Waiting::new(Some(resolution));
        for (half, lane) in packets.chunks(packets.len().div_ceil(2).max(1)).zip(0..) {
            waiting.push(lane, &blocks(9, half, Some(resolution)), Counts::default(), 0, 0);
        }
        let mut sorted = Sorted::default();
        waiting.leave(u64::MAX, usize::MAX, usize::MAX, &mut sorted);
        let mut expected = packets.clone();
        expected.sort_by_key(|(time_ns, _)| *time_ns);
        prop_assert_eq!(sorted.bytes, blocks(9, &expected, Some(resolution)));
        prop_assert_eq!((sorted.packets, waiting.late, waiting.bytes), (packets.len() as u64, 0, 0));
    }
}

#[test]
fn a_packet_waits_for_a_lane_that_may_have_an_older_one() {
    let (mut ordered, reading) = ordered();
    ordered.mark(2, u64::MAX);
    ordered.push(0, chunk(0, &[(1000 * MS, 0), (1100 * MS, 1)])).unwrap();
    ordered.tick().unwrap();
    assert_eq!(ordered.stream.written_packets(), 0, "lane 1 has shown nothing");
    ordered.mark(1, 1050 * MS);
    ordered.tick().unwrap();
    assert_eq!(ordered.stream.written_packets(), 1);
    ordered.push(1, chunk(1, &[(1060 * MS, 0), (1300 * MS, 1)])).unwrap();
    ordered.tick().unwrap();
    // Lane 0 may have packets that are as little earlier as those of a ring can be.
    assert_eq!(ordered.stream.written_packets(), 2);
    let (tally, found) = end(ordered, reading);
    assert_eq!(found.iter().map(|of| (of.1, of.2)).collect::<Vec<_>>(), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    assert_eq!((tally.written, tally.late), (4, 0));
}

#[test]
fn a_lane_that_stands_still_holds_others_back_up_to_the_limit_and_its_late_packets_are_counted() {
    let (mut ordered, reading) = ordered();
    ordered.mark(2, u64::MAX);
    ordered.push(0, chunk(0, &[(1000 * MS, 0), (1100 * MS, 1)])).unwrap();
    pass(&mut ordered, WAIT_NS);
    assert_eq!(ordered.stream.written_packets(), 0);
    // Packets that arrived since the last check are handled first.
    ordered.push(0, chunk(0, &[(1200 * MS, 2)])).unwrap();
    ordered.clock_ns += 300 * MS;
    ordered.tick().unwrap();
    assert_eq!(ordered.stream.written_packets(), 0);
    ordered.tick().unwrap();
    assert_eq!(ordered.stream.written_packets(), 2, "the third has not waited for so long");
    ordered.push(1, chunk(1, &[(1050 * MS, 0), (1090 * MS, 1), (1150 * MS, 2)])).unwrap();
    ordered.tick().unwrap();
    let (tally, found) = end(ordered, reading);
    let found: Vec<_> = found.iter().map(|of| (of.1, of.2)).collect();
    assert_eq!(found, [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (0, 2)]);
    assert_eq!((tally.written, tally.late), (6, 2));
}

#[test]
fn a_writer_that_stood_still_makes_no_lane_late() {
    let (mut ordered, reading) = ordered();
    ordered.push(0, chunk(0, &[(1000 * MS, 0)])).unwrap();
    ordered.looked_ns = ordered.looked_ns.saturating_sub(60_000 * MS);
    ordered.tick().unwrap();
    ordered.tick().unwrap();
    assert_eq!((ordered.stream.written_packets(), ordered.clock_ns <= 2 * STEP_NS), (0, true));
    assert_eq!(end(ordered, reading).0.written, 1);
}

#[test]
fn a_clock_that_was_set_back_delays_packets_by_the_limit_at_most() {
    let (mut ordered, reading) = ordered();
    (1..LANES).for_each(|lane| ordered.mark(lane, u64::MAX));
    ordered.push(0, chunk(0, &[(5_000_000 * MS, 0)])).unwrap();
    ordered.push(0, chunk(0, &[(1000 * MS, 1), (1100 * MS, 2)])).unwrap();
    pass(&mut ordered, WAIT_NS + 201 * MS);
    ordered.tick().unwrap();
    assert_eq!(ordered.stream.written_packets(), 3);
    ordered.push(0, chunk(0, &[(1200 * MS, 3), (1300 * MS, 4)])).unwrap();
    let (tally, found) = end(ordered, reading);
    assert_eq!(found.iter().map(|of| of.2).collect::<Vec<_>>(), [1, 2, 0, 3, 4]);
    assert_eq!((tally.written, tally.late), (5, 2));
}

#[test]
fn without_memory_the_earliest_packets_leave_first() {
    let mut waiting = Waiting::new(None);
    for lane in [1, 0] {
        let packets: Vec<_> = (0..10).map(|number| (u64::from(number) * MS, number)).collect();
        waiting.push(lane, &blocks(lane, &packets, None), Counts::default(), 0, 0);
    }
    let (bytes, mut sorted) = (waiting.bytes, Sorted::default());
    waiting.leave(0, bytes / 2, usize::MAX, &mut sorted);
    assert!(waiting.bytes <= bytes / 2 && waiting.bytes > bytes / 2 - 200, "{} of {bytes}", waiting.bytes);
    assert_eq!((sorted.bytes.len() + waiting.bytes, sorted.packets), (bytes, 9));
}

#[test]
fn counters_without_packets_leave_after_the_packets_before_them() {
    let (mut ordered, reading) = ordered();
    (1..LANES).for_each(|lane| ordered.mark(lane, u64::MAX));
    ordered.push(0, chunk(0, &[(1000 * MS, 0)])).unwrap();
    let mut counters = Chunk { packets: 0, ..chunk(0, &[(1000 * MS, 0)]) };
    let mut block = Vec::new();
    pcapng::isb(&mut block, &Statistics { comment: Some("of the chunk".into()), ..Statistics::default() });
    counters.buffer = Buffer::new(block.len()).unwrap();
    counters.buffer[..block.len()].copy_from_slice(&block);
    counters.len = block.len();
    ordered.push(0, counters).unwrap();
    let tally = ordered.finish().unwrap();
    drop(ordered);
    let file = reading.join().unwrap();
    assert_eq!((tally.written, packets_of(&file).len()), (1, 1));
    assert!(file.windows(12).any(|text| text == b"of the chunk"));
}
