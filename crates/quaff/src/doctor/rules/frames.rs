//! What makes of frames something else than what came over the wire, and who else takes them.

use super::super::readings::InterfaceReadings;
use super::super::words::count;
use super::super::{Change, Diagnosis, Finding, Knob, Severity};
use quaff_os::ethtool::Feature;

/// What puts frames together: id, the kernel's name, the one that ethtool(8) prints, whose work it is.
const TOGETHER: [(&str, &str, &str, &str); 3] = [
    ("gro", "rx-gro", "gro", "the kernel"),
    ("hw-gro", "rx-gro-hw", "rx-gro-hw", "the card"),
    ("lro", "rx-lro", "lro", "the card"),
];

/// Programs that listen for leases and neighbours.
const LIGHT: [&str; 6] = ["dhclient", "dhcpcd", "udhcpc", "lldpd", "NetworkManager", "systemd-network"];

pub(super) fn judge(it: &InterfaceReadings, found: &mut Diagnosis) {
    offloads(it, found);
    readers(it, found);
    xdp(it, found);
}

fn offloads(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let Some(features) = found.read(&format!("offloads of {name}"), &it.features).cloned() else { return };
    for (id, feature, short, who) in TOGETHER {
        match features.get(feature) {
            Some(&Feature { is_on: true, is_fixed }) => {
                found.find(together(name, id, feature, short, who, is_fixed))
            }
            Some(_) => found.fine(format!("{short} of {name}"), "off"),
            None => {}
        }
    }
    let on = |feature: &str| features.get(feature).is_some_and(|feature| feature.is_on);
    let vlan = match (on("rx-vlan-hw-parse"), on("rx-vlan-filter")) {
        (false, false) => "tags stay in the frame",
        (true, false) => "tags are taken off by the card; quaff puts them back",
        (false, true) => "a filter, which does nothing while quaff captures (promiscuous)",
        (true, true) => {
            "tags are taken off by the card, quaff puts them back; a filter, which does nothing while quaff captures \
             (promiscuous)"
        }
    };
    found.fine(format!("VLAN offloads of {name}"), vlan);
}

fn together(name: &str, id: &'static str, feature: &str, short: &str, who: &str, is_fixed: bool) -> Finding {
    let finding = Finding::new(
        id,
        Severity::Warning,
        format!("{short} is on at {name}"),
        format!(
            "{who} puts up to 64 KiB of a connection's frames together before a capture sees them: they are counted \
             as one, are larger than the wire's, and may be cut at the snaplen"
        ),
        if is_fixed {
            format!("its driver does not let it be turned off; capture at another place than {name}")
        } else {
            format!("ethtool -K {name} {short} off")
        },
    );
    let change = Change { knob: Knob::Feature(name.to_owned(), feature.to_owned()), to: "off".into() };
    finding.mended_by(if is_fixed { Vec::new() } else { vec![change] })
}

fn readers(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("other readers of {name}");
    let Some(sockets) = found.read(&what, &it.readers) else { return };
    if sockets.is_empty() {
        found.fine(what, "none");
        return;
    }
    let mut who: Vec<_> = it.owners.iter().map(|owner| format!("{} ({})", owner.name, owner.pid)).collect();
    who.dedup();
    let mut pids: Vec<_> = it.owners.iter().map(|owner| owner.pid.to_string()).collect();
    pids.dedup();
    let (names, fix) = match pids.is_empty() {
        true => (String::new(), "ss -0 -p   # as root: whose they are".to_owned()),
        false => (
            format!(": {}", who.join(", ")),
            format!("ps -fp {}   # what they are, and whether they are needed now", pids.join(",")),
        ),
    };
    // These ask the kernel for a few frames only, by a filter.
    let is_light = !it.owners.is_empty() && it.owners.iter().all(|it| LIGHT.contains(&it.name.as_str()));
    let sockets = count(sockets.len() as u64, "other packet socket");
    found.find(Finding::new(
        "readers",
        if is_light { Severity::Note } else { Severity::Warning },
        format!("{sockets} on {name}{names}"),
        "the core that receives hands each frame to each of them: the first one halves what a core can take in \
         (measured: 3.1 million frames a second without, 1.7 with one), and each further one takes its part"
            .into(),
        fix,
    ));
}

fn xdp(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("XDP program of {name}");
    match &it.xdp {
        Err(why) => found.unread(what, why),
        Ok(None) => found.fine(what, "none"),
        Ok(Some(number)) => found.find(Finding::new(
            "xdp",
            Severity::Warning,
            format!("an XDP program runs at {name} (number {number})"),
            "it comes before any packet socket: frames that it drops or sends elsewhere are in no capture, and in \
             no count of one"
                .into(),
            format!("ip link set dev {name} xdp off   # 'bpftool prog show id {number}' says what it is"),
        )),
    }
}
