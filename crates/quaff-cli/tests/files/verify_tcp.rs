//! The real `quaff verify` on captures without numbers of ours: connections of TCP that the tests make, of which
//! packets are missing, and real traffic.

use assert_cmd::Command;
use quaff_testkit::{captures, skip, test_name};
use quaff_testpackets::{ethernet, ipv4, ipv6};
use quaff_wire::Record;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section, Statistics};
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

/// 2023-11-14T22:13:20Z.
const START_NS: u64 = 1_700_000_000_000_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn quaff(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("quaff").expect("the binary is built");
    command.arg("verify").args(args);
    command
}

/// Verifies a file: the exit status, and the report.
fn verify(file: &[u8], args: &[&str]) -> (i32, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.cap");
    std::fs::write(&path, file).unwrap();
    let output = quaff(args).arg("--json").arg(&path).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (output.status.code().unwrap(), report)
}

/// A TCP segment from the client (true) or the server of connection `flow`.
fn segment(flow: u16, is_client: bool, numbers: [u32; 2], flags: u8, bytes: usize) -> Vec<u8> {
    let mut header = vec![0; 20 + bytes];
    let ports = if is_client { [40_000 + flow, 80] } else { [80, 40_000 + flow] };
    header[..2].copy_from_slice(&ports[0].to_be_bytes());
    header[2..4].copy_from_slice(&ports[1].to_be_bytes());
    header[4..8].copy_from_slice(&numbers[0].to_be_bytes());
    header[8..12].copy_from_slice(&numbers[1].to_be_bytes());
    (header[12], header[13]) = (0x50, flags);
    let order = |ends: [u16; 2]| if is_client { ends } else { [ends[1], ends[0]] };
    let [from, to] = order([1, 2]);
    match flow % 2 {
        0 => {
            let address = |end: u16| Ipv4Addr::new(10, 0, 0, end as u8);
            ethernet(&[], 0x0800, &ipv4(address(from), address(to), 6, &[], &header))
        }
        _ => {
            let address = |end: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, end);
            ethernet(&[(0x8100, 7)], 0x86dd, &ipv6(address(from), address(to), 6, &header))
        }
    }
}

/// The frames of `flows` connections side by side: requests, and `segments` answers of 1,000 bytes, each acknowledged.
fn traffic(flows: u16, segments: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let (a, b) = (|flow: u16| u32::from(flow) * 7919, |flow: u16| u32::MAX - u32::from(flow) * 104_729);
    for flow in 0..flows {
        let (a, b) = (a(flow), b(flow));
        frames.push(segment(flow, true, [a.wrapping_sub(1), 0], SYN, 0));
        frames.push(segment(flow, false, [b.wrapping_sub(1), a], SYN | ACK, 0));
        frames.push(segment(flow, true, [a, b], ACK, 0));
        frames.push(segment(flow, true, [a, b], ACK, 200));
    }
    for at in 0..segments {
        for flow in 0..flows {
            let (a, b) = (a(flow).wrapping_add(200), b(flow).wrapping_add(at * 1000));
            frames.push(segment(flow, false, [b, a], ACK, 1000));
            frames.push(segment(flow, true, [a, b.wrapping_add(1000)], ACK, 0));
        }
    }
    for flow in 0..flows {
        let (a, b) = (a(flow).wrapping_add(200), b(flow).wrapping_add(segments * 1000));
        frames.push(segment(flow, false, [b, a], FIN | ACK, 0));
        frames.push(segment(flow, true, [a, b.wrapping_add(1)], FIN | ACK, 0));
        frames.push(segment(flow, false, [b.wrapping_add(1), a.wrapping_add(1)], ACK, 0));
    }
    frames
}

/// The number of the n-th answer of a connection in the frames of [`traffic`].
fn answer(flows: usize, at: usize, flow: usize) -> usize {
    4 * flows + (at * flows + flow) * 2
}

fn record(bytes: &[u8], number: usize) -> Record<'_> {
    Record {
        time_ns: START_NS + number as u64 * 1_000_000,
        bytes,
        len: bytes.len() as u32,
        ..Record::default()
    }
}

