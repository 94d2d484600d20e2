//! Completeness of a capture, and the verdict of `quaff verify`: sequence numbers show which frames are missing, the
//! ledger shows why.
//!
//! Frames of `quaff generate` carry sequence numbers. In any other capture, TCP segments do, and their receivers
//! acknowledge what arrived; mirrors, tunnels and RTP number their packets. The files are read in the given order as
//! one capture, such as a rotation. A stream begins at number 0, so frames lost before the first file are counted too.
//! This module reads files and counts; it never prints and never chooses an exit code.

pub mod against;
mod beside;
mod injection;
mod interfaces;
mod lane;
pub(crate) mod ledger;
mod look;
mod missing;
mod report;
mod sequence;
mod verdict;

pub use beside::{Beside, Part};
pub use injection::{Injected, Injection};
pub use lane::{LaneDrops, LaneEvidence, LaneProof};
pub use ledger::{Ledger, LedgerBuilder, RecordedDrops};
pub use report::{Gaps, LOST_HERE, LossPlace, Missing, Outcome, Report, Stream, Tcp};
pub use sequence::{Gap, StreamEnd};

use crate::read::{self, CaptureFile, Error, Look, MakeLook, Seen, SkippedBytes, TakeSeen};
use injection::Injector;
use interfaces::Interfaces;
use look::{EvidenceLook, SeenEvidence};
use quaff_stream::proof::ProofSums;
use quaff_stream::{ProofMeter, ProofReader};
use quaff_wire::decode::{Format, Frame, Item};
use quaff_wire::format::clause;
use quaff_wire::probe::{Classified, ProbeHeader};
use sequence::{GapRoom, Sequence};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Options of a verification.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Start each stream at the lowest sequence number found instead of 0, for captures whose oldest files
    /// were removed.
    pub from_first: bool,
    /// Number of frames that each stream must have: numbers 0 to N-1.
    pub expect: Option<u64>,
    /// Packets to remove before they are judged.
    pub inject: Option<Injection>,
    pub reading: read::Options,
}

/// Progress of a verification.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes of all files read so far; compressed bytes of compressed files.
    pub bytes: u64,
    pub frames: u64,
}

/// Reads `files` and counts their frames; calls `progress` every few MiB.
///
/// A file that cannot be read is part of the report, not an error: see [`Outcome::error`].
pub fn verify(files: &[PathBuf], options: Options, progress: impl FnMut(Progress)) -> Report {
    verify_beside::<()>(files, options, progress).0
}

/// The same, with counters of the same packets.
pub fn verify_beside<B: Beside>(
    files: &[PathBuf],
    options: Options,
    mut progress: impl FnMut(Progress),
) -> (Report, B) {
    let started = Instant::now();
    let reading = options.reading.clone();
    let (mut read, mut count) = (Files::default(), Count::<B>::new(options));
    for path in files {
        count.ledger.begin();
        count.format = None;
        let pull = |file: &mut CaptureFile, frames: &mut u64| {
            let before = count.frames;
            let pulled = file.pull_into(&mut count, Count::captured, Count::item);
            *frames += count.frames - before;
            pulled
        };
        read.read_by(path, &reading, pull, &mut progress);
    }
    let (mut report, beside) = count.finish();
    report.outcome.frames = read.frames;
    read.finish(&mut report.outcome, started);
    (report.judge(), beside)
}

/// Totals and errors of all files read.
#[derive(Debug, Default)]
struct Files {
    frames: u64,
    /// Bytes decoded.
    bytes: u64,
    jumps: SkippedBytes,
    notes: Vec<String>,
    /// Sizes of the files read.
    used: u64,
    errors: Vec<String>,
    unreadable: bool,
}

