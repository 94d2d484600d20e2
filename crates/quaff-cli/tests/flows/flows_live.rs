//! `quaff flows` and `quaff nprobe` on an interface: no packet is lost, each is in one count, and a slow sink costs its
//! own records only.

use crate::support::{self, Bench, Ended, PATIENCE, interrupt, lab_bench, run};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use serde_json::Value;
use std::fs::File;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// The template of tcpreplay's how-to on IP flow appliances.
const HOW_TO: &str = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %IPV4_NEXT_HOP %INPUT_SNMP \
%OUTPUT_SNMP %IN_PKTS %IN_BYTES %FIRST_SWITCHED %LAST_SWITCHED %L4_SRC_PORT \
%L4_DST_PORT %TCP_FLAGS %PROTOCOL %SRC_TOS %SRC_AS %DST_AS %IPV4_SRC_MASK \
%IPV4_DST_MASK";

/// `quaff ARGS` in the receiving namespace, ready for the first packet.
fn start(bench: &Bench, args: &[&str]) -> ChildProcess {
    let mut running = ChildProcess::start(bench.quaff(args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    running
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The ledger of a run that kept every packet.
#[track_caller]
fn whole(ended: &Ended, count: u64) -> &Value {
    let ledger = &ended.json;
    assert_eq!((number(ledger, "packets"), number(ledger, "kernel_dropped")), (count, 0), "{ledger}");
    let counted = number(ledger, "packets_in_flows") + number(ledger, "packets_ignored");
    assert_eq!((counted, &ledger["failure"]), (count, &Value::Null), "{ledger}");
    ledger
}

#[test]
fn every_packet_of_an_interface_is_in_a_flow_and_every_record_in_the_file() {
    let bench = lab_bench!(64 << 20);
    let file = bench.path("flows.json");
    let args = ["flows", "-i", "rx0", "--jsonl", &file, "--ledger", "-", "--idle", "200ms"];
    let running = start(&bench, &args);
    bench.generate("--size 100 --count 30000 --pps 20000 --flows 300");
    // With nothing to receive, the clock of the machine ends them.
    std::thread::sleep(Duration::from_secs(1));
    let ended = interrupt(running);
    let ledger = whole(&ended, 30_000);
    assert_eq!((ended.code, &ledger["lossless"]), (0, &true.into()), "{ledger} {}", ended.stderr);
    assert_eq!((number(ledger, "packets_ignored"), number(ledger, "flows_high")), (0, 300), "{ledger}");
    assert_eq!(number(&ledger["ended"], "forced"), 0, "flows ended while nothing came: {ledger}");
    let text = std::fs::read_to_string(&file).expect("records");
    let packets = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect(line);
        number(&record, "packetDeltaCount") + record["reversePacketDeltaCount"].as_u64().unwrap_or(0)
    });
    assert_eq!(packets.sum::<u64>(), 30_000);
}

#[test]
fn a_sink_that_stands_still_misses_records_and_costs_no_packet() {
    let bench = lab_bench!(64 << 20);
    let pipe = bench.path("pipe");
    run(Command::new("mkfifo").arg(&pipe));
    let path = pipe.clone();
    // Opened for reading, and not read until the end.
    let reader = std::thread::spawn(move || File::open(path).expect("the pipe"));
    let file = bench.path("flows.csv");
    let args = [
        "flows", "-i", "rx0", "--jsonl", &pipe, "--csv", &file, "--ledger", "-", "--idle", "50ms", "--queue",
        "20000",
    ];
    let running = start(&bench, &args);
    let reader = reader.join().expect("a reader");
    bench.generate("--size 100 --count 60000 --pps 30000 --flows 20000");
    std::thread::sleep(Duration::from_secs(1));
    running.signal(Signal::SIGINT).expect("it runs");
    std::thread::sleep(Duration::from_millis(200));
    drop(reader);
    let ended = support::finish(running);
    let ledger = whole(&ended, 60_000);
    assert_eq!((ended.code, &ledger["verdict"]), (1, &"lossy".into()), "{ledger}");
    let sinks = ledger["sinks"].as_array().expect("sinks");
    let missed = |sink: &Value| {
        let reasons = sink["missed"].as_object().expect("reasons").values();
        reasons.map(|reason| number(reason, "packets")).sum::<u64>()
    };
    let sent = |sink: &Value| number(&sink["sent"], "packets");
    for sink in sinks {
        assert_eq!(sent(sink) + missed(sink), number(ledger, "packets_in_flows"), "{ledger}");
    }
    assert!(missed(&sinks[0]) > 0, "{ledger}");
    assert_eq!((sinks[1]["name"].as_str(), missed(&sinks[1])), (Some(file.as_str()), 0), "{ledger}");
}

#[test]
fn the_command_of_the_how_to_runs_as_it_stands() {
    let bench = lab_bench!(64 << 20);
    let socket =
        bench.lab.rx.run(|| UdpSocket::bind("127.0.0.1:2055")).expect("the namespace").expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let running = start(&bench, &["nprobe", "-T", HOW_TO, "-i", "rx0"]);
    bench.generate("--size 100 --count 10000 --pps 10000 --flows 100");
    std::thread::sleep(Duration::from_millis(500));
    running.signal(Signal::SIGINT).expect("it runs");
    let mut message = [0; 2000];
    let bytes = socket.recv(&mut message).expect("a message");
    assert!(bytes >= 20 && message[..2] == [0, 9], "NetFlow v9");
    let done = running.finish(PATIENCE).expect("it ends");
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{text} {}", done.stderr);
    for words in [
        "Capturing packets from interface rx0",
        "Processed packets: 10000 (max bucket search: ",
        "Flow drops: [export queue too long=0][too many flows=0]",
        "Total flow stats:  [860000 bytes][10000 pkts][100 flows]",
        "Packet stats (pcap): 10000/0 pkts rcvd/dropped [0.0%] [Last 10000/0 pkts rcvd/dropped]",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
    assert!(!text.contains("Unable to locate"), "{text}");
}
