//! A capture file, pcap or pcapng, as a source: read ahead of the decoder, packets never copied.
//!
//! It may be compressed, still be growing, or be damaged; see [`Options`]. Only a packet that
//! straddles two parts of the file is put together in a buffer of its own; that buffer is as long as
//! the packet.

use super::ahead::{Next, Piece, ReadAhead};
use super::unpack::{Failure, Torn};
use quaff_os::stop::Stop;
use quaff_wire::decode::{Damage, Decoder, Format, Item, Step};
use quaff_wire::pcap::RecordLayout;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a file is to be read.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Behind damage, look for the next packet that makes sense, and go on.
    pub salvage: bool,
    /// At its end, wait for more until it is renamed or removed, or the stop is raised.
    pub follow: bool,
    /// When it is raised, no more is read. Of a file that is followed, what is there still is.
    pub stop: Stop,
}

/// Why a file could not be read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
    /// The file stops making sense. All that came before was delivered.
    #[error("{}: {damage}", .path.display())]
    Damage {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        damage: Damage,
    },
    /// The file is compressed, and stops making sense as that. All that came before was delivered.
    #[error("{}: {torn}", .path.display())]
    Torn {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        torn: Torn,
    },
}

/// What waiting for more of a file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// There is something to walk over.
    More,
    /// Nothing within the time given.
    Idle,
    /// The file has ended, or the stop was raised.
    End,
}

/// Bytes that made no sense, by [`Options::salvage`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Jumps {
    /// How often bytes were jumped over.
    pub count: u64,
    /// How many.
    pub bytes: u64,
    /// Offset of the first of them.
    pub first_offset: u64,
}

/// A file that is being read.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    options: Options,
    size: Option<u64>,
    ahead: ReadAhead,
    decoder: Decoder,
    base: Base,
    /// The part of the file at hand, and how much of it has been walked over.
    piece: Option<Piece>,
    piece_at: usize,
    /// The beginning of a unit whose end is in the next part, and how much of it has been walked over.
    straddler: Vec<u8>,
    straddler_at: usize,
    /// How many bytes at the end of the straddler are of the part at hand.
    borrowed: usize,
    /// How many bytes the decoder needs to go on; 0 as long as it need not be asked.
    needed: usize,
    /// Whether the decoder knows that there are no more.
    is_told: bool,
    is_over: bool,
    failure: Option<Error>,
    jumps: Jumps,
    first_jump: Option<Damage>,
}

/// Which bytes are walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Piece,
    Straddler,
}

impl CaptureFile {
    /// Opens a file, `-` for standard input, and begins to read it.
    pub fn open(path: &Path) -> quaff_os::Result<Self> {
        Self::open_with(path, Options::default())
    }

    /// Opens a file, `-` for standard input, and begins to read it as `options` say.
    pub fn open_with(path: &Path, options: Options) -> quaff_os::Result<Self> {
        let (ahead, size) = ReadAhead::open(path, &options)?;
        let decoder = if options.salvage { Decoder::salvaging() } else { Decoder::new() };
        Ok(Self {
            path: path.into(),
            options,
            size,
            ahead,
            decoder,
            base: Base::Piece,
            piece: None,
            piece_at: 0,
            straddler: Vec::new(),
            straddler_at: 0,
            borrowed: 0,
            needed: 1,
            is_told: false,
            is_over: false,
            failure: None,
            jumps: Jumps::default(),
            first_jump: None,
        })
    }

    /// Hands the items of the next part of the file (some MiB) to `each`, in order. `false` when
    /// there is no more; waits for the disk, or for whoever writes into the pipe.
    ///
    /// After an error nothing more comes.
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

