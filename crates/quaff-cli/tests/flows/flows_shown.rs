//! `quaff flows top` and `quaff flows report`: their sums are those of the ledger and of an oracle, and the terminal is
//! restored whatever ends them.

use crate::sample;
use quaff_flow::collector::RecordStore;
use quaff_flow::export::Scene;
use quaff_parquet::{ParquetPlan, SegmentReader, SegmentStore};
use quaff_testkit::{skip, test_name};
use serde_json::Value;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/oracle.py");
const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/terminal.py");

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).output().expect("quaff runs")
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let done = quaff(args);
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{args:?}: {done:?}"))
}

#[track_caller]
fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn numbers(values: &Value) -> Vec<u64> {
    values.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// Captures of several protocols, large and small.
fn captures() -> Vec<PathBuf> {
    sample::captures(12, u64::MAX, &["mix.pcap"])
}

/// A capture with TCP, UDP and a few seconds.
fn made(dir: &Path) -> String {
    let path = dir.join("made.pcap").display().to_string();
    let line = ["generate", "-w", &path, "--size", "300", "--flows", "40", "--pps", "1k", "--count", "3000"];
    let done = quaff(&line);
    assert!(done.status.success(), "{done:?}");
    path
}

const ALL: &str = "flow,host,source,destination,port,application,server,protocol,vlan";

/// Asserts that each property of a report has all packets and bytes.
#[track_caller]
fn assert_whole(report: &Value) {
    let total = &report["total"];
    for by in report["by"].as_array().expect("properties") {
        let rows = by["rows"].as_array().expect("rows").iter();
        let others = Some(&by["others"]).filter(|others| !others.is_null());
        let rows: Vec<_> = rows.chain(others).collect();
        let sum = |name: &str| rows.iter().map(|row| number(row, name)).sum::<u64>();
        // At its other end, a packet that was sent was received.
        let names: &[[&str; 2]] = match by["by"].as_str() {
            Some("host") => &[["sent_packets", "packets"], ["received_bytes", "bytes"]],
            _ => &[["records", "records"], ["flows", "flows"], ["packets", "packets"], ["bytes", "bytes"]],
        };
        for [name, of] in names {
            assert_eq!(sum(name), number(total, of), "{name} by {}", by["by"]);
        }
        let over: u64 = rows.iter().flat_map(|row| numbers(&row["over_bytes"])).sum();
        let both = if by["by"] == "host" { sum("bytes") } else { number(total, "bytes") };
        assert_eq!(over, both, "over time, by {}", by["by"]);
    }
    for name in ["packets", "bytes"] {
        assert_eq!(
            numbers(&report["over"][name]).iter().sum::<u64>(),
            number(total, name),
            "{name} over time"
        );
    }
}

#[test]
fn sums_of_a_report_are_those_of_the_ledger_and_of_the_oracle() {
    let test = test_name!();
    let files = captures();
    if files.is_empty() {
        return skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
    }
    let Ok(oracle) = Command::new("python3").arg(ORACLE).args(&files).output() else {
        return skip(test, "there is no python3");
    };
    let oracle = String::from_utf8(oracle.stdout).expect("text");
    let ledgers = oracle.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let ledgers: Vec<_> = ledgers.map(|line| line["ledger"].clone()).filter(|line| !line.is_null()).collect();
    assert_eq!(ledgers.len(), files.len());
    for (file, oracle) in files.iter().zip(ledgers) {
        let file = file.display().to_string();
        let report = json(&["flows", "report", &file, "--json", "--by", ALL, "--top", "1000000"]);
        let ledger = json(&["flows", "--read", &file, "--ledger", "-", "-q"]);
        let total = &report["total"];
        for (name, of) in [("records", "flows_exported"), ("packets", "packets_in_flows")] {
            assert_eq!(number(total, name), number(&ledger, of), "{file}: {name}");
            assert_eq!(number(total, name), number(&oracle, of), "{file}: {name} of the oracle");
        }
        assert_eq!(number(total, "bytes"), number(&ledger, "bytes_in_flows"), "{file}");
        for name in ["packets", "bytes", "packets_ignored"] {
            assert_eq!(number(&report, name), number(&ledger, name), "{file}: {name}");
        }
        assert_eq!(number(&report, "packets"), number(&oracle, "packets"), "{file}");
        assert_whole(&report);
    }
}

#[test]
fn a_report_has_values_over_time_and_a_page() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let report = json(&["flows", "report", &file, "--json", "--over", "500ms", "--by", "host,port"]);
    assert_whole(&json(&[
        "flows", "report", &file, "--json", "--top", "9999", "--by", ALL, "--over", "100ms",
    ]));
    assert_eq!(number(&report["over"], "interval_ns"), 500_000_000);
    let packets = numbers(&report["over"]["packets"]);
    assert!((6..=7).contains(&packets.len()), "{packets:?}");
    assert_eq!(packets.iter().sum::<u64>(), 3000);
    let text = quaff(&["flows", "report", &file, "--over", "1s", "--top", "3"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for words in ["3,000 packets", "Hosts", "Ports", "Applications", "Protocols", "Over time", "3 of "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = dir.path().join("page.html").display().to_string();
    let done = quaff(&["flows", "report", &file, "--html", &page, "--by", "host,protocol", "-q"]);
    assert!(done.status.success() && done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("id=\"hosts\"") && page.contains("<svg class=\"pic"), "{page}");
    let filtered = json(&["flows", "report", &file, "--json", "-f", "tcp", "-q"]);
    assert_eq!((number(&filtered["total"], "packets"), filtered["first_ns"].is_null()), (0, true));
}

#[test]
fn a_report_of_a_folder_is_that_of_its_captures() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    std::fs::create_dir(dir.path().join("day")).expect("a folder");
    std::fs::rename(&file, dir.path().join("day/one.pcap")).expect("moved");
    std::fs::write(dir.path().join("day/notes.txt"), "text").expect("written");
    let folder = dir.path().display().to_string();
    let report = json(&["flows", "report", &folder, "--json"]);
    assert_eq!((number(&report, "files"), number(&report, "packets")), (1, 3000));
    let segment = dir.path().join("day/one.parquet").display().to_string();
    std::fs::write(&segment, "PAR1").expect("written");
    for (path, words) in [(&segment, "one.parquet"), (&folder, "one kind at a time")] {
        let refused = quaff(&["flows", "report", path]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(words), "{said}");
    }
}

/// Meters a capture into segments, with the names of applications.
#[track_caller]
fn segments(file: &str, folder: &Path, more: &[&str]) -> String {
    let folder = folder.display().to_string();
    let line = ["flows", "--read", file, "--parquet", &folder, "--probe", "p", "-q"];
    let done = quaff(&[&line[..], &["-T", "%applicationName %quaffServerName"], more].concat());
    // A damaged capture has the records before the damage.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{file}: {done:?}");
    folder
}

/// All rows of a report by all properties.
#[track_caller]
fn all_rows(path: &str, more: &[&str]) -> Value {
    let line = ["flows", "report", path, "--json", "-q", "--top", "1000000", "--by", ALL];
    json(&[&line[..], more].concat())
}

#[test]
fn a_report_of_segments_is_that_of_their_capture() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let files = sample::with_made(test, &captures(), made(dir.path()));
    for (number, file) in files.iter().enumerate() {
        let folder = |kind: &str| dir.path().join(format!("{kind}-{number}"));
        let whole = segments(file, &folder("whole"), &[]);
        // A segment for each list of records.
        let cut = segments(file, &folder("cut"), &["--segment-size", "1"]);
        for over in [&[][..], &["--over", "1s"]] {
            let mut expected = all_rows(file, over);
            for folder in [&whole, &cut] {
                let mut found = all_rows(folder, over);
                assert_eq!(found["verdict"], "lossless", "{file}");
                for report in [&mut expected, &mut found] {
                    // Losses that a capture records are before the meter; segments may be more than one file.
                    let report = report.as_object_mut().expect("an object");
                    report.retain(|name, _| name != "verdict" && name != "files");
                }
                assert_eq!(found, expected, "{file}, {over:?}");
            }
        }
    }
}

#[test]
fn tables_and_the_page_of_segments_are_those_of_their_capture() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let folder = segments(&file, &dir.path().join("flows"), &[]);
    let [tables, pages] = [["--over", "1s"], ["--html", "page.html"]].map(|more| {
        [&file, &folder].map(|path| {
            let mut quaff = Command::new(QUAFF);
            quaff.args(["flows", "report", path, "-q", "--by", ALL]).args(more).current_dir(dir.path());
            let done = quaff.output().expect("quaff runs");
            assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
            let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap_or_default();
            (String::from_utf8(done.stdout).expect("text"), page)
        })
    });
    // The first line has the name of the file.
    let [of_capture, of_segments] =
        tables.map(|(text, _)| text.split_once('\n').expect("lines").1.to_owned());
    assert_eq!(of_segments, of_capture);
    assert!(of_segments.contains("Over time") && of_segments.contains("Hosts"), "{of_segments}");
    let pictures = |page: &str| page.matches("<svg class=\"pic").count();
    let [(_, of_capture), (_, of_segments)] = &pages;
    assert!(pictures(of_capture) > 0 && pictures(of_segments) == pictures(of_capture), "{of_segments}");
    assert!(of_segments.contains("those of segments") && !of_capture.contains("those of segments"));
}

