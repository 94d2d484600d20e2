//! `quaff interfaces` in a network namespace: its links, their addresses, and a capture that runs there.

use crate::support::{self, PATIENCE, QUAFF, fails, finish, interrupt, lab_bench, run};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;

#[test]
fn links_addresses_and_captures_are_listed() {
    let _turn = support::alone();
    let Some(lab) = testing::lab(test_name!()) else { return };
    let quaff = || lab.rx.command(QUAFF).expect("a command in the lab");
    run(lab.rx.command("ip").expect("a command").args(["address", "add", "192.0.2.7/24", "dev", "rx0"]));
    let mut capture = quaff();
    capture.args(["capture", "-i", "rx0", "--buffer", "64M", "-w", "/dev/null"]);
    let mut capture = ChildProcess::start(capture).expect("quaff runs");
    assert!(capture.hears("capturing", PATIENCE), "{}", capture.heard);

    let text = run(quaff().args(["interfaces", "--json"]));
    let listed: Value = serde_json::from_str(&text).expect("JSON");
    let interfaces = listed["interfaces"].as_array().expect("a list");
    let find =
        |name: &str| interfaces.iter().find(|interface| interface["name"] == name).expect("an interface");
    let rx = find("rx0");
    assert_eq!((&rx["state"], &rx["driver"], &rx["kind"]), (&"up".into(), &"veth".into(), &"veth".into()));
    assert_eq!((&rx["mtu"], &rx["linktype"]), (&lab.mtu.into(), &1.into()));
    let addresses = rx["addresses"].as_array().expect("a list");
    assert!(addresses.contains(&"192.0.2.7/24".into()), "{addresses:?}");
    let processes: Vec<_> = rx["captures"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|on| on["processes"].as_array())
        .flatten()
        .collect();
    assert!(processes.iter().any(|process| process["name"] == "quaff"), "{rx}");
    assert_eq!(find("lo")["captures"], Value::Array(Vec::new()));

    let table = run(quaff().arg("interfaces"));
    let line =
        table.lines().find(|line| line.starts_with(" rx0") || line.starts_with("rx0")).expect("a line");
    assert!(line.contains("up") && line.contains("veth"), "{table}");
    assert!(table.contains("192.0.2.7/24") && table.contains("quaff"), "{table}");
    for flag in ["-D", "--list-interfaces"] {
        assert_eq!(run(quaff().args(["capture", flag])).lines().count(), table.lines().count());
    }
    assert_eq!(interrupt(capture).code, 0);
}

/// Each packet is in the file under the interface that it came by, whether that was named or not.
#[test]
fn any_and_patterns_capture_each_interface_by_itself() {
    let bench = lab_bench!(64 << 20);
    bench.add_link();
    for (pattern, names) in [("any", &["lo", "rx0", "rx1"][..]), ("rx?", &["rx0", "rx1"]), ("*1", &["rx1"])] {
        let file = bench.path(&format!("{}.pcapng", names.len()));
        let args =
            ["capture", "-i", pattern, "-i", "rx1", "--buffer", "64M", "--ring", "4M", "-w", &file, "--json"];
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        for (name, count) in [("rx0", "30"), ("rx1", "20")] {
            let sent = ["generate", "--inject", name, "--count", count, "--pps", "1000", "--json"];
            assert_eq!(finish(ChildProcess::start(bench.quaff(&sent)).expect("quaff runs")).code, 0);
        }
        let ended = interrupt(running);
        assert_eq!(
            (ended.code, &ended.json["lossless"]),
            (0, &true.into()),
            "{} {}",
            ended.json,
            ended.stderr
        );
        let report: Value =
            serde_json::from_str(&run(bench.quaff(&["info", "--json"]).arg(&file))).expect("JSON");
        let interfaces = report["files"][0]["interfaces"].as_array().expect("interfaces");
        let found: Vec<_> = interfaces.iter().filter_map(|interface| interface["name"].as_str()).collect();
        assert_eq!(found, names, "{pattern}");
        let packets = |name: &str| {
            let of = interfaces.iter().find(|interface| interface["name"] == name);
            of.and_then(|interface| interface["packets"].as_u64())
        };
        // The stack sends some of its own.
        assert!(packets("rx1") >= Some(20) && packets("rx0").is_none_or(|count| count >= 30), "{report}");
    }
    let refused = support::fails(&bench, &["capture", "-i", "wlan*", "-w", "/dev/null"]);
    assert!(refused.contains("wlan*") && refused.contains("rx0"), "{refused}");
}

/// Lines of packets, sorted, without their times, which may differ between two captures.
fn lines_without_times(lines: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(lines);
    let mut lines: Vec<_> =
        text.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest.to_owned()).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_watch_is_short_and_a_quiet_one_silent() {
    if support::tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let bench = lab_bench!(64 << 20);
    for (more, expected) in [(&[] as &[&str], &["capturing", " shown, none lost"][..]), (&["-q"], &[])] {
        let args = ["capture", "-i", "rx0", "--buffer", "64M", "--ring", "4M", "-d", "300ms"];
        let ended =
            finish(ChildProcess::start(bench.quaff(&[&args[..], more].concat())).expect("quaff runs"));
        let lines: Vec<_> = ended.stderr.lines().filter(|line| !line.starts_with("quaff: ")).collect();
        let is_so = lines.iter().zip(expected).all(|(line, words)| line.ends_with(words));
        assert!(ended.code == 0 && is_so && lines.len() == expected.len(), "{more:?}: {}", ended.stderr);
    }
}

