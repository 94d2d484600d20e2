//! The evidence of capture loss: traffic with losses of the network, packets removed from its capture, and cases with
//! a name.

use crate::observed::{ACK, FIN, RST, SYN};
use crate::observer::{A, A0, B, B0, MS, Observer, Packet, RAW, Random, connected, lost, traffic};
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{
    Conversation, Event, GapCause, LossMeter, Segment, Sender, StreamLane, StreamPlan, StreamSink,
};

#[test]
fn losses_of_the_network_are_no_losses_of_the_capture() {
    let (mut random, mut observer) = (Random(99), Observer::new());
    for flow in 0..50 {
        traffic(&mut random, 500, 50_000).iter().for_each(|packet| observer.give(flow, packet));
    }
    let report = observer.finish();
    assert_eq!((lost(&report), report.undecided_bytes, report.zeek_gaps), ([0; 3], 0, 0));
    assert_eq!((report.flows, report.flows_with_evidence, report.tcptrace_missed_bytes), (50, 50, 0));
    assert!(report.filled_bytes > 500_000 && report.retransmitted_bytes > 500_000, "{report:?}");
    assert_eq!((report.loss_ratio, report.loss_low), (Some(0.0), Some(0.0)));
    assert!(report.loss_high.unwrap() < 0.0005, "{report:?}");
}

/// Sums the bytes of gaps that the receiver had acknowledged.
#[derive(Default)]
struct Gaps(u64);

impl StreamSink for Gaps {
    fn event(&mut self, _: Sender, event: Event) {
        if let Event::Gap { lost_bytes, cause: GapCause::Acknowledged, .. } = event {
            self.0 += lost_bytes;
        }
    }
}

/// The reassembler is another implementation of the same rule: it declares the same bytes lost.
#[test]
fn the_lost_bytes_are_those_of_the_reassembler() {
    const PAYLOAD: [u8; 1000] = [7; 1000];
    for seed in 1..200 {
        let mut random = Random(seed * 7919);
        let packets = traffic(&mut random, 300, 20_000);
        let (mut observer, mut gaps) = (Observer::new(), Gaps::default());
        let mut lane = StreamLane::new(StreamPlan::default(), None);
        let mut conversation = Conversation::new(StreamPolicy::Linux, StreamPolicy::Linux);
        for packet in packets {
            if packet.bytes > 0 && random.happens(30_000) {
                continue;
            }
            observer.give(0, &packet);
            let Packet { from, sequence, acknowledgment, flags, bytes } = packet;
            let segment = Segment {
                sequence,
                acknowledgment,
                flags,
                window: u16::MAX,
                window_scale: (flags & SYN != 0).then_some(7),
                payload: &PAYLOAD[..bytes as usize],
                time_ns: observer.now_ns,
                ..Segment::default()
            };
            let _ = conversation.segment(from, &segment, &mut lane, &mut gaps);
        }
        conversation.finish(&mut lane, &mut gaps);
        let report = observer.finish();
        assert_eq!(report.acked_unseen_bytes, gaps.0, "seed {seed}: {report:?}");
        assert_eq!(report.tcptrace_missed_bytes, gaps.0, "seed {seed}");
        assert_eq!(report.acked_unseen_packets_estimate * 1000, gaps.0, "seed {seed}");
    }
}

#[test]
fn a_hole_that_is_acknowledged_was_lost_by_the_capture() {
    let mut observer = connected();
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(A, A0 + 3000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 4000), 0, 0);
    let report = observer.finish();
    assert_eq!(lost(&report), [2000, 1, 2]);
    assert_eq!((report.zeek_acks, report.zeek_gaps), (1, 1));
    assert_eq!((report.segments, report.flows_with_evidence), (2, 1));
    assert_eq!(report.loss_ratio, Some(0.5));
    let at = |packet: u64| Some(1_700_000_000_000 * MS + packet * MS / 10);
    assert_eq!((report.first_loss_ns, report.last_loss_ns), (at(3), at(4)));
    let interval = &report.intervals[0];
    assert_eq!((interval.segments, interval.lost_packets, interval.loss_ratio), (2, 2, Some(0.5)));
}

