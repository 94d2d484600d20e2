//! Cases with a name: handshakes, probes, resets, windows, urgent data, snapped packets, long streams.

use crate::observed::{ACK, FIN, Observed, Op, RST, Recorder, SYN, Seen, URG, assert_in_order};
use quaff_stream::conversation::Outcome;
use quaff_stream::plan::{ResetRule, UrgentRule};
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Conversation, Segment, Sender, StreamLane, StreamPlan};

const A: Sender = Sender::A;
const B: Sender = Sender::B;
/// Sequence numbers of the first bytes of A and B, unless a case has others.
const A0: u32 = 1001;
const B0: u32 = 5001;

fn observed(plan: StreamPlan) -> Observed {
    Observed::new(StreamPolicy::First, plan, A0 - 1)
}

/// A connection after its handshake.
fn connected(plan: StreamPlan) -> Observed {
    let mut observed = observed(plan);
    observed.send(B, B0 - 1, Some(A0), SYN, b"");
    observed.send(A, A0, Some(B0), 0, b"");
    observed
}

fn text(observed: &Observed, sender: Sender) -> String {
    observed.recorder.text(sender)
}

#[test]
fn data_in_order_is_not_copied() {
    let mut observed = connected(StreamPlan::default());
    let payload = vec![b'x'; 1448];
    observed.send(A, A0, Some(B0), 0, &payload);
    assert_eq!(observed.recorder.places, [payload.as_ptr() as usize]);
    // A hole, and the segment that fills it.
    observed.send(A, A0 + 2 * 1448, Some(B0), 0, b"later");
    observed.send(A, A0 + 1448, Some(B0), 0, &payload);
    assert_eq!(observed.recorder.places[1], payload.as_ptr() as usize);
    assert_eq!((observed.recorder.places.len(), observed.lane.used_bytes()), (3, 0));
}

#[test]
fn state_is_small() {
    assert!(size_of::<Conversation>() <= 104, "{} bytes", size_of::<Conversation>());
}

#[test]
fn a_syn_that_comes_late_keeps_what_waits() {
    let mut observed = unseen();
    observed.send(B, B0 - 1, Some(A0), SYN, b"");
    observed.send(A, A0 + 4, Some(B0), 0, b"later");
    observed.send(A, A0 - 1, None, SYN, b"");
    observed.send(A, A0, Some(B0), 0, b"some");
    assert_eq!(text(&observed, A), "somelater");
}

#[test]
fn both_directions_end_with_their_fins() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0, Some(B0), FIN, b"GET /");
    assert_eq!(observed.conversation.client(), Some(A));
    observed.send(B, B0, Some(A0 + 6), 0, b"200 ");
    assert!(!observed.conversation.is_closed());
    observed.send(B, B0 + 4, Some(A0 + 6), FIN, b"OK");
    observed.send(A, A0 + 6, Some(B0 + 7), 0, b"");
    assert!(observed.conversation.is_closed());
    // After FIN: data that is new, and a retransmission.
    observed.send(A, A0 + 5, Some(B0), 0, b"more");
    observed.send(A, A0, Some(B0), FIN, b"GET /");
    assert_eq!((text(&observed, A), text(&observed, B)), ("GET /".to_owned(), "200 OK".to_owned()));
    let fin = "Fin".to_owned();
    assert_eq!(observed.recorder.ends(), [(A, 5, fin.clone()), (B, 6, fin)]);
    let tally = observed.lane.tally();
    assert_eq!((tally.after_end_bytes, tally.duplicate_bytes, tally.fins_unseen), (4, 5, 0));
    assert_eq!(tally.gaps, [0; 5]);
}

#[test]
fn a_fin_waits_for_the_bytes_before_it() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0 + 2, Some(B0), FIN, b"cd");
    observed.send(A, A0 + 4, Some(B0), 0, b"after");
    assert_eq!((text(&observed, A), observed.lane.tally().after_end_bytes), (String::new(), 5));
    observed.send(A, A0, Some(B0), 0, b"ab");
    assert_eq!(text(&observed, A), "abcd");
    assert_eq!(observed.recorder.ends(), [(A, 4, "Fin".to_owned())]);
}

