//! Random sequences beyond the small space: against the model, and against the stream that was sent.

use crate::exhaustive::compare;
use crate::observed::{Observed, Op, Seen, assert_in_order};
use proptest::prelude::*;
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Sender, StreamPlan};

fn policy() -> impl Strategy<Value = StreamPolicy> {
    prop::sample::select(StreamPolicy::ALL.map(|(_, policy)| policy).to_vec())
}

/// Distance from the place, then length, value and FIN of data, then the wait in ns.
type Draft = (i64, Option<(usize, u8, bool)>, u64);

/// Operations around an offset that moves on, so that long sequences get somewhere.
fn ops(count: usize) -> impl Strategy<Value = Vec<Op>> {
    let bytes = prop_oneof![4 => 0usize..12, 1 => 0usize..250];
    let data = (-12i64..40, bytes, 0u8..3, prop::bool::weighted(0.03));
    let one = prop_oneof![
        12 => data.prop_map(|(ahead, len, value, fin)| (ahead, Some((len, value, fin)), 0)),
        2 => (-5i64..40).prop_map(|ahead| (ahead, None, 0)),
        1 => (0i64..1).prop_map(|_| (0, None, 600)),
    ];
    prop::collection::vec((one, 0i64..6), 0..count).prop_map(|all| {
        let mut at = 0;
        let op = |((ahead, data, wait_ns), step): (Draft, i64)| {
            at += step;
            match data {
                Some((len, value, fin)) => {
                    let byte =
                        |n: usize| if value == 2 { b'=' } else { value.wrapping_add(at as u8 ^ n as u8) };
                    Op::Data { offset: at + ahead, bytes: (0..len).map(byte).collect(), fin }
                }
                None if wait_ns > 0 => Op::Wait(wait_ns),
                None => Op::Ack(at + ahead),
            }
        };
        all.into_iter().map(op).collect()
    })
}

/// Segments of one stream, with other boundaries when they are sent again, out of order, some of them lost.
fn delivery() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (1usize..40_000).prop_flat_map(|len| {
        let segment = (0..len, 1usize..3000).prop_map(move |(at, bytes)| (at, bytes.min(len - at)));
        (Just(len), prop::collection::vec(segment, 0..80))
    })
}

fn content(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn long_sequences_as_the_model(policy in policy(), isn: u32, cutoff in prop_oneof![Just(u64::MAX), 0u64..200], ops in ops(60)) {
        compare(policy, cutoff, isn, &ops);
    }

    #[test]
    fn a_stream_comes_out_as_it_was_sent(policy in policy(), isn: u32, (len, segments) in delivery()) {
        let content = content(len);
        let mut observed = Observed::new(policy, StreamPlan::default(), isn);
        for (at, bytes) in segments {
            observed.apply(&Op::Data { offset: at as i64, bytes: content[at..at + bytes].to_vec(), fin: false });
        }
        // Whatever was lost comes again, from the end to the front.
        for at in (0..len).step_by(1000).rev() {
            let bytes = content[at..len.min(at + 1000)].to_vec();
            observed.apply(&Op::Data { offset: at as i64, bytes, fin: at + 1000 >= len });
        }
        let tally = *observed.lane.tally();
        prop_assert_eq!(tally.delivered_bytes, len as u64);
        prop_assert_eq!((tally.overlapped_bytes, tally.held_bytes, tally.gaps), (0, 0, [0; 5]));
        observed.finish();
        let seen = observed.recorder.of(Sender::A);
        assert_in_order(&seen);
        let bytes: Vec<u8> = seen.iter().filter_map(|seen| match seen { Seen::Byte(_, byte) => Some(*byte), _ => None }).collect();
        prop_assert!(bytes == content);
        prop_assert_eq!(seen.last(), Some(&Seen::End(len as u64, "Fin".to_owned())));
    }

    #[test]
    fn lost_bytes_are_gaps_and_all_others_are_passed_on(isn: u32, (len, segments) in delivery()) {
        let content = content(len);
        let mut observed = Observed::answered(StreamPolicy::First, StreamPlan::default(), isn);
        let mut came = vec![false; len];
        for (at, bytes) in segments {
            came[at..at + bytes].fill(true);
            observed.apply(&Op::Data { offset: at as i64, bytes: content[at..at + bytes].to_vec(), fin: false });
        }
        // B has all bytes, whatever the capture lacks, and the FIN.
        observed.apply(&Op::Ack(len as i64 + 1));
        observed.apply(&Op::Data { offset: len as i64, bytes: vec![], fin: true });
        let lost = came.iter().filter(|came| !**came).count() as u64;
        let tally = observed.lane.tally();
        prop_assert_eq!(tally.gap_bytes, [lost, 0, 0, 0, 0]);
        prop_assert_eq!(tally.delivered_bytes, len as u64 - lost);
        for seen in observed.recorder.of(Sender::A) {
            match seen {
                Seen::Byte(at, byte) => prop_assert!(came[at as usize] && byte == content[at as usize]),
                Seen::Gap(at, bytes, _) => prop_assert!(came[at as usize..(at + bytes) as usize].iter().all(|came| !came)),
                _ => {}
            }
        }
    }
}
