//! The promises of captures: a preset of the bench, and a limit for each of its series.

use super::verdict::{Bound, Row, Samples};
use super::{Bench, Promise};
use crate::show;
use quaff_bench::bench::plan::{Amount, Plan};
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::bench::{self, Context};
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::method::Run;
use quaff_lab::Error;
use quaff_lab::tool::shipped;

/// Loss of tcpdump and dumpcap at 400 kpps, and of stenographer as fast as possible, above.
const SLOW_LOSS: f64 = 0.1;
const STENOGRAPHER_LOSS: f64 = 0.05;
/// CPU time per frame, relative to the best other capturer.
const CPU_RATIO_MAX: f64 = 1.0 / 3.0;
/// CPU time per frame of a filter in the kernel, relative to the same filter in user space.
const FILTER_RATIO_MAX: f64 = 0.2;
/// The name of tcpdump with `quaff pipe` as its reader.
const PIPED: &str = "tcpdump | quaff pipe";
/// Loss of tcpdump with `quaff pipe` after it, relative to its loss alone.
const PIPED_RATIO_MAX: f64 = 0.5;

impl Bench<'_> {
    pub(super) fn captures(&mut self) -> quaff_lab::Result<()> {
        let preset = Plan::preset("promises", false);
        let mut plan = preset.map_err(|error| Error::Place(error.to_string()))?;
        let names: Vec<_> = <Promise as clap::ValueEnum>::value_variants()
            .iter()
            .filter(|promise| self.args.wants(**promise))
            .map(|promise| promise.name())
            .collect();
        plan.sweeps.retain(|sweep| names.contains(&sweep.series));
        if plan.sweeps.is_empty() {
            return Ok(());
        }
        plan.rivals.retain(|name| plan.sweeps.iter().any(|sweep| sweep.rivals.contains(name)));
        plan.runs = self.args.runs;
        if let Some(count) = self.args.count {
            plan.sweeps.iter_mut().for_each(|sweep| sweep.amount = Amount::Frames(count));
        }
        let quaff = self.setup.quaff.clone();
        let context =
            Context { rivals: shipped(&quaff), quaff, dir: self.args.dir.clone(), command: Vec::new() };
        let report = bench::run(&plan, &context, &mut &self.setup)?;
        if report.interrupted {
            return Err(Error::Interrupted);
        }
        for (name, why) in
            report.rivals.iter().filter_map(|rival| Some((&rival.name, rival.absent.as_ref()?)))
        {
            show::message(&format!("{name}: {why}"));
        }
        self.rows.extend(report.cases.iter().filter_map(|case| judged(&report, case)));
        self.captures = Some(report);
        Ok(())
    }
}

/// The verdict of a case; `None` if it is one that others are compared to.
fn judged(report: &Report, case: &Case) -> Option<Row> {
    let of = |rival: &str, value| Samples::of_case(report, (&case.series, case.size, rival), value);
    let loss = |rival: &str| of(rival, |run| run.loss.unwrap_or(1.0));
    let cpu = |rival: &str| of(rival, cpu_ns);
    let what = describe(case);
    let row = match (case.series.as_str(), case.rival.as_str()) {
        ("400kpps", ours @ "quaff") => {
            let others = ["tcpdump", "dumpcap"].map(|name| (loss(name), SLOW_LOSS));
            Row::lossless(Promise::Paced, &what, &loss(ours), &others)
        }
        ("small-frames", ours @ "quaff") => Row::lossless(Promise::SmallFrames, &what, &loss(ours), &[]),
        ("large-frames", ours @ "quaff") => {
            let others = [(loss("stenographer"), STENOGRAPHER_LOSS)];
            Row::lossless(Promise::LargeFrames, &what, &loss(ours), &others)
        }
        ("cpu", ours @ "quaff") => {
            let all = [ours, "tcpdump", "dumpcap"];
            cpu_ratio(&what, &all.map(cpu), &all.map(loss))
        }
        ("tunnels", ours @ "quaff --decap") => {
            let what = format!("{what}, decapsulated from ERSPAN");
            Row::lossless(Promise::Tunnels, &what, &loss(ours), &[])
        }
        ("tunnels", ours @ "quaff --inner") => {
            let limit = format!(
                "{what}, ERSPAN, a filter that passes 1 %: in the kernel at most {FILTER_RATIO_MAX} of its CPU time \
                 per frame in user space"
            );
            let both = (&[cpu(ours)][..], &[cpu("quaff --inner-user")][..]);
            Row::ratio(Promise::Tunnels, limit, Bound::AtMost(FILTER_RATIO_MAX), nanoseconds, both)
        }
        ("pipe", PIPED) => {
            let limit = format!("{what}: tcpdump loses at most half as much with quaff pipe after it");
            let both = (&[loss(PIPED)][..], &[loss("tcpdump")][..]);
            Row::ratio(Promise::Pipe, limit, Bound::AtMost(PIPED_RATIO_MAX), quaff::format::percent, both)
        }
        _ => return None,
    };
    Some(row)
}

