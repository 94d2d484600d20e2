//! `quaff interfaces` in a network namespace: its links, their addresses, and a capture that runs there.

mod support;

use quaff_lab::ChildProcess;
use quaff_testkit as testing;
use serde_json::Value;
use support::{PATIENCE, QUAFF, interrupt, run};

#[test]
fn links_addresses_and_captures_are_listed() {
    let _turn = support::alone();
    let Some(lab) = testing::lab("links_addresses_and_captures_are_listed") else { return };
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
