//! The real `quaff verify` on files that the tests make, and on real traffic.

use crate::stamped::{File, Format, START_NS};
use assert_cmd::Command;
use quaff_testkit::{captures, skip, test_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BOTH: [Format; 2] = [Format::Pcap, Format::Pcapng];

fn quaff(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("quaff").expect("the binary is built");
    command.arg("verify").args(args);
    command
}

/// Verifies files as one capture: the exit status, and the report.
fn verify_files(files: &[&[u8]], args: &[&str]) -> (i32, Value) {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..files.len()).map(|i| dir.path().join(format!("{i}.cap"))).collect();
    for (path, bytes) in paths.iter().zip(files) {
        std::fs::write(path, bytes).unwrap();
    }
    let output = quaff(args).arg("--json").args(&paths).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (output.status.code().unwrap(), report)
}

fn verify(file: File, args: &[&str]) -> (i32, Value) {
    verify_files(&[&file.bytes], args)
}

/// The fixed words of the report, in their order.
fn counts(report: &Value) -> [u64; 5] {
    ["received", "lost", "duplicates", "reordered", "corrupt"].map(|word| report[word].as_u64().unwrap())
}

#[test]
fn a_whole_stream_is_complete() {
    for format in BOTH {
        let (code, report) = verify(File::new(format).bounded().frames(0..999).last(999), &[]);
        assert_eq!((code, counts(&report)), (0, [1000, 0, 0, 0, 0]));
        assert_eq!((&report["complete"], &report["end"]), (&true.into(), &"seen".into()));
        assert_eq!(report["reasons"], Value::Array(Vec::new()));
        assert_eq!(report["ledger"], Value::Null);
        assert_eq!((&report["frames"], &report["error"]), (&1000.into(), &Value::Null));
    }
}

#[test]
fn a_stream_without_a_planned_end_is_complete() {
    let (code, report) = verify(File::new(Format::Pcapng).frames(0..10), &[]);
    assert_eq!((code, &report["end"]), (0, &"open".into()));
}

#[test]
fn gaps_are_counted_and_the_ends_are_named() {
    for format in BOTH {
        let (code, report) =
            verify(File::new(format).frames((0..10).chain(12..20).chain(21..25).chain(30..31)), &[]);
        assert_eq!((code, counts(&report)), (1, [23, 8, 0, 0, 0]));
        assert_eq!(report["complete"], false);
        assert_eq!(report["gaps"]["count"], 3);
        let gap = |first: u64, last: u64| {
            serde_json::json!({
                "stream": 7, "first": first, "last": last, "frames": last - first + 1,
                "before_ns": START_NS + (first - 1) * 1000, "after_ns": START_NS + (last + 1) * 1000,
            })
        };
        assert_eq!((&report["gaps"]["first"], &report["gaps"]["last"]), (&gap(10, 11), &gap(25, 29)));
    }
}

#[test]
fn frames_lost_before_the_first_one_are_counted() {
    let file = || File::new(Format::Pcap).frames(100..110);
    let (code, report) = verify(file(), &[]);
    assert_eq!((code, counts(&report)), (1, [10, 100, 0, 0, 0]));
    assert_eq!(report["gaps"]["first"]["before_ns"], Value::Null);
    let (code, report) = verify(file(), &["--from-first"]);
    assert_eq!((code, counts(&report)), (0, [10, 0, 0, 0, 0]));
}

#[test]
fn frames_lost_after_the_last_one_are_detected() {
    let (code, report) = verify(File::new(Format::Pcap).bounded().frames(0..5), &[]);
    assert_eq!((code, counts(&report), &report["end"]), (1, [5, 0, 0, 0, 0], &"missing".into()));
    let (code, report) = verify(File::new(Format::Pcap).frames(0..5), &["--expect", "8"]);
    assert_eq!((code, counts(&report)), (1, [5, 3, 0, 0, 0]));
    assert_eq!(verify(File::new(Format::Pcap).frames(0..5), &["--expect", "5"]).0, 0);
    let (code, report) = verify(File::new(Format::Pcap).frames(0..5), &["--expect", "4"]);
    assert_eq!((code, &report["surplus"]), (1, &1.into()));
    let (code, report) = verify(File::new(Format::Pcap).foreign(), &["--expect", "4"]);
    assert_eq!((code, counts(&report)), (1, [0, 4, 0, 0, 0]));
}

