//! The charts of a bench: curves for a swept rate, heat maps over sizes or series, otherwise bars.

use super::tables::{compares, found, has_one_size, highest_words, is_same_workload, source_loss};
use super::view::{
    View, cpu_of, distinct, failure, fell_short, found_words, is_own_word, kept_losses, limit_words,
    loss_words, offered_pps, rate_words, size_words, whole,
};
use crate::bench::plan::SourceRow;
use crate::bench::result::{Burst, Case, LimitedBy, Search};
use crate::bench::summary;
use crate::report::chart::bars;
use crate::report::chart::curves::{Curves, Line, Panel, Point};
use crate::report::chart::heat::{Cell, Heat, Map};
use crate::report::chart::mark::SOURCE;
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::strips::{self, Bar, Mark, Row};
use crate::report::chart::{Chart, Shape};
use crate::stats::{median, spread};
use quaff::format::{count, percent, rate, significant};

/// Minimum number of rates for a curve instead of bars.
const CURVE_POINTS: usize = 4;
/// Maximum number of source rows in one panel.
const SOURCE_BARS: usize = 4;

/// The cases of one interface, series and size, at all rates.
struct Group<'a> {
    place: String,
    size: String,
    cases: Vec<&'a Case>,
}

/// All charts of a bench, in the order of the page.
pub(super) fn charts(view: &View) -> [(&'static str, Vec<Chart>); 6] {
    let groups = groups(view);
    let (curved, barred): (Vec<Group>, Vec<Group>) =
        groups.into_iter().partition(|group| rates(&group.cases).len() >= CURVE_POINTS);
    [
        ("Loss over size and rate", heats(view)),
        ("Loss and CPU against rate", curves(view, &curved)),
        ("Loss", loss_bars(view, &barred)),
        ("CPU of the capturer", cpu_bars(view, &barred)),
        ("Highest rate without loss", search_bars(view)),
        ("Longest burst without loss", burst_bars(view)),
    ]
}

fn groups<'a>(view: &View<'a>) -> Vec<Group<'a>> {
    let mut out: Vec<Group> = Vec::new();
    for case in &view.report.cases {
        let (place, size) = (view.place(case), size_words(case));
        match out.iter_mut().find(|group| group.place == place && group.size == size) {
            Some(group) => group.cases.push(case),
            None => out.push(Group { place, size, cases: vec![case] }),
        }
    }
    out
}

/// The requested rates, slowest first, "as fast as possible" last.
fn rates<'a>(cases: &[&'a Case]) -> Vec<&'a str> {
    let mut cases = cases.to_vec();
    cases.sort_by_key(|case| case.pps.unwrap_or(u64::MAX));
    distinct(cases.into_iter().map(|case| case.rate.as_str()))
}

fn titled(parts: [&str; 2]) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

fn heats(view: &View) -> Vec<Chart> {
    let mut out = Vec::new();
    let places = distinct(view.report.cases.iter().map(|case| view.place(case)));
    for place in &places {
        let cases: Vec<&Case> = view.report.cases.iter().filter(|case| view.place(case) == *place).collect();
        let title = titled(["Loss by frame size and rate", place]);
        out.extend(heat(view, title, "frames", &cases, size_words));
    }
    let sizes = distinct(view.report.cases.iter().map(size_words));
    for size in sizes.iter().filter(|_| places.len() > 1) {
        let cases: Vec<&Case> = view.report.cases.iter().filter(|case| size_words(case) == *size).collect();
        let title = titled(["Loss by series and rate", size]);
        out.extend(heat(view, title, "series", &cases, |case| view.place(case)));
    }
    out
}

