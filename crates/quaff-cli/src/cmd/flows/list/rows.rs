//! One row of a list: the cells of a table, and JSON.

use crate::show::{self, name};
use quaff_file::moment;
use quaff_flow::record::{Application, FlowRecord};
use quaff_flow::summary::By;
use quaff_wire::flow::{Protocol, is_icmp};
use serde::Serialize;
use std::net::IpAddr;

/// Heading of a column, whether it holds numbers, and its rank: the highest is left out first where there is no room.
pub(super) const COLUMNS: [(&str, bool, usize); 10] = [
    ("start", false, 0),
    ("duration", true, 2),
    ("flow", false, 0),
    ("flags", false, 5),
    ("packets →", true, 6),
    ("packets ←", true, 7),
    ("bytes →", true, 1),
    ("bytes ←", true, 1),
    ("application", false, 3),
    ("server", false, 4),
];
/// The columns of names, which may be cut where there is no room.
pub(super) const NAMES: [&str; 2] = ["application", "server"];

/// The properties of a flow that the columns have.
pub(super) const SHOWN: [By; 8] = [
    By::Source,
    By::Destination,
    By::SourcePort,
    By::Port,
    By::Protocol,
    By::Flags,
    By::Application,
    By::Server,
];

/// A value that was not recorded.
const NOT_RECORDED: &str = "–";
/// Flags of TCP as nfdump prints them, the highest bit first.
const FLAGS: &str = "CEUAPRSF";
/// A space at which no line ends.
const NO_BREAK: &str = "\u{a0}";

/// The cells of a record without the properties `lacking`, by [`COLUMNS`].
pub(super) fn cells(record: &FlowRecord, lacking: &[By]) -> Vec<String> {
    let known = |by: By, text: String| if lacking.contains(&by) { NOT_RECORDED.to_owned() } else { text };
    let application = application(record);
    let server = application.and_then(|application| application.server_name.as_deref()).unwrap_or_default();
    let (forward, reverse) = (&record.forward, &record.reverse);
    vec![
        moment::text(record.first_ns(), 3).replace(['T', ' '], NO_BREAK),
        seconds(duration_ns(record)),
        ends(record, lacking).replace(' ', NO_BREAK),
        known(By::Flags, flags(forward.tcp_flags | reverse.tcp_flags)),
        show::count(forward.packets),
        show::count(reverse.packets),
        show::bytes(forward.bytes),
        show::bytes(reverse.bytes),
        known(By::Application, application.map_or_else(String::new, |found| name(found.name).into_owned())),
        known(By::Server, name(server).into_owned()),
    ]
}

fn application(record: &FlowRecord) -> Option<&Application> {
    record.extras.as_deref()?.application.as_ref()
}

fn duration_ns(record: &FlowRecord) -> u64 {
    record.last_ns().saturating_sub(record.first_ns())
}