/// A folder with the records of a capture in segments of 100 rows, and their files in order.
fn many_segments(dir: &Path) -> (PathBuf, Vec<PathBuf>) {
    let one = segments(&made(dir), &dir.join("one"), &["--active", "200ms"]);
    let (mut records, folder) = (Vec::new(), dir.join("many"));
    for path in quaff_parquet::segments(Path::new(&one)).expect("a folder") {
        SegmentReader::open(&path).and_then(|segment| segment.read(&mut records)).expect("a segment");
    }
    let plan = ParquetPlan::new(folder.clone(), "many".into(), 1_795_421_000_000_000);
    let mut store = SegmentStore::new(ParquetPlan { rows_max: 100, ..plan });
    store.open(Scene::default()).expect("a folder");
    let kept = store.take(&records, 1_795_421_000_000_000_000).kept.records + store.finish().kept.records;
    assert_eq!(kept, records.len() as u64);
    let paths = quaff_parquet::segments(&folder).expect("a folder");
    assert!(paths.len() >= 5, "{paths:?}");
    (folder, paths)
}

/// The status of a report, its words, and the packets in its sums.
fn reported(paths: &[&Path]) -> (Option<i32>, String, u64) {
    let mut quaff = Command::new(QUAFF);
    let done =
        quaff.args(["flows", "report", "--json", "--by", "host"]).args(paths).output().expect("quaff runs");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code(), words, report["total"]["packets"].as_u64().unwrap_or(0))
}

