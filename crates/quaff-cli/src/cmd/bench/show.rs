//! `quaff bench show`: prints a stored result.

use super::table;
use crate::exit::Exit;
use crate::show;
use anyhow::Context;
use quaff_bench::report;
use std::path::PathBuf;

/// Print the result of a bench again
///
/// Exit status: that of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder that 'quaff bench capture' wrote, or its result.json
    dir: PathBuf,
    /// Also print every run, the machine and the command lines
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print result.json instead of the table
    #[arg(long)]
    json: bool,
    /// Also write the report and its charts into DIR, as rendered by this version
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
