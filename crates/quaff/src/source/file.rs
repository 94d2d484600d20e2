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
        let (mut items, mut rest) = (Vec::new(), file);
        drain(&mut Decoder::new(), &mut rest, &mut |item| items.push(digest(&item))).unwrap();
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