/// A pcap file of the frames without those of these numbers.
fn pcap_without(frames: &[Vec<u8>], missing: &[usize]) -> Vec<u8> {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    for (number, bytes) in frames.iter().enumerate().filter(|(number, _)| !missing.contains(number)) {
        let mut room = vec![0; 4096];
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record(bytes, number));
        file.extend(&room[..written]);
    }
    file
}

/// The same as pcapng, with counters of the capturer that record so many drops.
fn pcapng_without(frames: &[Vec<u8>], missing: &[usize], drops: u64) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::shb(&mut file, &Section::default());
    pcapng::idb(&mut file, &Interface { linktype: 1, name: "test0".into(), ..Interface::default() });
    let mut statistics = Statistics { start_ns: START_NS, ..Statistics::default() };
    pcapng::isb(&mut file, &statistics);
    for (number, bytes) in frames.iter().enumerate().filter(|(number, _)| !missing.contains(number)) {
        let mut room = vec![0; 4096];
        let written = pcapng::epb(&mut room, 0, &record(bytes, number));
        file.extend(&room[..written]);
        statistics.delivered += 1;
    }
    (statistics.os_dropped, statistics.filter_accepted) = (drops, statistics.delivered + drops);
    pcapng::isb(&mut file, &statistics);
    file
}

fn number(report: &Value, field: &str) -> u64 {
    report["tcp"][field].as_u64().unwrap_or_else(|| panic!("{field}: {report}"))
}

#[test]
fn a_whole_capture_is_complete_as_far_as_can_be_known() {
    let frames = traffic(6, 50);
    for file in [pcap_without(&frames, &[]), pcapng_without(&frames, &[], 0)] {
        let (code, report) = verify(&file, &[]);
        assert_eq!(
            (code, &report["complete"], &report["judged"]),
            (0, &true.into(), &true.into()),
            "{report}"
        );
        assert_eq!(report["verdict"], "complete as far as can be known (6 flows with evidence)");
        let counts = ["flows", "flows_with_evidence", "segments", "acked_unseen_bytes", "undecided_bytes"];
        assert_eq!(counts.map(|field| number(&report, field)), [6, 6, 6 * 51, 0, 0], "{report}");
        assert_eq!((&report["tcp"]["loss_ratio"], &report["tcp"]["loss_low"]), (&0.0.into(), &0.0.into()));
        assert!(report["tcp"]["loss_high"].as_f64().unwrap() < 0.02);
        assert_eq!((number(&report, "tcptrace_directions"), number(&report, "zeek_gaps")), (12, 0));
        assert_eq!(report["tcp"]["injected"], Value::Null);
    }
}

