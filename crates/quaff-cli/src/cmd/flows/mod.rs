//! `quaff flows`: meters flows and exports them, or shows them. It never meters or encodes itself.

mod args;
mod breakdown;
mod incidents;
mod list;
mod metering;
mod parquet;
mod progress;
mod records;
mod report;
mod sinks;
mod stored;
mod sums;
mod top;

pub(crate) use args::Args;
use args::FlowsCommand;
pub(crate) use progress::{Progress, Totals};

use crate::exit::Exit;
use crate::show::{Stream, message};
use anyhow::ensure;
use metering::meter;
use progress::Look;
use quaff_os::was_stdout_closed;
use std::io::IsTerminal;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        None => run_with(args, true, &mut |_| {}),
        Some(FlowsCommand::Top(args)) => top::run(args),
        Some(FlowsCommand::Report(args)) => breakdown::run(args),
        Some(FlowsCommand::List(args)) => list::run(args),
    }
}

/// Runs the meter for another command line too: `look` receives the progress. `has_line`: a progress line may be drawn.
pub(crate) fn run_with(args: &Args, has_line: bool, look: Look<'_>) -> anyhow::Result<Exit> {
    check_stdout(args)?;
    let files = args.input.files();
    stored::refuse_records(files)?;
    let plan = args.plan().map_err(|error| stored::advised(error, files))?.validate()?;
    let mut settings = args.settings();
    settings.has_line &= has_line;
    if !args.watch.quiet.is_set() {
        args.notes(&plan.meter).for_each(|note| message(&note));
    }
    let ledger = args.open_ledger()?;
    let report = meter(plan, settings, look)?;
    let is_taken = args.takes_stdout();
    let json = args.sinks.prints_json().then(|| Stream::of_report(is_taken));
    report::write_json(&report, ledger, json)?;
    // On stderr the JSON is the report.
    if json.is_none() || !is_taken {
        report::print(&report, args.watch.quiet.is_set());
    }
    Ok(Exit::of(&report))
}

/// Refuses a stdout that records cannot go to: one that was closed, or a terminal for bytes.
fn check_stdout(args: &Args) -> anyhow::Result<()> {
    let is_closed = (args.takes_stdout() || args.sinks.prints_json()) && was_stdout_closed();
    ensure!(!is_closed, "stdout is closed: name a file instead of '-', or use a pipe");
    let is_binary = args.sinks.has_binary_stdout() && std::io::stdout().is_terminal();
    ensure!(!is_binary, "stdout is a terminal, and IPFIX is not text: name a file, or use a pipe");
    Ok(())
}
