//! `quaff info`: what it finds in files is what capinfos finds; damage and recorded drops are in its exit status.

use crate::stamped::{File, Format, START_NS};
use crate::support::{self, QUAFF, folder, run, tool};
use quaff_testkit::{captures, skip, test_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn info(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("info").args(args).output().expect("quaff runs")
}

/// `quaff info --json ARGS`, and its exit status.
fn json(args: &[&str]) -> (Value, Option<i32>) {
    let done = info(&[&["--json"], args].concat());
    let json = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    (json, done.status.code())
}

fn put(dir: &TempDir, name: &str, bytes: &[u8]) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

fn stdout(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// All captures below a folder.
pub(crate) fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).expect("a folder").flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|end| end.to_string_lossy().contains("cap")) {
            found.push(path);
        }
    }
}

/// A row of `capinfos -T`, by the headings.
type Row = BTreeMap<String, String>;

/// The rows of capinfos by file.
fn capinfos(command: &mut Command, files: &[PathBuf]) -> BTreeMap<PathBuf, Row> {
    // Its exit status is that of the worst file, and does not matter here.
    let done =
        command.args(["-A", "-T", "-m", "-Q", "-M", "-S"]).args(files).output().expect("capinfos runs");
    let text = stdout(&done);
    let cells = |line: &str| -> Vec<String> {
        let inner = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')).unwrap_or_default();
        inner.split("\",\"").map(str::to_owned).collect()
    };
    let mut lines = text.lines();
    let heads = cells(lines.next().expect("a line of headings"));
    let rows = lines.map(cells).filter(|row| row.len() == heads.len());
    rows.map(|row| (PathBuf::from(&row[0]), heads.iter().cloned().zip(row).collect())).collect()
}

/// Asserts that a time in seconds, with as many digits as capinfos knows, is that of quaff.
fn assert_time(what: &str, seconds: &str, ns: Option<u64>) {
    let Some((whole, fraction)) = seconds.split_once('.') else {
        assert_eq!((seconds, ns), ("n/a", None), "{what}");
        return;
    };
    let ns = ns.unwrap_or_else(|| panic!("{what}: {seconds}"));
    let known = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    assert_eq!(format!("{whole}.{fraction}"), known[..whole.len() + 1 + fraction.len()], "{what}");
}

/// capinfos divides by a difference of two numbers of seconds since 1970, which are exact to 0.24 µs.
fn assert_rate(what: &str, printed: &str, ours: &Value, seconds: &Value) {
    match (printed.parse::<f64>(), ours.as_f64()) {
        // Without a duration there is no rate; capinfos prints 0.00.
        (Ok(0.0) | Err(_), None) => {}
        (Ok(theirs), Some(ours)) => {
            let inexact = ours * 5e-7 / seconds.as_f64().expect("a duration");
            assert!((theirs - ours).abs() <= 0.01 + inexact, "{what}: {theirs} {ours}");
        }
        _ => panic!("{what}: {printed} {ours}"),
    }
}

fn assert_as_capinfos(file: &Value, row: &Row) {
    let path = file["path"].as_str().expect("a path");
    let what = |field: &str| format!("{path}: {field}");
    let number = |field: &str| row[field].parse::<u64>().ok();
    assert_eq!(number("Number of packets"), file["packets"].as_u64(), "{}", what("packets"));
    assert_eq!(number("File size (bytes)"), file["file_bytes"].as_u64(), "{}", what("size"));
    assert_eq!(number("Data size (bytes)"), file["wire_bytes"].as_u64(), "{}", what("data"));
    assert_time(&what("start"), &row["Start time"], file["first_ns"].as_u64());
    assert_time(&what("end"), &row["End time"], file["last_ns"].as_u64());
    assert_rate(
        &what("packet rate"),
        &row["Average packet rate (packets/sec)"],
        &file["pps"],
        &file["seconds"],
    );
    assert_rate(&what("bit rate"), &row["Data bit rate (bits/sec)"], &file["bps"], &file["seconds"]);
    let is_ordered = if file["backward"] == 0 { "True" } else { "False" };
    assert_eq!(row["Strict time order"], is_ordered, "{}", what("order"));
    for (head, field) in
        [("Capture hardware", "hardware"), ("Capture oper-sys", "os"), ("Capture application", "application")]
    {
        assert_eq!(row[head], file[field].as_str().unwrap_or_default(), "{}", what(field));
    }
    let theirs = &row["File type"];
    assert_eq!(theirs.contains("pcapng"), file["format"] == "pcapng", "{}: {theirs}", what("format"));
}

