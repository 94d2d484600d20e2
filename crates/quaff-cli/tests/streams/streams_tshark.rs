//! `quaff streams extract` against tshark's `follow`: the same bytes of each side of every connection, for real
//! captures. In the place of a gap tshark writes a sentence, or it stops there: what it has otherwise must be what the
//! file begins with. Differences that are known are in `differences.txt`, each with its reason; a line whose
//! connection is in a capture and no longer differs is a failure as well.

use crate::support::{QUAFF, folder, tool};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Streams that tshark is asked for at first, and then at a time: its start is slow, and most captures have few.
const AT_ONCE: [usize; 2] = [60, 500];

/// Two ends in any order.
pub(crate) type Ends = BTreeSet<String>;

/// The bytes of each side, by its end.
pub(crate) type Sides = BTreeMap<String, Vec<u8>>;

/// A connection with data.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sides: Sides,
    /// Bytes of it are not in the capture.
    has_gaps: bool,
}

/// The connections of a capture, in the order of their first packets, by their ends.
pub(crate) type Streams = BTreeMap<Ends, Vec<Connection>>;

fn add(streams: &mut Streams, sides: Sides, has_gaps: bool) {
    if sides.values().any(|bytes| !bytes.is_empty()) {
        streams.entry(sides.keys().cloned().collect()).or_default().push(Connection { sides, has_gaps });
    }
}

/// The connections that quaff extracts.
fn extracted(capture: &Path) -> Streams {
    let dir = folder();
    let out = dir.path().join("out");
    let mut quaff = Command::new(QUAFF);
    quaff.args(["streams", "extract", "-q", "--decap", "auto", "--read"]).arg(capture).arg("--dir").arg(&out);
    let done = quaff.output().expect("quaff runs");
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}: {done:?}", capture.display());
    let index = std::fs::read_to_string(out.join("index.jsonl")).expect("an index");
    let mut lines: Vec<Value> = index.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.sort_by_key(|line| line["number"].as_u64());
    let mut streams = Streams::new();
    for line in lines {
        let side = |host: &str, stream: &str| {
            let address: IpAddr = line[host].as_str().and_then(|text| text.parse().ok()).expect("an address");
            let port = line[format!("{host}_port")].as_u64().expect("a port");
            let end = SocketAddr::new(address, port as u16).to_string();
            let file = line[stream]["file"].as_str();
            (end, file.map_or(Vec::new(), |file| std::fs::read(out.join(file)).expect("a file")))
        };
        let has_gap = |side: &str| line[side]["gap_bytes"] != 0;
        let has_gaps = has_gap("from_client") || has_gap("from_server");
        add(&mut streams, [side("client", "from_client"), side("server", "from_server")].into(), has_gaps);
    }
    streams
}

/// The connections that tshark follows; `protocol` is `tcp` or `udp`. Packets of the protocols that are `disabled` are
/// bytes of what carries them.
pub(crate) fn followed(capture: &Path, protocol: &str, disabled: &[&str]) -> Streams {
    let mut streams = Streams::new();
    let numbered = numbered(capture, protocol, disabled).into_values();
    numbered.for_each(|sides| add(&mut streams, sides, false));
    streams
}

/// The same by tshark's numbers of streams, from 0 on.
pub(crate) fn numbered(capture: &Path, protocol: &str, disabled: &[&str]) -> BTreeMap<usize, Sides> {
    let mut streams = BTreeMap::new();
    let (mut first, mut at_once) = (0, AT_ONCE[0]);
    loop {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(capture).args([
            "-q",
            "-z",
            &format!("io,stat,0,MAX({protocol}.stream){protocol}.stream"),
        ]);
        tshark.args(disabled.iter().flat_map(|name| ["--disable-protocol", name]));
        for stream in first..first + at_once {
            tshark.args(["-z", &format!("follow,{protocol},raw,{stream}")]);
        }
        let done = tshark.output().expect("tshark runs");
        let printed = String::from_utf8_lossy(&done.stdout);
        let found = parsed(&printed, protocol);
        // Streams without data have no number there.
        let is_last = last_stream(&printed).map_or(found.is_empty(), |last| last < first + at_once);
        // Taps are printed in any order.
        streams.extend(found);
        if is_last {
            return streams;
        }
        (first, at_once) = (first + at_once, AT_ONCE[1]);
    }
}

/// The largest number of a stream in the capture: the row `| 0.0 <> 204.7 | 2033 |` of tshark's statistics. There
/// is none if all packets have the same time.
fn last_stream(text: &str) -> Option<usize> {
    let row = text.lines().find(|line| line.contains("<>"))?;
    row.split('|').nth(2)?.trim().parse().ok()
}

