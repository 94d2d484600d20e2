//! `quaff service show`: prints a stored result.

use super::text;
use crate::exit::Exit;
use crate::show;
use anyhow::Context;
use quaff_bench::report::service as report;
use std::path::PathBuf;

/// Print the result of a service test again
///
/// Exit status: that of the measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder that 'quaff service' wrote, or its result.json
    dir: PathBuf,
    /// Also print every limit, every trial, the services and the machine
    #[arg(long, conflicts_with = "json")]
    all: bool,
    /// Print result.json instead of the tables
    #[arg(long)]
    json: bool,
    /// Also write the report and its charts into DIR, as rendered by this version
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let result = report::read(&args.dir)?;
    if let Some(dir) = &args.write {
        report::write(&result, dir)?;
    }
    if args.json {
        show::print(&serde_json::to_string_pretty(&result).context("write the result")?);
    } else {
        show::print(&text::whole(&result, args.all));
    }
    Ok(super::run::verdict(&result))
}
