//! `quaff tap` under load: millions of frames of all lengths, a recorder that is killed, stopped or without memory at
//! the highest rate, and the delay that the tap adds. It never judges what the senders could not send. `tap.rs` has the
//! same line at rates that every machine reaches.

use crate::support::line::{A, B, KERNEL, Line, XDP, assert_all, assert_clean, counts, each_frame, sent};
use crate::support::memory::MemoryGroup;
use crate::support::{Ended, PATIENCE, below, finish, interrupt, link_between, ours, run};
use quaff_lab::{ChildProcess, FAR, LabPlan, TX};
use quaff_os::ethtool::{Card, Change};
use quaff_os::testing::assert_when_quiet;
use quaff_os::{Netns, Signal, process};
use quaff_testkit::test_name;
use quaff_wire::decode::Frame;
use quaff_wire::fingerprint::{Mask, content};
use quaff_wire::linktype::ETHERNET;
use quaff_wire::synth::HEADING;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

/// Frames each way of the test of all lengths; `make soak` sends 3 M (QUAFF_TAP_FRAMES).
const FRAMES: u64 = 100_000;
/// Their rate each way, at which two cores send, forward, record, receive and write all of them twice.
const FRAMES_PPS: u64 = 40_000;
/// Frames per second each way while a recorder ends; `make soak` asks for 500,000 (QUAFF_TAP_PPS).
const PPS: u64 = 50_000;
/// Seconds for which a recorder is stopped; 5 in `make soak` (QUAFF_TAP_STOP).
const STOP_SECONDS: u64 = 1;
/// The MTU of jumbo frames.
const JUMBO_MTU: u32 = 9000;
/// The memory of a group in which a recorder has all that it asks for, bytes, until another process takes most of it.
const GROUP_BYTES: u64 = 512 << 20;
/// Frames each way that come while a recorder is stopped, at least, and the ring that has no room for them.
const STOP_FRAMES: u64 = 60_000;
const STOP_RING: &str = "4M";
/// Frames each way of a measurement of the delay.
const PINGS: usize = 2000;
/// The most delay that the tap may add, median.
const DELAY_MAX: Duration = Duration::from_micros(20);

/// A number from the environment.
fn amount(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Prints a figure of a long run.
#[allow(clippy::print_stderr, reason = "`make soak` shows the rates and delays that were reached")]
fn show(figure: &str) {
    eprintln!("{figure}");
}

/// The contents of the frames of an interface of files, in their order.
fn contents(files: &[String], interface: u32) -> Vec<u64> {
    let mut all = Vec::new();
    let mut take = |frame: &Frame<'_>| {
        if frame.interface == interface {
            all.push(content(frame.data, ETHERNET.linktype, &Mask::default()));
        }
    };
    files.iter().for_each(|file| each_frame(file, &mut take));
    all
}

#[test]
fn all_lengths_with_jumbo_frames_pass_whole_in_order_and_are_recorded() {
    let plan = LabPlan { mtu: JUMBO_MTU, ..LabPlan::default() };
    assert_whole("all_lengths_with_jumbo_frames_pass_whole", KERNEL, "quaff-tap-", &plan);
}

/// The largest frames are those of the largest MTU that veth combines with XDP.
#[test]
fn by_xdp_all_lengths_pass_whole_in_order_and_are_recorded() {
    assert_whole("by_xdp_all_lengths_pass_whole", XDP, "prog/xdp", &LabPlan::default());
}