#[test]
fn data_in_a_syn_waits_until_the_receiver_has_taken_it() {
    let syn_with = |payload: &[u8]| {
        let mut observed = Observed::new(StreamPolicy::First, StreamPlan::default(), A0 - 1);
        observed.send(A, A0 - 1, None, SYN, payload);
        assert_eq!((text(&observed, A), observed.lane.tally().held_bytes), (String::new(), 5));
        observed
    };
    let mut taken = syn_with(b"early");
    taken.send(B, B0 - 1, Some(A0 + 5), SYN, b"");
    assert_eq!(text(&taken, A), "early");
    let mut in_part = syn_with(b"early");
    in_part.send(B, B0 - 1, Some(A0 + 2), SYN, b"");
    in_part.send(A, A0 + 2, Some(B0), 0, b"RLY!");
    assert_eq!(text(&in_part, A), "eaRLY!");
    let mut refused = syn_with(b"early");
    refused.send(B, B0 - 1, Some(A0), SYN, b"");
    refused.send(A, A0, Some(B0), 0, b"other");
    assert_eq!((text(&refused, A), refused.lane.tally().overlapped_bytes), ("other".to_owned(), 5));
    let mut one_sided = syn_with(b"early");
    one_sided.send(A, A0 + 5, Some(B0), 0, b" bird");
    assert_eq!(text(&one_sided, A), "early bird");
    let mut timed = syn_with(b"early");
    timed.apply(&Op::Wait(20_000_000_000));
    assert_eq!(text(&timed, A), "early");
}

/// A segment of B that only acknowledges and advertises a window.
fn window(observed: &mut Observed, acknowledgment: u32, window: u16) {
    let segment = Segment { sequence: B0, acknowledgment, flags: ACK, window, ..Segment::default() };
    observed.give(B, &segment);
}

#[test]
fn a_byte_sent_into_a_closed_window_waits_until_it_is_taken() {
    let probed = || {
        let mut observed = connected(StreamPlan::default());
        observed.send(A, A0, Some(B0), 0, &[b'x'; 65_535]);
        window(&mut observed, A0 + 65_535, 0);
        observed.send(A, A0 + 65_535, Some(B0), 0, b"p");
        assert_eq!((observed.lane.tally().held_bytes, observed.lane.tally().window_probes), (1, 1));
        observed
    };
    let end = |observed: &Observed| text(observed, A).split_off(65_535);
    let mut refused = probed();
    window(&mut refused, A0 + 65_535, 5000);
    refused.send(A, A0 + 65_535, Some(B0), 0, b"other");
    assert_eq!(end(&refused), "other");
    let mut taken = probed();
    window(&mut taken, A0 + 65_536, 0);
    assert_eq!(end(&taken), "p");
    let mut sent_again = probed();
    sent_again.send(A, A0 + 65_535, Some(B0), 0, b"p");
    window(&mut sent_again, A0 + 65_535, 5000);
    sent_again.send(A, A0 + 65_535, Some(B0), 0, b"pq");
    assert_eq!((end(&sent_again), sent_again.lane.tally().overlapped_bytes), ("pq".to_owned(), 0));
}

#[test]
fn keep_alives_are_counted_and_change_nothing() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0, Some(B0), 0, b"ab");
    observed.send(A, A0 + 1, Some(B0), 0, b"");
    observed.send(A, A0 + 1, Some(B0), 0, b"\0");
    observed.send(A, A0 + 2, Some(B0), 0, b"c");
    assert_eq!(text(&observed, A), "abc");
    let tally = observed.lane.tally();
    assert_eq!((tally.keep_alives, tally.duplicate_bytes), (2, 1));
}

