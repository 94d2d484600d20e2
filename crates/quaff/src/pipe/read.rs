//! The reader: stdin into buffers, as much at a time as there is.
//!
//! A buffer goes to the writer when it is full, or as soon as the writer has nothing else to do; an
//! outlet that writes whole blocks gets full ones, and what there is after a moment. So a backlog is
//! made of full buffers, and without one no byte waits for others.

use super::{Outlet, Piece, PipeGauges, Stalls};
use crate::buffer_pool::Supply;
use crate::{Error, Result};
use nix::errno::Errno;
use quaff_os::clock::steady_ns;
use quaff_os::mem::Buffer;
use quaff_os::pipe::{FdKind, enlarge, fd_kind, queued_bytes, wait_readable};
use quaff_os::stop::{Reason, Stop};
use quaff_os::wakeup::Wakeup;
use rtrb::Producer;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// How long bytes stay here at the most for an outlet that writes whole blocks, ns.
const FLUSH_NS: u64 = 300_000_000;
/// How long a full ring is waited for before the stop is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long memory is waited for that is being made ready, before it is looked for again.
const READY_LOOK: Duration = Duration::from_millis(1);
/// A pipe that gave little is left alone for a moment: who writes to it gets on with it, and is read
/// with one call instead of many. At 4 GB/s this fills 1 MiB.
const NAP: Duration = Duration::from_micros(200);
/// Pipes that hold less than this would be full in a nap, bytes.
const NAP_PIPE_BYTES: usize = 512 << 10;

/// The reader.
pub(super) struct Reader {
    stdin: File,
    kind: FdKind,
    pipe_bytes: usize,
    supply: Supply,
    outbound: Producer<Piece>,
    /// Signalled for the writer.
    wakeup: Wakeup,
    /// Signalled by the writer: a buffer has come home, or it has nothing to do.
    back: Wakeup,
    /// Signalled when the run is to end.
    alarm: Wakeup,
    stop: Stop,
    gauges: Arc<PipeGauges>,
    /// What the outlet's writes are aligned to, bytes; 1 is nothing.
    align: usize,
    open: Option<Open>,
    /// Bytes that the last piece had left over, and that the next one begins with.
    over: Vec<u8>,
    last: Option<Last>,
    tally: ReadTally,
}

/// The buffer that is being filled.
struct Open {
    buffer: Buffer,
    len: usize,
    again: usize,
    /// When its first new byte came.
    since_ns: u64,
}

/// What may still be read after the stop.
struct Last {
    until_ns: u64,
    left_bytes: u64,
}

/// What the reader has counted.
#[derive(Debug, Default)]
pub(super) struct ReadTally {
    /// When the first byte came.
    pub(super) first_ns: Option<u64>,
    /// The ring was full.
    pub(super) full: Stalls,
    /// Memory was not ready.
    pub(super) unready: Stalls,
}

impl Reader {
    pub(super) fn new(
        stdin: File,
        supply: Supply,
        outbound: Producer<Piece>,
        outlet: &dyn Outlet,
        gauges: &Arc<PipeGauges>,
        stop: &Stop,
    ) -> Result<Self> {
        let alarm = Wakeup::new()?;
        stop.wake(alarm.clone());
        Ok(Self {
            kind: fd_kind(&stdin),
            pipe_bytes: enlarge(&stdin),
            stdin,
            supply,
            outbound,
            wakeup: outlet.wakeup(),
            back: Wakeup::new()?,
            alarm,
            stop: stop.clone(),
            gauges: gauges.clone(),
            align: outlet.align(),
            open: None,
            over: Vec::with_capacity(outlet.align()),
            last: None,
            tally: ReadTally::default(),
        })
    }

    /// The wakeup that the writer is to ring.
    pub(super) fn back(&self) -> Wakeup {
        self.back.clone()
    }

    /// Reads until the end of stdin, or the stop. The writer hears of the end either way.
    pub(super) fn run(mut self) -> Result<ReadTally> {
        let done = self.read_all();
        self.hand_over();
        drop(self.outbound);
        self.wakeup.signal();
        done.map(|()| self.tally)
    }

    fn read_all(&mut self) -> Result<()> {
        while self.goes_on() {
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
            self.took(&mut open, bytes);
            self.open = Some(open);
            self.hand_over_if_due();
            if self.kind == FdKind::Pipe && self.pipe_bytes >= NAP_PIPE_BYTES && bytes * 8 < self.pipe_bytes {
                std::thread::sleep(NAP);
            }
        }
        Ok(())
    }

