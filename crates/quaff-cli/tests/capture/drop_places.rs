//! Packets dropped on their way to or from an interface: below a bridge, a macvlan, a VLAN or a bond, by filters of
//! tc(8), by XDP programs, and in queueing disciplines. Each is called by its name, with its number.

use crate::support::backlog::{self, SmallBacklog, flood, overflow};
use crate::support::{Bench, Ended, PATIENCE, QUAFF, finish, interrupt, run};
use quaff_lab::{ChildProcess, RX, TX};
use quaff_os::bpf::{Asm, Program, Reg, Verdict};
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use quaff_wire::format::count;
use serde_json::Value;

/// `TC_ACT_SHOT` (linux/pkt_cls.h).
const TC_ACT_SHOT: i32 = 2;

/// `quaff capture -i INTERFACE`, ready for the first packet.
fn capture(bench: &Bench, interface: &str) -> ChildProcess {
    let file = bench.path("all.pcapng");
    let args = ["capture", "-i", interface, "--buffer", "256M", "--json", "-w", &file];
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    running
}

/// Frames from tx0, few enough for every backlog.
fn send_slowly(bench: &Bench, count: u64) {
    let mut generate = bench.lab.tx.command(QUAFF).expect("a command");
    generate.args(["generate", "-o", "tx0", "--pps", "10k", "--count", &count.to_string()]);
    run(&mut generate);
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

fn notes(ended: &Ended) -> Vec<&str> {
    ended.json["notes"].as_array().expect("notes").iter().filter_map(Value::as_str).collect()
}

/// Asserts the verdict and its reason, which begins with `reason`.
#[track_caller]
fn assert_unknown(ended: &Ended, reason: &str) {
    let report = &ended.json;
    assert_eq!((ended.code, &report["verdict"]), (1, &"unknown".into()), "{report} {}", ended.stderr);
    assert_eq!(report["below_tap"]["rx_dropped"], 0, "{report}");
    assert!(notes(ended).iter().any(|note| note.starts_with(reason)), "{reason}: {report}");
    assert!(ended.stderr.contains(&format!("unknown if lossless: {reason}")), "{}", ended.stderr);
}

/// Makes an interface above rx0 by commands of ip(8); `false` where the kernel cannot.
fn make(bench: &Bench, script: &str) -> bool {
    let mut sh = bench.lab.rx.command("sh").expect("a command");
    sh.args(["-ec", script]).output().expect("sh runs").status.success()
}

/// Captures `upper`, which `script` makes, while the backlog of rx0 below it overflows.
fn flood_below(test: &str, upper: &str, kind: &str, script: &str) {
    let Some(bench) = backlog::bench(test) else { return };
    if !make(&bench, script) {
        return testing::skip(test, &format!("this kernel makes no {kind} interface"));
    }
    let (ended, dropped) = flood(&bench, || capture(&bench, upper));
    assert!(dropped > 0, "the backlog did not overflow");
    let packets = count(dropped);
    let reason = format!(
        "{packets} packets were dropped on rx0, which is below {upper} (rx_dropped by {packets}): they need not be of \
         this capture: raise net.core.netdev_max_backlog"
    );
    assert_unknown(&ended, &reason);
    let report = &ended.json;
    assert_eq!(report["below_tap"]["lower_dropped"], dropped, "{report}");
    assert_eq!(report["interfaces"][0]["lower_counters"]["rx0 rx_dropped"], dropped, "{report}");
}

#[test]
fn drops_on_a_port_of_a_captured_bridge_are_unknown() {
    let script = "ip link add br0 type bridge; ip link set rx0 master br0; ip link set br0 up";
    flood_below("drops_on_a_port_of_a_captured_bridge", "br0", "bridge", script);
}

#[test]
fn drops_below_a_macvlan_are_unknown() {
    let script = "ip link add mv0 link rx0 type macvlan mode bridge; ip link set mv0 up";
    flood_below("drops_below_a_macvlan", "mv0", "macvlan", script);
}

#[test]
fn drops_below_a_vlan_are_unknown() {
    let script = "ip link add v5 link rx0 type vlan id 5; ip link set v5 up";
    flood_below("drops_below_a_vlan", "v5", "vlan", script);
}

#[test]
fn drops_below_a_vxlan_are_unknown() {
    let script = "ip link add vx0 type vxlan id 5 dev rx0 dstport 4789; ip link set vx0 up";
    flood_below("drops_below_a_vxlan", "vx0", "vxlan", script);
}

/// A bond adds the counters of its ports to its own: they are counted once.
#[test]
fn drops_below_a_bond_are_unknown() {
    let script = "ip link add bond0 type bond mode balance-rr; ip link set rx0 down; \
                  ip link set rx0 master bond0; ip link set rx0 up; ip link set bond0 up";
    flood_below("drops_below_a_bond", "bond0", "bond", script);
}

/// Loads a program that ends with `verdict`, and attaches it to rx0; `None` after a skip.
fn attach(
    test: &str,
    bench: &Bench,
    load: impl FnOnce(Asm) -> quaff_os::Result<Program>,
    verdict: i32,
    how: for<'a> fn(&'a Program) -> LinkChange<'a>,
) -> Option<Program> {
    let mut asm = Asm::default();
    asm.mov64(Reg::R0, verdict);
    asm.exit();
    let program = match load(asm) {
        Err(error) if quaff_os::testing::is_refusal(&error) => {
            testing::skip(test, &error.to_string());
            return None;
        }
        loaded => loaded.expect("loaded"),
    };
    let attach = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(RX.name)?.index;
        rtnl.change(index, how(&program))
    };
    bench.lab.rx.run(attach).expect("entered").expect("attached");
    Some(program)
}

