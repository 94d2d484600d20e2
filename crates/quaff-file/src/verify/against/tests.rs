//! The report counts exactly the changes made to the frames.

use super::arrivals::Arrivals;
use super::index::Index;
use super::report::Matched;
use proptest::prelude::*;
use quaff_wire::fingerprint::Sketch;
use std::collections::BTreeMap;

/// Time between two frames of the file, ns.
const GAP_NS: u64 = 1000;

/// A frame on its way: content, and what it looks like.
type Moving = (u64, Sketch);

fn content(n: u64) -> u64 {
    (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Frame `n` of the file; five flows, and 60 to 90 bytes.
fn sketch(n: u64) -> Sketch {
    Sketch { flow: (n % 5) as u32, half: n as u16, len: 60 + (n % 7 * 5) as u16 }
}

fn whole(n: u64) -> Moving {
    (content(n), sketch(n))
}

/// Changed in the payload, or in the headers.
fn altered(n: u64, payload: bool) -> Moving {
    let sketch = sketch(n);
    let changed = if payload {
        Sketch { half: !sketch.half, ..sketch }
    } else {
        Sketch { flow: 1_000_000 + n as u32, ..sketch }
    };
    (content(n) ^ 1, changed)
}

fn foreign(n: u64) -> Moving {
    (content(n) ^ 2, Sketch { flow: 7, half: n as u16, len: 1000 })
}

fn index(contents: impl Iterator<Item = Moving>) -> Index {
    let mut index = Index::default();
    for (content, sketch) in contents {
        assert!(index.push(content, sketch, GAP_NS as i64));
    }
    index.build();
    index
}

fn compare(index: Index, sent: u64, moving: &[Moving]) -> Matched {
    let mut arrivals = Arrivals::new(index, sent);
    for (at, (content, sketch)) in moving.iter().enumerate() {
        arrivals.take(*content, at as u64 * GAP_NS, || *sketch);
    }
    arrivals.finish();
    let mut report = Matched::of(&arrivals, sent);
    report.outcome.frames = moving.len() as u64;
    report
}

#[track_caller]
fn assert_adds_up(report: &Matched) {
    assert_eq!(report.sent, report.outcome.received + report.outcome.lost + report.altered, "{report:?}");
    let came = report.outcome.received
        + report.outcome.duplicates
        + report.outcome.surplus
        + report.altered
        + report.extra;
    assert_eq!(report.outcome.frames, came, "{report:?}");
}

fn counts(report: &Matched) -> [u64; 6] {
    assert_adds_up(report);
    [
        report.outcome.received,
        report.outcome.lost,
        report.outcome.duplicates,
        report.outcome.reordered,
        report.altered,
        report.extra,
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Comes,
    Lost,
    Twice,
    Altered {
        payload: bool,
    },
    /// After a frame that was not sent.
    AfterForeign,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Comes),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => any::<bool>().prop_map(|payload| Fate::Altered { payload }),
        1 => Just(Fate::AfterForeign),
    ]
}

/// Returns the frames received for frame `n`.
fn after(n: u64, fate: Fate) -> Vec<Moving> {
    match fate {
        Fate::Comes => vec![whole(n)],
        Fate::Lost => vec![],
        Fate::Twice => vec![whole(n), whole(n)],
        Fate::Altered { payload } => vec![altered(n, payload)],
        Fate::AfterForeign => vec![foreign(n), whole(n)],
    }
}

fn count(fates: &[Fate], is: impl Fn(Fate) -> bool) -> u64 {
    fates.iter().filter(|fate| is(**fate)).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// One after the other, over several loops.
    #[test]
    fn fates_are_counted(fates in prop::collection::vec(fate(), 1..400), turns in 1u64..4) {
        let frames = (fates.len() as u64).div_ceil(turns);
        let sent = fates.len() as u64;
        let moving: Vec<_> =
            fates.iter().zip(0..).flat_map(|(fate, at)| after(at % frames, *fate)).collect();
        let report = compare(index((0..frames).map(whole)), sent, &moving);
        let [lost, twice, altered, foreign] = [
            count(&fates, |fate| fate == Fate::Lost),
            count(&fates, |fate| fate == Fate::Twice),
            count(&fates, |fate| matches!(fate, Fate::Altered { .. })),
            count(&fates, |fate| fate == Fate::AfterForeign),
        ];
        if turns == 1 {
            let received = sent - lost - altered;
            prop_assert_eq!(counts(&report), [received, lost, twice, 0, altered, foreign]);
        } else {
            // A frame of one loop that comes twice is as good as that of another loop which is lost.
            assert_adds_up(&report);
            let missing = report.outcome.lost + report.altered;
            prop_assert!(missing <= lost + altered && missing + twice >= lost + altered, "{:?}", report);
        }
    }

    /// In any order.
    #[test]
    fn order_makes_no_difference_to_what_is_counted(
        fates in prop::collection::vec(fate(), 1..200),
        keys in prop::collection::vec(any::<u32>(), 400),
    ) {
        let moving = fates.iter().zip(0..).flat_map(|(fate, n)| after(n, *fate).into_iter().map(move |moving| (n, moving)));
        let mut moving: Vec<_> = moving.zip(&keys).collect();
        moving.sort_by_key(|(_, key)| **key);
        // By RFC 4737: a frame received after one with a higher number.
        let (mut highest, mut reordered, mut seen) = (None, 0, BTreeMap::new());
        for ((n, (content, _)), _) in &moving {
            if *content == self::content(*n) && seen.insert(*n, ()).is_none() {
                reordered += u64::from(highest.is_some_and(|highest| highest > *n));
                highest = highest.max(Some(*n));
            }
        }
        let frames = fates.len() as u64;
        let moving: Vec<_> = moving.into_iter().map(|((_, moving), _)| moving).collect();
        let report = compare(index((0..frames).map(whole)), frames, &moving);
        let lost = count(&fates, |fate| fate == Fate::Lost);
        let altered = count(&fates, |fate| matches!(fate, Fate::Altered { .. }));
        prop_assert_eq!(report.outcome.received, frames - lost - altered);
        prop_assert_eq!(report.outcome.duplicates, count(&fates, |fate| fate == Fate::Twice));
        prop_assert_eq!(report.outcome.reordered, reordered);
        prop_assert_eq!(report.outcome.lost + report.altered, lost + altered);
        assert_adds_up(&report);
    }

    /// Contents that occur many times: missing and surplus packets are counted as in multisets.
    #[test]
    fn repeated_contents_are_counted_as_sets(
        file in prop::collection::vec(0u64..6, 1..60),
        came in prop::collection::vec(0u64..8, 0..120),
        turns in 1u64..3,
    ) {
        let sent = file.len() as u64 * turns;
        let moving: Vec<_> = came.iter().map(|n| whole(*n)).collect();
        let report = compare(index(file.iter().map(|n| whole(*n))), sent, &moving);
        let of = |set: &[u64], n: u64| set.iter().filter(|one| **one == n).count() as u64;
        let received: u64 = (0..6).map(|n| (of(&file, n) * turns).min(of(&came, n))).sum();
        prop_assert_eq!(report.outcome.received, received);
        prop_assert_eq!(report.outcome.lost + report.altered, sent - received);
        assert_adds_up(&report);
    }
}

#[test]
fn each_frame_in_its_place_for_many_loops() {
    for (frames, turns) in [(1, 1000), (2, 500), (7, 30), (5000, 3)] {
        let moving: Vec<_> = (0..turns).flat_map(|_| (0..frames).map(whole)).collect();
        let report = compare(index((0..frames).map(whole)), frames * turns, &moving);
        assert_eq!(counts(&report), [frames * turns, 0, 0, 0, 0, 0]);
        assert_eq!(report.spacing_error_ns.count, (frames - 1) * turns);
        assert_eq!(report.spacing_error_ns.max, 0);
        assert_eq!((report.occurrences.len(), report.occurrences[0].times), (1, turns));
    }
}

#[test]
fn a_frame_that_stands_everywhere_does_not_spoil_the_order() {
    // Every third frame is the same; a piece is lost, and one of them came twice.
    let file: Vec<u64> = (0..900).map(|n| if n % 3 == 0 { 0 } else { n }).collect();
    let mut came = file.clone();
    came.insert(301, 0);
    came.drain(500..620);
    let moving: Vec<_> = came.iter().map(|n| whole(*n)).collect();
    let report = compare(index(file.iter().map(|n| whole(*n))), 900, &moving);
    assert_eq!(report.outcome.reordered, 0, "{report:?}");
    // The packet that arrived twice replaces one of the lost ones.
    assert_eq!((report.outcome.received, report.outcome.lost, report.outcome.duplicates), (781, 119, 0));
}

#[test]
fn lateness_is_reported() {
    let moving: Vec<_> = [0, 1, 5, 2, 3, 4, 6].map(whole).into();
    let report = compare(index((0..7).map(whole)), 7, &moving);
    assert_eq!(counts(&report), [7, 0, 0, 3, 0, 0]);
    assert_eq!((report.late.count, report.late.p50, report.late.max), (3, 2, 3));
}

#[test]
fn gaps_are_numbered_as_frames_are_in_the_file() {
    let moving: Vec<_> = (2..5).chain(7..10).map(whole).collect();
    let gaps = compare(index((0..12).map(whole)), 12, &moving).gaps;
    let ends = |run: Option<super::Run>| run.map(|run| (run.first, run.last));
    assert_eq!((gaps.count, ends(gaps.first), ends(gaps.last)), (3, Some((1, 2)), Some((11, 12))));
}

#[test]
fn a_long_loss_in_front_of_an_altered_frame() {
    let moving: Vec<_> =
        (0..10).map(whole).chain([altered(5000, true)]).chain((5001..6000).map(whole)).collect();
    let report = compare(index((0..6000).map(whole)), 6000, &moving);
    assert_eq!(counts(&report), [1009, 4990, 0, 0, 1, 0]);
}

/// The addresses of a short frame lie in its second half: nothing of it is like the original but its length and place.
#[test]
fn a_frame_with_other_addresses_beside_lost_ones_is_altered() {
    let other = |n: u64| {
        let changed = Sketch { flow: 1_000_000, half: !sketch(n).half, ..sketch(n) };
        (content(n) ^ 1, changed)
    };
    // Before the lost ones, after them, and at the end of the capture.
    for (n, lost) in [(10, 11..14), (13, 10..13), (26, 27..30)] {
        let came = (0..30).filter(|at| !lost.contains(at));
        let moving: Vec<_> = came.map(|at| if at == n { other(n) } else { whole(at) }).collect();
        let report = compare(index((0..30).map(whole)), 30, &moving);
        assert_eq!(counts(&report), [26, 3, 0, 0, 1, 0], "frame {n}: {report:?}");
    }
}

#[test]
fn of_frames_that_were_all_altered_none_is_lost() {
    let moving: Vec<_> = (0..3000).map(|n| altered(n, true)).collect();
    assert_eq!(counts(&compare(index((0..3000).map(whole)), 3000, &moving)), [0, 0, 0, 0, 3000, 0]);
}

#[test]
fn an_altered_frame_that_comes_again_as_it_was_is_no_part_of_the_file() {
    // The similar frame is resolved long before the original comes.
    let frames = 200_000;
    let moving: Vec<_> =
        [altered(0, true)].into_iter().chain((1..frames).map(whole)).chain([whole(0)]).collect();
    let report = compare(index((0..frames).map(whole)), frames, &moving);
    assert_eq!(counts(&report), [frames, 0, 0, 1, 0, 1]);
}

#[test]
fn frames_behind_those_expected_are_surplus() {
    let moving: Vec<_> = (0..5).map(whole).collect();
    let report = compare(index((0..5).map(whole)), 3, &moving);
    assert_eq!(
        (report.outcome.received, report.outcome.lost, report.outcome.surplus, report.outcome.duplicates),
        (3, 0, 2, 0)
    );
    assert_adds_up(&report);
}
