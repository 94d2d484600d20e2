//! Offloads that alter frames, and other programs that receive them.

use super::super::format::{count, quote};
use super::super::readings::InterfaceReadings;
use super::{Change, Diagnosis, Setting, Severity};
use quaff_os::ethtool::Feature;

/// Offloads that merge frames: id, the kernel's name, the name in ethtool(8), and what merges them.
const MERGING: [(&str, &str, &str, &str); 3] = [
    ("gro", "rx-gro", "gro", "the kernel"),
    ("hw-gro", "rx-gro-hw", "rx-gro-hw", "the card"),
    ("lro", "rx-lro", "lro", "the card"),
];

/// Offloads of a veth, which has no wire on which frames would get their final form: the kernel's name, and the name in
/// ethtool(8).
const UNFINISHED: [(&str, &str); 3] =
    [("tx-tcp-segmentation", "tso"), ("tx-generic-segmentation", "gso"), ("tx-checksum-ip-generic", "tx")];

/// Programs that filter out all but a few frames in the kernel.
const LIGHT: [&str; 6] = ["dhclient", "dhcpcd", "udhcpc", "lldpd", "NetworkManager", "systemd-network"];

pub(super) fn judge(it: &InterfaceReadings, found: &mut Diagnosis) {
    offloads(it, found);
    unfinished(it, found);
    readers(it, found);
    xdp(it, found);
}

fn offloads(it: &InterfaceReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let Some(features) = found.read(&format!("offloads of {name}"), &it.features) else { return };
    for (id, feature, short, merger) in MERGING {
        let is_fixed = match features.get(feature) {
            Some(Feature { is_on: true, is_fixed }) => *is_fixed,
            Some(_) => {
                found.fine(format!("{short} of {name}"), "off");
                continue;
            }
            None => continue,
        };
        let why = format!(
            "{merger} merges up to 64 KiB of a connection's frames before a capture sees them: they count as one, are \
             larger than on the wire, and may be cut at the snaplen"
        );
        let (fix, to) = (format!("ethtool -K {} {short} off", quote(name)), "off".to_owned());
        let change = Change { setting: Setting::Feature(name.to_owned(), feature.to_owned()), to };
        let (fix, changes) = match is_fixed {
            true => (
                format!("its driver does not let it be turned off; capture at another point than {name}"),
                vec![],
            ),
            false => (fix, vec![change]),
        };
        found.find(id, Severity::Warning, format!("{short} is on at {name}"), why, fix).fixed_by(changes);
    }
    let on = |feature: &str| features.get(feature).is_some_and(|feature| feature.is_on);
    let removed = on("rx-vlan-hw-parse").then_some("the card removes tags, which quaff restores");
    let filter =
        on("rx-vlan-filter").then_some("a filter, without effect while quaff captures (promiscuous)");
    let value = [removed, filter].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let value = if value.is_empty() { "tags stay in the frame".to_owned() } else { value };
    found.fine(format!("VLAN offloads of {name}"), value);
}

/// Frames of a veth that are captured before they are segmented and have their checksums.
fn unfinished(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, Ok(Some(features))) = (&it.name, &it.features) else { return };
    if !matches!(&it.driver, Ok(Some(driver)) if driver == "veth") {
        return;
    }
    let is_on = |feature: &&str| features.get(*feature).is_some_and(|found| found.is_on);
    let on: Vec<_> = UNFINISHED.into_iter().filter(|(feature, _)| is_on(feature)).collect();
    if on.is_empty() {
        return found.fine(format!("segmentation and checksum offload of {name}"), "off");
    }
    let names: Vec<_> = on.iter().map(|(_, short)| *short).collect();
    let off = names.iter().map(|short| format!(" {short} off")).collect::<String>();
    let off_setting = |(feature, _): &(&str, &str)| Change {
        setting: Setting::Feature(name.to_owned(), (*feature).to_owned()),
        to: "off".to_owned(),
    };
    let changes = on.iter().map(off_setting).collect();
    found
        .find(
            "veth-offloads",
            Severity::Note,
            format!("{} on at {name}, a veth", names.join(", ")),
            "no card segments the frames of a veth or writes their checksums: those of this end, and by the settings of \
             the other end those that arrive, are captured as up to 64 KiB of a connection in one frame, with checksums \
             that are not right",
            format!("ethtool -K {}{off}   # and the same at its other end, for the frames that arrive", quote(name)),
        )
        .fixed_by(changes);
}

fn readers(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("other readers of {}", it.name));
    let Some(sockets) = found.read(&what, &it.readers) else { return };
    if sockets.is_empty() {
        return found.fine(what, "none");
    }
    let mut owners: Vec<_> = it
        .owners
        .iter()
        .map(|owner| (owner.pid.to_string(), format!("{} ({})", owner.name, owner.pid)))
        .collect();
    owners.dedup();
    let (pids, names): (Vec<_>, Vec<_>) = owners.into_iter().unzip();
    let (names, fix) = match pids.is_empty() {
        true => (String::new(), "ss -0 -p   # as root: shows their processes".to_owned()),
        false => (
            format!(": {}", names.join(", ")),
            format!("ps -fp {}   # shows them; end what is not needed", pids.join(",")),
        ),
    };
    let is_light = !it.owners.is_empty() && it.owners.iter().all(|it| LIGHT.contains(&it.name.as_str()));
    let sockets = count(sockets.len() as u64, "other packet socket");
    found.find(
        "readers",
        if is_light { Severity::Note } else { Severity::Warning },
        format!("{sockets} on {name}{names}"),
        "the receiving core passes each frame to each socket: the first one halves the rate that a core can receive \
         (measured: from 3.1 to 1.7 million frames/s), and each further one lowers it again",
        fix,
    );
}

fn xdp(it: &InterfaceReadings, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("XDP program of {}", it.name));
    let Some(id) = it.xdp else { return found.fine(what, "none") };
    found.find(
        "xdp",
        Severity::Warning,
        format!("an XDP program runs on {name} (ID {id})"),
        "it runs before any packet socket: frames that it drops or redirects are in no capture and in no count",
        format!("ip link set dev {} xdp off   # 'bpftool prog show id {id}' describes it", quote(name)),
    );
}
