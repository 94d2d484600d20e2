//! `quaff capture --read` and `quaff verify` on files as other programs write them: their records are kept, and count.

use crate::support::{self, QUAFF, capture, folder, names, run, tool, verify};
use quaff_file::read::CaptureFile;
use quaff_testkit::test_name;
use quaff_wire::decode::{Interface, Item, Statistics};
use quaff_wire::pcapng::comments;
use std::path::Path;
use std::process::Command;

const START_NS: u64 = 1_700_000_000_000_000_000;

/// A pcapng file in the making, little-endian.
#[derive(Default)]
struct Pcapng(Vec<u8>);

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut option = [&code.to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), value].concat();
    option.resize(option.len().next_multiple_of(4), 0);
    option
}

fn time(ns: u64) -> [u8; 8] {
    let ticks = ((ns >> 32) as u32, ns as u32);
    [ticks.0.to_le_bytes(), ticks.1.to_le_bytes()].concat().try_into().expect("8 bytes")
}

impl Pcapng {
    fn block(mut self, kind: u32, body: &[&[u8]]) -> Self {
        let body = body.concat();
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.0.extend([&kind.to_le_bytes()[..], &length, &body, &length].concat());
        self
    }

    fn section(self, options: &[u8]) -> Self {
        let version = [&0x1A2B_3C4Du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
        self.block(0x0A0D_0D0A, &[&version, options])
    }

    /// An Ethernet interface with times in ns.
    fn interface(self, options: &[u8]) -> Self {
        self.block(1, &[&[1, 0, 0, 0, 0, 0, 0, 0], options, &option(9, &[9]), &[0; 4]])
    }

    /// One of another link type.
    fn linked(self, linktype: u8) -> Self {
        self.block(1, &[&[linktype, 0, 0, 0, 0, 0, 0, 0], &option(9, &[9]), &[0; 4]])
    }

    fn named(self, name: &str) -> Self {
        self.interface(&option(2, name.as_bytes()))
    }

    fn packet(self, interface: u32, number: u64, options: &[u8]) -> Self {
        self.packet_of(interface, number, 60, options)
    }

    /// A packet of so many bytes, a multiple of 4.
    fn packet_of(self, interface: u32, number: u64, bytes: u8, options: &[u8]) -> Self {
        let data = vec![number as u8; bytes.into()];
        let lengths = [bytes, 0, 0, 0, bytes, 0, 0, 0];
        let head = [&interface.to_le_bytes()[..], &time(START_NS + number), &lengths];
        self.block(6, &[&head.concat(), &data, options])
    }

    fn packets(self, interface: u32, numbers: std::ops::Range<u64>) -> Self {
        numbers.fold(self, |file, number| file.packet(interface, number, &[]))
    }

    /// Counters: codes and values.
    fn counters(self, interface: u32, counters: &[(u16, u64)]) -> Self {
        let options = counters.iter().flat_map(|(code, value)| option(*code, &value.to_le_bytes()));
        let options: Vec<_> = options.collect();
        self.block(5, &[&interface.to_le_bytes(), &time(START_NS + 1_000_000), &options, &[0; 4]])
    }

    fn put(self, dir: &tempfile::TempDir, name: &str) -> String {
        let path = dir.path().join(name);
        std::fs::write(&path, self.0).expect("written");
        path.display().to_string()
    }
}

const IFRECV: u16 = 4;
const IFDROP: u16 = 5;
const OSDROP: u16 = 7;

/// The names of the interfaces of a file, the interface of each packet, and all counters.
fn content(path: impl AsRef<Path>) -> (Vec<String>, Vec<u32>, Vec<Statistics>) {
    let (mut names, mut of_packets, mut counters) = (Vec::new(), Vec::new(), Vec::new());
    let mut file = CaptureFile::open(path.as_ref()).expect("a file");
    let mut each = |item: Item<'_>| match item {
        Item::Interface(Interface { name, .. }) => {
            names.push(String::from_utf8_lossy(name.unwrap_or_default()).into_owned());
        }
        Item::Frame(frame) => of_packets.push(frame.interface),
        Item::Statistics(statistics) => counters.push(statistics),
        _ => {}
    };
    while file.pull(&mut each).expect("a whole file") {}
    (names, of_packets, counters)
}

/// The last counters of an interface: received, dropped by it, accepted, dropped by the system, delivered.
fn last(counters: &[Statistics], interface: u32) -> [Option<u64>; 5] {
    let of = counters.iter().rev().find(|of| of.interface == interface).expect("counters");
    [of.ifrecv, of.ifdrop, of.filteraccept, of.osdrop, of.usrdeliv]
}

/// dumpcap keeps what was lost in the Interface Statistics Block at the end, and nowhere else.
fn lossy() -> Pcapng {
    let file =
        Pcapng::default().section(&[]).named("eth0").named("eth1").packets(0, 0..20).packets(1, 20..25);
    file.counters(0, &[(IFRECV, 120), (IFDROP, 70), (OSDROP, 10)]).counters(1, &[(IFRECV, 12), (IFDROP, 7)])
}