/// Frames of 64 to 1518 bytes, and one of 41 as large as the MTU lets it be. `attached` is the forwarding program, in
/// the settings of a port.
fn assert_whole(test: &str, forward: &str, attached: &str, plan: &LabPlan) {
    let (count, largest) = (amount("QUAFF_TAP_FRAMES", FRAMES), plan.mtu + 14);
    let Some(line) = Line::of(test, forward, plan, count * 4500) else { return };
    let sizes = line.path("sizes");
    std::fs::write(&sizes, format!("{HEADING}\n64-1518 40\n{largest} 1\n")).expect("a file");
    let before = line.settings();
    let tap = line.tap(&["--forward", forward]);
    let during = line.settings();
    assert!(during.contains(attached) && during.contains("PROMISC") && during.contains("NOARP"), "{during}");
    let ends = [line.end(&line.lab.tx, TX.name, "tx.pcapng"), line.end(line.far(), FAR.name, "far.pcapng")];
    let args = format!("--sizes-from {sizes} --size-max {largest} --count {count} --pps {FRAMES_PPS}");
    sent(line.send_both_as([&args, &args]), count);
    let ends = ends.map(interrupt);
    let ended = interrupt(tap);
    assert_eq!((ended.code, &ended.json["lossless"]), (0, &true.into()), "{} {}", ended.json, ended.stderr);
    assert_clean(&ended, count);
    assert_eq!(line.settings(), before);
    let recorded = ours(line.path("rec").as_ref());
    for (ended, file, port) in [(&ends[0], "tx.pcapng", 1), (&ends[1], "far.pcapng", 0)] {
        let file = line.path(file);
        assert_eq!(ended.code, 0, "{}", ended.json);
        // Numbers and checksums of the sender are in each frame.
        assert_all(&file, count);
        let mut longest = 0;
        each_frame(&file, |frame| longest = longest.max(frame.data.len()));
        assert_eq!(longest as u32, largest, "{file}");
        let (end, tap) = (contents(std::slice::from_ref(&file), 0), contents(&recorded, port));
        let differs = end.iter().zip(&tap).position(|(end, tap)| end != tap);
        assert_eq!((end.len(), tap.len(), differs), (tap.len(), count as usize, None), "{file}");
    }
}

#[test]
fn by_xdp_ports_for_jumbo_frames_are_refused_whole_and_nothing_stays() {
    let plan = LabPlan { mtu: JUMBO_MTU, ..LabPlan::default() };
    let Some(line) = Line::of(test_name!(), XDP, &plan, 1 << 20) else {
        return;
    };
    let before = line.settings();
    let args = ["tap", A, B, "--dir", &line.path("rec"), "--forward", XDP];
    let ended = finish(line.quaff(line.mid(), &args));
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("with this MTU (9000)"), "{}", ended.stderr);
    assert_eq!(line.settings(), before);
}

/// An event that ends or stops a recorder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Killed,
    Stopped,
    OutOfMemory,
}

#[test]
fn under_load_a_recorder_that_is_killed_stopped_or_without_memory_stops_no_frame() {
    assert_none_missing("under_load_a_recorder_that_ends_stops_no_frame", KERNEL);
}

#[test]
fn by_xdp_under_load_a_recorder_that_is_killed_stopped_or_without_memory_stops_no_frame() {
    assert_none_missing("by_xdp_under_load_a_recorder_that_ends_stops_no_frame", XDP);
}

/// One line has all faults; each tap but the first takes it over.
fn assert_none_missing(test: &str, forward: &str) {
    let Some(line) = Line::by(test, forward) else { return };
    let before = line.settings();
    for fault in [Fault::Killed, Fault::Stopped, Fault::OutOfMemory] {
        let group = match fault {
            Fault::OutOfMemory => MemoryGroup::new(test, GROUP_BYTES),
            _ => None,
        };
        if fault == Fault::OutOfMemory && group.is_none() {
            break;
        }
        let args = ["--forward", forward, "--ring", STOP_RING, "--buffer", "256M", "--on-exit", "forward"];
        let tap = line.tap_in(group.as_ref(), &args);
        assert_outlived(test, &line, fault, tap, group.as_ref());
        std::fs::remove_dir_all(line.path("rec")).expect("a folder");
    }
    assert_eq!(finish(line.quaff(line.mid(), &["tap", "--remove", A, B])).code, 0);
    assert_eq!(line.settings(), before);
}

