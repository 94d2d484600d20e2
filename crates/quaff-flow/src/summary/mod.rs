//! Sums of flow records: by host, port, application and others, and over time. Views and reports show them.
//!
//! Memory is bounded: if a list of groups is full, the smaller half of the groups is joined to one row, `others`; if
//! there are too many intervals, or values in them, the intervals get longer. The totals remain exact.
//!
//! | module | contents |
//! |---|---|
//! | `group` | the groups and their texts |
//! | `cells` | intervals of time |
//! | `ranking` | the largest groups, as rows |

mod cells;
mod group;
mod ranking;
#[cfg(test)]
mod tests;

pub use cells::Cell;
pub use group::{By, Combination};
pub use ranking::{Order, Query, Ranked, Row};

use crate::choice::Choice;
use crate::record::{Direction, FlowRecord, FlowSink};
use cells::{Cells, longer_ns, spread};
use group::Group;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, PoisonError};

/// The properties by which a summary groups flows, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPlan {
    pub by: Vec<By>,
    /// Length of an interval, ns; 0: no values over time.
    pub cell_ns: u64,
    /// Maximum intervals from the first to the last one; if there would be more, they get longer.
    pub intervals_max: u64,
    /// Maximum groups of each property.
    pub groups_max: usize,
    /// Maximum values over time of all groups; there is always room for one of each group.
    pub cells_max: usize,
    /// The records that are summed.
    pub choice: Choice,
}

/// Sums of flow records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Records: a long flow has several.
    pub records: u64,
    /// Records that do not continue another one.
    pub flows: u64,
    /// Packets and bytes of both directions.
    pub packets: u64,
    pub bytes: u64,
    /// Sent by the host, the source or the port; in other groups by the source of the flow.
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
}

impl Sum {
    fn new(record: &FlowRecord) -> Self {
        Self {
            records: 1,
            flows: u64::from(!record.is_continued),
            packets: record.packets(),
            bytes: record.bytes(),
            sent_packets: record.forward.packets,
            sent_bytes: record.forward.bytes,
            received_packets: record.reverse.packets,
            received_bytes: record.reverse.bytes,
        }
    }

    /// The same sums, seen from the other end.
    fn turned(self) -> Self {
        Self {
            sent_packets: self.received_packets,
            sent_bytes: self.received_bytes,
            received_packets: self.sent_packets,
            received_bytes: self.sent_bytes,
            ..self
        }
    }
}