#[test]
fn losses_that_stand_in_counters_alone_are_carried_on() {
    let dir = folder();
    let (from, to) = (lossy().put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    let found = verify(&[&from]);
    assert_eq!((&found["ledger"]["recorded_drops"], &found["complete"]), (&87.into(), &false.into()));
    for times in 1..3u64 {
        let read = ["-r", &from, "-r", &from];
        let ended = capture(&[&read[..2 * times as usize], &["-w", &to]].concat());
        let input = &ended.json["input"];
        assert_eq!((ended.code, &input["recorded_drops"]), (1, &(87 * times).into()), "{}", ended.json);
        assert_eq!((&ended.json["verdict"], &ended.json["lossless"]), (&"lossy".into(), &false.into()));
        assert!(ended.stderr.contains("packets were lost during the original capture"), "{}", ended.stderr);
        let (names, _, counters) = content(&to);
        assert_eq!(names, ["eth0", "eth1"]);
        let of = |received, ifdrop, osdrop, delivered| {
            [received, ifdrop, osdrop + delivered, osdrop, delivered].map(|count: u64| Some(count * times))
        };
        assert_eq!(last(&counters, 0), of(30, 70, 10, 20));
        assert_eq!(last(&counters, 1), of(5, 7, 0, 5));
        let ledger = &verify(&[&to])["ledger"];
        assert_eq!(
            (&ledger["consistent"], &ledger["recorded_drops"], &ledger["ifdrop"], &ledger["osdrop"]),
            (&true.into(), &(87 * times).into(), &(77 * times).into(), &(10 * times).into()),
            "{ledger}"
        );
    }
    // Again: what was carried on is not lost, and not doubled.
    let again = dir.path().join("again.pcapng").display().to_string();
    assert_eq!(capture(&["-r", &to, "-w", &again]).json["input"]["recorded_drops"], 174);
    assert_eq!(verify(&[&again])["ledger"]["recorded_drops"], 174);
}

/// tcpdump refuses an interface of another link type, also one without packets.
#[test]
fn a_stream_has_no_interface_of_a_file_without_packets() {
    let dir = folder();
    let file = Pcapng::default().section(&[]).linked(113).linked(1).packets(0, 0..4);
    let file = (4..7).fold(file, |file, number| file.packet_of(1, number, 80, &[]));
    let from = file.counters(0, &[(IFRECV, 11), (IFDROP, 7)]).put(&dir, "in.pcapng");
    let other = Pcapng::default().section(&[]).named("eth0").packets(0, 0..1).put(&dir, "other.pcapng");
    let (to, stream) = (dir.path().join("out.pcapng"), dir.path().join("stream"));
    let kept = |more: &[&str]| {
        let mut quaff = Command::new(QUAFF);
        quaff.args(["capture", "-r", &from, "-r", &other, "greater", "70"]).args(more);
        quaff.output().expect("quaff runs")
    };
    let ended = kept(&["-w", &to.display().to_string()]);
    assert_eq!((ended.status.code(), content(&to).0.len(), content(&to).1), (Some(1), 2, vec![0; 3]));
    let streamed = kept(&["-w", "-"]);
    std::fs::write(&stream, &streamed.stdout).expect("written");
    assert_eq!((content(&stream).0.len(), content(&stream).1), (1, vec![0; 3]));
    // The loss is no less one.
    let said = String::from_utf8_lossy(&streamed.stderr).into_owned();
    let words = format!("7 packets were lost during the original capture, as {from} records");
    assert!(streamed.status.code() == Some(1) && said.contains(&words), "{said}");
    if tool(test_name!(), "tcpdump").is_some() {
        let printed = kept(&[]);
        let lines = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert_eq!(printed.status.code(), Some(1), "{}", String::from_utf8_lossy(&printed.stderr));
        assert_eq!(lines.lines().filter(|line| !line.starts_with('\t')).count(), 3, "{lines}");
    }
}

/// An interface without packets can have lost some, and drops with packets are parts of the counters.
#[test]
fn losses_without_packets_and_losses_with_packets_count_once() {
    let dir = folder();
    let dropcount = option(4, &3u64.to_le_bytes());
    let file = Pcapng::default().section(&[]).named("eth0").named("eth1").packets(0, 0..2);
    let file = file.packet(0, 2, &dropcount).counters(0, &[(OSDROP, 5)]).counters(1, &[(IFDROP, 9)]);
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    let ended = capture(&["-r", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["input"]["recorded_drops"]), (1, &14.into()), "{}", ended.json);
    let ledger = &verify(&[&to])["ledger"];
    assert_eq!(
        (&ledger["consistent"], &ledger["ifdrop"], &ledger["osdrop"]),
        (&true.into(), &9.into(), &5.into())
    );
    let file = Pcapng::default()
        .section(&[])
        .named("eth0")
        .packets(0, 0..9)
        .counters(0, &[(IFRECV, 9), (IFDROP, 0)]);
    let ended = capture(&["-r", &file.put(&dir, "whole.pcapng"), "-w", &to]);
    assert_eq!((ended.code, &ended.json["lossless"]), (0, &true.into()), "{}", ended.json);
}

#[test]
fn losses_are_carried_on_when_no_packet_is_written() {
    let dir = folder();
    let from = lossy().put(&dir, "in.pcapng");
    let no_packets = Pcapng::default().section(&[]).named("eth0").named("eth1");
    let no_packets = no_packets.counters(0, &[(OSDROP, 80)]).counters(1, &[(IFDROP, 7)]);
    let no_packets = no_packets.put(&dir, "none.pcapng");
    let outputs = [
        &["-w", "to.pcapng"][..],
        &["-w", "to.zst"],
        &["--dir", "files"],
        &["-w", "-"],
        &["--tee", "files", "-w", "-"],
    ];
    for (from, args) in [&from, &no_packets].into_iter().flat_map(|from| outputs.map(|args| (from, args))) {
        let mut quaff = Command::new(QUAFF);
        quaff.args(["capture", "-r", from, "-f", "ether[0] = 99", "--json", "-qq"]);
        let done = quaff.args(args).current_dir(&dir).output().expect("quaff runs");
        assert_eq!(done.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        let files = dir.path().join("files");
        let of_folder = if files.exists() { names(&files) } else { Vec::new() };
        let mut paths: Vec<_> = of_folder.iter().map(|name| files.join(name)).collect();
        paths.extend(args[1].starts_with("to").then(|| dir.path().join(args[1])));
        if args.ends_with(&["-"]) {
            paths.push(dir.path().join("stdout"));
            std::fs::write(&paths[paths.len() - 1], &done.stdout).expect("written");
        }
        assert_eq!(paths.len(), 1 + usize::from(args.len() == 4), "{args:?}");
        for path in paths {
            let ledger = &verify(&[&path.display().to_string()])["ledger"];
            let found = (&ledger["recorded_drops"], &ledger["consistent"]);
            assert_eq!(found, (&87.into(), &true.into()), "{args:?}: {}", path.display());
        }
        let _ = std::fs::remove_dir_all(files);
    }
}

/// A section at the end may describe an interface without packets.
#[test]
fn losses_of_an_interface_after_the_last_packet_are_carried_on() {
    let dir = folder();
    let file = lossy().section(&[]).named("wlan0").counters(0, &[(IFDROP, 9)]);
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    for args in [&[][..], &["-f", "ether[0] = 1"], &["-f", "ether[0] = 99"]] {
        let ended = capture(&[&["-r", &from, "-w", &to], args].concat());
        assert_eq!((ended.code, &ended.json["input"]["recorded_drops"]), (1, &96.into()), "{}", ended.json);
        assert_eq!(verify(&[&to])["ledger"]["recorded_drops"], 96, "{args:?}");
    }
}

/// `quaff merge` of files; its exit status.
fn merge(files: &[&str], to: &str) -> Option<i32> {
    Command::new(QUAFF).args(["merge", "-q", "-w", to]).args(files).status().expect("quaff runs").code()
}

#[test]
fn a_merge_carries_on_losses_and_comments() {
    let dir = folder();
    let dropcount = option(4, &3u64.to_le_bytes());
    let comment = [option(1, b"odd"), dropcount.clone()].concat();
    let second = Pcapng::default().section(&[]).named("eth1").named("wlan0").packets(0, 5..9);
    let second = second.packet(0, 9, &comment).packets(0, 10..12).counters(0, &[(IFRECV, 10), (OSDROP, 3)]);
    let second = second.counters(1, &[(IFDROP, 6)]).put(&dir, "second.pcapng");
    let (first, to) =
        (lossy().put(&dir, "first.pcapng"), dir.path().join("out.pcapng").display().to_string());
    let late = Pcapng::default().section(&[]).named("eth0").packets(0, 30..33).packet(0, 2, &comment);
    let late = late.packets(0, 33..35).put(&dir, "late.pcapng");
    for (files, more, drops) in
        [(vec![&*first, &second], None, 96), (vec![&first, &second, &late], Some("--reorder"), 99)]
    {
        let args: Vec<_> = files.iter().copied().chain(more).collect();
        assert_eq!(merge(&args, &to), Some(1), "losses are recorded");
        let (names, of_packets, counters) = content(&to);
        assert_eq!(names, ["eth0", "eth1", "wlan0"]);
        assert_eq!(of_packets.len(), if more.is_some() { 38 } else { 32 });
        assert_eq!(last(&counters, 2)[1], Some(6), "of an interface without packets");
        let ledger = &verify(&[&to])["ledger"];
        assert_eq!(
            (&ledger["consistent"], &ledger["recorded_drops"]),
            (&true.into(), &drops.into()),
            "{ledger}"
        );
        let mut at = Vec::new();
        let mut file = CaptureFile::open(Path::new(&to)).expect("a file");
        let mut each = |item: Item<'_>| {
            if let Item::Frame(frame) = item
                && (frame.dropcount > 0 || !frame.options.is_empty())
            {
                at.push((frame.time_ns - START_NS, frame.dropcount, comments(frame.options)));
            }
        };
        while file.pull(&mut each).expect("a whole file") {}
        let places: Vec<_> = at.iter().map(|(number, drops, _)| (*number, *drops)).collect();
        let expected = if more.is_some() { &[(2, 3), (9, 3)][..] } else { &[(9, 3)] };
        assert_eq!(places, expected, "the place of the loss");
        assert!(at.iter().all(|(_, _, comments)| comments.contains(&"odd".to_owned())), "{at:?}");
    }
}

#[test]
fn a_merge_keeps_interfaces_apart_unless_they_are_of_one_capture() {
    let dir = folder();
    let (hardware, os) = (|text: &str| option(2, text.as_bytes()), |text: &str| option(3, text.as_bytes()));
    let machine = |name: &str| [hardware(name), os("Linux"), vec![0; 4]].concat();
    let make = |machine_name: &str, from: u64| {
        let file = Pcapng::default().section(&machine(machine_name)).named("eth0").named("eth0");
        let file = file.packets(0, from..from + 2).packets(1, from + 2..from + 4);
        file.put(&dir, &format!("{machine_name}-{from}.pcapng"))
    };
    let to = dir.path().join("out.pcapng").display().to_string();
    let files = [make("a", 0), make("a", 100), make("b", 50)];
    assert_eq!(merge(&files.each_ref().map(String::as_str), &to), Some(0));
    let (names, of_packets, _) = content(&to);
    assert_eq!(names, ["eth0"; 4], "two of each machine");
    assert_eq!(of_packets, [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]);
}

/// Wireshark and tcpdump tell them apart by their numbers.
#[test]
fn interfaces_with_one_name_or_none_stay_apart() {
    let dir = folder();
    let file = Pcapng::default().section(&[]).interface(&[]).interface(&[]).named("eth0").named("eth0");
    let file = (0..12).fold(file, |file, number| file.packet(number as u32 % 4, number, &[]));
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    assert_eq!(capture(&["-r", &from, "-r", &from, "-w", &to]).code, 0);
    let (names, of_packets, counters) = content(&to);
    assert_eq!(names, ["", "", "eth0", "eth0"], "the same ones in both files");
    assert_eq!(of_packets, (0..24).map(|number| number % 4).collect::<Vec<_>>());
    for interface in 0..4 {
        let expected = [6, 0, 6, 0, 6].map(Some);
        assert_eq!(last(&counters, interface), expected, "each counts its own packets");
    }
    let found = verify(&[&to]);
    assert_eq!(found["ledger"]["consistent"], true, "{found}");
    let Some(mut capinfos) = tool(test_name!(), "capinfos") else { return };
    let printed = run(capinfos.arg(&to));
    assert!(printed.contains("Number of interfaces in file: 4\n"), "{printed}");
    assert_eq!(printed.matches("Number of packets = 6\n").count(), 4, "{printed}");
}

/// Two sections, of which the header of the second one is damaged: its interface is another one.
fn with_a_damaged_header(dir: &tempfile::TempDir) -> String {
    let first = Pcapng::default().section(&[]).named("eth0").packets(0, 0..4).counters(0, &[(OSDROP, 5)]);
    let before = first.0.len();
    let mut file = first.section(&[]).named("tun0").packets(0, 4..10).counters(0, &[(OSDROP, 7)]);
    // The version.
    file.0[before + 12] = 9;
    file.put(dir, "damaged.pcapng")
}

#[test]
fn packets_after_a_damaged_section_header_keep_their_interface() {
    let dir = folder();
    let (from, to) = (with_a_damaged_header(&dir), dir.path().join("out.pcapng").display().to_string());
    let ended = capture(&["-r", &from, "--salvage", "-w", &to]);
    assert_eq!((&ended.json["written"], &ended.json["input"]["recorded_drops"]), (&10.into(), &12.into()));
    let (names, of_packets, counters) = content(&to);
    assert_eq!((names, of_packets), (vec!["eth0".into(), "tun0".into()], vec![0, 0, 0, 0, 1, 1, 1, 1, 1, 1]));
    assert_eq!((last(&counters, 0)[3], last(&counters, 1)[3]), (Some(5), Some(7)));
}

#[test]
fn a_section_with_a_damaged_header_has_its_own_counters() {
    let dir = folder();
    assert_eq!(verify(&["--salvage", &with_a_damaged_header(&dir)])["ledger"]["recorded_drops"], 12);
}

#[test]
fn a_summary_has_the_packets_of_a_section_with_a_damaged_header() {
    let dir = folder();
    let mut info = Command::new(QUAFF);
    let done = info
        .args(["info", "--json", "--salvage", &with_a_damaged_header(&dir)])
        .output()
        .expect("quaff runs");
    let info: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let found = &info["files"][0];
    assert_eq!((&found["sections"], &found["drops"]["recorded"]), (&2.into(), &12.into()), "{found}");
    let packets = |at: usize| found["interfaces"][at]["packets"].as_u64();
    assert_eq!((packets(0), packets(1)), (Some(4), Some(6)));
}

#[test]
fn an_interface_receives_what_the_filter_rejects() {
    let dir = folder();
    let from = lossy().put(&dir, "in.pcapng");
    let to = dir.path().join("out.pcapng").display().to_string();
    // The bytes of a packet are its number.
    let ended = capture(&["-r", &from, "-f", "ether[0] < 10 or ether[0] > 20", "-w", &to]);
    assert_eq!((&ended.json["written"], &ended.json["filtered"]), (&14.into(), &11.into()), "{}", ended.json);
    let (_, _, counters) = content(&to);
    assert_eq!(last(&counters, 0), [20, 70, 20, 10, 10].map(Some));
    assert_eq!(last(&counters, 1), [5, 7, 4, 0, 4].map(Some));
    assert!(counters.iter().all(|of| of.filteraccept <= of.ifrecv), "{counters:?}");
}

/// The flags of each packet, and its options other than the drop count.
fn options(path: impl AsRef<Path>) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut file = CaptureFile::open(path.as_ref()).expect("a file");
    let mut each = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            let kept = quaff_wire::pcapng::PacketOptions::new(frame.flags, frame.options);
            found.push((kept.flags, kept.bytes));
        }
    };
    while file.pull(&mut each).expect("a whole file") {}
    found
}

