//! Capture by AF_XDP: what the program saw is received or lost at a named place, in the driver and in the stack; the
//! program of another is left alone, and ours never outlives the capture.

use crate::support::{
    self, Bench, Ended, PATIENCE, QUAFF, assert_lossless, bpf_lab, fails, finish, interrupt, run,
    send_by_each_core, set_free_queues, set_queues, tool,
};
use quaff_file::read::CaptureFile;
use quaff_lab::{ChildProcess, LabPlan};
use quaff_os::bpf::{Asm, Program, Reg, Verdict, take_over};
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use quaff_os::{Signal, clock};
use quaff_testkit::test_name;
use quaff_wire::decode::Item;
use quaff_wire::probe::{Classified, classify};
use serde_json::Value;
use std::time::{Duration, Instant};

const WAYS: [&str; 2] = ["xdp", "xdp-generic"];

/// `None` after a skip, also where the kernel permits no BPF.
fn bench(test: &str) -> Option<Bench> {
    bpf_lab(test, &LabPlan::default())?;
    Bench::new(test, 1 << 27)
}

/// Sends from the other end of the link; what reaches the driver of the receiver passes a native program too.
fn send(bench: &Bench, args: &str) -> Value {
    let mut command = bench.lab.tx.command(QUAFF).expect("a command");
    command.args(["generate", "-o", "tx0", "--json"]).args(args.split_whitespace());
    let ended = finish(ChildProcess::start(command).expect("quaff runs"));
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    ended.json
}

/// The ID of the program on the receiving end.
fn program(bench: &Bench) -> Option<u32> {
    bench.lab.rx.run(|| rtnl::link("rx0").expect("a link").xdp_program).expect("a thread")
}

/// Asserts the identity of the program's count, and its parts in the sums; returns the packets lost.
#[track_caller]
fn assert_identity(ended: &Ended, seen: u64) -> u64 {
    let ledger = &ended.json;
    let xdp = &ledger["interfaces"][0]["xdp"];
    let of =
        |field: &str| xdp[field].as_u64().unwrap_or_else(|| panic!("{field}: {ledger} {}", ended.stderr));
    let lost = of("ring_full") + of("fill_empty") + of("dropped") + of("invalid");
    assert_eq!(of("seen"), of("received") + lost + of("passed"), "{ledger}");
    assert_eq!((of("seen"), of("passed"), of("unexplained")), (seen, 0, 0), "{ledger}");
    assert_eq!((&ledger["offered"], &ledger["kernel_dropped"]), (&seen.into(), &lost.into()), "{ledger}");
    assert_eq!(ledger["below_tap"]["rx_dropped"], 0, "{ledger}");
    lost
}

#[test]
fn every_frame_is_captured_in_the_driver_and_in_the_stack() {
    const COUNT: u64 = 10_000;
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("all.pcapng");
    for (via, mode) in WAYS.into_iter().zip(["native, copy", "generic, copy"]) {
        for size in [64, 512, 1500] {
            let begun_ns = clock::wall_ns();
            let running = bench.capture(&["--via", via, "--take-from-host", "-w", &file]);
            assert!(program(&bench).is_some(), "{via}: a program is attached");
            send(&bench, &format!("--size {size} --pps 20000 --count {COUNT}"));
            let ended = interrupt(running);
            // The stamps of frames have a number and a checksum over all bytes.
            assert_lossless(&ended, &file, COUNT);
            assert_eq!(assert_identity(&ended, COUNT), 0);
            assert_eq!(ended.json["interfaces"][0]["xdp"]["mode"], mode, "{}", ended.json);
            assert!(
                ended.stderr.contains("takes all received packets from this machine"),
                "{}",
                ended.stderr
            );
            assert_eq!(program(&bench), None, "{via}: it is gone");
            assert_times(&file, begun_ns);
        }
    }
}

/// The times of all frames rise, and are between the start of the capture and now.
fn assert_times(file: &str, begun_ns: u64) {
    let (mut last_ns, now_ns) = (begun_ns, clock::wall_ns());
    let mut capture = CaptureFile::open(file.as_ref()).expect("a capture");
    let mut take = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        assert!((last_ns..=now_ns).contains(&frame.time_ns), "{} after {last_ns}", frame.time_ns);
        last_ns = frame.time_ns;
    };
    while capture.pull(&mut take).expect("whole blocks") {}
}

