//! The buffer between the kernel and the output: all interfaces share it, and none is refused its part.

use crate::support::{Bench, PATIENCE, finish, interrupt, lab_bench, run, verify, wait_until_resident};
use quaff_lab::ChildProcess;
use quaff_os::{Signal, process};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Bytes of a frame in a file beyond its own: Enhanced Packet Block with flags.
const BLOCK_BYTES: u64 = 44;

/// Four more links in the receiving namespace.
const LINKS: [&str; 4] = ["a0", "b0", "c0", "d0"];

fn add_links(bench: &Bench) {
    let ip = |args: &str| {
        let mut command = bench.lab.rx.command("ip").expect("a command in the lab");
        run(command.args(args.split_whitespace()));
    };
    for link in LINKS {
        let peer = link.replace('0', "1");
        ip(&format!("link add {link} type veth peer name {peer}"));
        ip(&format!("link set {link} up"));
        ip(&format!("link set {peer} up"));
    }
}

/// `quaff generate --inject LINK ARGS`, to its end.
fn generate(bench: &Bench, link: &str, args: &str) {
    let mut all = vec!["generate", "--inject", link, "--json"];
    all.extend(args.split_whitespace());
    let ended = finish(ChildProcess::start(bench.quaff(&all)).expect("quaff runs"));
    assert_eq!((ended.code, &ended.json["sent"]), (0, &ended.json["confirmed"]), "{link}: {}", ended.json);
}

#[test]
fn one_link_of_four_may_use_three_quarters_of_the_buffer() {
    const BUFFER_BYTES: u64 = 128 << 20;
    /// Frames of 1500 bytes on the first link.
    const FLOOD: u64 = 65_600;
    /// Frames on each of the others.
    const TRICKLE: u64 = 500;
    const { assert!(FLOOD * (1500 + BLOCK_BYTES) > BUFFER_BYTES * 3 / 4) };
    let bench = lab_bench!(1 << 28);
    add_links(&bench);
    let mut args = vec!["capture", "-f", "udp", "--buffer", "128M", "--ring", "32M", "--flush", "200ms"];
    args.extend(["--json", "-w", "-"]);
    args.extend(LINKS.iter().flat_map(|link| ["-i", *link]));
    // Its stdout is a pipe that is not read until all has been sent.
    let mut command = bench.quaff(&args);
    let mut quaff = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("quaff runs");
    let mut said = BufReader::new(quaff.stderr.take().expect("its stderr")).lines().map_while(Result::ok);
    assert!(said.any(|line| line == "capturing"));
    std::thread::scope(|scope| {
        for (stream, link) in LINKS.iter().enumerate().skip(1) {
            // 2.5 s, and 12 flush intervals.
            let args = format!("--size 200 --count {TRICKLE} --pps 200 --stream {stream}");
            let bench = &bench;
            scope.spawn(move || generate(bench, link, &args));
        }
        generate(&bench, LINKS[0], &format!("--size 1500 --count {FLOOD} --pps 30000 --stream 9"));
    });
    let path = bench.path("four.pcapng");
    let (mut stdout, mut file) = (quaff.stdout.take().expect("its stdout"), File::create(&path).unwrap());
    let reader = std::thread::spawn(move || std::io::copy(&mut stdout, &mut file).unwrap());
    process::send(quaff.id(), Signal::SIGINT).expect("it runs");
    let ledger = said.filter_map(|line| serde_json::from_str::<Value>(&line).ok()).last().expect("a ledger");
    let (code, _) = (quaff.wait().unwrap().code(), reader.join().unwrap());
    assert_eq!((code, &ledger["lossless"]), (Some(0), &true.into()), "{ledger}");
    assert_eq!(ledger["written"], FLOOD + 3 * TRICKLE, "{ledger}");
    let high_buffers = |lane: usize| ledger["interfaces"][lane]["pool_high_buffers"].as_u64().unwrap();
    assert!(high_buffers(0) >= 24, "three quarters of 32: {ledger}");
    // A share of two, although 12 chunks were due.
    assert!((1..4).all(|lane| high_buffers(lane) <= 2), "{ledger}");
    let used_bytes = ledger["buffer_high_bytes"].as_u64().unwrap();
    assert!((BUFFER_BYTES * 3 / 4..=BUFFER_BYTES).contains(&used_bytes), "{ledger}");
    let found = verify(&[&path]);
    assert_eq!((&found["complete"], &found["received"]), (&true.into(), &ledger["written"]), "{found}");
}

#[test]
fn a_split_reports_how_much_of_its_buffer_is_resident() {
    let bench = lab_bench!(1 << 28);
    let dir = bench.path("parts");
    let args = ["split", "-i", "rx0", "--members", "2", "--dir", &dir, "--ring", "16M", "--buffer", "256M"];
    let mut running = ChildProcess::start(bench.quaff(&[&args[..], &["--json"]].concat())).expect("it runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    wait_until_resident(&mut running);
    bench.generate("--size 500 --count 1000 --pps 10000");
    let ended = interrupt(running);
    let of = |field: &str| ended.json[field].as_u64().unwrap_or_else(|| panic!("{field}: {}", ended.json));
    assert_eq!((of("out"), of("resident_bytes")), (1000, 256 << 20), "{}", ended.json);
    assert!((1..16 << 20).contains(&of("buffer_high_bytes")), "{}", ended.json);
    let lane = &ended.json["interfaces"][0];
    assert_eq!(lane["pool_buffers"], 256, "of 1 MiB, for both members: {lane}");
}
