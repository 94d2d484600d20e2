//! Flow statistics as tcpreplay counts them, while the first loop is read.
//!
//! With -K tcpreplay counts one loop, and multiplies if each loop has new flows. Without -K it counts the packets of
//! all loops.

use super::options::Options;
use super::text::Flows;
use quaff_send::{Arena, Feed, FeedTally, FrameMeta, ReplayReport, SendError};
use quaff_wire::flow::{FlowCount, FlowCounts};
use std::sync::{Arc, Mutex, PoisonError};

/// Flows after which no more are counted: each takes about 30 bytes, and each frame of a file may be a new one.
const FLOWS_MAX: u64 = 16 << 20;

/// Flow statistics of one run.
#[derive(Debug)]
pub struct Counts {
    /// `None` with `--no-flow-stats`.
    shared: Option<Shared>,
}

/// The counts, shared with the sending thread.
#[derive(Debug, Clone)]
struct Shared {
    counted: Arc<Mutex<Counted>>,
    expiry_s: u64,
    /// Largest number of frames to count: those that are sent.
    limit: u64,
    is_unique: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    counts: FlowCounts,
    frames: u64,
    /// Counts of each interface; a flow belongs to the one of its first packet.
    sides: [FlowCounts; 2],
}

/// A feed whose first pass is counted.
struct Counting {
    feed: Box<dyn Feed>,
    count: FlowCount,
    counted: Counted,
    is_first_pass: bool,
    shared: Shared,
}

impl Counts {
    pub(super) fn new(options: &Options) -> Self {
        // Preloaded files are counted completely.
        let limit = options.number("limit").filter(|_| !options.has("preload-pcap"));
        let shared = (!options.has("no-flow-stats")).then(|| Shared {
            counted: Arc::default(),
            expiry_s: options.number("flow-expiry").unwrap_or(0),
            limit: limit.unwrap_or(u64::MAX),
            is_unique: options.has("unique-ip"),
        });
        Self { shared }
    }

    /// A feed of the same frames whose flows are counted.
    pub fn wrap(&self, feed: Box<dyn Feed>) -> Box<dyn Feed> {
        match &self.shared {
            Some(shared) => Box::new(Counting::new(feed, shared)),
            None => feed,
        }
    }

    /// The figures of the whole run.
    pub(super) fn figures(&self, options: &Options, report: &ReplayReport) -> Option<Flows> {
        let shared = self.shared.as_ref()?;
        let (counted, unique) = (shared.counted(), shared.unique(report));
        let counts = if options.has("preload-pcap") {
            scaled(counted.counts, unique, |packets| packets.saturating_mul(unique))
        } else {
            scaled(counted.counts, unique, |packets| counted.of_all(packets, report))
        };
        Some(Flows { counts, expiry: shared.expiry_s > 0 })
    }

    /// The figures of one of two interfaces.
    pub(super) fn of_device(&self, place: usize, report: &ReplayReport) -> Option<FlowCounts> {
        let shared = self.shared.as_ref()?;
        let counted = shared.counted();
        let counts = counted.sides.get(place).copied().unwrap_or_default();
        Some(scaled(counts, shared.unique(report), |packets| counted.of_all(packets, report)))
    }
}

impl Shared {
    fn counted(&self) -> Counted {
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of loops with new flows.
    fn unique(&self, report: &ReplayReport) -> u64 {
        if self.is_unique { report.loops.max(1) } else { 1 }
    }
}

impl Counting {
    fn new(feed: Box<dyn Feed>, shared: &Shared) -> Self {
        let count = FlowCount::like_tcpreplay(shared.expiry_s);
        Self { feed, count, counted: Counted::default(), is_first_pass: true, shared: shared.clone() }
    }

    fn add(&mut self, frame: &[u8], meta: &FrameMeta) {
        let before = self.count.counts;
        self.count.add(frame, meta.time_ns / 1_000_000_000);
        let after = self.count.counts;
        self.counted.counts = after;
        self.counted.frames += 1;
        let side = &mut self.counted.sides[usize::from(meta.out.min(1))];
        side.flows += after.flows - before.flows;
        side.unique += after.unique - before.unique;
        side.expired += after.expired - before.expired;
        side.flow_packets += after.flow_packets - before.flow_packets;
        side.non_flow_packets += after.non_flow_packets - before.non_flow_packets;
        side.invalid_packets += after.invalid_packets - before.invalid_packets;
    }
}

impl Counted {
    /// Packets of all passes, from those of one.
    fn of_all(&self, packets: u64, report: &ReplayReport) -> u64 {
        let of_pass = self.frames.saturating_sub(report.skipped.too_large + report.skipped.too_short);
        let all = u128::from(packets) * u128::from(report.sent);
        all.checked_div(of_pass.into()).unwrap_or(0) as u64
    }
}

fn scaled(counts: FlowCounts, unique: u64, of_all: impl Fn(u64) -> u64) -> FlowCounts {
    FlowCounts {
        flows: counts.flows.saturating_mul(unique),
        unique: counts.unique.saturating_mul(unique),
        expired: counts.expired.saturating_mul(unique),
        flow_packets: of_all(counts.flow_packets),
        non_flow_packets: of_all(counts.non_flow_packets),
        invalid_packets: of_all(counts.invalid_packets),
    }
}

impl Feed for Counting {
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError> {
        self.feed.begin(loads_programs)
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        let before = arena.frames().len();
        let more = self.feed.fill(arena)?;
        if self.is_first_pass {
            for (frame, meta) in arena.frames().skip(before) {
                let is_full = self.count.counts.unique >= FLOWS_MAX;
                if self.counted.frames == self.shared.limit || is_full {
                    break;
                }
                self.add(frame, &meta);
            }
            *self.shared.counted.lock().unwrap_or_else(PoisonError::into_inner) = self.counted;
        }
        Ok(more)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        self.is_first_pass = false;
        self.feed.rewind()
    }

    fn bytes_hint(&self) -> Option<u64> {
        self.feed.bytes_hint()
    }

    fn tally(&self) -> FeedTally {
        self.feed.tally()
    }

    fn damage(&self) -> Option<String> {
        self.feed.damage()
    }

    fn flows(&self) -> Option<u64> {
        // This count replaces the sender's.
        Some(self.count.counts.flows)
    }
}