/// The same packets, printed by `tcpdump -i any` beside it.
#[test]
fn printed_packets_have_the_interface_and_the_direction_that_tcpdump_prints() {
    if support::tool(test_name!(), "tcpdump").is_none() {
        return;
    }
    let bench = lab_bench!(64 << 20);
    bench.add_link();
    let ip = |args: &[&str]| run(bench.lab.rx.command("ip").expect("a command").args(args));
    ip(&["addr", "add", "10.9.0.1/24", "dev", "rx1"]);
    ip(&["neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:09", "dev", "rx1"]);
    // The stack sends others of its own.
    let filter = "udp and not port 5353";
    let mut tcpdump = bench.lab.rx.command("tcpdump").expect("a command in the lab");
    tcpdump.args(["-n", "-i", "any", "--immediate-mode", "-c", "15", filter]);
    let mut tcpdump = ChildProcess::start(tcpdump).expect("tcpdump runs");
    assert!(tcpdump.hears("listening on any", PATIENCE), "{}", tcpdump.heard);
    let args = ["capture", "-i", "any", "--buffer", "64M", "--ring", "4M", "--json", filter];
    let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    for (name, count) in [("rx0", "3"), ("rx1", "5")] {
        let sent = ["generate", "--inject", name, "--count", count, "--pps", "1000", "--json"];
        assert_eq!(finish(ChildProcess::start(bench.quaff(&sent)).expect("quaff runs")).code, 0);
    }
    // Frames of quaff bypass the queues, and captures with them; those of the stack do not.
    let mut bash = bench.lab.rx.command("bash").expect("a command in the lab");
    run(bash.args(["-c", "for n in 1 2 3 4 5 6 7; do echo $n > /dev/udp/10.9.0.2/9; done"]));
    let theirs = tcpdump.finish(PATIENCE).expect("it ends after as many");
    running.signal(Signal::SIGINT).expect("it runs");
    let ours = running.finish(PATIENCE).expect("it ends");
    assert_eq!(ours.status.code(), Some(0), "{}", ours.stderr);
    assert!(!ours.stderr.contains("Warning"), "{}", ours.stderr);
    let (found, expected) = (lines_without_times(&ours.stdout), lines_without_times(&theirs.stdout));
    for (start, count) in [("rx0   ", 3), ("rx1   ", 12), ("rx1   Out IP ", 7)] {
        assert_eq!(found.iter().filter(|line| line.starts_with(start)).count(), count, "{start} {found:?}");
    }
    assert_eq!(found, expected);
}

/// Whoever may name an interface must not turn a capture of all into one of this interface.
#[test]
fn an_interface_that_is_named_as_a_pattern_hides_no_other() {
    let bench = lab_bench!(1 << 27);
    let ip = |args: &[&str]| run(bench.lab.rx.command("ip").expect("a command").args(args));
    ip(&["link", "add", "name", "r*", "type", "veth", "peer", "name", "any"]);
    for name in ["r*", "any", "lo"] {
        ip(&["link", "set", "dev", name, "up"]);
    }
    let file = bench.path("x.pcapng");
    for (command, pattern, alone) in [
        ("capture", "r*", "'r[*]'"),
        ("capture", "any", "'[a]ny'"),
        ("capture --hotplug", "any", "'[a]ny'"),
        ("split", "r*", "'r[*]'"),
        ("flows", "any", "'[a]ny'"),
    ] {
        let mut args: Vec<_> = command.split(' ').collect();
        args.extend(["-i", pattern, "-d", "200ms", if command == "flows" { "--csv" } else { "-w" }, &file]);
        let said = fails(&bench, &args);
        assert!(said.contains(&format!("an interface is named {pattern}")), "{args:?}: {said}");
        assert!(said.contains(alone), "{args:?}: {said}");
    }
    for (pattern, expected) in [
        ("r[*]", &["r*"][..]),
        ("[a]ny", &["any"]),
        ("[r]*", &["rx0", "r*"]),
        ("*", &["lo", "any", "r*", "rx0"]),
    ] {
        let args = ["capture", "-i", pattern, "-d", "200ms", "--buffer", "64M", "--json", "-w", &file];
        let done = bench.quaff(&args).output().expect("quaff runs");
        let said = String::from_utf8_lossy(&done.stderr);
        let ledger: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{pattern}: {said}"));
        let lanes = ledger["interfaces"].as_array().expect("interfaces");
        let mut found: Vec<_> = lanes.iter().filter_map(|lane| lane["interface"].as_str()).collect();
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{pattern}: {ledger}");
    }
}
