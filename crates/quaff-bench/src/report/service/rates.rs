//! Pictures of rates: the highest without loss, loss against load, bursts, recovery, and the steps of a
//! service configuration test.

use super::charts::{chart, titled};
use super::trials::{counts, fell_short, is_all, throughput_words};
use super::view::{Verdict, View, lost_words, mbps, mean_and_ends};
use crate::report::chart::bars::{self, Bar, Bars};
use crate::report::chart::curves::{Curves, Line, Panel, Point};
use crate::report::chart::mark::SOURCE;
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::{Chart, Shape};
use crate::report::view::distinct;
use crate::service::result::{FrameLoss, Step, Throughput, Way};
use crate::words::{count, delay, percent, rate};

/// The rate without loss over the size, with the line's above it, in frames and as a share of the line.
pub(super) fn throughput(view: &View) -> Vec<Chart> {
    let all = &view.report.throughput;
    let most = all.iter().map(|found| found.line_pps).fold(0.0, f64::max);
    if most <= 0.0 {
        return Vec::new();
    }
    let (unit, label) = if most >= 2e6 { (1e6, "Mpps") } else { (1e3, "kpps") };
    let line = |way: Way, y: &dyn Fn(&Throughput, f64) -> f64| {
        let here = all.iter().filter(|found| found.way == way);
        let point = |found: &Throughput| {
            let pps = found.pps?;
            let is_line = pps >= 0.999 * found.line_pps;
            Some(Point {
                column: view.size_style(found.size),
                x: f64::from(found.size),
                y: y(found, pps),
                spread: None,
                hollow: found.upper_pps.is_none() && !is_line,
                words: format!("{}, {}", rate(pps), throughput_words(found)),
            })
        };
        let mut points: Vec<Point> = here.filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let name = if view.is_both { view.way(way) } else { "measured" };
        Line { style: usize::from(way == Way::Back), name: name.into(), points }
    };
    let lines = |y: &dyn Fn(&Throughput, f64) -> f64| {
        let mut lines: Vec<Line> = view.ways().into_iter().map(|way| line(way, y)).collect();
        lines.retain(|line| !line.points.is_empty());
        lines.push(of_line(view, y));
        lines
    };
    let panel =
        |label: String, y: Scale, height, lines| Panel { label, y, height, limits: Vec::new(), lines };
    let panels = vec![
        panel(
            format!("Without loss, {label}"),
            Scale::over(most / unit, Unit::Number),
            220.0,
            lines(&|_, pps| pps / unit),
        ),
        panel(
            "Of the line's rate, %".into(),
            Scale::up_to(1.0, Unit::Percent),
            130.0,
            lines(&|found, pps| pps / found.line_pps),
        ),
    ];
    let caption = "Dashed: the most that the line can carry. Hollow: nothing was lost at any rate that the instrument \
                   reached, so it was the limit and not the path.";
    let curves = Curves {
        x_label: "bytes of a frame, with FCS (logarithmic)".into(),
        x: Scale::log(view.sizes.iter().map(|size| f64::from(*size)), Unit::Number),
        columns: view.sizes.iter().map(|size| format!("{size} B")).collect(),
        panels,
        gaps: Vec::new(),
        is_dense: false,
    };
    vec![chart("Throughput", caption, Shape::Curves(curves))]
}

/// What the line could carry at each size.
fn of_line(view: &View, y: &dyn Fn(&Throughput, f64) -> f64) -> Line {
    let mut seen = Vec::new();
    for found in &view.report.throughput {
        if !seen.iter().any(|known: &&Throughput| known.size == found.size) {
            seen.push(found);
        }
    }
    seen.sort_by_key(|found| found.size);
    let point = |found: &&Throughput| Point {
        column: view.size_style(found.size),
        x: f64::from(found.size),
        y: y(found, found.line_pps),
        spread: None,
        hollow: false,
        words: rate(found.line_pps),
    };
    Line { style: SOURCE, name: "the line".into(), points: seen.iter().map(point).collect() }
}

