//! Captures of others and made ones, as they are and with stray packets inserted: no complete capture is accused, a
//! loss is still found, and each byte of TCP has a fate with a name.

use crate::observed::{ACK, FIN, RST, SYN};
use crate::observer::{A, A0, B, B0, MS, Observer, Packet, Random, lost, traffic};
use quaff_stream::tracker::{Closed, ConnectionSink, Opened, TrackPacket, TrackPlan, Tracker};
use quaff_stream::{Event, LossMeter, LossReport, Sender};
use quaff_testpackets as build;
use quaff_wire::decode::{Decoder, Frame, Item, Step};
use quaff_wire::flow::FlowPacket;
use quaff_wire::net::TCP;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A packet of a capture.
#[derive(Debug, Clone)]
struct Captured {
    time_ns: u64,
    bytes: Vec<u8>,
    wire_bytes: u32,
    linktype: u16,
}

fn files() -> Vec<PathBuf> {
    let dir = build::captures::folder();
    let mut files: Vec<PathBuf> = ["protocols", "tunnels", "."]
        .iter()
        .flat_map(|sub| std::fs::read_dir(dir.join(sub)).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "pcap" || end == "pcapng"))
        .collect();
    files.sort();
    files
}

/// The packets of a file, as far as it can be read.
fn packets(path: &Path) -> Vec<Captured> {
    let file = std::fs::read(path).expect("a capture");
    let (mut decoder, mut rest, mut packets) = (Decoder::default(), &file[..], Vec::new());
    decoder.no_more();
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(Frame { time_ns, data, wire_len, linktype, .. }) = item {
            packets.push(Captured { time_ns, bytes: data.to_vec(), wire_bytes: wire_len, linktype });
        }
    }
    packets
}

fn is_accused(report: &LossReport) -> bool {
    let packets = report.fins_unseen + report.syns_unseen;
    report.acked_unseen_bytes + packets + report.leaps_confirmed + report.untracked_bytes > 0
}

fn measure<'a>(packets: impl Iterator<Item = &'a Captured>) -> LossReport {
    let mut meter = LossMeter::new(7);
    packets.for_each(|packet| {
        meter.packet(&packet.bytes, packet.wire_bytes, packet.linktype, packet.time_ns);
    });
    meter.finish()
}

/// A packet of the same connection as an unfragmented one of TCP, with other numbers.
fn stray_like(packet: &Captured, kind: u64, random: &mut Random) -> Option<Captured> {
    let Captured { bytes, wire_bytes, linktype, time_ns } = packet;
    let read = FlowPacket::read(bytes, *wire_bytes, *linktype).ok()?;
    if read.protocol != TCP || read.fragment.is_some() {
        return None;
    }
    let (ip, at) = (read.ip_offset as usize, read.transport as usize);
    let payload = usize::from(kind % 5 == 4);
    let mut stray = bytes.get(..at + 20)?.to_vec();
    let mut put = |at: usize, is_far: bool, is_near: bool| {
        let number = u32::from_be_bytes([stray[at], stray[at + 1], stray[at + 2], stray[at + 3]]);
        let near = random.below(200_000) as u32;
        let other = match (is_far, is_near) {
            (true, _) => random.below(1 << 32) as u32,
            (false, true) => number.wrapping_add(near).wrapping_sub(100_000),
            (false, false) => number,
        };
        stray[at..at + 4].copy_from_slice(&other.to_be_bytes());
    };
    // Both numbers are others, or one, or both are close.
    let way = kind / 5 % 4;
    put(at + 4, way != 1 && way != 3, way == 3);
    put(at + 8, way != 2 && way != 3, way == 3);
    stray[at + 12] = 0x50;
    stray[at + 13] = [SYN, SYN | ACK, RST, ACK, ACK][(kind % 5) as usize];
    stray.resize(at + 20 + payload, 0);
    let length = (stray.len() - ip) as u16;
    match stray[ip] >> 4 {
        4 => stray[ip + 2..ip + 4].copy_from_slice(&length.to_be_bytes()),
        _ => stray[ip + 4..ip + 6].copy_from_slice(&(length - 40).to_be_bytes()),
    }
    let wire_bytes = stray.len() as u32;
    Some(Captured { time_ns: *time_ns, bytes: stray, wire_bytes, linktype: *linktype })
}

/// The connection of a packet, as a set of its ends.
fn connection(packet: &Captured) -> Option<BTreeSet<(IpAddr, u16)>> {
    let read = FlowPacket::read(&packet.bytes, packet.wire_bytes, packet.linktype).ok()?;
    Some([0, 1].map(|end| (read.addresses[end], read.ports[end])).into())
}

