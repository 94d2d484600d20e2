//! Segments of Parquet: each counts whole and once, and their ledgers show what is missing. It meters nothing.

use super::counters::{Counters, Line, OF_APPLICATION, add, add_ignored};
use super::records::Records;
use crate::show::{self, LiveLine};
use anyhow::bail;
use quaff::flows::FlowReport;
use quaff_flow::collector::FlowSum;
use quaff_flow::record::{FlowRecord, FlowSink};
use quaff_parquet::{SegmentLedger, SegmentReader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The segments of a run by their numbers, each with the digest of its row groups.
type Digests = BTreeMap<u64, String>;

/// The segments that were read, and the sum of their ledgers.
#[derive(Debug, Default)]
pub(super) struct ReadSegments {
    /// The files whose records are in the sums.
    files: Vec<PathBuf>,
    /// The runs by probe and start.
    runs: BTreeMap<(String, u64), Digests>,
    /// Start and number of segments that cannot be read, by their names.
    unread: BTreeSet<(u64, u64)>,
    /// By the ledgers of the segments.
    counters: Counters,
}

/// The records of a segment, counted on their way.
struct Sums<'a> {
    records: &'a mut dyn Records,
    found: FlowSum,
    line: &'a mut Line,
}

/// Reads segments. One that cannot be read is left out, and costs no other one.
///
/// # Errors
/// None of them can be read.
pub(super) fn read(
    files: &[PathBuf],
    records: &mut dyn Records,
    live: LiveLine,
) -> anyhow::Result<ReadSegments> {
    let begun = Instant::now();
    let mut line = Line::new(live, "segments", files.len());
    let mut read = ReadSegments::default();
    for path in files {
        if line.read > 0 && !records.takes_more() {
            break;
        }
        read.add(path, records, &mut line);
        line.read += 1;
    }
    line.end();
    if read.files.is_empty() {
        bail!("no segment can be read: {}", read.counters.reasons.lossy.join("; "));
    }
    read.counters.seconds = begun.elapsed().as_secs_f64();
    Ok(read)
}

impl ReadSegments {
    fn add(&mut self, path: &Path, records: &mut dyn Records, line: &mut Line) {
        let segment = match self.open(path) {
            Ok(Some(segment)) => segment,
            Ok(None) => return,
            Err(error) => {
                self.unread.extend(number_in_name(path));
                return self.counters.reasons.lossy.push(format!("{error}: its records are in no sum"));
            }
        };
        let has_applications = segment.has_applications();
        self.counters.lacks_applications |= !has_applications;
        records.lack(if has_applications { &[] } else { &OF_APPLICATION });
        let mut sums = Sums { records, found: FlowSum::default(), line };
        let ended = segment.read(&mut sums);
        let (found, ledger) = (sums.found, segment.ledger());
        self.files.push(path.to_owned());
        self.count(found, ledger);
        let words = match ended {
            Err(error) => error.to_string(),
            Ok(()) if found != ledger.kept => {
                format!("{} has other records than its ledger says", path.display())
            }
            Ok(()) => return,
        };
        self.counters.reasons.lossy.push(format!(
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
                true => self.counters.reasons.notes.push(format!("{name} is there twice, and counts once")),
                false => self.counters.reasons.unknown.push(format!(
                    "{name} has other records than segment {number} of the same run, and is in no sum"
                )),
            }
            return Ok(None);
        }
        segment.verify()?;
        run.insert(ledger.sequence, ledger.sha256.clone());
        if !ledger.is_conserved {
            self.counters
                .reasons
                .unknown
                .push(format!("the counters of the meter did not add up when {} was closed", path.display()));
        }
        Ok(Some(segment))
    }

    fn count(&mut self, found: FlowSum, ledger: &SegmentLedger) {
        add(&mut self.counters.kept, found);
        add(&mut self.counters.missed, ledger.missed);
        add_ignored(&mut self.counters.ignored, &ledger.ignored);
    }

    /// The files, and the ledger of all segments together, as that of a run.
    pub(super) fn report(mut self, needs_applications: bool) -> (Vec<PathBuf>, FlowReport) {
        let missed = self.counters.missed;
        if missed.records > 0 {
            self.counters.reasons.lossy.push(format!(
                "missed when the segments were written: {} with {}",
                show::number_of(missed.records, "record"),
                show::number_of(missed.packets, "packet")
            ));
        }
        let gaps: Vec<_> = self.gaps().collect();
        self.counters.reasons.unknown.extend(gaps);
        (self.files, self.counters.report(needs_applications))
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

impl FlowSink for Sums<'_> {
    fn take(&mut self, records: &[FlowRecord]) {
        for record in records {
            self.records.add(record);
            let (packets, bytes) = (record.packets(), record.bytes());
            add(&mut self.found, FlowSum { records: 1, packets, bytes });
        }
        self.line.count(records.len());
    }
}
