//! `quaff bench capture` in a lab, with few frames: what is in the folder, what an interruption leaves, and
//! capturers that do not do what they should.

use crate::support::{self, PATIENCE, QUAFF, lab_bench};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::write_program;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// `quaff bench capture ARGS --json --out DIR/out --dir DIR`.
fn start(dir: &Path, args: &[&str]) -> ChildProcess {
    let mut command = Command::new(QUAFF);
    command.args(["bench", "capture", "--json"]).args(args);
    command.arg("--out").arg(dir.join("out")).arg("--dir").arg(dir);
    ChildProcess::start(command).expect("quaff runs")
}

/// Exit status, result.json, what it said.
fn measured(dir: &Path, args: &[&str]) -> (i32, Value, String) {
    let finished = start(dir, args).finish(PATIENCE * 2).expect("it ends");
    let json = serde_json::from_slice(&finished.stdout).unwrap_or(Value::Null);
    (finished.status.code().unwrap_or(-1), json, finished.stderr)
}

fn case<'a>(report: &'a Value, rival: &str) -> &'a Value {
    let cases = report["cases"].as_array().expect("cases");
    cases.iter().find(|case| case["rival"] == rival).unwrap_or_else(|| panic!("{rival}: {report}"))
}

/// The folder holds the result only; no lab is held by process `pid`.
fn assert_nothing_is_left(dir: &Path, pid: u32) {
    let left: Vec<_> =
        dir.read_dir().expect("a directory").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "out" || name == "scripts"), "{left:?}");
    support::assert_bench_is_gone(pid);
}

fn script(dir: &Path, name: &str, text: &str) -> String {
    let scripts = dir.join("scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    let path = scripts.join(name);
    write_program(&path, text);
    path.display().to_string()
}

#[test]
fn a_bench_leaves_a_folder_with_everything() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let args = ["--rivals", "quaff", "--sizes", "64,512", "--pps", "100k", "--count", "20k", "--runs", "3"];
    let running = start(dir, &args);
    let pid = running.pid();
    let finished = running.finish(PATIENCE * 2).expect("it ends");
    let report: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert_eq!(finished.status.code(), Some(0), "{report} {}", finished.stderr);
    assert_eq!(report["cases"].as_array().map(Vec::len), Some(2), "{report}");
    for case in report["cases"].as_array().expect("cases") {
        assert_eq!(case["loss_trimmed"], 0.0, "{case}");
        assert_eq!(case["runs"].as_array().map(Vec::len), Some(3), "{case}");
        for run in case["runs"].as_array().expect("runs") {
            assert_eq!((&run["offered"], &run["captured"]), (&20_000.into(), &20_000.into()), "{run}");
        }
    }
    let out = dir.join("out");
    let kept: Value =
        serde_json::from_slice(&fs::read(out.join("result.json")).expect("kept")).expect("JSON");
    assert_eq!(kept, report);
    for name in ["report.md", "report.html"] {
        assert!(out.join(name).metadata().is_ok_and(|file| file.len() > 1000), "{name}");
    }
    assert!(finished.stderr.contains("capturer"), "a row for each run: {}", finished.stderr);
    assert_nothing_is_left(dir, pid);
}

#[test]
fn runs_before_an_interruption_are_kept_and_shown() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let args = ["--rivals", "quaff", "--sizes", "64", "--pps", "20k", "--count", "20k", "--runs", "500"];
    let mut running = start(dir, &args);
    let pid = running.pid();
    // Two rows: the heading, and the first run.
    assert!(running.hears("quaff           20 kpps", PATIENCE), "{}", running.heard);
    running.signal(Signal::SIGINT).expect("sent");
    let finished = running.finish(Duration::from_secs(60)).expect("it ends soon");
    let report: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert_eq!(finished.status.code(), Some(2), "{} {}", report, finished.stderr);
    assert_eq!(report["interrupted"], true);
    let runs = case(&report, "quaff")["runs"].as_array().map_or(0, Vec::len);
    assert!((1..500).contains(&runs), "{report}");
    assert!(dir.join("out/report.html").exists());
    assert_nothing_is_left(dir, pid);
}

