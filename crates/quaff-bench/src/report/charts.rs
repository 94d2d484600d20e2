//! Which pictures a report has: curves where a rate was swept, heat maps over sizes or series, bars elsewhere.

use super::chart::bars::{self, Bar, Bars};
use super::chart::curves::{Curves, Line, Panel, Point};
use super::chart::heat::{Cell, Heat, Map};
use super::chart::mark::SOURCE;
use super::chart::scale::{Scale, Unit};
use super::chart::{Chart, Shape};
use super::tables::{found, has_one_size, highest_words, is_same_workload, source_loss};
use super::view::{
    View, cpu_of, distinct, failure, fell_short, found_words, is_own_word, limit_words, loss_words,
    offered_pps, rate_words, size_words, whole,
};
use crate::bench::result::{Burst, Case, LimitedBy, Report};
use crate::bench::summary;
use crate::stats::{median, spread};
use crate::words::{count, percent, rate, significant, slug};

/// A rate is a curve from so many points on.
const CURVE_POINTS: usize = 4;
/// So many panels of bars are one picture.
const BAR_PANELS: usize = 9;
/// So many of a source's rows stand beside ours.
const SOURCE_BARS: usize = 4;

/// Pictures under one heading.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) charts: Vec<Chart>,
}

/// Cases of one interface, one series and one size, at all rates.
struct Group<'a> {
    place: String,
    size: String,
    cases: Vec<&'a Case>,
}

/// All pictures of a report, in the order of the page; each has a name of its own.
pub(super) fn charts(report: &Report) -> Vec<Section> {
    let view = View::new(report);
    let groups = groups(&view);
    let (curved, barred): (Vec<Group>, Vec<Group>) =
        groups.into_iter().partition(|group| rates(&group.cases).len() >= CURVE_POINTS);
    let all = [
        ("Loss over size and rate", heats(&view)),
        ("Loss and CPU against rate", curves(&view, &curved)),
        ("Loss", loss_bars(&view, &barred)),
        ("CPU of the capturer", cpu_bars(&view, &barred)),
        ("Highest rate without loss", search_bars(&view)),
        ("Longest burst without loss", burst_bars(&view)),
    ];
    let mut sections: Vec<Section> =
        all.into_iter().map(|(title, charts)| Section { title, charts }).collect();
    sections.retain(|section| !section.charts.is_empty());
    for (i, chart) in sections.iter_mut().flat_map(|section| &mut section.charts).enumerate() {
        chart.name = format!("figure-{:02}-{}", i + 1, slug(&chart.title));
    }
    sections
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

/// The rates that were asked, slowest first, "as fast as possible" last.
fn rates<'a>(cases: &[&'a Case]) -> Vec<&'a str> {
    let mut cases = cases.to_vec();
    cases.sort_by_key(|case| case.pps.unwrap_or(u64::MAX));
    distinct(cases.into_iter().map(|case| case.rate.as_str()))
}

fn chart(title: String, caption: &str, shape: Shape) -> Chart {
    Chart { name: String::new(), title, caption: caption.into(), shape }
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

/// A heat map of `cases` with a row for each `row_of`; `None` when there are too few rows or columns, or
/// when most of it would be empty.
fn heat(
    view: &View,
    title: String,
    y_label: &str,
    cases: &[&Case],
    row_of: impl Fn(&Case) -> String,
) -> Option<Chart> {
    let rows = distinct(cases.iter().map(|case| row_of(case)));
    // Rates that only a few of the rows have would leave holes.
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
    Some(chart(title, &caption_of(caption, cases.iter().copied()), Shape::Heat(heat)))
}

/// Rates without the unit that all of them have, and that unit for the axis.
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
    let draw = |group: &Group| {
        let loss = Scale::of_ratio(reach(most(group, &lost), all_lost));
        let cpu = Scale::over(reach(most(group, &used), all_used), Unit::Percent);
        curve(view, group, loss, cpu)
    };
    groups.iter().map(draw).collect()
}

/// Pictures that lie beside each other have one scale, but one with much smaller figures has its own.
fn reach(most: f64, most_of_all: f64) -> f64 {
    if most * 4.0 < most_of_all { most } else { most_of_all }
}

