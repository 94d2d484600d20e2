//! `quaff streams list`: its arguments, plan, rows and exit.

use super::input::RuleArgs;
use super::report::{self, Place};
use crate::exit::Exit;
use crate::flags::{FileArgs, FilteredArgs, Given, GrepArg, NoSandboxArg, UtcArg, WideArg, of};
use crate::shell::{self, ONLY_ERRORS, ReportArgs, WatchArgs};
use crate::show::{self, Stream, name};
use crate::terminal_table::{self, Columns};
use anyhow::ensure;
use quaff::format;
use quaff::plan::SandboxPlan;
use quaff::streams::{ListPlan, ReaderPlan, RowSink, StreamMatch, StreamRow, StreamsPlan, StreamsReport};
use quaff_file::moment;
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use quaff_stream::tracker::TrackPlan;
use quaff_wire::printable::{quote, quote_path};
use std::net::SocketAddr;
use std::path::PathBuf;

/// List the TCP connections and UDP conversations of capture files
///
/// One row each, in the order of their first packets: number, ends, bytes of payload from each side, bytes that are
/// missing, how it ended, start and duration, application and host. UDP conversations have numbers of their own, with
/// a u before them. 'quaff streams follow' prints the one with a number, with the same files in the same order and the
/// same filters. With --grep only those that match are listed, with their numbers among all.
///
/// Exit status: 0 nothing is missing; 1 bytes are missing, or an input file is damaged; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("grep", |arg| arg.help(GREP).long_help(LONG_GREP))),
    mut_args(of("quiet", |arg| arg.help(ONLY_ERRORS))),
    mut_args(of("json", |arg| arg.help("Print each row as a JSON object, one per line")))
)]
pub(super) struct Args {
    #[command(flatten)]
    input: FilteredArgs,
    #[command(flatten)]
    packets: Given<FileArgs>,
    #[command(flatten, next_help_heading = "Filter")]
    grep: GrepArg,
    #[command(flatten)]
    rules: Given<RuleArgs>,

    #[command(flatten)]
    no_sandbox: NoSandboxArg,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    wide: WideArg,
    #[command(flatten)]
    _utc: UtcArg,
    #[command(flatten)]
    watch: WatchArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff streams list day.pcapng
  quaff streams list day.pcapng host 10.0.0.1
  quaff streams list day.pcapng --grep '(?i)password'
  quaff streams list a.pcap b.pcap --json | jq 'select(.ended == \"refused\")'
  quaff streams follow day.pcapng 12";

const GREP: &str = "List only conversations in which a side matches a regular expression, such as '(?i)password', across \
                    packets";
const LONG_GREP: &str = "\
List only conversations in which a side matches a regular expression, such as '(?i)password', across packets

Each side of a TCP connection is searched as one text: a match may span packets, and none spans missing bytes. Of \
UDP each datagram is searched by itself. '^' is the start of a side or of a datagram, '$' its end; a byte is written \
\\xff. The column 'match' has the side and the offset of its first match.";

/// Rows of a table: those of a large capture are several, on a terminal each with its heading.
const PAGE_ROWS: usize = 10_000;
/// Bytes of JSON that are collected before they are printed.
const BUFFER_BYTES: usize = 64 << 10;

/// Heading of a column, whether it holds numbers, and its rank: the highest is left out first where there is no room.
/// The longest texts are last: they make no other row wide.
const COLUMNS: [(&str, bool, usize); 9] = [
    ("number", true, 0),
    ("connection", false, 0),
    ("from client", true, 1),
    ("from server", true, 1),
    ("missing", true, 2),
    ("ended", false, 3),
    ("start", false, 5),
    ("lasted", true, 6),
    (APPLICATION, false, 4),
];
/// The column of names, which may be cut.
const APPLICATION: &str = "application";
/// The column of --grep.
const MATCH: (&str, bool, usize) = ("match", false, 0);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    ensure!(!was_stdout_closed(), "stdout is closed: use a pipe or a file");
    let report = super::run::read(args.plan()?, &args.watch, true)?;
    let has_words = !args.watch.quiet.is_set();
    if has_words {
        show::say(args.words(&report).trim_end());
    }
    Ok(shell::ended(&report, has_words))
}

