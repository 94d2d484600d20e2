//! `quaff tap` between two ends of a lab: every frame passes and is recorded, whatever happens to the recorder, and the
//! ports are as before at the end.

use crate::support::line::{
    A, B, KERNEL, Line, XDP, assert_all, assert_clean, counts, dropcounts, frames, sent, sent_until_now,
};
use crate::support::{PATIENCE, QUAFF, below, finish, interrupt, ours};
use quaff_lab::{ChildProcess, FAR, TX};
use quaff_os::bpf::{Asm, Program, Reg, Verdict};
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_os::testing::assert_when_quiet;
use quaff_os::{Netns, Signal, ethtool, process};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use quaff_wire::pcap::{Resolution, file_header};
use std::time::{Duration, Instant};

#[test]
fn a_recorder_that_hangs_or_is_killed_stops_no_frame() {
    assert_none_stopped(test_name!(), KERNEL);
}

#[test]
fn by_xdp_a_recorder_that_hangs_or_is_killed_stops_no_frame() {
    assert_none_stopped(test_name!(), XDP);
}

fn assert_none_stopped(test: &str, forward: &str) {
    const COUNT: u64 = 100_000;
    let Some(line) = Line::by(test, forward) else { return };
    let before = line.settings();
    let tap = line.tap(&["--forward", forward, "--on-exit", "stop"]);
    let recorder = below(tap.pid()).into_iter().find(|(_, name)| name == "quaff").expect("a recorder").0;
    let ends = [line.end(&line.lab.tx, TX.name, "tx.pcapng"), line.end(line.far(), FAR.name, "far.pcapng")];
    let arrived = line.arrived();
    let senders = line.send_both(COUNT, 40_000);
    for (frames, signal) in [(20_000, Signal::SIGSTOP), (60_000, Signal::SIGCONT), (75_000, Signal::SIGKILL)]
    {
        line.wait_for(arrived, frames);
        process::send(recorder, signal).expect("it runs");
    }
    let ended = finish(tap);
    sent(senders, COUNT);
    ends.into_iter().map(interrupt).for_each(|ended| assert_eq!(ended.code, 0, "{}", ended.json));
    ["tx.pcapng", "far.pcapng"].iter().for_each(|file| assert_all(&line.path(file), COUNT));
    // The line outlives a recorder that was not asked to end.
    assert_eq!((ended.code, &ended.json["still_forwarding"]), (2, &true.into()), "{}", ended.stderr);
    assert!(ended.stderr.contains("killed by signal 9"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("quaff tap --remove {A} {B}")), "{}", ended.stderr);
    assert_ne!(line.settings(), before);
    let removed = finish(line.quaff(line.mid(), &["tap", "--remove", A, B, "--json"]));
    assert_eq!(
        (removed.code, &removed.json["removed"]),
        (0, &serde_json::json!([A, B])),
        "{}",
        removed.stderr
    );
    assert_eq!(line.settings(), before);
}

/// The ring has room for less than what passes while the recorder is stopped.
#[test]
fn by_xdp_frames_that_a_stopped_recorder_misses_pass_and_are_counted() {
    const COUNT: u64 = 120_000;
    let Some(line) = Line::by(test_name!(), XDP) else { return };
    let before = line.settings();
    let tap = line.tap_with("1M", &["--forward", XDP]);
    let recorder = below(tap.pid()).into_iter().find(|(_, name)| name == "quaff").expect("a recorder").0;
    let ends = [line.end(&line.lab.tx, TX.name, "tx.pcapng"), line.end(line.far(), FAR.name, "far.pcapng")];
    let arrived = line.arrived();
    let senders = line.send_both(COUNT, 40_000);
    line.wait_for(arrived, 20_000);
    process::send(recorder, Signal::SIGSTOP).expect("it runs");
    line.wait_for(arrived, 90_000);
    process::send(recorder, Signal::SIGCONT).expect("it runs");
    sent(senders, COUNT);
    ends.into_iter().map(interrupt).for_each(|ended| assert_eq!(ended.code, 0, "{}", ended.json));
    ["tx.pcapng", "far.pcapng"].iter().for_each(|file| assert_all(&line.path(file), COUNT));
    let ended = interrupt(tap);
    assert_eq!((ended.code, &ended.json["lossless"]), (1, &false.into()), "{} {}", ended.json, ended.stderr);
    for direction in ended.json["directions"].as_array().expect("directions") {
        let [received, recorded, lost, forwarded, dropped] = counts(direction);
        assert_eq!((received, forwarded, dropped), (COUNT, COUNT, 0), "{direction}");
        assert_eq!(recorded + lost, COUNT, "{direction}");
        assert!(lost > COUNT / 3 && recorded > COUNT / 8, "{direction}");
    }
    // Each loss has its place in the file.
    let recorded = ours(line.path("rec").as_ref());
    let places: u64 = dropcounts(&recorded[0]).iter().sum();
    let lost: u64 = [0, 1].map(|at: usize| counts(&ended.json["directions"][at])[2]).iter().sum();
    assert_eq!(places, lost, "{}", ended.json);
    assert_eq!(line.settings(), before);
}

