//! `quaff flows list`: the records of captures, segments and IPFIX files are those of `quaff flows --csv` of the same
//! run, in the order that was asked for, and a list that is cut is the beginning of the whole one.

use crate::made::{BEGIN_NS, Made, UDP, udp};
use crate::sample;
use crate::support::QUAFF;
use quaff_testkit::test_name;
use quaff_testpackets as build;
use serde_json::Value;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Flows of the made capture.
const FLOWS: u64 = 60;
const SYN_ACK_FIN: u64 = 0x13;

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).env("TZ", "UTC").output().expect("quaff runs")
}

#[track_caller]
fn text(args: &[&str]) -> String {
    let done = quaff(args);
    assert!(done.status.success(), "{args:?}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

fn words(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// UDP flows of different begins, lengths, packets and bytes, and a connection of TCP that is answered and closed.
fn made(dir: &Path) -> String {
    let mut made = Made::default();
    for n in 0..FLOWS {
        let (host, server) = (Ipv4Addr::new(10, 0, 0, 1 + n as u8), Ipv4Addr::new(192, 0, 2, 1));
        // Later flows begin earlier in each ten of them.
        let begin_ms = n / 10 * 1000 + (9 - n % 10) * 50;
        for step in 0..1 + n * 7 % 20 {
            let payload = vec![0; 20 + (n * 13 % 31) as usize];
            let packet = build::ipv4(host, server, UDP, &[], &build::udp(4000 + n as u16, 9999, &payload));
            made.ip(begin_ms + step * (10 + n % 7), &packet);
        }
    }
    for (ms, flags, is_back) in [(0, 2, false), (1, 0x12, true), (2, 0x11, false), (3, 0x11, true)] {
        made.tcp(8000 + ms, [40_000, 80], flags, is_back);
    }
    made.packets.sort_by_key(|(time_ns, _)| *time_ns);
    made.write(dir, "made.pcap").display().to_string()
}

/// Meters a capture into an IPFIX file, segments and CSV.
#[track_caller]
fn stored(file: &str, dir: &Path, more: &[&str]) -> [String; 3] {
    let paths = ["flows.ipfix", "segments", "flows.csv"].map(|name| dir.join(name).display().to_string());
    let [ipfix, parquet, csv] = &paths;
    let line = ["flows", file, "--ipfix", ipfix, "--parquet", parquet, "--csv", csv, "--probe", "p", "-q"];
    let done = quaff(&[&line[..], more].concat());
    assert!(matches!(done.status.code(), Some(0 | 1)), "{file}: {done:?}");
    paths
}

/// The rows of `quaff flows list --json`.
#[track_caller]
fn rows(path: &str, more: &[&str]) -> (Vec<Value>, Value) {
    let done = quaff(&[&["flows", "list", path, "--json", "-q"][..], more].concat());
    assert!(matches!(done.status.code(), Some(0 | 1)), "{path} {more:?}: {done:?}");
    let mut list: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let flows = list["flows"].take();
    (flows.as_array().expect("rows").clone(), list)
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"))
}

fn sum(row: &Value, name: &str) -> u64 {
    number(row, &format!("sent_{name}")) + number(row, &format!("received_{name}"))
}

/// The lines of a CSV with times cut to whole µs, as segments have them, sorted.
fn whole_us(csv: &str) -> Vec<String> {
    let cut = |field: &str| match field.len() == 30 && field.ends_with('Z') {
        true => format!("{}Z", &field[..26]),
        false => field.to_owned(),
    };
    let mut lines: Vec<_> =
        csv.lines().map(|line| line.split(',').map(cut).collect::<Vec<_>>().join(",")).collect();
    lines.sort();
    lines
}

#[test]
fn the_records_are_those_of_the_csv_of_the_same_run() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let files = sample::with_made(test, &sample::captures(6, 2 << 20, &[]), made(dir.path()));
    for (number, file) in files.iter().enumerate() {
        let folder = dir.path().join(number.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        let [ipfix, parquet, csv] = stored(file, &folder, &[]);
        let expected = std::fs::read_to_string(csv).expect("the CSV");
        let columns = expected.lines().next().expect("names").split(',').count();
        for path in [&ipfix, &parquet, file] {
            let done = quaff(&["flows", "list", path, "--csv", "-", "-q"]);
            let listed = String::from_utf8(done.stdout).expect("text");
            assert!(
                listed.starts_with(expected.lines().next().expect("names"))
                    && listed
                        .lines()
                        .next()
                        .expect("names")
                        .ends_with(",applicationName,quaffServerName,quaffApplicationProtocols"),
                "{listed}"
            );
            // Without the columns that follow those of --csv.
            let same = |line: &str| line.split(',').take(columns).collect::<Vec<_>>().join(",");
            let listed = listed.lines().map(same).collect::<Vec<_>>().join("\n");
            assert_eq!(whole_us(&listed), whole_us(&expected), "{path}");
        }
        let (of_json, sums) = rows(&parquet, &[]);
        assert_eq!(of_json.len() + 1, expected.lines().count(), "{file}");
        let packets: u64 = of_json.iter().map(|row| sum(row, "packets")).sum();
        assert_eq!(packets, sums["matching"]["packets"], "{file}: {sums}");
    }
}

#[test]
fn rows_are_sorted_and_the_first_ones_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [ipfix, parquet, _] = stored(&file, dir.path(), &[]);
    type Key = fn(&Value) -> i128;
    let orders: [(&str, Key); 5] = [
        ("start", |row| number(row, "first_ns").into()),
        ("end", |row| number(row, "last_ns").into()),
        ("bytes", |row| -i128::from(sum(row, "bytes"))),
        ("packets", |row| -i128::from(sum(row, "packets"))),
        ("duration", |row| -i128::from(number(row, "duration_ns"))),
    ];
    for path in [&ipfix, &parquet, &file] {
        let (unsorted, _) = rows(path, &[]);
        for (sort, key) in orders {
            let (sorted, _) = rows(path, &["--sort", sort]);
            let mut expected = unsorted.clone();
            expected.sort_by_key(key);
            assert_eq!(sorted, expected, "{path} {sort}");
            assert!(sort != "bytes" || sorted != unsorted, "{path}");
            let (first, sums) = rows(path, &["--sort", sort, "--top", "7"]);
            assert_eq!(first, expected[..7], "{path} {sort}");
            assert_eq!((number(&sums, "listed"), number(&sums["matching"], "records")), (7, FLOWS + 1));
        }
        let (largest, _) = rows(path, &["--top", "3"]);
        assert_eq!(largest, rows(path, &["--sort", "bytes"]).0[..3], "{path}");
    }
    let done = quaff(&["flows", "list", &parquet, "--top", "3"]);
    assert!(words(&done).contains("listed: the first 3 of 61 records"), "{done:?}");
}

#[test]
fn flows_are_chosen_as_by_the_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [ipfix, parquet, _] = stored(&file, dir.path(), &[]);
    let at = |ms: u64| format!("@{}.{:03}", BEGIN_NS / 1_000_000_000 + ms / 1000, ms % 1000);
    for more in [
        &["--where", "port 4007 or tcp"][..],
        &["--where", "packets > 10 and src net 10.0.0.0/27"],
        &["--from", &at(2000), "--to", &at(3000)],
        &["--where", "in if 0"],
    ] {
        for path in [&ipfix, &parquet, &file] {
            let report = text(&[&["flows", "report", path, "--json", "-q"][..], more].concat());
            let report: Value = serde_json::from_str(&report).expect("JSON");
            let (listed, sums) = rows(path, more);
            let total = &report["total"];
            assert_eq!(listed.len() as u64, number(total, "records"), "{path} {more:?}");
            assert!(!listed.is_empty(), "{path} {more:?}");
            for part in ["records", "packets", "bytes"] {
                assert_eq!(sums["matching"][part], total[part], "{path} {more:?}");
                assert_eq!(sums["left_out"][part], report["left_out"][part], "{path} {more:?}");
            }
        }
    }
    let done = quaff(&["flows", "list", &parquet, "--where", "tcp"]);
    assert!(words(&done).contains("left out by --where 'tcp': 60 records with"), "{done:?}");
    let report = quaff(&["flows", "report", &parquet, "--where", "tcp", "--by", "port", "-q"]);
    let report = String::from_utf8(report.stdout).expect("text");
    let left_out = report.lines().nth(1).unwrap_or_default();
    assert!(left_out.starts_with("Left out by --where 'tcp': 60 records"), "{report}");
    assert!(report.lines().next().is_some_and(|line| line.contains(" of IP in 1 flow")), "{report}");
}

#[test]
fn a_line_has_times_ends_flags_and_counts() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [ipfix, parquet, _] = stored(&file, dir.path(), &[]);
    for path in [&ipfix, &parquet, &file] {
        let shown = text(&["flows", "list", path, "--where", "tcp", "-q"]);
        let line = shown.lines().nth(2).unwrap_or_default();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected =
            "2023-11-14 22:13:28.000Z 0.003 s tcp 10.0.0.1:40000 → 10.0.0.2:80 ...A..SF 2 2 80 B 80 B";
        assert_eq!(line, expected, "{path}: {shown}");
        let (listed, _) = rows(path, &["--where", "tcp"]);
        assert_eq!(number(&listed[0], "sent_flags"), SYN_ACK_FIN, "{path}");
        assert_eq!(number(&listed[0], "duration_ns"), 3_000_000, "{path}");
    }
    // Zones are those of all commands.
    let mut berlin = Command::new(QUAFF);
    berlin.args(["flows", "list", &file, "--where", "tcp", "-q"]).env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3");
    let shown = berlin.output().expect("quaff runs").stdout;
    assert!(String::from_utf8_lossy(&shown).contains("2023-11-14 23:13:28.000+01:00"));
    let utc = berlin.arg("--utc").output().expect("quaff runs").stdout;
    assert!(String::from_utf8_lossy(&utc).contains("2023-11-14 22:13:28.000Z"));
    // The rates of a row of the report are over the time of the flow, whatever else is selected.
    for condition in ["tcp", "tcp or port 9999"] {
        let more = ["--by", "flow", "--where", condition, "--match", "tcp "];
        let report = text(&[&["flows", "report", &file, "--json", "-q"][..], &more[..]].concat());
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let row = &report["by"][0]["rows"][0];
        let rate = row["packets_per_s"].as_f64().expect("a rate");
        assert!((rate - 4.0 / 0.003).abs() < 1.0, "{condition}: {row}");
        assert_eq!(number(row, "last_ns") - number(row, "first_ns"), 3_000_000, "{row}");
    }
}