#[test]
fn only_a_reset_that_the_receiver_accepts_ends_both() {
    let reset_at = |sequence: u32, reset: ResetRule| {
        let mut observed = connected(StreamPlan { reset, ..StreamPlan::default() });
        observed.send(A, A0, Some(B0), 0, b"ab");
        observed.send(A, A0 + 4, Some(B0), 0, b"ef");
        observed.send(A, sequence, None, RST, b"why");
        assert_eq!(observed.lane.tally().after_end_bytes, 3);
        observed
    };
    for (sequence, reset, is_accepted) in [
        (A0 + 2, ResetRule::Exact, true),
        (A0 + 6, ResetRule::Exact, true), // after all that was sent
        (A0 + 3, ResetRule::Exact, false),
        (A0 + 3, ResetRule::InWindow, true),
        (A0, ResetRule::InWindow, false),
        (A0 + (1 << 28), ResetRule::InWindow, false),
    ] {
        let mut observed = reset_at(sequence, reset);
        assert_eq!(observed.conversation.is_closed(), is_accepted, "{} {reset:?}", sequence - A0);
        let ignored = observed.lane.tally().resets_ignored;
        observed.finish();
        let ends = observed.recorder.ends().into_iter().map(|(.., reason)| reason);
        let reason = if is_accepted { "Reset" } else { "Finished" };
        assert!(ends.eq([reason, reason]) && ignored == u64::from(!is_accepted));
        assert_eq!(text(&observed, A), "ab??ef");
    }
    let mut closed = reset_at(A0 + 2, ResetRule::Exact);
    closed.send(A, A0 + 6, Some(B0), 0, b"late");
    closed.finish();
    assert_eq!((closed.lane.tally().after_end_bytes, closed.lane.tally().gap_bytes), (7, [0, 0, 0, 0, 2]));
}

#[test]
fn a_reset_that_answers_a_syn_names_it() {
    for (acknowledgment, is_accepted) in [(A0, true), (A0 + 1, false), (A0 - 1, false)] {
        let mut observed = observed(StreamPlan::default());
        observed.send(B, 0, Some(acknowledgment), RST, b"");
        assert_eq!(observed.conversation.is_closed(), is_accepted, "{acknowledgment}");
    }
}

#[test]
fn both_may_open_at_once() {
    let mut observed = observed(StreamPlan::default());
    observed.send(B, B0 - 1, None, SYN, b"");
    observed.send(A, A0 - 1, Some(B0), SYN, b"");
    observed.send(B, B0 - 1, Some(A0), SYN, b"");
    observed.send(A, A0, Some(B0), 0, b"a");
    observed.send(B, B0, Some(A0 + 1), 0, b"b");
    assert_eq!((text(&observed, A), text(&observed, B)), ("a".to_owned(), "b".to_owned()));
    assert_eq!(observed.lane.tally().syns_ignored, 0);
}

#[test]
fn a_syn_in_an_established_connection_is_ignored_and_one_after_it_begins_another() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0, Some(B0), 0, b"a");
    observed.send(A, 77, None, SYN, b"zz");
    observed.send(A, A0 + 1, Some(B0), 0, b"b");
    assert_eq!(text(&observed, A), "ab");
    assert_eq!((observed.lane.tally().syns_ignored, observed.lane.tally().out_of_window_bytes), (1, 2));
    observed.send(A, A0 + 2, None, RST, b"");
    let syn = Segment { sequence: 99, flags: SYN, ..Segment::default() };
    let seen = observed.lane.tally().segments;
    let outcome = observed.conversation.segment(A, &syn, &mut observed.lane, &mut observed.recorder);
    assert_eq!((outcome, observed.lane.tally().segments), (Outcome::IsNewConnection, seen));
    // Of the old one it is a retransmission.
    observed.send(A, A0 - 1, None, SYN, b"");
}

#[test]
fn of_several_attempts_the_one_that_is_answered_counts() {
    let mut observed = observed(StreamPlan::default());
    observed.send(A, 9000, None, SYN, b"early");
    observed.send(B, B0 - 1, Some(A0), SYN, b"");
    observed.send(A, A0, Some(B0), 0, b"data");
    assert_eq!((text(&observed, A), observed.lane.tally().before_start_bytes), ("data".to_owned(), 5));
}

/// A connection of which the observer has seen nothing.
fn unseen() -> Observed {
    let conversation = Conversation::new(StreamPolicy::First, StreamPolicy::First);
    let lane = StreamLane::new(StreamPlan::default(), None);
    Observed { conversation, lane, recorder: Recorder::default(), isn: 0, time_ns: 1 }
}

