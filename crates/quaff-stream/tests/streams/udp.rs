//! UDP conversations: which datagram belongs to which, when one begins and ends, and what the capture cut. The counters
//! of one connection of many.

use crate::tracker::{ACK, Reader as TcpReader, SECOND, SYN};
use quaff_stream::tracker::{
    CloseReason, Closed, ConnectionSink, Opened, TrackPacket, TrackPlan, Tracker, UdpPayload,
};
use quaff_stream::{Event, Sender};
use quaff_testpackets as build;
use std::net::{Ipv4Addr, Ipv6Addr};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The events as words.
#[derive(Debug, Default)]
struct Reader(Vec<String>);

impl ConnectionSink for Reader {
    fn begin(&mut self, _: u32, opened: &Opened) {
        self.0.push(format!("tcp {}", opened.number));
    }

    fn event(&mut self, _: u32, _: Sender, _: u64, _: Event) {}

    fn end(&mut self, _: u32, _: &Closed) {}

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        let client = opened.ends[opened.client.index()];
        self.0.push(format!("{place} is {} of {client} at {}", opened.number, opened.first_ns / SECOND));
    }

    fn datagram(&mut self, place: u32, sender: Sender, time_ns: u64, payload: UdpPayload) {
        let (text, seconds) = (String::from_utf8_lossy(payload.bytes), time_ns / SECOND);
        self.0.push(format!("{place} {sender:?} {text} {} at {seconds}", payload.wire_bytes));
    }

    fn end_udp(&mut self, place: u32, last_ns: u64, reason: CloseReason) {
        self.0.push(format!("{place} {reason:?} at {}", last_ns / SECOND));
    }
}

struct Run {
    tracker: Tracker,
    reader: Reader,
    seconds: u64,
    /// Added to `seconds`.
    ns: u64,
}

fn datagram(is_client: bool, port: u16, payload: &[u8]) -> Vec<u8> {
    match is_client {
        true => build::ipv4(CLIENT, SERVER, 17, &[], &build::udp(port, 53, payload)),
        false => build::ipv4(SERVER, CLIENT, 17, &[], &build::udp(53, port, payload)),
    }
}

impl Run {
    fn new(plan: TrackPlan) -> Self {
        let tracker = Tracker::new(TrackPlan { udp: true, ..plan }, 1);
        Self { tracker, reader: Reader::default(), seconds: 1, ns: 0 }
    }

