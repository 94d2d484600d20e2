//! The counters of a meter, and their sums along time and along the order of segments.

use super::cells::{CELLS_MAX, Cell, Cells, Lost};
use super::estimate::{Losses, estimate};
use super::holes::Hole;
use super::report::{InterfaceLoss, Interval, LossReport};
use quaff_wire::add_each;

/// Initial width of time cells, ns.
const TIME_CELL_NS: u64 = 1_000_000;

/// Maximum number of interfaces with separate sums; the last one is for all others.
const INTERFACES_MAX: usize = 64;

/// Assumed segment size while none was seen, bytes.
pub(super) const SEGMENT_BYTES: u32 = 1448;

/// A run of consecutive lost bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    pub(super) bytes: u64,
    /// Minimum number of packets, with the longest segments. One is a packet, or several short ones.
    pub(super) least: f64,
    /// Number of packets with the mean size.
    pub(super) by_mean: f64,
}

/// The sums of runs.
#[derive(Debug, Clone, Copy, Default)]
struct Runs {
    bytes: u64,
    runs: u64,
    losses: Losses,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

/// The counters.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// The counters of the report, and the connections with the most losses.
    pub(super) found: LossReport,
    lost: Runs,
    /// The losses of directions without captured data.
    bare: Runs,
    /// Segments seen, which is the position in `order`; their bytes, and the longest.
    seen: u64,
    seen_bytes: u64,
    largest_bytes: u32,
    order: Cells,
    time: Cells,
    /// Sums per interface.
    interfaces: Vec<Cell>,
    /// Time of the first packet, ns since 1970; `None` before it.
    begin_ns: Option<u64>,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            found: LossReport::default(),
            lost: Runs::default(),
            bare: Runs::default(),
            seen: 0,
            seen_bytes: 0,
            largest_bytes: 0,
            order: Cells::new(1),
            time: Cells::new(TIME_CELL_NS),
            interfaces: Vec::new(),
            begin_ns: None,
        }
    }
}

impl Runs {
    fn add(&mut self, hole: &Hole, run: &Run, packets: Lost) {
        self.bytes += run.bytes;
        self.runs += 1;
        self.losses.packets = self.losses.packets.plus(packets);
        self.losses.least += run.least;
        self.losses.noise += if run.least > 1.0 { 0.0 } else { packets.by_mean.powi(2) };
        self.losses.few_squares += packets.few.powi(2);
        self.losses.by_mean_squares += packets.by_mean.powi(2);
        self.first_ns = Some(self.first_ns.map_or(hole.before_ns, |first| first.min(hole.before_ns)));
        self.last_ns = self.last_ns.max(Some(hole.after_ns));
    }

    fn plus(self, other: Self) -> Self {
        let (one, two) = (self.losses, other.losses);
        Self {
            bytes: self.bytes + other.bytes,
            runs: self.runs + other.runs,
            losses: Losses {
                segments: one.segments + two.segments,
                packets: one.packets.plus(two.packets),
                least: one.least + two.least,
                noise: one.noise + two.noise,
                few_squares: one.few_squares + two.few_squares,
                by_mean_squares: one.by_mean_squares + two.by_mean_squares,
            },
            first_ns: [self.first_ns, other.first_ns].into_iter().flatten().min(),
            last_ns: self.last_ns.max(other.last_ns),
        }
    }
}

impl Sums {
    /// Adds the sums of another meter at the same time. The orders of the two are parallel: their midpoints coincide.
    pub(super) fn add(&mut self, other: &Self) {
        add_each!(self.found, other.found;
            flows, flows_with_evidence, flows_with_loss, one_sided, one_way, midstream, set_aside, bare, copied,
            evicted, segments, filled_bytes, retransmitted_bytes, copied_bytes, snapped_bytes, undecided_bytes,
            untracked_bytes, jumps, leaps_confirmed, fins_unseen, syns_unseen, acks_ignored, zeek_acks, zeek_gaps,
            tcptrace_directions, tcptrace_missed_bytes
        );
        other.found.worst.iter().for_each(|flow| self.found.rank(*flow));
        self.lost = self.lost.plus(other.lost);
        self.bare = self.bare.plus(other.bare);
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
        self.order = orders(self, other);
        add_each!(self, other; seen, seen_bytes);
        self.add_times(other);
        self.interfaces.resize(self.interfaces.len().max(other.interfaces.len()), Cell::default());
        let both = self.interfaces.iter_mut().zip(&other.interfaces);
        both.for_each(|(sum, one)| *sum = sum.plus(one));
    }

