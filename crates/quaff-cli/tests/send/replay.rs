//! `quaff replay` from outside: the real command in a lab, held against a ring that is not its own,
//! and against the files themselves.

use crate::support::{PATIENCE, QUAFF, alone, bpf_lab, link};
use quaff_file::read::CaptureFile;
use quaff_lab::{ChildProcess, Lab, LabPlan, RX};
use quaff_os::bpf::{Asm, Program, Reg, Verdict};
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_os::testing::{Noise, assert_when_quiet};
use quaff_os::{Netns, Signal};
use quaff_testkit::{self as testing, Receiver, test_name};
use quaff_wire::checksum;
use quaff_wire::decode::Item;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn command(netns: &Netns, args: &str, files: &[&Path]) -> Command {
    let mut command = netns.command(QUAFF).expect("a command");
    command.arg("replay").args(args.split_whitespace()).args(files).arg("--json");
    command
}

/// Runs `quaff replay ARGS FILES --json`; its report, and its exit code.
fn replay(netns: &Netns, args: &str, files: &[&Path]) -> (Value, Option<i32>) {
    let running = ChildProcess::start(command(netns, args, files)).expect("quaff runs");
    let done = running.finish(PATIENCE).expect("quaff ends");
    let report = serde_json::from_slice(&done.stdout);
    (report.unwrap_or_else(|error| panic!("{args}: {error}: {done:?}")), done.status.code())
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"))
}

/// All counts are `count`.
fn assert_agreed(report: &Value, code: Option<i32>, count: u64) {
    for key in ["intended", "sent"] {
        assert_eq!(number(report, key), count, "{key} in {report}");
    }
    // Others may use the same counter.
    assert!(number(report, "confirmed") >= count, "{report}");
    assert_eq!(code, Some(0), "{report}");
}

