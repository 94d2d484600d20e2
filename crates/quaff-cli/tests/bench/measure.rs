//! `quaff lab demo` and `quaff bench promises` from outside, with few frames: their output, and that nothing is left.

use crate::support::{PATIENCE, QUAFF, lab_bench};
use quaff_bench::method::{self, Cores, Place};
use quaff_lab::tool::{Tool, shipped};
use quaff_lab::topology::LabSite;
use quaff_lab::traffic::Traffic;
use quaff_lab::{ChildProcess, Lab};
use quaff_os::Signal;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn start(args: &[&str], dir: &Path) -> ChildProcess {
    let mut command = Command::new(QUAFF);
    command.args(args).arg("--dir").arg(dir);
    ChildProcess::start(command).expect("quaff runs")
}

/// Nothing is in the directory, and no lab is held by process `pid`.
fn assert_nothing_is_left(dir: &Path, pid: u32) {
    let left: Vec<_> = dir.read_dir().expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(Lab::list().expect("a list").iter().all(|lab| lab.pid != pid));
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let bench = lab_bench!(1 << 30);
    let running = start(&["lab", "demo", "--sizes", "1500", "--against", ""], bench.dir.path());
    let pid = running.pid();
    let begun = Instant::now();
    let has_lab = || Lab::list().expect("a list").iter().any(|lab| lab.pid == pid);
    let is_at_work = || has_lab() && bench.dir.path().read_dir().expect("a directory").count() > 0;
    while !is_at_work() {
        assert!(begun.elapsed() < PATIENCE, "no lab, or no file of a capture");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(Signal::SIGINT).expect("sent");
    let finished = running.finish(Duration::from_secs(20)).expect("it ends soon");
    assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
    assert_nothing_is_left(bench.dir.path(), pid);
}

#[test]
fn an_unknown_capturer_is_refused() {
    let bench = lab_bench!(0);
    let finished =
        start(&["lab", "demo", "--against", "tcpdunp"], bench.dir.path()).finish(PATIENCE).expect("it ends");
    assert_eq!(finished.status.code(), Some(2));
    assert!(finished.stderr.contains("no capturer tcpdunp; there is quaff, tcpdump"), "{}", finished.stderr);
}

/// Also by its earlier name and number.
#[test]
fn each_promise_has_a_verdict() {
    let bench = lab_bench!(1 << 30);
    for (command, count) in
        [(["bench", "promises", "--only", "small-frames"], 1), (["lab", "bench", "--only", "2"], 1)]
    {
        let runs = count.to_string();
        let args = [&command[..], &["--runs", &runs, "--count", "20000", "--json"]].concat();
        let running = start(&args, bench.dir.path());
        let pid = running.pid();
        let finished = running.finish(PATIENCE * 2).expect("it ends");
        assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
        let json: serde_json::Value = serde_json::from_slice(&finished.stdout).expect("JSON");
        for part in ["[1/1] small-frames: 20,000 × 512 B, as fast as possible; ", "pass  small-frames  "] {
            assert!(finished.stderr.contains(part), "{part}: {}", finished.stderr);
        }
        let checks = json["checks"].as_array().expect("checks");
        assert_eq!(checks.len(), 2, "{json}");
        assert!(
            checks.iter().all(|check| check["name"] == "small-frames" && check["holds"] == true),
            "{json}"
        );
        let runs = json["captures"]["cases"][0]["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), count);
        assert!(runs.iter().all(|run| run["offered"] == 20_000 && run["captured"] == 20_000), "{json}");
        assert_nothing_is_left(bench.dir.path(), pid);
    }
}

#[test]
fn promises_are_printed_with_their_limits() {
    let bench = lab_bench!(1 << 30);
    let args = ["bench", "promises", "--only", "tunnels,tunnel-file", "--runs", "1", "--count", "20000"];
    let finished = start(&args, bench.dir.path()).finish(PATIENCE * 2).expect("it ends");
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    // So few frames decide nothing about rates and CPU time.
    assert!(matches!(finished.status.code(), Some(0 | 1)), "{}", finished.stderr);
    for part in [
        "pass  tunnels",
        "20,000 × 64 B",
        "no loss",
        "lost: quaff --decap 0 %",
        "tunnel-file",
        "editcap",
        " limits: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// The kind and the promise of a line: `begins` or `verdict`.
fn line_of(line: &str) -> Option<(&str, &str)> {
    let word = |at| line.split_whitespace().nth(at);
    match word(0)? {
        place if place.starts_with('[') => Some(("begins", word(1)?.trim_end_matches(':'))),
        "pass" | "FAIL" | "open" => Some(("verdict", word(1)?)),
        _ => None,
    }
}

/// Both outputs are one pipe, so that the order of their lines is seen.
#[test]
fn each_verdict_is_printed_before_the_next_measurement_begins() {
    let bench = lab_bench!(1 << 30);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$0\" \"$@\" 2>&1",
        QUAFF,
        "bench",
        "promises",
        "--only",
        "lanes,tunnel-file,info",
    ]);
    command.args(["--runs", "1", "--count", "20000", "--dir"]).arg(bench.dir.path());
    let finished = ChildProcess::start(command).expect("quaff runs").finish(PATIENCE * 2).expect("it ends");
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let mut lines: Vec<_> = text.lines().filter_map(line_of).collect();
    // Some have a file to make first, and a rival that is absent leaves one open.
    lines.dedup();
    let all = ["lanes", "tunnel-file", "info"];
    let expected: Vec<_> = all.iter().flat_map(|name| [("begins", *name), ("verdict", *name)]).collect();
    assert_eq!(lines, expected, "{text}");
    assert!(text.contains("[2/3] tunnel-file: ") && text.contains("\n3 limits: "), "{text}");
}

/// The programs that read files, with few frames: their own speed decides nothing.
#[test]
fn programs_that_read_files_are_measured_on_the_same_file() {
    let bench = lab_bench!(1 << 30);
    let only = "flows-file,verify,streams-file,read-file,merge,info";
    let args = ["bench", "promises", "--only", only, "--runs", "1", "--count", "1", "--json"];
    let finished = start(&args, bench.dir.path()).finish(PATIENCE * 3).expect("it ends");
    let json: serde_json::Value = serde_json::from_slice(&finished.stdout).expect(&finished.stderr);
    let checks = json["checks"].as_array().expect("checks");
    let names: Vec<_> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
    let of = |name, limits| std::iter::repeat_n(name, limits);
    let expected =
        [("flows-file", 3), ("verify", 3), ("streams-file", 1), ("read-file", 1), ("merge", 1), ("info", 1)];
    assert_eq!(names, expected.into_iter().flat_map(|(name, limits)| of(name, limits)).collect::<Vec<_>>());
    let ours =
        |sample: &&serde_json::Value| sample["name"].as_str().is_some_and(|name| name.starts_with("quaff"));
    let samples: Vec<_> = json["samples"].as_array().expect("samples").iter().filter(ours).collect();
    assert_eq!(samples.len(), 8, "two of them also on one core: {json}");
    for sample in samples {
        let is_measured = sample["values"].as_array().is_some_and(|values| values.len() == 1);
        assert!(is_measured && sample["failed"].is_null(), "{sample}");
    }
    let is_short = |check: &serde_json::Value| check["measured"].to_string().contains("packets are missing");
    assert!(!checks.iter().any(is_short), "{json}");
}

#[test]
fn frames_are_counted_in_the_file_whatever_the_tool_reports() {
    let bench = lab_bench!(1 << 30);
    let place = Place::find(Some(bench.dir.path())).expect("a place");
    let quaff = Path::new(QUAFF);
    let cores = Cores::pick().expect("a core");
    let site = LabSite { lab: bench.lab, quaff: quaff.to_owned() };
    let method = method::Bench { site: &site, quaff, place: &place, cores };
    let traffic = Traffic::bytes(512, Some(50_000), 20_000);
    let whole = shipped(quaff).swap_remove(0);
    // It cuts frames before their stamps, and reports no loss.
    let args = ["capture", "-i", "{interface}", "--json", "-s", "48"].map(str::to_owned).to_vec();
    let cutting = Tool { name: "cutting".into(), args, ..whole.clone() };
    for (rival, in_file) in [(whole, 20_000), (cutting, 0)] {
        let (outcome, files) =
            method.capture(&rival, quaff, &traffic, Some(64), &mut |_| true).expect("a run");
        assert_eq!(outcome.offered, 20_000);
        assert_eq!((outcome.captured, outcome.lost()), (Some(in_file), 20_000 - in_file), "{}", rival.name);
        assert_eq!(outcome.tool_drops, Some(0));
        assert!(outcome.cpu_user_s + outcome.cpu_system_s > 0.0 && outcome.bytes > 20_000 * 48);
        assert!(outcome.seconds > 0.35, "{}", outcome.seconds);
        assert_eq!(files.files().expect("listed").len(), 1);
    }
}
