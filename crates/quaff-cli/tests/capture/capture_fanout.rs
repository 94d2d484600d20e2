//! Several lanes of one interface: which packets each gets, their start and end, their folders, other groups. Flows,
//! scripts and evidence in them: `capture_fanout_same.rs`.

use crate::support::disk::Disk;
use crate::support::draw::runs;
use crate::support::{
    self, Bench, Ended, PATIENCE, fails, finish, interrupt, lab_bench, ours, run, verify, wait_until_resident,
};
use quaff_file::read::CaptureFile;
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::test_name;
use quaff_wire::decode::Item;
use quaff_wire::pcap::{Resolution, file_header};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

/// Runs of `all_starts_and_stops_add_up` in the test suite, one of each kind; `make soak` does 100.
const RUNS: usize = 6;
/// Packets of each run of `lanes_share_the_packets_of_one_interface`; `make soak` sends 3 M.
const PACKETS: u32 = 100_000;
/// Starts that are interrupted, at moments that cover the time of a start evenly, and a quarter more; `make soak` has
/// 100.
const STARTS: usize = 10;

/// A packet by its content, and its conversation, both directions alike.
type Seen = (Vec<u8>, [u32; 2]);

fn packets(files: &[String]) -> Vec<Seen> {
    let mut all = Vec::new();
    for file in files {
        let mut capture = CaptureFile::open(Path::new(file)).expect("a capture");
        let mut take = |item: Item<'_>| {
            let Item::Frame(frame) = item else { return };
            let word = |at: usize| u32::from_be_bytes(frame.data[at..at + 4].try_into().unwrap());
            if frame.data[12..14] == [8, 0] {
                let mut pair = [word(26), word(30)];
                pair.sort_unstable();
                all.push((frame.data.to_vec(), pair));
            }
        };
        while capture.pull(&mut take).expect("whole blocks") {}
    }
    all
}

fn is_sorted(file: &str) -> bool {
    let (mut times, mut capture) = (Vec::new(), CaptureFile::open(Path::new(file)).expect("a capture"));
    let mut take = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            times.push(frame.time_ns);
        }
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    times.is_sorted()
}

/// A file of `count` UDP packets of 5,000 conversations, in both directions, 30 % of them fragments. Each differs.
fn traffic(bench: &Bench, count: u32) -> String {
    let mut file = file_header(Resolution::Nanoseconds, 65_535, 1).to_vec();
    for number in 0..count {
        let conversation = number % 5000;
        let client = 0x0a00_0000 + conversation;
        let server = 0xc0a8_0000 + conversation % 200;
        let is_back = number / 5000 % 2 == 1;
        let (source, destination) = if is_back { (server, client) } else { (client, server) };
        // The first fragment, the last one, and none: ten numbers, of which three are parts.
        let fragment: u16 = [0x2000, 0x0008, 0x0008, 0, 0, 0, 0, 0, 0, 0][(number / 10_000 % 10) as usize];
        let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 50];
        packet.extend((number as u16).to_be_bytes());
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, 17, 0, 0]);
        packet.extend(source.to_be_bytes());
        packet.extend(destination.to_be_bytes());
        packet.extend([0x10, 0, 0x20, 0, 0, 30, 0, 0]);
        packet.extend(number.to_be_bytes());
        packet.resize(64, 0);
        file.extend((number / 1_000_000 + 1).to_le_bytes());
        file.extend((number % 1_000_000 * 1000).to_le_bytes());
        file.extend([64, 0, 0, 0, 64, 0, 0, 0]);
        file.extend(packet);
    }
    let path = bench.path("traffic.pcap");
    std::fs::write(&path, file).expect("a file");
    path
}

/// Sends a file at `pps`, from the other end of the link.
fn replay(bench: &Bench, file: &str, pps: u32) {
    let mut command = bench.lab.tx.command(support::QUAFF).expect("a command");
    command.args(["replay", file, "-o", "tx0", "--pps", &pps.to_string(), "--json"]);
    let ended = finish(ChildProcess::start(command).expect("quaff runs"));
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
}

/// The parts of the lanes of the first interface.
fn received(ledger: &Value) -> Vec<u64> {
    let lanes = ledger["interfaces"][0]["lanes"].as_array().expect("several lanes");
    lanes.iter().map(|lane| lane["received"].as_u64().expect("a number")).collect()
}

/// Asserts that an ended capture has everything, and lanes that add up.
#[track_caller]
fn assert_adds_up(ended: &Ended, count: u64, lanes: usize) {
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["written"]), (0, &count.into()), "{ledger} {}", ended.stderr);
    assert_eq!(ledger["interfaces"].as_array().map(Vec::len), Some(1), "{ledger}");
    let parts = received(ledger);
    assert_eq!((parts.len(), parts.iter().sum::<u64>()), (lanes, count), "{ledger}");
}

