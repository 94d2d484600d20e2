//! The tables of the RFC 2544 tests.

use super::view::{View, distinct, mean_and_ends};
use crate::report::document::method_words;
use crate::report::table::{NONE, Table, or_none};
use crate::service::result::{BackToBack, FrameLoss, Latency, Recovery, Report, Throughput, Way};
use crate::stats::std_dev;
use quaff::format::{count, delay, percent, rate, significant};

/// Nanoseconds per millisecond.
const NS: f64 = 1e6;
/// Share of the line rate from which on the line counts as the limit.
const OF_LINE: f64 = 0.999;

/// The name and the results of each test and direction.
pub(super) fn glance(view: &View) -> Vec<(String, String)> {
    let report = view.report;
    let mut out = Vec::new();
    for way in view.ways() {
        let found = report.throughput.iter().filter(|found| found.way == way);
        let throughput = found.map(|found| format!("{} B {}", found.size, throughput_words(found))).collect();
        let found = report.latency.iter().filter(|found| found.way == way);
        let latency = found.map(|found| format!("{} B {}", found.size, delay(latency_ms(found)))).collect();
        let found = report.frame_loss.iter().filter(|point| point.way == way);
        let sizes = distinct(found.map(|point| point.size));
        let bursts = report.back_to_back.iter().filter(|found| found.way == way);
        let recovery = report.recovery.iter().filter(|found| found.way == way);
        let all: [(&str, Vec<String>); 5] = [
            ("Throughput", throughput),
            ("Latency", latency),
            ("Frame loss", sizes.iter().map(|size| loss_words(report, *size, way)).collect()),
            ("Back-to-back", bursts.filter_map(burst_words).collect()),
            ("Recovery", recovery.filter_map(recovery_words).collect()),
        ];
        let all = all.into_iter().filter(|(_, measured)| !measured.is_empty());
        out.extend(all.map(|(what, measured)| (view.with_way(what, way), measured.join(", "))));
    }
    out
}

/// The highest rate without loss, and its limit: "612 kpps (41.1 %)", "the line's".
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

/// Latency by RFC 2544: the mean of the tagged frames, or of all frames if none was tagged, ms.
pub(super) fn latency_ms(found: &Latency) -> f64 {
    mean_and_ends(&found.tagged_ms).map_or(found.all.delay[1] / NS, |[mean, ..]| mean)
}

/// The load from which on a size has loss: "512 B none", "64 B from 50 %".
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

/// True if some repetition had no loss in the longest tested burst: the result is a lower bound.
pub(super) fn is_all(found: &BackToBack) -> bool {
    found.frames.contains(&found.frames_max)
}

