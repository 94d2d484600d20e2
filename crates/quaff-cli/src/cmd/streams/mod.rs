//! `quaff streams`: TCP streams and UDP conversations of capture files, and scripts on packets. It never reassembles or
//! writes files itself.

mod candidates;
mod extract;
mod follow;
mod input;
mod json_line;
mod list;
mod printer;
mod report;
mod run;
mod script;
mod script_report;
mod target;
mod tls_printer;

use crate::exit::Exit;

/// Run Lua scripts on packets, flows and TCP streams, or reassemble the connections of capture files
///
/// A script declares what it wants to see, and what no script asks for is not computed. It records rows and counts,
/// raises alerts and saves the packets of flows. Without --out each row is a line of JSON on stdout. The page for
/// authors of scripts is docs/scripts.md.
///
/// Each script has a budget of time and memory. An error in it costs one event; a script that exceeds its budget is
/// stopped, and the others and the run continue.
///
/// Exit status: 0 nothing was lost; 1 a script failed or was stopped, or bytes, packets or rows are missing; 2 it
/// failed.
#[derive(Debug, clap::Args)]
#[command(after_help = script::EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<StreamsCommand>,
    #[command(flatten)]
    script: script::ScriptArgs,
}

#[derive(Debug, clap::Subcommand)]
enum StreamsCommand {
    List(Box<list::Args>),
    Follow(Box<follow::Args>),
    Extract(Box<extract::Args>),
}

impl Args {
    /// It reads packets of interfaces.
    pub(crate) fn is_live(&self) -> bool {
        self.command.is_none() && self.script.is_live()
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => script::run(&args.script),
        Some(StreamsCommand::List(args)) => list::run(&args),
        Some(StreamsCommand::Follow(args)) => follow::run(&args),
        Some(StreamsCommand::Extract(args)) => extract::run(&args),
    }
}
