//! A thread that reads a file ahead of its decoder, into a few slabs that go round.
//!
//! It knows bytes, not packets. When the decoder is the slower one the thread waits for a slab to
//! come back, so memory stays at [`PIECES`] slabs whatever the file.

use quaff_os::disk::Reader;
use quaff_os::mem::Slab;
use quaff_os::{Result, Try};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// One is decoded, one is read, and two take up the unevenness of both.
const PIECES: usize = 4;
/// As the capture writes them; a disk gives its full speed for reads of this size.
const PIECE_BYTES: usize = 4 << 20;

/// A part of the file: the first `bytes` of the slab.
#[derive(Debug)]
pub(super) struct Piece {
    slab: Slab,
    bytes: usize,
}

/// The far end of the reading thread.
#[derive(Debug)]
pub(super) struct ReadAhead {
    full: Receiver<io::Result<Piece>>,
    empty: SyncSender<Slab>,
}

enum Input {
    Regular { reader: Reader, offset: u64 },
    Stream(File),
}

impl Piece {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.slab[..self.bytes]
    }
}

impl ReadAhead {
    /// Opens `path`, `-` for standard input, and begins to read. Also gives the size, where the file
    /// has one.
    pub(super) fn open(path: &Path) -> Result<(Self, Option<u64>)> {
        let (input, size) = open(path)?;
        let (empty, to_fill) = sync_channel(PIECES);
        let (filled, full) = sync_channel(PIECES);
        for _ in 0..PIECES {
            let slab = Slab::new(PIECE_BYTES)?;
            // Huge pages are faster to fill, and the file is read without them too.
            slab.populate().ok();
            empty.try_send(slab).ok();
        }
        let fill = move || fill(input, &to_fill, &filled);
        std::thread::Builder::new()
            .name("read ahead".into())
            .spawn(fill)
            .trying(|| format!("start a thread that reads {}", path.display()))?;
        Ok((Self { full, empty }, size))
    }

    /// The next part of the file, `None` at its end. Waits for it.
    pub(super) fn next(&self) -> io::Result<Option<Piece>> {
        self.full.recv().ok().transpose()
    }

    /// Gives a part back, so that its memory is filled again.
    pub(super) fn give_back(&self, piece: Piece) {
        // After the end of the file nobody wants it.
        self.empty.send(piece.slab).ok();
    }
}

fn open(path: &Path) -> Result<(Input, Option<u64>)> {
    let tried = || format!("open {}", path.display());
    if path == Path::new("-") {
        let stdin = io::stdin().as_fd().try_clone_to_owned().trying(|| "open standard input")?;
        return Ok((Input::Stream(stdin.into()), None));
    }
    let found = path.metadata().trying(tried)?;
    if found.is_file() {
        return Ok((Input::Regular { reader: Reader::open(path)?, offset: 0 }, Some(found.len())));
    }
    Ok((Input::Stream(File::open(path).trying(tried)?), None))
}

/// The thread: ends with the file, with an error, or when the other end is gone.
fn fill(mut input: Input, empty: &Receiver<Slab>, full: &SyncSender<io::Result<Piece>>) {
    while let Ok(mut slab) = empty.recv() {
        let piece = match read(&mut input, &mut slab) {
            Ok(0) => return,
            Ok(bytes) => Ok(Piece { slab, bytes }),
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if full.send(piece).is_err() || failed {
            return;
        }
    }
}

fn read(input: &mut Input, slab: &mut Slab) -> io::Result<usize> {
    loop {
        let done = match input {
            Input::Regular { reader, offset } => {
                reader.read_at(slab, *offset).inspect(|bytes| *offset += *bytes as u64)
            }
            Input::Stream(file) => file.read(slab),
        };
        match done {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
