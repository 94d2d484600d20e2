//! The reader: fills buffers from stdin.
//!
//! A buffer goes to the writer when it is full or when the writer is idle; a sink that writes whole blocks gets full
//! buffers, or a partial one after 0.3 s. So a backlog consists of full buffers, and without a backlog no byte is
//! delayed.

use super::descriptor::wait_readable;
use super::gauges::{PipeGauges, Stalls};
use crate::buffer_pool::Supply;
use crate::{Error, Result};
use nix::errno::Errno;
use quaff_file::write::{FdKind, FilledBuffer, enlarge, fd_kind};
use quaff_os::clock::steady_ns;
use quaff_os::{Buffer, Reason, Stop, Wakeup, queued_bytes};
use rtrb::Producer;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Longest delay of bytes for a sink that writes whole blocks, ns.
const FLUSH_NS: u64 = 300_000_000;
/// Interval at which the stop is checked while the ring is full.
const STOP_POLL: Duration = Duration::from_millis(250);
/// Interval of polling for populated memory.
const READY_POLL: Duration = Duration::from_millis(1);
/// Pause after a short read from a pipe, so that its writer fills it and one read replaces many. At 4 GB/s this
/// fills 1 MiB.
const NAP: Duration = Duration::from_micros(200);
/// Smaller pipes would be full during a pause, bytes.
const NAP_PIPE_BYTES: usize = 512 << 10;

pub(super) struct Reader {
    stdin: File,
    kind: FdKind,
    pipe_bytes: usize,
    supply: Supply,
    outbound: Producer<FilledBuffer>,
    /// Signalled for the writer.
    wakeup: Wakeup,
    /// Signalled by the writer: a buffer was returned, or the writer is idle.
    back: Wakeup,
    /// Signalled when the stop is raised.
    stop_wakeup: Wakeup,
    stop: Stop,
    gauges: Arc<PipeGauges>,
    /// Alignment of the sink's writes, bytes; 1 is none.
    align: usize,
    open: Option<Open>,
    /// The end of the last buffer that did not fill a block: the next buffer begins with it.
    carry: Vec<u8>,
    drain: Option<Drain>,
    tally: ReadTally,
}

/// The buffer being filled.
struct Open {
    buffer: Buffer,
    len: usize,
    repeated: usize,
    /// Time of its first new byte.
    since_ns: u64,
}

/// The limits of reading after the stop.
struct Drain {
    until_ns: u64,
    left_bytes: u64,
}

/// The counts of the reader.
#[derive(Debug, Default)]
pub(super) struct ReadTally {
    /// Time of the first byte.
    pub(super) first_ns: Option<u64>,
    /// The ring was full.
    pub(super) full: Stalls,
    /// Memory was not populated.
    pub(super) unready: Stalls,
}

impl Reader {
    pub(super) fn new(
        stdin: File,
        supply: Supply,
        outbound: Producer<FilledBuffer>,
        wakeup: Wakeup,
        align: usize,
        gauges: &Arc<PipeGauges>,
        stop: &Stop,
    ) -> Result<Self> {
        let stop_wakeup = Wakeup::new()?;
        stop.wake(stop_wakeup.clone());
        Ok(Self {
            kind: fd_kind(&stdin),
            pipe_bytes: enlarge(&stdin),
            stdin,
            supply,
            outbound,
            wakeup,
            back: Wakeup::new()?,
            stop_wakeup,
            stop: stop.clone(),
            gauges: gauges.clone(),
            align,
            open: None,
            carry: Vec::with_capacity(align),
            drain: None,
            tally: ReadTally::default(),
        })
    }

    /// The wakeup that the writer signals.
    pub(super) fn back(&self) -> Wakeup {
        self.back.clone()
    }

    /// Reads until the end of stdin or the stop, and signals the end to the writer.
    pub(super) fn run(mut self) -> Result<ReadTally> {
        let done = self.read_all();
        self.pass_on();
        drop(self.outbound);
        self.wakeup.signal();
        done.map(|()| self.tally)
    }

    fn read_all(&mut self) -> Result<()> {
        while self.has_more() {
            if !self.wait()? {
                continue;
            }
            let Some(mut open) = self.take_open() else { return Ok(()) };
            let bytes = nix::unistd::read(&self.stdin, &mut open.buffer[open.len..]);
            let bytes = match bytes {
                Ok(0) => {
                    self.open = Some(open);
                    return Ok(());
                }
                Ok(bytes) => bytes,
                Err(Errno::EINTR | Errno::EAGAIN) => 0,
                Err(errno) => return Err(Error::path("read from", "stdin", errno.into())),
            };
            self.count_read(&mut open, bytes);
            self.open = Some(open);
            self.pass_on_if_due();
            if self.kind == FdKind::Pipe && self.pipe_bytes >= NAP_PIPE_BYTES && bytes * 8 < self.pipe_bytes {
                std::thread::sleep(NAP);
            }
        }
        Ok(())
    }

