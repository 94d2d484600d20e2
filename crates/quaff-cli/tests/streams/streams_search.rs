//! `quaff streams list --grep`: matches across segments, and the same conversations and offsets as Python's `re` finds
//! in the streams that tshark follows.

use crate::capture::{ACK, Capture, FIN, SYN};
use crate::streams_listed::{Case, bytes_of, ends, sample};
use crate::streams_tshark::{Sides, numbered};
use crate::support::{QUAFF, folder, run, tool};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 53), 53);
const LOGIN: &[u8] = b"user=alice&password=s3cret&end";
const SECRET: &str = r"pass\w+=s[0-9]cret";

fn list(input: &str, words: &[&str]) -> Output {
    Command::new(QUAFF).args(["streams", "list", input]).args(words).output().expect("quaff runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The id of each row, and the first matches of client and server.
fn matches(input: &str, pattern: &str) -> Vec<(String, [Value; 2])> {
    let done = list(input, &["--json", "-q", "--grep", pattern]);
    let rows = text(&done.stdout);
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let side = |row: &Value, side: &str| row[side]["first_match"].clone();
    rows.map(|row| {
        let id = row["id"].as_str().expect("an id").to_owned();
        (id, [side(&row, "from_client"), side(&row, "from_server")])
    })
    .collect()
}

/// A client's text in segments of the order of `parts`, each a range of the text.
fn in_segments(capture: &mut Capture, text: &[u8], parts: &[std::ops::Range<usize>]) {
    let end = 100 + text.len() as u32;
    capture.client(SYN, [99, 0], b"");
    capture.server(SYN | ACK, [99, 100], b"");
    for part in parts {
        capture.client(ACK, [100 + part.start as u32, 100], &text[part.clone()]);
    }
    capture.server(ACK, [100, end], b"");
    capture.client(FIN | ACK, [end, 100], b"");
    capture.server(FIN | ACK, [100, end + 1], b"");
    capture.client(ACK, [end + 1, 101], b"");
}

/// Connections 1 to 4 and UDP conversations u1 and u2: see the test.
fn made(dir: &TempDir) -> String {
    let mut capture = Capture::new();
    // The match is in three segments, which come in another order, the first one twice.
    in_segments(&mut capture, LOGIN, &[0..13, 22..30, 0..13, 13..22]);
    capture.client.1 = 4712;
    capture.connection(100, b"GET /", LOGIN);
    capture.client.1 = 4713;
    capture.connection_with_gap();
    capture.client.1 = 4714;
    in_segments(&mut capture, b"user=bob&password=", &[0..9, 9..18]);
    for (port, datagrams) in [(4715, [&b"password="[..], b"s3cret", b""]), (4716, [&b"a"[..], LOGIN, LOGIN])]
    {
        capture.client.1 = port;
        datagrams.iter().for_each(|payload| capture.datagram(true, RESOLVER, payload, 0));
    }
    capture.datagram(false, RESOLVER, b"cut password=s3cret", 3);
    capture.write(dir)
}

#[test]
fn conversations_that_match_are_listed_with_side_and_offset() {
    let dir = folder();
    let input = made(&dir);
    let none = Value::Null;
    let at = |offset: u64| json!({ "offset": offset, "datagram": null });
    let tcp = |id: &str, client: Value, server: Value| (id.to_owned(), [client, server]);
    let of_udp = json!({ "offset": 11, "datagram": 2 });
    let expected = [
        tcp("1", at(11), none.clone()),
        tcp("2", none.clone(), at(11)),
        ("u2".to_owned(), [of_udp, none.clone()]),
    ];
    assert_eq!(matches(&input, SECRET), expected);
    // Ten bytes are missing between these lines, and count for offsets.
    assert!(matches(&input, "(?s)first.*third").is_empty());
    assert!(matches(&input, "first\n$").is_empty());
    assert_eq!(matches(&input, "third"), [tcp("3", at(16), none.clone())]);
    assert_eq!(matches(&input, "^user=bob&password=$"), [tcp("4", at(0), none.clone())]);
    let both: Vec<_> = matches(&input, "(?i)^USER|GET /$").into_iter().map(|(id, _)| id).collect();
    assert_eq!(both, ["1", "2", "4", "u2"]);
    let [client, server] = &matches(&input, "password=s|GET")[1].1;
    assert_eq!([client, server], [&at(0), &at(11)]);
}

#[test]
fn the_table_of_a_search_has_a_column_for_the_matches() {
    let dir = folder();
    let input = made(&dir);
    let done = list(&input, &["--grep", SECRET]);
    let shown = text(&done.stdout);
    let rows: Vec<&str> = shown.lines().filter(|line| line.contains(" → ")).collect();
    assert!(shown.contains("match") && rows.len() == 3, "{shown}");
    for (row, words) in rows.iter().zip(["client 11", "server 11", "client 11 in datagram 2"]) {
        assert!(row.contains(words), "{shown}");
    }
    let said = text(&done.stderr);
    assert!(said.contains("4 TCP connections and 2 UDP conversations"), "{said}");
    assert!(said.contains("3 conversations with a match") && said.contains("streams follow"), "{said}");
    // As without a pattern: bytes are missing.
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(!text(&list(&input, &[]).stdout).contains("match"));
    let nothing = list(&input, &["--grep", "nowhere"]);
    let said = text(&nothing.stderr);
    assert!(nothing.stdout.is_empty() && said.contains("0 conversations with a match"), "{nothing:?}");
    assert!(!said.contains("streams follow"), "{said}");
    let wrong = list(&input, &["--grep", "("]);
    assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("no regular expression"));
}

/// Patterns that both programs read alike.
const PATTERNS: [&str; 7] = [
    r"(?i)host: [a-z0-9.]+",
    r"^[A-Z]+ /",
    r"\x00\x00\x00",
    r"(?s)\r\n\r\n.",
    r"\bHTTP/1\.[01] [0-9]{3}\b",
    r"[a-z]{12}",
    r"^\x16\x03[\x00-\x03]",
];

const PYTHON: &str = r"
import json, re, sys
task = json.load(open(sys.argv[1]))
streams = [bytes.fromhex(stream) for stream in task['streams']]
found = [[re.search(pattern.encode(), stream) for stream in streams] for pattern in task['patterns']]
print(json.dumps([[one.start() if one else None for one in of_pattern] for of_pattern in found]))
";

/// The offset of the first match of each pattern in each stream, as Python finds it.
fn python(dir: &TempDir, streams: &[&[u8]]) -> Vec<Vec<Option<u64>>> {
    let hex = |bytes: &&[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let task = json!({ "patterns": PATTERNS, "streams": streams.iter().map(hex).collect::<Vec<_>>() });
    let path = dir.path().join("task.json");
    std::fs::write(&path, task.to_string()).expect("a file");
    let found = run(Command::new("python3").args(["-c", PYTHON]).arg(path));
    serde_json::from_str(&found).expect("JSON")
}

/// The sides of a row in the stream of tshark with its number, if both programs have all of its bytes.
fn same<'a>(row: &Value, theirs: &'a BTreeMap<usize, Sides>) -> Option<[&'a [u8]; 2]> {
    let number = row["number"].as_u64().filter(|_| row["protocol"] == "tcp")?;
    let sides = theirs.get(&(number as usize - 1))?;
    let [client, server] = ends(row).map(|end| sides.get(&end).map(Vec::as_slice));
    let (client, server) = (client?, server?);
    let is_same = bytes_of(row, "bytes") == [client.len() as u64, server.len() as u64];
    (is_same && bytes_of(row, "gap_bytes") == [0, 0]).then_some([client, server])
}

/// Compares the rows of each pattern; returns the number of connections, and of matches in them.
fn compare(case: &Case) -> [usize; 2] {
    let theirs = numbered(case.capture, "tcp", &[]);
    let rows = case.rows_with(&[]);
    let same: Vec<_> = rows.iter().filter_map(|row| Some((row, same(row, &theirs)?))).collect();
    let streams: Vec<&[u8]> = same.iter().flat_map(|(_, sides)| *sides).collect();
    let expected = python(&folder(), &streams);
    let mut matches = 0;
    for (pattern, expected) in PATTERNS.iter().zip(&expected) {
        let listed = case.rows_with(&["--grep", pattern]);
        let listed: BTreeMap<_, _> = listed.iter().map(|row| (row["id"].to_string(), row)).collect();
        for ((row, _), expected) in same.iter().zip(expected.chunks(2)) {
            let found = listed.get(&row["id"].to_string());
            let offset = |side: &str| found.and_then(|row| row[side]["first_match"]["offset"].as_u64());
            assert_eq!(
                [offset("from_client"), offset("from_server")],
                *expected,
                "{} {pattern}: {row}",
                case.name
            );
            assert_eq!(found.is_some(), expected.iter().any(Option::is_some), "{row}");
            matches += usize::from(found.is_some());
        }
    }
    [same.len(), matches]
}

/// Made ones, and some of the real ones.
fn inputs(dir: &TempDir) -> Vec<PathBuf> {
    std::iter::once(PathBuf::from(made(dir))).chain(sample()).collect()
}

#[test]
fn matches_are_those_of_python_in_the_streams_of_tshark() {
    let test = test_name!();
    let (Some(_), Some(_)) = (tool(test, "tshark"), tool(test, "python3")) else { return };
    let dir = folder();
    let (inputs, next) = (inputs(&dir), AtomicUsize::new(0));
    let work = || {
        let mut sums = [0; 2];
        // Each thread takes the next capture: a number only, so Relaxed.
        while let Some(capture) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let of_capture = compare(&Case::new(capture));
            sums = [sums[0] + of_capture[0], sums[1] + of_capture[1]];
        }
        sums
    };
    let [one, other] = std::thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(work));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let (connections, matches) = (one[0] + other[0], one[1] + other[1]);
    if inputs.len() == 1 {
        testing::skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
        return;
    }
    // Made captures have few words in their streams.
    assert!(connections > 50 && matches > 0, "{matches} matches in {connections} connections");
}