impl Files {
    fn read(
        &mut self,
        path: &Path,
        reading: &read::Options,
        mut each: impl FnMut(Item<'_>),
        progress: &mut impl FnMut(Progress),
    ) {
        let pull = |file: &mut CaptureFile, frames: &mut u64| {
            file.pull(|item| {
                *frames += u64::from(matches!(item, Item::Frame(_)));
                each(item);
            })
        };
        self.read_by(path, reading, pull, progress);
    }

    /// Reads a file part by part: `pull` passes on the items of a part, and counts its frames.
    fn read_by(
        &mut self,
        path: &Path,
        reading: &read::Options,
        pull: impl FnMut(&mut CaptureFile, &mut u64) -> Result<bool, Error>,
        progress: &mut impl FnMut(Progress),
    ) {
        let (used, before) = (self.used, self.bytes);
        let result = read_file(path, reading.clone(), self, pull, |now, frames| {
            progress(Progress { bytes: used + now, frames });
        });
        self.used += path.metadata().map_or(0, |found| found.len());
        match result {
            Ok(true) => {}
            Ok(false) => self.errors.push(format!("MISSING: {}, {}", path.display(), read::GONE)),
            Err(error) => {
                self.errors.push(error.to_string());
                self.unreadable |= self.bytes == before;
            }
        }
    }

    fn finish(self, outcome: &mut Outcome, started: Instant) {
        (outcome.bytes, outcome.jumps) = (self.bytes, self.jumps);
        outcome.notes.extend(self.notes);
        outcome.error = (!self.errors.is_empty()).then(|| self.errors.join("; "));
        outcome.unreadable = self.unreadable;
        outcome.seconds = started.elapsed().as_secs_f64();
    }
}

/// Reads one file by `pull`; `false` if it was found in a folder, and is gone. `progress` gets the bytes of this file
/// and the frames of all.
fn read_file(
    path: &Path,
    reading: read::Options,
    sum: &mut Files,
    mut pull: impl FnMut(&mut CaptureFile, &mut u64) -> Result<bool, Error>,
    mut progress: impl FnMut(u64, u64),
) -> Result<bool, Error> {
    let Some(mut file) = CaptureFile::open_there(path, reading)? else { return Ok(false) };
    let frames = &mut sum.frames;
    let result = loop {
        match pull(&mut file, frames) {
            Ok(true) => progress(file.used(), *frames),
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    sum.bytes += file.offset();
    sum.jumps.add(file.skipped);
    sum.notes.extend(file.notes());
    sum.notes.extend(read::time_notes(path, file.corrections()));
    result.map(|()| true)
}

/// The counters of a verification.
#[derive(Debug)]
struct Count<B: Beside = ()> {
    options: Options,
    sequences: Vec<Sequence>,
    /// Indices in `sequences`, by stream.
    places: BTreeMap<u16, usize>,
    /// Stream and index of the previous frame, nearly always those of the next one too.
    current: Option<(u16, usize)>,
    ledger: LedgerBuilder,
    gaps: GapRoom,
    corrupt: u64,
    foreign: u64,
    proof: ProofMeter,
    /// Shared with looks, which see one state of them.
    interfaces: Arc<Interfaces>,
    injector: Option<Injector>,
    secret: u64,
    /// Frames of files.
    frames: u64,
    /// The format of the file that is being read.
    format: Option<Format>,
    /// Counters of the same frames, and the counts of those that no look has seen.
    beside: B,
    part: B::Part,
}

impl<B: Beside> Count<B> {
    fn new(options: Options) -> Self {
        let secret = RandomState::new().hash_one(0);
        Self {
            injector: options.inject.map(Injector::new),
            options,
            sequences: Vec::new(),
            places: BTreeMap::new(),
            current: None,
            ledger: LedgerBuilder::default(),
            gaps: GapRoom::default(),
            corrupt: 0,
            foreign: 0,
            proof: ProofMeter::new(secret),
            interfaces: Arc::default(),
            secret,
            frames: 0,
            format: None,
            beside: B::default(),
            part: B::Part::default(),
        }
    }

    #[inline]
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Frame(frame) => return self.captured(frame),
            Item::Interface(interface) => Arc::make_mut(&mut self.interfaces).describe(interface),
            Item::Section(_) => self.format = Some(Format::Pcapng),
            _ => {}
        }
        self.ledger.item(item);
    }

    #[inline]
    fn captured(&mut self, frame: &Frame<'_>) {
        self.frames += 1;
        self.ledger.frame(frame);
        self.part.packet(frame, look::time_of(frame, self.format));
        if self.part.is_full() {
            self.beside.take(&mut self.part);
        }
        if frame.dropcount > 0 {
            let interface = self.interfaces.number(frame.interface);
            self.proof.note_drops(frame.time_ns, frame.dropcount, interface);
        }
        if self.injector.as_mut().is_none_or(|injector| !injector.removes()) {
            self.frame(frame, self.interfaces.number(frame.interface));
        }
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>, interface: u16) {
        match look::classify(frame) {
            Classified::Intact(stamp) => self.stamp(&stamp, frame.time_ns),
            Classified::Corrupt => self.corrupt += 1,
            Classified::Foreign => {
                self.foreign += 1;
                self.proof.packet(frame.data, frame.wire_len, frame.linktype, frame.time_ns, interface);
            }
        }
    }

    #[inline]
    fn stamp(&mut self, stamp: &ProbeHeader, time_ns: u64) {
        let place = match self.current {
            Some((stream, place)) if stream == stamp.stream => place,
            _ => match self.places.get(&stamp.stream) {
                Some(place) => *place,
                None => return self.begin_stream(stamp, time_ns),
            },
        };
        self.current = Some((stamp.stream, place));
        self.sequences[place].take(stamp, time_ns, &mut self.gaps);
    }

    #[cold]
    fn begin_stream(&mut self, stamp: &ProbeHeader, time_ns: u64) {
        self.places.insert(stamp.stream, self.sequences.len());
        let begun = Sequence::begin(stamp, time_ns, self.options.from_first, &mut self.gaps);
        self.sequences.push(begun);
    }

    fn finish(mut self) -> (Report, B) {
        self.beside.take(&mut self.part);
        let beside = std::mem::take(&mut self.beside);
        let (ledger, interfaces) = (std::mem::take(&mut self.ledger), std::mem::take(&mut self.interfaces));
        let injected = self.injector.take().map(Injector::finish);
        let mut report = self.end().report();
        report.outcome.ledger = ledger.finish(report.outcome.lost);
        interfaces.name(&mut report.tcp.loss.interfaces);
        report.tcp.injected = injected;
        (report, beside)
    }

    /// Ends all streams, and returns the counts.
    fn end(mut self) -> CountEnd {
        let expect = self.options.expect;
        self.sequences.iter_mut().for_each(|sequence| sequence.expect(expect.unwrap_or(0), &mut self.gaps));
        let mut sequences: Vec<_> = self.sequences.into_iter().map(Some).collect();
        let sequences = self
            .places
            .into_iter()
            .filter_map(|(stream, place)| Some((stream, sequences.get_mut(place).and_then(Option::take)?)));
        let (sequences, gaps) = (sequences.collect(), self.gaps);
        let (corrupt, foreign, proof) = (self.corrupt, self.foreign, self.proof.end_all());
        CountEnd { expect, sequences, gaps, corrupt, foreign, proof }
    }
}

impl<B: Beside> TakeSeen for Count<B> {
    fn make_look(&self) -> Option<MakeLook> {
        let (interfaces, secret) = (self.interfaces.clone(), self.secret);
        // An injector counts all packets.
        let make = move || -> Box<dyn Look> {
            let reader = ProofReader::new(secret);
            Box::new(EvidenceLook::<B::Part> { interfaces: interfaces.clone(), reader, beside: PhantomData })
        };
        self.injector.is_none().then(|| Arc::new(make) as MakeLook)
    }