/// Seconds to the ms: `7.098 s`.
fn seconds(ns: u64) -> String {
    format!("{}.{:03}{NO_BREAK}s", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

/// `...AP.SF`.
fn flags(flags: u8) -> String {
    let letter = |(at, letter): (usize, char)| if flags & (0x80 >> at) != 0 { letter } else { '.' };
    FLAGS.chars().enumerate().map(letter).collect()
}

/// Protocol and both ends; parts of them where the others were not recorded.
fn ends(record: &FlowRecord, lacking: &[By]) -> String {
    let key = &record.key;
    if !lacking.contains(&By::Flow) {
        return By::flow_name(key);
    }
    let known = |by: By, text: String| if lacking.contains(&by) { NOT_RECORDED.to_owned() } else { text };
    let port =
        |by: By, port: u16| if lacking.contains(&by) { String::new() } else { format!(" port {port}") };
    format!(
        "{} {}{} → {}{}",
        known(By::Protocol, Protocol(key.protocol).to_string()),
        known(By::Source, key.source.to_string()),
        port(By::SourcePort, key.source_port),
        known(By::Destination, key.destination.to_string()),
        port(By::Port, key.destination_port),
    )
}

/// A row as JSON. What was not recorded is null.
#[derive(Debug, Serialize)]
pub(super) struct RowJson<'a> {
    /// Times of the first and the last packet of both directions, ns since 1970.
    first_ns: u64,
    last_ns: u64,
    duration_ns: u64,
    protocol: Option<String>,
    source: Option<IpAddr>,
    source_port: Option<u16>,
    destination: Option<IpAddr>,
    destination_port: Option<u16>,
    /// Type and code of the source's messages of ICMP.
    icmp: Option<[u8; 2]>,
    vlan: Option<u16>,
    interface: Option<u16>,
    /// Flags of TCP in packets of the source and of the destination.
    sent_flags: Option<u8>,
    received_flags: Option<u8>,
    sent_packets: u64,
    sent_bytes: u64,
    received_packets: u64,
    received_bytes: u64,
    application: Option<&'a str>,
    server: Option<&'a str>,
    /// The record follows another one of the same flow.
    continued: Option<bool>,
}

impl<'a> RowJson<'a> {
    pub(super) fn new(record: &'a FlowRecord, lacking: &[By]) -> Self {
        let (key, application) = (&record.key, application(record));
        let has = |by: By| !lacking.contains(&by);
        let name = application.map(|found| found.name).filter(|name| !name.is_empty());
        let [kind, code] = key.icmp_type_code.to_be_bytes();
        Self {
            first_ns: record.first_ns(),
            last_ns: record.last_ns(),
            duration_ns: duration_ns(record),
            protocol: has(By::Protocol).then(|| Protocol(key.protocol).to_string()),
            source: has(By::Source).then_some(key.source),
            source_port: has(By::SourcePort).then_some(key.source_port),
            destination: has(By::Destination).then_some(key.destination),
            destination_port: has(By::Port).then_some(key.destination_port),
            icmp: (has(By::Icmp) && is_icmp(key.protocol)).then_some([kind, code]),
            vlan: has(By::Vlan).then_some(key.vlan),
            interface: has(By::Interface).then_some(key.interface),
            sent_flags: has(By::Flags).then_some(record.forward.tcp_flags),
            received_flags: has(By::Flags).then_some(record.reverse.tcp_flags),
            sent_packets: record.forward.packets,
            sent_bytes: record.forward.bytes,
            received_packets: record.reverse.packets,
            received_bytes: record.reverse.bytes,
            application: name,
            server: application.and_then(|found| found.server_name.as_deref()),
            continued: has(By::Continued).then_some(record.is_continued),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use quaff_flow::record::{Direction, EndReason, Extras, InitiatorRule, RecordKey};

    /// A record of TCP with `n` packets, which ends at 2 ms.
    pub(in crate::cmd::flows::list) fn record(n: u64) -> FlowRecord {
        let key = RecordKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            source_port: 4711,
            destination_port: 80,
            protocol: 6,
            icmp_type_code: 0,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 3,
            tos: 0,
            tunnel: 0,
        };
        let forward = Direction {
            packets: n,
            bytes: 2048,
            first_ns: 500_000,
            last_ns: 2_000_000,
            tcp_flags: 0b0001_0010,
            ..Direction::default()
        };
        FlowRecord {
            key,
            forward,
            reverse: Direction::default(),
            initiator: InitiatorRule::Syn,
            end_reason: EndReason::Idle,
            is_continued: false,
            extras: None,
        }
    }

    #[test]
    fn a_row_has_the_flags_of_nfdump_and_times_to_the_ms() {
        let mut record = record(1234);
        record.forward.last_ns = 7_098_700_000;
        let server_name = Some("a.example\u{1b}[2J".to_owned());
        let application = Some(Application { protocol: "tls", name: "tls", server_name, alpn: None });
        record.extras = Some(Box::new(Extras { application, ..Extras::default() }));
        let start = moment::text(500_000, 3).replace('T', NO_BREAK);
        let expected = [
            start.as_str(),
            "7.098\u{a0}s",
            "tcp\u{a0}10.0.0.1:4711\u{a0}→\u{a0}10.0.0.2:80",
            "...A..S.",
            "1,234",
            "0",
            "2.00 KiB",
            "0 B",
            "tls",
            "a.example\u{fffd}[2J",
        ];
        assert_eq!(cells(&record, &[]), expected);
        assert_eq!(expected.len(), COLUMNS.len());
        assert_eq!([flags(0xff), flags(0)], ["CEUAPRSF", "........"]);
    }

    #[test]
    fn a_property_that_was_not_recorded_is_no_value() {
        let lacking = [By::Flow, By::Source, By::SourcePort, By::Flags, By::Application, By::Server];
        let cells = cells(&record(1), &lacking);
        assert_eq!(cells[2].replace(NO_BREAK, " "), "tcp – → 10.0.0.2 port 80");
        assert_eq!([&cells[3], &cells[8], &cells[9]], ["–"; 3]);
        let of = |lacking: &[By]| serde_json::to_value(RowJson::new(&record(1), lacking)).expect("JSON");
        let (none, all) = (of(&lacking), of(&[]));
        assert!(none["source"].is_null() && none["sent_flags"].is_null(), "{none}");
        assert_eq!((&all["source"], &all["sent_flags"]), (&"10.0.0.1".into(), &0x12.into()));
        assert_eq!((&all["duration_ns"], &all["icmp"]), (&1_500_000.into(), &serde_json::Value::Null));
    }
}
