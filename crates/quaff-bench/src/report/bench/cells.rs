//! Cells and notes that several tables of a bench share.

use super::view::{buffer_words, can_lose, distinct, failure, is_lossless};
use crate::bench::result::{Case, LimitedBy};
use crate::report::table::{NONE, Table};
use quaff::format::{percent, percents};

/// Mark of a figure that the generator limited.
const LIMITED: &str = " *";

/// Frames and requested rate of a case: the row's name in a table of losses.
pub(super) fn load_words(case: &Case) -> (String, &str) {
    let file = |mix: &String| mix.rsplit('/').next().unwrap_or(mix).to_owned();
    (case.mix.as_ref().map_or_else(|| format!("{} B", case.size), file), &case.rate)
}

/// Sets the note of a table of losses: the buffers, and the marks of its cells.
pub(super) fn end_note(table: &mut Table, cases: &[&Case]) {
    table.note = buffers_note(cases);
    if table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.contains("%)")) {
        table.note += "; the mean is without the best and the worst run, which are in brackets";
    }
    if table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.ends_with(LIMITED)) {
        table.note +=
            "; * frames could not be sent at the requested rate: the figure says nothing about that rate";
    }
}

/// The buffers of a table of losses: "buffer: 256 MiB each", "buffer: quaff its own, stenographer 256 MiB".
fn buffers_note(cases: &[&Case]) -> String {
    let of =
        |name: &str| distinct(cases.iter().filter(|case| case.rival == name).map(|case| buffer_words(case)));
    match &distinct(cases.iter().map(|case| buffer_words(case)))[..] {
        [same] if same == "its own" => "buffer: each capturer's own".into(),
        [same] => format!("buffer: {same} each"),
        _ => {
            let names = distinct(cases.iter().map(|case| case.rival.as_str()));
            let words: Vec<_> =
                names.iter().map(|name| format!("{name} {}", of(name).join(" and "))).collect();
            format!("buffer: {}", words.join(", "))
        }
    }
}

/// "12.3 % (10.1–14.0 %)": the mean without best and worst run, and both of them if they differ.
pub(super) fn pivot_loss(case: &Case) -> String {
    let failed = case.runs.iter().filter(|run| run.failed.is_some()).count();
    let Some(mean) = case.loss_trimmed else { return if failed > 0 { "failed" } else { NONE }.into() };
    let mut cell = percent(mean);
    if let Some(spread) = case.loss_spread.filter(|[low, high]| low != high) {
        cell += &format!(" ({})", percents(spread));
    }
    if failed > 0 {
        cell += &format!(", {failed} failed");
    }
    if case.limited_by == LimitedBy::Generator && case.pps.is_some() {
        cell += LIMITED;
    }
    cell
}

/// The case with the highest loss, `Some(None)` if none had loss; `None` if no case can show loss.
pub(super) fn worst<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<Option<&'a Case>> {
    let cases: Vec<&Case> = cases.filter(|case| can_lose(case)).collect();
    let lossy = cases.iter().copied().filter(|case| !is_lossless(case));
    (!cases.is_empty()).then(|| lossy.max_by(|a, b| loss(a).total_cmp(&loss(b))))
}

pub(super) fn loss(case: &Case) -> f64 {
    case.loss_trimmed.unwrap_or_default()
}

/// The loss of a capturer's worst case: "61 % at 1500 B".
pub(super) fn lost_words(worst: Option<&Case>) -> String {
    let Some(case) = worst else { return "nothing".into() };
    let frames = case.mix.as_ref().map_or_else(|| format!("{} B", case.size), Clone::clone);
    match (loss(case), failure(case)) {
        (0.0, Some(_)) => format!("nothing, but failed at {frames}"),
        // The mean excludes the worst run.
        (0.0, None) => format!("frames in one run at {frames}"),
        (lost, _) => format!("{} at {frames}", percent(lost)),
    }
}