/// One row per size: the highest rate without loss, and the line rate.
pub(super) fn throughput(view: &View) -> Table {
    let mut table = Table::new("Throughput");
    for found in &view.report.throughput {
        let row = [
            ("frames, with FCS", view.sized(found.size, found.way)),
            (">without loss", or_none(found.pps.map(rate))),
            (">Mbit/s", or_none(found.pps.map(|pps| significant(pps * f64::from(found.size) * 8.0 / 1e6)))),
            (">of the line", or_none(found.pps.map(|pps| percent(pps / found.line_pps)))),
            (">the line's", rate(found.line_pps)),
            (">loss from", or_none(found.upper_pps.map(rate))),
            ("result", result_words(found).into()),
            ("?searched by", method_words(&found.method)),
            ("?>trials", found.trials.len().to_string()),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// The limiting part, as far as known (RFC 9971 requires to mark an irregular result).
fn result_words(found: &Throughput) -> &'static str {
    match (found.pps, found.upper_pps) {
        (Some(pps), _) if pps >= OF_LINE * found.line_pps => "the line was the limit",
        (Some(_), None) => "irregular: only a lower bound",
        (Some(_), Some(_)) if found.regular => "the path was the limit",
        (Some(_), Some(_)) => "irregular: not as close as requested",
        (None, Some(_)) => "irregular: loss at every rate",
        (None, None) => "not found: the instrument was the limit",
    }
}

/// One row per size: RFC 2544's latency, and the delay of all frames.
pub(super) fn latency(view: &View) -> Table {
    let mut table = Table::new("Latency");
    table.note = "Tagged: RFC 2544's latency, one frame of each trial. Variation: means (RFC 3550: at the end). The median of \
                  the instrument alone is in every delay, and taken off none."
        .into();
    for found in &view.report.latency {
        let all = &found.all;
        let ms = |ns: f64| delay(ns / NS);
        let at = |wanted: f64| {
            let known = all.quantiles.iter().find(|(quantile, _)| (quantile - wanted).abs() < 1e-9);
            or_none(known.map(|(_, ns)| ms(*ns)))
        };
        let row = [
            ("frames, with FCS", view.sized(found.size, found.way)),
            (">rate", rate(found.pps)),
            (">tagged frames|mean", or_none(mean_and_ends(&found.tagged_ms).map(|[mean, ..]| delay(mean)))),
            (
                "?>tagged frames|of",
                if found.tagged_ms.is_empty() { NONE.into() } else { found.tagged_ms.len().to_string() },
            ),
            (">all frames|min", ms(all.delay[0])),
            (">all frames|median", at(0.5)),
            ("???>all frames|mean", ms(all.delay[1])),
            (">all frames|99 %", at(0.99)),
            ("???>all frames|99.9 %", at(0.999)),
            (">all frames|max", ms(all.delay[2])),
            ("?>variation|PDV", ms(all.pdv[0])),
            ("???>variation|abs. IPDV", ms(all.ipdv[0])),
            ("????>variation|RFC 4689", ms(all.jitter_4689[0])),
            ("????>variation|RFC 3550", ms(all.jitter_3550[0])),
            ("?>instrument alone", or_none(found.null_ms.map(delay))),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// One row per load, one column per size and direction. A star marks a load that could not be sent.
pub(super) fn frame_loss(view: &View) -> Table {
    let curves = distinct(view.report.frame_loss.iter().map(|point| (point.size, point.way)));
    let mut loads = distinct(view.report.frame_loss.iter().map(|point| point.load));
    loads.sort_by(|a, b| b.total_cmp(a));
    let mut table = Table::new("Frame loss");
    for load in loads {
        let cell = |(size, way): &(u32, Way)| {
            let is_here = |point: &&FrameLoss| (point.size, point.way, point.load) == (*size, *way, load);
            let point = view.report.frame_loss.iter().find(is_here);
            let words = |point: &FrameLoss| {
                format!("{}{}", percent(point.loss), if fell_short(view, point) { " *" } else { "" })
            };
            (format!(">lost of frames of|{}", view.sized(*size, *way)), or_none(point.map(words)))
        };
        let first = (">offered, of the line".to_owned(), percent(load));
        table.push(None, [first].into_iter().chain(curves.iter().map(cell)));
    }
    if view.report.frame_loss.iter().any(|point| fell_short(view, point)) {
        table.note =
            "*: the instrument sent less than 99 % of the requested load; the loss is that of the frames sent."
                .into();
    }
    table
}

/// True if the offered load was more than 1 % below the intended one.
pub(super) fn fell_short(view: &View, point: &FrameLoss) -> bool {
    point.offered_pps < 0.99 * point.load * view.line_pps(point.size)
}

/// One row per size: the longest bursts without loss, and the buffer time computed from them.
pub(super) fn back_to_back(view: &View) -> Table {
    let mut table = Table::new("Back-to-back frames");
    table.note =
        "The longest burst without loss. Buffer: the mean burst over its rate; corrected for what drained meanwhile by RFC 9004 §5.4.".into();
    for found in &view.report.back_to_back {
        let ends = mean_and_ends(&counts(found));
        let frames = |i: usize| {
            let least = if i == 0 && is_all(found) { "≥ " } else { "" };
            or_none(ends.map(|ends| format!("{least}{}", count(ends[i].round() as u64))))
        };
        let row = [
            ("frames, with FCS", view.sized(found.size, found.way)),
            (">longest burst, frames|mean", frames(0)),
            ("?>longest burst, frames|shortest", frames(1)),
            ("?>longest burst, frames|longest", frames(2)),
            (
                "??>longest burst, frames|std. deviation",
                or_none(std_dev(&counts(found)).map(|frames| count(frames.round() as u64))),
            ),
            ("??>longest burst, frames|tried", count(found.frames_max)),
            (">repetitions", found.frames.len().to_string()),
            (">rate within", rate(found.pps)),
            (">buffer|as it is", or_none(found.buffer_s.map(|seconds| delay(seconds * 1e3)))),
            (">buffer|corrected", or_none(found.buffer_corrected_s.map(|seconds| delay(seconds * 1e3)))),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// One row per size: the time of loss after an overload.
pub(super) fn recovery(view: &View) -> Table {
    let mut table = Table::new("System recovery");
    for found in &view.report.recovery {
        let ends = mean_and_ends(&found.seconds);
        let time = |i: usize| or_none(ends.map(|ends| delay(ends[i] * 1e3)));
        let row = [
            ("frames, with FCS", view.sized(found.size, found.way)),
            (">overload", rate(found.overload_pps)),
            (">loss after the overload|mean", time(0)),
            (">loss after the overload|shortest", time(1)),
            (">loss after the overload|longest", time(2)),
            (">repetitions", found.seconds.len().to_string()),
        ];
        table.push(Some(view.size_style(found.size)), row);
    }
    table.without_empty()
}

/// All trials of all searches.
pub(super) fn trials(view: &View) -> Table {
    let mut table = Table::new("Every trial");
    for found in &view.report.throughput {
        for (i, trial) in found.trials.iter().enumerate() {
            let row = [
                ("frames, with FCS", view.sized(found.size, found.way)),
                (">trial", (i + 1).to_string()),
                (">wanted", rate(trial.pps)),
                (">sent", rate(trial.offered_pps)),
                (">seconds", significant(trial.seconds)),
                (">lost", percent(trial.loss)),
            ];
            table.push(Some(view.size_style(found.size)), row);
        }
    }
    table
}
