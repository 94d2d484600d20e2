//! The parts that 'quaff bench capture' and 'quaff service' share: the arguments of a report, a run from its folder
//! to its result, and progress on stderr.

use crate::exit::Exit;
use crate::flags::of;
use crate::folder::Folder;
use crate::shell::{QuietArgs, ReportArgs};
use crate::show;
use crate::stored_result;
use crate::terminal_table::about;
use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use quaff_bench::experiment::{Events, PlanFile, Report};
use quaff_bench::report::{self, Reported};
use quaff_os::{Signal, Signals};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Parts of the progress bar.
const PARTS: f64 = 1000.0;

#[derive(Debug, clap::Args)]
#[command(mut_args(of("quiet", |arg| arg.help("Do not print results while the test runs"))))]
pub(crate) struct ResultArgs {
    /// New folder for the results [default: named after the plan and the time]
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    out: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    quiet: QuietArgs,
}

/// Blocks the signals that end an experiment; call it before the first thread starts.
pub(crate) fn signals() -> anyhow::Result<Signals> {
    Ok(Signals::block(&[Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])?)
}

/// Runs `measure`, writes its result into a new folder, prints and returns it.
pub(crate) fn run<P, B>(
    args: &ResultArgs,
    signals: Signals,
    stem: &str,
    introduction: &str,
    measure: impl FnOnce(&mut Progress) -> quaff_bench::Result<Report<P, B>>,
    has_figures: impl FnOnce(&B) -> bool,
) -> anyhow::Result<Report<P, B>>
where
    Report<P, B>: Reported,
{
    let out = Folder::make(args.out.as_deref(), stem)?;
    show::say(&format!("{introduction}, into {}\n", out.path.display()));
    let mut progress = Progress::new(signals, out.path.clone(), args.quiet.is_set());
    let result = measure(&mut progress);
    progress.bar.finish_and_clear();
    let result = result?;
    if result.interrupted && !has_figures(&result.body) {
        bail!("interrupted before anything was measured; all that was made is removed");
    }
    let files = report::write(&result, &out.path)?;
    out.keep();
    stored_result::print_new(&result, args.report.json, &files)?;
    Ok(result)
}

/// Prints a plan as TOML; `summary` is a comment above it.
pub(crate) fn print_plan(plan: &impl PlanFile, summary: &str) -> anyhow::Result<Exit> {
    show::print(&format!("# {summary}"));
    show::print(plan.to_toml().context("write the plan")?.trim_end());
    Ok(Exit::Done)
}

/// Progress on stderr: lines of results, and a bar below them.
pub(crate) struct Progress {
    signals: Signals,
    bar: ProgressBar,
    pub(super) quiet: bool,
    /// The folder of the partial result.
    out: PathBuf,
    interrupted: bool,
    /// Completed and planned runs, where a plan counts them.
    pub(super) runs: [usize; 2],
    /// The series of the last line.
    pub(super) series: Option<String>,
}

impl Progress {
    fn new(signals: Signals, out: PathBuf, quiet: bool) -> Self {
        let line = "{spinner} {bar:20}  {prefix}{wide_msg}";
        let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(PARTS as u64).with_style(style.progress_chars("━╸ "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { signals, bar, quiet, out, interrupted: false, runs: [0; 2], series: None }
    }

    /// Prints a line above the bar.
    pub(super) fn print(&self, line: &str) {
        self.bar.suspend(|| show::say(line));
    }

    /// Sets the bar to the elapsed share of the time, and shows the rest.
    pub(super) fn left(&self, seconds: f64) {
        let done = self.bar.elapsed().as_secs_f64();
        self.bar.set_position((PARTS * done / (done + seconds).max(1e-3)) as u64);
        let runs = match self.runs {
            [_, 0] => String::new(),
            [done, all] => format!("{done}/{all}  "),
        };
        self.bar.set_prefix(format!("{runs}{} left  ", about(seconds)));
    }
}

impl<R: Reported> Events<R> for Progress {
    fn stage(&mut self, what: &str) {
        self.bar.set_message(show::name(what).into_owned());
    }

    fn place(&mut self, dir: &Path) {
        let words =
            format!("files are in {}, and are removed at the end", show::name(&dir.display().to_string()));
        if !self.quiet {
            self.bar.suspend(|| show::message(&words));
        }
    }

    fn note(&mut self, sentence: &str) {
        self.bar.suspend(|| show::message(sentence));
    }

    /// Saves the partial result, so that a killed run keeps it.
    fn so_far(&mut self, result: &R) {
        if let Err(error) = report::keep(result, &self.out) {
            self.bar.suspend(|| show::message(&error.to_string()));
        }
    }

    fn continues(&mut self) -> bool {
        // An unreadable signal descriptor counts as no signal.
        self.interrupted |= matches!(self.signals.next(Duration::ZERO), Ok(Some(_)));
        !self.interrupted
    }
}
