//! The text of `--help` is part of the product: snapshots show each change.

use std::process::Command;

fn help(command: &[&str]) -> String {
    let done =
        Command::new(env!("CARGO_BIN_EXE_quaff")).args(command).arg("--help").output().expect("quaff runs");
    assert!(done.status.success());
    String::from_utf8(done.stdout).expect("text")
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
