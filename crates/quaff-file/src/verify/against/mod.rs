//! A capture beside the file that was sent: which frames came, by their content.
//!
//! The file is read once and leaves 40 bytes a frame in memory; the capture streams past it. This
//! room reads files and counts; it neither prints nor decides how a command ends.

mod arrivals;
mod index;
mod report;
mod spread;
#[cfg(test)]
mod tests;

pub use report::{Gaps, Matched, Occurrence, Run};
pub use spread::Quantiles;

use super::ledger::Books;
use super::{Progress, Sum, read_file};
use crate::read;
use arrivals::Arrivals;
use index::{Entry, Index, LOOPS_MAX};
use quaff_wire::decode::{Frame, Item};
use quaff_wire::fingerprint::{self, Mask};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What was sent, and what may differ.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often the file was sent.
    pub turns: u64,
    /// How many frames were sent in all, if that is not `turns` times those of the file.
    pub expect: Option<u64>,
    /// What of a frame is not compared.
    pub mask: Mask,
    /// How files are read: see [`read::Options`]. Only a capture is followed.
    pub reading: read::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self { turns: 1, expect: None, mask: Mask::default(), reading: read::Options::default() }
    }
}

/// Reads `sent`, the files that were sent one behind the other, then `captures`, the files of one
/// capture in order, and says what came. `progress` hears of it every few MiB.
///
/// A file that cannot be read is an answer, not an error: see [`Matched::error`].
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
            capture.books.begin();
            files.read(path, &options.reading, |item| capture.item(&item), &mut progress);
        }
        report = capture.finish(count, &mut files);
    }
    (report.bytes, report.jumps) = (files.sum.bytes, files.sum.jumps);
    report.notes = files.sum.notes;
    report.error = (!files.errors.is_empty()).then(|| files.errors.join("; "));
    report.unreadable = files.unreadable;
    report.seconds = started.elapsed().as_secs_f64();
    report.judge()
}

/// All files of a run, and what became of them.
#[derive(Debug, Default)]
struct Files {
    sum: Sum,
    used: u64,
    errors: Vec<String>,
    unreadable: bool,
}

impl Files {
    fn read(
        &mut self,
        path: &Path,
        reading: &read::Options,
        each: impl FnMut(Item<'_>),
        progress: &mut impl FnMut(Progress),
    ) {
        let (used, before) = (self.used, self.sum.bytes);
        let result = read_file(path, reading.clone(), &mut self.sum, each, |now, frames| {
            progress(Progress { bytes: used + now, frames });
        });
        self.used += path.metadata().map_or(0, |found| found.len());
        if let Err(error) = result {
            self.errors.push(error.to_string());
            self.unreadable |= self.sum.bytes == before;
        }
    }
}

/// The file that was sent, while it is read.
#[derive(Debug)]
struct Sent {
    index: Index,
    mask: Mask,
    before_ns: u64,
    linktypes: BTreeSet<u16>,
    /// Frames of which the file has only the beginning.
    cut: u64,
    /// Frames for which there was no room.
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
        let gap_ns = frame.time_ns.wrapping_sub(self.before_ns) as i64 as f32;
        self.before_ns = frame.time_ns;
        let entry = Entry::new(fingerprint::sketch(frame.data, frame.linktype, &self.mask), gap_ns);
        let content = fingerprint::content(frame.data, frame.linktype, &self.mask);
        self.beyond += u64::from(!self.index.push(content, entry));
    }

    /// Says what is odd about it.
    fn check(&self, too_often: bool, files: &mut Files) {
        if self.cut > 0 && self.mask.snaplen.is_none() {
            let cut = self.cut;
            files
                .sum
                .notes
                .push(format!("{cut} frames of the file are cut, and are taken to have been sent so"));
        }
        if self.beyond > 0 {
            files
                .errors
                .push(format!("the file has {} frames more than can be compared at once", self.beyond));
        }
        if too_often && self.index.len() > 0 {
            files.errors.push(format!("at most {LOOPS_MAX} loops of a file can be told apart"));
        }
    }
}

/// The capture, while it is read.
#[derive(Debug)]
struct Capture {
    arrivals: Arrivals,
    books: Books,
    mask: Mask,
    linktypes: BTreeSet<u16>,
    frames: u64,
    /// Frames of which there is only the beginning, and less than is compared.
    cut: u64,
    /// Frames of a kind of link that the file has not.
    other_links: u64,
}

impl Capture {
    fn new(file: Sent, count: u64) -> Self {
        let Sent { mut index, mask, linktypes, .. } = file;
        index.build();
        let (arrivals, books) = (Arrivals::new(index, count), Books::default());
        Self { arrivals, books, mask, linktypes, frames: 0, cut: 0, other_links: 0 }
    }

    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Frame(frame) => self.frame(frame),
            Item::Section(_) => self.books.begin(),
            Item::Interface(interface) => self.books.interface(interface),
            Item::Statistics(statistics) => self.books.statistics(*statistics),
            Item::Jump(_) => {}
        }
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.books.frame(frame);
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
        report.frames = self.frames;
        report.ledger = self.books.finish(report.lost);
        let notes = [
            (
                self.cut,
                "frames of the capture are truncated: `snaplen` limits the comparison to their first bytes",
            ),
            (self.other_links, "frames of the capture are of another link type than the file's"),
        ];
        let notes = notes.iter().filter(|(count, _)| *count > 0);
        files.sum.notes.extend(notes.map(|(count, what)| format!("{count} {what}")));
        if let [only] = report.occurrences[..]
            && report.duplicates > 0
            && report.in_file > 0
            && only.times.is_multiple_of(count.div_ceil(report.in_file).max(1))
        {
            files.sum.notes.push(format!(
                "each frame arrived {} times: was the file sent that often (`loop`)?",
                only.times
            ));
        }
        report
    }
}
