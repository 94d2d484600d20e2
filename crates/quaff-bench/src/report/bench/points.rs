//! The table of a line: for each load the loss at each capture point, the drops of the mirror port and the frames that
//! did not pass. It judges nothing.

use super::cells::{end_note, load_words, lost_words, pivot_loss, worst};
use super::view::{View, distinct, is_line, offered_words, whole};
use crate::bench::result::Case;
use crate::report::table::{Table, or_none};
use crate::stats::median;
use quaff::format::percent;
use quaff_lab::topology::LineCounts;

/// One row per load, one column per capturer and capture point, like the whitepaper's tables side by side.
pub(super) fn table(view: &View) -> Table {
    let mut table = Table::new("Lost at each capture point");
    if !is_line(view) {
        return table;
    }
    let all: Vec<&Case> = view.report.cases.iter().collect();
    let points = distinct(all.iter().map(|case| point(case)));
    for (series, frames, asked) in distinct(all.iter().map(|case| load(case))) {
        let is_here = |case: &&&Case| load(case) == (series, frames.clone(), asked);
        let here: Vec<&Case> = all.iter().filter(is_here).copied().collect();
        let head = [
            ("series".to_owned(), series.to_owned()),
            (">frames".to_owned(), frames.clone()),
            ("asked".to_owned(), asked.to_owned()),
            ("?>offered".to_owned(), or_none(offered_words(here.iter().copied()))),
        ];
        let mut row = Vec::from(head);
        for point in &points {
            row.extend(at_point(&all, &here, point));
        }
        row.push((">line|lost".to_owned(), or_none(undelivered(&here).map(percent))));
        table.push(None, row);
    }
    end_note(&mut table, &all);
    table.note += "; mirror port: dropped by it, a part of the losses beside it; line lost: frames that did not \
                   reach the other end, in the worst run";
    table.without_empty()
}

/// One line: the highest loss of each capturer at each point.
pub(super) fn headline(view: &View) -> Option<String> {
    let cases = &view.report.cases;
    let points = distinct(cases.iter().map(point)).into_iter().filter_map(|here| {
        let most = |name: &&str| {
            let cases = view.cases_of(name).filter(|case| point(case) == here);
            worst(cases).map(|case| format!("{name} {}", lost_words(case)))
        };
        let parts: Vec<_> = view.names.iter().filter_map(most).collect();
        (!parts.is_empty()).then(|| format!("{here}: {}", parts.join(", ")))
    });
    let points: Vec<_> = points.collect();
    (!points.is_empty()).then(|| format!("Most lost at the {}", points.join("; at the ")))
}

fn point(case: &Case) -> &str {
    case.interface.as_deref().unwrap_or_default()
}

fn load(case: &Case) -> (&str, String, &str) {
    let (frames, asked) = load_words(case);
    (case.series.as_str(), frames, asked)
}

/// The cells of one point: the loss of each capturer that is measured there at any load, and the drops of its mirror
/// port.
fn at_point(all: &[&Case], here: &[&Case], name: &str) -> Vec<(String, String)> {
    let rivals = distinct(all.iter().filter(|case| point(case) == name).map(|case| case.rival.as_str()));
    let cell = |rival: &&str| {
        let case = here.iter().find(|case| point(case) == name && case.rival == **rival);
        (format!(">{name}|{rival}"), or_none(case.map(|case| pivot_loss(case))))
    };
    let mut cells: Vec<_> = rivals.iter().map(cell).collect();
    let dropped = |line: LineCounts| line.mirror_dropped;
    let at = |case: &&&Case| point(case) == name;
    if all.iter().filter(at).any(|case| !shares(&[case], dropped).is_empty()) {
        let cases: Vec<&Case> = here.iter().filter(at).copied().collect();
        cells.push((format!(">{name}|mirror port"), or_none(median(&shares(&cases, dropped)).map(percent))));
    }
    cells
}

/// Largest share of the offered frames that did not reach the other end.
fn undelivered(cases: &[&Case]) -> Option<f64> {
    let delivered = shares(cases, |line| Some(line.delivered));
    delivered.into_iter().reduce(f64::min).map(|least| (1.0 - least).max(0.0))
}

/// A counter of the line as a share of the offered frames, for each run that has it.
fn shares(cases: &[&Case], of: fn(LineCounts) -> Option<u64>) -> Vec<f64> {
    let runs = cases.iter().flat_map(|case| whole(case)).filter(|run| run.offered > 0);
    runs.filter_map(|run| Some(of(run.line?)? as f64 / run.offered as f64)).collect()
}