#[test]
fn duplicates_make_it_incomplete_and_reordering_does_not() {
    let (code, report) = verify(File::new(Format::Pcapng).frames([0, 1, 1, 2]), &[]);
    assert_eq!((code, counts(&report)), (1, [3, 0, 1, 0, 0]));
    let (code, report) = verify(File::new(Format::Pcapng).frames([0, 2, 1, 3]), &[]);
    assert_eq!((code, counts(&report)), (0, [4, 0, 0, 1, 0]));
}

#[test]
fn a_flipped_bit_is_corrupt_and_its_number_is_missing() {
    for format in BOTH {
        for at in [20, 45, 99] {
            let (code, report) = verify(File::new(format).frames(0..3).damaged(3, at).frames(4..9), &[]);
            assert_eq!((code, counts(&report)), (1, [8, 1, 0, 0, 1]), "byte {at}");
        }
    }
}

#[test]
fn streams_are_counted_apart() {
    let file = File::new(Format::Pcap).stream(9).frames(0..4).stream(5).frames(0..2).stream(9).frames(5..6);
    let (code, report) = verify(file.foreign(), &[]);
    assert_eq!((code, counts(&report), &report["foreign"]), (1, [7, 1, 0, 0, 0], &1.into()));
    let streams = report["streams"].as_array().unwrap();
    let numbers = streams.iter().map(|s| (s["stream"].as_u64().unwrap(), s["lost"].as_u64().unwrap()));
    assert_eq!(numbers.collect::<Vec<_>>(), [(5, 0), (9, 1)]);
    assert_eq!(report["gaps"]["first"]["stream"], 9);
}

#[test]
fn foreign_traffic_alone_proves_nothing() {
    let judged = |file: File, args: &[&str]| {
        let (code, report) = verify(file, args);
        assert_eq!((&report["complete"], &report["foreign"]), (&false.into(), &1.into()), "{report}");
        (code, report["judged"].as_bool().unwrap())
    };
    assert_eq!(judged(File::new(Format::Pcapng).foreign(), &[]), (2, false));
    assert_eq!(
        judged(File::new(Format::Pcapng).statistics(0, 0).foreign().statistics(1, 0), &[]),
        (2, false)
    );
    // Recorded drops and a wanted number are evidence.
    assert_eq!(judged(File::new(Format::Pcapng).statistics(0, 0).foreign().statistics(1, 7), &[]), (1, true));
    assert_eq!(judged(File::new(Format::Pcapng).foreign(), &["--expect", "1"]), (1, true));
}

#[test]
fn a_cut_file_counts_what_came_before_the_cut() {
    for format in BOTH {
        let whole = File::new(format).frames(0..9).bytes;
        let cut_at = whole.len();
        let mut bytes = File::new(format).frames(0..10).bytes;
        bytes.truncate(cut_at + 50);
        let (code, report) = verify_files(&[&bytes], &[]);
        assert_eq!((code, counts(&report), &report["complete"]), (1, [9, 0, 0, 0, 0], &false.into()));
        let error = report["error"].as_str().unwrap();
        assert!(
            error.contains(&format!("at offset {cut_at}: the file ends after 50 bytes of it")),
            "{error}"
        );
    }
}

