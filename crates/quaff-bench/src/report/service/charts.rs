//! The charts of a service test, including those of delays.

use super::trials::latency_ms;
use super::view::{View, lost_words};
use super::{rates, second};
use crate::report::chart::curves::{Curves, Line, Panel, Point};
use crate::report::chart::ranges;
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::strips::{self, Mark, Row};
use crate::report::chart::{Chart, Shape};
use crate::service::result::{Latency, Performance, Way};
use crate::trial::Delays;
use quaff::format::{delay, percent};

/// Nanoseconds per millisecond.
const NS: f64 = 1e6;
/// Points per line in the chart of frames with longer delays.
const TAIL_POINTS: usize = 60;

/// All charts of a service test, in the order of the page.
pub(super) fn charts(view: &View) -> [(&'static str, Vec<Chart>); 8] {
    [
        ("Delay of each run", run_strips(view).into_iter().collect()),
        ("Second by second", second::timelines(view)),
        ("Service configuration", rates::steps(view)),
        ("Throughput", rates::throughput(view).into_iter().collect()),
        ("Latency", latency_strips(view).into_iter().chain(tails(view)).collect()),
        ("Frame loss", rates::losses(view)),
        ("Back-to-back frames", rates::bursts(view)),
        ("System recovery", rates::recoveries(view)),
    ]
}

/// The delay of the frames of each size, from minimum to maximum.
fn latency_strips(view: &View) -> Option<Chart> {
    let all = || view.report.latency.iter();
    let values = all().flat_map(|found| [found.all.delay[0] / NS, found.all.delay[2] / NS]);
    let nulls = all().filter_map(|found| found.null_ms);
    let x = Scale::log(values.chain(nulls), Unit::Delay);
    let panel = |way: Way| {
        let here = || all().filter(|found| found.way == way);
        let null = here().filter_map(|found| found.null_ms).reduce(f64::min);
        strips::Panel {
            title: view.with_way("All frames", way),
            rows: here().map(|found| strip(view, found)).collect(),
            limits: null.map(|ms| (ms, "the instrument alone".to_owned())).into_iter().collect(),
        }
    };
    let caption = "Each strip goes from the smallest delay to the largest; it gets lighter at the median (the gap), at 90 %, \
                   99 % and 99.9 % of the frames. Dashed: the median of the instrument alone, which is in every delay.";
    ranges("Latency by frame size", caption, x, view.ways().into_iter().map(panel).collect())
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
        mark: Mark::Range { edges, largest: all.delay[2] / NS },
        words: delay(quantile(0.5).unwrap_or(all.delay[1] / NS)),
        long: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
    }
}

/// Share of frames with a longer delay than the axis value, one line per size.
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
    let line = |found: &&Latency| {
        Line::new(view.size_style(found.size), &format!("{} B", found.size), tail(&found.all, &grid))
    };
    let of = |way: Way| {
        let lines: Vec<Line> = all.iter().filter(|found| found.way == way).filter_map(line).collect();
        let curves = Curves {
            x_label: "one-way delay".into(),
            x,
            columns: grid.iter().map(|ms| format!("longer than {}", delay(*ms))).collect(),
            panels: vec![Panel::new("Frames that took longer, %", y, 240.0, lines)],
            gaps: Vec::new(),
            is_dense: true,
        };
        let caption =
            "Both axes are logarithmic: one in a thousand frames took longer than where a line meets 0.1 %.";
        Chart::new(view.with_way("Frames that took longer", way), caption, Shape::Curves(curves))
    };
    let has = |way: &Way| all.iter().any(|found| found.way == *way);
    view.ways().into_iter().filter(has).map(of).collect()
}

fn frames(all: &Delays) -> f64 {
    all.histogram.iter().map(|(_, frames)| *frames as f64).sum()
}

/// Share of frames above each delay of `grid`, ms, until it is zero.
fn tail<'a>(all: &'a Delays, grid: &'a [f64]) -> impl Iterator<Item = Point> + 'a {
    let total = frames(all).max(1.0);
    let beyond = move |ms: f64| {
        let within = all.histogram.iter().take_while(|(upper, _)| *upper <= ms * NS);
        1.0 - within.map(|(_, frames)| *frames as f64).sum::<f64>() / total
    };
    let point = move |(column, ms): (usize, &f64)| {
        let share = beyond(*ms);
        let words = format!("{} of the frames", percent(share));
        (share > 1e-12).then_some(Point { column, x: *ms, y: share, words, ..Point::default() })
    };
    grid.iter().enumerate().filter_map(point)
}

/// Delay of each service in each run: minimum, mean, maximum.
fn run_strips(view: &View) -> Option<Chart> {
    let all = || view.report.performance.iter().filter_map(|line| Some((line, line.figures.delay_ms?)));
    let x = Scale::log(all().flat_map(|(_, [low, _, high])| [low, high]), Unit::Delay);
    let panel = |(name, way): (&str, Way)| {
        let here = all().filter(|(line, _)| line.service == name && line.way == way);
        let row = |(line, [low, mean, high]): (&Performance, [f64; 3])| Row {
            style: view.service_style(name),
            name: format!("run {}", line.run),
            mark: Mark::Range { edges: vec![low, mean], largest: high },
            words: format!("{}, lost {}", delay(mean), lost_words(&line.figures)),
            long: format!("{} (mean), {} to {}", delay(mean), delay(low), delay(high)),
        };
        let limit = view.report.performance.iter().find(|line| line.service == name);
        let limit = limit.and_then(|line| line.limits.delay_ms).filter(|ms| *ms <= x.ends()[1]);
        strips::Panel {
            title: view.with_way(name, way),
            rows: here.map(row).collect(),
            limits: limit.map(|ms| (ms, format!("limit of the mean: {}", delay(ms)))).into_iter().collect(),
        }
    };
    let panels = view.services_and_ways().map(panel).collect();
    let caption = "From the smallest delay to the largest of the available seconds; dark up to the mean, whose number stands \
                   beside.";
    ranges("Delay of each run", caption, x, panels)
}
