//! `quaff streams list`, and `follow` by what it and other commands print: a number, two ends in any words, UDP.

use crate::capture::{ACK, Capture, RST, SERVER_ADDRESS, SYN};
use crate::support::{QUAFF, folder};
use quaff_testpackets as build;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use tempfile::TempDir;

const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 53);

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("streams").args(args).output().expect("quaff runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(done: &Output) -> Vec<Value> {
    text(&done.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn datagram(capture: &mut Capture, is_client: bool, payload: &[u8], cut: usize) {
    capture.datagram(is_client, (RESOLVER, 53), payload, cut);
}

/// A question of DNS for `a.example`.
const QUESTION: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";

/// HTTP, DNS, a refused connection, one that is not answered, and one with a gap.
fn capture() -> Capture {
    let mut capture = Capture::new();
    capture.connection(100, REQUEST, b"HTTP/1.1 200 OK\r\n\r\nhi");
    datagram(&mut capture, true, QUESTION, 0);
    datagram(&mut capture, false, b"answer", 0);
    capture.client.1 = 4712;
    capture.client(SYN, [99, 0], b"");
    capture.server(RST | ACK, [0, 100], b"");
    capture.client.1 = 4713;
    capture.client(SYN, [99, 0], b"");
    capture.client.1 = 4714;
    capture.connection_with_gap();
    datagram(&mut capture, true, b"cut short", 5);
    capture
}

fn made(dir: &TempDir) -> String {
    capture().write(dir)
}

#[test]
fn each_connection_has_a_row_in_the_order_of_first_packets() {
    let dir = folder();
    let done = quaff(&["list", &made(&dir), "--json", "-q"]);
    let rows = lines(&done);
    let words = |row: &Value| {
        let word = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {}:{} {} {} {} {} {}",
            word("id"),
            word("protocol"),
            word("client"),
            row["client_port"],
            row["server_port"],
            word("application"),
            word("host"),
            word("opened"),
            word("ended")
        )
    };
    let expected = [
        "1 tcp 10.0.0.1:4711 80 http b.example handshake fin",
        "u1 udp 10.0.0.1:4711 53 dns a.example - open",
        "2 tcp 10.0.0.1:4712 80 - - syn refused",
        "3 tcp 10.0.0.1:4713 80 - - syn unanswered",
        "4 tcp 10.0.0.1:4714 80 - - handshake open",
        "u2 udp 10.0.0.1:4714 53 - - - open",
    ];
    assert_eq!(rows.iter().map(words).collect::<Vec<_>>(), expected);
    let side = |row: usize, name: &str| rows[row][name].clone();
    let expected =
        json!({ "bytes": REQUEST.len(), "datagrams": null, "gaps": 0, "gap_bytes": 0, "end": "fin" });
    assert_eq!(side(0, "from_client"), expected);
    assert_eq!((&rows[0]["first_ns"], &rows[0]["last_ns"]), (&1_000_000_000.into(), &1_006_000_000.into()));
    let expected = json!({ "bytes": 6, "datagrams": 1, "gaps": 0, "gap_bytes": 0, "end": null });
    assert_eq!(side(1, "from_server"), expected);
    let expected = json!({ "bytes": 12, "datagrams": null, "gaps": 1, "gap_bytes": 10, "end": "open" });
    assert_eq!(side(4, "from_client"), expected);
    let expected = json!({ "bytes": 4, "datagrams": 1, "gaps": 1, "gap_bytes": 5, "end": null });
    assert_eq!(side(5, "from_client"), expected);
    // Bytes are missing, which even a quiet run says.
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(!done.stderr.is_empty());
}

#[test]
fn the_table_has_a_line_for_each_and_the_words_that_follow_takes() {
    let dir = folder();
    let input = made(&dir);
    let done = quaff(&["list", &input]);
    let shown = text(&done.stdout);
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains(" → ")).collect();
    assert_eq!(rows.len(), 6, "{shown}");
    for (row, words) in
        rows.iter().zip(["http b.example", "dns a.example", "refused", "unanswered", "10 B", "5 B"])
    {
        assert!(row.contains(words), "{shown}");
    }
    assert!(
        rows[0].contains("tcp 10.0.0.1:4711 → 10.0.0.2:80") && rows[0].contains("1970-01-01 00:00:01.000")
    );
    let said = text(&done.stderr);
    assert!(said.contains("4 TCP connections and 2 UDP conversations"), "{said}");
    assert!(said.contains("quaff streams follow") && said.contains("missing 10 B"), "{said}");
    assert!(said.contains("5 bytes of UDP missing: cut by the snaplen"), "{said}");
}

