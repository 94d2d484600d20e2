//! Zeek's conn.log: its columns, and the state and history of a connection, derived from its flags.
//!
//! Zeek follows each connection packet by packet. A flow record has only the union of the flags of each side, so the
//! history has each letter at most once, in the usual order of a connection and not in that of the packets.

use super::cell::Cell;
use crate::export::value::{Scene, View};
use crate::record::{Direction, FlowRecord, InitiatorRule};
use quaff_wire::flow::mix;
use std::borrow::Cow;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Columns: name and type.
pub(crate) const COLUMNS: [(&str, &str); 22] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
    ("proto", "enum"),
    ("service", "string"),
    ("duration", "interval"),
    ("orig_bytes", "count"),
    ("resp_bytes", "count"),
    ("conn_state", "string"),
    ("local_orig", "bool"),
    ("local_resp", "bool"),
    ("missed_bytes", "count"),
    ("history", "string"),
    ("orig_pkts", "count"),
    ("orig_ip_bytes", "count"),
    ("resp_pkts", "count"),
    ("resp_ip_bytes", "count"),
    ("tunnel_parents", "set[string]"),
    ("ip_proto", "count"),
];

/// The first lines of a log.
pub(crate) fn header(opened: &str) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let types: Vec<&str> = COLUMNS.iter().map(|(_, kind)| *kind).collect();
    format!(
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#open\t{opened}\n\
         #fields\t{}\n#types\t{}\n",
        names.join("\t"),
        types.join("\t")
    )
}

/// The value of a column.
pub(crate) fn cell<'a>(name: &str, record: &'a FlowRecord, _scene: &Scene) -> Cell<'a> {
    let view = View::whole(record);
    let key = &record.key;
    let (first_ns, last_ns) = (record.first_ns(), record.last_ns());
    let payload = |is_reverse: bool| {
        let extras = record.extras.as_deref();
        let side = extras.map(|extras| if is_reverse { &extras.reverse } else { &extras.forward });
        side.map_or(Cell::Null, |side| Cell::Number(side.payload_bytes))
    };
    match name {
        "ts" => Cell::Seconds(first_ns, 6),
        "uid" => Cell::Text(uid(view.flow_id(), first_ns).into()),
        "id.orig_h" => Cell::Ip(key.source),
        "id.resp_h" => Cell::Ip(key.destination),
        // In Zeek the ICMP type is the originator's port, and the code the responder's.
        "id.orig_p" if view.is_icmp() => Cell::Number((key.icmp_type_code >> 8).into()),
        "id.resp_p" if view.is_icmp() => Cell::Number((key.icmp_type_code & 0xff).into()),
        "id.orig_p" => Cell::Number(key.source_port.into()),
        "id.resp_p" => Cell::Number(key.destination_port.into()),
        "proto" => Cell::Text(Cow::Borrowed(match key.protocol {
            6 => "tcp",
            17 => "udp",
            1 | 58 => "icmp",
            _ => "unknown_transport",
        })),
        "service" => {
            let application = record.extras.as_deref().and_then(|extras| extras.application.as_ref());
            application.map_or(Cell::Null, |application| Cell::Text(Cow::Borrowed(application.name)))
        }
        "duration" => Cell::Seconds(last_ns.saturating_sub(first_ns), 6),
        "orig_bytes" => payload(false),
        "resp_bytes" => payload(true),
        "conn_state" => Cell::Text(Cow::Borrowed(state(record))),
        "missed_bytes" => record
            .extras
            .as_deref()
            .map_or(Cell::Null, |extras| Cell::Number(extras.forward.lost_bytes + extras.reverse.lost_bytes)),
        "history" => match history(record) {
            history if history.is_empty() => Cell::Null,
            history => Cell::Text(history.into()),
        },
        "orig_pkts" => Cell::Number(record.forward.packets),
        "orig_ip_bytes" => Cell::Number(record.forward.bytes),
        "resp_pkts" => Cell::Number(record.reverse.packets),
        "resp_ip_bytes" => Cell::Number(record.reverse.bytes),
        "ip_proto" => Cell::Number(key.protocol.into()),
        _ => Cell::Null,
    }
}

/// A unique ID of the record: `C` and 64 bits in base 62.
fn uid(flow_id: u64, first_ns: u64) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut bits = mix(flow_id, first_ns);
    let mut uid = String::from("C");
    for _ in 0..11 {
        uid.push(char::from(LETTERS[(bits % 62) as usize]));
        bits /= 62;
    }
    uid
}

/// The state of a connection (Zeek, base/protocols/conn).
fn state(record: &FlowRecord) -> &'static str {
    let (orig, resp) = (&record.forward, &record.reverse);
    match record.key.protocol {
        6 => tcp_state(orig, resp),
        1 | 58 => "OTH",
        _ if orig.packets > 0 && resp.packets > 0 => "SF",
        _ if orig.packets > 0 => "S0",
        _ => "SHR",
    }
}