#[test]
fn a_tap_that_is_killed_leaves_the_line_and_another_one_takes_it_over() {
    assert_taken_over("a_tap_that_is_killed_leaves_the_line", KERNEL);
}

#[test]
fn by_xdp_a_tap_that_is_killed_leaves_the_line_and_another_one_takes_it_over() {
    assert_taken_over("by_xdp_a_tap_that_is_killed_leaves_the_line", XDP);
}

fn assert_taken_over(test: &str, forward: &str) {
    /// Frames that each end receives before the tap is killed, and with the next one, at least.
    const FRAMES: u64 = 10_000;
    let Some(line) = Line::by(test, forward) else { return };
    let before = line.settings();
    let tap = line.tap(&["--forward", forward]);
    let end = line.end(line.far(), FAR.name, "far.pcapng");
    let arrived = line.arrived();
    let senders = line.send_both_as(["--size 64-1518 --pps 20000"; 2]);
    line.wait_for(arrived, FRAMES);
    let recorder = below(tap.pid())[0].0;
    tap.signal(Signal::SIGKILL).expect("it runs");
    drop(tap);
    // It may stay as a zombie.
    let state = || std::fs::read_to_string(format!("/proc/{recorder}/stat")).unwrap_or_default();
    let killed = Instant::now();
    while !state().is_empty() && !state().contains(") Z") {
        assert!(killed.elapsed() < PATIENCE, "the recorder ends with the tap");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The next one finds the redirect of the same ports, and replaces it.
    let next = line.tap(&["--forward", forward]);
    line.wait_for(line.arrived(), FRAMES);
    let [count, _] = sent_until_now(senders);
    assert_eq!(interrupt(end).code, 0);
    assert_all(&line.path("far.pcapng"), count);
    let ended = interrupt(next);
    let [received, recorded, ..] = counts(&ended.json["directions"][0]);
    assert!(
        ended.code == 0 && received > FRAMES / 2 && received == recorded,
        "{} {}",
        ended.json,
        ended.stderr
    );
    assert_eq!(line.settings(), before, "the first settings are known to the second tap");
}

#[test]
fn a_second_tap_and_remove_are_refused_while_one_runs() {
    for forward in [KERNEL, XDP] {
        let Some(line) = Line::by(test_name!(), forward) else { return };
        let before = line.settings();
        let tap = line.tap(&["--forward", forward]);
        let during = line.settings();
        let other = line.path("other");
        std::fs::create_dir(&other).expect("a folder");
        for args in [
            &["tap", A, B, "--dir", &other][..],
            &["tap", B, A, "--dir", &other],
            &["tap", A, B, "--forward", XDP, "--dir", &other],
            &["tap", "--remove", A, B],
            &["tap", "--remove", B, A],
        ] {
            let refused = finish(line.quaff(line.mid(), args));
            assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
            let words = format!("is a port of a tap that runs by process {}", tap.pid());
            assert!(refused.stderr.contains(&words), "{args:?}: {}", refused.stderr);
        }
        assert_eq!(line.settings(), during);
        sent(line.send_both(1000, 10_000), 1000);
        let ended = interrupt(tap);
        assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
        assert_clean(&ended, 1000);
        assert_eq!(line.settings(), before);
    }
}

#[test]
fn a_redirect_that_another_program_removes_is_restored_and_reported() {
    let Some(line) = Line::new(test_name!()) else { return };
    let before = line.settings();
    let mut tap = line.tap(&[]);
    line.run(&format!("tc qdisc del dev {A} clsact"));
    let words = format!("another program has removed the redirect of {A}; it is restored");
    assert!(tap.hears(&words, PATIENCE), "{}", tap.heard);
    line.run(&format!("tc filter del dev {B} ingress"));
    let words = format!("another program has removed the redirect of {B}; it is restored");
    assert!(tap.hears(&words, PATIENCE), "{}", tap.heard);
    sent(line.send_both(1000, 10_000), 1000);
    let ended = interrupt(tap);
    // No frame was there to be lost, and still the line was cut.
    assert_eq!((ended.code, &ended.json["redirect_removed"]), (1, &2.into()), "{}", ended.stderr);
    assert_clean(&ended, 1000);
    assert_eq!(line.settings(), before);
}

#[test]
fn a_line_that_stays_cut_ends_with_2() {
    let Some(line) = Line::by(test_name!(), XDP) else { return };
    let mut tap = line.tap(&["--forward", XDP]);
    let replace = || {
        let mut asm = Asm::default();
        asm.mov64(Reg::R0, Verdict::XdpPass);
        asm.exit();
        let program = Program::load_xdp("foreign", asm)?;
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(A)?.index;
        rtnl.change(index, LinkChange::ReplaceXdp(&program))
    };
    line.mid().run(replace).expect("entered").expect("replaced");
    assert!(tap.hears("THE LINE IS CUT", PATIENCE), "{}", tap.heard);
    let ended = interrupt(tap);
    assert_eq!(ended.code, 2, "{} {}", ended.json, ended.stderr);
    assert_eq!(ended.stderr.matches("THE LINE IS CUT").count(), 1, "{}", ended.stderr);
}

#[test]
fn the_line_stays_up_when_asked() {
    let Some(line) = Line::new(test_name!()) else { return };
    let before = line.settings();
    let ended = interrupt(line.tap(&["--on-exit", "forward"]));
    assert_eq!((ended.code, &ended.json["still_forwarding"]), (0, &true.into()), "{}", ended.stderr);
    let end = line.end(line.far(), FAR.name, "far.pcapng");
    sent(line.send_both(1000, 10_000), 1000);
    assert_eq!(interrupt(end).code, 0);
    assert_all(&line.path("far.pcapng"), 1000);
    assert_eq!(finish(line.quaff(line.mid(), &["tap", "--remove", A, B])).code, 0);
    assert_eq!(line.settings(), before);
    let again = finish(line.quaff(line.mid(), &["tap", "--remove", A, B]));
    assert!(again.code == 0 && again.stderr.contains("nothing of a tap"), "{}", again.stderr);
}

/// Frames that bridges keep to themselves, and frames that a host would answer, or learn from.
fn special() -> Vec<Vec<u8>> {
    let to = |destination: [u8; 6], rest: &[u8]| {
        let mut frame = [&destination[..], &TX.mac, rest].concat();
        frame.resize(60, 0);
        frame
    };
    let reserved = |last: u8, rest: &[u8]| to([1, 0x80, 0xc2, 0, 0, last], rest);
    let all = [0xff; 6];
    let who_has = |ip: [u8; 4]| {
        let head = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
        to(all, &[&head[..], &TX.mac, &TX.ip.octets(), &[0; 6], &ip].concat())
    };
    let mut solicitation = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 58, 255];
    solicitation.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    solicitation.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    solicitation.extend([133, 0, 0x7b, 0xb7, 0, 0, 0, 0]);
    vec![
        reserved(0, &[0, 38, 0x42, 0x42, 3]),
        reserved(2, &[0x88, 9, 1, 1]),
        reserved(3, &[0x88, 0x8e, 1, 1]),
        reserved(0x0e, &[0x88, 0xcc, 2, 7, 4]),
        to(all, &[0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1]),
        to(all, &[0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 9, 8, 0, 0x45]),
        to(all, &[0x81, 0, 0xe0, 5, 8, 0, 0x45]),
        who_has([198, 18, 0, 9]),
        to([0x33, 0x33, 0, 0, 0, 2], &solicitation),
        to([1, 0, 0x5e, 0, 0, 1], &[8, 0, 0x46, 0, 0, 32, 0, 0, 0, 0, 1, 2]),
    ]
}

