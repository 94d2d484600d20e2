//! `quaff info --traffic`: the page of the traffic of files, each part with the command that looks closer. It counts
//! nothing.

use super::words::labelled;
use crate::exit::Exit;
use crate::show::{self, Stream};
use crate::terminal_table;
use quaff::format::{percent_bare, span};
use quaff::traffic::{self, Conversation, Count, DnsTraffic, Host, ProtocolRow, TcpTraffic, Traffic};
use quaff_file::read;
use quaff_file::verify::Report;
use quaff_file::Quantiles;
use quaff_wire::printable::{quote, quote_path};
use serde::Serialize;
use std::path::PathBuf;

/// Rows of the hierarchy, and of each other table.
const PROTOCOLS_SHOWN: usize = 30;
const ROWS_SHOWN: usize = 5;
/// Names in a line.
const NAMES_SHOWN: usize = 3;
/// A space that stays at the begin of a cell.
const INDENT: &str = "\u{a0}";

/// The traffic as JSON.
#[derive(Serialize)]
struct Page<'a> {
    files: &'a [String],
    #[serde(flatten)]
    traffic: &'a Traffic,
    /// Command lines that look closer.
    commands: Vec<Command>,
    notes: &'a [String],
    /// The reason why a file could not be read to its end.
    error: Option<&'a str>,
}

/// The command that looks closer at a part of the page.
#[derive(Debug, Serialize)]
struct Command {
    part: &'static str,
    command: String,
}

/// Reads the files, prints their traffic, and returns the exit status.
pub(super) fn run(files: &[PathBuf], salvage: bool, json: bool) -> anyhow::Result<Exit> {
    let reading = read::Options { salvage, ..read::Options::default() };
    let (traffic, report) = traffic::read(files, reading, &mut |_| ());
    let outcome = &report.outcome;
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    let closer = Closer::new(files);
    if json {
        let (commands, notes) = (commands(&traffic, &closer), &outcome.notes);
        let page =
            Page { files: &names, traffic: &traffic, commands, notes, error: outcome.error.as_deref() };
        show::json(Stream::Stdout, &page)?;
    } else if !outcome.unreadable || traffic.packets > 0 {
        let text = page(&names, &traffic, &report, &commands(&traffic, &closer));
        show::report(Stream::Stdout, text.trim_end());
    }
    outcome.error.iter().for_each(|error| show::message(error));
    if let Some(failure) = &traffic.failure {
        show::message(&format!("a defect of quaff: {failure}"));
        return Ok(Exit::Failed);
    }
    Ok(Exit::judged((!outcome.unreadable).then(|| is_whole(&report))))
}

/// Nothing is damaged, and no drops are recorded.
fn is_whole(report: &Report) -> bool {
    let outcome = &report.outcome;
    let drops = outcome.ledger.as_ref().map_or(0, |ledger| ledger.recorded_drops.max(ledger.epb_dropcount));
    outcome.error.is_none() && outcome.jumps.count == 0 && drops == 0
}

/// Arguments that name the files in the command lines of other commands.
struct Closer {
    files: String,
    reads: String,
    /// The bytes of stdin are gone.
    has_stdin: bool,
}

impl Closer {
    fn new(files: &[PathBuf]) -> Self {
        let quoted: Vec<_> = files.iter().map(|path| quote_path(&path.display().to_string())).collect();
        let reads: Vec<_> = quoted.iter().map(|name| format!("--read {name}")).collect();
        let has_stdin = files.iter().any(|path| path.as_os_str() == "-");
        Self { files: quoted.join(" "), reads: reads.join(" "), has_stdin }
    }

    fn report(&self, by: &str) -> String {
        format!("quaff flows report {} --by {by}", self.files)
    }

    /// The packets that match a filter, as lines.
    fn packets(&self, filter: &str) -> String {
        format!("quaff capture {} -f {} --print", self.reads, quote(filter))
    }
}

/// The command of each part of the page that has something to look at.
fn commands(traffic: &Traffic, closer: &Closer) -> Vec<Command> {
    if closer.has_stdin {
        return Vec::new();
    }
    let (tcp, dns) = (&traffic.tcp, &traffic.dns);
    let mut all = Vec::new();
    let mut add = |part, command| all.push(Command { part, command });
    if traffic.conversations.count > 0 {
        add("protocols", closer.report("application,port"));
        add("conversations", closer.report("flow"));
        add("hosts", closer.report("host"));
    }
    if let Some(worst) = tcp.servers.iter().find(|row| row.refused + row.unanswered > 0) {
        let (host, port) = (worst.server.ip(), worst.server.port());
        add("connections", closer.packets(&format!("host {host} and tcp port {port}")));
    }
    if tcp.retransmitted_bytes + tcp.late_bytes > 0 {
        let columns = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %RETRANSMITTED_IN_PKTS %RETRANSMITTED_OUT_PKTS";
        add("retransmissions", format!("quaff flows {} --csv - -T {}", closer.reads, quote(columns)));
    }
    if let Some(server) = dns.servers.iter().find(|row| row.failures + row.unanswered > 0) {
        add("dns", closer.packets(&format!("host {} and udp port 53", server.server)));
    }
    add("verify", format!("quaff verify {}", closer.files));
    all
}

