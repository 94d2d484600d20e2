//! A pcap or pcapng file as a sequence of items: read ahead of the decoder, packets not copied.
//!
//! The file may be compressed, growing or damaged; see [`Options`]. Only a packet that straddles two parts
//! of the file is assembled in a buffer, which is as long as the packet.

use super::Options;
use super::ahead::ReadAhead;
use super::decompress::{Corruption, Failure};
use super::look::{Glance, MakeLook, Seen};
use super::part::{Next, Part};
use super::unfinished::{finished, is_gone, unfinished_note};
use quaff_wire::decode::{Corrections, Damage, Decoder, Format, Frame, Item, Step};
use quaff_wire::format::{clause, number_of, times};
use quaff_wire::pcap::RecordLayout;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An error of reading a file. All items before it were delivered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The capture data are damaged.
    #[error("{}: {damage}", .path.display())]
    Damage {
        path: PathBuf,
        /// Offset and reason.
        damage: Damage,
    },
    /// The compressed data are truncated or corrupt.
    #[error("{}: {corruption}", .path.display())]
    Corrupt {
        path: PathBuf,
        /// Offset and reason.
        corruption: Corruption,
    },
}

/// The result of waiting for more of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// Items can be decoded with [`CaptureFile::walk`].
    More,
    /// The wait timed out.
    Idle,
    /// The file has ended, or the stop was raised.
    End,
}

/// Damaged bytes skipped because of [`Options::salvage`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct SkippedBytes {
    /// Number of skipped ranges.
    pub count: u64,
    pub bytes: u64,
    /// File offset of the first skipped byte.
    pub first_offset: u64,
}

/// A capture file that is being read.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    options: Options,
    ahead: ReadAhead,
    decoder: Decoder,
    base: Base,
    /// The current part of the file, and the number of its bytes decoded.
    part: Option<Part>,
    part_at: usize,
    /// The start of an item whose end is in the next part, and the number of its bytes decoded.
    straddler: Vec<u8>,
    straddler_at: usize,
    /// Number of bytes at the end of the straddler that belong to the current part.
    borrowed: usize,
    /// Bytes that the decoder needs to continue; 0 if it has enough.
    needed: usize,
    /// The decoder knows that no more bytes follow.
    knows_end: bool,
    is_over: bool,
    failure: Option<Error>,
    /// Number of descriptions of sections and interfaces so far: the state that packets are decoded in.
    version: u64,
    /// The state that threads look at parts in.
    looked: Option<u64>,
    /// Damaged bytes skipped so far.
    pub skipped: SkippedBytes,
    first_damage: Option<Damage>,
    /// The bytes at its end that are an unfinished packet or frame, and which; its name says that it is being written.
    unfinished: Option<(u64, &'static str)>,
}

/// Takes the results of its looks.
pub(crate) trait TakeSeen {
    /// Makes looks at packets of the present section.
    fn make_look(&self) -> Option<MakeLook>;

    /// Takes the result of a look.
    fn take_seen(&mut self, seen: &mut Seen);
}

/// The bytes that are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Part,
    Straddler,
}

impl CaptureFile {
    /// Opens a file, `-` for standard input, and begins to read it.
    pub fn open(path: &Path) -> quaff_os::Result<Self> {
        Self::open_with(path, Options::default())
    }

    /// Opens a file, `-` for standard input, and begins to read it with `options`.
    pub fn open_with(path: &Path, options: Options) -> quaff_os::Result<Self> {
        let ahead = ReadAhead::open(path, &options)?;
        let decoder = if options.salvage { Decoder::salvaging() } else { Decoder::default() };
        Ok(Self {
            path: path.into(),
            options,
            ahead,
            decoder,
            base: Base::Part,
            part: None,
            part_at: 0,
            straddler: Vec::new(),
            straddler_at: 0,
            borrowed: 0,
            needed: 1,
            knows_end: false,
            is_over: false,
            failure: None,
            version: 0,
            looked: None,
            skipped: SkippedBytes::default(),
            first_damage: None,
            unfinished: None,
        })
    }

    /// As [`CaptureFile::open_with`]; `None` of a file that was found in a folder, and is not there any more under any
    /// of its names.
    pub fn open_there(path: &Path, options: Options) -> quaff_os::Result<Option<Self>> {
        match Self::open_with(path, options.clone()) {
            Err(_) if options.found.contains(path) && is_gone(path) => {}
            opened => return opened.map(Some),
        }
        let Some(later) = finished(path) else { return Ok(None) };
        let found = Arc::new(BTreeSet::from([later.clone()]));
        Ok(Self::open_with(&later, Options { found, ..options }).ok())
    }