fn tcp_state(orig: &Direction, resp: &Direction) -> &'static str {
    let has = |direction: &Direction, flag: u8| direction.tcp_flags & flag != 0;
    let (orig_syn, resp_syn) = (has(orig, SYN), has(resp, SYN) && has(resp, ACK));
    let is_established = orig_syn && resp_syn;
    match (has(orig, RST), has(resp, RST), has(orig, FIN), has(resp, FIN)) {
        (true, _, _, _) if is_established => "RSTO",
        (_, true, _, _) if is_established => "RSTR",
        (true, _, _, _) if orig_syn && resp.packets == 0 => "RSTOS0",
        (_, true, _, _) if orig_syn => "REJ",
        (_, true, _, _) if resp_syn => "RSTRH",
        (_, _, true, true) if is_established => "SF",
        (_, _, true, false) if is_established => "S2",
        (_, _, false, true) if is_established => "S3",
        _ if is_established => "S1",
        (_, _, true, _) if orig_syn && resp.packets == 0 => "SH",
        (_, _, _, true) if resp_syn && orig.packets == 0 => "SHR",
        _ if orig_syn && resp.packets == 0 => "S0",
        _ => "OTH",
    }
}

/// The history of a connection: letters of the originator in upper case; `^` if the responder's packet was the first.
fn history(record: &FlowRecord) -> String {
    let mut history = String::new();
    if matches!(record.initiator, InitiatorRule::SynAck | InitiatorRule::Ports) {
        history.push('^');
    }
    let sides = [(&record.forward, true), (&record.reverse, false)];
    if record.key.protocol != 6 {
        let seen = sides.iter().filter(|(direction, _)| direction.packets > 0);
        history.extend(seen.map(|(_, is_orig)| if *is_orig { 'D' } else { 'd' }));
        return history;
    }
    let payload = |is_orig: bool| {
        let extras = record.extras.as_deref();
        extras.is_some_and(|extras| {
            let side = if is_orig { &extras.forward } else { &extras.reverse };
            side.payload_bytes > 0
        })
    };
    for letter in ['s', 'h', 'a', 'd', 'f', 'r'] {
        for (direction, is_orig) in sides {
            let (flags, has) = (direction.tcp_flags, |flag: u8| direction.tcp_flags & flag != 0);
            let is_seen = match letter {
                's' => has(SYN) && is_orig,
                'h' => has(SYN) && has(ACK) && !is_orig,
                'a' => has(ACK) && (is_orig || flags & SYN == 0),
                'd' => payload(is_orig),
                'f' => has(FIN),
                _ => has(RST),
            };
            if is_seen {
                history.push(if is_orig { letter.to_ascii_uppercase() } else { letter });
            }
        }
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::samples::record;

    fn with_flags(orig: u8, resp: u8) -> FlowRecord {
        let mut record = record(1);
        record.key.protocol = 6;
        record.initiator = InitiatorRule::Syn;
        record.forward.tcp_flags = orig;
        record.reverse = Direction { packets: u64::from(resp != 0), tcp_flags: resp, ..record.forward };
        record
    }

    /// States as Zeek's documentation of conn_state defines them.
    #[test]
    fn states_follow_from_the_flags() {
        for (orig, resp, expected) in [
            (SYN, 0, "S0"),
            (SYN | ACK, SYN | ACK, "S1"),
            (SYN | ACK | FIN, SYN | ACK | FIN, "SF"),
            (SYN, RST | ACK, "REJ"),
            (SYN | ACK | FIN, SYN | ACK, "S2"),
            (SYN | ACK, SYN | ACK | FIN, "S3"),
            (SYN | ACK | RST, SYN | ACK, "RSTO"),
            (SYN | ACK, SYN | ACK | RST, "RSTR"),
            (SYN | RST, 0, "RSTOS0"),
            (SYN | FIN, 0, "SH"),
            (ACK, ACK, "OTH"),
        ] {
            assert_eq!(state(&with_flags(orig, resp)), expected, "{orig:#x} {resp:#x}");
        }
    }

    #[test]
    fn the_history_names_what_each_side_sent() {
        let flags = SYN | ACK | FIN;
        assert_eq!(history(&with_flags(flags, flags)), "ShAFf");
        let mut midstream = with_flags(ACK, SYN | ACK);
        midstream.initiator = InitiatorRule::SynAck;
        assert_eq!(history(&midstream), "^hA");
    }

    #[test]
    fn pieces_of_a_flow_have_names_of_their_own() {
        assert_ne!(uid(1, 2), uid(1, 3));
        assert_eq!(uid(1, 2).len(), 12);
    }
}
