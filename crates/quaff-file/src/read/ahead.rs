//! A thread that reads a file ahead of its decoder into a few reused buffers, and decompresses it.
//!
//! It never looks at packets. A slow decoder makes the thread wait for a free buffer, so memory stays at [`BUFFERS`]
//! buffers. On one core, the decoder itself reads what is in the page cache: a thread would not wait there, and
//! switching between both would cost more than the copy.

use super::Options;
use super::decompress::{Compression, Decompressor, Failure, MAGIC_BYTES};
use super::input::Input;
use quaff_os::{Buffer, Result};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Buffers of a file: one is decoded, one is read, and two absorb the variation of both.
pub const BUFFERS: usize = 4;
/// Size of a buffer: disks reach full speed with reads of this size. The page cache is read in smaller parts.
pub const BUFFER_BYTES: usize = 4 << 20;

/// A part of the file: the first `bytes` of the buffer.
#[derive(Debug)]
pub(super) struct Part {
    buffer: Buffer,
    bytes: usize,
}

/// The result of waiting for a part.
#[derive(Debug)]
pub(super) enum Next {
    Part(Part),
    /// The wait timed out.
    Idle,
    End,
}

/// The parts of a file, for the decoder.
#[derive(Debug)]
pub(super) struct ReadAhead {
    reading: Reading,
    state: Arc<FileState>,
    /// Size of each buffer.
    bytes: usize,
}

/// The reader of the file.
#[derive(Debug)]
enum Reading {
    /// The decoder, as long as the file is in the page cache.
    Here(Here),
    /// The thread.
    Ahead(Ahead),
    /// There is no reader: the thread could not be started.
    Over,
}

/// The bytes that the decoder reads itself. The buffer is `None` while the decoder has it.
#[derive(Debug)]
struct Here {
    feed: Feed,
    buffer: Option<Buffer>,
}

/// The decoder's side of the reading thread.
#[derive(Debug)]
struct Ahead {
    full: Receiver<Result<Part, Failure>>,
    empty: SyncSender<Buffer>,
}

/// The thread's state, for the decoder.
#[derive(Debug, Default)]
struct FileState {
    /// The [`Compression`] plus one; 0 is none.
    compression: AtomicU64,
    /// Compressed bytes used so far.
    offset: AtomicU64,
}

/// The source of the bytes.
#[derive(Debug)]
enum Feed {
    /// Before the first read.
    New(Input),
    Plain(Input),
    Compressed(Decompressor),
    Over,
}

impl Part {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

impl ReadAhead {
    /// Opens `path`, `-` for standard input, and begins to read.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self> {
        // The cores that this thread may run on, which a thread of its own may run on too.
        let has_one_core = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
        Self::open_on(path, options, has_one_core)
    }

    fn open_on(path: &Path, options: &Options, has_one_core: bool) -> Result<Self> {
        let feed = Feed::New(Input::open(path, options)?);
        let (state, bytes) = (Arc::new(FileState::default()), options.buffer_bytes.unwrap_or(BUFFER_BYTES));
        // A followed file waits for its writer, so its reader is a thread.
        let reading = match has_one_core && !options.follow {
            true => Reading::Here(Here { feed, buffer: Some(Buffer::new(bytes)?) }),
            false => Reading::Ahead(Ahead::start(feed, &state, bytes)?),
        };
        Ok(Self { reading, state, bytes })
    }

    /// Returns the next part of the file; waits at most `wait`.
    pub(super) fn next(&mut self, wait: Option<Duration>) -> Result<Next, Failure> {
        if let Reading::Here(here) = &mut self.reading {
            if let Some(part) = here.next(&self.state)? {
                return Ok(part);
            }
            if let Reading::Here(here) = std::mem::replace(&mut self.reading, Reading::Over) {
                let ahead = Ahead::start(here.feed, &self.state, self.bytes);
                self.reading = Reading::Ahead(ahead.map_err(|error| Failure::Os(error.errno))?);
            }
        }
        match &self.reading {
            Reading::Ahead(ahead) => ahead.next(wait),
            Reading::Here(_) | Reading::Over => Ok(Next::End),
        }
    }