#[test]
fn flags_and_options_of_packets_are_kept() {
    let dir = folder();
    // Sent, as a broadcast, with 4 bytes of frame check sequence, and an error of the link.
    let flags = 0b10 | 3 << 2 | 4 << 5 | 1 << 24;
    let others = [
        option(1, b"seen by hand"),
        option(3, &[2, 1, 2, 3, 4]),
        option(5, &77u64.to_le_bytes()),
        option(6, &3u32.to_le_bytes()),
        option(7, &[2, 5, 0, 0, 0, 0, 0, 0, 0]),
    ]
    .concat();
    let all = [option(2, &u32::to_le_bytes(flags)), others.clone(), vec![0; 4]].concat();
    let address = option(4, &[192, 0, 2, 1, 255, 255, 255, 0]);
    let interface = [option(2, b"eth0"), option(13, &[4]), address].concat();
    let file = Pcapng::default().section(&[]).interface(&interface).packets(0, 0..600).packet(0, 600, &all);
    let (from, to) = (file.packets(0, 601..610).put(&dir, "in.pcapng"), dir.path().join("out.pcapng"));
    let to = to.display().to_string();
    assert_eq!(capture(&["-r", &from, "-w", &to]).code, 0);
    let found = options(&to);
    assert_eq!(found.len(), 610);
    for (number, found) in found.iter().enumerate() {
        let expected = if number == 600 { (flags, others.clone()) } else { (0, Vec::new()) };
        assert_eq!(*found, expected, "{number}");
    }
    let printed = String::from_utf8_lossy(&std::fs::read(&to).expect("read")).into_owned();
    assert!(printed.contains("seen by hand"));
    let mut described = None;
    let mut file = CaptureFile::open(Path::new(&to)).expect("a file");
    let each = |item: Item<'_>| {
        if let Item::Interface(interface) = item {
            let others = quaff_wire::pcapng::interface_options(interface.options);
            described = Some((interface.fcs_len, others));
        }
    };
    file.pull(each).expect("a file");
    assert_eq!(described, Some((Some(4), option(4, &[192, 0, 2, 1, 255, 255, 255, 0]))));
    let Some(mut tshark) = tool(test_name!(), "tshark") else { return };
    let printed =
        run(tshark.args(["-r", &to, "-T", "fields", "-e", "frame.comment", "-e", "frame.packet_flags"]));
    let line = printed.lines().nth(600).expect("a line");
    assert!(line.starts_with("seen by hand\t") && line.contains("100008e"), "{line}");
}

