//! Changes of an interface, and of its groups, by others while several lanes of AF_PACKET capture from it: the capture
//! continues, and has all packets. Links that go down or away are in `capture_fanout`, AF_XDP is in `capture_xdp`.

use crate::support::{
    Bench, Ended, PATIENCE, QUAFF, finish, interrupt, lab_bench, run, send_by_each_core, set_queues, tool,
};
use quaff_lab::{ChildProcess, LabPlan};
use quaff_os::Signal;
use quaff_os::testing::assert_when_quiet;
use quaff_testkit::test_name;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Asks for the numbers of the last groups of the namespace, with two sets of flags, and stays in the groups that
/// accept it. Reports how many refused.
const INTRUDER: &str = "
import socket, struct, sys
def join(group, mode):
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    one.bind(('rx0', 3))
    one.setsockopt(263, 18, struct.pack('=HH', group, mode))
    return one
kept = [join(0, 0x2000)]
(group, _) = struct.unpack('=HH', kept[0].getsockopt(263, 18, 4))
refused = 0
for before in range(1, 65):
    for mode in (0, 0x4000):
        try:
            kept.append(join((group - before) % 65536, mode))
        except OSError:
            refused += 1
print('refused', refused, file=sys.stderr, flush=True)
sys.stdin.read()
";

/// Asserts that an ended capture has `count` packets, all of them.
#[track_caller]
fn assert_has_all(ended: &Ended, count: u64) {
    let ledger = &ended.json;
    assert_eq!((ended.code, &ledger["written"]), (0, &count.into()), "{ledger} {}", ended.stderr);
    assert_eq!(ledger["interfaces"][0]["lanes"].as_array().map(Vec::len), Some(2), "{ledger}");
}

#[test]
fn another_program_with_the_same_group_number_takes_no_packets() {
    let test = test_name!();
    let (Some(bench), Some(_)) = (Bench::new(test, 1 << 27), tool(test, "python3")) else { return };
    let running = bench.capture(&["--lanes", "2", "--spread", "hash", "-w", &bench.path("x.pcapng")]);
    let mut command = bench.lab.rx.command("python3").expect("a command");
    command.args(["-c", INTRUDER]).stdin(Stdio::piped());
    let mut intruder = ChildProcess::start(command).expect("python3 runs");
    assert!(intruder.hears("refused", PATIENCE), "{}", intruder.heard);
    let refused = intruder.heard.trim().rsplit(' ').next().and_then(|count| count.parse::<u32>().ok());
    let args =
        ["generate", "-o", "tx0", "--size", "64", "--flows", "1000", "--pps", "50000", "--count", "20000"];
    run(bench.lab.tx.command(QUAFF).expect("a command").args(args));
    assert_has_all(&interrupt(running), 20_000);
    // Groups that the intruder made refuse its second flags; that of the capture refuses both.
    assert_eq!(refused, Some(63 + 2), "{}", intruder.heard);
    intruder.signal(Signal::SIGKILL).expect("it runs");
    finish(intruder);
}

#[test]
fn lanes_have_all_packets_when_the_number_of_queues_changes() {
    let test = test_name!();
    if tool(test, "ethtool").is_none() {
        return;
    }
    let Some(bench) = Bench::of(test, 1 << 27, &LabPlan { queues: 2, ..LabPlan::default() }) else { return };
    let (rx, tx) = (&bench.lab.rx, &bench.lab.tx);
    for spread in ["queue", "hash"] {
        let running = bench.capture(&["--lanes", "2", "--spread", spread, "-w", &bench.path("x.pcapng")]);
        send_by_each_core(&bench.lab);
        assert!(set_queues(tx, "tx0 tx 1") && set_queues(rx, "rx0 rx 1"), "one queue");
        send_by_each_core(&bench.lab);
        assert!(set_queues(rx, "rx0 rx 2") && set_queues(tx, "tx0 tx 2"), "two again");
        send_by_each_core(&bench.lab);
        assert_has_all(&interrupt(running), 6000);
    }
}

/// Two places report how long a link was down, and both measure the same.
#[test]
fn the_time_that_a_link_was_down_is_right_and_the_same_everywhere() {
    let test = test_name!();
    let bench = lab_bench!(1 << 27);
    let link = |state: &str| run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", state]));
    let seconds = |text: &str, before: &str| {
        let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} in {text}")).1;
        rest.trim_start().split(' ').next().and_then(|word| word.parse::<f64>().ok()).expect("seconds")
    };
    let measure = || {
        let mut running = bench.capture(&["-w", &bench.path("down.pcapng")]);
        let begun = Instant::now();
        link("down");
        std::thread::sleep(Duration::from_millis(400));
        link("up");
        let real = begun.elapsed().as_secs_f64();
        assert!(running.hears("rx0 was down for", PATIENCE) || running.hears("up again", PATIENCE));
        let ended = interrupt(running);
        let heard = ended.stderr.as_str();
        let of_line = match heard.contains("up again after") {
            true => seconds(heard, "rx0 is up again after"),
            false => seconds(heard, "rx0 was down for"),
        };
        let of_report = seconds(heard, "rx0 was down once,");
        assert_eq!(of_line, of_report, "{heard}");
        let down_ns = ended.json["interfaces"][0]["down_ns"].as_u64().expect("a number");
        assert!((down_ns as f64 / 1e9 - of_report).abs() < 0.051, "{heard} {down_ns}");
        (real, of_report)
    };
    assert_when_quiet(test, measure, |(real, of_report)| (of_report - real).abs() < 0.15);
}

#[test]
fn frames_that_fit_an_mtu_that_was_raised_meanwhile_are_not_too_large() {
    let bench = lab_bench!(1 << 27);
    let running = bench.capture(&["-w", &bench.path("mtu.pcapng")]);
    for (netns, name) in [(&bench.lab.rx, "rx0"), (&bench.lab.tx, "tx0")] {
        run(netns.command("ip").unwrap().args(["link", "set", "dev", name, "mtu", "4000"]));
    }
    let send = ["generate", "-o", "tx0", "--size", "3000", "--pps", "1000", "--count", "1000"];
    run(bench.lab.tx.command(QUAFF).expect("a command").args(send));
    let ended = interrupt(running);
    let lane = &ended.json["interfaces"][0];
    assert_eq!((&lane["received"], &lane["oversize"]), (&1000.into(), &0.into()), "{lane} {}", ended.stderr);
    assert!(!ended.stderr.contains("larger than the MTU"), "{}", ended.stderr);
}