/// A pcap file (ns) with a frame for each time and content.
fn pcap<'a>(frames: impl IntoIterator<Item = (u64, &'a [u8])>, linktype: u32) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, linktype] {
        bytes.extend(u32::to_le_bytes(word));
    }
    for (time_ns, frame) in frames {
        let (seconds, ns, len) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000, frame.len());
        for word in [seconds as u32, ns as u32, len as u32, len as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

/// Ethernet, IPv4, UDP, with right checksums; different in each byte that may be.
fn udp(number: u32, payload_bytes: usize) -> Vec<u8> {
    let udp_bytes = 8 + payload_bytes;
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((20 + udp_bytes as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([[10, 0, 0, 1 + (number % 50) as u8], [192, 0, 2, 7]].concat());
    let header = !fold(&frame[14..34]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame.extend([1000 + (number % 7) as u16, 53, udp_bytes as u16, 0].map(u16::to_be_bytes).concat());
    frame.extend((0..payload_bytes).map(|at| (at as u32 ^ number) as u8));
    let sum = !udp_sum(&frame);
    frame[40..42].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn fold(bytes: &[u8]) -> u16 {
    checksum::sum(bytes)
}

/// Over the pseudo header and the datagram: 0xffff when its checksum is right (RFC 768).
fn udp_sum(frame: &[u8]) -> u16 {
    let mut bytes = [&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]].concat();
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    fold(&bytes)
}

/// All packets of a file.
fn packets(path: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut file = CaptureFile::open(path).expect("a file");
    let mut packets = Vec::new();
    let each = |packets: &mut Vec<_>, item: Item<'_>| {
        if let Item::Frame(frame) = item {
            packets.push((frame.time_ns, frame.data.to_vec()));
        }
    };
    while file.pull(|item| each(&mut packets, item)).expect("a whole file") {}
    packets
}

/// Has the receiver's driver take frames that are redirected to it: it needs a program for that.
fn accept_redirected(lab: &Lab) -> Program {
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::XdpPass);
    asm.exit();
    let program = Program::load_xdp("quaff_pass", asm).expect("a program");
    let attach = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(RX.name)?.index;
        rtnl.change(index, LinkChange::Xdp(Some(&program)))
    };
    lab.rx.run(attach).expect("a thread in the namespace").expect("attached");
    program
}

#[test]
fn real_traffic_arrives_byte_by_byte_in_order() {
    let _alone = alone();
    let test = test_name!();
    let (Some(lab), Some(mix)) =
        (bpf_lab(test, &LabPlan { mtu: 3000, ..LabPlan::default() }), testing::capture(test, "mix.pcap"))
    else {
        return;
    };
    let sent: Vec<_> = packets(&mix).into_iter().map(|(_, frame)| frame).collect();
    let _program = accept_redirected(&lab);
    for (args, netns, loops) in [
        ("--inject rx0 --pps 100k --cpu 0", &lab.rx, 1),
        ("--inject rx0 -t --loop 2", &lab.rx, 2),
        ("--inject rx0 --pps 150k --loop 2 --memory 1M", &lab.rx, 2),
        ("-o tx0 --via xdp-redirect --pps 100k", &lab.tx, 1),
    ] {
        let receiver = Receiver::at(&lab, RX.name);
        let (report, code) = replay(netns, args, &[&mix]);
        let count = sent.len() * loops;
        assert_agreed(&report, code, count as u64);
        assert_eq!(number(&report, "in_file"), sent.len() as u64, "{args}");
        let frames = receiver.frames(count);
        assert_eq!(frames.len(), count, "{args}");
        for (number, ((_, frame), expected)) in frames.iter().zip(sent.iter().cycle()).enumerate() {
            assert!(frame == expected, "{args}: frame {number} is {frame:02x?}, not {expected:02x?}");
        }
    }
}

#[test]
fn each_loop_has_flows_of_its_own_and_right_checksums() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..2000).map(|number| udp(number, 18 + number as usize % 1200)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let flow = |frame: &[u8]| frame[26..38].to_vec();
    let flows: HashSet<_> = frames.iter().map(|frame| flow(frame)).collect();
    for args in ["--inject rx0 --pps 100k", "--inject rx0 -t", "--inject rx0 --pps 100k --memory 1M"] {
        let receiver = Receiver::at(&lab, RX.name);
        let (report, code) = replay(&lab.rx, &format!("{args} --loop 3 --unique-ip"), &[file.path()]);
        assert_agreed(&report, code, 6000);
        assert_eq!(number(&report, "flows"), 3 * flows.len() as u64, "{args}");
        let received = receiver.frames(6000);
        assert_eq!(received.len(), 6000, "{args}");
        let mut seen = HashSet::new();
        for (number, (_, frame)) in received.iter().enumerate() {
            let (original, pass) = (&frames[number % 2000], (number / 2000) as u32);
            assert_eq!(fold(&frame[14..34]), 0xffff, "{args}: header of frame {number}");
            assert_eq!(udp_sum(frame), 0xffff, "{args}: datagram of frame {number}");
            let ip = |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
            assert_eq!(ip(frame, 26), ip(original, 26) - pass, "{args}: frame {number}");
            assert_eq!(ip(frame, 30), ip(original, 30) + pass, "{args}: frame {number}");
            assert!(frame[..26] == original[..26] && frame[34..] == original[34..], "{args}: {number}");
            seen.insert(flow(frame));
        }
        assert_eq!(seen.len(), 3 * flows.len(), "{args}");
    }
}

