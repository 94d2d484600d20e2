//! Charts of rates: highest rate without loss, loss against load, bursts, recovery, and the steps of a service
//! configuration test.

use super::trials::{counts, fell_short, is_all, throughput_words};
use super::view::{Verdict, View, distinct, lost_words, mbps, mean_and_ends};
use crate::report::chart::bars;
use crate::report::chart::curves::{Curves, Line, Panel, Point};
use crate::report::chart::mark::SOURCE;
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::strips::{self, Bar, Mark, Row};
use crate::report::chart::{Chart, Shape};
use crate::service::result::{BackToBack, FrameLoss, Recovery, Step, Throughput, Way};
use quaff::format::{count, delay, percent, rate};

/// The rate without loss per frame size and the line rate, in frames/s and as a share of the line rate.
pub(super) fn throughput(view: &View) -> Option<Chart> {
    let all = &view.report.throughput;
    let most = all.iter().map(|found| found.line_pps).reduce(f64::max).filter(|most| *most > 0.0)?;
    let (unit, label) = if most >= 2e6 { (1e6, "Mpps") } else { (1e3, "kpps") };
    let point = |found: &Throughput, y: f64| Point {
        column: view.size_style(found.size),
        x: f64::from(found.size),
        y,
        ..Point::default()
    };
    let line = |way: Way, y: &dyn Fn(&Throughput, f64) -> f64| {
        let name = if view.is_both { view.way(way) } else { "without loss".into() };
        let here = all.iter().filter(|found| found.way == way);
        let points = here.filter_map(|found| {
            let pps = found.pps?;
            let hollow = found.upper_pps.is_none() && pps < 0.999 * found.line_pps;
            let words = format!("{}, {}", rate(pps), throughput_words(found));
            Some(Point { hollow, words, ..point(found, y(found, pps)) })
        });
        Line::new(usize::from(way == Way::Back), &name, points)
    };
    let lines = |y: &dyn Fn(&Throughput, f64) -> f64| {
        let of_size = |size: &u32| all.iter().find(|found| found.size == *size);
        let of_line = view
            .sizes
            .iter()
            .filter_map(of_size)
            .map(|found| Point { words: rate(found.line_pps), ..point(found, y(found, found.line_pps)) });
        let measured = view.ways().into_iter().filter_map(|way| line(way, y));
        measured.chain(Line::new(SOURCE, "line rate", of_line)).collect()
    };
    let [y, share] = [Scale::over(most / unit, Unit::Number), Scale::up_to(1.0, Unit::Percent)];
    let panels = vec![
        Panel::new(format!("Without loss, {label}"), y, 220.0, lines(&|_, pps| pps / unit)),
        Panel::new("Of the line's rate, %", share, 130.0, lines(&|found, pps| pps / found.line_pps)),
    ];
    let caption = "Line rate: the most that the line can carry. Hollow: nothing was lost at any rate that the instrument \
                   reached, so it was the limit and not the path.";
    let curves = Curves {
        x_label: "bytes of a frame, with FCS (logarithmic)".into(),
        x: Scale::log(view.sizes.iter().map(|size| f64::from(*size)), Unit::Number),
        columns: view.sizes.iter().map(|size| format!("{size} B")).collect(),
        panels,
        gaps: Vec::new(),
        is_dense: false,
    };
    Some(Chart::new("Throughput", caption, Shape::Curves(curves)))
}

/// Loss against the offered load, one line per size.
pub(super) fn losses(view: &View) -> Vec<Chart> {
    let all = &view.report.frame_loss;
    let mut loads = distinct(all.iter().map(|point| point.load));
    loads.sort_by(f64::total_cmp);
    let y = Scale::over(all.iter().map(|point| point.loss).fold(0.0, f64::max), Unit::Loss);
    let line = |size: u32, way: Way| {
        let point = |point: &FrameLoss| Point {
            column: loads.iter().position(|load| *load == point.load).unwrap_or(0),
            x: point.load,
            y: point.loss,
            hollow: fell_short(view, point),
            words: format!("{} lost of {}", percent(point.loss), rate(point.offered_pps)),
            ..Point::default()
        };
        let here = all.iter().filter(|point| point.size == size && point.way == way);
        Line::new(view.size_style(size), &format!("{size} B"), here.map(point))
    };
    let of = |way: Way| {
        let lines = view.sizes.iter().filter_map(|size| line(*size, way)).collect();
        let curves = Curves {
            x_label: "offered, % of the line's rate".into(),
            x: Scale::up_to(loads.last().copied().unwrap_or(1.0).max(1.0), Unit::Percent),
            columns: loads.iter().map(|load| format!("{} of the line", percent(*load))).collect(),
            panels: vec![Panel::new("Lost of what was offered, %", y, 240.0, lines)],
            gaps: Vec::new(),
            is_dense: false,
        };
        let caption =
            "Hollow: the instrument sent less than was wanted there; the loss is that of what it sent.";
        Chart::new(view.with_way("Frame loss", way), caption, Shape::Curves(curves))
    };
    let has = |way: &Way| all.iter().any(|point| point.way == *way);
    view.ways().into_iter().filter(has).map(of).collect()
}

