//! `quaff capture -w - --ordered`: packets of several lanes in the order of their times.

use crate::support::{Bench, Ended, PATIENCE, QUAFF, fails, lab_bench, run, tool, verify};
use quaff_file::read::CaptureFile;
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::test_name;
use quaff_wire::decode::Item;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The times of the packets of a file, ns, and the number of packets of each interface.
fn packets(file: &str) -> (Vec<u64>, BTreeMap<u32, u64>) {
    let (mut times, mut counts) = (vec![], BTreeMap::new());
    let mut capture = CaptureFile::open(Path::new(file)).expect("a capture");
    let mut take = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            times.push(frame.time_ns);
            *counts.entry(frame.interface).or_default() += 1;
        }
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    (times, counts)
}

/// A capture of rx0 and rx1 into a pipe to `reader`, a command of the shell, in the receiving namespace.
struct Piped {
    shell: ChildProcess,
}

impl Piped {
    fn start(bench: &Bench, args: &str, reader: &str) -> Self {
        let script = format!("{QUAFF} capture {args} --json -w - | {reader}; exit ${{PIPESTATUS[0]}}");
        let mut command = bench.lab.rx.command("bash").unwrap();
        command.args(["-c", &script]);
        let mut shell = ChildProcess::start(command).unwrap();
        assert!(shell.hears("capturing", PATIENCE), "{}", shell.heard);
        Self { shell }
    }

    /// The process that captures: a child of the shell.
    fn quaff(&self) -> u32 {
        let found = run(Command::new("pgrep").args(["-P", &self.shell.pid().to_string(), "-x", "quaff"]));
        found.trim().parse().expect("one process")
    }

    fn end(self) -> (Ended, String) {
        quaff_os::process::send(self.quaff(), Signal::SIGINT).unwrap();
        let done = self.shell.finish(PATIENCE).unwrap();
        let json =
            done.stderr.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null);
        (
            Ended { code: done.status.code().unwrap_or(-1), json, stderr: done.stderr },
            String::from_utf8_lossy(&done.stdout).into_owned(),
        )
    }
}

/// Starts a generator into an interface.
fn generator(bench: &Bench, interface: &str, args: &str) -> ChildProcess {
    let line = format!("generate --inject {interface} {args}");
    ChildProcess::start(bench.quaff(&line.split(' ').collect::<Vec<_>>())).expect("quaff runs")
}

fn ends(generator: ChildProcess) {
    let done = generator.finish(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
}

#[test]
fn packets_of_two_interfaces_leave_sorted_and_complete() {
    let bench = lab_bench!(1 << 28);
    bench.add_link();
    for is_ordered in [true, false] {
        let file = bench.path(&format!("ordered-{is_ordered}.pcapng"));
        let flag = if is_ordered { "--ordered" } else { "" };
        let piped = Piped::start(&bench, &format!("-i rx0 -i rx1 {flag}"), &format!("cat >{file}"));
        // One fills chunks, the other sends some packets in each flush interval.
        let both = [
            generator(&bench, "rx0", "--size 1500 --pps 20000 --count 40000 --stream 1"),
            generator(&bench, "rx1", "--size 100 --pps 1000 --count 2000 --stream 2"),
        ];
        both.into_iter().for_each(ends);
        let (ended, _) = piped.end();
        let of = |field: &str| ended.json[field].as_u64().expect("a number");
        assert_eq!(
            (ended.code, of("written"), of("lost"), of("late")),
            (0, 42_000, 0, 0),
            "{}",
            ended.stderr
        );
        let (times, counts) = packets(&file);
        assert_eq!(counts, BTreeMap::from([(0, 40_000), (1, 2_000)]));
        let backward = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert_eq!(backward == 0, is_ordered, "{backward} packets are earlier than the one before them");
        // Each packet of both streams is there, and the counters of both interfaces agree with them.
        let found = verify(&[&file]);
        assert_eq!((&found["received"], &found["complete"]), (&42_000.into(), &true.into()), "{found}");
        assert_eq!(found["ledger"]["consistent"], true, "{found}");
    }
}

#[test]
fn lanes_of_one_interface_leave_sorted_and_a_reader_of_pcap_agrees() {
    let bench = lab_bench!(1 << 28);
    if tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let args = "-i rx0 --lanes 3 --ordered --format pcap";
    let piped = Piped::start(&bench, args, "tcpdump -n --time-stamp-precision=nano -tt -r -");
    ends(generator(&bench, "rx0", "--size 200 --pps 5000 --count 10000 --flows 50"));
    let (ended, lines) = piped.end();
    assert_eq!((ended.code, &ended.json["written"]), (0, &10_000.into()), "{}", ended.stderr);
    let times: Vec<&str> = lines.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((times.len(), times.is_sorted()), (10_000, true));
    let lanes = ended.json["interfaces"][0]["lanes"].as_array().expect("lanes");
    assert!(lanes.iter().filter(|lane| lane["received"].as_u64() > Some(0)).count() > 1, "{lanes:?}");
}

/// The packets of one interface arrive at a reader soon, though the other one sends nothing.
#[test]
fn an_idle_interface_does_not_hold_the_output_back() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    bench.add_link();
    let file = bench.path("live.pcapng");
    let piped = Piped::start(&bench, "-i rx0 -i rx1 --ordered", &format!("cat >{file}"));
    let bytes = || std::fs::metadata(&file).map_or(0, |found| found.len());
    let send = || {
        let before = bytes();
        ends(generator(&bench, "rx0", "--size 1000 --pps 1000 --count 1000"));
        let sent = Instant::now();
        while bytes() < before + 1000 * 1000 {
            assert!(sent.elapsed() < PATIENCE, "{} bytes", bytes() - before);
            std::thread::sleep(Duration::from_millis(10));
        }
        sent.elapsed()
    };
    // A lane that stands still would be waited for for 1.2 s.
    quaff_os::testing::assert_when_quiet(test, send, |waited| *waited < Duration::from_millis(900));
    let (ended, _) = piped.end();
    assert_eq!((ended.code, &ended.json["late"]), (0, &0.into()), "{}", ended.stderr);
}

#[test]
fn an_output_that_cannot_be_ordered_is_refused() {
    let bench = lab_bench!(1 << 20);
    let (dir, folder, file) = (bench.path(""), bench.path("folder"), bench.path("file.pcapng"));
    for (args, words) in [
        (&["-i", "rx0", "-w", &file][..], "quaff merge"),
        (&["-i", "rx0", "--dir", &folder], "quaff merge"),
        (&["-i", "rx0", "-w", "-", "--tee", &dir], "quaff merge"),
        (&["-i", "rx0", "-w", &file, "--print"], "live copy"),
        (&["-i", "rx0", "-w", "-", "--compress", "zstd"], "--compress"),
        (&["--read", &file, "-w", "-"], "quaff merge"),
    ] {
        let refusal = fails(&bench, &[&["capture", "--ordered"], args].concat());
        assert!(refusal.contains("--ordered") && refusal.contains(words), "{args:?}: {refusal}");
    }
    assert!(!Path::new(&folder).exists(), "a refusal makes no folder");
}
