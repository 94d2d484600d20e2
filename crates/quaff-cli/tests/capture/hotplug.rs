//! `quaff capture --hotplug`: interfaces that come, go and come back while it runs.

use crate::support::{self, Bench, PATIENCE, finish, interrupt, lab_bench, names, run, verify};
use quaff_lab::ChildProcess;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Enough for all packets of a test, and little for the machine.
const RING: &str = "--ring=16M";
const BUFFER: &str = "--buffer=128M";

/// Waits until `words` have been said `count` times.
#[track_caller]
fn hears(running: &mut ChildProcess, words: &str, count: usize) {
    let begun = Instant::now();
    while running.heard.matches(words).count() < count {
        assert!(begun.elapsed() < PATIENCE, "{words} {count} times: {}", running.heard);
        // It says nothing of the kind: what it says otherwise is read meanwhile.
        running.hears("\u{1}", Duration::from_millis(20));
    }
}

/// `quaff generate --inject rx1`, `count` frames of one stream.
fn generate_on_rx1(bench: &Bench, size: u32, count: u64, stream: u64) {
    let args =
        format!("generate --inject rx1 --json --size {size} --count {count} --pps 20000 --stream {stream}");
    let args: Vec<_> = args.split(' ').collect();
    let ended = finish(ChildProcess::start(bench.quaff(&args)).unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

fn delete_rx1(bench: &Bench) {
    run(bench.lab.rx.command("ip").unwrap().args(["link", "delete", "rx1"]));
}

/// A field of all entries of `interfaces[]`.
fn of_all<'a>(ledger: &'a Value, field: &str) -> Vec<&'a Value> {
    ledger["interfaces"].as_array().unwrap().iter().map(|interface| &interface[field]).collect()
}

/// The names in the interface descriptions of a pcapng file.
fn described(path: &str) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut names) = (0, Vec::new());
    while at < bytes.len() {
        // if_name comes first.
        if word(at) == 1 {
            assert_eq!(bytes[at + 16..at + 18], [2, 0]);
            let len = usize::from(u16::from_le_bytes([bytes[at + 18], bytes[at + 19]]));
            names.push(String::from_utf8(bytes[at + 20..at + 20 + len].to_vec()).unwrap());
        }
        at += word(at + 4);
    }
    names
}

#[test]
fn an_interface_that_comes_is_captured_and_so_is_one_that_comes_back() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("all.pcapng");
    let mut running = bench.capture(&["-i", "rx*", "--hotplug=4", RING, BUFFER, "-w", &file]);
    bench.generate("--size 100 --count 1000");
    for turn in 1..=2 {
        bench.add_link();
        hears(&mut running, "rx1 came, and is captured from now on", turn);
        generate_on_rx1(&bench, 100, 500, 8 + turn as u64);
        delete_rx1(&bench);
        hears(&mut running, "rx1 was removed", turn);
    }
    bench.generate("--size 100 --count 1000 --stream 2");
    let ended = interrupt(running);
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["lossless"]), (0, &true.into()), "{ledger} {}", ended.stderr);
    assert_eq!(ledger["written"], 3000, "{ledger}");
    assert_eq!(of_all(ledger, "interface"), ["rx0", "rx1", "rx1"]);
    assert_eq!(of_all(ledger, "packed"), [2000, 500, 500]);
    for field in ["came_ns", "removed_ns"] {
        let has: Vec<_> = of_all(ledger, field).iter().map(|ns| ns.as_u64().unwrap() > 0).collect();
        assert_eq!(has, [false, true, true], "{field}");
    }
    assert_eq!(of_all(ledger, "downs")[0], 0);
    assert!(ended.stderr.contains("rx1 came at 20"), "in the report: {}", ended.stderr);
    // Their sockets were bound inside of the sandbox.
    let sandbox = &ledger["sandbox"];
    assert_eq!((&sandbox["refused_calls"], &sandbox["capabilities"]), (&0.into(), &serde_json::json!([])));
    assert_eq!(described(&file), ["rx0", "rx1", "rx1"]);
    let found = verify(&[&file]);
    assert_eq!((&found["received"], &found["complete"]), (&3000.into(), &true.into()), "{found}");
    assert_eq!(found["ledger"]["consistent"], true, "{found}");
}

