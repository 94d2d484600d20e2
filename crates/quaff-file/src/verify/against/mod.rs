//! Comparison of a capture with the file that was sent, by the contents of frames.
//!
//! The file is read once and takes 40 bytes of memory per frame; the capture is streamed. This module
//! reads files and counts; it never prints and never chooses an exit code.

mod arrivals;
mod index;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Matched, Occurrence, Run};

use super::ledger::LedgerBuilder;
use super::{Files, Progress};
use crate::read;
use arrivals::Arrivals;
use index::{Index, LOOPS_MAX};
use quaff_wire::decode::{Frame, Item};
use quaff_wire::fingerprint::{self, Mask};
use quaff_wire::format::clause;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of times that the file was sent.
    pub turns: u64,
    /// Number of frames sent, if not `turns` times those of the file.
    pub expect: Option<u64>,
    /// Parts of a frame that are not compared.
    pub mask: Mask,
    /// Options for reading; `follow` applies to the capture only.
    pub reading: read::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self { turns: 1, expect: None, mask: Mask::default(), reading: read::Options::default() }
    }
}

/// Reads `sent`, the files in the order in which they were sent, then `captures`, the files of one capture
/// in order, and compares them; calls `progress` every few MiB.
///
/// A file that cannot be read is part of the report, not an error: see [`Outcome::error`](super::Outcome::error).
pub fn against(
    sent: &[PathBuf],
    captures: &[PathBuf],
    options: Options,
    mut progress: impl FnMut(Progress),
) -> Matched {
    let started = Instant::now();
    let mut files = Files::default();
    let mut file = Sent::new(options.mask);
    let once = read::Options { follow: false, ..options.reading.clone() };
    for path in sent {
        files.read(path, &once, |item| file.item(&item), &mut progress);
    }
    let mut report = Matched::default();
    if !files.unreadable {
        let most = file.index.len().saturating_mul(LOOPS_MAX);
        let count = options.expect.unwrap_or_else(|| file.index.len().saturating_mul(options.turns));
        file.check(count > most, &mut files);
        let count = count.min(most);
        let mut capture = Capture::new(file, count);
        for path in captures {
            capture.ledger.begin();
            files.read(path, &options.reading, |item| capture.item(&item), &mut progress);
        }
        report = capture.finish(count, &mut files);
    }
    files.finish(&mut report.outcome, started);
    report.judge()
}

/// Collects the file that was sent.
#[derive(Debug)]
struct Sent {
    index: Index,
    mask: Mask,
    before_ns: u64,
    linktypes: BTreeSet<u16>,
    /// Frames truncated in the file.
    cut: u64,
    /// Frames that exceed the index.
    beyond: u64,
}

impl Sent {
    fn new(mask: Mask) -> Self {
        let (index, linktypes) = (Index::default(), BTreeSet::new());
        Self { index, mask, before_ns: 0, linktypes, cut: 0, beyond: 0 }
    }

    fn item(&mut self, item: &Item<'_>) {
        let Item::Frame(frame) = item else { return };
        self.cut += u64::from((frame.data.len() as u64) < u64::from(frame.wire_len));
        if !self.linktypes.contains(&frame.linktype) {
            self.linktypes.insert(frame.linktype);
        }
        let gap_ns = frame.time_ns.wrapping_sub(self.before_ns) as i64;
        self.before_ns = frame.time_ns;
        let sketch = fingerprint::sketch(frame.data, frame.linktype, &self.mask);
        let content = fingerprint::content(frame.data, frame.linktype, &self.mask);
        self.beyond += u64::from(!self.index.push(content, sketch, gap_ns));
    }

    /// Adds notes and errors about the file.
    fn check(&self, too_often: bool, files: &mut Files) {
        if self.cut > 0 && self.mask.snaplen.is_none() {
            let cut = self.cut;
            let words = "of the file are truncated, and are assumed to have been sent so";
            files.notes.push(clause(cut, "frame", words));
        }
        if self.beyond > 0 {
            files
                .errors
                .push(format!("the file has {} more frames than can be compared at once", self.beyond));
        }
        if too_often && self.index.len() > 0 {
            files.errors.push(format!("at most {LOOPS_MAX} loops of a file can be distinguished"));
        }
    }
}

/// Compares the capture while it is read.
#[derive(Debug)]
struct Capture {
    arrivals: Arrivals,
    ledger: LedgerBuilder,
    mask: Mask,
    linktypes: BTreeSet<u16>,
    frames: u64,
    /// Frames truncated to less than is compared.
    cut: u64,
    /// Frames of a link type that is not in the file.
    other_links: u64,
}

impl Capture {
    fn new(file: Sent, count: u64) -> Self {
        let Sent { mut index, mask, linktypes, .. } = file;
        index.build();
        let (arrivals, ledger) = (Arrivals::new(index, count), LedgerBuilder::default());
        Self { arrivals, ledger, mask, linktypes, frames: 0, cut: 0, other_links: 0 }
    }

    fn item(&mut self, item: &Item<'_>) {
        self.ledger.item(item);
        if let Item::Frame(frame) = item {
            self.frame(frame);
        }
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        let compared = (frame.wire_len as usize).min(self.mask.snaplen.unwrap_or(usize::MAX));
        self.cut += u64::from(frame.data.len() < compared);
        self.other_links += u64::from(!self.linktypes.contains(&frame.linktype));
        let content = fingerprint::content(frame.data, frame.linktype, &self.mask);
        let sketch = || fingerprint::sketch(frame.data, frame.linktype, &self.mask);
        self.arrivals.take(content, frame.time_ns, sketch);
    }

    fn finish(mut self, count: u64, files: &mut Files) -> Matched {
        self.arrivals.finish();
        let mut report = Matched::of(&self.arrivals, count);
        report.outcome.frames = self.frames;
        report.outcome.ledger = self.ledger.finish(report.outcome.lost);
        let notes = [
            (
                self.cut,
                "frames of the capture are truncated: `snaplen` limits the comparison to their first bytes",
            ),
            (self.other_links, "frames of the capture are of another link type than the file's"),
        ];
        let notes = notes.iter().filter(|(count, _)| *count > 0);
        files.notes.extend(notes.map(|(count, what)| format!("{count} {what}")));
        if let [only] = report.occurrences[..]
            && report.outcome.duplicates > 0
            && report.in_file > 0
            && only.times.is_multiple_of(count.div_ceil(report.in_file).max(1))
        {
            files.notes.push(format!(
                "each frame arrived {} times: was the file sent that often (`loop`)?",
                only.times
            ));
        }
        report
    }
}
