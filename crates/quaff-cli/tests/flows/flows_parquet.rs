//! `quaff flows --parquet`: other programs read the rows that `--json` has, and a crash leaves no half segment.

use jiff::Timestamp;
use quaff_testkit::{skip, test_name};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const READERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/readers.py");
const INSTALLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/readers");
/// Longer than anything here takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Columns, and the fields of JSON that have their values.
const FIELDS: [(&str, &str); 27] = [
    ("sourceTransportPort", "sourceTransportPort"),
    ("destinationTransportPort", "destinationTransportPort"),
    ("protocolIdentifier", "protocolIdentifier"),
    ("flowEndReason", "flowEndReason"),
    ("ipVersion", "ipVersion"),
    ("octetDeltaCount", "octetDeltaCount"),
    ("packetDeltaCount", "packetDeltaCount"),
    ("reverseOctetDeltaCount", "reverseOctetDeltaCount"),
    ("reversePacketDeltaCount", "reversePacketDeltaCount"),
    ("tcpControlBits", "tcpControlBits"),
    ("reverseTcpControlBits", "reverseTcpControlBits"),
    ("ipClassOfService", "ipClassOfService"),
    ("vlanId", "vlanId"),
    ("dot1qCustomerVlanId", "dot1qCustomerVlanId"),
    ("ingressInterface", "ingressInterface"),
    ("biflowDirection", "biflowDirection"),
    ("directionRule", "quaffInitiatorRule"),
    ("tunnelId", "quaffTunnelId"),
    ("lostOctets", "quaffLostOctetCount"),
    ("reverseLostOctets", "reverseQuaffLostOctetCount"),
    ("retransmittedPackets", "quaffRetransmittedPacketCount"),
    ("reverseRetransmittedPackets", "reverseQuaffRetransmittedPacketCount"),
    ("sourceAS", "bgpSourceAsNumber"),
    ("destinationAS", "bgpDestinationAsNumber"),
    ("sourcePrefixLength", "sourceIPv4PrefixLength"),
    ("destinationPrefixLength", "destinationIPv4PrefixLength"),
    ("icmpTypeCode", "icmpTypeCodeIPv4"),
];

/// A run: its folder, and the rows that its segments should have.
struct Run {
    dir: tempfile::TempDir,
    rows: Vec<String>,
    sums: BTreeMap<String, i128>,
}

impl Run {
    fn segments(&self) -> PathBuf {
        self.dir.path().join("flows")
    }
}

/// The Python that has the readers of `make test`, or of `make interop`; `None` after a skip.
fn python(test: &str, purpose: &str) -> Option<PathBuf> {
    let done = Command::new(INSTALLER).arg(purpose).output().expect("bash runs");
    if !done.status.success() {
        let why = String::from_utf8_lossy(&done.stderr);
        skip(test, &format!("no readers of Parquet can be installed: {}", why.trim()));
        return None;
    }
    Some(PathBuf::from(String::from_utf8_lossy(&done.stdout).trim()))
}

/// Captures with TCP, UDP, ICMP, IPv6, VLAN and names of servers: at most 4 MB of them.
fn captures(test: &str) -> Vec<PathBuf> {
    let folder = quaff_testkit::captures();
    let mut found = vec![folder.join("mix.pcap")];
    let entries = std::fs::read_dir(folder.join("protocols")).into_iter().flatten().flatten();
    found.extend(entries.map(|entry| entry.path()));
    let is_small =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.len() < 4 << 20);
    let is_capture = |path: &PathBuf| path.extension().is_some_and(|end| end == "pcap" || end == "pcapng");
    found.retain(|path| is_capture(path) && is_small(path));
    found.sort();
    if found.is_empty() {
        skip(
            test,
            &format!("there are no captures in {}; QUAFF_CAPTURES says where to look", folder.display()),
        );
    }
    found
}

