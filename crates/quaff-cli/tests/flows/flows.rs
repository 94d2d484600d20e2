//! `quaff flows` and `quaff nprobe`: the same flows as an oracle in another language, and each packet in one count.

use crate::made::{A, B, Made, UDP, connections, handshakes, udp};
use jiff::Timestamp;
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets as build;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/oracle.py");
const ICMP: u8 = 1;

/// The flows of a file, sorted, one line each, and its counters.
#[derive(Debug, PartialEq, Eq)]
struct Metered {
    flows: Vec<String>,
    /// Packets, bytes, flows exported, packets in flows, not IP, truncated.
    counts: [u64; 6],
}

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).output().expect("quaff runs")
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The flows that quaff finds in a file.
#[track_caller]
fn metered(path: &Path, args: &[&str]) -> Metered {
    let dir = tempfile::tempdir().expect("a folder");
    let records = dir.path().join("flows.json").display().to_string();
    let file = path.display().to_string();
    let mut all = vec!["flows", "--read", &file, "--jsonl", &records, "--ledger", "-"];
    all.extend(args);
    let done = quaff(&all);
    let stderr = String::from_utf8_lossy(&done.stderr);
    let ledger: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{all:?}: {stderr}"));
    assert_eq!(ledger["failure"], Value::Null, "{file}: {ledger}");
    assert!(done.status.code() == Some(0) || !is_whole(&ledger), "{file}: {stderr}");
    assert_conserved(&ledger);
    let text = std::fs::read_to_string(&records).expect("records");
    let mut flows: Vec<_> = text.lines().map(|line| ours(&serde_json::from_str(line).expect(line))).collect();
    flows.sort();
    let ignored = &ledger["ignored"];
    let counts = [
        number(&ledger, "packets"),
        number(&ledger, "bytes"),
        number(&ledger, "flows_exported"),
        number(&ledger, "packets_in_flows"),
        number(ignored, "not_ip"),
        number(ignored, "truncated"),
    ];
    Metered { flows, counts }
}

/// True unless the file is damaged, or records losses of its own.
fn is_whole(ledger: &Value) -> bool {
    let input = &ledger["input"];
    input["damages"].as_array().is_some_and(Vec::is_empty) && number(input, "recorded_drops") == 0
}

#[track_caller]
fn assert_conserved(ledger: &Value) {
    let [packets, in_flows, ignored] =
        ["packets", "packets_in_flows", "packets_ignored"].map(|name| number(ledger, name));
    assert_eq!(packets, in_flows + ignored, "{ledger}");
    assert_eq!(
        number(ledger, "bytes"),
        number(ledger, "bytes_in_flows") + number(ledger, "bytes_ignored"),
        "{ledger}"
    );
    assert_eq!((number(ledger, "packets_live"), number(ledger, "packets_held")), (0, 0), "{ledger}");
    let ended: u64 = ledger["ended"].as_object().expect("reasons").values().filter_map(Value::as_u64).sum();
    assert_eq!(number(ledger, "flows_exported"), ended, "{ledger}");
}

/// One of quaff's records as a line.
fn ours(record: &Value) -> String {
    let address = |end: &str| {
        let found = [4, 6].iter().find_map(|version| record[format!("{end}IPv{version}Address")].as_str());
        found.unwrap_or_else(|| panic!("{end} in {record}")).to_owned()
    };
    let of = |name: &str| record[name].as_u64().unwrap_or(0);
    let time = |name: &str| {
        let time: Timestamp = record[name].as_str().unwrap_or_default().parse().expect("a time");
        time.as_nanosecond() as u64
    };
    line(
        [address("source"), address("destination")],
        [
            of("sourceTransportPort"),
            of("destinationTransportPort"),
            of("protocolIdentifier"),
            of("vlanId"),
            of("dot1qCustomerVlanId"),
            of("packetDeltaCount"),
            of("octetDeltaCount"),
            of("reversePacketDeltaCount"),
            of("reverseOctetDeltaCount"),
            of("tcpControlBits"),
            of("reverseTcpControlBits"),
            time("flowStartNanoseconds"),
            time("flowEndNanoseconds"),
            of("flowEndReason"),
            of("quaffInitiatorRule"),
            of("icmpTypeCodeIPv4") + of("icmpTypeCodeIPv6"),
        ],
    )
}