impl Args {
    fn plan(&self) -> anyhow::Result<StreamsPlan> {
        let rows: Box<dyn RowSink + Send> = match self.report.json {
            true => Box::new(JsonLines::default()),
            false => Box::new(Pages {
                rows: Vec::new(),
                is_begun: false,
                has_pattern: self.grep.is_some(),
                columns: Columns::wide(*self.wide),
            }),
        };
        Ok(StreamsPlan {
            input: self.packets.plan(self.input.find(&[])?),
            track: TrackPlan { udp: true, ..self.rules.plan(None) },
            reader: ReaderPlan::List(ListPlan { rows, pattern: (*self.grep).clone() }),
            also_written: vec![Output::Stdout],
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        })
    }

    /// The sums, what is missing, and the next command.
    fn words(&self, report: &StreamsReport) -> String {
        let (tcp, udp) = (report.connections.seen, report.udp.seen);
        let mut text = format!(
            "{}, {} and {}, in {:.1} s\n",
            show::number_of(report.packets, "packet"),
            show::number_of(tcp, "TCP connection"),
            show::number_of(udp, "UDP conversation"),
            report.seconds,
        );
        text += &self.search_words(report);
        text += &report::missing_words(report, Place::Text);
        text += &report::other_words(report, Place::Text);
        text += &report::input_words(report);
        if report.failure.is_none() && report.listed > 0 {
            text += &self.next_command();
        }
        text
    }

    /// The rows of --grep, and what was not searched.
    fn search_words(&self, report: &StreamsReport) -> String {
        if self.grep.is_none() {
            return String::new();
        }
        let counts = [(report.searched_in_part, "sides without a match searched in part: memory was needed")];
        let listed = show::number_of(report.listed, "conversation");
        format!("  {listed} with a match\n") + &show::counted("  ", counts)
    }

    /// The command that prints one of the rows: its number is that of the same files with the same flags.
    fn next_command(&self) -> String {
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        let named = self.input.named();
        if named.iter().any(is_stdin) {
            return String::new();
        }
        let path = |file: &PathBuf| quote_path(&file.display().to_string());
        let files: Vec<String> = match named {
            files if files.len() <= FILES_SHOWN => files.iter().map(path).collect(),
            [first, .., last] => vec![path(first), "…".into(), path(last)],
            _ => return String::new(),
        };
        let given = self.packets.words.iter().chain(&self.rules.words);
        let flags: String = given.map(|word| format!(" {}", quote(&word.to_string_lossy()))).collect();
        format!("  one of them: quaff streams follow {} NUMBER{flags}\n", files.join(" -r "))
    }
}

/// Files that the next command names one by one; of more the first and the last.
const FILES_SHOWN: usize = 4;

/// Rows as tables.
#[derive(Debug)]
struct Pages {
    rows: Vec<Vec<String>>,
    is_begun: bool,
    /// Each row has a match.
    has_pattern: bool,
    columns: Columns,
}

impl Pages {
    fn print(&mut self) {
        if !self.rows.is_empty() {
            let rows = std::mem::take(&mut self.rows).into_iter();
            let heads: Vec<_> = COLUMNS.into_iter().chain(self.has_pattern.then_some(MATCH)).collect();
            let table = terminal_table::listed((&heads, &[APPLICATION]), rows, !self.is_begun, self.columns);
            show::print(&table);
            self.is_begun = true;
        }
    }
}

impl RowSink for Pages {
    fn row(&mut self, row: &StreamRow) -> bool {
        let of_match = self.has_pattern.then(|| match_cell(row));
        self.rows.push(cells(row).into_iter().chain(of_match).collect());
        if self.rows.len() == PAGE_ROWS {
            self.print();
        }
        show::takes_stdout()
    }

    fn finish(&mut self) {
        self.print();
    }
}