/// A heat map of `cases` with one row per `row_of`; `None` if there are too few rows or columns, or if most cells
/// would be empty.
fn heat(
    view: &View,
    title: String,
    y_label: &str,
    cases: &[&Case],
    row_of: impl Fn(&Case) -> String,
) -> Option<Chart> {
    let rows = distinct(cases.iter().map(|case| row_of(case)));
    // Rates that only a few rows have would leave holes.
    let rows_at =
        |rate: &str| distinct(cases.iter().filter(|case| case.rate == rate).map(|case| row_of(case))).len();
    let mut rates = rates(cases);
    rates.retain(|rate| rows_at(rate) * 2 > rows.len());
    let names: Vec<&str> =
        view.names.iter().copied().filter(|name| cases.iter().any(|case| case.rival == *name)).collect();
    let cases: Vec<&Case> =
        cases.iter().copied().filter(|case| rates.contains(&case.rate.as_str())).collect();
    let full = rows.len() * rates.len() * names.len();
    if rows.len() < 2 || rates.len() < 3 || cases.len() * 10 < full * 6 {
        return None;
    }
    let cell = |name: &str, row: &str, rate: &str| {
        let is = |case: &&&Case| case.rival == name && row_of(case) == row && case.rate == rate;
        let case = cases.iter().find(is)?;
        let doubt = fell_short(case);
        (case.loss_trimmed.is_some() || failure(case).is_some()).then(|| Cell {
            value: case.loss_trimmed,
            doubt,
            words: loss_words(case),
        })
    };
    let map = |name: &&str| Map {
        style: view.style(name),
        name: (*name).into(),
        cells: rows.iter().map(|row| rates.iter().map(|rate| cell(name, row, rate)).collect()).collect(),
    };
    let (columns, x_label) = short_rates(&rates);
    let heat = Heat {
        x_label,
        y_label: y_label.into(),
        columns,
        maps: names.iter().map(map).collect(),
        rows: rows.clone(),
    };
    let caption = "The number in a cell is the loss in percent. A cut corner: the generator was at its limit. \
                   ×: the capturer failed.";
    Some(Chart::new(title, caption_of(caption, view.report.cases.iter()), Shape::Heat(heat)))
}

/// Rates without their common unit, and that unit for the axis.
fn short_rates(rates: &[&str]) -> (Vec<String>, String) {
    let unit = |rate: &str| rate.split_once(' ').map(|(_, unit)| unit.to_owned());
    let units =
        distinct(rates.iter().filter(|rate| rate.starts_with(|c: char| c.is_ascii_digit())).map(|r| unit(r)));
    let short = |rate: &&str| match rate {
        rate if !rate.starts_with(|c: char| c.is_ascii_digit()) => "max".into(),
        rate if units.len() == 1 => rate.split(' ').next().unwrap_or(rate).to_owned(),
        rate => (*rate).replace(" kpps", "k").replace(" Mpps", "M"),
    };
    let label = match &units[..] {
        [Some(unit)] => unit.clone(),
        _ => "rate".into(),
    };
    (rates.iter().map(short).collect(), label)
}

fn curves(view: &View, groups: &[Group]) -> Vec<Chart> {
    let lost = |case: &Case| case.loss_spread.map(|spread| spread[1]).or(case.loss_trimmed);
    let used = |case: &Case| case.cpu_median;
    let most = |group: &Group, figure: &dyn Fn(&Case) -> Option<f64>| {
        group.cases.iter().filter_map(|case| figure(case)).fold(0.0, f64::max)
    };
    let most_of_all = |figure: &dyn Fn(&Case) -> Option<f64>| {
        groups.iter().map(|group| most(group, figure)).fold(0.0, f64::max)
    };
    let (all_lost, all_used) = (most_of_all(&lost), most_of_all(&used));
    let caption = "Points: for loss the mean of the runs without best and worst, for CPU the median. Thick strokes: the runs \
                   in that mean. Thin strokes: from the best run to the worst. Hollow: the generator was at its limit. The \
                   rate is the one that arrived. A chart with much smaller figures than others has scales of its own.";
    let caption = caption_of(caption, groups.iter().flat_map(|group| group.cases.iter().copied()));
    let draw = |group: &Group| {
        let loss = Scale::over(reach(most(group, &lost), all_lost), Unit::Loss);
        let cpu = Scale::over(reach(most(group, &used), all_used), Unit::Percent);
        curve(view, group, [loss, cpu], &caption)
    };
    groups.iter().map(draw).collect()
}

/// Adjacent charts share one scale; a chart with much smaller figures has its own.
fn reach(most: f64, most_of_all: f64) -> f64 {
    if most * 4.0 < most_of_all { most } else { most_of_all }
}