/// Loss against the offered load, a line for each size.
pub(super) fn losses(view: &View) -> Vec<Chart> {
    let all = &view.report.frame_loss;
    let mut loads = distinct(all.iter().map(|point| point.load));
    loads.sort_by(f64::total_cmp);
    let y = Scale::of_ratio(all.iter().map(|point| point.loss).fold(0.0, f64::max));
    let line = |size: u32, way: Way| {
        let point = |point: &FrameLoss| Point {
            column: loads.iter().position(|load| *load == point.load).unwrap_or(0),
            x: point.load,
            y: point.loss,
            spread: None,
            hollow: fell_short(view, point),
            words: format!("{} lost of {}", percent(point.loss), rate(point.offered_pps)),
        };
        let here = all.iter().filter(|point| point.size == size && point.way == way);
        let mut points: Vec<Point> = here.map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line { style: view.size_style(size), name: format!("{size} B"), points }
    };
    let of = |way: Way| {
        let mut lines: Vec<Line> = view.sizes.iter().map(|size| line(*size, way)).collect();
        lines.retain(|line| !line.points.is_empty());
        let label = "Lost of what was offered, %".into();
        let curves = Curves {
            x_label: "offered, % of the line's rate".into(),
            x: Scale::up_to(loads.last().copied().unwrap_or(1.0).max(1.0), Unit::Percent),
            columns: loads.iter().map(|load| format!("{} of the line", percent(*load))).collect(),
            panels: vec![Panel { label, y, height: 240.0, limits: Vec::new(), lines }],
            gaps: Vec::new(),
            is_dense: false,
        };
        let caption =
            "Hollow: the instrument sent less than was wanted there; the loss is that of what it sent.";
        chart(&titled(view, "Frame loss", way), caption, Shape::Curves(curves))
    };
    let has = |way: &Way| all.iter().any(|point| point.way == *way);
    view.ways().into_iter().filter(has).map(of).collect()
}

/// Panels on one scale as one picture; nothing when there is nothing in them.
fn barred(title: &str, label: &str, caption: &str, panels: Vec<bars::Panel>, unit: Unit) -> Vec<Chart> {
    let panels: Vec<bars::Panel> = panels.into_iter().filter(|panel| !panel.bars.is_empty()).collect();
    if panels.is_empty() {
        return Vec::new();
    }
    let top = |bar: &Bar| bar.spread.map_or(0.0, |spread| spread[1]).max(bar.parts.iter().sum());
    let most = panels.iter().flat_map(|panel| &panel.bars).map(top).fold(0.0, f64::max);
    let limit = panels.iter().filter_map(|panel| panel.limit).fold(0.0, f64::max);
    let bars = Bars { label: label.into(), x: Scale::over(most.max(limit), unit), panels };
    vec![chart(title, caption, Shape::Bars(bars))]
}

/// The mean of `values` as a bar with all of them upon it.
fn bar(view: &View, size: u32, values: &[f64], hollow: bool, [words, long]: [String; 2]) -> Option<Bar> {
    let [mean, low, high] = mean_and_ends(values)?;
    Some(Bar {
        style: view.size_style(size),
        name: format!("{size} B"),
        parts: vec![mean],
        spread: Some([low, high]),
        dots: values.to_vec(),
        hollow,
        words,
        long,
    })
}

/// The longest bursts without loss.
pub(super) fn bursts(view: &View) -> Vec<Chart> {
    let panel = |way: Way| {
        let here = view.report.back_to_back.iter().filter(|found| found.way == way);
        let one = |found: &crate::service::result::BackToBack| {
            let [mean, low, high] = mean_and_ends(&counts(found))?.map(|frames| count(frames.round() as u64));
            let least = if is_all(found) { "≥ " } else { "" };
            let buffer =
                found.buffer_corrected_s.or(found.buffer_s).map(|s| format!(", buffer {}", delay(s * 1e3)));
            let long = format!(
                "{least}{mean} frames ({low} to {high}) at {}{}",
                rate(found.pps),
                buffer.unwrap_or_default()
            );
            let thousands: Vec<f64> = found.frames.iter().map(|frames| *frames as f64 / 1e3).collect();
            bar(view, found.size, &thousands, is_all(found), [format!("{least}{mean}"), long])
        };
        bars::Panel { title: view.with_way("Bursts", way), bars: here.filter_map(one).collect(), limit: None }
    };
    let caption = "Bar: the mean of the longest bursts, sent at the smallest gap, of which nothing was lost. Line: from the \
                   shortest to the longest. Hollow: longer ones were not tried.";
    let panels = view.ways().into_iter().map(panel).collect();
    barred("Back-to-back frames", "thousand frames", caption, panels, Unit::Number)
}

