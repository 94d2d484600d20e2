//! `quaff pipe` as a process: no byte is lost or changed, whatever program precedes or follows it.

use crate::support::{self, Bench, PATIENCE, QUAFF, finish, folder, lab_bench, names, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes that never repeat within any size that matters here, from xorshift64.
struct Noise(u64);

impl Noise {
    fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(count: usize) -> Vec<u8> {
        let mut noise = Self::new();
        let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| noise.next().to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }
}

fn pipe(args: &[&str], stdin: Stdio, stdout: Stdio) -> Child {
    let mut command = Command::new(QUAFF);
    command.arg("pipe").args(args).stdin(stdin).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("quaff runs")
}

/// Its exit status, and its report.
fn ended(mut child: Child) -> (i32, Value) {
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    let code = child.wait().expect("it ends").code().unwrap_or(-1);
    let line = said.lines().rfind(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{said}"));
    (code, serde_json::from_str(line).expect("JSON"))
}

#[track_caller]
fn assert_whole(report: &(i32, Value), bytes: usize) {
    let (code, json) = report;
    assert_eq!((*code, &json["failure"]), (0, &Value::Null), "{json}");
    assert_eq!((&json["read"], &json["written"]), (&bytes.into(), &bytes.into()), "{json}");
    assert!(json["high"].as_u64() <= json["size"].as_u64(), "{json}");
}

#[test]
fn a_slow_reader_gets_every_byte_and_costs_memory_first() {
    const BYTES: usize = 40 << 20;
    let sent = Noise::bytes(BYTES);
    let mut child = pipe(&["--size", "16M", "--json"], Stdio::piped(), Stdio::piped());
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut sizes = Noise::new();
    let got = std::thread::scope(|scope| {
        let sent = &sent;
        scope.spawn(move || {
            let (mut rest, mut sizes) = (&sent[..], Noise(7));
            while !rest.is_empty() {
                let (piece, rest_of_it) =
                    rest.split_at((1 + sizes.next() as usize % 150_001).min(rest.len()));
                stdin.write_all(piece).expect("it reads");
                if sizes.next().is_multiple_of(61) {
                    sleep(Duration::from_millis(2));
                }
                rest = rest_of_it;
            }
        });
        // By then the ring is full and the writer in front of it waits.
        sleep(Duration::from_millis(700));
        let mut got = Vec::with_capacity(BYTES);
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = stdout.read(&mut buffer[..1 + sizes.next() as usize % 99_991]).expect("read");
            if count == 0 {
                return got;
            }
            got.extend_from_slice(&buffer[..count]);
            if sizes.next().is_multiple_of(97) {
                sleep(Duration::from_millis(3));
            }
        }
    });
    let report = ended(child);
    assert_whole(&report, BYTES);
    assert!(report.1["full"]["count"].as_u64() >= Some(1), "{}", report.1);
    assert!(report.1["high"].as_u64() >= Some(12 << 20), "{}", report.1);
    assert!(got == sent, "the bytes are others");
}

#[test]
fn slow_input_is_forwarded_immediately() {
    let mut child = pipe(&["--json"], Stdio::piped(), Stdio::piped());
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for word in [&b"a"[..], b"few", b"words"] {
        stdin.write_all(word).unwrap();
        let mut got = vec![0; word.len()];
        stdout.read_exact(&mut got).unwrap();
        assert_eq!(got, word);
    }
    drop(stdin);
    assert_whole(&ended(child), 9);
}

#[test]
fn a_file_on_stdout_holds_what_came_whatever_its_size_and_where_it_begins() {
    let dir = folder();
    let (source, path) = (dir.path().join("source"), dir.path().join("out"));
    let sizes = [0, 1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (7 << 20) + 123];
    for bytes in sizes {
        let sent = Noise::bytes(bytes);
        fs::write(&source, &sent).unwrap();
        for start in [0usize, 4096, 7] {
            // Bytes after it stay, as with any program that does not truncate its output.
            let before = vec![b'x'; start + bytes + 5000];
            fs::write(&path, &before).unwrap();
            let mut out = OpenOptions::new().write(true).open(&path).unwrap();
            out.seek(SeekFrom::Start(start as u64)).unwrap();
            let given = out.try_clone().unwrap();
            let child = pipe(&["--json"], File::open(&source).unwrap().into(), given.into());
            let report = ended(child);
            assert_whole(&report, bytes);
            out.write_all(b"next").unwrap();
            let mut wanted = before;
            wanted[start..start + bytes].copy_from_slice(&sent);
            wanted[start + bytes..start + bytes + 4].copy_from_slice(b"next");
            assert!(fs::read(&path).unwrap() == wanted, "{bytes} B from {start} on");
            let is_direct = report.1["writing"].as_str().unwrap().contains("O_DIRECT");
            assert!(start != 7 || !is_direct, "{}", report.1);
        }
    }
}

#[test]
fn a_file_that_is_appended_to_and_one_that_is_stderr_too_are_written_as_they_are() {
    let dir = folder();
    let path = dir.path().join("out");
    fs::write(&path, b"first ").unwrap();
    let mut child =
        pipe(&["--json"], Stdio::piped(), OpenOptions::new().append(true).open(&path).unwrap().into());
    child.stdin.take().unwrap().write_all(b"second").unwrap();
    assert_whole(&ended(child), 6);
    assert_eq!(fs::read(&path).unwrap(), b"first second");
    let out = File::create(&path).unwrap();
    let mut command = Command::new(QUAFF);
    command.arg("pipe").stdin(Stdio::piped()).stdout(out.try_clone().unwrap()).stderr(out);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"bytes\n").unwrap();
    assert!(child.wait().unwrap().success());
    let said = fs::read_to_string(&path).unwrap();
    assert!(said.starts_with("bytes\n6 B in ") && said.contains("peak use"), "{said}");
}

