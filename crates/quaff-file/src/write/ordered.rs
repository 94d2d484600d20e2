//! A stream with the packets of all lanes in the order of their times (`--ordered`). Packets wait until each lane has
//! shown that nothing older follows: by its packets, or by a mark while it is idle.
//!
//! The wait has two limits, of time and of memory. Packets that come after their wait has ended are written as they
//! come, after later ones, and counted. Waiting packets are copies, so no lane waits for its buffer. This sink never
//! drops a packet, and never reads the wall clock.

mod waiting;

use super::Sink;
use super::chunk::Chunk;
use super::format::Format;
use super::stream::Stream;
use crate::Result;
use crate::tally::{Counts, WriterTally};
use quaff_os::Buffer;
use quaff_os::clock::steady_ns;
use quaff_wire::pcap::Resolution;
use std::time::Duration;
use waiting::{Sorted, Waiting};

/// Time beyond the flush interval for which a packet waits for older ones of a lane that delivers nothing, ns.
const WAIT_NS: u64 = 1_000_000_000;
/// The most bytes that wait for older packets.
const HELD_BYTES_MAX: usize = 256 << 20;
/// Bytes of one write.
const WRITE_BYTES: usize = 256 << 10;
/// A ring has packets of several cores: their times differ from their order in it by less than this, ns.
const UNORDERED_NS: u64 = 10_000_000;
/// Interval of the checks of waiting packets.
const LOOK: Duration = Duration::from_millis(20);
/// The most by which the clock of the wait advances between two checks, ns: while this thread itself waits, for the
/// reader of the output or for a core, lanes are not late.
const STEP_NS: u64 = 50_000_000;

/// The sink.
#[derive(Debug)]
pub(super) struct Ordered {
    stream: Stream,
    waiting: Waiting,
    lanes: Vec<Lane>,
    /// Time for which a packet waits, ns.
    wait_ns: u64,
    /// The clock of the wait, and the steady time at which it was set, ns.
    clock_ns: u64,
    looked_ns: u64,
    /// Lanes have sent something since the last check.
    has_news: bool,
    sorted: Sorted,
}

/// The progress of a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// The lane will send no packet before this time, ns since 1970.
    until_ns: u64,
    /// Time of its last packet so far, ns since 1970.
    last_ns: u64,
}

impl Ordered {
    /// Orders the packets for `stream`. A lane sends its packets after `flush` at the latest.
    pub(super) fn new(stream: Stream, format: Format, lanes: usize, flush: Duration) -> Self {
        let resolution = match format {
            Format::Pcapng => None,
            Format::Pcap => Some(Resolution::Nanoseconds),
            Format::PcapUs => Some(Resolution::Microseconds),
        };
        Self {
            stream,
            waiting: Waiting::new(resolution),
            lanes: vec![Lane::default(); lanes],
            wait_ns: WAIT_NS.saturating_add(flush.as_nanos() as u64),
            clock_ns: 0,
            looked_ns: steady_ns(),
            has_news: false,
            sorted: Sorted::default(),
        }
    }

    /// Returns the time up to which all packets have come, or are no longer waited for, ns since 1970.
    fn until_ns(&self) -> u64 {
        let of_lanes = self.lanes.iter().map(|lane| lane.until_ns).min().unwrap_or(u64::MAX);
        match self.clock_ns.checked_sub(self.wait_ns) {
            // What lanes have sent is handled first.
            Some(came_ns) if !self.has_news => of_lanes.max(self.waiting.latest_of(came_ns)),
            _ => of_lanes,
        }
    }

    /// Writes the packets up to `until_ns`, and those for which there is no memory.
    fn write(&mut self, until_ns: u64) {
        loop {
            self.waiting.leave(until_ns, HELD_BYTES_MAX, WRITE_BYTES, &mut self.sorted);
            if self.sorted.bytes.is_empty() {
                return;
            }
            self.stream.write_packets(&self.sorted.bytes, self.sorted.packets, self.sorted.ended.drain(..));
            self.sorted.clear();
        }
    }
}

impl Sink for Ordered {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        let Some(of) = self.lanes.get_mut(lane) else { return self.stream.push(lane, chunk) };
        self.stream.expect(lane, &chunk);
        let blocks = &chunk.buffer[..chunk.len];
        of.last_ns = self.waiting.push(lane, blocks, chunk.counts, of.last_ns, self.clock_ns);
        // A clock that was set back takes the lane back with it.
        of.until_ns = of.last_ns.saturating_sub(UNORDERED_NS);
        self.has_news = true;
        self.stream.recycle(lane, chunk.buffer);
        Ok(())
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.stream.note(lane, counts);
    }

    fn mark(&mut self, lane: usize, until_ns: u64) {
        if let Some(of) = self.lanes.get_mut(lane) {
            of.until_ns = until_ns;
            self.has_news = true;
        }
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.stream.begin_slot(slot)
    }

    fn tick(&mut self) -> Result<()> {
        self.stream.tick()?;
        let now_ns = steady_ns();
        self.clock_ns += (now_ns - self.looked_ns).min(STEP_NS);
        self.looked_ns = now_ns;
        self.write(self.until_ns());
        self.has_news = false;
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        self.stream.reap()
    }

    fn pending(&self) -> usize {
        self.stream.pending()
    }

    /// Chunks are ordered here, by each of their packets.
    fn mixes_lanes(&self) -> bool {
        false
    }

    fn max_wait(&self) -> Duration {
        let wait = self.stream.max_wait();
        if self.waiting.is_empty() { wait } else { wait.min(LOOK) }
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.write(u64::MAX);
        Ok(WriterTally { late: self.waiting.late, ..self.stream.finish()? })
    }
}

#[cfg(test)]
mod tests;
