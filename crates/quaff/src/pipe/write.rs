//! The writer: passes filled buffers to the sink in order, and returns free ones to the reader.

use super::gauges::Stalls;
use crate::buffer_pool::FreeBuffers;
use crate::{Error, Result};
use quaff_file::write::{ByteSink, FilledBuffer, SeriesTally};
use quaff_os::clock::steady_ns;
use quaff_os::{Reason, Stop, Wakeup};
use rtrb::Consumer;
use std::io::ErrorKind;
use std::time::Duration;

/// Interval at which an idle sink flushes and checks for its reader.
const IDLE: Duration = Duration::from_millis(200);

pub(super) struct Writer {
    pub(super) inbound: Consumer<FilledBuffer>,
    pub(super) free_buffers: FreeBuffers,
    pub(super) sink: Box<dyn ByteSink>,
    /// Signalled by the reader and by the disk.
    pub(super) wakeup: Wakeup,
    /// Signalled for the reader.
    pub(super) back: Wakeup,
    pub(super) stop: Stop,
}

/// The counts of the writer.
#[derive(Debug, Default)]
pub(super) struct WriteTally {
    /// Steady time of the end of the last write.
    pub(super) last_ns: u64,
    /// The ring was empty.
    pub(super) empty: Stalls,
    pub(super) series: SeriesTally,
    /// The reader of the output closed it, whatever ended the run first.
    pub(super) is_closed: bool,
}

impl Writer {
    /// Writes until the reader has ended and all is written, or until the output is closed.
    pub(super) fn run(mut self) -> Result<WriteTally> {
        let mut tally = WriteTally::default();
        let done = self.write_all(&mut tally).and_then(|()| Ok(self.sink.finish()?));
        tally.last_ns = steady_ns();
        tally.series = self.sink.series();
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
            self.free_buffers.push(buffer);
            any = true;
        }
        if any {
            self.back.signal();
        }
        Ok(())
    }
}
