//! `quaff bench list`: the presets and the supported capturers.

use crate::exit::Exit;
use crate::show::{self, Stream};
use crate::terminal_table;
use anyhow::Context;
use quaff_bench::bench::plan::Plan;
use quaff_bench::experiment::PlanFile as _;
use quaff_lab::tool::{Tool, shipped};
use serde::Serialize;

/// List the presets and the supported capturers
///
/// The duration of a preset is an estimate for a machine on which all its capturers are installed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A preset.
#[derive(Debug, Serialize)]
struct PresetRow {
    name: String,
    title: String,
    source: Option<String>,
    rivals: Vec<String>,
    runs: u64,
    /// About, s.
    seconds: f64,
    notes: Vec<String>,
}

/// A capturer.
#[derive(Debug, Serialize)]
struct RivalRow {
    name: String,
    installed: bool,
    version: Option<String>,
    install: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let quaff = std::env::current_exe().context("find the program that runs")?;
    let presets = Plan::PRESETS.iter().map(|(name, ..)| Ok(preset_row(Plan::preset(name, false)?)));
    let presets = presets.collect::<anyhow::Result<Vec<_>>>()?;
    let rivals: Vec<_> = shipped(&quaff).into_iter().filter(|rival| !rival.hidden).map(rival_row).collect();
    if args.json {
        show::json(Stream::Stdout, &serde_json::json!({ "presets": presets, "rivals": rivals }))?;
        return Ok(Exit::Done);
    }
    let rows = presets.iter().map(|preset| {
        let words = [preset.title.as_str(), preset.source.as_deref().unwrap_or("")];
        let words: Vec<_> = words.into_iter().filter(|words| !words.is_empty()).collect();
        vec![preset.name.clone(), terminal_table::about(preset.seconds), words.join("\n")]
    });
    let columns = [("preset", false, 0), ("takes about", false, 1), ("what it measures", false, 0)];
    show::print(&terminal_table::ranked(&columns, rows));
    let rows = rivals.iter().map(|rival| {
        let state = match (rival.installed, &rival.version) {
            (true, Some(version)) => version.clone(),
            (true, None) => "installed".into(),
            (false, _) if rival.install.is_empty() => "not installed".into(),
            (false, _) => format!("not installed: {}", rival.install),
        };
        vec![rival.name.clone(), state]
    });
    show::print(&format!("\n{}", terminal_table::plain(&["capturer", "here"], rows)));
    let others = "\nOther capturers: --command 'NAME=COMMAND' or --rival-file FILE.toml, see docs/rivals.md.";
    show::report(Stream::Stdout, others);
    Ok(Exit::Done)
}

fn preset_row(plan: Plan) -> PresetRow {
    let cost = plan.cost();
    PresetRow {
        name: plan.name,
        title: plan.title,
        source: plan.source.map(|source| source.title),
        rivals: plan.rivals,
        runs: cost.runs,
        seconds: cost.seconds,
        notes: plan.notes,
    }
}

fn rival_row(rival: Tool) -> RivalRow {
    let present = rival.present();
    let installed = present.is_some();
    RivalRow {
        installed,
        version: present.and_then(|present| present.version),
        name: rival.name,
        install: rival.install,
    }
}
