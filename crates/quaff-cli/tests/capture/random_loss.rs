//! Losses caused at random places: each time the place, the number and the verdict are right.
//!
//! A run draws the place and the amounts from a seed: `QUAFF_SEED` repeats them, `QUAFF_RUNS` is their number. The
//! ledger is compared with two counts that are not its own: that of the sending side, and the packets in the file.

use crate::support::backlog::{SmallBacklog, has_second_core, spread};
use crate::support::draw::{Draw, runs};
use crate::support::packets::{Packets, packets_in, packets_in_all};
use crate::support::{Bench, Ended, QUAFF, finish, interrupt, ours, run};
use quaff_lab::{ChildProcess, RX, TX};
use quaff_os::Signal;
use quaff_testkit::{Fault, FaultDisk};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TEST: &str = "the_place_the_number_and_the_verdict_of_a_loss_are_right";
/// Runs in the test suite, one for each place; `make soak` does 50.
const RUNS: usize = 5;

/// The place of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ring,
    Backlog,
    /// The ring, while a filter rejects other frames.
    FilterAndRing,
    Buffer,
    Disk,
}

const PLACES: [Place; 5] = [Place::Ring, Place::Backlog, Place::FilterAndRing, Place::Buffer, Place::Disk];

/// A loss, by what the sending side and the files say.
struct Caused {
    ended: Ended,
    /// Frames that arrived at the socket of the capture.
    offered: u64,
    /// Those of them that the filter rejects.
    filtered: u64,
    /// Frames dropped before the socket.
    below: u64,
    found: Packets,
    /// The exit status.
    code: i32,
}

