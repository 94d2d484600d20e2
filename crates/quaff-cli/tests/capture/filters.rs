//! `-f` has one meaning, that of `tcpdump -r` on the file: with `--read`, and live, where the kernel takes tags off.

use crate::support::{QUAFF, interrupt, lab_bench, run};
use serde_json::Value;
use std::process::Command;

/// Frames of each kind that are sent.
const FRAMES: u64 = 50;
const EXPRESSIONS: [&str; 7] = [
    "udp",
    "not udp",
    "vlan",
    "vlan 5 and udp",
    "vlan 6",
    "ether[12:2] = 0x8100",
    "ether[10:4] & 0xffff = 0x8100",
];

#[test]
fn a_filter_keeps_the_same_frames_live_and_of_a_file() {
    let bench = lab_bench!(1 << 26);
    let file = |name: &str| bench.path(name);
    let names = (0..EXPRESSIONS.len()).map(|at| file(&format!("live-{at}.pcapng"))).collect::<Vec<_>>();
    let start = |(expression, name): (&&str, &String)| bench.capture(&["-f", expression, "-w", name]);
    let running: Vec<_> = EXPRESSIONS.iter().zip(&names).map(start).collect();
    let all = bench.capture(&["-w", &file("all.pcapng")]);
    bench.generate(&format!("--size 100 --count {FRAMES} --pps 5000"));
    bench.generate(&format!("--size 100 --count {FRAMES} --pps 5000 --stream 2 --vlan 5"));
    assert_eq!(interrupt(all).code, 0);
    let read = |expression: &str| {
        let out = file("read.pcapng");
        let text = run(Command::new(QUAFF)
            .args(["capture", "--json", "-f", expression, "-w", &out, "--read"])
            .arg(file("all.pcapng")));
        serde_json::from_str::<Value>(&text).expect("JSON")["written"].as_u64()
    };
    for (running, expression) in running.into_iter().zip(EXPRESSIONS) {
        let live = interrupt(running).json["written"].as_u64();
        assert_eq!(live, read(expression), "{expression}");
        // A stray frame of the system may be there too.
        let least = if ["vlan 6", "not udp"].contains(&expression) { 0 } else { FRAMES };
        assert!(
            live.is_some_and(|live| (least..least + FRAMES).contains(&live) || expression == "not udp"),
            "{expression}: {live:?}"
        );
    }
}
