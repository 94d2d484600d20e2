//! The bytes of a file: from a disk, from a pipe, or of a file that another program is still writing.

use super::Options;
use super::watch::Watch;
use nix::fcntl::{FcntlArg, fcntl};
use quaff_os::disk::Reader;
use quaff_os::{Result, Stop, Try, Wakeup};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

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
    Regular { reader: Reader, offset: u64, follow: Option<Follow> },
    Stream(File),
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
        if !found.is_file() {
            return Ok(Self { kind: stream(File::open(path).trying(tried)?), stop });
        }
        let reader = Reader::open(path)?;
        let mut follow = None;
        if options.follow {
            let (watch, wakeup) = (Watch::new(path, &reader.file)?, Wakeup::new()?);
            stop.wake(wakeup.clone());
            follow = Some(Follow { watch, wakeup });
        }
        Ok(Self { kind: InputKind::Regular { reader, offset: 0, follow }, stop })
    }
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
                InputKind::Stream(file) => file.read(out),
                InputKind::Regular { follow: None, .. } if self.stop.raised() => Ok(0),
                InputKind::Regular { reader, offset, follow } => {
                    let read = reader.read_at(out, *offset);
                    match (read, follow) {
                        (Ok(0), Some(follow)) if follow.wait(reader, *offset, &self.stop)? => continue,
                        (read, _) => read.inspect(|bytes| *offset += *bytes as u64),
                    }
                }
            };
            match done {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
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