#[test]
fn a_loss_is_a_comment_on_the_packet_after_it() {
    let dir = folder();
    let dropcount = option(4, &3u64.to_le_bytes());
    let file = Pcapng::default().section(&[]).named("eth0").packets(0, 0..2).packet(0, 2, &dropcount);
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    assert_eq!(capture(&["-r", &from, "-w", &to]).code, 1);
    let again = dir.path().join("again.pcapng").display().to_string();
    assert_eq!(capture(&["-r", &to, "-w", &again]).code, 1);
    let comment = option(1, b"3 packets were lost before this one");
    for path in [&to, &again] {
        assert_eq!(options(path), [(0, vec![]), (0, vec![]), (0, comment.clone())], "once in {path}");
    }
    let Some(mut tshark) = tool(test_name!(), "tshark") else { return };
    let printed = run(tshark.args(["-r", &to, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"]));
    assert_eq!(printed, "3 packets were lost before this one\n");
}

/// A file of packets 0 to 4; packet 2 was sent, and has a comment.
fn commented(dir: &tempfile::TempDir) -> String {
    let own = [option(2, &0b10u32.to_le_bytes()), option(1, b"seen by hand"), vec![0; 4]].concat();
    let file = Pcapng::default().section(&[]).named("eth0").packets(0, 0..2).packet(0, 2, &own);
    file.packets(0, 3..5).put(dir, "commented.pcapng")
}

#[test]
fn packets_that_are_kept_get_a_comment_after_their_own() {
    let dir = folder();
    let from = commented(&dir);
    let to = dir.path().join("out.pcapng").display().to_string();
    let text = "für später";
    let args = ["-r", &from, "-w", &to, "--include", "2-3", "--comment-packets", text];
    assert_eq!(capture(&args).code, 0);
    let [own, added] = [&b"seen by hand"[..], text.as_bytes()].map(|text| option(1, text));
    assert_eq!(options(&to), [(0, added.clone()), (0b10, [own, added.clone()].concat())]);
    if let Some(mut tshark) = tool(test_name!(), "tshark") {
        let printed =
            run(tshark.args(["-r", &to, "-T", "fields", "-E", "aggregator=;", "-e", "frame.comment"]));
        assert_eq!(printed, format!("{text}\nseen by hand;{text}\n"));
    }
    // Beside the comment on a loss, on each of more packets than a batch has.
    let dropcount = option(4, &3u64.to_le_bytes());
    let file = Pcapng::default().section(&[]).named("eth0").packets(0, 0..600).packet(0, 600, &dropcount);
    let from = file.put(&dir, "lossy.pcapng");
    assert_eq!(capture(&["-r", &from, "-w", &to, "--comment-packets", text]).code, 1);
    let found = options(&to);
    assert!(found.len() == 601 && found[..600].iter().all(|(_, options)| *options == added));
    let loss = option(1, b"3 packets were lost before this one");
    assert_eq!(found[600].1, [loss, added].concat());
}

#[test]
fn a_comment_on_packets_without_a_place_is_refused() {
    let dir = folder();
    let from = commented(&dir);
    let [pcapng, pcap] = ["a.pcapng", "a.pcap"].map(|name| dir.path().join(name).display().to_string());
    let long = "x".repeat(16_385);
    for (args, words) in [
        (["-r", &from, "-w", &pcap, "--comment-packets", "x"], "pcap has no comments"),
        (["-i", "lo", "-w", &pcapng, "--comment-packets", "x"], "--read"),
        (["-r", &from, "-w", &pcapng, "--comment-packets", ""], "1 to 16384 bytes"),
        (["-r", &from, "-w", &pcapng, "--comment-packets", &long], "1 to 16384 bytes"),
    ] {
        let ended = capture(&args);
        assert!(ended.code == 2 && ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
    let longest = "x".repeat(16_384);
    assert_eq!(capture(&["-r", &from, "-w", &pcapng, "--comment-packets", &longest]).code, 0);
    assert_eq!(options(&pcapng)[0].1, option(1, longest.as_bytes()));
}

#[test]
fn a_split_keeps_comments() {
    let dir = folder();
    let from = commented(&dir);
    let out = dir.path().join("out");
    let args = ["split", "-q", "--members", "2", "--read", &from, "--dir"];
    assert!(Command::new(QUAFF).args(args).arg(&out).status().expect("quaff runs").success());
    let files = names(&out).into_iter().map(|name| out.join(name));
    let all: Vec<_> = files.flat_map(options).collect();
    let with_comment: Vec<_> = all.iter().filter(|(_, options)| !options.is_empty()).collect();
    assert_eq!((all.len(), with_comment), (5, vec![&(0b10, option(1, b"seen by hand"))]));
}

#[test]
fn the_section_is_of_the_machine_that_captured() {
    let dir = folder();
    let texts = [option(2, b"z80"), option(3, b"CP/M 2.2"), option(4, b"Dumpcap 9"), option(1, b"at night")];
    let file = Pcapng::default().section(&texts.concat()).named("eth0").packets(0, 0..2);
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    let again = dir.path().join("again.pcapng").display().to_string();
    assert_eq!(capture(&["-r", &from, "-w", &to, "--annotate", "for the lawyers"]).code, 0);
    assert_eq!(capture(&["-r", &to, "-w", &again]).code, 0);
    for path in [&to, &again] {
        let bytes = std::fs::read(path).expect("read");
        let head = String::from_utf8_lossy(&bytes[..300]).into_owned();
        for text in ["z80", "CP/M 2.2", "quaff ", "at night", "captured by Dumpcap 9", "for the lawyers"] {
            assert_eq!(head.matches(text).count(), 1, "{text}: {head}");
        }
        assert!(!head.contains(std::env::consts::ARCH), "{head}");
    }
    for name in ["--comment", "--capture-comment"] {
        assert_eq!(capture(&["-r", &from, "-w", &to, name, "by another name"]).code, 0);
        let head = std::fs::read(&to).expect("read");
        assert!(String::from_utf8_lossy(&head[..300]).contains("by another name"), "{name}");
    }
    let pcap = dir.path().join("out.pcap").display().to_string();
    let ended = capture(&["-r", &from, "-w", &pcap, "--format", "pcap", "--annotate", "x"]);
    assert!(ended.code == 2 && ended.stderr.contains("pcapng"), "{}", ended.stderr);
}

/// A Name Resolution Block with a name of an IPv4 address, in the byte order of the file.
fn name_block(file: Pcapng, address: [u8; 4], name: &str) -> Pcapng {
    let record = option(1, &[&address[..], name.as_bytes(), &[0]].concat());
    file.block(4, &[&record, &[0; 4]])
}

/// The blocks of names of a file, with the number of packets before each.
fn names_in(path: impl AsRef<Path>) -> Vec<(usize, String)> {
    let (mut found, mut packets) = (Vec::new(), 0);
    let mut file = CaptureFile::open(path.as_ref()).expect("a file");
    let mut each = |item: Item<'_>| match item {
        Item::Names(names) => {
            let text = String::from_utf8_lossy(&quaff_wire::pcapng::names(names)).into_owned();
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            found.push((packets, words.max_by_key(|word| word.len()).unwrap_or_default().to_owned()));
        }
        Item::Frame(_) => packets += 1,
        _ => {}
    };
    while file.pull(&mut each).expect("a whole file") {}
    found
}

fn found(names: &[(usize, &str)]) -> Vec<(usize, String)> {
    names.iter().map(|(packets, name)| (*packets, (*name).to_owned())).collect()
}

/// Wireshark writes them before the packets or after them.
#[test]
fn names_of_addresses_are_kept() {
    let dir = folder();
    let file = name_block(Pcapng::default().section(&[]).named("eth0"), [192, 0, 2, 1], "first.example");
    let file = name_block(file.packets(0, 0..700), [192, 0, 2, 2], "middle.example");
    let file = name_block(file.packets(0, 700..900), [192, 0, 2, 3], "last.example");
    let (from, to) = (file.put(&dir, "in.pcapng"), dir.path().join("out.pcapng").display().to_string());
    let ended = capture(&["-r", &from, "-r", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["written"]), (0, &1800.into()), "{}", ended.stderr);
    let expected = [(0, "first.example"), (1800, "middle.example"), (1800, "last.example")];
    assert_eq!(names_in(&to), found(&expected), "each once");
    // Again: nothing is added.
    let again = dir.path().join("again.pcapng").display().to_string();
    assert_eq!(capture(&["-r", &to, "-w", &again]).code, 0);
    assert_eq!(names_in(&again), names_in(&to));
    // Without a packet, to a pipe, and compressed.
    let (none, packed) = (dir.path().join("none.pcapng"), dir.path().join("packed.pcapng.zst"));
    assert_eq!(capture(&["-r", &from, "-f", "len > 9999", "-w", &none.display().to_string()]).code, 0);
    assert_eq!(names_in(&none), found(&[(0, "first.example"), (0, "middle.example"), (0, "last.example")]));
    assert_eq!(capture(&["-r", &from, "-w", &packed.display().to_string()]).code, 0);
    let once = [(0, "first.example"), (900, "middle.example"), (900, "last.example")];
    assert_eq!(names_in(&packed), found(&once));
    let piped = run(std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" capture -q -r \"$1\" -w - > \"$2\""])
        .args([support::QUAFF, &from, &to]));
    assert!(piped.is_empty());
    assert_eq!(names_in(&to), found(&once));
    let Some(mut capinfos) = tool(test_name!(), "capinfos") else { return };
    let printed = run(capinfos.args(["-n", &to]));
    assert!(printed.contains("Number of resolved IPv4 addresses in file: 3"), "{printed}");
}

#[test]
fn names_after_the_first_packet_count_once_for_the_size() {
    let dir = folder();
    let file = Pcapng::default().section(&[]).named("eth0").packet(0, 0, &[]);
    let file = (0..5000u16).fold(file, |file, number| {
        let [high, low] = number.to_be_bytes();
        name_block(file, [10, 0, high, low], &format!("{number}.of-many-names.example"))
    });
    // Two chunks of 4 MiB.
    let (from, to) = (file.packets(0, 0..60_000).put(&dir, "in.pcapng"), dir.path().join("out.pcapng"));
    let ended = capture(&["-r", &from, "-w", &to.display().to_string(), "--stop-size", "5M"]);
    assert_eq!((ended.code, &ended.json["ended_by"]), (0, &"size".into()), "{}", ended.stderr);
    let (bytes, most) = (std::fs::metadata(&to).expect("a file").len(), 5 << 20);
    assert!(bytes <= most && bytes > most - (16 << 10), "{bytes} of {most}");
    assert_eq!(names_in(&to).len(), 5000);
}

/// Every file of a rotation names the addresses that precede its packets in the input.
#[test]
fn each_file_of_a_rotation_has_the_names_up_to_its_end() {
    let dir = folder();
    let filler = option(1, &[b'x'; 4000]);
    let packets = |file: Pcapng, numbers: std::ops::Range<u64>| {
        numbers.fold(file, |file, number| file.packet(0, number, &filler))
    };
    let file = name_block(Pcapng::default().section(&[]).named("eth0"), [192, 0, 2, 1], "first.example");
    let file = packets(file, 0..1000);
    let file = packets(name_block(file, [192, 0, 2, 2], "middle.example"), 1000..2000);
    let (from, out) = (file.put(&dir, "in.pcapng"), folder());
    let out_path = out.path().display().to_string();
    let ended = capture(&["-r", &from, "--dir", &out_path, "--rotate-size", "2M"]);
    assert_eq!((ended.code, &ended.json["written"]), (0, &2000.into()), "{}", ended.stderr);
    let files = support::ours(out.path());
    assert!(files.len() >= 4, "{files:?}");
    assert!(files.iter().all(|file| std::fs::metadata(file).expect("a file").len() <= 2 << 20));
    let of = |path: &String| names_in(path).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
    let both = ["first.example", "middle.example"];
    assert_eq!(
        (of(&files[0]), of(&files[files.len() - 1])),
        (vec![both[0].into()], both.map(String::from).to_vec())
    );
    let counts: Vec<_> = files.iter().map(|file| of(file).len()).collect();
    assert!(counts.is_sorted(), "{counts:?}");
}

fn pcap(network: u32, records: &[(u32, u32)]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 8 << 20, network]);
    for (seconds, length) in records {
        file.extend(words(&[*seconds, 0, *length, *length]));
        file.extend((0..*length).map(|at| at as u8));
    }
    file
}