#[test]
fn a_segment_that_cannot_be_read_costs_its_own_records_only() {
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, paths) = many_segments(dir.path());
    let packets_of = |path: &Path| SegmentReader::open(path).expect("a segment").ledger().kept.packets;
    let (status, words, all) = reported(&[&folder]);
    assert_eq!((status, all), (Some(0), paths.iter().map(|path| packets_of(path)).sum()), "{words}");
    let path = &paths[2];
    let (ours, lost) = (std::fs::read(path).expect("the file"), packets_of(path));
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let mut flipped = ours.clone();
    flipped[60] ^= 1;
    let foreign = ours.windows(12).position(|bytes| bytes == b"quaff.schema").expect("the key");
    let foreign = [&ours[..foreign], b"other.schema", &ours[foreign + 12..]].concat();
    let cases: [(&str, &[u8], &str); 5] = [
        ("damaged rows", &flipped, "the SHA-256 differs"),
        ("of another schema", &foreign, "the key quaff.schema is missing"),
        ("cut", &ours[..ours.len() / 2], "cannot read"),
        ("overwritten", b"no Parquet at all", "cannot read"),
        ("empty", b"", "cannot read"),
    ];
    for (kind, bytes, expected) in cases {
        std::fs::write(path, bytes).expect("written");
        let (status, words, packets) = reported(&[&folder]);
        assert_eq!((status, packets), (Some(1), all - lost), "{kind}: {words}");
        let line =
            words.lines().find(|line| line.contains(&name)).unwrap_or_else(|| panic!("{kind}: {words}"));
        assert!(line.contains(expected) && line.contains("its records are in no sum"), "{kind}: {words}");
        assert!(!words.contains("are not there"), "{kind}: it is no gap: {words}");
        let (status, words, _) = reported(&[path]);
        assert!(status == Some(2) && words.contains("no segment can be read"), "{kind}: {words}");
    }
    std::fs::remove_file(path).expect("removed");
    let (status, words, packets) = reported(&[&folder]);
    assert_eq!((status, packets), (Some(1), all - lost), "{words}");
    assert!(words.contains("are not there: 1, the first is number 3;"), "{words}");
}