#[test]
fn damage_ends_a_file_with_its_offset() {
    let mut bytes = File::new(Format::Pcapng).frames(0..5).bytes;
    let damage_at = bytes.len();
    bytes.extend([6, 0, 0, 0, 17, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let (code, report) = verify_files(&[&bytes], &[]);
    assert_eq!((code, counts(&report)), (1, [5, 0, 0, 0, 0]));
    let error = report["error"].as_str().unwrap();
    let message = format!("0.cap: block of 17 bytes at offset {damage_at}: length not a multiple of 4");
    assert!(error.ends_with(&message), "{error}");
}

#[test]
fn a_file_that_is_no_capture_is_rejected() {
    for bytes in [&b"#!/bin/sh\necho no capture\n"[..], b"", b"\n\r", b"\xd4\xc3\xb2\xa1\x02"] {
        let (code, report) = verify_files(&[bytes], &[]);
        assert_eq!((code, &report["complete"]), (2, &false.into()), "{bytes:?}");
        assert!(report["error"].is_string());
    }
}

#[test]
fn a_missing_file_or_a_folder_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.pcap");
    let output = quaff(&[missing.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("missing.pcap: No such file or directory"), "{error}");
    assert_eq!(quaff(&[dir.path().to_str().unwrap()]).output().unwrap().status.code(), Some(2));
    assert_eq!(quaff(&[]).output().unwrap().status.code(), Some(2));
}

#[test]
fn standard_input_is_a_file_too() {
    for format in BOTH {
        let bytes = File::new(format).frames(0..5000).bytes;
        let output = quaff(&["--json", "-"]).write_stdin(bytes).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(counts(&report), [5000, 0, 0, 0, 0]);
    }
}

#[test]
fn the_files_of_a_rotation_are_one_capture() {
    let part = |from: u64, to: u64| {
        File::new(Format::Pcapng).statistics(from, 0).frames(from..to).statistics(to, 0).bytes
    };
    let parts = [part(0, 10), part(10, 20), part(20, 30)];
    let (code, report) = verify_files(&[&parts[0], &parts[1], &parts[2]], &[]);
    assert_eq!((code, counts(&report), &report["ledger"]["consistent"]), (0, [30, 0, 0, 0, 0], &true.into()));

    let (code, report) = verify_files(&[&parts[0], &parts[2]], &[]);
    assert_eq!((code, counts(&report)), (1, [20, 10, 0, 0, 0]));
    let message = "interface test0: 10 packets were written between two of these files: is a file missing?";
    assert_eq!(report["ledger"]["contradictions"][0], message);

    let (_, report) = verify_files(&[&parts[1], &parts[0]], &[]);
    let message = "interface test0: a file begins before the previous one has ended: are they in order?";
    assert_eq!(report["ledger"]["contradictions"][0], message);

    let (code, _) = verify_files(&[&parts[1], &parts[2]], &["--from-first"]);
    assert_eq!(code, 0);

    // A write failed: the file has no counters at its end, and the next continues with those of its last packet.
    let cut = File::new(Format::Pcapng).statistics(0, 0).frames(0..10).bytes;
    let (code, report) = verify_files(&[&cut, &parts[1]], &[]);
    assert_eq!((code, &report["ledger"]["consistent"]), (0, &true.into()), "{report}");
    assert_eq!(report["ledger"]["frames_behind"], 10, "{report}");
    let (_, report) = verify_files(&[&cut, &parts[2]], &[]);
    let message = "interface test0: 10 packets were written between two of these files: is a file missing?";
    assert_eq!(report["ledger"]["contradictions"][0], message);
}

#[test]
fn recorded_drops_explain_what_is_missing() {
    let mut file = File::new(Format::Pcapng).statistics(0, 0).frames(0..10);
    file.dropped = 5;
    let (code, report) = verify(file.frames(15..20).statistics(15, 5), &[]);
    assert_eq!((code, counts(&report)), (1, [15, 5, 0, 0, 0]));
    let ledger = &report["ledger"];
    assert_eq!((&ledger["consistent"], &ledger["unexplained"]), (&true.into(), &0.into()));
    assert_eq!(
        (&ledger["recorded_drops"], &ledger["epb_dropcount"], &ledger["osdrop"]),
        (&5.into(), &5.into(), &5.into())
    );

    let (_, report) = verify(File::new(Format::Pcapng).statistics(0, 0).frames([0, 4]).statistics(2, 1), &[]);
    assert_eq!(report["ledger"]["unexplained"], 2);
}

#[test]
fn drops_between_two_files_are_recorded_by_the_second() {
    let first = File::new(Format::Pcapng).statistics(0, 0).frames(0..10).statistics(10, 0).bytes;
    let second = File::new(Format::Pcapng).statistics(10, 3).frames(13..20).statistics(17, 3).bytes;
    let (_, report) = verify_files(&[&first, &second], &[]);
    assert_eq!(
        (&report["ledger"]["recorded_drops"], &report["ledger"]["unexplained"]),
        (&3.into(), &0.into())
    );
}

#[test]
fn the_ledgers_of_other_tools_are_read_for_what_they_are() {
    // dumpcap counts the dropped among the received, and says nothing at the head of its file.
    let (code, report) = verify(File::new(Format::Pcapng).frames(0..10).dumpcap_statistics(10, 0), &[]);
    assert_eq!((code, &report["ledger"]["consistent"]), (0, &true.into()));
    let (code, report) = verify(File::new(Format::Pcapng).frames([0, 1, 4]).dumpcap_statistics(5, 2), &[]);
    assert_eq!(
        (code, &report["ledger"]["recorded_drops"], &report["ledger"]["unexplained"]),
        (1, &2.into(), &0.into())
    );
    assert_eq!(report["ledger"]["contradictions"], Value::Array(Vec::new()));
}

#[test]
fn a_ledger_that_contradicts_the_file_is_not_believed() {
    let complete = |file: File| {
        let (code, report) = verify(file, &[]);
        assert_eq!(report["complete"].as_bool().unwrap(), code == 0);
        assert_eq!(report["lost"], 0);
        (code == 0, report["ledger"]["contradictions"][0].as_str().map(str::to_owned))
    };
    let file = || File::new(Format::Pcapng).statistics(0, 0).frames(0..10);
    assert_eq!(complete(file().statistics(10, 0)), (true, None));
    let message = "interface test0: its counters record 11 packets, the file holds 10";
    assert_eq!(complete(file().statistics(11, 0)), (false, Some(message.into())));
    // Frames after the last counters: a capture that was killed.
    assert_eq!(complete(file().statistics(10, 0).frames(10..12)), (true, None));
    // The capture says itself that it lost something.
    assert_eq!(complete(file().statistics(10, 1)), (false, None));
    let mut carries = file();
    carries.dropped = 2;
    let message = "interface test0: packets record 2 drops, the counters only 0";
    assert_eq!(complete(carries.frames(10..11).statistics(11, 0)), (false, Some(message.into())));
    let message = "interface test0: its counters run backwards";
    let backwards = File::new(Format::Pcapng).statistics(0, 9).frames(0..10).statistics(10, 0);
    assert_eq!(complete(backwards), (false, Some(message.into())));
}

#[test]
fn the_text_report_is_as_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let print = |file: File| {
        std::fs::write(&path, file.bytes).unwrap();
        let output = quaff(&[path.to_str().unwrap()]).output().unwrap();
        assert!(output.stderr.is_empty());
        let text = String::from_utf8(output.stdout).unwrap();
        // The last line says how long it took.
        text.lines().filter(|line| !line.starts_with("  read ")).collect::<Vec<_>>().join("\n")
    };
    let whole = File::new(Format::Pcapng).bounded().statistics(0, 0).frames(0..1999).last(1999);
    insta::assert_snapshot!("complete", print(whole.statistics(2000, 0)));
    let holes =
        File::new(Format::Pcapng).statistics(0, 0).frames((0..1000).chain(1012..2000).chain([1999, 2001]));
    insta::assert_snapshot!("incomplete", print(holes.foreign().statistics(1991, 13)));
    let streams = File::new(Format::Pcap).frames(5..9).stream(8).bounded().frames([0, 1, 3]);
    insta::assert_snapshot!("streams", print(streams));
    insta::assert_snapshot!("foreign", print(File::new(Format::Pcap).foreign()));
}

/// `capinfos` counts: packets by file name. `None` when it is not installed.
fn capinfos(dir: &Path, names: &[String]) -> Option<BTreeMap<String, u64>> {
    let mut command = std::process::Command::new("capinfos");
    let output = command.args(["-T", "-r", "-c", "-M"]).args(names).current_dir(dir).output().ok()?;
    let table = String::from_utf8(output.stdout).unwrap();
    let row =
        |line: &str| line.split_once(['\t', ',']).map(|(name, count)| (name.into(), count.parse().unwrap()));
    Some(table.lines().filter_map(row).collect())
}

#[test]
fn real_traffic_is_read_to_its_end() {
    let test = test_name!();
    let dir = captures();
    let mut names = Vec::new();
    for folder in [".", "protocols", "tunnels"] {
        let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        names.extend(files.map(|entry| format!("{folder}/{}", entry.file_name().display())));
    }
    names.retain(|name| !name.ends_with(".txt"));
    if names.is_empty() {
        return skip(test, &format!("no captures in {}; QUAFF_CAPTURES says where to look", dir.display()));
    }
    let counted = capinfos(&dir, &names);
    if counted.is_none() {
        skip(test, "capinfos is not installed: files are read, their packets not compared");
    }
    for name in &names {
        let output = quaff(&["--json", name]).current_dir(&dir).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        // These have no probe headers: their TCP, or recorded drops, may prove something. They are readable.
        let [is_judged, is_complete] = ["judged", "complete"].map(|word| report[word].as_bool().unwrap());
        let code = if !is_judged { 2 } else { i32::from(!is_complete) };
        assert_eq!(output.status.code(), Some(code), "{name}: {}", report["error"]);
        assert!(is_judged || report["tcp"]["flows_with_evidence"] == 0, "{name}: {}", report["verdict"]);
        assert_eq!(report["error"], Value::Null, "{name}");
        if let Some(counted) = &counted {
            assert_eq!(report["frames"].as_u64(), counted.get(name).copied(), "{name}");
        }
    }
}