#[test]
fn missing_packets_are_counted_with_their_place_and_time() {
    let frames = traffic(6, 50);
    let missing = [answer(6, 10, 0), answer(6, 11, 0), answer(6, 20, 3), answer(6, 49, 5)];
    let place = |file: &[u8]| {
        let (code, report) = verify(file, &[]);
        assert_eq!((code, &report["complete"]), (1, &false.into()));
        assert_eq!(number(&report, "acked_unseen_bytes"), 4000, "{report}");
        assert_eq!(
            (number(&report, "acked_unseen_runs"), number(&report, "acked_unseen_packets_estimate")),
            (3, 4)
        );
        assert_eq!((number(&report, "tcptrace_missed_bytes"), number(&report, "zeek_gaps")), (4000, 4));
        let [ratio, low, high] =
            ["loss_ratio", "loss_low", "loss_high"].map(|field| report["tcp"][field].as_f64().unwrap());
        let truth = 4.0 / f64::from(6 * 51);
        assert!((ratio - truth).abs() < 1e-9 && low < truth && truth < high, "{low} {ratio} {high}");
        let lost: u64 = report["tcp"]["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|interval| interval["lost_packets"].as_u64().unwrap())
            .sum();
        assert_eq!(lost, 4);
        let found = &report["missing"];
        assert_eq!((&report["lost"], &found["packets"]), (&4.into(), &4.into()), "{report}");
        let connections = [&found["connections_with_loss"], &found["connections_with_evidence"]];
        assert_eq!(connections, [&Value::from(3), &Value::from(6)], "{report}");
        report["verdict"].as_str().unwrap().to_owned()
    };
    // From the segment before the first to the acknowledgment of the last.
    let verdict = place(&pcapng_without(&frames, &missing, 0));
    let first = "incomplete: about 4 packets missing (95 %: 3 to ";
    let second = ") in 3 of 6 connections between 2023-11-14T22:13:20.132Z and 2023-11-14T22:13:20.623Z; ";
    assert!(verdict.starts_with(first) && verdict.contains(second), "{verdict}");
    assert!(verdict.ends_with("; lost before this machine: its drop counters are 0"), "{verdict}");
    let found = place(&pcapng_without(&frames, &missing, 11));
    assert!(found.ends_with("; lost by this machine: its drop counters count 11"), "{found}");
    // One drop of many explains a part; counters that end before the frames say nothing.
    let found = place(&pcapng_without(&frames, &missing, 1));
    assert!(
        found.ends_with("; the place cannot be told: the drop counters count 1, which is a part of it"),
        "{found}"
    );
    let mut open = pcapng_without(&frames, &missing, 0);
    let mut end = Vec::new();
    pcapng::isb(&mut end, &Statistics::default());
    open.truncate(open.len() - end.len());
    let found = place(&open);
    assert!(
        found.ends_with("; the place cannot be told: the drop counters do not cover all packets"),
        "{found}"
    );
    let unknown = place(&pcap_without(&frames, &missing));
    assert!(unknown.ends_with("; the place cannot be told: there are no drop counters"), "{unknown}");
}

/// Runs `quaff` with these arguments after a file; returns what it printed.
fn printed(file: &[u8], command: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.cap");
    std::fs::write(&path, file).unwrap();
    let script = dir.path().join("flows.lua");
    std::fs::write(&script, "on('flow_end', {}, function(flow) print(flow.key) end)").unwrap();
    let mut quaff = Command::cargo_bin("quaff").expect("the binary is built");
    let script = script.to_str().unwrap();
    let args = args.iter().map(|arg| if *arg == "SCRIPT" { script } else { arg });
    let output = quaff.arg(command).arg("--read").arg(&path).args(args).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Sources and reasons of the flows in a file, and the flows of a script that reads it.
fn flows(file: &[u8]) -> (Vec<String>, Vec<String>) {
    const FIELDS: [&str; 4] =
        ["sourceIPv4Address", "sourceIPv6Address", "sourceTransportPort", "flowEndReason"];
    let of_flow = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        FIELDS.map(|field| record[field].to_string()).concat()
    };
    let of_script = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].to_string();
    let mut both = [
        printed(file, "flows", &["-q", "--jsonl", "-"]).lines().map(of_flow).collect::<Vec<_>>(),
        printed(file, "streams", &["-q", "--script", "SCRIPT"]).lines().map(of_script).collect(),
    ];
    both.iter_mut().for_each(|lines| lines.sort());
    both.into()
}

/// Captures with a forged handshake, reset or acknowledgment in an established connection, before one of its packets.
fn with_strays(frames: &[Vec<u8>], step: usize) -> Vec<Vec<u8>> {
    const KINDS: [(u8, [u32; 2]); 4] =
        [(SYN | ACK, [777_777, 7919]), (SYN, [888_888, 0]), (RST, [1_500_000_000, 5]), (ACK, [6_000_000, 9])];
    let mut captures = Vec::new();
    for at in (8..frames.len()).step_by(step) {
        for ((flags, numbers), is_client) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)])
        {
            let mut with = frames.to_vec();
            with.insert(at, segment(1, is_client, numbers, flags, 0));
            captures.push(pcap_without(&with, &[]));
        }
    }
    captures
}

#[test]
fn a_stray_handshake_accuses_nothing() {
    for (number_of, file) in with_strays(&traffic(2, 20), 5).iter().enumerate() {
        let (code, report) = verify(file, &[]);
        assert_eq!((code, number(&report, "flows")), (0, 2), "{number_of}: {report}");
    }
}

