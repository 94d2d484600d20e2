//! What the comparison comes to.

use super::arrivals::Arrivals;
use super::index::{Claim, Entry, Index};
use super::spread::Quantiles;
use crate::read::Jumps;
use crate::verify::Ledger;
use serde::Serialize;
use std::collections::BTreeMap;

/// No file is sent so often in so many different numbers that a longer list would be read.
const OCCURRENCES_MAX: usize = 16;

/// A capture beside the file that was sent. Counts are of frames; what was sent is
/// `received + altered + lost`, and `frames` is `received + duplicates + surplus + altered + extra`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Matched {
    /// Nothing is missing, altered or there too often, and both files are readable to their ends.
    pub complete: bool,
    /// Why it is not, in words; empty when it is.
    pub reasons: Vec<String>,
    /// Frames in the file.
    pub in_file: u64,
    /// Frames that were sent: those of the file, perhaps several times over.
    pub sent: u64,
    /// Frames that came as they are in the file.
    pub received: u64,
    /// Frames that did not come, nor any that resembles them.
    pub lost: u64,
    /// Frames that came more often than they were sent.
    pub duplicates: u64,
    /// Frames that came behind one that is behind them in the file.
    pub reordered: u64,
    /// Frames that came with other bytes: they resemble one that is missing there.
    pub altered: u64,
    /// Frames of the file that should not have been sent: `expect` ends before them.
    pub surplus: u64,
    /// Frames that have nothing to do with the file.
    pub extra: u64,
    /// By how many places of the file those came late that were reordered.
    pub late: Quantiles,
    /// Runs of frames that are missing, in the file.
    pub gaps: Gaps,
    /// By how much the time between two frames differs from the file's, ns: of each two that follow
    /// each other in both.
    pub spacing_error_ns: Quantiles,
    /// How many contents of the file came how often; those with the most contents.
    pub occurrences: Vec<Occurrence>,
    /// All frames in the capture.
    pub frames: u64,
    /// Bytes read, of both.
    pub bytes: u64,
    /// How long it took, s.
    pub seconds: f64,
    /// What the capture says of itself; `None` when it says nothing.
    pub ledger: Option<Ledger>,
    /// Bytes that made no sense and were jumped over.
    pub jumps: Jumps,
    /// What there is to know of the files.
    pub notes: Vec<String>,
    /// What kept a file from being read to its end.
    pub error: Option<String>,
    /// A file could not be read at all.
    pub unreadable: bool,
}

/// Runs of frames of the file that are missing, in one loop at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// The first.
    pub first: Option<Run>,
    /// The last.
    pub last: Option<Run>,
}

/// A run of frames, numbered from 1 as they stand in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// How many contents of the file came how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Occurrence {
    /// How often they came.
    pub times: u64,
    /// How many different contents.
    pub contents: u64,
}

impl Matched {
    /// Counts by content what came too often and too seldom.
    pub(super) fn of(arrivals: &Arrivals, sent: u64) -> Self {
        let index = &arrivals.index;
        let mut sums = Sums { sent, frames: index.len(), ..Sums::default() };
        let mut kinds = vec![Kind::Single; index.entries.len()];
        for places in index.repeats() {
            sums.repeated(index, places, &mut kinds);
        }
        for (place, kind) in (0..).zip(&kinds) {
            let is_missing = match kind {
                Kind::Single => sums.single(&index.entries[place as usize], place),
                Kind::Missing => true,
                Kind::There => false,
            };
            if is_missing {
                sums.gaps.add(place + 1);
            }
        }
        let altered = arrivals.alike.min(sums.missing);
        Self {
            in_file: index.len(),
            sent,
            received: sums.received,
            lost: sums.missing - altered,
            duplicates: sums.duplicates,
            reordered: arrivals.reordered,
            altered,
            surplus: sums.surplus,
            extra: arrivals.extra + (arrivals.alike - altered),
            late: arrivals.late.quantiles(),
            gaps: sums.gaps,
            spacing_error_ns: arrivals.gaps.quantiles(),
            occurrences: sums.occurrences(),
            ..Self::default()
        }
    }

    /// Looks for what speaks against completeness.
    pub(super) fn judge(mut self) -> Self {
        let recorded = self.ledger.as_ref().map_or(0, |ledger| ledger.recorded_drops);
        let found = [
            (self.in_file == 0 && !self.unreadable, "the file to compare with holds no frames"),
            (self.lost > 0, "frames are missing"),
            (self.altered > 0, "frames were altered on the way"),
            (self.duplicates > 0, "frames are there more often than they were sent"),
            (self.surplus > 0, "there are more frames than were expected"),
            (recorded > self.lost, "the capture recorded drops"),
            (self.jumps.count > 0, "bytes had to be jumped over"),
        ];
        self.reasons = found.into_iter().filter(|(found, _)| *found).map(|(_, what)| what.into()).collect();
        self.reasons.extend(self.ledger.iter().flat_map(|ledger| ledger.contradictions.iter().cloned()));
        self.reasons.extend(self.error.iter().cloned());
        self.complete = self.reasons.is_empty();
        self
    }
}

impl Gaps {
    /// Takes in a frame that is missing; they come in order.
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

/// A frame of the file, while sums are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its content stands once.
    Single,
    /// Its content stands several times, and this one is missing.
    Missing,
    /// Its content stands several times, and this one is not.
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
    gaps: Gaps,
    times: BTreeMap<u64, u64>,
}

impl Sums {
    /// How often the frame at a place was sent.
    fn expected(&self, place: u64) -> u64 {
        self.sent.saturating_sub(place).div_ceil(self.frames)
    }

    /// Says how many did not come as they were sent.
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
        missing > u64::from(matches!(entry.claim(), Claim::Alike(_)))
    }

    fn repeated(&mut self, index: &Index, places: &[u32], kinds: &mut [Kind]) {
        let sum = |of: &dyn Fn(u32) -> u64| places.iter().map(|place| of(*place)).sum::<u64>();
        let expected = sum(&|place| self.expected(place.into()));
        let got = sum(&|place| index.entries[place as usize].got.into());
        let mut missing = self.content(expected, got);
        for place in places {
            let is_free = index.entries[*place as usize].claim() == Claim::Free;
            let is_missing = missing > 0 && is_free;
            missing -= u64::from(is_missing);
            kinds[*place as usize] = if is_missing { Kind::Missing } else { Kind::There };
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
