//! A live copy of the output for a reader at the other end of a pipe, such as a viewer. A slow reader
//! misses packets and never delays the writer.
//!
//! ```text
//!   writer → pre-faulted ring of bytes → thread → pipe
//! ```

use super::descriptor::is_closed;
use super::stream::write_some;
use crate::tally::CopyTally;
use crate::{Error, Result};
use quaff_os::clock::steady_ns;
use quaff_os::{Interrupt, Reason, Stop, Wakeup};
use rtrb::{Consumer, Producer, RingBuffer};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait for the reader.
const RING_BYTES: usize = 64 << 20;
/// Segments that may wait for the reader.
const SEGMENTS_MAX: usize = 4096;
/// Bytes of one write: the default capacity of a pipe.
const WRITE_BYTES: usize = 64 << 10;
/// Interval of the checks that the pipe has a reader.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// At the end, time without progress after which the reader is abandoned.
const READER_TIMEOUT_NS: u64 = 2_000_000_000;

/// The writer's side of the live copy.
#[derive(Debug)]
pub(super) struct LiveCopy {
    bytes: Producer<u8>,
    segments: Producer<Segment>,
    wakeup: Wakeup,
    shared: Arc<Shared>,
    thread: JoinHandle<CopyTally>,
    interrupt: Interrupt,
}

/// Whole blocks of a file, offered at once.
#[derive(Debug, Clone, Copy)]
struct Segment {
    len: usize,
    packets: u64,
}

/// State shared by both threads. Only `ended` publishes other memory, the last segments; Relaxed is
/// enough for the others.
#[derive(Debug, Default)]
struct Shared {
    /// No segment follows.
    ended: AtomicBool,
    /// The reader is no longer waited for.
    abandoned: AtomicBool,
    /// Bytes that the reader has received.
    taken: AtomicU64,
}

impl LiveCopy {
    /// Starts a thread that writes to `out`; it raises `stop`, if there is one, when the reader closes the pipe.
    pub(super) fn start(out: File, stop: Option<Stop>) -> Result<Self> {
        let (mut bytes, mut from_bytes) = RingBuffer::new(RING_BYTES);
        prefault(&mut bytes, &mut from_bytes);
        let (segments, from_segments) = RingBuffer::new(SEGMENTS_MAX);
        let wakeup = Wakeup::new()?;
        let shared = Arc::<Shared>::default();
        let (sender, receiver) = channel();
        let (thread_wakeup, thread_shared) = (wakeup.clone(), shared.clone());
        let thread = quaff_os::spawn("quaff-live-copy", move || {
            // Sending fails only if the receiver has ended.
            let _ = sender.send(Interrupt::here());
            let copier = Copier {
                out,
                bytes: from_bytes,
                segments: from_segments,
                shared: thread_shared,
                stop,
                closed: None,
                tally: CopyTally::default(),
            };
            copier.run(&thread_wakeup)
        })?;
        let interrupt = receiver
            .recv()
            .map_err(|_| Error::Defect("the live copy thread ended at its start".into()))??;
        Ok(Self { bytes, segments, wakeup, shared, thread, interrupt })
    }

    /// Queues whole blocks with `packets` in them, the concatenation of `parts`. Returns `false`, and
    /// queues nothing, when there is no room.
    pub(super) fn offer(&mut self, parts: &[&[u8]], packets: u64) -> bool {
        let len = parts.iter().map(|part| part.len()).sum();
        if self.segments.slots() == 0 || self.bytes.slots() < len {
            return false;
        }
        for part in parts {
            let pushed = self.bytes.push_entire_slice(part);
            assert!(pushed.is_ok(), "only this thread takes room");
        }
        let pushed = self.segments.push(Segment { len, packets });
        assert!(pushed.is_ok(), "only this thread takes places");
        self.wakeup.signal();
        true
    }

