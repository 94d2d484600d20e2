//! stdout, pipes and devices: bytes are written as fast as the reader takes them. A slow reader fills the
//! buffer; a reader that closes the pipe ends the run, which is not a failure.

use super::Sink;
use super::descriptor::{has_reader, is_closed};
use super::header::{Described, Heading};
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
/// The longest wait of a writer that has no reader to check.
const IDLE: Duration = Duration::from_secs(1);

/// The end of a run, after which a reader that takes nothing is abandoned.
#[derive(Debug, Clone)]
pub struct Patience {
    /// Raised at the end of the run.
    pub run: Stop,
    /// Time without progress after the end.
    pub timeout: Duration,
    /// The reader is abandoned only after a signal or the time limit: what a pager shows is read long after the input
    /// has ended.
    pub is_limited_on_request: bool,
}

impl Patience {
    fn has_ended(&self) -> bool {
        match self.is_limited_on_request {
            true => matches!(self.run.reason(), Some(Reason::Signal | Reason::Duration)),
            false => self.run.raised(),
        }
    }
}

/// An output without seeking.
#[derive(Debug)]
pub(super) struct Stream {
    out: File,
    heading: Heading,
    counts: Vec<Counts>,
    /// The counts of each lane's last written chunk.
    written: Vec<Counts>,
    /// The interfaces and names described so far.
    described: Described,
    begun: bool,
    closed: bool,
    /// The reader closed the pipe: later packets are not lost, whatever else ends the run.
    closed_by_reader: bool,
    /// The output is a pipe or a socket, whose reader may leave.
    has_reader: bool,
    checked_ns: u64,
    /// Steady time of the last successful write, or at which the run was found to have ended.
    progress_ns: u64,
    has_run_ended: bool,
    free_buffers: VecDeque<(usize, Buffer)>,
    tally: WriterTally,
    stop: Stop,
    patience: Option<Patience>,
    gauges: Arc<WriterGauges>,
}

impl Stream {
    /// Creates a sink that writes to `out`. With `patience` a reader that stands still is abandoned, if `out` is
    /// non-blocking.
    pub(super) fn new(
        out: File,
        heading: Heading,
        stop: Stop,
        patience: Option<Patience>,
        gauges: Arc<WriterGauges>,
    ) -> Self {
        let lanes = heading.lanes;
        Self {
            has_reader: has_reader(&out),
            out,
            heading,
            stop,
            patience,
            gauges,
            counts: vec![Counts::default(); lanes],
            written: vec![Counts::default(); lanes],
            described: Described::default(),
            begun: false,
            closed: false,
            closed_by_reader: false,
            checked_ns: 0,
            progress_ns: 0,
            has_run_ended: false,
            free_buffers: VecDeque::new(),
            tally: WriterTally::default(),
        }
    }

    fn begin(&mut self) {
        if !self.begun && self.heading.is_ready() {
            self.begun = true;
            let (first, described) = self.heading.first_of_run();
            self.described = described;
            self.write(&first);
        }
    }

    /// Describes the interfaces found since, before a chunk that refers to them.
    fn describe(&mut self, interfaces: usize) {
        if self.described.interfaces < interfaces {
            let (more, described) = self.heading.more(self.described.interfaces..interfaces);
            self.described.interfaces = described;
            self.write(&more);
        }
    }

    /// Writes what has to precede the packets of a chunk, and notes the counts of its lane.
    pub(super) fn expect(&mut self, lane: usize, chunk: &Chunk) {
        self.begin();
        self.describe(chunk.interfaces);
        self.counts[lane].clone_from(&chunk.counts);
    }

    /// Writes whole blocks with `packets` in them. `ended` are the lanes whose chunks end in them, with the counts of
    /// these.
    pub(super) fn write_packets(
        &mut self,
        blocks: &[u8],
        packets: u64,
        ended: impl IntoIterator<Item = (usize, Counts)>,
    ) {
        if self.write(blocks) {
            ended.into_iter().for_each(|(lane, counts)| self.written[lane] = counts);
            self.tally.written += packets;
        } else if self.closed_by_reader {
            self.tally.after_close += packets;
        } else {
            self.tally.lost += packets;
        }
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
        self.gauges.lost.set(self.tally.lost);
    }

    #[cfg(test)]
    pub(super) fn written_packets(&self) -> u64 {
        self.tally.written
    }

    /// Takes a buffer that the lane gets back.
    pub(super) fn recycle(&mut self, lane: usize, buffer: Buffer) {
        self.free_buffers.push_back((lane, buffer));
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
            self.tally.abandoned = error.kind() == ErrorKind::TimedOut;
            // A reader that takes nothing is no failure of the output: `abandoned` records it.
            if !self.closed_by_reader && !self.tally.abandoned {
                self.tally.failures.push(error.to_string());
            }
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
            let (patience, progress_ns) = (&self.patience, &mut self.progress_ns);
            let has_run_ended = &mut self.has_run_ended;
            let count = write_some(&mut self.out, bytes, || {
                let Some(Patience { timeout, .. }) = patience.as_ref().filter(|of| of.has_ended()) else {
                    return Ok(());
                };
                if !std::mem::replace(has_run_ended, true) {
                    *progress_ns = steady_ns();
                }
                match u128::from(steady_ns() - *progress_ns) > timeout.as_nanos() {
                    true => Err(io::Error::new(ErrorKind::TimedOut, "the reader has stopped reading")),
                    false => Ok(()),
                }
            })?;
            bytes = &bytes[count..];
            self.progress_ns = steady_ns();
        }
        Ok(())
    }
}

