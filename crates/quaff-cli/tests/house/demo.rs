//! `quaff lab demo`, short: it ends with 0, prints all parts on 80 columns, and removes its files.

use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::path::Path;
use std::process::{Command, Output};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");

fn demo(args: &[&str]) -> Output {
    Command::new(QUAFF).args(["lab", "demo"]).args(args).env_remove("QUAFF_LAB").output().expect("quaff runs")
}

#[test]
fn a_short_demo_ends_with_0_and_prints_all_parts() {
    let test = test_name!();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    if testing::lab(test).is_none() || !testing::space(test, dir.path(), 2 << 30) {
        return;
    }
    let path = dir.path().display().to_string();
    let done = demo(&["--count", "20000", "--against", "tcpdump", "--dir", &path]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(0), "{text} {}", String::from_utf8_lossy(&done.stderr));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "The disk of",
        "of new blocks in",
        "This machine sent",
        "1500 B frames,",
        "Small frames: 64 B frames, as fast as possible",
        "quaff, default",
        "in its file",
        "Findings -",
        "As users run it, with",
        "quaff verify, on the last file",
        "To try it on a real interface",
    ] {
        assert!(words.contains(part), "{part}: {text}");
    }
    for label in labels_of_the_readme() {
        // Which of the two a machine has depends on its disk.
        let other = if label == FASTEST { BEYOND } else { &label };
        assert!(words.contains(&label) || words.contains(other), "{label}: {text}");
    }
    // Paths may be longer, in a line of their own.
    let long = text.lines().find(|line| line.chars().count() > 80 && !line.contains(&path));
    assert_eq!(long, None, "{text}");
    assert_eq!(std::fs::read_dir(&path).expect("it is there").count(), 0, "files are left");
}

/// Titles of the largest load of 1500 B, where the machine sends less than its disk takes, and where it sends more.
const FASTEST: &str = "As fast as this machine can send";
const BEYOND: &str = "Above the disk's speed";

/// The headings of the table in the README, and the programs in it that each machine has.
fn labels_of_the_readme() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).expect("a README");
    let (_, table) = readme.split_once("What `make demo` printed").expect("a table");
    let lines: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let lines = &lines
        [..lines.iter().rposition(|line| line.contains("CPU s") || line.contains('%')).expect("rows") + 1];
    let titles = lines.iter().filter_map(|line| Some(line.split_once(": ")?.0.to_owned()));
    let heading = lines[0].split_whitespace().collect::<Vec<_>>().join(" ");
    let labels: Vec<_> = titles.chain([heading]).collect();
    assert_eq!(labels.len(), 4, "{labels:?}");
    labels
}

#[test]
fn a_disk_without_room_is_named_at_once() {
    let test = test_name!();
    let Some(_lab) = testing::lab(test) else { return };
    let done = demo(&["--dir", "/proc"]);
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && text.contains("/proc"), "{text}");
}

#[test]
fn a_size_that_the_demo_does_not_have_is_refused() {
    let done = demo(&["--sizes", "64,100"]);
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && text.contains("64, 512 and 1500"), "{text}");
}

#[test]
fn a_capturer_that_crashes_is_named_and_ends_it_with_1() {
    let test = test_name!();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    if testing::lab(test).is_none() || !testing::space(test, dir.path(), 1 << 30) {
        return;
    }
    let fake = dir.path().join("tcpdump");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo tcpdump version 9 && exit\nexit 3\n";
    testing::write_program(&fake, script);
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    let args = ["lab", "demo", "--count", "2000", "--sizes", "64", "--against", "tcpdump", "--dir"];
    let mut command = Command::new(QUAFF);
    let done = command.args(args).arg(dir.path()).env("PATH", path).env_remove("QUAFF_LAB").output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(1), "{text} {}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("BROKEN: tcpdump could not be measured"), "{text}");
    assert!(text.contains("quaff verify, on the last file"), "{text}");
}