#[test]
fn a_file_can_be_read_while_bytes_trickle_in() {
    let dir = folder();
    let path = dir.path().join("out");
    let mut child = pipe(&["--json"], Stdio::piped(), File::create(&path).unwrap().into());
    let mut stdin = child.stdin.take().unwrap();
    let sent = Noise::bytes(30_000);
    let mut done = 0;
    for upto in [5, 4096, 4100, 9000, 30_000] {
        stdin.write_all(&sent[done..upto]).unwrap();
        done = upto;
        let begun = Instant::now();
        while fs::read(&path).unwrap() != sent[..upto] {
            assert!(begun.elapsed() < Duration::from_secs(20), "{upto} B never came");
            sleep(Duration::from_millis(20));
        }
    }
    drop(stdin);
    assert_whole(&ended(child), 30_000);
    assert!(fs::read(&path).unwrap() == sent);
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_device_is_one() {
    let mut child = pipe(&["--json"], Stdio::piped(), Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    drop(child.stdout.take());
    // Nothing is written: it hears of it all the same.
    let (code, json) = ended(child);
    assert_eq!((code, &json["ended_by"]), (0, &"output_closed".into()), "{json}");
    assert!(stdin.write_all(&vec![0; 4 << 20]).is_err());

    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = pipe(&["--json"], Stdio::piped(), full.into());
    // It may be gone before all of it is there.
    let _ = child.stdin.take().unwrap().write_all(b"too much");
    let (code, json) = ended(child);
    assert_eq!((code, &json["lost"]), (2, &8.into()), "{json}");
    assert!(json["failure"].as_str().unwrap().contains("cannot write to stdout"), "{json}");
}

#[test]
fn a_reader_that_the_same_interrupt_ends_is_no_failure_either() {
    let mut child = pipe(&["--json"], Stdio::piped(), Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    // More than its reader's pipe holds.
    stdin.write_all(&Noise::bytes(6 << 20)).unwrap();
    signal(&child, Signal::SIGINT);
    sleep(Duration::from_millis(300));
    drop(child.stdout.take());
    let (code, json) = ended(child);
    assert_eq!((code, &json["lost"], &json["ended_by"]), (0, &0.into(), &"signal".into()), "{json}");
    assert!(json["unwanted"].as_u64() > Some(0), "{json}");
}

#[test]
fn old_files_go_when_only_so_many_are_to_stay() {
    let dir = folder();
    let args =
        ["--json", "--dir", &dir.path().display().to_string(), "--rotate-size", "64K", "--keep-files", "3"];
    let mut child = pipe(&args, Stdio::piped(), Stdio::null());
    child.stdin.take().unwrap().write_all(&Noise::bytes(1 << 20)).unwrap();
    let mut said = String::new();
    child.stdout.take().map(|mut out| out.read_to_string(&mut said).unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(names(dir.path()).len(), 3, "{:?}", names(dir.path()));
}

#[test]
fn an_interrupt_ends_it_when_all_is_written_and_a_second_one_at_once() {
    let sent = Noise::bytes(6 << 20);
    let mut child = pipe(&["--json"], Stdio::piped(), Stdio::piped());
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    stdin.write_all(&sent).unwrap();
    signal(&child, Signal::SIGINT);
    sleep(Duration::from_millis(300));
    let mut got = Vec::new();
    // Its stdin stays open: it ends by the signal alone.
    stdout.read_to_end(&mut got).unwrap();
    assert_whole(&ended(child), sent.len());
    assert!(got == sent);
    drop(stdin);

    let mut child = pipe(&[], Stdio::piped(), Stdio::piped());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&sent).unwrap();
    signal(&child, Signal::SIGINT);
    sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "its output was not read yet");
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

fn signal(child: &Child, signal: Signal) {
    // Until then it might not have heard of signals yet.
    let status = format!("/proc/{}/status", child.id());
    let blocks = |text: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & 2 == 2
    };
    while !blocks(&fs::read_to_string(&status).unwrap_or_default()) {
        sleep(Duration::from_millis(5));
    }
    quaff_os::process::send(child.id(), signal).expect("it runs");
}

/// A pcap file of `count` records of `bytes` each.
fn pcap(count: u32, bytes: u32) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xA1B2_C3D4, 0x0004_0002, 0, 0, 262_144, 1]);
    for number in 0..count {
        file.extend(words(&[number, 0, bytes, bytes]));
        file.extend((0..bytes).map(|at| (at + number) as u8));
    }
    file
}