/// The page.
fn page(names: &[String], traffic: &Traffic, report: &Report, commands: &[Command]) -> String {
    let closer = |part: &str| {
        let found = commands.iter().find(|command| command.part == part);
        found.map_or(String::new(), |command| format!("  → {}\n", show::name(&command.command)))
    };
    let mut parts = vec![head(names, traffic, report)];
    let mut add = |text: String, part: &str| {
        if !text.is_empty() {
            parts.push(text + &closer(part));
        }
    };
    add(protocols(traffic), "protocols");
    add(conversations(traffic), "conversations");
    add(hosts(traffic), "hosts");
    add(connections(&traffic.tcp), "connections");
    add(retransmissions(&traffic.tcp), "retransmissions");
    add(dns(&traffic.dns), "dns");
    add(format!("Complete?\n{}", labelled("verify", &traffic.verify.verdict)), "verify");
    parts.join("\n")
}

fn head(names: &[String], traffic: &Traffic, report: &Report) -> String {
    let what = match names {
        [one] => show::name(one).into_owned(),
        several => format!("{} files as one capture", show::count(several.len() as u64)),
    };
    let (packets, bytes) = (show::count(traffic.packets), show::bytes(traffic.bytes));
    let mut text = format!("{what}: {packets} packets, {bytes} on the wire\n");
    let mut line = |label: &str, words: String| text += &labelled(label, &words);
    line("first", traffic.first_ns.map(show::time_ns).unwrap_or_default());
    line("last", traffic.last_ns.map(show::time_ns).unwrap_or_default());
    line("duration", traffic.seconds.map(|seconds| duration(seconds, traffic)).unwrap_or_default());
    report.outcome.notes.iter().for_each(|note| line("note", note.clone()));
    line("DAMAGED", report.outcome.error.clone().unwrap_or_default());
    text
}

fn duration(seconds: f64, traffic: &Traffic) -> String {
    if seconds <= 0.0 {
        return "0 s".into();
    }
    let time = if seconds < 60.0 { show::span_ns((seconds * 1e9).round() as u64) } else { span(seconds) };
    let pps = show::pps(traffic.packets as f64 / seconds);
    format!("{time}, {pps}, {}", show::bits(8.0 * traffic.bytes as f64 / seconds))
}

fn protocols(traffic: &Traffic) -> String {
    let share = |part: u64, all: u64| percent_bare(part as f64 / all.max(1) as f64);
    let row = |row: &ProtocolRow| {
        vec![
            format!("{}{}", INDENT.repeat(2 * row.depth), row.name),
            show::count(row.packets),
            share(row.packets, traffic.packets),
            show::count(row.bytes),
            share(row.bytes, traffic.bytes),
        ]
    };
    let columns =
        [("protocol", false, 0), ("packets", true, 0), ("%", true, 1), ("bytes", true, 0), ("%", true, 2)];
    let more = traffic.protocols.len().saturating_sub(PROTOCOLS_SHOWN);
    let rows = traffic.protocols.iter().take(PROTOCOLS_SHOWN).map(row);
    match traffic.protocols.is_empty() {
        true => String::new(),
        false => {
            format!("Protocols\n{}\n{}", terminal_table::ranked(&columns, rows), rest(more as u64, "rows"))
        }
    }
}

/// A line on rows that are not shown.
fn rest(count: u64, what: &str) -> String {
    match count {
        0 => String::new(),
        count => format!("  {} more {what}; --json lists them\n", show::count(count)),
    }
}

