//! `quaff bench flow` in a lab, with few packets: every packet that is sent is in a record that the bench received,
//! and a meter that fails is a line.

use crate::support::{self, PATIENCE, QUAFF, lab_bench, run};
use quaff_lab::ChildProcess;
use quaff_testkit::test_name;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Packets and flows of one pass: 250 conversations of UDP one way.
const FRAMES: u64 = 5000;
const FLOWS: u64 = 250;

/// Exit status, result.json, messages of `quaff bench flow ARGS --json --out DIR/out --dir DIR`.
fn measured(dir: &Path, args: &[&str]) -> (i32, Value, String) {
    let file = dir.join("made.pcap");
    let (flows, count) = (FLOWS.to_string(), FRAMES.to_string());
    let made = ["generate", "-q", "--size", "200", "--flows", &flows, "--count", &count, "--pps", "5k", "-w"];
    run(Command::new(QUAFF).args(made).arg(&file));
    let mut command = Command::new(QUAFF);
    command.args(["bench", "flow", "--json"]).args(args).arg("--replay").arg(&file);
    command.arg("--out").arg(dir.join("out")).arg("--dir").arg(dir);
    let running = ChildProcess::start(command).expect("quaff runs");
    let pid = running.pid();
    let finished = running.finish(PATIENCE * 2).expect("it ends");
    support::assert_bench_is_gone(pid);
    let json = serde_json::from_slice(&finished.stdout).unwrap_or(Value::Null);
    (finished.status.code().unwrap_or(-1), json, finished.stderr)
}

/// The runs of a meter, on the interface (`cases`) or with the file (`files`).
fn runs<'a>(report: &'a Value, part: &str, meter: &str) -> &'a [Value] {
    let cases = report[part].as_array().expect("cases");
    let case = cases.iter().find(|case| case["meter"] == meter);
    case.and_then(|case| case["runs"].as_array()).unwrap_or_else(|| panic!("{meter}: {report}"))
}

#[track_caller]
fn assert_all_reported(run: &Value, passes: u64, flows_of_a_pass: u64) {
    let frames = FRAMES * passes;
    assert_eq!((&run["failed"], &run["verdict"]), (&Value::Null, &"lossless".into()), "{run}");
    assert_eq!((&run["offered"], &run["packets"]), (&frames.into(), &frames.into()), "{run}");
    // 200 bytes without Ethernet's header.
    assert_eq!(
        (&run["bytes"], &run["sent"]["bytes"]),
        (&(frames * 186).into(), &(frames * 186).into()),
        "{run}"
    );
    assert_eq!(run["records"], flows_of_a_pass * passes, "{run}");
    assert!(run["cpu_s"].as_f64() > Some(0.0) && run["memory_bytes"].as_u64() > Some(1 << 20), "{run}");
}

#[test]
fn every_packet_sent_is_in_a_record_that_was_received() {
    let bench = lab_bench!(64 << 20);
    let args = "--meters quaff,softflowd --fps 2500 --duration 1s --file-loops 4 --runs 2";
    let (code, report, said) = measured(bench.dir.path(), &args.split(' ').collect::<Vec<_>>());
    assert_eq!(code, 0, "{report} {said}");
    let load = &report["traffic"]["load"];
    assert_eq!((&load["packets"], &load["flows"]), (&FRAMES.into(), &FLOWS.into()), "{load}");
    for run in runs(&report, "cases", "quaff") {
        assert_all_reported(run, 10, FLOWS);
    }
    for run in runs(&report, "files", "quaff") {
        assert_all_reported(run, 4, FLOWS);
    }
    assert_eq!(runs(&report, "cases", "quaff").len(), 2);
    let out = bench.dir.path().join("out");
    for name in ["result.json", "report.md", "report.html"] {
        assert!(out.join(name).metadata().is_ok_and(|file| file.len() > 1000), "{name}");
    }
    if !report["meters"][1]["absent"].is_null() {
        return quaff_testkit::skip(test_name!(), "softflowd is not installed");
    }
    for (part, passes) in [("cases", 10), ("files", 4)] {
        for run in runs(&report, part, "softflowd") {
            // It may lose the last packets that it received before its end.
            let (frames, packets) = (FRAMES * passes, run["packets"].as_u64().unwrap_or(0));
            assert!(run["failed"].is_null() && (frames / 2..=frames).contains(&packets), "{run}");
            assert_eq!((&run["offered"], &run["undecoded"]), (&frames.into(), &0.into()), "{run}");
        }
    }
}

#[test]
fn a_meter_that_fails_or_reports_nothing_is_a_line_and_the_others_are_measured() {
    let bench = lab_bench!(64 << 20);
    let dir = bench.dir.path();
    let describe = |name: &str, script: &str, ready: &str| {
        let path = dir.join(format!("{name}.toml"));
        let fails = "stop_command = [\"sh\", \"-c\", \"echo no socket >&2; exit 1\"]";
        let stop = if name == "stuck" { fails } else { "" };
        let text = format!(
            "name = \"{name}\"\nprogram = \"sh\"\nprotocol = \"none\"\nready = {ready}\n{stop}\n\
             live = [\"-c\", \"{script}\", \"{{interface}}\", \"{{collector}}\"]\n"
        );
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let crash = describe("crash", "echo oh no >&2; exit 3", "\"socket\"");
    let mute = describe("mute", "echo ready >&2; exec sleep 100", "{ says = \"ready\" }");
    let stuck = describe("stuck", "echo ready >&2; exec sleep 100", "{ says = \"ready\" }");
    let files = [&crash, &mute, &stuck].map(|file| ["--meter-file", file.as_str()]).concat();
    let args = [&["--meters", "quaff,crash,mute,stuck"][..], &files[..]].concat();
    let more = ["--fps", "2500", "--duration", "100ms", "--file-loops", "0", "--runs", "1"];
    let (code, report, said) = measured(dir, &[&args[..], &more].concat());
    assert_eq!(code, 0, "only quaff's own losses count: {report} {said}");
    assert_all_reported(&runs(&report, "cases", "quaff")[0], 1, FLOWS);
    let failed = runs(&report, "cases", "crash")[0]["failed"].as_str().expect("a reason");
    assert!(failed.contains("oh no"), "{failed}");
    let stuck = runs(&report, "cases", "stuck")[0]["failed"].as_str().expect("a reason");
    assert!(stuck.contains("cannot be ended: sh failed") && stuck.contains("no socket"), "{stuck}");
    let mute = &runs(&report, "cases", "mute")[0];
    assert_eq!(
        (&mute["verdict"], &mute["loss"], &mute["packets"]),
        (&"lossy".into(), &1.0.into(), &0.into())
    );
}

#[test]
fn a_capture_that_would_be_sent_in_part_is_refused() {
    let bench = lab_bench!(64 << 20);
    let dir = bench.dir.path();
    let file = dir.join("long.pcap");
    // Frames of a host with segmentation offload; injected ones have at most a page of memory.
    let made = ["generate", "-q", "--size", "200,6000", "--count", "100", "--pps", "5k", "-w"];
    run(Command::new(QUAFF).args(made).arg(&file));
    let mut command = Command::new(QUAFF);
    let line = "bench flow --meters quaff --fps 10 --duration 1s --file-loops 0";
    command.args(line.split(' '));
    command.arg("--replay").arg(&file).arg("--dir").arg(dir).arg("--out").arg(dir.join("refused"));
    let finished = ChildProcess::start(command).and_then(|one| one.finish(PATIENCE * 2)).expect("it ends");
    assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("too long or too short to be sent"), "{}", finished.stderr);
}