#[test]
fn each_file_of_a_folder_proves_itself_with_interfaces_that_come() {
    let bench = lab_bench!(1 << 28);
    let dir = bench.path("d");
    let mut running =
        bench.capture(&["-i", "any", "--hotplug", RING, BUFFER, "--dir", &dir, "--rotate-size", "2M"]);
    bench.generate("--size 1000 --count 3000 --pps 20000");
    let first_has_ended = || names(dir.as_ref()).len() > 1;
    let begun = Instant::now();
    while !first_has_ended() {
        assert!(begun.elapsed() < PATIENCE, "the first file is full");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.add_link();
    hears(&mut running, "rx1 came", 1);
    generate_on_rx1(&bench, 1000, 5000, 9);
    bench.generate("--size 1000 --count 3000 --pps 20000 --stream 2");
    let ended = interrupt(running);
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["written"]), (0, &11_000.into()), "{ledger} {}", ended.stderr);
    let files: Vec<_> = names(dir.as_ref()).into_iter().map(|name| format!("{dir}/{name}")).collect();
    assert!(files.len() > 4, "{files:?}");
    for file in &files {
        let found = verify(&["--from-first", file]);
        assert_eq!(found["ledger"]["consistent"], true, "{file}: {found}");
    }
    assert!(!described(&files[0]).contains(&"rx1".to_owned()), "before its first packet");
    assert!(described(&files[files.len() - 1]).contains(&"rx1".to_owned()), "with its counters");
    let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["received"], &found["complete"]), (&11_000.into(), &true.into()), "{found}");
}

#[test]
fn an_interface_without_a_lane_is_named_and_a_filter_counts_on_one_that_comes() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("one.pcapng");
    let mut running = bench.capture(&["-i", "rx1", "--hotplug=1", RING, BUFFER, "-f", "tcp", "-w", &file]);
    bench.add_link();
    hears(&mut running, "rx1 came, and is captured", 1);
    generate_on_rx1(&bench, 100, 500, 9);
    delete_rx1(&bench);
    hears(&mut running, "rx1 was removed", 1);
    bench.add_link();
    let words = "rx1 came and is not captured: no lane is left; use a larger --hotplug (now 1)";
    hears(&mut running, words, 1);
    let ended = interrupt(running);
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["verdict"]), (1, &"unknown".into()), "{ledger} {}", ended.stderr);
    assert!(ended.stderr.contains(&format!("unknown if lossless: {words}")), "{}", ended.stderr);
    assert_eq!(of_all(ledger, "interface"), ["rx0", "rx1"]);
    assert_eq!((of_all(ledger, "filtered")[1], &ledger["written"]), (&500.into(), &0.into()), "{ledger}");
}

#[test]
fn a_capture_can_begin_without_an_interface() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("later.pcapng");
    let args = ["capture", "-i", "rx1", "--hotplug", RING, BUFFER, "--json", "-w", &file];
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.add_link();
    hears(&mut running, "rx1 came", 1);
    generate_on_rx1(&bench, 100, 500, 9);
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &500.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(described(&file), ["rx1"]);
    let found = verify(&[&file]);
    assert_eq!((&found["received"], &found["complete"]), (&500.into(), &true.into()), "{found}");
}

#[test]
fn contradictions_of_hotplug_are_refused() {
    let bench = lab_bench!(1 << 20);
    let file = bench.path("x");
    for (args, words) in [
        (&["--hotplug", "--format", "pcap"][..], "pcap holds a single interface"),
        (&["--hotplug", "-j", "adapter"], "--hotplug has the kernel's times"),
        (&["--hotplug=0"], "1..=64"),
        (&["--hotplug", "--require-all"], "cannot be used with '--require-all'"),
    ] {
        let said = support::fails(&bench, &[&["capture", "-i", "rx0", "-w", &file][..], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
