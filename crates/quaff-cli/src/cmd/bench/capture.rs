//! `quaff bench capture`: from arguments to a folder with a report.

use super::args::Args;
use super::plan::plan;
use super::progress::Progress;
use crate::exit::Exit;
use crate::folder::Folder;
use crate::show;
use crate::stored_result;
use crate::terminal_table::about;
use anyhow::{Context as _, bail};
use quaff_bench::bench::plan::{Plan, Topology};
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::bench::{self, Context};
use quaff_bench::method::Run;
use quaff_bench::report;
use quaff_lab::tool::{self, Tool};
use quaff_os::{Signal, Signals};
use std::path::Path;

/// The one that is to lose nothing.
const OURS: &str = "quaff";

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    // Before the first thread: from here on a signal is something to read.
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let quaff = std::env::current_exe().context("find the program that runs")?;
    let own = own(args, &quaff)?;
    let names: Vec<_> = own.iter().map(|rival| rival.name.clone()).collect();
    let plan = plan(args, &names)?;
    if args.dry_run {
        return print_plan(&plan);
    }
    let rivals = tool::shipped(&quaff).into_iter().chain(own).collect();
    let out = Folder::make(args.out.as_deref(), &format!("bench-{}", plan.name))?;
    let command = std::env::args().collect();
    let context = Context { quaff, dir: args.dir.clone(), command, rivals };
    introduce(&plan, &out);
    let mut progress = Progress::new(signals, out.path.clone(), args.quiet);
    let report = bench::run(&plan, &context, &mut progress);
    progress.end();
    let report = report?;
    if report.interrupted && !has_figures(&report) {
        bail!("interrupted before anything was measured; all that was made is removed");
    }
    let files = report::write(&report, &out.path)?;
    out.keep();
    stored_result::print_new(&report, args.json, &files)?;
    Ok(verdict(&report))
}

/// The capturers that the user describes.
fn own(args: &Args, quaff: &Path) -> anyhow::Result<Vec<Tool>> {
    let files = args.rival_file.iter().map(|file| tool::read(file, quaff));
    let commands = args.command.iter().map(|words| tool::from_command(words, quaff));
    Ok(files.chain(commands).collect::<Result<_, _>>()?)
}

fn print_plan(plan: &Plan) -> anyhow::Result<Exit> {
    let cost = plan.cost();
    let took = about(cost.seconds);
    let room = show::bytes(cost.bytes_max as u64);
    let (cases, runs) = (show::count(cost.cases), show::count(cost.runs));
    show::print(&format!("# {cases} cases, {runs} runs, about {took}; room for files: {room}"));
    show::print(plan.to_toml().context("write the plan")?.trim_end());
    Ok(Exit::Done)
}

/// Prints the plan on stderr.
fn introduce(plan: &Plan, out: &Folder) {
    let cost = plan.cost();
    let (took, rivals) = (about(cost.seconds), plan.rivals.join(", "));
    show::say(&format!(
        "{} ({}): {rivals}; about {took}, into {}",
        plan.title,
        plan.name,
        out.path.display()
    ));
    show::say("");
}

fn has_figures(report: &Report) -> bool {
    report.cases.iter().any(|case| !case.runs.is_empty())
        || !report.searches.is_empty()
        || !report.bursts.is_empty()
}

/// The exit status: loss when quaff lost frames that reached it, or did not get through a run. A curve goes
/// where frames are lost, so its points say nothing here. What is not whole is told from what is.
pub(super) fn verdict(report: &Report) -> Exit {
    if report.interrupted || !has_figures(report) {
        return Exit::Failed;
    }
    let is_asked = |case: &&Case| report.plan.sweeps.iter().any(|sweep| sweep.series == case.series);
    let ours = report.cases.iter().filter(|case| case.rival == OURS).filter(is_asked);
    let is_real = matches!(report.plan.bed, Topology::Real { .. });
    let is_bad = |run: &Run| {
        // What a card or the kernel's queue dropped nobody can capture.
        let excused = if is_real { run.receiver_drops } else { 0 };
        let lost = run.captured.map_or(u64::MAX, |captured| run.offered.saturating_sub(captured));
        let has_failed = run.failed.is_some() && !run.failed_outside;
        has_failed || (run.loss.is_some_and(|loss| loss > 0.0) && lost > excused)
    };
    if ours.flat_map(|case| &case.runs).any(is_bad) { Exit::Loss } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testkit::sample_report;

    #[test]
    fn only_what_quaff_lost_itself_is_a_loss() {
        let mut report = sample_report();
        let ours = report.cases.iter().position(|case| case.rival == OURS).expect("ours");
        report.cases.truncate(ours + 1);
        report.plan.sweeps.truncate(1);
        report.interrupted = false;
        report.plan.sweeps[0].series.clone_from(&report.cases[ours].series);
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
        assert_eq!(verdict(&Report { interrupted: true, ..report.clone() }), Exit::Failed, "half a bench");
        assert_eq!(of(std::slice::from_ref(&lossless), &Topology::Direct, &series), Exit::Done);
        assert_eq!(
            of(&[lossless.clone(), lossy.clone()], &Topology::Direct, &series),
            Exit::Loss,
            "one of them did"
        );
        assert_eq!(of(std::slice::from_ref(&lossy), &Topology::Direct, "another"), Exit::Done, "a curve's");
        let before = Run { receiver_drops: 10, ..lossy.clone() };
        assert_eq!(of(std::slice::from_ref(&before), &Topology::Span, &series), Exit::Loss, "never offered");
        let real = Topology::Real { send_on: "a".into(), receive_on: vec!["b".into()], sender: None };
        assert_eq!(of(std::slice::from_ref(&before), &real, &series), Exit::Done, "the card did");
        assert_eq!(of(&[lossy], &real, &series), Exit::Loss);
        let failed = Run { failed: Some("it crashed".into()), ..lossless };
        let outside = Run { failed_outside: true, ..failed.clone() };
        assert_eq!(of(&[outside], &Topology::Direct, &series), Exit::Done);
        assert_eq!(of(&[failed], &Topology::Direct, &series), Exit::Loss);
    }
}
