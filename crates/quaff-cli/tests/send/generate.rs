//! `quaff generate` from outside: the real command in a lab, held against counters and a ring that
//! are not its own.

use crate::support::{PATIENCE, QUAFF, alone, bpf_lab};
use quaff_lab::{ChildProcess, LabPlan, RX, TX};
use quaff_os::packet::CountingTap;
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use quaff_os::testing::assert_when_quiet;
use quaff_os::{Netns, Signal};
use quaff_testkit::{self as testing, Receiver, test_name};
use quaff_wire::net::{TPID_CUSTOMER, TPID_SERVICE, VlanTag};
use quaff_wire::probe::{Classified, ProbeHeader, classify};
use quaff_wire::probe::{OuterHeaders, ProbeFrame};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Defaults of `--dst-mac`, and of `--src-mac` for injected frames.
const DST_MAC: [u8; 6] = [0x02, b'q', b'u', b'a', b'f', 2];
const SRC_MAC: [u8; 6] = [0x02, b'q', b'u', b'a', b'f', 1];

fn command(netns: &Netns, args: &str) -> Command {
    let mut command = netns.command(QUAFF).expect("a command");
    command.arg("generate").args(args.split_whitespace());
    command
}

/// Runs `quaff generate ARGS --json`; its report, and its exit code.
fn generate(netns: &Netns, args: &str) -> (Value, Option<i32>) {
    let running = ChildProcess::start(command(netns, &format!("{args} --json"))).expect("quaff runs");
    let done = running.finish(PATIENCE).expect("quaff ends");
    let report = serde_json::from_slice(&done.stdout);
    (report.unwrap_or_else(|error| panic!("{args}: {error}: {done:?}")), done.status.code())
}

/// The message of `quaff generate ARGS` when it fails.
fn refusal(netns: &Netns, args: &str) -> String {
    let done =
        ChildProcess::start(command(netns, args)).expect("quaff runs").finish(PATIENCE).expect("quaff ends");
    assert_eq!(done.status.code(), Some(2), "{args}: {done:?}");
    done.stderr
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("{key} in {report}"))
}

/// All three counts are `count`.
fn assert_agreed(report: &Value, code: Option<i32>, count: u64) {
    for key in ["intended", "sent", "confirmed"] {
        assert_eq!(number(report, key), count, "{key} in {report}");
    }
    assert_eq!(code, Some(0), "{report}");
}

fn tap(netns: &Netns, interface: &str) -> CountingTap {
    let open = || CountingTap::open(rtnl::link(interface)?.index, interface, None);
    netns.run(open).expect("a thread in the namespace").expect("a tap")
}

#[test]
fn injected_frames_are_counted_by_all_alike() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    for (args, count, witness) in [
        ("--size 64 --count 300k --cpu 0", 300_000, "rx_otherhost_dropped"),
        ("--size 512 --count 100001", 100_001, "rx_otherhost_dropped"),
        ("--size 1500 --count 20k --pps 100k", 20_000, "tap"),
        ("--size 3000 --count 50k --vlan 7", 50_000, "tap"),
        ("--size 64 --count 50k --dst-mac ff:ff:ff:ff:ff:ff", 50_000, "tap"),
        ("--size 64 --count 1", 1, "rx_otherhost_dropped"),
        ("--size 64 --count 3 --pps 8", 3, "tap"),
    ] {
        let mut ours = tap(&lab.rx, RX.name);
        let (report, code) = generate(&lab.rx, &format!("--inject rx0 {args}"));
        assert_agreed(&report, code, count);
        assert_eq!(report["witness"], witness, "{args}");
        assert_eq!(ours.read().expect("a count"), count, "{args}");
    }
}

#[test]
fn sent_frames_are_counted_by_both_ends_alike() {
    let _alone = alone();
    let plan = LabPlan { mtu: 9000, ..LabPlan::default() };
    let Some(lab) = testing::lab_of(test_name!(), &plan) else { return };
    for (args, count) in [
        ("--size 64 --count 200k --cpu 0", 200_000),
        ("--size 1500 --count 20k --pps 50k", 20_000),
        ("--size 9000 --count 20k", 20_000),
        ("--size 300 --mbps 24 --duration 500ms", 5_000),
        ("--size 64 --count 3 --pps 8", 3),
    ] {
        let before = lab.stats(RX).expect("counters").rx_packets;
        let (report, code) = generate(&lab.tx, &format!("-o tx0 {args}"));
        assert_agreed(&report, code, count);
        assert_eq!(lab.stats(RX).expect("counters").rx_packets - before, count, "{args}");
    }
}