/// Every frame that the links of the ends have taken from the senders arrives at the other end, whatever is done to the
/// recorder meanwhile.
fn assert_outlived(test: &str, line: &Line, fault: Fault, tap: ChildProcess, group: Option<&MemoryGroup>) {
    let recorder = below(tap.pid()).into_iter().find(|(_, name)| name == "quaff").expect("a recorder").0;
    let pps = amount("QUAFF_TAP_PPS", PPS);
    let before = line.arrived();
    // Frames are delivered on the core that sends them.
    let other = std::thread::available_parallelism().map_or(0, |cores| cores.get().min(2) - 1);
    let args = [0, other].map(|core| format!("--size 64 --pps {pps} --cpu {core}"));
    let senders = line.send_both_as([&args[0], &args[1]]);
    std::thread::sleep(Duration::from_millis(500));
    match fault {
        Fault::Killed => process::send(recorder, Signal::SIGKILL).expect("it runs"),
        Fault::Stopped => stop(line, recorder),
        Fault::OutOfMemory => group.expect("a group").exhaust(recorder),
    }
    std::thread::sleep(Duration::from_millis(500));
    let sent = senders.map(|sender| taken(&interrupt(sender)));
    let arrived = arrived_since(line, before, sent.map(|(frames, _)| frames));
    let (rates, missing) =
        (sent.map(|(_, pps)| pps), [0, 1].map(|way: usize| sent[way].0 as i64 - arrived[way] as i64));
    show(&format!(
        "{test}: {fault:?} at {rates:.0?} of {pps} frames/s, {arrived:?} arrived, {missing:?} missing"
    ));
    assert_eq!(missing, [0, 0], "{fault:?}");
    let ended = if fault == Fault::Stopped { interrupt(tap) } else { finish(tap) };
    assert_reported(&ended, fault, arrived);
    if let Some(group) = group {
        assert!(group.ended() > 0, "the kernel ended it for its memory");
    }
}

/// Stops a recorder for a time, and until more has passed than its rings hold.
fn stop(line: &Line, recorder: u32) {
    let (time, begun) = (Duration::from_secs(amount("QUAFF_TAP_STOP", STOP_SECONDS)), Instant::now());
    let before = line.arrived();
    process::send(recorder, Signal::SIGSTOP).expect("it runs");
    line.wait_for(before, STOP_FRAMES);
    std::thread::sleep(time.saturating_sub(begun.elapsed()));
    process::send(recorder, Signal::SIGCONT).expect("it runs");
}

/// The frames of a sender that its link has taken, and its rate. Those that the link had no room for never reached the
/// tap.
fn taken(ended: &Ended) -> (u64, f64) {
    let count = |name: &str| ended.json[name].as_u64().unwrap_or_default();
    let (sent, taken) = (count("sent"), count("confirmed"));
    assert!(ended.code < 2 && taken > sent / 2, "{} {}", ended.json, ended.stderr);
    (taken, ended.json["pps"].as_f64().unwrap_or_default())
}

/// The frames that have arrived at the ends, when it is all that were sent or when none has come for a while.
fn arrived_since(line: &Line, before: [u64; 2], sent: [u64; 2]) -> [u64; 2] {
    let since = || {
        let now = line.arrived();
        [now[0] - before[0], now[1] - before[1]]
    };
    let begun = Instant::now();
    while since() != sent && begun.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    since()
}

/// The report of a tap whose recorder ended knows that the line is up; the account of one that was only stopped has
/// every frame.
fn assert_reported(ended: &Ended, fault: Fault, arrived: [u64; 2]) {
    assert_eq!(ended.json["still_forwarding"], true, "{} {}", ended.json, ended.stderr);
    if fault != Fault::Stopped {
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        return assert!(ended.stderr.contains("killed by signal 9"), "{}", ended.stderr);
    }
    assert_eq!(ended.code, 1, "{} {}", ended.json, ended.stderr);
    for (direction, arrived) in ended.json["directions"].as_array().expect("directions").iter().zip(arrived) {
        let [received, recorded, lost, forwarded, dropped] = counts(direction);
        assert_eq!((received, forwarded, dropped), (arrived, arrived, 0), "{direction}");
        assert!(recorded + lost == arrived && lost > 0 && recorded > 0, "{direction}");
    }
}

