//! The largest groups of a summary, as rows.

use super::group::Named;
use super::{By, Cell, Entry, Group, Names, Sum, Summary, WINDOWS_S};
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
    /// Means of the last 2, 10 and 40 seconds.
    Mean2s,
    Mean10s,
    Mean40s,
    /// By address, port or text.
    Name,
}

/// A query to a summary.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    pub by: By,
    pub order: Order,
    pub is_reversed: bool,
    /// Returns names of hosts and services too, and finds a text in them.
    pub is_named: bool,
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
    /// Most bytes, and the highest mean of 10 s, of a group that matches.
    pub bytes_max: u64,
    pub mean_10s_max: u64,
    /// Properties that some of the records do not have.
    pub not_recorded: Vec<By>,
    /// Maximum bytes that a row may lack, because its group was joined to the others for some time.
    pub lacking_bytes_max: u64,
}

/// One group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    /// The name with those of hosts and services; empty if none is known, or not asked for.
    pub named: String,
    /// The names of each property of a combination.
    pub parts: Vec<String>,
    /// Application and server of a flow.
    pub detail: String,
    pub sum: Sum,
    /// The requested interval.
    pub cell: Cell,
    /// All intervals with packets.
    pub cells: Vec<Cell>,
    /// Means of the last 2, 10 and 40 seconds, bits per second; `None` without any time.
    pub means: Option<[u64; WINDOWS_S.len()]>,
    /// Times of the first and the last packet of a flow, ns since 1970, in whole µs; `None` of other groups.
    pub span_ns: Option<[u64; 2]>,
}

impl Row {
    /// The name as people read it.
    pub fn shown_name(&self) -> &str {
        if self.named.is_empty() { &self.name } else { &self.named }
    }
}

impl Summary {
    fn row(&self, name: String, entry: &Entry, at: Option<u64>) -> Row {
        let detail = entry.detail.as_deref().unwrap_or_default().to_owned();
        let cell = at.map_or(Cell::default(), |at| entry.cells.at(at));
        let (cells, means) = (entry.cells.all().to_vec(), self.means(entry));
        Row { name, detail, sum: entry.sum, cell, cells, means, span_ns: entry.span_ns, ..Row::default() }
    }

    fn row_of_group(&self, group: &Group, entry: &Entry, query: &Query<'_>) -> Row {
        let parts = group.parts().iter().map(Group::to_string).collect();
        let row = self.row(group.to_string(), entry, query.at);
        let named = self.names_of(query).map(|names| Named(group, names).to_string());
        let named = named.filter(|named| *named != row.name).unwrap_or_default();
        Row { parts, named, ..row }
    }

    /// The names, if the query asks for them.
    fn names_of(&self, query: &Query<'_>) -> Option<&Names> {
        self.names.as_ref().filter(|_| query.is_named)
    }
}

/// A mean of the last seconds.
fn mean(entry: &Entry, at: usize) -> u64 {
    entry.recent.as_deref().map_or(0, |recent| recent.means[at])
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
            Order::Mean2s => mean(entry, 0),
            Order::Mean10s => mean(entry, 1),
            Order::Mean40s => mean(entry, 2),
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

    fn matches(&self, text: &str, group: &Group, entry: &Entry, names: Option<&Names>) -> bool {
        let has = |words: &str| words.to_lowercase().contains(text);
        let has_named = || names.is_some_and(|names| has(&Named(group, names).to_string()));
        text.is_empty() || has(&group.to_string()) || entry.detail.as_deref().is_some_and(has) || has_named()
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
        let (text, names) = (query.text.to_lowercase(), self.names_of(query));
        let matching =
            groups.entries.iter().filter(|(group, entry)| query.matches(&text, group, entry, names));
        let bytes = |entry: &Entry| if query.order == Order::Name { 0 } else { entry.sum.bytes };
        let mut all: Vec<Ranking<'_>> =
            matching.map(|(group, entry)| ((query.value(entry), bytes(entry)), group, entry)).collect();
        let (matching, end) = (all.len(), query.first.saturating_add(query.count).min(all.len()));
        if end > 0 && end < all.len() {
            all.select_nth_unstable_by(end - 1, |one, other| query.compare(one, other));
        }
        let largest =
            |value: fn(&Entry) -> u64| all.iter().map(|(_, _, entry)| value(entry)).max().unwrap_or(0);
        let (bytes_max, mean_10s_max) = (largest(|entry| entry.sum.bytes), largest(|entry| mean(entry, 1)));
        let rest = query.has_rest.then(|| groups.rest(query, &all[end..])).flatten();
        all.truncate(end);
        all.sort_unstable_by(|one, other| query.compare(one, other));
        let shown = all.iter().skip(query.first).take(query.count);
        let has_others = groups.joined > 0;
        Ranked {
            rows: shown.map(|(_, group, entry)| self.row_of_group(group, entry, query)).collect(),
            groups: groups.entries.len(),
            matching,
            others: has_others.then(|| self.row(OTHERS.to_owned(), &groups.others, query.at)),
            rest: rest.map(|rest| self.row(OTHERS.to_owned(), &rest, query.at)),
            bytes_max,
            mean_10s_max,
            not_recorded: groups.not_recorded.clone(),
            lacking_bytes_max: groups.lacking_bytes_max,
        }
    }
}

impl super::Groups {
    /// The sum of these groups, and of those that were removed for lack of room if the query has no text.
    fn rest(&self, query: &Query<'_>, after: &[Ranking<'_>]) -> Option<Entry> {
        let removed = Some(&self.others).filter(|_| self.joined > 0 && query.text.is_empty());
        let mut all = after.iter().map(|(_, _, entry)| *entry).chain(removed).peekable();
        all.peek()?;
        let mut sum = Entry::default();
        all.for_each(|entry| sum.join(entry));
        Some(sum)
    }
}
