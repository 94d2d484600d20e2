//! The tables of RFC 2544's tests.

use super::view::{NONE, View, mean_and_ends, or_none};
use crate::report::table::{Row, Table};
use crate::report::view::distinct;
use crate::service::result::{BackToBack, FrameLoss, Latency, Recovery, Report, Throughput, Way};
use crate::words::{count, delay, percent, rate, significant};

/// ns in a ms.
const NS: f64 = 1e6;
/// So near to the line's highest rate a throughput is the line's.
const OF_LINE: f64 = 0.999;

/// A row for each test and way, behind those of services.
pub(super) fn glance(report: &Report, table: &mut Table) {
    let view = View::new(report);
    for way in view.ways() {
        let mut row = |what: &str, measured: Vec<String>| {
            if !measured.is_empty() {
                table.push(None, [view.with_way(what, way), measured.join(", "), NONE.into()]);
            }
        };
        let here = |of: Way| of == way;
        let found = report.throughput.iter().filter(|found| here(found.way));
        row(
            "Throughput",
            found.map(|found| format!("{} B {}", found.size, throughput_words(found))).collect(),
        );
        let found = report.latency.iter().filter(|found| here(found.way));
        row("Latency", found.map(|found| format!("{} B {}", found.size, delay(latency_ms(found)))).collect());
        let sizes =
            distinct(report.frame_loss.iter().filter(|point| here(point.way)).map(|point| point.size));
        row("Frame loss", sizes.iter().map(|size| loss_words(report, *size, way)).collect());
        let found = report.back_to_back.iter().filter(|found| here(found.way));
        row("Back-to-back", found.filter_map(burst_words).collect());
        let found = report.recovery.iter().filter(|found| here(found.way));
        row("Recovery", found.filter_map(recovery_words).collect());
    }
}

/// The highest rate without loss, and what stopped it: "612 kpps (41.1 %)", "the line's".
pub(super) fn throughput_words(found: &Throughput) -> String {
    match found.pps {
        None if found.upper_pps.is_none() => "not found".into(),
        None => "none".into(),
        Some(pps) if pps >= OF_LINE * found.line_pps => "the line's".into(),
        Some(pps) => {
            let least = if found.upper_pps.is_none() { "≥ " } else { "" };
            format!("{least}{} ({})", rate(pps), percent(pps / found.line_pps))
        }
    }
}

/// RFC 2544's latency: the mean of the tagged frames, or of all where none was tagged; ms.
pub(super) fn latency_ms(found: &Latency) -> f64 {
    mean_and_ends(&found.tagged_ms).map_or(found.all.delay[1] / NS, |[mean, ..]| mean)
}

/// Where loss begins at a size: "512 B none", "64 B from 50 %".
fn loss_words(report: &Report, size: u32, way: Way) -> String {
    let here =
        report.frame_loss.iter().filter(|point| point.size == size && point.way == way && point.loss > 0.0);
    match here.map(|point| point.load).reduce(f64::min) {
        None => format!("{size} B none"),
        Some(load) => format!("{size} B from {}", percent(load)),
    }
}

fn burst_words(found: &BackToBack) -> Option<String> {
    let [mean, ..] = mean_and_ends(&counts(found))?;
    let least = if is_all(found) { "≥ " } else { "" };
    Some(format!("{} B {least}{}", found.size, count(mean.round() as u64)))
}

fn recovery_words(found: &Recovery) -> Option<String> {
    let [mean, ..] = mean_and_ends(&found.seconds)?;
    Some(format!("{} B {}", found.size, delay(mean * 1e3)))
}

pub(super) fn counts(found: &BackToBack) -> Vec<f64> {
    found.frames.iter().map(|frames| *frames as f64).collect()
}

/// Whether some repetition lost nothing in the longest burst that was tried: there is no more than a lower bound.
pub(super) fn is_all(found: &BackToBack) -> bool {
    found.frames.contains(&found.frames_max)
}

