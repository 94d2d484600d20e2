//! `quaff bench`: capturers measured by the book; what came of it shown, compared, listed.

mod args;
mod capture;
mod compare;
mod list;
mod pivot;
mod plan;
mod progress;
mod show;
mod table;
mod values;

use crate::exit::Exit;

/// Measure any capturer by the book, and get a report worth citing
///
/// 'capture' measures capturers beside each other and writes a folder with a report; 'show' prints such a
/// folder again; 'compare' says what changed between two of them, and whether that is more than noise;
/// 'list' names the presets, and the capturers that are known here.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Capture(Box<args::Args>),
    Compare(compare::Args),
    Show(show::Args),
    List(list::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.verb {
        Verb::Capture(args) => capture::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Show(args) => show::run(args),
        Verb::List(args) => list::run(args),
    }
}
