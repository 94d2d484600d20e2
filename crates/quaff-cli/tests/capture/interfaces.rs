//! `quaff interfaces` in a network namespace: its links, their addresses, and a capture that runs there.

use crate::support::{self, PATIENCE, QUAFF, finish, interrupt, lab_bench, run};
use quaff_lab::ChildProcess;
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
    capture.args(["capture", "-i", "rx0", "-w", "/dev/null"]);
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
