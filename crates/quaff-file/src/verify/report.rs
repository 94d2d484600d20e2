//! What a verification came to, as plain data.

use super::ledger::Ledger;
use super::sequence::{End, Gap, Sequence};
use crate::read::Jumps;
use serde::Serialize;

/// The answer, and all that it rests on. Counts are of frames.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Nothing is missing, nothing came twice or damaged, the files are readable to their ends, and
    /// what they say of themselves is true.
    pub complete: bool,
    /// Why it is not, in words; empty when it is.
    pub reasons: Vec<String>,
    /// Different stamped frames that are in the files.
    pub received: u64,
    /// Sequence numbers that are missing.
    pub lost: u64,
    /// Frames that were there before.
    pub duplicates: u64,
    /// Frames that came behind one with a higher number.
    pub reordered: u64,
    /// Numbers up to the highest received that lie behind those expected.
    pub surplus: u64,
    /// Frames that were stamped once, and are not as they were sent.
    pub corrupt: u64,
    /// Frames that carry no stamp.
    pub foreign: u64,
    /// All frames in the files.
    pub frames: u64,
    /// Bytes read.
    pub bytes: u64,
    /// How long it took, s.
    pub seconds: f64,
    /// Whether the streams were seen to their ends; `None` when there are no streams.
    pub end: Option<End>,
    /// The holes.
    pub gaps: Gaps,
    /// Each stream's own, in the order of their numbers.
    pub streams: Vec<Stream>,
    /// What the files say of themselves; `None` when they say nothing.
    pub ledger: Option<Ledger>,
    /// Bytes that made no sense and were jumped over.
    pub jumps: Jumps,
    /// What there is to know of the files: layouts of other days, and what was jumped over.
    pub notes: Vec<String>,
    /// What kept a file from being read to its end.
    pub error: Option<String>,
    /// A file could not be read at all.
    pub unreadable: bool,
}

/// The holes of all streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// The first by its time.
    pub first: Option<Gap>,
    /// The last by its time.
    pub last: Option<Gap>,
}

/// What became of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Its number: the UDP source port of its frames.
    pub stream: u16,
    /// Different frames that are in the files.
    pub received: u64,
    /// Sequence numbers that are missing.
    pub lost: u64,
    /// Frames that were there before.
    pub duplicates: u64,
    /// Frames that came behind one with a higher number.
    pub reordered: u64,
    /// Numbers up to the highest received that lie behind those expected.
    pub surplus: u64,
    /// The highest number received.
    pub highest: u64,
    /// Whether it was seen to its end.
    pub end: End,
}

impl Gaps {
    /// Takes in the gaps of one stream: how many, and those at its ends.
    pub(super) fn add(&mut self, count: u64, ends: Option<(Gap, Gap)>) {
        let Some((first, last)) = ends else { return };
        let time = |gap: &Gap| (gap.before_ns.or(gap.after_ns), gap.stream);
        self.count += count;
        self.first = [self.first, Some(first)].into_iter().flatten().min_by_key(time);
        self.last = [self.last, Some(last)].into_iter().flatten().max_by_key(time);
    }
}

impl Stream {
    pub(super) fn new(stream: u16, sequence: &Sequence, expect: Option<u64>) -> Self {
        let highest = sequence.highest();
        Self {
            stream,
            received: sequence.received,
            lost: sequence.lost,
            duplicates: sequence.duplicates,
            reordered: sequence.reordered,
            surplus: expect.map_or(0, |count| highest.saturating_add(1).saturating_sub(count)),
            highest,
            end: sequence.end(),
        }
    }
}

impl Report {
    /// Looks for what speaks against completeness.
    pub(super) fn judge(mut self) -> Self {
        let recorded = self.ledger.as_ref().map_or(0, |ledger| ledger.recorded_drops);
        let found = [
            (self.lost > 0, "frames are missing"),
            (self.end == Some(End::Missing), "the last frame of the stream is missing"),
            (self.duplicates > 0, "frames are there more than once"),
            (self.corrupt > 0, "frames are damaged"),
            (self.surplus > 0, "there are more frames than were expected"),
            (recorded > self.lost, "the capture recorded drops"),
            (self.jumps.count > 0, "bytes had to be jumped over"),
            (self.received == 0, "there are no stamped frames"),
        ];
        self.reasons = found.into_iter().filter(|(found, _)| *found).map(|(_, what)| what.into()).collect();
        self.reasons.extend(self.ledger.iter().flat_map(|ledger| ledger.contradictions.iter().cloned()));
        self.reasons.extend(self.error.iter().cloned());
        self.complete = self.reasons.is_empty();
        self
    }
}
