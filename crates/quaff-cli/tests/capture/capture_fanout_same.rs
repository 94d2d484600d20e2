//! Flows, scripts and evidence are the same in several lanes of an interface as in one: runs with 1, 2 and 4 lanes
//! see the same packets.

use crate::support::{Bench, Ended, PATIENCE, QUAFF, capture, finish, interrupt, lab_bench};
use quaff_file::read::CaptureFile;
use quaff_lab::ChildProcess;
use quaff_testpackets::ipv4_fragments;
use quaff_wire::decode::Item;
use quaff_wire::pcap::{Resolution, file_header};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const LANES: [&str; 3] = ["1", "2", "4"];

/// `quaff generate ARGS -w FILE`.
fn generate(path: &str, args: &str) {
    let mut command = Command::new(QUAFF);
    let done = command.arg("generate").args(args.split(' ')).args(["-w", path]).output().expect("quaff runs");
    assert!(done.status.success(), "{done:?}");
}

/// A file of TCP conversations of many hosts, of which every fifth packet comes in fragments.
fn talk(bench: &Bench, flows: u32) -> String {
    let [whole, parts] = ["talk.pcap", "parts.pcap"].map(|name| bench.path(name));
    generate(&whole, &format!("--tcp talk --segments 4 --size 300 --flows {flows} --pps 20k --count 20k"));
    let mut file = file_header(Resolution::Nanoseconds, 65_535, 1).to_vec();
    let mut capture = CaptureFile::open(Path::new(&whole)).expect("a capture");
    let mut number = 0u16;
    let mut take = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        let (link, packet) = frame.data.split_at(14);
        let mut packet = packet.to_vec();
        // Each datagram has an identification of its own.
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        let piece = if number.is_multiple_of(5) { 120 } else { 1480 };
        for part in ipv4_fragments(&packet, piece) {
            let bytes = [link, &part].concat();
            let length = (bytes.len() as u32).to_le_bytes();
            file.extend(((frame.time_ns / 1_000_000_000) as u32).to_le_bytes());
            file.extend(((frame.time_ns % 1_000_000_000) as u32).to_le_bytes());
            file.extend([length, length].concat());
            file.extend(bytes);
        }
        number += 1;
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    std::fs::write(&parts, file).expect("a file");
    parts
}

