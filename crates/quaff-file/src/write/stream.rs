//! stdout, pipes and devices: bytes are written as fast as the reader takes them. A slow reader fills the
//! buffer; a reader that closes the pipe ends the run, which is not a failure.

use super::Sink;
use super::descriptor::is_closed;
use super::header::Heading;
use crate::Result;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quaff_os::clock::steady_ns;
use quaff_os::{Buffer, Reason, Stop};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Interval of the checks that the pipe has a reader, ns.
const CHECK_NS: u64 = 200_000_000;
/// At the end of a run, time without progress after which the reader is abandoned, ns.
const READER_TIMEOUT_NS: u64 = 2_000_000_000;

/// An output without seeking.
#[derive(Debug)]
pub(super) struct Stream {
    out: File,
    heading: Heading,
    counts: Vec<Counts>,
    /// The counts of each lane's last written chunk.
    written: Vec<Counts>,
    /// Number of interfaces described so far.
    described: usize,
    begun: bool,
    closed: bool,
    /// The reader closed the pipe: later packets are not lost, whatever else ends the run.
    closed_by_reader: bool,
    checked_ns: u64,
    /// Steady time of the last successful write.
    taken_ns: u64,
    free_buffers: VecDeque<(usize, Buffer)>,
    tally: WriterTally,
    stop: Stop,
    /// Once raised, a reader that makes no progress is abandoned.
    run: Option<Stop>,
    gauges: Arc<WriterGauges>,
}

impl Stream {
    /// Creates a sink that writes to `out`, which must be non-blocking if `run` is given.
    pub(super) fn new(
        out: File,
        heading: Heading,
        stop: Stop,
        run: Option<Stop>,
        gauges: Arc<WriterGauges>,
    ) -> Self {
        let lanes = heading.lanes;
        Self {
            out,
            heading,
            stop,
            run,
            gauges,
            counts: vec![Counts::default(); lanes],
            written: vec![Counts::default(); lanes],
            described: 0,
            begun: false,
            closed: false,
            closed_by_reader: false,
            checked_ns: 0,
            taken_ns: 0,
            free_buffers: VecDeque::new(),
            tally: WriterTally::default(),
        }
    }

    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            let (first, described) = self.heading.first(&self.counts);
            self.described = described;
            self.write(&first);
        }
    }

    /// Describes the interfaces found since, before a chunk that refers to them.
    fn describe(&mut self, interfaces: usize) {
        if self.described < interfaces {
            let (more, described) = self.heading.more(self.described..interfaces);
            self.described = described;
            self.write(&more);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        if self.closed {
            return false;
        }
        let started_ns = steady_ns();
        let written = self.write_all(bytes);
        self.tally.write_high_ns = self.tally.write_high_ns.max(steady_ns() - started_ns);
        if let Err(error) = written {
            self.closed = true;
            self.closed_by_reader = error.kind() == ErrorKind::BrokenPipe;
            self.stop.raise(match error.kind() {
                ErrorKind::BrokenPipe => Reason::OutputClosed,
                ErrorKind::StorageFull => Reason::DiskFull,
                _ => Reason::WriteError(error.to_string()),
            });
            return false;
        }
        self.tally.bytes += bytes.len() as u64;
        true
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (taken_ns, run) = (self.taken_ns, &self.run);
            let count = write_some(&mut self.out, bytes, || {
                let is_late = steady_ns() - taken_ns > READER_TIMEOUT_NS;
                match is_late && run.as_ref().is_some_and(Stop::raised) {
                    true => Err(io::Error::new(ErrorKind::TimedOut, "the reader has stopped reading")),
                    false => Ok(()),
                }
            })?;
            bytes = &bytes[count..];
            self.taken_ns = steady_ns();
        }
        Ok(())
    }
}

/// Writes at least one of `bytes`, also to a non-blocking descriptor. While the reader takes none, `on_wait` is called
/// several times a second; its error ends the wait.
pub(super) fn write_some(
    out: &mut File,
    bytes: &[u8],
    on_wait: impl Fn() -> io::Result<()>,
) -> io::Result<usize> {
    loop {
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => on_wait()?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut fds, PollTimeout::from(100u8)) {
                    Ok(_) | Err(nix::Error::EINTR) => on_wait()?,
                    Err(errno) => return Err(errno.into()),
                }
            }
            written => return written,
        }
    }
}

impl Sink for Stream {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.begin();
        self.describe(chunk.interfaces);
        self.counts[lane].clone_from(&chunk.counts);
        if self.write(&chunk.buffer[..chunk.len]) {
            self.written[lane] = chunk.counts;
            self.tally.written += chunk.packets;
        } else if self.closed_by_reader {
            self.tally.after_close += chunk.packets;
        } else {
            self.tally.lost += chunk.packets;
        }
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
        self.gauges.lost.set(self.tally.lost);
        self.free_buffers.push_back((lane, chunk.buffer));
        Ok(())
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.counts[lane] = counts;
    }

    fn begin_slot(&mut self, _slot: u64) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        self.begin();
        let now_ns = steady_ns();
        if !self.closed && now_ns - self.checked_ns >= CHECK_NS {
            self.checked_ns = now_ns;
            if is_closed(&self.out) {
                self.closed = true;
                self.closed_by_reader = true;
                self.stop.raise(Reason::OutputClosed);
            }
        }
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        Ok(self.free_buffers.pop_front())
    }

    fn pending(&self) -> usize {
        self.free_buffers.len()
    }

    fn max_wait(&self) -> Duration {
        Duration::from_nanos(CHECK_NS)
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.begin();
        let last = self.heading.last(&self.counts, &self.written, self.described);
        self.write(&last);
        self.tally.files = 1;
        Ok(self.tally.clone())
    }
}
