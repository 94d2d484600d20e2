//! `quaff bench capture`: from arguments to a folder with a report.

use super::args::Args;
use super::plan::plan;
use crate::cmd::experiment::{self, Progress};
use crate::exit::Exit;
use crate::folder::name_part;
use crate::show;
use crate::terminal_table::about;
use anyhow::Context as _;
use quaff_bench::bench::plan::Topology;
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::bench::{self, Context};
use quaff_bench::method::Run;
use quaff_lab::tool::{self, OWN_TAP, Tool};
use std::path::Path;

/// The capturers that are expected to lose nothing.
const OURS: [&str; 2] = ["quaff", OWN_TAP];

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let signals = experiment::signals()?;
    let quaff = std::env::current_exe().context("find the program that runs")?;
    let own = own(args, &quaff)?;
    let names: Vec<_> = own.iter().map(|rival| rival.name.clone()).collect();
    let plan = plan(args, &names)?;
    let cost = plan.cost();
    let took = about(cost.seconds);
    if *args.from.dry_run {
        let room = show::bytes(cost.bytes_max as u64);
        let (cases, runs) = (show::count(cost.cases), show::count(cost.runs));
        let summary = format!("{cases} cases, {runs} runs, about {took}; room for files: {room}");
        return experiment::print_plan(&plan, &summary);
    }
    let rivals = tool::shipped(&quaff).into_iter().chain(own).collect();
    let context = Context { quaff, dir: args.dir.clone(), command: std::env::args().collect(), rivals };
    let introduction = format!("{} ({}): {}; about {took}", plan.title, plan.name, plan.rivals.join(", "));
    let stem = format!("bench-{}", name_part(&plan.name));
    let measure = |progress: &mut Progress| bench::run(&plan, &context, progress);
    let report =
        experiment::run(&args.report, signals, &stem, &introduction, measure, |report| report.has_figures())?;
    Ok(Exit::judged(verdict(&report)))
}

/// The capturers that the user describes.
fn own(args: &Args, quaff: &Path) -> anyhow::Result<Vec<Tool>> {
    let files = args.rival_file.iter().map(|file| tool::read(file, quaff));
    let commands = args.command.iter().map(|words| tool::from_command(words, quaff));
    Ok(files.chain(commands).collect::<Result<_, _>>()?)
}

/// The verdict; `None` without a result: loss when quaff lost frames that reached it, or failed in a run. The points
/// of a loss curve are not counted.
pub(super) fn verdict(report: &Report) -> Option<bool> {
    if report.interrupted || !report.has_figures() {
        return None;
    }
    let is_asked = |case: &&Case| report.plan.sweeps.iter().any(|sweep| sweep.series == case.series);
    let ours = report.cases.iter().filter(|case| is_ours(case)).filter(is_asked);
    let is_excused = matches!(report.plan.bed, Topology::Real { .. } | Topology::Line { .. });
    let is_bad = |run: &Run| {
        // No capturer can receive what an adapter, a mirror port or the kernel's queue dropped.
        let excused = if is_excused { run.receiver_drops } else { 0 };
        let lost = run.captured.map_or(u64::MAX, |captured| run.offered.saturating_sub(captured));
        let has_failed = run.failed.is_some() && !run.failed_outside;
        has_failed || (run.loss.is_some_and(|loss| loss > 0.0) && lost > excused)
    };
    Some(!ours.flat_map(|case| &case.runs).any(is_bad))
}

fn is_ours(case: &Case) -> bool {
    OURS.contains(&case.rival.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_bench::testing::sample_report;

    #[test]
    fn only_what_quaff_lost_itself_is_a_loss() {
        let mut report = sample_report();
        let ours = report.cases.iter().position(is_ours).expect("ours");
        report.cases.truncate(ours + 1);
        report.plan.sweeps.truncate(1);
        report.interrupted = false;
        report.plan.sweeps[0].series.clone_from(&report.body.cases[ours].series);
        let lossless =
            Run { offered: 100, captured: Some(100), loss: Some(0.0), failed: None, ..Run::default() };
        let lossy = Run { captured: Some(90), loss: Some(0.1), ..lossless.clone() };
        let of = |runs: &[Run], bed: &Topology, series: &str| {
            let mut report = report.clone();
            report.plan.bed = bed.clone();
            report.cases[ours].runs = runs.to_vec();
            series.clone_into(&mut report.cases[ours].series);
            verdict(&report)
        };
        let series = report.cases[ours].series.clone();
        assert_eq!(verdict(&Report { interrupted: true, ..report.clone() }), None, "half a bench");
        assert_eq!(of(std::slice::from_ref(&lossless), &Topology::Direct, &series), Some(true));
        assert_eq!(
            of(&[lossless.clone(), lossy.clone()], &Topology::Direct, &series),
            Some(false),
            "one of them did"
        );
        assert_eq!(of(std::slice::from_ref(&lossy), &Topology::Direct, "another"), Some(true), "a curve's");
        let before = Run { receiver_drops: 10, ..lossy.clone() };
        assert_eq!(of(std::slice::from_ref(&before), &Topology::Span, &series), Some(false), "never offered");
        let real = Topology::Real { send_on: "a".into(), receive_on: vec!["b".into()], sender: None };
        assert_eq!(of(std::slice::from_ref(&before), &real, &series), Some(true), "the card did");
        assert_eq!(of(std::slice::from_ref(&lossy), &real, &series), Some(false));
        let line = Topology::Line { mirror_mbps: 1 };
        assert_eq!(of(std::slice::from_ref(&before), &line, &series), Some(true), "the mirror port did");
        assert_eq!(of(&[lossy], &line, &series), Some(false));
        let failed = Run { failed: Some("it crashed".into()), ..lossless };
        let outside = Run { failed_outside: true, ..failed.clone() };
        assert_eq!(of(&[outside], &Topology::Direct, &series), Some(true));
        assert_eq!(of(&[failed], &Topology::Direct, &series), Some(false));
    }
}
