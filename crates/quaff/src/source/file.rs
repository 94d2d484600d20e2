//! A capture file, pcap or pcapng, as a source: read ahead of the decoder, packets never copied.
//!
//! Only a packet that straddles two parts of the file is put together in a buffer of its own; that
//! buffer is as long as the packet.

use super::ahead::ReadAhead;
use quaff_wire::decode::{Damage, Decoder, Format, Item, Step};
use std::path::{Path, PathBuf};

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
}

/// A file that is being read.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    size: Option<u64>,
    ahead: ReadAhead,
    decoder: Decoder,
    /// The beginning of a unit whose end is in the next part of the file.
    straddler: Vec<u8>,
}

impl CaptureFile {
    /// Opens a file, `-` for standard input, and begins to read it.
    pub fn open(path: &Path) -> quaff_os::Result<Self> {
        let (ahead, size) = ReadAhead::open(path)?;
        Ok(Self { path: path.into(), size, ahead, decoder: Decoder::new(), straddler: Vec::new() })
    }

    /// Hands the items of the next part of the file (some MiB) to `each`, in order. `false` when
    /// there is no more; waits for the disk, or for whoever writes into the pipe.
    ///
    /// After an error nothing more comes.
    pub fn pull(&mut self, mut each: impl FnMut(Item<'_>)) -> Result<bool, Error> {
        let tried = || format!("read {}", self.path.display());
        let piece = self.ahead.next().map_err(|errno| quaff_os::Error::new(tried(), errno))?;
        let Some(piece) = piece else {
            return self.decoder.end(&self.straddler).map(|()| false).map_err(|damage| self.damaged(damage));
        };
        let mut rest = piece.bytes();
        let done = self
            .finish_straddler(&mut rest, &mut each)
            .and_then(|()| drain(&mut self.decoder, &mut rest, &mut each).map(|_needed| ()));
        self.straddler.extend_from_slice(rest);
        self.ahead.give_back(piece);
        done.map(|()| true).map_err(|damage| self.damaged(damage))
    }

    /// Bytes decoded so far.
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Bytes of the file when it was opened; `None` for a pipe.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The format, once something has been read.
    pub fn format(&self) -> Option<Format> {
        self.decoder.format()
    }

    /// Adds to the straddler just what it lacks, until it has been read or `rest` is used up.
    fn finish_straddler(&mut self, rest: &mut &[u8], each: &mut impl FnMut(Item<'_>)) -> Result<(), Damage> {
        while !self.straddler.is_empty() {
            let mut held = &self.straddler[..];
            let needed = drain(&mut self.decoder, &mut held, each)?;
            let (lacks, done) = (needed - held.len(), self.straddler.len() - held.len());
            self.straddler.drain(..done);
            if self.straddler.is_empty() || rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(lacks.min(rest.len()));
            self.straddler.extend_from_slice(now);
            *rest = later;
        }
        Ok(())
    }

    fn damaged(&self, damage: Damage) -> Error {
        Error::Damage { path: self.path.clone(), damage }
    }
}

/// Reads all that is complete in `bytes`; gives what the decoder needs to go on.
fn drain(decoder: &mut Decoder, bytes: &mut &[u8], each: &mut impl FnMut(Item<'_>)) -> Result<usize, Damage> {
    loop {
        match decoder.next(bytes)? {
            Step::Item(item) => each(item),
            Step::NeedMore(needed) => return Ok(needed),
        }
    }
}
