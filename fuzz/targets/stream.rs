//! Any segments of both sides of a connection, under any policy and small caps: no panic, events follow each other
//! without a hole, each byte has a fate, memory keeps its limit and is returned.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::conversation::Outcome;
use quaff_stream::plan::{CapAction, CapRule, ResetRule, UrgentRule};
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Conversation, Event, Segment, Sender, StreamLane, StreamPlan, StreamSink};

/// The end so far of each direction, and whether it is over.
#[derive(Default)]
struct Order([(u64, bool); 2]);

impl StreamSink for Order {
    fn event(&mut self, sender: Sender, event: Event) {
        let (next, is_over) = &mut self.0[sender as usize];
        let (offset, bytes) = match event {
            Event::Data { offset, bytes } => (offset, bytes.len() as u64),
            Event::Urgent { offset, .. } => (offset, 1),
            Event::Gap { offset, lost_bytes, .. } => (offset, lost_bytes),
            Event::End { offset, .. } => {
                assert!(!*is_over && offset == *next);
                *is_over = true;
                return;
            }
            Event::Difference(difference) => {
                assert!(difference.old.len() == difference.new.len() && difference.old != difference.new);
                return;
            }
        };
        assert!(!*is_over && offset == *next && bytes > 0);
        *next += bytes;
    }
}

fn plan(rules: [u8; 4]) -> StreamPlan {
    let action =
        |at: u8| [CapAction::SkipGap, CapAction::CutStream, CapAction::StopFlow][usize::from(at) % 3];
    let rule = |pages: u8, at: u8| CapRule { limit_bytes: u64::from(pages) << 9, action: action(at) };
    StreamPlan {
        direction: rule(rules[0], rules[1]),
        flow: rule(rules[0].saturating_add(rules[2]), rules[1] / 3),
        lane: rule(rules[0].saturating_add(rules[3]), rules[1] / 9),
        total_action: CapAction::SkipGap,
        hole_wait_ns: 1000,
        ack_wait_ns: if rules[2] & 4 != 0 { 500 } else { 0 },
        cutoff_bytes: if rules[1] & 128 != 0 { u64::from(rules[2]) * 64 } else { u64::MAX },
        window_slack_bytes: if rules[1] & 64 != 0 { 100 } else { 1 << 20 },
        urgent: if rules[2] & 1 != 0 { UrgentRule::OutOfBand } else { UrgentRule::Inline },
        reset: if rules[2] & 2 != 0 { ResetRule::InWindow } else { ResetRule::Exact },
    }
}

type Step = (u8, u8, u16, u16, u8, u8, u8);

fuzz_target!(|input: ([u8; 4], u8, Vec<Step>, &[u8])| {
    let (rules, policy, steps, bytes) = input;
    let (policy, plan) = (StreamPolicy::ALL[usize::from(policy) % StreamPolicy::ALL.len()].1, plan(rules));
    let mut lane = StreamLane::new(plan, None);
    let mut conversation = Conversation::new(policy, policy);
    let mut order = Order::default();
    // Close to the wrap of sequence numbers.
    let base = u32::MAX - 300;
    let mut time_ns = 0;
    for (from, flags, sequence, acknowledgment, len, window, urgent) in steps {
        time_ns += u64::from(from >> 3) * 10;
        let payload = &bytes[..bytes.len().min(usize::from(len))];
        let far = u32::from(from & 4 != 0) << 27;
        let segment = Segment {
            sequence: base.wrapping_add(u32::from(sequence)).wrapping_add(far),
            acknowledgment: base.wrapping_add(u32::from(acknowledgment)).wrapping_add(far),
            flags,
            window: u16::from(window) * 4,
            window_scale: (urgent & 1 != 0).then_some(urgent >> 4),
            urgent: urgent.into(),
            payload,
            wire_bytes: payload.len() as u32 + u32::from(from & 2 != 0),
            time_ns,
        };
        let sender = if from & 1 == 0 { Sender::A } else { Sender::B };
        if conversation.segment(sender, &segment, &mut lane, &mut order) == Outcome::IsNewConnection {
            conversation.finish(&mut lane, &mut order);
            (conversation, order) = (Conversation::new(policy, policy), Order::default());
        }
        conversation.tick(time_ns, &mut lane, &mut order);
        assert!(lane.tally().is_balanced(), "{:?}", lane.tally());
        assert!(lane.used_bytes() <= plan.lane.limit_bytes + 2000);
    }
    conversation.finish(&mut lane, &mut order);
    assert!(lane.tally().is_balanced() && lane.used_bytes() == 0 && lane.tally().held_bytes == 0);
});
