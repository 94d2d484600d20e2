//! Headers of packets that contradict themselves or have what the output cannot have: corrected in one way by all
//! commands, and counted.

use super::link_types::pcap;
use crate::support::packets::packets_of;
use crate::support::{QUAFF, capture, folder, tool};
use quaff_testkit::test_name;
use quaff_testpackets as build;
use serde_json::Value;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

fn frame(data: &[u8]) -> Vec<u8> {
    let [a, b] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
    build::ethernet(&[], 0x0800, &build::ipv4(a, b, 17, &[], &build::udp(5000, 5001, data)))
}

/// Changes a word of the header of each record: 0 seconds, 1 fraction, 2 captured length, 3 original length.
fn with(mut file: Vec<u8>, word: usize, value: impl Fn(usize) -> u32) -> Vec<u8> {
    let (mut at, mut number) = (24, 0);
    while at < file.len() {
        let captured = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        file[at + 4 * word..][..4].copy_from_slice(&value(number).to_le_bytes());
        (at, number) = (at + 16 + captured, number + 1);
    }
    file
}

fn put(dir: &Path, name: &str, file: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, file).expect("written");
    path.display().to_string()
}

fn json(args: &[&str]) -> (i32, Value, String) {
    let done = Command::new(QUAFF).args(args).arg("--json").output().expect("quaff runs");
    let json = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    (done.status.code().unwrap_or(-1), json, String::from_utf8_lossy(&done.stderr).into_owned())
}

/// The lengths of the packets of a pcapng file: captured, original.
fn lengths(path: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut file = quaff_file::read::CaptureFile::open(Path::new(path)).expect("a file");
    let mut each = |item: quaff_wire::decode::Item<'_>| {
        if let quaff_wire::decode::Item::Frame(frame) = item {
            found.push((frame.data.len(), frame.wire_len as usize));
        }
    };
    while file.pull(&mut each).expect("a whole file") {}
    found
}

#[test]
fn an_original_length_below_the_captured_one_is_raised_and_counted() {
    let dir = folder();
    let frames = [frame(b"one"), frame(b"two and more"), frame(b"three")];
    for (value, format) in [(1, "pcapng"), (0, "pcap"), (40, "pcapng")] {
        let changed = with(pcap(1, false, &frames), 3, |number| if number == 1 { 54 } else { value });
        let from = put(dir.path(), "in.pcap", &changed);
        let to = dir.path().join(format!("out.{format}")).display().to_string();
        let ended = capture(&["-r", &from, "-w", &to]);
        assert_eq!((ended.code, &ended.json["input"]["raised_lengths"]), (0, &2.into()), "{}", ended.json);
        assert!(ended.stderr.contains("2 packets with an original length below"), "{}", ended.stderr);
        assert_eq!(lengths(&to), frames.iter().map(|frame| (frame.len(), frame.len())).collect::<Vec<_>>());
        let (_, flows, _) = json(&["flows", "--read", &from]);
        assert_eq!((&flows["packets_in_flows"], &flows["input"]["raised_lengths"]), (&3.into(), &2.into()));
        let (_, info, _) = json(&["info", &from]);
        assert!(info.to_string().contains("2 packets with an original length below"), "{info}");
        // The same in pcapng.
        let block = |file: &mut Vec<u8>, frame: &[u8]| {
            let length = 32 + frame.len().next_multiple_of(4) as u32;
            let words = [6, length, 0, 0x0006_0000, 7, frame.len() as u32, value];
            file.extend(words.map(u32::to_le_bytes).concat());
            file.extend(frame);
            file.resize(file.len().next_multiple_of(4), 0);
            file.extend(length.to_le_bytes());
        };
        let mut pcapng = [0x0a0d_0d0au32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20]
            .map(u32::to_le_bytes)
            .concat();
        frames.iter().for_each(|frame| block(&mut pcapng, frame));
        let from = put(dir.path(), "in.pcapng", &pcapng);
        let ended = capture(&["-r", &from, "-w", &to]);
        assert_eq!((ended.code, &ended.json["input"]["raised_lengths"]), (0, &3.into()), "{}", ended.json);
    }
}

