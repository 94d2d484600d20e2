//! The charts of a bench of flow meters: bars of loss, CPU time, and speed on a file.

use super::text::{asked, flow_rate, style};
use crate::flow::result::{FlowCase, Report};
use crate::method::MeterRun;
use crate::report::chart::Chart;
use crate::report::chart::bars;
use crate::report::chart::scale::Unit;
use crate::report::chart::strips::{Bar, Mark, Panel, Row};
use crate::stats::spread;
use quaff::format::{percent, rate, significant};

/// All charts, in the order of the page.
pub(super) fn charts(report: &Report) -> [(&'static str, Vec<Chart>); 3] {
    let runs = "Bar: median of the runs. Thin line: from the best run to the worst; dots are single runs.";
    let loss = |case: &FlowCase| {
        let median = case.loss_median?;
        Some((median, percent(median), losses(case)))
    };
    let cpu = |case: &FlowCase| {
        let median = case.cpu_per_million?;
        Some((median, format!("{} s", significant(median)), values(case, MeterRun::cpu_per_million)))
    };
    let speed = |case: &FlowCase| {
        let median = case.pps_median?;
        let million = values(case, MeterRun::pps).into_iter().map(|pps| pps / 1e6).collect();
        Some((median / 1e6, rate(median), million))
    };
    let files: Vec<&FlowCase> = report.files.iter().collect();
    [
        ("Loss", bars("Packets lost", "lost of sent, %", runs, Unit::Loss, panels(report, &loss))),
        (
            "CPU time",
            bars("CPU time", "core seconds for a million packets", runs, Unit::Number, panels(report, &cpu)),
        ),
        (
            "Speed with a file",
            bars(
                "Packets from a file",
                "million packets/s",
                runs,
                Unit::Number,
                panel(report, String::new(), &files, &speed).into_iter().collect(),
            ),
        ),
    ]
}

/// Returns the value of a bar, its text, and the values of the runs.
type Value<'a> = &'a dyn Fn(&FlowCase) -> Option<(f64, String, Vec<f64>)>;

/// One panel per rate.
fn panels(report: &Report, value: Value<'_>) -> Vec<Panel> {
    let of = |fps: &f64| {
        let cases: Vec<&FlowCase> = report.cases.iter().filter(|case| case.fps == Some(*fps)).collect();
        panel(report, flow_rate(*fps), &cases, value)
    };
    report.plan.rates.iter().filter_map(of).collect()
}

/// Returns `None` without a value.
fn panel(report: &Report, title: String, cases: &[&FlowCase], value: Value<'_>) -> Option<Panel> {
    let row = |case: &&FlowCase| {
        let (number, words, dots) = value(case)?;
        Some(Row {
            style: style(report, &case.meter),
            name: case.meter.clone(),
            mark: Mark::Bar(Bar { parts: vec![number], spread: spread(&dots), dots, ..Bar::default() }),
            long: format!("{words}, {}", asked(case)),
            words,
        })
    };
    let rows: Vec<Row> = cases.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Panel { title, rows, limits: Vec::new() })
}

fn losses(case: &FlowCase) -> Vec<f64> {
    case.runs.iter().filter_map(|run| run.loss).collect()
}

fn values(case: &FlowCase, of: fn(&MeterRun) -> f64) -> Vec<f64> {
    case.runs.iter().filter(|run| run.failed.is_none()).map(of).collect()
}
