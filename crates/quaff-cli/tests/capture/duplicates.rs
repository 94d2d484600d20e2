//! Duplicates of mirrors: counted and marked while packets are captured, and removed when a file is read.

use crate::support::packets::{Packet, packets_of};
use crate::support::{Bench, Ended, capture, interrupt, lab_bench, run, tool};
use quaff_os::packet::{Qdisc, TxSocket};
use quaff_os::rtnl;
use quaff_testkit::test_name;
use quaff_testpackets as build;
use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Longest time between two sightings of a packet, ns.
const WINDOW_NS: u64 = 1_000_000;

/// UDP without a checksum and with IPv4 identification 0: packets differ in their payload alone.
fn udp(number: u64) -> Vec<u8> {
    let mut datagram = build::udp(4789, 4789, &[&number.to_be_bytes()[..], &[9; 60]].concat());
    datagram[6..8].fill(0);
    build::ethernet(&[], 0x0800, &build::ipv4(A, B, 17, &[], &datagram))
}

/// A duplicate ACK over IPv6: the same bytes each time.
fn ack() -> Vec<u8> {
    let segment = [0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0x50, 0x10, 1, 2, 0, 0, 0, 0];
    build::ethernet(&[], 0x86dd, &build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 6, &segment))
}

/// A packet as a mirror behind a router sends it: TTL − 1, another VLAN, other MAC addresses.
fn routed(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame[14..].to_vec();
    match packet[0] >> 4 {
        4 => (packet[8], packet[10]) = (packet[8] - 1, packet[10] ^ 1),
        _ => packet[7] -= 1,
    }
    let mut routed = build::ethernet(&[(0x8100, 77)], u16::from_be_bytes([frame[12], frame[13]]), &packet);
    routed[..12].copy_from_slice(&[2, 6, 6, 6, 6, 6, 2, 7, 7, 7, 7, 7]);
    routed
}

/// A file of packets, 10 µs apart.
fn write(path: &Path, packets: &[Vec<u8>]) -> String {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    for (time_ns, bytes) in (START_NS..).step_by(10_000).zip(packets) {
        let record = Record { time_ns, bytes, len: bytes.len() as u32, ..Record::default() };
        let at = file.len();
        file.resize(at + pcap::record_bytes(bytes.len()), 0);
        pcap::record(&mut file[at..], Resolution::Nanoseconds, &record);
    }
    std::fs::write(path, file).expect("a file");
    path.display().to_string()
}

/// Packets, each followed by its duplicate; every tenth is a duplicate ACK.
fn mirrored() -> Vec<Vec<u8>> {
    let packet = |n: u64| if n.is_multiple_of(10) { ack() } else { udp(n) };
    (0..1000).flat_map(|n| [packet(n), routed(&packet(n))]).collect()
}

/// A field of `sightings`.
fn sighted(ended: &Ended, field: &str) -> u64 {
    ended.json["sightings"][field].as_u64().unwrap_or_else(|| panic!("{} {}", ended.json, ended.stderr))
}

