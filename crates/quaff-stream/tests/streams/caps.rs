//! Each cap with each action: limits hold, bytes are right, and the identity holds after each segment.

use crate::observed::{Observed, Op, Recorder, Seen, assert_in_order};
use proptest::prelude::*;
use quaff_stream::plan::{CapAction, CapRule};
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Cap, Conversation, Segment, Sender, SharedMemory, StreamLane, StreamPlan};

const ACTIONS: [CapAction; 3] = [CapAction::SkipGap, CapAction::CutStream, CapAction::StopFlow];
const CAPS: [Cap; 4] = [Cap::Direction, Cap::Flow, Cap::Lane, Cap::Total];

/// A plan in which one cap is small and has this action.
fn plan(cap: Cap, limit_bytes: u64, action: CapAction) -> StreamPlan {
    let mut plan = StreamPlan { total_action: action, ..StreamPlan::default() };
    let rule = CapRule { limit_bytes, action };
    match cap {
        Cap::Direction => plan.direction = rule,
        Cap::Flow => plan.flow = rule,
        Cap::Lane => plan.lane = rule,
        Cap::Total => {}
    }
    plan
}

fn segment(offset: u32, payload: &[u8]) -> Segment<'_> {
    Segment {
        sequence: 1u32.wrapping_add(offset),
        payload,
        wire_bytes: payload.len() as u32,
        time_ns: 5,
        ..Segment::default()
    }
}

/// A begun connection, and its lane.
fn begin(plan: StreamPlan, shared_bytes: u64) -> (Conversation, StreamLane, Recorder) {
    let mut lane = StreamLane::new(plan, Some(SharedMemory::new(shared_bytes)));
    let mut conversation = Conversation::new(StreamPolicy::First, StreamPolicy::First);
    let mut recorder = Recorder::default();
    let syn = Segment { flags: 2, ..Segment::default() };
    assert!(matches!(
        conversation.segment(Sender::A, &syn, &mut lane, &mut recorder),
        quaff_stream::conversation::Outcome::Taken
    ));
    (conversation, lane, recorder)
}

#[test]
fn each_cap_does_its_action() {
    for cap in CAPS {
        for action in ACTIONS {
            let shared_bytes = if cap == Cap::Total { 64 << 10 } else { 1 << 30 };
            let (mut conversation, mut lane, mut recorder) = begin(plan(cap, 64 << 10, action), shared_bytes);
            let payload = [7; 1000];
            for number in 0..200 {
                let segment = segment(1 + number * 1000, &payload);
                let _ = conversation.segment(Sender::A, &segment, &mut lane, &mut recorder);
                assert!(lane.used_bytes() <= 64 << 10, "{cap:?} {action:?}: {}", lane.used_bytes());
                assert!(lane.tally().is_balanced());
            }
            let tally = *lane.tally();
            assert!(tally.cap_hits[cap as usize] > 0, "{cap:?} {action:?}");
            assert_eq!(tally.cap_hits.iter().sum::<u64>(), tally.cap_hits[cap as usize]);
            let ends = recorder.ends();
            match action {
                CapAction::SkipGap => {
                    assert_eq!(recorder.seen[0].1, Seen::Gap(0, 1, format!("Capped({cap:?})")));
                    assert_eq!(tally.delivered_bytes, 200_000, "one lost byte, and then all is in order");
                    assert_eq!(tally.capped_bytes, [0; 4]);
                }
                CapAction::CutStream => {
                    assert_eq!(ends, [(Sender::A, 0, format!("Capped({cap:?})"))]);
                    assert_eq!(tally.capped_bytes[cap as usize], 200_000);
                }
                CapAction::StopFlow => {
                    let reason = format!("Capped({cap:?})");
                    assert_eq!(ends, [(Sender::A, 0, reason.clone()), (Sender::B, 0, reason)]);
                    assert!(conversation.is_closed());
                }
            }
            conversation.finish(&mut lane, &mut recorder);
            assert_eq!((lane.used_bytes(), lane.tally().held_bytes), (0, 0));
        }
    }
}

#[test]
fn single_bytes_far_apart_are_charged_for_what_they_cost() {
    let (mut conversation, mut lane, mut recorder) =
        begin(plan(Cap::Direction, 256 << 10, CapAction::CutStream), 1 << 30);
    let mut held = 0;
    for number in 0..100_000 {
        let _ = conversation.segment(Sender::A, &segment(2 * number + 1, b"x"), &mut lane, &mut recorder);
        held = held.max(lane.tally().held_bytes);
    }
    assert!((1000..4000).contains(&held), "{held} single bytes in 256 KiB");
    assert_eq!(lane.used_bytes(), 0);
}