#[test]
fn a_stray_handshake_begins_and_ends_no_flow() {
    let frames = traffic(2, 20);
    let expected = flows(&pcap_without(&frames, &[]));
    assert_eq!((expected.0.len(), expected.1.len()), (2, 2), "{expected:?}");
    for (number_of, file) in with_strays(&frames, 9).iter().enumerate() {
        assert_eq!(flows(file), expected, "{number_of}");
    }
}

/// A later segment names the hole, and an acknowledgment beyond everything captured, which comes again.
#[test]
fn an_acknowledgment_beyond_everything_captured_names_a_hole() {
    let frames = |acknowledgments: usize| {
        let mut frames = vec![
            segment(0, true, [1000, 0], SYN, 0),
            segment(0, false, [5000, 1001], SYN | ACK, 0),
            segment(0, true, [1001, 5001], ACK, 1000),
            segment(0, false, [5001, 2001], ACK, 0),
            segment(0, true, [3001, 5001], ACK, 1000),
        ];
        frames.extend((0..acknowledgments).map(|_| segment(0, false, [5001, 9001], ACK, 0)));
        frames
    };
    let (code, report) = verify(&pcap_without(&frames(4), &[]), &[]);
    assert_eq!((code, number(&report, "acked_unseen_bytes")), (1, 1000), "{report}");
    assert!(
        report["verdict"].as_str().unwrap().starts_with("incomplete: about 1 packet missing"),
        "{report}"
    );
    // One alone may be a stray.
    let (code, report) = verify(&pcap_without(&frames(1), &[]), &[]);
    assert_eq!((code, number(&report, "acked_unseen_bytes")), (0, 0), "{report}");
}

/// Drops that stand with packets alone, as of a file without statistics.
#[test]
fn drops_recorded_at_packets_count_without_statistics() {
    let frames = traffic(6, 50);
    let file = |missing: &[usize]| {
        let mut file = Vec::new();
        pcapng::shb(&mut file, &Section::default());
        pcapng::idb(&mut file, &Interface { linktype: 1, name: "test0".into(), ..Interface::default() });
        for (number, bytes) in frames.iter().enumerate().filter(|(number, _)| !missing.contains(number)) {
            let mut room = vec![0; 4096];
            let dropped = if number == 300 { 50 } else { 0 };
            let written = pcapng::epb(&mut room, 0, &Record { dropped, ..record(bytes, number) });
            file.extend(&room[..written]);
        }
        file
    };
    let (code, report) = verify(&file(&[]), &[]);
    assert_eq!(
        (code, &report["verdict"]),
        (1, &"not complete: the capture recorded drops".into()),
        "{report}"
    );
    let (code, report) = verify(&file(&[answer(6, 10, 0)]), &[]);
    assert!(code == 1 && report["missing"]["place"] == "this_machine", "{report}");
}

#[test]
fn the_snaplen_and_one_direction_are_no_loss() {
    let frames = traffic(4, 30);
    let cut: Vec<Vec<u8>> = frames.iter().map(|frame| frame[..frame.len().min(80)].to_vec()).collect();
    let mut file = pcap::file_header(Resolution::Nanoseconds, 80, 1).to_vec();
    for (number, (bytes, whole)) in cut.iter().zip(&frames).enumerate() {
        let mut room = vec![0; 4096];
        let record = Record { len: whole.len() as u32, ..record(bytes, number) };
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record);
        file.extend(&room[..written]);
    }
    let (code, report) = verify(&file, &[]);
    assert_eq!((code, number(&report, "acked_unseen_bytes")), (0, 0), "{report}");
    assert!(number(&report, "snapped_bytes") > 4 * 30 * 900);
    let answers: Vec<Vec<u8>> = frames.iter().filter(|frame| frame.len() > 500).cloned().collect();
    let (code, report) = verify(&pcap_without(&answers, &[7, 8]), &[]);
    assert_eq!((code, number(&report, "one_sided"), &report["judged"]), (2, 4, &false.into()), "{report}");
    assert_eq!(report["verdict"], "nothing to judge by");
}

