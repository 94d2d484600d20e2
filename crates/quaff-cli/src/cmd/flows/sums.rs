//! Rows of a summary for people and for programs: columns of a table, and JSON. It sums nothing.

use crate::show;
use crate::terminal_table::{self, Columns, room};
use crate::units::Choice;
use quaff_bench::report;
use quaff_flow::summary::{By, Cell, Order, Ranked, Row, Sum};
use serde::Serialize;

/// Columns of a terminal on which the ends of a flow have room in one line.
const UNBROKEN_COLUMNS: u16 = 100;

/// Properties by which flows are summed, by their names in arguments and JSON: the views of `quaff flows top`.
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

/// The other properties of `--by` of `quaff flows report`.
const COLUMNS: [Choice<By>; 13] = [
    ("source-port", By::SourcePort, ""),
    ("version", By::Version, ""),
    ("tos", By::Tos, ""),
    ("flags", By::Flags, ""),
    ("icmp", By::Icmp, ""),
    ("interface", By::Interface, ""),
    ("inner-vlan", By::InnerVlan, ""),
    ("mpls", By::Mpls, ""),
    ("tunnel", By::Tunnel, ""),
    ("end", By::End, ""),
    ("rule", By::Rule, ""),
    ("alpn", By::Alpn, ""),
    ("continued", By::Continued, ""),
];

/// All properties that are no combination.
fn properties() -> impl Iterator<Item = Choice<By>> {
    BY.into_iter().chain(COLUMNS)
}

/// A property, or several with `+` between them.
pub(super) fn property(text: &str) -> Result<By, String> {
    let known = |name: &str| {
        if let Some((end, bits)) = name.split_once('/') {
            return net(end, bits)
                .ok_or_else(|| format!("'{name}' is no net: write source/24 or destination/64"));
        }
        // The port of a flow is that of its destination.
        let name = if name == "destination-port" { "port" } else { name };
        let found = properties().find(|(known, ..)| *known == name).map(|(_, by, _)| by);
        let names = || properties().map(|(name, ..)| name).collect::<Vec<_>>().join(", ");
        found.ok_or_else(|| format!("'{name}' is none of {}; several together as in source+port", names()))
    };
    let all = text.split('+').map(known).collect::<Result<Vec<_>, _>>()?;
    let is_twice = all.iter().enumerate().any(|(at, by)| all[..at].contains(by));
    match all[..] {
        [one] if !one.is_net() => Ok(one),
        _ if is_twice => Err(format!("'{text}' has a property twice")),
        _ => By::several(text, all).ok_or_else(|| {
            "flow and host are of both ends of a flow and go with nothing else: write source or destination".to_owned()
        }),
    }
}

/// The addresses of an end that begin with the same bits.
fn net(end: &str, bits: &str) -> Option<By> {
    let bits = bits.parse::<u8>().ok().filter(|bits| (1..=128).contains(bits))?;
    match end {
        "source" => Some(By::SourceNet(bits)),
        "destination" => Some(By::DestinationNet(bits)),
        _ => None,
    }
}

/// The fields of -T that record a property.
pub(super) fn fields_of(by: By) -> &'static str {
    match by {
        By::Source | By::SourceNet(_) => "%sourceIPv4Address",
        By::Destination | By::DestinationNet(_) => "%destinationIPv4Address",
        By::Host | By::Version => "%sourceIPv4Address %destinationIPv4Address",
        By::Port => "%destinationTransportPort %protocolIdentifier",
        By::SourcePort => "%sourceTransportPort %protocolIdentifier",
        By::Flow => {
            "%sourceIPv4Address %destinationIPv4Address %sourceTransportPort %destinationTransportPort \
             %protocolIdentifier"
        }
        By::Application => "%applicationName",
        By::Server => "%quaffServerName",
        By::Alpn => "%quaffApplicationProtocols",
        By::Protocol => "%protocolIdentifier",
        By::Vlan => "%vlanId",
        By::InnerVlan => "%dot1qCustomerVlanId",
        By::Tos => "%ipClassOfService",
        By::Flags => "%tcpControlBits %reverseTcpControlBits",
        By::Icmp => "%icmpTypeCodeIPv4",
        By::Interface => "%ingressInterface",
        By::Mpls => "%mplsTopLabelStackSection",
        By::Tunnel => "%quaffTunnelId",
        By::End => "%flowEndReason",
        By::Rule => "%quaffInitiatorRule",
        By::Continued => "%quaffIsContinued",
        By::Several(_) => "",
    }
}

