//! A thread that reads a file ahead of its decoder into a few reused buffers, and decompresses it.
//!
//! It never looks at packets. A slow decoder makes the thread wait for a free buffer, so memory stays at [`BUFFERS`]
//! buffers. The decoder itself reads the first parts of a file in the page cache, and on one core all of them: a thread
//! would not wait there, and switching between both would cost more than the copy. On several cores a [`Crew`] reads
//! the rest, if the caller has a look for its threads, and [`Unpackers`] the frames of a compressed file.

use super::Options;
use super::crew::Crew;
use super::decompress::{CompressedInput, Compression, Corruption, Decompressor, Failure, MAGIC_BYTES};
use super::input::Input;
use super::look::{Board, MakeLook};
use super::part::{Next, Part, Room};
use super::unfinished::{finished, unfinished_frame};
use super::unpack::{Packed, Unpackers};
use quaff_os::{Buffer, Result};
use quaff_wire::decode::Decoder;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Buffers of a file: one is decoded, one is read, and two absorb the variation of both.
pub const BUFFERS: usize = 4;
/// Size of a buffer: disks reach full speed with reads of this size. The page cache is read in smaller parts.
pub const BUFFER_BYTES: usize = 4 << 20;

/// The parts of a file, for the decoder.
#[derive(Debug)]
pub(super) struct ReadAhead {
    reading: Reading,
    state: Arc<FileState>,
    /// Size of each buffer.
    bytes: usize,
    /// Threads of a crew, or for frames; 0 after a crew has ended.
    helpers: usize,
    /// Their number was asked for.
    is_given: bool,
    /// One thread decompresses.
    is_beside_others: bool,
    /// The state from which a crew looks at parts.
    board: Board,
    has_look: bool,
    /// Another handle of a file that is being written, to look at its end.
    unfinished: Option<File>,
}

/// Parts that the decoder reads itself before a thread does: the first one shows what the file is, and a small file
/// needs no thread.
const FIRST_PARTS: usize = 2;

/// Threads of a crew at most, unless more are asked for.
const HELPERS_USUAL: usize = 3;

/// The reader of the file.
#[derive(Debug)]
enum Reading {
    /// The decoder, as long as the file is in the page cache.
    Here(Here),
    /// Threads and the decoder, as long as the file is in the page cache; with the end of the part returned last.
    Crew(Box<Crew>, u64),
    /// Threads and the decoder, which decompress.
    Unpackers(Box<Unpackers>),
    /// The thread.
    Ahead(Ahead),
    /// There is no reader: none could be started, or one takes over.
    Over,
}

/// The bytes that the decoder reads itself. The buffer is `None` while the decoder has it.
#[derive(Debug)]
struct Here {
    feed: Feed,
    buffer: Option<Buffer>,
    /// Number of parts read.
    parts: usize,
}

/// The decoder's side of the reading thread.
#[derive(Debug)]
struct Ahead {
    full: Receiver<Result<Filled, Failure>>,
    empty: SyncSender<Buffer>,
}

/// The result of the reading thread.
#[derive(Debug)]
enum Filled {
    Part(Part),
    /// Others that take over: the file turned out to be a compressed one.
    Unpackers(Box<Unpackers>),
    End,
}

/// The thread's state, for the decoder.
#[derive(Debug, Default)]
struct FileState {
    /// The [`Compression`] plus one; 0 is none.
    compression: AtomicU64,
    /// Compressed bytes used so far.
    offset: AtomicU64,
    /// The thread has ended by itself. Written by it before its side of the channel goes, read by the decoder after
    /// that: Release and Acquire. Without it the thread has panicked.
    has_ended: AtomicBool,
}

/// The source of the bytes.
#[derive(Debug)]
enum Feed {
    /// Before the first read.
    New(Input),
    Plain(Input),
    /// Before it is decided who decompresses it.
    Packed(Packed),
    Compressed(Decompressor),
    Over,
}

