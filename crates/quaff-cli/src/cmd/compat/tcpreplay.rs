//! `quaff tcpreplay`: tcpreplay's lines, and decoding by tcpdump, around a native command.

use crate::cmd;
use crate::cmd::sending::OnUsr1;
use crate::exit::Exit;
use crate::line::{self, Commands};
use crate::show::{print, say};
use anyhow::Context as _;
use quaff_compat::tcpreplay::{self, Asked, Replay};
use quaff_os::rtnl::Rtnl;
use quaff_os::{Signal, Signals};
use std::ffi::OsString;
use std::process;

/// Accept the command line of tcpreplay, with every option of its manual and its exact final output
///
/// tcpreplay's command lines work with 'quaff ' in front, and scripts that parse its output can parse this.
/// Packets are sent by quaff's own backends and deadlines: several times faster, confirmed by the receiver's
/// counters, and without drift. --dry-run prints the equivalent native command.
///
/// Exit status: 0 done; 1 not everything was sent; 2 failed.
#[derive(Debug, clap::Args)]
#[command(after_help = tcpreplay::OPTIONS, override_usage = "quaff tcpreplay [OPTIONS] FILE|DIR...")]
pub(crate) struct Args {
    /// Options of tcpreplay
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

pub(crate) fn run(args: &Args, commands: Commands) -> anyhow::Result<Exit> {
    let asked = match tcpreplay::read(&args.options)? {
        Asked::Help => return super::print_help("tcpreplay", commands),
        Asked::Version => {
            say(tcpreplay::VERSION);
            return Ok(Exit::Done);
        }
        Asked::Interfaces => {
            print("Available network interfaces:");
            Rtnl::open()?.links()?.iter().for_each(|link| print(&link.name));
            return Ok(Exit::Done);
        }
        Asked::Replay(asked) => asked,
    };
    let Some(line) = super::line(&asked.native, asked.is_dry_run, asked.is_quiet) else {
        return Ok(Exit::Done);
    };
    // While packets are decoded it waits, and then suspends the replay.
    Signals::block(&[Signal::SIGUSR1])?;
    asked.greeting().iter().for_each(|line| say(line));
    for words in asked.decodings() {
        let mut tcpdump = process::Command::new("tcpdump");
        tcpdump.args(words).status().context("run tcpdump, which decodes for --verbose")?;
    }
    if line.first().is_none_or(|command| command != "replay") {
        return (commands.run)(line);
    }
    let args: cmd::replay::Args = line::parse(line)?;
    let is_whole = match args.send.write.first() {
        Some(path) => cmd::replay::write(&args, path, OnUsr1::Suspend)?.is_whole(),
        None => replay(&asked, &args)?,
    };
    Ok(Exit::judged(is_whole))
}

/// Returns true if everything was sent.
fn replay(asked: &Replay, args: &cmd::replay::Args) -> anyhow::Result<bool> {
    let (counts, mut stats) = (asked.counts(), asked.stats());
    let print_all = |lines: Vec<String>| lines.iter().for_each(|line| print(line));
    let look = |snapshot: &_| print_all(stats.look(snapshot));
    let report = cmd::replay::execute_with(args, OnUsr1::Suspend, |feed| counts.wrap(feed), look)?;
    print_all(stats.end(&report));
    let summary = asked.summary(&report, &counts);
    if !summary.is_empty() {
        print(&summary);
    }
    Ok(report.agrees())
}