#[test]
fn a_connection_may_begin_before_the_capture() {
    let mut observed = unseen();
    observed.send(A, A0, Some(B0), 0, b"");
    // Bytes that B sent before the capture began are not lost.
    observed.send(A, A0, Some(B0 + 500), 0, b"");
    observed.send(B, B0 + 700, Some(A0), 0, b"world");
    observed.send(A, A0, Some(B0 + 705), 0, b"hello");
    observed.send(B, B0 + 600, Some(A0), 0, b"old");
    assert_eq!((text(&observed, A), text(&observed, B)), ("hello".to_owned(), "world".to_owned()));
    let tally = observed.lane.tally();
    assert_eq!((tally.midstream_starts, tally.before_start_bytes, tally.gaps), (2, 3, [0; 5]));
    // A keep-alive as the first segment of a sender does not lose a byte.
    let mut idle = unseen();
    idle.send(A, A0 - 1, Some(B0), 0, b"");
    idle.send(B, B0, Some(A0), 0, b"");
    idle.send(A, A0, Some(B0), 0, b"x");
    assert_eq!((text(&idle, A), idle.lane.tally().gaps), ("x".to_owned(), [0; 5]));
}

#[test]
fn the_answer_to_a_syn_that_was_not_captured_begins_both() {
    let mut observed = unseen();
    observed.send(B, B0 - 1, Some(A0), SYN, b"");
    observed.send(A, A0 + 2, Some(B0), 0, b"llo");
    observed.send(A, A0, Some(B0), 0, b"he");
    assert_eq!((text(&observed, A), observed.conversation.client()), ("hello".to_owned(), Some(A)));
    assert_eq!(observed.lane.tally().midstream_starts, 0);
}

#[test]
fn acknowledged_bytes_that_never_came_are_a_gap_once_later_ones_did() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0, Some(B0), 0, b"ab");
    // The acknowledgment overtakes the data in the capture: nothing is lost.
    observed.send(B, B0, Some(A0 + 4), 0, b"");
    observed.send(A, A0 + 2, Some(B0), 0, b"cd");
    assert_eq!(observed.lane.tally().gaps, [0; 5]);
    observed.send(A, A0 + 7, Some(B0), 0, b"hi");
    assert_eq!(text(&observed, A), "abcd");
    observed.send(B, B0, Some(A0 + 6), 0, b"");
    assert_eq!(text(&observed, A), "abcd", "a part of the hole may still come");
    observed.send(B, B0, Some(A0 + 9), 0, b"");
    assert_eq!(text(&observed, A), "abcd???hi");
    observed.send(A, A0 + 4, Some(B0), 0, b"efg");
    assert_eq!((observed.lane.tally().late_bytes, observed.lane.tally().gap_bytes[0]), (3, 3));
}

#[test]
fn a_fin_that_was_not_captured_is_not_a_lost_byte() {
    let mut observed = connected(StreamPlan::default());
    observed.send(A, A0, Some(B0), 0, b"ab");
    observed.send(B, B0, Some(A0 + 3), FIN, b"");
    observed.finish();
    assert_eq!((observed.lane.tally().fins_unseen, observed.lane.tally().gaps), (1, [0; 5]));
    let mut longer = connected(StreamPlan::default());
    longer.send(B, B0, Some(A0 + 3), FIN, b"");
    longer.finish();
    assert_eq!(longer.lane.tally().gap_bytes, [3, 0, 0, 0, 0]);
}