    fn take_seen(&mut self, seen: &mut Seen) {
        let Some(seen) = seen.downcast_mut::<SeenEvidence<B::Part>>() else { return };
        // Those before the part.
        self.beside.take(&mut self.part);
        self.beside.take(&mut seen.part);
        seen.runs.iter().for_each(|(interface, packets)| self.ledger.frames(*interface, *packets));
        self.frames += seen.packets;
        self.foreign += seen.packets;
        self.proof.take_batch(&mut seen.evidence);
    }
}

/// The counts of one lane, or of several of an interface.
#[derive(Debug, Clone)]
struct CountEnd {
    expect: Option<u64>,
    sequences: BTreeMap<u16, Sequence>,
    gaps: GapRoom,
    corrupt: u64,
    foreign: u64,
    proof: ProofSums,
}

impl CountEnd {
    /// Adds the counts of another lane, which received other packets.
    fn add(&mut self, other: Self) {
        for (stream, sequence) in other.sequences {
            match self.sequences.entry(stream) {
                Entry::Occupied(mut known) => known.get_mut().add(&sequence, &mut self.gaps),
                Entry::Vacant(place) => drop(place.insert(sequence)),
            }
        }
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.proof.add(other.proof);
    }

    fn report(&self) -> Report {
        let expect = self.expect.unwrap_or(0);
        let (mut gaps, mut streams, mut unkept) = (Gaps::default(), Vec::new(), 0);
        for (&stream, sequence) in &self.sequences {
            gaps.add(sequence.gap_count(), sequence.gaps_at_ends(stream));
            streams.push(Stream::new(stream, sequence, self.expect));
            unkept += sequence.unkept_gaps();
        }
        let sum = |of: fn(&Stream) -> u64| streams.iter().map(of).fold(0, u64::saturating_add);
        // If a stream was expected and none came, all of its frames are lost.
        let lost = sum(|stream| stream.lost).saturating_add(if streams.is_empty() { expect } else { 0 });
        let outcome = Outcome {
            received: sum(|stream| stream.received),
            lost,
            duplicates: sum(|stream| stream.duplicates),
            reordered: sum(|stream| stream.reordered),
            surplus: sum(|stream| stream.surplus),
            notes: (unkept > 0).then(|| unkept_words(unkept)).into_iter().collect(),
            ..Outcome::default()
        };
        let end = streams.iter().map(|stream| stream.end).max();
        let proof = self.proof.clone().report();
        let tcp = Tcp { loss: proof.tcp, injected: None };
        let (corrupt, foreign, numbers, copies) = (self.corrupt, self.foreign, proof.numbers, proof.copies);
        Report {
            outcome,
            verdict: String::new(),
            missing: None,
            corrupt,
            foreign,
            end,
            gaps,
            streams,
            tcp,
            numbers,
            copies,
        }
    }
}

fn unkept_words(gaps: u64) -> String {
    let words =
        "were counted and not kept, because there are so many: late frames of them count as duplicates";
    clause(gaps, "gap", words)
}
