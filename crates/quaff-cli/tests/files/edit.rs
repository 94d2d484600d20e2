//! Editing of capture files beside editcap and tcprewrite, and decapsulated packets in tcpdump.

use crate::support::{QUAFF, run, tool};
use quaff_testkit::test_name;
use quaff_testpackets as build;
use quaff_wire::Record;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::pcap::{self, Resolution};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const ETHERNET: u16 = 1;
const RAW: u16 = 101;
const START_NS: u64 = 1_700_000_000_000_000_000;
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Two hours east of UTC.
const ZONE: &str = "XST-2";

/// Link type, time and bytes of a packet.
type Packet = (u16, u64, Vec<u8>);

fn write(dir: &TempDir, name: &str, linktype: u16, packets: &[(u64, Vec<u8>)]) -> PathBuf {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, linktype).to_vec();
    for (time_ns, bytes) in packets {
        let record = Record { time_ns: *time_ns, bytes, len: bytes.len() as u32, ..Record::default() };
        let at = file.len();
        file.resize(at + pcap::record_bytes(bytes.len()), 0);
        pcap::record(&mut file[at..], Resolution::Nanoseconds, &record);
    }
    let path = dir.path().join(name);
    std::fs::write(&path, file).expect("a file");
    path
}

/// The packets of a file, and the number of interfaces that it describes.
fn read(path: &Path) -> (Vec<Packet>, usize) {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut rest, mut decoder, mut packets, mut interfaces) = (&file[..], Decoder::default(), Vec::new(), 0);
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        match item {
            Item::Frame(frame) => packets.push((frame.linktype, frame.time_ns, frame.data.to_vec())),
            Item::Interface(_) => interfaces += 1,
            _ => {}
        }
    }
    (packets, interfaces)
}

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).args(args).env("TZ", ZONE).output().expect("quaff runs")
}

/// `quaff capture --read FROM ARGS -w TO`, without a loss: its ledger.
#[track_caller]
fn captured(from: &Path, to: &Path, args: &[&str]) -> Value {
    let (from, to) = (from.display().to_string(), to.display().to_string());
    let done = quaff(&[&["capture", "--json", "--read", &from, "-w", &to], args].concat());
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("a ledger")
}

fn udp(number: u16, bytes: usize) -> Vec<u8> {
    build::ipv4(A, B, 17, &[], &build::udp(1000 + number, 53, &vec![number as u8; bytes]))
}

/// Packets of several lengths, 0.5 s apart, of which some come again soon after.
fn mixed() -> Vec<(u64, Vec<u8>)> {
    let numbers = [1u16, 2, 1, 3, 4, 5, 6, 1, 7, 7, 8, 2, 9, 9, 9, 10, 11, 12, 13, 11];
    let frame = |number: u16| build::ethernet(&[], 0x0800, &udp(number, 20 + usize::from(number) * 7));
    numbers.iter().zip(0..).map(|(number, at)| (START_NS + at * 500_000_000, frame(*number))).collect()
}

/// Options of editcap before and after its files, those of quaff, and the term of the ledger that counts the packets.
type Case = (&'static [&'static str], &'static [&'static str], &'static [&'static str], &'static str);