/// The output of `quaff verify` for these files, in a folder of their own, with these arguments.
fn words(files: &[(&str, Vec<u8>)], args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let names = files.iter().map(|(name, bytes)| {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        *name
    });
    let names: Vec<&str> = names.collect();
    let output = quaff(args).args(names).current_dir(&dir).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_syn_ack_that_both_ends_name_is_missing() {
    let frames = traffic(6, 50);
    let without = |missing: usize| pcap_without(&frames, &[missing]);
    let syn_ack = 4 * 2 + 1;
    let (code, report) = verify(&without(syn_ack), &[]);
    let counts = ["syns_unseen", "one_way", "acked_unseen_bytes"].map(|field| number(&report, field));
    assert_eq!((code, counts), (1, [1, 0, 0]), "{report}");
    let reason =
        "packets that open connections (SYN, SYN-ACK) are missing, although both ends continued after them";
    assert_eq!(report["verdict"], format!("not complete: {reason}"));
    let text = words(&[("a.pcap", without(syn_ack))], &[]);
    assert!(text.starts_with(&format!("NOT complete: {reason}\n")), "{text}");
    assert!(text.contains("\n  handshakes                1  without SYN or SYN-ACK, although"), "{text}");
    // The capture may have begun after its SYN.
    let (code, report) = verify(&without(syn_ack - 1), &[]);
    assert_eq!((code, number(&report, "syns_unseen")), (0, 0), "{report}");
}

#[test]
fn a_capture_of_one_direction_is_named() {
    let of_client = [
        segment(0, true, [999, 0], SYN, 0),
        segment(0, true, [1000, 5000], ACK, 200),
        segment(0, true, [1200, 6000], FIN | ACK, 0),
    ];
    let file = pcap_without(&of_client, &[]);
    let (code, report) = verify(&file, &[]);
    let counts = ["one_way", "syns_unseen", "acked_unseen_bytes"].map(|field| number(&report, field));
    assert_eq!((code, counts), (2, [1, 0, 0]), "{report}");
    assert_eq!((&report["verdict"], &report["received"]), (&"nothing to judge by".into(), &0.into()));
    let text = words(&[("a.pcap", file)], &[]);
    assert!(text.contains("1 connection of which one direction is not in the capture"), "{text}");
    // Counters of numbered frames are of captures that have some, or should.
    assert!(!text.contains("  received ") && !text.contains("  unnumbered "), "{text}");
    let expected = words(&[("a.pcap", pcap_without(&of_client, &[]))], &["--expect", "4"]);
    assert!(expected.contains("  received                  0\n"), "{expected}");
}

#[test]
fn a_wide_interval_leaves_two_digits() {
    let missing: Vec<usize> = (100..331).map(|at| answer(1, at, 0)).collect();
    let file = pcap_without(&traffic(1, 500), &missing);
    let (_, report) = verify(&file, &[]);
    let packets = report["missing"]["packets"].as_u64().unwrap();
    assert!((231..235).contains(&packets), "for programs it is whole: {report}");
    let text = words(&[("a.pcap", file)], &[]);
    assert!(text.starts_with("incomplete: about 230 packets missing (95 %: "), "{text}");
    assert!(text.contains("\n  tcp lost                230  "), "{text}");
}

#[test]
fn a_loss_names_the_command_that_shows_each_connection() {
    let lossy = || pcap_without(&traffic(6, 50), &[answer(6, 10, 0)]);
    let next = "\n  connections   the missing bytes of each: quaff streams list ";
    let text = words(&[("a b.pcap", lossy())], &["--salvage"]);
    assert!(text.contains(&format!("{next}'a b.pcap' --salvage\n")), "{text}");
    let [whole, injected] = [
        words(&[("a.pcap", pcap_without(&traffic(6, 50), &[]))], &[]),
        words(&[("a.pcap", lossy())], &["--inject-loss", "5"]),
    ];
    assert!(!whole.contains(next) && !injected.contains(next), "{whole}{injected}");
    let stdin = quaff(&["-"]).write_stdin(lossy()).output().unwrap();
    let stdin = String::from_utf8(stdin.stdout).unwrap();
    assert!(stdin.starts_with("incomplete: ") && !stdin.contains("streams list"), "{stdin}");
}

/// A file of another day, which has nothing to do with the first one.
#[test]
fn unrelated_files_have_no_worst_interval() {
    let lossy = pcap_without(&traffic(6, 50), &[answer(6, 10, 0)]);
    let others = [
        segment(100, true, [999, 0], SYN, 0),
        segment(100, false, [4999, 1000], SYN | ACK, 0),
        segment(100, true, [1000, 5000], ACK, 200),
        segment(100, false, [5000, 1200], ACK, 1000),
        segment(100, true, [1200, 6000], ACK, 0),
    ];
    // 100 days, in ms.
    let later = 100 * 86_400_000;
    let mut other = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    for (number, bytes) in others.iter().enumerate() {
        let mut room = vec![0; 4096];
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record(bytes, later + number));
        other.extend(&room[..written]);
    }
    let alone = words(&[("a.pcap", lossy.clone())], &[]);
    assert!(alone.contains("\n    worst       1 lost ("), "{alone}");
    let both = words(&[("a.pcap", lossy), ("b.pcap", other)], &[]);
    assert!(both.starts_with("incomplete: about 1 packet missing") && !both.contains("  worst "), "{both}");
    assert!(both.contains("quaff streams list a.pcap b.pcap\n"), "{both}");
}

