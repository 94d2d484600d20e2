//! The screens of commands on terminals of 40, 80 and 200 columns, in colour and without, and on no terminal.

use crate::stamped::{File, Format};
use crate::support::{self, QUAFF, folder, run, tool};
use crate::traffic;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const COLUMNS: [usize; 3] = [40, 80, 200];
/// Begins each control sequence (ECMA-48).
const ESCAPE: char = '\u{1b}';

/// The screens: names and command lines. `a.pcapng` lost packets, `b.pcap` has 2,000 frames of a few conversations.
const SCREENS: [(&str, &str); 16] = [
    ("info", "info a.pcapng"),
    ("info-of-files", "info a.pcapng b.pcap"),
    ("info-traffic", "info --traffic b.pcap"),
    ("verify", "verify a.pcapng"),
    ("verify-against", "verify --against b.pcap b.pcap"),
    ("verify-unjudged", "verify b.pcap"),
    ("split", "split --read b.pcap --members 3 --dir parts"),
    ("capture", "capture --read b.pcap -f 'udp and greater 500' --dedup -c 500 -w out.pcapng"),
    ("capture-dry-run", "capture --read b.pcap --buffer 64M -w dry.pcapng --dry-run"),
    ("generate", "generate -w g.pcap --count 100 --pps 1k --flows 5"),
    ("replay", "replay -w r.pcap b.pcap"),
    ("flows-top", "flows top --read b.pcap --by host --once --rows 3 -q"),
    ("flows-report", "flows report b.pcap --by port,application --top 3 --over 1s -q"),
    ("bench-list", "bench list"),
    ("bench-flow", "bench show flows"),
    ("service-list", "service list"),
];

/// A folder with the files of the screens.
pub(crate) fn place() -> TempDir {
    let dir = folder();
    let mut file = File::new(Format::Pcapng).statistics(0, 0).frames(0..10);
    file.dropped = 7;
    std::fs::write(dir.path().join("a.pcapng"), file.frames(17..20).statistics(13, 7).bytes).expect("a file");
    traffic::write(&dir.path().join("b.pcap"), 2000);
    quaff_bench::report::write(&quaff_bench::testing::sample_flow_report(), &dir.path().join("flows"))
        .expect("a result");
    dir
}

/// `quaff LINE` in a terminal of so many columns; all that it prints.
fn on_terminal(mut command: Command, dir: &Path, line: &str, columns: usize) -> String {
    // Both streams are the terminal.
    let line = format!("stty cols {columns} rows 60; exec {QUAFF} {line}");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(dir)
        .env("TERM", "xterm-256color")
        .env("TZ", "UTC");
    String::from_utf8(command.output().expect("script runs").stdout).expect("text")
}

fn script(no_color: Option<&str>) -> Command {
    let mut command = Command::new("script");
    command
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(no_color.map(|value| ("NO_COLOR", value)));
    command
}

/// Erases a line from the cursor on.
const ERASED: &str = "\u{1b}[K";

/// The text that stays on the screen, without what differs from run to run.
fn settled(text: &str) -> String {
    let mut is_time = false;
    let lines = text.lines().map(|line| {
        // Progress lines are erased: to the end of the line, or as a whole.
        let left =
            |line: &str| line.rsplit(ERASED).next().unwrap_or_default().trim_end_matches('\r').to_owned();
        let line = &left(&line.replace("\u{1b}[2K", ERASED))[..];
        // How the disk is written, and for how long.
        let line = line.split_once(" → ").map_or(line, |_| line.split(" (").next().unwrap_or_default());
        let was_time = std::mem::replace(&mut is_time, line.ends_with("written in"));
        let rest = |after: &str| after.split_once(" s").map_or(String::new(), |(_, rest)| rest.to_owned());
        match line.split_once("written in ") {
            Some((before, after)) => format!("{before}written in N s{}", rest(after)),
            // It is on a line of its own.
            None if was_time => {
                format!("{}N s{}", " ".repeat(line.len() - line.trim_start().len()), rest(line))
            }
            None => line.to_owned(),
        }
    });
    // The last words of a report are its speed.
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with("  read  ")).collect();
    // The capturers that are installed here.
    let text = lines.join("\n");
    text.split("\n\n capturer").next().unwrap_or_default().to_owned()
}

/// Asserts that a screen fits; a word that is longer than the terminal stays whole, after its label too.
#[track_caller]
fn assert_fits(name: &str, text: &str, columns: usize) {
    let is_word = |line: &str| !line.trim().rsplit("  ").next().unwrap_or_default().contains(' ');
    let long: Vec<_> = text.lines().filter(|line| line.chars().count() > columns && !is_word(line)).collect();
    assert!(long.is_empty(), "{name}, {columns} columns: {long:#?}");
}

