//! Packets become connections: which segment belongs to which, when one begins and ends, and the fate of each packet.

use quaff_stream::tracker::{
    CloseReason, Closed, ConnectionSink, Ends, Opened, TrackPacket, TrackPlan, Tracker, sorted,
};
use quaff_stream::{EndReason, Event, GapCause, Sender};
use quaff_testpackets as build;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const SECOND: u64 = 1_000_000_000;
const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 4711);
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 2), 80);

/// A connection as the reader saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    opened: Option<Opened>,
    pub(crate) closed: Option<Closed>,
    /// The host that opened it, by a later packet.
    client: Option<Sender>,
    /// The bytes of A and of B; a lost byte is `?`.
    pub(crate) text: [String; 2],
    pub(crate) causes: Vec<GapCause>,
    /// The ends of A and of B.
    pub(crate) ends: [Option<EndReason>; 2],
}

/// Keeps all connections, in the order of their begin.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    all: Vec<Seen>,
    places: BTreeMap<u32, usize>,
}

impl ConnectionSink for Reader {
    fn begin(&mut self, place: u32, opened: &Opened) {
        assert!(self.places.insert(place, self.all.len()).is_none(), "the place has a connection");
        self.all.push(Seen { opened: Some(*opened), ..Seen::default() });
    }

    fn client(&mut self, place: u32, client: Sender) {
        self.all[self.places[&place]].client = Some(client);
    }

    fn event(&mut self, place: u32, sender: Sender, _: u64, event: Event) {
        let seen = &mut self.all[self.places[&place]];
        let text = &mut seen.text[sender.index()];
        match event {
            Event::Data { bytes, .. } => text.push_str(std::str::from_utf8(bytes).unwrap()),
            Event::Gap { lost_bytes, cause, .. } => {
                text.push_str(&"?".repeat(lost_bytes as usize));
                seen.causes.push(cause);
            }
            Event::End { reason, .. } => seen.ends[sender.index()] = Some(reason),
            _ => {}
        }
    }

    fn end(&mut self, place: u32, closed: &Closed) {
        self.all[self.places.remove(&place).expect("a connection")].closed = Some(*closed);
    }
}

/// A tracker, its reader, and the time of the next packet.
pub(crate) struct Run {
    pub(crate) tracker: Tracker,
    reader: Reader,
    pub(crate) now_ns: u64,
}

/// A segment of TCP with a window of 65,535 bytes.
fn tcp(ports: [u16; 2], flags: u8, sequence: u32, acknowledgment: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(acknowledgment.to_be_bytes());
    bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}

fn datagram(from_client: bool, flags: u8, sequence: u32, acknowledgment: u32, payload: &[u8]) -> Vec<u8> {
    let [from, to] = if from_client { [CLIENT, SERVER] } else { [SERVER, CLIENT] };
    build::ipv4(from.0, to.0, 6, &[], &tcp([from.1, to.1], flags, sequence, acknowledgment, payload))
}

impl Run {
    pub(crate) fn new(plan: TrackPlan) -> Self {
        Self { tracker: Tracker::new(plan, 1), reader: Reader::default(), now_ns: SECOND }
    }

    fn frame(&mut self, bytes: &[u8], wire_bytes: usize) {
        let packet = TrackPacket { bytes, wire_bytes: wire_bytes as u32, linktype: 1, time_ns: self.now_ns };
        self.tracker.packet(&packet, &mut self.reader);
        self.now_ns += 1000;
    }

    fn ip(&mut self, datagram: &[u8]) {
        let frame = build::ethernet(&[], 0x0800, datagram);
        self.frame(&frame, frame.len());
    }

    pub(crate) fn client(&mut self, flags: u8, sequence: u32, acknowledgment: u32, payload: &str) {
        self.ip(&datagram(true, flags, sequence, acknowledgment, payload.as_bytes()));
    }

    pub(crate) fn server(&mut self, flags: u8, sequence: u32, acknowledgment: u32, payload: &str) {
        self.ip(&datagram(false, flags, sequence, acknowledgment, payload.as_bytes()));
    }

    /// A handshake from these numbers.
    pub(crate) fn open(&mut self, client: u32, server: u32) {
        self.client(SYN, client, 0, "");
        self.server(SYN | ACK, server, client + 1, "");
        self.client(ACK, client + 1, server + 1, "");
    }