#[test]
fn frames_of_every_kind_pass_and_the_host_is_silent() {
    assert_special_pass(test_name!(), KERNEL);
}

#[test]
fn by_xdp_frames_of_every_kind_pass_and_the_host_is_silent() {
    assert_special_pass(test_name!(), XDP);
}

fn assert_special_pass(test: &str, forward: &str) {
    let Some(line) = Line::by(test, forward) else { return };
    // A host that would speak: IPv6 with its announcements.
    for port in [A, B] {
        let path = format!("/proc/sys/net/ipv6/conf/{port}/disable_ipv6");
        if line.mid().run(|| std::fs::write(&path, "0").is_err()).expect("entered") {
            return testing::skip(test, "this kernel has no IPv6");
        }
    }
    let (before, sent_frames) = (line.settings(), special());
    let mut file = file_header(Resolution::Nanoseconds, 65_535, 1).to_vec();
    for frame in &sent_frames {
        file.extend([1, 0, 0, 0, 0, 0, 0, 0, frame.len() as u8, 0, 0, 0, frame.len() as u8, 0, 0, 0]);
        file.extend(frame);
    }
    std::fs::write(line.path("special.pcap"), file).expect("a file");
    let tap = line.tap(&["--forward", forward]);
    let ends = [line.end(&line.lab.tx, TX.name, "tx.pcapng"), line.end(line.far(), FAR.name, "far.pcapng")];
    // Links that come up again make a host announce itself.
    let replay = ["replay", &line.path("special.pcap"), "-o", TX.name, "--pps", "1000", "--json"];
    let replayed = finish(line.quaff(&line.lab.tx, &replay));
    assert_eq!(replayed.code, 0, "{} {}", replayed.json, replayed.stderr);
    std::thread::sleep(Duration::from_secs(2));
    let ends = ends.map(interrupt);
    let ended = interrupt(tap);
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    let count = sent_frames.len() as u64;
    assert_eq!(counts(&ended.json["directions"][0]), [count, count, 0, count, 0], "{}", ended.json);
    assert_eq!(counts(&ended.json["directions"][1]), [0; 5], "{}", ended.json);
    assert_eq!((ends[0].code, ends[1].code), (0, 0));
    assert_eq!(frames(&line.path("far.pcapng"), 0), sent_frames);
    assert!(frames(&line.path("tx.pcapng"), 0).is_empty(), "the host is silent");
    assert_eq!(line.settings(), before);
}

