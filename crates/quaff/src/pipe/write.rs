//! The writer: takes pieces in order, gives them to the outlet, and sends buffers home.

use super::{Piece, Stalls};
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::mem::Buffer;
use quaff_os::stop::{Reason, Stop};
use quaff_os::wakeup::Wakeup;
use rtrb::{Consumer, Producer};
use std::io::ErrorKind;
use std::time::Duration;

/// How often an outlet is asked whether anybody still reads, and given time for what is due.
const LOOK: Duration = Duration::from_millis(200);

/// Where bytes go. It counts in the gauges what has reached the output.
pub(super) trait Outlet: Send {
    /// Takes a piece; its buffer comes back by [`Outlet::reap`].
    fn put(&mut self, piece: Piece) -> Result<()>;

    /// A buffer that is free again.
    fn reap(&mut self) -> Result<Option<Buffer>>;

    /// Does what is due when nothing comes. `false` when nobody reads what we write.
    fn idle(&mut self) -> Result<bool>;

    /// Ends the output.
    fn finish(&mut self) -> Result<()>;

    /// After a failure: leaves what has been written in order.
    fn give_up(&mut self) {}

    /// What writes are aligned to, bytes: pieces of other lengths are repeated from there on.
    fn align(&self) -> usize {
        1
    }

    /// The wakeup that it signals, or has signalled, when there is something to do.
    fn wakeup(&self) -> Wakeup;

    /// How it writes, in words.
    fn describe(&self) -> String;

    /// Files in a folder.
    fn files(&self) -> u64 {
        0
    }

    /// What the bytes were taken for.
    fn kind(&self) -> Option<&'static str> {
        None
    }

    /// What the user should know in the end.
    fn note(&self) -> Option<String> {
        None
    }
}

/// The writer.
pub(super) struct Writer {
    pub(super) inbound: Consumer<Piece>,
    pub(super) home: Producer<Buffer>,
    pub(super) outlet: Box<dyn Outlet>,
    /// Signalled by the reader and by the disk.
    pub(super) wakeup: Wakeup,
    /// Signalled for the reader.
    pub(super) back: Wakeup,
    pub(super) stop: Stop,
}

/// What the writer has counted.
#[derive(Debug, Default)]
pub(super) struct WriteTally {
    /// When the last byte was written.
    pub(super) last_ns: u64,
    /// The ring was empty.
    pub(super) empty: Stalls,
    /// Files in a folder.
    pub(super) files: u64,
    /// What the bytes were taken for.
    pub(super) kind: Option<&'static str>,
    /// The reader of the output went away, whatever ended the run first.
    pub(super) is_closed: bool,
    /// What the user should know.
    pub(super) note: Option<String>,
}

impl Writer {
    /// Writes until the reader has ended and all is written, or until nobody reads it.
    pub(super) fn run(mut self) -> Result<WriteTally> {
        let mut tally = WriteTally::default();
        let done = self.write_all(&mut tally).and_then(|()| self.outlet.finish());
        tally.last_ns = steady_ns();
        tally.files = self.outlet.files();
        tally.kind = self.outlet.kind();
        tally.note = self.outlet.note();
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
                self.outlet.give_up();
                Err(error)
            }
        }
    }

    fn write_all(&mut self, tally: &mut WriteTally) -> Result<()> {
        // The first byte is waited for by design; from then on waiting is a stall.
        let mut dry_since_ns = None;
        let mut has_begun = false;
        loop {
            self.bring_home()?;
            if let Ok(piece) = self.inbound.pop() {
                if let Some(since_ns) = dry_since_ns.take() {
                    tally.empty.add(since_ns);
                }
                has_begun = true;
                if self.inbound.is_empty() {
                    self.back.signal();
                }
                self.outlet.put(piece)?;
                continue;
            }
            if self.inbound.is_abandoned() {
                // The last piece may have come between the two looks.
                if self.inbound.is_empty() {
                    return self.bring_home();
                }
                continue;
            }
            if has_begun {
                dry_since_ns.get_or_insert_with(steady_ns);
            }
            if !self.wakeup.wait(LOOK)? && !self.outlet.idle()? {
                return Err(Error::path("write to", "stdout", ErrorKind::BrokenPipe.into()));
            }
        }
    }

    fn bring_home(&mut self) -> Result<()> {
        let mut has_come = false;
        while let Some(buffer) = self.outlet.reap()? {
            let pushed = self.home.push(buffer);
            assert!(pushed.is_ok(), "the way home has a place for every buffer");
            has_come = true;
        }
        if has_come {
            self.back.signal();
        }
        Ok(())
    }
}
