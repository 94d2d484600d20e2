//! The writer: passes filled buffers to the sink in order, and returns free ones to the reader.

use super::{FilledBuffer, Stalls};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::{Buffer, Reason, Stop, Wakeup};
use rtrb::{Consumer, Producer};
use std::io::ErrorKind;
use std::time::Duration;

/// Interval at which an idle sink flushes and checks for its reader.
const IDLE: Duration = Duration::from_millis(200);

/// The destination of the bytes. It sets the gauge of written bytes.
pub(super) trait PipeSink: Send {
    /// Writes a buffer, which [`PipeSink::reap`] returns later.
    fn put(&mut self, filled: FilledBuffer) -> Result<()>;

    /// A buffer that is free again, if any.
    fn reap(&mut self) -> Result<Option<Buffer>>;

    /// Flushes when no bytes arrive. `false` when the reader of the output has closed it.
    fn idle(&mut self) -> Result<bool>;

    /// Ends the output.
    fn finish(&mut self) -> Result<()>;

    /// After a failure: discards pending writes and leaves the output consistent.
    fn abandon(&mut self) {}

    /// Alignment of writes, bytes: the rest of a buffer is repeated in the next one.
    fn align(&self) -> usize {
        1
    }

    /// The wakeup that it signals, or has signalled, when there is something to do.
    fn wakeup(&self) -> Wakeup;

    /// The method of writing, for the report.
    fn describe(&self) -> String;

    /// Files written to a folder.
    fn files(&self) -> u64 {
        0
    }

    /// The detected format.
    fn kind(&self) -> Option<&'static str> {
        None
    }

    /// A warning for the user, at the end.
    fn note(&self) -> Option<String> {
        None
    }
}

/// The writer.
pub(super) struct Writer {
    pub(super) inbound: Consumer<FilledBuffer>,
    pub(super) free_buffers: Producer<Buffer>,
    pub(super) sink: Box<dyn PipeSink>,
    /// Signalled by the reader and by the disk.
    pub(super) wakeup: Wakeup,
    /// Signalled for the reader.
    pub(super) back: Wakeup,
    pub(super) stop: Stop,
}

/// The counts of the writer.
#[derive(Debug, Default)]
pub(super) struct WriteTally {
    /// Time of the last write.
    pub(super) last_ns: u64,
    /// The ring was empty.
    pub(super) empty: Stalls,
    /// Files written to a folder.
    pub(super) files: u64,
    /// The detected format.
    pub(super) kind: Option<&'static str>,
    /// The reader of the output closed it, whatever ended the run first.
    pub(super) is_closed: bool,
    /// A warning for the user.
    pub(super) note: Option<String>,
}

impl Writer {
    /// Writes until the reader has ended and all is written, or until the output is closed.
    pub(super) fn run(mut self) -> Result<WriteTally> {
        let mut tally = WriteTally::default();
        let done = self.write_all(&mut tally).and_then(|()| self.sink.finish());
        tally.last_ns = steady_ns();
        tally.files = self.sink.files();
        tally.kind = self.sink.kind();
        tally.note = self.sink.note();
        match done {
            Ok(()) => Ok(tally),
            Err(Error::File(quaff_file::Error::Path { errno, .. }))
                if errno.kind() == ErrorKind::BrokenPipe =>
            {
                self.stop.raise(Reason::OutputClosed);
                tally.is_closed = true;
                Ok(tally)
            }
            Err(error) => {
                self.sink.abandon();
                Err(error)
            }
        }
    }

    fn write_all(&mut self, tally: &mut WriteTally) -> Result<()> {
        // Waiting counts as a stall only after the first byte.
        let mut dry_since_ns = None;
        let mut has_begun = false;
        loop {
            self.return_buffers()?;
            if let Ok(filled) = self.inbound.pop() {
                if let Some(since_ns) = dry_since_ns.take() {
                    tally.empty.add(since_ns);
                }
                has_begun = true;
                if self.inbound.is_empty() {
                    self.back.signal();
                }
                self.sink.put(filled)?;
                continue;
            }
            if self.inbound.is_abandoned() {
                // The last buffer may have arrived between the two checks.
                if self.inbound.is_empty() {
                    return self.return_buffers();
                }
                continue;
            }
            if has_begun {
                dry_since_ns.get_or_insert_with(steady_ns);
            }
            if !self.wakeup.wait(IDLE)? && !self.sink.idle()? {
                return Err(Error::path("write to", "stdout", ErrorKind::BrokenPipe.into()));
            }
        }
    }

    fn return_buffers(&mut self) -> Result<()> {
        let mut any = false;
        while let Some(buffer) = self.sink.reap()? {
            let pushed = self.free_buffers.push(buffer);
            assert!(pushed.is_ok(), "the return ring has a place for every buffer");
            any = true;
        }
        if any {
            self.back.signal();
        }
        Ok(())
    }
}
