//! The stage on generated packets, in memory.

use super::*;
use proptest::prelude::*;
use quaff_testpackets::{self as build, Erspan, ErspanIii};
use quaff_wire::pcapng::Interface;
use quaff_wire::tunnel::TunnelKinds;
use std::net::Ipv4Addr;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const START_NS: u64 = 1_790_000_000_000_000_000;

/// An output frame.
struct Out {
    time_ns: u64,
    interface: u16,
    bytes: Vec<u8>,
    tag: (u16, u16),
}

/// A stage and its results.
struct Bench {
    stage: Decap,
    interfaces: Interfaces,
    tally: LaneTally,
    out: Vec<Out>,
    now_ns: u64,
    /// Time between two packets.
    step_ns: u64,
}

impl Bench {
    fn new(only: bool, format: Format) -> Self {
        let plan = DecapPlan { kinds: TunnelKinds::ALL, depth: 4, only, switch_time: true };
        let eth0 = Interface { linktype: 1, name: "eth0".into(), ..Interface::default() };
        let interfaces = Interfaces::new(vec![eth0]);
        let stage = Decap::new(&plan, format, interfaces.clone(), Arc::default());
        Self {
            stage,
            interfaces,
            tally: LaneTally::default(),
            out: Vec::new(),
            now_ns: START_NS,
            step_ns: 1000,
        }
    }

    /// Passes packets.
    fn put(&mut self, packets: &[Vec<u8>]) {
        self.pass(packets, false);
    }

    fn pass(&mut self, packets: &[Vec<u8>], is_last: bool) {
        let bytes = packets.concat();
        let mut start = 0;
        let mut frames = Vec::new();
        for packet in packets {
            let len = packet.len() as u32;
            let time_ns = self.now_ns;
            frames.push(Frame { time_ns, start, len, wire_len: len, keep: u32::MAX, ..Frame::default() });
            start += len;
            self.now_ns += self.step_ns;
        }
        let mut scratch = Vec::new();
        let (aside_ref, now_ns) = (&mut scratch, self.now_ns);
        let mut batch = Batch {
            bytes: &bytes,
            scratch: aside_ref,
            frames: &mut frames,
            ids: &mut Vec::new(),
            now_ns,
            is_last,
        };
        self.stage.pass(&mut batch, &mut self.tally);
        let memory = batch.memory();
        for frame in batch.frames.iter() {
            let bytes = memory.of(frame).to_vec();
            let tag = (frame.tpid, frame.tci);
            self.out.push(Out { time_ns: frame.time_ns, interface: frame.interface, bytes, tag });
        }
    }

    fn bytes(&self) -> Vec<&[u8]> {
        self.out.iter().map(|out| &out.bytes[..]).collect()
    }

    fn tally(&mut self) -> DecapTally {
        let mut tally = LaneTally::default();
        self.stage.sum_up(&mut tally);
        tally.decap.expect("a decap tally")
    }
}

fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(bytes, 0x5a);
    build::ethernet(&[], 0x0800, &build::ipv4(A, B, 17, &[], &build::udp(1, 2, &payload)))
}

fn mirrored(source: Ipv4Addr, session: u16, sequence: u32, frame: &[u8]) -> Vec<u8> {
    let header = Erspan { session, ..Erspan::default() };
    let gre = build::erspan_ii(sequence, &header, 0, frame);
    build::ipv4(source, B, 47, &[], &gre)
}

fn on_ethernet(packet: &[u8]) -> Vec<u8> {
    build::ethernet(&[], 0x0800, packet)
}

#[test]
fn each_sender_and_session_is_an_interface_and_its_gaps_are_its_own() {
    let mut bench = Bench::new(false, Format::Pcapng);
    let plain = frame(0, 20);
    let inner = frame(7, 30);
    bench.put(&[
        on_ethernet(&mirrored(A, 5, 100, &inner)),
        on_ethernet(&mirrored(A, 6, 1, &inner)),
        plain.clone(),
        on_ethernet(&mirrored(B, 5, 9, &inner)),
        on_ethernet(&mirrored(A, 5, 103, &inner)),
    ]);
    let interfaces: Vec<u16> = bench.out.iter().map(|out| out.interface).collect();
    assert_eq!(interfaces, [1, 2, 0, 3, 1]);
    assert_eq!(bench.bytes(), [&inner[..], &inner, &plain, &inner, &inner]);
    let names: Vec<String> = bench.interfaces.since(1).into_iter().map(|found| found.name).collect();
    let expected = [
        "eth0 erspan 10.0.0.1 session 5",
        "eth0 erspan 10.0.0.1 session 6",
        "eth0 erspan 10.0.0.2 session 5",
    ];
    assert_eq!(names, expected);
    let mut counts = Counts::default();
    bench.stage.count(&mut counts);
    assert_eq!(counts.sessions.iter().map(|s| (s.interface, s.missing)).collect::<Vec<_>>(), [(1, 2)]);
    let tally = bench.tally();
    assert_eq!((tally.stripped, tally.sessions[0].missing, tally.sessions[0].received), (4, 2, 2));
    assert_eq!(bench.tally.clone(), LaneTally::default());
}

