//! `quaff bench`: measures capturers; shows, compares and lists results and presets.

mod args;
mod capture;
mod compare;
mod list;
mod plan;
mod progress;
pub(super) mod promises;
mod values;

use crate::exit::Exit;
use crate::stored_result::{self, ShowArgs};

/// Measure packet capturers under controlled conditions, with a citable report
///
/// 'capture' measures capturers side by side and writes a folder with a report; 'show' prints such a folder
/// again; 'compare' reports what changed between two of them, and whether that exceeds the noise; 'promises'
/// measures what quaff promises, against limits; 'list' lists the presets and the supported capturers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Capture(Box<args::Args>),
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
        Verb::Compare(args) => compare::run(args),
        Verb::Promises(args) => promises::run(args),
        Verb::Show(args) => Ok(capture::verdict(&stored_result::show(args)?)),
        Verb::List(args) => list::run(args),
    }
}