#[test]
fn a_segment_counts_once_and_none_while_it_is_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let (folder, paths) = many_segments(dir.path());
    let (_, _, all) = reported(&[&folder]);
    std::fs::create_dir(folder.join("copies")).expect("a folder");
    std::fs::copy(&paths[1], folder.join("copies/again.parquet")).expect("copied");
    let part = format!(".{}.part", paths[1].file_name().expect("a name").to_string_lossy());
    std::fs::copy(&paths[1], folder.join("copies").join(part)).expect("copied");
    let (status, words, packets) = reported(&[&folder, &paths[0]]);
    assert_eq!((status, packets), (Some(0), all), "{words}");
    assert_eq!(words.matches("is there twice, and counts once").count(), 2, "{words}");
    let refused = quaff(&["flows", "report", &folder.display().to_string(), "-f", "tcp"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && words.contains("--filter is for packets"), "{words}");
}

#[test]
fn once_prints_a_table_or_json_of_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let top = json(&["flows", "top", "--read", &file, "--once", "--json", "--by", "source", "--rows", "5"]);
    assert_eq!(number(&top["total"], "packets"), 3000);
    let rows = top["rows"].as_array().expect("rows");
    assert!(rows.len() <= 5 && number(&top, "groups") >= rows.len() as u64, "{top}");
    let [bytes, seconds] =
        [&rows[0]["bytes"], &top["seconds"]].map(|value| value.as_f64().expect("a number"));
    let rate = rows[0]["bits_per_s"].as_f64().expect("a rate");
    assert!((rate - 8.0 * bytes / seconds).abs() < 1.0, "{top}");
    let text = quaff(&["flows", "top", "--read", &file, "--once", "--match", "no such row"]);
    assert!(text.status.success(), "{text:?}");
    let text = quaff(&["flows", "top", "--read", &file, "--once", "--rows", "2"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("b/s") && text.contains(" → "), "{text}");
    // Without a terminal, COLUMNS has its width.
    let mut narrow = Command::new(QUAFF);
    narrow.args(["flows", "top", "--read", &file, "--once", "-q"]).env("COLUMNS", "70");
    let narrow = String::from_utf8(narrow.output().expect("quaff runs").stdout).expect("text");
    assert!(narrow.contains(" left out: ") && narrow.contains("--wide"), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 70), "{narrow}");
    // A screen needs a terminal.
    let refused = quaff(&["flows", "top", "--read", &file]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("--once"), "{said}");
}

