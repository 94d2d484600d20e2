//! `quaff bench flow`: flow meters side by side, from arguments to a folder with a report.

use crate::cmd::experiment::{self, Progress, ResultArgs};
use crate::exit::Exit;
use crate::flags::{
    BufferArg, Bytes, MaxFlowsArg, PlanArgs, ReplayArg, SearchArgs, SeedArg, TimeoutArgs, of,
};
use crate::folder::name_part;
use crate::shell::DurationArgs;
use crate::show;
use crate::terminal_table::about;
use crate::units;
use anyhow::{Context as _, ensure};
use quaff::format;
use quaff_bench::experiment::PlanFile as _;
use quaff_bench::flow::plan::{Find, Plan};
use quaff_bench::flow::result::{FlowCase, Report};
use quaff_bench::flow::{self, Context, Events};
use quaff_bench::method::{MeterRun, Verdict};
use quaff_lab::tool::{read_meter, shipped_meters};
use std::path::PathBuf;
use std::time::Duration;

/// The meter that is expected to lose nothing.
const OURS: &str = "quaff";
/// The plan that flags change when neither a preset nor a file is named.
const PRESET: &str = "flow-appliance";
/// Width of the columns of a row of progress: meter, rate, and the numbers.
const WIDTHS: [usize; 9] = [12, 18, 7, 12, 12, 10, 10, 10, 11];
const HEADS: [&str; 9] =
    ["meter", "asked", "round", "packets/s", "reported", "records", "lost", "CPU", "memory"];

/// Measure flow meters side by side, under controlled conditions
///
/// The same packets go to one meter after the other, in rounds: replayed with new addresses in each pass, onto an
/// interface of a lab, and from a file. Each meter exports to a collector of the bench, and what it reported is counted
/// in the records that arrived there, never in a printout: packets, bytes and flows sent against those reported, CPU
/// time and memory.
///
/// The plan is the preset flow-appliance, or that of a file (--plan); flags override it. Rates are flows per second,
/// each direction of addresses, ports and protocol counted, as Tcpreplay does.
///
/// The terminal shows the tables; the folder (--out) holds result.json with all results, report.md, a self-contained
/// report.html, and the charts. ^C ends the bench; what was measured until then is kept and shown. Needs root, except
/// with --dry-run.
///
/// Without --preset and --plan, the plan is flow-appliance.
///
/// Exit status: 0 measured, and quaff lost nothing; 1 measured, and quaff lost packets, or it is unknown; 2 not
/// measured, or not completely.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  \
        quaff bench flow --preset flow-appliance\n  \
        quaff bench flow --replay bigFlows.pcap --meters quaff,softflowd\n  \
        quaff bench flow --offline --replay mix.pcap --runs 5\n  \
        quaff bench flow --fps 10k,200k --duration 60s --out laptop\n  \
        quaff bench flow --find-max --meters quaff,softflowd\n  \
        quaff bench flow --dry-run > mine.toml",
    mut_args(of("duration", |arg| arg.help_heading("Traffic").help("Duration of a run on the interface, at least; whole passes through the capture are sent"))),
    mut_args(of("trial", |arg| arg.requires("find_max"))),
    mut_args(of("goal_loss", |arg| arg.requires("find_max"))),
    mut_args(of("active", |arg| arg.help("Active timeout of all meters, in whole seconds [default: as the plan has it]"))),
    mut_args(of("idle", |arg| arg.help("Idle timeout of all meters, in whole seconds [default: as the plan has it]"))),
    mut_args(of("max_flows", |arg| arg.help("Most flows in the table of a meter [default: as the plan has it]"))),
    mut_args(of("buffer", |arg| {
        arg.help("Buffer between the kernel and a meter, in whole MiB such as 256M [default: as the plan has it]")
    }))
)]
pub(super) struct Args {
    #[command(flatten)]
    from: PlanArgs,
    /// Meters to measure [default: all]; those not installed are reported and skipped
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',', help_heading = "Test plan")]
    meters: Vec<String>,
    /// Also measure the meter that FILE describes
    #[arg(long, value_name = "FILE.toml", help_heading = "Test plan")]
    meter_file: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Test plan")]
    seed: SeedArg,

    #[command(flatten)]
    replay: ReplayArg,
    /// Flows per second: 50k, or several rates
    #[arg(long, value_name = "RATE[,RATE]", value_delimiter = ',', value_parser = units::rate, help_heading = "Traffic")]
    fps: Vec<f64>,
    #[command(flatten)]
    end: DurationArgs,
    /// Passes through the capture in the file that meters read; 0 measures no file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32), help_heading = "Traffic")]
    file_loops: Option<u32>,
    /// Measure with the file only, not on an interface
    #[arg(long, conflicts_with_all = ["fps", "find_max"], help_heading = "Traffic")]
    offline: bool,
    /// Folder for the capture files during the test, on a disk [default: /var/tmp, or the current folder if that is no
    /// disk]
    #[arg(long, value_name = "DIR", help_heading = "Traffic")]
    dir: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Meters")]
    timeouts: TimeoutArgs,
    #[command(flatten, next_help_heading = "Meters")]
    max_flows: MaxFlowsArg,
    #[command(flatten, next_help_heading = "Meters")]
    buffer: BufferArg<Bytes>,

    #[command(flatten)]
    search: SearchArgs,

    #[command(flatten)]
    report: ResultArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let signals = experiment::signals()?;
    let quaff = std::env::current_exe().context("find the program that runs")?;
    let mut meters = shipped_meters(&quaff);
    let own = args.meter_file.iter().map(|file| read_meter(file, &quaff)).collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = own.iter().map(|meter| meter.name.clone()).collect();
    meters.extend(own);
    let plan = plan(args, &names)?;
    let took = about(plan.cost_s());
    if *args.from.dry_run {
        let runs = show::count(plan.runs_total() as u64);
        return experiment::print_plan(&plan, &format!("{runs} runs, about {took}"));
    }
    let context = Context { quaff, dir: args.dir.clone(), command: std::env::args().collect(), meters };
    let introduction = format!("{} ({}): {}; about {took}", plan.title, plan.name, plan.meters.join(", "));
    let stem = format!("bench-{}", name_part(&plan.name));
    let measure = |progress: &mut Progress| flow::run(&plan, &context, progress);
    let report =
        experiment::run(&args.report, signals, &stem, &introduction, measure, |report| report.has_figures())?;
    Ok(Exit::judged(verdict(&report)))
}