/// The table of a list, without a terminal and with a value of `COLUMNS`, if there is one.
fn table(input: &str, columns: Option<&str>, more: &[&str]) -> String {
    let mut quaff = Command::new(QUAFF);
    quaff.args(["streams", "list", input, "-q"]).args(more).env("TZ", "UTC").env_remove("COLUMNS");
    let done = quaff.envs(columns.map(|columns| ("COLUMNS", columns))).output().expect("quaff runs");
    text(&done.stdout)
}

#[test]
fn columns_without_room_are_named_and_wide_prints_them() {
    let dir = folder();
    let input = made(&dir);
    let shown = table(&input, Some("90"), &[]);
    let words = "3 columns left out: start, lasted, application (wider terminal, --wide, or --json)";
    assert!(shown.contains(words) && shown.contains("unanswered"), "{shown}");
    assert!(!shown.contains("b.example") && !shown.contains("1970-01-01"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 90), "{shown}");
    let narrow = table(&input, Some("40"), &[]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    // The ends stay whole, on two lines.
    assert!(narrow.contains("tcp 10.0.0.1:4711") && narrow.contains("→ 10.0.0.2:80"), "{narrow}");
    for whole in [table(&input, None, &[]), table(&input, Some("90"), &["--wide"])] {
        assert!(whole.contains("b.example") && whole.contains("1970-01-01 00:00:01.000"), "{whole}");
        assert!(!whole.contains("left out"), "{whole}");
        assert_eq!(whole.lines().filter(|line| line.contains(" → ")).count(), 6, "{whole}");
    }
}

#[test]
fn a_long_name_is_cut_on_a_terminal_and_makes_no_other_row_wide() {
    let dir = folder();
    let host = "a".repeat(150);
    let mut capture = Capture::new();
    capture.connection(100, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(), b"");
    capture.client.1 = 4712;
    capture.client(SYN, [99, 0], b"");
    let input = capture.write(&dir);
    let shown = table(&input, Some("150"), &[]);
    assert!(shown.contains("http aaaa") && shown.contains("a…") && !shown.contains("left out"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 150), "{shown}");
    let whole = table(&input, None, &[]);
    assert!(whole.contains(&host), "{whole}");
    let other = whole.lines().find(|line| line.contains(":4712")).expect("a row");
    assert!(other.chars().count() < 150, "{whole}");
}

/// Runs the command that the list proposes, with this number and more words.
fn proposed(list: &Output, number: &str, more: &str) -> Output {
    let said = text(&list.stderr);
    let line = said.lines().find_map(|line| line.split_once("one of them: quaff ")).expect("a command").1;
    let line = line.replace("NUMBER", number);
    Command::new("sh").args(["-c", &format!("'{QUAFF}' {line} {more}")]).output().expect("a shell")
}

#[test]
fn the_command_after_the_list_opens_a_row_of_several_files_and_of_a_filter() {
    let dir = folder();
    let input = made(&dir);
    // Several files are one capture, and their connections have other numbers.
    let more = dir.path().join("more of it.pcap").display().to_string();
    let mut other = Capture::new();
    other.client.1 = 5000;
    other.time_us = 2_000_000;
    other.connection(7, b"of the second file", b"");
    std::fs::write(&more, &other.bytes).unwrap();
    let rows = lines(&quaff(&["list", &input, &more, "--json"]));
    assert_eq!((rows.len(), &rows[6]["id"], &rows[6]["client_port"]), (7, &"5".into(), &5000.into()));
    let done = proposed(&quaff(&["list", &input, &more]), "5", "--raw -q");
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), "of the second file".to_owned()));
    // A number of a list with a filter is that of the same filter.
    let list = quaff(&["list", &input, "-f", "port 4714 and tcp", "--idle", "1h"]);
    let done = proposed(&list, "1", "--raw -q");
    assert_eq!(text(&done.stdout), "first\nthird\n", "{list:?}");
    let absent = quaff(&["follow", &input, "-r", &more, "6"]);
    let said = text(&absent.stderr);
    assert!(said.contains("and 1 more file have 5 TCP connections"), "{said}");
}

