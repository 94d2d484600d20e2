//! `quaff generate` in a lab, where frames differ: flows that the program in the kernel makes, and
//! frames that are made one by one, held against what the same line writes into a file.

use crate::support::{PATIENCE, QUAFF, alone, bpf_lab};
use quaff_lab::{ChildProcess, LabPlan, RX, TX};
use quaff_os::Netns;
use quaff_testkit::{Receiver, test_name};
use quaff_wire::checksum;
use quaff_wire::net::{self, Ip};
use quaff_wire::probe::{self, Classified};
use serde_json::Value;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// Runs `quaff generate --inject rx0 ARGS --json`; its report. All counts agree.
fn inject(netns: &Netns, args: &str, count: u64) -> Value {
    send(netns, ["--inject", RX.name], args, count)
}

fn send(netns: &Netns, interface: [&str; 2], args: &str, count: u64) -> Value {
    let mut command = netns.command(QUAFF).expect("a command");
    command.args(["generate", "--json"]).args(interface).args(args.split_whitespace());
    command.args(["--count", &count.to_string()]);
    let done = ChildProcess::start(command).expect("quaff runs").finish(PATIENCE).expect("quaff ends");
    let report: Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{args}: {error}: {done:?}"));
    for key in ["intended", "sent"] {
        assert_eq!(report[key], count, "{args}: {key} in {report}");
    }
    assert!(report["confirmed"].as_u64() >= Some(count), "{args}: {report}");
    assert_eq!(done.status.code(), Some(0), "{args}: {report}");
    report
}

/// The IP packet in a frame whose checksums are all right.
fn whole(frame: &[u8]) -> Ip {
    let layers = net::layers(frame).expect("a frame");
    let ip = layers.ip.expect("an IP packet");
    assert_eq!(checksum::sum(&frame[layers.network..ip.transport]), 0xffff, "{frame:02x?}");
    let addresses = checksum::sum(&frame[layers.network + 12..layers.network + 20]);
    let bytes = (ip.end - ip.transport) as u32 + u32::from(ip.protocol);
    let pseudo = checksum::add(addresses, checksum::sum(&bytes.to_be_bytes()));
    let sum = checksum::add(pseudo, checksum::sum(&frame[ip.transport..ip.end]));
    assert_eq!(sum, 0xffff, "{frame:02x?}");
    ip
}

#[test]
fn the_program_makes_every_flow_in_turn() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    for (args, count, flows) in [
        ("--size 64 --flows 100", 3000, 100),
        ("--size 64 --new-flows each", 5000, 5000),
        ("--size 64 --new-flows each --src-ip 10.0.0.250-10.0.1.5 --dst-ip 10.2.0.0/29", 2000, 96),
        ("--size 101 --content ones --flows 70000 --pps 50k", 2000, 2000),
        ("--size 100 --vlan 5 --new-flows each", 2000, 2000),
        ("--size 64 --dst-port 65530-65535 --flows 6", 600, 6),
        ("--size 64 --fcs", 2000, 1),
        ("--size 60 --no-stamp --new-flows each --content zeros", 2000, 2000),
        ("--size 64 --tcp syn --src-ip 10.0.0.0/30 --src-port 1000-1499 --new-flows each", 3000, 2000),
    ] {
        let receiver = Receiver::at(&lab, RX.name);
        let report = inject(&lab.rx, args, count);
        let frames = receiver.bytes(count as usize);
        assert_eq!(frames.len() as u64, count, "{args}");
        let tuples: Vec<_> = frames
            .iter()
            .map(|frame| {
                let ip = whole(frame);
                (ip.addresses, ip.ports(frame))
            })
            .collect();
        let unique: HashSet<_> = tuples.iter().collect();
        assert_eq!(unique.len(), flows, "{args}");
        assert_eq!(report["made"]["flows"], flows, "{args}: {report}");
        assert!(tuples.iter().zip(&tuples[flows..]).all(|(one, later)| one == later), "{args}: in turn");
        let is_stamped = !["--no-stamp", "--fcs", "-port", "--tcp"].iter().any(|word| args.contains(word));
        for (seq, frame) in (0..).zip(&frames) {
            match probe::classify(frame, frame.len()) {
                Classified::Intact(stamp) if is_stamped => assert_eq!(stamp.seq, seq, "{args}"),
                Classified::Foreign if !is_stamped => {}
                other => panic!("{args}: {other:?}"),
            }
        }
    }
}

#[test]
fn flows_of_the_program_are_those_that_are_written() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let args = "--size 90 --no-stamp --src-ip 10.0.0.0/25 --dst-ip 10.1.0.0/28 --src-port 7-9 --flows 5000";
    let receiver = Receiver::at(&lab, RX.name);
    inject(&lab.rx, args, 6000);
    assert_eq!(receiver.bytes(6000), written(args, 6000));
}

