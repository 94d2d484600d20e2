//! The real `quaff verify --against`, on files that the tests make, on real traffic, and in a lab.

use crate::support::{Bench, QUAFF, interrupt, run, tool};
use crate::traffic::{self, frame, pcap, time_ns};
use quaff_testkit::{captures, skip, test_name};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A frame on its way: when, and its bytes.
type Moving = (u64, Vec<u8>);

fn moving(n: u64) -> Moving {
    (time_ns(n), frame(n))
}

fn verify(dir: &Path, came: impl IntoIterator<Item = Moving>, args: &[&str]) -> (i32, Value) {
    std::fs::write(dir.join("came.pcap"), pcap(came)).unwrap();
    let mut command = Command::new(QUAFF);
    command.args(["verify", "--json", "--against", "sent.pcap", "came.pcap"]).args(args).current_dir(dir);
    let done = command.output().unwrap();
    (done.status.code().unwrap(), serde_json::from_slice(&done.stdout).unwrap_or(Value::Null))
}

/// A folder with the file that was sent.
fn sent(count: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    traffic::write(&dir.path().join("sent.pcap"), count);
    dir
}

/// The fixed words of the report, in their order, and what belongs to nothing.
fn counts(report: &Value) -> [u64; 6] {
    ["received", "lost", "duplicates", "reordered", "altered", "extra"]
        .map(|word| report[word].as_u64().unwrap_or_else(|| panic!("{word} in {report}")))
}

#[test]
fn the_same_file_is_complete() {
    let dir = sent(1000);
    let (code, report) = verify(dir.path(), (0..1000).map(moving), &[]);
    assert_eq!((code, counts(&report)), (0, [1000, 0, 0, 0, 0, 0]));
    assert_eq!(
        (&report["complete"], &report["in_file"], &report["sent"]),
        (&true.into(), &1000.into(), &1000.into())
    );
    let spacing = serde_json::json!({"count": 999, "p50": 0, "p99": 0, "max": 0});
    assert_eq!((&report["spacing_error_ns"], &report["reasons"]), (&spacing, &Value::Array(Vec::new())));
}

#[test]
fn each_thing_that_can_happen_is_counted_as_what_it_is() {
    let dir = sent(1000);
    let came = (0..1000).flat_map(|n| match n {
        100..110 | 990.. => vec![],
        200 => vec![moving(200), moving(200)],
        300 => vec![moving(301)],
        301 => vec![moving(300)],
        400 => vec![(time_ns(400), frame(5_000_400)), moving(400)],
        500..503 => {
            let (time_ns, mut bytes) = moving(n);
            let at = [50, 30, 20][n as usize - 500];
            bytes[at] ^= 1;
            vec![(time_ns, bytes)]
        }
        _ => vec![moving(n)],
    });
    let (code, report) = verify(dir.path(), came, &[]);
    assert_eq!((code, counts(&report)), (1, [977, 20, 1, 1, 3, 1]));
    let gaps = serde_json::json!({"count": 2, "first": {"first": 101, "last": 110}, "last": {"first": 991, "last": 1000}});
    assert_eq!(report["gaps"], gaps);
    assert_eq!(report["late"]["max"], 1);
    assert_eq!(report["reasons"].as_array().unwrap().len(), 3, "{report}");
}

#[test]
fn a_file_that_was_sent_several_times() {
    let dir = sent(100);
    let came = || (0..5).flat_map(|_| (0..100).map(moving));
    let (code, report) = verify(dir.path(), came(), &["--loop", "5"]);
    assert_eq!((code, counts(&report)), (0, [500, 0, 0, 0, 0, 0]));
    assert_eq!(report["occurrences"], serde_json::json!([{"times": 5, "contents": 100}]));
    let (code, report) = verify(dir.path(), came().skip(1), &["--loop", "5"]);
    assert_eq!((code, counts(&report)), (1, [499, 1, 0, 0, 0, 0]));
    let (code, report) = verify(dir.path(), came().take(430), &["--expect", "430"]);
    assert_eq!((code, counts(&report)), (0, [430, 0, 0, 0, 0, 0]));
    let (code, report) = verify(dir.path(), came(), &[]);
    assert_eq!((code, &report["duplicates"]), (1, &400.into()));
    assert!(report["notes"][0].as_str().unwrap().contains("each frame arrived 5 times"), "{report}");
}

