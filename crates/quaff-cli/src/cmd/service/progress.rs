//! Progress of a service test: a line for each result.

use crate::cmd::experiment::Progress;
use quaff_bench::service::result::Report;
use quaff_bench::service::{Events, Line, Now};

/// Widths of the name of a test, and of its subject.
const TEST_WIDTH: usize = 15;
const WHAT_WIDTH: usize = 30;

impl Events for Progress {
    fn begins(&mut self, seconds: f64) {
        self.left(seconds);
    }

    fn progress(&mut self, now: &Now) {
        self.left(now.left_s);
        let of = format!("{:.0} of {} s", now.elapsed_s, now.seconds.ceil());
        <Self as quaff_bench::experiment::Events<Report>>::stage(self, &format!("{}, {of}", now.what));
    }

    fn line(&mut self, line: &Line) {
        if !self.quiet {
            self.print(&row(line));
        }
    }
}

/// A result as a line.
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
