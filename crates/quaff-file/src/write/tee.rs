//! Files on disk, and a copy of them for who looks on.
//!
//! The disk comes first: it gets every chunk, whatever becomes of the copy. The copy is a capture of
//! its own that begins with the run; a chunk for which it has no room is left out whole, and counters
//! at the place and at the end say how many packets that were.

use super::Sink;
use super::header::Heading;
use super::live_copy::LiveCopy;
use crate::Result;
use crate::tally::{Counts, WriterTally};
use crate::write::WriterGauges;
use crate::write::chunk::Chunk;
use quaff_os::mem::Buffer;
use std::sync::Arc;
use std::time::Duration;

/// A sink, and a copy of what goes into it.
pub(super) struct Tee {
    disk: Box<dyn Sink>,
    /// `None` once it has ended.
    onlooker: Option<LiveCopy>,
    heading: Heading,
    /// What each lane had counted with its last chunk.
    counts: Vec<Counts>,
    /// What it said last, which may be ahead of its chunks.
    noted: Vec<Counts>,
    /// The same as `counts` for a run that had seen no other packets than those in the copy.
    copied: Vec<Counts>,
    /// Interfaces described in the copy.
    described: usize,
    begun: bool,
    /// Something was left out just before.
    is_behind: bool,
    /// Packets left out.
    lost: u64,
    gauges: Arc<WriterGauges>,
}

impl Tee {
    /// What goes into `disk` is copied to `onlooker`, behind a `heading` of its own.
    pub(super) fn new(
        disk: Box<dyn Sink>,
        onlooker: LiveCopy,
        heading: Heading,
        gauges: Arc<WriterGauges>,
    ) -> Self {
        let lanes = heading.lanes;
        Self {
            disk,
            onlooker: Some(onlooker),
            heading: Heading { align: 1, ..heading },
            counts: vec![Counts::default(); lanes],
            noted: vec![Counts::default(); lanes],
            copied: vec![Counts::default(); lanes],
            described: 0,
            begun: false,
            is_behind: false,
            lost: 0,
            gauges,
        }
    }

    /// Copies a chunk, if there is room for it.
    fn copy(&mut self, lane: usize, chunk: &Chunk) {
        self.begin();
        // How far the copy had come: before the chunk, since its packets are not in the counters yet.
        let mark = if self.is_behind { self.last() } else { Vec::new() };
        let (more, described) = if self.described < chunk.interfaces {
            self.heading.more(self.described..chunk.interfaces)
        } else {
            (Vec::new(), self.described)
        };
        let Some(onlooker) = &mut self.onlooker else { return };
        self.is_behind = !onlooker.offer(&[&mark, &more, &chunk.buffer[..chunk.len]], chunk.packets);
        if self.is_behind {
            self.lost += chunk.packets;
            self.gauges.copy_lost.set(self.lost);
        } else {
            self.described = described;
            count_copied(&mut self.copied[lane], &self.counts[lane], chunk);
        }
        self.counts[lane].clone_from(&chunk.counts);
        self.noted[lane].clone_from(&chunk.counts);
    }

    fn begin(&mut self) {
        if !self.begun
            && let Some(onlooker) = &mut self.onlooker
        {
            let (first, described) = self.heading.first(&self.counts);
            self.begun = onlooker.offer(&[&first], 0);
            self.described = described;
        }
    }

    /// Counters that say what the copy lacks so far.
    fn last(&self) -> Vec<u8> {
        self.heading.last(&self.counts, &self.copied, self.described)
    }
}

/// Adds to what the copy has of a lane what a chunk has more than the one `before` it.
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

    fn turn(&mut self, slot: u64) -> Result<()> {
        self.disk.turn(slot)
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

    fn patience(&self) -> Duration {
        self.disk.patience()
    }

    fn finish(&mut self) -> Result<WriterTally> {
        self.begin();
        self.counts.clone_from(&self.noted);
        let last = self.last();
        if let Some(onlooker) = &mut self.onlooker {
            // Without room for it the copy ends without last words.
            onlooker.offer(&[&last], 0);
        }
        let written = self.disk.finish();
        // The disk has all of it by now; the reader has the time that it needs for the rest.
        let copied = self.onlooker.take().map(LiveCopy::finish);
        let mut tally = written?;
        tally.copy = copied.map(|mut copy| {
            copy.lost += self.lost;
            copy
        });
        Ok(tally)
    }
}