/// The plan that the flags ask for; `own` are the names of the user's own meters.
fn plan(args: &Args, own: &[String]) -> anyhow::Result<Plan> {
    let mut plan = match (args.from.plan.first(), &args.from.preset) {
        (Some(file), _) => Plan::read(file)?,
        (None, name) => Plan::preset(name.as_deref().unwrap_or(PRESET), false)?,
    };
    if args.meters.is_empty() {
        let new = own.iter().filter(|name| !plan.meters.contains(name)).cloned();
        plan.meters.extend(new.collect::<Vec<_>>());
    } else {
        plan.meters.clone_from(&args.meters);
    }
    plan.runs = args.from.runs.unwrap_or(plan.runs);
    plan.seed = args.seed.unwrap_or(plan.seed);
    if let Some(file) = &*args.replay {
        plan.replay = Some(file.to_str().context("the name of the capture is not UTF-8")?.to_owned());
    }
    plan.seconds = args.end.duration.map_or(plan.seconds, |time| time.as_secs_f64());
    plan.file_loops = args.file_loops.unwrap_or(plan.file_loops);
    plan.active_s = args.timeouts.active.map_or(Ok(plan.active_s), |time| seconds("--active", time))?;
    plan.idle_s = args.timeouts.idle.map_or(Ok(plan.idle_s), |time| seconds("--idle", time))?;
    plan.flows_max = args.max_flows.unwrap_or(plan.flows_max);
    plan.buffer_mib = args.buffer.map_or(plan.buffer_mib, |Bytes(bytes)| bytes >> 20);
    parts(&mut plan, args);
    plan.check()?;
    Ok(plan)
}

/// The parts of the plan that run: rates, the file, a search.
fn parts(plan: &mut Plan, args: &Args) {
    if !args.fps.is_empty() {
        plan.rates.clone_from(&args.fps);
    }
    if args.offline {
        plan.rates.clear();
        plan.find = None;
    }
    let Some(method) = args.search.find_max else { return };
    let known = plan.find.take();
    let (seconds, width) = known.map_or((5.0, 0.1), |find| (find.seconds, find.width));
    plan.find = Some(Find {
        method,
        seconds: args.search.trial.map_or(seconds, |time| time.as_secs_f64()),
        width,
        goal_loss: args.search.goal_loss.unwrap_or(0.0) / 100.0,
    });
    if args.from.preset.is_none() && args.from.plan.is_empty() {
        plan.file_loops = args.file_loops.unwrap_or(0);
        if args.fps.is_empty() {
            plan.rates.clear();
        }
    }
}

fn seconds(flag: &str, time: Duration) -> anyhow::Result<u32> {
    let seconds = u32::try_from(time.as_secs()).ok().filter(|_| time.subsec_nanos() == 0);
    ensure!(seconds.is_some_and(|seconds| seconds > 0), "{flag}: whole seconds, as all meters take them");
    Ok(seconds.unwrap_or_default())
}

