//! Compares two benches: which figures differ, and whether by more than their spread.
//!
//! Runs of a case are compared by rank ([`crate::stats::mann_whitney`]); searches differ if the ranges of their bounds
//! do not overlap. Only measurements of the same rival, series, size, rate and setting are compared.

mod rows;

pub use rows::{Figure, Row, Side, Subject, Verdict};

use super::plan::{Amount, Find, Plan, Topology, Wanted};
use super::result::Report;
use rows::CHANCE_MAX;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The differences between two benches, A and B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Differences of the machines, the plans and the versions of tools.
    pub facts: Vec<Fact>,
    /// Each figure that both benches have.
    pub rows: Vec<Row>,
    /// Descriptions of the figures that only A has.
    pub only_a: Vec<String>,
    pub only_b: Vec<String>,
    pub notes: Vec<String>,
}

/// A difference in the circumstances of the two benches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// "kernel", "version of tcpdump".
    pub name: String,
    /// Value in A; `None` if A does not report it.
    pub a: Option<String>,
    pub b: Option<String>,
}

impl Comparison {
    /// True if any figure of B is worse by more than the spread.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse)
    }
}

/// Compares `b` with `a`.
pub fn compare(a: &Report, b: &Report) -> Comparison {
    let (rows, only_a, only_b) = rows::rows(a, b);
    let notes = notes(a, b, &rows);
    Comparison { facts: facts(a, b), rows, only_a, only_b, notes }
}

fn facts(a: &Report, b: &Report) -> Vec<Fact> {
    let (a, b) = (said(a), said(b));
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let fact = |name: &String| Fact { name: name.clone(), a: a.get(name).cloned(), b: b.get(name).cloned() };
    names.into_iter().map(fact).filter(|fact| fact.a != fact.b).collect()
}

fn said(report: &Report) -> BTreeMap<String, String> {
    let mut all = report.machine.facts.clone();
    for rival in &report.rivals {
        let said = rival.version.clone().or(rival.absent.clone());
        all.extend(said.map(|said| (format!("version of {}", rival.name), said)));
    }
    all.extend(planned(&report.plan));
    all
}

/// The parts of a plan that are not part of a figure's identity.
fn planned(plan: &Plan) -> Vec<(String, String)> {
    let mut all =
        vec![("runs of a case".to_owned(), plan.runs.to_string()), ("bed".to_owned(), bed_words(&plan.bed))];
    let amounts = plan.sweeps.iter().zip(1..);
    all.extend(amounts.map(|(sweep, at)| (format!("amount, part {at}"), amount_words(sweep.amount))));
    all.extend(plan.finds.iter().zip(1..).map(|(find, at)| find_words(find, at)));
    all
}

fn bed_words(bed: &Topology) -> String {
    match bed {
        Topology::Direct => "direct".into(),
        Topology::Span => "span".into(),
        Topology::Tap => "tap".into(),
        Topology::Line { mirror_mbps } => format!("line, mirror port of {mirror_mbps} Mbit/s"),
        Topology::Real { send_on, receive_on, sender } => {
            let from = sender.as_deref().map(|sender| format!("{sender}: ")).unwrap_or_default();
            format!("{from}{send_on} to {}", receive_on.join(", "))
        }
    }
}

fn amount_words(amount: Amount) -> String {
    match amount {
        Amount::Frames(frames) => format!("{frames} frames"),
        Amount::Seconds(seconds) => format!("{seconds} s"),
    }
}

fn find_words(find: &Find, at: usize) -> (String, String) {
    let what = match find.what {
        Wanted::Max => "highest rate",
        Wanted::Burst => "longest burst",
        Wanted::Curve => "loss curve",
    };
    let method = find.method.name();
    let (loss, width) = (find.goal_loss * 100.0, find.width * 100.0);
    let words =
        format!("{method}, trials of {} s, loss up to {loss} %, bounds within {width} %", find.seconds);
    (format!("search {at}, {what}"), words)
}

fn notes(a: &Report, b: &Report, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if a.plan.bed != b.plan.bed {
        notes.push("A and B were measured on different topologies: their figures are not comparable.".into());
    }
    for (name, report) in [("A", a), ("B", b)] {
        if report.interrupted {
            notes.push(format!("{name} was interrupted before all runs were done."));
        }
    }
    let tested = rows.iter().filter(|row| row.p.is_some() && row.verdict != Verdict::TooFew).count();
    let by_chance = (tested as f64 * CHANCE_MAX).round();
    if by_chance >= 1.0 {
        notes.push(format!(
            "Of {tested} comparisons of runs about {by_chance} are expected to differ by chance alone."
        ));
    }
    if rows.iter().any(|row| row.verdict == Verdict::TooFew) {
        notes.push(
            "At least four runs on each side, or three and five, are needed to show a difference.".into(),
        );
    }
    if !rows.is_empty() {
        notes.push(
            "The spread is measured within each bench: a change of the machine between them counts as a \
             difference, too."
                .into(),
        );
    }
    notes
}

#[cfg(test)]
mod tests;