    fn add_times(&mut self, other: &Self) {
        let Some(other_ns) = other.begin_ns else { return };
        let own_ns = self.begin_ns.unwrap_or(other_ns);
        let begin_ns = own_ns.min(other_ns);
        let mut time = Cells::new(self.time.width.max(other.time.width));
        for (from_ns, cells) in [(own_ns, &self.time), (other_ns, &other.time)] {
            time.add(&cells.cells, |number| (from_ns - begin_ns).saturating_add(number * cells.width));
        }
        (self.begin_ns, self.time) = (Some(begin_ns), time);
    }

    /// Counts a data segment of a direction whose acknowledgments were captured.
    #[inline]
    pub(super) fn see(&mut self, now_ns: u64, bytes: u32, interface: u16) {
        self.order.at(self.seen).segments += 1;
        self.seen += 1;
        self.seen_bytes += u64::from(bytes);
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.time_cell(now_ns).segments += 1;
        self.interface(interface).segments += 1;
    }

    #[inline]
    fn interface(&mut self, interface: u16) -> &mut Cell {
        let at = usize::from(interface).min(INTERFACES_MAX - 1);
        if at >= self.interfaces.len() {
            self.interfaces.resize(at + 1, Cell::default());
        }
        &mut self.interfaces[at]
    }

    /// The position of the next segment in the order of all.
    pub(super) fn place(&self) -> u32 {
        u32::try_from(self.seen).unwrap_or(u32::MAX)
    }

    pub(super) fn largest_bytes(&self) -> u32 {
        self.largest_bytes
    }

    /// Mean segment size so far.
    pub(super) fn mean_bytes(&self) -> f64 {
        match self.seen {
            0 => f64::from(SEGMENT_BYTES),
            seen => self.seen_bytes as f64 / seen as f64,
        }
    }

    /// Counts a loss at its position. `is_bare`: none of the direction's data were captured.
    pub(super) fn lose(&mut self, hole: &Hole, run: &Run, is_bare: bool, interface: u16) {
        let packets = match run.least > 1.0 {
            true => {
                let packets = run.least.max(run.by_mean.round());
                Lost { few: packets, by_mean: packets }
            }
            false => Lost { few: 1.0, by_mean: run.by_mean },
        };
        if is_bare { &mut self.bare } else { &mut self.lost }.add(hole, run, packets);
        self.interface(interface).lose(packets, is_bare);
        self.order.at(u64::from(hole.place).min(self.seen.saturating_sub(1))).lose(packets, is_bare);
        let begin_ns = *self.begin_ns.get_or_insert(hole.after_ns);
        self.time.at(hole.after_ns.saturating_sub(begin_ns)).lose(packets, is_bare);
    }

    /// Segments seen, and lost packets.
    pub(super) fn so_far(&self) -> [u64; 2] {
        [self.seen, self.lost.losses.packets.few.round() as u64]
    }

    /// Counts drops that the file records at a packet.
    pub(super) fn note_drops(&mut self, now_ns: u64, drops: u64, interface: u16) {
        let cell = self.time_cell(now_ns);
        cell.recorded_drops = cell.recorded_drops.saturating_add(drops);
        let cell = self.interface(interface);
        cell.recorded_drops = cell.recorded_drops.saturating_add(drops);
    }

    /// Counts missing numbers at this time, or revokes them.
    pub(super) fn note_numbers(&mut self, time_ns: u64, lost: i64) {
        let cell = self.time_cell(time_ns);
        cell.numbered_lost = cell.numbered_lost.saturating_add_signed(lost);
    }