    /// Passes the items of the next part of the file (some MiB) to `each`, in order. Waits for the disk or
    /// the pipe; `false` at the end. After an error no items follow.
    pub fn pull(&mut self, mut each: impl FnMut(Item<'_>)) -> Result<bool, Error> {
        if self.advance(None)? == Advance::End {
            return Ok(false);
        }
        self.walk(|item, _| {
            each(item);
            true
        })?;
        Ok(true)
    }

    /// As [`CaptureFile::pull`], but faster: `frame` gets the usual packets of pcap files, and `item` everything else,
    /// but for what a look of `to` has seen of them.
    pub(crate) fn pull_into<T: TakeSeen>(
        &mut self,
        to: &mut T,
        mut frame: impl FnMut(&mut T, &Frame<'_>),
        mut item: impl FnMut(&mut T, &Item<'_>),
    ) -> Result<bool, Error> {
        if self.advance(None)? == Advance::End {
            return Ok(false);
        }
        if let Some(mut seen) = self.take_seen() {
            to.take_seen(&mut seen);
            self.return_seen(seen);
        }
        loop {
            let (base, at) = match self.base {
                Base::Part => (self.part.as_ref().map_or(&[][..], Part::bytes), &mut self.part_at),
                Base::Straddler => (&self.straddler[..], &mut self.straddler_at),
            };
            let mut rest = &base[*at..];
            while let Some(usual) = self.decoder.usual_frame(&mut rest) {
                frame(to, &usual);
            }
            *at = base.len() - rest.len();
            // Packets after another item may be usual ones.
            let mut is_other = false;
            self.walk(|next, _| {
                item(to, &next);
                is_other = !matches!(next, Item::Frame(_));
                !is_other
            })?;
            if !is_other {
                break;
            }
        }
        if self.wants_look()
            && let Some(make) = to.make_look()
        {
            self.look(make);
        }
        Ok(true)
    }

    /// Passes items to `each`, in order, until it returns `false` or the current bytes are used up. The
    /// second argument is the offset of a frame's bytes in [`CaptureFile::bytes`].
    pub fn walk(&mut self, mut each: impl FnMut(Item<'_>, usize) -> bool) -> Result<(), Error> {
        let (base, at) = match self.base {
            Base::Part => (self.part.as_ref().map_or(&[][..], Part::bytes), &mut self.part_at),
            Base::Straddler => (&self.straddler[..], &mut self.straddler_at),
        };
        let mut rest = &base[*at..];
        let done = loop {
            match self.decoder.next(&mut rest) {
                Ok(Step::Item(item)) => {
                    let start = match item {
                        Item::Frame(frame) => {
                            (frame.data.as_ptr() as usize).wrapping_sub(base.as_ptr() as usize)
                        }
                        Item::Jump(jump) => {
                            self.skipped.note(jump.damage.offset, jump.bytes);
                            self.first_damage.get_or_insert(jump.damage);
                            0
                        }
                        Item::Section(_) | Item::Interface(_) => {
                            self.version += 1;
                            0
                        }
                        _ => 0,
                    };
                    if !each(item, start) {
                        break Ok(0);
                    }
                }
                Ok(Step::NeedMore(needed)) => break Ok(needed),
                Err(damage) => break Err(damage),
            }
        };
        *at = base.len() - rest.len();
        self.needed = *done.as_ref().unwrap_or(&0);
        self.is_over |= done.is_err();
        let path = &self.path;
        done.map(|_| ()).map_err(|damage| Error::Damage { path: path.clone(), damage })
    }

    /// Returns whether threads can look at the parts that follow, and do not yet, or looked in another state: then
    /// [`CaptureFile::look`] is called, after a walk.
    pub fn wants_look(&self) -> bool {
        self.looked != Some(self.version)
            && !self.options.salvage
            && match self.decoder.format() {
                // Packets may decide the layout.
                Some(Format::Pcap) => self.decoder.layout().is_some(),
                format => format.is_some(),
            }
            && self.ahead.may_look()
    }

    /// Has threads look at the parts that follow, until the next section or interface.
    pub fn look(&mut self, make: MakeLook) {
        self.looked = Some(self.version);
        self.ahead.look(self.version, self.decoder.clone(), make);
    }

    /// After [`CaptureFile::advance`], and before the first walk: moves past the packets that a thread has looked at,
    /// and returns the result of its look. Their bytes are in [`CaptureFile::bytes`]; a walk has the items after them.
    /// The result must be returned, with [`CaptureFile::return_seen`], before the next call to `advance`.
    pub fn take_seen(&mut self) -> Option<Seen> {
        let part = self.part.as_mut().filter(|_| self.base == Base::Part && !self.is_over)?;
        let Glance { version, start, end, corrected } = part.glance.take()?;
        let at = part.offset + self.part_at as u64;
        if version != self.version
            || (start, start) != (at, self.decoder.offset())
            || self.decoder.is_within_unit()
        {
            return None;
        }
        self.decoder.corrections().add(corrected);
        self.decoder.move_to(end);
        self.part_at = (end - part.offset) as usize;
        part.room.seen.take()
    }

    /// Takes back the memory of the result of a look.
    pub fn return_seen(&mut self, seen: Seen) {
        if let Some(part) = &mut self.part {
            part.room.seen = Some(seen);
        }
    }

    /// Returns the bytes that [`CaptureFile::walk`] decodes.
    pub fn bytes(&self) -> &[u8] {
        match self.base {
            Base::Part => self.part.as_ref().map_or(&[][..], Part::bytes),
            Base::Straddler => &self.straddler,
        }
    }

    /// Makes bytes available to [`CaptureFile::walk`]; waits at most `wait`.
    pub fn advance(&mut self, wait: Option<Duration>) -> Result<Advance, Error> {
        loop {
            if self.is_over {
                return Ok(Advance::End);
            }
            if self.needed == 0 || self.gather() {
                self.needed = 0;
                return Ok(Advance::More);
            }
            if self.knows_end {
                self.is_over = true;
                return self.end().map(|()| Advance::End);
            }
            if let Some(part) = self.part.take() {
                self.ahead.recycle(part);
            }
            (self.part_at, self.borrowed) = (0, 0);
            match self.ahead.next(wait) {
                Ok(Next::Idle) => return Ok(Advance::Idle),
                Ok(Next::Part(part)) => (self.part, self.part_at) = (Some(part), 0),
                // Where the stop was raised says nothing about the file.
                Ok(Next::End) if self.options.stop.raised() => self.is_over = true,
                Ok(Next::End) => self.end_input(None),
                Err(_) if self.options.stop.raised() => self.is_over = true,
                Err(failure) => self.end_input(Some(failure)),
            }
        }
    }

    /// Collects the bytes that the decoder needs, in the current part or in the straddler. `false` when the
    /// part is used up before.
    fn gather(&mut self) -> bool {
        let part = self.part.as_ref().map_or(&[][..], Part::bytes);
        if self.base == Base::Part {
            if part.len() - self.part_at >= self.needed {
                return true;
            }
            self.straddler.clear();
            self.straddler.extend_from_slice(&part[self.part_at..]);
            (self.straddler_at, self.part_at, self.base) = (0, part.len(), Base::Straddler);
            return false;
        }
        self.straddler.drain(..self.straddler_at);
        self.straddler_at = 0;
        if self.straddler.len() <= self.borrowed {
            // All remaining bytes are in the current part too.
            self.part_at -= self.straddler.len();
            self.straddler.clear();
            (self.base, self.borrowed) = (Base::Part, 0);
            return part.len() - self.part_at >= self.needed || self.gather();
        }
        // Only the missing bytes; a search for the next packet would ask for one byte at a time.
        let lacks = self.needed - self.straddler.len();
        let lacks = if self.options.salvage { lacks.max(SEARCH_BYTES) } else { lacks };
        let there = &part[self.part_at..];
        let now = lacks.min(there.len());
        self.straddler.extend_from_slice(&there[..now]);
        self.part_at += now;
        self.borrowed += now;
        self.straddler.len() >= self.needed
    }

    /// Informs the decoder that no more bytes follow.
    fn end_input(&mut self, failure: Option<Failure>) {
        let tried = || format!("read {}", self.path.display());
        self.failure = failure.map(|failure| match failure {
            Failure::Os(errno) => Error::Os(quaff_os::Error::new(tried(), errno)),
            Failure::Corrupt(corruption) => Error::Corrupt { path: self.path.clone(), corruption },
        });
        self.knows_end = true;
        self.decoder.no_more();
        self.needed = 0;
    }

    /// Returns the result of the whole file. One that is being written may end inside a packet, or inside a frame.
    fn end(&mut self) -> Result<(), Error> {
        let failure = self.failure.take();
        let rest = &self.bytes()[self.at()..];
        let ended = match finished(&self.path) {
            Some(_) => self.decoder.end_unfinished(rest),
            None => self.decoder.end(rest).map(|()| 0),
        };
        let unfinished = match failure {
            Some(failure) => match self.unfinished_frame(&failure) {
                Some(bytes) if ended.is_ok() => (bytes, "frame"),
                _ => return Err(failure),
            },
            None => (ended.map_err(|damage| Error::Damage { path: self.path.clone(), damage })?, "packet"),
        };
        self.unfinished = Some(unfinished).filter(|(bytes, _)| *bytes > 0);
        Ok(())
    }

    fn unfinished_frame(&self, failure: &Error) -> Option<u64> {
        match failure {
            Error::Corrupt { corruption, .. } => self.ahead.unfinished_frame(corruption),
            Error::Os(_) | Error::Damage { .. } => None,
        }
    }

    fn at(&self) -> usize {
        match self.base {
            Base::Part => self.part_at,
            Base::Straddler => self.straddler_at,
        }
    }

    /// Returns the number of bytes decoded so far.
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Returns the format, once the first bytes were decoded.
    pub(crate) fn format(&self) -> Option<Format> {
        self.decoder.format()
    }

    /// Returns the name of the compression, once the first bytes were read.
    pub(crate) fn compression(&self) -> Option<&'static str> {
        self.ahead.compression()
    }

    /// Returns the number of bytes of the file used so far; compressed bytes of a compressed file.
    pub fn used(&self) -> u64 {
        if self.ahead.compression().is_some() { self.ahead.compressed_offset() } else { self.offset() }
    }

    /// Returns the packets whose headers were corrected so far.
    pub fn corrections(&mut self) -> Corrections {
        *self.decoder.corrections()
    }

    /// Returns notes for the user: a historical layout of the file, corrected headers, and skipped bytes.
    pub fn notes(&mut self) -> Vec<String> {
        let corrected = self.corrections();
        let mut notes = correction_notes(&self.path, corrected);
        if let Some((bytes, unit)) = self.unfinished {
            notes.push(unfinished_note(&self.path, bytes, unit));
        }
        let path = self.path.display();
        if let Some(layout) = self.decoder.layout().filter(|layout| *layout != RecordLayout::Standard) {
            notes.push(format!("{path}: {layout}"));
        }
        if let Some(damage) = self.first_damage {
            let SkippedBytes { count, bytes, .. } = self.skipped;
            let (bytes, times) = (number_of(bytes, "byte"), times(count));
            notes.push(format!("{path}: {bytes} skipped, {times}; the first: {damage}"));
        }
        notes
    }
}

/// Notes on packets whose headers were corrected. Times that became others make a run lossy, with a reason of its own.
pub(crate) fn correction_notes(path: &Path, corrected: Corrections) -> Vec<String> {
    let notes = [
        (corrected.lengths, "with an original length below the captured one, which was raised to it"),
        (
            corrected.fractions,
            "with a fraction of a second or more beside the second, which was added to it: the times may be of another \
             unit than the file says",
        ),
    ];
    let some = notes.into_iter().filter(|(packets, _)| *packets > 0);
    some.map(|(packets, words)| format!("{}: {}", path.display(), clause(packets, "packet", words))).collect()
}

/// As [`correction_notes`], on times that cannot be had, for what has no verdict on them.
pub(crate) fn time_notes(path: &Path, corrected: Corrections) -> Vec<String> {
    let notes = [
        (corrected.early, "of times before 1970, which count as 1970"),
        (corrected.late, "of times after 2554, which count as its last one"),
    ];
    let some = notes.into_iter().filter(|(packets, _)| *packets > 0);
    some.map(|(packets, words)| format!("{}: {}", path.display(), clause(packets, "packet", words))).collect()
}

/// Bytes that a search gets at once at the seam of two parts.
const SEARCH_BYTES: usize = 64 << 10;

impl SkippedBytes {
    fn note(&mut self, offset: u64, bytes: u64) {
        if self.count == 0 {
            self.first_offset = offset;
        }
        self.count += 1;
        self.bytes += bytes;
    }

    /// Adds the skipped bytes of another file.
    pub fn add(&mut self, other: Self) {
        if self.count == 0 {
            self.first_offset = other.first_offset;
        }
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests;
