//! Progress of a bench: a row for each completed run.

use crate::cmd::experiment::Progress;
use crate::show;
use quaff::format;
use quaff_bench::bench::Events;
use quaff_bench::bench::result::Case;
use quaff_bench::method::Run;
use std::time::Duration;

/// Columns of numbers: head and width.
const COLUMNS: [(&str, usize); 6] =
    [("round", 7), ("frames", 10), ("offered", 12), ("lost", 10), ("own drops", 12), ("CPU", 8)];
/// Widths of the capturer's name and of the rate.
const NAME_WIDTH: usize = 16;
const RATE_WIDTH: usize = 24;

impl Progress {
    /// Prints the column heads when a series begins.
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
    fn begins(&mut self, runs_total: usize) {
        self.runs = [0, runs_total];
    }

    fn run_done(&mut self, case: &Case, run: &Run, left: Duration) {
        self.runs[0] += 1;
        self.left(left.as_secs_f64());
        if !self.quiet {
            self.heading(&case.series);
            self.print(&row(case, run));
        }
    }
}

/// One run as a line.
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
