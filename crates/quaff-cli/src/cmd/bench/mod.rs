//! `quaff bench`: measures capturers and flow meters; shows, compares and lists results and presets.

mod args;
mod capture;
mod compare;
mod flow;
mod list;
mod plan;
mod progress;
pub(super) mod promises;
mod values;

use crate::exit::Exit;
use crate::stored_result::{self, ShowArgs};
use quaff_bench::flow::result::Report as FlowReport;

/// Measure packet capturers and flow meters under controlled conditions, with a citable report
///
/// 'capture' measures capturers side by side and writes a folder with a report, 'flow' does the same with flow
/// meters; 'show' prints such a folder again; 'compare' reports what changed between two benches of capturers, and
/// whether that exceeds the noise; 'promises' measures what quaff promises, against limits; 'list' lists the presets
/// and the supported programs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Capture(Box<args::Args>),
    Flow(Box<flow::Args>),
    Compare(compare::Args),
    Promises(promises::Args),
    /// Print the result of a bench again
    ///
    /// Exit status: that of the measurement.
    Show(ShowArgs),
    List(list::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::Capture(args) => capture::run(args),
        Verb::Flow(args) => flow::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Promises(args) => promises::run(args),
        Verb::Show(args) => {
            args.confine()?;
            Ok(Exit::judged(match args.is_of::<FlowReport>() {
                true => flow::verdict(&stored_result::show(args)?),
                false => capture::verdict(&stored_result::show(args)?),
            }))
        }
        Verb::List(args) => list::run(args),
    }
}
