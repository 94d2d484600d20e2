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

/// CPU time per frame, relative to the best other capturer.
const CPU_RATIO_MAX: f64 = 0.25;
/// CPU time per frame, relative to stenographer, which writes the kernel's blocks as they are.
const STENOGRAPHER_CPU_RATIO_MAX: f64 = 1.3;
/// CPU time per frame into /dev/null, relative to tcpdump.
const NULL_CPU_RATIO_MAX: f64 = 1.0;
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
        plan.runs = self.args.runs();
        if let Some(count) = *self.args.count {
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
    let of = |rival: &str, value| Samples::of_case(report, case, rival, value);
    let loss = |rival: &str| of(rival, |run| run.loss.unwrap_or(1.0));
    let cpu = |rival: &str| of(rival, cpu_ns);
    let what = describe(case);
    let cpu_row = |promise, others: &[&str], most, words: &str| {
        let all = || ["quaff"].iter().chain(others);
        let (used, lost): (Vec<_>, Vec<_>) =
            (all().map(|name| cpu(name)).collect(), all().map(|name| loss(name)).collect());
        cpu_ratio(promise, (format!("{what}, {words}"), most), &used, &lost)
    };
    let row = match (case.series.as_str(), case.rival.as_str()) {
        ("400kpps", ours @ "quaff") => {
            Row::lossless(Promise::Paced, &what, &loss(ours), &["tcpdump", "dumpcap"].map(loss))
        }
        ("small-frames", ours @ "quaff") => Row::lossless(Promise::SmallFrames, &what, &loss(ours), &[]),
        ("large-frames", ours @ "quaff") => {
            Row::lossless(Promise::LargeFrames, &what, &loss(ours), &[loss("stenographer")])
        }
        ("cpu", "quaff") => cpu_row(
            Promise::Cpu,
            &["tcpdump", "dumpcap"],
            CPU_RATIO_MAX,
            "all without loss: CPU time per frame at most 1/4 of the best other",
        ),
        ("cpu-stenographer", "quaff") => cpu_row(
            Promise::CpuStenographer,
            &["stenographer"],
            STENOGRAPHER_CPU_RATIO_MAX,
            "without loss: CPU time per frame at most 1.3 times that of stenographer",
        ),
        ("cpu-null", "quaff") => cpu_row(
            Promise::CpuNull,
            &["tcpdump"],
            NULL_CPU_RATIO_MAX,
            "into /dev/null without loss: CPU time per frame at most that of tcpdump",
        ),
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

/// CPU time per frame after the start, which is paid once, of the first of `all` relative to the best of the others;
/// open if one of them lost frames.
fn cpu_ratio(promise: Promise, (limit, most): (String, f64), all: &[Samples], losses: &[Samples]) -> Row {
    let row = Row::ratio(promise, limit, Bound::AtMost(most), nanoseconds, all.split_at(1));
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
    let size = case.mix.clone().unwrap_or_else(|| format!("{} B", case.size));
    format!("{} × {size}, {}", show::count(frames), case.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_bench::testing::sample_report;

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
        assert_eq!(with(0.2, 0.0).holds, Some(true));
        assert_eq!(with(0.2, 0.0).measured, "quaff 200 ns, tcpdump 1000 ns, dumpcap 2000 ns: 0.20");
        assert!(with(0.2, 0.0).limit.starts_with("1,000,000 × 512 B, 200 kpps, all without loss"));
        assert_eq!(with(0.26, 0.0).holds, Some(false));
        let lossy = with(0.2, 0.01);
        assert_eq!((lossy.holds, lossy.measured.ends_with("; lost: dumpcap 1 %")), (None, true));
    }

    #[test]
    fn cpu_is_compared_at_the_same_rate() {
        let quiet = [("quaff", 0.0, 1.0), ("tcpdump", 0.0, 2.0), ("quaff", 0.0, 3.0), ("tcpdump", 0.0, 2.5)];
        let mut report = report("cpu-null", &quiet);
        for case in &mut report.cases[2..] {
            (case.rate, case.mix) = ("950 Mbit/s".into(), Some("imix1500".into()));
        }
        let rows = rows(&report);
        assert_eq!((rows.len(), rows[0].holds, rows[1].holds), (2, Some(true), Some(false)));
        assert!(rows[1].limit.starts_with("1,000,000 × imix1500, 950 Mbit/s, into /dev/null"), "{rows:?}");
    }

    #[test]
    fn stenographer_may_take_a_little_less() {
        let with = |ours| {
            rows(&report("cpu-stenographer", &[("quaff", 0.0, ours), ("stenographer", 0.0, 1.0)]))[0].holds
        };
        assert_eq!((with(1.29), with(1.31)), (Some(true), Some(false)));
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