fn curve(view: &View, group: &Group, [loss, cpu]: [Scale; 2], caption: &str) -> Chart {
    let rates = rates(&group.cases);
    let in_bits = rates.iter().filter(|rate| rate.ends_with("bit/s")).count() * 2 > rates.len();
    let arrived = |case: &Case| offered_pps(case).or(case.pps.map(|pps| pps as f64));
    let most = group.cases.iter().filter_map(|case| arrived(case)).fold(1.0, f64::max);
    let (divide, unit) = match (in_bits, most) {
        (true, _) => (1e6 / 8.0, "Mbit/s"),
        (false, most) if most >= 2e6 => (1e6, "Mpps"),
        (false, _) => (1e3, "kpps"),
    };
    let x_of = |case: &Case| {
        let bytes = if in_bits { f64::from(case.size) } else { 1.0 };
        arrived(case).map(|pps| pps * bytes / divide)
    };
    let x = Scale::of_values(group.cases.iter().filter_map(|case| x_of(case)));
    let column = |case: &Case| rates.iter().position(|rate| *rate == case.rate).unwrap_or(0);
    let line = |name: &str, point: &dyn Fn(&Case) -> Option<Point>| {
        let cases = group.cases.iter().filter(|case| case.rival == name);
        Line::new(view.style(name), name, cases.filter_map(|case| point(case)))
    };
    let lost = |case: &Case| {
        let (y, spread, kept) = (case.loss_trimmed?, case.loss_spread, kept_losses(case));
        let (hollow, words) = (fell_short(case), format!("{} lost", loss_words(case)));
        Some(Point { column: column(case), x: x_of(case)?, y, spread, kept, hollow, words })
    };
    let took = |case: &Case| {
        let y = case.cpu_median?;
        let spread = spread(&summary::cpu(&case.runs));
        let words = format!("{} % of a core{}", significant(y * 100.0), of_all(case));
        Some(Point { column: column(case), x: x_of(case)?, y, spread, words, ..Point::default() })
    };
    let lines = |point: &dyn Fn(&Case) -> Option<Point>| {
        view.names.iter().filter_map(|name| line(name, point)).collect()
    };
    let panels = vec![
        Panel::new("Lost of what was offered, %", loss, 220.0, lines(&lost)),
        Panel::new("CPU of the capturer, % of a core", cpu, 130.0, lines(&took)),
    ];
    let columns = rates.iter().map(|rate| format!("{rate}, {}", group.size)).collect();
    let how = if x.is_logarithmic() { " (logarithmic)" } else { "" };
    let x_label = format!("offered, {unit}{how}");
    let curves = Curves { x_label, x, columns, panels, gaps: Vec::new(), is_dense: false };
    Chart::new(titled([&group.place, &group.size]), caption, Shape::Curves(curves))
}

/// The text after the CPU use of several capturers.
fn of_all(case: &Case) -> String {
    match case.setting.capturers {
        0 | 1 => String::new(),
        all => format!(" for all {all} together"),
    }
}

/// End of the caption of a chart that contains figures reported by the capturers themselves.
const OWN_WORD: &str = " Where nothing was kept (¹), captured packets are the capturer's own count.";

/// `caption`, with a note on how packets of `cases` were counted.
fn caption_of<'a>(caption: &str, mut cases: impl Iterator<Item = &'a Case>) -> String {
    let end = if cases.any(is_own_word) { OWN_WORD } else { "" };
    format!("{caption}{end}")
}

/// One panel for each workload of `groups`, with its cases.
fn panels<'a>(
    view: &View<'a>,
    groups: &[Group<'a>],
    bar: impl Fn(&Case) -> Option<Row>,
) -> Vec<(strips::Panel, Vec<&'a Case>)> {
    let mut out = Vec::new();
    for group in groups {
        for wanted in rates(&group.cases) {
            let mut cases: Vec<&Case> =
                group.cases.iter().copied().filter(|case| case.rate == wanted).collect();
            cases.sort_by_key(|case| view.style(&case.rival));
            let rows: Vec<Row> = cases.iter().filter_map(|case| bar(case)).collect();
            if let (false, Some(case)) = (rows.is_empty(), cases.first()) {
                out.push((strips::Panel { title: view.workload(case), rows, limits: Vec::new() }, cases));
            }
        }
    }
    out
}

