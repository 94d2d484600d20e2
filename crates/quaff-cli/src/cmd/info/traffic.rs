//! `quaff info --traffic`: the page of the traffic of files, each part with the command that looks closer. It counts
//! nothing.

use super::closer::{Closer, Command};
use super::words::{duration, labelled};
use crate::capture_files::Found;
use crate::exit::Exit;
use crate::show::{self, Stream};
use crate::terminal_table::{self, Columns};
use quaff::format::percent_bare;
use quaff::traffic::{
    self, Conversation, DnsTraffic, FailedName, Host, PacketCount, ProtocolRow, TcpServer, TcpTraffic,
    Traffic,
};
use quaff_file::Quantiles;
use quaff_file::read;
use quaff_file::verify::Report;
use serde::Serialize;
use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows of the hierarchy, and of each other table, without --top.
const PROTOCOLS_SHOWN: usize = 30;
const ROWS_SHOWN: usize = 5;
/// Names in a line.
const NAMES_SHOWN: usize = 3;
/// A space that stays at the start of a cell.
const INDENT: &str = "\u{a0}";
/// The row of packets in which no protocol is inside another one: Wireshark's "end packets".
const ENDS_HERE: &str = "(ends here)";

/// The extent of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Rows of each list, 0 for all; `None`: as many as a page has.
    pub(super) top: Option<usize>,
    pub(super) columns: Columns,
}

impl Extent {
    /// Rows of a list of which a page has `rows`.
    fn rows(self, rows: usize) -> usize {
        match self.top {
            None => rows,
            Some(0) => usize::MAX,
            Some(top) => top,
        }
    }
}

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

/// Reads the files that were found where they were `named`, prints their traffic, and returns the exit status.
pub(super) fn run(
    named: &[PathBuf],
    found: Found,
    salvage: bool,
    extent: Extent,
    json: bool,
) -> anyhow::Result<Exit> {
    let Found { files, in_folders } = found;
    let reading = read::Options { salvage, found: Arc::new(in_folders), ..read::Options::default() };
    let (traffic, report) = traffic::read(&files, reading, &mut |_| ());
    let outcome = &report.outcome;
    let names: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
    let commands = Closer::new(named, salvage).commands(&traffic);
    if json {
        let (notes, error) = (&outcome.notes, outcome.error.as_deref());
        let page = Page { files: &names, traffic: &traffic, commands, notes, error };
        show::json(Stream::Stdout, &page)?;
    } else if !outcome.unreadable || traffic.packets > 0 {
        let text = page(&names, &traffic, &report, &commands, extent);
        match extent.columns {
            // Rows of tables stay whole, however narrow the terminal.
            Columns::All => show::print(text.trim_end()),
            Columns::Fitting(_) => show::report(Stream::Stdout, text.trim_end()),
        }
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

/// The page.
fn page(
    names: &[String],
    traffic: &Traffic,
    report: &Report,
    commands: &[Command],
    extent: Extent,
) -> String {
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
    add(protocols(traffic, extent), "protocols");
    add(conversations(traffic, extent), "conversations");
    add(hosts(traffic, extent), "hosts");
    add(connections(&traffic.tcp) + &failing_servers(&traffic.tcp, extent), "connections");
    add(retransmissions(&traffic.tcp), "retransmissions");
    add(dns(&traffic.dns, extent), "dns");
    add(format!("Complete?\n{}", labelled("verify", &traffic.verify.verdict)), "verify");
    parts.join("\n")
}

fn head(names: &[String], traffic: &Traffic, report: &Report) -> String {
    let what = match names {
        [one] => show::name(one).into_owned(),
        several => format!("{} as one capture", show::number_of(several.len() as u64, "file")),
    };
    let (packets, bytes) = (show::number_of(traffic.packets, "packet"), show::bytes(traffic.bytes));
    let untimed = match traffic.untimed {
        0 => String::new(),
        count => format!("; {} without a time", show::count(count)),
    };
    let mut text = format!("{what}: {packets}, {bytes} on the wire{untimed}\n");
    let mut line = |label: &str, words: String| text += &labelled(label, &words);
    line("first", traffic.first_ns.map(show::time_ns).unwrap_or_default());
    line("last", traffic.last_ns.map(show::time_ns).unwrap_or_default());
    line("duration", traffic.seconds.map(|seconds| rates(seconds, traffic)).unwrap_or_default());
    line("order", order(traffic.backward));
    report.outcome.notes.iter().for_each(|note| line("note", note.clone()));
    let label = if report.outcome.unreadable { "UNREADABLE" } else { "DAMAGED" };
    line(label, report.outcome.error.clone().unwrap_or_default());
    text
}

/// The duration of the capture, and its mean rates.
fn rates(seconds: f64, traffic: &Traffic) -> String {
    let time = duration(seconds);
    if seconds <= 0.0 {
        return time;
    }
    let pps = show::pps(traffic.packets as f64 / seconds);
    format!("{time}, {pps}, {}", show::bits(8.0 * traffic.bytes as f64 / seconds))
}

/// A line on packets that are not in the order of their times.
fn order(backward: u64) -> String {
    match backward {
        0 => String::new(),
        count => format!(
            "{} earlier than the one before: answers may count as missing; quaff merge --reorder sorts by time",
            show::number_of(count, "packet")
        ),
    }
}

/// A row of the hierarchy on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line<'a> {
    name: &'a str,
    depth: usize,
    packets: u64,
    bytes: u64,
}

/// Ends the rows around others that are at `depth` or deeper.
fn close<'a>(around: &mut Vec<(Line<'a>, bool)>, lines: &mut Vec<Line<'a>>, depth: usize) {
    while around.len() > depth
        && let Some((left, has_inner)) = around.pop()
    {
        if has_inner && left.packets > 0 {
            lines.push(Line { name: ENDS_HERE, depth: left.depth + 1, ..left });
        }
    }
}

