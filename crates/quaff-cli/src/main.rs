//! The `quaff` command: arguments in, a plan out; words, progress and exit codes.
//!
//! This crate is the only one that prints. Each subcommand is one file in `cmd/`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the command line is where quaff prints")]

mod cmd;
mod exit;
mod show;
mod units;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Captures every packet on a Linux machine, and proves that it did.
///
/// Exit status: 0 done without loss, 1 done with loss, 2 failed.
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
    Verify(cmd::verify::Args),
    Pipe(cmd::pipe::Args),
    Cores(cmd::cores::Args),
    Lab(cmd::lab::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Capture(args) => cmd::capture::run(args),
        Command::Generate(args) => cmd::generate::run(args),
        Command::Verify(args) => cmd::verify::run(args),
        Command::Pipe(args) => cmd::pipe::run(args),
        Command::Cores(args) => cmd::cores::run(args),
        Command::Lab(args) => cmd::lab::run(args),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            show::say(&format!("quaff: {error:#}"));
            exit::Exit::Failed.into()
        }
    }
}