fn loss_bars(view: &View, groups: &[Group]) -> Vec<Chart> {
    let bar = |case: &Case| {
        let words = match (case.loss_trimmed, failure(case)) {
            (Some(loss), _) => bar_words(case, loss),
            (None, Some(why)) => format!("failed: {why}"),
            (None, None) => return None,
        };
        Some(Row {
            style: view.style(&case.rival),
            name: case.rival.clone(),
            mark: Mark::Bar(Bar {
                parts: case.loss_trimmed.into_iter().collect(),
                spread: case.loss_spread,
                kept: kept_losses(case),
                dots: summary::losses(&case.runs),
                hollow: fell_short(case),
            }),
            words,
            long: format!("{} lost, at {}", loss_words(case), rate_words(case)),
        })
    };
    let mut panels = panels(view, groups, bar);
    let mut theirs = false;
    let one_size = has_one_size(view.report);
    for (panel, cases) in &mut panels {
        let source = source_bars(view, cases, one_size);
        theirs |= !source.is_empty();
        panel.rows.extend(source);
    }
    let caption = format!(
        "Bar: mean of the runs without best and worst. Thick line: the runs in that mean. Thin line: from the best run to the \
         worst. Where the runs lie apart, those in the mean are dots, the others crosses. Hollow: the generator was at its \
         limit, and at zero a stub shows it.{}",
        if theirs { " †: the source's own number, measured there." } else { "" }
    );
    let caption = caption_of(&caption, groups.iter().flat_map(|group| group.cases.iter().copied()));
    let panels = panels.into_iter().map(|(panel, _)| panel).collect();
    bars("Loss", "lost of what was offered, %", &caption, Unit::Loss, panels)
}

/// The loss, and the rate if it differs from the heading's: capturers take different shares of the generator's CPU
/// time, which changes the offered rate. "0 %, generator's limit 1.64 Mpps" if the generator was the limit.
fn bar_words(case: &Case, loss: f64) -> String {
    let of = offered_pps(case).filter(|_| case.pps.is_none() || fell_short(case));
    let before = if loss == 0.0 && fell_short(case) { ", generator's limit" } else { " of" };
    let of = of.map(|pps| format!("{before} {}", rate(pps))).unwrap_or_default();
    let own_word = if is_own_word(case) { " ¹" } else { "" };
    format!("{}{of}{own_word}", percent(loss))
}

/// The losses that the source reports for the same frames at the same rate.
fn source_bars(view: &View, cases: &[&Case], one_size: bool) -> Vec<Row> {
    let Some(source) = &view.report.plan.source else { return Vec::new() };
    let is_same = |row: &&SourceRow| {
        cases.first().is_some_and(|case| is_same_workload(row, case, one_size) && compares(view, case))
    };
    let bar = |row: &SourceRow| {
        let loss = source_loss(row)?;
        Some(Row {
            style: SOURCE,
            name: format!("{} †", row.rival),
            mark: Mark::Bar(Bar { parts: vec![loss], ..Bar::default() }),
            words: percent(loss),
            long: format!("{} lost there: {}", percent(loss), source.title),
        })
    };
    source.rows.iter().filter(is_same).filter_map(bar).take(SOURCE_BARS).collect()
}

fn cpu_bars(view: &View, groups: &[Group]) -> Vec<Chart> {
    let bar = |case: &Case| {
        let runs: Vec<[f64; 2]> = whole(case).filter_map(cpu_of).collect();
        let [user, system] =
            [0, 1].map(|i| median(&runs.iter().map(|cpu| cpu[i]).collect::<Vec<_>>()).unwrap_or(0.0));
        let total = case.cpu_median?;
        let scale = if user + system > 0.0 { total / (user + system) } else { 0.0 };
        let [all, user_words, system_words] =
            [total, user, system].map(|cores| format!("{} %", significant(cores * 100.0)));
        let (dots, of_all) = (summary::cpu(&case.runs), of_all(case));
        let long = format!("{all} of a core{of_all}: {user_words} its own code, {system_words} the kernel");
        let parts = vec![user * scale, system * scale];
        let mark = Mark::Bar(Bar { parts, spread: spread(&dots), dots, ..Bar::default() });
        Some(Row { style: view.style(&case.rival), name: case.rival.clone(), mark, words: all, long })
    };
    let caption = "CPU time of the capturer's processes for each second of traffic: dark in their own code, light in the \
                   kernel. Soft interrupts, which no process is charged with, are in the table of cases.";
    let panels = panels(view, groups, bar).into_iter().map(|(panel, _)| panel).collect();
    bars("CPU of the capturer", "CPU of the capturer, % of a core", caption, Unit::Percent, panels)
}