#[test]
fn the_frame_check_sequence_of_pcap_is_kept() {
    let dir = folder();
    let from = dir.path().join("in.pcap").display().to_string();
    std::fs::write(&from, pcap(1 | 1 << 26 | 2 << 28, &[(7, 64)])).expect("written");
    let (ng, back) = (dir.path().join("out.pcapng"), dir.path().join("back.pcap").display().to_string());
    let ng = ng.display().to_string();
    assert_eq!(capture(&["-r", &from, "-w", &ng]).code, 0);
    assert_eq!(capture(&["-r", &ng, "-w", &back, "--format", "pcap"]).code, 0);
    assert_eq!(std::fs::read(&back).expect("read")[20..24], (1u32 | 1 << 26 | 2 << 28).to_le_bytes());
}

/// Link types such as D-Bus have packets that are larger than those of any network.
#[test]
fn large_packets_are_whole_up_to_a_chunk() {
    let dir = folder();
    let from = dir.path().join("in.pcap").display().to_string();
    let to = dir.path().join("out.pcapng").display().to_string();
    std::fs::write(&from, pcap(231, &[(7, 60), (7, 300_000), (7, 3 << 20), (8, 60)])).expect("written");
    let ended = capture(&["-r", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["lossless"]), (0, &true.into()), "{}", ended.json);
    let lengths = |path: &str| {
        let mut lengths = Vec::new();
        let mut file = CaptureFile::open(Path::new(path)).expect("a file");
        let mut each = |item: Item<'_>| {
            if let Item::Frame(frame) = item {
                assert!(frame.data.iter().enumerate().all(|(at, byte)| *byte == at as u8));
                lengths.push((frame.data.len(), frame.wire_len));
            }
        };
        while file.pull(&mut each).expect("a whole file") {}
        lengths
    };
    assert_eq!(lengths(&to), lengths(&from));
    std::fs::write(&from, pcap(231, &[(7, 60), (7, 5 << 20), (8, 60)])).expect("written");
    let ended = capture(&["-r", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["verdict"]), (1, &"lossy".into()), "{}", ended.json);
    assert!(ended.stderr.contains("a chunk of the output"), "{}", ended.stderr);
    assert_eq!(lengths(&to)[1].1, 5 << 20);
}