fn curve(view: &View, group: &Group, loss: Scale, cpu: Scale) -> Chart {
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
        let mut points: Vec<Point> =
            group.cases.iter().filter(|case| case.rival == name).filter_map(|case| point(case)).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        (!points.is_empty()).then(|| Line { style: view.style(name), name: name.into(), points })
    };
    let lost = |case: &Case| {
        let (y, spread, hollow) = (case.loss_trimmed?, case.loss_spread, fell_short(case));
        let words = format!("{} lost", loss_words(case));
        Some(Point { column: column(case), x: x_of(case)?, y, spread, hollow, words })
    };
    let took = |case: &Case| {
        let y = case.cpu_median?;
        let spread = spread(&summary::cpu(&case.runs));
        let words = format!("{} % of a core{}", significant(y * 100.0), of_all(case));
        Some(Point { column: column(case), x: x_of(case)?, y, spread, hollow: false, words })
    };
    let panel = |label: &str, y, height, point: &dyn Fn(&Case) -> Option<Point>| Panel {
        label: label.into(),
        y,
        height,
        limits: Vec::new(),
        lines: view.names.iter().filter_map(|name| line(name, point)).collect(),
    };
    let panels = vec![
        panel("Lost of what was offered, %", loss, 220.0, &lost),
        panel("CPU of the capturer, % of a core", cpu, 130.0, &took),
    ];
    let columns = rates.iter().map(|rate| format!("{rate}, {}", group.size)).collect();
    let caption = "Points: mean of the runs without best and worst for loss, median for CPU. Vertical strokes: from the \
                   best run to the worst. Hollow: the generator was at its limit. The rate is the one that \
                   arrived. A picture with much smaller figures than others has scales of its own.";
    let how = if x.is_logarithmic() { " (logarithmic)" } else { "" };
    let x_label = format!("offered, {unit}{how}");
    let caption = caption_of(caption, group.cases.iter().copied());
    chart(
        titled([&group.place, &group.size]),
        &caption,
        Shape::Curves(Curves { x_label, x, columns, panels, gaps: Vec::new(), is_dense: false }),
    )
}

/// Said of the CPU of several capturers.
fn of_all(case: &Case) -> String {
    match case.setting.capturers {
        0 | 1 => String::new(),
        all => format!(" for all {all} together"),
    }
}

/// Said of a picture when some of what it shows is the capturers' own word.
const OWN_WORD: &str = " Where nothing was kept (¹), what was captured is the capturer's own word.";

/// `caption`, with what a reader has to know of how `cases` were counted.
fn caption_of<'a>(caption: &str, mut cases: impl Iterator<Item = &'a Case>) -> String {
    let end = if cases.any(is_own_word) { OWN_WORD } else { "" };
    format!("{caption}{end}")
}

