//! `quaff streams follow`: its arguments, plan and exit.

use super::candidates::{Candidates, OneEnd};
use super::input::RuleArgs;
use super::printer::{Form, Printer, Side};
use super::report::{self, Place};
use super::target::Target;
use super::tls_printer::TlsPrinter;
use crate::capture_files;
use crate::exit::Exit;
use crate::flags::{FileArgs, NoSandboxArg, ReadArg, UtcArg, of, reworded};
use crate::shell::{self, ReportArgs, WatchArgs};
use crate::show::{self, message};
use crate::units::choice;
use anyhow::{bail, ensure};
use quaff::plan::SandboxPlan;
use quaff::streams::{FollowPlan, ListPlan, ReaderPlan, StreamProtocol, StreamsPlan, StreamsReport};
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use quaff_stream::tracker::{ConnectionSink, TrackPlan};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Print one TCP connection or UDP conversation: both sides in the order in which their bytes came
///
/// As text, characters that a terminal would obey and all beyond ASCII are dots. A line before each change of sides,
/// and before each datagram of UDP, has sender, receiver and time; a gap is a line of its own.
///
/// With --tls each record of TLS is a line: side, time, type, version and length, then the handshake messages and the
/// alert in it, as far as they are in the clear. Nothing is decrypted.
///
/// Exit status: 0 nothing is missing; 1 bytes of it are missing, or FILE is damaged; 2 it failed, or there is no such
/// connection.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("read", |arg| reworded(arg, READ))),
    mut_args(of("quiet", |arg| arg.help("Print no remarks on stderr"))),
    mut_args(of("json", |arg| arg.help(JSON).conflicts_with_all(["hex", "raw"])))
)]
pub(super) struct Args {
    /// Capture file, or folder of captures; '-' is stdin. It may be named by -r, too
    #[arg(value_name = "FILE|DIR")]
    file: PathBuf,
    /// A number of 'quaff streams list' with the same files and filters, such as 12 or u3, or two ends in any order,
    /// such as '10.0.0.1:4711 10.0.0.2:80', 'udp 10.0.0.1:4711 → 10.0.0.2:53' or '[fd00::1]:4711 [fd00::2]:80'; without
    /// a protocol they are those of TCP
    #[arg(value_name = "CONNECTION", num_args = 1..)]
    connection: Vec<String>,
    /// Print the N-th connection between two ends [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Input")]
    nth: Option<u64>,
    #[command(flatten)]
    read: ReadArg,
    #[command(flatten)]
    packets: FileArgs,
    #[command(flatten)]
    rules: RuleArgs,

    /// Print what this side sent only. The client opened the connection, as far as FILE shows
    #[arg(long, value_name = "SIDE", value_parser = choice(SIDES), help_heading = "Output")]
    side: Option<Side>,
    /// Print bytes in hexadecimal digits too, with their offsets
    #[arg(long, conflicts_with = "raw", help_heading = "Output")]
    hex: bool,
    /// Print the bytes as they are, and nothing else
    #[arg(long, help_heading = "Output")]
    raw: bool,
    /// Print the TLS records of a TCP connection instead of its bytes
    #[arg(long, conflicts_with_all = ["hex", "raw"], help_heading = "Output")]
    tls: bool,
    #[command(flatten)]
    _utc: UtcArg,