#[test]
fn a_number_of_the_list_opens_its_connection() {
    let dir = folder();
    let input = made(&dir);
    for row in lines(&quaff(&["list", &input, "--json"])) {
        let id = row["id"].as_str().expect("an id");
        let done = quaff(&["follow", &input, id, "--json", "-q"]);
        let (mut bytes, mut gap_bytes) = ([0, 0], [0, 0]);
        for piece in lines(&done) {
            let at = usize::from(piece["side"] == "server");
            bytes[at] += piece["bytes"].as_u64().unwrap_or(0);
            gap_bytes[at] += piece["gap_bytes"].as_u64().unwrap_or(0);
            let host = ["client", "server"][at];
            let from = format!("{}:{}", row[host].as_str().unwrap(), row[format!("{host}_port")]);
            assert_eq!(piece["from"], from);
        }
        let of = |name: &str| ["from_client", "from_server"].map(|side| row[side][name].as_u64().unwrap());
        assert_eq!((bytes, gap_bytes), (of("bytes"), of("gap_bytes")), "{row}");
        // What others lack is not missing here.
        let is_whole = gap_bytes == [0, 0];
        assert_eq!(done.status.code(), Some(i32::from(!is_whole)), "{id}: {done:?}");
    }
    for (id, words) in [("5", "has 4 TCP connections"), ("u3", "has 2 UDP conversations")] {
        let none = quaff(&["follow", &input, id]);
        assert!(none.status.code() == Some(2) && text(&none.stderr).contains(words), "{none:?}");
    }
    // With the same filter, a number means the same.
    let row = &lines(&quaff(&["list", &input, "-f", "port 4714", "--json"]))[0];
    assert_eq!((&row["id"], &row["client_port"]), (&"1".into(), &4714.into()));
    let done = quaff(&["follow", &input, "1", "-f", "port 4714", "--raw", "-q"]);
    assert_eq!(text(&done.stdout), "first\nthird\n");
}