#[test]
fn packets_without_a_tunnel_are_dropped_only_on_request() {
    let damaged = on_ethernet(&mirrored(A, 5, 1, &frame(1, 20)))[..45].to_vec();
    for (only, left) in [(false, 2), (true, 0)] {
        let mut bench = Bench::new(only, Format::Pcapng);
        bench.put(&[frame(0, 20), damaged.clone()]);
        assert_eq!((bench.out.len(), bench.tally.not_tunnel), (left, 2 - left as u64));
        assert_eq!(bench.tally().damaged.values().sum::<u64>(), 1);
    }
}

#[test]
fn pcap_holds_one_link_type_and_says_what_it_could_not() {
    let bare = build::ipv4(A, B, 17, &[], &build::udp(1, 2, b"x"));
    let on_gre = on_ethernet(&build::ipv4(A, B, 47, &[], &build::gre(&build::Gre::default(), 0x0800, &bare)));
    let mirror = on_ethernet(&mirrored(A, 5, 1, &frame(1, 20)));
    let mut bench = Bench::new(false, Format::Pcap);
    bench.put(&[on_gre.clone(), mirror.clone()]);
    assert_eq!((bench.out.len(), bench.tally.unsuited), (1, 1));
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&[on_gre, mirror]);
    assert_eq!(bench.bytes()[0], bare);
    assert_eq!(bench.interfaces.get(1).unwrap().linktype, 101);
}

#[test]
fn the_tag_that_a_switch_took_out_comes_back() {
    let inner = frame(3, 20);
    let header = Erspan { session: 1, vlan: 77, cos: 5, encapsulation: 2, ..Erspan::default() };
    let packet = build::ipv4(A, B, 47, &[], &build::erspan_ii(1, &header, 0, &inner));
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&[on_ethernet(&packet)]);
    assert_eq!(bench.out[0].tag, (0x8100, 5 << 13 | 77));
}

#[test]
fn the_switchs_time_counts_when_it_has_one() {
    let header = Erspan { session: 1, ..Erspan::default() };
    let at = |timestamp| ErspanIii { timestamp, granularity: 1, ..ErspanIii::default() };
    let packet = |timestamp, sequence| {
        let gre = build::erspan_iii(sequence, &header, &at(timestamp), &frame(0, 20));
        on_ethernet(&build::ipv4(A, B, 47, &[], &gre))
    };
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&[packet(1000, 0), packet(1003, 1)]);
    let times: Vec<u64> = bench.out.iter().map(|out| out.time_ns - START_NS).collect();
    assert_eq!(times, [0, 300]);
}

#[test]
fn fragments_are_put_together_in_any_order_and_at_their_place() {
    let inner = frame(9, 1450);
    let whole = mirrored(A, 5, 1, &inner);
    let pieces: Vec<_> = build::ipv4_fragments(&whole, 1480).iter().map(|piece| on_ethernet(piece)).collect();
    assert_eq!(pieces.len(), 2);
    let (first, last) = (frame(1, 20), frame(2, 20));
    for order in [[0, 1], [1, 0]] {
        let mut bench = Bench::new(false, Format::Pcapng);
        let [one, two] = order.map(|at: usize| pieces[at].clone());
        bench.put(&[first.clone(), one]);
        assert!(bench.stage.is_holding());
        bench.put(&[two, last.clone()]);
        assert_eq!(bench.bytes(), [&first[..], &inner, &last]);
        assert_eq!((bench.tally.merged, bench.stage.is_holding()), (1, false));
    }
}

#[test]
fn incomplete_datagrams_pass_unchanged() {
    let whole = mirrored(A, 5, 1, &frame(9, 3000));
    let pieces: Vec<_> = build::ipv4_fragments(&whole, 1000).iter().map(|piece| on_ethernet(piece)).collect();
    let lost_one = [pieces[0].clone(), pieces[2].clone(), pieces[2].clone()];
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&lost_one);
    assert_eq!(bench.bytes(), [&pieces[2][..]], "a copy is of no use");
    bench.now_ns += 2_000_000_000;
    bench.put(&[frame(1, 20)]);
    assert_eq!(bench.bytes(), [&pieces[2], &pieces[0], &pieces[2], &frame(1, 20)]);
    assert_eq!((bench.tally().incomplete, bench.tally.clone()), (2, LaneTally::default()));
    // The end of the run ends the timeout.
    bench.put(&[pieces[1].clone()]);
    bench.pass(&[], true);
    assert_eq!(bench.bytes().last(), Some(&&pieces[1][..]));
}

