//! `quaff capture --print`: tcpdump's lines beside a capture, and a tcpdump that is missing, fails or stands still. The
//! packets come from files, so no lab is needed.

use crate::support::packets::packets_in;
use crate::support::{PATIENCE, QUAFF, folder, run, tool};
use quaff_testkit::{test_name, write_program};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A pcap file (ns) of UDP packets over IPv4, a ms apart.
fn pcap(count: u32) -> Vec<u8> {
    let mut file: Vec<u8> = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for number in 0..count {
        let (seconds, ns) = (1_790_000_000 + number / 1000, number % 1000 * 1_000_000);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        frame.extend([(1024 + number % 8) as u16, 4000, 26, 0].map(u16::to_be_bytes).concat());
        frame.extend([0; 18]);
        file.extend([seconds, ns, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// A folder with `count` packets in the file `in`.
fn source(count: u32) -> TempDir {
    let dir = folder();
    fs::write(dir.path().join("in"), pcap(count)).unwrap();
    dir
}

/// `quaff capture ARGS --json` in the folder; programs are those of `path`.
fn command(dir: &Path, path: &str, args: &str) -> Command {
    let mut command = Command::new(QUAFF);
    command.current_dir(dir).env("TZ", "UTC").env("PATH", path).args(["capture", "--json"]);
    command.args(args.split_whitespace());
    command
}

fn capture(dir: &Path, path: &str, args: &str) -> Output {
    command(dir, path, args).output().expect("quaff runs")
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// Makes a program called tcpdump in the folder `bin`; returns a PATH with it.
fn fake(dir: &Path, script: &str) -> String {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("tcpdump");
    write_program(&program, format!("#!/bin/sh\n{script}\n"));
    format!("{}:{}", bin.display(), path())
}

/// The ledger: stdout has the packets as text.
fn ledger(done: &Output) -> Value {
    let stderr = text(&done.stderr);
    let line = stderr.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{stderr}"));
    serde_json::from_str(line).expect("JSON")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn packets_are_printed_as_tcpdump_prints_them_with_a_file_and_without() {
    let Some(mut tcpdump) = tool(test_name!(), "tcpdump") else { return };
    let dir = source(3000);
    let expected = run(tcpdump.env("TZ", "UTC").current_dir(dir.path()).args(["-nr", "in"]));
    assert_eq!(expected.lines().count(), 3000);
    for args in ["-w out.pcapng", "-w out.pcap", "-w out.pcapng.zst", "--dir d --rotate-size 2M", ""] {
        let done = capture(dir.path(), &path(), &format!("--read in --print {args}"));
        let (ledger, stderr) = (ledger(&done), text(&done.stderr));
        assert_eq!((done.status.code(), &ledger["written"]), (Some(0), &3000.into()), "{args}: {stderr}");
        assert!(text(&done.stdout) == expected, "{args}: {} lines", text(&done.stdout).lines().count());
        // Whose start came before the sandbox.
        assert_eq!(ledger["sandbox"]["refused_calls"], 0, "{args}: {ledger}");
        let copied = if args.is_empty() { Value::Null } else { 3000.into() };
        assert_eq!(ledger["tee"]["written"], copied, "{args}");
        assert!(!stderr.contains("reading from file"), "{stderr}");
    }
    let [pcapng, pcap] = ["out.pcapng", "out.pcap"].map(|name| dir.path().join(name).display().to_string());
    assert_eq!((packets_in(&pcapng).count, packets_in(&pcap).count), (3000, 3000));
}

/// `-N` is always so: names of hosts are not printed.
#[test]
fn letters_of_printing_are_those_of_tcpdump() {
    let Some(mut tcpdump) = tool(test_name!(), "tcpdump") else { return };
    let dir = source(30);
    let expected =
        run(tcpdump.env("TZ", "UTC").current_dir(dir.path()).args(["-nr", "in", "-#", "-K", "-H", "-v"]));
    let done = capture(dir.path(), &path(), "--read in --number -KHNv");
    assert_eq!((text(&done.stdout), done.status.code()), (expected, Some(0)), "{}", text(&done.stderr));
    assert!(text(&done.stdout).starts_with("    1  "), "{}", text(&done.stdout));
}

#[test]
fn times_are_local_or_with_utc_in_utc() {
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let dir = source(1);
    for (args, time) in [("", "2026-09-21 18:13:20.000000"), ("--utc", "2026-09-21 14:13:20.000000")] {
        let mut command = command(dir.path(), &path(), &format!("--read in -tttt {args}"));
        let done = command.env("TZ", "XXX-4").output().expect("quaff runs");
        assert!(text(&done.stdout).starts_with(time), "{args}: {}", text(&done.stdout));
    }
}

#[test]
fn lines_come_while_the_capture_runs_and_their_reader_ends_it() {
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    for args in ["-w out.pcapng --print", "--print"] {
        let dir = folder();
        let mut command = command(dir.path(), &path(), &format!("--read - --flush 20ms {args}"));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut packets = child.stdin.take().unwrap();
        packets.write_all(&pcap(10)).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("IP 198.18.0.1.1024 > 198.18.0.2.4000: UDP, length 18"), "{args}: {line}");
        // As `| head -1`: the capture ends with the next packets, though its input does not.
        drop(lines);
        let begun = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "{args}");
            // It may have ended.
            let _ = packets.write_all(&pcap(1)[24..]);
            std::thread::sleep(Duration::from_millis(20));
        }
        let done = child.wait_with_output().unwrap();
        let ledger = ledger(&done);
        assert_eq!(
            (done.status.code(), &ledger["ended_by"]),
            (Some(0), &"output_closed".into()),
            "{args}: {ledger}"
        );
        if args.contains("-w") {
            let file = dir.path().join("out.pcapng").display().to_string();
            assert_eq!(packets_in(&file).count, ledger["written"].as_u64().unwrap());
        }
    }
}

/// Notes on the machine may come before.
fn report_of(stderr: &[u8]) -> String {
    text(stderr).lines().filter(|line| !line.starts_with("quaff: ")).collect::<Vec<_>>().join("\n")
}

#[test]
fn packets_that_are_only_shown_are_not_called_written() {
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let dir = source(3000);
    let shell = |line: &str| {
        let line = line.replace("QUAFF", QUAFF);
        Command::new("sh").current_dir(dir.path()).args(["-c", &line]).output().expect("sh runs")
    };
    let done = shell("QUAFF capture in");
    assert_eq!(report_of(&done.stderr), "3,000 packets shown, none lost");
    // As many as a pipe does not hold.
    let done = shell("QUAFF capture in | head -1");
    assert_eq!((text(&done.stdout).lines().count(), report_of(&done.stderr)), (1, String::new()));
    let done = shell("QUAFF capture in -w out.pcapng --print | head -1");
    assert!(report_of(&done.stderr).contains(" written in "), "{}", text(&done.stderr));
}

#[test]
fn a_missing_tcpdump_is_named_before_anything_is_done() {
    if ["/usr/sbin/tcpdump", "/sbin/tcpdump"].iter().any(|path| Path::new(path).exists()) {
        return quaff_testkit::skip(test_name!(), "tcpdump is found without PATH");
    }
    let dir = source(1);
    for args in ["-w out --print", "--print", "", "-w out --print --dry-run"] {
        let done = capture(dir.path(), "/nowhere", &format!("--read in {args}"));
        let said = text(&done.stderr);
        assert!(
            done.status.code() == Some(2) && said.contains("install it (apt install tcpdump"),
            "{args}: {said}"
        );
        assert!(!dir.path().join("out").exists(), "{args}");
    }
    // A plan that prints for want of an output is shown.
    let done = capture(dir.path(), "/nowhere", "--read in --dry-run");
    let said = text(&done.stderr);
    assert!(done.status.code() == Some(0) && said.contains("install it (apt install tcpdump"), "{said}");
    assert!(text(&done.stdout).contains("output"), "{done:?}");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let dir = source(1);
    for (args, words) in [
        ("-w - --print", "--print and -w - both write to stdout"),
        ("--print --compress zstd", "--compress is for files"),
        ("-w - --tee . --print", "--tee"),
        ("-w out --print --stop-size 1M", "do not go with a live copy"),
    ] {
        let done = capture(dir.path(), &path(), &format!("--read in {args}"));
        let said = text(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains(words), "{args}: {said}");
    }
}

/// Files have everything whatever becomes of tcpdump; without a file its failure is that of the capture.
#[test]
fn a_tcpdump_that_fails_is_named_and_costs_the_file_nothing() {
    let dir = source(3000);
    // A name of an interface is any bytes.
    let path = fake(dir.path(), r"printf 'tcpdump: no such link \377\n' >&2; exit 3");
    let done = capture(dir.path(), &path, "--read in -w out.pcapng --print");
    let (ledger, said) = (ledger(&done), text(&done.stderr));
    assert_eq!((done.status.code(), &ledger["lossless"]), (Some(0), &true.into()), "{said}");
    assert_eq!(packets_in(&dir.path().join("out.pcapng").display().to_string()).count, 3000);
    let words = "tcpdump, which prints the packets, ended with exit status: 3: no such link \u{fffd}";
    assert_eq!(
        said.lines().filter(|line| line.starts_with("quaff: ") && line.contains(words)).count(),
        1,
        "{said}"
    );
    assert_eq!(ledger["notes"], serde_json::json!([words]));
    let tee = &ledger["tee"];
    assert_eq!(tee["written"].as_u64().unwrap() + tee["after_close"].as_u64().unwrap(), 3000, "{tee}");

    let done = capture(dir.path(), &path, "--read in --print");
    let ledger = self::ledger(&done);
    assert_eq!((done.status.code(), &ledger["failure"]), (Some(2), &words.into()), "{}", text(&done.stderr));
    assert_ne!(ledger["verdict"], "lossless", "{ledger}");
}

/// tcpdump takes a single one.
#[test]
fn files_with_different_snaplens_are_printed_together() {
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let (dir, mut other) = (source(3), pcap(2));
    other[16..20].copy_from_slice(&1000u32.to_le_bytes());
    fs::write(dir.path().join("other"), other).unwrap();
    let done = capture(dir.path(), &path(), "--read in --read other");
    assert_eq!(
        (text(&done.stdout).lines().count(), done.status.code()),
        (5, Some(0)),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn packets_of_several_link_types_have_what_prints_them() {
    let dir = source(3);
    let words = "an interface has a type 113 different from the type of the first interface";
    let path = fake(dir.path(), &format!("printf 'tcpdump: pcap_loop: {words}' >&2; exit 1"));
    let said = text(&capture(dir.path(), &path, "--read in").stderr);
    assert!(said.contains(words) && said.contains("'quaff capture … -w - | tshark -r -'"), "{said}");
}

#[test]
fn a_tcpdump_that_stands_still_is_ended_and_the_file_has_all() {
    let dir = source(3000);
    let path = fake(dir.path(), "echo $$ >pid; exec sleep 600");
    let begun = Instant::now();
    let done = capture(dir.path(), &path, "--read in -w out.pcapng --print");
    let (ledger, said) = (ledger(&done), text(&done.stderr));
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_eq!((done.status.code(), &ledger["lossless"]), (Some(0), &true.into()), "{said}");
    assert_eq!(packets_in(&dir.path().join("out.pcapng").display().to_string()).count, 3000);
    assert!(said.contains("did not end, and was killed"), "{said}");
    let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
    let status = format!("/proc/{}/status", pid.trim());
    let is_alive = || fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ"));
    while is_alive() {
        assert!(begun.elapsed() < PATIENCE, "tcpdump {pid} is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A pager shows the last lines long after the input has ended.
#[test]
fn a_reader_of_the_lines_may_take_its_time() {
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let dir = source(3000);
    let mut command = command(dir.path(), &path(), "--read in --print");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(child.try_wait().unwrap(), None, "it waits");
    let mut lines = String::new();
    child.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    assert_eq!((lines.lines().count(), child.wait().unwrap().code()), (3000, Some(0)));
}