/// The mean of `dots` as a bar, with all of them on it.
fn bar(view: &View, size: u32, dots: Vec<f64>, hollow: bool, [words, long]: [String; 2]) -> Option<Row> {
    let [mean, low, high] = mean_and_ends(&dots)?;
    let mark = Mark::Bar(Bar { parts: vec![mean], spread: Some([low, high]), dots, hollow, kept: None });
    Some(Row { style: view.size_style(size), name: format!("{size} B"), mark, words, long })
}

/// One panel per direction.
fn panels(view: &View, title: &str, rows: impl Fn(Way) -> Vec<Row>) -> Vec<strips::Panel> {
    let title = |way| view.with_way(title, way);
    let panel = |way| strips::Panel { title: title(way), rows: rows(way), limits: Vec::new() };
    view.ways().into_iter().map(panel).collect()
}

/// The longest bursts without loss.
pub(super) fn bursts(view: &View) -> Vec<Chart> {
    let row = |found: &BackToBack| {
        let [mean, low, high] = mean_and_ends(&counts(found))?.map(|frames| count(frames.round() as u64));
        let words = format!("{}{mean}", if is_all(found) { "≥ " } else { "" });
        let buffer = found.buffer_corrected_s.or(found.buffer_s);
        let buffer = buffer.map(|s| format!(", buffer {}", delay(s * 1e3))).unwrap_or_default();
        let long = format!("{words} frames ({low} to {high}) at {}{buffer}", rate(found.pps));
        let thousands = found.frames.iter().map(|frames| *frames as f64 / 1e3).collect();
        bar(view, found.size, thousands, is_all(found), [words, long])
    };
    let rows =
        |way| view.report.back_to_back.iter().filter(|found| found.way == way).filter_map(row).collect();
    let caption = "Bar: the mean of the longest bursts, sent at the smallest gap, of which nothing was lost. Line: from the \
                   shortest to the longest. Hollow: longer ones were not tried.";
    let panels = panels(view, "Bursts", rows);
    bars("Back-to-back frames", "thousand frames", caption, Unit::Number, panels)
}

/// Time of loss after an overload.
pub(super) fn recoveries(view: &View) -> Vec<Chart> {
    let row = |found: &Recovery| {
        let ms: Vec<f64> = found.seconds.iter().map(|seconds| seconds * 1e3).collect();
        let [mean, low, high] = mean_and_ends(&ms)?.map(delay);
        let long = format!("{mean} ({low} to {high}) after {}", rate(found.overload_pps));
        bar(view, found.size, ms, !found.notes.is_empty(), [mean, long])
    };
    let rows = |way| view.report.recovery.iter().filter(|found| found.way == way).filter_map(row).collect();
    let caption = "From the moment at which the rate was halved to the last frame that was lost. Line: from the shortest to \
                   the longest of the repetitions. Hollow: the table says what has to be known.";
    bars("System recovery", "ms", caption, Unit::Number, panels(view, "Recovery", rows))
}

/// Received rate of each step of the service configuration test as a share of the CIR.
pub(super) fn steps(view: &View) -> Vec<Chart> {
    let panel = |(name, way): (&str, Way)| {
        let service = view.report.plan.services.iter().find(|service| service.name == name);
        let cir = service.map_or(0.0, |service| service.cir_mbps);
        let here = view.report.configuration.iter().filter(|step| step.service == name && step.way == way);
        let rates = service.map(|service| match service.eir_mbps {
            eir if eir > 0.0 => format!(": CIR {cir}, EIR {eir} Mbit/s"),
            _ => format!(": CIR {cir} Mbit/s"),
        });
        strips::Panel {
            title: format!("{}{}", view.with_way(name, way), rates.unwrap_or_default()),
            rows: here.filter(|_| cir > 0.0).map(|step| step_bar(view, step, cir)).collect(),
            limits: vec![(1.0, String::new())],
        }
    };
    let caption = "Bar: what arrived, the mean of the seconds. Line: from the least second to the most. Dashed: the \
                   committed rate. Hollow: a limit did not hold.";
    let panels = view.services_and_ways().map(panel).collect();
    bars("Service configuration", "received, % of the committed rate", caption, Unit::Percent, panels)
}

fn step_bar(view: &View, step: &Step, cir: f64) -> Row {
    let figures = &step.figures;
    let [low, mean, high] = figures.received_mbps.map(|mbps| mbps / cir);
    let verdict = Verdict::of(&step.checks);
    let sign = match verdict {
        Verdict::Pass => " ✓",
        Verdict::Fail => " ✗",
        Verdict::Open | Verdict::None => "",
    };
    let late =
        figures.delay_ms.map(|[_, mean, high]| format!(", delay {} (up to {})", delay(mean), delay(high)));
    let (late, lost) = (late.unwrap_or_default(), lost_words(figures));
    let [received, asked] = [figures.received_mbps[1], figures.asked_mbps].map(mbps);
    Row {
        style: view.service_style(&step.service),
        name: step.what.clone(),
        mark: Mark::Bar(Bar {
            parts: vec![mean],
            spread: (high > low).then_some([low, high]),
            hollow: verdict == Verdict::Fail,
            ..Bar::default()
        }),
        words: format!("{received} Mbit/s{sign}"),
        long: format!("{received} of {asked} Mbit/s{sign}, lost {lost}{late}"),
    }
}
