//! The `quaff` command: turns arguments into a plan, shows progress and reports, and sets the exit status.
//!
//! This crate is the only one that prints, and all text passes `show`. Each subcommand is a file or a folder in `cmd/`.
//! A program with a product of its own uses [`shell`], as `examples/count_by_port.rs` does.

#![forbid(unsafe_code)]

mod capture_files;
mod cmd;
mod confined;
mod exit;
mod file_order;
mod flags;
mod folder;
mod grammar;
mod groups;
mod line;
#[cfg(test)]
mod page_lines;
mod screen;
mod settings;
pub mod shell;
mod short_help;
mod show;
mod stored_result;
mod terminal_table;
mod units;
mod version;
mod written_file;

pub use exit::Exit;
use line::{Commands, sentence};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use quaff_file::moment;
use quaff_os::privilege::{self, Need};
use std::ffi::OsString;
use std::process::ExitCode;

/// Lossless packet capture, replay and measurement for Linux
///
/// Exit status: 0 done without loss; 1 done with loss; 2 failed.
#[derive(Debug, Parser)]
#[command(name = "quaff", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Capture(Box<cmd::capture::Args>),
    Generate(cmd::generate::Args),
    Replay(Box<cmd::replay::Args>),
    Tcpreplay(cmd::compat::tcpreplay::Args),
    Gulp(cmd::compat::gulp::Args),
    Extcap(cmd::extcap::Args),
    Verify(cmd::verify::Args),
    Info(cmd::info::Args),
    Merge(cmd::merge::Args),
    Interfaces(cmd::interfaces::Args),
    Pipe(cmd::pipe::Args),
    Tap(Box<cmd::tap::Args>),
    Split(cmd::split::Args),
    Flows(Box<cmd::flows::Args>),
    Streams(cmd::streams::Args),
    Nprobe(cmd::compat::nprobe::Args),
    Bench(cmd::bench::Args),
    Service(Box<cmd::service::Args>),
    Cores(cmd::cores::Args),
    Doctor(cmd::doctor::Args),
    Lab(cmd::lab::Args),
    Man(cmd::man::Args),
    Completions(cmd::completions::Args),
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    quaff_os::survive_file_limit();
    settings::know(command);
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    // Before the first thread, which would keep what it inherits.
    ended(cli.command.settle_capabilities().and_then(|()| run(cli.command)))
}

/// Ends a command: prints its error, if it has one, and ends the output.
pub fn ended(result: anyhow::Result<Exit>) -> ExitCode {
    finished(result.unwrap_or_else(|error| {
        show::message(&format!("{error:#}"));
        Exit::Failed
    }))
}

/// Ends the output. What stdout did not take is an error of the command.
fn finished(exit: Exit) -> ExitCode {
    let error = show::stdout_error();
    if let Some(error) = &error {
        show::message(error);
    }
    show::close();
    error.map_or(exit, |_| Exit::Failed).into()
}

impl Command {
    /// Puts the capabilities of the program file into effect if this command needs them, and drops them otherwise:
    /// the files that it reads may come from anywhere.
    fn settle_capabilities(&self) -> anyhow::Result<()> {
        let live = |is_live| if is_live { Need::Everything } else { Need::Nothing };
        Ok(privilege::settle(match self {
            Self::Capture(args) => live(args.is_live()),
            Self::Split(args) => live(args.is_live()),
            Self::Flows(args) => live(args.is_live()),
            Self::Generate(args) => live(args.is_live()),
            Self::Replay(_) | Self::Tcpreplay(_) | Self::Gulp(_) | Self::Extcap(_) | Self::Tap(_) => {
                Need::Everything
            }
            Self::Nprobe(args) => live(args.is_live()),
            Self::Service(_) | Self::Doctor(_) | Self::Lab(_) => Need::Everything,
            Self::Pipe(_) | Self::Cores(_) => Need::Memory,
            Self::Verify(args) => live(args.is_live()),
            Self::Streams(args) => live(args.is_live()),
            Self::Info(_) | Self::Merge(_) | Self::Interfaces(_) => Need::Nothing,
            // A bench needs root, and its results may be those of others.
            Self::Bench(_) | Self::Man(_) | Self::Completions(_) => Need::Nothing,
        })?)
    }
}