#[test]
fn claims_of_one_side_beyond_the_window_are_ignored() {
    let plan = StreamPlan { window_slack_bytes: 1000, ..StreamPlan::default() };
    let far = 10_000_000;
    let mut observed = connected(plan);
    window(&mut observed, A0, 2000);
    observed.send(B, B0, Some(A0 + far), 0, b"");
    assert_eq!((observed.lane.tally().acks_ignored, text(&observed, A)), (1, String::new()));
    observed.send(A, A0, Some(B0), 0, b"ab");
    let mut injected = connected(plan);
    window(&mut injected, A0, 2000);
    injected.send(A, A0 + far, Some(B0), 0, b"forged");
    assert_eq!(injected.lane.tally().out_of_window_bytes, 6);
    injected.send(A, A0, Some(B0), 0, b"ab");
    assert_eq!((text(&observed, A), text(&injected, A)), ("ab".to_owned(), "ab".to_owned()));
    // Both sides are there: the capture lacks ten megabytes.
    injected.send(A, A0 + far, Some(B0), 0, b"lost");
    injected.send(B, B0, Some(A0 + far + 4), 0, b"");
    injected.send(A, A0 + far + 4, Some(B0), 0, b"on");
    assert_eq!(injected.lane.tally().gap_bytes[0], u64::from(far) + 2);
    observed.send(B, B0, Some(A0 + far), 0, b"");
    observed.send(A, A0 + far, Some(B0), 0, b"on");
    assert_eq!(observed.lane.tally().gap_bytes[0], u64::from(far) - 2);
}

#[test]
fn bytes_beyond_the_window_are_cut_off() {
    let plan = StreamPlan { window_slack_bytes: 0, ..StreamPlan::default() };
    let mut observed = observed(plan);
    // No scale in the SYN of A: windows of B are as they are.
    let answer = Segment {
        sequence: B0 - 1,
        acknowledgment: A0,
        flags: SYN | ACK,
        window: 4,
        window_scale: Some(7),
        ..Segment::default()
    };
    observed.give(B, &answer);
    observed.send(A, A0, Some(B0), 0, b"abcdefg");
    observed.send(A, A0 + 4, Some(B0), 0, b"no");
    assert_eq!((text(&observed, A), observed.lane.tally().out_of_window_bytes), ("abcd".to_owned(), 5));
    window(&mut observed, A0 + 4, 3);
    observed.send(A, A0 + 4, Some(B0), 0, b"efghi");
    assert_eq!(text(&observed, A), "abcdefg");
}

#[test]
fn windows_are_scaled_if_both_syns_have_the_option() {
    let plan = StreamPlan { window_slack_bytes: 0, ..StreamPlan::default() };
    let mut observed = unseen();
    observed.lane = StreamLane::new(plan, None);
    let syn = |sequence, acknowledgment, flags| Segment {
        sequence,
        acknowledgment,
        flags,
        window: 1,
        window_scale: Some(7),
        ..Segment::default()
    };
    observed.give(A, &syn(A0 - 1, 0, SYN));
    observed.give(B, &syn(B0 - 1, A0, SYN | ACK));
    window(&mut observed, A0, 2);
    observed.send(A, A0, Some(B0), 0, &[b'x'; 300]);
    assert_eq!(observed.lane.tally().out_of_window_bytes, 300 - 2 * 128);
}

#[test]
fn urgent_bytes_are_where_the_plan_wants_them() {
    let urgent = |observed: &mut Observed, offset: u32, urgent, payload: &[u8]| {
        let segment = Segment {
            sequence: A0 + offset,
            acknowledgment: B0,
            flags: ACK | URG,
            window: 1000,
            urgent,
            payload,
            ..Segment::default()
        };
        observed.give(A, &segment);
    };
    let mut inline = connected(StreamPlan::default());
    urgent(&mut inline, 0, 3, b"ab!cd");
    assert_eq!(text(&inline, A), "ab!cd");
    let plan = StreamPlan { urgent: UrgentRule::OutOfBand, ..StreamPlan::default() };
    let mut apart = connected(plan);
    urgent(&mut apart, 0, 3, b"abXcd");
    assert_eq!(text(&apart, A), "ab!Xcd");
    // Out of order; the pointer names a byte of a later segment.
    urgent(&mut apart, 7, 2, b"gYh");
    urgent(&mut apart, 5, 4, b"ef");
    apart.send(A, A0 + 10, Some(B0), 0, b"i");
    assert_eq!(text(&apart, A), "ab!Xcdefg!Yhi");
    let tally = apart.lane.tally();
    assert_eq!((tally.urgent_bytes, tally.delivered_bytes), (2, 11));
    assert_in_order(&[apart.recorder.of(A), vec![Seen::End(11, String::new())]].concat());
}

