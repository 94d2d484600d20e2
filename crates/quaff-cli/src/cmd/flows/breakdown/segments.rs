//! The segments of a report: each counts whole and once, and their ledgers show what is missing. It meters nothing.

use crate::show::{self, LiveLine};
use anyhow::bail;
use quaff::flows::{FlowReport, Ignored};
use quaff::tally::{Reasons, RunSummary, Verdict};
use quaff_flow::collector::FlowSum;
use quaff_flow::ledger::Count;
use quaff_flow::record::{FlowRecord, FlowSink};
use quaff_flow::summary::Summary;
use quaff_parquet::{SegmentLedger, SegmentReader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval of the progress line.
const DRAW: Duration = Duration::from_millis(500);

/// The segments of a run by their numbers, each with the digest of its row groups.
type Digests = BTreeMap<u64, String>;

/// The segments that were read, and the sum of their ledgers.
#[derive(Debug, Default)]
pub(super) struct ReadSegments {
    /// The files whose records are in the sums.
    pub(super) files: Vec<PathBuf>,
    /// The runs by probe and start.
    runs: BTreeMap<(String, u64), Digests>,
    /// Start and number of segments that cannot be read, by their names.
    unread: BTreeSet<(u64, u64)>,
    /// By the ledgers of the segments: in the records, missed by the writer, and in no flow.
    kept: FlowSum,
    missed: FlowSum,
    ignored: Ignored,
    ignored_sum: Count,
    has_applications: bool,
    reasons: Reasons,
    seconds: f64,
}

/// The records of a segment on their way into the sums.
struct Sums<'a> {
    summary: &'a mut Summary,
    found: FlowSum,
    has_applications: bool,
    line: &'a mut Line,
}

/// The progress line.
struct Line {
    live: LiveLine,
    drawn: Instant,
    /// Segments before the present one, and all of them.
    read: usize,
    all: usize,
    records: u64,
}

/// Reads segments into sums. One that cannot be read is in none of them, and costs no other one.
///
/// # Errors
/// None of them can be read.
pub(super) fn read(files: &[PathBuf], summary: &mut Summary, live: LiveLine) -> anyhow::Result<ReadSegments> {
    let begun = Instant::now();
    let mut line = Line { live, drawn: begun, read: 0, all: files.len(), records: 0 };
    let mut read = ReadSegments::default();
    for path in files {
        read.add(path, summary, &mut line);
        line.read += 1;
    }
    live.draw("");
    if read.files.is_empty() {
        bail!("no segment can be read: {}", read.reasons.lossy.join("; "));
    }
    read.seconds = begun.elapsed().as_secs_f64();
    Ok(read)
}

impl ReadSegments {
    fn add(&mut self, path: &Path, summary: &mut Summary, line: &mut Line) {
        let segment = match self.open(path) {
            Ok(Some(segment)) => segment,
            Ok(None) => return,
            Err(error) => {
                self.unread.extend(number_in_name(path));
                return self.reasons.lossy.push(format!("{error}: its records are in no sum"));
            }
        };
        let mut sums = Sums { summary, found: FlowSum::default(), has_applications: false, line };
        let ended = segment.read(&mut sums);
        let (found, ledger) = (sums.found, segment.ledger());
        self.has_applications |= sums.has_applications;
        self.files.push(path.to_owned());
        self.count(found, ledger);
        let words = match ended {
            Err(error) => error.to_string(),
            Ok(()) if found != ledger.kept => {
                format!("{} has other records than its ledger says", path.display())
            }
            Ok(()) => return,
        };
        self.reasons.lossy.push(format!(
            "{words}: {} of its {} are in the sums",
            show::count(found.records),
            show::number_of(ledger.kept.records, "record")
        ));
    }

    /// Opens a segment that is new and whole.
    fn open(&mut self, path: &Path) -> quaff_parquet::Result<Option<SegmentReader>> {
        let segment = SegmentReader::open(path)?;
        let ledger = segment.ledger();
        let run = self.runs.entry((ledger.probe.clone(), ledger.boot)).or_default();
        if let Some(sha256) = run.get(&ledger.sequence) {
            let (name, number) = (path.display(), ledger.sequence);
            match *sha256 == ledger.sha256 {
                true => self.reasons.notes.push(format!("{name} is there twice, and counts once")),
                false => self.reasons.unknown.push(format!(
                    "{name} has other records than segment {number} of the same run, and is in no sum"
                )),
            }
            return Ok(None);
        }
        segment.verify()?;
        run.insert(ledger.sequence, ledger.sha256.clone());
        if !ledger.is_conserved {
            self.reasons
                .unknown
                .push(format!("the counters of the meter did not add up when {} was closed", path.display()));
        }
        Ok(Some(segment))
    }

