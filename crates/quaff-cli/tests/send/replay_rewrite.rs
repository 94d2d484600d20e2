//! `quaff replay` with rewriting, from outside: what arrives at the other end of a link, or at both ends.

use crate::support::{self, Bench, QUAFF, lab_bench};
use quaff_lab::ChildProcess;
use quaff_testpackets as build;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::net::{self, UDP};
use quaff_wire::pcap::{Resolution, file_header};
use quaff_wire::rewrite::{AddressMaps, Rewrite, Ttl};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Questions and answers of these sizes, in turn.
fn frames(payloads: &[usize]) -> Vec<Vec<u8>> {
    let one = |(at, bytes): (usize, &usize)| {
        let (from, to, ports) =
            if at % 2 == 0 { (CLIENT, SERVER, (5000, 53)) } else { (SERVER, CLIENT, (53, 5000)) };
        let datagram = build::udp(ports.0, ports.1, &vec![at as u8; *bytes]);
        let frame = build::ethernet(&[], 0x0800, &build::ipv4(from, to, UDP, &[], &datagram));
        let mut fixed = frame;
        Rewrite { fix_checksums: true, ..Rewrite::default() }.edit(&mut fixed, 0);
        fixed
    };
    payloads.iter().enumerate().map(one).collect()
}

fn write(path: &str, frames: &[Vec<u8>]) {
    let mut file = file_header(Resolution::Microseconds, 262_144, 1).to_vec();
    for (at, frame) in frames.iter().enumerate() {
        for word in [1, at as u32 * 100, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// The frames of IPv4 in a capture, in order.
fn read(path: &str) -> Vec<Vec<u8>> {
    read_by(path).into_iter().map(|(_, frame)| frame).collect()
}

/// The same, and by which interface they came.
fn read_by(path: &str) -> Vec<(u32, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let (mut rest, mut decoder, mut frames) = (&file[..], Decoder::default(), Vec::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(frame) = item
            && net::layers(frame.data).is_some_and(|layers| layers.ip.is_some_and(|ip| !ip.is_v6()))
        {
            frames.push((frame.interface, frame.data.to_vec()));
        }
    }
    frames
}

/// The frames received when `frames` are replayed with these options, and the report.
fn arrived(bench: &Bench, frames: &[Vec<u8>], options: &str) -> (Vec<Vec<u8>>, Value, i32) {
    let (from, to) = (bench.path("from.pcap"), bench.path("to.pcapng"));
    write(&from, frames);
    let running = bench.capture(&["-w", &to]);
    let mut command = bench.lab.tx.command(QUAFF).unwrap();
    command
        .args(["replay", "-o", "tx0", "--via", "sendmmsg", "--json"])
        .args(options.split_whitespace())
        .arg(&from);
    let ended = support::finish(ChildProcess::start(command).unwrap());
    assert!(ended.json.is_object(), "{options}: {}", ended.stderr);
    let captured = support::interrupt(running);
    assert_eq!(captured.code, 0, "{} {}", captured.json, captured.stderr);
    (read(&to), ended.json, ended.code)
}

#[test]
fn rewritten_frames_arrive_as_they_were_rewritten() {
    let bench = lab_bench!(1 << 28);
    let frames = frames(&[20, 500, 0, 1400]);
    let maps = AddressMaps::new(&["10.0.0.0/8:172.16.0.0/16".parse().unwrap()], None);
    let plan = Rewrite {
        dst_mac: [Some([2, 0, 0, 0, 9, 9]); 2],
        src_ip: maps.clone(),
        dst_ip: maps,
        ports: vec!["53:5353".parse().unwrap()],
        tags: vec!["push:vid=7,pcp=3".parse().unwrap()],
        ttl: Some(Ttl::Subtract(4)),
        ..Rewrite::default()
    };
    let expected: Vec<Vec<u8>> = frames
        .iter()
        .map(|frame| {
            let mut frame = frame.clone();
            plan.apply(&mut frame, 0, 0);
            frame
        })
        .collect();
    let options = "--dst-mac 02:00:00:00:09:09 --map-ip 10.0.0.0/8:172.16.0.0/16 --map-port 53:5353 \
        --vlan push:vid=7,pcp=3 --ttl -4 -t";
    let (there, report, code) = arrived(&bench, &frames, options);
    assert_eq!((code, report["sent"].as_u64()), (0, Some(4)), "{report}");
    assert_eq!(there, expected);
}

#[test]
fn frames_above_the_mtu_are_fragmented_and_counted() {
    let bench = lab_bench!(1 << 28);
    let frames = frames(&[20, 2500, 100]);
    let (there, report, code) = arrived(&bench, &frames, "--mtu 1500 --mtu-policy fragment -t");
    let rewritten = &report["feed"]["rewritten"];
    assert_eq!(
        (code, &rewritten["fragmented"], &rewritten["fragments"]),
        (0, &1.into(), &2.into()),
        "{report}"
    );
    let lengths: Vec<usize> = there.iter().map(Vec::len).collect();
    assert_eq!(lengths, [62, 1514, 1062, 142], "20 + 8 + 2500 bytes in two pieces");
    let (there, report, code) = arrived(&bench, &frames, "--mtu 1500 --mtu-policy skip -t");
    assert_eq!((code, there.len()), (1, 2), "{report}");
    assert_eq!(report["feed"]["rewritten"]["mtu_skipped"], 1, "{report}");
    let (there, ..) = arrived(&bench, &frames, "--mtu 1500 --mtu-policy cut -t");
    assert_eq!(there.iter().map(Vec::len).collect::<Vec<_>>(), [62, 1514, 142]);
}

#[test]
fn verify_follows_stamped_frames() {
    let bench = lab_bench!(1 << 28);
    let sizes: Vec<usize> = (0..500).map(|at| at * 37 % 1400).collect();
    let (there, report, code) = arrived(&bench, &frames(&sizes), "--stamp=9 --pps 20000");
    assert_eq!((code, there.len()), (0, 500), "{report}");
    let verdict = support::verify(&[&bench.path("to.pcapng")]);
    assert_eq!(verdict["lost"], 0, "{verdict}");
    assert_eq!(verdict["received"], 500, "{verdict}");
}

#[test]
fn clients_and_servers_leave_by_an_interface_each() {
    let bench = lab_bench!(1 << 28);
    bench.add_link();
    let (from, to) = (bench.path("from.pcap"), bench.path("to.pcapng"));
    let frames = frames(&[10, 20, 30, 40, 50]);
    write(&from, &frames);
    for (options, clients_by) in
        [("--dst-mac 02:00:00:00:0c:00,02:00:00:00:0c:01", 0), ("--split-reverse", 1)]
    {
        let running = bench.capture(&["-i", "rx1", "-w", &to]);
        let mut command = bench.lab.tx.command(QUAFF).unwrap();
        command.args(["replay", "-o", "tx0", "--out2", "tx1", "--json", "--pps", "1000"]);
        let ended = support::finish(
            ChildProcess::start({
                command.args(options.split(' ')).arg(&from);
                command
            })
            .unwrap(),
        );
        support::interrupt(running);
        assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
        let counts: Vec<_> =
            ended.json["interfaces"].as_array().unwrap().iter().map(|one| &one["sent"]).collect();
        let there = read_by(&to);
        let by = |interface: u32| there.iter().filter(|(at, _)| *at == interface).count();
        let expected = if clients_by == 0 { [3, 2] } else { [2, 3] };
        assert_eq!([by(0), by(1)], expected, "{}", ended.json);
        assert_eq!(counts, [expected[0], expected[1]], "{}", ended.json);
        for (interface, frame) in there.iter().filter(|_| clients_by == 0) {
            let source = if *interface == 0 { CLIENT } else { SERVER };
            assert_eq!((frame[5], &frame[26..30]), (*interface as u8, &source.octets()[..]));
        }
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn bad_words_are_refused_before_anything_is_sent() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (options, says) in [
        ("--map-ip 10.0.0.0/8", "10.0.0.0/8:192.168.0.0/16"),
        ("--map-port 80", "80:8080"),
        ("--vlan push:5000", "vid=0"),
        ("--ttl 0", "no packet"),
        ("--dscp best", "0 to 63"),
        ("--mtu-policy tear", "fragment"),
        ("--split-by auto", "--out2"),
    ] {
        let output = Command::new(QUAFF)
            .args(["replay", "--inject", "lo"])
            .args(options.split_whitespace())
            .arg(Path::new(file))
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options}: {words}");
        assert!(words.contains(says), "{options}: {words}");
    }
}
