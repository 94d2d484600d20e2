//! Is this capture complete? Stamped frames say which of them are missing; the ledger says why.
//!
//! Files are read in the order given, as one capture: the files of a rotation. A stream begins at
//! number 0, so frames lost before the first file began are counted too. This room reads files and
//! counts; it neither prints nor decides how a command ends.

pub mod against;
mod ledger;
mod report;
mod sequence;

pub use ledger::Ledger;
pub use report::{Gaps, Report, Stream};
pub use sequence::{End, Gap};

use crate::read::{self, CaptureFile, Error, Jumps};
use ledger::Books;
use quaff_wire::decode::{Frame, Item};
use quaff_wire::linktype;
use quaff_wire::probe::{self, Classified, ProbeHeader};
use sequence::Sequence;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to ask of the frames.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A stream begins with the lowest number that is there, not at 0: older files are gone.
    pub from_first: bool,
    /// Each stream must have this many frames, 0 to N-1.
    pub expect: Option<u64>,
    /// How files are read: see [`read::Options`].
    pub reading: read::Options,
}

/// How far the reading has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes of the files used so far, all together; of compressed ones, compressed bytes.
    pub bytes: u64,
    /// Frames read so far.
    pub frames: u64,
}

/// Reads `files` and says what they hold. `progress` hears of it every few MiB.
///
/// A file that cannot be read is an answer, not an error: see [`Report::error`].
pub fn verify(files: &[PathBuf], options: Options, mut progress: impl FnMut(Progress)) -> Report {
    let started = Instant::now();
    let reading = options.reading.clone();
    let mut count = Count::new(options);
    let (mut used, mut sum, mut errors, mut unreadable) = (0, Sum::default(), Vec::new(), false);
    for path in files {
        let before = sum.bytes;
        count.books.begin();
        let result = read_file(
            path,
            reading.clone(),
            &mut sum,
            |item| count.item(item),
            |now, frames| {
                progress(Progress { bytes: used + now, frames });
            },
        );
        used += path.metadata().map_or(0, |found| found.len());
        if let Err(error) = result {
            errors.push(error.to_string());
            unreadable |= sum.bytes == before;
        }
    }
    let mut report = count.finish();
    (report.frames, report.bytes) = (sum.frames, sum.bytes);
    (report.jumps, report.notes) = (sum.jumps, sum.notes);
    report.seconds = started.elapsed().as_secs_f64();
    report.error = (!errors.is_empty()).then(|| errors.join("; "));
    report.unreadable = unreadable;
    report.judge()
}

/// What was found in all files, whatever the frames are.
#[derive(Debug, Default)]
struct Sum {
    frames: u64,
    /// Bytes of capture that made sense.
    bytes: u64,
    jumps: Jumps,
    notes: Vec<String>,
}

/// Hands what one file says to `each`; says how it ended. `progress` hears of bytes used of this file
/// and frames of all.
fn read_file(
    path: &Path,
    reading: read::Options,
    sum: &mut Sum,
    mut each: impl FnMut(Item<'_>),
    mut progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let mut file = CaptureFile::open_with(path, reading)?;
    let frames = &mut sum.frames;
    let result = loop {
        let pulled = file.pull(|item| {
            *frames += u64::from(matches!(item, Item::Frame(_)));
            each(item);
        });
        match pulled {
            Ok(true) => progress(file.used(), *frames),
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    sum.bytes += file.offset();
    sum.jumps.add(file.jumps());
    sum.notes.extend(file.notes());
    result
}

/// All that is counted on the way.
#[derive(Debug)]
struct Count {
    options: Options,
    sequences: Vec<Sequence>,
    /// Where in `sequences` a stream is.
    places: BTreeMap<u16, usize>,
    /// Stream and place of the stamped frame before; nearly always those of the next one too.
    current: Option<(u16, usize)>,
    books: Books,
    corrupt: u64,
    foreign: u64,
}

impl Count {
    fn new(options: Options) -> Self {
        Self {
            options,
            sequences: Vec::new(),
            places: BTreeMap::new(),
            current: None,
            books: Books::default(),
            corrupt: 0,
            foreign: 0,
        }
    }

    #[inline]
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Frame(frame) => self.frame(&frame),
            Item::Section(_) => self.books.begin(),
            Item::Interface(interface) => self.books.interface(&interface),
            Item::Statistics(statistics) => self.books.statistics(statistics),
            Item::Jump(_) => {}
        }
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>) {
        self.books.frame(frame);
        if frame.linktype != linktype::ETHERNET.linktype {
            self.foreign += 1;
            return;
        }
        match probe::classify(frame.data, frame.wire_len as usize) {
            Classified::Intact(stamp) => self.stamp(&stamp, frame.time_ns),
            Classified::Corrupt => self.corrupt += 1,
            Classified::Foreign => self.foreign += 1,
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
        self.sequences[place].take(stamp, time_ns);
    }

    #[cold]
    fn begin_stream(&mut self, stamp: &ProbeHeader, time_ns: u64) {
        self.places.insert(stamp.stream, self.sequences.len());
        self.sequences.push(Sequence::begin(stamp, time_ns, self.options.from_first));
    }

    fn finish(mut self) -> Report {
        let expect = self.options.expect.unwrap_or(0);
        let (mut gaps, mut streams) = (Gaps::default(), Vec::new());
        for (&stream, &place) in &self.places {
            let sequence = &mut self.sequences[place];
            sequence.expect(expect);
            gaps.add(sequence.gap_count(), sequence.gaps_at_ends(stream));
            streams.push(Stream::new(stream, sequence, self.options.expect));
        }
        let sum = |of: fn(&Stream) -> u64| streams.iter().map(of).fold(0, u64::saturating_add);
        // Where a stream was expected and none came, all of it is lost.
        let lost = sum(|stream| stream.lost).saturating_add(if streams.is_empty() { expect } else { 0 });
        Report {
            received: sum(|stream| stream.received),
            lost,
            duplicates: sum(|stream| stream.duplicates),
            reordered: sum(|stream| stream.reordered),
            surplus: sum(|stream| stream.surplus),
            corrupt: self.corrupt,
            foreign: self.foreign,
            end: streams.iter().map(|stream| stream.end).max(),
            gaps,
            streams,
            ledger: self.books.finish(lost),
            ..Report::default()
        }
    }
}
