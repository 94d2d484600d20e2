//! The `quaff` command: turns arguments into a plan, shows progress and reports, and sets the exit status.
//!
//! This crate is the only one that prints. Each subcommand is a file or a folder in `cmd/`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the command line is where quaff prints")]

mod cmd;
mod exit;
mod flags;
mod folder;
mod show;
mod stored_result;
mod terminal_table;
mod units;

use clap::{CommandFactory, Parser, Subcommand};
use exit::Exit;
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
    Capture(cmd::capture::Args),
    Generate(cmd::generate::Args),
    Replay(Box<cmd::replay::Args>),
    Tcpreplay(cmd::tcpreplay::Args),
    Gulp(cmd::gulp::Args),
    Extcap(cmd::extcap::Args),
    Verify(cmd::verify::Args),
    Pipe(cmd::pipe::Args),
    Split(cmd::split::Args),
    Bench(cmd::bench::Args),
    Service(Box<cmd::service::Args>),
    Cores(cmd::cores::Args),
    Doctor(cmd::doctor::Args),
    Lab(cmd::lab::Args),
    Man(cmd::man::Args),
    Completions(cmd::completions::Args),
}

fn main() -> ExitCode {
    let exit = run(Cli::parse().command).unwrap_or_else(|error| {
        show::say(&format!("quaff: {error:#}"));
        Exit::Failed
    });
    show::close();
    exit.into()
}

fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Capture(args) => cmd::capture::run(args),
        Command::Generate(args) => cmd::generate::run(args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Tcpreplay(args) => cmd::tcpreplay::run(&args),
        Command::Gulp(args) => cmd::gulp::run(args),
        Command::Extcap(args) => cmd::extcap::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::Pipe(args) => cmd::pipe::run(args),
        Command::Split(args) => cmd::split::run(args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Service(args) => cmd::service::run(&args),
        Command::Cores(args) => cmd::cores::run(args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Lab(args) => cmd::lab::run(args),
        Command::Man(args) => cmd::man::run(&args),
        Command::Completions(args) => Ok(cmd::completions::run(&args)),
    }
}

/// The definition of all commands and arguments.
fn command() -> clap::Command {
    Cli::command()
}

/// Parses a native command line without the word `quaff`, as translated from another program's.
fn read(line: &[OsString]) -> anyhow::Result<Command> {
    let line = std::iter::once(OsString::from("quaff")).chain(line.iter().cloned());
    Ok(Cli::try_parse_from(line)?.command)
}
