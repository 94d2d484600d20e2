//! Progress of a service test: a line for each verdict, and the overall progress below.

use crate::show;
use crate::terminal_table::about;
use indicatif::{ProgressBar, ProgressStyle};
use quaff_bench::report;
use quaff_bench::service::plan::Plan;
use quaff_bench::service::result::Report;
use quaff_bench::service::{Events, Line, Now};
use quaff_os::Signals;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Parts of the bar.
const PARTS: u64 = 1000;
/// Columns for the name of a test, and for what of it.
const TEST_WIDTH: usize = 15;
const WHAT_WIDTH: usize = 30;

/// Lines and a bar, on stderr.
pub(super) struct Progress {
    signals: Signals,
    bar: ProgressBar,
    quiet: bool,
    /// The folder in which what was measured so far is kept.
    out: PathBuf,
    begun: Instant,
    interrupted: bool,
}

impl Progress {
    pub(super) fn new(signals: Signals, out: PathBuf, quiet: bool) -> Self {
        let line = "{spinner} {bar:20}  {prefix}{wide_msg}";
        let style = ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(PARTS).with_style(style.progress_chars("━╸ "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { signals, bar, quiet, out, begun: Instant::now(), interrupted: false }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn print(&self, line: &str) {
        self.bar.suspend(|| show::say(line));
    }

    fn left(&self, seconds: f64) {
        let done = self.begun.elapsed().as_secs_f64();
        self.bar.set_position((PARTS as f64 * done / (done + seconds).max(1e-3)) as u64);
        self.bar.set_prefix(format!("{} left  ", about(seconds)));
    }
}

impl Events for Progress {
    fn goes_on(&mut self) -> bool {
        // An unreadable signal descriptor counts as no signal.
        self.interrupted |= matches!(self.signals.next(Duration::ZERO), Ok(Some(_)));
        !self.interrupted
    }

    fn begins(&mut self, _plan: &Plan, seconds: f64) {
        self.left(seconds);
    }

    fn stage(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    fn progress(&mut self, now: &Now) {
        self.left(now.left_s);
        let of = format!("{:.0} of {} s", now.elapsed_s, now.seconds.ceil());
        self.bar.set_message(format!("{}, {of}", now.what));
    }

    fn line(&mut self, verdict: &Line) {
        if !self.quiet {
            self.print(&row(verdict));
        }
    }

    /// Saves each test as it ends, so that a killed run keeps them.
    fn so_far(&mut self, result: &Report) {
        if let Err(error) = report::keep(result, &self.out) {
            self.print(&format!("quaff: {error}"));
        }
    }

    fn note(&mut self, sentence: &str) {
        self.print(&format!("quaff: {sentence}"));
    }
}

/// A verdict in a line.
fn row(line: &Line) -> String {
    let mark = match line.passed {
        Some(true) => "pass",
        Some(false) => "FAIL",
        None => "",
    };
    let (test, what, measured) = (&line.test, &line.what, &line.measured);
    format!("{mark:4}  {test:TEST_WIDTH$}  {what:WHAT_WIDTH$}  {measured}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_a_line_and_what_was_not_judged_has_none() {
        let line = |passed| Line {
            test: "performance".into(),
            what: "voice, run 2".into(),
            measured: "FLR 3.1 %, at most 0.3 %".into(),
            passed,
        };
        let words =
            |passed| row(&line(passed)).split("  ").map(str::trim).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(Some(false))[0], "FAIL");
        assert!(row(&line(Some(true))).starts_with("pass  performance"));
        assert!(
            row(&line(None)).starts_with("      performance") && row(&line(None)).ends_with("at most 0.3 %")
        );
    }
}