#[test]
fn edits_are_those_of_editcap() {
    let test = test_name!();
    if tool(test, "editcap").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let from = write(&dir, "in.pcap", ETHERNET, &mixed());
    // 22:13:20 UTC on 2023-11-14 is 00:13:20 on the next day.
    let cases: [Case; 11] = [
        (&["-r"], &["2-4", "7", "19-20"], &["--include", "2-4,7,19-"], "out_of_range"),
        (&[], &["2-4", "7"], &["--exclude", "2-4,7"], "out_of_range"),
        (&["-A", "2023-11-15 00:13:22"], &[], &["--from", "2023-11-15 00:13:22"], "out_of_time"),
        (&["-B", "2023-11-15 00:13:25"], &[], &["--to", "2023-11-14 22:13:25Z"], "out_of_time"),
        (
            &["-A", "2023-11-15 00:13:21", "-B", "2023-11-15 00:13:24"],
            &[],
            &["--from", "+1s", "--to", "@1700000004"],
            "out_of_time",
        ),
        (&["-t", "3600.5"], &[], &["--shift-time", "3600.5s"], "filtered"),
        (&["-t", "-0.25"], &[], &["--shift-time", "-250ms"], "filtered"),
        (&["-s", "60"], &[], &["--snaplen", "60"], "filtered"),
        (&["-d"], &[], &["--dedup"], "duplicates"),
        (&["-D", "3"], &[], &["--dedup=3"], "duplicates"),
        (&["-w", "0.5"], &[], &["--dedup=500ms"], "duplicates"),
    ];
    for (options, ranges, args, term) in cases {
        let (theirs, ours) = (dir.path().join("theirs.pcapng"), dir.path().join("ours.pcapng"));
        let mut editcap = Command::new("editcap");
        run(editcap.env("TZ", ZONE).args(options).arg(&from).arg(&theirs).args(ranges));
        let ledger = captured(&from, &ours, args);
        let (theirs, ours) = (read(&theirs).0, read(&ours).0);
        assert_eq!(ours, theirs, "{args:?}");
        let left_out = if term == "filtered" { 0 } else { 20 - ours.len() as u64 };
        assert_eq!((&ledger[term], &ledger["offered"]), (&left_out.into(), &20.into()), "{args:?}: {ledger}");
        assert!(term == "filtered" || left_out > 0, "{args:?} changes something");
    }
}

#[test]
fn edits_combine_and_need_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (write(&dir, "in.pcap", ETHERNET, &mixed()), dir.path().join("out.pcapng"));
    let args = [
        "--include",
        "1-10",
        "--from",
        "+1s",
        "-f",
        "udp port 53",
        "--dedup=10",
        "--shift-time",
        "1h",
        "-c",
        "3",
    ];
    let ledger = captured(&from, &to, &args);
    let times: Vec<u64> =
        read(&to).0.iter().map(|(_, time_ns, _)| (time_ns - START_NS) / 500_000_000).collect();
    assert_eq!(times, [7202, 7203, 7204]);
    let terms = ["out_of_range", "out_of_time", "duplicates", "after_count", "received"]
        .map(|term| ledger[term].as_u64());
    // 1, 3, 4, 5, 6, 1, 7, 7 remain of the times; the second 1 and the second 7 are duplicates.
    assert_eq!(terms, [Some(10), Some(2), Some(2), Some(3), Some(3)]);
    for edit in [["--from", "+1s"], ["--include", "1"], ["--shift-time", "1s"]] {
        let refused = quaff(&["capture", "-i", "lo", "-w", "x.pcapng", edit[0], edit[1]]);
        assert_eq!(refused.status.code(), Some(2), "{edit:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--read"), "{edit:?}");
    }
}

#[test]
fn vlan_tags_are_removed_as_tcprewrite_does() {
    let test = test_name!();
    let dir = tempfile::tempdir().unwrap();
    let tagged = |tags: &[(u16, u16)], number| build::ethernet(tags, 0x0800, &udp(number, 30));
    let packets = [tagged(&[(0x8100, 5)], 1), tagged(&[], 2), tagged(&[(0x8100, 0x6fff)], 3)];
    let packets: Vec<_> =
        packets.into_iter().zip(0..).map(|(bytes, at)| (START_NS + at * 1000, bytes)).collect();
    let (from, ours, theirs) =
        (write(&dir, "in.pcap", ETHERNET, &packets), dir.path().join("a.pcap"), dir.path().join("b.pcap"));
    let ledger = captured(&from, &ours, &["--strip-vlan"]);
    assert_eq!(ledger["interfaces"][0]["untagged"], 2);
    if tool(test, "tcprewrite").is_none() {
        return;
    }
    run(Command::new("tcprewrite").arg("--enet-vlan=del").arg("-i").arg(&from).arg("-o").arg(&theirs));
    assert_eq!(read(&ours).0, read(&theirs).0);
}