#[test]
fn screens_fit_terminals_of_40_80_and_200_columns() {
    let test = test_name!();
    if tool(test, "script").is_none() {
        return;
    }
    for columns in COLUMNS {
        let dir = place();
        for (name, line) in SCREENS {
            let text = settled(&on_terminal(script(Some("1")), dir.path(), line, columns));
            assert_fits(name, &text, columns);
            // The lists are those of the presets.
            if !name.ends_with("-list") {
                insta::assert_snapshot!(format!("{name}-{columns}"), text);
            }
        }
    }
}

#[test]
fn wide_tables_have_whole_rows_on_a_narrow_terminal() {
    let test = test_name!();
    if tool(test, "script").is_none() {
        return;
    }
    let dir = place();
    let has_row = |line: &str, words: [&str; 3]| {
        let text = settled(&on_terminal(script(Some("1")), dir.path(), line, 40));
        let is_row = |row: &str| words.iter().all(|word| row.contains(word));
        assert!(text.lines().any(is_row) && !text.contains("left out"), "{line}: {text}");
    };
    has_row("info --traffic --wide b.pcap", [" 10.0.0.1 ", " 61.9 KiB", " 61.1 KiB"]);
    // Bytes, and those sent and received, beside both ends.
    for line in ["flows report b.pcap --by flow --wide -q", "flows top --read b.pcap --once --wide -q"] {
        has_row(line, [" → ", " 60.2 KiB", " 59.4 KiB"]);
    }
}

#[test]
fn the_list_of_interfaces_fits_the_terminal() {
    let test = test_name!();
    if tool(test, "script").is_none() {
        return;
    }
    let _turn = support::alone();
    let Some(lab) = testing::lab(test) else { return };
    run(lab.rx.command("ip").expect("a command").args(["address", "add", "192.0.2.7/24", "dev", "rx0"]));
    let dir = folder();
    for columns in COLUMNS {
        let command = lab.rx.command("script").expect("a command in the lab");
        let text = settled(&on_terminal(command, dir.path(), "interfaces", columns));
        assert_fits("interfaces", &text, columns);
        let row = text.lines().find(|line| line.starts_with(" rx0")).expect("a row");
        assert!(row.contains(" up ") && text.contains(" 192.0.2.7/24"), "{text}");
        // The driver has room on wider terminals.
        assert_eq!(text.contains("veth"), columns > 40, "{text}");
    }
}

/// Sequences that choose colours or attributes (SGR).
fn styles(text: &str) -> usize {
    let parts = text.split("\u{1b}[").skip(1);
    parts
        .filter(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'))
        .count()
}

#[test]
fn no_color_is_obeyed_on_a_terminal() {
    let test = test_name!();
    if tool(test, "script").is_none() {
        return;
    }
    let dir = place();
    let shown = |no_color, line| styles(&on_terminal(script(no_color), dir.path(), line, 80));
    assert!(shown(None, "capture --help") > 10, "a terminal has styles");
    // An empty value counts as none (no-color.org).
    assert!(shown(Some(""), "capture --help") > 10, "a terminal has styles");
    let helps = ["--help", "capture -h", "help replay", "bench capture --help"].map(|line| ("help", line));
    for (name, line) in SCREENS.into_iter().chain(helps) {
        assert_eq!(shown(Some("1"), line), 0, "{name}: {line}");
    }
}

#[test]
fn without_a_terminal_there_is_text_only() {
    let dir = place();
    let run = |line: &str| -> Output {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {QUAFF} {line}")]).current_dir(dir.path()).env_remove("NO_COLOR");
        shell.output().expect("a shell")
    };
    let helps = ["--help", "capture --help", "capture --no-such-option"].map(|line| ("help", line));
    for (name, line) in SCREENS.into_iter().chain(helps) {
        let done = run(line);
        for stream in [&done.stdout, &done.stderr] {
            let text = String::from_utf8_lossy(stream);
            assert!(!text.contains([ESCAPE, '\r']), "{name}: {text:?}");
        }
        let text = [&done.stdout[..], &done.stderr].concat();
        assert!(!text.is_empty(), "{name} prints something");
    }
    // A line of a report stays whole, so that a program finds all of it.
    let text = String::from_utf8(run("verify b.pcap").stdout).expect("text");
    assert!(text.lines().any(|line| line.starts_with("nothing to judge by") && line.len() > 150), "{text}");
}
