//! A sink with a live copy of its output (`--tee`).
//!
//! Disk writes never wait for the live copy. The copy is a valid capture file that begins with the run;
//! chunks that its reader misses are left out whole, counted, and recorded in its counters there and at
//! the end.

use super::Sink;
use super::header::{Described, Heading};
use super::live_copy::LiveCopy;
use crate::Result;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use quaff_os::Buffer;
use std::sync::Arc;
use std::time::Duration;

/// A sink, and a live copy of what it gets.
pub(super) struct Tee {
    disk: Box<dyn Sink>,
    /// `None` after `finish`.
    live_copy: Option<LiveCopy>,
    heading: Heading,
    /// The counts of each lane's last chunk.
    counts: Vec<Counts>,
    /// The newest counts of each lane, which may be ahead of its chunks.
    noted: Vec<Counts>,
    /// The counts of a run that had only the packets in the copy.
    copied: Vec<Counts>,
    /// The interfaces and names described in the copy.
    described: Described,
    begun: bool,
    /// The last chunk was left out.
    has_gap: bool,
    /// Number of packets left out.
    lost: u64,
    gauges: Arc<WriterGauges>,
}

impl Tee {
    /// Creates a sink that copies the chunks for `disk` to `live_copy`, after a header of its own.
    pub(super) fn new(
        disk: Box<dyn Sink>,
        live_copy: LiveCopy,
        heading: Heading,
        gauges: Arc<WriterGauges>,
    ) -> Self {
        let lanes = heading.lanes;
        Self {
            disk,
            live_copy: Some(live_copy),
            heading: Heading { align: 1, compression: None, ..heading },
            counts: vec![Counts::default(); lanes],
            noted: vec![Counts::default(); lanes],
            copied: vec![Counts::default(); lanes],
            described: Described::default(),
            begun: false,
            has_gap: false,
            lost: 0,
            gauges,
        }
    }

    /// Copies a chunk, if there is room for it.
    fn copy(&mut self, lane: usize, chunk: &Chunk) {
        self.begin();
        // Counters of the gap go before the chunk, whose packets they do not include.
        let mark = if self.has_gap { self.counters() } else { Vec::new() };
        let described = self.described.interfaces;
        let (more, described) = match described < chunk.interfaces {
            true => self.heading.more(described..chunk.interfaces),
            false => (Vec::new(), described),
        };
        let Some(live_copy) = &mut self.live_copy else { return };
        self.has_gap = !live_copy.offer(&[&mark, &more, &chunk.buffer[..chunk.len]], chunk.packets);
        if self.has_gap {
            self.lost += chunk.packets;
            self.gauges.copy_lost.set(self.lost);
        } else {
            self.described.interfaces = described;
            count_copied(&mut self.copied[lane], &self.counts[lane], chunk);
        }
        self.counts[lane].clone_from(&chunk.counts);
        self.noted[lane].clone_from(&chunk.counts);
    }

    fn begin(&mut self) {
        if !self.begun
            && self.heading.is_ready()
            && let Some(live_copy) = &mut self.live_copy
        {
            let (first, described) = self.heading.first_of_run();
            self.begun = live_copy.offer(&[&first], 0);
            self.described = described;
        }
    }

    /// Returns counters that record the packets missing from the copy.
    fn counters(&self) -> Vec<u8> {
        self.heading.counters(&self.counts, &self.copied, self.described.interfaces)
    }
}

/// Adds a chunk to the counts of a lane's copied packets; `before` are the counts of the previous chunk.
fn count_copied(copied: &mut Counts, before: &Counts, chunk: &Chunk) {
    copied.packed += chunk.packets;
    for session in &chunk.counts.sessions {
        let earlier = before.sessions.iter().find(|earlier| earlier.interface == session.interface);
        let copied = copied.session(session.interface);
        copied.packed += session.packed - earlier.map_or(0, |earlier| earlier.packed);
        copied.missing = session.missing;
        copied.dropped = session.dropped;
    }
}

impl Sink for Tee {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.copy(lane, &chunk);
        self.disk.push(lane, chunk)
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.noted[lane].clone_from(&counts);
        self.disk.note(lane, counts);
    }

    fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.disk.begin_slot(slot)
    }

    fn tick(&mut self) -> Result<()> {
        self.begin();
        self.disk.tick()
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        self.disk.reap()
    }

    fn pending(&self) -> usize {
        self.disk.pending()
    }

    fn mixes_lanes(&self) -> bool {
        self.disk.mixes_lanes()
    }

    fn max_wait(&self) -> Duration {
        self.disk.max_wait()
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.heading.make_ready();
        self.begin();
        self.counts.clone_from(&self.noted);
        let described = self.described.interfaces;
        let (mut last, described) = self.heading.more(described..self.heading.counted(&self.counts));
        self.described.interfaces = self.described.interfaces.max(described);
        last.extend(self.heading.last(&self.counts, &self.copied, self.described));
        if let Some(live_copy) = &mut self.live_copy {
            // Without room the copy ends without the last counters.
            live_copy.offer(&[&last], 0);
        }
        let written = self.disk.finish();
        // The reader gets time for the rest after the disk has everything.
        let copied = self.live_copy.take().map(LiveCopy::finish);
        let mut tally = written?;
        tally.copy = copied.map(|mut copy| {
            copy.lost += self.lost;
            copy
        });
        Ok(tally)
    }
}
