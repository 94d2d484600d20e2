use super::*;
use crate::stage::testing::{pass_last, pass_one};
use proptest::prelude::*;
use quaff_testpackets as build;
use quaff_wire::pcapng::Interface;
use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const START_NS: u64 = 1_700_000_000_000_000_000;
const US: u64 = 1000;

/// A packet on a lane: µs after the start, and its frame.
type Packet = (u64, Vec<u8>);

fn interfaces() -> Interfaces {
    let ethernet = Interface { linktype: 1, ..Interface::default() };
    Interfaces::new(vec![ethernet.clone(), ethernet])
}

fn recent(entries: usize) -> Arc<RecentPackets> {
    Arc::new(RecentPackets::with(4, entries, true))
}

/// The stages of two lanes of a run, each with its interface.
fn lanes(action: Duplicates, recent: &Arc<RecentPackets>) -> [Compare; 2] {
    [0, 1].map(|lane| Compare::new(lane, action, interfaces(), recent.clone()))
}

/// Passes a batch; returns the ids that were given, and the number of frames that are left.
fn pass(stage: &mut Compare, interface: u16, packets: &[Packet]) -> (Vec<u64>, usize) {
    let bytes: Vec<u8> = packets.iter().flat_map(|(_, frame)| frame.clone()).collect();
    let mut start = 0;
    let describe = |(at_us, frame): &Packet| {
        let len = frame.len() as u32;
        start += len;
        let time_ns = START_NS + at_us * US;
        Frame { time_ns, start: start - len, len, wire_len: len, keep: 40, interface, ..Frame::default() }
    };
    let mut frames: Vec<_> = packets.iter().map(describe).collect();
    let (mut scratch, mut ids, mut tally) = (Vec::new(), vec![7; 3], LaneTally::default());
    let (frames, scratch) = (&mut frames, &mut scratch);
    let mut batch = Batch { bytes: &bytes, scratch, frames, ids: &mut ids, now_ns: 0, is_last: false };
    stage.pass(&mut batch, &mut tally);
    let left = batch.frames.len();
    assert_eq!(left as u64 + tally.duplicates, packets.len() as u64);
    (ids, left)
}

/// UDP without a checksum, with IPv4 identification 0: only the payload differs.
fn udp(number: u64) -> Vec<u8> {
    let mut datagram = build::udp(4789, 4789, &number.to_be_bytes());
    datagram[6..8].fill(0);
    build::ethernet(&[], 0x0800, &build::ipv4(A, B, 17, &[], &datagram))
}

/// A segment of TCP over IPv6: the same bytes each time.
fn ack(payload: &[u8]) -> Vec<u8> {
    let [from, to] = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED];
    let segment = [&[0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 0x10, 1, 2, 0, 0, 0, 0], payload].concat();
    build::ethernet(&[], 0x86dd, &build::ipv6(from, to, 6, &segment))
}

/// The packet after a router, with a tag.
fn routed(frame: &[u8]) -> Vec<u8> {
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let mut packet = frame[14..].to_vec();
    if ethertype == 0x0800 {
        packet[8] -= 1;
        packet[10] ^= 1;
    } else {
        packet[7] -= 1;
    }
    let mut routed = build::ethernet(&[(0x8100, 77)], ethertype, &packet);
    routed[..12].copy_from_slice(&[6; 12]);
    routed
}

#[test]
fn all_sightings_of_a_packet_have_one_id_and_other_packets_have_their_own() {
    let recent = recent(1 << 12);
    let [mut one, mut two] = lanes(Duplicates::Mark, &recent);
    let first: Vec<Packet> = (0..600).map(|n| (n * 10, if n % 3 == 0 { ack(&[]) } else { udp(n) })).collect();
    let second: Vec<Packet> = first.iter().map(|(at_us, frame)| (at_us + 999, routed(frame))).collect();
    let ((first, _), (second, left)) = (pass(&mut one, 0, &first), pass(&mut two, 1, &second));
    assert_eq!((&first, left), (&second, 600), "each in its order");
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 600, "equal packets of one place have their own");
    let sum = |stage: &Compare| (stage.sightings.elsewhere, stage.sightings.unchecked);
    assert_eq!((sum(&one), sum(&two)), ((0, 0), (600, 0)));
}

