//! The report of a verification, as plain data.

use super::ledger::Ledger;
use super::sequence::{Gap, Sequence, StreamEnd};
use crate::read::SkippedBytes;
use serde::Serialize;

/// The part that all reports have in common. Counts are of frames.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// No frame is missing, duplicate or damaged, the files are readable to their ends, and their counters
    /// agree with their packets.
    pub complete: bool,
    /// There was something to judge by: numbered frames, a file that was sent, or evidence of loss in the capture.
    #[serde(rename = "judged")]
    pub is_judged: bool,
    /// Why the capture is not complete; empty if it is.
    pub reasons: Vec<String>,
    /// Different frames in the files.
    pub received: u64,
    pub lost: u64,
    pub duplicates: u64,
    /// Frames that came after one with a higher number, or after one that follows them in the file sent.
    pub reordered: u64,
    /// Frames beyond the expected number.
    pub surplus: u64,
    pub frames: u64,
    /// Bytes of all files read.
    pub bytes: u64,
    /// Duration of the verification, s.
    pub seconds: f64,
    /// The counters in the capture; `None` without counters.
    pub ledger: Option<Ledger>,
    /// Damaged bytes that were skipped.
    pub jumps: SkippedBytes,
    /// Notes about the files: historical layouts, skipped bytes.
    pub notes: Vec<String>,
    /// Why a file could not be read to its end.
    pub error: Option<String>,
    /// A file could not be read at all.
    pub unreadable: bool,
}

impl Outcome {
    /// Collects the reasons against completeness: those of `found` that are true, and those common to all reports.
    pub(super) fn judge(&mut self, found: &[(bool, &str)]) {
        let recorded = self.ledger.as_ref().map_or(0, |ledger| ledger.recorded_drops);
        let common = [
            (self.surplus > 0, "there are more frames than were expected"),
            (recorded > self.lost, "the capture recorded drops"),
            (self.jumps.count > 0, "damaged bytes had to be skipped"),
        ];
        let all = found.iter().chain(&common).filter(|(found, _)| *found);
        self.reasons = all.map(|(_, what)| (*what).to_owned()).collect();
        self.reasons.extend(self.ledger.iter().flat_map(|ledger| ledger.contradictions.iter().cloned()));
        self.reasons.extend(self.error.iter().cloned());
        (self.complete, self.is_judged) = (self.reasons.is_empty(), true);
    }
}

/// The verification of a capture by sequence numbers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Probes whose contents have changed since they were sent.
    pub corrupt: u64,
    /// Frames without a probe header.
    pub foreign: u64,
    /// The worst end of a stream; `None` without streams.
    pub end: Option<StreamEnd>,
    /// The gaps of all streams; the first and the last by time.
    pub gaps: Gaps<Gap>,
    /// Counts by stream, in the order of stream numbers.
    pub streams: Vec<Stream>,
}

/// Runs of missing frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gaps<T> {
    pub count: u64,
    pub first: Option<T>,
    pub last: Option<T>,
}

impl<T> Default for Gaps<T> {
    fn default() -> Self {
        Self { count: 0, first: None, last: None }
    }
}

/// The counts of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Stream {
    /// Stream number: the UDP source port of its frames.
    pub stream: u16,
    /// Different frames in the files.
    pub received: u64,
    pub lost: u64,
    pub duplicates: u64,
    /// Frames that came after one with a higher number.
    pub reordered: u64,
    /// Numbers from the expected count up to the highest received.
    pub surplus: u64,
    pub highest: u64,
    pub end: StreamEnd,
}

impl Gaps<Gap> {
    /// Adds the gaps of one stream: their number, the first and the last.
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
    /// Collects the reasons against completeness.
    pub(super) fn judge(mut self) -> Self {
        let it = &mut self.outcome;
        it.judge(&[
            (it.lost > 0, "frames are missing"),
            (self.end == Some(StreamEnd::Missing), "the last frame of the stream is missing"),
            (it.duplicates > 0, "frames are there more than once"),
            (self.corrupt > 0, "frames are damaged"),
        ]);
        // Frames without numbers prove nothing, unless something else does.
        it.is_judged = it.received > 0 || self.corrupt > 0 || !it.reasons.is_empty();
        it.complete &= it.is_judged;
        self
    }
}