#[test]
fn the_tap_adds_at_most_twenty_microseconds() {
    assert_added_delay(test_name!(), KERNEL);
}

#[test]
fn by_xdp_the_tap_adds_at_most_twenty_microseconds() {
    assert_added_delay(test_name!(), XDP);
}

/// Against a veth of the same ends without a tap, whose frames take turns with those through it.
fn assert_added_delay(test: &str, forward: &str) {
    const NAMES: [&str; 2] = ["dir0", "dir1"];
    const IPS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 9, 1), Ipv4Addr::new(198, 18, 9, 2)];
    let Some(line) = Line::by(test, forward) else { return };
    let ends = [&line.lab.tx, line.far()];
    link_between([(ends[0], NAMES[0]), (ends[1], NAMES[1])], line.lab.mtu, 9);
    for ((netns, name), ip) in ends.into_iter().zip(NAMES).zip(IPS) {
        netns.run(|| Card::change(name, Change::OffloadsOff)).expect("entered").expect("changed");
        let address = format!("{ip}/24");
        run(netns.command("ip").expect("a command").args(["address", "add", &address, "dev", name]));
    }
    let (direct, through) = (sockets(ends, IPS), sockets(ends, [TX.ip, FAR.ip]));
    let tap = line.tap(&["--forward", forward]);
    let measure = || {
        let added = [0, 1].map(|from| added_delay(&direct, &through, from));
        show(&format!("{test}: {added:?} (direct, through the tap, added)"));
        added
    };
    assert_when_quiet(test, measure, |added| added.iter().all(|[.., added]| *added <= DELAY_MAX));
    let ended = interrupt(tap);
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
}

/// A socket at each end, connected to the other one.
fn sockets(ends: [&Netns; 2], ips: [Ipv4Addr; 2]) -> [UdpSocket; 2] {
    const PORT: u16 = 7;
    let open = |at: usize| {
        let open = || {
            let socket = UdpSocket::bind((ips[at], PORT))?;
            socket.connect((ips[1 - at], PORT))?;
            socket.set_nonblocking(true)?;
            Ok::<_, std::io::Error>(socket)
        };
        ends[at].run(open).expect("entered").expect("a socket")
    };
    [open(0), open(1)]
}

/// The median delays of a frame: direct, through the tap, and their difference.
fn added_delay(direct: &[UdpSocket; 2], through: &[UdpSocket; 2], from: usize) -> [Duration; 3] {
    let mut delays = [Vec::new(), Vec::new()];
    for _ in 0..PINGS {
        for (path, delays) in [direct, through].into_iter().zip(&mut delays) {
            delays.push(crossing(&path[from], &path[1 - from]));
        }
    }
    let [direct, through] = delays.map(|mut delays| {
        delays.sort_unstable();
        delays[PINGS / 2]
    });
    [direct, through, through.saturating_sub(direct)]
}

/// The time from before a frame is sent until after it is received.
fn crossing(from: &UdpSocket, to: &UdpSocket) -> Duration {
    const PAYLOAD: [u8; 56] = [7; 56];
    let mut received = [0; 64];
    let begun = Instant::now();
    from.send(&PAYLOAD).expect("sent");
    loop {
        match to.recv(&mut received) {
            Ok(bytes) => {
                let crossing = begun.elapsed();
                assert_eq!(received[..bytes], PAYLOAD);
                return crossing;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                assert!(begun.elapsed() < PATIENCE, "a frame that does not arrive");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