/// The streams of tshark's output, by number. Lines of the second node are indented.
fn parsed(text: &str, protocol: &str) -> BTreeMap<usize, Sides> {
    let mut found = BTreeMap::new();
    for part in text.split(&format!("Filter: {protocol}.stream eq ")).skip(1) {
        let mut lines = part.lines().take_while(|line| !line.starts_with("==="));
        let number: usize = lines.next().and_then(|line| line.trim().parse().ok()).expect("a number");
        let mut node = || lines.next().and_then(|line| line.split_once(": ")).map(|(_, end)| end.to_owned());
        let [Some(one), Some(other)] = [node(), node()] else { panic!("{part}") };
        if one == ":0" {
            continue;
        }
        let mut sides = Sides::from([(one.clone(), Vec::new()), (other.clone(), Vec::new())]);
        for line in lines {
            let end = if line.starts_with('\t') { &other } else { &one };
            let digits = line.trim();
            let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
            sides.get_mut(end).expect("a side").extend(bytes.map(|byte| byte.expect("a digit")));
        }
        sides.values_mut().for_each(|bytes| *bytes = without_sentences(bytes));
        found.insert(number, sides);
    }
    found
}

/// The bytes without the sentences that stand for gaps.
fn without_sentences(bytes: &[u8]) -> Vec<u8> {
    const WORDS: &[u8] = b" bytes missing in capture file]";
    let (mut rest, mut kept) = (bytes, Vec::new());
    while let Some(at) = rest.windows(WORDS.len()).position(|window| window == WORDS) {
        let digits = rest[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        kept.extend_from_slice(&rest[..at - digits - 1]);
        let after = &rest[at + WORDS.len()..];
        rest = after.strip_prefix(b"\0").unwrap_or(after);
    }
    kept.extend_from_slice(rest);
    kept
}

/// Returns true if both have the same bytes; of a connection with gaps, if theirs are the first ones.
fn agree(ours: &Connection, theirs: &Connection) -> bool {
    let begins = |(end, bytes): (&String, &Vec<u8>)| bytes.starts_with(&theirs.sides[end]);
    ours.sides == theirs.sides || ours.has_gaps && ours.sides.iter().all(begins)
}

/// The connections that differ, and all that are in the capture, each `FILE END END`.
fn differences(capture: &Path) -> [BTreeSet<String>; 2] {
    let (ours, theirs) = (extracted(capture), followed(capture, "tcp", &[]));
    let name = capture.file_name().expect("a name").to_string_lossy();
    let both: BTreeSet<&Ends> = ours.keys().chain(theirs.keys()).collect();
    let none = Vec::new();
    let differs = |ends: &&&Ends| {
        let [ours, theirs] = [&ours, &theirs].map(|all| all.get(**ends).unwrap_or(&none));
        ours.len() != theirs.len() || !ours.iter().zip(theirs).all(|(ours, theirs)| agree(ours, theirs))
    };
    let words = |ends: &Ends| format!("{name} {}", ends.iter().cloned().collect::<Vec<_>>().join(" "));
    [
        both.iter().filter(differs).map(|ends| words(ends)).collect(),
        both.iter().map(|ends| words(ends)).collect(),
    ]
}

/// The known differences: three words, and the reason after them.
fn known() -> BTreeSet<String> {
    let lines = include_str!("differences.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").next().unwrap_or_default().trim().to_owned()).collect()
}

pub(crate) fn captures() -> Vec<PathBuf> {
    let dir = testing::captures();
    let listed = std::fs::read_dir(dir.join("protocols")).into_iter().flatten().flatten();
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix != "txt");
    let mut all: Vec<_> = listed.map(|entry| entry.path()).filter(is_capture).collect();
    all.extend(
        ["mix.pcap", "http.pcap"].map(|name| dir.join(name)).into_iter().filter(|path| path.is_file()),
    );
    all.sort();
    all
}

#[test]
fn streams_are_those_that_tshark_follows() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let captures = captures();
    if captures.is_empty() {
        testing::skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
        return;
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let [mut found, mut compared] = [BTreeSet::new(), BTreeSet::new()];
        // Each thread takes the next capture: a number only, so Relaxed.
        while let Some(capture) = captures.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            let [differing, all] = differences(capture);
            found.extend(differing);
            compared.extend(all);
        }
        [found, compared]
    };
    let [one, other] = std::thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(work));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let all = |at: usize| one[at].union(&other[at]).cloned().collect::<BTreeSet<String>>();
    let ([found, compared], known) = ([all(0), all(1)], known());
    assert!(compared.len() > 500, "only {} connections", compared.len());
    let new: Vec<_> = found.difference(&known).collect();
    assert!(new.is_empty(), "{} of {} differ from tshark: {new:#?}", new.len(), compared.len());
    // Of the connections that are in these captures: others may have none of the real ones.
    let gone: Vec<_> = known.intersection(&compared).filter(|line| !found.contains(*line)).collect();
    assert!(gone.is_empty(), "these do not differ any more: {gone:#?}");
}