#[test]
fn captured_times_and_rates_are_kept() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..500).map(|number| udp(number, 100)).collect();
    // 1 ms apart, with a gap of 300 ms, which is slept through, in the middle.
    let time_ns = |number: u64| number * 1_000_000 + if number >= 250 { 300_000_000 } else { 0 };
    let file = pcap((0..).map(time_ns).zip(frames.iter().map(Vec::as_slice)), 1);
    for (args, seconds) in [
        ("", 0.799),
        ("-x 2", 0.3995),
        ("--pps 2000", 0.2495),
        ("--mbps 1.136", 0.499),
        ("--mbps 1.328 --layer 1", 0.499),
        ("--util 50 --link 2.656M", 0.499),
        ("--loop 2 --pps 2k", 0.4995),
        ("--include 1-100 --loop 2", 0.198),
    ] {
        let run = || {
            let (report, code) = replay(&lab.rx, &format!("--inject rx0 {args}"), &[file.path()]);
            assert_agreed(&report, code, number(&report, "intended"));
            let took = report["seconds"].as_f64().expect("a number");
            assert!(took > seconds - 0.001, "{args}: {took} s, shorter than {seconds} s: {report}");
            (took, report)
        };
        let is_kept = |(took, report): &(f64, Value)| {
            took - seconds < 0.001 && report["lateness"]["p50_ns"].as_u64() < Some(50_000)
        };
        assert_when_quiet(&format!("captured_times_and_rates_are_kept {args}"), run, is_kept);
    }
}

#[test]
fn limits_and_skipped_frames_are_reported() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let mut frames: Vec<_> = (0..100).map(|number| udp(number, 100)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    for (args, intended) in [
        ("-t --limit 250 --loop 0", 250),
        ("-t --include 10-19,100 --loop 3", 33),
        ("-t --exclude 2-", 1),
        ("--pps 1000 --duration 50ms --loop 0", 50),
    ] {
        let (report, code) = replay(&lab.rx, &format!("--inject rx0 {args}"), &[file.path()]);
        assert_agreed(&report, code, intended);
        assert_eq!(number(&report, "in_file"), 100, "{args}");
    }
    let (report, code) = replay(&lab.rx, "--inject rx0 -t --loop 0 --duration 300ms", &[file.path()]);
    assert_agreed(&report, code, number(&report, "sent"));
    assert!((0.29..0.4).contains(&report["seconds"].as_f64().unwrap()), "{report}");

    frames.extend([vec![1; 13], vec![2; 3401], vec![3; 14]]);
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let (report, code) = replay(&lab.rx, "--inject rx0 -t", &[file.path()]);
    assert_eq!((number(&report, "sent"), code), (101, Some(1)), "{report}");
    assert_eq!(report["skipped"], serde_json::json!({"too_large": 1, "too_short": 1}));
    let (report, _) = replay(&lab.tx, "-o tx0 --via xdp-redirect -t --include 101-", &[file.path()]);
    assert_eq!(report["skipped"]["too_large"], 1, "{report}");
}

#[test]
fn late_frames_are_sent_shifted_or_dropped_as_asked_for() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..1000).map(|number| udp(number, 100)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    // Faster than any machine: 20,000 frames in 0.2 ms.
    for (late, code) in [("burst", 0), ("shift", 0), ("drop", 1)] {
        let args = format!("--inject rx0 --pps 100M --loop 20 --late {late}");
        let (report, ended) = replay(&lab.rx, &args, &[file.path()]);
        let (sent, dropped) = (number(&report, "sent"), number(&report, "late_dropped"));
        assert_eq!((sent + dropped, ended), (20_000, Some(code)), "{late}: {report}");
        assert_eq!(dropped > 0, late == "drop", "{late}: {report}");
        assert_eq!(number(&report, "shifted_ns") > 0, late == "shift", "{late}: {report}");
        assert!(number(&report, "confirmed") >= sent && number(&report, "bytes") == sent * 142, "{report}");
        assert!(number(&report, "longest_burst") > 100, "{late}: {report}");
    }
}

#[test]
fn packets_before_damage_are_sent() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..100).map(|number| udp(number, 100)).collect();
    let (torn, whole) = [0, 1].map(|_| pcap(frames.iter().map(|frame| (0, &frame[..])), 1)).into();
    let bytes = std::fs::read(torn.path()).expect("a file");
    std::fs::write(torn.path(), &bytes[..bytes.len() - 5]).expect("written");
    let (report, code) = replay(&lab.rx, "--inject rx0 -t", &[torn.path(), whole.path()]);
    assert_eq!((number(&report, "sent"), code), (199, Some(1)), "{report}");
    assert!(report["damage"].as_str().is_some_and(|damage| damage.contains("offset")), "{report}");
}