/// The numbers of stamped frames, each with the losses recorded before it.
fn numbers(file: &str) -> Vec<(u64, u64)> {
    let (mut found, mut capture) = (Vec::new(), CaptureFile::open(file.as_ref()).expect("a capture"));
    let mut take = |item: Item<'_>| {
        let Item::Frame(frame) = item else { return };
        let Classified::Intact(header) = classify(frame.data, frame.wire_len as usize) else {
            panic!("{:02x?} has no number", frame.data)
        };
        found.push((header.seq, frame.dropcount));
    };
    while capture.pull(&mut take).expect("whole blocks") {}
    found
}

#[test]
fn a_lane_that_stands_still_loses_at_a_known_place_and_to_the_packet() {
    const COUNT: u64 = 100_000;
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("held.pcapng");
    for via in WAYS {
        // 512 chunks, which 50 ms at this rate fill ten times.
        let running = bench.capture(&["--via", via, "--take-from-host", "--ring", "1M", "-w", &file]);
        let pid = running.pid();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(600));
                quaff_os::process::send(pid, Signal::SIGSTOP).expect("it runs");
                std::thread::sleep(Duration::from_millis(50));
                quaff_os::process::send(pid, Signal::SIGCONT).expect("it runs");
            });
            send(&bench, &format!("--size 64 --pps 100000 --count {COUNT}"));
        });
        let ended = interrupt(running);
        let lost = assert_identity(&ended, COUNT);
        let ledger = &ended.json;
        assert!(lost > 1000 && ended.code == 1, "{via}: {lost} lost in 50 ms: {ledger}");
        assert_eq!((&ledger["written"], &ledger["verdict"]), (&(COUNT - lost).into(), &"lossy".into()));
        assert_eq!(ledger["interfaces"][0]["xdp"]["fill_empty"], lost, "{ledger}");
        assert!(ended.stderr.contains("(fill_empty)"), "the cause is named: {}", ended.stderr);
        let found = numbers(&file);
        let recorded: u64 = found.iter().map(|(_, dropped)| dropped).sum();
        assert_eq!(recorded, lost, "{via}: the file has them");
        // The largest loss stands where the numbers are missing, but for frames of one turn of the kernel.
        let (at, dropped) =
            found.iter().enumerate().map(|(at, found)| (at, found.1)).max_by_key(|of| of.1).unwrap();
        let gaps = found.windows(2).enumerate().map(|(at, pair)| (at + 1, pair[1].0 - pair[0].0 - 1));
        let (gap_at, gap) = gaps.max_by_key(|of| of.1).expect("frames");
        assert!(
            at.abs_diff(gap_at) <= 64 && dropped.abs_diff(gap) <= 64,
            "{via}: {at} {dropped} {gap_at} {gap}"
        );
    }
}

/// A program that passes all frames.
fn of_another() -> Program {
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::XdpPass);
    asm.exit();
    Program::load_xdp("of_another", asm).expect("a program")
}

#[test]
fn the_program_of_another_is_named_and_left_alone() {
    let Some(bench) = bench(test_name!()) else { return };
    let attach = || {
        let program = of_another();
        let mut rtnl = Rtnl::open().expect("a socket");
        let index = rtnl.link("rx0").expect("a link").index;
        rtnl.change(index, LinkChange::Xdp(Some(&program))).expect("attached");
    };
    bench.lab.rx.run(attach).expect("a thread");
    let before = program(&bench);
    assert!(before.is_some());
    for via in WAYS {
        let said = fails(
            &bench,
            &["capture", "-i", "rx0", "--via", via, "--take-from-host", "-w", &bench.path("x.pcapng")],
        );
        let id = before.unwrap_or_default();
        assert!(said.contains(&format!("'of_another' with ID {id}")), "{said}");
        assert_eq!(program(&bench), before, "untouched");
    }
}

