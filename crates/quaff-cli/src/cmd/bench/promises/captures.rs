//! The promises of captures: a preset of the bench, whose series are measured one after the other, and a limit for
//! each.

use super::verdict::{Bound, Row, Samples};
use super::{Bench, Promise};
use crate::show;
use quaff_bench::bench::plan::{Amount, Plan, Rate, Topology};
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::bench::{self, Context};
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::method::Run;
use quaff_lab::Error;
use quaff_lab::tool::{OWN_TAP, shipped};
use quaff_lab::traffic::Size;

/// CPU time per frame, relative to the best other capturer.
const CPU_RATIO_MAX: f64 = 0.25;
/// CPU time per frame, relative to stenographer, which writes the kernel's blocks as they are.
const STENOGRAPHER_CPU_RATIO_MAX: f64 = 1.3;
/// CPU time per frame into /dev/null, relative to tcpdump.
const NULL_CPU_RATIO_MAX: f64 = 1.0;
/// CPU time with the default buffer, relative to that with 256 MiB.
const DEFAULT_CPU_RATIO_MAX: f64 = 1.3;
/// The name of quaff with a buffer of 256 MiB.
const SMALL_BUFFER: &str = "quaff --buffer 256M";
/// CPU time per frame of a filter in the kernel, relative to the same filter in user space.
const FILTER_RATIO_MAX: f64 = 0.2;
/// The name of tcpdump with `quaff pipe` as its reader.
const PIPED: &str = "tcpdump | quaff pipe";
/// Rate of the mirror port in the line of a tap, which nothing is captured at, Mbit/s.
const LINK_MBPS: u32 = 1000;
/// Loss of tcpdump with `quaff pipe` after it, relative to its loss alone.
const PIPED_RATIO_MAX: f64 = 0.5;

impl Bench<'_> {
    /// Measures the series of a promise, if the preset has one.
    pub(super) fn captures(&mut self, promise: Promise) -> quaff_lab::Result<()> {
        let plan = self.plan(promise)?;
        if plan.sweeps.is_empty() {
            return Ok(());
        }
        self.begin(promise, &title(&plan), 0);
        let quaff = self.setup.quaff.clone();
        let context =
            Context { rivals: shipped(&quaff), quaff, dir: self.args.dir.clone(), command: Vec::new() };
        let report = bench::run(&plan, &context, &mut &self.setup)?;
        if report.interrupted {
            return Err(Error::Interrupted);
        }
        let known = self.captures.iter().flat_map(|report| &report.rivals).map(|rival| rival.name.clone());
        let known: Vec<_> = known.collect();
        let absent = report.rivals.iter().filter(|rival| !known.contains(&rival.name));
        for (name, why) in absent.filter_map(|rival| Some((&rival.name, rival.absent.as_ref()?))) {
            self.setup.above(|| show::message(&format!("{name}: {why}")));
        }
        report.cases.iter().filter_map(|case| judged(&report, case)).for_each(|row| self.judge(row));
        match &mut self.captures {
            Some(all) => add(all, report),
            none => *none = Some(report),
        }
        Ok(())
    }

    /// The series of a promise; a plan without sweeps if it has none.
    fn plan(&self, promise: Promise) -> quaff_lab::Result<Plan> {
        let preset = Plan::preset("promises", false);
        let mut plan = preset.map_err(|error| Error::Place(error.to_string()))?;
        plan.sweeps.retain(|sweep| sweep.series == promise.name());
        plan.rivals.retain(|name| plan.sweeps.iter().any(|sweep| sweep.rivals.contains(name)));
        plan.runs = self.args.runs();
        if promise == Promise::Tap {
            plan.bed = Topology::Line { mirror_mbps: LINK_MBPS };
        }
        if let Some(count) = *self.args.count {
            plan.sweeps.iter_mut().for_each(|sweep| sweep.amount = Amount::Frames(count));
        }
        Ok(plan)
    }
}

/// Adds the report of another promise: `--json` has one object for all captures.
fn add(all: &mut Report, more: Report) {
    all.seconds += more.seconds;
    add_new(&mut all.plan.rivals, more.plan.rivals, String::clone);
    all.plan.sweeps.extend(more.plan.sweeps);
    add_new(&mut all.notes, more.notes, String::clone);
    add_new(&mut all.body.rivals, more.body.rivals, |tool| tool.name.clone());
    add_new(&mut all.body.calibration, more.body.calibration, |null| (null.size, null.mix.clone(), null.pps));
    all.body.cases.extend(more.body.cases);
}

/// Adds those items whose key is in none yet.
fn add_new<T, K: PartialEq>(all: &mut Vec<T>, more: Vec<T>, key: impl Fn(&T) -> K) {
    for item in more {
        if !all.iter().any(|known| key(known) == key(&item)) {
            all.push(item);
        }
    }
}

/// "3,000,000 × 64 B, as fast as possible; …": each traffic of a plan once.
fn title(plan: &Plan) -> String {
    let mut all = Vec::new();
    for sweep in &plan.sweeps {
        let amount = match sweep.amount {
            Amount::Frames(frames) => show::count(frames),
            Amount::Seconds(seconds) => format!("{seconds:.0} s"),
        };
        for traffic in sweep.workloads().map(|(size, rate)| traffic(&amount, size, rate)) {
            if !all.contains(&traffic) {
                all.push(traffic);
            }
        }
    }
    all.join("; ")
}