/// One of the oracle's records as a line.
fn theirs(record: &Value) -> String {
    let text = |name: &str| record[name].as_str().expect(name).to_owned();
    let of = |name: &str| number(record, name);
    line(
        [text("source"), text("destination")],
        [
            of("source_port"),
            of("destination_port"),
            of("protocol"),
            of("vlan"),
            of("inner_vlan"),
            of("packets"),
            of("bytes"),
            of("reverse_packets"),
            of("reverse_bytes"),
            of("flags"),
            of("reverse_flags"),
            of("first"),
            of("last"),
            of("reason"),
            of("rule"),
            of("icmp"),
        ],
    )
}

fn line(addresses: [String; 2], numbers: [u64; 16]) -> String {
    let [source, destination] = addresses;
    let [
        sport,
        dport,
        protocol,
        vlan,
        inner_vlan,
        packets,
        bytes,
        rpackets,
        rbytes,
        flags,
        rflags,
        first,
        last,
        reason,
        rule,
        icmp,
    ] = numbers;
    format!(
        "{source} {sport} {destination} {dport} protocol {protocol} icmp {icmp} vlan {vlan} {inner_vlan}: {packets}/{bytes} and {rpackets}/{rbytes}, \
         flags {flags}/{rflags}, {first} to {last}, reason {reason}, rule {rule}"
    )
}

/// The flows that the oracle finds in files, one after another; `None` after a skip.
fn oracle(test: &str, paths: &[PathBuf], args: &[&str]) -> Option<Vec<Metered>> {
    let mut python = Command::new("python3");
    let Ok(done) = python.arg(ORACLE).args(args).args(paths).output() else {
        skip(test, "there is no python3");
        return None;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("text");
    let (mut all, mut flows) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect(line);
        let ledger = &value["ledger"];
        if ledger.is_null() {
            flows.push(theirs(&value));
            continue;
        }
        flows.sort();
        let names = ["packets", "bytes", "flows_exported", "packets_in_flows", "not_ip", "truncated"];
        all.push(Metered {
            flows: std::mem::take(&mut flows),
            counts: names.map(|name| number(ledger, name)),
        });
    }
    assert_eq!(all.len(), paths.len());
    Some(all)
}

/// Compares quaff with the oracle on each file.
fn compare(test: &str, paths: &[PathBuf], args: &[&str]) {
    let Some(expected) = oracle(test, paths, args) else { return };
    let mut wrong = Vec::new();
    for (path, expected) in paths.iter().zip(expected) {
        let found = metered(path, &flags(args));
        if found != expected {
            wrong.push(difference(path, &found, &expected));
        }
    }
    assert!(wrong.is_empty(), "{} of {} files differ:\n{}", wrong.len(), paths.len(), wrong.join("\n"));
}

/// The oracle's arguments, times of which are in seconds, as quaff's.
fn flags<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().map(|arg| if *arg == "--linger" { "--tcp-linger" } else { arg }).collect()
}

/// The first flows that only one of both has.
fn difference(path: &Path, found: &Metered, expected: &Metered) -> String {
    let only = |of: &Metered, other: &Metered| {
        let mut left: BTreeMap<&String, i64> = BTreeMap::new();
        of.flows.iter().for_each(|flow| *left.entry(flow).or_default() += 1);
        other.flows.iter().for_each(|flow| *left.entry(flow).or_default() -= 1);
        let only = left.into_iter().filter(|(_, count)| *count > 0);
        only.map(|(flow, count)| format!("{count} × {flow}")).take(4).collect::<Vec<_>>().join("\n    ")
    };
    format!(
        "{}: counts {:?}, the oracle {:?}\n  only quaff:\n    {}\n  only the oracle:\n    {}",
        path.display(),
        found.counts,
        expected.counts,
        only(found, expected),
        only(expected, found)
    )
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(captures().join(folder)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| is_capture(path)).collect();
    files.sort();
    files
}

fn is_capture(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["pcap", "pcapng", "cap"].iter().any(|known| end == *known))
}