#[test]
fn lines_of_json_and_files_have_the_same_records() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [ipfix, parquet, _] = stored(&file, dir.path(), &[]);
    for path in [&ipfix, &parquet, &file] {
        let [csv, jsonl] = ["list.csv", "list.jsonl"].map(|name| dir.path().join(name).display().to_string());
        let shown = text(&["flows", "list", path, "--csv", &csv, "--jsonl", &jsonl, "--sort", "start"]);
        assert_eq!(shown, "", "a file takes the place of the table");
        let lines = std::fs::read_to_string(&jsonl).expect("lines");
        let of_lines: Vec<u64> = lines
            .lines()
            .map(|line| number(&serde_json::from_str(line).expect("JSON"), "packetDeltaCount"))
            .collect();
        let of_csv = std::fs::read_to_string(&csv).expect("the CSV");
        assert_eq!((of_csv.lines().count() - 1, of_lines.len()), (FLOWS as usize + 1, FLOWS as usize + 1));
        let of_json: Vec<u64> =
            rows(path, &["--sort", "start"]).0.iter().map(|row| number(row, "sent_packets")).collect();
        assert_eq!(of_lines, of_json, "{path}");
        assert_eq!(text(&["flows", "list", path, "--jsonl", "-", "--sort", "start", "-q"]), lines, "{path}");
    }
    for (more, said) in [
        (&["--json", "--csv", "-"][..], "stdout can have one of"),
        (&["--csv", &ipfix][..], "is read: write the list to another file"),
        (&["--csv", "both", "--jsonl", "both"][..], "have the same file"),
        (&["--active", "1s"][..], "--active is for packets"),
        (&["--top", "x"][..], "--top"),
        (&["--sort", "name"][..], "--sort"),
        (&["--from", "+1s"][..], "no first packet"),
    ] {
        let done = quaff(&[&["flows", "list", &ipfix][..], more].concat());
        assert!(done.status.code() == Some(2) && words(&done).contains(said), "{more:?}: {done:?}");
    }
    assert!(std::fs::metadata(&ipfix).expect("the file").len() > 1000, "an input is never emptied");
    for path in [&ipfix, &parquet] {
        let done = quaff(&["flows", path, "--csv", "-"]);
        let said = words(&done);
        assert!(done.status.code() == Some(2) && said.contains("'quaff flows list' lists them"), "{said}");
    }
    // A reader that has read enough is no error.
    let line = format!("{QUAFF} flows list {parquet} -q | head -1");
    let done = Command::new("sh").args(["-c", &line]).output().expect("a shell");
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}

