//! The text of a measurement of promises: its place among all, each verdict, and their number at the end. Nothing is
//! printed here.

use super::verdict::Row;
use crate::show::{GREEN, PLAIN, RED};
use crate::terminal_table::wrapped;

/// Width of a verdict, and of the name of a promise.
const VERDICT_WIDTH: usize = 4;
const NAME_WIDTH: usize = 16;

/// "[3/19] cpu-null".
pub(super) fn place([number, total]: [usize; 2], name: &str) -> String {
    format!("[{number}/{total}] {name}")
}

/// The verdict with its limit, and the measured values below.
pub(super) fn verdict(row: &Row, is_coloured: bool) -> String {
    let head = format!("{:VERDICT_WIDTH$}  {:NAME_WIDTH$}  ", row.verdict(), row.name);
    let below = " ".repeat(head.chars().count());
    let text = format!("{}\n{}", wrapped(&head, &row.limit), wrapped(&below, &row.measured));
    let colour = match row.holds {
        Some(true) => GREEN,
        Some(false) => RED,
        None => "",
    };
    match text.strip_prefix(row.verdict()) {
        Some(rest) if is_coloured && !colour.is_empty() => format!("{colour}{}{PLAIN}{rest}", row.verdict()),
        _ => text,
    }
}

/// "5 limits: 3 pass, 1 FAIL (merge), 1 open (verify)".
pub(super) fn summary(rows: &[Row]) -> String {
    let part = |holds: Option<bool>| {
        let of: Vec<_> = rows.iter().filter(|row| row.holds == holds).collect();
        let mut names: Vec<_> = of.iter().map(|row| row.name.as_str()).collect();
        names.dedup();
        let names = match holds {
            Some(true) => String::new(),
            _ => format!(" ({})", names.join(", ")),
        };
        of.first().map(|row| format!("{} {}{names}", of.len(), row.verdict()))
    };
    let parts: Vec<_> = [Some(true), Some(false), None].into_iter().filter_map(part).collect();
    let limits = if rows.len() == 1 { "limit" } else { "limits" };
    wrapped("", &format!("{} {limits}: {}", rows.len(), parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::promise::Promise;
    use super::*;

    fn row(promise: Promise, holds: Option<bool>) -> Row {
        Row::new(promise, "1,000 × 64 B: no loss".into(), "lost: quaff 0 %".into(), holds)
    }

    #[test]
    fn a_verdict_has_the_limit_and_below_it_what_was_measured() {
        let good = row(Promise::CpuNull, Some(true));
        let lines = "pass  cpu-null          1,000 × 64 B: no loss\n                        lost: quaff 0 %";
        assert_eq!(verdict(&good, false), lines);
        assert_eq!(verdict(&good, true), lines.replacen("pass", "\x1b[32mpass\x1b[0m", 1));
        let open = row(Promise::CpuStenographer, None);
        assert!(
            verdict(&open, true).starts_with("open  cpu-stenographer  1,000"),
            "{}",
            verdict(&open, true)
        );
        let long = Row { measured: "a value of several words ".repeat(20), ..good };
        let text = verdict(&long, false);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with(&" ".repeat(24))), "{text}");
    }

    #[test]
    fn the_end_counts_the_verdicts_and_names_those_that_did_not_pass() {
        let mut rows = vec![row(Promise::Cpu, Some(true))];
        assert_eq!(summary(&rows), "1 limit: 1 pass");
        rows.extend([Some(false), Some(false), Some(true)].map(|holds| row(Promise::Merge, holds)));
        rows.push(row(Promise::Verify, None));
        assert_eq!(summary(&rows), "5 limits: 2 pass, 2 FAIL (merge), 1 open (verify)");
    }
}