impl ReadAhead {
    /// Opens `path`, `-` for standard input, and begins to read.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self> {
        let input = Input::open(path, options)?;
        let unfinished = finished(path).and_then(|_| input.regular()).map(|(file, _)| file);
        let feed = Feed::New(input);
        let (state, bytes) = (Arc::new(FileState::default()), options.buffer_bytes.unwrap_or(BUFFER_BYTES));
        // A followed file waits for its writer, so its reader is a thread.
        let reading = match options.follow {
            false => Reading::Here(Here { feed, buffer: Some(Buffer::new(bytes)?), parts: 0 }),
            true => Reading::Ahead(Ahead::start(feed, &state, (bytes, 0))?),
        };
        let (helpers, is_given) = (options.helpers.unwrap_or_else(other_cores), options.helpers.is_some());
        let (is_beside_others, board) = (options.is_beside_others, Board::default());
        let has_look = false;
        Ok(Self { reading, state, bytes, helpers, is_given, is_beside_others, board, has_look, unfinished })
    }

    /// Returns whether threads would look at parts of the file.
    pub(super) fn may_look(&self) -> bool {
        match &self.reading {
            Reading::Here(here) => {
                self.helpers > 0 && matches!(&here.feed, Feed::Plain(input) if input.is_regular())
            }
            Reading::Crew(..) => true,
            Reading::Unpackers(_) | Reading::Ahead(_) | Reading::Over => false,
        }
    }

    /// Has threads look at the parts that they read from now on; the looks begin with `decoder`.
    pub(super) fn look(&mut self, version: u64, decoder: Decoder, make: MakeLook) {
        self.board.publish(version, decoder, make);
        self.has_look = true;
    }

    /// Returns the next part of the file; waits at most `wait`.
    pub(super) fn next(&mut self, wait: Option<Duration>) -> Result<Next, Failure> {
        loop {
            match &mut self.reading {
                Reading::Here(here) => {
                    let has_more = here.feed.has_more();
                    let is_for_crew = self.has_look && here.parts > 0 && has_more;
                    if !self.is_given && self.helpers > 0 && (is_for_crew || here.parts >= FIRST_PARTS) {
                        // This thread may be bound to a core, where the one that opened the file was not.
                        self.helpers = self.helpers.min(other_cores());
                    }
                    let stays = self.helpers == 0 || !has_more || here.parts < FIRST_PARTS && !is_for_crew;
                    if stays && let Some(part) = here.next(&self.state)? {
                        return Ok(part);
                    }
                    self.hand_over()?;
                }
                Reading::Crew(crew, offset) => match crew.next()? {
                    Some(part) => {
                        *offset = part.offset + part.bytes as u64;
                        return Ok(Next::Part(part));
                    }
                    None => self.take_back()?,
                },
                Reading::Unpackers(unpackers) => {
                    let next = unpackers.next(wait);
                    self.state.offset.store(unpackers.used(), Ordering::Relaxed);
                    return next;
                }
                Reading::Ahead(ahead) => match ahead.next(wait, &self.state)? {
                    Some(Filled::Part(part)) => return Ok(Next::Part(part)),
                    Some(Filled::Unpackers(unpackers)) => self.reading = Reading::Unpackers(unpackers),
                    Some(Filled::End) => return Ok(Next::End),
                    None => return Ok(Next::Idle),
                },
                Reading::Over => return Ok(Next::End),
            }
        }
    }

    /// Ends the reading by the decoder: a crew reads what is in the page cache if there is a look, threads decompress
    /// frames, and else a thread reads.
    fn hand_over(&mut self) -> Result<(), Failure> {
        let Reading::Here(Here { mut feed, .. }) = std::mem::replace(&mut self.reading, Reading::Over) else {
            return Ok(());
        };
        if matches!(feed, Feed::New(_) | Feed::Packed(_)) && !self.is_given {
            self.helpers = self.helpers.min(other_cores());
        }
        let unpack_helpers = if self.is_beside_others { 0 } else { self.helpers };
        if let Some(unpackers) = feed.unpackers(self.bytes, unpack_helpers)? {
            self.reading = Reading::Unpackers(unpackers);
            return Ok(());
        }
        let failed = |error: quaff_os::Error| Failure::Os(error.errno);
        self.reading = match self.for_crew(feed) {
            Ok((input, (file, offset))) => {
                let crew = Crew::start(input, (file, offset), self.bytes, self.helpers, &self.board);
                Reading::Crew(Box::new(crew.map_err(failed)?), offset)
            }
            Err(feed) => {
                let sizes = (self.bytes, unpack_helpers);
                Reading::Ahead(Ahead::start(feed, &self.state, sizes).map_err(failed)?)
            }
        };
        Ok(())
    }

    /// The file of a feed that a crew may read, with another handle of it; otherwise the feed.
    fn for_crew(&self, mut feed: Feed) -> Result<(Input, (File, u64)), Feed> {
        let is_for_crew = self.has_look && self.helpers > 0 && feed.is_cached(self.bytes);
        match feed {
            Feed::Plain(input) if is_for_crew => match input.regular() {
                Some(file) => Ok((input, file)),
                None => Err(Feed::Plain(input)),
            },
            feed => Err(feed),
        }
    }

    /// Continues without the crew, from where it has ended.
    fn take_back(&mut self) -> Result<(), Failure> {
        let Reading::Crew(crew, offset) = std::mem::replace(&mut self.reading, Reading::Over) else {
            return Ok(());
        };
        // No other crew: after the page cache a thread reads, and at the end of a file that grows there is little more.
        self.helpers = 0;
        if let Some(input) = crew.end(offset) {
            let buffer = Buffer::new(self.bytes).map_err(|error| Failure::Os(error.errno))?;
            self.reading = Reading::Here(Here { feed: Feed::Plain(input), buffer: Some(buffer), parts: 0 });
        }
        Ok(())
    }

    /// Returns the memory of a part.
    pub(super) fn recycle(&mut self, part: Part) {
        let Room { buffer, seen } = part.room;
        match &mut self.reading {
            Reading::Crew(crew, _) => crew.recycle(Room { buffer, seen }),
            Reading::Unpackers(unpackers) => unpackers.recycle(buffer),
            Reading::Here(here) => here.buffer = Some(buffer),
            // Fails after the end of the file, when the thread has ended.
            Reading::Ahead(ahead) => drop(ahead.empty.send(buffer)),
            Reading::Over => {}
        }
    }

    /// Returns the name of the compression, once the first part has been read.
    pub(super) fn compression(&self) -> Option<&'static str> {
        self.known_compression().map(Compression::name)
    }

    fn known_compression(&self) -> Option<Compression> {
        let all = [Compression::Gzip, Compression::Zstd, Compression::Lz4];
        let place = self.state.compression.load(Ordering::Relaxed).checked_sub(1)?;
        all.get(place as usize).copied()
    }

    /// Returns the length of the frame that a file ends inside, if it is being written and the frame is its last one.
    pub(super) fn unfinished_frame(&self, corruption: &Corruption) -> Option<u64> {
        let (file, place) = (self.unfinished.as_ref()?, corruption.cut_frame.clone()?);
        unfinished_frame(file, self.known_compression()?, place)
    }

    /// Returns the number of compressed bytes used so far.
    pub(super) fn compressed_offset(&self) -> u64 {
        self.state.offset.load(Ordering::Relaxed)
    }
}

