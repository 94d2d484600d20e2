//! `quaff streams list` and `follow` against `extract`, whose streams are those that tshark follows, and for UDP
//! against tshark's `follow,udp`: the same conversations with as many bytes in all of them, and the same bytes in some
//! of each capture. Some of the captures: with all of them the test takes minutes, most of them tshark's.

use crate::streams_tshark::{Ends, Sides, captures, followed};
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
const FOLLOWED: usize = 2;
/// Every n-th capture is compared.
const STEP: usize = 10;
/// Captures that are always compared: tunnels in UDP, and the payload of which tshark hides a part.
const ALWAYS: [&str; 5] =
    ["dtls.pcap", "ptpv2.pcap", "reasm_segv_anon.pcapng", "teredo.pcap", "tls_change_cipher.pcap"];
/// Those of them with GTP. tshark follows what is inside, or both as one: here both programs follow the outer
/// datagrams.
const WITH_GTP: [&str; 3] = ["dtls.pcap", "reasm_segv_anon.pcapng", "tls_change_cipher.pcap"];
/// Protocols that tshark must not read: it writes addresses inside of Teredo in the place of the outer ones, and leaves
/// the last bytes of a datagram of PTP away.
static DISABLED: [&str; 3] = ["teredo", "ptp", "gtp"];

/// A capture, and how both programs read it.
pub(crate) struct Case<'a> {
    pub(crate) capture: &'a Path,
    pub(crate) name: String,
    decap: &'static [&'static str],
    disabled: &'static [&'static str],
}

impl<'a> Case<'a> {
    pub(crate) fn new(capture: &'a Path) -> Self {
        let name = capture.file_name().expect("a name").to_string_lossy().into_owned();
        let has_gtp = WITH_GTP.contains(&name.as_str());
        let decap: &'static [&'static str] = if has_gtp { &[] } else { &["--decap", "auto"] };
        Self { capture, name, decap, disabled: if has_gtp { &DISABLED } else { &DISABLED[..2] } }
    }

    /// The output of `quaff streams WORDS`.
    fn quaff(&self, words: &[&str]) -> Vec<u8> {
        let mut quaff = Command::new(QUAFF);
        let done = quaff.arg("streams").args(words).args(self.decap).output().expect("quaff runs");
        assert!(matches!(done.status.code(), Some(0 | 1)), "{} {words:?}: {done:?}", self.name);
        done.stdout
    }

    fn path(&self) -> &str {
        self.capture.to_str().expect("a path of text")
    }

    fn rows(&self) -> Vec<Value> {
        self.rows_with(&[])
    }

    /// The rows of a list with these words.
    pub(crate) fn rows_with(&self, words: &[&str]) -> Vec<Value> {
        let words = [&["list", "-q", "--json", self.path()], words].concat();
        let text = String::from_utf8(self.quaff(&words)).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The bytes of the client and of the server of a row.
    fn follow(&self, row: &Value) -> [Vec<u8>; 2] {
        let id = row["id"].as_str().expect("an id");
        ["client", "server"]
            .map(|side| self.quaff(&["follow", "-q", "--raw", "--side", side, self.path(), id]))
    }

    /// The lines of the index that `extract` writes to a folder.
    fn extracted(&self, out: &Path) -> BTreeMap<u64, Value> {
        let dir = out.to_str().expect("a path of text");
        self.quaff(&["extract", "-q", "--read", self.path(), "--dir", dir]);
        let index = std::fs::read_to_string(out.join("index.jsonl")).expect("an index");
        let lines = index.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|line| (line["number"].as_u64().expect("a number"), line)).collect()
    }
}

/// Every n-th of many.
fn some<T>(all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(FOLLOWED).max(1))
}

pub(crate) fn bytes_of(row: &Value, name: &str) -> [u64; 2] {
    ["from_client", "from_server"].map(|side| row[side][name].as_u64().expect("a number"))
}

/// Compares the rows of TCP with the index, and the bytes of some. Returns the number of rows.
fn check_tcp(case: &Case, rows: &[Value]) -> usize {
    let (dir, name) = (folder(), &case.name);
    let out = dir.path().join("out");
    let index = case.extracted(&out);
    let rows: Vec<&Value> = rows.iter().filter(|row| row["protocol"] == "tcp").collect();
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["number"], at + 1, "{name}");
        let Some(line) = index.get(&(at as u64 + 1)) else {
            assert_eq!(bytes_of(row, "bytes"), [0, 0], "{name}: {row}");
            continue;
        };
        let same =
            ["client", "client_port", "server", "server_port", "first_ns", "last_ns", "opened", "closed"];
        for field in same {
            assert_eq!(row[field], line[field], "{name}: {field} of {row}");
        }
        for field in ["bytes", "gap_bytes"] {
            assert_eq!(bytes_of(row, field), bytes_of(line, field), "{name}: {field} of {row}");
        }
    }
    let seen: Vec<_> =
        rows.iter().filter_map(|row| Some((row, index.get(&row["number"].as_u64()?)?))).collect();
    assert_eq!(seen.len(), index.len(), "{name}");
    for (row, line) in some(&seen) {
        let of_side = |side: &str| {
            line[side]["file"].as_str().map(|file| std::fs::read(out.join(file)).expect("a file"))
        };
        let expected = ["from_client", "from_server"].map(|side| of_side(side).unwrap_or_default());
        assert!(case.follow(row) == expected, "{name}: {row}");
    }
    rows.len()
}

