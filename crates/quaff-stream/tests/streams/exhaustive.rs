//! Every sequence of up to three operations in a small space, under every policy, against the model.

use crate::model::Model;
use crate::observed::{Observed, Op, assert_in_order};
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Sender, StreamPlan};

/// Sequence numbers wrap inside the space.
const ISN: u32 = u32::MAX - 3;
const WAIT_NS: u64 = 1000;

/// Runs operations on crate and model, and compares all that can be seen.
#[track_caller]
pub(crate) fn compare(policy: StreamPolicy, cutoff: u64, isn: u32, ops: &[Op]) {
    let plan = StreamPlan { cutoff_bytes: cutoff, hole_wait_ns: WAIT_NS, ..StreamPlan::default() };
    let mut observed = Observed::answered(policy, plan, isn);
    let mut model = Model::new(policy, cutoff, WAIT_NS, observed.time_ns);
    for op in ops {
        observed.apply(op);
        model.apply(op);
    }
    observed.finish();
    model.end();
    let seen = observed.recorder.of(Sender::A);
    assert_eq!(seen, model.seen, "{policy:?}, cut-off {cutoff}: {ops:?}");
    assert_in_order(&seen);
    let (tally, fates) = (observed.lane.tally(), &model.fates);
    let ours = [
        (tally.seen_bytes, fates.seen),
        (tally.delivered_bytes, fates.delivered),
        (tally.overlapped_bytes, fates.overlapped),
        (tally.duplicate_bytes, fates.duplicate),
        (tally.late_bytes, fates.late),
        (tally.before_start_bytes, fates.before_start),
        (tally.beyond_cutoff_bytes, fates.beyond_cutoff),
        (tally.after_end_bytes, fates.after_end),
        (tally.filled_bytes, fates.filled),
    ];
    // More gaps than are remembered: then late bytes are duplicates.
    let is_sure = tally.gaps.iter().sum::<u64>() <= 4;
    let same = |at: usize| ours[at].0 == ours[at].1;
    let sum = (ours[3].0 + ours[4].0, ours[3].1 + ours[4].1);
    let all = (0..ours.len()).all(|at| same(at) || !is_sure && (at == 3 || at == 4) && sum.0 == sum.1);
    assert!(all, "{policy:?}: {ops:?}: {tally:?} {fates:?}");
}

/// Calls `run` with every sequence of one to three of these.
fn sequences(alphabet: &[Op], mut run: impl FnMut(&[Op])) {
    for a in alphabet {
        run(std::slice::from_ref(a));
        for b in alphabet {
            run(&[a.clone(), b.clone()]);
            for c in alphabet {
                run(&[a.clone(), b.clone(), c.clone()]);
            }
        }
    }
}

/// Gives the segments contents: each its own, or all those of one stream.
fn filled(ops: &[Op], is_same: bool) -> Vec<Op> {
    let fill = |(number, op): (usize, &Op)| match op {
        Op::Data { offset, bytes, fin } => {
            let value = |at: usize| match is_same {
                true => b'0' + (*offset as usize + at) as u8,
                false => b"AJS"[number] + at as u8,
            };
            Op::Data { offset: *offset, bytes: (0..bytes.len()).map(value).collect(), fin: *fin }
        }
        other => other.clone(),
    };
    ops.iter().enumerate().map(fill).collect()
}

fn segments(starts: std::ops::Range<i64>, end: i64, bytes_max: i64, fin: bool) -> Vec<Op> {
    let of_start = |offset: i64| {
        let lengths = 1..=bytes_max.min(end - offset);
        lengths.map(move |bytes| Op::Data { offset, bytes: vec![0; bytes as usize], fin })
    };
    starts.flat_map(of_start).collect()
}

/// Offset 0 comes last, so that all that was held has met before it is passed on.
fn with_first(ops: &[Op]) -> Vec<Op> {
    let first = Op::Data { offset: 0, bytes: b"-".to_vec(), fin: false };
    ops.iter().cloned().chain([first]).collect()
}

#[test]
fn three_segments_under_every_policy() {
    let alphabet = segments(0..6, 7, 4, false);
    let mut count = 0;
    for (_, policy) in StreamPolicy::ALL {
        sequences(&alphabet, |ops| {
            compare(policy, u64::MAX, ISN, &with_first(&filled(ops, false)));
            count += 1;
        });
    }
    assert!(count > 15 * 9000, "{count}");
}

#[test]
fn three_segments_of_one_stream_give_that_stream() {
    let alphabet = segments(0..6, 7, 4, false);
    for policy in [StreamPolicy::First, StreamPolicy::Last, StreamPolicy::Solaris] {
        sequences(&alphabet, |ops| compare(policy, u64::MAX, ISN, &filled(ops, true)));
    }
}

#[test]
fn three_of_segments_fins_acknowledgments_and_time() {
    let mut alphabet = segments(-1..4, 5, 3, false);
    alphabet.extend(segments(0..4, 5, 2, true));
    alphabet.push(Op::Data { offset: 2, bytes: vec![], fin: true });
    alphabet.extend((0..=6).map(Op::Ack));
    alphabet.extend([Op::Wait(WAIT_NS / 2), Op::Wait(WAIT_NS)]);
    for policy in [StreamPolicy::First, StreamPolicy::Bsd, StreamPolicy::Hpux11] {
        sequences(&alphabet, |ops| {
            compare(policy, u64::MAX, ISN, &filled(ops, false));
            compare(policy, u64::MAX, ISN, &with_first(&filled(ops, false)));
        });
    }
}

#[test]
fn three_of_all_with_a_cutoff() {
    let mut alphabet = segments(0..5, 6, 4, false);
    alphabet.extend(segments(1..4, 5, 2, true));
    alphabet.extend((2..=5).map(Op::Ack));
    alphabet.push(Op::Wait(WAIT_NS));
    for cutoff in [0, 1, 3, 4] {
        sequences(&alphabet, |ops| compare(StreamPolicy::Last, cutoff, ISN, &filled(ops, false)));
    }
}
