//! The commands that look closer at a part of `quaff info --traffic`: lines that read the same files again.

use quaff::traffic::{ProtocolRow, Traffic};
use quaff_wire::printable::{quote, quote_path};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// VLAN tags that a filter looks through.
const TAGS_MAX: usize = 3;
/// Names of VLAN tags and of IP in the hierarchy.
const TAGS: [&str; 2] = ["vlan", "ieee8021ad"];
const IP: [&str; 2] = ["ip", "ipv6"];
/// Columns of nProbe's template for each version of IP.
const ADDRESSES: [&str; 2] = ["%IPV4_SRC_ADDR %IPV4_DST_ADDR ", "%IPV6_SRC_ADDR %IPV6_DST_ADDR "];

/// The command that looks closer at a part of the page.
#[derive(Debug, Serialize)]
pub(super) struct Command {
    pub(super) part: &'static str,
    pub(super) command: String,
}

/// Arguments that name the files in the command lines of other commands.
pub(super) struct Closer {
    files: String,
    reads: String,
    /// The bytes of stdin are gone.
    has_stdin: bool,
}

impl Closer {
    pub(super) fn new(files: &[PathBuf], salvage: bool) -> Self {
        let quoted: Vec<_> = files.iter().map(|path| quote_path(&path.display().to_string())).collect();
        let reads: Vec<_> = quoted.iter().map(|name| format!("--read {name}")).collect();
        let has_stdin = files.iter().any(|path| path.as_os_str() == "-");
        let salvage = if salvage { " --salvage" } else { "" };
        let (files, reads) = (quoted.join(" ") + salvage, reads.join(" ") + salvage);
        Self { files, reads, has_stdin }
    }

    /// The command of each part of the page that has something to look at.
    pub(super) fn commands(&self, traffic: &Traffic) -> Vec<Command> {
        if self.has_stdin {
            return Vec::new();
        }
        let (tcp, dns, rows) = (&traffic.tcp, &traffic.dns, &traffic.protocols);
        let mut all = Vec::new();
        let mut add = |part, command| all.push(Command { part, command });
        if traffic.conversations.count > 0 {
            add("protocols", self.report("application,port"));
            add("conversations", self.report("flow"));
            add("hosts", self.report("host"));
        }
        if let Some(worst) = tcp.servers.iter().find(|row| row.failed() > 0) {
            let (host, port) = (worst.server.ip(), worst.server.port());
            add("connections", self.packets(&format!("host {host} and tcp port {port}"), rows));
        }
        if tcp.retransmitted_bytes + tcp.late_bytes > 0 {
            add("retransmissions", self.flows(rows));
        }
        if let Some(server) = dns.servers.iter().find(|row| row.failed() > 0) {
            add("dns", self.packets(&format!("host {} and udp port 53", server.server), rows));
        }
        add("verify", format!("quaff verify {}", self.files));
        all
    }

    fn report(&self, by: &str) -> String {
        format!("quaff flows report {} --by {by}", self.files)
    }

    /// The packets that match a filter, as lines; their flows if other headers than VLAN tags may hide them from a
    /// filter.
    fn packets(&self, filter: &str, rows: &[ProtocolRow]) -> String {
        match through_tags(filter, rows) {
            Some(filter) => format!("quaff capture {} -f {} --print", self.reads, quote(&filter)),
            None => {
                let condition = filter.replace(" port ", " and port ");
                format!("quaff flows report {} --where {} --by flow", self.files, quote(&condition))
            }
        }
    }

    /// The flows with their retransmissions.
    fn flows(&self, rows: &[ProtocolRow]) -> String {
        let is_there = |name: &str| rows.iter().any(|row| row.name == name);
        let ends: String =
            IP.iter().zip(ADDRESSES).filter(|(name, _)| is_there(name)).map(|(_, ends)| ends).collect();
        let columns = ends + "%RETRANSMITTED_IN_PKTS %RETRANSMITTED_OUT_PKTS";
        format!("quaff flows {} --csv - -T {}", self.reads, quote(&columns))
    }
}

