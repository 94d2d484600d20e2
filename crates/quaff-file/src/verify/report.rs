//! The report of a verification, as plain data.

use super::injection::Injected;
use super::ledger::Ledger;
use super::sequence::{Gap, Sequence, StreamEnd};
use crate::read::SkippedBytes;
use quaff_stream::LossReport;
use quaff_stream::proof::{CopyReport, Numbers};
use serde::Serialize;

/// Reasons that prove that the capture lacks packets that were sent to it.
pub const LOST_HERE: [&str; 2] = [ACKNOWLEDGED_MISSING, MIRRORED_MISSING];
pub(super) const ACKNOWLEDGED_MISSING: &str = "data that TCP acknowledges are missing";
pub(super) const MIRRORED_MISSING: &str = "mirrored packets are missing, by their ERSPAN numbers";
pub(super) const SYNS_MISSING: &str =
    "packets that open connections (SYN, SYN-ACK) are missing, although both ends continued after them";
/// Reasons that packets may be missing.
pub(super) const FINS_MISSING: &str = "ends of connections are missing that both sides have named";
pub(super) const LEAPS: &str =
    "sequence numbers leap by more than 128 MiB: data are missing, or another connection has the same ports";
pub(super) const NUMBERS_MISSING: &str =
    "numbers of RTP or GRE are missing: their packets were lost before the capture, or by it";
pub(super) const UNTRACKED: &str = "too many data are missing at once to follow them all";

/// The part that all reports have in common. Counts are of frames.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Outcome {
    /// No frame is missing, duplicate or damaged, the files are readable to their ends, and their counters
    /// agree with their packets.
    pub complete: bool,
    /// There was something to judge by: numbered frames, a file that was sent, or evidence of loss in the capture.
    #[serde(rename = "judged")]
    pub is_judged: bool,
    /// The reasons why the capture is not complete; empty if it is.
    pub reasons: Vec<String>,
    /// Different frames in the files.
    pub received: u64,
    /// Numbered frames, or frames of the file sent, that are missing.
    #[serde(skip)]
    pub lost: u64,
    /// The same, or where no frame is numbered the estimate of [`Missing`].
    #[serde(rename = "lost")]
    pub lost_total: u64,
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
    /// The reason why a file could not be read to its end.
    pub error: Option<String>,
    /// A file could not be read at all.
    pub unreadable: bool,
}

impl Outcome {
    /// Collects the reasons against completeness: those of `found` that are true, and those common to all reports.
    pub(super) fn judge(&mut self, found: &[(bool, &str)]) {
        let recorded = |ledger: &Ledger| ledger.recorded_drops.max(ledger.epb_dropcount);
        let recorded = self.ledger.as_ref().map_or(0, recorded);
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
        self.lost_total = self.lost;
    }
}

/// The verification of a capture by sequence numbers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The result in one line.
    pub verdict: String,
    /// The packets that are provably missing; `None` if none is, or if the frames have numbers.
    pub missing: Option<Missing>,
    /// Probes whose contents have changed since they were sent.
    pub corrupt: u64,
    /// Frames without a probe header.
    pub foreign: u64,
    /// The worst end of all streams; `None` without streams.
    pub end: Option<StreamEnd>,
    /// The gaps of all streams; the first and the last by time.
    pub gaps: Gaps<Gap>,
    /// Counts by stream, in the order of stream numbers.
    pub streams: Vec<Stream>,
    pub tcp: Tcp,
    /// Numbers that senders give their packets.
    pub numbers: Numbers,
    /// Packets that the capture has twice.
    pub copies: CopyReport,
}

/// Packets that are provably missing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    /// Estimated number of packets, and a 95 % interval of it; no upper end where nothing was captured.
    pub packets: u64,
    pub packets_low: u64,
    pub packets_high: Option<u64>,
    /// Those of them that are known by the numbers of mirrored packets.
    pub mirrored_packets: u64,
    /// TCP connections that lack data, of those whose data were acknowledged.
    pub connections_with_loss: u64,
    pub connections_with_evidence: u64,
    /// Missing bytes that one end alone has named: the capture or the network may have lost them.
    pub undecided_bytes: u64,
    /// Times before the first loss and after the last one, ns since 1970.
    pub from_ns: u64,
    pub to_ns: u64,
    pub place: LossPlace,
    /// The reason for that place.
    pub because: String,
}

/// The place of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossPlace {
    ThisMachine,
    BeforeIt,
    Unknown,
}

/// The evidence of TCP connections.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tcp {
    #[serde(flatten)]
    pub loss: LossReport,
    /// The packets that were removed on purpose; `None` if none should be.
    pub injected: Option<Injected>,
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
    /// The capture has numbered frames, or should have: these decide, and TCP is a note only.
    pub fn has_numbers(&self) -> bool {
        self.outcome.received > 0 || self.corrupt > 0 || self.outcome.lost > 0
    }

    /// Returns the packets that were lost by the capture or before it: an estimate by TCP, and mirrored ones by number.
    pub fn lost_here(&self) -> u64 {
        let is_decided = self.has_numbers();
        if is_decided { 0 } else { self.tcp.loss.acked_unseen_packets_estimate + self.numbers.erspan.lost }
    }

    /// Returns the number of connections and senders that are evidence.
    pub fn witnesses(&self) -> u64 {
        self.tcp.loss.flows_with_evidence + self.numbers.sources()
    }
}