#[test]
fn each_field_is_that_of_capinfos() {
    let test = test_name!();
    let Some(mut command) = tool(test, "capinfos") else { return };
    let mut files = Vec::new();
    files_below(&captures(), &mut files);
    assert!(files.len() > 50, "{}", files.len());
    let rows = capinfos(&mut command, &files);
    let words: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (report, _) = json(&words);
    let mut compared = 0;
    for file in report["files"].as_array().expect("files") {
        let path = Path::new(file["path"].as_str().expect("a path"));
        // A file that capinfos does not read to its end has no row.
        if let Some(row) = rows.get(path).filter(|_| file["error"].is_null()) {
            assert_as_capinfos(file, row);
            compared += 1;
        }
    }
    assert!(compared > files.len() * 9 / 10, "{compared} of {}", files.len());
    let sum: u64 = rows.values().filter_map(|row| row["Number of packets"].parse::<u64>().ok()).sum();
    assert!(report["total"]["packets"].as_u64() >= Some(sum), "{}", report["total"]);
}

#[test]
fn packets_of_interfaces_are_those_of_capinfos() {
    let Some(mut command) = tool(test_name!(), "capinfos") else { return };
    let dir = folder();
    let mut merged = Command::new("mergecap");
    let sources = ["a", "b"].map(|name| {
        put(
            &dir,
            &format!("{name}.pcapng"),
            &File::new(Format::Pcapng).frames(0..name.len() as u64 * 9).bytes,
        )
    });
    let out = dir.path().join("both.pcapng");
    run(merged.args(["-I", "none", "-w"]).arg(&out).args(&sources));
    let text = run(command.args(["-I", "-M"]).arg(&out));
    let prefix = "Number of packets = ";
    let theirs: Vec<u64> =
        text.lines().filter_map(|line| line.trim().strip_prefix(prefix)?.parse().ok()).collect();
    let (report, _) = json(&[&out.display().to_string()]);
    let ours = report["files"][0]["interfaces"].as_array().expect("interfaces");
    let ours: Vec<u64> = ours.iter().filter_map(|interface| interface["packets"].as_u64()).collect();
    assert_eq!((ours.len(), ours), (2, theirs));
}

#[test]
fn a_damaged_file_is_summarised_up_to_the_damage() {
    let dir = folder();
    let mut bytes = File::new(Format::Pcapng).frames(0..50).bytes;
    let damage_at = bytes.len();
    bytes.extend([6, 0, 0, 0, 17, 0, 0, 0]);
    let after = File::new(Format::Pcapng).frames(50..60).bytes;
    let path = put(&dir, "damaged.pcapng", &[bytes, after].concat());
    let (report, code) = json(&[&path]);
    let file = &report["files"][0];
    assert_eq!((code, &file["packets"], &file["broken"]["offset"]), (Some(1), &50.into(), &damage_at.into()));
    assert_eq!(report["total"]["damaged"], 1);
    let shown = info(&[&path]);
    let text = stdout(&shown);
    assert!(
        text.contains("50, ") && text.contains("DAMAGED") && text.contains("not a multiple of 4"),
        "{text}"
    );
    assert!(String::from_utf8_lossy(&shown.stderr).contains(&format!("offset {damage_at}")), "{shown:?}");
    let (report, code) = json(&["--salvage", &path]);
    let file = &report["files"][0];
    assert_eq!((code, &file["packets"], &file["skipped"]["count"]), (Some(1), &60.into(), &1.into()));

    let missing = info(&["--json", &dir.path().join("missing").display().to_string(), &path]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("missing: No such file"), "{missing:?}");
}