    #[inline]
    fn time_cell(&mut self, now_ns: u64) -> &mut Cell {
        let begin_ns = *self.begin_ns.get_or_insert(now_ns);
        self.time.at(now_ns.saturating_sub(begin_ns))
    }

    /// The report. `is_bare_lost`: directions without captured data are few enough to count as lost.
    pub(super) fn report(mut self, is_bare_lost: bool) -> LossReport {
        let mut lost = self.lost;
        if is_bare_lost {
            lost = lost.plus(self.bare);
            let cells = self.order.cells.iter_mut().chain(&mut self.time.cells).chain(&mut self.interfaces);
            cells.for_each(|cell| cell.lost = cell.lost.plus(cell.bare));
        } else {
            self.found.undecided_bytes += self.bare.bytes;
        }
        lost.losses.segments = self.found.segments;
        let found = estimate(&lost.losses, &self.order.cells);
        debug_assert!(self.time.cells.len() <= CELLS_MAX);
        let is_by_mean = lost.losses.is_by_mean();
        let (intervals, interfaces) = (self.intervals(is_by_mean), self.interfaces(is_by_mean));
        LossReport {
            acked_unseen_bytes: lost.bytes,
            acked_unseen_runs: lost.runs,
            acked_unseen_packets_estimate: found.map_or(0, |found| found.packets.round() as u64),
            lost_packets_low: found.map_or(0, |found| (found.packets_low as u64).max(lost.runs)),
            lost_packets_high: found.and_then(|found| found.packets_high).map(|high| high.ceil() as u64),
            loss_ratio: found.map(|found| found.ratio),
            loss_low: found.map(|found| found.low),
            loss_high: found.map(|found| found.high),
            first_loss_ns: lost.first_ns,
            last_loss_ns: lost.last_ns,
            zeek_ratio: share(self.found.zeek_gaps as f64, self.found.zeek_acks as f64),
            intervals,
            interfaces,
            ..self.found
        }
    }

    /// The parts of the capture with segments, losses or drops.
    fn intervals(&self, is_by_mean: bool) -> Vec<Interval> {
        let begin_ns = self.begin_ns.unwrap_or(0);
        let interval = |(number, cell): (u64, &Cell)| {
            let lost = cell.lost.packets(is_by_mean);
            Interval {
                from_ns: begin_ns.saturating_add(self.time.width.saturating_mul(number)),
                to_ns: begin_ns.saturating_add(self.time.width.saturating_mul(number + 1)),
                segments: cell.segments,
                lost_packets: lost.round() as u64,
                loss_ratio: share(lost, cell.segments as f64 + lost),
                recorded_drops: cell.recorded_drops,
                numbered_lost: cell.numbered_lost,
            }
        };
        let is_used = |interval: &Interval| {
            let marks = interval.recorded_drops.saturating_add(interval.numbered_lost);
            interval.segments + interval.lost_packets > 0 || marks > 0
        };
        (0..).zip(&self.time.cells).map(interval).filter(is_used).collect()
    }

    fn interfaces(&self, is_by_mean: bool) -> Vec<InterfaceLoss> {
        let of = |cell: &Cell| {
            let lost = cell.lost.packets(is_by_mean);
            InterfaceLoss {
                name: String::new(),
                segments: cell.segments,
                lost_packets: lost.round() as u64,
                loss_ratio: share(lost, cell.segments as f64 + lost),
                recorded_drops: cell.recorded_drops,
            }
        };
        self.interfaces.iter().map(of).collect()
    }
}

/// Merges two parallel orders.
fn orders(one: &Sums, other: &Sums) -> Cells {
    let all = u128::from(one.seen + other.seen);
    let scaled = |of: &Sums, place: u64| (u128::from(place) * all / u128::from(of.seen.max(1))) as u64;
    let width = scaled(one, one.order.width).max(scaled(other, other.order.width)).max(1);
    let mut order = Cells::new(width);
    for of in [one, other] {
        order.add(&of.order.cells, |number| scaled(of, number * of.order.width));
    }
    order
}

fn share(part: f64, all: f64) -> Option<f64> {
    (all > 0.0).then(|| part / all)
}