    /// Both FINs, after a byte of the client.
    fn close(&mut self, client: u32, server: u32) {
        self.client(FIN | ACK, client, server, "z");
        self.server(FIN | ACK, server, client + 2, "");
        self.client(ACK, client + 2, server + 1, "");
    }

    /// Ends the run, checks the sums, and returns the connections.
    pub(crate) fn finish(mut self) -> Vec<Seen> {
        self.tracker.finish(&mut self.reader);
        assert!(self.tracker.tally().is_balanced(), "{:?}", self.tracker.tally());
        assert!(self.tracker.streams().is_balanced() && self.tracker.fragments().is_balanced());
        assert_eq!(self.tracker.streams().held_bytes, 0);
        let ended: u64 = self.tracker.tally().ended.iter().sum();
        assert_eq!(ended, self.tracker.tally().connections);
        assert!(self.reader.places.is_empty() && self.reader.all.iter().all(|seen| seen.closed.is_some()));
        self.reader.all
    }
}

fn reasons(all: &[Seen]) -> Vec<CloseReason> {
    all.iter().filter_map(|seen| Some(seen.closed?.reason)).collect()
}

#[test]
fn the_client_is_the_one_of_the_handshake_also_after_a_packet_of_the_server() {
    let mut run = Run::new(TrackPlan::default());
    run.server(ACK, 5000, 77, "");
    run.client(SYN, 100, 0, "");
    run.server(SYN | ACK, 300, 101, "");
    run.client(ACK, 101, 301, "GET");
    let all = run.finish();
    let seen = &all[0];
    assert_eq!((all.len(), seen.opened.map(|opened| opened.client)), (1, Some(Sender::B)));
    assert_eq!(
        (seen.client, seen.closed.and_then(|closed| closed.client)),
        (Some(Sender::A), Some(Sender::A))
    );
    assert_eq!(seen.text[0], "GET");
}

#[test]
fn the_end_by_a_reset_has_the_host_that_sent_it() {
    let reset_by = |is_client: bool| {
        let mut run = Run::new(TrackPlan::default());
        run.client(SYN, 100, 0, "");
        match is_client {
            true => run.client(RST, 101, 0, ""),
            false => run.server(RST | ACK, 0, 101, ""),
        }
        let all = run.finish();
        (all.len(), all[0].closed.and_then(|closed| closed.reset_by))
    };
    assert_eq!(reset_by(true), (1, Some(Sender::A)));
    assert_eq!(reset_by(false), (1, Some(Sender::B)));
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 300);
    assert_eq!(run.finish()[0].closed.and_then(|closed| closed.reset_by), None);
}

#[test]
fn both_sides_are_one_connection_with_a_client() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    run.client(ACK, 101, 901, "GET");
    run.server(ACK, 901, 104, "200");
    run.close(104, 904);
    let all = run.finish();
    let (opened, closed) = (all[0].opened.unwrap(), all[0].closed.unwrap());
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].text, ["GETz", "200"]);
    assert_eq!(opened.ends, [CLIENT, SERVER].map(|(ip, port)| SocketAddr::new(ip.into(), port)));
    assert_eq!((opened.number, opened.client, closed.client), (1, Sender::A, Some(Sender::A)));
    assert_eq!((closed.syns, closed.reason), ([true, true], CloseReason::Closed));
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    run.close(101, 901);
    run.open(5000, 7000);
    run.client(ACK, 5001, 7001, "two");
    // The first segment of the next one that was captured is the answer.
    run.client(RST | ACK, 5004, 7001, "");
    run.server(SYN | ACK, 20_000, 30_001, "");
    run.client(ACK, 30_001, 20_001, "three");
    let all = run.finish();
    assert_eq!(all.iter().map(|seen| seen.text[0].as_str()).collect::<Vec<_>>(), ["z", "two", "three"]);
    assert_eq!(reasons(&all)[..2], [CloseReason::Reused; 2]);
    let last = all[2].opened.unwrap();
    assert_eq!((last.client, all[2].closed.unwrap().syns), (Sender::A, [false, true]));
}

#[test]
fn the_client_of_another_connection_is_the_receiver_of_its_answer_whoever_continues() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    run.server(ACK, 901, 101, "one");
    run.server(SYN | ACK, 88_000_000, 77_000_001, "");
    run.server(ACK, 88_000_001, 77_000_001, "two");
    let all = run.finish();
    let clients: Vec<_> = all.iter().filter_map(|seen| seen.opened).map(|opened| opened.client).collect();
    assert_eq!(clients, [Sender::A; 2]);
}

