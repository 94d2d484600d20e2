//! The largest groups of a summary, as rows.

use super::{By, Cell, Entry, Group, Sum, Summary};
use std::cmp::Ordering;

/// The name of the row of groups that have no row of their own.
const OTHERS: &str = "others";

/// The value by which rows are sorted, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Bytes and packets of the requested interval; of the whole time without one.
    Rate,
    PacketRate,
    Bytes,
    Packets,
    Flows,
    Sent,
    Received,
    /// By address, port or text.
    Name,
}

/// A query to a summary.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub by: By,
    pub order: Order,
    pub is_reversed: bool,
    /// Returns only rows whose text contains this, ignoring case; empty: all.
    pub text: &'a str,
    /// Index of the first returned row among those that match, and number of returned rows.
    pub first: usize,
    pub count: usize,
    /// The interval of [`Row::cell`].
    pub at: Option<u64>,
    /// Sums the groups after the last row, too.
    pub has_rest: bool,
}

/// The result of a query.
#[derive(Debug, Clone, Default)]
pub struct Ranked {
    pub rows: Vec<Row>,
    /// Number of known groups, and of those that match.
    pub groups: usize,
    pub matching: usize,
    /// The sum of the groups that were removed for lack of room.
    pub others: Option<Row>,
    /// The sum of the groups after the last row, and of the others if the query has no text; `None` without any. Only
    /// of queries that ask for it.
    pub rest: Option<Row>,
    /// Properties that some of the records do not have.
    pub not_recorded: Vec<By>,
    /// Maximum bytes that a row may lack, because its group was joined to the others for some time.
    pub lacking_bytes_max: u64,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// The names of each property of a combination.
    pub parts: Vec<String>,
    /// Application and server of a flow.
    pub detail: String,
    pub sum: Sum,
    /// The requested interval.
    pub cell: Cell,
    /// All intervals with packets.
    pub cells: Vec<Cell>,
    /// Times of the first and the last packet of a flow, ns since 1970, in whole µs; `None` of other groups.
    pub span_ns: Option<[u64; 2]>,
}

impl Row {
    fn new(name: String, entry: &Entry, at: Option<u64>) -> Self {
        let detail = entry.detail.as_deref().unwrap_or_default().to_owned();
        let cell = at.map_or(Cell::default(), |at| entry.cells.at(at));
        let (parts, cells) = (Vec::new(), entry.cells.all().to_vec());
        Self { name, parts, detail, sum: entry.sum, cell, cells, span_ns: entry.span_ns }
    }

    fn of_group(group: &Group, entry: &Entry, at: Option<u64>) -> Self {
        let parts = group.parts().iter().map(Group::to_string).collect();
        Self { parts, ..Self::new(group.to_string(), entry, at) }
    }
}

impl Query<'_> {
    fn value(&self, entry: &Entry) -> u64 {
        let (sum, cell) = (&entry.sum, || self.at.map(|at| entry.cells.at(at)));
        match self.order {
            Order::Rate => cell().map_or(sum.bytes, |cell| cell.bytes),
            Order::PacketRate => cell().map_or(sum.packets, |cell| cell.packets),
            Order::Bytes => sum.bytes,
            Order::Packets => sum.packets,
            Order::Flows => sum.flows,
            Order::Sent => sum.sent_bytes,
            Order::Received => sum.received_bytes,
            Order::Name => 0,
        }
    }

    /// Largest first; equal ones by bytes, then in the order of the groups.
    fn compare(&self, one: &Ranking<'_>, other: &Ranking<'_>) -> Ordering {
        let by_size = other.0.cmp(&one.0);
        let by_size = if self.is_reversed { by_size.reverse() } else { by_size };
        let by_name = one.1.cmp(other.1);
        let by_name = if self.is_reversed && self.order == Order::Name { by_name.reverse() } else { by_name };
        by_size.then(by_name)
    }

    fn matches(&self, text: &str, group: &Group, entry: &Entry) -> bool {
        let has = |words: &str| words.to_lowercase().contains(text);
        text.is_empty() || has(&group.to_string()) || entry.detail.as_deref().is_some_and(has)
    }
}

/// Values to compare, and their group.
type Ranking<'a> = ((u64, u64), &'a Group, &'a Entry);

impl Summary {
    /// The rows of a property; none if the plan does not have it.
    pub fn ranked(&self, query: &Query<'_>) -> Ranked {
        let Some(groups) = self.groups.iter().find(|groups| groups.by == query.by) else {
            return Ranked::default();
        };
        let text = query.text.to_lowercase();
        let matching = groups.entries.iter().filter(|(group, entry)| query.matches(&text, group, entry));
        let bytes = |entry: &Entry| if query.order == Order::Name { 0 } else { entry.sum.bytes };
        let mut all: Vec<Ranking<'_>> =
            matching.map(|(group, entry)| ((query.value(entry), bytes(entry)), group, entry)).collect();
        let (matching, end) = (all.len(), query.first.saturating_add(query.count).min(all.len()));
        if end > 0 && end < all.len() {
            all.select_nth_unstable_by(end - 1, |one, other| query.compare(one, other));
        }
        let rest = query.has_rest.then(|| groups.rest(query, &all[end..]));
        all.truncate(end);
        all.sort_unstable_by(|one, other| query.compare(one, other));
        let shown = all.iter().skip(query.first).take(query.count);
        let has_others = groups.joined > 0;
        Ranked {
            rows: shown.map(|(_, group, entry)| Row::of_group(group, entry, query.at)).collect(),
            groups: groups.entries.len(),
            matching,
            others: has_others.then(|| Row::new(OTHERS.to_owned(), &groups.others, query.at)),
            rest: rest.flatten(),
            not_recorded: groups.not_recorded.clone(),
            lacking_bytes_max: groups.lacking_bytes_max,
        }
    }
}

impl super::Groups {
    /// The sum of these groups, and of those that were removed for lack of room if the query has no text.
    fn rest(&self, query: &Query<'_>, after: &[Ranking<'_>]) -> Option<Row> {
        let removed = Some(&self.others).filter(|_| self.joined > 0 && query.text.is_empty());
        let mut all = after.iter().map(|(_, _, entry)| *entry).chain(removed).peekable();
        all.peek()?;
        let mut sum = Entry::default();
        for entry in all {
            sum.add(entry.sum, entry.cells.all());
        }
        Some(Row::new(OTHERS.to_owned(), &sum, query.at))
    }
}
