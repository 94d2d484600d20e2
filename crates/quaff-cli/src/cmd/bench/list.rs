//! `quaff bench list`: the presets, and the supported capturers and flow meters.

use crate::exit::Exit;
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use crate::terminal_table::{self, Columns};
use anyhow::Context;
use quaff_bench::bench::plan::Plan;
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::flow::plan::Plan as FlowPlan;
use quaff_lab::tool::{FlowMeter, Tool, shipped, shipped_meters};
use serde::Serialize;

/// List the presets, and the supported capturers and flow meters
///
/// The duration of a preset is an estimate for a machine on which all its programs are installed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    report: ReportArgs,
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

/// A capturer or a flow meter.
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
    let flows = FlowPlan::PRESETS.iter().map(|(name, ..)| Ok(flow_row(FlowPlan::preset(name, false)?)));
    let presets = presets.chain(flows).collect::<anyhow::Result<Vec<_>>>()?;
    let rivals: Vec<_> = shipped(&quaff).into_iter().filter(|rival| !rival.hidden).map(rival_row).collect();
    let meters: Vec<_> = shipped_meters(&quaff).into_iter().map(meter_row).collect();
    if args.report.json {
        let all = serde_json::json!({ "presets": presets, "rivals": rivals, "meters": meters });
        show::json(Stream::Stdout, &all)?;
        return Ok(Exit::Done);
    }
    let rows = presets.iter().map(|preset| {
        let words = [preset.title.as_str(), preset.source.as_deref().unwrap_or("")];
        let words: Vec<_> = words.into_iter().filter(|words| !words.is_empty()).collect();
        vec![preset.name.clone(), terminal_table::about(preset.seconds), words.join("\n")]
    });
    let columns = [("preset", false, 0), ("takes about", false, 1), ("what it measures", false, 0)];
    show::print(&terminal_table::ranked(&columns, rows, Columns::Fitting(None)));
    show::print(&format!("\n{}", terminal_table::plain(&["capturer", "here"], rivals.iter().map(here))));
    show::print(&format!("\n{}", terminal_table::plain(&["flow meter", "here"], meters.iter().map(here))));
    let others =
        "\nOthers: --command 'NAME=COMMAND', --rival-file or --meter-file FILE.toml, see docs/rivals.md.";
    show::report(Stream::Stdout, others);
    Ok(Exit::Done)
}

/// The name of a program, and its version if it is installed.
fn here(rival: &RivalRow) -> Vec<String> {
    let state = match (rival.installed, &rival.version) {
        (true, Some(version)) => version.clone(),
        (true, None) => "installed".into(),
        (false, _) if rival.install.is_empty() => "not installed".into(),
        (false, _) => format!("not installed: {}", rival.install),
    };
    vec![rival.name.clone(), state]
}

fn flow_row(plan: FlowPlan) -> PresetRow {
    PresetRow {
        runs: plan.runs_total() as u64,
        seconds: plan.cost_s(),
        name: plan.name,
        title: plan.title,
        source: plan.source.map(|source| source.title),
        rivals: plan.meters,
        notes: plan.notes,
    }
}

fn meter_row(meter: FlowMeter) -> RivalRow {
    let present = meter.present();
    let installed = present.is_some();
    let version = present.and_then(|present| present.version);
    RivalRow { installed, version, name: meter.name, install: meter.install }
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