/// One panel for each workload of `groups`, in pictures of a readable size.
fn panels<'a, 'b>(
    view: &'b View<'a>,
    groups: &'b [Group<'a>],
    bar: impl Fn(&'a Case) -> Option<Bar> + 'b,
) -> Vec<(&'b Group<'a>, bars::Panel, Vec<&'a Case>)> {
    let mut out = Vec::new();
    for group in groups {
        for wanted in rates(&group.cases) {
            let mut cases: Vec<&Case> =
                group.cases.iter().copied().filter(|case| case.rate == wanted).collect();
            cases.sort_by_key(|case| view.style(&case.rival));
            let bars: Vec<Bar> = cases.iter().filter_map(|case| bar(case)).collect();
            if let (false, Some(case)) = (bars.is_empty(), cases.first()) {
                out.push((group, bars::Panel { title: view.workload(case), bars, limit: None }, cases));
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
        Some(Bar {
            style: view.style(&case.rival),
            name: case.rival.clone(),
            parts: case.loss_trimmed.into_iter().collect(),
            spread: case.loss_spread,
            dots: whole(case).filter_map(|run| run.loss).collect(),
            hollow: fell_short(case),
            words,
            long: format!("{} lost, at {}", loss_words(case), rate_words(case)),
        })
    };
    let mut panels = panels(view, groups, bar);
    let mut theirs = false;
    let one_size = has_one_size(view.report);
    for (_, panel, cases) in &mut panels {
        let source = source_bars(view, cases, one_size);
        theirs |= !source.is_empty();
        panel.bars.extend(source);
    }
    let caption = format!(
        "Bar: mean of the runs without best and worst. Line: from the best run to the worst. Dots: the runs, where they lie apart. \
         Hollow: the generator was at its limit.{}",
        if theirs { " †: the source's own number, measured there." } else { "" }
    );
    let label = "lost of what was offered, %";
    let caption = caption_of(&caption, groups.iter().flat_map(|group| group.cases.iter().copied()));
    sheets("Loss", label, &caption, Scale::of_ratio, panels.into_iter().map(|(_, panel, _)| panel).collect())
}

/// The loss, and of which rate where that is not the one in the heading: rivals take a different share of
/// the generator's time, and are offered different rates then.
fn bar_words(case: &Case, loss: f64) -> String {
    let of = offered_pps(case).filter(|_| case.pps.is_none() || fell_short(case));
    let of = of.map(|pps| format!(" of {}", rate(pps))).unwrap_or_default();
    let own_word = if is_own_word(case) { " ¹" } else { "" };
    format!("{}{of}{own_word}", percent(loss))
}

/// What the source printed for the same frames at the same rate.
fn source_bars(view: &View, cases: &[&Case], one_size: bool) -> Vec<Bar> {
    let Some(source) = &view.report.plan.source else { return Vec::new() };
    let same = source
        .rows
        .iter()
        .filter(|row| cases.first().is_some_and(|case| is_same_workload(row, case, one_size)));
    let bar = |row: &crate::bench::plan::SourceRow| {
        let loss = source_loss(row)?;
        Some(Bar {
            style: SOURCE,
            name: format!("{} †", row.rival),
            parts: vec![loss],
            spread: None,
            dots: Vec::new(),
            hollow: false,
            words: percent(loss),
            long: format!("{} lost there: {}", percent(loss), source.title),
        })
    };
    same.filter_map(bar).take(SOURCE_BARS).collect()
}

fn cpu_bars(view: &View, groups: &[Group]) -> Vec<Chart> {
    let bar = |case: &Case| {
        let runs: Vec<[f64; 2]> = whole(case).filter_map(cpu_of).collect();
        let [user, system] =
            [0, 1].map(|i| median(&runs.iter().map(|cpu| cpu[i]).collect::<Vec<_>>()).unwrap_or(0.0));
        let total = case.cpu_median?;
        let scale = if user + system > 0.0 { total / (user + system) } else { 0.0 };
        let percent = |cores: f64| significant(cores * 100.0);
        Some(Bar {
            style: view.style(&case.rival),
            name: case.rival.clone(),
            parts: vec![user * scale, system * scale],
            spread: spread(&summary::cpu(&case.runs)),
            dots: summary::cpu(&case.runs),
            hollow: false,
            words: format!("{} %", percent(total)),
            long: format!(
                "{} % of a core{}: {} % its own code, {} % the kernel",
                percent(total),
                of_all(case),
                percent(user),
                percent(system)
            ),
        })
    };
    let caption = "CPU time of the capturer's processes for each second of traffic: dark in their own code, light in the \
                   kernel. Soft interrupts, which no process is charged with, are in the table of cases.";
    let panels = panels(view, groups, bar).into_iter().map(|(_, panel, _)| panel).collect();
    let scale = |max| Scale::over(max, Unit::Percent);
    sheets("CPU of the capturer", "CPU of the capturer, % of a core", caption, scale, panels)
}

/// Panels on one scale, a few to a picture.
fn sheets(
    title: &str,
    label: &str,
    caption: &str,
    scale: impl Fn(f64) -> Scale,
    panels: Vec<bars::Panel>,
) -> Vec<Chart> {
    let top = |bar: &Bar| bar.spread.map_or(0.0, |spread| spread[1]).max(bar.parts.iter().sum());
    let max = panels.iter().flat_map(|panel| &panel.bars).map(top).fold(0.0, f64::max);
    let limit = panels.iter().filter_map(|panel| panel.limit).fold(0.0, f64::max);
    let x = scale(max.max(limit));
    let sheets = panels.len().div_ceil(BAR_PANELS);
    let each = panels.len().div_ceil(sheets.max(1)).max(1);
    let sheet = |(i, panels): (usize, &[bars::Panel])| {
        let part = if sheets > 1 { format!("{} of {sheets}", i + 1) } else { String::new() };
        let bars = Bars { label: label.into(), x, panels: panels.into() };
        chart(titled([title, &part]), caption, Shape::Bars(bars))
    };
    panels.chunks(each).enumerate().map(sheet).collect()
}

fn search_bars(view: &View) -> Vec<Chart> {
    let searches = &view.report.searches;
    let frames = distinct(searches.iter().map(found));
    let panel = |frames: &String| {
        let here = || searches.iter().filter(|search| found(search) == *frames);
        let mut bars: Vec<Bar> = here()
            .map(|search| {
                let found = search.lower_pps.unwrap_or(0.0) / 1e6;
                let again = search.again.map(|again| again[0] / 1e6);
                let both: Vec<f64> = [Some(found), again].into_iter().flatten().collect();
                let upper = search
                    .upper_pps
                    .map_or("with no loss at any rate".into(), |pps| format!("loss from {} on", rate(pps)));
                Bar {
                    style: view.style(&search.rival),
                    name: search.rival.clone(),
                    parts: vec![found],
                    spread: spread(&both),
                    dots: both,
                    hollow: search.limited_by == LimitedBy::Generator,
                    words: highest_words(search),
                    long: format!(
                        "{}; {upper}; limited by {}",
                        highest_words(search),
                        limit_words(search.limited_by)
                    ),
                }
            })
            .collect();
        bars.sort_by_key(|bar| bar.style);
        let limit = here().map(|search| search.max_pps / 1e6).fold(0.0, f64::max);
        bars::Panel { title: frames.clone(), bars, limit: (limit > 0.0).then_some(limit) }
    };
    let caption = "Bar: the highest rate at which nothing was lost. Dots: two independent searches. Dashed: the most that \
                   the generator sends with nobody listening. Hollow: that was the limit, and not the capturer.";
    let scale = |max| Scale::over(max, Unit::Number);
    sheets("Highest rate without loss", "Mpps", caption, scale, frames.iter().map(panel).collect())
}

fn burst_bars(view: &View) -> Vec<Chart> {
    let bursts = &view.report.bursts;
    let what = |burst: &Burst| found_words(burst.size, burst.mix.as_deref(), &burst.setting);
    let frames = distinct(bursts.iter().map(what));
    let bar = |burst: &Burst| {
        let frames: Vec<f64> = burst.frames.iter().map(|n| *n as f64 / 1e3).collect();
        let middle = median(&frames)?;
        let all = middle * 1e3 >= burst.frames_max as f64;
        let sign = if all { "≥ " } else { "" };
        let spread = spread(&frames);
        let from_to = spread.map(|[low, high]| [low, high].map(|k| count((k * 1e3) as u64)).join(" – "));
        let words = format!("{sign}{}", count((middle * 1e3) as u64));
        let long = format!("{words} frames ({}), at {}", from_to.unwrap_or_default(), rate(burst.pps));
        let (style, name) = (view.style(&burst.rival), burst.rival.clone());
        Some(Bar { style, name, parts: vec![middle], spread, dots: frames, hollow: all, words, long })
    };
    let panel = |frames: &String| {
        let here = bursts.iter().filter(|burst| what(burst) == *frames);
        bars::Panel { title: frames.clone(), bars: here.filter_map(bar).collect(), limit: None }
    };
    let caption = "Bar: the median of the longest bursts, sent at the smallest gap, of which nothing was lost. Line: from \
                   the shortest to the longest. Hollow: longer ones were not tried.";
    let scale = |max| Scale::over(max, Unit::Number);
    sheets(
        "Longest burst without loss",
        "thousand frames",
        caption,
        scale,
        frames.iter().map(panel).collect(),
    )
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