#[test]
fn lanes_share_the_packets_of_one_interface() {
    let given = std::env::var("QUAFF_LANES_PACKETS").ok().and_then(|count| count.parse().ok());
    let count: u32 = given.unwrap_or(PACKETS);
    let ways = [(2, "hash"), (4, "addresses"), (2, "addresses"), (4, "hash")];
    // The first two have each number and each way once.
    let ways = if given.is_some() { &ways[..] } else { &ways[..2] };
    let room = (u64::from(count) * 800).max(1 << 28);
    let bench = lab_bench!(room);
    let (file, dirs) = (traffic(&bench, count), ["d0", "d1", "d2", "d3"].map(|name| bench.path(name)));
    for &(lanes, spread) in ways {
        // A folder for each lane.
        let dirs = &dirs[..lanes];
        dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let single = bench.path("single.pcapng");
        let alone = bench.capture(&["-w", &single, "-f", "udp"]);
        let number = lanes.to_string();
        let mut args = vec!["--lanes", &number, "--spread", spread, "-f", "udp"];
        dirs.iter().for_each(|dir| args.extend(["--dir", dir]));
        let running = bench.capture(&args);
        replay(&bench, &file, 100_000);
        let (ended, alone) = (interrupt(running), interrupt(alone));
        assert_adds_up(&ended, count.into(), lanes);
        assert_eq!(alone.json["written"], count, "{}", alone.json);
        let parts = received(&ended.json);
        assert!(parts.iter().all(|part| *part > u64::from(count) / 10), "each has a share: {parts:?}");
        let of_lanes: Vec<_> = dirs.iter().map(|dir| packets(&ours(dir.as_ref()))).collect();
        let whole = |seen: &&Seen| spread == "addresses" || seen.0[20..22] == [0, 0];
        let mut pairs = BTreeSet::new();
        for lane in &of_lanes {
            let of_lane: BTreeSet<_> = lane.iter().filter(whole).map(|seen| seen.1).collect();
            assert!(pairs.is_disjoint(&of_lane), "{spread} parts a conversation");
            pairs.extend(of_lane);
        }
        let sorted = |mut all: Vec<Seen>| {
            all.sort_unstable();
            all
        };
        let merged = sorted(of_lanes.concat());
        let single = sorted(packets(&[single]));
        assert!(merged == single, "the same packets as of one lane");
        let file = bench.path("merged.pcapng");
        let merge = bench.quaff(&["merge", "-q", "--json", "-w", &file]).args(dirs).output().unwrap();
        let report: Value = serde_json::from_slice(&merge.stdout).expect("JSON");
        assert_eq!((merge.status.code(), &report["sorted"]), (Some(0), &true.into()), "{report}");
        assert!(is_sorted(&file) && sorted(packets(&[file])) == single, "their folders merged");
        dirs.iter().for_each(|dir| std::fs::remove_dir_all(dir).unwrap());
    }
}

/// The packets delivered so far, of all counters in a file.
fn delivered(file: &str) -> Vec<u64> {
    let (mut all, mut capture) = (Vec::new(), CaptureFile::open(Path::new(file)).expect("a capture"));
    let mut take = |item: Item<'_>| {
        if let Item::Statistics(statistics) = item {
            all.push(statistics.usrdeliv.expect("a number"));
        }
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    all
}

#[test]
fn lanes_of_one_file_are_one_interface_in_it() {
    let bench = lab_bench!(1 << 27);
    let (source, file) = (traffic(&bench, 50_000), bench.path("one.pcapng"));
    let running = bench.capture(&["--lanes", "3", "-w", &file]);
    // For so long that a single lane would write counters between its packets.
    replay(&bench, &source, 20_000);
    let ended = interrupt(running);
    assert_adds_up(&ended, 50_000, 3);
    assert_eq!(delivered(&file), [0, 50_000], "counters of one lane are no counters of the interface");
    assert!(ended.stderr.contains("rx0: lanes received "), "{}", ended.stderr);
    let found = verify(&[&file]);
    assert_eq!(found["ledger"]["consistent"], true, "the counters of the file are sums: {found}");
    let info = run(bench.quaff(&["info", "--json"]).arg(&file));
    assert_eq!(info.matches("\"rx0\"").count(), 1, "{info}");
}

