//! `quaff service` from outside, without a test of a path: lists, plans that are only printed, results that are shown
//! again, and what is refused.

use quaff_bench::report;
use quaff_bench::testing::sample_service_report;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn service(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaff")).arg("service").args(args).output().expect("quaff runs")
}

/// Its output; it must succeed.
#[track_caller]
fn said(args: &[&str]) -> String {
    let done = service(args);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {stderr}");
    String::from_utf8(done.stdout).expect("text")
}

/// Its error message; it must fail.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let done = service(args);
    assert_eq!(done.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&done.stdout));
    String::from_utf8(done.stderr).expect("text")
}

/// A folder with the result of a test that never was.
fn sample(dir: &Path) -> String {
    let path = dir.join("sample");
    report::write(&sample_service_report(), &path).expect("written");
    path.display().to_string()
}

#[test]
fn presets_are_listed_with_the_time_they_take() {
    let list = said(&["list"]);
    for name in ["whitepaper", "rfc2544", "y1564", "--short"] {
        assert!(list.contains(name), "{name}: {list}");
    }
    let json: Value = serde_json::from_str(&said(&["list", "--json"])).expect("JSON");
    let rows = json.as_array().expect("presets");
    assert_eq!(rows.len(), 3);
    let seconds = |row: &Value, name: &str| row[name].as_f64().expect("a number");
    assert!(rows.iter().all(|row| seconds(row, "seconds") >= seconds(row, "seconds_short")), "{json}");
    // All of the short profiles together: a coffee.
    let short: f64 = rows.iter().map(|row| seconds(row, "seconds_short")).sum();
    assert!(short < 900.0, "{short} s");
}

#[test]
fn a_plan_that_was_printed_is_the_plan() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.toml");
    let wanted =
        ["--preset", "y1564", "--short", "--from", "east/eth0", "--to", "eth1", "--both", "--print-plan"];
    let text = said(&wanted);
    assert!(text.starts_with("# about "), "{text}");
    for part in ["east", "eth1", "both"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::write(&file, &text).expect("written");
    let file = file.display().to_string();
    assert_eq!(said(&["--plan", &file, "--print-plan"]), text);
    assert_ne!(said(&["--plan", &file, "--bed", "bridge", "--print-plan"]), text);
}

