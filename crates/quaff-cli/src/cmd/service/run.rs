//! `quaff service` itself: from arguments to verdicts and a folder with a report.

use super::args::TestArgs;
use super::plan::plan;
use crate::cmd::experiment::{self, Progress};
use crate::exit::Exit;
use crate::folder::name_part;
use crate::terminal_table::about;
use anyhow::Context as _;
use quaff_bench::service::result::Report;
use quaff_bench::service::{self, Context};

pub(super) fn run(args: &TestArgs) -> anyhow::Result<Exit> {
    let signals = experiment::signals()?;
    let plan = plan(args)?;
    let took = about(plan.seconds());
    if *args.from_plan.dry_run {
        return experiment::print_plan(&plan, &format!("about {took}"));
    }
    let null = args.null_from.clone().zip(args.null_to.clone()).map(|(from, to)| [from, to]);
    let quaff = Some(std::env::current_exe().context("find this program, which is the tap of a lab")?);
    let context = Context { command: std::env::args().collect(), null, quaff };
    let introduction = format!("{} ({}): about {took}", plan.title, plan.name);
    let stem = format!("service-{}", name_part(&plan.name));
    let measure = |progress: &mut Progress| service::run(&plan, &context, progress);
    let report =
        experiment::run(&args.report, signals, &stem, &introduction, measure, |report| report.has_figures())?;
    Ok(Exit::judged(verdict(&report)))
}

/// The verdict; `None` without a result: by the limits; without limits, by the loss of services. Losses in tests of
/// RFC 2544 do not count. An incomplete test, or one that was not judged completely, has not passed. A tap whose
/// recorder lost frames is a loss.
pub(super) fn verdict(report: &Report) -> Option<bool> {
    if report.interrupted || !report.has_figures() {
        return None;
    }
    let lost =
        || report.performance.iter().any(|line| line.figures.lost > 0 || line.figures.unavailable_s > 0);
    let is_recorded = report.tap.iter().all(|way| way.lost == 0);
    let steps = report.configuration.iter().map(|step| &step.checks);
    let mut checks = steps.chain(report.performance.iter().map(|line| &line.checks));
    match report.passed {
        Some(passed) => Some(passed && is_recorded),
        // Not every limit could be judged.
        None if !report.unjudged.is_empty() || checks.any(|checks| !checks.is_empty()) => None,
        None => Some(!lost() && is_recorded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_bench::service::result::{TapDirection, Way};
    use quaff_bench::testing::sample_service_report;

    #[test]
    fn it_ends_by_limits_and_without_them_by_what_was_lost() {
        let mut sample = sample_service_report();
        sample.tap.clear();
        let of = |passed, interrupted| {
            let mut report = Report { interrupted, ..sample.clone() };
            report.passed = passed;
            verdict(&report)
        };
        assert_eq!(of(Some(true), false), Some(true));
        assert_eq!(of(Some(false), false), Some(false));
        assert_eq!(of(Some(true), true), None, "half a test");
        assert_eq!(of(None, false), None, "not all could be judged");
        let mut free = sample.clone();
        free.passed = None;
        free.configuration.clear();
        free.performance.iter_mut().for_each(|line| line.checks.clear());
        assert_eq!(verdict(&free), Some(false), "there were no limits, and an outage lost frames");
        for line in &mut free.performance {
            (line.figures.lost, line.figures.unavailable_s) = (0, 0);
        }
        assert_eq!(verdict(&free), Some(true));
        let way = TapDirection {
            way: Way::There,
            received: 9,
            recorded: 8,
            lost: 1,
            forwarded: Some(9),
            forward_dropped: Some(0),
            unrecorded: Some(0),
        };
        free.tap = vec![TapDirection { lost: 0, recorded: 9, ..way }];
        assert_eq!(verdict(&free), Some(true));
        free.tap.push(way);
        assert_eq!(verdict(&free), Some(false), "all passed, but the recorder missed one");
        free.tap.clear();
        free.unjudged = vec!["the test of performance was ended".into()];
        assert_eq!(verdict(&free), None);
    }
}
