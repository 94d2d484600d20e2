//! A copy of the output for who looks on: a viewer at the other end of a pipe. It gets what it takes
//! in time; for the rest there is no room, and that is all that happens. A thread of its own writes.
//!
//! ```text
//!   writer → ring of bytes, touched ahead → thread → pipe
//! ```

use crate::tally::CopyTally;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quaff_os::clock::steady_ns;
use quaff_os::interrupt::Interrupt;
use quaff_os::stop::{Reason, Stop};
use quaff_os::wakeup::Wakeup;
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// How far the reader may fall behind, bytes.
const RING_BYTES: usize = 64 << 20;
/// Pieces that may wait in it.
const PIECES: usize = 4096;
/// What is written at once: as much as a pipe holds.
const WRITE_BYTES: usize = 64 << 10;
/// How often we ask whether anybody still reads.
const ASK: Duration = Duration::from_millis(200);
/// At the end a reader that takes nothing for so long gets no more.
const PATIENCE_NS: u64 = 2_000_000_000;

/// The writer's end of the copy.
#[derive(Debug)]
pub(super) struct LiveCopy {
    bytes: Producer<u8>,
    pieces: Producer<Piece>,
    wakeup: Wakeup,
    shared: Arc<Shared>,
    thread: JoinHandle<CopyTally>,
    interrupt: Interrupt,
}

/// Whole blocks of a file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    len: usize,
    packets: u64,
}

/// What both threads look at. Only the end publishes something, the last pieces; for the others
/// Relaxed will do.
#[derive(Debug, Default)]
struct Shared {
    /// No piece will follow.
    ended: AtomicBool,
    /// Whoever waits for the reader waits no longer.
    given_up: AtomicBool,
    /// Bytes that the reader has taken.
    taken: AtomicU64,
}

impl LiveCopy {
    /// Copies into `out`, on a thread. `stop` is raised when the reader goes away.
    pub(super) fn start(out: File, stop: Stop) -> Result<Self> {
        let (mut bytes, mut from_bytes) = RingBuffer::new(RING_BYTES);
        touch(&mut bytes, &mut from_bytes);
        let (pieces, from_pieces) = RingBuffer::new(PIECES);
        let wakeup = Wakeup::new()?;
        let shared = Arc::<Shared>::default();
        let (tell, told) = channel();
        let (its_bell, its_shared) = (wakeup.clone(), shared.clone());
        let started = std::thread::Builder::new().name("quaff-onlooker".into()).spawn(move || {
            // Whoever waits for this hears of it when the thread is gone.
            let _ = tell.send(Interrupt::here());
            let copier = Copier {
                out,
                bytes: from_bytes,
                pieces: from_pieces,
                shared: its_shared,
                stop,
                closed: None,
                tally: CopyTally::default(),
            };
            copier.run(&its_bell)
        });
        let thread = started.map_err(|errno| Error::Os(quaff_os::Error::new("start a thread", errno)))?;
        let interrupt = told.recv().map_err(|_| Error::Defect("the onlooker died at its start".into()))??;
        Ok(Self { bytes, pieces, wakeup, shared, thread, interrupt })
    }

    /// Gives the reader whole blocks with `packets` in them, in `parts` one after the other; `false`
    /// when there is no room, and then nothing of it.
    pub(super) fn offer(&mut self, parts: &[&[u8]], packets: u64) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        if self.pieces.slots() == 0 || self.bytes.slots() < len {
            return false;
        }
        for part in parts {
            let pushed = self.bytes.push_entire_slice(part);
            assert!(pushed.is_ok(), "only this thread takes room");
        }
        let pushed = self.pieces.push(Piece { len, packets });
        assert!(pushed.is_ok(), "only this thread takes places");
        self.wakeup.signal();
        true
    }

    /// Waits until the reader has taken what it was given, or takes nothing any more.
    pub(super) fn finish(self) -> CopyTally {
        self.shared.ended.store(true, Ordering::Release);
        self.wakeup.signal();
        let (mut taken, mut since_ns) = (0, steady_ns());
        while !self.thread.is_finished() {
            let now = self.shared.taken.load(Ordering::Relaxed);
            if now != taken {
                (taken, since_ns) = (now, steady_ns());
            }
            if steady_ns() - since_ns >= PATIENCE_NS {
                self.shared.given_up.store(true, Ordering::Relaxed);
                self.interrupt.send();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread.join().unwrap_or_default()
    }
}

/// Touches the ring's memory, so that no page is looked for while packets wait.
fn touch(bytes: &mut Producer<u8>, from_bytes: &mut Consumer<u8>) {
    if let Ok(all) = bytes.write_chunk(RING_BYTES) {
        all.commit_all();
    }
    if let Ok(all) = from_bytes.read_chunk(RING_BYTES) {
        all.commit_all();
    }
}

/// Why nothing is written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// The reader has gone.
    ByReader,
    /// The reader takes nothing, and the run is over; or writing failed.
    ByUs,
}

