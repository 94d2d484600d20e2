//! The sentences of extcap(4): `word {key=value}{key=value}`. No system calls.

use quaff_os::rtnl::Link;
use quaff_wire::linktype::{self, LinkType};
use quaff_wire::tunnel::TunnelKind;

/// Prefix of an interface's name in Wireshark.
pub(super) const PREFIX: &str = "quaff-";
/// The value for no decapsulation in Wireshark's dialog.
pub(super) const NO_DECAP: &str = "none";

/// The choices of tunnels: value and text. Wireshark 4.0 has no selector that also accepts typed text, such as a
/// list of kinds.
fn tunnels() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [(NO_DECAP, "None"), ("auto", "All that quaff supports")];
    all.into_iter().chain(TunnelKind::choices())
}

/// An option in Wireshark's dialog.
struct Arg {
    call: &'static str,
    display: &'static str,
    tooltip: &'static str,
    /// Type, default and limits, as sentences.
    kind: &'static str,
    group: &'static str,
}

/// A size with a unit, or empty.
const SIZE: &str = r"{type=string}{validation=^([0-9.]+[KMGTkmgt]?)?$}";
const PACKETS: &str = "Packets";
const MEMORY: &str = "Memory";
const DISK: &str = "Disk";

const ARGS: [Arg; 10] = [
    Arg {
        call: "--filter",
        display: "Filter",
        tooltip: "A tcpdump expression, run in the kernel; together with the capture filter above the list",
        kind: "{type=string}",
        group: PACKETS,
    },
    Arg {
        call: "--snaplen",
        display: "Bytes of each packet",
        tooltip: "Keep the first bytes of each packet; 0 keeps all",
        kind: "{type=unsigned}{range=0,262144}{default=0}",
        group: PACKETS,
    },
    Arg {
        call: "--decap",
        display: "Decapsulate",
        tooltip: "Remove the headers of these tunnels",
        kind: "{type=selector}{default=none}",
        group: PACKETS,
    },
    Arg {
        call: "--inner",
        display: "Filter after decapsulation",
        tooltip: "A tcpdump expression on the decapsulated frames; run in the kernel where possible",
        kind: "{type=string}",
        group: PACKETS,
    },
    Arg {
        call: "--no-promiscuous",
        display: "No promiscuous mode",
        tooltip: "Capture only packets addressed to this machine",
        kind: "{type=boolflag}{default=false}",
        group: PACKETS,
    },
    Arg {
        call: "--ring",
        display: "Receive ring",
        tooltip: "Size of the kernel's receive ring, such as 128M; empty: chosen by the memory of the machine",
        kind: SIZE,
        group: MEMORY,
    },
    Arg {
        call: "--buffer",
        display: "Buffer",
        tooltip: "Size of the buffer between kernel and output, such as 2G; empty: chosen by the memory of the machine",
        kind: SIZE,
        group: MEMORY,
    },
    Arg {
        call: "--tee",
        display: "Folder for every packet",
        tooltip: "Write every packet into files in this folder, including those that Wireshark misses",
        kind: "{type=string}",
        group: DISK,
    },
    Arg {
        call: "--rotate-size",
        display: "Size of each file there",
        tooltip: "Such as 256M; empty: 1G",
        kind: SIZE,
        group: DISK,
    },
    Arg {
        call: "--keep-size",
        display: "Keep at most",
        tooltip: "Such as 10G: the oldest files are removed; empty keeps all",
        kind: SIZE,
        group: DISK,
    },
];

/// The options, which are flags of `quaff capture`: each with its name and its help.
pub(super) fn flags() -> impl Iterator<Item = (&'static str, &'static str)> {
    ARGS.iter().map(|arg| (arg.call.trim_start_matches('-'), arg.tooltip))
}

/// `--extcap-interfaces`
pub(super) fn interfaces(links: &[Link]) -> String {
    let mut lines = vec![format!(
        "extcap {{version={}}}{{help={}}}",
        env!("CARGO_PKG_VERSION"),
        env!("CARGO_PKG_REPOSITORY")
    )];
    for link in links {
        let name = &link.name;
        let is_down = if link.up { "" } else { " (down)" };
        lines.push(format!("interface {{value={PREFIX}{name}}}{{display=quaff on {name}{is_down}}}"));
    }
    lines.join("\n")
}

/// `--extcap-dlts`
pub(super) fn dlts(link: &Link) -> String {
    let kind = linktype::of_arphrd(link.arphrd).unwrap_or(linktype::ETHERNET);
    let (name, display) = match kind {
        linktype::RAW => ("RAW", "Raw IP"),
        linktype::RADIOTAP => ("IEEE802_11_RADIO", "802.11 with radiotap header"),
        LinkType { .. } => ("EN10MB", "Ethernet"),
    };
    format!("dlt {{number={}}}{{name={name}}}{{display={display}}}", kind.dlt)
}

/// `--extcap-config`; of one option only its values.
pub(super) fn config(of: Option<&str>) -> String {
    let mut lines = Vec::new();
    for (number, arg) in ARGS.iter().enumerate() {
        let Arg { call, display, tooltip, kind, group } = arg;
        let is_meant = of.is_none_or(|of| call.trim_start_matches('-') == of.trim_start_matches('-'));
        if of.is_none() {
            lines.push(format!(
                "arg {{number={number}}}{{call={call}}}{{display={display}}}{{tooltip={tooltip}}}{kind}{{group={group}}}"
            ));
        }
        // Only tunnels are chosen from a list.
        for (value, display) in tunnels().filter(|_| is_meant && *call == "--decap") {
            let is_default = value == NO_DECAP;
            lines.push(format!(
                "value {{arg={number}}}{{value={value}}}{{display={display}}}{{default={is_default}}}"
            ));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_is_one_line_of_pairs() {
        let all = format!("{}\n{}", config(None), config(Some("decap")));
        for line in all.lines() {
            let (word, pairs) = line.split_once(' ').unwrap();
            assert!(["arg", "value"].contains(&word), "{line}");
            assert!(pairs.starts_with('{') && pairs.ends_with('}'), "{line}");
            assert!(pairs[1..pairs.len() - 1].split("}{").all(|pair| pair.contains('=')), "{line}");
        }
        assert_eq!(config(Some("decap")).lines().count(), tunnels().count());
        assert_eq!(config(Some("--snaplen")), "");
    }
}