    /// A packet of which `cut` bytes were not captured.
    fn cut(&mut self, ip: &[u8], cut: usize) {
        let ethertype = if ip[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        let frame = build::ethernet(&[], ethertype, ip);
        let (bytes, wire_bytes) = (&frame[..frame.len() - cut], frame.len() as u32);
        let time_ns = self.seconds * SECOND + self.ns;
        self.tracker.packet(&TrackPacket { bytes, wire_bytes, linktype: 1, time_ns }, &mut self.reader);
    }

    fn ip(&mut self, ip: &[u8]) {
        self.cut(ip, 0);
    }

    fn finish(&mut self) -> Vec<String> {
        self.tracker.finish(&mut self.reader);
        assert!(self.tracker.tally().is_balanced() && self.tracker.fragments().is_balanced());
        let tally = self.tracker.tally();
        assert_eq!(tally.udp_ended.iter().sum::<u64>(), tally.udp);
        std::mem::take(&mut self.reader.0)
    }
}

#[test]
fn datagrams_are_those_of_two_ends_in_the_order_of_the_packets() {
    let mut run = Run::new(TrackPlan::default());
    run.ip(&datagram(true, 4711, b"question"));
    run.seconds = 2;
    run.ip(&datagram(false, 4711, b"answer"));
    run.ip(&datagram(true, 4712, b""));
    let all = run.finish();
    let expected = [
        "0 is 1 of 10.0.0.2:4711 at 1",
        "0 B question 8 at 1",
        "0 A answer 6 at 2",
        "1 is 2 of 10.0.0.2:4712 at 2",
        "1 B  0 at 2",
        "0 InputEnded at 2",
        "1 InputEnded at 2",
    ];
    assert_eq!(all, expected);
    assert_eq!((run.tracker.tally().datagrams, run.tracker.tally().not_tcp), (3, 0));
}

#[test]
fn fragments_are_one_datagram_and_a_snaplen_cuts_its_end() {
    let mut run = Run::new(TrackPlan::default());
    let text = [b'x'; 40];
    for piece in build::ipv4_fragments(&datagram(true, 4711, &text), 16) {
        run.ip(&piece);
    }
    run.cut(&datagram(true, 4711, b"question"), 5);
    run.cut(&datagram(true, 4711, b"question"), 12);
    let mut short = datagram(true, 4711, b"question");
    // Eight bytes of header and two of payload; the rest is padding.
    short[25] = 10;
    run.ip(&short);
    short[25] = 7;
    run.ip(&short);
    let all = run.finish();
    let whole = format!("0 B {} 40 at 1", "x".repeat(40));
    assert_eq!(all[1..4], [whole.as_str(), "0 B que 8 at 1", "0 B qu 2 at 1"]);
    let tally = run.tracker.tally();
    assert_eq!((tally.truncated, tally.damaged, all.len()), (1, 1, 5), "{all:?}");
}

#[test]
fn a_length_that_no_receiver_takes_is_damage() {
    let of = |length: u8, is_v6: bool| {
        let mut run = Run::new(TrackPlan::default());
        let mut udp = build::udp(4711, 53, b"question");
        udp[5] = length;
        match is_v6 {
            true => run.ip(&build::ipv6(Ipv6Addr::from(1u128), Ipv6Addr::from(2u128), 17, &udp)),
            false => run.ip(&build::ipv4(CLIENT, SERVER, 17, &[], &udp)),
        }
        let all = run.finish();
        (all.get(1).cloned().unwrap_or_default(), run.tracker.tally().damaged)
    };
    for is_v6 in [false, true] {
        let sender = if is_v6 { "A" } else { "B" };
        assert_eq!(of(16, is_v6), (format!("0 {sender} question 8 at 1"), 0));
        assert_eq!(of(8, is_v6), (format!("0 {sender}  0 at 1"), 0));
        // Longer than the packet, and shorter than the header.
        assert_eq!((of(17, is_v6), of(7, is_v6)), ((String::new(), 1), (String::new(), 1)));
    }
    assert_eq!(of(0, true), ("0 A question 8 at 1".to_owned(), 0));
    assert_eq!(of(0, false), (String::new(), 1));
}

#[test]
fn the_idle_time_is_exact() {
    let plan = TrackPlan { idle_ns: 100 * SECOND, ..TrackPlan::default() };
    let numbers = |seconds: u64, ns: u64| {
        let mut run = Run::new(plan.clone());
        run.ip(&datagram(true, 1, b"first"));
        run.ns = SECOND * 9 / 10;
        run.ip(&datagram(true, 1, b"last"));
        (run.seconds, run.ns) = (seconds, ns);
        run.ip(&datagram(true, 1, b"again"));
        run.finish();
        run.tracker.tally().udp
    };
    // The last one came at 1.9 s.
    assert_eq!([numbers(101, 500_000_000), numbers(101, 900_000_000), numbers(101, 900_000_001)], [1, 1, 2]);
    assert_eq!([numbers(102, 500_000_000), numbers(200, 0)], [2, 2]);
}

#[test]
fn a_conversation_ends_when_it_is_idle_or_the_table_is_full() {
    let plan = TrackPlan { idle_ns: 100 * SECOND, connections_max: 2, ..TrackPlan::default() };
    let mut run = Run::new(plan);
    run.ip(&datagram(true, 1, b""));
    run.seconds = 90;
    run.ip(&datagram(true, 2, b""));
    run.seconds = 110;
    run.ip(&datagram(true, 1, b"again"));
    run.ip(&datagram(true, 3, b""));
    run.ip(&datagram(true, 4, b""));
    let ends: Vec<_> = run.finish().into_iter().filter(|words| !words.contains(" B ")).collect();
    let expected = [
        "0 is 1 of 10.0.0.2:1 at 1",
        "1 is 2 of 10.0.0.2:2 at 90",
        "0 Idle at 1",
        "0 is 3 of 10.0.0.2:1 at 110",
        "1 Evicted at 90",
        "1 is 4 of 10.0.0.2:3 at 110",
        "0 Evicted at 110",
        "0 is 5 of 10.0.0.2:4 at 110",
        "1 InputEnded at 110",
        "0 InputEnded at 110",
    ];
    assert_eq!(ends, expected);
}

#[test]
fn only_the_packets_of_the_wanted_ends_and_protocol_are_taken() {
    let only = Some([(SERVER, 53).into(), (CLIENT, 1).into()]);
    let mut run = Run::new(TrackPlan { only, tcp: false, ..TrackPlan::default() });
    run.ip(&datagram(true, 1, b"a"));
    run.ip(&datagram(true, 2, b"b"));
    run.ip(&build::ipv4(CLIENT, SERVER, 6, &[], &segment(1, SYN, 100, b"")));
    run.ip(&build::ipv4(CLIENT, SERVER, 1, &[], &[8; 8]));
    let tally = *run.tracker.tally();
    assert_eq!((tally.datagrams, tally.unselected, tally.not_tcp), (1, 2, 1));
    assert_eq!(run.finish().len(), 3);
}

fn segment(port: u16, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut tcp = [port, 80].map(u16::to_be_bytes).concat();
    tcp.extend([sequence, 1].map(u32::to_be_bytes).concat());
    tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    tcp
}

#[test]
fn the_bytes_and_gaps_of_the_connection_with_a_number_are_counted_alone() {
    for (number, expected) in [(None, (6, 4)), (Some(1), (2, 4)), (Some(2), (4, 0)), (Some(3), (0, 0))] {
        let plan = TrackPlan { number, ..TrackPlan::default() };
        let (mut tracker, mut reader) = (Tracker::new(plan, 1), TcpReader::default());
        let mut send = |port, flags, sequence, payload: &[u8], cut: usize| {
            let ip = build::ipv4(CLIENT, SERVER, 6, &[], &segment(port, flags, sequence, payload));
            let frame = build::ethernet(&[], 0x0800, &ip);
            let (bytes, wire_bytes) = (&frame[..frame.len() - cut], frame.len() as u32);
            tracker.packet(&TrackPacket { bytes, wire_bytes, linktype: 1, time_ns: SECOND }, &mut reader);
        };
        send(1, SYN, 99, b"", 0);
        send(2, SYN, 99, b"", 0);
        send(1, ACK, 100, b"a", 0);
        // Four bytes are missing.
        send(1, ACK, 105, b"b", 0);
        send(2, ACK, 100, b"abcd", 0);
        // A header of the second connection is cut.
        send(2, ACK, 104, b"", 4);
        tracker.finish(&mut reader);
        let (streams, tally) = (*tracker.streams(), *tracker.tally());
        let gaps: u64 = streams.gap_bytes.iter().sum();
        assert_eq!((streams.delivered_bytes, gaps), expected, "{number:?}");
        assert!(streams.is_balanced() && tally.is_balanced() && streams.held_bytes == 0, "{number:?}");
        let is_its = number.is_none_or(|number| number == 2);
        assert_eq!((tally.truncated, tally.connections), (u64::from(is_its), 2), "{number:?}");
    }
}

/// The counters of a run by the number of a conversation: cut headers, and incomplete datagrams.
fn lacking(plan: TrackPlan) -> (u64, u64) {
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
    let mut run = Run::new(plan);
    let first_fragment = |from: Ipv4Addr| {
        let ip = build::ipv4(from, SERVER, 17, &[], &build::udp(9, 53, &[b'x'; 40]));
        build::ipv4_fragments(&ip, 16).swap_remove(0)
    };
    run.ip(&datagram(true, 1, b"one"));
    run.ip(&datagram(true, 2, b"two"));
    run.ip(&build::ipv4(OTHER, SERVER, 17, &[], &build::udp(3, 53, b"three")));
    // The second one has a cut header; the hosts of the first two lack a fragment, as do those of the third.
    run.cut(&datagram(true, 2, b"question"), 12);
    run.ip(&first_fragment(CLIENT));
    run.ip(&first_fragment(OTHER));
    run.finish();
    assert_eq!(run.tracker.tally().udp, if run.tracker.tally().unselected > 1 { 1 } else { 3 });
    (run.tracker.tally().truncated, run.tracker.fragments().expired)
}

#[test]
fn nothing_that_other_conversations_lack_is_counted() {
    let by = |udp_number| TrackPlan { udp_number, ..TrackPlan::default() };
    assert_eq!(lacking(by(None)), (1, 2));
    assert_eq!(lacking(by(Some(1))), (0, 1));
    assert_eq!(lacking(by(Some(2))), (1, 1));
    assert_eq!(lacking(by(Some(3))), (0, 1));
    assert_eq!((lacking(by(Some(4))), lacking(by(Some(0)))), ((0, 0), (0, 0)));
    let only = |port: u16| Some([(SERVER, 53).into(), (CLIENT, port).into()]);
    let between = |port, udp_number| TrackPlan { only: only(port), ..by(udp_number) };
    assert_eq!(lacking(between(1, Some(1))), (0, 1));
    assert_eq!(lacking(between(2, Some(1))), (1, 1));
    assert_eq!((lacking(between(2, Some(2))), lacking(between(2, Some(0)))), ((0, 1), (0, 0)));
}