/// Runs `quaff ARGS` once for each number of lanes, all at the same time while a file is sent.
fn in_lanes(bench: &Bench, file: &str, args: impl Fn(&str) -> Vec<String>) -> Vec<Ended> {
    let start = |lanes: &&str| {
        let args = args(lanes);
        let args: Vec<_> = args.iter().map(String::as_str).chain(["--lanes", lanes]).collect();
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    };
    let running: Vec<_> = LANES.iter().map(start).collect();
    let mut replay = bench.lab.tx.command(QUAFF).expect("a command in the lab");
    replay.args(["replay", "-o", "tx0", "--pps", "20k", "--json", file]);
    let sent = finish(ChildProcess::start(replay).expect("quaff runs"));
    assert_eq!(sent.code, 0, "{} {}", sent.json, sent.stderr);
    running.into_iter().map(interrupt).collect()
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

#[test]
fn flows_are_the_same_in_many_lanes_as_in_one() {
    let bench = lab_bench!(1 << 27);
    let file = talk(&bench, 2000);
    let csv = |lanes: &str| bench.path(&format!("{lanes}.csv"));
    let ended =
        in_lanes(&bench, &file, |lanes| words(&["flows", "-i", "rx0", "-f", "tcp", "--csv", &csv(lanes)]));
    ended.iter().for_each(|ended| assert_eq!(ended.code, 0, "{}", ended.stderr));
    let records = LANES.map(|lanes| flows_of(&csv(lanes)));
    assert!(records[0].len() >= 2000, "{}", records[0].len());
    assert!(
        records[1] == records[0] && records[2] == records[0],
        "{:?}",
        records.each_ref().map(BTreeMap::len)
    );
}

/// Sees packets, flows and streams, and counts across hosts.
const SCRIPT: &str = r#"
    local flows = list("flows", {"key", "packets", "bytes"})
    local protocols = histogram("protocols", {"protocol"})
    local servers = histogram("bytes", {"server_port", "from"})
    local is_first = true
    on("packet", function(packet)
        protocols:count(packet.protocol or "other")
        if is_first then alert("a state") is_first = false end
    end)
    on("flow_end", function(flow) flows:add{flow.key, flow.packets, flow.bytes} end)
    on("data", function(flow, data) servers:count({flow.server_port, data.from}, #data.bytes) end)
    on("flow_start", function(flow) if flow.id <= 4 then save(flow) end end)
"#;

#[test]
fn scripts_record_the_same_in_many_lanes_as_in_one() {
    let bench = lab_bench!(1 << 27);
    let (file, script) = (talk(&bench, 500), bench.path("all.lua"));
    std::fs::write(&script, SCRIPT).expect("a script");
    let out = |lanes: &str| bench.path(&format!("out{lanes}"));
    let ended = in_lanes(&bench, &file, |lanes| {
        let formats = ["--format", "jsonl,csv", "--json"];
        let args = ["streams", "-i", "rx0", "-f", "tcp", "--script", &script, "--out", &out(lanes)];
        words(&[&args[..], &formats].concat())
    });
    let sums = |ended: &Ended| {
        let json = &ended.json;
        assert!(json["failure"].is_null(), "{json} {}", ended.stderr);
        let of_script =
            ["calls", "errors", "rows", "rows_dropped", "saved"].map(|name| &json["scripts"][0][name]);
        let mut sums = json["streams"].clone();
        // Each lane has its own highest number at a time.
        sums["connections"]["high"] = Value::Null;
        let own = ["packets", "flows", "kernel_dropped", "verdict", "saved_packets_dropped"]
            .map(|name| &json[name]);
        (of_script.map(Value::clone), own.map(Value::clone), sums)
    };
    let all: Vec<_> = ended.iter().map(sums).collect();
    assert!(ended[0].json["streams"]["datagrams"]["whole"].as_u64() > Some(500), "{}", ended[0].json);
    assert!(ended[0].json["flows"].as_u64() >= Some(500), "{}", ended[0].json);
    assert_eq!(all[1], all[0]);
    assert_eq!(all[2], all[0]);
    let rows = |lanes: &str, name: &str| {
        let text = std::fs::read_to_string(format!("{}/all-{name}", out(lanes))).expect("rows");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        // Those of a histogram have an order.
        if name.starts_with("flows") {
            lines.sort_unstable();
        }
        lines
    };
    for lanes in LANES {
        for name in ["flows.jsonl", "flows.csv", "protocols.jsonl", "bytes.jsonl", "bytes.csv"] {
            assert!(rows(lanes, name) == rows("1", name), "{name} of {lanes} lanes");
        }
        // What a script remembers is its lane's, as the note says.
        assert_eq!(rows(lanes, "alerts.jsonl").len().to_string(), lanes, "a state for each lane");
    }
    let said = |ended: &Ended| ended.stderr.contains("lanes has its own state of each script");
    assert_eq!(ended.iter().map(said).collect::<Vec<_>>(), [false, true, true], "{}", ended[2].stderr);
    // Flows of different lanes have different numbers, and so files of their own.
    let saved = |ended: &Ended| ended.json["scripts"][0]["saved"].as_u64();
    let files = |lanes: &str| {
        let names = std::fs::read_dir(out(lanes)).expect("a folder").flatten();
        names.filter(|entry| entry.path().extension().is_some_and(|of| of == "pcapng")).count() as u64
    };
    for (lanes, ended) in LANES.iter().zip(&ended) {
        assert_eq!((saved(ended), files(lanes)), (Some(4), 4), "{lanes}: {}", ended.json);
    }
}

/// The counters of a report that have to be the same.
fn evidence(ended: &Ended) -> Vec<Value> {
    let json = &ended.json;
    let of_tcp = [
        "flows",
        "flows_with_evidence",
        "set_aside",
        "segments",
        "acked_unseen_bytes",
        "acked_unseen_runs",
        "acked_unseen_packets_estimate",
        "loss_ratio",
        "undecided_bytes",
    ];
    let own = ["complete", "received", "lost", "duplicates", "foreign", "corrupt", "frames"];
    let gaps = ["/gaps/count", "/gaps/first/first", "/gaps/last/last"].map(|at| json.pointer(at));
    let own = own.iter().map(|name| json[*name].clone());
    let all = own.chain(of_tcp.iter().map(|name| json["tcp"][*name].clone()));
    all.chain(gaps.map(|gap| gap.cloned().unwrap_or_default())).collect()
}

#[test]
fn evidence_is_the_same_in_many_lanes_as_in_one() {
    let bench = lab_bench!(1 << 27);
    let [tcp, probes, cut] = ["tcp.pcap", "probes.pcap", "cut.pcap"].map(|name| bench.path(name));
    generate(&tcp, "--tcp talk --segments 4 --flows 200 --size 200 --pps 20k --count 10k");
    generate(&probes, "--size 100 --flows 1000 --pps 20k --count 10k");
    for (file, lost) in [(&tcp, None), (&probes, Some(20))] {
        let made = capture(&["--read", file, "--exclude", "5211-5220,9001-9010", "-w", &cut]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        for (sent, is_cut) in [(file, false), (&cut, true)] {
            let ended = in_lanes(&bench, sent, |_| words(&["verify", "-i", "rx0", "-f", "ip", "--json"]));
            let found: Vec<_> = ended.iter().map(evidence).collect();
            let json = &ended[0].json;
            assert_eq!((ended[0].code, &json["complete"]), (i32::from(is_cut), &(!is_cut).into()), "{json}");
            assert_eq!(found[1], found[0], "{json} {}", ended[1].json);
            assert_eq!(found[2], found[0], "{json} {}", ended[2].json);
            if let Some(lost) = lost.filter(|_| is_cut) {
                assert_eq!((&json["lost"], &json["gaps"]["count"]), (&lost.into(), &2.into()), "{json}");
            }
            let names = ended.iter().map(|ended| ended.json["tcp"]["interfaces"][0]["name"].clone());
            assert!(
                lost.is_some() || names.clone().all(|name| name == "rx0"),
                "{:?}",
                names.collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn the_verdict_of_an_interface_is_that_of_all_its_lanes() {
    let bench = lab_bench!(1 << 27);
    let [whole, cut] = ["talk.pcap", "cut.pcap"].map(|name| bench.path(name));
    generate(&whole, "--tcp talk --segments 4 --flows 200 --size 200 --pps 20k --count 10k");
    let made = capture(&["--read", &whole, "--exclude", "5211-5220", "-w", &cut]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let out = |lanes: &str| bench.path(&format!("{lanes}.pcapng"));
    let ended = in_lanes(&bench, &cut, |lanes| {
        words(&[
            "capture",
            "-i",
            "rx0",
            "-f",
            "tcp",
            "--prove",
            "--buffer",
            "64M",
            "--json",
            "-w",
            &out(lanes),
        ])
    });
    for (lanes, ended) in LANES.iter().zip(&ended) {
        let proofs = ended.json["proof"].as_array().expect("verdicts");
        assert_eq!((ended.code, proofs.len()), (0, 1), "{lanes}: {} {}", ended.json, ended.stderr);
        let file = std::fs::read(out(lanes)).expect("a file");
        let has_comment = file.windows(7).any(|bytes| bytes == b"proof: ");
        assert_eq!(has_comment, *lanes == "1", "a part is no verdict: {lanes}");
    }
    let verdicts: Vec<_> = ended.iter().map(|ended| &ended.json["proof"][0]).collect();
    assert_eq!(verdicts[0]["interface"], "rx0", "{}", verdicts[0]);
    assert!(verdicts[0]["lost_packets"].as_u64() > Some(0), "{}", verdicts[0]);
    for name in ["interface", "complete", "lost_packets", "witnesses"] {
        assert!(verdicts.iter().all(|verdict| verdict[name] == verdicts[0][name]), "{name}: {verdicts:?}");
    }
}

/// Packets of both directions of the flows of a file, by addresses and ports.
fn flows_of(file: &str) -> BTreeMap<Vec<String>, [u64; 2]> {
    let text = std::fs::read_to_string(file).expect("records");
    let mut lines = text.lines();
    let names: Vec<_> = lines.next().expect("a heading").split(',').collect();
    let at =
        |name: &str| names.iter().position(|of| *of == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
    let keys =
        ["sourceIPv4Address", "destinationIPv4Address", "sourceTransportPort", "destinationTransportPort"];
    let (keys, counts) = (keys.map(at), ["packetDeltaCount", "reversePacketDeltaCount"].map(at));
    let mut flows = BTreeMap::new();
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        let key = keys.map(|at| fields[at].to_owned()).to_vec();
        let sums: &mut [u64; 2] = flows.entry(key).or_default();
        counts
            .into_iter()
            .zip(sums)
            .for_each(|(at, sum)| *sum += fields[at].parse::<u64>().expect("a number"));
    }
    flows
}