#[test]
fn compressed_files_and_pipes_are_read_like_plain_ones() {
    let dir = folder();
    let path = put(&dir, "plain.pcapng", &File::new(Format::Pcapng).frames(0..3000).bytes);
    let strip = |mut report: Value| {
        let file = report["files"][0].as_object_mut().expect("an object");
        ["path", "compression", "file_bytes"].iter().for_each(|field| drop(file.remove(*field)));
        report["files"][0].take()
    };
    let (plain, code) = json(&[&path]);
    assert_eq!((code, &plain["files"][0]["packets"]), (Some(0), &3000.into()));
    let plain = strip(plain);
    for name in ["gzip", "zstd", "lz4"] {
        let Some(mut packer) = tool(test_name!(), name) else {
            continue;
        };
        let packed = format!("{path}.{name}");
        let done = packer.args(["-c", &path]).output().expect("it runs");
        std::fs::write(&packed, &done.stdout).expect("a file");
        let (report, _) = json(&[&packed]);
        assert_eq!(report["files"][0]["compression"], name);
        assert_eq!(report["files"][0]["file_bytes"], done.stdout.len());
        assert_eq!(strip(report), plain);
    }
    let mut piped = Command::new(QUAFF);
    piped.args(["info", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut piped = piped.spawn().expect("quaff runs");
    let bytes = std::fs::read(&path).expect("the file");
    piped.stdin.take().expect("a pipe").write_all(&bytes).expect("written");
    let done = piped.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(report["files"][0]["file_bytes"], Value::Null);
    assert_eq!(strip(report), plain);
}

#[test]
fn recorded_drops_are_found_with_their_place() {
    let dir = folder();
    // dumpcap has its drops in the block at the end only.
    let dumpcap = File::new(Format::Pcapng).frames(0..1393).dumpcap_statistics(30_000, 28_607);
    let dumpcap = put(&dir, "dumpcap.pcapng", &dumpcap.bytes);
    let (report, code) = json(&[&dumpcap]);
    let drops = &report["files"][0]["drops"];
    assert_eq!((code, &drops["recorded"], &drops["interface"]), (Some(1), &28_607.into(), &28_607.into()));
    assert_eq!(report["total"]["drops"], 28_607);
    assert!(stdout(&info(&[&dumpcap])).contains("28,607 recorded: 28,607 by the interface"));

    let mut file = File::new(Format::Pcapng).statistics(0, 0).frames(0..10);
    file.dropped = 7;
    let file = file.frames(17..20).statistics(13, 7);
    let ours = put(&dir, "ours.pcapng", &file.bytes);
    let (report, code) = json(&[&ours]);
    let drops = &report["files"][0]["drops"];
    assert_eq!((code, &drops["recorded"], &drops["kernel"]), (Some(1), &7.into(), &7.into()));
    let first = &drops["places"]["first"];
    let time_ns = START_NS + 17_000;
    assert_eq!(
        (&first["packet"], &first["drops"], &first["time_ns"]),
        (&11.into(), &7.into(), &time_ns.into())
    );
    assert_eq!(drops["contradictions"], Value::Array(Vec::new()), "{drops}");
}

#[test]
fn several_files_have_a_line_each_or_a_screen_each() {
    let dir = folder();
    let one = put(&dir, "one.pcapng", &File::new(Format::Pcapng).frames(0..10).bytes);
    let two = put(&dir, "two.pcap", &File::new(Format::Pcap).frames((0..20).chain([5])).bytes);
    let table = stdout(&info(&[&one, &two]));
    let lines: Vec<_> = table.lines().collect();
    assert_eq!((lines.len(), lines[0]), (7, &format!("files in {}", dir.path().display())[..]), "{table}");
    for (line, words) in lines[3..].iter().zip([["one.pcapng", "10"], ["two.pcap", "21"], ["2 files", "31"]])
    {
        assert!(words.iter().all(|word| line.contains(word)), "{words:?}: {line}");
    }
    let screens = stdout(&info(&["--each", &one, &two]));
    assert_eq!(screens.matches("written by").count(), 1, "{screens}");
    assert_eq!(screens.matches("duration").count(), 2, "{screens}");
    assert!(screens.contains("1 packet is earlier than the one before; 14.0 µs late at most"), "{screens}");
    assert!(screens.lines().all(|line| line.chars().count() <= 120), "{screens}");
    let each = stdout(&info(&["--each", "--json", &one, &two]));
    let paths: Vec<Value> = each.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(paths.iter().map(|file| file["packets"].as_u64()).collect::<Vec<_>>(), [Some(10), Some(21)]);
}

/// A file of some 100 MB, so that several threads read it: the sums are those of the packets that were made.
#[test]
fn a_large_file_is_counted_whole_by_several_threads() {
    let test = test_name!();
    let dir = folder();
    if !quaff_testkit::space(test, dir.path(), 200 << 20) {
        return;
    }
    for name in ["large.pcapng", "large.pcap"] {
        let path = dir.path().join(name).display().to_string();
        let mut made = Command::new(QUAFF);
        run(made.args(["generate", "--size", "imix", "--pps", "1M", "--count", "200000", "-w", &path]));
        let (report, code) = json(&[&path]);
        let file = &report["files"][0];
        assert_eq!(
            (code, &file["packets"], &file["backward"]),
            (Some(0), &200_000.into(), &0.into()),
            "{file}"
        );
        let verified = support::verify(&[&path]);
        assert_eq!((&verified["frames"], &verified["bytes"]), (&file["packets"], &file["data_bytes"]));
        match tool(test, "capinfos") {
            Some(mut command) => {
                let rows = capinfos(&mut command, &[PathBuf::from(&path)]);
                assert_as_capinfos(file, &rows[Path::new(&path)]);
            }
            None => skip(test, "capinfos is not installed"),
        }
    }
}