    /// Returns the buffer of a part.
    pub(super) fn recycle(&mut self, part: Part) {
        match &mut self.reading {
            Reading::Here(here) => here.buffer = Some(part.buffer),
            // Fails after the end of the file, when the thread has ended.
            Reading::Ahead(ahead) => drop(ahead.empty.send(part.buffer)),
            Reading::Over => {}
        }
    }

    /// Returns the name of the compression, once the first part has been read.
    pub(super) fn compression(&self) -> Option<&'static str> {
        let all = [Compression::Gzip, Compression::Zstd, Compression::Lz4];
        let place = self.state.compression.load(Ordering::Relaxed).checked_sub(1)?;
        all.get(place as usize).map(|compression| compression.name())
    }

    /// Returns the number of compressed bytes used so far.
    pub(super) fn compressed_offset(&self) -> u64 {
        self.state.offset.load(Ordering::Relaxed)
    }
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
        match (part, &self.feed) {
            (Some(part), _) => Ok(Some(Next::Part(part))),
            (None, Feed::Over) => Ok(Some(Next::End)),
            (None, _) => Ok(None),
        }
    }
}

impl Ahead {
    /// Starts the thread.
    fn start(feed: Feed, state: &Arc<FileState>, bytes: usize) -> Result<Self> {
        let (empty, to_fill) = sync_channel(BUFFERS);
        let (filled, full) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            empty.try_send(Buffer::new(bytes)?).ok();
        }
        let state = state.clone();
        quaff_os::spawn("read ahead", move || run(feed, &to_fill, &filled, &state))?;
        Ok(Self { full, empty })
    }

    fn next(&self, wait: Option<Duration>) -> Result<Next, Failure> {
        let received = match wait {
            Some(wait) => self.full.recv_timeout(wait),
            None => self.full.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(part) => part.map(Next::Part),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Idle),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
        }
    }
}

/// The thread: ends with the file, at an error, or when [`ReadAhead`] is dropped.
fn run(
    mut feed: Feed,
    empty: &Receiver<Buffer>,
    full: &SyncSender<Result<Part, Failure>>,
    state: &FileState,
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
        let part = match feed.fill(buffer, state) {
            Ok(Some(part)) => Ok(part),
            Ok(None) if matches!(feed, Feed::Compressed(_)) => continue,
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        let failed = part.is_err();
        if full.send(part).is_err() || failed {
            return;
        }
    }
}

impl Feed {
    fn is_cached(&mut self, bytes: usize) -> bool {
        match self {
            Self::New(input) | Self::Plain(input) => input.is_cached(bytes),
            Self::Compressed(_) | Self::Over => false,
        }
    }

    /// Fills a buffer. `None` at the end, where it becomes [`Feed::Over`], and when the buffer was used for
    /// compressed bytes.
    fn fill(&mut self, mut buffer: Buffer, state: &FileState) -> Result<Option<Part>, Failure> {
        let bytes = match self {
            Self::New(_) => return self.begin(buffer, state),
            Self::Plain(input) => input.read(&mut buffer).map_err(Failure::Os)?,
            Self::Compressed(decompressor) => {
                let bytes = decompressor.read(&mut buffer)?;
                state.offset.store(decompressor.offset(), Ordering::Relaxed);
                bytes
            }
            Self::Over => 0,
        };
        if bytes == 0 {
            *self = Self::Over;
            return Ok(None);
        }
        Ok(Some(Part { buffer, bytes }))
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
                let decompressor = Decompressor::new(compression, Box::new(input), buffer, bytes);
                *self = Self::Compressed(decompressor.map_err(Failure::Os)?);
                Ok(None)
            }
            None if bytes == 0 => Ok(None),
            None => {
                *self = Self::Plain(input);
                Ok(Some(Part { buffer, bytes }))
            }
        }
    }
}