/// Bare IP packets inside tunnels, each of another kind.
fn tunnels() -> Vec<(u64, Vec<u8>)> {
    let on_ip =
        |protocol, payload: &[u8]| build::ethernet(&[], 0x0800, &build::ipv4(B, A, protocol, &[], payload));
    let packets = (0..8).map(|number| {
        let inner = udp(number, 30);
        match number % 4 {
            0 => on_ip(17, &build::udp(2152, 2152, &build::gtp(255, 7, &[], &inner))),
            1 => on_ip(47, &build::gre(&build::Gre::default(), 0x0800, &inner)),
            2 => on_ip(4, &inner),
            _ => build::ethernet(&[], 0x8847, &build::mpls(&[17], &inner)),
        }
    });
    packets.zip(0..).map(|(bytes, at)| (START_NS + at * 1000, bytes)).collect()
}

#[test]
fn inner_ip_reaches_programs_of_libpcap() {
    let test = test_name!();
    let dir = tempfile::tempdir().unwrap();
    let from = write(&dir, "in.pcap", ETHERNET, &tunnels());
    let expected: Vec<_> = (0..8).map(|number| udp(number, 30)).collect();
    for (format, name) in [("pcapng", "out.pcapng"), ("pcap", "out.pcap"), ("pcap-us", "out-us.pcap")] {
        for made in [false, true] {
            let to = dir.path().join(name);
            let mut args = vec!["--decap", "auto", "--format", format];
            args.extend(made.then_some("--ethernet"));
            let ledger = captured(&from, &to, &args);
            let (packets, interfaces) = read(&to);
            let header = if made { [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0].to_vec() } else { Vec::new() };
            let linktype = if made { ETHERNET } else { RAW };
            let found: Vec<_> =
                packets.iter().map(|(linktype, _, bytes)| (*linktype, bytes.clone())).collect();
            let wanted: Vec<_> =
                expected.iter().map(|inner| (linktype, [&header[..], inner].concat())).collect();
            assert_eq!(found, wanted, "{format} {made}");
            assert_eq!(
                interfaces,
                if format == "pcapng" { 4 } else { 1 },
                "the outer interface has no packet"
            );
            let count = if made { 8 } else { 0 };
            assert_eq!(ledger["interfaces"][0]["ethernet_made"], count, "{ledger}");
            // libpcap refuses a second interface of raw IP, whose number in files is not its own for that link type.
            let reader = if format == "pcapng" && !made { "tshark" } else { "tcpdump" };
            if let Some(mut reader) = tool(test, reader) {
                let lines = run(reader.args(["-n", "-r"]).arg(&to));
                let addresses =
                    lines.lines().filter(|line| line.contains("10.0.0.1") && line.contains("10.0.0.2"));
                assert_eq!(addresses.count(), 8, "{format} {made}: {lines}");
            }
        }
    }
}

#[test]
fn pcap_takes_the_link_type_of_the_first_packet_and_counts_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let plain = build::ethernet(&[], 0x0800, &udp(99, 40));
    let packets = [tunnels(), vec![(START_NS + 9000, plain)]].concat();
    let (from, to) = (write(&dir, "in.pcap", ETHERNET, &packets), dir.path().join("out.pcap"));
    let (from, to_name) = (from.display().to_string(), to.display().to_string());
    let base = ["capture", "--json", "--read", &from, "-w", &to_name, "--decap", "auto", "--format", "pcap"];
    let done = quaff(&base);
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("a ledger");
    assert_eq!(
        (done.status.code(), &ledger["unsuited"], &ledger["written"]),
        (Some(1), &1.into(), &8.into())
    );
    assert!(read(&to).0.iter().all(|(linktype, ..)| *linktype == RAW));
    // With a made header all are Ethernet.
    let done = quaff(&[&base[..], &["--ethernet"]].concat());
    assert!(done.status.success());
    assert_eq!(read(&to).0.len(), 9);
}