#[test]
fn columns_that_were_not_recorded_are_named_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let [ipfix, parquet, _] = stored(&file, dir.path(), &["--no-applications"]);
    for path in [&ipfix, &parquet] {
        let done = quaff(&["flows", "list", path, "--where", "tcp"]);
        let said = words(&done).split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = "not recorded: application, server (recorded by quaff flows --applications)";
        assert!(done.status.success() && said.contains(expected), "{path}: {said}");
        let shown = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(shown.lines().nth(2).is_some_and(|line| line.matches('–').count() == 2), "{shown}");
        let (listed, sums) = rows(path, &["--where", "tcp"]);
        assert!(listed[0]["application"].is_null() && listed[0]["source"] == "10.0.0.1", "{listed:?}");
        assert_eq!(sums["not_recorded"], serde_json::json!(["application", "server"]));
    }
    let few = dir.path().join("few.ipfix").display().to_string();
    let template = "%IPV4_DST_ADDR %IN_PKTS %IN_BYTES %flowEndMilliseconds";
    text(&["flows", &file, "--ipfix", &few, "-T", template, "-q"]);
    let (listed, sums) = rows(&few, &[]);
    assert!(listed.iter().all(|row| row["source"].is_null() && row["sent_flags"].is_null()), "{listed:?}");
    assert!(listed.iter().any(|row| row["destination"] == "192.0.2.1"), "{listed:?}");
    let names = sums["not_recorded"].as_array().expect("names").clone();
    assert!(names.contains(&"source".into()) && names.contains(&"flags".into()), "{sums}");
}

