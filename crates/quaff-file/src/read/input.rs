//! Where the bytes of a file come from: a disk, a pipe, or a file that somebody is still writing.

use super::capture_file::Options;
use nix::fcntl::{FcntlArg, fcntl};
use quaff_os::disk::{Reader, Watch};
use quaff_os::stop::Stop;
use quaff_os::wakeup::Wakeup;
use quaff_os::{Result, Try};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// How often a followed file is looked at, whether inotify says something or not.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes, in order.
#[derive(Debug)]
pub(super) struct Input {
    kind: Kind,
    stop: Stop,
}

#[derive(Debug)]
enum Kind {
    Regular { reader: Reader, offset: u64, follow: Option<Follow> },
    Stream(File),
}

/// What it takes to wait for more.
#[derive(Debug)]
struct Follow {
    watch: Watch,
    /// Signalled by the stop.
    wakeup: Wakeup,
}

impl Input {
    /// Opens `path`, `-` for standard input. Also gives the size, where there is one.
    pub(super) fn open(path: &Path, options: &Options) -> Result<(Self, Option<u64>)> {
        let tried = || format!("open {}", path.display());
        let stop = options.stop.clone();
        if path == Path::new("-") {
            let stdin = io::stdin().as_fd().try_clone_to_owned().trying(|| "open standard input")?;
            return Ok((Self { kind: stream(stdin.into()), stop }, None));
        }
        let found = path.metadata().trying(tried)?;
        if !found.is_file() {
            return Ok((Self { kind: stream(File::open(path).trying(tried)?), stop }, None));
        }
        let reader = Reader::open(path)?;
        let mut follow = None;
        if options.follow {
            let (watch, wakeup) = (Watch::new(path, reader.file())?, Wakeup::new()?);
            stop.wake(wakeup.clone());
            follow = Some(Follow { watch, wakeup });
        }
        let size = follow.is_none().then_some(found.len());
        Ok((Self { kind: Kind::Regular { reader, offset: 0, follow }, stop }, size))
    }
}

/// A pipe takes as much at once as the kernel lets it; other streams do not care.
fn stream(file: File) -> Kind {
    // What any process may ask for: pipe-max-size, pipe(7).
    let _ = fcntl(&file, FcntlArg::F_SETPIPE_SZ(1 << 20));
    Kind::Stream(file)
}

impl Read for Input {
    /// Reads what comes next, or what is there of it; 0 is the end, or the stop.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let done = match &mut self.kind {
                Kind::Stream(_) if self.stop.raised() => Ok(0),
                Kind::Stream(file) => file.read(out),
                Kind::Regular { follow: None, .. } if self.stop.raised() => Ok(0),
                Kind::Regular { reader, offset, follow } => {
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
    /// At the end of the file: waits until there is more. `false` when there will not be.
    fn wait(&self, reader: &Reader, offset: u64, stop: &Stop) -> io::Result<bool> {
        loop {
            // In this order: what was written before it went away is still read.
            let is_over = stop.raised() || !self.watch.is_there();
            let size = reader.file().metadata()?.len();
            if size > offset {
                return Ok(true);
            }
            if size < offset {
                let what = format!("it was cut to {size} bytes while {offset} had been read");
                return Err(io::Error::new(ErrorKind::InvalidData, what));
            }
            if is_over {
                return Ok(false);
            }
            self.watch.wait(&self.wakeup, LOOK);
        }
    }
}
