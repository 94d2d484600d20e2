//! `quaff streams follow`: its arguments, plan and exit.

use super::input::RuleArgs;
use super::printer::{Form, Printer, Side};
use super::report;
use super::target::{Protocol, Target};
use crate::exit::Exit;
use crate::flags::{FileArgs, NoSandboxArg, of};
use crate::shell::{self, ReportArgs, WatchArgs};
use crate::show::{self, message};
use crate::units::choice;
use anyhow::{bail, ensure};
use quaff::plan::SandboxPlan;
use quaff::streams::{Chosen, FollowPlan, ReaderPlan, StreamsPlan};
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use quaff_stream::tracker::TrackPlan;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Print one TCP connection or UDP conversation: both sides in the order in which their bytes came
///
/// As text, characters that a terminal would obey and all beyond ASCII are dots. A line before each change of sides,
/// and before each datagram of UDP, has sender, receiver and time; a gap is a line of its own.
///
/// Exit status: 0 nothing is missing; 1 bytes of it are missing, or FILE is damaged; 2 it failed, or there is no such
/// connection.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("quiet", |arg| arg.help("Print no remarks on stderr"))),
    mut_args(of("json", |arg| arg.help(JSON).conflicts_with_all(["hex", "raw"])))
)]
pub(super) struct Args {
    /// Capture file; '-' is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A number of 'quaff streams list' with the same filters, such as 12 or u3, or the two ends in any order, such as
    /// 'udp 10.0.0.1:4711 → 10.0.0.2:53' or '[fd00::1]:4711 [fd00::2]:80'
    #[arg(value_name = "CONNECTION", required = true, num_args = 1..)]
    connection: Vec<String>,
    /// Print the N-th connection between two ends [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Input")]
    nth: Option<u64>,
    #[command(flatten)]
    packets: FileArgs,
    #[command(flatten)]
    rules: RuleArgs,

    /// Print what this side sent only. The client opened the connection, or sent its first packet in FILE
    #[arg(long, value_name = "SIDE", value_parser = choice(SIDES), help_heading = "Output")]
    side: Option<Side>,
    /// Print bytes in hexadecimal digits too, with their offsets
    #[arg(long, conflicts_with = "raw", help_heading = "Output")]
    hex: bool,
    /// Print the bytes as they are, and nothing else
    #[arg(long, help_heading = "Output")]
    raw: bool,

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
  quaff streams follow day.pcapng 10.0.0.1:4711 10.0.0.2:80 --hex
  quaff streams follow day.pcapng 'udp 10.0.0.1:4711 → 10.0.0.2:53'
  quaff streams follow a.pcap 10.0.0.1:4711 10.0.0.2:80 --raw --side server";

const SIDES: [(&str, Side, &str); 2] =
    [("client", Side::Client, "who opened it"), ("server", Side::Server, "the other end")];

const JSON: &str = "Print an object for each piece of data and each gap, one per line, with data in base64";

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    check_stdout(args.raw)?;
    let target = Target::read(&args.connection.join(" ")).map_err(anyhow::Error::msg)?;
    let (chosen, wanted) = args.chosen(target)?;
    let report = super::run::read(args.plan(target, chosen), &args.watch, true)?;
    let found = report.connections.with_data;
    if report.failure.is_none() && found < wanted {
        message(&args.absence(target, found));
        return Ok(Exit::judged(None));
    }
    if !args.watch.quiet.is_set() {
        if found > 1 && matches!(target, Target::Ends { .. }) {
            message(&format!("this is connection {wanted} of {found} between these ends: see --nth"));
        }
        let missing = report::missing_words(&report);
        if !missing.is_empty() {
            show::say(missing.trim_end());
        }
        report.notes.iter().for_each(|note| message(note));
    }
    // The words above are those of what is missing.
    let has_words = !args.watch.quiet.is_set() && report.failure.is_none();
    Ok(shell::ended(&report, has_words))
}

/// Refuses a stdout that bytes cannot go to: a terminal, or one that was closed.
fn check_stdout(is_raw: bool) -> anyhow::Result<()> {
    ensure!(!was_stdout_closed(), "stdout is closed: use a pipe or a file");
    let is_terminal = is_raw && std::io::stdout().is_terminal();
    ensure!(!is_terminal, "stdout is a terminal, and --raw is for programs: use a pipe or a file");
    Ok(())
}

impl Args {
    /// The connection to follow, and the number that there must be.
    fn chosen(&self, target: Target) -> anyhow::Result<(Chosen, u64)> {
        match (target, self.nth) {
            (Target::Ends { .. }, nth) => {
                let nth = nth.unwrap_or(1);
                Ok((Chosen::Nth(nth), nth))
            }
            (Target::Number { number, .. }, None) => Ok((Chosen::Number(number), number)),
            (Target::Number { .. }, Some(_)) => {
                bail!("--nth is for two ends: a number is that of one connection")
            }
        }
    }

    /// The words about a connection that is not there.
    fn absence(&self, target: Target, found: u64) -> String {
        let file = self.file.display();
        match target {
            Target::Ends { ends: [one, other], .. } => format!(
                "{file} has {found} connections between {one} and {other}{}",
                if found > 0 { ": choose one of them by --nth" } else { ", at either end" }
            ),
            Target::Number { protocol, .. } => {
                let what = match protocol {
                    Protocol::Tcp => "TCP connections",
                    Protocol::Udp => "UDP conversations",
                };
                format!("{file} has {found} {what}: see 'quaff streams list'")
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

    fn plan(&self, target: Target, chosen: Chosen) -> StreamsPlan {
        let is_of = |protocol: Protocol| match target {
            Target::Ends { protocol: named, .. } => named.is_none_or(|named| named == protocol),
            Target::Number { protocol: named, .. } => named == protocol,
        };
        let rules = match target {
            Target::Ends { ends, .. } => self.rules.plan(Some(ends)),
            Target::Number { .. } => self.rules.plan(None),
        };
        let (tcp, udp) = (is_of(Protocol::Tcp), is_of(Protocol::Udp));
        let number = match target {
            Target::Number { number, .. } if tcp => Some(number),
            _ => None,
        };
        let sink = Box::new(Printer::new(self.form(), self.side));
        StreamsPlan {
            input: self.packets.plan(std::slice::from_ref(&self.file)),
            track: TrackPlan { tcp, udp, number, ..rules },
            reader: ReaderPlan::Follow(FollowPlan { chosen, sink }),
            also_written: vec![Output::Stdout],
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        }
    }
}