/// How long frames were still lost after an overload.
pub(super) fn recoveries(view: &View) -> Vec<Chart> {
    let panel = |way: Way| {
        let here = view.report.recovery.iter().filter(|found| found.way == way);
        let one = |found: &crate::service::result::Recovery| {
            let ms: Vec<f64> = found.seconds.iter().map(|seconds| seconds * 1e3).collect();
            let [mean, low, high] = mean_and_ends(&ms)?.map(delay);
            let long = format!("{mean} ({low} to {high}) after {}", rate(found.overload_pps));
            bar(view, found.size, &ms, !found.notes.is_empty(), [mean, long])
        };
        bars::Panel {
            title: view.with_way("Recovery", way),
            bars: here.filter_map(one).collect(),
            limit: None,
        }
    };
    let caption = "From the moment at which the rate was halved to the last frame that was lost. Line: from the shortest to \
                   the longest of the repetitions. Hollow: the table says what has to be known.";
    let panels = view.ways().into_iter().map(panel).collect();
    barred("System recovery", "ms", caption, panels, Unit::Number)
}

/// What arrived in each step of the service configuration test, as a share of the service's CIR.
pub(super) fn steps(view: &View) -> Vec<Chart> {
    let panel = |(name, way): (&str, Way)| {
        let service = view.report.plan.services.iter().find(|service| service.name == name);
        let cir = service.map_or(0.0, |service| service.cir_mbps);
        let here = view.report.configuration.iter().filter(|step| step.service == name && step.way == way);
        let bars: Vec<Bar> = here.filter_map(|step| step_bar(view, step, cir)).collect();
        let rates = service.map(|service| match service.eir_mbps {
            eir if eir > 0.0 => format!(": CIR {cir}, EIR {eir} Mbit/s"),
            _ => format!(": CIR {cir} Mbit/s"),
        });
        let title = format!("{}{}", view.with_way(name, way), rates.unwrap_or_default());
        bars::Panel { title, bars, limit: Some(1.0) }
    };
    let pairs = view.services.iter().flat_map(|name| view.ways().into_iter().map(|way| (*name, way)));
    let caption = "Bar: what arrived, the mean of the seconds. Line: from the least second to the most. Dashed: the \
                   committed rate. Hollow: a limit did not hold.";
    let panels = pairs.map(panel).collect();
    barred("Service configuration", "received, % of the committed rate", caption, panels, Unit::Percent)
}

fn step_bar(view: &View, step: &Step, cir: f64) -> Option<Bar> {
    let figures = &step.figures;
    if cir <= 0.0 {
        return None;
    }
    let [low, mean, high] = figures.received_mbps.map(|mbps| mbps / cir);
    let verdict = Verdict::of(&step.checks);
    let mark = match verdict {
        Verdict::Pass => " ✓",
        Verdict::Fail => " ✗",
        Verdict::Open | Verdict::None => "",
    };
    let late =
        figures.delay_ms.map(|[_, mean, high]| format!(", delay {} (up to {})", delay(mean), delay(high)));
    Some(Bar {
        style: view.service_style(&step.service),
        name: step.what.clone(),
        parts: vec![mean],
        spread: (high > low).then_some([low, high]),
        dots: Vec::new(),
        hollow: verdict == Verdict::Fail,
        words: format!("{} Mbit/s{mark}", mbps(figures.received_mbps[1])),
        long: format!(
            "{} of {} Mbit/s{mark}, lost {}{}",
            mbps(figures.received_mbps[1]),
            mbps(figures.asked_mbps),
            lost_words(figures),
            late.unwrap_or_default()
        ),
    })
}
