//! `quaff streams list` and `follow` against `extract`, whose streams are those that tshark follows, and for UDP
//! against tshark's `follow,udp`: the same conversations with as many bytes in all of them, and the same bytes in some
//! of each capture. Differences that are known are in `differences.txt`.

use crate::streams_tshark::{Ends, Sides, captures, followed, known};
use crate::support::{QUAFF, folder, tool};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Conversations of a capture and of a protocol whose bytes are compared; the others by their number of bytes.
const FOLLOWED: usize = 3;

/// The rows of a capture.
fn listed(capture: &Path) -> Vec<Value> {
    let mut quaff = Command::new(QUAFF);
    let done = quaff.args(["streams", "list", "-q", "--decap", "auto", "--json"]).arg(capture).output();
    let done = done.expect("quaff runs");
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}: {done:?}", capture.display());
    let text = String::from_utf8(done.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The bytes of the client and of the server of a row.
fn follow(capture: &Path, row: &Value) -> [Vec<u8>; 2] {
    let id = row["id"].as_str().expect("an id");
    ["client", "server"].map(|side| {
        let mut quaff = Command::new(QUAFF);
        quaff
            .args(["streams", "follow", "-q", "--decap", "auto", "--raw", "--side", side])
            .arg(capture)
            .arg(id);
        let done = quaff.output().expect("quaff runs");
        assert!(matches!(done.status.code(), Some(0 | 1)), "{} {id}: {done:?}", capture.display());
        done.stdout
    })
}

/// The lines of the index that `extract` writes, and its folder.
fn extracted(capture: &Path, out: &Path) -> BTreeMap<u64, Value> {
    let mut quaff = Command::new(QUAFF);
    quaff.args(["streams", "extract", "-q", "--decap", "auto", "--read"]).arg(capture).arg("--dir").arg(out);
    let done = quaff.output().expect("quaff runs");
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}: {done:?}", capture.display());
    let index = std::fs::read_to_string(out.join("index.jsonl")).expect("an index");
    let lines = index.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.map(|line| (line["number"].as_u64().expect("a number"), line)).collect()
}

/// Every n-th of many.
fn some<T>(all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(FOLLOWED).max(1))
}

fn bytes_of(row: &Value, name: &str) -> [u64; 2] {
    ["from_client", "from_server"].map(|side| row[side][name].as_u64().expect("a number"))
}

/// Compares the rows of TCP with the index, and the bytes of some. Returns the number of rows.
fn check_tcp(capture: &Path, rows: &[Value]) -> usize {
    let dir = folder();
    let out = dir.path().join("out");
    let index = extracted(capture, &out);
    let rows: Vec<&Value> = rows.iter().filter(|row| row["protocol"] == "tcp").collect();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["number"], at + 1, "{}", capture.display());
        let Some(line) = index.get(&(at as u64 + 1)) else {
            assert_eq!(bytes_of(row, "bytes"), [0, 0], "{}: {row}", capture.display());
            continue;
        };
        let same =
            ["client", "client_port", "server", "server_port", "first_ns", "last_ns", "opened", "closed"];
        for name in same {
            assert_eq!(row[name], line[name], "{}: {name} of {row}", capture.display());
        }
        for name in ["bytes", "gap_bytes"] {
            assert_eq!(bytes_of(row, name), bytes_of(line, name), "{}: {name} of {row}", capture.display());
        }
    }
    let seen: Vec<_> =
        rows.iter().filter_map(|row| Some((row, index.get(&row["number"].as_u64()?)?))).collect();
    assert_eq!(seen.len(), index.len(), "{}", capture.display());
    for (row, line) in some(&seen) {
        let of_side = |side: &str| {
            line[side]["file"].as_str().map(|file| std::fs::read(out.join(file)).expect("a file"))
        };
        let expected = ["from_client", "from_server"].map(|side| of_side(side).unwrap_or_default());
        assert!(follow(capture, row) == expected, "{}: {row}", capture.display());
    }
    rows.len()
}

