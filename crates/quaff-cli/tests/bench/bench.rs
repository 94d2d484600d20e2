//! `quaff bench` from outside, without a lab: lists, plans that are only printed, results that are shown
//! again, and what is refused.

use quaff_bench::testing::sample_report;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaff")).arg("bench").args(args).output().expect("quaff runs")
}

/// Its output; it must succeed.
#[track_caller]
fn said(args: &[&str]) -> String {
    let done = bench(args);
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args:?}: {stderr}");
    String::from_utf8(done.stdout).expect("text")
}

/// Its error message; it must fail.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let done = bench(args);
    assert_eq!(done.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&done.stdout));
    String::from_utf8(done.stderr).expect("text")
}

/// A folder with the result of a bench that never was.
fn sample(dir: &Path) -> String {
    let path = dir.join("sample");
    quaff_bench::report::write(&sample_report(), &path).expect("written");
    path.display().to_string()
}

#[test]
fn presets_and_capturers_are_listed() {
    let list = said(&["list"]);
    for name in ["quick", "whitepaper", "pam2007", "Profitap", "dumpcap", "recvfrom", "--rival-file"] {
        assert!(list.contains(name), "{name}: {list}");
    }
    let json: Value = serde_json::from_str(&said(&["list", "--json"])).expect("JSON");
    let presets = json["presets"].as_array().expect("presets");
    assert_eq!(presets.len(), 9);
    assert!(presets.iter().all(|preset| preset["seconds"].as_f64().is_some_and(|s| s > 10.0)), "{json}");
    let ours = json["rivals"].as_array().expect("rivals").iter().find(|rival| rival["name"] == "quaff");
    assert_eq!(ours.expect("ours")["installed"], true);
}

#[test]
fn a_preset_that_went_to_flow_meters_still_runs_on_capturers() {
    let text = said(&["capture", "--preset", "flow-appliance", "--print-plan"]);
    assert!(text.contains("rivals = [\"quaff\", \"tcpdump\"]"), "{text}");
    assert!(said(&["flow", "--preset", "flow-appliance", "--dry-run"]).contains("meters = ["));
}

#[test]
fn a_plan_that_was_printed_is_the_plan() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.toml");
    let text = said(&["capture", "--preset", "whitepaper", "--runs", "2", "--print-plan"]);
    assert!(text.starts_with("# 90 cases, 180 runs, about "), "{text}");
    std::fs::write(&file, &text).expect("written");
    let file = file.display().to_string();
    assert_eq!(said(&["capture", "--plan", &file, "--print-plan"]), text);
    let changed = said(&["capture", "--plan", &file, "--runs", "1", "--print-plan"]);
    assert!(changed.starts_with("# 90 cases, 90 runs"), "{changed}");
}

#[test]
fn a_fault_in_a_plan_is_named_with_its_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("wrong.toml");
    let text = "name = \"x\"\ntitle = \"X\"\nrivals = [\"quaff\"]\nrunz = 3\n";
    std::fs::write(&file, text).expect("written");
    let error = refused(&["capture", "--plan", &file.display().to_string(), "--print-plan"]);
    for word in ["wrong.toml", "line 4", "runz"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    let error = refused(&["capture", "--sizes", "20", "--print-plan"]);
    assert!(error.contains("60 to 9230 bytes, not 20"), "{error}");
    let error = refused(&["capture", "--preset", "quik", "--print-plan"]);
    assert!(error.contains("no preset quik; there is quick"), "{error}");
}

#[test]
fn a_capturer_of_ones_own_that_cannot_be_understood_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "name = \"mine\"\nprogramm = \"mine\"\n").expect("written");
    let error = refused(&["capture", "--rival-file", &file.display().to_string(), "--print-plan"]);
    assert!(error.contains("mine.toml") && error.contains("programm"), "{error}");
    let plan = said(&["capture", "--command", "mine=cat {interface} {file}", "--print-plan"]);
    assert!(plan.contains("\"mine\""), "{plan}");
}

#[test]
fn a_result_is_shown_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = sample(dir.path());
    let report = sample_report();
    let shown = bench(&["show", &path]);
    let text = String::from_utf8(shown.stdout).expect("text");
    assert!(text.contains(&report.plan.title), "{text}");
    assert!(text.contains("Lost") && text.contains("CPU, % of a core"), "{text}");
    for name in &report.plan.rivals {
        assert!(text.contains(name.as_str()), "{name}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "it fits where there is no terminal");
    let all = bench(&["show", &path, "--all"]).stdout;
    assert!(all.len() > text.len(), "runs, machine, commands");
    let json: Value = serde_json::from_slice(&bench(&["show", &path, "--json"]).stdout).expect("JSON");
    assert_eq!(json, serde_json::to_value(&report).expect("JSON"));
}

#[test]
fn the_fixed_words_are_in_the_result() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = sample(dir.path());
    let text = std::fs::read(Path::new(&path).join("result.json")).expect("a result");
    let json: Value = serde_json::from_slice(&text).expect("JSON");
    assert!(json["machine"].is_object());
    let case = &json["cases"][0];
    for key in ["rival", "size", "pps", "runs", "loss_trimmed", "loss_median", "limited_by"] {
        assert!(case.get(key).is_some(), "{key}: {case}");
    }
    for key in ["offered", "captured", "tool_drops", "cpu_user_s", "cpu_system_s"] {
        assert!(case["runs"][0].get(key).is_some(), "{key}: {case}");
    }
}

#[test]
fn a_file_that_is_no_result_is_refused_by_show() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().display().to_string();
    assert!(refused(&["show", &path]).contains("result.json"));
    std::fs::write(dir.path().join("result.json"), "{}").expect("written");
    assert!(refused(&["show", &path]).contains("is not a result of a bench"));
}

#[test]
fn a_result_is_never_written_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = sample(dir.path());
    let error = refused(&["capture", "--preset", "quick", "--out", &path]);
    assert!(error.contains("there is a result already") && error.contains("--out"), "{error}");
}

#[test]
fn two_results_are_compared() {
    let dir = tempfile::tempdir().expect("a folder");
    let a = sample(dir.path());
    let mut worse = sample_report();
    for case in worse.cases.iter_mut().filter(|case| case.rival == "quaff") {
        case.runs.iter_mut().for_each(|run| run.loss = Some(0.5));
    }
    let b = dir.path().join("worse");
    quaff_bench::report::write(&worse, &b).expect("written");
    let b = b.display().to_string();
    let same = said(&["compare", &a, &a]);
    assert!(same.contains("no more apart than their spread"), "{same}");
    let done = bench(&["compare", &a, &b]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("worse") && text.contains("quaff"), "{text}");
    let json = bench(&["compare", &a, &b, "--json"]).stdout;
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    assert!(json["rows"].as_array().expect("rows").iter().any(|row| row["verdict"] == "worse"), "{json}");
    assert!(refused(&["compare", &a, "/nonexistent"]).contains("/nonexistent"));
}
