//! The syncs of a capture as the kernel sees them, and syncs that fail, because strace(1) makes them fail.

use crate::support::{Bench, Ended, PATIENCE, QUAFF, finish, names, tool, verify};
use quaff_lab::ChildProcess;
use quaff_testkit::test_name;
use std::path::Path;

/// Packets of each capture, sent within three seconds; three files of 2 MiB hold them.
const PACKETS: u64 = 9000;

/// One system call.
#[derive(Debug)]
struct Call {
    thread: u32,
    /// Seconds since 1970, when it began.
    at: f64,
    name: String,
}

/// The system calls of a capture, and how many of them strace made fail.
struct Log {
    calls: Vec<Call>,
    injected: usize,
}

impl Log {
    fn named(&self, name: &str) -> Vec<&Call> {
        self.calls.iter().filter(|call| call.name == name).collect()
    }
}

/// A capture of [`PACKETS`] packets under strace with these arguments.
fn capture(bench: &Bench, strace: &[&str], args: &[&str]) -> (Ended, Log) {
    let log = bench.path("log");
    let mut command = bench.lab.rx.command("strace").unwrap();
    command.args(["-f", "--seccomp-bpf", "-qq", "-ttt", "-o", &log]);
    command.args(["-e", "trace=fdatasync,fsync,renameat2", "-e", "signal=none"]).args(strace);
    command.args([QUAFF, "capture", "-i", "rx0", "--json", "--flush", "20ms", "--buffer", "64M"]).args(args);
    let mut running = ChildProcess::start(command).unwrap();
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate(&format!("--size 500 --count {PACKETS} --pps 3000"));
    let ended = finish(running);
    let log = std::fs::read_to_string(log).unwrap();
    let calls = log.lines().filter_map(call).collect();
    (ended, Log { calls, injected: log.matches("(INJECTED)").count() })
}

/// Reads `1234 1700000000.123456 fdatasync(9) = 0`. Another thread may split a call into two lines: the second one,
/// `<... fdatasync resumed>`, is none.
fn call(line: &str) -> Option<Call> {
    let mut words = line.split_whitespace();
    let (thread, at) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next()?.split_once('(')?.0.to_owned();
    Some(Call { thread, at, name })
}

/// `--dir` with its folder, which is new.
fn in_folder<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    std::fs::create_dir(dir).unwrap();
    [&["--dir", dir, "--rotate-size", "2M", "-c", "9000"], more].concat()
}

#[test]
fn files_are_synced_at_the_interval_and_at_their_ends() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 64 << 20) else { return };
    if tool(test, "strace").is_none() {
        return;
    }
    let [regular, last] = ["regular", "last"].map(|name| bench.path(name));
    let (ended, log) = capture(&bench, &[], &in_folder(&regular, &["--fsync", "200ms"]));
    let files = names(Path::new(&regular)).len();
    assert_eq!((ended.code, &ended.json["written"]), (0, &PACKETS.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(ended.json["synced_bytes"], ended.json["bytes_written"], "{}", ended.json);
    assert!(ended.json["sync_high_seconds"].as_f64() > Some(0.0), "{}", ended.json);
    let (syncs, calls) = (log.named("fdatasync"), &log.calls);
    // One every 200 ms or more, for 3 s; one at the end of each file.
    let seconds = syncs.last().unwrap().at - syncs[0].at;
    let most = (seconds / 0.2) as usize + 2 + files;
    assert!((5 + files..=most).contains(&syncs.len()), "{} syncs in {seconds} s: {calls:?}", syncs.len());
    // The folder is synced for each new name: of a file that begins, and of one that is finished.
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.name == "renameat2") {
        let next = calls[number + 1..].iter().find(|next| next.thread == call.thread);
        assert_eq!(next.map(|next| next.name.as_str()), Some("fsync"), "{calls:?}");
    }
    let folder_syncs = log.named("fsync").len();
    assert!((files + 1..=2 * files).contains(&folder_syncs), "{folder_syncs} for {files} files: {calls:?}");

    let (ended, log) = capture(&bench, &[], &in_folder(&last, &[]));
    assert_eq!(ended.json["synced_bytes"], ended.json["bytes_written"], "{}", ended.json);
    assert_eq!(log.named("fdatasync").len(), names(Path::new(&last)).len(), "{:?}", log.calls);
}

#[test]
fn a_failed_sync_costs_its_file_the_name_and_no_packet() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 64 << 20) else { return };
    if tool(test, "strace").is_none() {
        return;
    }
    for (number, fsync, tried) in [(0, None, "finish"), (1, Some("50ms"), "sync")] {
        let dir = bench.path(&format!("dir-{number}"));
        let args = in_folder(&dir, &fsync.map_or(vec![], |interval| vec!["--fsync", interval]));
        // The second call of the thread that syncs.
        let (ended, log) = capture(&bench, &["-e", "inject=fdatasync:error=EIO:when=2"], &args);
        let ledger = &ended.json;
        assert_eq!(log.injected, 1, "{:?}", log.calls);
        assert_eq!(
            (ended.code, &ledger["verdict"], &ledger["written"], &ledger["lost"], &ledger["failed_files"]),
            (1, &"unknown".into(), &PACKETS.into(), &0.into(), &1.into()),
            "{ledger} {}",
            ended.stderr
        );
        let notes = ledger["notes"].to_string();
        let words = format!(".part: cannot {tried} it: Input/output error");
        assert!(notes.contains(&words) && notes.contains("may not be on disk"), "{notes}");
        assert!(ledger["synced_bytes"].as_u64() < ledger["bytes_written"].as_u64(), "{ledger}");
        let files = names(Path::new(&dir));
        let unfinished = files.iter().filter(|name| name.ends_with(".part")).count();
        assert!(unfinished == 1 && files.len() >= 3, "{files:?}");
        let paths: Vec<_> = files.iter().map(|name| format!("{dir}/{name}")).collect();
        let found = verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((&found["received"], &found["complete"]), (&PACKETS.into(), &true.into()), "{found}");
    }
}

#[test]
fn the_third_failed_sync_in_a_row_ends_a_capture_and_the_first_one_of_a_single_file() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 64 << 20) else { return };
    if tool(test, "strace").is_none() {
        return;
    }
    let (dir, file) = (bench.path("dir"), bench.path("x.pcapng"));
    let of_folder = in_folder(&dir, &["--fsync", "50ms"]);
    let of_file = vec!["-w", &file, "--fsync", "50ms"];
    for (args, failures) in [(of_folder, 3), (of_file, 1)] {
        let (ended, log) = capture(&bench, &["-e", "inject=fdatasync:error=EIO"], &args);
        let ledger = &ended.json;
        assert_eq!(ended.code, 2, "{ledger} {}", ended.stderr);
        assert!(ledger["ended_by"]["write_error"].to_string().contains("Input/output error"), "{ledger}");
        assert_eq!(ledger["failed_files"], failures, "{ledger} {:?}", log.calls);
        assert_eq!((&ledger["synced_bytes"], &ledger["lossless"]), (&0.into(), &false.into()), "{ledger}");
        let counted = ["written", "lost"].map(|name| ledger[name].as_u64().unwrap());
        assert_eq!(ledger["received"].as_u64(), Some(counted.iter().sum()), "{ledger}");
    }
}
