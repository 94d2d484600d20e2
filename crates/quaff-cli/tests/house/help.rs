//! The text of `--help` is part of the product: snapshots show each change. `-h` fits two screens or little more, and
//! `quaff man` shows the page of a command.

use crate::docs::commands;
use crate::support::{QUAFF, folder, tool};
use quaff_testkit::{test_name, write_program};
use std::process::Command;

/// Lines of a short help at most, on a terminal of 80 columns.
const SHORT_LINES: usize = 60;

fn help(command: &[&str]) -> String {
    let done = Command::new(QUAFF).args(command).arg("--help").output().expect("quaff runs");
    assert!(done.status.success());
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn each_short_help_fits_two_screens_or_little_more() {
    let mut long = Vec::new();
    for command in commands() {
        let mut quaff = Command::new(QUAFF);
        quaff.args(command.split_whitespace()).arg("-h").env("COLUMNS", "80");
        let text = String::from_utf8(quaff.output().expect("quaff runs").stdout).expect("text");
        let lines = text.lines().count();
        if lines > SHORT_LINES {
            long.push(format!("quaff {command} -h has {lines} lines"));
        }
        // What it leaves out is announced.
        let words: Vec<_> = command.split_whitespace().collect();
        let flags = |text: &str| text.lines().filter(|line| is_flag(line)).count();
        let is_all = flags(&text) >= flags(&help(&words));
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert!(
            is_all || last.contains(&format!("'quaff {command} --help' has all options")),
            "{command}: {last}"
        );
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// The line of a flag, not one of a description.
fn is_flag(line: &str) -> bool {
    let word = line.trim_start();
    line.len() - word.len() <= 6 && word.starts_with('-') && !word.starts_with("- ")
}

/// Without a terminal the text is that of `--help`; on one, man(1) gets the page.
#[test]
fn man_shows_the_page_of_a_command() {
    let man =
        |words: &str| Command::new(QUAFF).arg("man").args(words.split(' ')).output().expect("quaff runs");
    for words in ["capture", "flows top"] {
        let shown = man(words);
        let expected = help(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(String::from_utf8_lossy(&shown.stdout).trim_end(), expected.trim_end(), "{words}");
        assert!(shown.status.success() && shown.stderr.is_empty(), "{shown:?}");
    }
    let wrong = man("flows tpo");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(2) && said.contains("no command 'flows tpo'"), "{said}");

    if tool(test_name!(), "script").is_none() {
        return;
    }
    let dir = folder();
    write_program(dir.path().join("man"), "#!/bin/sh\necho \"man $*\"\ngrep '^.TH'\nexit $STATUS\n");
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    for status in ["0", "1"] {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{QUAFF} man flows top"), "/dev/null"]);
        let shown = script.env("PATH", &path).env("STATUS", status).output().expect("script runs");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(text.contains("man -l -") && text.contains(".TH") && text.contains("top 1"), "{text}");
        assert_eq!(shown.status.code(), Some(if status == "0" { 0 } else { 2 }), "{text}");
    }
}

#[test]
fn man_makes_no_folder_of_a_misspelled_command() {
    let dir = folder();
    let man = |word: &str| {
        let done =
            Command::new(QUAFF).args(["man", word]).current_dir(dir.path()).output().expect("quaff runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (word, words) in
        [("captur", "'capture' is one"), ("top", "'quaff flows top -i IF'"), ("pages", "man ./pages")]
    {
        let (code, said) = man(word);
        assert!(code == Some(2) && said.contains(words), "{word}: {said}");
        assert!(!dir.path().join(word).exists(), "{word}");
    }
    // One that is there needs no slash.
    for word in ["./pages", "pages"] {
        let (code, said) = man(word);
        assert!(code == Some(0) && dir.path().join("pages/quaff-capture.1").exists(), "{word}: {said}");
    }
}

#[test]
fn help_reads_as_it_did() {
    for command in [
        "",
        "capture",
        "gulp",
        "extcap",
        "generate",
        "replay",
        "tcpreplay",
        "verify",
        "info",
        "merge",
        "interfaces",
        "pipe",
        "tap",
        "split",
        "flows",
        "flows top",
        "flows report",
        "flows list",
        "streams",
        "streams extract",
        "streams follow",
        "streams list",
        "nprobe",
        "bench",
        "bench capture",
        "bench flow",
        "bench show",
        "bench compare",
        "bench list",
        "bench promises",
        "service",
        "service show",
        "service list",
        "cores",
        "doctor",
        "lab",
        "lab up",
        "lab down",
        "lab run",
        "lab list",
        "lab probe",
        "lab demo",
        "man",
        "completions",
    ] {
        let words: Vec<_> = command.split_whitespace().collect();
        let name = format!("quaff {command}").trim().replace(' ', "-");
        let text = help(&words);
        // A terminal of 80 columns would break a longer line in the middle of a command.
        let examples = text.lines().skip_while(|line| *line != "Examples:");
        let long: Vec<_> = examples.filter(|line| line.chars().count() > 78).collect();
        assert!(long.is_empty(), "{command}: {long:?}");
        insta::assert_snapshot!(name, text);
    }
}