#[test]
fn real_captures_give_the_flows_of_the_oracle() {
    let test = test_name!();
    let mut all = files("protocols");
    if all.is_empty() {
        return skip(
            test,
            &format!("no captures in {}; QUAFF_CAPTURES says where to look", captures().display()),
        );
    }
    all.extend(files("tunnels"));
    compare(test, &all, &[]);
}

#[test]
fn short_timeouts_and_uniflows_are_those_of_the_oracle() {
    let test = test_name!();
    let mix = captures().join("mix.pcap");
    if !mix.is_file() {
        return skip(test, "there is no mix.pcap; QUAFF_CAPTURES says where to look");
    }
    compare(test, std::slice::from_ref(&mix), &["--active", "5", "--idle", "1", "--linger", "0.5"]);
    compare(test, &[mix], &["--uniflow"]);
}

/// Silences around the idle timeout, and a flow longer than the active one.
fn silences() -> Made {
    let mut made = Made::default();
    for (number, gap_ms) in [29_999, 30_000, 30_001].into_iter().enumerate() {
        made.ip(number as u64, &udp([1 + number as u16, 53], 8));
        made.ip(number as u64 + gap_ms, &udp([1 + number as u16, 53], 9));
    }
    made.packets.sort_by_key(|(time_ns, _)| *time_ns);
    for step in 0..26 {
        made.ip(100_000 + step * 10_000, &udp([7, 7], step as usize));
    }
    made
}

/// Times that go back: by less than the idle timeout, and by more.
fn times_that_go_back() -> Made {
    let mut made = Made::default();
    made.ip(60_000, &udp([1, 1], 1)).ip(50_000, &udp([1, 1], 2)).ip(59_000, &udp([2, 2], 3));
    made.ip(70_000, &udp([1, 1], 4)).ip(5_000, &udp([1, 1], 5)).ip(6_000, &udp([2, 2], 6));
    made.ip(6_000, &udp([2, 2], 7));
    made
}

/// Fragments in each order, without their first one, and of two datagrams with the same number.
fn fragments() -> Made {
    let mut made = Made::default();
    let whole = udp([5000, 6000], 3000);
    let pieces = build::ipv4_fragments(&whole, 1480);
    for (piece, ms) in pieces.iter().zip(0..) {
        made.ip(ms, piece);
    }
    // Backwards: while the ports are known, when they no longer are, and without the first one for too long.
    for begin in [100, 5_000] {
        for (piece, ms) in pieces.iter().rev().zip(begin..) {
            made.ip(ms, piece);
        }
    }
    for (piece, ms) in pieces.iter().rev().zip([10_000, 10_500, 11_400]) {
        made.ip(ms, piece);
    }
    let orphan = build::ipv4(B, A, UDP, &[], &build::udp(9, 9, &[0; 2000]));
    for piece in build::ipv4_fragments(&orphan, 800).iter().skip(1) {
        made.ip(12_000, piece);
    }
    let echo = build::ipv4(A, B, ICMP, &[], &[8; 1600]);
    for piece in build::ipv4_fragments(&echo, 800).iter().rev() {
        made.ip(12_500, piece);
    }
    // A ping, and a fragment of another one whose first was lost: that is neither its request nor its answer.
    made.ip(12_550, &build::ipv4(B, A, ICMP, &[], &[8; 8]));
    for piece in build::ipv4_fragments(&build::ipv4(B, A, ICMP, &[], &[8; 900]), 800).iter().skip(1) {
        made.ip(12_551, piece);
    }
    let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse::<Ipv6Addr>().expect("an address"));
    let packet = build::ipv6(a, b, UDP, &build::udp(53, 40_000, &[0; 2000]));
    for piece in build::ipv6_fragments(&packet, 77, 1232).iter().rev() {
        made.ip(12_600, piece);
    }
    // The last packets wait when the file ends.
    made.ip(60_000, &pieces[1]).ip(60_001, &udp([1, 1], 1)).ip(60_002, &pieces[2]);
    made
}