fn on_ingress(program: &Program) -> LinkChange<'_> {
    LinkChange::OnIngress(program)
}

fn on_xdp(program: &Program) -> LinkChange<'_> {
    LinkChange::Xdp(Some(program))
}

/// Filters of tc(8) see a frame after the packet sockets of its interface, and before the interfaces above.
#[test]
fn filters_drop_after_the_socket_and_below_a_bridge() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let clsact = || {
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(RX.name)?.index;
        rtnl.change(index, LinkChange::Clsact)
    };
    bench.lab.rx.run(clsact).expect("entered").expect("added");
    let load = |asm| Program::load_tc("quaff_shot", asm);
    let Some(_program) = attach(test, &bench, load, TC_ACT_SHOT, on_ingress) else { return };
    let running = capture(&bench, "rx0");
    send_slowly(&bench, 3000);
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["verdict"]), (0, &"lossless".into()), "{}", ended.json);
    assert!(number(&ended.json["written"]) >= 3000, "{}", ended.json);

    assert!(make(&bench, "ip link add br0 type bridge; ip link set rx0 master br0; ip link set br0 up"));
    let running = capture(&bench, "br0");
    send_slowly(&bench, 2000);
    let ended = interrupt(running);
    let dropped = number(&ended.json["interfaces"][0]["lower_counters"]["rx0 tc filters"]);
    assert!(dropped >= 2000, "{}", ended.json);
    assert_unknown(
        &ended,
        &format!("{} packets were dropped on rx0, which is below br0 (tc filters by", count(dropped)),
    );
    assert_eq!(ended.json["below_tap"]["lower_dropped"], dropped, "{}", ended.json);
}

#[test]
fn drops_of_an_xdp_program_are_unknown() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let load = |asm| Program::load_xdp("quaff_drop", asm);
    let verdict = Verdict::XdpDrop.number();
    let Some(_program) = attach(test, &bench, load, verdict, on_xdp) else { return };
    let running = capture(&bench, "rx0");
    send_slowly(&bench, 2000);
    let ended = interrupt(running);
    let dropped = number(&ended.json["below_tap"]["xdp_dropped"]);
    assert!(dropped >= 2000, "{}", ended.json);
    assert_unknown(
        &ended,
        &format!("an XDP program dropped {} packets on rx0 before the capture socket", count(dropped)),
    );
    assert_eq!(ended.json["interfaces"][0]["xdp_dropped"], dropped, "{}", ended.json);
    assert_eq!(number(&ended.json["written"]), 0, "{}", ended.json);
}