#[test]
fn times_that_a_format_cannot_have_are_counted() {
    let dir = folder();
    let to = dir.path().join("out.pcap").display().to_string();
    // Times in s: in 2100, in 2200, and in 3000.
    let seconds = [4_102_444_800u64, 7_258_118_400, 32_503_680_000];
    let interface =
        Pcapng::default().section(&[]).block(1, &[&[1, 0, 0, 0, 0, 0, 0, 0], &option(9, &[0]), &[0; 4]]);
    let packet = |file: Pcapng, seconds: &u64| {
        file.block(6, &[&[0; 4], &time(*seconds), &[4, 0, 0, 0, 4, 0, 0, 0], &[1, 2, 3, 4]])
    };
    let from = seconds.iter().fold(interface, packet).put(&dir, "in.pcapng");
    for (format, late) in [("pcap", 2), ("pcapng", 1)] {
        let ended = capture(&["-r", &from, "-w", &to, "--format", format]);
        let found = (ended.code, &ended.json["input"]["late_times"], &ended.json["written"]);
        assert_eq!(found, (1, &late.into(), &3.into()), "{}", ended.json);
        assert!(ended.stderr.contains("2106"), "{}", ended.stderr);
        let mut times = Vec::new();
        let mut file = CaptureFile::open(Path::new(&to)).expect("a file");
        let mut each = |item: Item<'_>| {
            if let Item::Frame(frame) = item {
                times.push(frame.time_ns / 1_000_000_000);
            }
        };
        while file.pull(&mut each).expect("a whole file") {}
        let expected = if format == "pcap" {
            [seconds[0], u32::MAX.into(), u32::MAX.into()]
        } else {
            [seconds[0], seconds[1], (u64::MAX - 1) / 1_000_000_000]
        };
        assert_eq!(times, expected, "no time wraps");
    }
}