#[test]
fn the_program_is_gone_after_kill_9() {
    let Some(bench) = bench(test_name!()) else { return };
    for via in WAYS {
        let running = bench.capture(&["--via", via, "--take-from-host", "-w", &bench.path("killed.pcapng")]);
        assert!(program(&bench).is_some());
        running.signal(Signal::SIGKILL).expect("it runs");
        finish(running);
        let begun = Instant::now();
        while program(&bench).is_some() {
            assert!(begun.elapsed() < PATIENCE, "{via}: the program outlives its process");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_filter_is_evaluated_in_the_lane_and_tags_stay_in_frames() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("some.pcapng");
    for via in WAYS {
        let running = bench.capture(&["--via", via, "--take-from-host", "-f", "vlan 7", "-w", &file]);
        send(&bench, "--size 100 --pps 10000 --count 1000");
        send(&bench, "--size 100 --pps 10000 --count 500 --vlan 7");
        let ended = interrupt(running);
        assert_eq!(assert_identity(&ended, 1500), 0);
        let of = |field: &str| ended.json[field].as_u64();
        assert_eq!((of("filtered"), of("written"), ended.code), (Some(1000), Some(500), 0), "{}", ended.json);
        let mut capture = CaptureFile::open(file.as_ref()).expect("a capture");
        let mut take = |item: Item<'_>| {
            let Item::Frame(frame) = item else { return };
            assert_eq!(frame.data[12..16], [0x81, 0, 0, 7], "the tag is where it was sent");
        };
        while capture.pull(&mut take).expect("whole blocks") {}
    }
}

#[test]
fn settings_that_would_lose_packets_are_refused_with_the_way_out() {
    let Some(bench) = bench(test_name!()) else { return };
    let refused = |args: &[&str]| {
        let file = bench.path("refused.pcapng");
        let said = fails(&bench, &[&["capture", "-i", "rx0", "--via", "xdp", "-w", &file], args].concat());
        assert_eq!(program(&bench), None, "nothing was attached: {said}");
        said
    };
    let said = refused(&[]);
    assert!(said.contains("has the address 198.18.0.2") && said.contains("--take-from-host"), "{said}");
    assert!(refused(&["--lanes", "2"]).contains("rx0 has 1 receive queues"), "lanes");
    assert!(refused(&["--spread", "hash", "--lanes", "1"]).contains("--spread"), "spread");
    assert!(refused(&["--hotplug"]).contains("--hotplug"), "hotplug");
    let running = bench.capture(&["--via", "xdp", "--take-from-host", "-w", &bench.path("taken.pcapng")]);
    assert_eq!(interrupt(running).code, 0);
    let mtu = |mtu: &str| {
        support::run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", "mtu", mtu]));
    };
    mtu("9000");
    let said = refused(&["--take-from-host"]);
    assert!(said.contains("MTU of 9000") && said.contains("3802"), "{said}");
}

#[test]
fn a_capture_whose_program_is_detached_or_replaced_ends_and_reports_it() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("displaced.pcapng");
    let (other, args) = (of_another(), "--size 64 --pps 20000 --count 1000");
    let id = other.id().expect("an ID");
    for via in WAYS {
        for by in [None, Some(&other)] {
            let running = bench.capture(&["--via", via, "--take-from-host", "-w", &file]);
            send(&bench, args);
            take_over(program(&bench).expect("a program"), by).expect("taken");
            // The host has these.
            send(&bench, args);
            let ended = finish(running);
            let ledger = &ended.json;
            assert_eq!(assert_identity(&ended, 1000), 0);
            assert_eq!((ended.code, &ledger["verdict"]), (2, &"unknown".into()), "{via}: {ledger}");
            assert_eq!(support::verify(&[&file])["received"], 1000, "{via}: the file is whole");
            let at_ns = ledger["interfaces"][0]["xdp"]["displaced_ns"].as_u64().expect("a time");
            assert!(clock::wall_ns() - at_ns < PATIENCE.as_nanos() as u64, "{ledger}");
            let words = match by {
                None => "another program detached the XDP program of the capture".to_owned(),
                Some(_) => {
                    format!("another program replaced the XDP program of the capture by that with ID {id}")
                }
            };
            assert_eq!(ledger["ended_by"]["failed"], format!("rx0: {words}"), "{ledger}");
            assert!(ended.stderr.contains("had detached or replaced the XDP program"), "{}", ended.stderr);
            assert_eq!(program(&bench), None, "{via}: the link ends with its owner");
        }
        // The capture may end before it has looked.
        let running = bench.capture(&["--via", via, "--take-from-host", "-w", &file]);
        take_over(program(&bench).expect("a program"), None).expect("taken");
        let ended = interrupt(running);
        assert!(ended.code > 0 && ended.json["verdict"] == "unknown", "{via}: {}", ended.json);
    }
}