    fn took(&mut self, open: &mut Open, bytes: usize) {
        let now_ns = steady_ns();
        self.tally.first_ns.get_or_insert(now_ns);
        if open.len == open.again {
            open.since_ns = now_ns;
        }
        open.len += bytes;
        let read = self.gauges.read.get() + bytes as u64;
        self.gauges.read.set(read);
        let waiting = read.saturating_sub(self.gauges.written.get());
        if waiting > self.gauges.high.get() {
            self.gauges.high.set(waiting);
        }
        if let Some(last) = &mut self.last {
            last.left_bytes = last.left_bytes.saturating_sub(bytes as u64);
        }
    }

    /// Whether there may be more to read. After a signal that is what the pipe holds by then, or what
    /// it gets while there is patience; after anything else nothing.
    fn goes_on(&mut self) -> bool {
        if !self.stop.raised() {
            return true;
        }
        if self.stop.reason() != Some(Reason::Signal) {
            return false;
        }
        let (patience_ns, now_ns) = (self.gauges.patience_ns.get(), steady_ns());
        let last = self.last.get_or_insert_with(|| Last {
            until_ns: now_ns + patience_ns,
            left_bytes: match self.kind {
                FdKind::Pipe if patience_ns > 0 => u64::MAX,
                FdKind::Pipe => queued_bytes(&self.stdin) as u64,
                _ => 0,
            },
        });
        if last.left_bytes == u64::MAX && now_ns >= last.until_ns {
            // What is there by now is read still, however long the output takes.
            last.left_bytes = queued_bytes(&self.stdin) as u64;
        }
        last.left_bytes > 0
    }

    /// Waits for something to read; says whether there is.
    fn wait(&mut self) -> Result<bool> {
        if self.kind == FdKind::File {
            return Ok(true);
        }
        let failed = |errno: Errno| Error::Os(quaff_os::Error::new("wait for stdin", errno));
        if self.last.is_some() {
            let [input] = wait_readable([self.stdin.as_fd()], Some(10)).map_err(failed)?;
            if let Some(last) = self.last.as_mut().filter(|last| !input && last.left_bytes < u64::MAX) {
                last.left_bytes = 0;
            }
            return Ok(input);
        }
        let held = self.open.as_ref().filter(|open| open.len > open.again).map(|open| open.since_ns);
        let Some(since_ns) = held else {
            let fds = [self.stdin.as_fd(), self.alarm.as_fd()];
            let [input, _] = wait_readable(fds, None).map_err(failed)?;
            return Ok(input);
        };
        // Silenced first: a writer that runs dry after this look signals.
        self.back.clear();
        if self.hand_over_if_due() {
            return Ok(false);
        }
        let left_ns = (since_ns + FLUSH_NS).saturating_sub(steady_ns());
        // What is due and still here waits for the writer, who signals.
        let wait_ms = (self.align > 1 && left_ns > 0).then_some(left_ns.div_ceil(1_000_000) as u16);
        let fds = [self.stdin.as_fd(), self.alarm.as_fd(), self.back.as_fd()];
        let [input, ..] = wait_readable(fds, wait_ms).map_err(failed)?;
        Ok(input)
    }

    /// The buffer to read into. `None` when the run ends before there is one.
    fn take_open(&mut self) -> Option<Open> {
        if self.open.is_some() {
            return self.open.take();
        }
        let mut buffer = self.take_buffer()?;
        let again = self.over.len();
        buffer[..again].copy_from_slice(&self.over);
        self.over.clear();
        Some(Open { buffer, len: again, again, since_ns: 0 })
    }

    fn take_buffer(&mut self) -> Option<Buffer> {
        if let Some(buffer) = self.supply.take() {
            return Some(buffer);
        }
        let since_ns = steady_ns();
        // The thread that makes memory ready signals nobody.
        let is_full = self.supply.out() >= self.supply.count();
        let wait = if is_full { LOOK } else { READY_LOOK };
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

    /// Hands the open buffer over when it is full, when the writer has nothing to do, or when it has
    /// been open for long enough.
    fn hand_over_if_due(&mut self) -> bool {
        let Some(open) = &self.open else { return false };
        let is_idle = || self.outbound.slots() == self.outbound.buffer().capacity();
        let is_due = if open.len == open.buffer.len() {
            true
        } else if self.align == 1 {
            open.len > 0 && is_idle()
        } else {
            open.len > open.again && steady_ns() >= open.since_ns + FLUSH_NS && is_idle()
        };
        if is_due {
            self.hand_over();
        }
        is_due
    }

    fn hand_over(&mut self) {
        let Some(open) = self.open.take_if(|open| open.len > open.again) else { return };
        let Open { buffer, len, again, .. } = open;
        let over = len % self.align;
        self.over.extend_from_slice(&buffer[len - over..len]);
        let pushed = self.outbound.push(Piece { buffer, len, again });
        assert!(pushed.is_ok(), "the ring has a place for every buffer");
        self.wakeup.signal();
    }
}