/// The cells of a row, by [`COLUMNS`].
fn cells(row: &StreamRow) -> Vec<String> {
    let client = SocketAddr::new(row.client, row.client_port);
    let server = SocketAddr::new(row.server, row.server_port);
    let words = [row.application, row.host.as_deref()];
    let missing = row.from_client.gap_bytes + row.from_server.gap_bytes;
    let lasted_ns = row.last_ns.saturating_sub(row.first_ns);
    vec![
        row.id.clone(),
        // Without a line's end inside: as 'follow' takes it.
        format!("{} {client} → {server}", row.protocol).replace(' ', "\u{a0}"),
        show::bytes(row.from_client.bytes),
        show::bytes(row.from_server.bytes),
        if missing > 0 { show::bytes(missing) } else { String::new() },
        row.ended.into(),
        start(row.first_ns),
        format::span(lasted_ns as f64 / 1e9),
        name(&words.into_iter().flatten().collect::<Vec<_>>().join(" ")).into_owned(),
    ]
}

/// `client 1,024`; of UDP `server 7 in datagram 2`; of both sides both.
fn match_cell(row: &StreamRow) -> String {
    let words = |side: &str, found: StreamMatch| {
        let datagram = found.datagram.map(|number| format!(" in datagram {}", show::count(number)));
        format!("{side} {}{}", show::count(found.offset), datagram.unwrap_or_default()).replace(' ', "\u{a0}")
    };
    let sides = [("client", row.from_client.first_match), ("server", row.from_server.first_match)];
    let found = sides.into_iter().filter_map(|(side, found)| Some(words(side, found?)));
    found.collect::<Vec<_>>().join(", ")
}

/// `2026-11-20 10:04:11.123+01:00`.
fn start(ns: u64) -> String {
    moment::text(ns, 3).replace(['T', ' '], "\u{a0}")
}

/// Rows as lines of JSON.
#[derive(Debug, Default)]
struct JsonLines {
    text: String,
}

impl JsonLines {
    fn print(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            show::json_text(Stream::Stdout, text.trim_end());
        }
    }
}

impl RowSink for JsonLines {
    fn row(&mut self, row: &StreamRow) -> bool {
        self.text += &serde_json::to_string(row).expect("a row is strings and numbers");
        self.text.push('\n');
        if self.text.len() >= BUFFER_BYTES {
            self.print();
        }
        show::takes_stdout()
    }

    fn finish(&mut self) {
        self.print();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff::streams::StreamSide;

    #[test]
    fn a_row_has_the_words_that_follow_takes() {
        let [first, second] =
            [(1024, Some(2)), (0, None)].map(|(offset, datagram)| Some(StreamMatch { offset, datagram }));
        let side = StreamSide { bytes: 2048, gap_bytes: 7, first_match: first, ..StreamSide::default() };
        let row = StreamRow {
            id: "u3".into(),
            number: 3,
            protocol: "udp",
            client: [10, 0, 0, 1].into(),
            client_port: 4711,
            server: "fd00::1".parse().unwrap(),
            server_port: 443,
            first_ns: 1_700_000_000_123_456_789,
            last_ns: 1_700_000_042_000_000_000,
            application: Some("quic"),
            host: Some("a.example\u{1b}[2J".into()),
            opened: None,
            closed: "input_ended",
            ended: "open",
            from_client: side,
            from_server: StreamSide { first_match: second, ..StreamSide::default() },
        };
        assert_eq!(match_cell(&row), "client\u{a0}1,024\u{a0}in\u{a0}datagram\u{a0}2, server\u{a0}0");
        let expected = [
            "u3",
            "udp\u{a0}10.0.0.1:4711\u{a0}→\u{a0}[fd00::1]:443",
            "2.00 KiB",
            "0 B",
            "7 B",
            "open",
            &start(1_700_000_000_123_456_789),
            "42 s",
            "quic a.example\u{fffd}[2J",
        ];
        assert_eq!(cells(&row), expected);
        assert_eq!(expected.len(), COLUMNS.len());
    }
}