#[test]
fn a_hole_that_is_not_acknowledged_is_undecided_and_one_that_is_filled_is_none() {
    let mut observer = connected();
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0), 0, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.undecided_bytes, report.segments), ([0; 3], 1000, 0));
    let mut observer = connected();
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0), 0, 0);
    // The retransmission has other boundaries.
    observer.send(A, A0, Some(B0), 0, 300);
    observer.send(A, A0 + 300, Some(B0), 0, 1700);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.undecided_bytes), ([0; 3], 0));
    assert_eq!((report.filled_bytes, report.retransmitted_bytes), (1000, 1000));
}

#[test]
fn numbers_wrap() {
    let mut observer = Observer::new();
    let first = u32::MAX - 1500;
    observer.connect(first, 0);
    for at in [0u32, 1, 3, 4] {
        observer.send(A, first.wrapping_add(at * 1000), Some(0), 0, 1000);
    }
    observer.send(B, 0, Some(first.wrapping_add(5000)), 0, 0);
    assert_eq!(lost(&observer.finish()), [1000, 1, 1]);
}

#[test]
fn an_acknowledgment_may_come_before_its_data() {
    let mut observer = connected();
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 4000), 0, 0);
    // Out of order too.
    observer.send(A, A0 + 3000, Some(B0), 0, 1000);
    observer.send(A, A0 + 2000, Some(B0), 0, 1000);
    let report = observer.finish();
    assert_eq!((lost(&report), report.filled_bytes, report.segments), ([0; 3], 1000, 4));
}

#[test]
fn a_hole_is_declared_after_its_wait() {
    let mut observer = connected();
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    observer.wait(101 * MS);
    observer.send(A, A0 + 2000, Some(B0), 0, 1000);
    // Now it is a retransmission.
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 3000), 0, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.retransmitted_bytes), ([1000, 1, 1], 1000));
}

#[test]
fn a_missing_end_is_lost_if_both_ends_name_it() {
    let ended = |missing: u32, has_fin: bool, is_named: bool| {
        let mut observer = connected();
        observer.send(A, A0, Some(B0), 0, 1000);
        if has_fin {
            observer.send(A, A0 + 1000 + missing, Some(B0), FIN, 0);
        }
        let fin = u32::from(has_fin);
        observer.send(B, B0, Some(A0 + 1000 + missing + fin), FIN, 0);
        if is_named {
            observer.send(A, A0 + 1000 + missing + fin, Some(B0 + 1), 0, 0);
        }
        let report = observer.finish();
        (lost(&report), report.fins_unseen, report.tcptrace_missed_bytes)
    };
    assert_eq!(ended(1, false, true), ([0; 3], 1, 0));
    assert_eq!(ended(1, false, false), ([0; 3], 0, 0));
    assert_eq!(ended(0, true, true), ([0; 3], 0, 0));
    assert_eq!(ended(700, false, true), ([700, 1, 1], 0, 0));
    assert_eq!(ended(700, false, false), ([0; 3], 0, 0));
    assert_eq!(ended(700, true, false), ([700, 1, 1], 0, 700));
}

#[test]
fn a_fin_may_have_payload_and_a_syn_too() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 100);
    observer.send(B, B0 - 1, Some(A0 + 100), SYN, 0);
    observer.send(A, A0 + 100, Some(B0), FIN, 500);
    observer.send(B, B0, Some(A0 + 601), 0, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.segments, report.tcptrace_missed_bytes), ([0; 3], 2, 0));
    // A server that does not take the data of a SYN has them sent again.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 100);
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    observer.send(A, A0, Some(B0), 0, 100);
    observer.send(B, B0, Some(A0 + 100), 0, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.retransmitted_bytes), ([0; 3], 100));
}

