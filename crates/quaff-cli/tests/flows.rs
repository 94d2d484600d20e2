//! `quaff flows` and `quaff nprobe`: the same flows as an oracle in another language, and each packet in one count.

use jiff::Timestamp;
use quaff_testkit::skip;
use quaff_testpackets as build;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/flows/oracle.py");
const SECOND: u64 = 1_000_000_000;
/// Time of the first packet, ns since 1970.
const BEGIN_NS: u64 = 1_700_000_000 * SECOND;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

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
    let mut all = vec!["flows", "--read", &file, "--json", &records, "--ledger", "-"];
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

fn line(addresses: [String; 2], numbers: [u64; 15]) -> String {
    let [source, destination] = addresses;
    let [
        sport,
        dport,
        protocol,
        vlan,
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
        "{source} {sport} {destination} {dport} protocol {protocol} icmp {icmp} vlan {vlan}: {packets}/{bytes} and {rpackets}/{rbytes}, \
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

/// The folder with captures, which the first test that asks makes where there are none.
fn captures() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(quaff_testkit::captures)
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
    let test = "real_captures_give_the_flows_of_the_oracle";
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
    let test = "short_timeouts_and_uniflows_are_those_of_the_oracle";
    let mix = captures().join("mix.pcap");
    if !mix.is_file() {
        return skip(test, "there is no mix.pcap; QUAFF_CAPTURES says where to look");
    }
    compare(test, std::slice::from_ref(&mix), &["--active", "5", "--idle", "1", "--linger", "0.5"]);
    compare(test, &[mix], &["--uniflow"]);
}

/// Packets and their times.
#[derive(Default)]
struct Made {
    packets: Vec<(u64, Vec<u8>)>,
}

impl Made {
    /// Adds an IP packet `ms` after the first one, in an Ethernet frame.
    fn ip(&mut self, ms: u64, packet: &[u8]) -> &mut Self {
        self.tagged(ms, &[], packet)
    }

    fn tagged(&mut self, ms: u64, tags: &[(u16, u16)], packet: &[u8]) -> &mut Self {
        let ethertype = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
        self.frame(ms, build::ethernet(tags, ethertype, packet))
    }

    fn frame(&mut self, ms: u64, frame: Vec<u8>) -> &mut Self {
        self.packets.push((BEGIN_NS + ms * 1_000_000, frame));
        self
    }

    /// A packet of TCP between two hosts; `is_back` from the second one. Each half second has its sequence number.
    fn tcp(&mut self, ms: u64, ports: [u16; 2], flags: u8, is_back: bool) -> &mut Self {
        let (hosts, [from, to]) = if is_back { ([B, A], [ports[1], ports[0]]) } else { ([A, B], ports) };
        self.ip(ms, &build::ipv4(hosts[0], hosts[1], TCP, &[], &tcp([from, to], (ms / 500) as u32, flags)))
    }

    /// Writes a pcap file with ns.
    fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let mut file = Vec::new();
        for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 262_144, 1] {
            file.extend(word.to_le_bytes());
        }
        for (time_ns, frame) in &self.packets {
            let len = frame.len() as u32;
            for word in [(time_ns / SECOND) as u32, (time_ns % SECOND) as u32, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
        let path = dir.join(name);
        std::fs::write(&path, file).expect("written");
        path
    }
}

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn tcp(ports: [u16; 2], sequence: u32, flags: u8) -> Vec<u8> {
    let mut bytes = ports.map(u16::to_be_bytes).concat();
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([0x50, flags, 4, 0, 0, 0, 0, 0]);
    bytes
}

fn udp(ports: [u16; 2], bytes: usize) -> Vec<u8> {
    build::ipv4(A, B, UDP, &[], &build::udp(ports[0], ports[1], &vec![0; bytes]))
}

/// Connections that end in each way, and begin again on the same ports.
fn connections() -> Made {
    let mut made = Made::default();
    let whole = [1000, 80];
    made.tcp(0, whole, SYN, false).tcp(1, whole, SYN | ACK, true).tcp(2, whole, ACK, false);
    made.tcp(3, whole, FIN | ACK, false).tcp(4, whole, FIN | ACK, true).tcp(5, whole, ACK, false);
    // A late packet within the linger, then the same ports again, within it and after it.
    made.tcp(1500, whole, ACK, true).tcp(2000, whole, SYN, false).tcp(2001, whole, RST | ACK, true);
    made.tcp(4001, whole, ACK, false).tcp(9000, whole, SYN, false);
    // Seen from the middle, from the answer, and from the wrong end.
    made.tcp(9001, [40_000, 443], ACK, true).tcp(9002, [40_000, 443], ACK, false);
    made.tcp(9003, [40_001, 443], SYN | ACK, true).tcp(9004, [40_001, 443], ACK, false);
    made.tcp(9005, [40_002, 50_000], ACK, true).tcp(9006, [40_002, 50_000], SYN, false);
    // A host that talks to itself on one port, in one direction: its FIN is that of both ends.
    for (ms, flags) in [(9050, SYN), (9051, ACK), (9052, FIN | ACK), (9060, ACK)] {
        made.ip(ms, &build::ipv4(A, A, TCP, &[], &tcp([99, 99], 5, flags)));
    }
    // A SYN that is sent again, one that never got an answer, and one after an answer.
    made.tcp(9100, [2000, 22], SYN, false).tcp(9101, [2000, 22], SYN, false);
    made.tcp(9600, [2000, 22], SYN, false).tcp(9601, [2000, 22], SYN | ACK, true);
    made.tcp(10_100, [2000, 22], SYN, false).tcp(10_101, [2000, 22], RST, true).tcp(
        10_102,
        [2000, 22],
        SYN,
        false,
    );
    made
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
    let test = "made_captures_give_the_flows_of_the_oracle";
    let dir = tempfile::tempdir().expect("a folder");
    let files = [
        connections().write(dir.path(), "connections.pcap"),
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
    let whole = quaff(&["flows", "--read", &path.display().to_string(), "--json", "-"]);
    assert!(whole.status.success() && !whole.stdout.is_empty(), "{whole:?}");
    let mut piped = Command::new(QUAFF)
        .args(["flows", "--read", "-", "--json", "-"])
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
    let done = quaff(&["flows", "--read", &path, "--json", "/dev/null"]);
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
        (&["flows"], "--interface"),
        (&["flows", "--read", "a", "--idle", "0"], "--idle"),
        (&["flows", "--read", "a", "--key", "colour"], "colour"),
        (&["nprobe", "-n", "none"], "no interface"),
        (&["nprobe", "-i", "none"], "this is a probe"),
        (&["nprobe", "--collector-port", "2055"], "this is a probe"),
    ] {
        let done = quaff(args);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && text.contains(part), "{args:?}: {text}");
    }
}