/// The reader's end of the copy.
struct Copier {
    out: File,
    bytes: Consumer<u8>,
    pieces: Consumer<Piece>,
    shared: Arc<Shared>,
    stop: Stop,
    closed: Option<Closed>,
    tally: CopyTally,
}

impl Copier {
    fn run(mut self, wakeup: &Wakeup) -> CopyTally {
        loop {
            // Asked before the last look: what was put there before it was set is seen below.
            let has_ended = self.shared.ended.load(Ordering::Acquire) || self.pieces.is_abandoned();
            let mut is_idle = true;
            while let Ok(piece) = self.pieces.pop() {
                is_idle = false;
                self.pass(piece);
            }
            if has_ended && is_idle {
                return self.tally;
            }
            if is_idle && wakeup.wait(ASK).is_ok_and(|signalled| !signalled) {
                self.ask();
            }
        }
    }

    /// Writes a piece, and counts what became of it.
    fn pass(&mut self, piece: Piece) {
        let mut left = piece.len;
        while left > 0 {
            let Ok(chunk) = self.bytes.read_chunk(left.min(WRITE_BYTES)) else { break };
            let (first, second) = chunk.as_slices();
            if self.closed.is_none() {
                let written = write_all(&mut self.out, first, &self.shared)
                    .and_then(|()| write_all(&mut self.out, second, &self.shared));
                self.closed = written.err().map(|error| match error.kind() {
                    ErrorKind::BrokenPipe => Closed::ByReader,
                    _ => Closed::ByUs,
                });
            }
            left -= chunk.len();
            chunk.commit_all();
        }
        match self.closed {
            None => {
                self.tally.written += piece.packets;
                self.tally.bytes += piece.len as u64;
            }
            Some(Closed::ByReader) => {
                self.tally.after_close += piece.packets;
                self.stop.raise(Reason::OutputClosed);
            }
            Some(Closed::ByUs) => self.tally.lost += piece.packets,
        }
    }

    /// Whether anybody still reads.
    fn ask(&mut self) {
        let mut fds = [PollFd::new(self.out.as_fd(), PollFlags::empty())];
        let asked = poll(&mut fds, PollTimeout::ZERO);
        let is_gone = fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
        if self.closed.is_none() && asked == Ok(1) && is_gone {
            self.closed = Some(Closed::ByReader);
            self.stop.raise(Reason::OutputClosed);
        }
    }
}

/// As `Write::write_all`, also into a descriptor that does not block, and only as long as somebody
/// waits for it.
fn write_all(out: &mut File, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() {
        if shared.given_up.load(Ordering::Relaxed) {
            return Err(ErrorKind::TimedOut.into());
        }
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                shared.taken.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut fds, PollTimeout::from(100u8)) {
                    Ok(_) | Err(nix::Error::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    fn pipe() -> (io::PipeReader, File) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, File::from(OwnedFd::from(writer)))
    }

    #[test]
    fn a_reader_that_reads_gets_all() {
        let (mut reader, out) = pipe();
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        let mut onlooker = LiveCopy::start(out, Stop::default()).unwrap();
        let mut sent = Vec::new();
        for number in 0..2000u32 {
            let piece = vec![number as u8; (number as usize * 97) % 100_000 + 1];
            while !onlooker.offer(&[&piece[..1], &piece[1..]], 1) {
                std::thread::sleep(Duration::from_millis(1));
            }
            sent.extend(piece);
        }
        let tally = onlooker.finish();
        let bytes = sent.len() as u64;
        assert_eq!(tally, CopyTally { written: 2000, bytes, ..CopyTally::default() });
        assert!(reading.join().unwrap() == sent);
    }

    #[test]
    fn a_reader_that_stands_still_holds_nobody_up() {
        let (reader, out) = pipe();
        let mut onlooker = LiveCopy::start(out, Stop::default()).unwrap();
        let piece = vec![7; 4 << 20];
        let begun = Instant::now();
        let accepted = (0..100).filter(|_| onlooker.offer(&[&piece], 1000)).count() as u64;
        assert!((16..=17).contains(&accepted) && begun.elapsed() < Duration::from_secs(1), "{accepted}");
        let tally = onlooker.finish();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!((tally.written, tally.lost), (0, accepted * 1000));
        drop(reader);
    }

    #[test]
    fn a_reader_that_goes_away_is_the_end() {
        for is_busy in [false, true] {
            let (reader, out) = pipe();
            let stop = Stop::default();
            let mut onlooker = LiveCopy::start(out, stop.clone()).unwrap();
            drop(reader);
            if is_busy {
                assert!(onlooker.offer(&[b"too late"], 3));
            }
            let begun = Instant::now();
            while !stop.raised() && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(stop.reason(), Some(Reason::OutputClosed));
            assert_eq!(onlooker.finish().after_close, if is_busy { 3 } else { 0 });
        }
    }
}