/// 10,000 strays of each seed, each kind in each capture: up to so many in a connection, in one of twelve packets.
#[test]
fn strays_accuse_no_complete_capture() {
    const SEEDS: [(u64, u32); 6] = [(4242, 1), (2, 1), (54, 1), (347, 1), (27, 2), (17, 3)];
    let all: Vec<(PathBuf, Vec<Captured>)> = files()
        .into_iter()
        .map(|path| (path.clone(), packets(&path)))
        .filter(|(_, packets)| (20..20_000).contains(&packets.len()) && !is_accused(&measure(packets.iter())))
        .filter(|(_, packets)| packets.iter().any(|packet| stray_like(packet, 0, &mut Random(1)).is_some()))
        .collect();
    assert!(!all.is_empty());
    for (seed, each) in SEEDS {
        let (mut random, mut inserted, mut captures) = (Random(seed), 0, 0);
        while inserted < 10_000 {
            assert!(captures < 1000 * all.len());
            for (path, packets) in &all {
                let with = with_strays(packets, each, &mut inserted, &mut random);
                let report = measure(with.iter());
                assert!(!is_accused(&report), "{} with seed {seed}: {report:?}", path.display());
                captures += 1;
            }
        }
        assert!(captures > 20, "{captures}");
    }
}

/// The packets with up to `each` strays in a connection; `inserted` counts all strays.
fn with_strays(packets: &[Captured], each: u32, inserted: &mut u64, random: &mut Random) -> Vec<Captured> {
    let (mut with, mut strays) = (Vec::with_capacity(packets.len() * 2), BTreeMap::new());
    for packet in packets {
        if random.below(12) == 0 {
            let count = strays.entry(connection(packet)).or_insert(0);
            *count += 1;
            if *count <= each {
                *inserted += 1;
                with.extend(stray_like(packet, *inserted, random));
            }
        }
        with.push(packet.clone());
    }
    with
}

/// A packet of A or B: its numbers relative to `A0` and `B0`, flags, and bytes of payload.
type Made = (Sender, u32, u32, u8, u32);

/// Connections from their middle, or that end early: their captures lack bytes that no loss explains. Each with a stray
/// that once made them losses.
const CASES: [(&str, &[Made]); 11] = [
    ("a SYN with the number of the first segment", &[(A, 0, 77, SYN, 0), A_68, B_119, A_GAP, B_END]),
    (
        "a SYN with another number",
        &[(A, 900_000_000, 0, SYN, 0), A_68, B_119, (A, 68, 119, ACK, 0), B_GAP, A_END],
    ),
    (
        "a SYN-ACK with the number of the first segment",
        &[(A, 0, 900_000, SYN | ACK, 0), A_68, B_119, A_GAP, B_END],
    ),
    (
        "a SYN-ACK whose acknowledgment is right",
        &[(B, 90_000_000, 0, SYN | ACK, 0), A_68, B_119, A_GAP, B_END],
    ),
    (
        "a SYN-ACK that is close",
        &[(A, u32::MAX - 936_489, 0, SYN | ACK, 0), A_68, B_119, (A, 68, 119, ACK, 64), B_132],
    ),
    (
        "a higher number in an empty segment",
        &[OPEN[0], OPEN[1], OPEN[2], A_68, (A, 33_000, 9, ACK, 0), A_NEXT, B_END],
    ),
    (
        "an empty segment of another connection",
        &[OPEN[0], OPEN[1], OPEN[2], A_68, (A, 305, 2_000_000_000, ACK, 0), B_END],
    ),
    (
        "a single byte at a higher number",
        &[OPEN[0], OPEN[1], OPEN[2], A_68, (A, 300, 9, ACK, 1), A_NEXT, B_END, B_LATER],
    ),
    (
        "a keep-alive that names another begin",
        &[OPEN[0], (A, 0, u32::MAX - 568_342, ACK, 1), A_68, B_119, (A, 68, 119, ACK, 0)],
    ),
    (
        "a byte before the answer, which is repeated",
        &[
            OPEN[0],
            (B, 500_000_000, 480_000_000, ACK, 1),
            OPEN[1],
            OPEN[0],
            OPEN[2],
            (A, 0, 0, ACK, 1024),
            OPEN[1],
            (B, 0, 1024, ACK, 0),
            (A, 1024, 0, ACK, 1024),
            (B, 0, 2048, ACK, 0),
        ],
    ),
    (
        "a byte of a connection whose data are not captured",
        &[
            OPEN[0],
            OPEN[1],
            (A, 0, 500_000_000, ACK, 1),
            OPEN[2],
            (B, 0, 5188, ACK, 0),
            (A, 5188, 0, ACK | FIN, 0),
            (B, 0, 5189, ACK | FIN, 0),
        ],
    ),
];
/// A handshake, and segments after it. Missing are 88 bytes of A before `A_GAP`, and 100 of B before `B_GAP`.
const OPEN: [Made; 3] = [(A, u32::MAX, 0, SYN, 0), (B, u32::MAX, 0, SYN | ACK, 0), (A, 0, 0, ACK, 0)];
const A_68: Made = (A, 0, 0, ACK, 68);
const B_119: Made = (B, 0, 68, ACK, 119);
const A_GAP: Made = (A, 156, 119, ACK, 149);
const A_NEXT: Made = (A, 68, 0, ACK, 10);
const B_132: Made = (B, 119, 132, ACK, 0);
const B_END: Made = (B, 119, 305, ACK, 14);
const B_LATER: Made = (B, 133, 400, ACK, 0);
const B_GAP: Made = (B, 219, 68, ACK, 100);
const A_END: Made = (A, 68, 319, ACK, 0);