/// The rows of the hierarchy. Where a protocol has others inside it, a row after them has the packets without these, so
/// that the rows inside it add up to it.
fn lines(rows: &[ProtocolRow]) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    // The rows around the next one with what those inside leave of them; `true` if there are any.
    let mut around: Vec<(Line<'_>, bool)> = Vec::new();
    for ProtocolRow { name, depth, packets, bytes, .. } in rows {
        let line = Line { name, depth: *depth, packets: *packets, bytes: *bytes };
        close(&mut around, &mut lines, line.depth);
        if let Some((left, has_inner)) = around.last_mut() {
            left.packets = left.packets.saturating_sub(line.packets);
            left.bytes = left.bytes.saturating_sub(line.bytes);
            *has_inner = true;
        }
        lines.push(line);
        around.push((line, false));
    }
    close(&mut around, &mut lines, 0);
    lines
}

/// The `most` rows with the most bytes, in their order. The protocols around one are among them: they have no fewer
/// bytes, and come before it.
fn largest(mut lines: Vec<Line<'_>>, most: usize) -> Vec<Line<'_>> {
    let mut places: Vec<usize> = (0..lines.len()).collect();
    places.sort_by_key(|at| Reverse(lines[*at].bytes));
    places.truncate(most);
    places.sort_unstable();
    let mut at = 0;
    lines.retain(|_| {
        at += 1;
        places.binary_search(&(at - 1)).is_ok()
    });
    lines
}

fn protocols(traffic: &Traffic, extent: Extent) -> String {
    let share = |part: u64, all: u64| percent_bare(part as f64 / all.max(1) as f64);
    let row = |row: &Line<'_>| {
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
    let lines = lines(&traffic.protocols);
    let count = lines.len();
    let shown = largest(lines, extent.rows(PROTOCOLS_SHOWN));
    if shown.is_empty() {
        return String::new();
    }
    let more = (count - shown.len()) as u64;
    let table = terminal_table::ranked(&columns, shown.iter().map(row), extent.columns);
    format!("Protocols\n{table}\n{}", rest(more, more, "row"))
}

/// A line on `more` rows that are not shown, of which `listed` are in a list.
fn rest(more: u64, listed: u64, noun: &str) -> String {
    match more {
        0 => String::new(),
        more => format!("  {}{}\n", show::number_of(more, &format!("more {noun}")), way(more, listed)),
    }
}

/// The way to `more` rows that are not shown, of which `listed` are in a list.
fn way(more: u64, listed: u64) -> String {
    match listed {
        0 => ", only counted".to_owned(),
        listed if listed < more => format!("; --top 0 lists {} of them", show::count(listed)),
        _ => "; --top 0 lists all".to_owned(),
    }
}

fn conversations(traffic: &Traffic, extent: Extent) -> String {
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
    let (shown, listed) = all.rows.split_at(all.rows.len().min(extent.rows(ROWS_SHOWN)));
    if shown.is_empty() {
        return String::new();
    }
    let mut others = all.others;
    for row in listed {
        (others.packets, others.bytes) = (others.packets + row.packets, others.bytes + row.bytes);
    }
    let table = terminal_table::ranked(&columns, shown.iter().map(row), extent.columns);
    let more = [all.count - shown.len() as u64, listed.len() as u64];
    format!("Conversations by IP address\n{table}\n{}", others_words(more, others, all.untracked))
}

/// A line on `more` conversations that are not shown, of which `listed` are in the list.
fn others_words([more, listed]: [u64; 2], others: PacketCount, untracked: PacketCount) -> String {
    if others.packets == 0 {
        return String::new();
    }
    let way = if more == 0 { String::new() } else { way(more, listed) };
    let (count, bytes) = (show::number_of(more, "other"), show::bytes(others.bytes));
    let packets = |of: PacketCount| show::number_of(of.packets, "packet");
    let lacking = match untracked.packets {
        0 => String::new(),
        _ => format!("; {} of conversations beyond the limit", packets(untracked)),
    };
    format!("  {count}: {}, {bytes}{lacking}{way}\n", packets(others))
}

fn hosts(traffic: &Traffic, extent: Extent) -> String {
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
    let shown = hosts.rows.len().min(extent.rows(ROWS_SHOWN));
    let table = terminal_table::ranked(&columns, hosts.rows[..shown].iter().map(row), extent.columns);
    let listed = (hosts.rows.len() - shown) as u64;
    format!("Hosts\n{table}\n{}", rest(hosts.count - shown as u64, listed, "host"))
}

fn connections(tcp: &TcpTraffic) -> String {
    if tcp.attempts + tcp.untracked == 0 {
        return String::new();
    }
    let fates = [
        (tcp.answered, "answered"),
        (tcp.one_way, "one way"),
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
    text += &labelled("repeated", &unless_zero(tcp.repeated_syns, "SYN"));
    text += &labelled("missing", &syn_acks_missing(tcp));
    text += &labelled("RTT", &times(&tcp.rtt_ns, "from SYN to SYN-ACK"));
    text
}

/// The answers that later packets show, and that the capture lacks.
fn syn_acks_missing(tcp: &TcpTraffic) -> String {
    match tcp.syn_acks_missing {
        0 => String::new(),
        count => format!(
            "{}, as later packets show: lost by the capture, or in a direction that it lacks",
            show::number_of(count, "SYN-ACK")
        ),
    }
}

/// The servers that refuse or do not answer.
fn failing_servers(tcp: &TcpTraffic, extent: Extent) -> String {
    let failing: Vec<_> = tcp.servers.iter().filter(|row| row.failed() > 0).collect();
    let shown = &failing[..failing.len().min(extent.rows(ROWS_SHOWN))];
    if shown.is_empty() {
        return String::new();
    }
    let row = |row: &&TcpServer| {
        let counts = [row.sums.attempts, row.sums.refused, row.sums.unanswered].map(show::count);
        let rtt = row.rtt_mean_ns.map_or_else(|| "–".to_owned(), show::span_ns);
        [row.server.to_string()].into_iter().chain(counts).chain([rtt]).collect()
    };
    let columns = [
        ("server", false, 0),
        ("opened", true, 0),
        ("refused", true, 0),
        ("unanswered", true, 0),
        ("mean RTT", true, 1),
    ];
    let table = terminal_table::ranked(&columns, shown.iter().map(row), extent.columns);
    let (more, listed) = (tcp.failing_server_count - shown.len() as u64, failing.len() - shown.len());
    format!("{table}\n{}", rest(more, listed as u64, "server"))
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

fn dns(dns: &DnsTraffic, extent: Extent) -> String {
    if dns.queries + dns.unasked + dns.untracked == 0 {
        return String::new();
    }
    let fates = [
        (dns.answered, "answered"),
        (dns.unanswered, "unanswered"),
        (dns.undecided, "too late in the capture to be judged"),
        (dns.untracked, "more, which had no place in the table"),
    ];
    let fates = show::present(fates).collect::<Vec<_>>().join(", ");
    let others = dns.failures - dns.nxdomain - dns.servfail;
    let failures = [(dns.nxdomain, "NXDOMAIN"), (dns.servfail, "SERVFAIL"), (others, "of other codes")];
    let failures = show::present(failures).collect::<Vec<_>>().join(", ");
    let strays = match dns.unasked {
        0 => String::new(),
        count => format!("{} without a query", show::number_of(count, "answer")),
    };
    [
        "DNS\n".to_owned(),
        labelled("queries", &format!("{}: {fates}", show::count(dns.queries))),
        labelled("repeated", &unless_zero(dns.repeated, "query")),
        labelled("strays", &strays),
        labelled("response", &times(&dns.response_ns, "from query to answer")),
        labelled("failures", &failures),
        labelled("names", &failing_names(dns, extent)),
        labelled("unanswered", &silent_servers(dns, extent)),
    ]
    .concat()
}

/// The names that failed most often, and the number of the others.
fn failing_names(dns: &DnsTraffic, extent: Extent) -> String {
    let named: Vec<_> = dns.names.iter().filter(|row| !row.name.is_empty()).collect();
    let unlisted = dns.name_count.saturating_sub(dns.names.len() as u64);
    let words = |row: &&FailedName| format!("{} ({}, {})", row.name, row.code, show::count(row.count));
    line_of(named.iter().map(words), unlisted, extent)
}

/// The servers with the most unanswered queries, and the number of the others.
fn silent_servers(dns: &DnsTraffic, extent: Extent) -> String {
    let silent = dns.servers.iter().filter(|row| row.sums.unanswered > 0).map(|row| {
        let [unanswered, queries] = [row.sums.unanswered, row.sums.queries].map(show::count);
        format!("{} ({unanswered} of {queries})", row.server)
    });
    line_of(silent, 0, extent)
}

/// The first items in a line, and the number of the others, of which `unlisted` are in no list. Empty without items.
fn line_of(items: impl Iterator<Item = String>, unlisted: u64, extent: Extent) -> String {
    let mut items: Vec<String> = items.collect();
    if items.is_empty() {
        return String::new();
    }
    let listed = items.len().saturating_sub(extent.rows(NAMES_SHOWN));
    items.truncate(items.len() - listed);
    let more = listed as u64 + unlisted;
    let others = match more {
        0 => String::new(),
        more => format!("; {} more{}", show::count(more), way(more, listed as u64)),
    };
    items.join(", ") + &others
}

/// Quantiles of times, ns.
fn times(times: &Quantiles, what: &str) -> String {
    if times.count == 0 {
        return String::new();
    }
    let [median, most, longest] = [times.p50, times.p99, times.max].map(show::span_ns);
    format!("{median} median, {most} for 99 %, {longest} at most, {what}")
}

/// A number with what it counts, and nothing for 0.
fn unless_zero(count: u64, noun: &str) -> String {
    if count == 0 { String::new() } else { show::number_of(count, noun) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff::traffic::Attempts;

    fn traffic() -> Traffic {
        let mut traffic = Traffic { packets: 10, bytes: 1000, seconds: Some(2.0), ..Traffic::default() };
        traffic.protocols = ["eth", "ip", "tcp"]
            .iter()
            .enumerate()
            .map(|(depth, name)| ProtocolRow {
                path: ["eth", "eth:ip", "eth:ip:tcp"][depth].to_owned(),
                name: (*name).to_owned(),
                depth,
                packets: 10 - depth as u64,
                bytes: 1000,
            })
            .collect();
        let server = TcpServer {
            server: "10.0.0.2:81".parse().unwrap(),
            sums: Attempts { attempts: 3, answered: 1, refused: 2, ..Attempts::default() },
            rtt_mean_ns: Some(2_000_000),
            rtt_max_ns: Some(2_000_000),
        };
        traffic.tcp = TcpTraffic {
            attempts: 3,
            answered: 1,
            refused: 2,
            server_count: 1,
            failing_server_count: 1,
            servers: vec![server],
            ..TcpTraffic::default()
        };
        traffic
    }

    const EXTENT: Extent = Extent { top: None, columns: Columns::All };

    /// The shown rows: depth, name and packets.
    fn tree(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(|line| format!("{} {} {}", line.depth, line.name, line.packets)).collect()
    }

    #[test]
    fn the_rows_inside_a_protocol_add_up_to_it() {
        let row = |path: &str, packets: u64| ProtocolRow {
            path: path.to_owned(),
            name: path.rsplit(':').next().unwrap_or_default().to_owned(),
            depth: path.matches(':').count(),
            packets,
            bytes: 100 * packets,
        };
        let rows = [
            row("eth", 20),
            row("eth:ip", 17),
            row("eth:ip:tcp", 12),
            row("eth:ip:tcp:tls", 3),
            row("eth:ip:tcp:http", 2),
            row("eth:ip:udp", 5),
            row("eth:arp", 2),
            row("others", 1),
        ];
        let lines = lines(&rows);
        let expected = [
            "0 eth 20",
            "1 ip 17",
            "2 tcp 12",
            "3 tls 3",
            "3 http 2",
            "3 (ends here) 7",
            "2 udp 5",
            "1 arp 2",
            "1 (ends here) 1",
            "0 others 1",
        ];
        assert_eq!(tree(&lines), expected);
        assert_eq!(lines[5].bytes, 700);
        // The largest ones, below those around them.
        let expected = ["0 eth 20", "1 ip 17", "2 tcp 12", "3 (ends here) 7"];
        assert_eq!(tree(&largest(lines.clone(), 4)), expected);
        assert_eq!(largest(lines.clone(), usize::MAX), lines);
    }

    #[test]
    fn a_list_that_is_cut_has_the_number_of_the_others() {
        let mut dns =
            DnsTraffic { queries: 9, failures: 9, nxdomain: 9, name_count: 7, ..DnsTraffic::default() };
        let name = |name: &str| FailedName { name: name.into(), code: "NXDOMAIN".into(), count: 1 };
        dns.names = ["a", "", "b", "c", "d", "e"].map(name).to_vec();
        let of = |top| failing_names(&dns, Extent { top, ..EXTENT });
        assert!(of(None).ends_with("c (NXDOMAIN, 1); 3 more; --top 0 lists 2 of them"), "{}", of(None));
        assert!(of(Some(1)).ends_with("a (NXDOMAIN, 1); 5 more; --top 0 lists 4 of them"), "{}", of(Some(1)));
        assert!(of(Some(0)).ends_with("e (NXDOMAIN, 1); 1 more, only counted"), "{}", of(Some(0)));
        dns.name_count = 6;
        let whole = failing_names(&dns, Extent { top: Some(5), ..EXTENT });
        assert!(whole.ends_with("e (NXDOMAIN, 1)"), "{whole}");
        // Answers without a name have no line.
        dns.names = vec![name("")];
        assert_eq!(failing_names(&dns, EXTENT), "");
    }

    #[test]
    fn each_part_has_the_command_that_looks_closer() {
        let mut traffic = traffic();
        traffic.dns.queries = 1;
        traffic.dns.failures = 1;
        traffic.dns.nxdomain = 1;
        traffic.dns.names =
            vec![FailedName { name: "wpad.\u{1b}x".into(), code: "NXDOMAIN".into(), count: 1 }];
        let commands = Closer::new(&["a b.pcap".into()], false).commands(&traffic);
        let text = page(&["a b.pcap".into()], &traffic, &Report::default(), &commands, EXTENT);
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
        let commands = Closer::new(&["-".into()], false).commands(&traffic);
        let text = page(&["-".into()], &traffic, &Report::default(), &commands, EXTENT);
        assert!(text.starts_with("-: 0 packets") && text.contains("Complete?"), "{text}");
        assert!(!text.contains('→'), "stdin cannot be read again: {text}");
    }

    #[test]
    fn lines_have_the_way_to_what_is_not_shown_and_no_plural_of_one() {
        assert_eq!(rest(0, 0, "host"), "");
        assert_eq!(rest(1, 1, "host"), "  1 more host; --top 0 lists all\n");
        assert_eq!(rest(20_000, 9_995, "host"), "  20,000 more hosts; --top 0 lists 9,995 of them\n");
        assert_eq!(rest(10_005, 0, "host"), "  10,005 more hosts, only counted\n");
        let count = |packets| PacketCount { packets, bytes: 60 };
        let words = "  1 other: 1 packet, 60 B; --top 0 lists all\n";
        assert_eq!(others_words([1, 1], count(1), count(0)), words);
        let words = "  0 others: 9 packets, 60 B; 1 packet of conversations beyond the limit\n";
        assert_eq!(others_words([0, 0], count(9), count(1)), words);
        assert_eq!(
            [unless_zero(0, "query"), unless_zero(1, "query"), unless_zero(2, "query")],
            ["", "1 query", "2 queries"]
        );
    }

    #[test]
    fn queries_add_up_and_their_repetitions_are_apart() {
        let mut traffic = Traffic::default();
        (traffic.dns.queries, traffic.dns.answered, traffic.dns.unanswered) = (21, 20, 1);
        (traffic.dns.repeated, traffic.dns.unasked) = (1, 3);
        let text = dns(&traffic.dns, EXTENT);
        for line in ["queries     21: 20 answered, 1 unanswered\n", "repeated    1 query\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("strays      3 answers without a query\n"), "{text}");
    }

    #[test]
    fn connections_of_which_one_direction_was_captured_are_not_unanswered() {
        let tcp = TcpTraffic { attempts: 9, answered: 4, one_way: 3, unanswered: 2, ..TcpTraffic::default() };
        let text = connections(&TcpTraffic { syn_acks_missing: 5, ..tcp.clone() });
        assert!(text.contains("opened      9: 4 answered, 3 one way, 2 unanswered\n"), "{text}");
        assert!(text.contains("missing     5 SYN-ACKs, as later packets show"), "{text}");
        assert!(!connections(&tcp).contains("missing"));
    }

    #[test]
    fn the_head_has_packets_without_a_time_and_those_out_of_order() {
        let traffic = Traffic { packets: 3, untimed: 1, backward: 1, ..Traffic::default() };
        let mut report = Report::default();
        report.outcome.error = Some("No such file".to_owned());
        let text = head(&["a".into()], &traffic, &report);
        assert!(text.starts_with("a: 3 packets, 0 B on the wire; 1 without a time\n"), "{text}");
        assert!(text.contains("1 packet earlier") && text.contains("--reorder"), "{text}");
        assert!(text.contains("DAMAGED"), "{text}");
        report.outcome.unreadable = true;
        assert!(!head(&["a".into()], &traffic, &report).contains("DAMAGED"));
    }
}
