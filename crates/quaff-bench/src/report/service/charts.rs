//! Which pictures the report of a service test has, and those of delays.

use super::tables::limits_words;
use super::trials::latency_ms;
use super::view::{View, lost_words};
use super::{rates, second};
use crate::report::chart::curves::{Curves, Line, Panel, Point};
use crate::report::chart::ranges::{self, Ranges, Row};
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::{Chart, Shape};
use crate::report::charts::Section;
use crate::service::result::{Latency, Report, Way};
use crate::trial::Delays;
use crate::words::{count, delay, percent, slug};

/// ns in a ms.
const NS: f64 = 1e6;
/// Points of the picture of those that took longer.
const TAIL_POINTS: usize = 60;

/// All pictures of a report, in the order of the page; each has a name of its own.
pub(super) fn charts(report: &Report) -> Vec<Section> {
    let view = View::new(report);
    let delays: Vec<Chart> = strips(&view).into_iter().chain(tails(&view)).collect();
    let all = [
        ("Delay of each run", run_strips(&view)),
        ("Second by second", second::timelines(&view)),
        ("Service configuration", rates::steps(&view)),
        ("Throughput", rates::throughput(&view)),
        ("Latency", delays),
        ("Frame loss", rates::losses(&view)),
        ("Back-to-back frames", rates::bursts(&view)),
        ("System recovery", rates::recoveries(&view)),
    ];
    let mut sections: Vec<Section> =
        all.into_iter().map(|(title, charts)| Section { title, charts }).collect();
    sections.retain(|section| !section.charts.is_empty());
    for (i, chart) in sections.iter_mut().flat_map(|section| &mut section.charts).enumerate() {
        chart.name = format!("figure-{:02}-{}", i + 1, slug(&chart.title));
    }
    sections
}

/// A picture that has no name yet.
pub(super) fn chart(title: &str, caption: &str, shape: Shape) -> Chart {
    Chart { name: String::new(), title: title.into(), caption: caption.into(), shape }
}

/// "Latency", or "Latency, back".
pub(super) fn titled(view: &View, title: &str, way: Way) -> String {
    view.with_way(title, way)
}

/// How late the frames of each size were, from the first to the last.
fn strips(view: &View) -> Vec<Chart> {
    let all = || view.report.latency.iter();
    let values = all().flat_map(|found| [found.all.delay[0] / NS, found.all.delay[2] / NS]);
    let nulls = all().filter_map(|found| found.null_ms);
    let x = Scale::log(values.chain(nulls), Unit::Delay);
    let panel = |way: Way| {
        let here: Vec<&Latency> = all().filter(|found| found.way == way).collect();
        let null = here.iter().filter_map(|found| found.null_ms).reduce(f64::min);
        ranges::Panel {
            title: view.with_way("All frames", way),
            rows: here.iter().map(|found| strip(view, found)).collect(),
            limits: null.map(|ms| (ms, "the instrument alone".to_owned())).into_iter().collect(),
        }
    };
    let panels: Vec<_> = view.ways().into_iter().map(panel).filter(|panel| !panel.rows.is_empty()).collect();
    if panels.is_empty() {
        return Vec::new();
    }
    let caption = "Each strip goes from the smallest delay to the largest; it gets lighter at the median (the gap), at 90 %, \
                   99 % and 99.9 % of the frames. Dashed: the median of the instrument alone, which is in every delay.";
    let ranges = Ranges { label: "one-way delay".into(), x, panels };
    vec![chart("Latency by frame size", caption, Shape::Ranges(ranges))]
}