    fn count_read(&mut self, open: &mut Open, bytes: usize) {
        let now_ns = steady_ns();
        self.tally.first_ns.get_or_insert(now_ns);
        if open.len == open.repeated {
            open.since_ns = now_ns;
        }
        open.len += bytes;
        let read = self.gauges.read.get() + bytes as u64;
        self.gauges.read.set(read);
        let waiting = read.saturating_sub(self.gauges.written.get());
        if waiting > self.gauges.high.get() {
            self.gauges.high.set(waiting);
        }
        if let Some(drain) = &mut self.drain {
            drain.left_bytes = drain.left_bytes.saturating_sub(bytes as u64);
        }
    }

    /// Returns whether to continue. After a signal the reader drains the pipe, or reads until the grace time is
    /// over; after any other reason it stops at once.
    fn has_more(&mut self) -> bool {
        if !self.stop.raised() {
            return true;
        }
        if self.stop.reason() != Some(Reason::Signal) {
            return false;
        }
        let (grace_ns, now_ns) = (self.gauges.grace_ns.get(), steady_ns());
        let drain = self.drain.get_or_insert_with(|| Drain {
            until_ns: now_ns + grace_ns,
            left_bytes: match self.kind {
                FdKind::Pipe if grace_ns > 0 => u64::MAX,
                FdKind::Pipe => queued_bytes(&self.stdin) as u64,
                _ => 0,
            },
        });
        if drain.left_bytes == u64::MAX && now_ns >= drain.until_ns {
            // The bytes in the pipe now are read, however long the output takes.
            drain.left_bytes = queued_bytes(&self.stdin) as u64;
        }
        drain.left_bytes > 0
    }

    /// Waits for input; returns whether there is any.
    fn wait(&mut self) -> Result<bool> {
        if self.kind == FdKind::File {
            return Ok(true);
        }
        let failed = |errno: Errno| Error::Os(quaff_os::Error::new("wait for stdin", errno));
        if self.drain.is_some() {
            let [input] = wait_readable([self.stdin.as_fd()], Some(10)).map_err(failed)?;
            if let Some(drain) = self.drain.as_mut().filter(|drain| !input && drain.left_bytes < u64::MAX) {
                drain.left_bytes = 0;
            }
            return Ok(input);
        }
        let held = self.open.as_ref().filter(|open| open.len > open.repeated).map(|open| open.since_ns);
        let Some(since_ns) = held else {
            let fds = [self.stdin.as_fd(), self.stop_wakeup.as_fd()];
            let [input, _] = wait_readable(fds, None).map_err(failed)?;
            return Ok(input);
        };
        // Cleared first: a writer that becomes idle after this check signals again.
        self.back.clear();
        if self.pass_on_if_due() {
            return Ok(false);
        }
        let left_ns = (since_ns + FLUSH_NS).saturating_sub(steady_ns());
        // Due bytes wait for the writer, which signals when it is idle.
        let wait_ms = (self.align > 1 && left_ns > 0).then_some(left_ns.div_ceil(1_000_000) as u16);
        let fds = [self.stdin.as_fd(), self.stop_wakeup.as_fd(), self.back.as_fd()];
        let [input, ..] = wait_readable(fds, wait_ms).map_err(failed)?;
        Ok(input)
    }

    /// The buffer to read into; `None` when the run ends before one is free.
    fn take_open(&mut self) -> Option<Open> {
        if self.open.is_some() {
            return self.open.take();
        }
        let mut buffer = self.take_buffer()?;
        let repeated = self.carry.len();
        buffer[..repeated].copy_from_slice(&self.carry);
        self.carry.clear();
        Some(Open { buffer, len: repeated, repeated, since_ns: 0 })
    }

    fn take_buffer(&mut self) -> Option<Buffer> {
        if let Some(buffer) = self.supply.take() {
            return Some(buffer);
        }
        let since_ns = steady_ns();
        // The thread that populates memory does not signal.
        let is_full = self.supply.out() >= self.supply.most;
        let wait = if is_full { STOP_POLL } else { READY_POLL };
        let buffer = loop {
            self.back.clear();
            if let Some(buffer) = self.supply.take() {
                break Some(buffer);
            }
            let is_over = self.stop.raised() && self.stop.reason() != Some(Reason::Signal);
            if is_over || self.outbound.is_abandoned() || self.back.wait(wait).is_err() {
                break None;
            }
        };
        if is_full {
            self.tally.full.add(since_ns)
        } else {
            self.tally.unready.add(since_ns)
        }
        buffer
    }

    /// Passes the open buffer on when it is full, when the writer is idle, or when its bytes are due.
    fn pass_on_if_due(&mut self) -> bool {
        let Some(open) = &self.open else { return false };
        let is_idle = || self.outbound.slots() == self.outbound.buffer().capacity();
        let is_due = if open.len == open.buffer.len() {
            true
        } else if self.align == 1 {
            open.len > 0 && is_idle()
        } else {
            open.len > open.repeated && steady_ns() >= open.since_ns + FLUSH_NS && is_idle()
        };
        if is_due {
            self.pass_on();
        }
        is_due
    }

    fn pass_on(&mut self) {
        let Some(open) = self.open.take_if(|open| open.len > open.repeated) else { return };
        let Open { buffer, len, repeated, .. } = open;
        let rest = len % self.align;
        self.carry.extend_from_slice(&buffer[len - rest..len]);
        let pushed = self.outbound.push(FilledBuffer { buffer, len, repeated });
        assert!(pushed.is_ok(), "the ring has a place for every buffer");
        self.wakeup.signal();
    }
}