/// Meters captures into JSON and into segments.
fn run(test: &str, template: bool, more: &[&str]) -> Option<Run> {
    let files = captures(test);
    if files.is_empty() {
        return None;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let [json, segments, table] =
        ["flows.json", "flows", "as.txt"].map(|name| dir.path().join(name).display().to_string());
    std::fs::write(&table, "0.0.0.0/1\t4200000001\n128.0.0.0/1 65001\n2000::/3\t64496\n").expect("written");
    let fields = FIELDS.map(|(_, field)| format!("%{field}")).join(" ")
        + " %flowStartNanoseconds %flowEndNanoseconds %sourceIPv4Address %destinationIPv4Address"
        + " %applicationName %quaffServerName %quaffApplicationProtocols %quaffIsContinued";
    let mut quaff = Command::new(QUAFF);
    quaff.args(["flows", "--jsonl", &json, "--parquet", &segments, "--ledger", "-", "--probe", "Köln 1"]);
    quaff.args(["--observation-point", "7", "--active", "5s", "--salvage"]).args(more);
    if template {
        quaff.args(["-T", &fields, "--as", &table]);
    }
    for file in &files {
        quaff.arg("--read").arg(file);
    }
    let done = quaff.output().expect("quaff runs");
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("a ledger");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(ledger["failure"], Value::Null, "{stderr}");
    let sink = ledger["sinks"].as_array().expect("sinks").iter().find(|sink| sink["kind"] == "parquet");
    let sink = sink.expect("the sink");
    assert_eq!(sink["sent"]["records"], ledger["flows_exported"], "{ledger}");
    assert_eq!(sink["sent"]["packets"], ledger["packets_in_flows"], "{ledger}");
    let text = std::fs::read_to_string(&json).expect("records");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let rows: Vec<_> = records.map(|record| expected(&record)).collect();
    assert!(rows.len() > 100, "{} rows", rows.len());
    let mut sums = BTreeMap::new();
    for (name, value) in rows.iter().flatten() {
        if let Some(number) = value.as_i64() {
            *sums.entry(name.clone()).or_default() += i128::from(number);
        }
    }
    let mut rows: Vec<_> = rows.into_iter().map(|row| Value::Object(row).to_string()).collect();
    rows.sort();
    Some(Run { dir, rows, sums })
}

/// The row of a record of JSON. A column without a value counts as 0 or as an empty text.
fn expected(record: &Value) -> Map<String, Value> {
    let number = |name: &str| record[name].as_u64().unwrap_or(0);
    let us = |name: &str| {
        let time: Timestamp = record[name].as_str().unwrap_or_default().parse().expect("a time");
        time.as_microsecond()
    };
    let ip = |end: &str| {
        let found = [4, 6].iter().find_map(|version| record[format!("{end}IPv{version}Address")].as_str());
        found.unwrap_or_else(|| panic!("{end} in {record}")).to_owned()
    };
    let mut row = Map::new();
    for (column, field) in FIELDS {
        let is_family = column.ends_with("PrefixLength") || column == "icmpTypeCode";
        let twin = if is_family { number(&field.replace("IPv4", "IPv6")) } else { 0 };
        row.insert(column.into(), (number(field) + twin).into());
    }
    if number("protocolIdentifier") != 6 {
        // Followed by TCP only.
        let of_tcp =
            ["lostOctets", "reverseLostOctets", "retransmittedPackets", "reverseRetransmittedPackets"];
        of_tcp.iter().for_each(|name| drop(row.insert((*name).into(), 0.into())));
    }
    if record["ipVersion"].is_null() {
        let is_v6 = record["sourceIPv6Address"].is_string();
        row.insert("ipVersion".into(), (if is_v6 { 6 } else { 4 }).into());
    }
    if record["biflowDirection"].is_null() {
        row.insert("biflowDirection".into(), u64::from(number("quaffInitiatorRule") != 0).into());
    }
    row.insert("flowStart".into(), us("flowStartNanoseconds").into());
    row.insert("flowEnd".into(), us("flowEndNanoseconds").into());
    row.insert("sourceAddress".into(), ip("source").into());
    row.insert("destinationAddress".into(), ip("destination").into());
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    row.insert("applicationName".into(), text("applicationName").into());
    row.insert("serverName".into(), text("quaffServerName").into());
    row.insert("applicationProtocols".into(), text("quaffApplicationProtocols").into());
    row.insert("isContinued".into(), u64::from(record["quaffIsContinued"] == true).into());
    row.insert("observationPointId".into(), 7.into());
    row.insert("probe".into(), "Köln 1".into());
    row
}

/// Columns that JSON has not: of the segment, or without a field of their own.
const OTHERS: [&str; 4] = ["segmentBoot", "segmentSequence", "mplsTopLabel", "rttMicroseconds"];

/// Compares all that another program reads with the JSON; returns its last line.
fn compare(engine: &str, python: &Path, run: &Run) -> Value {
    let done =
        Command::new(python).arg(READERS).arg(engine).arg(run.segments()).output().expect("python runs");
    assert!(done.status.success(), "{engine}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("text");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let seen = lines.pop().expect("a last line");
    let mut rows = Vec::new();
    for line in lines {
        let Value::Object(mut row) = line else { panic!("{engine}: {line}") };
        OTHERS.iter().for_each(|name| assert!(row.remove(*name).is_some(), "{engine}: no {name}"));
        for (name, value) in &mut row {
            if value.is_null() {
                *value = if ["applicationName", "serverName", "applicationProtocols"].contains(&name.as_str())
                {
                    "".into()
                } else {
                    0.into()
                };
            }
        }
        rows.push(Value::Object(row).to_string());
    }
    rows.sort();
    for (found, expected) in rows.iter().zip(&run.rows) {
        assert_eq!(found, expected, "{engine}");
    }
    assert_eq!((rows.len(), &seen["rows"]), (run.rows.len(), &json!(run.rows.len())), "{engine}");
    for (name, sum) in &run.sums {
        // Modulo 2^64.
        assert_eq!(seen["sums"][name].as_u64().unwrap_or(0), *sum as u64, "{engine}: {name}");
    }
    seen
}

#[test]
fn pyarrow_and_duckdb_read_the_rows_of_the_json() {
    let test = test_name!();
    let (Some(python), Some(run)) = (python(test, "test"), run(test, true, &[])) else { return };
    let seen = compare("pyarrow", &python, &run);
    let types = &seen["types"];
    for (name, expected) in [
        ("flowStart", "timestamp[us, tz=UTC] not null"),
        ("sourceAddress", "string not null"),
        ("sourceTransportPort", "int32 not null"),
        ("octetDeltaCount", "int64 not null"),
        ("lostOctets", "int64"),
        ("serverName", "string"),
        ("probe", "string not null"),
    ] {
        assert_eq!(types[name], expected, "{types}");
    }
    let seen = compare("duckdb", &python, &run);
    let filtered = &seen["filtered"];
    assert!(filtered["found"] == filtered["expected"] && filtered["found"][0].is_u64(), "{filtered}");
    for (by, expected) in seen["grouped"].as_object().expect("groupings") {
        assert_eq!(groups_of_report(&run.segments(), by), *expected, "by {by}");
    }
    let columns = &seen["columns"];
    for (name, encoding, has_bloom) in [
        ("flowStart", "DELTA_BINARY_PACKED", false),
        ("flowEnd", "DELTA_BINARY_PACKED", false),
        ("sourceAddress", "RLE_DICTIONARY", true),
        ("destinationAddress", "RLE_DICTIONARY", true),
        ("sourceTransportPort", "PLAIN", false),
        ("probe", "RLE_DICTIONARY", false),
    ] {
        let found = &columns[name];
        let encodings = found[0].as_str().expect("encodings");
        assert!(encodings.contains(encoding), "{name}: {found}");
        assert_eq!((&found[1], &found[2]), (&json!(has_bloom), &json!("ZSTD")), "{name}: {found}");
    }
}

/// Records, packets and bytes of TCP and UDP by a property, as a report has them.
fn groups_of_report(segments: &Path, by: &str) -> Value {
    let args = ["flows", "report", "-q", "--json", "--by", by, "--top", "1000000", "--where", "tcp or udp"];
    let done = Command::new(QUAFF).args(args).arg(segments).output().expect("quaff runs");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let rows = report["by"][0]["rows"].as_array().expect("rows");
    let sums = |row: &Value| json!([row["records"], row["packets"], row["bytes"]]);
    rows.iter().map(|row| (row["name"].as_str().expect("a name").to_owned(), sums(row))).collect()
}

/// Without fields that the meter has to compute, their columns have no values.
#[test]
fn columns_that_no_template_asks_for_have_no_values() {
    let test = test_name!();
    let (Some(python), Some(run)) =
        (python(test, "test"), run(test, false, &["--segment-size", "1", "--no-applications"]))
    else {
        return;
    };
    let sums = &compare("pyarrow", &python, &run)["sums"];
    for name in
        ["lostOctets", "rttMicroseconds", "retransmittedPackets", "sourceAS", "destinationPrefixLength"]
    {
        assert_eq!(sums[name], Value::Null, "{name}: {sums}");
    }
}

#[test]
#[ignore = "interop: `make interop` installs the readers"]
#[allow(clippy::print_stderr, reason = "`make interop` lists the engines")]
fn interop_each_engine_reads_the_rows_of_the_json() {
    let test = test_name!();
    let python = python(test, "interop").expect("the readers: scripts/readers interop");
    let run = run(test, true, &[]).expect("captures");
    for engine in ["pyarrow", "duckdb", "chdb", "polars", "pyspark"] {
        let begun = Instant::now();
        compare(engine, &python, &run);
        eprintln!("{engine}: {} rows, {:.1} s", run.rows.len(), begun.elapsed().as_secs_f64());
    }
}

/// The names of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => files(&path),
        path => vec![path.file_name().unwrap_or_default().to_string_lossy().into_owned()],
    });
    found.collect()
}