    #[command(flatten)]
    no_sandbox: NoSandboxArg,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff streams follow day.pcapng 12
  quaff streams follow a.pcap -r b.pcap u3
  quaff streams follow day.pcapng 10.0.0.1:4711 10.0.0.2:80 --hex
  quaff streams follow day.pcapng 12 --tls
  quaff streams follow day.pcapng 'udp 10.0.0.1:4711 → 10.0.0.2:53'
  quaff streams follow a.pcap 10.0.0.1:4711 10.0.0.2:80 --raw --side server";

const SIDES: [(&str, Side, &str); 2] =
    [("client", Side::Client, "who opened it"), ("server", Side::Server, "the other end")];

const READ: &str = "Read FILE, or the captures in the folder DIR, after the one that is named as an argument, if any; repeat it for \
                    more";
const JSON: &str = "Print an object for each piece of data and each gap, one per line, with data in base64; with --tls for \
                    each record";

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    check_stdout(args.raw)?;
    if let Some((files, end)) = args.files_and_end() {
        let candidates = Candidates::new(end);
        let report = super::run::read(args.list_plan(&files, candidates.clone())?, &args.watch, true)?;
        if report.failure.is_some() {
            return Ok(shell::ended(&report, false));
        }
        let damage = report::input_words(&report);
        if !damage.is_empty() {
            show::say(damage.trim_end());
        }
        message(&candidates.words());
        return Ok(Exit::Failed);
    }
    let (files, target) = args.files_and_target()?;
    let number = args.number(target)?;
    let is_possible = !args.tls || target.protocol() == StreamProtocol::Tcp;
    ensure!(
        is_possible,
        "--tls is for TCP: UDP carries no TLS records; leave --tls out, or name a TCP connection"
    );
    let report = super::run::read(args.plan(&files, target, number)?, &args.watch, true)?;
    let found = count_of(target.protocol(), &report);
    if report.failure.is_none() && found < number {
        message(&absence(&files, target, &report));
        return Ok(Exit::judged(None));
    }
    if !args.watch.quiet.is_set() {
        if found > 1 && matches!(target, Target::Ends { .. }) {
            message(&format!("this is connection {number} of {found} between these ends: see --nth"));
        }
        let missing = report::missing_words(&report, Place::Text);
        if !missing.is_empty() {
            show::say(missing.trim_end());
        }
        report.notes.iter().for_each(|note| message(note));
    }
    // The words above are those of what is missing.
    let has_words = !args.watch.quiet.is_set() && report.failure.is_none();
    Ok(shell::ended(&report, has_words))
}

/// The conversations of a protocol that were looked at.
fn count_of(protocol: StreamProtocol, report: &StreamsReport) -> u64 {
    match protocol {
        StreamProtocol::Tcp => report.connections.seen,
        StreamProtocol::Udp => report.udp.seen,
    }
}

fn noun(protocol: StreamProtocol) -> &'static str {
    match protocol {
        StreamProtocol::Tcp => "TCP connection",
        StreamProtocol::Udp => "UDP conversation",
    }
}

/// The words about a connection that is not there.
fn absence(files: &[PathBuf], target: Target, report: &StreamsReport) -> String {
    let first = files.first().map(|path| path.display().to_string()).unwrap_or_default();
    let files = match files.len() as u64 {
        ..2 => format!("{first} has"),
        count => format!("{first} and {} have", show::number_of(count - 1, "more file")),
    };
    let protocol = target.protocol();
    let found = count_of(protocol, report);
    let found_words = show::number_of(found, noun(protocol));
    match target {
        Target::Ends { ends: [one, other], .. } if found > 0 => {
            format!("{files} {found_words} between {one} and {other}: choose one of them by --nth")
        }
        Target::Ends { ends: [one, other], protocol: None } if report.udp.seen > 0 => {
            let udp = show::number_of(report.udp.seen, noun(StreamProtocol::Udp));
            format!(
                "{files} no {} between {one} and {other}, but {udp}: write 'udp {one} {other}'",
                noun(protocol)
            )
        }
        Target::Ends { ends: [one, other], .. } => {
            format!("{files} {found_words} between {one} and {other}, at either end")
        }
        Target::Number { .. } => format!("{files} {found_words}: see 'quaff streams list'"),
    }
}

/// Refuses a stdout that bytes cannot go to: a terminal, or one that was closed.
fn check_stdout(is_raw: bool) -> anyhow::Result<()> {
    ensure!(!was_stdout_closed(), "stdout is closed: use a pipe or a file");
    let is_terminal = is_raw && std::io::stdout().is_terminal();
    ensure!(!is_terminal, "stdout is a terminal, and --raw is for programs: use a pipe or a file");
    Ok(())
}