/// The verdict; `None` without a result: loss when quaff lost packets, when that is unknown, and when it failed in a
/// run.
pub(super) fn verdict(report: &Report) -> Option<bool> {
    if report.interrupted || !report.has_figures() {
        return None;
    }
    let cases = report.cases.iter().chain(&report.files);
    let mut ours = cases.filter(|case| case.meter == OURS).flat_map(|case| &case.runs);
    Some(ours.all(|run| run.verdict == Verdict::Lossless))
}

impl Events for Progress {
    fn begins(&mut self, runs_total: usize) {
        self.runs = [0, runs_total];
    }

    fn run_done(&mut self, case: &FlowCase, run: &MeterRun, left: Duration) {
        self.runs[0] += 1;
        self.left(left.as_secs_f64());
        if self.quiet {
            return;
        }
        if self.series.is_none() {
            self.print(&laid_out(HEADS.map(str::to_owned)));
            self.series = Some(String::new());
        }
        self.print(&row(case, run));
    }
}

/// One run as a line.
fn row(case: &FlowCase, run: &MeterRun) -> String {
    let asked =
        case.fps.map_or_else(|| "a file".into(), |fps| format!("{} flows/s", show::count(fps as u64)));
    if let Some(why) = &run.failed {
        let [name, rate, round, ..] = WIDTHS;
        return format!("{:name$}{asked:rate$}{:>round$}  failed: {why}", case.meter, run.round);
    }
    let lost = match run.loss {
        None => "–".into(),
        Some(0.0) if run.verdict == Verdict::Lossless => "none".into(),
        Some(loss) => format::percent(loss),
    };
    laid_out([
        case.meter.clone(),
        asked,
        run.round.to_string(),
        format::rate(run.pps()),
        show::count(run.packets),
        show::count(run.records),
        lost,
        format!("{} %", (run.cpu_s * 100.0 / run.seconds.max(1e-9)).round()),
        show::bytes(run.memory_bytes),
    ])
}

/// The first two columns on the left, numbers on the right.
fn laid_out(cells: [String; 9]) -> String {
    let of = |(at, (cell, width)): (usize, (&String, usize))| match at {
        0 | 1 => format!("{cell:width$}"),
        _ => format!("{cell:>width$}"),
    };
    cells.iter().zip(WIDTHS).enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use quaff_bench::testing::sample_flow_report;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn planned(line: &str) -> anyhow::Result<Plan> {
        let words = ["flow"].into_iter().chain(line.split_whitespace());
        plan(&Line::try_parse_from(words)?.args, &[])
    }

    #[test]
    fn flags_change_the_plan() {
        let plan = planned("--fps 10k,20k --meters quaff --runs 1 --duration 2s --idle 5s --buffer 64M")
            .expect("one");
        assert_eq!((plan.rates.as_slice(), plan.runs, plan.seconds), (&[10_000.0, 20_000.0][..], 1, 2.0));
        assert_eq!((plan.idle_s, plan.buffer_mib, plan.meters), (5, 64, vec!["quaff".to_owned()]));
        let offline = planned("--offline --file-loops 3").expect("one");
        assert!(offline.rates.is_empty() && offline.find.is_none() && offline.file_loops == 3);
        let search = planned("--find-max --trial 1s --goal-loss 1").expect("one");
        let find = search.find.expect("a search");
        assert_eq!((find.seconds, find.goal_loss, search.file_loops), (1.0, 0.01, 0));
        assert!(search.rates.is_empty());
        assert_eq!(planned("--preset flow-appliance --find-max").expect("one").rates.len(), 2);
        for wrong in
            ["--idle 500ms", "--offline --fps 5", "--offline --file-loops 0", "--preset quick", "--fps 0"]
        {
            assert!(planned(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_lossless_quaff_is_a_success() {
        let mut report = sample_flow_report();
        assert_eq!(verdict(&report), Some(true));
        let ours = report.body.cases.iter().position(|case| case.meter == OURS).expect("it is there");
        report.body.cases[ours].runs[0].verdict = Verdict::Unknown;
        assert_eq!(verdict(&report), Some(false));
        report.interrupted = true;
        assert_eq!(verdict(&report), None);
    }

    #[test]
    fn a_run_is_a_row_and_a_failure_says_why() {
        let report = sample_flow_report();
        let line = row(&report.cases[0], &report.cases[0].runs[0]);
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(cells[..5], ["quaff", "50,000", "flows/s", "1", "373"], "{line}");
        assert!(line.contains("none") && line.ends_with("180 MiB"), "{line}");
        let failed = row(&report.cases[3], &report.cases[3].runs[2]);
        assert!(failed.ends_with("failed: ended while it was to capture: out of memory"), "{failed}");
    }
}
