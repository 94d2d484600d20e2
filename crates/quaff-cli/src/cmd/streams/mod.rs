//! `quaff streams`: TCP streams of capture files, and scripts on packets. It never reassembles or writes files itself.

mod extract;
mod follow;
mod input;
mod printer;
mod report;
mod script;
mod script_report;

use crate::cmd::receiving::{self, Asked, LOOK_END, ReadProgress};
use crate::exit::Exit;
use crate::show::{self, LiveLine, message};
use quaff::LaneGauges;
use quaff::plan::InputPlan;
use quaff::streams::{Streams, StreamsPlan, StreamsReport};
use quaff_os::{Reason, Signals, Stop, Wakeup};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of looks at a run, and of its progress line.
const LOOK: Duration = Duration::from_millis(250);

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

/// Reads the files to their end, or to a signal. `None`: a signal ended the start.
fn read(plan: StreamsPlan, is_quiet: bool) -> anyhow::Result<Option<StreamsReport>> {
    let (signals, stop) = (receiving::signals(&[])?, Stop::default());
    let input = plan.input.clone();
    let started = receiving::start(&signals, &stop, |stop| Streams::start(plan, stop))?;
    let Some(streams) = started else { return Ok(None) };
    if !is_quiet {
        streams.notes.iter().for_each(|note| message(note));
    }
    let line = LiveLine { is_live: !is_quiet && std::io::stderr().is_terminal() };
    let running = Running { lanes: &streams.lanes, is_over: &|| streams.is_over(), duration: None };
    watch(&running, &input, line, (&signals, &stop))?;
    Ok(Some(streams.finish()))
}

/// A run that is watched.
struct Running<'a> {
    lanes: &'a [Arc<LaneGauges>],
    is_over: &'a dyn Fn() -> bool,
    /// The time after which it ends.
    duration: Option<Duration>,
}

/// Waits for the end: a signal, the duration, or the end of the input.
fn watch(
    running: &Running,
    input: &InputPlan,
    line: LiveLine,
    (signals, stop): (&Signals, &Stop),
) -> anyhow::Result<()> {
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let (mut asked, read) = (Asked::new(stop), ReadProgress::new(input));
    let started = Instant::now();
    while !(running.is_over)() {
        let left = running.duration.map_or(LOOK, |time| time.saturating_sub(started.elapsed()).min(LOOK));
        let wait = if stop.raised() { LOOK_END } else { left };
        let heard = signals.next_or(&ending, wait)?;
        if heard.is_some_and(|heard| asked.is_second(heard.signal, stop)) {
            line.draw("");
            message("ended immediately; bytes in memory are not written");
            show::close();
            std::process::exit(2);
        }
        if line.is_live {
            line.draw_parts(&[read.part(running.lanes.iter().map(|lane| lane.input_bytes.get()).sum())]);
        }
        if !stop.raised() && running.duration.is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        ending.clear();
    }
    line.draw("");
    Ok(())
}