#[test]
fn probes_and_resets_prove_nothing() {
    let mut observer = connected();
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 1000), 0, 0);
    // A keep-alive, and a probe of a window of zero that the receiver does not take.
    observer.send(A, A0 + 999, Some(B0), 0, 1);
    observer.send(A, A0 + 1000, Some(B0), 0, 1);
    observer.send(B, B0, Some(A0 + 1000), 0, 0);
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    // Numbers of a reset are those of what it answers.
    observer.send(B, B0 + 40_000, Some(A0 + 90_000), RST, 0);
    let report = observer.finish();
    assert_eq!((lost(&report), report.undecided_bytes, report.retransmitted_bytes), ([0; 3], 0, 1));
}

#[test]
fn one_sided_traffic_is_set_aside() {
    let packets = traffic(&mut Random(5), 100, 0);
    let mut observer = Observer::new();
    for packet in packets.iter().filter(|packet| packet.from == A).step_by(3) {
        observer.give(0, packet);
    }
    let report = observer.finish();
    assert_eq!((report.one_sided, report.flows_with_evidence, report.loss_ratio), (1, 0, None));
    assert_eq!(report.acked_unseen_bytes, 0);
    // A tap of one direction has its acknowledgments, of data that it does not see; with SYN, or its answer.
    for from in [A, B] {
        let mut observer = Observer::new();
        packets.iter().filter(|packet| packet.from == from).for_each(|packet| observer.give(0, packet));
        for number in 1..5 {
            let base = packets[2 - from as usize].sequence.wrapping_add(1 - from as u32);
            observer.send(from, base, Some(5_000 + number * 1000), 0, 0);
        }
        let report = observer.finish();
        assert_eq!((report.acked_unseen_bytes, report.flows_with_evidence), (0, 0), "{from:?}: {report:?}");
    }
}

#[test]
fn a_keep_alive_before_anything_else_is_no_lost_byte() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, Some(B0), 0, 0);
    observer.send(B, B0, Some(A0 - 1), 0, 0);
    observer.wait(2000 * MS);
    observer.send(B, B0, Some(A0), 0, 0);
    observer.send(A, A0, Some(B0), 0, 500);
    observer.send(B, B0, Some(A0 + 500), 0, 0);
    assert_eq!(lost(&observer.finish()), [0; 3]);
}

#[test]
fn an_answer_names_the_number_of_a_syn_that_was_lost() {
    let mut observer = Observer::new();
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    assert_eq!(lost(&observer.finish()), [1000, 1, 1]);
    // The client's next segment names that of the server.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(A, A0, Some(B0), 0, 500);
    observer.send(B, B0 + 1000, Some(A0 + 500), 0, 1000);
    observer.send(A, A0 + 500, Some(B0 + 2000), 0, 0);
    assert_eq!(lost(&observer.finish()), [1000, 1, 1]);
}

#[test]
fn ports_that_are_used_again_are_another_connection() {
    let mut observer = connected();
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    observer.send(A, A0 + 2000, Some(B0), 0, 0);
    observer.connect(A0 + 50_000_000, B0 + 3_000_000_000);
    observer.send(A, A0 + 50_000_000, Some(B0 + 3_000_000_000), 0, 1000);
    observer.send(B, B0 + 3_000_000_000, Some(A0 + 50_001_000), 0, 0);
    let report = observer.finish();
    assert_eq!((report.flows, report.flows_with_evidence, lost(&report)), (2, 2, [1000, 1, 1]));
}