/// CPU time per frame after the start, which is paid once; open if one of `all` lost frames.
fn cpu_ratio(what: &str, all: &[Samples], losses: &[Samples]) -> Row {
    let limit = format!("{what}, all without loss: CPU time per frame at most 1/3 of the best other");
    let row = Row::ratio(Promise::Cpu, limit, Bound::AtMost(CPU_RATIO_MAX), nanoseconds, all.split_at(1));
    let lossy: Vec<_> = losses
        .iter()
        .filter(|loss| loss.median() > Some(0.0))
        .map(|loss| loss.describe(quaff::format::percent))
        .collect();
    match lossy.is_empty() {
        true => row,
        false => {
            Row { measured: format!("{}; lost: {}", row.measured, lossy.join(", ")), holds: None, ..row }
        }
    }
}

fn cpu_ns(run: &Run) -> f64 {
    (run.cpu_user_s + run.cpu_system_s) * 1e9 / run.offered.max(1) as f64
}

fn nanoseconds(ns: f64) -> String {
    format!("{ns:.0} ns")
}

/// "3,000,000 × 512 B, 200 kpps".
fn describe(case: &Case) -> String {
    let frames = case.runs.first().map_or(0, |run| run.intended);
    format!("{} × {} B, {}", show::count(frames), case.size, case.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testkit::sample_report;

    fn report(series: &str, cases: &[(&str, f64, f64)]) -> Report {
        let case = |(rival, loss, cpu_user_s): &(&str, f64, f64)| {
            let run = Run {
                intended: 1_000_000,
                offered: 1_000_000,
                loss: Some(*loss),
                cpu_user_s: *cpu_user_s,
                ..Run::default()
            };
            let (rival, series, rate) = ((*rival).into(), series.into(), "200 kpps".into());
            Case { rival, series, size: 512, rate, runs: vec![run.clone(), run], ..Case::default() }
        };
        let mut report = sample_report();
        report.cases = cases.iter().map(case).collect();
        report
    }

    fn rows(report: &Report) -> Vec<Row> {
        report.cases.iter().filter_map(|case| judged(report, case)).collect()
    }

    #[test]
    fn cpu_is_compared_to_the_best_other_and_only_without_loss() {
        let with = |ours, loss| {
            let row =
                rows(&report("cpu", &[("quaff", 0.0, ours), ("tcpdump", 0.0, 1.0), ("dumpcap", loss, 2.0)]));
            assert_eq!(row.len(), 1);
            row[0].clone()
        };
        assert_eq!(with(0.3, 0.0).holds, Some(true));
        assert_eq!(with(0.3, 0.0).measured, "quaff 300 ns, tcpdump 1000 ns, dumpcap 2000 ns: 0.30");
        assert!(with(0.3, 0.0).limit.starts_with("1,000,000 × 512 B, 200 kpps, all without loss"));
        assert_eq!(with(0.34, 0.0).holds, Some(false));
        let lossy = with(0.3, 0.01);
        assert_eq!((lossy.holds, lossy.measured.ends_with("; lost: dumpcap 1 %")), (None, true));
    }

    #[test]
    fn each_series_of_the_preset_is_judged() {
        let plan = Plan::preset("promises", false).expect("a preset");
        for sweep in plan.sweeps.iter().filter(|sweep| sweep.rivals != ["stenographer"]) {
            let cases: Vec<_> = sweep.rivals.iter().map(|rival| (rival.as_str(), 0.0, 1.0)).collect();
            assert_eq!(rows(&report(&sweep.series, &cases)).len(), 1, "{sweep:?}");
        }
    }

    #[test]
    fn a_loss_of_tcpdump_is_to_be_halved() {
        let with =
            |piped, alone| rows(&report("pipe", &[("tcpdump", alone, 0.0), (PIPED, piped, 0.0)]))[0].holds;
        assert_eq!(with(0.1, 0.2), Some(true));
        assert_eq!(with(0.11, 0.2), Some(false));
        assert_eq!(with(0.0, 0.0), None);
    }
}