/// A run that reads stdin, killed when it is dropped.
struct Fed(Child);

impl Drop for Fed {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// kill -9 in the middle of a segment: no file has the name of one, and the next run is not disturbed.
#[test]
fn a_crash_in_mid_segment_leaves_no_segment() {
    let test = test_name!();
    let mix = quaff_testkit::captures().join("mix.pcap");
    if !mix.is_file() {
        return skip(test, "there is no mix.pcap; QUAFF_CAPTURES says where to look");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let segments = dir.path().join("flows");
    let mut quaff = Command::new(QUAFF);
    quaff.args(["flows", "--read", "-", "--active", "100ms", "--idle", "100ms", "--probe", "p", "--parquet"]);
    quaff.arg(&segments).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut fed = Fed(quaff.spawn().expect("quaff runs"));
    let mut stdin = fed.0.stdin.take().expect("a pipe");
    let bytes = std::fs::read(&mix).expect("the capture");
    let feeder = std::thread::spawn(move || {
        // The input does not end before the kill, which breaks the pipe.
        let _ = stdin.write_all(&bytes);
        stdin
    });
    let begun = Instant::now();
    while files(&segments).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "no segment was begun");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(fed);
    drop(feeder.join().expect("the feeder"));
    let left = files(&segments);
    assert!(left.iter().all(|name| name.starts_with(".p-") && name.ends_with(".part")), "{left:?}");
    assert_eq!(left.len(), 1, "{left:?}");

    let mut again = Command::new(QUAFF);
    again
        .args(["flows", "--probe", "p", "--ledger", "-", "--read"])
        .arg(&mix)
        .arg("--parquet")
        .arg(&segments);
    let done = again.output().expect("quaff runs");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let whole = files(&segments).into_iter().filter(|name| name.ends_with(".parquet")).count();
    assert!(whole > 0);
}
