//! A thread that reads a file ahead of its decoder, into a few buffers that go round, and unpacks it
//! on the way if it is compressed.
//!
//! It knows bytes, not packets. When the decoder is the slower one the thread waits for a buffer to
//! come back, so memory stays at [`PIECES`] buffers whatever the file.

use super::capture_file::Options;
use super::input::Input;
use super::unpack::{Failure, MAGIC_BYTES, Packing, Unpack};
use quaff_os::mem::Buffer;
use quaff_os::{Result, Try};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// One is decoded, one is read, and two take up the unevenness of both.
const PIECES: usize = 4;
/// As the capture writes them; a disk gives its full speed for reads of this size.
const PIECE_BYTES: usize = 4 << 20;

/// A part of the file: the first `bytes` of the buffer.
#[derive(Debug)]
pub(super) struct Piece {
    buffer: Buffer,
    bytes: usize,
}

/// What comes of waiting for a part.
#[derive(Debug)]
pub(super) enum Next {
    Piece(Piece),
    /// Nothing within the time given.
    Idle,
    End,
}

/// The far end of the reading thread.
#[derive(Debug)]
pub(super) struct ReadAhead {
    full: Receiver<Result<Piece, Failure>>,
    empty: SyncSender<Buffer>,
    seen: Arc<Seen>,
}

/// What the thread says about the file.
#[derive(Debug, Default)]
struct Seen {
    /// How it is packed, plus one; 0 is not at all.
    packing: AtomicU64,
    /// Bytes of the compressed file used so far.
    offset: AtomicU64,
}

/// What fills buffers.
enum Feed {
    /// Nothing of it has been seen yet.
    New(Input),
    Plain(Input),
    Packed(Unpack),
    Over,
}

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

impl ReadAhead {
    /// Opens `path`, `-` for standard input, and begins to read. Also gives the size, where the file
    /// has one.
    pub(super) fn open(path: &Path, options: &Options) -> Result<(Self, Option<u64>)> {
        let (input, size) = Input::open(path, options)?;
        let (empty, to_fill) = sync_channel(PIECES);
        let (filled, full) = sync_channel(PIECES);
        for _ in 0..PIECES {
            empty.try_send(Buffer::new(PIECE_BYTES)?).ok();
        }
        let seen = Arc::new(Seen::default());
        let told = seen.clone();
        std::thread::Builder::new()
            .name("read ahead".into())
            .spawn(move || run(input, &to_fill, &filled, &told))
            .trying(|| format!("start a thread that reads {}", path.display()))?;
        Ok((Self { full, empty, seen }, size))
    }

    /// The next part of the file. Waits for it, at most `wait`.
    pub(super) fn next(&self, wait: Option<Duration>) -> Result<Next, Failure> {
        let received = match wait {
            Some(wait) => self.full.recv_timeout(wait),
            None => self.full.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(piece) => piece.map(Next::Piece),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Idle),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
        }
    }

    /// Gives a part back, so that its memory is filled again.
    pub(super) fn give_back(&self, piece: Piece) {
        // After the end of the file nobody wants it.
        self.empty.send(piece.buffer).ok();
    }

    /// The name of how the file is packed, once its first part is there.
    pub(super) fn packing(&self) -> Option<&'static str> {
        let all = [Packing::Gzip, Packing::Zstd, Packing::Lz4];
        let place = self.seen.packing.load(Ordering::Relaxed).checked_sub(1)?;
        all.get(place as usize).map(|packing| packing.name())
    }

    /// Bytes of the compressed file used so far.
    pub(super) fn packed_offset(&self) -> u64 {
        self.seen.offset.load(Ordering::Relaxed)
    }
}

/// The thread: ends with the file, with an error, or when the other end is gone.
fn run(input: Input, empty: &Receiver<Buffer>, full: &SyncSender<Result<Piece, Failure>>, seen: &Seen) {
    let mut feed = Feed::New(input);
    let mut fresh = PIECES;
    while let Ok(buffer) = empty.recv() {
        if fresh > 0 {
            fresh -= 1;
            // Huge pages are faster to fill, and the file is read without them too.
            buffer.populate().ok();
        }
        let piece = match feed.fill(buffer, seen) {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) if matches!(feed, Feed::Packed(_)) => continue,
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        let failed = piece.is_err();
        if full.send(piece).is_err() || failed {
            return;
        }
    }
}

impl Feed {
    /// Fills a buffer. `None` at the end, when it is [`Feed::Over`], and when the buffer was needed for
    /// something else.
    fn fill(&mut self, mut buffer: Buffer, seen: &Seen) -> Result<Option<Piece>, Failure> {
        let bytes = match self {
            Self::New(_) => return self.begin(buffer, seen),
            Self::Plain(input) => input.read(&mut buffer).map_err(Failure::Os)?,
            Self::Packed(unpack) => {
                let bytes = unpack.read(&mut buffer)?;
                seen.offset.store(unpack.offset(), Ordering::Relaxed);
                bytes
            }
            Self::Over => 0,
        };
        if bytes == 0 {
            *self = Self::Over;
            return Ok(None);
        }
        Ok(Some(Piece { buffer, bytes }))
    }

    /// Looks at the first bytes. The buffer becomes the first part, or holds what is to be unpacked.
    fn begin(&mut self, mut buffer: Buffer, seen: &Seen) -> Result<Option<Piece>, Failure> {
        let Self::New(mut input) = std::mem::replace(self, Self::Over) else { return Ok(None) };
        let mut bytes = 0;
        // A pipe may give them one by one.
        while bytes < MAGIC_BYTES {
            match input.read(&mut buffer[bytes..]).map_err(Failure::Os)? {
                0 => break,
                more => bytes += more,
            }
        }
        match Packing::of(&buffer[..bytes]) {
            Some(packing) => {
                seen.packing.store(packing as u64 + 1, Ordering::Relaxed);
                let unpack = Unpack::new(packing, Box::new(input), buffer, bytes);
                *self = Self::Packed(unpack.map_err(Failure::Os)?);
                Ok(None)
            }
            None if bytes == 0 => Ok(None),
            None => {
                *self = Self::Plain(input);
                Ok(Some(Piece { buffer, bytes }))
            }
        }
    }
}
