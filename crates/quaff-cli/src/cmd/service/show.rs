//! `quaff service show`: a result once more.

use super::text;
use crate::exit::Exit;
use crate::show;
use anyhow::Context;
use quaff_lab::report::service as report;
use std::path::PathBuf;

/// Print the result of a service test again
///
/// Exit status: as when it was measured.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder that 'quaff service' wrote, or the result.json in it
    dir: PathBuf,
    /// Print every limit, every trial, the services and the machine, too
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