#[test]
fn an_injected_loss_is_in_the_interval() {
    let frames = traffic(20, 250);
    let file = pcap_without(&frames, &[]);
    for loss in ["0.1", "1%", "5", "1,8", "5,8"] {
        let mut hits = 0;
        for seed in 1..=20 {
            let (code, report) = verify(&file, &["--inject-loss", loss, "--seed", &seed.to_string()]);
            let tcp = &report["tcp"];
            let truth = tcp["injected"]["ratio"].as_f64().unwrap();
            let [low, high] = ["loss_low", "loss_high"].map(|field| tcp[field].as_f64().unwrap());
            let found =
                ["acked_unseen_bytes", "fins_unseen", "syns_unseen"].map(|field| number(&report, field));
            assert_eq!(code, i32::from(found != [0; 3]));
            assert!(truth > 0.0 && report["frames"] == frames.len(), "{report}");
            assert!(tcp["injected"]["seed"] == seed && high < 0.2, "{tcp}");
            hits += u32::from(low <= truth && truth <= high);
        }
        assert!(hits >= 18, "{loss}: {hits} of 20");
    }
}

#[test]
fn the_text_names_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    std::fs::write(&path, pcap_without(&traffic(6, 50), &[answer(6, 10, 0), answer(6, 11, 0)])).unwrap();
    let print = |args: &[&str]| {
        let output = quaff(args).arg("a.pcap").current_dir(&dir).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        // The last line says how long it took.
        text.lines().filter(|line| !line.starts_with("  read ")).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("tcp", print(&[]));
    insta::assert_snapshot!("tcp_injected", print(&["--inject-loss", "5,2", "--seed", "3"]));
    // The ledger does not say that nothing is missing.
    let frames = traffic(6, 50);
    for (drops, verdict, ledger) in [
        (0, "; lost before this machine: its drop counters are 0", "records no drops"),
        (11, "; lost by this machine: its drop counters count 11", "11 drops recorded (kernel 11)"),
    ] {
        std::fs::write(&path, pcapng_without(&frames, &[answer(6, 10, 0), answer(6, 30, 2)], drops)).unwrap();
        let text = print(&[]);
        assert!(text.lines().next().unwrap().ends_with(verdict), "{text}");
        let words = text.lines().find_map(|line| line.trim().strip_prefix("ledger")).unwrap();
        assert_eq!(words.trim(), ledger, "{text}");
    }
    for wrong in ["x", "100", "1,0", "-1", "1,"] {
        let output = quaff(&["--inject-loss", wrong]).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
}

/// Of connections from their middle, what is missing in the first second proves no loss, and is missing in the streams.
#[test]
fn the_text_says_where_streams_name_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let print = |command: &str| {
        let mut quaff = Command::cargo_bin("quaff").expect("the binary is built");
        let output = quaff.args(command.split(' ')).arg(&path).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let words = "'quaff streams list' counts all missing bytes";
    let (frames, gap) = (traffic(6, 50), answer(6, 10, 0));
    std::fs::write(&path, pcap_without(&frames, &[gap])).unwrap();
    let whole = print("verify");
    assert!(whole.contains("1000 B acknowledged and never captured") && !whole.contains(words), "{whole}");
    assert!(print("streams list").contains("missing 1000 B in 1 gap"), "{}", print("streams list"));
    // Without the handshakes and the requests.
    let missing: Vec<usize> = (0..4 * 6).chain([gap]).collect();
    std::fs::write(&path, pcap_without(&frames, &missing)).unwrap();
    let (part, line) =
        (print("verify"), format!("{words}, also those in 12 directions captured in part or without SYN"));
    assert!(part.contains(&line) && !part.contains("never captured"), "{part}");
    assert!(print("streams list").contains("missing 1000 B in 1 gap"), "{}", print("streams list"));
}

#[test]
fn conversations_of_generate_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("talk.pcap");
    let words = "generate --tcp talk --segments 4 --flows 50 --size 200 --pps 20k --count 20k -w";
    let mut generate = Command::cargo_bin("quaff").expect("the binary is built");
    generate.args(words.split(' ')).arg(&path).assert().success();
    let (code, report) = verify(&std::fs::read(&path).unwrap(), &[]);
    assert_eq!((code, number(&report, "acked_unseen_bytes")), (0, 0), "{report}");
    assert!(number(&report, "flows_with_evidence") > 1000, "{report}");
    let (code, report) = verify(&std::fs::read(&path).unwrap(), &["--inject-loss", "3", "--seed", "5"]);
    let [low, high] = ["loss_low", "loss_high"].map(|field| report["tcp"][field].as_f64().unwrap());
    let truth = report["tcp"]["injected"]["ratio"].as_f64().unwrap();
    assert!(code == 1 && low < truth && truth < high, "{report}");
}