/// The command that records properties.
pub(super) fn recorded_by(lacking: &[By]) -> String {
    let is_of_application = |by: &By| matches!(by, By::Application | By::Server | By::Alpn);
    let fields: Vec<_> =
        lacking.iter().filter(|by| !is_of_application(by)).map(|by| fields_of(*by)).collect();
    let mut options = Vec::new();
    if lacking.iter().any(is_of_application) {
        options.push("--applications".to_owned());
    }
    if !fields.is_empty() {
        options.push(format!("-T '… {}'", fields.join(" ")));
    }
    format!("quaff flows {}", options.join(" "))
}

/// Orders of rows, by their names in arguments.
pub(super) const ORDERS: [Choice<Order>; 11] = [
    ("rate", Order::Rate, ""),
    ("2s", Order::Mean2s, ""),
    ("10s", Order::Mean10s, ""),
    ("40s", Order::Mean40s, ""),
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
    properties().find(|(_, known, _)| *known == by).map_or("", |(name, ..)| name)
}

/// The rows of a property together, as a heading.
pub(super) fn heading(by: By) -> &'static str {
    match by {
        By::Flow => "Flows",
        By::Host => "Hosts",
        By::Source | By::SourceNet(_) => "Sources",
        By::Destination | By::DestinationNet(_) => "Destinations",
        By::Port => "Ports",
        By::Application => "Applications",
        By::Server => "Servers",
        By::Protocol => "Protocols",
        By::Vlan => "VLANs",
        By::SourcePort => "Source ports",
        By::Version => "IP versions",
        By::Tos => "Types of service",
        By::Flags => "Flags",
        By::Icmp => "Types of ICMP",
        By::Interface => "Interfaces",
        By::InnerVlan => "Inner VLANs",
        By::Mpls => "MPLS labels",
        By::Tunnel => "Tunnels",
        By::End => "Ends",
        By::Rule => "Rules",
        By::Alpn => "ALPN",
        By::Continued => "Continued records",
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
    /// The same, but for a flow over its own time.
    MeanOfFlows(f64),
}