    /// Waits until the reader has received everything, or has stopped reading.
    pub(super) fn finish(self) -> CopyTally {
        self.shared.ended.store(true, Ordering::Release);
        self.wakeup.signal();
        let (mut taken, mut since_ns) = (0, steady_ns());
        while !self.thread.is_finished() {
            let now = self.shared.taken.load(Ordering::Relaxed);
            if now != taken {
                (taken, since_ns) = (now, steady_ns());
            }
            if steady_ns() - since_ns >= READER_TIMEOUT_NS {
                self.shared.abandoned.store(true, Ordering::Relaxed);
                self.interrupt.send();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread.join().unwrap_or_default()
    }
}

/// Touches the whole ring, so that no page fault happens while packets wait.
fn prefault(bytes: &mut Producer<u8>, from_bytes: &mut Consumer<u8>) {
    if let Ok(all) = bytes.write_chunk(RING_BYTES) {
        all.commit_all();
    }
    if let Ok(all) = from_bytes.read_chunk(RING_BYTES) {
        all.commit_all();
    }
}

/// The reason why writing has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closed {
    ByReader,
    /// The run is over and the reader has stopped reading, or a write failed.
    ByUs,
}

/// The thread's side of the live copy.
struct Copier {
    out: File,
    bytes: Consumer<u8>,
    segments: Consumer<Segment>,
    shared: Arc<Shared>,
    /// `None` if the run outlives the reader.
    stop: Option<Stop>,
    closed: Option<Closed>,
    tally: CopyTally,
}

impl Copier {
    fn run(mut self, wakeup: &Wakeup) -> CopyTally {
        loop {
            // Loaded before the queue is read: segments pushed before `ended` was set are seen below.
            let has_ended = self.shared.ended.load(Ordering::Acquire) || self.segments.is_abandoned();
            let mut is_idle = true;
            while let Ok(segment) = self.segments.pop() {
                is_idle = false;
                self.write_segment(segment);
            }
            if has_ended && is_idle {
                return self.tally;
            }
            if is_idle && wakeup.wait(CHECK_INTERVAL).is_ok_and(|signalled| !signalled) {
                self.check_reader();
            }
        }
    }

    /// Writes a segment, and counts its packets.
    fn write_segment(&mut self, segment: Segment) {
        let mut left = segment.len;
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
                self.tally.written += segment.packets;
                self.tally.bytes += segment.len as u64;
            }
            Some(Closed::ByReader) => {
                self.tally.after_close += segment.packets;
                self.end_run();
            }
            Some(Closed::ByUs) => self.tally.lost += segment.packets,
        }
    }

    /// Detects that the reader has closed the pipe.
    fn check_reader(&mut self) {
        if self.closed.is_none() && is_closed(&self.out) {
            self.closed = Some(Closed::ByReader);
            self.end_run();
        }
    }

    fn end_run(&self) {
        if let Some(stop) = &self.stop {
            stop.raise(Reason::OutputClosed);
        }
    }
}

/// Like `Write::write_all`, also for a non-blocking descriptor; fails with `TimedOut` once the reader is
/// abandoned.
fn write_all(out: &mut File, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    let check = || match shared.abandoned.load(Ordering::Relaxed) {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(()),
    };
    while !bytes.is_empty() {
        check()?;
        let count = write_some(out, bytes, check)?;
        bytes = &bytes[count..];
        shared.taken.fetch_add(count as u64, Ordering::Relaxed);
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
    fn a_fast_reader_gets_everything() {
        let (mut reader, out) = pipe();
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        let mut live_copy = LiveCopy::start(out, Some(Stop::default())).unwrap();
        let mut sent = Vec::new();
        for number in 0..2000u32 {
            let segment = vec![number as u8; (number as usize * 97) % 100_000 + 1];
            while !live_copy.offer(&[&segment[..1], &segment[1..]], 1) {
                std::thread::sleep(Duration::from_millis(1));
            }
            sent.extend(segment);
        }
        let tally = live_copy.finish();
        let bytes = sent.len() as u64;
        assert_eq!(tally, CopyTally { written: 2000, bytes, ..CopyTally::default() });
        assert!(reading.join().unwrap() == sent);
    }

    #[test]
    fn a_stalled_reader_does_not_delay_the_writer() {
        let (reader, out) = pipe();
        let mut live_copy = LiveCopy::start(out, Some(Stop::default())).unwrap();
        let segment = vec![7; 4 << 20];
        let begun = Instant::now();
        let accepted = (0..100).filter(|_| live_copy.offer(&[&segment], 1000)).count() as u64;
        assert!((16..=17).contains(&accepted) && begun.elapsed() < Duration::from_secs(1), "{accepted}");
        let tally = live_copy.finish();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!((tally.written, tally.lost), (0, accepted * 1000));
        drop(reader);
    }

    #[test]
    fn a_run_may_outlive_its_reader() {
        let (reader, out) = pipe();
        let mut live_copy = LiveCopy::start(out, None).unwrap();
        drop(reader);
        assert!(live_copy.offer(&[b"too late"], 3));
        assert_eq!(live_copy.finish(), CopyTally { after_close: 3, ..CopyTally::default() });
    }

    #[test]
    fn a_closed_pipe_raises_the_stop() {
        for is_busy in [false, true] {
            let (reader, out) = pipe();
            let stop = Stop::default();
            let mut live_copy = LiveCopy::start(out, Some(stop.clone())).unwrap();
            drop(reader);
            if is_busy {
                assert!(live_copy.offer(&[b"too late"], 3));
            }
            let begun = Instant::now();
            while !stop.raised() && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(stop.reason(), Some(Reason::OutputClosed));
            assert_eq!(live_copy.finish().after_close, if is_busy { 3 } else { 0 });
        }
    }
}