#[test]
fn services_of_the_command_line_take_the_place_of_the_presets() {
    let args = ["--service", "voice:218:2M", "--service", "data:64+1518:20M:5M", "--max-loss", "0.1"];
    let text = said(&[&args[..], &["--max-delay", "2ms", "--duration", "90s", "--print-plan"]].concat());
    for part in
        ["voice", "data", "218", "1518", "cir_mbps = 20", "eir_mbps = 5", "0.001", "delay_ms = 2", "90"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let error = refused(&["--preset", "rfc2544", "--service", "voice:218:2M", "--print-plan"]);
    assert!(error.contains("tests no services") && error.contains("--preset y1564"), "{error}");
    let error = refused(&["--preset", "rfc2544", "--duration", "1h", "--print-plan"]);
    assert!(error.contains("--duration"), "{error}");
}

#[test]
fn settings_of_the_lab_are_not_in_plans_of_real_interfaces() {
    let lab = said(&["--preset", "y1564", "--print-plan"]);
    assert!(lab.contains("is_policed = false") && lab.contains("of the lab"), "{lab}");
    let real = said(&["--preset", "y1564", "--from", "eth0", "--to", "eth1", "--print-plan"]);
    assert!(!real.contains("is_policed = false") && !real.contains("of the lab"), "{real}");
    assert!(!real.contains("link_mbps"), "the interfaces say it: {real}");
    let own = said(&["--service", "a:512:1M", "--print-plan"]);
    assert!(own.contains("is_policed = false"), "{own}");
    assert!(!own.contains("loss_ratio"), "no limit was given: {own}");
}

/// A preset notes how long its performance test takes; with another duration that would be untrue.
#[test]
fn a_duration_of_the_command_line_takes_the_preset_s_note_away() {
    for preset in [&["--preset", "y1564"][..], &["--preset", "y1564", "--short"]] {
        let noted = said(&[preset, &["--print-plan"]].concat());
        let shortened = said(&[preset, &["--duration", "3s", "--print-plan"]].concat());
        assert!(shortened.contains("seconds = 3.0"), "{shortened}");
        assert!(!shortened.contains("15 minutes"), "{shortened}");
        assert!(preset.len() < 3 || noted.contains("15 minutes"), "{noted}");
    }
}

#[test]
fn contradictory_flags_are_refused_with_advice() {
    for (args, words) in [
        (&["--preset", "y1546", "--print-plan"][..], "no preset y1546; there is whitepaper"),
        (&["--from", "eth0"], "--to <END>"),
        (&["--from", "eth0", "--to", "eth1", "--bed", "tap"], "--bed"),
        (&["--null-from", "eth0", "--null-to", "eth1", "--print-plan"], "--from"),
        (&["--preset", "rfc2544", "--runs", "5", "--print-plan"], "--runs"),
        (&["--service", "voice:218:2"], "2M is in Mbit/s"),
        (&["--service", "voice"], "NAME:SIZE:CIR"),
        (&["--from", "a/b/c", "--to", "x"], "neither an interface nor NETNS/IF"),
        (&["--plan", "/nonexistent.toml", "--print-plan"], "/nonexistent.toml"),
    ] {
        let error = refused(args);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn an_interface_in_another_namespace_is_named_as_an_end() {
    let Some(lab) = testing::lab(test_name!()) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let mut quaff = lab.tx.command(env!("CARGO_BIN_EXE_quaff")).expect("a command in the lab");
    quaff.args(["service", "--preset", "y1564", "--short", "--from", "tx0", "--to", "rx0"]);
    let done = quaff.current_dir(dir.path()).output().expect("quaff runs");
    let words = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{words}");
    assert!(words.contains("it is in another network namespace: write "), "{words}");
    // Labs of other tests may have one of this name too, and eight are named.
    let end = format!("{}/rx0", lab.rx.name);
    assert!(words.contains(&end) || words.matches("/rx0").count() == 8, "{words}");
}

#[test]
fn a_fault_in_a_plan_is_named_with_its_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("wrong.toml");
    std::fs::write(&file, "name = \"x\"\ntitle = \"X\"\ntests = []\nrunz = 3\n").expect("written");
    let error = refused(&["--plan", &file.display().to_string(), "--print-plan"]);
    for word in ["wrong.toml", "line 4", "runz"] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn a_result_is_shown_again_and_ends_as_it_did() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = sample(dir.path());
    let report = sample_service_report();
    let shown = service(&["show", &path]);
    assert_eq!(shown.status.code(), Some(1), "a limit did not hold");
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains(&report.plan.title), "{text}");
    for part in ["Failed:", "Overall", "unavailable for 12 s", "FAIL", "Throughput", "Latency", "Frame loss"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    for service in &report.plan.services {
        assert!(text.contains(service.name.as_str()), "{}: {text}", service.name);
    }
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest <= 120, "it fits where there is no terminal: {longest}\n{text}");
    let all = service(&["show", &path, "--all"]).stdout;
    assert!(all.len() > text.len() + 1000, "limits, trials, machine");
    let json: Value = serde_json::from_slice(&service(&["show", &path, "--json"]).stdout).expect("JSON");
    assert_eq!(json, serde_json::to_value(&report).expect("JSON"));
}

#[test]
fn a_file_that_is_no_result_is_refused_by_show() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().display().to_string();
    assert!(refused(&["show", &path]).contains("result.json"));
    std::fs::write(dir.path().join("result.json"), "{}").expect("written");
    assert!(refused(&["show", &path]).contains("is not a result of a service test"));
}

#[test]
fn a_result_is_never_written_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = sample(dir.path());
    let error = refused(&["--preset", "whitepaper", "--out", &path]);
    assert!(error.contains("there is a result already") && error.contains("--out"), "{error}");
}