/// The frames that the same command line writes to a file.
fn written(args: &str, count: u64) -> Vec<Vec<u8>> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut command = Command::new(QUAFF);
    command.args(["generate", "-w"]).arg(file.path()).args(args.split_whitespace());
    let done = command.args(["--count", &count.to_string()]).output().expect("quaff runs");
    assert!(done.status.success(), "{done:?}");
    frames_of(file.path())
}

fn frames_of(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("a file");
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let len = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        frames.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// 1518 bytes are the largest frame with its FCS. Frames that cannot be sent are no loss of a capture: they are refused
/// before the first one, which has a number.
#[test]
fn mixes_fit_the_usual_mtu_and_what_does_not_fit_is_refused() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 1500, ..LabPlan::default() }) else {
        return;
    };
    for args in ["--size imix", "--size imix --fcs", "--size tolly --vlan 7", "--size rfc2544", "--size 1514"]
    {
        let report = send(&lab.tx, ["-o", TX.name], args, 1200);
        assert_eq!(report["skipped"]["too_large"].as_u64().unwrap_or(0), 0, "{args}: {report}");
    }
    for (interface, args, most) in [
        (["-o", TX.name], "--size 64-1515", "1514"),
        (["-o", TX.name], "--size imix --vxlan 7", "1514"),
        (["-o", TX.name], "--size 1000,1519 --vlan 7", "1518"),
        (["--inject", RX.name], "--size rpr4", "3"),
    ] {
        let netns = if interface[0] == "-o" { &lab.tx } else { &lab.rx };
        let mut command = netns.command(QUAFF).expect("a command");
        command.arg("generate").args(interface).args(args.split_whitespace()).args(["--count", "10"]);
        let done = command.output().expect("quaff runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args}: {said}");
        assert!(
            said.contains("do not fit") && said.contains(&format!("which takes {most}")),
            "{args}: {said}"
        );
    }
}

#[test]
fn frames_that_are_made_one_by_one_arrive_to_the_byte() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    for args in [
        "--size imix --content random --flows 50 --no-stamp",
        "--size 100-2000 --tcp talk --flows 9 --pps 50k",
        "--size 500,2500 --fragment 700 --no-stamp --shape poisson --pps 50k",
        "--size 90-1000 -6 --vxlan 5 --flows 20 --no-stamp",
        "--size 200 --vlan 5,6 --mpls 16 --no-stamp --content random",
        "--size 64-300 --damage checksum=5%,flip=5%,ip-checksum=5% --no-stamp --shape bursts=10 --pps 50k",
        "--size 80 --icmp --erspan 5 --flows 10",
    ] {
        let receiver = Receiver::at(&lab, RX.name);
        inject(&lab.rx, args, 3000);
        let (found, expected) = (receiver.bytes(3000), written(args, 3000));
        assert_eq!(found.len(), expected.len(), "{args}");
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(found == expected, "{args}: frame {number}\n{found:02x?}\n{expected:02x?}");
        }
    }
}

#[test]
fn frames_that_are_sent_arrive_to_the_byte() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    for args in [
        "--size imix --content random --flows 50 --no-stamp --src-mac 02:00:00:00:00:07",
        "--size 100-2000 --tcp talk --flows 9 --pps 50k --src-mac 02:00:00:00:00:07",
        "--size 64 --new-flows each --no-stamp --pps 50k --src-mac 02:00:00:00:00:07",
    ] {
        let receiver = Receiver::at(&lab, RX.name);
        send(&lab.tx, ["-o", TX.name], args, 3000);
        assert!(receiver.bytes(3000) == written(args, 3000), "{args}");
    }
}

#[test]
fn stamps_of_mixed_frames_are_numbered_and_new_flows_come_at_their_rate() {
    let _alone = alone();
    let Some(lab) = bpf_lab(test_name!(), &LabPlan { mtu: 3000, ..LabPlan::default() }) else {
        return;
    };
    let receiver = Receiver::at(&lab, RX.name);
    let args = "--size 50,100,600 --flows 20 --new-flows 10k --pps 100k";
    let report = inject(&lab.rx, args, 6000);
    let frames = receiver.bytes(6000);
    let stamps: Vec<_> = frames
        .iter()
        .filter_map(|frame| match probe::classify(frame, frame.len()) {
            Classified::Intact(stamp) => Some(stamp),
            _ => None,
        })
        .collect();
    assert_eq!(stamps.len(), 4000, "one of three has no room");
    assert!(stamps.iter().zip(0..).all(|(stamp, seq)| stamp.seq == seq));
    assert!(stamps.windows(2).all(|pair| pair[0].intended_ns < pair[1].intended_ns));
    let unique: HashSet<[IpAddr; 2]> = frames.iter().map(|frame| whole(frame).addresses).collect();
    // 0.06 s, and those of the beginning.
    assert!((610..=620).contains(&unique.len()), "{}: {report}", unique.len());
    assert!(report["made"]["flows"].as_u64().is_some_and(|flows| flows.abs_diff(unique.len() as u64) <= 20));
    assert_eq!(report["made"]["stamped"], 4000);
}