/// All packets pass the filter, so that one that comes while lanes open or close is in a lane, or rejected before the
/// start; sums that differ by one packet are a failure of the run.
#[test]
fn all_starts_and_stops_add_up() {
    let bench = lab_bench!(1 << 28);
    let args = "generate --inject rx0 --size 64 --pps 200k --flows 5000 --duration 600s";
    let generator =
        ChildProcess::start(bench.quaff(&args.split(' ').collect::<Vec<_>>())).expect("quaff runs");
    let file = bench.path("short.pcapng");
    for number in 0..runs(RUNS) {
        let (lanes, spread) = [("4", "addresses"), ("2", "hash"), ("3", "cpu")][number % 3];
        let mut args = vec!["--lanes", lanes, "--spread", spread, "-d", "200ms", "-w", &file];
        args.extend(["-f", "udp"].iter().filter(|_| number % 2 == 0));
        let ended = finish(bench.capture(&args));
        let ledger = &ended.json;
        // Under full load the kernel may drop packets before the socket, which is known.
        assert!(ended.code < 2 && ledger["failure"].is_null(), "run {number}: {ledger} {}", ended.stderr);
        assert_eq!(received(ledger).iter().sum::<u64>(), ledger["received"], "run {number}: {ledger}");
        let found = verify(&[&file]);
        assert_eq!(found["received"], ledger["written"], "run {number}: {found}");
        assert!(found["duplicate"].as_u64().unwrap_or(0) == 0, "run {number}: {found}");
    }
    generator.signal(Signal::SIGINT).expect("it runs");
    finish(generator);
}

/// A signal that comes while lanes open ends those that are open, and those that open after it, in full traffic too.
#[test]
fn a_signal_during_the_start_ends_all_lanes() {
    let bench = lab_bench!(1 << 28);
    let args = "generate --inject rx0 --size 64 --pps 200k --flows 5000 --duration 600s";
    let generator =
        ChildProcess::start(bench.quaff(&args.split(' ').collect::<Vec<_>>())).expect("quaff runs");
    let file = bench.path("short.pcapng");
    let lanes = ["--lanes", "8", "--ring", "32M", "--buffer", "64M"];
    let args = [&["capture", "-i", "rx0", "--json", "-w", &file][..], &lanes].concat();
    let start = || ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    // The time of a start, however busy the machine is.
    let begun = Instant::now();
    let mut whole = start();
    assert!(whole.hears("capturing", PATIENCE), "{}", whole.heard);
    let takes = begun.elapsed() * 5 / 4;
    assert!(interrupt(whole).json["failure"].is_null());
    let mut without_ledger = 0;
    let starts = runs(STARTS) as u32;
    for number in 0..starts {
        let running = start();
        std::thread::sleep(takes * number / starts);
        let ended = interrupt(running);
        without_ledger += u32::from(!ended.json["received"].is_u64());
        // The signal may come before the first packet, or before quaff hears any (-1): both have no ledger.
        match ended.json["received"].is_u64() {
            true => {
                assert!(ended.code < 2 && ended.json["failure"].is_null(), "run {number}: {}", ended.json)
            }
            false => assert!(matches!(ended.code, -1 | 2), "run {number}: {} {}", ended.code, ended.stderr),
        }
    }
    assert!((1..starts).contains(&without_ledger), "signals before and after the start: {without_ledger}");
    generator.signal(Signal::SIGINT).expect("it runs");
    finish(generator);
}

#[test]
fn a_disk_that_stands_still_holds_up_one_lane_of_two_and_costs_none_a_packet() {
    const COUNT: u64 = 100_000;
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 29) else { return };
    let Some(disk) = Disk::new(test, 300) else { return };
    let dirs = [bench.path("d0"), disk.file("d1")];
    dirs.iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let args = ["--lanes", "2", "--dir", &dirs[0], "--dir", &dirs[1], "--ring", "32M", "--buffer", "256M"];
    let mut running = bench.capture(&args);
    wait_until_resident(&mut running);
    let frozen = disk.freeze();
    bench.generate(&format!("--size 512 --pps 50000 --flows 1000 --count {COUNT}"));
    drop(frozen);
    let ended = interrupt(running);
    assert_adds_up(&ended, COUNT, 2);
    assert_eq!(ended.json["lossless"], true, "{}", ended.json);
    let stalled = ended.json["write_high_seconds"].as_f64().unwrap();
    assert!(stalled > 1.0, "the disk stood still for {stalled} s only: nothing was tested");
}

#[test]
fn a_link_that_goes_down_and_comes_up_has_all_lanes() {
    let bench = lab_bench!(1 << 27);
    let source = traffic(&bench, 20_000);
    let mut running =
        bench.capture(&["--lanes", "3", "--spread", "addresses", "-w", &bench.path("x.pcapng")]);
    let link = |state: &str| run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", state]));
    replay(&bench, &source, 50_000);
    link("down");
    assert!(running.hears("rx0 is down", PATIENCE), "{}", running.heard);
    link("up");
    assert!(running.hears("rx0 is up again after", PATIENCE), "{}", running.heard);
    replay(&bench, &source, 50_000);
    let ended = interrupt(running);
    assert_adds_up(&ended, 40_000, 3);
    assert_eq!(ended.json["interfaces"][0]["downs"], 1, "{}", ended.json);
    assert_eq!(ended.stderr.matches("rx0 is down").count(), 1, "said once: {}", ended.stderr);
}