#[test]
fn the_place_the_number_and_the_verdict_of_a_loss_are_right() {
    let Some(bench) = Bench::new(TEST, 1 << 29) else { return };
    let mut draw = Draw::new();
    let mut places = Vec::new();
    let runs = runs(RUNS);
    while places.len() < runs {
        places.extend(draw.shuffled(&PLACES));
    }
    for (number, place) in places.into_iter().take(runs).enumerate() {
        let dir = bench.dir.path().join(format!("run-{number}"));
        std::fs::create_dir(&dir).unwrap();
        let what = format!("run {number}, {place:?}");
        let caused = match place {
            Place::Ring => in_ring(&bench, &dir, &mut draw, false),
            Place::FilterAndRing => in_ring(&bench, &dir, &mut draw, true),
            Place::Backlog => in_backlog(&bench, &dir, &mut draw),
            Place::Buffer => in_buffer(&bench, &dir, &mut draw),
            Place::Disk => on_disk(&bench, &dir, &mut draw),
        };
        if let Some(caused) = caused {
            check(&what, place, &caused);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// Compares the ledger with what was caused.
fn check(what: &str, place: Place, caused: &Caused) {
    let Caused { ended, offered, filtered, below, found, code } = caused;
    let ledger = &ended.json;
    let of = |field: &str| ledger[field].as_u64().unwrap_or_else(|| panic!("{what}: {field}: {ledger}"));
    let lost = offered - filtered - found.count;
    assert!(lost + below > 0, "{what}: nothing was lost: {ledger}");
    assert_eq!(
        (of("offered"), of("filtered"), of("written")),
        (*offered, *filtered, found.count),
        "{what}: {ledger}"
    );
    for (term, its_place) in [
        ("nic_dropped", None),
        ("kernel_dropped", Some(Place::Ring)),
        ("lost_in_buffer", Some(Place::Buffer)),
        ("lost_on_disk", Some(Place::Disk)),
    ] {
        let in_ring = place == Place::FilterAndRing && its_place == Some(Place::Ring);
        let expected = if its_place == Some(place) || in_ring { lost } else { 0 };
        assert_eq!(of(term), expected, "{what}: {term}: {ledger}");
    }
    assert_eq!(ledger["below_tap"]["rx_dropped"].as_u64(), Some(*below), "{what}: {ledger}");
    assert_eq!(
        (&ledger["verdict"], &ledger["lossless"], ended.code),
        (&"lossy".into(), &false.into(), *code),
        "{what}: {ledger} {}",
        ended.stderr
    );
    // What is lost before a packet that follows is recorded with it.
    let recorded = if place == Place::Disk { 0 } else { lost };
    assert_eq!(found.dropped, recorded, "{what}: {ledger}");
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Frames sent, by the generator's own count, which the interface has confirmed.
fn sent(bench: &Bench, size: u64, count: u64, pps: u64, stream: u16) -> u64 {
    let report = bench.generate(&format!("--size {size} --count {count} --pps {pps} --stream {stream}"));
    report["sent"].as_u64().expect("a number")
}

/// The capture is held while more arrives than its ring of 16 MiB takes.
fn in_ring(bench: &Bench, dir: &Path, draw: &mut Draw, is_filtered: bool) -> Option<Caused> {
    let file = path(dir, "held.pcapng");
    let size = draw.between(300, 1400);
    // A frame takes less than this of the ring: the headers of the kernel, and an alignment of 16.
    let flood = (16 << 20) / size * draw.between(120, 250) / 100;
    let filter = if is_filtered { &["-f", "not udp src port 9"][..] } else { &[] };
    let running = bench.capture(&[&["-w", &file, "--ring", "16M"][..], filter].concat());
    let (mut offered, mut filtered) = (0, 0);
    let mut send = |draw: &mut Draw, stream: u16, count: u64| {
        offered += sent(bench, size, count, 100_000, stream);
        if is_filtered {
            filtered += sent(bench, 100, draw.between(1, 2000), 100_000, 9);
        }
    };
    let before = draw.between(1, 5000);
    send(draw, 1, before);
    std::thread::sleep(Duration::from_millis(draw.between(0, 500)));
    running.signal(Signal::SIGSTOP).expect("it runs");
    send(draw, 2, flood);
    std::thread::sleep(Duration::from_millis(draw.between(0, 700)));
    running.signal(Signal::SIGCONT).expect("it runs");
    // The ring has room again when the next packet arrives, which records the loss.
    std::thread::sleep(Duration::from_millis(1500));
    let after = draw.between(1, 5000);
    send(draw, 3, after);
    let ended = interrupt(running);
    Some(Caused { ended, offered: offered + filtered, filtered, below: 0, found: packets_in(&file), code: 1 })
}

/// The backlog of another core overflows, and the sending veth counts the frames that its peer did not take.
fn in_backlog(bench: &Bench, dir: &Path, draw: &mut Draw) -> Option<Caused> {
    if !has_second_core(TEST) {
        return None;
    }
    let file = path(dir, "starved.pcapng");
    let count = draw.between(50_000, 300_000).to_string();
    spread(bench, 2);
    let stats = |end| bench.lab.stats(end).expect("counters");
    let (before, rx_before) = (stats(TX), stats(RX).rx_dropped);
    let running = bench.capture(&["-w", &file]);
    {
        let _small = SmallBacklog::new();
        let mut generate = bench.lab.tx.command(QUAFF).expect("a command");
        generate.args(["generate", "-o", "tx0", "--size", "64", "--count", &count, "--cpu", "0"]);
        // The sender notices the drops too, so its exit status is of no interest.
        finish(ChildProcess::start(generate).expect("quaff runs"));
    }
    let ended = interrupt(running);
    spread(bench, 0);
    let (after, rx_after) = (stats(TX), stats(RX).rx_dropped);
    let below = after.tx_dropped - before.tx_dropped;
    assert_eq!(rx_after - rx_before, below, "both ends of the link count the same frames");
    let offered = after.tx_packets - before.tx_packets;
    Some(Caused { ended, offered, filtered: 0, below, found: packets_in(&file), code: 1 })
}

/// The reader of a pipe takes nothing until more has arrived than the buffer of 16 MiB, the pipe, and the part of the
/// ring that may fill hold together.
fn in_buffer(bench: &Bench, dir: &Path, draw: &mut Draw) -> Option<Caused> {
    let [pipe, gate, copy] = ["pipe", "gate", "copy.pcapng"].map(|name| path(dir, name));
    run(Command::new("mkfifo").arg(&pipe));
    let mut shell = Command::new("sh");
    let wait = format!("exec 3<'{pipe}'; until [ -e '{gate}' ]; do sleep 0.05; done");
    shell.args(["-c", &format!("{wait}; exec cat <&3 >'{copy}'")]);
    let reading = ChildProcess::start(shell).expect("sh runs");
    let running = bench.capture(&["-w", &pipe, "--ring", "64M", "--buffer", "16M"]);
    let size = draw.between(800, 1400);
    let count = (64 << 20) / size * draw.between(105, 150) / 100;
    let mut offered = sent(bench, size, count, 25_000, 1);
    std::fs::write(&gate, "").unwrap();
    // The buffer has room again when the next packet arrives, which records the loss.
    std::thread::sleep(Duration::from_millis(1500));
    offered += sent(bench, size, draw.between(1, 3000), 25_000, 2);
    let ended = interrupt(running);
    finish(reading);
    Some(Caused { ended, offered, filtered: 0, below: 0, found: packets_in(&copy), code: 1 })
}

/// Writes fail: into one file for good, or into a folder of pcap, which then loses only what was in flight.
fn on_disk(bench: &Bench, dir: &Path, draw: &mut Draw) -> Option<Caused> {
    let disk = FaultDisk::mount(TEST, dir)?;
    let (size, count) = (draw.between(500, 1400), draw.between(15_000, 30_000));
    let after_bytes = draw.between(1, size * count / (1 << 20) * 3 / 4) << 20;
    let forever = Fault::Full { after_bytes, lasts: Duration::MAX };
    let bad = Fault::BadBlocks { after_bytes, files: 1 };
    let seen = disk.path().display().to_string();
    let file = format!("{seen}/x.pcapng");
    let in_place = ["-w", &file];
    let folder = ["--dir", &seen, "--rotate-size", "8M", "--format", "pcap"];
    let ways = [(&in_place[..], forever, 1), (&in_place[..], bad, 2), (&folder[..], bad, 1)];
    let (args, fault, code) = draw.one_of(&ways);
    let running = bench.capture(args);
    // All packets are in memory when the disk answers again: the end of a capture of one file loses none of them.
    let held = disk.hold();
    let offered = sent(bench, size, count, 25_000, 1);
    disk.plan(fault);
    drop(held);
    let ended = if args[0] == "-w" { finish(running) } else { interrupt(running) };
    let found = packets_in_all(&ours(disk.real()));
    // An output that took no packet has failed: the first write may be the one that does not fit.
    let code = if found.count == 0 { 2 } else { code };
    Some(Caused { ended, offered, filtered: 0, below: 0, found, code })
}