/// The time until an interface has, or lacks, a carrier.
fn time_until(netns: &Netns, interface: &str, has: bool) -> Duration {
    let begun = Instant::now();
    netns
        .run(|| {
            while ethtool::has_carrier(interface).expect("asked") != has {
                assert!(begun.elapsed() < PATIENCE, "{interface}: {has}");
                std::thread::sleep(Duration::from_millis(5));
            }
        })
        .expect("entered");
    begun.elapsed()
}

#[test]
fn a_lost_link_is_handed_on_and_back_within_half_a_second() {
    let test = test_name!();
    let Some(line) = Line::new(test) else { return };
    let before = line.settings();
    let tap = line.tap(&[]);
    let (tx, far) = (&line.lab.tx, line.far());
    for (cut, name, other, other_name) in [(tx, TX.name, far, FAR.name), (far, FAR.name, tx, TX.name)] {
        let measure = || {
            [false, true].map(|up| {
                line.set_up(cut, name, up);
                time_until(other, other_name, up)
            })
        };
        assert_when_quiet(test, measure, |times| times.iter().all(|time| *time < Duration::from_millis(500)));
    }
    // 20 Hz for 1 s.
    for _ in 0..20 {
        line.set_up(tx, TX.name, false);
        std::thread::sleep(Duration::from_millis(25));
        line.set_up(tx, TX.name, true);
        std::thread::sleep(Duration::from_millis(25));
    }
    time_until(far, FAR.name, true);
    time_until(tx, TX.name, true);
    let ended = interrupt(tap);
    assert!(ended.stderr.contains(&format!("{A} has no link: {B} is set down")), "{}", ended.stderr);
    assert_eq!(line.settings(), before);
    // At the end, a port that is set down is up again.
    let tap = line.tap(&[]);
    line.set_up(tx, TX.name, false);
    time_until(far, FAR.name, false);
    interrupt(tap);
    line.set_up(tx, TX.name, true);
    time_until(far, FAR.name, true);
    assert_eq!(line.settings(), before);
}