#[test]
fn a_long_list_has_a_row_on_each_line_and_ends_with_its_reader() {
    // More than two lists of the meter.
    const ROWS: u16 = 1200;
    const BUFFER_BYTES: usize = 64 << 10;
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for n in 0..ROWS {
        made.ip(u64::from(n) * 1000, &udp([4000 + n, 9999], 20));
    }
    let file = made.write(dir.path(), "long.pcap").display().to_string();
    let json = text(&["flows", "list", &file, "--idle", "1s", "--json", "-q"]);
    assert!(json.len() > 2 * BUFFER_BYTES, "{} bytes", json.len());
    let lines: Vec<_> = json.lines().collect();
    assert_eq!((lines.len(), lines[0]), (usize::from(ROWS) + 2, "{\"flows\":["));
    for line in &lines[1..lines.len() - 1] {
        let row = serde_json::from_str(line.trim_end_matches(',')).expect("a row");
        assert_eq!(number(&row, "sent_packets"), 1);
    }
    // The input has not ended.
    let mut command = Command::new(QUAFF);
    command.args(["flows", "list", "-", "--idle", "1s", "--json", "-q"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("quaff runs");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("stdin");
    // It may have ended before it has read all.
    let _ = input.write_all(&std::fs::read(&file).expect("the capture"));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("its status") {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it reads on, for no reader");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    drop(input);
}
