//! `quaff service` itself: from arguments to verdicts and a folder with a report.

use super::args::TestArgs;
use super::plan::plan;
use super::progress::Progress;
use crate::exit::Exit;
use crate::folder::Folder;
use crate::show;
use crate::stored_result;
use crate::terminal_table::about;
use anyhow::{Context as _, bail};
use quaff_bench::report;
use quaff_bench::service::plan::Plan;
use quaff_bench::service::result::Report;
use quaff_bench::service::{self, Context};
use quaff_os::{Signal, Signals};

pub(super) fn run(args: &TestArgs) -> anyhow::Result<Exit> {
    // Before the first thread: from here on a signal is something to read.
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?;
    let plan = plan(args)?;
    if args.dry_run {
        return print_plan(&plan);
    }
    let out = Folder::make(args.out.as_deref(), &format!("service-{}", stem(&plan.name)))?;
    let null = args.null_from.clone().zip(args.null_to.clone()).map(|(from, to)| [from, to]);
    let context = Context { command: std::env::args().collect(), null };
    let took = about(plan.seconds());
    show::say(&format!("{} ({}): about {took}, into {}\n", plan.title, plan.name, out.path.display()));
    let mut progress = Progress::new(signals, out.path.clone(), args.quiet);
    let report = service::run(&plan, &context, &mut progress);
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

/// A preset's name as part of a file's.
fn stem(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = name.chars().map(plain).collect();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}

fn print_plan(plan: &Plan) -> anyhow::Result<Exit> {
    show::print(&format!("# about {}", about(plan.seconds())));
    show::print(plan.to_toml().context("write the plan")?.trim_end());
    Ok(Exit::Done)
}

fn has_figures(report: &Report) -> bool {
    let rows = [
        report.throughput.len(),
        report.latency.len(),
        report.frame_loss.len(),
        report.back_to_back.len(),
        report.recovery.len(),
        report.configuration.len(),
        report.performance.len(),
    ];
    rows.iter().any(|rows| *rows > 0)
}

/// The exit status: by the limits; where there were none, by what a service lost. Tests of RFC 2544 go where frames
/// are lost, so their losses say nothing here. What is not whole, or not wholly judged, is no pass.
pub(super) fn verdict(report: &Report) -> Exit {
    if report.interrupted || !has_figures(report) {
        return Exit::Failed;
    }
    let lost =
        || report.performance.iter().any(|line| line.figures.lost > 0 || line.figures.unavailable_s > 0);
    let steps = report.configuration.iter().map(|step| &step.checks);
    let mut checks = steps.chain(report.performance.iter().map(|line| &line.checks));
    match report.passed {
        Some(true) => Exit::Done,
        Some(false) => Exit::Loss,
        // Some of what was to be judged was not: that is no pass.
        None if !report.unjudged.is_empty() || checks.any(|checks| !checks.is_empty()) => Exit::Failed,
        None if lost() => Exit::Loss,
        None => Exit::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testkit::sample_service_report;

    #[test]
    fn it_ends_by_limits_and_without_them_by_what_was_lost() {
        let sample = sample_service_report();
        let of = |passed, interrupted| verdict(&Report { passed, interrupted, ..sample.clone() });
        assert_eq!(of(Some(true), false), Exit::Done);
        assert_eq!(of(Some(false), false), Exit::Loss);
        assert_eq!(of(Some(true), true), Exit::Failed, "half a test");
        assert_eq!(of(None, false), Exit::Failed, "not all could be judged");
        let mut free = Report { passed: None, ..sample };
        free.configuration.clear();
        free.performance.iter_mut().for_each(|line| line.checks.clear());
        assert_eq!(verdict(&free), Exit::Loss, "there were no limits, and an outage lost frames");
        for line in &mut free.performance {
            (line.figures.lost, line.figures.unavailable_s) = (0, 0);
        }
        assert_eq!(verdict(&free), Exit::Done);
        free.unjudged = vec!["the test of performance was ended".into()];
        assert_eq!(verdict(&free), Exit::Failed);
    }

    #[test]
    fn a_preset_s_name_is_part_of_a_files() {
        assert_eq!(stem("rfc2544 (short)"), "rfc2544-short");
        assert_eq!(stem("../x"), "x");
    }
}
