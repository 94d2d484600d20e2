//! `quaff flows list`: the records of files, a line each, in the order of the files or sorted. Records are those of the
//! meter, of segments or of IPFIX files.
//!
//! | module | contents |
//! |---|---|
//! | `args` | the arguments |
//! | `rows` | the cells of a record, and its JSON |
//! | `order` | the first records of an order |
//! | `outputs` | tables, JSON and files of text |
//! | `lister` | the records that are wanted, on their way to the outputs |
//! | `pending` | records of a meter that wait to be printed |

mod args;
mod lister;
mod order;
mod outputs;
mod pending;
mod rows;

pub(super) use args::Args;

use super::stored::{self, Inputs, Origin, Records as _};
use super::{metering, report};
use crate::confined;
use crate::exit::Exit;
use crate::shell::Settings;
use crate::show::{self, LiveLine};
use lister::Lister;
use pending::{Pending, PendingSink};
use quaff::flows::FlowReport;
use quaff_flow::collector::SinkPlan;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    args.check()?;
    let inputs = args.records.inputs()?;
    let choice = args.records.choice.choice()?;
    let (files, origin) = match inputs {
        Inputs::Captures(files) => (files, Origin::Captures),
        Inputs::Parquet(files) => (files, Origin::Segments),
        Inputs::Ipfix(files) => (files, Origin::Ipfix),
    };
    if origin != Origin::Captures {
        args.records.refuse_choices_of_packets()?;
    }
    args.refuse_inputs(&files)?;
    let lister = Lister::new(choice, args.order(), args.outputs()?);
    if origin == Origin::Captures {
        of_captures(args, &files, lister)
    } else {
        of_stored(args, &files, origin, lister)
    }
}

/// Lists the records of a meter.
fn of_captures(args: &Args, files: &[PathBuf], mut lister: Lister) -> anyhow::Result<Exit> {
    let pending = Arc::new(Pending::default());
    let sink = SinkPlan::Memory { name: "list".to_owned(), sink: Box::new(PendingSink(pending.clone())) };
    let found = args.records.found(files);
    let plan = args.records.plan(found, true, sink, args.also_written(), !*args.no_sandbox);
    let settings = Settings { quiet: args.quiet.count(), has_line: args.has_line(), ..Settings::default() };
    let mut take = || pending.take().iter().for_each(|record| lister.add(record));
    let has_files = !args.written().is_empty();
    let is_wanted = || has_files || show::takes_stdout();
    let report = metering::meter_while(plan, settings, &mut |_| take(), &is_wanted)?;
    take();
    end(args, lister, files.len(), &report)
}

/// Lists records that another run has stored.
fn of_stored(args: &Args, files: &[PathBuf], origin: Origin, mut lister: Lister) -> anyhow::Result<Exit> {
    if !*args.no_sandbox {
        confined::to_files(files.to_owned(), &args.written())?;
    }
    let line = LiveLine { is_live: args.has_line() };
    let needs_applications = args.records.choice.needs_applications();
    let (files, report) = stored::read(origin, files, &mut lister, line, needs_applications)?;
    end(args, lister, files.len(), &report)
}

/// Ends the outputs, and prints the sums and remarks on stderr.
fn end(args: &Args, mut lister: Lister, files: usize, report: &FlowReport) -> anyhow::Result<Exit> {
    lister.end(files, report)?;
    if !args.quiet.is_set() {
        lister.remarks(&args.records.choice.words()).iter().for_each(|words| show::say(words));
    }
    // A reader that has left wants no sums of what was read.
    if lister.takes_more() {
        report::sum_up(report, report.flows_exported, args.quiet.is_set());
    }
    Ok(Exit::of(report))
}
