//! `quaff streams list`, `follow`, `quaff flows report` and `quaff info --traffic` say the same of a connection, also
//! if the capture lacks the answer to its SYN, one of its directions, or its begin.

use crate::capture::{ACK, Capture, FIN, RST, SERVER_ADDRESS, SYN};
use crate::support::{QUAFF, folder};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 53), 53);

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).output().expect("quaff runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(args: &[&str]) -> Value {
    let done = quaff(args);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// The rows of the list of a file, and what is on stderr.
fn listed(input: &str) -> (Vec<Value>, String) {
    let done = quaff(&["streams", "list", input, "--json"]);
    let rows = text(&done.stdout);
    let rows = rows.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (rows, text(&done.stderr))
}

/// Attempts to connect, one for each client's port from 40,001: without the SYN-ACK, with the client alone, with the
/// SYN alone, refused, and reset after the client has acknowledged an answer that is not there.
fn attempts() -> Capture {
    let mut capture = Capture::new();
    let syn = |capture: &mut Capture, port| {
        capture.client.1 = port;
        capture.client(SYN, [99, 0], b"");
    };
    syn(&mut capture, 40_001);
    capture.client(ACK, [100, 500], b"GET /");
    capture.server(ACK, [500, 105], b"hi");
    capture.client(FIN | ACK, [105, 502], b"");
    capture.server(FIN | ACK, [502, 106], b"");
    capture.client(ACK, [106, 503], b"");
    syn(&mut capture, 40_002);
    capture.client(ACK, [100, 500], b"");
    capture.client(ACK, [100, 500], b"upload");
    syn(&mut capture, 40_003);
    syn(&mut capture, 40_004);
    capture.server(RST | ACK, [0, 100], b"");
    syn(&mut capture, 40_005);
    capture.client(ACK, [100, 500], b"");
    capture.server(RST | ACK, [500, 100], b"");
    capture.time_us += 1_000_000;
    syn(&mut capture, 40_003);
    capture.time_us += 2_000_000;
    capture.datagram(true, RESOLVER, b"the last packet", 0);
    capture
}

#[test]
fn a_connection_whose_answer_is_not_in_the_capture_is_not_unanswered() {
    let dir = folder();
    let input = attempts().write(&dir);
    let (rows, said) = listed(&input);
    let ends = |row: &Value| (row["client_port"].as_u64(), row["opened"].clone(), row["ended"].clone());
    let of = |port: u64, ended: &str| (Some(port), Value::from("syn"), Value::from(ended));
    let expected = [
        of(40_001, "fin"),
        of(40_002, "one-way"),
        of(40_003, "unanswered"),
        of(40_004, "refused"),
        of(40_005, "reset"),
    ];
    assert_eq!(rows[..5].iter().map(ends).collect::<Vec<_>>(), expected);
    assert!(
        said.contains("1 direction whose SYN is missing") && !said.contains("before the capture"),
        "{said}"
    );
    let traffic = json(&["info", "--traffic", "--json", &input]);
    let tcp = &traffic["tcp"];
    let fates = ["attempts", "answered", "one_way", "refused", "unanswered", "undecided", "syn_acks_missing"];
    assert_eq!(fates.map(|name| tcp[name].as_u64()), [5, 1, 2, 1, 1, 0, 3].map(Some), "{tcp}");
    let fates = ["attempts", "answered", "one_way", "refused", "unanswered"];
    assert_eq!(fates.map(|name| tcp["servers"][0][name].as_u64()), [5, 1, 2, 1, 1].map(Some), "{tcp}");
    // No time from SYN to SYN-ACK is known.
    assert_eq!((&tcp["rtt_ns"]["count"], &tcp["servers"][0]["rtt_mean_ns"]), (&0.into(), &Value::Null));
    assert_eq!((&tcp["repeated_syns"], &traffic["failure"]), (&1.into(), &Value::Null));
    let page = text(&quaff(&["info", "--traffic", &input]).stdout);
    for words in ["5: 1 answered, 2 one way, 1 refused, 1 unanswered", "3 SYN-ACKs, as later packets show"] {
        assert!(page.contains(words), "{page}");
    }
}

/// Of a capture that has begun later, both sides are from before it.
#[test]
fn a_connection_from_before_the_capture_has_directions_that_began_there() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.client(ACK, [100, 500], b"GET /");
    capture.server(ACK, [500, 105], b"hi");
    let (rows, said) = listed(&capture.write(&dir));
    assert_eq!((&rows[0]["opened"], &rows[0]["ended"]), (&"middle".into(), &"open".into()));
    assert!(
        said.contains("2 directions began before the capture") && !said.contains("SYN is missing"),
        "{said}"
    );
}