/// The ends of a row: those of the client and of the server.
fn ends(row: &Value) -> [String; 2] {
    ["client", "server"].map(|host| {
        let address: IpAddr = row[host].as_str().and_then(|text| text.parse().ok()).expect("an address");
        let port = row[format!("{host}_port")].as_u64().expect("a port");
        SocketAddr::new(address, port as u16).to_string()
    })
}

/// The conversations of UDP that differ, and all, each `udp FILE END END`. Those between the same ends are compared as
/// one: tshark never ends a conversation, and begins another one where a protocol has announced it.
fn udp_differences(capture: &Path, rows: &[Value]) -> [BTreeSet<String>; 2] {
    let mut ours: BTreeMap<Ends, Vec<&Value>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["protocol"] == "udp" && bytes_of(row, "bytes") != [0, 0]) {
        ours.entry(ends(row).into()).or_default().push(row);
    }
    let mut theirs: BTreeMap<Ends, Sides> = BTreeMap::new();
    for (ends, streams) in followed(capture, "udp") {
        let sides = theirs.entry(ends).or_default();
        for (end, bytes) in streams.into_iter().flat_map(|stream| stream.sides) {
            sides.entry(end).or_default().extend(bytes);
        }
    }
    let both: BTreeSet<&Ends> = ours.keys().chain(theirs.keys()).collect();
    let both: Vec<&Ends> = both.into_iter().collect();
    let name = capture.file_name().expect("a name").to_string_lossy();
    let words = |ends: &Ends| format!("udp {name} {}", ends.iter().cloned().collect::<Vec<_>>().join(" "));
    let followed: Vec<&Ends> = some(&both).copied().collect();
    let agree = |of: &Ends| {
        let (Some(rows), Some(sides)) = (ours.get(of), theirs.get(of)) else { return false };
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut printed = Sides::new();
        for row in rows {
            let add = |(end, bytes)| *counts.entry(end).or_default() += bytes;
            ends(row).into_iter().zip(bytes_of(row, "bytes")).for_each(add);
            if followed.contains(&of) {
                for (end, bytes) in ends(row).into_iter().zip(follow(capture, row)) {
                    printed.entry(end).or_default().extend(bytes);
                }
            }
        }
        let has_counts = sides.iter().all(|(end, bytes)| counts.get(end) == Some(&(bytes.len() as u64)));
        has_counts && (printed.is_empty() || printed == *sides)
    };
    let found = both.iter().filter(|ends| !agree(ends)).map(|ends| words(ends)).collect();
    [found, both.iter().map(|ends| words(ends)).collect()]
}

/// The sums of a comparison of some captures.
#[derive(Default)]
struct Compared {
    tcp: usize,
    found: BTreeSet<String>,
    udp: BTreeSet<String>,
}

fn compare(captures: &[PathBuf], next: &AtomicUsize) -> Compared {
    let mut all = Compared::default();
    // Each thread takes the next capture: a number only, so Relaxed.
    while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
        let rows = listed(capture);
        all.tcp += check_tcp(capture, &rows);
        let [found, compared] = udp_differences(capture, &rows);
        all.found.extend(found);
        all.udp.extend(compared);
    }
    all
}

#[test]
fn rows_and_what_follow_prints_are_those_of_extract_and_of_tshark() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let captures = captures();
    if captures.is_empty() {
        testing::skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
        return;
    }
    let next = AtomicUsize::new(0);
    let [one, other] = std::thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(|| compare(&captures, &next)));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let (tcp, udp) = (one.tcp + other.tcp, &one.udp | &other.udp);
    let found = &one.found | &other.found;
    let known: BTreeSet<String> = known().into_iter().filter(|line| line.starts_with("udp ")).collect();
    assert!(tcp > 500 && udp.len() > 500, "only {tcp} of TCP, {} of UDP", udp.len());
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "{} of {} differ from tshark: {new:#?}", new.len(), udp.len());
    let gone: Vec<_> = known.intersection(&udp).filter(|line| !found.contains(*line)).collect();
    assert!(gone.is_empty(), "these do not differ any more: {gone:#?}");
}