fn search_bars(view: &View) -> Vec<Chart> {
    let bar = |search: &Search| {
        let found = search.lower_pps.unwrap_or(0.0) / 1e6;
        let again = search.again.map(|again| again[0] / 1e6);
        let dots: Vec<f64> = [Some(found), again].into_iter().flatten().collect();
        let upper = search.upper_pps.map(|pps| format!("loss from {} on", rate(pps)));
        let upper = upper.unwrap_or_else(|| "with no loss at any rate".into());
        let hollow = search.limited_by == LimitedBy::Generator;
        let (words, limit) = (highest_words(search), limit_words(search.limited_by));
        Row {
            style: view.style(&search.rival),
            name: search.rival.clone(),
            mark: Mark::Bar(Bar { parts: vec![found], spread: spread(&dots), dots, hollow, kept: None }),
            long: format!("{words}; {upper}; limited by {limit}"),
            words,
        }
    };
    let searches = &view.report.searches;
    let panel = |frames: String| {
        let here = || searches.iter().filter(|search| found(search) == frames);
        let mut rows: Vec<Row> = here().map(bar).collect();
        rows.sort_by_key(|row| row.style);
        let limit = here().map(|search| search.max_pps / 1e6).reduce(f64::max).filter(|limit| *limit > 0.0);
        let limits = limit.map(|limit| (limit, String::new())).into_iter().collect();
        strips::Panel { title: frames, rows, limits }
    };
    let caption = "Bar: the highest rate at which nothing was lost. Dots: two independent searches. Dashed: the most that \
                   the generator sends without a capturer. Hollow: that was the limit, and not the capturer.";
    let panels = distinct(searches.iter().map(found)).into_iter().map(panel).collect();
    bars("Highest rate without loss", "Mpps", caption, Unit::Number, panels)
}

fn burst_bars(view: &View) -> Vec<Chart> {
    let frames_of = |burst: &Burst| found_words(burst.size, burst.mix.as_deref(), &burst.setting);
    let bar = |burst: &Burst| {
        let dots: Vec<f64> = burst.frames.iter().map(|n| *n as f64 / 1e3).collect();
        let (middle, spread) = (median(&dots)?, spread(&dots));
        let hollow = middle * 1e3 >= burst.frames_max as f64;
        let from_to = spread.map(|[low, high]| [low, high].map(|k| count((k * 1e3) as u64)).join(" – "));
        let words = format!("{}{}", if hollow { "≥ " } else { "" }, count((middle * 1e3) as u64));
        let long = format!("{words} frames ({}), at {}", from_to.unwrap_or_default(), rate(burst.pps));
        let mark = Mark::Bar(Bar { parts: vec![middle], spread, dots, hollow, kept: None });
        Some(Row { style: view.style(&burst.rival), name: burst.rival.clone(), mark, words, long })
    };
    let bursts = &view.report.bursts;
    let panel = |frames: String| {
        let rows = bursts.iter().filter(|burst| frames_of(burst) == frames).filter_map(bar).collect();
        strips::Panel { title: frames, rows, limits: Vec::new() }
    };
    let caption = "Bar: the median of the longest bursts, sent at the smallest gap, of which nothing was lost. Line: from \
                   the shortest to the longest. Hollow: longer ones were not tried.";
    let panels = distinct(bursts.iter().map(frames_of)).into_iter().map(panel).collect();
    bars("Longest burst without loss", "thousand frames", caption, Unit::Number, panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_lose_the_unit_they_share() {
        let (short, label) = short_rates(&["50 Mbit/s", "950 Mbit/s", "as fast as possible"]);
        assert_eq!((short, label.as_str()), (vec!["50".into(), "950".into(), "max".into()], "Mbit/s"));
        let (short, label) = short_rates(&["400 kpps", "1.2 Mpps"]);
        assert_eq!((short, label.as_str()), (vec!["400k".into(), "1.2M".into()], "rate"));
    }
}