#[test]
fn a_run_without_a_packet_leaves_a_valid_file() {
    let dir = tempfile::tempdir().unwrap();
    let from = write(&dir, "in.pcap", ETHERNET, &mixed());
    for (format, name) in [("pcapng", "none.pcapng"), ("pcap", "none.pcap")] {
        let to = dir.path().join(name);
        captured(&from, &to, &["-f", "tcp port 1", "--format", format]);
        assert_eq!(read(&to).1, 1, "{format}");
        if let Some(mut capinfos) = tool(test_name!(), "capinfos") {
            run(capinfos.arg(&to));
        }
    }
}

#[test]
fn a_filter_that_means_nothing_is_refused_with_libpcaps_reason() {
    let dir = tempfile::tempdir().unwrap();
    let packets: Vec<_> = (0..5).map(|number| (START_NS, udp(number, 30))).collect();
    let raw = write(&dir, "raw.pcap", RAW, &packets).display().to_string();
    let tunnel = write(&dir, "tunnel.pcap", ETHERNET, &tunnels()).display().to_string();
    let to = dir.path().join("out.pcapng").display().to_string();
    const ADDRESS: &str = "ether host 2:0:0:0:0:1";
    for args in
        [&["--read", &raw, "-f", ADDRESS][..], &["--read", &tunnel, "--decap", "auto", "--inner", ADDRESS]]
    {
        let refused = quaff(&[&["capture", "-w", &to], args].concat());
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {words}");
        assert!(words.contains("ethernet addresses supported only on"), "{words}");
    }
    // Where it applies to some frames, the note names the option of the others.
    let plain = build::ethernet(&[], 0x0800, &udp(1, 30));
    let both = write(&dir, "both.pcap", ETHERNET, &[tunnels(), vec![(START_NS + 9000, plain)]].concat());
    let ledger =
        captured(&both, Path::new(&to), &["--decap", "auto", "--inner", "not ether host 9:9:9:9:9:9"]);
    assert_eq!((&ledger["written"], &ledger["filtered"]), (&1.into(), &8.into()));
    let notes = ledger["notes"].to_string();
    assert!(notes.contains("--inner") || notes.contains("`inner`"), "{notes}");
}