#[test]
fn ends_are_taken_as_other_commands_print_them() {
    let dir = folder();
    let input = made(&dir);
    let report = Command::new(QUAFF).args(["flows", "report", &input, "--by", "flow", "--json"]).output();
    let report: Value = serde_json::from_slice(&report.expect("quaff runs").stdout).expect("JSON");
    let names: Vec<String> =
        report["by"][0]["rows"].as_array().expect("rows").iter().map(|row| row["name"].to_string()).collect();
    let of_report = names.iter().find(|name| name.contains("4711") && name.contains("tcp")).expect("a flow");
    let of_report = of_report.trim_matches('"');
    assert!(of_report.contains(" → "), "{names:?}");
    let of = |words: &[&str]| {
        let done = quaff(&[&["follow", &input, "--raw", "--side", "client", "-q"], words].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {done:?}");
        done.stdout
    };
    let (client, server) = ("10.0.0.1:4711", "10.0.0.2:80");
    for words in [
        &[of_report][..],
        &[client, server],
        &["tcp", server, client],
        &["10.0.0.1:4711 <-> 10.0.0.2:80"],
        &["10.0.0.1.4711 > 10.0.0.2.80:"],
        &["09:04:11.123456 IP 10.0.0.1.4711 > 10.0.0.2.80: Flags [S], seq 7, win 64240, length 0"],
        &["1"],
        &["tcp", "1"],
    ] {
        assert_eq!(text(&of(words)), text(REQUEST), "{words:?}");
    }
    for words in
        [&["udp 10.0.0.1:4711 → 10.0.0.53:53"][..], &["udp", client, "10.0.0.53:53"], &["u1"], &["udp", "1"]]
    {
        assert_eq!(of(words), QUESTION, "{words:?}");
    }
    for (words, said) in [
        (&["icmp 10.0.0.1 → 10.0.0.2 type 8.0"][..], "'icmp' has no streams"),
        (&["udp", client, server], "has 0 UDP conversations"),
        (&["tcp", client, "10.0.0.53:53"], "has 0 TCP connections"),
        (&[client, "10.0.0.53:53"], "no TCP connection between"),
        (&["1", "--nth", "2"], "--nth is for two ends"),
        (&["first"], "is not a number of 'quaff streams list'"),
        // Of one end its conversations are listed, to choose from.
        (&[server], "is an end of 4 conversations: choose one by its number"),
        (&[server], "     1  tcp 10.0.0.1:4711 → 10.0.0.2:80"),
        (&["10.0.0.1"], "    u1  udp 10.0.0.1:4711 → 10.0.0.53:53"),
        (&["10.0.0.9:80"], "has the end 10.0.0.9:80: see 'quaff streams list'"),
    ] {
        let done = quaff(&[&["follow", &input], words].concat());
        assert!(done.status.code() == Some(2) && text(&done.stderr).contains(said), "{words:?}: {done:?}");
    }
    // With -r the first word may be an end: one alone, or that of a connection.
    let listed = quaff(&["follow", "-r", &input, server]);
    assert!(text(&listed.stderr).contains("is an end of 4 conversations"), "{listed:?}");
    let printed = quaff(&["follow", "-r", &input, client, server, "--raw", "--side", "client", "-q"]);
    assert_eq!(text(&printed.stdout), text(REQUEST), "{printed:?}");
}

#[test]
fn datagrams_are_printed_each_with_its_sender() {
    let dir = folder();
    let mut capture = Capture::new();
    datagram(&mut capture, true, b"one\x1b", 0);
    datagram(&mut capture, true, b"two", 0);
    let frame = build::ipv4(RESOLVER, capture.client.0, 17, &[], &build::udp(53, 4711, &[b'x'; 30]));
    for piece in build::ipv4_fragments(&frame, 16) {
        let frame = build::ethernet(&[], 0x0800, &piece);
        capture.frame(&frame, frame.len());
    }
    let input = capture.write(&dir);
    let ends = "udp 10.0.0.53:53 10.0.0.1:4711";
    let done = quaff(&["follow", &input, ends]);
    let head =
        |second: &str, from: &str, to: &str| format!("--- {from} > {to}  1970-01-01T00:00:{second}Z\n");
    let (client, server) = ("10.0.0.1:4711", "10.0.0.53:53");
    let expected = [
        head("01.000000000", client, server) + "one.\n",
        head("01.001000000", client, server) + "two\n",
        head("01.004000000", server, client) + &"x".repeat(30) + "\n",
    ];
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(0), expected.concat()), "{done:?}");
    let raw = quaff(&["follow", &input, ends, "--raw", "--side", "client"]);
    assert_eq!(raw.stdout, b"one\x1btwo");
    let pieces = lines(&quaff(&["follow", &input, "u1", "--json"]));
    let expected = json!({
        "time_ns": 1_000_000_000, "side": "client", "from": client, "to": server, "offset": 0, "bytes": 4, "data": "b25lGw=="
    });
    assert_eq!((pieces.len(), &pieces[0]), (3, &expected));
    // The server address of the other tests has no such conversation.
    let none = quaff(&["follow", &input, &format!("udp {SERVER_ADDRESS}:53 {client}")]);
    assert!(none.status.code() == Some(2) && text(&none.stderr).contains("at either end"), "{none:?}");
}

/// A capture of a conversation for each millisecond.
fn many(conversations: u32) -> Capture {
    let mut capture = Capture::new();
    for number in 0..conversations {
        let [_, a, b, c] = number.to_be_bytes();
        capture.client = (Ipv4Addr::new(10, a, b, c), 4711);
        datagram(&mut capture, true, b"question", 0);
    }
    capture
}

#[test]
fn a_table_of_many_rows_has_one_heading_and_ends_with_its_reader() {
    let dir = folder();
    let input = many(200_000).write(&dir);
    let args = ["streams", "list", &input, "--idle", "1s"];
    let whole = Command::new(QUAFF).args(args).output().expect("quaff runs");
    let shown = text(&whole.stdout);
    let heads = shown.lines().filter(|line| line.contains("from client")).count();
    let rows = shown.lines().filter(|line| line.contains(" → ")).count();
    assert_eq!((heads, rows, shown.lines().count()), (1, 200_000, 200_002));
    let mut quaff = Command::new(QUAFF);
    let quaff = quaff.args(args).arg("--json").stdout(std::process::Stdio::piped());
    let mut child = quaff.stderr(std::process::Stdio::piped()).spawn().expect("quaff runs");
    drop(child.stdout.take());
    let done = child.wait_with_output().expect("it ends");
    let said = text(&done.stderr);
    let packets =
        said.split(" packets").next().and_then(|number| number.replace(',', "").parse::<u64>().ok());
    assert!(packets.is_some_and(|packets| packets < 200_000), "{said}");
    assert_eq!(done.status.code(), Some(0), "{said}");
}