#[test]
fn a_router_in_between_and_a_snaplen() {
    let dir = sent(500);
    let routed = || {
        (0..500).map(|n| {
            let (time_ns, mut bytes) = moving(n);
            bytes[..12].copy_from_slice(&[6, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 2]);
            bytes[22] -= 1;
            bytes[24] = bytes[24].wrapping_add(1);
            (time_ns, bytes)
        })
    };
    let (code, report) = verify(dir.path(), routed(), &["--ignore-macs", "--ignore-ttl"]);
    assert_eq!((code, counts(&report)), (0, [500, 0, 0, 0, 0, 0]));
    let (code, report) = verify(dir.path(), routed(), &["--ignore-macs"]);
    assert_eq!((code, counts(&report)), (1, [0, 0, 0, 0, 500, 0]));
    let cut = || {
        (0..500).map(|n| {
            let (time_ns, mut bytes) = moving(n);
            bytes.truncate(70);
            (time_ns, bytes)
        })
    };
    let (code, report) = verify(dir.path(), cut(), &["--snaplen", "70"]);
    assert_eq!((code, counts(&report)), (0, [500, 0, 0, 0, 0, 0]));
    assert_eq!(verify(dir.path(), cut(), &[]).0, 1);
}

#[test]
fn differences_of_times_are_reported() {
    let dir = sent(200);
    // Each tenth frame arrives 7 µs late, and the following one in time.
    let late = |n: u64| (time_ns(n) + u64::from(n % 10 == 5) * 7000, frame(n));
    let (code, report) = verify(dir.path(), (0..200).map(late), &[]);
    assert_eq!(code, 0);
    let spacing = &report["spacing_error_ns"];
    assert_eq!((&spacing["count"], &spacing["p50"]), (&199.into(), &0.into()));
    let near = |value: &Value| (7000..7300).contains(&value.as_u64().unwrap());
    assert!(near(&spacing["p99"]) && near(&spacing["max"]), "{spacing}");
}

#[test]
fn unreadable_files_are_reported() {
    let dir = sent(10);
    std::fs::remove_file(dir.path().join("sent.pcap")).unwrap();
    let (code, report) = verify(dir.path(), (0..10).map(moving), &[]);
    assert_eq!((code, &report["unreadable"]), (2, &true.into()));
    std::fs::write(dir.path().join("sent.pcap"), pcap([])).unwrap();
    let (code, report) = verify(dir.path(), (0..10).map(moving), &[]);
    assert_eq!((code, &report["extra"], &report["complete"]), (1, &10.into(), &false.into()));
}

#[test]
fn the_text_report_is_as_recorded() {
    let dir = sent(2000);
    let print = |came: Vec<Moving>| {
        std::fs::write(dir.path().join("came.pcap"), pcap(came)).unwrap();
        let mut command = Command::new(QUAFF);
        command.args(["verify", "--against", "sent.pcap", "came.pcap"]).current_dir(dir.path());
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // The last line says how long it took.
        text.lines().filter(|line| !line.starts_with("  read ")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("whole", print((0..2000).map(moving).collect()));
    let came = (0..1200).chain([1300, 1203, 1202]).chain(1301..1999);
    insta::assert_snapshot!("holes", print(came.map(moving).chain([moving(5), moving(9_000_000)]).collect()));
}

#[test]
fn real_traffic_equals_itself() {
    let test = test_name!();
    let mix = captures().join("mix.pcap");
    if !mix.exists() {
        return skip(test, "no mix.pcap; QUAFF_CAPTURES says where to look");
    }
    let mut command = Command::new(QUAFF);
    let mix = mix.to_str().unwrap();
    let report = run(command.args(["verify", "--json", "--against", mix, mix]));
    let report: Value = serde_json::from_str(&report).unwrap();
    let frames = report["in_file"].as_u64().unwrap();
    assert_eq!(counts(&report), [frames, 0, 0, 0, 0, 0]);
    assert_eq!(report["spacing_error_ns"]["max"], 0, "{report}");
}

/// tcpreplay sends, quaff captures, and the capture is the file.
#[test]
fn frames_sent_by_tcpreplay_arrive() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 64 << 20) else { return };
    if tool(test, "tcpreplay").is_none() {
        return;
    }
    let (file, came) = (bench.path("sent.pcap"), bench.path("came.pcapng"));
    traffic::write(Path::new(&file), 20_000);
    let capture = bench.capture(&["-w", &came]);
    let mut replay = bench.lab.tx.command("tcpreplay").expect("a command in the lab");
    run(replay.args(["-i", "tx0", "-K", "--pps", "20000", "--loop", "2", &file]));
    let ended = interrupt(capture);
    assert_eq!(ended.json["lossless"], true, "{}", ended.json);
    let mut verify = Command::new(QUAFF);
    let report = run(verify.args(["verify", "--json", "--loop", "2", "--against", &file, &came]));
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(counts(&report), [40_000, 0, 0, 0, 0, 0], "{report}");
    assert_eq!(report["ledger"]["consistent"], true, "{report}");
}
