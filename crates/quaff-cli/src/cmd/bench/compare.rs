//! `quaff bench compare`: differences between two results that exceed the spread of their runs.

use crate::confined;
use crate::exit::Exit;
use crate::flags::{AllArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use crate::terminal_table;
use anyhow::Context;
use quaff::format;
use quaff_bench::bench::compare::{Comparison, Fact, Figure, Row, Side, Verdict, compare};
use quaff_bench::report;
use std::path::PathBuf;

/// Shown for a missing value.
const NONE: &str = "–";

/// Compare two bench results, and report which differences exceed the spread of the runs
///
/// Compares the cases that both results have: same capturer, series, size, rate and setting. Their runs are
/// ranked together (Mann-Whitney U test); a difference with p < 0.05 is reported, which takes at least four runs
/// on each side. For searches, the bounds are compared.
///
/// Exit status: 0 nothing is worse in B; 1 something is worse, by more than the spread; 2 the results could not
/// be compared.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("all", |arg| arg.conflicts_with("json"))))]
pub(crate) struct Args {
    /// Folder of the earlier result, or its result.json
    a: PathBuf,
    /// Folder of the later result, or its result.json
    b: PathBuf,
    #[command(flatten)]
    all: AllArg,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    confined::to_files(vec![args.a.clone(), args.b.clone()], &[])?;
    let (a, b) = (report::read(&args.a)?, report::read(&args.b)?);
    let comparison = compare(&a, &b);
    anyhow::ensure!(!comparison.rows.is_empty(), "the two have no case and no search in common");
    if args.report.json {
        let text = serde_json::to_string_pretty(&comparison).context("write the comparison")?;
        show::json_text(Stream::Stdout, &text);
    } else {
        show::print(&in_words(&comparison, *args.all));
    }
    Ok(Exit::judged(!comparison.is_worse()))
}

fn in_words(comparison: &Comparison, all: bool) -> String {
    let mut parts = vec![counts(comparison)];
    let shown = |row: &&Row| all || matches!(row.verdict, Verdict::Better | Verdict::Worse);
    let rows: Vec<_> = comparison.rows.iter().filter(shown).map(cells).collect();
    if !rows.is_empty() {
        let heads = ["capturer", "what", "frames", "asked", "series", "A", "B", "B is", "by chance"];
        parts.push(terminal_table::plain(&heads, rows.into_iter()));
    }
    if !comparison.facts.is_empty() {
        parts.push(terminal_table::plain(&["differs", "A", "B"], comparison.facts.iter().map(fact)));
    }
    let only = |side: &str, cases: &[String]| {
        (!cases.is_empty())
            .then(|| terminal_table::wrapped("- ", &format!("Only {side} has {}.", cases.join("; "))))
    };
    let only = [only("A", &comparison.only_a), only("B", &comparison.only_b)];
    let notes = comparison.notes.iter().map(|note| terminal_table::wrapped("- ", note));
    let notes: Vec<_> = only.into_iter().flatten().chain(notes).collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n"));
    }
    parts.join("\n\n")
}

fn counts(comparison: &Comparison) -> String {
    let count = |verdict| comparison.rows.iter().filter(|row| row.verdict == verdict).count();
    let all = comparison.rows.len();
    let words = [
        (count(Verdict::Better), "better in B"),
        (count(Verdict::Worse), "worse in B"),
        (count(Verdict::Same), "no more apart than their spread"),
        (count(Verdict::TooFew), "of too few runs to tell"),
    ];
    let words: Vec<_> = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    terminal_table::wrapped("", &format!("Of {all} figures that both have: {}.", words.join(", ")))
}

fn cells(row: &Row) -> Vec<String> {
    let what = match row.what {
        Figure::Loss => "lost",
        Figure::Cpu => "CPU, % of a core",
        Figure::HighestRate => "highest rate",
        Figure::Burst => "longest burst",
    };
    let verdict = match row.verdict {
        Verdict::Same => "the same",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::TooFew => "untold",
    };
    let file = |mix: &String| mix.rsplit('/').next().unwrap_or(mix).to_owned();
    let subject = &row.subject;
    let series = [subject.interface.clone().unwrap_or_default(), subject.series.clone()];
    let series: Vec<_> = series.into_iter().filter(|words| !words.is_empty()).collect();
    vec![
        subject.rival.clone(),
        what.into(),
        subject.mix.as_ref().map_or_else(|| format!("{} B", subject.size), file),
        subject.rate.clone(),
        series.join(" · "),
        side(row.what, &row.a),
        side(row.what, &row.b),
        verdict.into(),
        row.p.map_or(NONE.into(), format::percent),
    ]
}

/// A figure with its spread, where there is one.
fn side(what: Figure, side: &Side) -> String {
    let one = |value: f64| match what {
        Figure::Loss => format::percent(value),
        Figure::Cpu => format!("{:.0}", value * 100.0),
        Figure::HighestRate => format::rate(value),
        Figure::Burst => show::count(value.round() as u64),
    };
    let [low, high] = side.spread.map(one);
    let least = if side.at_least { "≥ " } else { "" };
    let value = one(side.value);
    if low == high { format!("{least}{value}") } else { format!("{least}{value} ({low} to {high})") }
}

fn fact(fact: &Fact) -> Vec<String> {
    let said = |words: &Option<String>| words.clone().unwrap_or_else(|| NONE.into());
    vec![fact.name.clone(), said(&fact.a), said(&fact.b)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_bench::testing::sample_report;

    #[test]
    fn a_case_that_got_worse_is_named_with_both_figures() {
        let a = sample_report();
        let mut b = a.clone();
        let case = b.cases.iter_mut().find(|case| case.rival == "quaff").expect("ours");
        for (at, run) in case.runs.iter_mut().enumerate() {
            run.loss = Some(0.1 + at as f64 / 1000.0);
        }
        b.machine.facts.insert("kernel".into(), "another".into());
        let comparison = compare(&a, &b);
        assert!(comparison.is_worse());
        let text = in_words(&comparison, false);
        for words in ["1 worse in B", "worse", "10.2", "kernel", "another"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(in_words(&comparison, true).lines().count() > text.lines().count());
        let same = in_words(&compare(&a, &a), false);
        assert!(!same.contains("worse") && !same.contains("better"), "{same}");
    }

    #[test]
    fn a_spread_is_printed_if_there_is_one() {
        let figure = |value, spread, at_least| Side { value, spread, runs: 5, at_least };
        assert_eq!(side(Figure::Loss, &figure(0.0, [0.0, 0.0], false)), "0 %");
        assert_eq!(side(Figure::Cpu, &figure(0.5, [0.4, 0.6], false)), "50 (40 to 60)");
        assert_eq!(side(Figure::Burst, &figure(9000.0, [9000.0, 9000.0], true)), "≥ 9,000");
    }
}