#[test]
fn both_directions_of_a_labelled_conversation_are_rewritten_into_a_file() {
    let test = test_name!();
    let dir = tempfile::tempdir().unwrap();
    let there = build::ipv4(A, B, 17, &[], &build::udp(4000, 53, b"question"));
    let back = build::ipv4(B, A, 17, &[], &build::udp(53, 4000, b"answer"));
    let bare = |packet: &[u8]| build::ethernet(&[], 0x0800, packet);
    let labelled = |packet: &[u8]| build::ethernet(&[], 0x8847, &build::mpls(&[16, 17], packet));
    let edited = |frames: &[Vec<u8>], name: &str, args: &[&str]| {
        let packets: Vec<_> =
            frames.iter().zip(0..).map(|(frame, at)| (START_NS + at * 1000, frame.clone())).collect();
        let (from, to) = (write(&dir, "in.pcap", ETHERNET, &packets), dir.path().join(name));
        let (from, to_name) = (from.display().to_string(), to.display().to_string());
        let done = quaff(&[&["replay", "--json", "-w", &to_name], args, &[&from]].concat());
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
        let (packets, _) = read(&to);
        assert_eq!((&report["written"], &report["in_file"]), (&packets.len().into(), &frames.len().into()));
        packets.into_iter().map(|(_, _, bytes)| bytes).collect::<Vec<_>>()
    };
    for (args, changes) in [
        (&["--map-ip", "10.0.0.0/8:172.16.0.0/12", "--map-port", "53:5353"][..], 2),
        (&["--seed", "7"], 2),
        (&["--loop", "3", "--unique-ip"], 6),
    ] {
        let plain = edited(&[bare(&there), bare(&back)], "plain.pcapng", args);
        let mixed = edited(&[bare(&there), labelled(&back)], "mixed.pcap", args);
        assert_eq!(plain.len(), changes);
        for (plain, mixed) in plain.iter().zip(&mixed) {
            let packet = if mixed[12..14] == [0x88, 0x47] { &mixed[22..] } else { &mixed[14..] };
            assert_eq!(packet, &plain[14..], "{args:?}");
        }
    }
    if tool(test, "tcprewrite").is_none() {
        return;
    }
    let ours = edited(&[bare(&there), bare(&back)], "ours.pcap", &["--map-ip", "10.0.0.0/8:172.16.0.0/12"]);
    let theirs = dir.path().join("theirs.pcap");
    let mut tcprewrite = Command::new("tcprewrite");
    run(tcprewrite
        .arg("--pnat=10.0.0.0/8:172.16.0.0/12")
        .arg("-i")
        .arg(dir.path().join("in.pcap"))
        .arg("-o")
        .arg(&theirs));
    assert_eq!(ours, read(&theirs).0.into_iter().map(|(_, _, bytes)| bytes).collect::<Vec<_>>());
}

#[test]
fn tcpreplay_writes_only_the_packets_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (write(&dir, "in.pcap", ETHERNET, &mixed()), dir.path().join("out.pcap"));
    let options = dir.path().join("options");
    std::fs::write(&options, "limit 4\n").expect("a file");
    let (from, to_name, options) =
        (from.display().to_string(), to.display().to_string(), options.display().to_string());
    for (args, kept) in [
        (&["--include=2-4,9"][..], vec![1, 2, 3, 8]),
        (&["--exclude=3-20"], vec![0, 1]),
        (&["-l", "2", "-L", "22", "--include=1-19"], (0..19).chain(0..3).collect()),
        (&["--load-opts", &options], vec![0, 1, 2, 3]),
    ] {
        let done = quaff(&[&["tcpreplay", "-w", &to_name], args, &[&from]].concat());
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        let expected: Vec<_> = kept.iter().map(|at: &usize| mixed()[*at].1.clone()).collect();
        assert_eq!(
            read(&to).0.into_iter().map(|(_, _, bytes)| bytes).collect::<Vec<_>>(),
            expected,
            "{args:?}"
        );
    }
}

/// Captures of other programs have gaps of any length.
#[test]
fn a_file_against_itself_differs_by_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let times = [0, 7, 123_456_789, 2_123_456_790, 9_000_000_001, 520_000_000_123];
    let packets: Vec<_> = times
        .iter()
        .zip(0..)
        .map(|(at, number)| (START_NS + at, build::ethernet(&[], 0x0800, &udp(number, 30))))
        .collect();
    let file = write(&dir, "in.pcap", ETHERNET, &packets).display().to_string();
    let done = quaff(&["verify", "--json", "--against", &file, &file]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
    assert_eq!(
        (&report["spacing_error_ns"]["count"], &report["spacing_error_ns"]["max"]),
        (&5.into(), &0.into())
    );
}

#[test]
fn a_wrong_edit_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir, "in.pcap", ETHERNET, &mixed()).display().to_string();
    let to = dir.path().join("out.pcapng").display().to_string();
    for edit in ["--from=noon", "--to=@x", "--include=5-2", "--shift-time=1y", "--dedup=1", "--dedup=1y"] {
        let refused = quaff(&["capture", "--read", &file, "-w", &to, edit]);
        assert_eq!(refused.status.code(), Some(2), "{edit}");
        assert!(!Path::new(&to).exists(), "{edit}");
    }
}