impl Rates {
    /// Bytes and packets per second of a row.
    pub(super) fn of(self, row: &Row) -> Option<[f64; 2]> {
        let (counts, seconds) = match self {
            Self::Interval(seconds) => ([row.cell.bytes, row.cell.packets], seconds),
            Self::Mean(seconds) => ([row.sum.bytes, row.sum.packets], seconds),
            Self::MeanOfFlows(seconds) => {
                let own =
                    row.span_ns.map(|[first_ns, last_ns]| last_ns.saturating_sub(first_ns) as f64 / 1e9);
                ([row.sum.bytes, row.sum.packets], own.unwrap_or(seconds))
            }
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

    /// The column of a table by `by`. The ends of a flow stay whole, and combinations, which may have addresses.
    pub(super) fn of_table(&self, by: By) -> report::Column {
        let has_addresses = matches!(by, By::Flow | By::Several(_)) && self.order == Some(Order::Name);
        report::Column {
            may_be_cut: !self.is_number() && !has_addresses,
            ..terminal_table::column(self.head, self.is_number(), self.rank)
        }
    }
}

/// The columns of a property. The first one is the name.
pub(super) fn columns(by: By) -> Vec<Column> {
    let number = |head, rank, order, cell| Column { head, rank, order: Some(order), cell };
    let mut all = vec![
        number(by_name(by), 0, Order::Name, |row, _| row.shown_name().to_owned()),
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

/// The columns of a property in top: with the means of the last seconds. The one that rows are sorted by is never
/// omitted.
pub(super) fn columns_of_top(by: By, order: Order) -> Vec<Column> {
    let mean = |head, rank, order, cell| Column { head, rank, order: Some(order), cell };
    let means = [
        mean("2s", 3, Order::Mean2s, |row, _| mean_words(row, 0)),
        mean("10s", 1, Order::Mean10s, |row, _| mean_words(row, 1)),
        mean("40s", 2, Order::Mean40s, |row, _| mean_words(row, 2)),
    ];
    let mut all = columns(by);
    // The others but for name and rate are omitted before them.
    let others = all.iter_mut().filter(|column| column.rank > 0);
    others.for_each(|column| column.rank += means.len());
    drop(all.splice(2..2, means));
    let sorted = all.iter_mut().filter(|column| column.order == Some(order));
    sorted.for_each(|column| column.rank = 0);
    all
}

/// A mean of the last seconds, or a dash.
fn mean_words(row: &Row, at: usize) -> String {
    row.means.map_or_else(|| "–".to_owned(), |means| show::bits(means[at] as f64))
}

/// Bits or packets per second, or a dash.
fn rate_words(row: &Row, rates: Rates, at: usize) -> String {
    match (rates.of(row), at) {
        (None, _) => "–".to_owned(),
        (Some([bytes, _]), 0) => show::bits(8.0 * bytes),
        (Some([_, packets]), _) => show::pps(packets),
    }
}

/// The name of a row with spaces at which no line ends, unless it has to fit a narrow terminal: other columns are
/// omitted first.
pub(super) fn together(name: &str, columns: Columns) -> String {
    let is_narrow = columns != Columns::All && room().is_some_and(|room| room < UNBROKEN_COLUMNS);
    if is_narrow { name.to_owned() } else { name.replace(' ', "\u{a0}") }
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
    /// Groups after the last row and those that had no place, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<RowJson>,
    /// Properties that some of the records do not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_recorded: Vec<&'static str>,
    lacking_bytes_max: u64,
}

/// A row as JSON.
#[derive(Debug, Serialize)]
struct RowJson {
    name: String,
    /// With names of hosts and services.
    #[serde(skip_serializing_if = "String::is_empty")]
    named: String,
    /// The name of each property of a combination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    /// Times of the first and the last packet of a flow, ns since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ns: Option<u64>,
    #[serde(flatten)]
    sum: SumJson,
    bits_per_s: Option<f64>,
    packets_per_s: Option<f64>,
    /// Means of the last seconds, of top only.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_2s_bits_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_10s_bits_per_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_40s_bits_per_s: Option<u64>,
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
            rest: ranked.rest.as_ref().map(row),
            not_recorded: ranked.not_recorded.iter().map(|by| by_name(*by)).collect(),
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
            named: row.named.clone(),
            names: row.parts.clone(),
            detail: row.detail.clone(),
            first_ns: row.span_ns.map(|[first_ns, _]| first_ns),
            last_ns: row.span_ns.map(|[_, last_ns]| last_ns),
            sum: row.sum.into(),
            bits_per_s: per_second.map(|[bytes, _]| 8.0 * bytes),
            packets_per_s: per_second.map(|[_, packets]| packets),
            mean_2s_bits_per_s: row.means.map(|[mean, ..]| mean),
            mean_10s_bits_per_s: row.means.map(|[_, mean, _]| mean),
            mean_40s_bits_per_s: row.means.map(|[.., mean]| mean),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_a_name_and_one_only() {
        for by in By::SINGLE {
            assert_eq!(property(by_name(by)), Ok(by));
            assert!(!heading(by).is_empty() && !fields_of(by).is_empty());
            let fields = fields_of(by);
            assert!(quaff_flow::export::Template::parse(fields).is_ok(), "{fields}");
        }
        let names: std::collections::BTreeSet<_> = properties().map(|(name, ..)| name).collect();
        assert_eq!((names.len(), properties().count()), (By::SINGLE.len(), By::SINGLE.len()));
    }

    #[test]
    fn the_rate_of_a_flow_is_over_its_own_time() {
        let sum = Sum { bytes: 1000, packets: 10, ..Sum::default() };
        let row = |span_ns| Row { sum, span_ns, ..Row::default() };
        let second = Some([7_000_000_000, 8_000_000_000]);
        assert_eq!(Rates::MeanOfFlows(100.0).of(&row(second)), Some([1000.0, 10.0]));
        assert_eq!(Rates::MeanOfFlows(100.0).of(&row(None)), Some([10.0, 0.1]));
        assert_eq!(Rates::MeanOfFlows(100.0).of(&row(Some([7, 7]))), None);
        assert_eq!(Rates::Mean(100.0).of(&row(second)), Some([10.0, 0.1]));
    }

    #[test]
    fn several_properties_have_their_own_name_and_mistakes_are_named() {
        let both = property("source+port").unwrap();
        assert_eq!((by_name(both), heading(both), both.has(By::Port)), ("source+port", "source+port", true));
        let net = property("destination/24").unwrap();
        assert_eq!((by_name(net), net.parts()), ("destination/24", &[By::DestinationNet(24)][..]));
        assert!(property("source/64+port").is_ok_and(|by| by.has(By::SourceNet(64)) && by.has(By::Port)));
        for (text, words) in [
            ("host/24", "is no net: write source/24"),
            ("source/0", "is no net: write source/24"),
            ("source/129", "is no net: write source/24"),
            ("source/24+source/24", "has a property twice"),
            ("sorce", "'sorce' is none of flow, host, source, destination, port,"),
            ("source+", "'' is none of"),
            ("source+host", "write source or destination"),
            ("port+port", "has a property twice"),
        ] {
            let error = property(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_property_that_was_not_recorded_has_the_options_that_record_it() {
        let words = recorded_by(&[By::Application, By::Server, By::Vlan]);
        assert_eq!(words, "quaff flows --applications -T '… %vlanId'");
        assert_eq!(recorded_by(&[By::Tos]), "quaff flows -T '… %ipClassOfService'");
    }
}