#[test]
fn bytes_that_the_snaplen_cut_are_gaps_of_their_own() {
    let snapped = |observed: &mut Observed, offset: u32, payload: &[u8], wire_bytes| {
        let segment = Segment {
            sequence: A0 + offset,
            acknowledgment: B0,
            flags: ACK,
            payload,
            wire_bytes,
            ..Segment::default()
        };
        observed.give(A, &segment);
    };
    let mut observed = connected(StreamPlan::default());
    snapped(&mut observed, 0, b"ab", 5);
    snapped(&mut observed, 5, b"fg", 7);
    assert_eq!(text(&observed, A), "ab???fg?????");
    // Out of order, and with a hole that was lost.
    snapped(&mut observed, 20, b"uv", 4);
    snapped(&mut observed, 14, b"op", 4);
    snapped(&mut observed, 12, b"mn", 2);
    assert_eq!(text(&observed, A), "ab???fg?????mnop??");
    observed.send(B, B0, Some(A0 + 24), 0, b"");
    assert_eq!(text(&observed, A), "ab???fg?????mnop????uv??");
    assert_eq!(observed.lane.tally().gap_bytes, [2, 0, 0, 12, 0]);
}

#[test]
fn offsets_do_not_wrap_with_the_sequence_numbers() {
    let mut observed = connected(StreamPlan { window_slack_bytes: 1 << 31, ..StreamPlan::default() });
    let step = 1_500_000_000u32;
    let mut sequence = A0;
    for _ in 0..6 {
        observed.send(A, sequence, Some(B0), 0, b"x");
        sequence = sequence.wrapping_add(step);
        observed.send(B, B0, Some(sequence.wrapping_add(1)), 0, b"");
    }
    observed.send(A, sequence, Some(B0), 0, b"end");
    observed.finish();
    let seen = observed.recorder.of(A);
    assert_in_order(&seen);
    assert_eq!(seen.last(), Some(&Seen::End(6 * u64::from(step) + 3, "Finished".to_owned())));
    assert_eq!(observed.lane.tally().gaps[0], 6);
}

#[test]
fn holes_are_skipped_when_their_time_is_over_and_not_before() {
    let mut observed = connected(StreamPlan { hole_wait_ns: 1000, ..StreamPlan::default() });
    assert_eq!(observed.conversation.due_ns(&observed.lane), u64::MAX);
    observed.send(A, A0 + 1, Some(B0), 0, b"b");
    observed.apply(&Op::Wait(600));
    observed.send(A, A0 + 4, Some(B0), 0, b"e");
    assert_eq!(observed.conversation.due_ns(&observed.lane), observed.time_ns + 400);
    observed.apply(&Op::Wait(399));
    assert_eq!(text(&observed, A), "");
    observed.apply(&Op::Wait(1));
    assert_eq!(text(&observed, A), "?b");
    observed.apply(&Op::Wait(600));
    assert_eq!(text(&observed, A), "?b??e");
}

#[test]
fn many_chunks_are_searched_and_not_walked() {
    // Each second byte, from the end to the front, then the others: 2 x 30,000 segments.
    let mut observed = connected(StreamPlan {
        direction: quaff_stream::plan::CapRule {
            limit_bytes: 1 << 30,
            action: quaff_stream::plan::CapAction::CutStream,
        },
        flow: quaff_stream::plan::CapRule {
            limit_bytes: 1 << 30,
            action: quaff_stream::plan::CapAction::CutStream,
        },
        ..StreamPlan::default()
    });
    let count = 30_000;
    for at in (1..count).rev() {
        observed.send(A, A0 + 2 * at + 1, Some(B0), 0, b"x");
    }
    for at in (1..count).rev() {
        observed.send(A, A0 + 2 * at, Some(B0), 0, b"y");
    }
    observed.send(A, A0, Some(B0), 0, b"yx");
    assert_eq!(observed.lane.tally().delivered_bytes, u64::from(2 * count));
    assert_eq!(observed.lane.used_bytes(), 0);
}
