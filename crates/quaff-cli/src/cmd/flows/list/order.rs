//! The order of a list: the value by which records are sorted, and the first ones by it, in bounded memory.

use crate::flags::values;
use crate::units::{Choice, choice};
use quaff_flow::record::FlowRecord;
use quaff_flow::summary::By;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The value by which rows are sorted: the earliest times first, or the largest numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Start,
    End,
    Bytes,
    Packets,
    Duration,
}

/// Orders by their names in arguments.
const SORTS: [Choice<Sort>; 5] = [
    ("start", Sort::Start, ""),
    ("end", Sort::End, ""),
    ("bytes", Sort::Bytes, ""),
    ("packets", Sort::Packets, ""),
    ("duration", Sort::Duration, ""),
];

values! {
    Sort: choice(SORTS);
}

/// The first records of an order.
#[derive(Debug)]
pub(super) struct FirstRows {
    sort: Sort,
    most: usize,
    /// The last of them at the top.
    rows: BinaryHeap<SortedRow>,
    seen: u64,
}

/// A record with its place in the order, and the properties that it does not have.
#[derive(Debug)]
pub(super) struct SortedRow {
    /// A small number is first; equal ones are in the order of the files.
    place: (u64, u64),
    pub(super) record: FlowRecord,
    pub(super) lacking: Arc<[By]>,
}

impl Sort {
    /// A number that is small for the first records.
    fn rank(self, record: &FlowRecord) -> u64 {
        match self {
            Self::Start => record.first_ns(),
            Self::End => record.last_ns(),
            Self::Bytes => u64::MAX - record.bytes(),
            Self::Packets => u64::MAX - record.packets(),
            Self::Duration => u64::MAX - record.last_ns().saturating_sub(record.first_ns()),
        }
    }
}

impl FirstRows {
    /// The first `most` records by `sort`.
    pub(super) fn new(sort: Sort, most: usize) -> Self {
        Self { sort, most, rows: BinaryHeap::new(), seen: 0 }
    }

    /// Keeps a record if it is one of the first so far.
    pub(super) fn add(&mut self, record: &FlowRecord, lacking: &Arc<[By]>) {
        let place = (self.sort.rank(record), self.seen);
        self.seen += 1;
        let is_full = self.rows.len() >= self.most;
        if is_full && self.rows.peek().is_none_or(|last| last.place < place) {
            return;
        }
        if is_full {
            self.rows.pop();
        }
        self.rows.push(SortedRow { place, record: record.clone(), lacking: lacking.clone() });
    }

    /// The records in their order.
    pub(super) fn into_rows(self) -> Vec<SortedRow> {
        self.rows.into_sorted_vec()
    }
}

impl Ord for SortedRow {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place.cmp(&other.place)
    }
}

impl PartialOrd for SortedRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedRow {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for SortedRow {}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::record;
    use super::*;

    /// The first `most` of `count` records, by their numbers of packets.
    fn first(sort: Sort, most: usize, count: u64) -> Vec<u64> {
        let mut rows = FirstRows::new(sort, most);
        let none: Arc<[By]> = Arc::from([]);
        // Later ones begin earlier, and have more packets; their bytes are equal.
        for n in 1..=count {
            let mut record = record(n);
            record.forward.first_ns = 1_000_000 - n;
            record.forward.bytes = 100;
            rows.add(&record, &none);
        }
        assert!(rows.rows.len() <= most);
        rows.into_rows().iter().map(|row| row.record.packets()).collect()
    }

    #[test]
    fn the_first_rows_are_those_of_the_whole_order() {
        assert_eq!(first(Sort::Packets, 3, 100), [100, 99, 98]);
        assert_eq!(first(Sort::Start, 2, 100), [100, 99]);
        assert_eq!(first(Sort::Duration, 2, 100), [100, 99]);
        assert_eq!(first(Sort::Packets, 9, 2), [2, 1]);
        assert!(first(Sort::Packets, 0, 5).is_empty());
        // Equal ones stay in the order of the files.
        assert_eq!(first(Sort::Bytes, 3, 100), [1, 2, 3]);
        assert_eq!(first(Sort::End, 3, 100), [1, 2, 3]);
    }
}