/// The end of the first one is not in the capture: a SYN alone proves nothing, its answer does.
#[test]
fn an_answered_syn_begins_another_connection_and_a_forged_one_does_not() {
    for is_answered in [false, true] {
        let mut run = Run::new(TrackPlan::default());
        run.open(100, 900);
        run.client(ACK, 101, 901, "one");
        run.client(SYN, 77_000_000, 0, "");
        if is_answered {
            run.server(SYN | ACK, 88_000_000, 77_000_001, "");
            run.client(ACK, 77_000_001, 88_000_001, "two");
        } else {
            run.server(ACK, 901, 104, "");
            run.client(ACK, 104, 901, "two");
        }
        let all = run.finish();
        let texts: Vec<_> = all.iter().map(|seen| seen.text[0].as_str()).collect();
        if is_answered {
            assert_eq!(texts, ["one", "two"]);
            let (opened, closed) = (all[1].opened.unwrap(), all[1].closed.unwrap());
            assert_eq!(
                (opened.client, closed.client, closed.syns),
                (Sender::A, Some(Sender::A), [true, true])
            );
            assert!(opened.first_ns < closed.last_ns, "the time of the SYN");
        } else {
            assert_eq!(texts, ["onetwo"]);
        }
    }
}

/// The end of the first one and the SYN of the next one are not in the capture.
#[test]
fn an_answer_begins_another_connection_when_it_is_acknowledged() {
    for is_acknowledged in [false, true] {
        let mut run = Run::new(TrackPlan::default());
        run.open(100, 900);
        run.server(ACK, 901, 101, "one");
        run.server(SYN | ACK, 88_000_000, 77_000_001, "");
        let [sequence, next] = if is_acknowledged { [77_000_001, 88_000_001] } else { [101, 904] };
        run.client(ACK, sequence, next, "");
        run.server(ACK, next, sequence, "two");
        let texts: Vec<_> = run.finish().iter().map(|seen| seen.text[1].clone()).collect();
        assert_eq!(texts, if is_acknowledged { vec!["one", "two"] } else { vec!["onetwo"] });
    }
}

#[test]
fn one_direction_after_the_other_is_one_connection() {
    let mut run = Run::new(TrackPlan::default());
    run.client(SYN, 100, 0, "");
    run.client(ACK, 101, 901, "GET");
    run.client(FIN | ACK, 104, 904, "");
    run.server(SYN | ACK, 900, 101, "");
    run.server(ACK, 901, 104, "200");
    run.server(FIN | ACK, 904, 105, "");
    let all = run.finish();
    assert_eq!((all.len(), &all[0].text), (1, &["GET".to_owned(), "200".to_owned()]));
}

/// Both attempts have the same sequence number, as in a real capture.
#[test]
fn a_refused_attempt_and_the_next_one_are_two_connections() {
    let mut run = Run::new(TrackPlan::default());
    run.client(SYN, 100, 0, "");
    run.server(RST | ACK, 0, 101, "");
    run.open(100, 900);
    run.client(ACK, 101, 901, "GET");
    let texts: Vec<_> = run.finish().iter().map(|seen| seen.text[0].clone()).collect();
    assert_eq!(texts, ["", "GET"]);
}

#[test]
fn a_keep_alive_before_the_first_data_is_no_gap() {
    let mut run = Run::new(TrackPlan::default());
    run.client(ACK, 99, 901, "");
    run.client(ACK, 100, 901, "data");
    run.client(ACK, 105, 901, "more");
    run.server(ACK, 901, 109, "");
    let all = run.finish();
    assert_eq!((all[0].text[0].as_str(), all[0].causes.len()), ("data?more", 1));
}

#[test]
fn idle_and_closed_connections_end_after_their_times() {
    let plan = TrackPlan { idle_ns: 100 * SECOND, closed_ns: 10 * SECOND, ..TrackPlan::default() };
    let mut run = Run::new(plan);
    let other = |run: &mut Run| run.ip(&build::ipv4(CLIENT.0, SERVER.0, 17, &[], &build::udp(1, 2, b"")));
    run.open(100, 900);
    run.close(101, 901);
    run.now_ns += 9 * SECOND;
    run.client(FIN | ACK, 101, 901, "z");
    other(&mut run);
    assert_eq!(run.reader.places.len(), 1, "a late packet is its own");
    run.now_ns += 12 * SECOND;
    other(&mut run);
    assert_eq!(run.reader.places.len(), 0);
    run.client(ACK, 5, 6, "a");
    run.now_ns += 99 * SECOND;
    other(&mut run);
    assert_eq!(run.reader.places.len(), 1);
    run.now_ns += 3 * SECOND;
    other(&mut run);
    assert_eq!(reasons(&run.finish()), [CloseReason::Closed, CloseReason::Idle]);
}