    /// Hands items to `each`, in order, until that returns `false` or the bytes at hand are used up.
    /// It gets, of a frame, where its bytes begin in [`CaptureFile::bytes`].
    pub fn walk(&mut self, mut each: impl FnMut(Item<'_>, usize) -> bool) -> Result<(), Error> {
        let (base, at) = match self.base {
            Base::Piece => (self.piece.as_ref().map_or(&[][..], Piece::bytes), &mut self.piece_at),
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
                            self.jumps.note(jump.damage.offset, jump.bytes);
                            self.first_jump.get_or_insert(jump.damage);
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

    /// The bytes that are walked over.
    pub fn bytes(&self) -> &[u8] {
        match self.base {
            Base::Piece => self.piece.as_ref().map_or(&[][..], Piece::bytes),
            Base::Straddler => &self.straddler,
        }
    }

    /// Sees to it that there is something to walk over: waits for it, at most `wait`.
    pub fn advance(&mut self, wait: Option<Duration>) -> Result<Advance, Error> {
        loop {
            if self.is_over {
                return Ok(Advance::End);
            }
            if self.needed == 0 || self.gather() {
                self.needed = 0;
                return Ok(Advance::More);
            }
            if self.is_told {
                self.is_over = true;
                return self.end().map(|()| Advance::End);
            }
            if let Some(piece) = self.piece.take() {
                self.ahead.give_back(piece);
            }
            (self.piece_at, self.borrowed) = (0, 0);
            match self.ahead.next(wait) {
                Ok(Next::Idle) => return Ok(Advance::Idle),
                Ok(Next::Piece(piece)) => (self.piece, self.piece_at) = (Some(piece), 0),
                // Where it was stopped it says nothing about the file.
                Ok(Next::End) if self.options.stop.raised() => self.is_over = true,
                Ok(Next::End) => self.tell(None),
                Err(_) if self.options.stop.raised() => self.is_over = true,
                Err(failure) => self.tell(Some(failure)),
            }
        }
    }

    /// Brings what the decoder needs together: in the part at hand, or in the straddler. `false` when
    /// the part is used up before.
    fn gather(&mut self) -> bool {
        let piece = self.piece.as_ref().map_or(&[][..], Piece::bytes);
        if self.base == Base::Piece {
            if piece.len() - self.piece_at >= self.needed {
                return true;
            }
            self.straddler.clear();
            self.straddler.extend_from_slice(&piece[self.piece_at..]);
            (self.straddler_at, self.piece_at, self.base) = (0, piece.len(), Base::Straddler);
            return false;
        }
        self.straddler.drain(..self.straddler_at);
        self.straddler_at = 0;
        if self.straddler.len() <= self.borrowed {
            // All that is left is in the part at hand too.
            self.piece_at -= self.straddler.len();
            self.straddler.clear();
            (self.base, self.borrowed) = (Base::Piece, 0);
            return piece.len() - self.piece_at >= self.needed || self.gather();
        }
        // Just what it lacks; a search would come back for each byte.
        let lacks = self.needed - self.straddler.len();
        let lacks = if self.options.salvage { lacks.max(SEARCH_BYTES) } else { lacks };
        let there = &piece[self.piece_at..];
        let now = lacks.min(there.len());
        self.straddler.extend_from_slice(&there[..now]);
        self.piece_at += now;
        self.borrowed += now;
        self.straddler.len() >= self.needed
    }

    /// Lets the decoder know that there are no more bytes.
    fn tell(&mut self, failure: Option<Failure>) {
        let tried = || format!("read {}", self.path.display());
        self.failure = failure.map(|failure| match failure {
            Failure::Os(errno) => Error::Os(quaff_os::Error::new(tried(), errno)),
            Failure::Torn(torn) => Error::Torn { path: self.path.clone(), torn },
        });
        self.is_told = true;
        self.decoder.no_more();
        self.needed = 0;
    }

    /// How it has ended.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let damaged = |damage| Error::Damage { path: self.path.clone(), damage };
        self.decoder.end(&self.bytes()[self.at()..]).map_err(damaged)
    }

    fn at(&self) -> usize {
        match self.base {
            Base::Piece => self.piece_at,
            Base::Straddler => self.straddler_at,
        }
    }

    /// Bytes decoded so far.
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Bytes of the file used so far; of a compressed one, compressed bytes.
    pub fn used(&self) -> u64 {
        if self.ahead.packing().is_some() { self.ahead.packed_offset() } else { self.offset() }
    }

    /// Bytes of the file when it was opened; `None` for a pipe, and for a file that is followed.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The format, once something has been read.
    pub fn format(&self) -> Option<Format> {
        self.decoder.format()
    }

    /// What was jumped over so far.
    pub fn jumps(&self) -> Jumps {
        self.jumps
    }

    /// What the user should know of the file: its layout, if that is of other days; what was jumped
    /// over.
    pub fn notes(&self) -> Vec<String> {
        let path = self.path.display();
        let mut notes = Vec::new();
        if let Some(layout) = self.decoder.layout().filter(|layout| *layout != RecordLayout::Standard) {
            notes.push(format!("{path}: {layout}"));
        }
        if let Some(damage) = self.first_jump {
            let Jumps { count, bytes, .. } = self.jumps;
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            notes.push(format!("{path}: {bytes} bytes jumped over, {times}; the first: {damage}"));
        }
        notes
    }
}

/// How many bytes a search gets at once at the seam of two parts.
const SEARCH_BYTES: usize = 64 << 10;

impl Jumps {
    fn note(&mut self, offset: u64, bytes: u64) {
        if self.count == 0 {
            self.first_offset = offset;
        }
        self.count += 1;
        self.bytes += bytes;
    }

    /// Takes in those of another file.
    pub fn add(&mut self, other: Self) {
        if self.count == 0 {
            self.first_offset = other.first_offset;
        }
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcapng::encode::{Interface, Section, epb, epb_bytes, idb, padding, shb};
    use quaff_wire::record::Record;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// Longer than a few pieces, with frames and a block without meaning across their seams.
    fn long_file() -> Vec<u8> {
        let mut file = Vec::new();
        shb(&mut file, &Section::default());
        idb(&mut file, &Interface { linktype: 1, ..Interface::default() });
        let content: Vec<u8> = (0..70_000).map(|i| (i % 251) as u8).collect();
        for i in 0..400 {
            let bytes = &content[..(i * 7919) % 70_000];
            let record = Record { time_ns: i as u64, bytes, len: bytes.len() as u32, ..Record::default() };
            let mut room = vec![0; epb_bytes(bytes.len())];
            let written = epb(&mut room, 0, &record);
            file.extend_from_slice(&room[..written]);
            if i == 150 {
                let mut meaningless = vec![0; 9 << 20];
                padding(&mut meaningless);
                file.extend(meaningless);
            }
        }
        file
    }

    fn read(path: &Path) -> (Vec<String>, Option<String>) {
        let mut file = CaptureFile::open(path).unwrap();
        let mut items = Vec::new();
        loop {
            match file.pull(|item| items.push(digest(&item))) {
                Ok(true) => {}
                Ok(false) => return (items, None),
                Err(error) => return (items, Some(error.to_string())),
            }
        }
    }

    fn digest(item: &Item<'_>) -> String {
        match item {
            Item::Frame(frame) => {
                let expected = (0..frame.data.len()).all(|i| frame.data[i] == (i % 251) as u8);
                format!("{} {} {expected}", frame.time_ns, frame.data.len())
            }
            other => format!("{other:?}"),
        }
    }

    fn at_once(file: &[u8]) -> Vec<String> {
        let (mut items, mut rest, mut decoder) = (Vec::new(), file, Decoder::new());
        while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
            items.push(digest(&item));
        }
        items
    }

    fn on_disk(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_long_file_is_read_as_if_it_were_in_memory() {
        let bytes = long_file();
        assert!(bytes.len() > 20 << 20);
        let (items, error) = read(on_disk(&bytes).path());
        assert_eq!((items.len(), error), (402, None));
        assert!(items == at_once(&bytes));
    }

    #[test]
    fn a_pipe_is_read_however_its_writer_stammers() {
        let bytes = long_file();
        let (from, mut to) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", from.as_raw_fd());
        let writer = std::thread::spawn({
            let bytes = bytes.clone();
            move || {
                (0..)
                    .scan(0, |at, i| {
                        let end = (*at + 1 + (i * 7919) % 99_991).min(bytes.len());
                        to.write_all(&bytes[*at..end]).unwrap();
                        *at = end;
                        (end < bytes.len()).then_some(())
                    })
                    .count()
            }
        });
        let (items, error) = read(Path::new(&path));
        writer.join().unwrap();
        assert_eq!(error, None);
        assert!(items == at_once(&bytes));
    }

    #[test]
    fn what_came_before_the_damage_is_delivered() {
        let mut bytes = long_file();
        let damage_at = bytes.len();
        bytes.extend([6, 0, 0, 0, 17, 0, 0, 0]);
        let file = on_disk(&bytes);
        let (items, error) = read(file.path());
        assert_eq!(items.len(), 402);
        let told = format!(
            "{}: block of 17 bytes at offset {damage_at}: length not a multiple of 4",
            file.path().display()
        );
        assert_eq!(error, Some(told));
    }
}