/// Captures from which packets were removed before they were published: in each of them tshark finds segments that are
/// acknowledged and not there (`tcp.analysis.ack_lost_segment`). It finds some in seven more, of which the sender names
/// nothing later, or whose connections are from their middle and short: one witness proves nothing.
const LACKING: [&str; 8] = [
    "bitcoin.pcap",
    "instagram.pcap",
    "ndpi_match_string_subprotocol__error.pcapng",
    "netflix.pcap",
    "reasm_crash_anon.pcapng",
    "smtp-starttls.pcap",
    "tls_missing_ch_frag.pcap",
    "wechat.pcap",
];

#[test]
fn real_captures_have_no_loss_but_for_known_ones() {
    let test = test_name!();
    let dir = captures().join("protocols");
    let files: Vec<_> = dir.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let files: Vec<_> =
        files.into_iter().filter(|path| path.extension().is_some_and(|end| end != "txt")).collect();
    if files.is_empty() {
        return skip(test, &format!("no captures in {}; QUAFF_CAPTURES says where to look", dir.display()));
    }
    let (mut judged, mut unexpected, mut found) = (0, Vec::new(), Vec::new());
    for path in &files {
        let output = quaff(&["--json"]).arg(path).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        judged += u32::from(report["judged"].as_bool().unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_known = LACKING.contains(&name.as_str());
        if number(&report, "acked_unseen_bytes") > 0 && is_known {
            found.push(name);
        } else if number(&report, "acked_unseen_bytes") > 0 {
            unexpected
                .push(format!("{name}: {} ({})", report["verdict"], report["tcp"]["acked_unseen_bytes"]));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    let present = files.iter().filter(|path| LACKING.iter().any(|name| path.ends_with(name))).count();
    assert_eq!(found.len(), present, "{found:?}");
    assert!(judged > 0);
}