#[test]
fn a_full_table_ends_the_closed_one_first_and_then_the_idlest() {
    let mut run = Run::new(TrackPlan { connections_max: 3, ..TrackPlan::default() });
    let from = |run: &mut Run, port: u16, flags: u8| {
        let sequence = if flags & RST == 0 { 1 } else { 2 };
        run.ip(&build::ipv4(CLIENT.0, SERVER.0, 6, &[], &tcp([port, 80], flags, sequence, 1, b"x")));
        run.now_ns += 2 * SECOND;
    };
    (1..4).for_each(|port| from(&mut run, port, ACK));
    from(&mut run, 1, ACK);
    from(&mut run, 3, RST | ACK);
    from(&mut run, 4, ACK);
    from(&mut run, 5, ACK);
    assert_eq!(run.tracker.tally().connections_high, 3);
    let ends: Vec<(u16, CloseReason)> = run
        .finish()
        .iter()
        .map(|seen| (seen.opened.unwrap().ends[0].port(), seen.closed.unwrap().reason))
        .collect();
    use CloseReason::{Closed, Evicted, InputEnded};
    assert_eq!(ends, [(1, InputEnded), (2, Evicted), (3, Closed), (4, InputEnded), (5, InputEnded)]);
}

/// A capture of two queues or interfaces: the acknowledgment and later data precede what they are of.
#[test]
fn bytes_that_come_after_their_acknowledgment_fill_their_hole() {
    for (wait_ns, text, causes) in [
        (SECOND / 2, "earlylatermore", &[][..]),
        (2 * SECOND, "?????latermore", &[GapCause::Acknowledged][..]),
    ] {
        let mut run = Run::new(TrackPlan::default());
        run.open(100, 900);
        run.client(ACK, 106, 901, "later");
        run.server(ACK, 901, 111, "");
        run.now_ns += wait_ns;
        run.client(ACK, 111, 901, "more");
        run.client(ACK, 101, 901, "early");
        let all = run.finish();
        assert_eq!((all[0].text[0].as_str(), &all[0].causes[..]), (text, causes));
    }
}

#[test]
fn a_hole_at_the_end_is_acknowledged_or_was_ended() {
    for (is_acknowledged, cause) in [(true, GapCause::Acknowledged), (false, GapCause::Ended)] {
        let mut run = Run::new(TrackPlan::default());
        run.open(100, 900);
        run.client(ACK, 106, 901, "later");
        run.server(ACK, 901, if is_acknowledged { 111 } else { 101 }, "");
        assert_eq!(run.finish()[0].causes, [cause]);
    }
}

#[test]
fn a_hole_is_skipped_when_it_has_waited_whatever_comes() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    run.client(ACK, 106, 901, "late");
    run.now_ns += 119 * SECOND;
    let other = build::ipv4(CLIENT.0, SERVER.0, 6, &[], &tcp([1, 2], ACK, 1, 1, b""));
    run.ip(&other);
    assert_eq!(run.reader.all[0].text[0], "");
    run.now_ns += 2 * SECOND;
    run.ip(&other);
    assert_eq!(run.reader.all[0].text[0], "?????late");
    assert_eq!(run.reader.all[0].causes, [GapCause::Time]);
    run.finish();
}

/// The acknowledgment comes after the hole, and nothing more of the connection; another hole waits for longer.
#[test]
fn an_acknowledged_hole_does_not_wait_for_others() {
    let mut run = Run::new(TrackPlan::default());
    let other = |sequence| build::ipv4(CLIENT.0, SERVER.0, 6, &[], &tcp([1, 2], ACK, sequence, 1, b"x"));
    run.ip(&other(1));
    run.ip(&other(9));
    run.open(100, 900);
    run.client(ACK, 106, 901, "later");
    run.server(ACK, 901, 111, "");
    run.now_ns += SECOND / 2;
    run.ip(&other(10));
    assert_eq!(run.reader.all[1].text[0], "");
    run.now_ns += SECOND;
    run.ip(&other(11));
    assert_eq!(run.reader.all[1].text[0], "?????later");
    assert_eq!(run.reader.all[1].causes, [GapCause::Acknowledged]);
    assert_eq!(run.reader.all[0].text[0], "x", "its hole has not waited for long enough");
    run.finish();
}