#[test]
fn settings_are_as_before_after_the_end_and_after_a_failed_start() {
    let Some(line) = Line::new(test_name!()) else { return };
    line.run(&format!("ethtool -K {A} gro on tso on gso on"));
    line.run(&format!("ip link set dev {B} down"));
    let before = line.settings();
    // The recorder has no folder.
    let missing = line.path("missing/folder");
    let failed = finish(line.quaff(line.mid(), &["tap", A, B, "--dir", &missing]));
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert!(failed.stderr.contains("missing"), "{}", failed.stderr);
    assert_eq!(line.settings(), before);
    let tap = line.tap(&[]);
    let during = line.run(&format!("ethtool -k {A}"));
    for feature in ["generic-receive-offload", "tcp-segmentation-offload", "generic-segmentation-offload"] {
        assert!(during.contains(&format!("{feature}: off")), "{during}");
    }
    assert_eq!(interrupt(tap).code, 0);
    assert_eq!(line.settings(), before);
    let dry = finish(line.quaff(line.mid(), &["tap", A, B, "--dir", &line.path("rec"), "--dry-run"]));
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert_eq!(line.settings(), before);
}

/// Attaches a program that passes every frame, as another program would.
fn attach_foreign(port: &str) -> quaff_os::Result<()> {
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, Verdict::TcOk);
    asm.exit();
    let program = Program::load_tc("foreign", asm)?;
    let mut rtnl = Rtnl::open()?;
    let index = rtnl.link(port)?.index;
    rtnl.change(index, LinkChange::Clsact)?;
    rtnl.change(index, LinkChange::OnIngress(&program))
}

#[test]
fn ports_that_others_use_are_refused_and_not_touched() {
    let Some(line) = Line::new(test_name!()) else { return };
    let rec = line.path("rec");
    std::fs::create_dir(&rec).expect("a folder");
    let refused = |ports: [&str; 2], why: &str| {
        let before = line.settings();
        let ended = finish(line.quaff(line.mid(), &["tap", ports[0], ports[1], "--dir", &rec]));
        assert_eq!(ended.code, 2, "{why}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{why}: {}", ended.stderr);
        assert_eq!(line.settings(), before, "{why}");
    };
    refused([A, A], "is given twice");
    refused([A, "lo"], "lo");
    refused([A, "none0"], "none0");
    let cases = [
        ("ip address add 192.0.2.1/24 dev a0", "192.0.2.1/24", "ip address delete 192.0.2.1/24 dev a0"),
        ("ip link set dev b0 mtu 1400", "MTU", "ip link set dev b0 mtu 3000"),
        ("ip link add br7 type bridge", "", "true"),
        ("ip link set dev a0 master br7", "br7", "ip link set dev a0 nomaster"),
        ("ip link add link b0 name b05 type macvlan", "b05", "ip link delete b05"),
        ("tc qdisc add dev b0 clsact", "clsact", "tc qdisc del dev b0 clsact"),
        ("tc qdisc add dev a0 ingress", "ingress", "tc qdisc del dev a0 ingress"),
    ];
    for (make, why, undo) in cases {
        line.run(make);
        if !why.is_empty() {
            refused([A, B], why);
        }
        line.run(undo);
    }
    // A filter of another program.
    line.mid().run(|| attach_foreign(B)).expect("entered").expect("attached");
    refused([A, B], "bpf quaff");
    line.run("tc qdisc del dev b0 clsact");
    let tap = line.tap(&[]);
    assert_eq!(interrupt(tap).code, 0, "now it is not refused");
}