fn holds(path: &str, text: &str) -> bool {
    std::fs::read(path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn marks_of_a_file_are_those_of_each_run() {
    let test = test_name!();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (from, first, second, again) = (
        write(&dir.path().join("in.pcap"), &mirrored()),
        path("1.pcapng"),
        path("2.pcapng"),
        path("3.pcapng"),
    );
    for (from, to) in [(&from, &first), (&from, &second), (&first, &again)] {
        let ended = capture(&["--read", from, "--duplicates", "mark", "-s", "40", "-w", to]);
        if from == &first {
            assert_eq!(sighted(&ended, "not_compared"), 2000, "they were cut");
            continue;
        }
        assert_eq!(
            (ended.code, &ended.json["written"]),
            (0, &2000.into()),
            "{} {}",
            ended.json,
            ended.stderr
        );
        let fields = ["compared", "elsewhere", "unchecked", "not_compared"].map(|of| sighted(&ended, of));
        assert_eq!(fields, [2000, 1000, 0, 0], "{}", ended.json);
        assert_eq!(ended.json["duplicates"], 0, "none is dropped");
    }
    let ids = |path: &str| packets_of(path).iter().map(|packet| packet.id).collect::<Vec<_>>();
    let found = ids(&first);
    assert_eq!(found, ids(&second));
    assert_eq!(found, ids(&again), "packets that are not compared keep what they have");
    assert!(found.chunks(2).all(|pair| pair[0].is_some() && pair[0] == pair[1]), "{found:?}");
    assert_eq!(found.iter().collect::<HashSet<_>>().len(), 1000);
    assert!(packets_of(&first).iter().all(|packet| packet.bytes.len() == 40));
    assert!(holds(&first, "duplicates: 1000 packets seen before at another place"));
    if let Some(mut tshark) = tool(test, "tshark") {
        assert_eq!(run(tshark.args(["-r", &first])).lines().count(), 2000);
    }
}

#[test]
fn removal_has_its_number_in_the_ledger_and_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.pcapng").display().to_string();
    // A retransmission, and packets of equal headers, remain.
    let packets = [mirrored(), vec![udp(7000), udp(7000), udp(7001)]].concat();
    let from = write(&dir.path().join("in.pcap"), &packets);
    let ended = capture(&["--read", &from, "--duplicates", "remove", "-w", &to]);
    let terms = ["offered", "duplicates", "written", "lost"].map(|term| ended.json[term].as_u64());
    assert_eq!((ended.code, terms), (0, [Some(2003), Some(1000), Some(1003), Some(0)]), "{}", ended.json);
    let left: Vec<_> = packets_of(&to).into_iter().map(|packet| packet.bytes).collect();
    let first = packets[..2000].iter().step_by(2).chain(&packets[2000..]);
    assert!(left.iter().eq(first), "the first sightings");
    assert!(holds(&to, "1000 duplicates were removed"));
    let again = dir.path().join("again.pcapng").display().to_string();
    let once = capture(&["--read", &to, "--duplicates", "remove", "-w", &again]);
    assert_eq!((sighted(&once, "elsewhere"), &once.json["duplicates"]), (0, &0.into()));
    assert!(!holds(&again, "were removed"));
    let dedup = capture(&["--read", &to, "--dedup", "-w", &again]);
    assert_eq!(dedup.json["duplicates"], 1, "{}", dedup.json);
    assert!(holds(&again, "1 duplicates were removed"));
}

#[test]
fn actions_without_their_input_or_format_are_refused() {
    for (args, words) in [
        (&["-i", "lo", "--duplicates", "remove", "-w", "x.pcapng"][..], "--read"),
        (&["-i", "lo", "--duplicates", "mark", "-w", "x.pcap"], "--format pcapng"),
        (&["--read", "x", "--duplicates", "remove", "--dedup", "-w", "x.pcap"], "--dedup"),
    ] {
        let refused = capture(args);
        assert!(refused.code == 2 && refused.stderr.contains(words), "{args:?}: {}", refused.stderr);
    }
}

/// Sends packets to both ports, the duplicate after its original, and duplicate ACKs to the first port alone.
fn send(bench: &Bench, packets: u64, acks: u64) {
    let send = || {
        let open = |name: &str| TxSocket::open(rtnl::link(name).unwrap().index, name, Qdisc::Bypass).unwrap();
        let [one, two] = ["tx0", "tx1"].map(open);
        let begun = Instant::now();
        for n in 0..packets.max(acks) {
            if n < packets {
                let frame = udp(n);
                one.send_one(&frame).unwrap();
                two.send_one(&routed(&frame)).unwrap();
            }
            if n < acks {
                one.send_one(&ack()).unwrap();
            }
            // 50,000 rounds a second.
            while begun.elapsed() < Duration::from_micros(20 * n) {
                std::hint::spin_loop();
            }
        }
    };
    bench.lab.tx.run(send).unwrap();
}

/// Packets of UDP by their numbers: those of each port, with time and mark.
fn by_number(packets: &[Packet]) -> [HashMap<u64, (u64, u64)>; 2] {
    let mut found = [HashMap::new(), HashMap::new()];
    for Packet { interface, time_ns, bytes, id } in packets {
        // The frame of the second port has a tag.
        let at = if *interface == 0 { 42 } else { 46 };
        let number = bytes.get(at..at + 8).and_then(<[u8]>::first_chunk).filter(|_| bytes.len() > 54 + 40);
        if let Some(number) = number {
            found[*interface].insert(u64::from_be_bytes(*number), (*time_ns, id.expect("a mark")));
        }
    }
    found
}

#[test]
fn both_ports_of_a_tap_are_marked_and_equal_packets_of_one_are_not() {
    let bench = lab_bench!(64 << 20);
    bench.add_link();
    const PACKETS: u64 = 20_000;
    // Fewer than a part of the table holds: however long a lane waits for its core, no packet is forgotten.
    const ACKS: u64 = 6_000;
    let file = bench.path("marked.pcapng");
    // Cut in the file, and compared as a whole.
    let args = ["-i", "rx1", "-f", "udp or tcp or vlan", "--duplicates", "mark", "-s", "100", "-w", &file];
    let running = bench.capture(&args);
    send(&bench, PACKETS, ACKS);
    let ended = interrupt(running);
    let all = 2 * PACKETS + ACKS;
    assert_eq!((ended.code, &ended.json["written"]), (0, &all.into()), "{} {}", ended.json, ended.stderr);
    let packets = packets_of(&file);
    let [one, two] = by_number(&packets);
    assert_eq!((one.len() as u64, two.len() as u64), (PACKETS, PACKETS));
    let mut marked = 0;
    for (number, (time_ns, id)) in &one {
        let (routed_ns, routed_id) = two[number];
        // The sender may have been interrupted between the two.
        let is_near = routed_ns.abs_diff(*time_ns) <= WINDOW_NS;
        assert_eq!(id == &routed_id, is_near, "packet {number}, {time_ns} and {routed_ns}");
        marked += u64::from(is_near);
    }
    assert!(marked > PACKETS / 2, "{marked}");
    let fields = ["compared", "elsewhere", "unchecked"].map(|field| sighted(&ended, field));
    assert_eq!(fields, [all, marked, 0], "{}", ended.json);
    let ids: HashSet<_> = packets.iter().map(|packet| packet.id).collect();
    assert_eq!(ids.len() as u64, all - marked, "every other packet has its own");
    assert!(sighted(&ended, "same_place") > 0, "duplicate ACKs within 1 ms: {}", ended.json);
    let parts = ended.json["interfaces"].as_array().unwrap().iter();
    let parts: u64 = parts.map(|of| of["sightings"]["elsewhere"].as_u64().unwrap()).sum();
    assert_eq!(parts, marked);
}