impl Args {
    /// The files and folders, in the order in which they are read, and the connection. With -r the first word may be
    /// that of the connection.
    fn files_and_target(&self) -> anyhow::Result<(Vec<PathBuf>, Target)> {
        let first = self.file.to_string_lossy();
        let words: Vec<_> =
            std::iter::once(&*first).chain(self.connection.iter().map(String::as_str)).collect();
        if let Ok(target) = Target::read(&words.join(" "))
            && !self.has_file()
        {
            return Ok((self.read.to_vec(), target));
        }
        ensure!(
            !self.connection.is_empty(),
            "the connection is missing: its number in 'quaff streams list', or its two ends, after FILE"
        );
        let target = Target::read(&self.connection.join(" ")).map_err(anyhow::Error::msg)?;
        Ok((std::iter::once(&self.file).chain(self.read.iter()).cloned().collect(), target))
    }

    /// Returns whether the first word is a file: with -r it may be one of the connection.
    fn has_file(&self) -> bool {
        self.read.is_empty() || self.file == Path::new("-") || self.file.exists()
    }

    /// The files, and the end that is named alone; `None` where a connection is named.
    fn files_and_end(&self) -> Option<(Vec<PathBuf>, OneEnd)> {
        let file = Some(&self.file).filter(|_| self.has_file());
        let first = if file.is_none() { self.file.to_string_lossy() } else { "".into() };
        let words: Vec<_> =
            std::iter::once(&*first).chain(self.connection.iter().map(String::as_str)).collect();
        let end = OneEnd::read(&words.join(" "))?;
        Some((file.into_iter().chain(self.read.iter()).cloned().collect(), end))
    }

    /// The plan of a list of all connections, for those of one end.
    fn list_plan(&self, files: &[PathBuf], candidates: Candidates) -> anyhow::Result<StreamsPlan> {
        Ok(StreamsPlan {
            input: self.packets.plan(capture_files::find(files, &[])?),
            track: TrackPlan { udp: true, ..self.rules.plan(None) },
            reader: ReaderPlan::List(ListPlan { rows: Box::new(candidates), pattern: None }),
            also_written: vec![Output::Stdout],
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        })
    }

    /// The number of the connection to follow, among those between the two ends or of its protocol.
    fn number(&self, target: Target) -> anyhow::Result<u64> {
        match (target, self.nth) {
            (Target::Ends { .. }, nth) => Ok(nth.unwrap_or(1)),
            (Target::Number { number, .. }, None) => Ok(number),
            (Target::Number { .. }, Some(_)) => {
                bail!("--nth is for two ends: a number is that of one connection")
            }
        }
    }

    fn form(&self) -> Form {
        match (self.hex, self.raw, self.report.json) {
            (true, ..) => Form::Hex,
            (_, true, _) => Form::Raw,
            (.., true) => Form::Json,
            _ => Form::Text,
        }
    }

    fn plan(&self, files: &[PathBuf], target: Target, number: u64) -> anyhow::Result<StreamsPlan> {
        let protocol = target.protocol();
        let (only, is_counted) = match target {
            // Without a word UDP is counted, for the words about a connection that is not there.
            Target::Ends { ends, protocol } => (Some(ends), protocol.is_none()),
            Target::Number { .. } => (None, false),
        };
        let (tcp, udp) = (protocol == StreamProtocol::Tcp, protocol == StreamProtocol::Udp || is_counted);
        let sink: Box<dyn ConnectionSink + Send> = match self.tls {
            true => Box::new(TlsPrinter::new(self.report.json, self.side)),
            false => Box::new(Printer::new(self.form(), self.side)),
        };
        Ok(StreamsPlan {
            input: self.packets.plan(capture_files::find(files, &[])?),
            track: TrackPlan { tcp, udp, ..self.rules.plan(only) },
            reader: ReaderPlan::Follow(FollowPlan { protocol, number, sink }),
            also_written: vec![Output::Stdout],
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        })
    }
}
