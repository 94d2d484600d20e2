//! Forty command lines against what goes wrong in a shell: a closed or full stdout, no permission, a folder that cannot
//! be written, a number that is none. Each ends with one sentence and status 2, and none panics. No network.

use crate::support::{QUAFF, run};
use quaff_testkit::{skip, test_name};
use std::fs::{File, Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// User and group without rights.
const UNPRIVILEGED: u32 = 65534;

/// Command lines that print on stdout. IN is a capture, OUT a folder that can be written.
const PRINTING: [&str; 45] = [
    "--help",
    "--version",
    "help capture",
    "capture --help",
    "generate -h",
    "replay --help",
    "tcpreplay --help",
    "tcpreplay --native -i lo IN",
    "gulp --help",
    "extcap --help",
    "extcap --extcap-interfaces",
    "extcap --extcap-interface lo --extcap-dlts",
    "extcap --extcap-interface lo --extcap-config",
    "verify --help",
    "verify IN",
    "verify --json IN",
    "verify --against IN IN",
    "verify --json --against IN IN",
    "pipe --help",
    "split --help",
    "split --read IN --members 2 --dry-run",
    "split --read IN --members 2 --dry-run --json",
    "split --read IN --members 2 --dir OUT/parts",
    "split --read IN --members 2 --dir OUT/more --json",
    "capture -i lo --dry-run",
    "capture --read IN -w OUT/a.pcapng --dry-run",
    "capture --read IN -w OUT/b.pcapng --json",
    "capture --read IN --dir OUT --rotate-size 2M --json",
    "generate -w OUT/c.pcap --count 5",
    "generate -w OUT/d.pcap --count 5 --json",
    "bench --help",
    "bench list",
    "bench list --json",
    "bench capture --preset quick --print-plan",
    "bench flow --dry-run",
    "service --help",
    "service list",
    "service list --json",
    "doctor --help",
    "cores --help",
    "lab list",
    "lab list --json",
    "completions bash",
    "completions zsh",
    "completions fish",
];

/// Command lines that write a capture to stdout.
const PACKETS: [&str; 5] = [
    "capture --read IN -w -",
    // The file header is all of it.
    "capture --read IN -w - -f sctp",
    "split --read IN -w -",
    "generate -w - --count 5",
    "generate -w - --count 100k",
];

/// Command lines that need what a user without rights lacks: SECRET is a file that only root reads.
const FORBIDDEN: [&str; 20] = [
    "capture -i lo -w OUT/a.pcapng -d 1s",
    "capture --read SECRET -w OUT/b.pcapng",
    "capture --read IN --read SECRET -w OUT/c.pcapng",
    "split -i lo -w OUT/d.pcapng",
    "split --read SECRET --members 2 --dry-run",
    "split --read IN -o lo",
    "generate --inject lo --count 1",
    "generate -o lo --count 1",
    "generate --sizes-from SECRET --count 1 -w OUT/e.pcap",
    "generate --content-from SECRET --count 1 -w OUT/f.pcap",
    "replay -o lo IN",
    "replay --inject lo IN",
    "replay -o lo SECRET",
    "tcpreplay -i lo IN",
    "gulp -i lo",
    "verify SECRET",
    "verify --against SECRET IN",
    "bench show SECRET",
    "service show SECRET",
    "lab up",
];

/// Command lines that write into RO, a folder that this user cannot write.
const READ_ONLY: [&str; 14] = [
    "capture --read IN -w RO/a.pcapng",
    "capture --read IN --dir RO",
    "capture --read IN --dir RO/new",
    "capture --read IN --dir RO --rotate-size 2M --name b",
    "split --read IN -w RO/a.pcapng -w OUT/x.pcapng",
    "split --read IN --members 2 --dir RO",
    "split --read IN --members 2 --dir RO/new",
    "generate -w RO/c.pcap --count 5",
    "generate --sizes-save RO/sizes --sizes-from IN -w OUT/d.pcap --count 5",
    "pipe --dir RO",
    "man RO",
    "man RO/new",
    "capture --read IN -w RO/none/a.pcapng",
    "capture --read IN --tee RO -w -",
];

/// Numbers that are none, or that no option takes: what stands before the option, the option, its values.
const NUMBERS: [(&str, &str, &[&str]); 44] = [
    ("capture -i lo -d 50ms -w OUT/r", "--count", &["x", "0", "-1", "1.5", "99999999999999999999"]),
    ("capture -i lo -d 50ms -w OUT/r", "--duration", &["x", "5 parsecs", "-1s"]),
    ("capture -i lo -d 50ms -w OUT/r", "--snaplen", &["x", "-1", "99999999999"]),
    ("capture -i lo -d 50ms -w OUT/r", "--ring", &["x", "12X", "-1", "1e400", "999999999T"]),
    ("capture -i lo -d 50ms -w OUT/r", "--buffer", &["x", "", "12X"]),
    ("capture -i lo -d 50ms -w OUT/r", "--flush", &["x"]),
    ("capture -i lo -d 50ms -w OUT/r", "--fsync", &["x", "1ns"]),
    ("capture -i lo -d 50ms -w OUT/r", "--cpu", &["x", "-1"]),
    ("capture -i lo -d 50ms -w OUT/r", "--writer-cpu", &["x"]),
    ("capture -i lo -d 50ms -w OUT/r", "--rt", &["0", "100", "x"]),
    ("capture -i lo -d 50ms --dir OUT", "--rotate-size", &["x", "12X", "1"]),
    ("capture -i lo -d 50ms --dir OUT", "--rotate-time", &["x", "0"]),
    ("capture -i lo -d 50ms --dir OUT", "--keep-files", &["x", "0", "-1"]),
    ("capture -i lo -d 50ms --dir OUT", "--keep-size", &["x", "0"]),
    ("capture -i lo -d 50ms --dir OUT", "--keep-free", &["x", "-1", "101", "100", "1%%", "nan", "inf"]),
    ("capture -i lo -d 50ms -w OUT/r --decap auto", "--decap-depth", &["0", "17", "x"]),
    ("capture -i lo -d 50ms -w OUT/r", "--stats", &["x", "0", "1ns"]),
    ("split --read IN", "--members", &["x", "0", "251"]),
    ("split --read IN --members 2 --dry-run", "--weights", &["x,1", "0,1", "1", "1,-1"]),
    ("split --read IN --members 2 --dry-run", "--seed", &["x"]),
    ("split --read IN --members 2 --dry-run", "--count", &["x", "0"]),
    ("split --read IN --members 2 --dry-run", "--buffer", &["12X"]),
    ("generate -w OUT/n.pcap", "--count", &["x", "1.5", "-1"]),
    ("generate -w OUT/n.pcap", "--duration", &["x"]),
    ("generate -w OUT/n.pcap --count 1", "--pps", &["x", "1T", "0", "-1"]),
    ("generate -w OUT/n.pcap --count 1", "--mbps", &["x", "0"]),
    ("generate -w OUT/n.pcap --count 1", "--size", &["x", "0", "20", "64-", "9-8", "99999999"]),
    ("generate -w OUT/n.pcap --count 1", "--vlan", &["x", "4095", "5000", "70000", "1,"]),
    ("generate -w OUT/n.pcap --count 1", "--mpls", &["x", "1048576"]),
    ("generate -w OUT/n.pcap --count 1", "--erspan", &["x", "1024"]),
    ("generate -w OUT/n.pcap --count 1", "--vxlan", &["x", "16777216"]),
    ("generate -w OUT/n.pcap --count 1", "--flows", &["x", "0"]),
    ("generate -w OUT/n.pcap --count 1", "--stream", &["x", "65536"]),
    ("generate -w OUT/n.pcap --count 1", "--fragment", &["x", "0"]),
    ("replay -o no-such-if IN", "--pps", &["x", "0"]),
    ("replay -o no-such-if IN", "--loop", &["x", "-1"]),
    ("replay -o no-such-if IN", "--cpu", &["x"]),
    ("verify IN", "--expect", &["x", "-1"]),
    ("verify --against IN IN", "--snaplen", &["x"]),
    ("info --traffic IN", "--top", &["x", "-1", "1.5"]),
    ("pipe", "--buffer", &["x", "12X"]),
    ("bench capture --preset quick --print-plan", "--repeat", &["x", "-1"]),
    ("bench flow --dry-run", "--fps", &["x", "0"]),
    ("gulp -i lo", "-r", &["x"]),
];

/// A folder with a capture, a place to write, one that only root can write, and the program for every user.
struct Place {
    dir: TempDir,
    is_root: bool,
}

impl Place {
    fn new() -> Self {
        // On a file system that every user can search.
        let dir = tempfile::Builder::new().prefix("quaff-lines").tempdir().expect("a folder");
        let place = Self { dir, is_root: std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) };
        let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
        mode(place.dir.path(), 0o755);
        quaff_testkit::copy_program(QUAFF, place.at("quaff"));
        run(Command::new(QUAFF).args(["generate", "--count", "20", "-w"]).arg(place.at("IN")));
        mode(&place.at("IN"), 0o644);
        std::fs::write(place.at("SECRET"), "{}").expect("a file");
        mode(&place.at("SECRET"), 0o000);
        for (name, bits) in [("OUT", 0o777), ("RO", 0o555)] {
            std::fs::create_dir(place.at(name)).expect("a folder");
            mode(&place.at(name), bits);
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `quaff LINE` in the folder, with an empty stdin.
    fn quaff(&self, line: &str) -> Command {
        let mut command = Command::new(self.at("quaff"));
        command.args(line.split_whitespace()).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// As a user without rights.
    fn as_unprivileged(&self, line: &str) -> Output {
        let mut command = self.quaff(line);
        if self.is_root {
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        command.output().expect("quaff runs")
    }
}

/// The output of a command, and whether it is as it must be.
struct Found {
    line: String,
    code: Option<i32>,
    stderr: String,
}

impl Found {
    fn of(line: &str, done: &Output) -> Self {
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        Self { line: line.to_owned(), code: done.status.code(), stderr }
    }

    fn has(&self, word: &str) -> bool {
        self.stderr.contains(word)
    }

    /// Status 2 and one line of quaff's.
    fn is_sentence(&self) -> bool {
        let is_one = self.stderr.lines().count() == 1 && self.stderr.len() < 400;
        self.code == Some(2) && is_one && self.stderr.starts_with("quaff: ")
    }
}

/// Lists all that are not `good`.
#[track_caller]
fn assert_all(found: Vec<Found>, good: impl Fn(&Found) -> bool) {
    assert!(found.len() >= 4);
    let bad = found.iter().filter(|one| one.has("panicked") || !good(one));
    let bad: Vec<_> = bad.map(|one| format!("{}: {:?} {}", one.line, one.code, one.stderr)).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Runs each line with a stdout that takes nothing.
fn to_full(place: &Place, lines: &[&str]) -> Vec<Found> {
    let full = || File::options().write(true).open("/dev/full").expect("a device");
    let run = |line: &&str| Found::of(line, &place.quaff(line).stdout(full()).output().expect("quaff runs"));
    lines.iter().map(run).collect()
}

/// Runs `SHELL -c COMMAND` with each line in the place of `LINE`.
fn in_shell(place: &Place, shell: &str, command: &str, lines: &[&str]) -> Vec<Found> {
    let run = |line: &&str| {
        let mut shell = Command::new(shell);
        shell.arg("-c").arg(command.replace("LINE", line)).current_dir(place.dir.path());
        Found::of(line, &shell.stdin(Stdio::null()).output().expect("a shell"))
    };
    lines.iter().map(run).collect()
}

#[test]
fn a_stdout_without_room_is_one_sentence() {
    let place = Place::new();
    let count = |one: &Found| one.stderr.matches("cannot write to stdout").count();
    assert_all(to_full(&place, &PRINTING), |one| one.code == Some(2) && count(one) == 1);
    let is_full = |one: &Found| one.has("(os error 28)") || one.has("disk is full");
    assert_all(to_full(&place, &PACKETS), |one| one.code == Some(2) && is_full(one));
}

#[test]
fn a_closed_stdout_is_one_sentence() {
    let place = Place::new();
    let of_stdout = |one: &Found| one.stderr.lines().filter(|line| line.contains("stdout")).count();
    let found = in_shell(&place, "sh", "exec ./quaff LINE >&-", &[&PRINTING[..], &PACKETS].concat());
    assert_all(found, |one| one.code == Some(2) && of_stdout(one) == 1);
}

/// As `quaff … | head -1` does.
#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let place = Place::new();
    let found = in_shell(&place, "bash", "./quaff LINE | true; exit ${PIPESTATUS[0]}", &PRINTING);
    assert_all(found, |one| one.code == Some(0) && !one.has("stdout"));
}

#[test]
fn a_user_without_rights_reads_one_sentence() {
    const WORDS: [&str; 5] = ["ermission denied", "not permitted", "root", "CAP_", "capabilit"];
    let place = Place::new();
    if !place.is_root {
        skip(test_name!(), "not root: SECRET would be readable");
        return;
    }
    let found = FORBIDDEN.map(|line| Found::of(line, &place.as_unprivileged(line)));
    assert_all(found.into(), |one| one.is_sentence() && WORDS.iter().any(|word| one.has(word)));
}

#[test]
fn a_folder_that_cannot_be_written_is_one_sentence() {
    let place = Place::new();
    let found = READ_ONLY.map(|line| Found::of(line, &place.as_unprivileged(line)));
    assert_all(found.into(), |one| one.is_sentence() && one.has("RO") && one.has("os error"));
}

#[test]
fn a_bad_number_is_one_sentence_that_names_the_option() {
    let place = Place::new();
    let mut found = Vec::new();
    for (line, option, values) in NUMBERS {
        for value in values {
            let mut command = place.quaff(line);
            match option.starts_with("--") {
                true => command.arg(format!("{option}={value}")),
                false => command.args([option, value]),
            };
            let done = command.output().expect("quaff runs");
            found.push(Found::of(&format!("{line} {option}={value}"), &done));
        }
    }
    // A line ends with its option and value.
    let option = |one: &Found| {
        let word = one.line.rsplit(' ').find(|word| word.starts_with('-')).unwrap_or_default().to_owned();
        word.split('=').next().unwrap_or_default().to_owned()
    };
    assert_all(found, |one| one.is_sentence() && one.has(option(one).trim_start_matches('-')));
}

/// Wireshark and tshark wait for the end of the pipe, also when quaff has ended.
#[test]
fn a_capture_for_wireshark_with_a_wrong_filter_ends_its_pipe() {
    let place = Place::new();
    run(Command::new("mkfifo").arg(place.at("pipe")));
    let reader =
        Command::new("timeout").args(["60", "cat"]).arg(place.at("pipe")).stdout(Stdio::piped()).spawn();
    let line = "extcap --capture --extcap-interface quaff-lo --fifo pipe --extcap-capture-filter imcp";
    let found = Found::of(line, &place.quaff(line).output().expect("quaff runs"));
    assert!(found.code == Some(2) && found.has("imcp"), "{}", found.stderr);
    let read = reader.expect("cat runs").wait_with_output().expect("it ends");
    assert!(read.status.success() && read.stdout.is_empty(), "{read:?}");
}

#[test]
fn the_version_names_the_library_and_the_kernel() {
    let text = run(Command::new(QUAFF).arg("--version"));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("quaff ") && lines[0].contains(", commit "), "{text}");
    assert!(lines[1].contains("libpcap") && lines[2].starts_with("Linux "), "{text}");
    assert!(lines[2].contains("io_uring "), "{text}");
}