#[test]
fn a_signal_ends_a_run_at_once_with_a_true_report() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..1000).map(|number| udp(number, 100)).collect();
    let slow = (0..).map(|number: u64| number * 600_000_000_000);
    let file = pcap(slow.zip(frames.iter().map(Vec::as_slice)), 1);
    for args in ["-t --loop 0", "--pps 50k --loop 0 --unique-ip", "", "--pps 50k --loop 0 --memory 1M"] {
        let args = format!("--inject rx0 {args}");
        let running = ChildProcess::start(command(&lab.rx, &args, &[file.path()])).expect("quaff runs");
        std::thread::sleep(Duration::from_millis(400));
        running.signal(Signal::SIGINT).expect("a signal");
        let (begun, noise) = (Instant::now(), Noise::watch());
        let done = running.finish(PATIENCE).expect("quaff ends");
        let took = begun.elapsed();
        let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_eq!((done.status.code(), &report["interrupted"]), (Some(0), &Value::Bool(true)), "{report}");
        assert!(number(&report, "confirmed") >= number(&report, "sent"), "{report}");
        assert!(number(&report, "sent") > 0, "{report}");
        let noise = noise.so_far();
        let most = Duration::from_millis(if noise.is_noisy() { 1000 } else { 200 });
        assert!(took < most, "{args}: {took:?}, {noise}");
    }
}

#[test]
fn a_signal_is_heard_whatever_is_waited_for() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..100).map(|number| udp(number, 100)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let dir = tempfile::tempdir().expect("a folder");
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let pipe = Path::new("-");
    for (args, netns, path) in [
        ("-o tx0 --via sendmmsg --loop 0", &lab.tx, pipe),
        ("--inject rx0 --loop 0", &lab.rx, pipe),
        ("--inject rx0", &lab.rx, fifo.as_path()),
        // The other end takes no such frames, so counters are waited for in vain.
        ("-o tx0 --via xdp-redirect -t", &lab.tx, file.path()),
    ] {
        let mut command = command(netns, args, &[path]);
        let (from, mut to) = std::io::pipe().expect("a pipe");
        // The beginning of a file, and no more for now.
        let bytes = std::fs::read(file.path()).expect("a file");
        std::io::Write::write_all(&mut to, &bytes[..1000]).expect("room");
        let child = command.stdin(from).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("quaff runs");
        std::thread::sleep(Duration::from_millis(600));
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success(), "{args}: it has ended");
        let (begun, noise) = (Instant::now(), Noise::watch());
        let done = child.wait_with_output().expect("quaff ends");
        let took = begun.elapsed();
        let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert!(number(&report, "sent") <= 100, "{args}: {report}");
        let noise = noise.so_far();
        let most = Duration::from_millis(if noise.is_noisy() { 1000 } else { 200 });
        assert!(took < most, "{args}: {took:?}, {noise}");
        drop(to);
    }
}

/// The cache file of tcpprep is read before the first frame, on a thread.
#[test]
fn a_signal_is_heard_while_a_cache_file_has_no_writer() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    link(&lab, ["tx1", "rx1"], 1);
    let frame = udp(1, 100);
    let file = pcap([(0, &frame[..])], 1);
    let dir = tempfile::tempdir().expect("a folder");
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    let args = format!("-o tx0 --out2 tx1 --tcpprep {}", fifo.display());
    let mut command = command(&lab.tx, &args, &[file.path()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("quaff runs");
    std::thread::sleep(Duration::from_millis(600));
    assert!(child.try_wait().expect("asked").is_none(), "it waits");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let begun = Instant::now();
    while child.try_wait().expect("asked").is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("the signal is not heard");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interface_that_goes_down_leaves_a_ledger() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..100).map(|number| udp(number, 100)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let args = "-o tx0 --via sendmmsg --pps 1000 --loop 0";
    let running = ChildProcess::start(command(&lab.tx, args, &[file.path()])).expect("quaff runs");
    std::thread::sleep(Duration::from_millis(500));
    let down = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link("tx0")?.index;
        rtnl.change(index, LinkChange::Up(false))
    };
    lab.tx.run(down).expect("a thread in the namespace").expect("a link that goes down");
    let done = running.finish(PATIENCE).expect("quaff ends");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    assert_eq!(done.status.code(), Some(2), "{report}");
    assert!(number(&report, "sent") > 0 && report["error"].is_string(), "{report}");
    assert!(done.stderr.contains(report["error"].as_str().expect("words")), "{}", done.stderr);
}