/// Headers of all kinds, and those that cannot be read.
fn headers() -> Made {
    let mut made = Made::default();
    let plain = udp([1, 2], 10);
    made.ip(0, &plain).tagged(1, &[(0x8100, 5)], &plain).tagged(2, &[(0x88a8, 6), (0x8100, 7)], &plain);
    made.frame(3, build::ethernet(&[], 0x8847, &build::mpls(&[16, 17], &plain)));
    made.frame(4, build::ethernet(&[], 0x0806, &[0; 28]));
    made.ip(5, &build::ipv4(A, B, 47, &[], &build::gre(&build::Gre::default(), 0x0800, &plain)));
    made.ip(6, &build::ipv4(A, B, 132, &[1; 8], &[0, 7, 0, 8, 0, 0, 0, 0]));
    for (ms, message) in [(7, 8), (8, 3)] {
        made.ip(ms, &build::ipv4(A, B, ICMP, &[], &[message, 1, 0, 0, 0, 0, 0, 0]));
    }
    made.ip(9, &build::ipv4(B, A, ICMP, &[], &[0, 0, 0, 0, 0, 0, 0, 0]));
    let [a, b] = ["2001:db8::1", "2001:db8::2"].map(|text| text.parse::<Ipv6Addr>().expect("an address"));
    let inner = build::ipv6_options(UDP, &build::udp(11, 12, &[0; 4]));
    made.ip(10, &build::ipv6(a, b, 0, &build::ipv6_options(60, &inner)));
    // Cut in the frame: before the ports, in the IP header, in the link header.
    for len in [14 + 22, 14 + 20, 14 + 19, 14 + 1, 14, 13, 1] {
        made.frame(11, build::ethernet(&[], 0x0800, &plain)[..len].to_vec());
    }
    // A total length that is 0, too short for the header, and longer than what there is.
    for total in [0u16, 19, 24, 60_000] {
        let mut packet = plain.clone();
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        made.ip(12, &packet);
    }
    // Padding of a short frame belongs to no packet.
    let mut padded = build::ethernet(&[], 0x0800, &udp([3, 4], 0));
    padded.resize(60, 0xff);
    made.frame(13, padded);
    made
}

#[test]
fn made_captures_give_the_flows_of_the_oracle() {
    let test = test_name!();
    let dir = tempfile::tempdir().expect("a folder");
    let files = [
        connections().write(dir.path(), "connections.pcap"),
        handshakes().write(dir.path(), "handshakes.pcap"),
        silences().write(dir.path(), "silences.pcap"),
        times_that_go_back().write(dir.path(), "back.pcap"),
        fragments().write(dir.path(), "fragments.pcap"),
        headers().write(dir.path(), "headers.pcap"),
    ];
    compare(test, &files, &[]);
    compare(test, &files, &["--uniflow"]);
    compare(test, &files, &["--active", "0.002", "--idle", "0.003", "--linger", "0.001"]);
}

#[test]
fn the_same_packets_give_the_same_records_in_whatever_pieces_they_come() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = silences().write(dir.path(), "silences.pcap");
    let whole = quaff(&["flows", "--read", &path.display().to_string(), "--jsonl", "-"]);
    assert!(whole.status.success() && !whole.stdout.is_empty(), "{whole:?}");
    let mut piped = Command::new(QUAFF)
        .args(["flows", "--read", "-", "--jsonl", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("quaff runs");
    let mut stdin = piped.stdin.take().expect("a pipe");
    for piece in std::fs::read(&path).expect("the file").chunks(37) {
        stdin.write_all(piece).expect("written");
    }
    drop(stdin);
    let piped = piped.wait_with_output().expect("the end");
    assert_eq!(String::from_utf8_lossy(&piped.stdout), String::from_utf8_lossy(&whole.stdout));
}

#[test]
fn a_full_table_ends_flows_early_and_counts_each_packet() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for number in 0..20_000u64 {
        made.ip(number / 100, &udp([number as u16, 53], 4));
    }
    let path = made.write(dir.path(), "flood.pcap").display().to_string();
    let done = quaff(&["flows", "--read", &path, "--max-flows", "1000", "--ledger", "-", "-q"]);
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_conserved(&ledger);
    assert_eq!(number(&ledger, "packets"), 20_000);
    assert!(number(&ledger, "flows_high") <= 1000, "{ledger}");
    assert!(number(&ledger["ended"], "lack_of_resources") >= 19_000, "{ledger}");
}