fn conversations(traffic: &Traffic) -> String {
    let all = &traffic.conversations;
    let row = |row: &Conversation| {
        let [packets, there, back] = [row.packets, row.a_to_b.packets, row.b_to_a.packets].map(show::count);
        let [bytes_there, bytes_back] = [row.a_to_b.bytes, row.b_to_a.bytes].map(show::bytes);
        vec![
            row.address_a.to_string(),
            row.address_b.to_string(),
            packets,
            there,
            back,
            bytes_there,
            bytes_back,
        ]
    };
    let columns = [
        ("A", false, 0),
        ("B", false, 0),
        ("packets", true, 0),
        ("packets →", true, 3),
        ("packets ←", true, 3),
        ("bytes →", true, 1),
        ("bytes ←", true, 1),
    ];
    let shown = &all.rows[..all.rows.len().min(ROWS_SHOWN)];
    if shown.is_empty() {
        return String::new();
    }
    let mut others = all.others;
    for row in &all.rows[shown.len()..] {
        (others.packets, others.bytes) = (others.packets + row.packets, others.bytes + row.bytes);
    }
    let table = terminal_table::ranked(&columns, shown.iter().map(row));
    let more = all.count - shown.len() as u64;
    format!("Conversations by IP address\n{table}\n{}", others_words(more, others, all.untracked))
}

/// A line on conversations that are not shown.
fn others_words(more: u64, others: Count, untracked: Count) -> String {
    if others.packets == 0 {
        return String::new();
    }
    let [packets, bytes] = [show::count(others.packets), show::bytes(others.bytes)];
    let lacking = match untracked.packets {
        0 => String::new(),
        packets => format!("; {} packets are of conversations beyond the limit", show::count(packets)),
    };
    format!("  {} others: {packets} packets, {bytes}{lacking}\n", show::count(more))
}

fn hosts(traffic: &Traffic) -> String {
    let row = |row: &Host| {
        let [packets, sent, received] =
            [row.packets, row.sent.packets, row.received.packets].map(show::count);
        let [bytes_sent, bytes_received] = [row.sent.bytes, row.received.bytes].map(show::bytes);
        vec![row.address.to_string(), packets, sent, received, bytes_sent, bytes_received]
    };
    let columns = [
        ("host", false, 0),
        ("packets", true, 0),
        ("packets sent", true, 3),
        ("packets received", true, 3),
        ("bytes sent", true, 1),
        ("bytes received", true, 1),
    ];
    let hosts = &traffic.hosts;
    if hosts.rows.is_empty() {
        return String::new();
    }
    let shown = hosts.rows.len().min(ROWS_SHOWN);
    let table = terminal_table::ranked(&columns, hosts.rows[..shown].iter().map(row));
    format!("Hosts\n{table}\n{}", rest(hosts.count - shown as u64, "hosts"))
}

fn connections(tcp: &TcpTraffic) -> String {
    if tcp.attempts + tcp.untracked == 0 {
        return String::new();
    }
    let fates = [
        (tcp.answered, "answered"),
        (tcp.refused, "refused"),
        (tcp.unanswered, "unanswered"),
        (tcp.undecided, "too late in the capture to be judged"),
        (tcp.untracked, "more, which had no place in the table"),
    ];
    let fates = show::present(fates).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "Connections of TCP\n{}",
        labelled("opened", &format!("{}: {fates}", show::count(tcp.attempts)))
    );
    text += &labelled("repeated", &counted(tcp.repeated_syns, "SYN", "SYNs"));
    text += &labelled("RTT", &times(&tcp.rtt_ns, "from SYN to SYN-ACK"));
    let failing = tcp.servers.iter().filter(|row| row.refused + row.unanswered > 0);
    let mut rows = failing
        .clone()
        .take(ROWS_SHOWN)
        .map(|row| {
            let counts = [row.attempts, row.refused, row.unanswered].map(show::count);
            let rtt = if row.answered == 0 { "–".to_owned() } else { show::span_ns(row.rtt_mean_ns) };
            [row.server.to_string()].into_iter().chain(counts).chain([rtt]).collect::<Vec<_>>()
        })
        .peekable();
    if rows.peek().is_some() {
        let columns = [
            ("server", false, 0),
            ("opened", true, 0),
            ("refused", true, 0),
            ("unanswered", true, 0),
            ("mean RTT", true, 1),
        ];
        text += &format!("{}\n", terminal_table::ranked(&columns, rows));
        text += &rest((failing.count().saturating_sub(ROWS_SHOWN)) as u64, "servers");
    }
    text
}

fn retransmissions(tcp: &TcpTraffic) -> String {
    let (again, late) = (tcp.retransmitted_bytes, tcp.late_bytes);
    let words = |bytes: u64, words: &str| match bytes {
        0 => String::new(),
        bytes => format!("{} {words}", show::bytes(bytes)),
    };
    let lines = [
        labelled("again", &words(again, "came more than once")),
        labelled(
            "late",
            &words(late, "came after later bytes: lost before the capture and sent again, or out of order"),
        ),
    ];
    if again + late == 0 { String::new() } else { format!("Retransmissions of TCP\n{}", lines.concat()) }
}

