//! Columns by the Elastic Common Schema (field sets event, source, destination, network, tls, observer).

use super::cell::Cell;
use super::community::community_id;
use crate::export::value::{Scene, input_index};
use crate::record::{Application, EndReason, FlowRecord};
use std::borrow::Cow;

/// The version of the schema.
const VERSION: &str = "8.11.0";

/// The columns, in this order.
pub(crate) const COLUMNS: [&str; 33] = [
    "@timestamp",
    "ecs.version",
    "event.kind",
    "event.category",
    "event.type",
    "event.action",
    "event.start",
    "event.end",
    "event.duration",
    "event.reason",
    "source.ip",
    "source.port",
    "source.bytes",
    "source.packets",
    "source.mac",
    "destination.ip",
    "destination.port",
    "destination.bytes",
    "destination.packets",
    "destination.mac",
    "network.type",
    "network.transport",
    "network.iana_number",
    "network.protocol",
    "network.bytes",
    "network.packets",
    "network.community_id",
    "network.vlan.id",
    "network.inner.vlan.id",
    "observer.ingress.interface.id",
    "observer.ingress.interface.name",
    "tls.client.server_name",
    "tls.next_protocol",
];

/// The value of a column.
pub(crate) fn cell<'a>(name: &str, record: &'a FlowRecord, scene: &'a Scene) -> Cell<'a> {
    let text = |text: &'static str| Cell::Text(Cow::Borrowed(text));
    let (first_ns, last_ns) = (record.first_ns(), record.last_ns());
    match name {
        "@timestamp" | "event.end" => Cell::Iso(last_ns, 9),
        "event.start" => Cell::Iso(first_ns, 9),
        "event.duration" => Cell::Number(last_ns.saturating_sub(first_ns)),
        "event.kind" => text("event"),
        "ecs.version" => text(VERSION),
        "event.category" => Cell::List("network"),
        // The end of a conversation: its last packet was seen, or its time was over.
        "event.type" => Cell::List("connection"),
        "event.action" => text("network_flow"),
        "event.reason" => text(match record.end_reason {
            EndReason::Idle => "idle timeout",
            EndReason::Active => "active timeout",
            EndReason::EndOfFlow => "end of flow",
            EndReason::Forced => "forced end",
            EndReason::LackOfResources => "lack of resources",
        }),
        name if name.starts_with("source.") => end(&name[7..], record, false),
        name if name.starts_with("destination.") => end(&name[12..], record, true),
        _ => network(name, record, scene),
    }
}

fn end<'a>(name: &str, record: &'a FlowRecord, is_destination: bool) -> Cell<'a> {
    let key = &record.key;
    let (address, port, direction) = if is_destination {
        (key.destination, key.destination_port, &record.reverse)
    } else {
        (key.source, key.source_port, &record.forward)
    };
    match name {
        "ip" => Cell::Ip(address),
        "port" if matches!(key.protocol, 6 | 17 | 132) => Cell::Number(port.into()),
        "bytes" => Cell::Number(direction.bytes),
        "packets" => Cell::Number(direction.packets),
        "mac" => record.extras.as_deref().map_or(Cell::Null, |extras| {
            let macs = extras.forward.macs;
            let mac = macs[usize::from(is_destination)];
            // Groups of two upper-case digits with hyphens (RFC 7042, 2.1).
            let group = |byte: &u8| format!("{byte:02X}");
            let text = || mac.iter().map(group).collect::<Vec<_>>().join("-");
            if mac == [0; 6] { Cell::Null } else { Cell::Text(text().into()) }
        }),
        _ => Cell::Null,
    }
}

fn network<'a>(name: &str, record: &'a FlowRecord, scene: &'a Scene) -> Cell<'a> {
    let key = &record.key;
    let application = record.extras.as_deref().and_then(|extras| extras.application.as_ref());
    match name {
        "network.type" => Cell::Text(Cow::Borrowed(if key.ip_version() == 6 { "ipv6" } else { "ipv4" })),
        "network.transport" => match key.protocol {
            1 => Cell::Text(Cow::Borrowed("icmp")),
            6 => Cell::Text(Cow::Borrowed("tcp")),
            17 => Cell::Text(Cow::Borrowed("udp")),
            47 => Cell::Text(Cow::Borrowed("gre")),
            58 => Cell::Text(Cow::Borrowed("ipv6-icmp")),
            132 => Cell::Text(Cow::Borrowed("sctp")),
            _ => Cell::Null,
        },
        // A keyword in the schema, so the number is a text.
        "network.iana_number" => Cell::Text(key.protocol.to_string().into()),
        "network.protocol" => application.map_or(Cell::Null, |app| Cell::Text(Cow::Borrowed(app.name))),
        "network.bytes" => Cell::Number(record.bytes()),
        "network.packets" => Cell::Number(record.packets()),
        "network.community_id" => Cell::Text(community_id(key).into()),
        "network.vlan.id" if key.vlan != 0 => Cell::Text(key.vlan.to_string().into()),
        "network.inner.vlan.id" if key.inner_vlan != 0 => Cell::Text(key.inner_vlan.to_string().into()),
        "observer.ingress.interface.id" => Cell::Text(input_index(key.interface, scene).to_string().into()),
        "observer.ingress.interface.name" => {
            let interface = scene.interfaces.get(usize::from(key.interface));
            interface.map_or(Cell::Null, |interface| Cell::Text(Cow::Borrowed(&interface.name)))
        }
        "tls.client.server_name" => tls(application, |application| application.server_name.as_deref()),
        // The server's choice is encrypted; it is known if the client offers only one protocol.
        "tls.next_protocol" => {
            tls(application, |application| application.alpn.as_deref().filter(|ids| !ids.contains(',')))
        }
        _ => Cell::Null,
    }
}

fn tls<'a>(
    application: Option<&'a Application>,
    of: impl Fn(&'a Application) -> Option<&'a str>,
) -> Cell<'a> {
    let found = application.filter(|application| matches!(application.protocol, "tls" | "quic"));
    found.and_then(of).map_or(Cell::Null, |text| Cell::Text(Cow::Borrowed(text)))
}