#[test]
fn a_receiver_gets_the_frames_of_the_template_to_the_byte() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else {
        return;
    };
    let tag = |tpid, tci| VlanTag { tpid, tci };
    let (one, two) = (vec![tag(TPID_CUSTOMER, 0xe007)], vec![tag(TPID_SERVICE, 5), tag(TPID_CUSTOMER, 6)]);
    // More frames than the kernel has pages for them, so that each page is used again and again.
    for (args, size, tags) in [
        ("--inject rx0 --size 64", 64, &vec![]),
        ("--inject rx0 --size 1500 --pps 20k", 1500, &vec![]),
        ("--inject rx0 --size 3001 --dst-mac 02:71:75:61:66:02", 3001, &vec![]),
        ("--inject rx0 --size 200 --vlan 0xe007", 200, &one),
        ("--inject rx0 --size 200 --vlan 5,6", 200, &two),
        ("--inject rx0 --size 72 --vlan 0x88a8:5,0x8100:6 --pps 20k", 72, &two),
        ("-o tx0 --size 1501", 1501, &vec![]),
        ("-o tx0 --size 200 --vlan 5,6 --pps 20k", 200, &two),
    ] {
        let receiver = Receiver::at(&lab, RX.name);
        let (netns, src_mac) = if args.starts_with("-o") { (&lab.tx, TX.mac) } else { (&lab.rx, SRC_MAC) };
        let (report, code) = generate(netns, &format!("{args} --count 2000 --stream 99"));
        assert_agreed(&report, code, 2000);
        let frames = receiver.bytes(2000);
        assert_eq!(frames.len(), 2000, "{args}");
        let src_ip = Ipv4Addr::new(198, 18, 0, 1);
        let dst_ip = Ipv4Addr::new(198, 18, 0, 2);
        let headers =
            OuterHeaders { dst_mac: DST_MAC, src_mac, tags: tags.clone(), src_ip, dst_ip, stream: 99 };
        assert_as_sent(&frames, ProbeFrame::new(&headers, size).expect("a frame"), args);
    }
}

/// Frame `i` has sequence number `i`, and every byte is as the template and its stamp have it.
fn assert_as_sent(frames: &[Vec<u8>], mut template: ProbeFrame, args: &str) {
    let mut before: Option<ProbeHeader> = None;
    for (seq, frame) in (0..).zip(frames) {
        let Classified::Intact(stamp) = classify(frame, frame.len()) else { panic!("{args}: {frame:02x?}") };
        let last = seq + 1 == frames.len() as u64;
        assert_eq!((stamp.seq, stamp.last, stamp.bounded), (seq, last, true), "{args}");
        assert!(before.is_none_or(|before| before.intended_ns <= stamp.intended_ns), "{args}");
        template.set(&stamp);
        assert!(template.bytes == *frame, "{args}: frame {seq} is {frame:02x?}");
        before = Some(stamp);
    }
}

#[test]
fn the_pace_is_kept() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    let rates = ["--inject rx0 --pps 10k", "--inject rx0 --pps 100k", "--inject rx0 --pps 500k"];
    for args in rates.into_iter().chain(["-o tx0 --pps 10k", "-o tx0 --pps 100k"]) {
        let netns = if args.starts_with("-o") { &lab.tx } else { &lab.rx };
        let run = || {
            let begun = Instant::now();
            let (report, code) = generate(netns, &format!("{args} --size 200 --duration 1s"));
            let took = begun.elapsed().as_secs_f64();
            assert_eq!(code, Some(0), "{report}");
            assert_eq!(number(&report, "intended"), rate(args) as u64, "{report}");
            assert!((0.9..20.0).contains(&took), "{args} took {took} s: {report}");
            let planned = (number(&report, "sent") - 1) as f64 / rate(args);
            let seconds = report["seconds"].as_f64().expect("a number");
            assert!(seconds > planned * 0.998, "{args}: faster than its pace: {report}");
            report
        };
        assert_when_quiet(test_name!(), run, |report| is_pace_kept(report, rate(args)));
    }
}

/// From the first to the last frame it took as long as it should, to 0.2 %; or what it took longer
/// was the lateness of the last frame, after most had been on time.
fn is_pace_kept(report: &Value, rate: f64) -> bool {
    let seconds = report["seconds"].as_f64().expect("a number");
    let planned_seconds = (number(report, "sent") - 1) as f64 / rate;
    let excess_seconds = seconds - planned_seconds;
    let error = report["pace_error"].as_f64().expect("a number");
    assert!((error - excess_seconds / planned_seconds).abs() < 1e-6, "{report}");
    let late = &report["lateness"];
    let last_was_late = (0.0..=number(late, "max_ns") as f64 / 1e9).contains(&excess_seconds);
    error.abs() < 0.002 || number(late, "p50_ns") < 50_000 && last_was_late
}