/// Bytes of a connection are delivered, though the file says that they were never there.
#[test]
fn streams_deliver_what_is_captured_beyond_the_original_length() {
    let dir = folder();
    let [a, b] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
    let segment = |ports: [u16; 2], sequence: u32, acknowledgment: u32, flags: u8, data: &[u8]| {
        let mut bytes = ports.map(u16::to_be_bytes).concat();
        bytes.extend([sequence, acknowledgment].map(u32::to_be_bytes).concat());
        bytes.extend([0x50, flags, 255, 255, 0, 0, 0, 0]);
        bytes.extend(data);
        bytes
    };
    let frames = [
        (a, b, segment([9, 80], 1000, 0, 2, b"")),
        (b, a, segment([80, 9], 5000, 1001, 0x12, b"")),
        (a, b, segment([9, 80], 1001, 5001, 0x18, b"lost")),
        (b, a, segment([80, 9], 5001, 1005, 0x10, b"")),
    ]
    .map(|(from, to, segment)| build::ethernet(&[], 0x0800, &build::ipv4(from, to, 6, &[], &segment)));
    let from = put(dir.path(), "in.pcap", &with(pcap(1, false, &frames), 3, |_| 1));
    let out = dir.path().join("streams").display().to_string();
    let (code, streams, _) = json(&["streams", "extract", "--read", &from, "--dir", &out]);
    assert_eq!((code, &streams["bytes"]["delivered"]), (0, &4.into()), "{streams}");
}

/// A missing original length looks like the times of an old 64-bit host, if the µs are few.
#[test]
fn records_without_an_original_length_are_not_those_of_another_layout() {
    let dir = folder();
    for frames in
        [vec![frame(&[7; 20]); 2], vec![frame(&[0; 20]); 1], (0..40).map(|n| frame(&[n; 30])).collect()]
    {
        let file = with(with(pcap(1, false, &frames), 3, |_| 0), 1, |number| number as u32 * 1000);
        let from = put(dir.path(), "in.pcap", &file);
        let (code, info, _) = json(&["info", &from]);
        let file = if info["files"].is_array() { &info["files"][0] } else { &info };
        assert_eq!((code, &file["packets"]), (0, &frames.len().into()), "{info}");
        assert!(!info.to_string().contains("64-bit host"), "{info}");
    }
}

#[test]
fn times_before_1970_are_counted_as_those_after_2554_are() {
    let dir = folder();
    let file = |offset_s: i64, ticks: [u64; 3]| {
        let mut file =
            [0x0a0d_0d0au32, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28].map(u32::to_le_bytes).concat();
        let offset = offset_s.to_le_bytes();
        file.extend([1u32, 44, 1, 0, 0x0001_0009, 9, 0x0008_000e].map(u32::to_le_bytes).concat());
        // A resolution of ns, and the offset.
        file.truncate(file.len() - 8);
        file.extend([9, 0, 0, 0, 14, 0, 8, 0]);
        file.extend(offset);
        file.extend([0u32, 44].map(u32::to_le_bytes).concat());
        for ticks in ticks {
            let frame = frame(b"x");
            let length = 32 + frame.len().next_multiple_of(4) as u32;
            let words =
                [6, length, 0, (ticks >> 32) as u32, ticks as u32, frame.len() as u32, frame.len() as u32];
            file.extend(words.map(u32::to_le_bytes).concat());
            file.extend(&frame);
            file.resize(file.len().next_multiple_of(4), 0);
            file.extend(length.to_le_bytes());
        }
        put(dir.path(), "in.pcapng", &file)
    };
    const S: u64 = 1_000_000_000;
    let to = dir.path().join("out.pcapng").display().to_string();
    // 6.5 s and 1 ns before 1970, and 1970.
    let from = file(-10, [35 * S / 10, 10 * S - 1, 10 * S]);
    for args in [
        vec!["capture", "-r", &from, "-w", &to],
        vec!["flows", "--read", &from],
        vec!["merge", "-w", &to, &from],
    ] {
        let (code, found, stderr) = json(&args);
        let early = if args[0] == "merge" { &found["early_times"] } else { &found["input"]["early_times"] };
        assert_eq!((code, early, &found["verdict"]), (1, &2.into(), &"lossy".into()), "{args:?} {found}");
        assert!(
            stderr.contains("2 packets have times before 1970") || args[0] == "merge",
            "{args:?} {stderr}"
        );
    }
    let times = |path: &str| packets_of(path).iter().map(|packet| packet.time_ns).collect::<Vec<_>>();
    capture(&["-r", &from, "-w", &to]);
    assert_eq!(times(&to), [1, 1, 0], "the first one that is a time");
    for command in ["info", "verify"] {
        let (_, found, _) = json(&[command, &from]);
        assert!(found.to_string().contains("2 packets of times before 1970"), "{command}: {found}");
    }
    let from = file(i64::MAX, [0, 1, 2]);
    for command in ["info", "verify"] {
        let (_, found, _) = json(&[command, &from]);
        assert!(found.to_string().contains("3 packets of times after 2554"), "{command}: {found}");
    }
}