/// A filter that looks through as many VLAN tags as frames of the capture have before IP; `None` if there are other
/// headers before IP, or more tags.
fn through_tags(filter: &str, rows: &[ProtocolRow]) -> Option<String> {
    let mut numbers = BTreeSet::new();
    for row in rows.iter().filter(|row| IP.contains(&row.name.as_str())) {
        let names: Vec<&str> = row.path.split(':').collect();
        let (_, [link, tags @ ..]) = names.split_last()? else { return None };
        // Those in tunnels have another one around them.
        if tags.iter().any(|name| IP.contains(name)) {
            continue;
        }
        // An expression knows tags in Ethernet only.
        let is_known = *link == "eth" || tags.is_empty() && !["mpls", "pppoes"].contains(link);
        if !is_known || tags.len() > TAGS_MAX || !tags.iter().all(|name| TAGS.contains(name)) {
            return None;
        }
        numbers.insert(tags.len());
    }
    Some(after_tags(filter, &numbers, 0))
}

/// The filter for frames of which `tags` tags are skipped. In an expression, `vlan` moves what follows by a tag.
fn after_tags(filter: &str, numbers: &BTreeSet<usize>, tags: usize) -> String {
    let has_more = numbers.last().is_some_and(|most| *most > tags);
    let inside = || after_tags(filter, numbers, tags + 1);
    match (numbers.contains(&tags), has_more) {
        (_, false) => filter.to_owned(),
        (false, true) => format!("vlan and ({})", inside()),
        (true, true) => format!("({filter}) or (vlan and ({}))", inside()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with these paths.
    fn rows(paths: &str) -> Vec<ProtocolRow> {
        let row = |path: &str| ProtocolRow {
            path: path.to_owned(),
            name: path.rsplit(':').next().unwrap_or_default().to_owned(),
            depth: path.matches(':').count(),
            packets: 1,
            bytes: 60,
        };
        paths.split(' ').map(row).collect()
    }

    #[test]
    fn a_filter_looks_through_the_tags_of_the_capture() {
        for (paths, expected) in [
            ("eth eth:ip eth:ip:udp", Some("tcp")),
            ("raw:ipv6 eth:ip:udp:vxlan:eth:ip", Some("tcp")),
            ("eth:vlan eth:vlan:ip", Some("vlan and (tcp)")),
            ("eth:ip eth:vlan:ipv6", Some("(tcp) or (vlan and (tcp))")),
            ("eth:ip eth:ieee8021ad:vlan:ip", Some("(tcp) or (vlan and (vlan and (tcp)))")),
            ("eth:vlan:ip eth:vlan:vlan:ip", Some("vlan and ((tcp) or (vlan and (tcp)))")),
            ("eth:ip eth:mpls:ip", None),
            ("eth:pppoes:ppp:ip", None),
            ("mpls:ip", None),
            ("sll:ip", Some("tcp")),
            ("sll:vlan:ip", None),
            ("eth:vlan:vlan:vlan:vlan:ip", None),
            ("eth:arp", Some("tcp")),
        ] {
            assert_eq!(through_tags("tcp", &rows(paths)).as_deref(), expected, "{paths:?}");
        }
    }

    #[test]
    fn commands_suit_the_capture() {
        let (closer, salvaging) =
            (Closer::new(&["a".into()], false), Closer::new(&["a".into(), "b".into()], true));
        let tagged = closer.packets("host ::1 and udp port 53", &rows("eth:vlan:ipv6"));
        assert_eq!(tagged, "quaff capture --read a -f 'vlan and (host ::1 and udp port 53)' --print");
        let labelled = closer.packets("host ::1 and udp port 53", &rows("eth:mpls:ipv6"));
        assert_eq!(labelled, "quaff flows report a --where 'host ::1 and udp and port 53' --by flow");
        let flows = closer.flows(&rows("eth:ipv6"));
        assert!(flows.contains("-T '%IPV6_SRC_ADDR %IPV6_DST_ADDR %RETRANSMITTED_IN_PKTS"), "{flows}");
        let commands = salvaging.commands(&Traffic::default());
        assert_eq!(commands[0].command, "quaff verify a b --salvage");
        assert!(salvaging.flows(&[]).starts_with("quaff flows --read a --read b --salvage --csv"));
    }
}