fn strip(view: &View, found: &Latency) -> Row {
    let all = &found.all;
    let quantile = |wanted: f64| {
        let known = all.quantiles.iter().find(|(quantile, _)| (quantile - wanted).abs() < 1e-9);
        known.map(|(_, ns)| ns / NS)
    };
    let mut edges = vec![all.delay[0] / NS];
    edges.extend([0.5, 0.9, 0.99, 0.999].into_iter().filter_map(quantile));
    let named = |words: &str, ms: Option<f64>| ms.map(|ms| format!("{words} {}", delay(ms)));
    let parts = [
        Some(format!("RFC 2544 {}", delay(latency_ms(found)))),
        named("smallest", Some(all.delay[0] / NS)),
        named("median", quantile(0.5)),
        named("99 %", quantile(0.99)),
        named("99.9 %", quantile(0.999)),
        named("largest", Some(all.delay[2] / NS)),
    ];
    Row {
        style: view.size_style(found.size),
        name: format!("{} B", found.size),
        edges,
        reach: all.delay[2] / NS,
        words: delay(quantile(0.5).unwrap_or(all.delay[1] / NS)),
        long: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}

/// The share of frames that took longer than so long, a line for each size.
fn tails(view: &View) -> Vec<Chart> {
    let all: Vec<&Latency> =
        view.report.latency.iter().filter(|found| found.all.histogram.len() > 1).collect();
    let x = Scale::log(
        all.iter().flat_map(|found| [found.all.delay[0] / NS, found.all.delay[2] / NS]),
        Unit::Delay,
    );
    let [from, top] = x.ends();
    let grid: Vec<f64> =
        (0..=TAIL_POINTS).map(|i| from * (top / from).powf(i as f64 / TAIL_POINTS as f64)).collect();
    let least = all.iter().map(|found| 1.0 / frames(&found.all).max(1.0)).fold(0.1, f64::min);
    let y = Scale::log([least, 1.0].into_iter(), Unit::Percent);
    let line = |found: &&Latency| Line {
        style: view.size_style(found.size),
        name: format!("{} B", found.size),
        points: tail(&found.all, &grid),
    };
    let of = |way: Way| {
        let lines: Vec<Line> = all.iter().filter(|found| found.way == way).map(line).collect();
        let label = "Frames that took longer, %".into();
        let panel = Panel { label, y, height: 240.0, limits: Vec::new(), lines };
        let curves = Curves {
            x_label: "one-way delay".into(),
            x,
            columns: grid.iter().map(|ms| format!("longer than {}", delay(*ms))).collect(),
            panels: vec![panel],
            gaps: Vec::new(),
            is_dense: true,
        };
        let caption =
            "Both axes are logarithmic: one in a thousand frames took longer than where a line meets 0.1 %.";
        chart(&titled(view, "Frames that took longer", way), caption, Shape::Curves(curves))
    };
    let has = |way: &Way| all.iter().any(|found| found.way == *way);
    view.ways().into_iter().filter(has).map(of).collect()
}

fn frames(all: &Delays) -> f64 {
    all.histogram.iter().map(|(_, frames)| *frames as f64).sum()
}

/// Of a histogram: the share beyond each of `grid`, ms, as long as there is one.
fn tail(all: &Delays, grid: &[f64]) -> Vec<Point> {
    let total = frames(all).max(1.0);
    let beyond = |ms: f64| {
        let within = all.histogram.iter().take_while(|(upper, _)| *upper <= ms * NS);
        1.0 - within.map(|(_, frames)| *frames as f64).sum::<f64>() / total
    };
    let point = |(column, ms): (usize, &f64)| {
        let share = beyond(*ms);
        let words = format!("{} of the frames", percent(share));
        (share > 1e-12).then_some(Point { column, x: *ms, y: share, spread: None, hollow: false, words })
    };
    grid.iter().enumerate().filter_map(point).collect()
}

/// The delay of each service in each run: smallest, mean, largest.
fn run_strips(view: &View) -> Vec<Chart> {
    let all = || view.report.performance.iter().filter_map(|line| Some((line, line.figures.delay_ms?)));
    let x = Scale::log(all().flat_map(|(_, [low, _, high])| [low, high]), Unit::Delay);
    let panel = |(name, way): (&str, Way)| {
        let here = all().filter(|(line, _)| line.service == name && line.way == way);
        let rows: Vec<Row> = here
            .map(|(line, [low, mean, high])| Row {
                style: view.service_style(name),
                name: format!("run {}", line.run),
                edges: vec![low, mean],
                reach: high,
                words: format!("{}, lost {}", delay(mean), lost_words(&line.figures)),
                long: format!("{} (mean), {} to {}", delay(mean), delay(low), delay(high)),
            })
            .collect();
        let limits = view.report.performance.iter().find(|line| line.service == name).map(|line| line.limits);
        let limit = limits.and_then(|limits| limits.delay_ms).filter(|ms| *ms <= x.ends()[1]);
        let stands = limits.map(|limits| limits_words(&limits)).filter(|words| words != super::view::NONE);
        let title = view.with_way(name, way);
        ranges::Panel {
            title: stands.map_or(title.clone(), |stands| format!("{title}: {stands}")),
            rows,
            limits: limit.map(|ms| (ms, "the limit".to_owned())).into_iter().collect(),
        }
    };
    let pairs = view.services.iter().flat_map(|name| view.ways().into_iter().map(|way| (*name, way)));
    let panels: Vec<_> = pairs.map(panel).filter(|panel| !panel.rows.is_empty()).collect();
    if panels.is_empty() {
        return Vec::new();
    }
    let most = panels.iter().flat_map(|panel| &panel.rows).count();
    let caption = format!(
        "From the smallest delay to the largest of the available seconds; dark up to the mean, whose number stands beside. \
         {} strips.",
        count(most as u64)
    );
    let ranges = Ranges { label: "one-way delay".into(), x, panels };
    vec![chart("Delay of each run", &caption, Shape::Ranges(ranges))]
}
