//! Packets of several lanes that wait for older ones, and leave in the order of their times: a heap of chunks, each
//! sorted. It never reads a clock, and never writes.

use crate::tally::Counts;
use quaff_wire::cut::{packet_time_ns, whole_units};
use quaff_wire::pcap::Resolution;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Chunks whose memory is kept for the next ones.
const SPARE_MAX: usize = 8;

/// The packets that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The resolution of pcap; `None` for pcapng.
    resolution: Option<Resolution>,
    runs: BinaryHeap<Box<Run>>,
    #[expect(clippy::vec_box, reason = "the heap moves boxes")]
    spare: Vec<Box<Run>>,
    /// Number of the next chunk.
    number: u64,
    /// Bytes of waiting packets.
    pub(super) bytes: usize,
    /// The latest time of a packet that has left, ns since 1970.
    latest_ns: u64,
    /// Packets that left after one of a later time.
    pub(super) late: u64,
}

/// A chunk of a lane: packets in the order of their times, of which the first ones have left.
#[derive(Debug, Default)]
struct Run {
    lane: usize,
    /// Its place among all chunks, by arrival.
    number: u64,
    bytes: Vec<u8>,
    /// The packets.
    parts: Vec<Part>,
    /// The next packet, and its offset.
    next: usize,
    at: usize,
    /// The time at which it came, on the clock of the caller, ns.
    came_ns: u64,
    /// The lane's counts with all its packets.
    counts: Counts,
}

/// A packet, and the blocks without packets that belong beside it.
#[derive(Debug, Clone, Copy)]
struct Part {
    time_ns: u64,
    begin: usize,
    end: usize,
    /// False for blocks of a chunk without packets.
    is_packet: bool,
}

impl Run {
    /// Returns the sort key of its next packet: by time, then by lane, then by arrival.
    fn key(&self) -> (u64, usize, u64) {
        (self.parts[self.next].time_ns, self.lane, self.number)
    }

    fn last_ns(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.time_ns)
    }

    /// Finds the packets in `blocks`, and copies these in the order of their times. Packets of one time keep their
    /// order. Blocks without a packet follow the one before them, and the first ones precede the first packet; without
    /// any packet they have the time `before_ns`.
    fn fill(&mut self, blocks: &[u8], resolution: Option<Resolution>, before_ns: u64) {
        (self.next, self.at) = (0, 0);
        self.parts.clear();
        let mut begin = 0;
        for (end, packet) in whole_units(blocks, resolution.is_none()) {
            let time_ns = packet.and_then(|_| packet_time_ns(&blocks[begin..end], resolution));
            match (self.parts.last_mut(), time_ns) {
                (Some(last), None) => last.end = end,
                (None, None) => self.parts.push(Part { time_ns: before_ns, begin: 0, end, is_packet: false }),
                (Some(first), Some(time_ns)) if !first.is_packet => {
                    *first = Part { time_ns, begin: 0, end, is_packet: true };
                }
                (_, Some(time_ns)) => self.parts.push(Part { time_ns, begin, end, is_packet: true }),
            }
            begin = end;
        }
        self.bytes.clear();
        if self.parts.is_sorted_by_key(|part| part.time_ns) {
            return self.bytes.extend_from_slice(&blocks[..begin]);
        }
        self.parts.sort_by_key(|part| part.time_ns);
        for part in &mut self.parts {
            self.bytes.extend_from_slice(&blocks[part.begin..part.end]);
            part.end = self.bytes.len();
        }
    }
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Run {}

impl PartialOrd for Run {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The heap has the greatest first: that is the earliest packet.
impl Ord for Run {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Whole blocks that are written together.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) bytes: Vec<u8>,
    pub(super) packets: u64,
    /// The lanes whose chunks end in it, and their counts after it.
    pub(super) ended: Vec<(usize, Counts)>,
}

impl Sorted {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.packets = 0;
        self.ended.clear();
    }
}

impl Waiting {
    pub(super) fn new(resolution: Option<Resolution>) -> Self {
        Self { resolution, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes a chunk of a lane; `before_ns` is the time of the lane's packet before it. Returns the time of its last
    /// packet.
    pub(super) fn push(
        &mut self,
        lane: usize,
        blocks: &[u8],
        counts: Counts,
        before_ns: u64,
        came_ns: u64,
    ) -> u64 {
        let mut run = self.spare.pop().unwrap_or_default();
        run.fill(blocks, self.resolution, before_ns);
        (run.lane, run.number, run.came_ns, run.counts) = (lane, self.number, came_ns, counts);
        self.number += 1;
        self.bytes += run.bytes.len();
        let Some(last) = run.parts.last().copied() else { return before_ns };
        self.runs.push(run);
        last.time_ns
    }

    /// The latest time of the chunks that came at `came_ns` or before; 0 without any.
    pub(super) fn latest_of(&self, came_ns: u64) -> u64 {
        let old = self.runs.iter().filter(|run| run.came_ns <= came_ns);
        old.map(|run| run.last_ns()).max().unwrap_or(0)
    }

    /// Appends packets up to `until_ns` to `out`, the earliest first, until that has `most_bytes`; and those beyond
    /// `until_ns` as long as more than `held_bytes` wait.
    pub(super) fn leave(&mut self, until_ns: u64, held_bytes: usize, most_bytes: usize, out: &mut Sorted) {
        while out.bytes.len() < most_bytes
            && let Some(mut run) = self.runs.peek_mut()
        {
            let Part { time_ns, end, is_packet, .. } = run.parts[run.next];
            if time_ns > until_ns && self.bytes <= held_bytes {
                break;
            }
            out.bytes.extend_from_slice(&run.bytes[run.at..end]);
            self.bytes -= end - run.at;
            out.packets += u64::from(is_packet);
            self.late += u64::from(is_packet && time_ns < self.latest_ns);
            self.latest_ns = self.latest_ns.max(time_ns);
            if run.next + 1 < run.parts.len() {
                (run.next, run.at) = (run.next + 1, end);
                continue;
            }
            let mut run = PeekMut::pop(run);
            out.ended.push((run.lane, std::mem::take(&mut run.counts)));
            if self.spare.len() < SPARE_MAX {
                self.spare.push(run);
            }
        }
    }
}
