//! `quaff service list`: the presets.

use crate::exit::Exit;
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use crate::terminal_table::{Columns, about, ranked};
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::service::plan::Plan;
use serde::Serialize;

/// List the presets
///
/// Durations are estimates: in full, and with --short.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    report: ReportArgs,
}

/// A preset.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    title: String,
    source: Option<String>,
    /// About, s: in full, and with `--short`.
    seconds: f64,
    seconds_short: f64,
    notes: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let rows = Plan::PRESETS.iter().map(|(name, ..)| row(name)).collect::<anyhow::Result<Vec<_>>>()?;
    if args.report.json {
        show::json(Stream::Stdout, &rows)?;
        return Ok(Exit::Done);
    }
    let words = rows.iter().map(|row| {
        let what = [row.title.as_str(), row.source.as_deref().unwrap_or("")];
        let what: Vec<_> = what.into_iter().filter(|words| !words.is_empty()).collect();
        vec![row.name.to_owned(), about(row.seconds), about(row.seconds_short), what.join("\n")]
    });
    let columns =
        [("preset", false, 0), ("takes about", false, 1), ("--short", false, 2), ("what it tests", false, 0)];
    show::print(&ranked(&columns, words, Columns::Fitting(None)));
    Ok(Exit::Done)
}

fn row(name: &'static str) -> anyhow::Result<Row> {
    let (full, short) = (Plan::preset(name, false)?, Plan::preset(name, true)?);
    Ok(Row {
        name,
        seconds: full.seconds(),
        seconds_short: short.seconds(),
        title: full.title,
        source: full.source.map(|source| source.title),
        notes: full.notes,
    })
}
