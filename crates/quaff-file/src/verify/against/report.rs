//! The report of a comparison.

use super::arrivals::Arrivals;
use super::index::{Claim, Entry, Index};
use crate::histogram::Quantiles;
use crate::verify::{Gaps, Outcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest number of occurrences listed.
const OCCURRENCES_MAX: usize = 16;

/// The comparison of a capture with the file that was sent. Counts are of frames: `sent` is
/// `received + altered + lost`, and `frames` is `received + duplicates + surplus + altered + extra`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Matched {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub in_file: u64,
    /// Frames sent, over all loops of the file.
    pub sent: u64,
    /// Frames received with other bytes: similar to a missing one.
    pub altered: u64,
    /// Frames similar to none of the file.
    pub extra: u64,
    /// Positions by which reordered frames were late.
    pub late: Quantiles,
    /// Runs of frames of the file that are missing in at least one loop.
    pub gaps: Gaps<Run>,
    /// Difference between the spacing in the capture and in the file, ns, of frames that are neighbours in
    /// both.
    pub spacing_error_ns: Quantiles,
    /// The most frequent numbers of times that contents were received.
    pub occurrences: Vec<Occurrence>,
}

/// A run of frames, numbered from 1 in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Run {
    pub first: u64,
    pub last: u64,
}

/// A number of contents of the file that were received equally often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Occurrence {
    /// Number of times that each was received.
    pub times: u64,
    /// Number of different contents.
    pub contents: u64,
}

impl Matched {
    /// Compares the frames received with those sent, by content.
    pub(super) fn of(arrivals: &Arrivals, sent: u64) -> Self {
        let index = &arrivals.index;
        let mut sums = Sums { sent, frames: index.len(), ..Sums::default() };
        let mut fates = vec![FrameFate::Single; index.entries.len()];
        for places in index.repeats() {
            sums.repeated(index, places, &mut fates);
        }
        for (place, fates) in (0..).zip(&fates) {
            let is_missing = match fates {
                FrameFate::Single => sums.single(&index.entries[place as usize], place),
                FrameFate::Missing => true,
                FrameFate::There => false,
            };
            if is_missing {
                sums.gaps.add(place + 1);
            }
        }
        let altered = arrivals.similar.min(sums.missing);
        let outcome = Outcome {
            received: sums.received,
            lost: sums.missing - altered,
            duplicates: sums.duplicates,
            reordered: arrivals.reordered,
            surplus: sums.surplus,
            ..Outcome::default()
        };
        Self {
            outcome,
            in_file: index.len(),
            sent,
            altered,
            extra: arrivals.extra + (arrivals.similar - altered),
            late: arrivals.late.quantiles(),
            gaps: sums.gaps,
            spacing_error_ns: arrivals.gaps.quantiles(),
            occurrences: sums.occurrences(),
        }
    }

    /// Collects the reasons against completeness.
    pub(super) fn judge(mut self) -> Self {
        let it = &mut self.outcome;
        it.judge(&[
            (self.in_file == 0 && !it.unreadable, "the file to compare with holds no frames"),
            (it.lost > 0, "frames are missing"),
            (self.altered > 0, "frames were altered on the way"),
            (it.duplicates > 0, "frames are there more often than they were sent"),
        ]);
        self
    }
}

impl Gaps<Run> {
    /// Adds a missing frame; calls are in the order of the file.
    fn add(&mut self, number: u64) {
        match &mut self.last {
            Some(run) if run.last + 1 == number => run.last = number,
            _ => {
                self.count += 1;
                self.last = Some(Run { first: number, last: number });
            }
        }
        if self.count == 1 {
            self.first = self.last;
        }
    }
}

/// The result for one frame of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameFate {
    /// Its content occurs once.
    Single,
    /// Its content occurs several times, and this one is missing.
    Missing,
    /// Its content occurs several times, and this one is not missing.
    There,
}

#[derive(Debug, Default)]
struct Sums {
    sent: u64,
    frames: u64,
    received: u64,
    missing: u64,
    duplicates: u64,
    surplus: u64,
    gaps: Gaps<Run>,
    times: BTreeMap<u64, u64>,
}

impl Sums {
    /// Returns how often the frame at a place was sent.
    fn expected(&self, place: u64) -> u64 {
        self.sent.saturating_sub(place).div_ceil(self.frames)
    }

    /// Counts one content; returns how many of its frames are missing.
    fn content(&mut self, expected: u64, got: u64) -> u64 {
        let missing = expected.saturating_sub(got);
        self.received += expected.min(got);
        self.missing += missing;
        *if expected > 0 { &mut self.duplicates } else { &mut self.surplus } += got.saturating_sub(expected);
        *self.times.entry(got).or_default() += 1;
        missing
    }

    fn single(&mut self, entry: &Entry, place: u64) -> bool {
        let missing = self.content(self.expected(place), entry.got.into());
        missing > u64::from(matches!(entry.claim(), Claim::Similar(_)))
    }

    fn repeated(&mut self, index: &Index, places: &[u32], fates: &mut [FrameFate]) {
        let sum = |of: &dyn Fn(u32) -> u64| places.iter().map(|place| of(*place)).sum::<u64>();
        let expected = sum(&|place| self.expected(place.into()));
        let got = sum(&|place| index.entries[place as usize].got.into());
        let mut missing = self.content(expected, got);
        for place in places {
            let is_free = index.entries[*place as usize].claim() == Claim::Free;
            let is_missing = missing > 0 && is_free;
            missing -= u64::from(is_missing);
            fates[*place as usize] = if is_missing { FrameFate::Missing } else { FrameFate::There };
        }
    }

    fn occurrences(&self) -> Vec<Occurrence> {
        let mut all: Vec<_> =
            self.times.iter().map(|(&times, &contents)| Occurrence { times, contents }).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.contents));
        all.truncate(OCCURRENCES_MAX);
        all.sort_by_key(|one| one.times);
        all
    }
}