#[test]
fn sampled_packets_are_counted_apart() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for number in 0..1000 {
        made.ip(number, &udp([1, 53], 4));
    }
    let path = made.write(dir.path(), "even.pcap").display().to_string();
    let done = quaff(&["flows", "--read", &path, "--sample", "1/10", "--ledger", "-", "-q"]);
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_conserved(&ledger);
    assert_eq!((number(&ledger, "packets_in_flows"), number(&ledger["ignored"], "not_sampled")), (100, 900));
}

#[test]
fn the_report_reads_as_that_of_a_capture() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = headers().write(dir.path(), "headers.pcap").display().to_string();
    let done = quaff(&["flows", "--read", &path, "--jsonl", "/dev/null"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
    let first = text.lines().next().unwrap_or_default();
    assert!(first.contains(" packets in ") && first.ends_with(", none lost"), "{text}");
    assert!(text.contains("ignored: not IP") && text.contains("ignored: cut before the ports"), "{text}");
}

#[test]
fn nprobe_prints_its_lines_and_discards_unknown_fields() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap").display().to_string();
    let template = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %BOGUS_FIELD %IN_PKTS %IN_BYTES";
    let done = quaff(&["nprobe", "-T", template, "-i", &path, "-n", "none"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(text.contains("Unable to locate template 'BOGUS_FIELD'. Discarded."), "{text}");
    let packets = connections().packets.len();
    for words in [
        "---------------------------------",
        "Average traffic: [",
        "Current flow export rate: [",
        "Flow drops: [export queue too long=0][too many flows=0]",
        "Flow Buckets: [active=0][allocated=",
        &format!("Processed packets: {packets} (max bucket search: "),
        "Flow drop stats:   [0 bytes][0 pkts][0 flows]",
        &format!("Packet stats (pcap): {packets}/0 pkts rcvd/dropped [0.0%]"),
    ] {
        let has_it = |line: &str| line.contains(" [nprobe.c:") && line.contains(words);
        assert!(text.lines().any(has_it), "{words} in\n{text}");
    }
    // The flows have all packets.
    assert!(text.contains(&format!("][{packets} pkts][")), "{text}");
}

#[test]
fn nprobe_shows_the_native_line_of_the_how_to() {
    let template = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IPV4_NEXT_HOP %INPUT_SNMP \
%OUTPUT_SNMP %IN_PKTS %IN_BYTES %FIRST_SWITCHED %LAST_SWITCHED %L4_SRC_PORT \
%L4_DST_PORT %TCP_FLAGS %PROTOCOL %SRC_TOS %SRC_AS %DST_AS %IPV4_SRC_MASK \
%IPV4_DST_MASK";
    let done = quaff(&["nprobe", "--dry-run", "-T", template, "-i", "eth7"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(!text.contains("Unable to locate"), "{text}");
    let start = "quaff flows -i eth7 -n udp://127.0.0.1:2055 -V 9 -T '%IPV4_SRC_ADDR %IPV4_DST_ADDR ";
    assert!(text.starts_with(start) && text.contains("%IPV4_DST_MASK'"), "{text}");
}

#[test]
fn mistakes_name_the_flag() {
    for (args, part) in [
        (&["flows", "--read", "/nowhere/a.pcap"][..], "/nowhere/a.pcap"),
        (&["flows"], "-i IF"),
        (&["flows", "--read", "a", "--idle", "0"], "--idle"),
        (&["flows", "--read", "a", "--key", "colour"], "colour"),
        (&["flows", "--read", "a", "--jsonl", "b", "--csv", "b"], "b would be written twice"),
        (&["flows", "--read", "a", "--max-memory", "1k"], "--max-memory"),
        (&["flows", "--read", "a", "-n", "h:1", "-V", "5", "--domain", "300"], "--domain"),
        (&["nprobe", "-n", "none"], "no interface"),
        (&["nprobe", "--pcap-file-list", "/nowhere/list"], "/nowhere/list"),
        (&["nprobe", "-i", "none"], "this is a probe"),
        (&["nprobe", "--collector-port", "2055"], "this is a probe"),
    ] {
        let done = quaff(args);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && text.contains(part), "{args:?}: {text}");
    }
}
