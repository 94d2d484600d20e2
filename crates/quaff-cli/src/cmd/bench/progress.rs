//! Progress of a bench: a row for each completed run, and the overall progress below.

use crate::show;
use crate::terminal_table;
use indicatif::{ProgressBar, ProgressStyle};
use quaff::format;
use quaff_bench::bench::Events;
use quaff_bench::bench::plan::Plan;
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::method::Run;
use quaff_bench::report;
use quaff_os::Signals;
use std::path::PathBuf;
use std::time::Duration;

/// Columns of the rows: what, how wide. The first two are words, the others numbers.
const COLUMNS: [(&str, usize); 6] =
    [("round", 7), ("frames", 10), ("offered", 12), ("lost", 10), ("own drops", 12), ("CPU", 8)];
/// Columns for a capturer's name and for the rate.
const NAME_WIDTH: usize = 16;
const RATE_WIDTH: usize = 24;

/// Rows and a line, on stderr.
pub(super) struct Progress {
    signals: Signals,
    bar: ProgressBar,
    quiet: bool,
    /// Of the rows so far: which series they are about; `None` when there is none yet.
    series: Option<String>,
    /// The folder in which what was measured so far is kept.
    out: PathBuf,
    interrupted: bool,
}

impl Progress {
    pub(super) fn new(signals: Signals, out: PathBuf, quiet: bool) -> Self {
        let line = "{spinner} {bar:20} {pos}/{len}  {prefix}{wide_msg}";
        let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(0).with_style(style.progress_chars("━╸ "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { signals, bar, quiet, series: None, out, interrupted: false }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn print(&self, line: &str) {
        self.bar.suspend(|| show::say(line));
    }

    /// The heading, when a series begins.
    fn heading(&mut self, series: &str) {
        if self.series.as_deref() == Some(series) {
            return;
        }
        let mut line = format!("{:NAME_WIDTH$}{:RATE_WIDTH$}", "capturer", "asked");
        for (head, width) in COLUMNS {
            line += &format!("{head:>width$}");
        }
        let title = if series.is_empty() { String::new() } else { format!("{series}\n") };
        let space = if self.series.is_some() { "\n" } else { "" };
        self.print(&format!("{space}{title}{line}"));
        self.series = Some(series.to_owned());
    }
}

impl Events for Progress {
    fn goes_on(&mut self) -> bool {
        // An unreadable signal descriptor counts as no signal.
        self.interrupted |= matches!(self.signals.next(Duration::ZERO), Ok(Some(_)));
        !self.interrupted
    }

    fn begins(&mut self, _plan: &Plan, runs_total: usize) {
        self.bar.set_length(runs_total as u64);
    }

    fn stage(&mut self, rival: &str, what: &str) {
        self.bar.set_message(format!("{rival} {what}"));
    }

    fn run_done(&mut self, case: &Case, run: &Run, left: Option<Duration>) {
        self.bar.inc(1);
        self.bar.set_prefix(left.map_or_else(String::new, |left| {
            format!("{} left  ", terminal_table::about(left.as_secs_f64()))
        }));
        if self.quiet {
            return;
        }
        self.heading(&case.series);
        self.print(&row(case, run));
    }

    /// Saves each round as it ends, so that a killed bench keeps them.
    fn so_far(&mut self, report: &Report) {
        if let Err(error) = report::keep(report, &self.out) {
            self.print(&format!("quaff: {error}"));
        }
    }

    fn note(&mut self, sentence: &str) {
        self.print(&format!("quaff: {sentence}"));
    }
}

/// One run in a line.
fn row(case: &Case, run: &Run) -> String {
    let round = run.round.to_string();
    let mut line = format!("{:NAME_WIDTH$}{:RATE_WIDTH$}", case.rival, case.rate);
    if let Some(why) = &run.failed {
        let widths = COLUMNS.map(|(_, width)| width);
        line += &format!("{round:>0$}{1:>2$}  failed: {why}", widths[0], size(case), widths[1]);
        return line;
    }
    let lost = match run.loss {
        None => "–".into(),
        Some(0.0) => "none".into(),
        Some(loss) => format::percent(loss),
    };
    let cpu = (run.cpu_user_s + run.cpu_system_s) / run.seconds.max(1e-9);
    let cells = [
        round,
        size(case),
        format::rate(run.offered as f64 / run.seconds.max(1e-9)),
        lost,
        run.tool_drops.map_or_else(|| "–".into(), show::count),
        format!("{:.0} %", cpu * 100.0),
    ];
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        line += &format!("{cell:>width$}");
    }
    line
}

fn size(case: &Case) -> String {
    case.mix
        .clone()
        .map_or_else(|| format!("{} B", case.size), |mix| mix.rsplit('/').next().unwrap_or("").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case {
            rival: "tcpdump".into(),
            size: 1500,
            pps: Some(400_000),
            rate: "400 kpps".into(),
            ..Case::default()
        }
    }

    #[test]
    fn a_run_is_a_row_and_a_failure_says_why() {
        let run = Run {
            offered: 800_000,
            seconds: 2.0,
            round: 2,
            loss: Some(0.125),
            tool_drops: Some(1234),
            cpu_user_s: 0.5,
            cpu_system_s: 1.0,
            ..Run::default()
        };
        let line = row(&case(), &run);
        let cells: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            cells,
            ["tcpdump", "400", "kpps", "2", "1500", "B", "400", "kpps", "12.5", "%", "1,234", "75", "%"]
        );
        let none = row(&case(), &Run { loss: Some(0.0), seconds: 1.0, ..Run::default() });
        assert!(none.contains("none"), "{none}");
        let failed = row(&case(), &Run { failed: Some("it wrote no file".into()), ..Run::default() });
        assert!(failed.ends_with("failed: it wrote no file"), "{failed}");
    }
}
