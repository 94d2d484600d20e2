//! `quaff streams`: TCP streams of capture files, and scripts on packets. It never reassembles or writes files itself.

mod extract;
mod follow;
mod input;
mod printer;
mod report;
mod script;
mod script_report;

use crate::exit::Exit;
use crate::shell::{Part, Product, ReadProgress, Settings, Shell, WatchArgs};
use crate::show;
use quaff::LaneGauges;
use quaff::streams::{Streams, StreamsPlan, StreamsReport};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

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
    Extract(Box<extract::Args>),
    Follow(Box<follow::Args>),
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        None => script::run(&args.script),
        Some(StreamsCommand::Extract(args)) => extract::run(&args),
        Some(StreamsCommand::Follow(args)) => follow::run(&args),
    }
}

/// Reads the files to their end, or to a signal.
fn read(plan: StreamsPlan, watch: &WatchArgs, takes_stdout: bool) -> anyhow::Result<StreamsReport> {
    let mut shell = Shell::new(settings(watch, None, takes_stdout))?;
    let read = ReadProgress::new(&plan.input);
    let streams = shell.start(|stop| Streams::start(plan, stop))?;
    shell.notes(&streams.notes);
    shell.run(Running { streams, read })
}

/// What is shown of a run. On one terminal, the output would be printed into the progress line.
fn settings(watch: &WatchArgs, duration: Option<Duration>, takes_stdout: bool) -> Settings {
    let mut settings = Settings::new(watch, duration);
    settings.has_line &= !(takes_stdout && std::io::stdout().is_terminal());
    settings
}

/// The reassembly, as the shell watches it.
struct Running {
    streams: Streams,
    read: ReadProgress,
}

impl Product for Running {
    const LOSS: &'static str = "bytes in memory are not written";
    type Report = StreamsReport;

    fn is_over(&self) -> bool {
        self.streams.is_over()
    }

    fn finish(self) -> StreamsReport {
        self.streams.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        progress(&self.streams.lanes, &self.read)
    }
}

/// The parts of a progress line of these lanes.
fn progress(lanes: &[Arc<LaneGauges>], read: &ReadProgress) -> Vec<Part> {
    let sum = |of: fn(&LaneGauges) -> u64| lanes.iter().map(|lane| of(lane)).sum::<u64>();
    let packets = Part::new(format!("{} packets", show::count(sum(|lane| lane.received.get()))), "", 4);
    let lost = sum(|lane| lane.nic_dropped.get() + lane.kernel_dropped.get());
    let lost = Part::new(format!("lost {}", show::count(lost)), "", 3);
    vec![read.part(sum(|lane| lane.input_bytes.get())), packets, lost]
}