/// A batch of a file may span minutes.
#[test]
fn fragments_time_out_within_a_batch() {
    let whole = mirrored(A, 5, 1, &frame(9, 1450));
    let pieces: Vec<_> = build::ipv4_fragments(&whole, 1480).iter().map(|piece| on_ethernet(piece)).collect();
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.step_ns = 150_000_000;
    bench.put(&[frame(1, 20), pieces[0].clone(), frame(2, 20), frame(3, 20), frame(4, 20)]);
    let expected = [&frame(1, 20)[..], &pieces[0], &frame(2, 20), &frame(3, 20), &frame(4, 20)];
    assert_eq!(bench.bytes(), expected, "in the place that it had");
    assert_eq!(bench.tally().delayed, 0);
    bench.out.clear();
    bench.put(&[pieces[0].clone()]);
    bench.put(&[pieces[1].clone(), frame(5, 20), frame(6, 20)]);
    let expected = [&frame(9, 1450)[..], &frame(5, 20), &frame(6, 20)];
    assert_eq!(bench.bytes(), expected, "the rest came in time, though its batch ends later");
}

/// Fragments that come to nothing stay where they were, and what is too late for that is counted.
#[test]
fn fragments_without_a_tunnel_bring_no_disorder() {
    let plain = build::ipv4(A, B, 17, &[], &build::udp(53, 4000, &[0; 3000]));
    let pieces = |packet: &[u8]| -> Vec<Vec<u8>> {
        build::ipv4_fragments(packet, 1480).iter().map(|piece| on_ethernet(piece)).collect()
    };
    let (plain, tunnel) = (pieces(&plain), pieces(&mirrored(B, 7, 1, &frame(9, 3000))));
    let mut bench = Bench::new(false, Format::Pcapng);
    // Later fragments of a datagram first, as some systems send them, and two datagrams of which a part is lost.
    let sent = [
        &frame(1, 20),
        &plain[2],
        &tunnel[0],
        &frame(2, 20),
        &plain[1],
        &frame(3, 20),
        &plain[0],
        &frame(4, 20),
    ]
    .map(Clone::clone);
    bench.pass(&sent, true);
    assert_eq!(bench.bytes(), sent.iter().map(|sent| &sent[..]).collect::<Vec<_>>());
    assert_eq!((bench.tally().delayed, bench.tally().incomplete), (0, 1));
    // In another batch.
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&[plain[2].clone(), frame(1, 20)]);
    bench.put(&[frame(2, 20), plain[0].clone(), plain[1].clone()]);
    assert_eq!(bench.bytes(), [&frame(1, 20)[..], &frame(2, 20), &plain[2], &plain[0], &plain[1]]);
    assert_eq!((bench.tally().delayed, bench.tally().incomplete), (1, 0));
}

#[test]
fn a_number_that_comes_round_does_not_mix_two_datagrams() {
    let pieces = |number: u32| {
        let whole = mirrored(A, 5, number, &frame(number, 1450));
        build::ipv4_fragments(&whole, 1480).iter().map(|piece| on_ethernet(piece)).collect::<Vec<_>>()
    };
    let (one, two) = (pieces(1), pieces(2));
    let mut bench = Bench::new(false, Format::Pcapng);
    // The end of the first is lost.
    bench.put(&[one[0].clone(), two[0].clone(), two[1].clone()]);
    assert_eq!(bench.bytes(), [&one[0][..], &frame(2, 1450)]);
    assert_eq!((bench.tally.merged, bench.tally().incomplete), (1, 1));
}

#[test]
fn fragments_of_other_traffic_do_not_wait() {
    let packet = build::ipv4(A, B, 17, &[], &build::udp(53, 4000, &[0; 3000]));
    let pieces: Vec<_> =
        build::ipv4_fragments(&packet, 1480).iter().map(|piece| on_ethernet(piece)).collect();
    let mut bench = Bench::new(false, Format::Pcapng);
    bench.put(&pieces);
    assert_eq!(bench.bytes(), pieces.iter().map(|piece| &piece[..]).collect::<Vec<_>>());
}

proptest! {
    /// Whatever the order, losses and duplicates: every input frame is in the output, unchanged or as a counted
    /// part of a datagram.
    #[test]
    fn every_fragment_ends_somewhere(
        sizes in prop::collection::vec(100usize..4000, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        pauses in prop::collection::vec(0u64..700_000_000, 60),
    ) {
        let pieces: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .flat_map(|(at, bytes)| {
                let source = Ipv4Addr::new(10, 1, 0, at as u8);
                build::ipv4_fragments(&mirrored(source, 5, 1, &frame(at as u32, *bytes)), 800)
            })
            .map(|piece| on_ethernet(&piece))
            .collect();
        let sent: Vec<Vec<u8>> = order.iter().map(|index| index.get(&pieces).clone()).collect();
        let mut bench = Bench::new(false, Format::Pcapng);
        for (piece, pause) in sent.iter().zip(pauses) {
            bench.put(std::slice::from_ref(piece));
            bench.now_ns += pause;
        }
        bench.pass(&[], true);
        prop_assert!(!bench.stage.is_holding());
        prop_assert_eq!(bench.out.len() as u64 + bench.tally.merged, sent.len() as u64);
        for out in &bench.out {
            let is_known = out.interface > 0 && out.bytes.len() > 100 || pieces.contains(&out.bytes);
            prop_assert!(is_known);
        }
    }
}
