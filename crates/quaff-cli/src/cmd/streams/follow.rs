//! `quaff streams follow`: its arguments, plan and exit.

use super::input::RuleArgs;
use super::printer::{Form, Printer, Side};
use super::report;
use crate::exit::Exit;
use crate::flags::{FileArgs, NoSandboxArg, of};
use crate::shell::{self, WatchArgs};
use crate::show::{self, message};
use crate::units::choice;
use anyhow::ensure;
use quaff::plan::SandboxPlan;
use quaff::streams::{FollowPlan, ReaderPlan, StreamsPlan};
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use quaff_stream::tracker::{Ends, sorted};
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Print one TCP connection: both sides in the order in which their bytes came
///
/// As text, characters that a terminal would obey and all beyond ASCII are dots. A line before each change of sides has
/// sender, receiver and time; a gap is a line of its own.
///
/// Exit status: 0 nothing is missing; 1 bytes are missing between these ends, or FILE is damaged; 2 it failed, or there
/// is no such connection.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_args(of("quiet", |arg| arg.help("Print no remarks on stderr"))))]
pub(super) struct Args {
    /// Capture file; '-' is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The two ends in any order, such as 'tcp 10.0.0.1:4711 10.0.0.2:80' or '[fd00::1]:4711 [fd00::2]:80'
    #[arg(value_name = "CONNECTION", value_parser = connection)]
    ends: Connection,
    /// Print the N-th connection between these ends
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Input")]
    nth: u64,
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
    watch: WatchArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff streams follow day.pcapng 'tcp 10.0.0.1:4711 10.0.0.2:80'
  quaff streams follow day.pcapng '10.0.0.1:4711 10.0.0.2:80' --hex
  quaff streams follow a.pcap '10.0.0.1:4711 10.0.0.2:80' --raw --side server";

const SIDES: [(&str, Side, &str); 2] =
    [("client", Side::Client, "who opened it"), ("server", Side::Server, "the other end")];

/// The ends of a connection, as an argument.
#[derive(Debug, Clone, Copy)]
struct Connection(Ends);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    check_stdout(args.raw)?;
    let report = super::run::read(args.plan(), &args.watch, true)?;
    let found = report.connections.with_data;
    let [one, other] = args.ends.0;
    if report.failure.is_none() && found < args.nth {
        message(&format!(
            "{} has {found} connections between {one} and {other}{}",
            args.file.display(),
            if found > 0 { ": choose one of them by --nth" } else { ", at either end" }
        ));
        return Ok(Exit::judged(None));
    }
    if !args.watch.quiet.is_set() {
        if found > 1 {
            message(&format!("this is connection {} of {found} between these ends: see --nth", args.nth));
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
    fn plan(&self) -> StreamsPlan {
        let form = match (self.hex, self.raw) {
            (true, _) => Form::Hex,
            (_, true) => Form::Raw,
            _ => Form::Text,
        };
        let follow = FollowPlan { nth: self.nth, sink: Box::new(Printer::new(form, self.side)) };
        StreamsPlan {
            input: self.packets.plan(std::slice::from_ref(&self.file)),
            track: self.rules.plan(Some(self.ends.0)),
            reader: ReaderPlan::Follow(follow),
            also_written: vec![Output::Stdout],
            sandbox: (!*self.no_sandbox).then(SandboxPlan::default),
            owner: None,
        }
    }
}

/// `tcp 10.0.0.1:1 10.0.0.2:80`.
fn connection(text: &str) -> Result<Connection, String> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let ends = match words.as_slice() {
        ["tcp", one, other] | [one, other] => [*one, *other],
        _ => return Err("two ends, such as 'tcp 10.0.0.1:4711 10.0.0.2:80'".into()),
    };
    let [one, other] = ends.map(|end| {
        end.parse::<SocketAddr>()
            .map_err(|_| format!("'{end}' is no address with a port, such as 10.0.0.1:80 or [fd00::1]:80"))
    });
    Ok(Connection(sorted([one?, other?])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_two_ends_in_any_order() {
        let ends = |text: &str| connection(text).map(|connection| connection.0);
        let expected = ends("tcp 10.0.0.1:1 10.0.0.2:80").unwrap();
        for text in ["10.0.0.2:80 10.0.0.1:1", "10.0.0.1:1,10.0.0.2:80", "tcp  10.0.0.2:80  10.0.0.1:1"] {
            assert_eq!(ends(text).unwrap(), expected);
        }
        assert!(ends("[fd00::1]:1 [fd00::2]:80").is_ok());
        for wrong in ["", "10.0.0.1:1", "udp 10.0.0.1:1 10.0.0.2:2", "10.0.0.1 10.0.0.2:80", "a:1 b:2"] {
            assert!(ends(wrong).is_err(), "{wrong}");
        }
    }
}
