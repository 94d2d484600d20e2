//! `quaff bench show`: a result once more.

use super::table;
use crate::exit::Exit;
use crate::show;
use anyhow::Context;
use quaff_lab::report;
use std::path::PathBuf;

/// Print the result of a bench again
///
/// Exit status: as when it was measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder that 'quaff bench capture' wrote, or the result.json in it
    dir: PathBuf,
    /// Print all single runs, the machine and the command lines, too
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print result.json instead
    #[arg(long)]
    json: bool,
    /// Write the report and its pictures once more as well, as this version draws them
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = report::read(&args.dir)?;
    if let Some(dir) = &args.write {
        report::write(&report, dir)?;
    }
    if args.json {
        show::print(&serde_json::to_string_pretty(&report).context("write the result")?);
    } else {
        show::print(&table::whole(&report, args.all));
    }
    Ok(super::capture::verdict(&report))
}