fn dns(dns: &DnsTraffic) -> String {
    if dns.queries + dns.unasked + dns.untracked == 0 {
        return String::new();
    }
    let fates = [
        (dns.answered, "answered"),
        (dns.unanswered, "unanswered"),
        (dns.undecided, "too late in the capture to be judged"),
        (dns.untracked, "more, which had no place in the table"),
        (dns.repeated, "repeated"),
        (dns.unasked, "answers without a query"),
    ];
    let fates = show::present(fates).collect::<Vec<_>>().join(", ");
    let others = dns.failures - dns.nxdomain - dns.servfail;
    let failures = [(dns.nxdomain, "NXDOMAIN"), (dns.servfail, "SERVFAIL"), (others, "of other codes")];
    let failures = show::present(failures).collect::<Vec<_>>().join(", ");
    let names = dns.names.iter().filter(|row| !row.name.is_empty()).take(NAMES_SHOWN);
    let names = names.map(|row| format!("{} ({}, {})", row.name, row.code, show::count(row.count)));
    let silent = dns.servers.iter().filter(|row| row.unanswered > 0).take(NAMES_SHOWN).map(|row| {
        format!("{} ({} of {})", row.server, show::count(row.unanswered), show::count(row.queries))
    });
    [
        "DNS\n".to_owned(),
        labelled("queries", &format!("{}: {fates}", show::count(dns.queries))),
        labelled("response", &times(&dns.response_ns, "from query to answer")),
        labelled("failures", &failures),
        labelled("names", &names.collect::<Vec<_>>().join(", ")),
        labelled("unanswered", &silent.collect::<Vec<_>>().join(", ")),
    ]
    .concat()
}

/// Quantiles of times, ns.
fn times(times: &Quantiles, what: &str) -> String {
    if times.count == 0 {
        return String::new();
    }
    let [median, most, longest] = [times.p50, times.p99, times.max].map(show::span_ns);
    format!("{median} median, {most} for 99 %, {longest} at most, {what}")
}

fn counted(count: u64, one: &str, several: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("1 {one}"),
        count => format!("{} {several}", show::count(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff::traffic::{FailedName, TcpServer};

    fn traffic() -> Traffic {
        let mut traffic = Traffic { packets: 10, bytes: 1000, seconds: Some(2.0), ..Traffic::default() };
        traffic.protocols = ["eth", "ip", "tcp"]
            .iter()
            .enumerate()
            .map(|(depth, name)| ProtocolRow {
                path: String::new(),
                name: (*name).to_owned(),
                depth,
                packets: 10 - depth as u64,
                bytes: 1000,
            })
            .collect();
        let server = TcpServer {
            server: "10.0.0.2:81".parse().unwrap(),
            attempts: 3,
            answered: 1,
            refused: 2,
            unanswered: 0,
            rtt_mean_ns: 2_000_000,
            rtt_max_ns: 2_000_000,
        };
        traffic.tcp = TcpTraffic {
            attempts: 3,
            answered: 1,
            refused: 2,
            servers: vec![server],
            ..TcpTraffic::default()
        };
        traffic
    }

    #[test]
    fn each_part_has_the_command_that_looks_closer() {
        let mut traffic = traffic();
        traffic.dns.queries = 1;
        traffic.dns.failures = 1;
        traffic.dns.nxdomain = 1;
        traffic.dns.names =
            vec![FailedName { name: "wpad.\u{1b}x".into(), code: "NXDOMAIN".into(), count: 1 }];
        let closer = Closer::new(&["a b.pcap".into()]);
        let commands = commands(&traffic, &closer);
        let text = page(&["a b.pcap".into()], &traffic, &Report::default(), &commands);
        let expected = "  → quaff capture --read 'a b.pcap' -f 'host 10.0.0.2 and tcp port 81' --print\n";
        assert!(text.contains(expected) && text.contains("  → quaff verify 'a b.pcap'\n"), "{text}");
        assert!(text.contains("3: 1 answered, 2 refused") && text.contains("1 NXDOMAIN"), "{text}");
        assert!(
            !text.contains('\u{1b}') && text.contains("   ip  ") && text.contains("     tcp  "),
            "{text}"
        );
    }

    #[test]
    fn a_file_without_packets_has_a_page_too() {
        let traffic = Traffic::default();
        let commands = commands(&traffic, &Closer::new(&["-".into()]));
        let text = page(&["-".into()], &traffic, &Report::default(), &commands);
        assert!(text.starts_with("-: 0 packets") && text.contains("Complete?"), "{text}");
        assert!(!text.contains('→'), "stdin cannot be read again: {text}");
    }
}