#[test]
fn interrupted_before_the_first_run_it_leaves_nothing() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let mut running = start(dir, &["--rivals", "quaff", "--sizes", "64", "--pps", "10k", "--count", "100k"]);
    let pid = running.pid();
    assert!(running.hears("into", PATIENCE), "{}", running.heard);
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::SIGINT).expect("sent");
    let finished = running.finish(Duration::from_secs(60)).expect("it ends soon");
    assert_eq!(finished.status.code(), Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
    assert!(!dir.join("out").exists());
    assert_nothing_is_left(dir, pid);
}

/// A capturer that does not do what it should is a line, and the others are measured.
#[test]
fn a_capturer_that_fails_is_reported_and_the_run_continues() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let crash = script(dir, "crash", "#!/bin/sh\necho oh no >&2\nexit 3\n");
    let command = format!("crash={crash} {{interface}} {{file}}");
    let gone = "gone=/nonexistent/capturer {interface} {file}";
    let (code, report, said) = measured(
        dir,
        &[
            "--rivals",
            "quaff,crash,gone",
            "--command",
            &command,
            "--command",
            gone,
            "--sizes",
            "64",
            "--pps",
            "100k",
            "--count",
            "20k",
            "--runs",
            "1",
        ],
    );
    assert_eq!(code, 0, "{report} {said}");
    assert_eq!(case(&report, "quaff")["loss_trimmed"], 0.0, "{report}");
    let failed = &case(&report, "crash")["runs"][0]["failed"];
    assert!(failed.as_str().is_some_and(|why| why.contains("oh no")), "{report}");
    assert!(said.contains("failed"), "{said}");
    let absent = report["rivals"].as_array().expect("rivals").iter().find(|rival| rival["name"] == "gone");
    assert!(absent.is_some_and(|rival| rival["absent"].is_string()), "{report}");
}

#[test]
fn an_unknown_capturer_is_refused() {
    let dir = support::folder();
    let (code, _, said) = measured(dir.path(), &["--rivals", "quaff,tcpdunp"]);
    assert_eq!(code, 2);
    assert!(said.contains("tcpdunp"), "{said}");
    assert!(!dir.path().join("out").exists(), "nothing was measured");
}

/// Every tenth packet is discarded without a report: the figures and the table show the difference.
#[test]
fn a_loss_that_a_capturer_hides_is_in_the_tables() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let file = script(
        dir,
        "liar.toml",
        "name = 'liar'\nprogram = '{quaff}'\nready = { says = 'capturing' }\ndrops = { json = ['lost'] }\n\
         args = ['capture', '-i', '{interface}', '--json', '-f', 'udp[16:2] % 10 != 0']\n\
         [output]\ndisk = ['-w', '{file}']\n",
    );
    let args = ["--rivals", "quaff,liar", "--rival-file", &file, "--sizes", "64", "--pps", "100k"];
    let (code, report, said) = measured(dir, &[&args[..], &["--count", "20k", "--runs", "3"]].concat());
    assert_eq!(code, 0, "{report} {said}");
    let liar = case(&report, "liar");
    assert_eq!(liar["loss_trimmed"], 0.1, "{liar}");
    assert_eq!((&liar["runs"][0]["captured"], &liar["runs"][0]["tool_drops"]), (&18_000.into(), &0.into()));
    let out = dir.join("out").display().to_string();
    let shown = support::run(Command::new(QUAFF).args(["bench", "show", &out]));
    let mut lines = shown.lines().map(|line| line.replace('\u{a0}', " "));
    let row = lines.find(|line| line.trim_start().starts_with("64 B")).unwrap_or_default();
    assert!(row.ends_with(" 10 %"), "{shown}");
    let glance = shown.lines().find(|line| line.trim_start().starts_with("liar")).unwrap_or_default();
    assert!(glance.contains("0 of 6,000 lost"), "{shown}");
}