#[test]
fn frames_go_one_at_a_time_and_come_from_a_pipe() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..100).map(|number| udp(number, 100)).collect();
    let file = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let receiver = Receiver::at(&lab, RX.name);
    let mut enter = command(&lab.rx, "--inject rx0 --one-at-a-time", &[file.path()]);
    let mut child = enter.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("quaff runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(100));
        std::io::Write::write_all(&mut stdin, b"\n").expect("heard");
    }
    std::thread::sleep(Duration::from_millis(300));
    drop(stdin);
    let done = child.wait_with_output().expect("quaff ends");
    let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
    assert_eq!((number(&report, "sent"), &report["interrupted"]), (3, &Value::Bool(true)), "{report}");
    assert_eq!(receiver.frames(3).len(), 3);

    for (args, loops) in [("-t", 1), ("-t --loop 3", 3)] {
        let mut piped = command(&lab.rx, &format!("--inject rx0 {args}"), &[Path::new("-")]);
        // A pipe of a shell's making, which is what cannot be read twice.
        let mut shell = Command::new("sh")
            .args(["-c", "head -c 5000 $0; sleep 0.7; tail -c +5001 $0"])
            .arg(file.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell runs");
        let done = piped.stdin(shell.stdout.take().expect("a pipe")).output().expect("quaff runs");
        shell.wait().expect("it has ended");
        let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        assert_agreed(&report, done.status.code(), 100 * loops);
        assert_eq!(number(&report, "loops"), loops);
    }
}

#[test]
fn impossible_replays_are_rejected_before_the_first_frame() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let frames: Vec<_> = (0..3).map(|number| udp(number, 100)).collect();
    let good = pcap(frames.iter().map(|frame| (0, &frame[..])), 1);
    let (raw, empty) = (pcap([(0, &[0x45; 40][..])], 101), pcap([], 1));
    let none = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(none.path(), b"no capture at all, but some text").expect("written");
    for (args, files, words) in [
        ("--inject rx0", vec![good.path(), raw.path()], "link type 101"),
        ("--inject rx0", vec![empty.path()], "no packet is left"),
        ("--inject rx0 --exclude 1-", vec![good.path()], "no packet is left"),
        ("--inject rx0", vec![good.path(), none.path()], "offset 0"),
        ("--inject rx0", vec![Path::new("/no/such/file")], "/no/such/file"),
        ("--inject rx1", vec![good.path()], "did you mean rx0"),
    ] {
        let done = ChildProcess::start(command(&lab.rx, args, &files)).unwrap().finish(PATIENCE).unwrap();
        assert_eq!(done.status.code(), Some(2), "{args}: {done:?}");
        assert!(done.stderr.contains(words), "{args}: {}", done.stderr);
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    for args in [
        "f",
        "-o a",
        "-o a --inject b f",
        "-o a --pps 1 --mbps 1 f",
        "-o a --pps 0 f",
        "-o a --util 50 f",
        "-o a --layer 2 f",
        "-o a --mbps 1 --layer 4 f",
        "-o a --include 5-1 f",
        "-o a --memory 1 f",
        "--inject a --via auto f",
        "--inject a --one-at-a-time -",
    ] {
        let done =
            Command::new(QUAFF).arg("replay").args(args.split_whitespace()).output().expect("quaff runs");
        assert_eq!(done.status.code(), Some(2), "{args}: {done:?}");
    }
}