    fn count(&mut self, found: FlowSum, ledger: &SegmentLedger) {
        add(&mut self.kept, found);
        add(&mut self.missed, ledger.missed);
        let (sum, of) = (&mut self.ignored, &ledger.ignored);
        for (sum, of) in [
            (&mut sum.not_ip, of.not_ip),
            (&mut sum.truncated, of.truncated),
            (&mut sum.not_sampled, of.not_sampled),
        ] {
            *sum = sum.saturating_add(of.packets);
            self.ignored_sum.packets = self.ignored_sum.packets.saturating_add(of.packets);
            self.ignored_sum.bytes = self.ignored_sum.bytes.saturating_add(of.bytes);
        }
    }

    /// The ledger of all segments together, as that of a run. Nothing is known of packets that were dropped before the
    /// meter.
    pub(super) fn report(&self, needs_applications: bool) -> FlowReport {
        let (kept, missed, ignored) = (self.kept, self.missed, self.ignored_sum);
        let mut reasons = self.reasons.clone();
        if missed.records > 0 {
            reasons.lossy.push(format!(
                "missed when the segments were written: {} with {}",
                show::number_of(missed.records, "record"),
                show::number_of(missed.packets, "packet")
            ));
        }
        reasons.unknown.extend(self.gaps());
        if needs_applications && !self.has_applications && kept.records > 0 {
            reasons.notes.push(
                "no record has an application: segments have them if the meter ran with -T '… %applicationName'"
                    .to_owned(),
            );
        }
        let verdict = match (reasons.lossy.is_empty(), reasons.unknown.is_empty()) {
            (true, true) => Verdict::Lossless,
            (true, false) => Verdict::Unknown,
            (false, _) => Verdict::Lossy,
        };
        let mut exported = kept;
        add(&mut exported, missed);
        FlowReport {
            packets: exported.packets.saturating_add(ignored.packets),
            bytes: exported.bytes.saturating_add(ignored.bytes),
            flows_exported: exported.records,
            packets_in_flows: exported.packets,
            bytes_in_flows: exported.bytes,
            packets_ignored: ignored.packets,
            bytes_ignored: ignored.bytes,
            ignored: self.ignored,
            run: RunSummary {
                verdict,
                lossless: verdict == Verdict::Lossless,
                reasons,
                seconds: self.seconds,
                ..RunSummary::default()
            },
            ..FlowReport::default()
        }
    }

    /// Numbers between the first and the last one of a run that no segment has. Those before and after may be in
    /// folders that were not named.
    fn gaps(&self) -> impl Iterator<Item = String> {
        self.runs.iter().filter_map(|((probe, boot), run)| {
            let (first, last) = (*run.first_key_value()?.0, *run.last_key_value()?.0);
            let numbers = (*boot, first)..=(*boot, last);
            let unread = self.unread.range(numbers).filter(|(_, number)| !run.contains_key(number));
            let lacking = (last - first).saturating_sub((run.len() - 1 + unread.count()) as u64);
            let is_lacking =
                |number: &u64| !run.contains_key(number) && !self.unread.contains(&(*boot, *number));
            let number = (first..=last).find(is_lacking)?;
            Some(format!(
                "segments of the run {probe}-{boot} are not there: {}, the first is number {number}; they were lost, \
                 or are in another place",
                show::count(lacking)
            ))
        })
    }
}

/// Start and number of the run in the name of a segment.
fn number_in_name(path: &Path) -> Option<(u64, u64)> {
    let (rest, number) = path.file_stem()?.to_str()?.rsplit_once('-')?;
    Some((rest.rsplit_once('-')?.1.parse().ok()?, number.parse().ok()?))
}

/// Adds sums of files, which may claim any number.
fn add(sum: &mut FlowSum, more: FlowSum) {
    sum.records = sum.records.saturating_add(more.records);
    sum.packets = sum.packets.saturating_add(more.packets);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

impl FlowSink for Sums<'_> {
    fn take(&mut self, records: &[FlowRecord]) {
        for record in records {
            self.summary.add(record);
            let (packets, bytes) = (record.packets(), record.bytes());
            add(&mut self.found, FlowSum { records: 1, packets, bytes });
            self.has_applications |=
                record.extras.as_ref().is_some_and(|extras| extras.application.is_some());
        }
        self.line.records += records.len() as u64;
        if self.line.live.is_live && self.line.drawn.elapsed() >= DRAW {
            self.line.drawn = Instant::now();
            self.line.draw();
        }
    }
}

impl Line {
    fn draw(&self) {
        let [read, all, records] = [self.read as u64, self.all as u64, self.records].map(show::count);
        self.live.draw(&format!("{read} of {all} segments | {records} records"));
    }
}
