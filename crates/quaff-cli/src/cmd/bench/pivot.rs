//! Losses and CPU as studies print them: a row for each load, a column for each capturer.

use quaff_bench::bench::result::{Case, LimitedBy, Report};
use quaff_bench::words;

/// Behind a figure that the generator limited.
const LIMITED: &str = " *";
/// Shown for a missing value.
const NONE: &str = "–";

/// A table of one series at one interface.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pivot {
    pub(super) title: String,
    /// Two of words, one for each capturer.
    pub(super) heads: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// A note about the values; empty for none.
    pub(super) note: String,
}

/// Loss, a table for each series.
pub(super) fn losses(report: &Report) -> Vec<Pivot> {
    pivots(report, "Lost", &loss)
}

/// CPU use of the capturers, a table for each series.
pub(super) fn cpu(report: &Report) -> Vec<Pivot> {
    let cell = |case: &Case| case.cpu_median.map_or(NONE.into(), |cores| format!("{:.0}", cores * 100.0));
    pivots(report, "CPU, % of a core", &cell)
}

fn pivots(report: &Report, what: &str, cell: &dyn Fn(&Case) -> String) -> Vec<Pivot> {
    let mut places = Vec::new();
    for case in &report.cases {
        if !places.contains(&place(case)) {
            places.push(place(case));
        }
    }
    let pivot = |place: &(Option<String>, String)| {
        let cases: Vec<_> = report.cases.iter().filter(|case| self::place(case) == *place).collect();
        let words: Vec<_> = [Some(what.to_owned()), place.0.clone(), Some(place.1.clone())]
            .into_iter()
            .flatten()
            .filter(|words| !words.is_empty())
            .collect();
        pivot(&words.join(" · "), &cases, cell)
    };
    places.iter().map(pivot).collect()
}

fn place(case: &Case) -> (Option<String>, String) {
    (case.interface.clone(), case.series.clone())
}

fn pivot(title: &str, cases: &[&Case], cell: &dyn Fn(&Case) -> String) -> Pivot {
    let (mut names, mut loads) = (Vec::new(), Vec::new());
    for case in cases {
        if !names.contains(&case.rival) {
            names.push(case.rival.clone());
        }
        if !loads.contains(&load(case)) {
            loads.push(load(case));
        }
    }
    let rows: Vec<Vec<_>> = loads
        .iter()
        .map(|load| {
            let of = |name: &String| {
                let found = cases.iter().find(|case| case.rival == *name && self::load(case) == *load);
                found.map_or(NONE.into(), |case| cell(case))
            };
            load.iter().cloned().chain(names.iter().map(of)).collect()
        })
        .collect();
    let is_limited = rows.iter().flatten().any(|cell| cell.ends_with(LIMITED));
    let note = "* frames could not be sent as fast as asked: this says nothing about that rate";
    let heads = ["frames", "asked"].map(str::to_owned).into_iter().chain(names).collect();
    Pivot { title: title.to_owned(), heads, rows, note: if is_limited { note.into() } else { String::new() } }
}

/// Size and rate, in words.
fn load(case: &Case) -> [String; 2] {
    let file = |mix: &String| mix.rsplit('/').next().unwrap_or(mix).to_owned();
    [case.mix.as_ref().map_or_else(|| format!("{} B", case.size), file), case.rate.clone()]
}

/// "12.3 % (10.1–14.0 %)", with the spread where there is one.
fn loss(case: &Case) -> String {
    let failed = case.runs.iter().filter(|run| run.failed.is_some()).count();
    let Some(mean) = case.loss_trimmed else { return if failed > 0 { "failed".into() } else { NONE.into() } };
    let mut cell = words::percent(mean);
    if let Some(spread) = case.loss_spread.filter(|[low, high]| low != high) {
        cell += &format!(" ({})", words::percents(spread));
    }
    if failed > 0 {
        cell += &format!(", {failed} failed");
    }
    if case.limited_by == LimitedBy::Generator && case.pps.is_some() {
        cell += LIMITED;
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_bench::method::Run;

    fn case(rival: &str, size: u32, loss: Option<f64>, spread: Option<[f64; 2]>) -> Case {
        Case {
            rival: rival.into(),
            size,
            pps: Some(1),
            rate: "400 kpps".into(),
            runs: vec![Run::default()],
            loss_trimmed: loss,
            loss_median: loss,
            loss_spread: spread,
            cpu_median: Some(0.25),
            limited_by: LimitedBy::Nothing,
            ..Case::default()
        }
    }

    #[test]
    fn loads_are_rows_and_capturers_are_columns() {
        let mut limited = case("quaff", 64, Some(0.0), Some([0.0, 0.0]));
        limited.limited_by = LimitedBy::Generator;
        let mut failed = case("tcpdump", 1500, None, None);
        failed.runs[0].failed = Some("it crashed".into());
        let quaff = case("quaff", 1500, Some(0.0), None);
        let tcpdump = case("tcpdump", 64, Some(0.125), Some([0.1, 0.25]));
        let cases = [&limited, &tcpdump, &quaff, &failed];
        let pivot = pivot("Lost", &cases, &loss);
        assert_eq!(pivot.heads, ["frames", "asked", "quaff", "tcpdump"]);
        assert_eq!(pivot.rows[0][..3], ["64 B", "400 kpps", "0 % *"]);
        assert!(pivot.rows[0][3].starts_with("12.5 % (10"), "{pivot:?}");
        assert_eq!(pivot.rows[1], ["1500 B", "400 kpps", "0 %", "failed"]);
        assert!(pivot.note.contains("says nothing"), "{pivot:?}");
    }

    #[test]
    fn who_was_not_asked_has_a_dash() {
        let (quaff, tcpdump) = (case("quaff", 64, Some(0.0), None), case("tcpdump", 512, Some(0.0), None));
        let pivot = pivot("Lost", &[&quaff, &tcpdump], &loss);
        assert_eq!((pivot.rows[0][3].as_str(), pivot.rows[1][2].as_str()), (NONE, NONE));
        assert_eq!(pivot.note, "");
    }
}