#[test]
fn no_packet_of_one_place_is_a_duplicate() {
    for payload in [&[][..], &[0]] {
        let recent = recent(1 << 16);
        let [mut stage, _] = lanes(Duplicates::Mark, &recent);
        let mut ids = HashSet::new();
        for batch in 0..1000 {
            // A million duplicate ACKs, or keep-alives of one byte, of which 100 are in a window, among other packets.
            let at_us = |n: u64| batch * 10_000 + n * 10;
            let packets: Vec<Packet> = (0..1000)
                .map(|n| (at_us(n), if n % 50 == 7 { udp(batch << 10 | n) } else { ack(payload) }))
                .collect();
            ids.extend(pass(&mut stage, 0, &packets).0);
        }
        let found = stage.sightings;
        assert_eq!(
            (ids.len(), found.compared, found.elsewhere, found.unchecked),
            (1_000_000, 1_000_000, 0, 0)
        );
        assert_eq!(found.same_place, 980_000 - 1, "but for the first of all");
    }
}

#[test]
fn packets_of_equal_headers_are_no_duplicates() {
    let recent = recent(1 << 16);
    let [mut one, mut two] = lanes(Duplicates::Mark, &recent);
    let mut ids = HashSet::new();
    for batch in 0..1000 {
        let packets = |from: u64| -> Vec<Packet> {
            (0..500).map(|n| (batch * 10_000 + n, udp(from + batch * 500 + n))).collect()
        };
        ids.extend(pass(&mut one, 0, &packets(0)).0);
        ids.extend(pass(&mut two, 1, &packets(1 << 40)).0);
    }
    assert_eq!(ids.len(), 1_000_000);
    assert_eq!(two.sightings, Sightings { compared: 500_000, ..Sightings::default() });
}

#[test]
fn duplicates_need_another_place_and_one_millisecond() {
    let other = |change: fn(&mut Vec<u8>)| {
        let mut frame = udp(5);
        change(&mut frame);
        frame
    };
    let tagged = build::ethernet(&[(0x8100, 5)], 0x0800, &udp(5)[14..]);
    let cases: [(u64, u16, Vec<u8>, Fate); 12] = [
        (1000, 1, udp(5), Fate::Elsewhere),
        (1001, 1, udp(5), Fate::First),
        (9, 0, udp(5), Fate::SamePlace),
        (9, 0, tagged, Fate::Elsewhere),
        (9, 0, other(|frame| frame[0] ^= 2), Fate::Elsewhere),
        (9, 0, other(|frame| frame[11] ^= 2), Fate::Elsewhere),
        (9, 0, other(|frame| frame[22] -= 1), Fate::Elsewhere),
        (9, 0, other(|frame| frame[25] ^= 1), Fate::SamePlace),
        // Type of service, payload, length.
        (9, 1, other(|frame| frame[15] = 4), Fate::First),
        (9, 1, other(|frame| *frame.last_mut().unwrap() ^= 1), Fate::First),
        (9, 1, udp(6), Fate::First),
        // Padding of the link is no part of the packet.
        (9, 1, other(|frame| frame.extend([0; 10])), Fate::Elsewhere),
    ];
    for (at_us, interface, frame, expected) in cases {
        let recent = recent(64);
        let [mut stage, _] = lanes(Duplicates::Mark, &recent);
        let (first, _) = pass(&mut stage, 0, &[(0, udp(5))]);
        let (second, _) = pass(&mut stage, interface, &[(at_us, frame.clone())]);
        let found = stage.sightings;
        let fate = match (found.elsewhere, found.same_place) {
            (1, 0) => Fate::Elsewhere,
            (0, 1) => Fate::SamePlace,
            _ => Fate::First,
        };
        assert_eq!(fate, expected, "{at_us} µs, interface {interface}, {frame:02x?}");
        assert_eq!(first == second, expected == Fate::Elsewhere);
    }
}

#[test]
fn packets_that_are_cut_or_not_ip_are_not_compared() {
    let recent = recent(64);
    let [mut stage, _] = lanes(Duplicates::Remove, &recent);
    let mut cut = udp(5);
    cut.truncate(45);
    let arp = build::ethernet(&[], 0x0806, &[0; 28]);
    assert_eq!(pass(&mut stage, 0, &[(0, cut.clone()), (0, arp.clone())]).1, 2);
    assert_eq!(pass(&mut stage, 1, &[(0, cut), (0, arp)]).1, 2);
    assert_eq!(stage.sightings, Sightings { not_compared: 4, ..Sightings::default() });
}