/// The ends of a row: those of the client and of the server.
pub(crate) fn ends(row: &Value) -> [String; 2] {
    ["client", "server"].map(|host| {
        let address: IpAddr = row[host].as_str().and_then(|text| text.parse().ok()).expect("an address");
        let port = row[format!("{host}_port")].as_u64().expect("a port");
        SocketAddr::new(address, port as u16).to_string()
    })
}

/// The conversations of UDP that tshark follows. Those between the same ends are compared as one: tshark never ends a
/// conversation, and begins another one where a protocol has announced it.
fn followed_udp(case: &Case) -> BTreeMap<Ends, Sides> {
    let mut theirs: BTreeMap<Ends, Sides> = BTreeMap::new();
    for (ends, streams) in followed(case.capture, "udp", case.disabled) {
        let sides = theirs.entry(ends).or_default();
        for (end, bytes) in streams.into_iter().flat_map(|stream| stream.sides) {
            sides.entry(end).or_default().extend(bytes);
        }
    }
    theirs
}

/// The conversations of UDP that differ, each `FILE END END`, and the number of all.
fn udp_differences(case: &Case, rows: &[Value]) -> (BTreeSet<String>, usize) {
    let mut ours: BTreeMap<Ends, Vec<&Value>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row["protocol"] == "udp" && bytes_of(row, "bytes") != [0, 0]) {
        ours.entry(ends(row).into()).or_default().push(row);
    }
    let theirs = followed_udp(case);
    let both: BTreeSet<&Ends> = ours.keys().chain(theirs.keys()).collect();
    let both: Vec<&Ends> = both.into_iter().collect();
    let printed: Vec<&Ends> = some(&both).copied().collect();
    let differs = |of: &&&Ends| match (ours.get(**of), theirs.get(**of)) {
        (Some(rows), Some(sides)) => !is_same(case, rows, sides, printed.contains(*of)),
        _ => true,
    };
    let words =
        |ends: &&Ends| format!("{} {}", case.name, ends.iter().cloned().collect::<Vec<_>>().join(" "));
    (both.iter().filter(differs).map(words).collect(), both.len())
}

/// Compares the rows between two ends with the bytes of each end, by number, and byte by byte if `is_printed`.
fn is_same(case: &Case, rows: &[&Value], sides: &Sides, is_printed: bool) -> bool {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut printed = Sides::new();
    for row in rows {
        for (end, bytes) in ends(row).into_iter().zip(bytes_of(row, "bytes")) {
            *counts.entry(end).or_default() += bytes;
        }
        let followed = if is_printed { case.follow(row) } else { Default::default() };
        for (end, bytes) in ends(row).into_iter().zip(followed) {
            printed.entry(end).or_default().extend(bytes);
        }
    }
    let has_counts = sides.iter().all(|(end, bytes)| counts.get(end) == Some(&(bytes.len() as u64)));
    has_counts && (!is_printed || printed == *sides)
}

/// The sums of a comparison of some captures.
#[derive(Default)]
struct Compared {
    tcp: usize,
    udp: usize,
    differing: BTreeSet<String>,
}

fn compare(captures: &[PathBuf], next: &AtomicUsize) -> Compared {
    let mut all = Compared::default();
    // Each thread takes the next capture: a number only, so Relaxed.
    while let Some(capture) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
        let case = Case::new(capture);
        let rows = case.rows();
        all.tcp += check_tcp(&case, &rows);
        let (differing, udp) = udp_differences(&case, &rows);
        all.udp += udp;
        all.differing.extend(differing);
    }
    all
}

/// Some of the captures of protocols. The others have packets of all of them.
pub(crate) fn sample() -> Vec<PathBuf> {
    let of_protocols =
        captures().into_iter().filter(|path| path.parent().is_some_and(|dir| dir.ends_with("protocols")));
    let is_always = |path: &Path| ALWAYS.iter().any(|name| path.ends_with(name));
    let some = of_protocols.enumerate().filter(|(at, path)| at % STEP == 0 || is_always(path));
    some.map(|(_, path)| path).collect()
}

#[test]
fn rows_and_what_follow_prints_are_those_of_extract_and_of_tshark() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let captures = sample();
    if captures.is_empty() {
        testing::skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
        return;
    }
    let next = AtomicUsize::new(0);
    let [one, other] = std::thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(|| compare(&captures, &next)));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let (tcp, udp) = (one.tcp + other.tcp, one.udp + other.udp);
    assert!(tcp > 50 && udp > 50, "only {tcp} of TCP, {udp} of UDP");
    let differing = &one.differing | &other.differing;
    assert!(differing.is_empty(), "{} of {udp} differ from tshark: {differing:#?}", differing.len());
}
