//! Files on disk, and a copy of them for who looks on.
//!
//! The disk comes first: it gets every chunk, whatever becomes of the copy. The copy is a capture of
//! its own that begins with the run; a chunk for which it has no room is left out whole, and counters
//! at the place and at the end say how many packets that were.

use super::Sink;
use super::header::Heading;
use super::onlooker::Onlooker;
use crate::Result;
use crate::chunk::Chunk;
use crate::gauge::WriterGauges;
use crate::tally::{Counts, WriterTally};
use quaff_os::mem::Slab;
use std::sync::Arc;
use std::time::Duration;

/// A sink, and a copy of what goes into it.
pub struct Tee {
    disk: Box<dyn Sink>,
    /// `None` once it has ended.
    onlooker: Option<Onlooker>,
    heading: Heading,
    counts: Vec<Counts>,
    /// Packets that the copy lacks, by lane.
    lost: Vec<u64>,
    begun: bool,
    /// Something was left out just before.
    is_behind: bool,
    gauges: Arc<WriterGauges>,
}

impl Tee {
    /// What goes into `disk` is copied to `onlooker`, behind a `heading` of its own.
    pub fn new(disk: Box<dyn Sink>, onlooker: Onlooker, heading: Heading, gauges: Arc<WriterGauges>) -> Self {
        let lanes = heading.interfaces.len();
        Self {
            disk,
            onlooker: Some(onlooker),
            heading: Heading { align: 1, ..heading },
            counts: vec![Counts::default(); lanes],
            lost: vec![0; lanes],
            begun: false,
            is_behind: false,
            gauges,
        }
    }

    /// Copies a chunk, if there is room for it.
    fn copy(&mut self, lane: usize, chunk: &Chunk) {
        self.begin();
        let Some(onlooker) = &mut self.onlooker else { return };
        // How far the copy had come: before the chunk, since its packets are not in the counters yet.
        let mark = if self.is_behind { self.heading.last(&self.counts, &self.lost) } else { Vec::new() };
        self.is_behind = !onlooker.offer(&[&mark, &chunk.slab[..chunk.len]], chunk.packets);
        self.counts[lane] = chunk.counts;
        if self.is_behind {
            self.lost[lane] += chunk.packets;
            self.gauges.copy_lost.set(self.lost.iter().sum());
        }
    }

    fn begin(&mut self) {
        if !self.begun
            && let Some(onlooker) = &mut self.onlooker
        {
            self.begun = onlooker.offer(&[&self.heading.first(&self.counts)], 0);
        }
    }
}

impl Sink for Tee {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.copy(lane, &chunk);
        self.disk.push(lane, chunk)
    }

    fn note(&mut self, lane: usize, counts: Counts) {
        self.counts[lane] = counts;
        self.disk.note(lane, counts);
    }

    fn turn(&mut self, slot: u64) -> Result<()> {
        self.disk.turn(slot)
    }

    fn tick(&mut self) -> Result<()> {
        self.begin();
        self.disk.tick()
    }

    fn reap(&mut self) -> Result<Option<(usize, Slab)>> {
        self.disk.reap()
    }

    fn pending(&self) -> usize {
        self.disk.pending()
    }

    fn patience(&self) -> Duration {
        self.disk.patience()
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.begin();
        if let Some(onlooker) = &mut self.onlooker {
            // Without room for it the copy ends without last words.
            onlooker.offer(&[&self.heading.last(&self.counts, &self.lost)], 0);
        }
        let written = self.disk.finish();
        // The disk has all of it by now; the reader has the time that it needs for the rest.
        let copied = self.onlooker.take().map(Onlooker::finish);
        let mut tally = written?;
        tally.copy = copied.map(|mut copy| {
            copy.lost += self.lost.iter().sum::<u64>();
            copy
        });
        Ok(tally)
    }
}