/// The other cores that this thread may run on, and so threads of its own, as far as they are of use: the decoder has
/// work of its own with each part, which is the limit.
fn other_cores() -> usize {
    std::thread::available_parallelism().map_or(0, |cores| (cores.get() - 1).min(HELPERS_USUAL))
}

impl Here {
    /// Reads the next part; `None` where a thread reads better: bytes that are not in the page cache or are compressed.
    fn next(&mut self, state: &FileState) -> Result<Option<Next>, Failure> {
        let Some(bytes) = self.buffer.as_ref().map(|buffer| buffer.len()) else { return Ok(None) };
        if !self.feed.is_cached(bytes) {
            return Ok(None);
        }
        let Some(buffer) = self.buffer.take() else { return Ok(None) };
        let part = self.feed.fill(buffer, state)?;
        self.parts += 1;
        match (part, &self.feed) {
            (Some(part), _) => Ok(Some(Next::Part(part))),
            (None, Feed::Over) => Ok(Some(Next::End)),
            (None, _) => Ok(None),
        }
    }
}

impl Ahead {
    /// Starts the thread, with buffers of so many bytes. It starts so many others for the frames of a compressed file.
    fn start(feed: Feed, state: &Arc<FileState>, (bytes, helpers): (usize, usize)) -> Result<Self> {
        let (empty, to_fill) = sync_channel(BUFFERS);
        let (filled, full) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            empty.try_send(Buffer::new(bytes)?).ok();
        }
        let state = state.clone();
        quaff_os::spawn("read ahead", move || {
            run(feed, &to_fill, &filled, &state, helpers);
            state.has_ended.store(true, Ordering::Release);
        })?;
        Ok(Self { full, empty })
    }

    /// Returns the thread's next result; `None` if the wait timed out.
    fn next(&self, wait: Option<Duration>, state: &FileState) -> Result<Option<Filled>, Failure> {
        let received = match wait {
            Some(wait) => self.full.recv_timeout(wait),
            None => self.full.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(filled) => filled.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) if state.has_ended.load(Ordering::Acquire) => {
                Ok(Some(Filled::End))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Failure::Os(io::Error::other("the thread that reads it has panicked")))
            }
        }
    }
}

/// The thread: ends with the file, at an error, when others take over, or when [`ReadAhead`] is dropped.
fn run(
    mut feed: Feed,
    empty: &Receiver<Buffer>,
    full: &SyncSender<Result<Filled, Failure>>,
    state: &FileState,
    helpers: usize,
) {
    let mut unpopulated = BUFFERS;
    while let Ok(buffer) = empty.recv() {
        // Buffers are used in turn. A read of the page cache fills so little of a buffer that clearing all of it is not
        // worth it.
        if unpopulated > 0 && !feed.is_cached(buffer.len()) {
            unpopulated -= 1;
            // Huge pages are faster but not required.
            buffer.populate().ok();
        }
        let bytes = buffer.len();
        let filled = match feed.fill(buffer, state) {
            Ok(Some(part)) => Ok(Filled::Part(part)),
            Ok(None) => match feed.unpackers(bytes, helpers) {
                Ok(Some(unpackers)) => Ok(Filled::Unpackers(unpackers)),
                Ok(None) if matches!(feed, Feed::Compressed(_)) => continue,
                Ok(None) => return,
                Err(failure) => Err(failure),
            },
            Err(failure) => Err(failure),
        };
        let is_last = !matches!(filled, Ok(Filled::Part(_)));
        if full.send(filled).is_err() || is_last {
            return;
        }
    }
}