/// The state of a terminal on which a command was shown and ended; `None` after a skip.
fn on_terminal(test: &str, end: &str, expected: &str, command: &[&str]) -> Option<Value> {
    let mut python = Command::new("python3");
    let Ok(done) = python.arg(TERMINAL).args([end, expected, QUAFF]).args(command).output() else {
        skip(test, "there is no python3");
        return None;
    };
    let answer = serde_json::from_slice(&done.stdout);
    Some(answer.unwrap_or_else(|_| panic!("{end}: {}", String::from_utf8_lossy(&done.stderr))))
}

#[test]
fn the_terminal_is_restored_whatever_ends_top() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let command = ["flows", "top", "--read", &file, "--interval", "200ms"];
    let ends = [
        ("key:q", Some(0)),
        ("key:\u{3}", Some(0)),
        ("signal:INT", Some(0)),
        ("signal:TERM", Some(0)),
        ("signal:HUP", Some(0)),
        ("signal:QUIT", Some(0)),
        ("signal:USR1", Some(0)),
        ("signal:ALRM", Some(0)),
        ("signal:SEGV", Some(-11)),
        ("signal:ABRT", Some(-6)),
        ("stop", Some(0)),
    ];
    for (end, code) in ends {
        let Some(state) = on_terminal(test, end, "→", &command) else { return };
        assert!(state["shown"] == true && state["raw"] == true, "{end}: {state}");
        assert_eq!((&state["restored"], &state["left"]), (&true.into(), &true.into()), "{end}: {state}");
        assert_eq!(state["code"].as_i64(), code, "{end}: {state}");
        if end == "stop" {
            assert!(state["stopped"] == true && state["again"] == true, "{state}");
        }
        let after = state["after"].as_str().expect("text");
        assert!(code != Some(0) || after.contains(" packets in "), "{end}: {after}");
    }
    let state = on_terminal(test, "close", "→", &command).expect("python3");
    assert!(!state["code"].is_null(), "it runs on without its terminal: {state}");
}

#[test]
fn keys_change_what_top_shows() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let file = made(dir.path());
    let top = ["flows", "top", "--read", &file, "--interval", "100ms", "--by", "protocol"];
    let Some(state) = on_terminal(test, "key:/none\rq", "udp", &top) else { return };
    assert_eq!(state["code"].as_i64(), Some(0), "{state}");
    // The last line, of which only the cells that change are drawn.
    let text = state["text"].as_str().expect("text");
    assert!(text.contains("Esc:"), "{text}");
}

/// Packets over loopback, until it is dropped.
struct Sender {
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sender {
    fn start(port: u16) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            while !ended.load(Ordering::Relaxed) {
                socket.send_to(&[7; 972], ("127.0.0.1", port)).expect("sent");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn top_shows_the_rates_of_an_interface() {
    let test = test_name!();
    if std::fs::metadata("/proc/self").map_or(true, |found| found.uid() != 0) {
        return skip(test, "it needs root to capture");
    }
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = receiver.local_addr().expect("its address").port();
    let filter = format!("udp port {port}");
    let _sender = Sender::start(port);
    let input = ["flows", "top", "-i", "lo", "-f", &filter];
    let once = json(&[&input[..], &["--once", "--duration", "1s", "--json"]].concat());
    let row = &once["rows"][0];
    assert!(row["name"].as_str().is_some_and(|name| name.ends_with(&format!("127.0.0.1:{port}"))), "{once}");
    assert_eq!(number(row, "bytes"), 1000 * number(row, "packets"), "{once}");
    assert!(number(row, "packets") > 10, "{once}");
    // The run is shorter than the windows.
    let [rate, mean] = ["bits_per_s", "mean_10s_bits_per_s"].map(|name| row[name].as_f64().expect("a rate"));
    assert!((rate - mean).abs() <= 1.0 + rate / 1000.0, "{once}");
    let live = [&input[..], &["--interval", "200ms", "--by", "port"]].concat();
    let Some(state) = on_terminal(test, "key:q", "b/s", &live) else { return };
    assert_eq!((&state["restored"], state["code"].as_i64()), (&true.into(), Some(0)), "{state}");
}