/// A row for each size: the highest rate without loss beside the line's.
pub fn throughput(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "frames, with FCS",
        ">without loss",
        ">Mbit/s",
        ">of the line",
        ">the line's",
        ">loss from",
        "result",
        "?searched by",
        "?>trials",
    ];
    let mut table = Table::new("Throughput", &heads);
    for found in &report.throughput {
        let row = [
            view.sized(found.size, found.way),
            or_none(found.pps.map(rate)),
            or_none(found.pps.map(|pps| significant(pps * f64::from(found.size) * 8.0 / 1e6))),
            or_none(found.pps.map(|pps| percent(pps / found.line_pps))),
            rate(found.line_pps),
            or_none(found.upper_pps.map(rate)),
            result_words(found).into(),
            method_words(&found.method),
            found.trials.len().to_string(),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// What was the limit, as far as it is known (RFC 9971: an irregular result has to be marked).
fn result_words(found: &Throughput) -> &'static str {
    match (found.pps, found.upper_pps) {
        (Some(pps), _) if pps >= OF_LINE * found.line_pps => "the line was the limit",
        (Some(_), None) => "irregular: only a lower bound",
        (Some(_), Some(_)) if found.regular => "the path was the limit",
        (Some(_), Some(_)) => "irregular: not as close as wanted",
        (None, Some(_)) => "irregular: loss at every rate",
        (None, None) => "not found: the instrument was the limit",
    }
}

fn method_words(method: &str) -> String {
    match method {
        "rfc2544" => "RFC 2544 §26.1".into(),
        "mlr" => "RFC 9971".into(),
        other => other.into(),
    }
}

/// A row for each size: RFC 2544's latency, and that of all frames.
pub fn latency(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "frames, with FCS",
        ">rate",
        ">tagged frames|mean",
        "?>tagged frames|of",
        ">all frames|min",
        ">all frames|median",
        "???>all frames|mean",
        ">all frames|99 %",
        "???>all frames|99.9 %",
        ">all frames|max",
        "?>variation|PDV",
        "???>variation|abs. IPDV",
        "????>variation|RFC 4689",
        "????>variation|RFC 3550",
        "?>instrument alone",
    ];
    let mut table = Table::new("Latency", &heads);
    table.note = "Tagged: RFC 2544's latency, one frame of each trial. Variation: means (RFC 3550: at the end). The median of \
                  the instrument alone is in every delay, and taken off none."
        .into();
    for found in &report.latency {
        let all = &found.all;
        let ms = |ns: f64| delay(ns / NS);
        let at = |wanted: f64| {
            let known = all.quantiles.iter().find(|(quantile, _)| (quantile - wanted).abs() < 1e-9);
            or_none(known.map(|(_, ns)| ms(*ns)))
        };
        let row = [
            view.sized(found.size, found.way),
            rate(found.pps),
            or_none(mean_and_ends(&found.tagged_ms).map(|[mean, ..]| delay(mean))),
            if found.tagged_ms.is_empty() { NONE.into() } else { found.tagged_ms.len().to_string() },
            ms(all.delay[0]),
            at(0.5),
            ms(all.delay[1]),
            at(0.99),
            at(0.999),
            ms(all.delay[2]),
            ms(all.pdv[0]),
            ms(all.ipdv[0]),
            ms(all.jitter_4689[0]),
            ms(all.jitter_3550[0]),
            or_none(found.null_ms.map(delay)),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// A row for each load, with a column for each size and way. A star: so much could not be sent.
pub fn frame_loss(report: &Report) -> Table {
    let view = View::new(report);
    let curves = distinct(report.frame_loss.iter().map(|point| (point.size, point.way)));
    let mut loads = distinct(report.frame_loss.iter().map(|point| point.load));
    loads.sort_by(|a, b| b.total_cmp(a));
    let heads = curves.iter().map(|(size, way)| format!(">lost of frames of|{}", view.sized(*size, *way)));
    let heads: Vec<String> = [">offered, of the line".to_owned()].into_iter().chain(heads).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("Frame loss", &heads);
    for load in loads {
        let cell = |(size, way): &(u32, Way)| {
            let is_here = |point: &&FrameLoss| (point.size, point.way, point.load) == (*size, *way, load);
            let point = report.frame_loss.iter().find(is_here);
            or_none(point.map(|point| {
                let star = if fell_short(&view, point) { " *" } else { "" };
                format!("{}{star}", percent(point.loss))
            }))
        };
        let cells = [percent(load)].into_iter().chain(curves.iter().map(cell)).collect();
        table.rows.push(Row { style: None, is_total: false, cells });
    }
    if report.frame_loss.iter().any(|point| fell_short(&view, point)) {
        table.note =
            "*: the instrument sent less than 99 % of what was wanted; the loss is that of what it sent."
                .into();
    }
    table
}

/// Whether less was sent than was wanted, by more than 1 %.
pub(super) fn fell_short(view: &View, point: &FrameLoss) -> bool {
    point.offered_pps < 0.99 * point.load * view.line_pps(point.size)
}

/// A row for each size: the longest bursts without loss, and the buffer that they tell of.
pub fn back_to_back(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "frames, with FCS",
        ">longest burst, frames|mean",
        "?>longest burst, frames|shortest",
        "?>longest burst, frames|longest",
        "??>longest burst, frames|std. deviation",
        "??>longest burst, frames|tried",
        ">repetitions",
        ">rate within",
        ">buffer|as it is",
        ">buffer|corrected",
    ];
    let mut table = Table::new("Back-to-back frames", &heads);
    table.note =
        "The longest burst without loss. Buffer: the mean burst over its rate; corrected for what drained meanwhile by RFC 9004 §5.4.".into();
    for found in &report.back_to_back {
        let ends = mean_and_ends(&counts(found));
        let frames = |i: usize| {
            let least = if i == 0 && is_all(found) { "≥ " } else { "" };
            or_none(ends.map(|ends| format!("{least}{}", count(ends[i].round() as u64))))
        };
        let row = [
            view.sized(found.size, found.way),
            frames(0),
            frames(1),
            frames(2),
            or_none(deviation(&counts(found)).map(|frames| count(frames.round() as u64))),
            count(found.frames_max),
            found.frames.len().to_string(),
            rate(found.pps),
            or_none(found.buffer_s.map(|seconds| delay(seconds * 1e3))),
            or_none(found.buffer_corrected_s.map(|seconds| delay(seconds * 1e3))),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// The standard deviation of a sample (RFC 9004 §6 wants it); `None` of less than two.
fn deviation(values: &[f64]) -> Option<f64> {
    let [mean, ..] = mean_and_ends(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// A row for each size: how long frames were still lost after an overload.
pub fn recovery(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "frames, with FCS",
        ">overload",
        ">lost for so long after it|mean",
        ">lost for so long after it|shortest",
        ">lost for so long after it|longest",
        ">repetitions",
    ];
    let mut table = Table::new("System recovery", &heads);
    for found in &report.recovery {
        let ends = mean_and_ends(&found.seconds);
        let time = |i: usize| or_none(ends.map(|ends| delay(ends[i] * 1e3)));
        let row = [
            view.sized(found.size, found.way),
            rate(found.overload_pps),
            time(0),
            time(1),
            time(2),
            found.seconds.len().to_string(),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// Every trial of every search.
pub fn trials(report: &Report) -> Table {
    let view = View::new(report);
    let heads = ["frames, with FCS", ">trial", ">wanted", ">sent", ">seconds", ">lost"];
    let mut table = Table::new("Every trial", &heads);
    for found in &report.throughput {
        for (i, trial) in found.trials.iter().enumerate() {
            let row = [
                view.sized(found.size, found.way),
                (i + 1).to_string(),
                rate(trial.pps),
                rate(trial.offered_pps),
                significant(trial.seconds),
                percent(trial.loss),
            ];
            table.push(Some(view.size_style(found.size)), row);
        }
    }
    table
}