#[test]
fn a_leap_of_numbers_is_no_loss() {
    let mut observer = connected();
    let far = A0 + 0x6000_0000;
    observer.send(A, A0, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 1000), 0, 0);
    // One forged segment, one forged acknowledgment.
    observer.send(A, far, Some(B0), 0, 1000);
    observer.send(B, B0, Some(far), 0, 0);
    observer.send(A, A0 + 1000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(A0 + 2000), 0, 0);
    // Two that follow each other: what begins there is not known to be whole.
    observer.send(A, far, Some(B0), 0, 1000);
    observer.send(A, far + 1000, Some(B0), 0, 1000);
    observer.send(A, far + 3000, Some(B0), 0, 1000);
    observer.send(B, B0, Some(far + 4000), 0, 0);
    let report = observer.finish();
    assert_eq!((report.jumps, report.acks_ignored, lost(&report)), (1, 1, [0; 3]));
}

#[test]
fn two_copies_of_each_packet_are_one_capture() {
    let mut observer = Observer::new();
    for (number, packet) in traffic(&mut Random(5), 400, 0).iter().enumerate() {
        // One copy of one packet is missing, and both of another.
        (0..2).filter(|copy| number != 50 && number + copy != 90).for_each(|_| observer.give(0, packet));
    }
    let report = observer.finish();
    assert_eq!((lost(&report), report.segments), ([1000, 1, 1], 399));
}

#[test]
fn fragments_and_cut_headers_set_their_connection_aside() {
    for is_fragment in [true, false] {
        let mut observer = connected();
        observer.send(A, A0, Some(B0), 0, 1000);
        let packet = Packet { from: A, sequence: A0 + 1000, acknowledgment: B0, flags: ACK, bytes: 1000 };
        let mut frame = packet.frame(0).to_vec();
        match is_fragment {
            true => frame[6] = 0x20,
            false => frame.truncate(30),
        }
        observer.meter.packet(&frame, 1040, RAW, observer.now_ns);
        observer.send(B, B0, Some(A0 + 9000), 0, 0);
        let report = observer.finish();
        assert_eq!((report.set_aside, report.flows_with_evidence, lost(&report)), (1, 0, [0; 3]));
    }
}

#[test]
fn a_segment_is_the_size_of_its_run() {
    // Segments of 100 and of 1,400 bytes: one of either kind is one packet.
    let sent = |lost_at: &[u32]| {
        let mut observer = connected();
        let mut number = A0;
        for at in 0..100 {
            let bytes = if at % 2 == 0 { 1400 } else { 100 };
            if !lost_at.contains(&at) {
                observer.send(A, number, Some(B0), 0, bytes);
            }
            number += bytes;
        }
        observer.send(B, B0, Some(number), 0, 0);
        observer.finish().acked_unseen_packets_estimate
    };
    assert_eq!((sent(&[30]), sent(&[31]), sent(&[30, 31, 50])), (1, 1, 3));
    assert_eq!(sent(&(30..50).collect::<Vec<_>>()), 20);
}

/// Holes that are never filled, connections that are never used, numbers that leap: memory and time stay within limits.
#[test]
fn floods_stay_within_the_limits() {
    let mut random = Random(3);
    let mut meter = LossMeter::new(7);
    for number in 0..600_000u32 {
        let mut frame = Packet {
            from: A,
            sequence: random.below(1 << 32) as u32,
            acknowledgment: random.below(1 << 32) as u32,
            flags: [SYN, ACK, ACK, FIN | ACK][random.below(4) as usize],
            bytes: random.below(1400) as u32,
        };
        let mut bytes = frame.frame(0);
        // Half of them are of one connection, whose holes are many; the rest are all different.
        if number % 2 == 0 {
            frame.sequence = number.wrapping_mul(3000);
            (frame.flags, frame.acknowledgment) = (ACK, 0);
            bytes = frame.frame(1);
        } else {
            bytes[12..16].copy_from_slice(&(0x0b00_0000 + number).to_be_bytes());
        }
        meter.packet(&bytes, 40 + frame.bytes, RAW, u64::from(number) * MS / 10);
    }
    let report = meter.finish();
    assert!(report.flows > 300_000 && report.evicted > 30_000, "{report:?}");
    assert!(report.undecided_bytes > 0);
}
