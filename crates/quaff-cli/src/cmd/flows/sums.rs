//! Rows of a summary for people and for programs: columns of a table, and JSON. It sums nothing.

use crate::show;
use crate::units::Choice;
use quaff_flow::summary::{By, Cell, Order, Ranked, Row, Sum};
use quaff_os::terminal_columns;
use serde::Serialize;

/// Columns of a terminal on which the ends of a flow have room in one line.
const UNBROKEN_COLUMNS: u16 = 100;

/// Properties by which flows are summed, by their names in arguments and JSON.
pub(super) const BY: [Choice<By>; 9] = [
    ("flow", By::Flow, ""),
    ("host", By::Host, ""),
    ("source", By::Source, ""),
    ("destination", By::Destination, ""),
    ("port", By::Port, ""),
    ("application", By::Application, ""),
    ("server", By::Server, ""),
    ("protocol", By::Protocol, ""),
    ("vlan", By::Vlan, ""),
];

/// A property, or several with `+` between them.
pub(super) fn property(text: &str) -> Result<By, String> {
    let known = |name: &str| {
        let found = BY.iter().find(|(known, ..)| *known == name).map(|(_, by, _)| *by);
        let names = || BY.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("'{name}' is none of {}; several together as in source+port", names()))
    };
    let all = text.split('+').map(known).collect::<Result<Vec<_>, _>>()?;
    match all[..] {
        [one] => Ok(one),
        _ => By::several(text, all).ok_or_else(|| {
            "flow and host are of both ends of a flow and go with nothing else: write source or destination".to_owned()
        }),
    }
}

/// Orders of rows, by their names in arguments.
pub(super) const ORDERS: [Choice<Order>; 8] = [
    ("rate", Order::Rate, ""),
    ("packet-rate", Order::PacketRate, ""),
    ("bytes", Order::Bytes, ""),
    ("packets", Order::Packets, ""),
    ("flows", Order::Flows, ""),
    ("sent", Order::Sent, ""),
    ("received", Order::Received, ""),
    ("name", Order::Name, ""),
];

/// The name of a property in arguments and JSON.
pub(super) fn by_name(by: By) -> &'static str {
    if let By::Several(of) = by {
        return of.name();
    }
    BY.iter().find(|(_, known, _)| *known == by).map_or("", |(name, ..)| name)
}

/// The rows of a property together, as a heading.
pub(super) fn heading(by: By) -> &'static str {
    match by {
        By::Flow => "Flows",
        By::Host => "Hosts",
        By::Source => "Sources",
        By::Destination => "Destinations",
        By::Port => "Ports",
        By::Application => "Applications",
        By::Server => "Servers",
        By::Protocol => "Protocols",
        By::Vlan => "VLANs",
        By::Several(of) => of.name(),
    }
}

/// The time of rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rates {
    /// Of the interval asked for, in seconds.
    Interval(f64),
    /// Of all packets, over so many seconds; 0 where that is unknown.
    Mean(f64),
}

impl Rates {
    /// Bytes and packets per second of a row.
    pub(super) fn of(self, row: &Row) -> Option<[f64; 2]> {
        let (counts, seconds) = match self {
            Self::Interval(seconds) => ([row.cell.bytes, row.cell.packets], seconds),
            Self::Mean(seconds) => ([row.sum.bytes, row.sum.packets], seconds),
        };
        (seconds > 0.0).then(|| counts.map(|count| count as f64 / seconds))
    }
}

/// A column of a table of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Columns of the highest rank are omitted first; those of rank 0 never.
    pub(super) rank: usize,
    /// The order that it shows; `None` for a text beside the name.
    pub(super) order: Option<Order>,
    pub(super) cell: fn(&Row, Rates) -> String,
}

impl Column {
    /// It holds numbers.
    pub(super) fn is_number(&self) -> bool {
        !matches!(self.order, None | Some(Order::Name))
    }
}

