//! Any packets of a few connections and UDP conversations, whole or in fragments, in tables with few places: no panic,
//! each packet, connection and byte has a fate, and places and streams are used as they should.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::tracker::{
    CloseReason, Closed, ConnectionSink, Opened, TrackPacket, TrackPlan, Tracker, UdpPayload,
};
use quaff_stream::{Event, Sender};
use quaff_testpackets as build;
use std::collections::{BTreeMap, BTreeSet};

const PLACES: u32 = 3;

/// The next offset of both streams of each connection that lasts, and the conversations of UDP that last.
#[derive(Default)]
struct Reader(BTreeMap<u32, [u64; 2]>, BTreeSet<u32>);

impl ConnectionSink for Reader {
    fn begin(&mut self, place: u32, opened: &Opened) {
        assert!(place < PLACES && opened.number > 0 && self.0.insert(place, [0; 2]).is_none());
    }

    fn event(&mut self, place: u32, sender: Sender, _: u64, event: Event) {
        let next = &mut self.0.get_mut(&place).expect("a connection")[sender.index()];
        let (offset, bytes) = match event {
            Event::Data { offset, bytes } => (offset, bytes.len() as u64),
            Event::Gap { offset, lost_bytes, .. } => (offset, lost_bytes),
            Event::Urgent { offset, .. } => (offset, 1),
            Event::End { offset, .. } => (offset, 0),
            Event::Difference(_) => return,
        };
        assert_eq!(offset, *next);
        *next += bytes;
    }

    fn end(&mut self, place: u32, _: &Closed) {
        assert!(self.0.remove(&place).is_some());
    }

    fn begin_udp(&mut self, place: u32, opened: &Opened) {
        assert!(place < PLACES && opened.number > 0 && self.1.insert(place));
    }

    fn datagram(&mut self, place: u32, _: Sender, _: u64, payload: UdpPayload) {
        assert!(self.1.contains(&place) && payload.bytes.len() <= payload.wire_bytes as usize);
    }

    fn end_udp(&mut self, place: u32, _: u64, _: CloseReason) {
        assert!(self.1.remove(&place));
    }
}

/// Ports and direction, flags, sequence number, acknowledgment, payload bytes, time in s, and the way it is sent.
type Step = (u8, u8, u16, u16, u8, u8, u8);

fn datagram((who, flags, sequence, acknowledgment, bytes, ..): Step) -> Vec<u8> {
    let ports = [1000 + u16::from(who % 5), 80];
    let ports = if who & 128 == 0 { ports } else { [ports[1], ports[0]] };
    let [a, b] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let [from, to] = if who & 128 == 0 { [a, b] } else { [b, a] };
    if flags & 128 != 0 {
        // The length in the header may be another one than that of IP.
        let mut udp = build::udp(ports[0], ports[1], &vec![who; usize::from(bytes)]);
        udp[5] ^= acknowledgment as u8 & 0x0f;
        return build::ipv4(from, to, 17, &[], &udp);
    }
    let mut tcp = ports.map(u16::to_be_bytes).concat();
    tcp.extend([sequence, acknowledgment].map(|number| (u32::from(number) << 4).to_be_bytes()).concat());
    tcp.extend([0x50, flags, 0x10, 0, 0, 0, 0, bytes]);
    tcp.extend(vec![who; usize::from(bytes)]);
    build::ipv4(from, to, 6, &[], &tcp)
}

fuzz_target!(|input: (Vec<Step>, Vec<u8>)| {
    let (steps, noise) = input;
    let second = 1_000_000_000;
    let plan = TrackPlan {
        connections_max: PLACES,
        idle_ns: 100 * second,
        closed_ns: 10 * second,
        udp: true,
        ..TrackPlan::default()
    };
    let (mut tracker, mut reader, mut time_ns) = (Tracker::new(plan, 1), Reader::default(), second);
    for step in steps {
        let (.., seconds, way) = step;
        time_ns += u64::from(seconds) * second;
        let mut pieces = vec![datagram(step)];
        if way & 1 != 0 {
            pieces = build::ipv4_fragments(&pieces[0], 8 + usize::from(way & 0x18));
        }
        for (number, piece) in pieces.iter().enumerate() {
            // One of several is missing, another one cut.
            if way & 2 != 0 && number == usize::from(way >> 5) {
                continue;
            }
            let mut frame = build::ethernet(&[], 0x0800, piece);
            let wire_bytes = frame.len() as u32;
            if way & 4 != 0 {
                frame.truncate(frame.len().saturating_sub(usize::from(way >> 3)));
            }
            let packet = TrackPacket { bytes: &frame, wire_bytes, linktype: 1, time_ns };
            tracker.packet(&packet, &mut reader);
        }
        assert!(tracker.tally().is_balanced() && tracker.streams().is_balanced());
    }
    for linktype in [1, 101, 113] {
        let packet = TrackPacket { bytes: &noise, wire_bytes: noise.len() as u32, linktype, time_ns };
        tracker.packet(&packet, &mut reader);
    }
    tracker.finish(&mut reader);
    let ended: u64 = tracker.tally().ended.iter().sum();
    assert!(tracker.tally().is_balanced() && ended == tracker.tally().connections && reader.0.is_empty());
    let of_udp: u64 = tracker.tally().udp_ended.iter().sum();
    assert!(reader.1.is_empty() && of_udp == tracker.tally().udp);
    assert!(tracker.streams().is_balanced() && tracker.streams().held_bytes == 0);
    assert!(tracker.fragments().is_balanced() && tracker.fragments().held_bytes == 0);
});