/// The veth that sends counts in `tx_dropped` what the backlog of its peer had no room for.
#[test]
fn a_sender_reports_what_its_driver_dropped() {
    let Some(bench) = backlog::bench(test_name!()) else { return };
    let (sent, dropped) = overflow(&bench);
    assert!(dropped > 0, "the backlog did not overflow");
    assert_eq!(sent.json["tx_dropped"], dropped, "{}", sent.json);
    assert_eq!((&sent.json["qdisc_dropped"], &sent.json["backlog_dropped"]), (&0.into(), &0.into()));
}

/// Frames that are injected into an interface pass the backlogs of RPS.
#[test]
fn injected_frames_that_a_backlog_drops_are_reported() {
    let test = test_name!();
    let Some(bench) = backlog::bench(test) else { return };
    let before = bench.lab.stats(RX).expect("counters").rx_dropped;
    let args = ["generate", "--inject", "rx0", "--pps", "400k", "--count", "300000", "--cpu", "0"];
    let start =
        |more: &[&str]| ChildProcess::start(bench.quaff(&[&args[..], more].concat())).expect("quaff runs");
    let sent = {
        let _small = SmallBacklog::new();
        finish(start(&["--json"]))
    };
    let dropped = bench.lab.stats(RX).expect("counters").rx_dropped - before;
    assert!(dropped > 0, "the backlog did not overflow");
    let report = &sent.json;
    assert_eq!(
        (report["backlog_dropped"].as_u64(), sent.code),
        (Some(dropped), 1),
        "{report} {}",
        sent.stderr
    );
    let missing = number(&report["sent"]) - number(&report["confirmed"]);
    assert_eq!(missing, dropped, "{report}");
    let _small = SmallBacklog::new();
    let done = start(&[]).finish(PATIENCE).expect("it ends");
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &done.stderr;
    assert!(text.contains("dropped by a backlog of rx0 (net.core.netdev_max_backlog)"), "{text}");
}

/// A queue that drops at its head accepts every frame, and the sender learns nothing.
#[test]
fn frames_that_the_queueing_discipline_drops_are_reported() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let shape = format!(
        "tc qdisc add dev {0} root handle 1: tbf rate 20mbit burst 10kb limit 30kb; \
         tc qdisc add dev {0} parent 1:1 pfifo_head_drop limit 10",
        TX.name
    );
    let mut sh = bench.lab.tx.command("sh").expect("a command");
    if !sh.args(["-ec", &shape]).output().expect("sh runs").status.success() {
        return testing::skip(test, "there is no tc, or no tbf in this kernel");
    }
    let file = bench.path("all.pcap");
    run(std::process::Command::new(QUAFF).args(["generate", "-w", &file, "--size", "500", "--count", "5000"]));
    let replay = |more: &[&str]| {
        let mut command = bench.lab.tx.command(QUAFF).expect("a command");
        command.args(["replay", "-o", "tx0", "--via", "sendmmsg-qdisc", "-t"]).args(more).arg(&file);
        ChildProcess::start(command).expect("quaff runs").finish(PATIENCE).expect("it ends")
    };
    let done = replay(&["--json"]);
    let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
    let dropped = number(&report["interfaces"][0]["qdisc_dropped"]);
    assert!(dropped > 1000, "{report}");
    assert_eq!(number(&report["sent"]) - number(&report["confirmed"]), dropped, "{report}");
    assert_eq!(done.status.code(), Some(1), "{report}");
    let done = replay(&[]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned() + &done.stderr;
    assert!(
        text.contains("dropped by the queueing discipline of tx0 ('tc -s qdisc show dev tx0')"),
        "{text}"
    );
}