#[test]
fn whenever_it_is_interrupted_nothing_is_left() {
    let bench = lab_bench!(1 << 30);
    for delay_ms in [0, 300, 900, 1800, 3000] {
        let dir = tempfile::tempdir_in(bench.dir.path()).expect("a folder");
        let args = ["--rivals", "quaff,tcpdump", "--sizes", "64", "--pps", "50k", "--count", "20k"];
        let mut running = start(dir.path(), &args);
        let pid = running.pid();
        assert!(running.hears("into", PATIENCE), "{}", running.heard);
        std::thread::sleep(Duration::from_millis(delay_ms));
        running.signal(Signal::SIGINT).expect("sent");
        let finished = running.finish(Duration::from_secs(60)).expect("it ends soon");
        assert_eq!(finished.status.code(), Some(2), "{delay_ms} ms: {}", finished.stderr);
        assert_nothing_is_left(dir.path(), pid);
    }
}

/// The offline part of the preset nfr1999, with fewer passes: what is measured of each program, and what of one that is
/// not installed.
#[test]
fn programs_that_read_a_file_are_measured_beside_each_other() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let preset = "bench capture --preset nfr1999 --series TCP,sessions --runs 1 --dry-run";
    let text = support::run(Command::new(QUAFF).args(preset.split(' ')));
    let text = text.replace("loops = 40", "loops = 2");
    let scripts = dir.join("scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    let plan = scripts.join("plan.toml");
    fs::write(&plan, text).expect("written");
    let running = start(dir, &["--plan", &plan.display().to_string()]);
    let pid = running.pid();
    let finished = running.finish(PATIENCE * 2).expect("it ends");
    let report: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert_eq!(finished.status.code(), Some(0), "{report} {}", finished.stderr);
    let readings = report["readings"].as_array().expect("readings");
    let names: Vec<_> = readings.iter().map(|case| case["reader"].as_str().expect("a name")).collect();
    assert_eq!(names, ["quaff verify", "tcptrace", "quaff streams", "tcpflow", "zeek", "suricata"]);
    for case in readings {
        let runs = case["runs"].as_array().expect("runs");
        assert_eq!((&case["frames"], case["remark"].is_string()), (&100_000.into(), true), "{case}");
        if case["absent"].is_string() {
            assert!(
                runs.is_empty() && case["pps_median"].is_null() && case["reader"] != "quaff verify",
                "{case}"
            );
            continue;
        }
        assert_eq!((runs.len(), &runs[0]["failed"]), (1, &Value::Null), "{case}");
        assert!(case["pps_median"].as_f64().is_some_and(|pps| pps > 1000.0), "{case}");
        assert!(case["cpu_per_million"].as_f64().is_some_and(|cpu| cpu > 0.0), "{case}");
        assert!(case["command"].as_array().is_some_and(|words| words.contains(&"FILE".into())), "{case}");
    }
    let page = fs::read_to_string(dir.join("out/report.md")).expect("a page");
    for words in
        ["From a file, on one core", "quaff verify", "losses that TCP proves", "OpenBSD, BSD/OS, fast"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_nothing_is_left(dir, pid);
}

/// Four cases of the preset lanes, with few frames: every frame of each is captured, and dealt to a lane that the
/// report names.
#[test]
fn lanes_are_measured_with_the_packets_of_each() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let series = "1 lane,2 lanes by hash,4 lanes by cpu,4 lanes via xdp";
    let args = ["--preset", "lanes", "--series", series, "--sizes", "64", "--pps", "20k", "--count", "20k"];
    let (code, report, said) = measured(dir, &[&args[..], &["--runs", "1"]].concat());
    assert_eq!(code, 0, "{report} {said}");
    let of = |series: &str| {
        let cases = report["cases"].as_array().expect("cases");
        let case = cases.iter().find(|case| case["series"] == series).expect(series);
        let run = &case["runs"][0];
        assert_eq!((&run["failed"], &run["captured"]), (&Value::Null, &20_000.into()), "{case}");
        let lanes = run["lanes"].as_array().cloned().unwrap_or_default();
        let lanes: Vec<_> = lanes.iter().map(|lane| lane.as_u64().expect("a number")).collect();
        (lanes, case["fairness"].as_f64())
    };
    assert_eq!(of("1 lane"), (Vec::new(), None));
    for (series, lanes) in [("2 lanes by hash", 2), ("4 lanes via xdp", 4)] {
        let (found, fairness) = of(series);
        assert_eq!((found.len(), found.iter().sum::<u64>()), (lanes, 20_000), "{series}");
        // 1,024 flows by a hash: one in a million deals is less even.
        assert!(
            fairness.is_some_and(|index| index > 0.95 && index <= 1.0),
            "{series}: {found:?} {fairness:?}"
        );
    }
    let (found, fairness) = of("4 lanes by cpu");
    assert_eq!((found.iter().max(), fairness), (Some(&20_000), Some(0.25)), "one core receives: {found:?}");
    let page = fs::read_to_string(dir.join("out/report.md")).expect("a page");
    for words in ["## Lanes", "fairness", "smallest lane", "Jain's index", "xdp"] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

/// The preset port-span-tap with few frames, and with a mirror port of 1 Mbit/s, which carries 82 frames of 1500 bytes
/// each second beyond the 170 that it has room for. Each count has a source of its own: the file, and counters of the
/// ports, of the capturer's interface and of the mirror port.
#[test]
fn port_and_tap_have_all_frames_of_a_line_and_a_mirror_port_what_it_carries() {
    let bench = lab_bench!(1 << 30);
    let dir = bench.dir.path();
    let traffic = ["--sizes", "1500", "--pps", "20k", "--count", "10k", "--runs", "1", "--dry-run"];
    let preset = ["bench", "capture", "--preset", "port-span-tap", "--rivals", "quaff,quaff tap"];
    let text = support::run(Command::new(QUAFF).args(preset).args(traffic));
    assert!(text.contains("mirror_mbps = 1000\n"), "{text}");
    let scripts = dir.join("scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    let plan = scripts.join("plan.toml");
    fs::write(&plan, text.replace("mirror_mbps = 1000\n", "mirror_mbps = 1\n")).expect("written");
    let running = start(dir, &["--plan", &plan.display().to_string()]);
    let pid = running.pid();
    let finished = running.finish(PATIENCE * 2).expect("it ends");
    let report: Value = serde_json::from_slice(&finished.stdout).expect("JSON");
    assert_eq!(finished.status.code(), Some(0), "{report} {}", finished.stderr);
    let cases = report["cases"].as_array().expect("cases");
    let of = |point: &str, rival: &str| {
        let case = cases.iter().find(|case| case["interface"] == point).expect(point);
        let run = &case["runs"][0];
        assert_eq!((&case["rival"], &run["failed"]), (&rival.into(), &Value::Null), "{case}");
        assert_eq!((&run["offered"], &run["line"]["delivered"]), (&10_000.into(), &10_000.into()), "{run}");
        let count = |value: &Value| value.as_u64().expect("a number");
        let counts = [&run["captured"], &run["receiver_drops"], &run["tool_drops"]].map(count);
        (counts, run["line"]["mirror_dropped"].as_u64())
    };
    assert_eq!(cases.len(), 3, "{report}");
    assert_eq!(of("port", "quaff"), ([10_000, 0, 0], None));
    assert_eq!(of("tap", "quaff tap"), ([10_000, 0, 0], None));
    let ([captured, dropped, lost], mirror_dropped) = of("SPAN", "quaff");
    assert_eq!((captured + dropped, lost, mirror_dropped), (10_000, 0, Some(dropped)));
    // 2,000 would take 22 s: the frames are sent in half a second, and in a few on a busy machine.
    assert!((160..2000).contains(&captured), "{captured} passed the mirror port");
    let page = fs::read_to_string(dir.join("out/report.md")).expect("a page");
    for words in
        ["## Lost at each capture point", "SPAN mirror port", "a mirror port of 1 Mbit/s", "ProfiShark 1G"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_nothing_is_left(dir, pid);
}