#[test]
fn by_xdp_what_cannot_forward_is_refused_and_nothing_stays() {
    let Some(line) = Line::by(test_name!(), XDP) else { return };
    let rec = line.path("rec");
    let before = line.settings();
    let refused = |forward: &str, why: &str| {
        let ended = finish(line.quaff(line.mid(), &["tap", A, B, "--dir", &rec, "--forward", forward]));
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    };
    let tap = line.tap(&["--forward", XDP, "--on-exit", "forward"]);
    sent(line.send_both(100, 1000), 100);
    assert_eq!(interrupt(tap).code, 0);
    let during = line.settings();
    refused(KERNEL, &format!("by XDP: remove it ('quaff tap --remove {A} {B}')"));
    assert_eq!(line.settings(), during);
    // The line that has stayed has had a recorder, and no other one may read its ring.
    let args = ["capture", "-i", A, "--via", "tap", "-w", &line.path("second.pcapng")];
    let second = finish(line.quaff(line.mid(), &args));
    assert!(second.code == 2 && second.stderr.contains("does not cut the line"), "{}", second.stderr);
    assert_eq!(finish(line.quaff(line.mid(), &["tap", "--remove", A, B])).code, 0);
    assert_eq!(line.settings(), before);
    // The ends of the veths would drop each frame.
    line.set_gro("off");
    let before = line.settings();
    refused(XDP, "gro on");
    assert_eq!(line.settings(), before);
    let alone = finish(line.quaff(line.mid(), &args));
    assert!(alone.code == 2 && alone.stderr.contains("--forward xdp' attaches it"), "{}", alone.stderr);
}

#[test]
fn two_feeds_are_recorded_and_nothing_is_changed() {
    let Some(line) = Line::new(test_name!()) else { return };
    let before = line.settings();
    let tap = line.tap(&["--forward", "none"]);
    // Packet sockets make a port promiscuous without the flag.
    let settings = |text: String| text.replace("promiscuity 1", "promiscuity 0");
    assert_eq!(settings(line.settings()), settings(before.clone()));
    sent(line.send_both(1000, 10_000), 1000);
    let ended = interrupt(tap);
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    for direction in ended.json["directions"].as_array().expect("directions") {
        assert_eq!(
            (&direction["received"], &direction["recorded"]),
            (&1000.into(), &1000.into()),
            "{direction}"
        );
        assert!(direction["forwarded"].is_null() && direction["forward_dropped"].is_null(), "{direction}");
    }
    assert_eq!(line.settings(), before);
}

/// `quaff service --bed tap` in a few seconds: its frames go through a tap that records them, and the report has both
/// sums of each direction.
#[test]
fn a_service_test_goes_through_the_tap_and_has_its_account() {
    const PLAN: &str = "name = 'mine'\ntitle = 'A tap'\npath = 'tap'\nways = 'both'\nlink_mbps = 1000.0\nruns = 1\n\
        [[services]]\nname = 'data'\nsizes = [512]\ncir_mbps = 8.0\n\
        [[tests]]\nperformance = { seconds = 2.0 }\n";
    let test = test_name!();
    let Some(line) = Line::new(test) else { return };
    let plan = line.path("plan.toml");
    std::fs::write(&plan, PLAN).expect("written");
    let mut command = std::process::Command::new(QUAFF);
    command.args(["service", "--json", "--plan", &plan, "--out", &line.path("out")]);
    // The record of the tap is there meanwhile.
    command.current_dir(line.dir.path());
    let ended = finish(ChildProcess::start(command).expect("quaff runs"));
    let report = &ended.json;
    // No frame was lost. Where senders and recorder share two cores the rate may not be reached, which is status 2.
    assert_ne!(ended.code, 1, "{report} {}", ended.stderr);
    let ways = report["tap"].as_array().expect("an account");
    assert_eq!(ways.len(), 2, "{report}");
    for (account, way) in ways.iter().zip(["there", "back"]) {
        let rows = report["performance"].as_array().expect("rows").iter().filter(|row| row["way"] == way);
        let sent: u64 = rows.map(|row| row["figures"]["sent"].as_u64().expect("a number")).sum();
        assert!(sent > 2000, "{sent} {report}");
        let [received, recorded, lost, forwarded, forward_dropped] = counts(account);
        assert_eq!((recorded, lost, forwarded, forward_dropped), (received, 0, received, 0), "{account}");
        // The first frames show whether any arrive.
        assert!((sent + 10..=sent + 30).contains(&received), "{sent} were sent, {account}");
        assert_eq!((&account["way"], &account["unrecorded"]), (&way.into(), &0.into()), "{account}");
    }
    let page = std::fs::read_to_string(line.dir.path().join("out/report.md")).expect("a page");
    for words in ["The tap's own counters", "lost by the recorder", "'quaff tap'"] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let left = line.dir.path().read_dir().expect("a folder").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name != "out" && name != "plan.toml").collect();
    assert!(left.is_empty(), "the record is removed: {left:?}");
}