#[test]
fn an_interface_that_is_removed_ends_all_its_lanes() {
    let bench = lab_bench!(1 << 27);
    let source = traffic(&bench, 5_000);
    let running = bench.capture(&["--lanes", "2", "-w", &bench.path("x.pcapng")]);
    replay(&bench, &source, 50_000);
    run(bench.lab.rx.command("ip").unwrap().args(["link", "delete", "rx0"]));
    let ended = finish(running);
    assert_eq!((ended.code, &ended.json["written"]), (2, &5_000.into()), "{} {}", ended.json, ended.stderr);
    assert!(ended.json["ended_by"]["interface_gone"].is_string(), "{}", ended.json);
}

/// Each has all packets: no group takes some from another.
#[test]
fn two_captures_with_lanes_have_all_packets_each() {
    let bench = lab_bench!(1 << 27);
    let source = traffic(&bench, 20_000);
    let files = ["one.pcapng", "other.pcapng"].map(|name| bench.path(name));
    let running = files.each_ref().map(|file| bench.capture(&["--lanes", "2", "-w", file]));
    replay(&bench, &source, 50_000);
    running.into_iter().for_each(|running| assert_adds_up(&interrupt(running), 20_000, 2));
}

#[test]
fn spreads_that_part_conversations_are_refused_with_the_reason() {
    let bench = lab_bench!(1 << 20);
    let file = bench.path("x.pcapng");
    let hash = ["--lanes", "2", "--spread", "hash"];
    let refused = |args: &[&str]| fails(&bench, &[args, &hash].concat());
    let decap = refused(&["capture", "-i", "rx0", "-w", &file, "--decap", "auto"]);
    assert!(decap.contains("--decap needs --spread addresses: with hash, fragments"), "{decap}");
    let flows = refused(&["flows", "-i", "rx0"]);
    assert!(flows.contains("flow metering needs --spread addresses"), "{flows}");
    let split = refused(&["split", "-i", "rx0", "--members", "2", "--dry-run"]);
    assert!(split.contains("a split needs --spread addresses"), "{split}");
    let proven = refused(&["capture", "-i", "rx0", "-w", &file, "--prove"]);
    assert!(proven.contains("the evidence of losses needs --spread addresses"), "{proven}");
    let watched = refused(&["verify", "-i", "rx0"]);
    assert!(watched.contains("the evidence of losses needs --spread addresses"), "{watched}");
    let script = bench.path("x.lua");
    std::fs::write(&script, "on('packet', function(packet) end)").expect("a script");
    let scripts = refused(&["streams", "-i", "rx0", "--script", &script]);
    assert!(scripts.contains("a run of scripts needs --spread addresses"), "{scripts}");
    let files = refused(&["verify", "x.pcap"]);
    assert!(files.contains("cannot be used with"), "{files}");
    let read = refused(&["capture", "--read", "x.pcap", "-w", &file]);
    assert!(read.contains("cannot be used with"), "{read}");
    run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", "down"]));
    let wrong = fails(&bench, &["capture", "-i", "rx0", "-w", &file, "--lanes", "65"]);
    assert!(wrong.contains("expected 1 to 64, or 'auto'"), "{wrong}");
}

#[test]
fn a_dry_run_shows_the_lanes() {
    let bench = lab_bench!(1 << 20);
    let args = ["capture", "-i", "rx0", "--dry-run", "--lanes", "2", "--spread", "cpu", "--cpu", "0"];
    let shown = run(&mut bench.quaff(&[&args[..], &["--dir", "/tmp", "--dir", "/"]].concat()));
    assert!(shown.contains("lanes      rx0 lane 0 on core 0, rx0 lane 1 on core 0\n"), "{shown}");
    assert!(
        shown.contains("  rx0 is spread by cpu\n  lane 0 on core 0: what cores n × 2 + 0 receive"),
        "{shown}"
    );
    assert!(shown.contains("\n  /tmp has rx0 lane 0\n  / has rx0 lane 1\n"), "{shown}");
    let json: Value = serde_json::from_str(&run(bench.quaff(&args).arg("--json"))).expect("JSON");
    assert_eq!(json["interfaces"][0]["lanes"].as_array().map(Vec::len), Some(2), "{json}");
    let auto = run(&mut bench.quaff(&["capture", "-i", "rx0", "--dry-run", "--lanes", "auto"]));
    assert!(auto.contains("lanes      rx0\n"), "a link of one queue has one lane: {auto}");
}
