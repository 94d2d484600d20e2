//! Every sequence of up to three fragments under every policy, and random ones beyond, against the model.

use crate::fragment_model::{Got, Part, Receiver, compare, key, packet};
use proptest::prelude::*;
use quaff_stream::fragment::{Defragmenter, FragmentPlan};
use quaff_stream::policy::FragmentPolicy;

/// Units of eight bytes in the small space.
const UNITS: u16 = 6;

/// Fragments of whole units, with contents that differ.
fn alphabet(value: u8) -> Vec<Part> {
    let mut parts = Vec::new();
    for start in 0..UNITS {
        for units in 1..=3.min(UNITS - start) {
            for more in [true, false] {
                let bytes = (0..units * 8).map(|at| value + (at / 8) as u8).collect();
                parts.push(Part { offset: start * 8, bytes, more });
            }
        }
    }
    parts
}

/// All that three fragments may lack, one unit at a time, and the end.
fn rest() -> Vec<Part> {
    let unit = |at: u16| Part { offset: at * 8, bytes: vec![b'.'; 8], more: at < UNITS };
    (0..=UNITS).map(unit).collect()
}

#[test]
fn three_fragments_under_every_policy() {
    let (first, second, third) = (alphabet(b'A'), alphabet(b'J'), alphabet(b'S'));
    let rest = rest();
    let mut wholes = 0;
    for (_, policy) in FragmentPolicy::ALL {
        for a in &first {
            compare(policy, std::slice::from_ref(a));
            for b in &second {
                compare(policy, &[a.clone(), b.clone()]);
                for c in &third {
                    let mut parts = vec![a.clone(), b.clone(), c.clone()];
                    // A whole one more seldom than not, unless the rest comes too.
                    parts.extend(rest.iter().filter(|_| a.more && b.more && c.more).cloned());
                    wholes += compare(policy, &parts);
                }
            }
        }
    }
    assert!(wholes > 10_000, "{wholes} datagrams were whole");
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0u16..40, 1u16..12, 0u8..4, prop::bool::weighted(0.1), 0u16..8);
    prop::collection::vec(part, 1..40).prop_map(|all| {
        let part = |(start, units, value, is_last, odd): (u16, u16, u8, bool, u16)| {
            let len = units * 8 - if is_last { odd } else { 0 };
            Part { offset: start * 8, bytes: vec![value; len.into()], more: !is_last }
        };
        all.into_iter().map(part).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn many_fragments_as_the_model(policy in prop::sample::select(FragmentPolicy::ALL.map(|(_, policy)| policy).to_vec()), parts in parts()) {
        compare(policy, &parts);
    }

    /// Several datagrams at once, each cut anew, in any order, with duplicates: all of them are whole and right.
    #[test]
    fn datagrams_come_out_as_they_were_sent(
        policy in prop::sample::select(FragmentPolicy::ALL.map(|(_, policy)| policy).to_vec()),
        datagrams in prop::collection::vec((9usize..60_000, prop::collection::vec(1usize..400, 1..20)), 1..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let content = |id: usize, len: usize| (0..len).map(|at| (at * 7 + id) as u8).collect::<Vec<u8>>();
        let mut parts = Vec::new();
        for (id, (len, sizes)) in datagrams.iter().enumerate() {
            let (content, mut at) = (content(id, *len), 0);
            for units in sizes.iter().cycle() {
                let end = (at + units * 8).min(*len);
                parts.push((id as u32, Part { offset: at as u16, bytes: content[at..end].to_vec(), more: end < *len }));
                at = end;
                if at == *len {
                    break;
                }
            }
        }
        let mut defragmenter = Defragmenter::new(FragmentPlan::default());
        let mut receiver = Receiver::default();
        let mut give = |(id, part): &(u32, Part), defragmenter: &mut Defragmenter| {
            let is_done = receiver.got.iter().any(|(done, _)| done == id);
            if !is_done {
                defragmenter.take(key(*id), policy, &packet(part, 5), &mut receiver);
            }
        };
        // Some first, in any order; then all: those that came are duplicates.
        for index in order {
            give(&parts[index.index(parts.len())], &mut defragmenter);
        }
        for part in parts.iter().rev() {
            give(part, &mut defragmenter);
        }
        prop_assert_eq!(receiver.got.len(), datagrams.len());
        for (id, got) in &receiver.got {
            prop_assert!(*got == Got::Whole(content(*id as usize, datagrams[*id as usize].0)));
        }
        prop_assert!(defragmenter.tally().is_balanced() && defragmenter.used_bytes() == 0);
    }

    /// Whatever comes, memory is limited and each byte has a fate.
    #[test]
    fn floods_stay_within_the_limits(limit_bytes in 0u64..60_000, datagrams_max in 1usize..20, all in prop::collection::vec((0u32..30, 0u16..8000, 0usize..3000, any::<bool>(), 0u64..100), 1..300)) {
        let plan = FragmentPlan { limit_bytes, datagrams_max, wait_ns: 1000 };
        let (mut defragmenter, mut receiver, mut time_ns) = (Defragmenter::new(plan), Receiver::default(), 0);
        for (id, unit, len, more, wait_ns) in all {
            time_ns += wait_ns;
            let part = Part { offset: unit * 8, bytes: vec![id as u8; len], more };
            defragmenter.take(key(id), FragmentPolicy::Last, &packet(&part, time_ns), &mut receiver);
            // Records of chunks that were cut in two may exceed the limit.
            prop_assert!(defragmenter.used_bytes() <= limit_bytes + 2000, "{}", defragmenter.used_bytes());
            prop_assert!(defragmenter.tally().is_balanced(), "{:?}", defragmenter.tally());
        }
        defragmenter.finish(&mut receiver);
        prop_assert_eq!(defragmenter.used_bytes(), 0);
    }
}