/// Each time that a hole is acknowledged the connection is due earlier, and later again when that hole is skipped.
#[test]
fn holes_that_are_acknowledged_again_and_again_are_each_skipped_in_time() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    for at in 0..500u32 {
        let from = 102 + 2 * at;
        run.client(ACK, from, 901, "x");
        run.server(ACK, 901, from + 1, "");
        run.now_ns += SECOND + SECOND / 2;
        let other = build::ipv4(CLIENT.0, SERVER.0, 6, &[], &tcp([1, 2], ACK, 1, 1, b""));
        run.ip(&other);
        assert_eq!(run.reader.all[0].text[0].len() as u32, 2 * (at + 1));
    }
    assert_eq!(run.finish()[0].text[0], "?x".repeat(500));
}

#[test]
fn fragments_of_a_segment_are_put_together() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    let text = "0123456789".repeat(10);
    let mut pieces = build::ipv4_fragments(&datagram(true, ACK, 101, 901, text.as_bytes()), 40);
    pieces.swap(0, 2);
    pieces.iter().for_each(|piece| run.ip(piece));
    assert_eq!(run.reader.all[0].text[0], text);
    // A fragment is missing.
    let pieces = build::ipv4_fragments(&datagram(true, ACK, 201, 901, text.as_bytes()), 40);
    run.ip(&pieces[0]);
    run.tracker.finish(&mut run.reader);
    let fragments = run.tracker.fragments();
    assert_eq!((fragments.wholes, fragments.expired, run.tracker.tally().segments_whole), (1, 1, 1));
    // IPv6, whose later fragments name the protocol too.
    let [a, b] = [1, 2].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
    let packet = build::ipv6(a, b, 6, &tcp([1, 2], ACK, 1, 1, text.as_bytes()));
    let mut run = Run::new(TrackPlan::default());
    for piece in build::ipv6_fragments(&packet, 7, 40) {
        let frame = build::ethernet(&[], 0x86dd, &piece);
        run.frame(&frame, frame.len());
    }
    assert_eq!(run.finish()[0].text[0], text);
}

#[test]
fn padding_is_no_payload_and_what_the_snaplen_cut_is_a_gap() {
    let mut run = Run::new(TrackPlan::default());
    run.open(100, 900);
    let frame = build::ethernet(&[], 0x0800, &datagram(true, ACK, 101, 901, b"abc"));
    run.frame(&[&frame[..], b"????????"].concat(), frame.len() + 8);
    let frame = build::ethernet(&[], 0x0800, &datagram(true, ACK, 104, 901, b"defgh"));
    run.frame(&frame[..frame.len() - 3], frame.len());
    // Cut in the header: counted, and no segment.
    run.frame(&frame[..50], frame.len());
    // The length of IP is more than was on the wire: no receiver takes it.
    run.frame(&frame[..frame.len() - 3], frame.len() - 3);
    assert_eq!((run.tracker.tally().truncated, run.tracker.tally().damaged), (1, 1));
    let all = run.finish();
    assert_eq!((all[0].text[0].as_str(), &all[0].causes[..]), ("abcde???", &[GapCause::Snapped][..]));
}

#[test]
fn packets_of_other_connections_are_left_out() {
    let only: Ends = [(SERVER.0, SERVER.1).into(), (CLIENT.0, CLIENT.1).into()];
    let mut run = Run::new(TrackPlan { only: Some(only), ..TrackPlan::default() });
    assert_ne!(sorted(only), only);
    run.open(100, 900);
    run.ip(&build::ipv4(CLIENT.0, SERVER.0, 6, &[], &tcp([4712, 80], ACK, 1, 1, b"x")));
    run.ip(&build::ipv4(CLIENT.0, SERVER.0, 17, &[], &build::udp(4711, 80, b"x")));
    run.frame(&build::ethernet(&[], 0x0806, &[0; 28]), 42);
    let tally = *run.tracker.tally();
    assert_eq!((tally.segments, tally.unselected, tally.not_tcp, tally.not_ip), (3, 1, 1, 1));
    assert_eq!(run.finish().len(), 1);
}