#[test]
fn a_link_that_goes_down_and_comes_up_is_captured_further_and_each_time_is_counted() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("downs.pcapng");
    let link = |state: &str| {
        run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", state]));
    };
    let wait_for_carrier = || {
        let begun = Instant::now();
        while !bench.lab.tx.run(|| rtnl::link("tx0").expect("a link").running).expect("a thread") {
            assert!(begun.elapsed() < PATIENCE, "tx0 has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for via in WAYS {
        let mut running = bench.capture(&["--via", via, "--take-from-host", "-w", &file]);
        send(&bench, "--size 64 --pps 20000 --count 1000");
        // Shorter than the time between two looks of the lane, so mostly "was down for a moment".
        link("down");
        link("up");
        assert!(running.hears(" down", PATIENCE), "{via}: {}", running.heard);
        wait_for_carrier();
        send(&bench, "--size 64 --pps 20000 --count 1000 --stream 2");
        link("down");
        assert!(running.hears("rx0 is down", PATIENCE), "{via}: {}", running.heard);
        link("up");
        assert!(running.hears("rx0 is up again after", PATIENCE), "{via}: {}", running.heard);
        wait_for_carrier();
        send(&bench, "--size 64 --pps 20000 --count 1000 --stream 3");
        let ended = interrupt(running);
        assert_lossless(&ended, &file, 3000);
        assert_eq!(assert_identity(&ended, 3000), 0);
        let of = &ended.json["interfaces"][0];
        assert!(of["downs"] == 2 && of["down_ns"].as_u64() > Some(0), "{via}: {of}");
    }
}

/// The kernel refuses to take away a queue that has a lane. One that is added has none.
#[test]
fn added_queues_are_reported_and_queues_of_lanes_stay() {
    let test = test_name!();
    let plan = LabPlan { queues: 2, ..LabPlan::default() };
    if bpf_lab(test, &plan).is_none() || tool(test, "ethtool").is_none() {
        return;
    }
    let Some(bench) = Bench::of(test, 1 << 27, &plan) else { return };
    let (rx, tx) = (&bench.lab.rx, &bench.lab.tx);
    for via in WAYS {
        set_free_queues(tx, "tx0 tx 1");
        set_free_queues(rx, "rx0 rx 1");
        let file = bench.path("queues.pcapng");
        let mut running = bench.capture(&["--via", via, "--take-from-host", "-w", &file]);
        send_by_each_core(&bench.lab);
        assert!(set_queues(rx, "rx0 rx 2") && set_queues(tx, "tx0 tx 2"), "a queue more");
        send_by_each_core(&bench.lab);
        let words = "rx0: 1 receive queue was added without a lane";
        assert!(running.hears(words, PATIENCE), "{via}: {}", running.heard);
        let ended = interrupt(running);
        let (ledger, xdp) = (&ended.json, &ended.json["interfaces"][0]["xdp"]);
        // On a veth the driver does not run the program on the second queue, and the stack sees one queue only.
        let (received, code, verdict) = match via {
            "xdp" => (3000, 1, "unknown"),
            _ => (4000, 0, "lossless"),
        };
        assert_eq!((&xdp["seen"], &xdp["received"]), (&received.into(), &received.into()), "{via}: {ledger}");
        assert_eq!((&xdp["added_queues"], &xdp["passed"]), (&1.into(), &0.into()), "{ledger}");
        assert_eq!((ended.code, &ledger["verdict"]), (code, &verdict.into()), "{via}: {ledger}");

        let running = bench.capture(&["--via", via, "--take-from-host", "--lanes", "2", "-w", &file]);
        assert!(set_queues(tx, "tx0 tx 1"));
        assert!(!set_queues(rx, "rx0 rx 1"), "{via}: a queue with a lane cannot be taken away");
        assert!(set_queues(tx, "tx0 tx 2"));
        send_by_each_core(&bench.lab);
        let ended = interrupt(running);
        assert_eq!((ended.code, &ended.json["written"]), (0, &2000.into()), "{via}: {}", ended.json);
    }
}