#[test]
fn a_fraction_beyond_the_unit_of_the_file_is_noted() {
    let dir = folder();
    let frames = [frame(b"one"), frame(b"two"), frame(b"three")];
    let file = with(pcap(1, false, &frames), 1, |number| [0, 999_999_999, 1_000_000][number]);
    let from = put(dir.path(), "in.pcap", &file);
    let to = dir.path().join("out.pcapng").display().to_string();
    let ended = capture(&["-r", &from, "-w", &to]);
    assert_eq!((ended.code, &ended.json["input"]["large_fractions"]), (0, &2.into()), "{}", ended.json);
    assert!(ended.stderr.contains("2 packets with a fraction of a second or more"), "{}", ended.stderr);
    for command in ["info", "verify"] {
        let (_, found, _) = json(&[command, &from]);
        assert!(found.to_string().contains("2 packets with a fraction"), "{command}: {found}");
    }
    let (_, ended, _) =
        json(&["capture", "-r", &put(dir.path(), "good", &pcap(1, false, &frames)), "-w", &to]);
    assert_eq!(ended["input"]["large_fractions"], 0);
}

#[test]
fn a_span_of_time_that_ends_before_it_begins_is_refused() {
    let dir = folder();
    let from = put(dir.path(), "in.pcap", &pcap(1, false, &vec![frame(b"x"); 9]));
    let to = dir.path().join("out.pcapng").display().to_string();
    for (begin, end) in [
        ("@1700000001", "@1700000000"),
        ("@1700000000", "@1700000000"),
        ("+5s", "+3s"),
        ("+5s", "@1700000003"),
        ("@1700000005", "+3s"),
    ] {
        let ended = capture(&["-r", &from, "-w", &to, "--from", begin, "--to", end]);
        assert_eq!(ended.code, 2, "{begin} {end}");
        assert!(ended.stderr.contains("--from is not before --to"), "{begin} {end}: {}", ended.stderr);
        // The first packet is read after the output was opened.
        let is_known_before = begin.starts_with('@') == end.starts_with('@');
        assert!(!is_known_before || !Path::new(&to).exists(), "{begin} {end}");
        std::fs::remove_file(&to).ok();
    }
    let ended = capture(&["-r", &from, "-w", &to, "--from", "@1700000000", "--to", "+5ms"]);
    assert_eq!((ended.code, &ended.json["written"]), (0, &5.into()));
}

#[test]
fn a_reader_of_lines_may_leave_and_packets_of_a_file_do_not_arrive() {
    let Some(_) = tool(test_name!(), "tcpdump") else { return };
    let dir = folder();
    let from = put(dir.path(), "in.pcap", &pcap(1, false, &vec![frame(&[1; 400]); 40_000]));
    let mut quaff = Command::new(QUAFF);
    quaff.args(["capture", "-r", &from, "--print"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = quaff.spawn().expect("quaff runs");
    let mut out = running.stdout.take().expect("a pipe");
    out.read_exact(&mut [0; 100]).expect("lines");
    drop(out);
    let done = running.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{said}");
    let to = dir.path().join("out.pcapng").display().to_string();
    let done = Command::new(QUAFF)
        .args(["capture", "-r", &from, "-c", "5", "-w", &to])
        .output()
        .expect("quaff runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("after the last one of --count") && !said.contains("arrived"), "{said}");
}