/// Prints the help, or the error of a command line. A shell puts names of files into it, in the place of a `*`.
fn refused(error: &clap::Error) -> ExitCode {
    let is_plain = |word: OsString| word.to_str().is_some_and(|word| show::name(word) == word);
    match error.kind() {
        ErrorKind::DisplayVersion => {
            show::print(&version::text());
            finished(Exit::Done)
        }
        ErrorKind::DisplayHelp => {
            match std::env::args_os().all(is_plain) {
                // In colour, on a terminal.
                true => show::out(|_| error.print()),
                false => show::print(error.render().to_string().trim_end()),
            }
            finished(Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            match std::env::args_os().len() {
                0 | 1 => show::say(&format!("{}\n\n'quaff --help' lists all commands.", groups::FIRST)),
                // A command group without its command: the list of its commands.
                _ => show::say(error.render().to_string().trim_end()),
            }
            finished(Exit::Failed)
        }
        _ => {
            let command = command_of(std::env::args_os().skip(1));
            show::message(&format!("{}; '{command} --help' lists the options", sentence(error)));
            finished(Exit::Failed)
        }
    }
}

/// The command that a command line calls, as far as its words name commands: `quaff bench list`.
fn command_of(words: impl Iterator<Item = OsString>) -> String {
    let (mut at, mut called) = (command(), "quaff".to_owned());
    for word in words {
        let Some(sub) = word.to_str().and_then(|word| at.find_subcommand(word)) else { break };
        called += &format!(" {}", sub.get_name());
        at = sub.clone();
    }
    called
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Capture(args) => cmd::capture::run(*args),
        Command::Generate(args) => cmd::generate::run(args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Tcpreplay(args) => cmd::compat::tcpreplay::run(&args, NATIVE),
        Command::Gulp(args) => cmd::compat::gulp::run(&args, NATIVE),
        Command::Extcap(args) => cmd::extcap::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::Info(args) => cmd::info::run(&args),
        Command::Merge(args) => cmd::merge::run(&args),
        Command::Interfaces(args) => cmd::interfaces::run(&args),
        Command::Pipe(args) => cmd::pipe::run(args),
        Command::Tap(args) => cmd::tap::run(&args),
        Command::Split(args) => cmd::split::run(args),
        Command::Flows(args) => cmd::flows::run(&args),
        Command::Streams(args) => cmd::streams::run(args),
        Command::Nprobe(args) => cmd::compat::nprobe::run(&args, NATIVE),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Service(args) => cmd::service::run(&args),
        Command::Cores(args) => cmd::cores::run(args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Lab(args) => cmd::lab::run(args),
        Command::Man(args) => cmd::man::run(&args, (NATIVE.all)()),
        Command::Completions(args) => Ok(cmd::completions::run(&args, (NATIVE.all)())),
    }
}

/// The native commands, for commands that translate the lines of other programs.
const NATIVE: Commands = Commands { all: command, run: |line| run(read(line)?) };

/// The definition of all commands and arguments, for those who read its texts.
fn command() -> clap::Command {
    short_help::shortened(groups::grouped(Cli::command()))
}

/// Parses a command line, whose first word is `quaff`.
fn parse(line: impl Iterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let line: Vec<_> = line.collect();
    // Most lines ask for no help, and its texts take longer to make than all else of the parser.
    let parsed = parse_with(groups::grouped(Cli::command()), line.clone());
    let is_help = |error: &clap::Error| {
        matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
    };
    if parsed.as_ref().is_err_and(is_help) { parse_with(command(), line) } else { parsed }
}

fn parse_with(mut command: clap::Command, line: Vec<OsString>) -> Result<Cli, clap::Error> {
    let line = match grammar::native(&command, line) {
        Ok(line) => line,
        Err(error) => return Err(command.error(ErrorKind::ValueValidation, format!("{error:#}"))),
    };
    // Before the values are parsed: a time without a zone is one of them.
    if line.iter().take_while(|word| *word != "--").any(|word| word == "--utc") {
        moment::use_utc();
    }
    let mut matches = match command.try_get_matches_from_mut(&line) {
        Ok(matches) => matches,
        Err(error) => {
            let is_capture = line.get(1).is_some_and(|word| word == "capture");
            let instead = cmd::capture::instead_of(&error).filter(|_| is_capture);
            let words = grammar::missing(&command, &line, &error).or(instead);
            return Err(words.map_or(error, |words| command.error(ErrorKind::ValueValidation, words)));
        }
    };
    if let Err(error) = grammar::ensure_input(&command, &matches) {
        return Err(command.error(ErrorKind::MissingRequiredArgument, format!("{error:#}")));
    }
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Parses a native command line without the word `quaff`, as translated from another program's.
fn read(line: &[OsString]) -> anyhow::Result<Command> {
    let line = std::iter::once(OsString::from("quaff")).chain(line.iter().cloned());
    let cli = parse(line).map_err(|error| anyhow::anyhow!("{}", sentence(&error)))?;
    Ok(cli.command)
}