fn traffic(amount: &str, size: &Size, rate: Rate) -> String {
    let size = match size {
        Size::Bytes(bytes) => format!("{bytes} B"),
        Size::Mix(name) | Size::From(name) | Size::Replay(name) => name.clone(),
    };
    format!("{amount} × {size}, {}", rate.words())
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
        ("cpu-default", ours @ "quaff") => {
            let both = [ours, SMALL_BUFFER].map(|rival| of(rival, whole_cpu_ns));
            default_cpu(&what, &both, &loss(ours))
        }
        ("lanes", ours @ "quaff") => {
            let what = format!("{what}, 1,024 flows, by two lanes");
            Row::lossless(Promise::Lanes, &what, &loss(ours), &[])
        }
        ("tap", OWN_TAP) => tapped(&what, &loss(OWN_TAP), case),
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

/// CPU time per frame of the first of `both`, its start included, relative to the other; and no frame lost.
fn default_cpu(what: &str, both: &[Samples], lost: &Samples) -> Row {
    let limit = format!(
        "{what}: CPU time with the default buffer, its start included, at most {DEFAULT_CPU_RATIO_MAX} times that \
         with 256 MiB"
    );
    let bound = Bound::AtMost(DEFAULT_CPU_RATIO_MAX);
    let row = Row::ratio(Promise::CpuDefault, limit, bound, nanoseconds, both.split_at(1));
    row.and(&format!("{} lost", lost.describe(quaff::format::percent)), lost.is_zero())
}

/// No frame lost in the record of a tap, and none on the line.
fn tapped(what: &str, lost: &Samples, case: &Case) -> Row {
    let missed: u64 = case.runs.iter().map(missed_by_far_end).sum();
    let what = format!("{what}, both directions of a line, recorded and at the other end");
    let row = Row::lossless(Promise::Tap, &what, lost, &[]);
    row.and(&format!("{} not at the other end", show::count(missed)), missed == 0)
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

/// CPU time per frame, the start included.
fn whole_cpu_ns(run: &Run) -> f64 {
    cpu_ns(run) + run.cpu_startup_s * 1e9 / run.offered.max(1) as f64
}

/// Frames of a line that did not reach its other end.
fn missed_by_far_end(run: &Run) -> u64 {
    run.line.map_or(0, |line| run.offered.saturating_sub(line.delivered))
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
    use quaff_lab::topology::LineCounts;

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
    fn a_default_buffer_may_cost_a_little_more_its_start_included() {
        let with = |startup_s, lost| {
            let mut report = report("cpu-default", &[("quaff", lost, 1.0), (SMALL_BUFFER, 0.0, 1.0)]);
            report.cases[0].runs.iter_mut().for_each(|run| run.cpu_startup_s = startup_s);
            rows(&report)[0].clone()
        };
        assert_eq!(with(0.25, 0.0).holds, Some(true));
        assert_eq!(with(0.35, 0.0).holds, Some(false));
        let lossy = with(0.25, 0.01);
        assert_eq!(
            (lossy.holds, lossy.measured.starts_with("quaff 1 % lost, ")),
            (Some(false), true),
            "{lossy:?}"
        );
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
    fn a_tap_that_keeps_a_frame_from_the_other_end_breaks_its_promise() {
        let with = |loss, delivered| {
            let mut report = report("tap", &[(OWN_TAP, loss, 0.0)]);
            let line = LineCounts { delivered, mirror_dropped: None };
            report.cases[0].runs.iter_mut().for_each(|run| run.line = Some(line));
            rows(&report)[0].clone()
        };
        let good = with(0.0, 1_000_000);
        assert_eq!(
            (good.holds, good.measured.as_str()),
            (Some(true), "0 not at the other end, lost: quaff tap 0 %")
        );
        assert_eq!(with(0.1, 1_000_000).holds, Some(false));
        let cut = with(0.0, 999_999);
        assert_eq!((cut.holds, cut.measured.starts_with("2 not")), (Some(false), true), "{cut:?}");
    }

    #[test]
    fn each_series_is_announced_by_its_traffic() {
        let mut plan = Plan::preset("promises", false).expect("a preset");
        let mut of = |series: &str| {
            let all = plan.sweeps.clone();
            plan.sweeps.retain(|sweep| sweep.series == series);
            let title = title(&plan);
            plan.sweeps = all;
            title
        };
        assert_eq!(of("cpu"), "3,000,000 × 512 B, 200 kpps");
        assert_eq!(of("large-frames"), "3,000,000 × 1500 B, as fast as possible");
        assert!(of("cpu-null").starts_with("10 s × imix1500, 100 Mbit/s; 10 s × imix1500, 500 Mbit/s; "));
    }

    #[test]
    fn the_captures_of_all_promises_are_one_report() {
        let mut all = report("cpu", &[("quaff", 0.0, 1.0), ("tcpdump", 0.0, 2.0)]);
        let (cases, rivals, seconds) = (all.cases.len(), all.rivals.clone(), all.seconds);
        let mut more = report("lanes", &[("quaff", 0.0, 1.0)]);
        more.rivals[0].command.push("--lanes".into());
        add(&mut all, more);
        assert_eq!(all.cases.len(), cases + 1);
        assert_eq!((&all.rivals, all.seconds), (&rivals, 2.0 * seconds), "each tool once");
        assert_eq!(rows(&all).iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["cpu", "lanes"]);
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