impl AddAssign for Sum {
    /// Adds up to the largest number: records of files may have any counts.
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.records, other.records),
            (&mut self.flows, other.flows),
            (&mut self.packets, other.packets),
            (&mut self.bytes, other.bytes),
            (&mut self.sent_packets, other.sent_packets),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.received_packets, other.received_packets),
            (&mut self.received_bytes, other.received_bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The sums of one group.
#[derive(Debug, Clone, Default)]
struct Entry {
    sum: Sum,
    cells: Cells,
    /// Application and server of a flow.
    detail: Option<Box<str>>,
    /// Times of the first and the last packet of a flow, ns.
    span_ns: Option<[u64; 2]>,
}

impl Entry {
    /// Adds sums and values over time; returns the number of new values.
    fn add(&mut self, sum: Sum, cells: &[Cell]) -> usize {
        self.sum += sum;
        cells.iter().map(|cell| usize::from(self.cells.add(*cell))).sum()
    }

    /// Takes what the row of a flow has beside its sums: the time, in whole µs as in segments, and the application.
    fn see_flow(&mut self, record: &FlowRecord) {
        let [first_ns, last_ns] = [record.first_ns(), record.last_ns()].map(|ns| ns - ns % 1000);
        let [begin_ns, end_ns] = self.span_ns.unwrap_or([first_ns, last_ns]);
        self.span_ns = Some([begin_ns.min(first_ns), end_ns.max(last_ns)]);
        if self.detail.is_none() {
            self.detail = detail(record);
        }
    }
}

/// The groups of one property.
#[derive(Debug)]
struct Groups {
    by: By,
    entries: HashMap<Group, Entry>,
    /// The sums of the groups that were removed for lack of room, and their number.
    others: Entry,
    joined: u64,
    /// Maximum bytes that a row may lack, which its group had when it was joined to the others.
    lacking_bytes_max: u64,
    /// Properties that some of the records do not have.
    not_recorded: Vec<By>,
}

/// Sums of flow records by several properties.
#[derive(Debug)]
pub struct Summary {
    plan: SummaryPlan,
    /// Current length of an interval, ns.
    cell_ns: u64,
    /// Times of the first and the last packet, ns.
    span_ns: Option<[u64; 2]>,
    total: Entry,
    /// The sums of the records that are not wanted.
    left_out: Sum,
    /// Properties that the next records do not have.
    lacking: Vec<By>,
    groups: Vec<Groups>,
    /// Number of values over time: those at the last count, and those added since.
    cells_held: usize,
    /// Number of values at which they are counted again.
    cells_limit: usize,
    /// Reused for each record.
    cells: Vec<Cell>,
}

impl Summary {
    /// An empty summary.
    pub fn new(plan: SummaryPlan) -> Self {
        let groups = |by: &By| Groups {
            by: *by,
            entries: HashMap::new(),
            others: Entry::default(),
            joined: 0,
            lacking_bytes_max: 0,
            not_recorded: Vec::new(),
        };
        let groups = plan.by.iter().map(groups).collect();
        let (cell_ns, cells_limit) = (plan.cell_ns, plan.cells_max);
        Self {
            plan,
            cell_ns,
            span_ns: None,
            total: Entry::default(),
            left_out: Sum::default(),
            lacking: Vec::new(),
            groups,
            cells_held: 0,
            cells_limit,
            cells: Vec::new(),
        }
    }

    /// The records that are added next do not have these properties: their groups are `not recorded`, which is not
    /// `unknown`.
    pub fn lack(&mut self, properties: &[By]) {
        self.lacking = properties.to_vec();
    }

    /// Adds a record. Its times are those of both directions, in whole µs, so that a record that was stored as a row
    /// has the same values over time.
    pub fn add(&mut self, record: &FlowRecord) {
        if !self.plan.choice.wants(record) {
            self.left_out += Sum::new(record);
            return;
        }
        let [first_ns, last_ns] = [record.first_ns(), record.last_ns()].map(|ns| ns - ns % 1000);
        self.see(first_ns, last_ns);
        let mut cells = std::mem::take(&mut self.cells);
        cells.clear();
        let sum = Sum::new(record);
        if self.cell_ns > 0 {
            let both = Direction {
                packets: sum.packets,
                bytes: sum.bytes,
                first_ns,
                last_ns,
                ..Direction::default()
            };
            cells.extend(spread(&both, self.cell_ns));
        }
        self.cells_held += self.total.add(sum, &cells);
        for groups in &mut self.groups {
            self.cells_held += groups.add(record, sum, &cells, &self.lacking);
            if groups.entries.len() > self.plan.groups_max {
                groups.join_smaller();
            }
        }
        self.cells = cells;
        if self.cells_held > self.cells_limit {
            self.bound_cells();
        }
    }

    /// Extends the time span to that of a record; lengthens the intervals if there are too many.
    fn see(&mut self, first_ns: u64, last_ns: u64) {
        let last_ns = last_ns.max(first_ns);
        let [begin_ns, end_ns] = self.span_ns.unwrap_or([first_ns, last_ns]);
        let (begin_ns, end_ns) = (begin_ns.min(first_ns), end_ns.max(last_ns));
        self.span_ns = Some([begin_ns, end_ns]);
        while self.cell_ns > 0 && end_ns / self.cell_ns - begin_ns / self.cell_ns >= self.plan.intervals_max {
            self.lengthen();
        }
    }

    fn lengthen(&mut self) {
        let longer_ns = longer_ns(self.cell_ns);
        let factor = longer_ns / self.cell_ns;
        self.cell_ns = longer_ns;
        self.all_cells().into_iter().for_each(|cells| cells.lengthen(factor));
    }

    /// Lengthens the intervals until at most half of the maximum values are left, so that this is rarely needed.
    #[cold]
    fn bound_cells(&mut self) {
        let count =
            |summary: &mut Self| summary.all_cells().iter().map(|cells| cells.all().len()).sum::<usize>();
        let is_one = |summary: &Self| {
            summary.span_ns.is_none_or(|[first, last]| first / summary.cell_ns == last / summary.cell_ns)
        };
        self.cells_held = count(self);
        while self.cells_held > self.plan.cells_max / 2 && !is_one(self) {
            self.lengthen();
            self.cells_held = count(self);
        }
        self.cells_limit = self.plan.cells_max.max(2 * self.cells_held);
    }

    fn all_cells(&mut self) -> Vec<&mut Cells> {
        let mut all = vec![&mut self.total.cells];
        for groups in &mut self.groups {
            all.extend(groups.entries.values_mut().map(|entry| &mut entry.cells));
            all.push(&mut groups.others.cells);
        }
        all
    }

    /// Removes the intervals before number `at`, except `kept`: a live summary has the latest ones and the one that is
    /// displayed.
    pub fn forget_before(&mut self, at: u64, kept: Option<u64>) {
        self.all_cells().into_iter().for_each(|cells| cells.forget_before(at, kept));
    }

    /// The sums of all records, and their values over time.
    pub fn total(&self) -> (Sum, &[Cell]) {
        (self.total.sum, self.total.cells.all())
    }

    /// The sums of the records that the choice left out.
    pub fn left_out(&self) -> Sum {
        self.left_out
    }

    /// Times of the first and the last packet, ns since 1970.
    pub fn span_ns(&self) -> Option<[u64; 2]> {
        self.span_ns
    }

    /// Length of an interval, ns.
    pub fn cell_ns(&self) -> u64 {
        self.cell_ns
    }
}

impl Groups {
    /// Adds sums and values over time; returns the number of new values.
    fn add(&mut self, record: &FlowRecord, sum: Sum, cells: &[Cell], lacking: &[By]) -> usize {
        let key = &record.key;
        let is_lacking = !lacking.is_empty() && self.note_lacking(lacking);
        let seen_from_group = if self.by.is_of_destination() { sum.turned() } else { sum };
        let entry = self.entries.entry(Group::new(self.by, record, lacking)).or_default();
        let mut added = entry.add(seen_from_group, cells);
        match self.by {
            By::Flow => entry.see_flow(record),
            // A host that talks to itself: the flow counts once, and both directions are sent and received by it.
            By::Host if is_lacking || key.source == key.destination => {
                entry.sum += Sum { records: 0, flows: 0, packets: 0, bytes: 0, ..sum.turned() };
            }
            By::Host => {
                let other = self.entries.entry(Group::Address(key.destination)).or_default();
                added += other.add(sum.turned(), cells);
            }
            _ => {}
        }
        added
    }

    /// Remembers the properties that a record does not have; returns whether there are any.
    fn note_lacking(&mut self, lacking: &[By]) -> bool {
        let properties = self.by.parts().iter().map(|by| by.recorded());
        let of_record = properties.filter(|by| lacking.contains(by));
        let (mut has_any, known) = (false, &mut self.not_recorded);
        for by in of_record {
            has_any = true;
            if !known.contains(&by) {
                known.push(by);
            }
        }
        has_any
    }

    /// Joins the smaller half of the groups to the others: first those without recent packets, then those with fewer
    /// bytes.
    fn join_smaller(&mut self) {
        let size = |entry: &Entry| (!entry.cells.all().is_empty(), entry.sum.bytes);
        let mut sizes: Vec<_> = self.entries.values().map(size).collect();
        let half = sizes.len().div_ceil(2);
        let (_, limit, _) = sizes.select_nth_unstable(half - 1);
        let limit = *limit;
        let mut left = half;
        let (others, mut largest) = (&mut self.others, 0);
        self.entries.retain(|_, entry| {
            let stays = left == 0 || size(entry) > limit;
            if !stays {
                left -= 1;
                largest = largest.max(entry.sum.bytes);
                others.add(entry.sum, entry.cells.all());
            }
            stays
        });
        self.joined += half as u64;
        self.lacking_bytes_max = self.lacking_bytes_max.saturating_add(largest);
    }
}

/// Application and server of a flow.
fn detail(record: &FlowRecord) -> Option<Box<str>> {
    let application = record.extras.as_deref()?.application.as_ref()?;
    let server = application.server_name.as_deref();
    let words = server.map_or(application.name.into(), |server| format!("{} {server}", application.name));
    Some(words.trim_start().into())
}

/// A summary that another thread reads.
impl FlowSink for Arc<Mutex<Summary>> {
    fn take(&mut self, records: &[FlowRecord]) {
        let mut summary = self.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().for_each(|record| summary.add(record));
    }
}
