//! A thread that reads a file ahead of its decoder into a few reused buffers, and decompresses it.
//!
//! It never looks at packets. A slow decoder makes the thread wait for a free buffer, so memory stays at
//! [`BUFFERS`] buffers.

use super::Options;
use super::decompress::{Compression, Decompressor, Failure, MAGIC_BYTES};
use super::input::Input;
use quaff_os::{Buffer, Result, Try};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// One is decoded, one is read, and two absorb the variation of both.
const BUFFERS: usize = 4;
/// Size of a buffer: disks reach full speed with reads of this size.
const BUFFER_BYTES: usize = 4 << 20;

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

/// The decoder's end of the reading thread.
#[derive(Debug)]
pub(super) struct ReadAhead {
    full: Receiver<Result<Part, Failure>>,
    empty: SyncSender<Buffer>,
    state: Arc<FileState>,
}

/// The thread's state, for the decoder.
#[derive(Debug, Default)]
struct FileState {
    /// The [`Compression`] plus one; 0 is none.
    compression: AtomicU64,
    /// Compressed bytes used so far.
    offset: AtomicU64,
}

/// The source of the thread's bytes.
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
        let input = Input::open(path, options)?;
        let (empty, to_fill) = sync_channel(BUFFERS);
        let (filled, full) = sync_channel(BUFFERS);
        for _ in 0..BUFFERS {
            empty.try_send(Buffer::new(BUFFER_BYTES)?).ok();
        }
        let state = Arc::new(FileState::default());
        let thread_state = state.clone();
        std::thread::Builder::new()
            .name("read ahead".into())
            .spawn(move || run(input, &to_fill, &filled, &thread_state))
            .trying(|| format!("start a thread that reads {}", path.display()))?;
        Ok(Self { full, empty, state })
    }

    /// Returns the next part of the file; waits at most `wait`.
    pub(super) fn next(&self, wait: Option<Duration>) -> Result<Next, Failure> {
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

    /// Returns the buffer of a part to the thread.
    pub(super) fn recycle(&self, part: Part) {
        // Fails after the end of the file, when the thread has ended.
        self.empty.send(part.buffer).ok();
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

/// The thread: ends with the file, at an error, or when [`ReadAhead`] is dropped.
fn run(input: Input, empty: &Receiver<Buffer>, full: &SyncSender<Result<Part, Failure>>, state: &FileState) {
    let mut feed = Feed::New(input);
    let mut fresh = BUFFERS;
    while let Ok(buffer) = empty.recv() {
        if fresh > 0 {
            fresh -= 1;
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