impl Feed {
    /// Returns whether bytes may follow.
    fn has_more(&self) -> bool {
        match self {
            Self::New(input) | Self::Plain(input) => input.has_more(),
            Self::Packed(_) | Self::Compressed(_) => true,
            Self::Over => false,
        }
    }

    fn is_cached(&mut self, bytes: usize) -> bool {
        match self {
            Self::New(input) | Self::Plain(input) => input.is_cached(bytes),
            Self::Packed(_) | Self::Compressed(_) | Self::Over => false,
        }
    }

    /// Starts threads that decompress the frames of a regular file side by side. Otherwise a compressed file is
    /// decompressed by the thread that has the feed.
    fn unpackers(&mut self, bytes: usize, helpers: usize) -> Result<Option<Box<Unpackers>>, Failure> {
        match std::mem::replace(self, Self::Over) {
            // With smaller buffers there are many files, and no memory for frames of each.
            Self::Packed(packed) if helpers > 0 && bytes >= BUFFER_BYTES && packed.is_divisible() => {
                Ok(Some(Box::new(Unpackers::start(packed, bytes, helpers)?)))
            }
            Self::Packed(packed) => {
                *self = Self::Compressed(packed.decompressor()?);
                Ok(None)
            }
            feed => {
                *self = feed;
                Ok(None)
            }
        }
    }

    /// Fills a buffer. `None` at the end, where it becomes [`Feed::Over`], and when the buffer was used for
    /// compressed bytes, where it becomes [`Feed::Packed`].
    fn fill(&mut self, mut buffer: Buffer, state: &FileState) -> Result<Option<Part>, Failure> {
        let bytes = match self {
            Self::New(_) => return self.begin(buffer, state),
            Self::Plain(input) => input.read(&mut buffer).map_err(Failure::Os)?,
            Self::Compressed(decompressor) => {
                let bytes = decompressor.read(&mut buffer)?;
                state.offset.store(decompressor.offset(), Ordering::Relaxed);
                bytes
            }
            Self::Packed(_) => return Ok(None),
            Self::Over => 0,
        };
        if bytes == 0 {
            *self = Self::Over;
            return Ok(None);
        }
        Ok(Some(Part::plain(buffer, bytes)))
    }

    /// Detects compression. The buffer becomes the first part, or the buffer of compressed bytes.
    fn begin(&mut self, mut buffer: Buffer, state: &FileState) -> Result<Option<Part>, Failure> {
        let Self::New(mut input) = std::mem::replace(self, Self::Over) else { return Ok(None) };
        let mut bytes = 0;
        // A pipe may return single bytes.
        while bytes < MAGIC_BYTES {
            match input.read(&mut buffer[bytes..]).map_err(Failure::Os)? {
                0 => break,
                more => bytes += more,
            }
        }
        match Compression::of(&buffer[..bytes]) {
            Some(compression) => {
                state.compression.store(compression as u64 + 1, Ordering::Relaxed);
                let is_long = input.is_regular() && input.has_more();
                let is_cached = input.was_cached();
                let input = CompressedInput::new(Box::new(input), buffer, bytes);
                *self = Self::Packed(Packed { compression, input, is_cached, is_long });
                Ok(None)
            }
            None if bytes == 0 => Ok(None),
            None => {
                *self = Self::Plain(input);
                Ok(Some(Part::plain(buffer, bytes)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose read is a defect.
    struct Broken;

    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("a defect");
        }
    }

    #[test]
    fn a_thread_that_panics_is_not_the_end_of_the_file() {
        let buffer = Buffer::new(4096).unwrap();
        let broken = Decompressor::new(Compression::Gzip, Box::new(Broken), buffer, 0).unwrap();
        let state = Arc::<FileState>::default();
        let ahead = Ahead::start(Feed::Compressed(broken), &state, (4096, 0)).unwrap();
        let Err(Failure::Os(error)) = ahead.next(None, &state) else { panic!("no error") };
        assert_eq!(error.to_string(), "the thread that reads it has panicked");
        let ahead = Ahead::start(Feed::Over, &state, (4096, 0)).unwrap();
        assert!(matches!(ahead.next(None, &state), Ok(Some(Filled::End))));
    }
}