#[test]
fn a_segment_over_many_small_ones_makes_them_few() {
    for (policy, kept) in [(StreamPolicy::First, b'x'), (StreamPolicy::Last, b'z')] {
        let mut observed = Observed::new(policy, StreamPlan::default(), u32::MAX - 700);
        let data = |offset: i64, bytes: Vec<u8>| Op::Data { offset, bytes, fin: false };
        for at in 0..1000 {
            observed.apply(&data(2 * at + 1, b"x".to_vec()));
        }
        observed.apply(&data(100, vec![b'z'; 1400]));
        let used_bytes = observed.lane.used_bytes();
        assert!(used_bytes < 50_000, "{used_bytes} bytes for 300 chunks and some");
        observed.apply(&data(0, vec![b'y']));
        observed.apply(&data(2, vec![b'y'; 98]));
        for offset in (1500..2000).step_by(2) {
            observed.apply(&data(offset, vec![b'y']));
        }
        observed.finish();
        let text = observed.recorder.text(Sender::A).into_bytes();
        let expected = |at: usize| match (at % 2, (100..1500).contains(&at)) {
            (1, true) => kept,
            (1, false) if at == 1 || at > 99 || policy == StreamPolicy::First => b'x',
            (1, false) => b'y',
            (_, true) => b'z',
            _ => b'y',
        };
        assert!(text.iter().enumerate().all(|(at, byte)| *byte == expected(at)));
        assert_eq!((text.len(), observed.lane.tally().gaps), (2000, [0; 5]));
    }
}

#[test]
fn lanes_share_one_limit() {
    let shared = SharedMemory::new(256 << 10);
    let payload = [7; 1000];
    let mut all = Vec::new();
    for _ in 0..4 {
        let mut lane = StreamLane::new(StreamPlan::default(), Some(shared.clone()));
        let mut conversation = Conversation::new(StreamPolicy::First, StreamPolicy::First);
        let mut recorder = Recorder::default();
        for number in 0..200 {
            let segment = segment(10 + number * 1000 + number, &payload);
            let _ = conversation.segment(Sender::A, &segment, &mut lane, &mut recorder);
        }
        all.push((conversation, lane, recorder));
    }
    assert!(shared.leased_bytes() <= 256 << 10);
    assert!(all.iter().map(|(_, lane, _)| lane.used_bytes()).sum::<u64>() <= 256 << 10);
    let hits: u64 = all.iter().map(|(_, lane, _)| lane.tally().cap_hits[Cap::Total as usize]).sum();
    assert!(hits > 100, "{hits}");
    for (conversation, lane, recorder) in &mut all {
        conversation.finish(lane, recorder);
    }
    drop(all);
    assert_eq!(shared.leased_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is held, dropped or skipped: bytes that come out are those that were sent, and limits hold.
    #[test]
    fn under_pressure_bytes_are_right(
        cap in prop::sample::select(CAPS.to_vec()),
        action in prop::sample::select(ACTIONS.to_vec()),
        limit_bytes in 0u64..40_000,
        segments in prop::collection::vec((0u32..60_000, 1usize..4000, 0u8..20), 1..200),
    ) {
        let content = |at: u32| (at.wrapping_mul(2_654_435_761) >> 23) as u8;
        let mut observed = Observed::new(StreamPolicy::Solaris, plan(cap, limit_bytes, action), u32::MAX - 30_000);
        for (offset, len, what) in segments {
            let bytes = (offset..).take(len).map(content).collect();
            observed.apply(&match what {
                0 => Op::Ack(offset.into()),
                1 => Op::Wait(3_000_000_000),
                _ => Op::Data { offset: offset.into(), bytes, fin: false },
            });
            // One record of a chunk that is cut in two may exceed a limit.
            let is_limited = cap != Cap::Total;
            prop_assert!(!is_limited || observed.lane.used_bytes() <= limit_bytes + 1000, "{}", observed.lane.used_bytes());
        }
        observed.finish();
        let seen = observed.recorder.of(Sender::A);
        assert_in_order(&seen);
        for seen in seen {
            if let Seen::Byte(at, byte) = seen {
                prop_assert_eq!(byte, content(at as u32));
            }
        }
    }
}