/// Writes at least one of `bytes`, also to a non-blocking descriptor. While the reader takes none, `on_wait` is called
/// several times a second; its error ends the wait.
pub(super) fn write_some(
    out: &mut File,
    bytes: &[u8],
    mut on_wait: impl FnMut() -> io::Result<()>,
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
        self.expect(lane, &chunk);
        self.write_packets(&chunk.buffer[..chunk.len], chunk.packets, [(lane, chunk.counts)]);
        self.recycle(lane, chunk.buffer);
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
        if self.has_reader && !self.closed && now_ns - self.checked_ns >= CHECK_NS {
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
        if self.has_reader { Duration::from_nanos(CHECK_NS) } else { IDLE }
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.heading.make_ready();
        self.begin();
        self.describe(self.heading.counted(&self.counts));
        let last = self.heading.last(&self.counts, &self.written, self.described);
        self.write(&last);
        self.tally.files = 1;
        Ok(self.tally.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interfaces;
    use crate::write::Format;
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use quaff_wire::decode::{Decoder, Item, Step};
    use quaff_wire::pcapng::{Interface, Section};
    use std::io::Read;
    use std::time::Instant;

    const TIMEOUT: Duration = Duration::from_millis(300);

    /// A sink to a pipe, the reader, and the stops of the sink and of the run.
    fn stream() -> (Stream, io::PipeReader, Stop, Stop) {
        let (reader, writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        let heading = Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: Interfaces::new(vec![Interface { linktype: 1, ..Interface::default() }]),
            lanes: 1,
            known: 1,
            start_ns: 1,
            align: 1,
            compression: None,
            absent: Default::default(),
        };
        let (stop, run) = (Stop::default(), Stop::default());
        let patience = Patience { run: run.clone(), timeout: TIMEOUT, is_limited_on_request: true };
        let out = File::from(std::os::fd::OwnedFd::from(writer));
        (Stream::new(out, heading, stop.clone(), Some(patience), Arc::default()), reader, stop, run)
    }

    fn push(stream: &mut Stream, packets: u64) {
        let buffer = Buffer::new(1 << 20).unwrap();
        let chunk = Chunk {
            len: buffer.len(),
            buffer,
            packets,
            slot: 0,
            first_ns: 0,
            counts: Counts::default(),
            interfaces: 1,
            before: None,
        };
        stream.push(0, chunk).unwrap();
    }

    #[test]
    fn a_reader_that_stands_still_is_abandoned_after_the_end_of_the_run() {
        let (mut stream, _reader, stop, run) = stream();
        let end = std::thread::spawn(move || {
            std::thread::sleep(2 * TIMEOUT);
            run.raise(Reason::Duration);
            Instant::now()
        });
        push(&mut stream, 5);
        let waited = end.join().unwrap().elapsed();
        // The time counts from the end, not from the last write.
        assert!(waited >= TIMEOUT - Duration::from_millis(50), "{waited:?}");
        push(&mut stream, 2);
        let tally = stream.finish().unwrap();
        assert_eq!((tally.written, tally.lost, tally.abandoned), (0, 7, true));
        assert!(matches!(stop.reason(), Some(Reason::WriteError(_))));
    }

    /// A filter may reject all packets of an interface that recorded drops.
    #[test]
    fn drops_of_an_interface_without_packets_are_in_the_last_counters() {
        let (mut stream, mut reader, _stop, _run) = stream();
        stream.tick().unwrap();
        stream.heading.interfaces.add(Interface::default());
        let mut counts = Counts::default();
        counts.session(1).missing = 7;
        stream.note(0, counts);
        stream.finish().unwrap();
        drop(stream);
        let mut file = Vec::new();
        reader.read_to_end(&mut file).unwrap();
        let (mut rest, mut decoder, mut drops) = (&file[..], Decoder::default(), vec![]);
        while let Step::Item(item) = decoder.next(&mut rest).unwrap() {
            match item {
                Item::Interface(_) => drops.push(None),
                Item::Statistics(of) => drops[of.interface as usize] = of.ifdrop,
                _ => {}
            }
        }
        assert_eq!(drops, [Some(0), Some(7)]);
    }

    #[test]
    fn the_end_of_the_input_is_no_reason_to_abandon_a_reader() {
        let (mut stream, mut reader, _stop, run) = stream();
        run.raise(Reason::InputEnded);
        let reader = std::thread::spawn(move || {
            std::thread::sleep(3 * TIMEOUT);
            reader.read_to_end(&mut Vec::new()).unwrap()
        });
        push(&mut stream, 5);
        let tally = stream.finish().unwrap();
        drop(stream);
        assert_eq!((tally.written, tally.lost, tally.abandoned), (5, 0, false));
        assert_eq!(reader.join().unwrap() as u64, tally.bytes);
    }

    #[test]
    fn a_slow_reader_is_waited_for_after_the_end_of_the_run() {
        let (mut stream, mut reader, _stop, run) = stream();
        run.raise(Reason::Signal);
        let reader = std::thread::spawn(move || {
            let (mut bytes, mut total) = (vec![0; 64 << 10], 0);
            loop {
                match reader.read(&mut bytes).unwrap() {
                    0 => return total,
                    count => total += count,
                }
                std::thread::sleep(TIMEOUT / 10);
            }
        });
        push(&mut stream, 5);
        let tally = stream.finish().unwrap();
        drop(stream);
        assert_eq!((tally.written, tally.lost, tally.abandoned), (5, 0, false));
        assert_eq!(reader.join().unwrap() as u64, tally.bytes);
    }
}