/// The rate in `--pps 10k`.
fn rate(args: &str) -> f64 {
    let digits =
        args.rsplit(' ').next().and_then(|rate| rate.strip_suffix('k')).expect("a rate in thousands");
    digits.parse::<f64>().expect("a number") * 1000.0
}

#[test]
fn a_signal_ends_a_run_early_with_a_report() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    for (args, netns, planned) in [
        ("--inject rx0 --size 64", &lab.rx, None),
        ("--inject rx0 --size 64 --pps 50k --duration 1h", &lab.rx, Some(180_000_000)),
        ("--inject rx0 --size 64 --pps 2 --count 1000", &lab.rx, Some(1000)),
        ("-o tx0 --size 64 --pps 2 --count 1000", &lab.tx, Some(1000)),
        ("-o tx0 --size 64", &lab.tx, None),
    ] {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            let mut ours = tap(&lab.rx, RX.name);
            let running = ChildProcess::start(command(netns, &format!("{args} --json"))).expect("quaff runs");
            let begun = Instant::now();
            while ours.read().expect("a count") == 0 {
                assert!(begun.elapsed() < PATIENCE, "{args}: nothing came");
                std::thread::sleep(Duration::from_millis(20));
            }
            running.signal(signal).expect("a signal");
            let done = running.finish(Duration::from_secs(10)).expect("quaff ends soon");
            let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
            assert_eq!(done.status.code(), Some(0), "{report}");
            assert_eq!(report["interrupted"], true, "{report}");
            let sent = number(&report, "sent");
            assert_eq!(number(&report, "intended"), planned.unwrap_or(sent), "{report}");
            assert_eq!(number(&report, "confirmed"), sent, "{report}");
            assert_eq!(ours.read().expect("a count"), sent, "{args}");
        }
    }
}

#[test]
fn an_unpaced_run_ends_after_its_duration() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    for (args, netns) in [("--inject rx0", &lab.rx), ("-o tx0", &lab.tx)] {
        let (report, code) = generate(netns, &format!("{args} --duration 500ms"));
        let seconds = report["seconds"].as_f64().expect("a number");
        assert!((0.45..5.0).contains(&seconds), "{report}");
        assert_eq!(report["interrupted"], false, "{report}");
        assert_agreed(&report, code, number(&report, "sent"));
    }
}

#[test]
fn impossible_plans_are_rejected_with_advice() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan::default()) else { return };
    let large = refusal(&lab.rx, "--inject rx0 --size 5000 --count 1");
    assert!(large.contains("-o"), "{large}");
    let mtu = refusal(&lab.tx, "-o tx0 --size 5000 --count 1");
    assert!(mtu.contains("ip link set tx0 mtu 4986"), "{mtu}");
    let unknown = refusal(&lab.rx, "--inject rx1 --count 1");
    assert!(unknown.contains("did you mean rx0"), "{unknown}");
    let small = refusal(&lab.rx, "--inject rx0 --size 64 --vlan 1 --count 1");
    assert!(small.contains("need 68"), "{small}");
    let core = refusal(&lab.rx, "--inject rx0 --cpu 1000 --count 1");
    assert!(core.contains("has cores 0 to"), "{core}");
    set_down(&lab.rx, RX.name);
    let carrier = refusal(&lab.tx, "-o tx0 --count 1");
    assert!(carrier.contains("no carrier"), "{carrier}");
    let down = refusal(&lab.rx, "--inject rx0 --count 1");
    assert!(down.contains("ip link set rx0 up"), "{down}");
}

fn set_down(netns: &Netns, interface: &str) {
    let down = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(interface)?.index;
        rtnl.change(index, LinkChange::Up(false))
    };
    netns.run(down).expect("a thread in the namespace").expect("a link that goes down");
}

#[test]
fn invalid_arguments_are_rejected() {
    for args in [
        "",
        "--inject a -o b",
        "--inject a --size 63",
        "--inject a --size 9001",
        "--inject a --pps 1 --mbps 1",
        "--inject a --count 1 --duration 1s",
        "--inject a --count 1.5",
        "--inject a --vlan 1,2,x",
        "--inject a --dst-mac 1:2:3",
    ] {
        let done: Output =
            Command::new(QUAFF).arg("generate").args(args.split_whitespace()).output().expect("quaff runs");
        assert_eq!(done.status.code(), Some(2), "{args}: {done:?}");
    }
}