/// `quaff ARGS` with a redirection, by a shell; `$1` is `file`.
fn redirected(args: &str, file: &str) -> Output {
    let line = format!("set -o pipefail; \"$0\" {args}");
    Command::new("bash").args(["-c", &line, QUAFF, file]).output().expect("bash runs")
}

#[test]
fn nothing_is_written_over_what_is_read_or_twice_into_one_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap");
    let before = std::fs::read(&path).expect("the file");
    let file = path.display().to_string();
    let other = dir.path().join("other").display().to_string();
    for args in [
        "flows --read \"$1\" --ledger \"$1\" -q",
        "flows --read \"$1\" --csv \"$1\" -q",
        "flows --read \"$1\" --json - 1<>\"$1\"",
        &format!("flows --read \"$1\" --json {other} --csv {other}"),
        &format!("flows --read \"$1\" --json {other} --ledger {other}"),
        "flows --read \"$1\" --json - >&-",
    ] {
        let done = redirected(args, &file);
        let text = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && !text.is_empty(), "{args}: {done:?}");
        assert_eq!(std::fs::read(&path).expect("the file"), before, "{args}");
    }
    // A device takes what comes.
    let done = quaff(&["flows", "--read", &file, "--json", "/dev/null", "--csv", "/dev/null", "-q"]);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn an_output_that_fails_is_reported_and_one_that_is_closed_ends_the_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut made = Made::default();
    for number in 0..3000u64 {
        made.ip(number / 100, &udp([number as u16, 53], 4));
    }
    let file = made.write(dir.path(), "many.pcap").display().to_string();
    let done = redirected("flows --read \"$1\" --json - -q | head -c 1", &file);
    assert!(done.status.code() == Some(0) && done.stderr.is_empty(), "{done:?}");
    let done = quaff(&["flows", "--read", &file, "--ipfix", "/dev/full", "-q"]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && text.contains("/dev/full"), "{done:?}");
    // One of two: the other has all.
    let done = quaff(&["flows", "--read", &file, "--csv", "/dev/full", "--json", "/dev/null", "-q"]);
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("/dev/full"), "{done:?}");
}

#[test]
fn without_a_collector_nothing_is_called_lossless() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = connections().write(dir.path(), "connections.pcap").display().to_string();
    // A port that was free a moment ago.
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port();
    let udp = format!("udp://127.0.0.1:{port}");
    let tcp = format!("tcp://127.0.0.1:{port}");
    let spool = dir.path().join("spool").display().to_string();
    for args in [&["-n", &udp][..], &["-n", &tcp, "--spool", &spool]] {
        let done = quaff(&[&["flows", "--read", &file, "--ledger", "-", "-q"], args].concat());
        let ledger: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!((done.status.code(), &ledger["verdict"]), (Some(1), &"unknown".into()), "{ledger}");
        assert!(!done.stderr.is_empty(), "{done:?}");
    }
}

#[test]
fn a_log_of_connections_has_its_columns() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = connections().write(dir.path(), "connections.pcap").display().to_string();
    let done = quaff(&["flows", "--read", &file, "--zeek", "-", "-q"]);
    let text = String::from_utf8(done.stdout).expect("text");
    let fields = text.lines().find_map(|line| line.strip_prefix("#fields\t")).expect("names");
    let lines = || text.lines().filter(|line| !line.starts_with('#'));
    for name in ["orig_bytes", "resp_bytes", "missed_bytes"] {
        let at = fields.split('\t').position(|field| field == name).expect(name);
        assert!(
            lines().any(|line| line.split('\t').nth(at).is_some_and(|value| value != "-")),
            "{name} in\n{text}"
        );
    }
}

#[test]
fn nprobe_has_a_help_also_after_other_options() {
    for args in
        [&["nprobe", "-h"][..], &["nprobe", "-i", "eth0", "--help"], &["tcpreplay", "-i", "eth0", "-h"]]
    {
        let done = quaff(args);
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && text.contains("Usage: quaff") && done.stderr.is_empty(),
            "{args:?}: {done:?}"
        );
    }
}

#[test]
fn a_template_of_unknown_names_is_the_default_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = connections().write(dir.path(), "connections.pcap").display().to_string();
    let done = quaff(&["nprobe", "--dry-run", "-i", &path, "-n", "none", "-T", "%BOGUS"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("Unable to locate template 'BOGUS'") && !text.contains(" -T"), "{done:?}");
    let done = quaff(&["nprobe", "--dry-run", "-i", &path, "-n", "none", "-T", "%IN_BYTES @NTOPNG@"]);
    assert!(String::from_utf8_lossy(&done.stdout).contains("@NTOPNG@"), "{done:?}");
}