#[test]
fn removal_leaves_the_first_sighting_and_its_number_is_in_the_last_counters() {
    let recent = recent(1 << 12);
    let [mut stage, _] = lanes(Duplicates::Remove, &recent);
    let packets: Vec<Packet> =
        (0..100).flat_map(|n| [(n, udp(n)), (n, routed(&udp(n))), (n, udp(n))]).collect();
    assert_eq!(pass(&mut stage, 0, &packets).1, 200, "those of the same place remain");
    let mut counts = Counts::default();
    stage.count(&mut counts);
    assert_eq!(counts, Counts::default(), "only at the end");
    pass_last(&mut stage);
    stage.count(&mut counts);
    let expected = Sightings { compared: 300, elsewhere: 100, same_place: 100, ..Sightings::default() };
    assert_eq!((counts.duplicates_removed, counts.sightings), (100, Some(expected)));
    let mut tally = LaneTally::default();
    stage.sum_up(&mut tally);
    assert_eq!(tally.sightings, Some(expected));
}

#[test]
fn a_full_table_is_counted_and_never_a_duplicate() {
    // 4 shards of 16 entries.
    let recent = recent(64);
    let [mut one, mut two] = lanes(Duplicates::Mark, &recent);
    let first: Vec<Packet> = (0..500).map(|n| (n, udp(n))).collect();
    let second: Vec<Packet> = first.iter().map(|(at_us, frame)| (*at_us, routed(frame))).collect();
    let (first, second) = (pass(&mut one, 0, &first).0, pass(&mut two, 1, &second).0);
    let found = two.sightings;
    assert_eq!(found.elsewhere + found.unchecked, 500, "{found:?}");
    assert!(found.unchecked > 300, "{found:?}");
    let shared = first.iter().collect::<HashSet<_>>().intersection(&second.iter().collect()).count();
    assert_eq!(shared as u64, found.elsewhere);
    // A later packet is after all that was forgotten.
    let before = one.sightings.unchecked;
    pass(&mut one, 0, &[(5000, udp(9999))]);
    assert_eq!(one.sightings.unchecked, before);
}

#[test]
fn a_tag_that_the_kernel_removed_is_a_place() {
    let of = |tci: u16, tpid: u16| Frame { time_ns: START_NS, tci, tpid, ..Frame::default() };
    // The priority is none, and without a tag `tci` has another meaning.
    let cases = [(of(9, 0), 0), (of(5, 0x8100), 1), (of(0, 0x8100), 1)];
    let tagged = [(of(0xe005, 0x8100), 0), (of(6, 0x8100), 1)];
    let from = |first: Frame| move |(second, elsewhere)| ([first, second], elsewhere);
    for (frames, elsewhere) in cases.map(from(of(0, 0))).into_iter().chain(tagged.map(from(of(5, 0x8100)))) {
        let [mut stage, _] = lanes(Duplicates::Count, &recent(64));
        pass_one(&mut stage, &frames, &udp(3));
        let expected =
            Sightings { compared: 2, elsewhere, same_place: 1 - elsewhere, ..Sightings::default() };
        assert_eq!(stage.sightings, expected, "{frames:?}");
    }
}

proptest! {
    /// Whatever the order in which two lanes are read, each packet of one has its own id, and a shared one only for
    /// equal bytes and times within the window.
    #[test]
    fn an_id_is_shared_by_equal_packets_of_two_places_alone(
        packets in prop::collection::vec((0..2usize, 0..4u64, 0..300u64), 1..80),
    ) {
        let recent = recent(1 << 10);
        let mut stages = lanes(Duplicates::Mark, &recent);
        let (mut clocks, mut all) = ([0; 2], Vec::new());
        for (lane, content, step_us) in packets {
            clocks[lane] += step_us;
            let (ids, _) = pass(&mut stages[lane], lane as u16, &[(clocks[lane], udp(content))]);
            all.push((ids[0], lane, content, clocks[lane]));
        }
        for (at, one) in all.iter().enumerate() {
            let mut same = all[at + 1..].iter().filter(|other| other.0 == one.0);
            if let Some(other) = same.next() {
                prop_assert!(one.1 != other.1 && one.2 == other.2 && one.3.abs_diff(other.3) <= 1000);
                prop_assert!(same.next().is_none());
            }
        }
        let duplicates: u64 = stages.iter().map(|stage| stage.sightings.elsewhere).sum();
        let ids: HashSet<_> = all.iter().map(|(id, ..)| id).collect();
        prop_assert_eq!(duplicates as usize, all.len() - ids.len());
    }
}