/// The columns of a property. The first one is the name.
pub(super) fn columns(by: By) -> Vec<Column> {
    let number = |head, rank, order, cell| Column { head, rank, order: Some(order), cell };
    let mut all = vec![
        number(by_name(by), 0, Order::Name, |row, _| row.name.clone()),
        number("b/s", 0, Order::Rate, |row, rates| rate_words(row, rates, 0)),
        number("pkt/s", 1, Order::PacketRate, |row, rates| rate_words(row, rates, 1)),
        number("bytes", 2, Order::Bytes, |row, _| show::bytes(row.sum.bytes)),
        number("packets", 3, Order::Packets, |row, _| show::count(row.sum.packets)),
    ];
    match by {
        By::Flow => all.push(Column {
            head: "application",
            rank: 4,
            order: None,
            cell: |row, _| show::name(&row.detail).into_owned(),
        }),
        _ => all.push(number("flows", 4, Order::Flows, |row, _| show::count(row.sum.flows))),
    }
    all.push(number("sent", 5, Order::Sent, |row, _| show::bytes(row.sum.sent_bytes)));
    all.push(number("received", 6, Order::Received, |row, _| show::bytes(row.sum.received_bytes)));
    all
}

/// Bits or packets per second, or a dash.
fn rate_words(row: &Row, rates: Rates, at: usize) -> String {
    match (rates.of(row), at) {
        (None, _) => "–".to_owned(),
        (Some([bytes, _]), 0) => show::bits(8.0 * bytes),
        (Some([_, packets]), _) => show::pps(packets),
    }
}

/// The name of a row with spaces at which no line ends, unless the terminal is narrow: other columns are omitted first.
pub(super) fn together(name: &str) -> String {
    match terminal_columns().is_none_or(|columns| columns >= UNBROKEN_COLUMNS) {
        true => name.replace(' ', "\u{a0}"),
        false => name.to_owned(),
    }
}

/// The rows of a property as JSON.
#[derive(Debug, Serialize)]
pub(super) struct GroupsJson {
    by: &'static str,
    /// Groups that are known, and those that match the text.
    groups: usize,
    matching: usize,
    rows: Vec<RowJson>,
    /// Groups that had no place, together.
    others: Option<RowJson>,
    lacking_bytes_max: u64,
}

/// A row as JSON.
#[derive(Debug, Serialize)]
struct RowJson {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(flatten)]
    sum: SumJson,
    bits_per_s: Option<f64>,
    packets_per_s: Option<f64>,
    /// Bytes of each interval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    over_bytes: Vec<u64>,
}

/// Sums as JSON.
#[derive(Debug, Serialize)]
pub(super) struct SumJson {
    records: u64,
    flows: u64,
    packets: u64,
    bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    received_packets: u64,
    received_bytes: u64,
}

impl From<Sum> for SumJson {
    fn from(sum: Sum) -> Self {
        let Sum { records, flows, packets, bytes, .. } = sum;
        let Sum { sent_packets, sent_bytes, received_packets, received_bytes, .. } = sum;
        Self { records, flows, packets, bytes, sent_packets, sent_bytes, received_packets, received_bytes }
    }
}

impl GroupsJson {
    /// `intervals` are the first and the last one of the values over time.
    pub(super) fn new(by: By, ranked: &Ranked, rates: Rates, intervals: Option<[u64; 2]>) -> Self {
        let row = |row: &Row| RowJson::new(row, rates, intervals);
        Self {
            by: by_name(by),
            groups: ranked.groups,
            matching: ranked.matching,
            rows: ranked.rows.iter().map(row).collect(),
            others: ranked.others.as_ref().map(row),
            lacking_bytes_max: ranked.lacking_bytes_max,
        }
    }
}

impl RowJson {
    fn new(row: &Row, rates: Rates, intervals: Option<[u64; 2]>) -> Self {
        let per_second = rates.of(row);
        let over_bytes = intervals.map(|intervals| dense(&row.cells, intervals, |cell| cell.bytes));
        Self {
            name: row.name.clone(),
            detail: row.detail.clone(),
            sum: row.sum.into(),
            bits_per_s: per_second.map(|[bytes, _]| 8.0 * bytes),
            packets_per_s: per_second.map(|[_, packets]| packets),
            over_bytes: over_bytes.unwrap_or_default(),
        }
    }
}

/// A value of each interval from the first to the last one.
pub(super) fn dense(cells: &[Cell], [first, last]: [u64; 2], value: fn(&Cell) -> u64) -> Vec<u64> {
    let mut all = vec![0; (last.saturating_sub(first) + 1) as usize];
    for cell in cells {
        let place = cell.at.checked_sub(first).and_then(|at| all.get_mut(at as usize));
        if let Some(place) = place {
            *place = value(cell);
        }
    }
    all
}