fn to_folder(sent: &[u8], dir: &Path, args: &[&str]) -> Value {
    let mut all = vec!["pipe", "--dir", dir.to_str().unwrap(), "--name", "f", "--json"];
    all.extend(args);
    let mut command = Command::new(QUAFF);
    command.args(all).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(sent).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_folder_of_captures_is_cut_between_packets() {
    let dir = folder();
    let sent = pcap(3000, 333);
    let json = to_folder(&sent, dir.path(), &["--rotate-size", "128K"]);
    let files = names(dir.path());
    assert_eq!((&json["files"], &json["kind"]), (&files.len().into(), &"pcap".into()), "{json}");
    assert!(files.len() > 7 && files.iter().all(|name| name.ends_with(".pcap")), "{files:?}");
    let mut joined = sent[..24].to_vec();
    for name in &files {
        let file = fs::read(dir.path().join(name)).unwrap();
        assert_eq!((&file[..24], (file.len() - 24) % 349), (&sent[..24], 0), "{name}");
        assert!(file.len() <= 128 << 10);
        joined.extend_from_slice(&file[24..]);
    }
    assert!(joined == sent);
}

#[test]
fn a_folder_of_other_bytes_is_cut_anywhere() {
    for (bytes, rotate, files) in [(300_000, "100000", 3), (5 << 20, "2M", 3), (2, "64K", 1), (0, "64K", 0)] {
        let dir = folder();
        let sent = Noise::bytes(bytes);
        let json = to_folder(&sent, dir.path(), &["--rotate-size", rotate]);
        assert_eq!((&json["files"], &json["written"]), (&files.into(), &bytes.into()), "{json}");
        let names = names(dir.path());
        let joined = names.iter().flat_map(|name| fs::read(dir.path().join(name)).unwrap());
        assert!(joined.collect::<Vec<_>>() == sent);
        assert!(names.iter().all(|name| name.ends_with(".bin")), "{names:?}");
    }
}

#[test]
fn impossible_pipes_are_rejected() {
    for (args, words) in [
        (&["--dir", "/nowhere"][..], "no such folder"),
        (&["--rotate-size", "1M"], "--dir"),
        (&["--dir", "/tmp", "--rotate-size", "1K"], "--rotate-size must be at least 64K"),
        (&["--dir", "/tmp", "--name", "a/b"], "template 'a/b'"),
        (&["--cpu", "1"], "expected two cores"),
        (&["--cpu", "1000,1001"], "core 1000"),
        (&["--size", "1000T"], "--buffer"),
    ] {
        let done = Command::new(QUAFF).arg("pipe").args(args).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn packets_of_a_lab_go_through_it_into_files() {
    let bench = lab_bench!(200 << 20);
    let files = bench.dir.path().join("files");
    fs::create_dir(&files).unwrap();
    let line = format!(
        "{QUAFF} capture -i rx0 --buffer 256M -w - 2>{dir}/said | {QUAFF} pipe --dir {dir}/files --rotate-size 4M --json",
        dir = bench.dir.path().display()
    );
    let json = through(&bench, &line, "said");
    assert_eq!(json["kind"], "pcapng", "{json}");
    let paths: Vec<_> = names(&files).iter().map(|name| files.join(name).display().to_string()).collect();
    assert!(paths.len() > 2, "{paths:?}");
    let found = verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["received"], &found["lost"]), (&60_000.into(), &0.into()), "{found}");
}

#[test]
fn packets_of_tcpdump_go_through_it_into_a_file() {
    let test = test_name!();
    if support::tool(test, "tcpdump").is_none() {
        return;
    }
    let Some(bench) = Bench::new(test, 100 << 20) else { return };
    let line = format!(
        "tcpdump -i rx0 -s0 -n -Z root -B 65536 -w - 2>{dir}/said | {QUAFF} pipe --json 2>&1 > {dir}/file",
        dir = bench.dir.path().display()
    );
    let json = through(&bench, &line, "said");
    let file = bench.path("file");
    assert_eq!(json["written"], fs::metadata(&file).unwrap().len(), "{json}");
    let found = verify(&[&file]);
    assert_eq!((&found["received"], &found["complete"]), (&60_000.into(), &true.into()), "{found}");
}

/// Runs a pipeline in the lab that says on a file when it is ready, sends 60,000 frames, and ends it
/// as ^C would. Its report.
fn through(bench: &Bench, line: &str, said: &str) -> Value {
    let mut command = bench.lab.rx.command("sh").expect("a command in the lab");
    // Two processes that each end by themselves: the first by the signal, the second when that ends.
    command.args(["-c", line]);
    let running = ChildProcess::start(command).expect("sh runs");
    let begun = Instant::now();
    let said = bench.dir.path().join(said);
    let is_ready = || {
        fs::read_to_string(&said)
            .is_ok_and(|text| text.contains("capturing") || text.contains("listening on"))
    };
    while !is_ready() {
        assert!(begun.elapsed() < PATIENCE, "it does not begin");
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(300));
    bench.generate("--count 60000 --size 300 --pps 30000");
    // What tcpdump's ring still holds a second later it has not got.
    sleep(Duration::from_millis(1500));
    for pid in children(running.pid()) {
        let name = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if name.contains("rx0") {
            quaff_os::process::send(pid, Signal::SIGINT).expect("it runs");
        }
    }
    let ended = finish(running);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.json
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn cores_are_measured_and_advised() {
    let done = Command::new(QUAFF).args(["cores", "--json", "-i", "lo"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    let allowed = quaff_os::cpu::allowed().unwrap();
    let pairs = json["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), allowed.len() * (allowed.len() - 1) / 2, "{json}");
    assert!(pairs.iter().all(|pair| pair["latency_ns"].as_f64() > Some(1.0)), "{json}");
    assert!(allowed.contains(&(json["advice"]["reader"].as_u64().unwrap() as usize)), "{json}");
    // One core: no pair, and advice all the same.
    let one = allowed[0].to_string();
    let done = Command::new(QUAFF).args(["cores", "--cores", &one]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success() && said.contains("There is only one core") && said.contains("Advice"),
        "{said}"
    );
    let done = Command::new(QUAFF).args(["cores", "--cores", "1000"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    if allowed.len() < 2 {
        testing::skip(test_name!(), "there is one core only");
    }
}

#[test]
fn a_capture_goes_by_the_advice() {
    let advice = Command::new(QUAFF).args(["cores", "--no-measure", "--json", "-i", "lo"]).output().unwrap();
    let advice: Value = serde_json::from_slice(&advice.stdout).unwrap();
    let explained = Command::new(QUAFF)
        .args(["capture", "-i", "lo", "-w", "x", "--cpu", "auto", "--explain"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&explained.stdout);
    let wanted = format!("lo on core {}", advice["advice"]["reader"]);
    assert!(explained.status.success() && said.contains(&wanted), "{wanted}: {said}");
    let both =
        Command::new(QUAFF).args(["capture", "-i", "lo", "-w", "x", "--cpu", "auto,1", "--explain"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}