#[test]
fn the_client_of_a_connection_from_before_the_capture_is_that_of_flows() {
    let dir = folder();
    let mut capture = Capture::new();
    for port in [40_001, 20_001] {
        capture.client.1 = port;
        capture.server(ACK, [500, 100], b"answer");
        capture.client(ACK, [100, 506], b"more");
    }
    capture.client.1 = 40_001;
    capture.datagram(false, RESOLVER, b"an answer", 0);
    capture.datagram(true, RESOLVER, b"a question", 0);
    let input = capture.write(&dir);
    let rows = listed(&input).0;
    let end = |row: &Value, of: &str| {
        format!("{}:{}", row[of].as_str().expect("an address"), row[format!("{of}_port")])
    };
    let named = |row: &Value| {
        let protocol = row["protocol"].as_str().expect("a protocol");
        format!("{protocol} {} → {}", end(row, "client"), end(row, "server"))
    };
    let (server, client) = (format!("{SERVER_ADDRESS}:80"), "10.0.0.1");
    let expected = [
        format!("tcp {client}:40001 → {server}"),
        // The port of the other side is none that hosts choose, so the first packet decides.
        format!("tcp {server} → {client}:20001"),
        format!("udp {client}:40001 → {}:53", RESOLVER.0),
    ];
    assert_eq!(rows.iter().map(named).collect::<Vec<_>>(), expected);
    let report = json(&["flows", "report", &input, "--by", "flow", "--json"]);
    let flows = report["by"][0]["rows"].as_array().expect("rows").iter().map(|row| row["name"].to_string());
    let flows: Vec<_> = flows.collect();
    for name in &expected {
        assert!(flows.iter().any(|flow| flow.contains(name)), "{name}: {flows:?}");
    }
    let followed = |id: &str, side: &str| {
        text(&quaff(&["streams", "follow", &input, id, "--raw", "-q", "--side", side]).stdout)
    };
    assert_eq!([followed("1", "client"), followed("1", "server")], ["more", "answer"]);
    assert_eq!([followed("2", "client"), followed("2", "server")], ["answer", "more"]);
    assert_eq!([followed("u1", "client"), followed("u1", "server")], ["a question", "an answer"]);
    // Files are named for the sender and the receiver, whoever the client is.
    let out = dir.path().join("out").display().to_string();
    let done = quaff(&["streams", "extract", &input, "--dir", &out, "-q"]);
    let file = format!("{out}/010.000.000.002.00080-010.000.000.001.40001");
    assert_eq!(std::fs::read(&file).expect("a file"), b"answer", "{done:?}");
    let index = std::fs::read_to_string(format!("{out}/index.jsonl")).expect("an index");
    let lines: Vec<Value> = index.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_first = lines.iter().find(|line| line["number"] == 1).expect("a line");
    assert_eq!((&of_first["client_port"], &of_first["server_port"]), (&40_001.into(), &80.into()));
}

#[test]
fn an_application_that_begins_with_a_greeting_is_known_to_the_list_and_to_flows() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.client.1 = 40_001;
    capture.connection_greeted(b"* OK IMAP4Rev1 ready\r\n", b"a1 CAPABILITY\r\n");
    let input = capture.write(&dir);
    assert_eq!(listed(&input).0[0]["application"], "imap");
    let report = json(&["flows", "report", &input, "--by", "application", "--json"]);
    assert_eq!(report["by"][0]["rows"][0]["name"], "imap", "{report}");
}

/// tshark counts 98 streams of a SYN alone outside of tunnels, and 112 in which the client alone continues.
#[test]
fn both_commands_count_the_same_connections_without_an_answer() {
    let mix = testing::captures().join("mix.pcap");
    // Made captures have one of this name too, and no teredo.pcap.
    if !testing::captures().join("protocols/teredo.pcap").is_file() {
        testing::skip(
            test_name!(),
            "there is no protocols/teredo.pcap in the captures; QUAFF_CAPTURES says where to look",
        );
        return;
    }
    let input = mix.to_str().expect("a path of text");
    let rows = listed(input).0;
    let ended = |words: &str| rows.iter().filter(|row| row["ended"] == words).count();
    let traffic = json(&["info", "--traffic", "--json", input]);
    let of = |name: &str| traffic["tcp"][name].as_u64().expect("a number") as usize;
    assert_eq!([ended("unanswered"), ended("one-way"), ended("refused")], [98, 112, 0]);
    assert_eq!([of("unanswered"), of("one_way"), of("refused"), of("undecided")], [98, 112, 0, 0]);
    assert_eq!([of("attempts"), of("answered"), of("syn_acks_missing")], [946, 736, 223]);
    let failing = traffic["tcp"]["servers"].as_array().expect("rows");
    let of_one_way = failing.iter().find(|row| row["server"] == "179.60.195.49:5222").expect("a server");
    assert_eq!((&of_one_way["one_way"], &of_one_way["unanswered"]), (&63.into(), &0.into()));
}
