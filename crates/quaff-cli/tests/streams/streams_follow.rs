//! `quaff streams follow` counts and prints the one connection alone, and the list has the same client and no host that
//! is in no packet.

use crate::capture::{ACK, Capture, FIN, RST, SERVER_ADDRESS, SYN};
use crate::support::{QUAFF, folder};
use quaff_testpackets as build;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::process::{Command, Output};

const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 53), 53);
const ENDS: &str = "10.0.0.1:4711 10.0.0.2:80";

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("streams").args(args).output().expect("quaff runs")
}

/// The exit status and the text of `follow INPUT WORDS`.
fn followed(input: &str, words: &[&str]) -> (Option<i32>, String) {
    let done = quaff(&[&["follow", input, "--raw", "-q"], words].concat());
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
}

fn rows(input: &str) -> Vec<Value> {
    let done = quaff(&["list", input, "--json", "-q"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn two_ends_without_a_protocol_are_those_of_tcp() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.datagram(true, (SERVER_ADDRESS, 80), b"a datagram", 0);
    capture.connection(100, b"the first", b"");
    capture.datagram(false, (SERVER_ADDRESS, 80), b"another", 0);
    capture.connection(70_000, b"the second", b"");
    let input = capture.write(&dir);
    assert_eq!(followed(&input, &[ENDS]), (Some(0), "the first".into()));
    assert_eq!(followed(&input, &["tcp", ENDS]), (Some(0), "the first".into()));
    assert_eq!(followed(&input, &[ENDS, "--nth", "2"]), (Some(0), "the second".into()));
    assert_eq!(followed(&input, &[ENDS, "--nth", "3"]).0, Some(2));
    assert_eq!(followed(&input, &["udp", ENDS]), (Some(0), "a datagramanother".into()));
    // The first one has no row in the file: what there is instead, and how to read it.
    let mut capture = Capture::new();
    capture.datagram(true, (SERVER_ADDRESS, 80), b"a datagram", 0);
    let input = capture.write(&dir);
    let done = quaff(&["follow", &input, ENDS]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("no TCP connection"), "{said}");
    assert!(said.contains("but 1 UDP conversation: write 'udp 10.0.0.1:4711 10.0.0.2:80'"), "{said}");
}

#[test]
fn the_exit_status_is_about_the_connection_that_is_printed() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection_with_gap();
    capture.close_connection_with_gap();
    capture.connection(70_000, b"whole", b"");
    let input = capture.write(&dir);
    assert_eq!(followed(&input, &[ENDS]), (Some(1), "first\nthird\n".into()));
    assert_eq!(followed(&input, &[ENDS, "--nth", "2"]), (Some(0), "whole".into()));
    assert_eq!(followed(&input, &["2"]), (Some(0), "whole".into()));
    // UDP: the headers of the second conversation are cut once, and others lack a fragment.
    let mut capture = Capture::new();
    capture.datagram(true, RESOLVER, b"one", 0);
    capture.client.1 = 4712;
    capture.datagram(true, RESOLVER, b"two", 0);
    capture.datagram(true, RESOLVER, b"two", 6);
    let other = Ipv4Addr::new(10, 0, 0, 3);
    let ip = build::ipv4(other, RESOLVER.0, 17, &[], &build::udp(9, 53, &[b'x'; 40]));
    let frame = build::ethernet(&[], 0x0800, &build::ipv4_fragments(&ip, 16)[0]);
    capture.frame(&frame, frame.len());
    let input = capture.write(&dir);
    assert_eq!(followed(&input, &["u1"]), (Some(0), "one".into()));
    assert_eq!(followed(&input, &["u2"]), (Some(1), "two".into()));
    assert_eq!(followed(&input, &["udp 10.0.0.1:4711 10.0.0.53:53"]), (Some(0), "one".into()));
    assert_eq!(followed(&input, &["udp 10.0.0.1:4712 10.0.0.53:53"]), (Some(1), "two".into()));
    // The list is about all of them.
    assert_eq!(quaff(&["list", &input, "-q"]).status.code(), Some(1));
}

#[test]
fn a_row_and_what_is_printed_have_the_same_client() {
    let dir = folder();
    let mut capture = Capture::new();
    let request = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
    let end = 100 + request.len() as u32;
    // The first packet of the file is the server's.
    capture.server(ACK, [5000, 77], b"");
    capture.client(SYN, [99, 0], b"");
    capture.server(SYN | ACK, [299, 100], b"");
    capture.client(ACK, [100, 300], request);
    capture.server(ACK, [300, end], b"HTTP/1.1 200 OK\r\n\r\n");
    capture.client(FIN | ACK, [end, 319], b"");
    let input = capture.write(&dir);
    let row = &rows(&input)[0];
    assert_eq!(
        (&row["client_port"], &row["application"], &row["host"]),
        (&4711.into(), &"http".into(), &"b.example".into())
    );
    for (side, name) in [("client", "from_client"), ("server", "from_server")] {
        let (_, printed) = followed(&input, &["1", "--side", side]);
        assert_eq!(row[name]["bytes"], printed.len(), "{side}: {printed}");
    }
    assert_eq!(followed(&input, &["1", "--side", "client"]).1.as_bytes(), request);
}

#[test]
fn a_host_across_a_gap_is_not_shown() {
    let dir = folder();
    let mut capture = Capture::new();
    let (first, second) = (b"GET / HTTP/1.1\r\nX-Body: ", b"\r\nHost: invented\r\n\r\n");
    let gap_end = 100 + first.len() as u32 + 10;
    capture.client(SYN, [99, 0], b"");
    capture.server(SYN | ACK, [99, 100], b"");
    capture.client(ACK, [100, 100], first);
    capture.client(ACK, [gap_end, 100], second);
    capture.server(ACK, [100, gap_end + second.len() as u32], b"");
    let row = &rows(&capture.write(&dir))[0];
    assert_eq!((&row["application"], &row["host"]), (&"http".into(), &Value::Null));
    assert_eq!(row["from_client"]["gap_bytes"], 10);
}

#[test]
fn a_connection_is_refused_by_its_server_only() {
    let ended = |is_client: bool| {
        let (dir, mut capture) = (folder(), Capture::new());
        capture.client(SYN, [99, 0], b"");
        match is_client {
            true => capture.client(RST, [100, 0], b""),
            false => capture.server(RST | ACK, [0, 100], b""),
        }
        rows(&capture.write(&dir))[0]["ended"].clone()
    };
    assert_eq!((ended(false), ended(true)), ("refused".into(), "reset".into()));
}