#[test]
fn a_stray_is_no_witness() {
    let mut accused = Vec::new();
    for (name, packets) in CASES {
        let mut observer = Observer::new();
        for &(from, sequence, acknowledgment, flags, bytes) in packets {
            let [own, other] = if from == A { [A0, B0] } else { [B0, A0] };
            let (sequence, acknowledgment) = (own.wrapping_add(sequence), other.wrapping_add(acknowledgment));
            observer.give(0, &Packet { from, sequence, acknowledgment, flags, bytes });
        }
        let report = observer.finish();
        if is_accused(&report) {
            accused.push((name, lost(&report), report.fins_unseen));
        }
    }
    assert_eq!(accused, []);
}

/// Made connections whose network loses packets: strays at each place accuse nothing, and the capture's own losses are
/// found all the same.
#[test]
fn losses_are_found_among_strays() {
    let (mut random, mut removed, mut strays) = (Random(99), 0u64, 0u64);
    let (mut whole, mut lossy) = (Observer::new(), Observer::new());
    for flow in 0..100 {
        let packets = traffic(&mut random, 500, 20_000);
        for packet in &packets {
            if random.happens(20_000) {
                let flags = [SYN, SYN | ACK, RST, ACK, ACK][(strays % 5) as usize];
                let [sequence, acknowledgment] = [0; 2].map(|_| random.below(1 << 32) as u32);
                let from = if random.below(2) == 0 { A } else { B };
                let bytes = u32::from(strays % 5 == 4);
                let stray = Packet { from, sequence, acknowledgment, flags, bytes };
                whole.give(flow, &stray);
                lossy.give(flow, &stray);
                strays += 1;
            }
            whole.give(flow, packet);
            if packet.bytes > 0 && random.happens(10_000) {
                lossy.now_ns += MS / 10;
                removed += 1;
            } else {
                lossy.give(flow, packet);
            }
        }
    }
    let report = whole.finish();
    assert_eq!((lost(&report), report.fins_unseen, report.leaps_confirmed), ([0; 3], 0, 0), "{report:?}");
    let report = lossy.finish();
    let found = report.acked_unseen_packets_estimate;
    assert!(strays > 1000 && removed > 400, "{strays} {removed}");
    // What the network repeated is lost in one of two copies.
    assert!(
        found * 100 >= (removed - removed / 20) * 99 && found <= removed,
        "{found} of {removed}: {report:?}"
    );
}

/// A reader that counts the bytes that reach it.
#[derive(Default)]
struct Count(u64);

impl ConnectionSink for Count {
    fn begin(&mut self, _: u32, _: &Opened) {}

    fn event(&mut self, _: u32, _: Sender, _: u64, event: Event) {
        self.0 += match event {
            Event::Data { bytes, .. } => bytes.len() as u64,
            Event::Urgent { .. } => 1,
            _ => 0,
        };
    }

    fn end(&mut self, _: u32, _: &Closed) {}
}

/// Captured bytes of TCP payload in packets that a receiver takes; `None` for others, and for fragments.
fn payload(packet: &Captured) -> Option<u64> {
    let read = FlowPacket::read(&packet.bytes, packet.wire_bytes, packet.linktype).ok()?;
    let header = read.tcp(&packet.bytes).filter(|_| read.fragment.is_none())?;
    let (at, end) = (read.transport + header.header_bytes, read.ip_offset + read.ip_bytes);
    let is_sound =
        header.header_bytes >= 20 && at <= end && end <= packet.wire_bytes && read.ip_bytes <= read.room;
    is_sound.then(|| u64::from(read.end.saturating_sub(at)))
}

#[test]
fn each_captured_byte_is_delivered_or_named() {
    let (mut files_read, mut bytes_seen) = (0, 0);
    for path in files() {
        let packets = packets(&path);
        if packets.iter().any(|packet| {
            FlowPacket::read(&packet.bytes, packet.wire_bytes, packet.linktype)
                .is_ok_and(|read| read.fragment.is_some())
        }) {
            continue;
        }
        let (mut tracker, mut count) = (Tracker::new(TrackPlan::default(), 1), Count::default());
        for Captured { bytes, wire_bytes, linktype, time_ns } in &packets {
            let packet =
                TrackPacket { bytes, wire_bytes: *wire_bytes, linktype: *linktype, time_ns: *time_ns };
            tracker.packet(&packet, &mut count);
        }
        tracker.finish(&mut count);
        let captured: u64 = packets.iter().filter_map(payload).sum();
        let tally = tracker.streams();
        assert!(tally.is_balanced() && tally.held_bytes == 0, "{}: {tally:?}", path.display());
        assert_eq!((tally.seen_bytes, tally.delivered_bytes), (captured, count.0), "{}", path.display());
        files_read += 1;
        bytes_seen += captured;
    }
    assert!(files_read > 20 && bytes_seen > 100_000, "{files_read} {bytes_seen}");
}
