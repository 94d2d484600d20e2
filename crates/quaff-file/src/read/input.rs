//! The bytes of a file: from a disk, from a pipe, or of a file that another program is still writing.

use super::Options;
use super::watch::Watch;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quaff_os::disk::Reader;
use quaff_os::{Result, Stop, Try, Wakeup};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Bytes that are read from the page cache at a time: a few such pieces fit the second-level cache, where the decoder
/// then finds them. From a disk, longer reads are faster.
const CACHED_BYTES: usize = 256 << 10;
/// Interval of the checks of a followed file, in addition to inotify.
const LOOK: Duration = Duration::from_millis(200);

/// The bytes of a file, in order.
#[derive(Debug)]
pub(super) struct Input {
    kind: InputKind,
    stop: Stop,
}

#[derive(Debug)]
enum InputKind {
    Regular(Regular, Option<Follow>),
    Stream(File),
    /// A pipe with a name that may have no writer yet: it is opened without waiting for one (fifo(7)).
    Fifo(File),
}

#[derive(Debug)]
struct Regular {
    reader: Reader,
    offset: u64,
    /// The end of a part that is in the page cache.
    cached_end: u64,
}

/// Waits for a growing file.
#[derive(Debug)]
struct Follow {
    watch: Watch,
    /// Signalled by the stop.
    wakeup: Wakeup,
}

impl Input {
    /// Opens `path`, `-` for standard input.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self> {
        let tried = || format!("open {}", path.display());
        let stop = options.stop.clone();
        if path == Path::new("-") {
            let stdin = io::stdin().as_fd().try_clone_to_owned().trying(|| "open standard input")?;
            return Ok(Self { kind: stream(stdin.into()), stop });
        }
        let found = path.metadata().trying(tried)?;
        // In a folder it was a file: another user may have put a pipe in its place.
        let may_wait = !options.found.contains(path);
        if found.file_type().is_fifo() && may_wait {
            let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
            let file = file.trying(tried)?;
            // Between both calls another file may have taken its place.
            let is_fifo = file.metadata().trying(tried)?.file_type().is_fifo();
            let kind = if is_fifo {
                InputKind::Fifo(file)
            } else {
                InputKind::Stream(blocking(file).trying(tried)?)
            };
            return Ok(Self { kind, stop });
        }
        if !found.is_file() && may_wait {
            return Ok(Self { kind: stream(File::open(path).trying(tried)?), stop });
        }
        let reader = Reader::open(path)?;
        let mut follow = None;
        if options.follow {
            let (watch, wakeup) = (Watch::new(path, &reader.file)?, Wakeup::new()?);
            stop.wake(wakeup.clone());
            follow = Some(Follow { watch, wakeup });
        }
        let regular = Regular { reader, offset: 0, cached_end: 0 };
        Ok(Self { kind: InputKind::Regular(regular, follow), stop })
    }

    /// Returns whether a read of `bytes` would find the first of them in the page cache, and so take a small part.
    pub(super) fn is_cached(&mut self, bytes: usize) -> bool {
        match &mut self.kind {
            InputKind::Regular(file, _) => file.is_cached(bytes),
            InputKind::Stream(_) | InputKind::Fifo(_) => false,
        }
    }

    /// Returns whether the bytes before the next ones were in the page cache, without asking again.
    pub(super) fn was_cached(&self) -> bool {
        matches!(&self.kind, InputKind::Regular(file, _) if file.cached_end >= file.offset.max(1))
    }

    /// Returns whether it is a regular file that is not followed.
    pub(super) fn is_regular(&self) -> bool {
        matches!(self.kind, InputKind::Regular(_, None))
    }

    /// Another handle of a regular file that is not followed, and the offset that is read next; `None` for others, and
    /// without a descriptor for it.
    pub(super) fn regular(&self) -> Option<(File, u64)> {
        let InputKind::Regular(file, None) = &self.kind else { return None };
        Some((file.reader.file.try_clone().ok()?, file.offset))
    }

    /// Returns whether a regular file has bytes that were not read.
    pub(super) fn has_more(&self) -> bool {
        match &self.kind {
            InputKind::Regular(file, _) => {
                file.reader.file.metadata().is_ok_and(|found| found.len() > file.offset)
            }
            InputKind::Stream(_) | InputKind::Fifo(_) => true,
        }
    }

    /// Continues at `offset`, in a regular file.
    pub(super) fn move_to(&mut self, offset: u64) {
        if let InputKind::Regular(file, _) = &mut self.kind {
            file.offset = offset;
        }
    }

    /// Returns whether reading ends because of the stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.raised()
    }
}

/// Waits for the first bytes or the end of a pipe with a name; returns `false` after the stop. The first reader of a
/// pipe that nothing has opened for writing yet would read its end.
fn wait_for_writer(file: &File, stop: &Stop) -> io::Result<bool> {
    while !stop.raised() {
        let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX)) {
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// The file without O_NONBLOCK.
fn blocking(file: File) -> nix::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

/// Enlarges a pipe; other streams do not support that.
fn stream(file: File) -> InputKind {
    // The limit for unprivileged processes: pipe-max-size, pipe(7).
    let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(1 << 20));
    InputKind::Stream(file)
}

impl Read for Input {
    /// Reads the next available bytes; 0 at the end, or after the stop.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let done = match &mut self.kind {
                InputKind::Stream(_) if self.stop.raised() => Ok(0),
                InputKind::Fifo(file) => match wait_for_writer(file, &self.stop)? {
                    true => {
                        self.kind = stream(blocking(file.try_clone()?)?);
                        continue;
                    }
                    false => Ok(0),
                },
                InputKind::Stream(file) => file.read(out),
                InputKind::Regular(_, None) if self.stop.raised() => Ok(0),
                InputKind::Regular(file, follow) => match (file.read(out), follow) {
                    (Ok(0), Some(follow)) if follow.wait(&file.reader, file.offset, &self.stop)? => continue,
                    (read, _) => read,
                },
            };
            match done {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Regular {
    fn is_cached(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        if self.offset >= self.cached_end && self.reader.is_in_memory(self.offset, bytes) {
            self.cached_end = self.offset + bytes;
        }
        self.offset < self.cached_end
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = if self.is_cached(out.len()) {
            let piece = out.len().min(CACHED_BYTES);
            self.reader.file.read_at(&mut out[..piece], self.offset)
        } else {
            self.reader.read_at(out, self.offset)
        };
        read.inspect(|bytes| self.offset += *bytes as u64)
    }
}

impl Follow {
    /// At the end of the file: waits for more bytes. `false` when none will follow.
    fn wait(&self, reader: &Reader, offset: u64, stop: &Stop) -> io::Result<bool> {
        loop {
            // Checked before the size: bytes written before the file was removed are still read.
            let is_over = stop.raised() || !self.watch.is_there();
            let size = reader.file.metadata()?.len();
            if size > offset {
                return Ok(true);
            }
            if size < offset {
                let what = format!("the file was truncated to {size} bytes after {offset} had been read");
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
            if is_over {
                return Ok(false);
            }
            self.watch.wait(&self.wakeup, LOOK);
        }
    }
}
