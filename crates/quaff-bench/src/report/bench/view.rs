//! Figures of cases and their texts, for the tables and the charts of a bench.

use crate::bench::plan::Topology;
use crate::bench::result::{Case, LimitedBy, Report};
use crate::bench::summary;
use crate::method::Run;
pub(super) use crate::report::document::distinct;
use crate::stats::{median, spread, trimmed};
use quaff::format::{count, percent, percents, rate, significant};
use quaff_lab::tool::Setting;

/// A report with a colour for each capturer.
pub(super) struct View<'a> {
    pub(super) report: &'a Report,
    /// Capturers in the order of the plan, then of appearance.
    pub(super) names: Vec<&'a str>,
    several_series: bool,
    /// True if a series has cases of one capturer with different settings.
    several_settings: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let plan = report.plan.rivals.iter();
        let facts = report.rivals.iter().map(|rival| &rival.name);
        let cases = report.cases.iter().map(|case| &case.rival);
        let searches = report.searches.iter().map(|search| &search.rival);
        let bursts = report.bursts.iter().map(|burst| &burst.rival);
        let names =
            distinct(plan.chain(facts).chain(cases).chain(searches).chain(bursts).map(String::as_str));
        let series = distinct(report.cases.iter().map(|case| case.series.as_str()));
        let of = |case: &'a Case| (case.series.as_str(), case.rival.as_str());
        let settings = distinct(report.cases.iter().map(|case| (of(case), &case.setting)));
        let several_settings = settings.len() > distinct(report.cases.iter().map(of)).len();
        Self { report, names, several_series: series.len() > 1, several_settings }
    }

    pub(super) fn style(&self, rival: &str) -> usize {
        self.names.iter().position(|name| *name == rival).unwrap_or(self.names.len())
    }

    pub(super) fn cases_of<'b>(&'b self, rival: &'b str) -> impl Iterator<Item = &'a Case> + use<'a, 'b> {
        self.report.cases.iter().filter(move |case| case.rival == rival)
    }

    /// "512 B, 400 kpps", with series and interface if there are several.
    pub(super) fn workload(&self, case: &Case) -> String {
        let plain = format!("{}, {}", size_words(case), case.rate);
        [self.place(case), plain]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// Interface, series and setting, as far as there are several.
    pub(super) fn place(&self, case: &Case) -> String {
        let series = if self.several_series { case.series.as_str() } else { "" };
        let mut parts = vec![case.interface.clone().unwrap_or_default(), series.into()];
        if self.several_settings {
            parts.extend(case.setting.describe());
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }
}

/// "512 B", or "imix (mean 340 B)".
pub(super) fn size_words(case: &Case) -> String {
    frames_words(case.size, case.mix.as_deref())
}

/// The frame size, or the name of the mix with its mean size.
pub(super) fn frames_words(size: u32, mix: Option<&str>) -> String {
    match mix {
        Some(mix) => format!("{mix} (mean {size} B)"),
        None => format!("{size} B"),
    }
}

/// Frames of a search, and its non-default settings.
pub(super) fn found_words(size: u32, mix: Option<&str>, setting: &Setting) -> String {
    let mut words = vec![frames_words(size, mix)];
    words.extend(setting.describe());
    words.join(", ")
}

/// The successful runs of a case.
pub(super) fn whole(case: &Case) -> impl Iterator<Item = &Run> {
    case.runs.iter().filter(|run| run.failed.is_none())
}

/// True if no run failed and none lost a frame.
pub(super) fn is_lossless(case: &Case) -> bool {
    !case.runs.is_empty() && case.runs.iter().all(|run| run.failed.is_none() && run.loss == Some(0.0))
}

/// True if the case can show loss.
pub(super) fn can_lose(case: &Case) -> bool {
    case.runs.iter().any(|run| run.loss.is_some() || run.failed.is_some())
}

/// Returns whether the offered rate was more than 1 % below the requested one, or limited by the generator: the loss
/// does not hold for the requested rate.
pub(super) fn fell_short(case: &Case) -> bool {
    let short = case.pps.zip(offered_pps(case)).is_some_and(|(pps, came)| came < 0.99 * pps as f64);
    short || case.limited_by == LimitedBy::Generator
}

/// True if captured frames are the capturer's own count: it kept nothing that could be counted.
pub(super) fn is_own_word(case: &Case) -> bool {
    whole(case).any(|run| run.counted_by == "tool")
}

/// Offered frames/s: the median of the runs.
pub(super) fn offered_pps(case: &Case) -> Option<f64> {
    let of = |run: &Run| (run.seconds > 0.0).then(|| run.offered as f64 / run.seconds);
    median(&whole(case).filter_map(of).collect::<Vec<_>>())
}

/// The offered rate of cases of one load: "400 kpps", or "1.2 to 1.4 Mpps" if it varies.
pub(super) fn offered_words<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<String> {
    let all: Vec<f64> = cases.filter_map(offered_pps).collect();
    let (low, high) = (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
    Some(if high > low * 1.01 { format!("{} to {}", rate(low), rate(high)) } else { rate(high) })
}

/// The buffer of a capturer: "256 MiB", "its own".
pub(super) fn buffer_words(case: &Case) -> String {
    case.setting.buffer_mib.map_or("its own".into(), |mib| format!("{mib} MiB"))
}

/// CPU use of the capturer's processes in a run, in cores: user, system.
pub(super) fn cpu_of(run: &Run) -> Option<[f64; 2]> {
    (run.seconds > 0.0).then(|| [run.cpu_user_s / run.seconds, run.cpu_system_s / run.seconds])
}

/// CPU time per captured packet, ns: the median of the cases.
pub(super) fn cpu_per_packet<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<f64> {
    let of = |case: &Case| {
        // With several capturers `captured` is the mean, but the time covers all of them.
        let packets: u64 = whole(case).filter_map(|run| run.captured).sum();
        let packets = packets * u64::from(case.setting.capturers.max(1));
        let seconds: f64 = whole(case).map(|run| run.cpu_user_s + run.cpu_system_s).sum();
        (packets > 0).then(|| seconds * 1e9 / packets as f64)
    };
    median(&cases.filter_map(of).collect::<Vec<_>>())
}

/// Soft-interrupt time on all cores, in cores: the median of the runs.
pub(super) fn softirq(case: &Case) -> Option<f64> {
    let of = |run: &Run| run.cores.iter().map(|core| core.softirq).sum::<f64>();
    median(&whole(case).filter(|run| !run.cores.is_empty()).map(of).collect::<Vec<_>>())
}

/// A capturer's own drop counter compared with the loss. Each run is judged separately: an excess in one run does not
/// cancel a deficit in another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DropCounter {
    /// Judged runs, and those in which the counter was right within 1 % or three frames.
    pub(super) runs: u64,
    pub(super) right: u64,
    /// Frames lost in all judged runs.
    pub(super) lost: u64,
    /// Reported and lost frames of runs with a deficit.
    pub(super) less: [u64; 2],
    /// Reported and lost frames of runs with an excess.
    pub(super) more: [u64; 2],
}

/// Judges the counter in all runs that have one and whose captured frames were counted independently; `None` if there
/// is no such run.
pub(super) fn drop_counter<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<DropCounter> {
    let counted = runs.filter(|run| run.failed.is_none() && run.counted_by != "tool");
    let mut sum = DropCounter::default();
    // A capturer cannot know of frames that a mirror port dropped.
    let unknown = |run: &Run| run.line.and_then(|line| line.mirror_dropped).unwrap_or(0);
    let lost = |run: &Run| Some(run.offered.saturating_sub(run.captured?).saturating_sub(unknown(run)));
    for (reported, lost) in counted.filter_map(|run| Some((run.tool_drops?, lost(run)?))) {
        sum.runs += 1;
        sum.lost += lost;
        let side = match reported {
            _ if reported.abs_diff(lost) <= (lost / 100).max(3) => {
                sum.right += 1;
                continue;
            }
            less if less < lost => &mut sum.less,
            _ => &mut sum.more,
        };
        side[0] += reported;
        side[1] += lost;
    }
    (sum.runs > 0).then_some(sum)
}

impl DropCounter {
    /// "right", "0 of 31,234 lost", "right in 12 of 15 runs; else 48 % of 31,234 lost".
    pub(super) fn describe(self) -> String {
        if self.right == self.runs {
            return if self.lost == 0 { "right: none" } else { "right" }.into();
        }
        let [reported, lost] = self.less;
        let less = (lost > 0).then(|| match reported {
            0 => format!("0 of {} lost", count(lost)),
            reported => format!("{} of {} lost", percent(reported as f64 / lost as f64), count(lost)),
        });
        let [reported, lost] = self.more;
        let more = (reported > 0).then(|| match lost {
            0 => format!("{}, and none was lost", count(reported)),
            lost => format!("{} × the {} lost", significant(reported as f64 / lost as f64), count(lost)),
        });
        let wrong = less.into_iter().chain(more).collect::<Vec<_>>().join("; ");
        match self.right {
            0 => wrong,
            right => format!("right in {right} of {} runs; else {wrong}", self.runs),
        }
    }
}

pub(super) fn limit_words(limit: LimitedBy) -> &'static str {
    match limit {
        LimitedBy::Nothing => "nothing",
        LimitedBy::Generator => "the generator",
        LimitedBy::Receiver => "the receiver",
        LimitedBy::Rival => "the capturer",
        LimitedBy::Unknown => "not known",
    }
}

/// The loss of a case: "27.4 % (mean of 3 of 5 runs, 27.2–27.6 %; all: 27.0–28.4 %)", or why it is unknown.
pub(super) fn loss_words(case: &Case) -> String {
    let all = whole(case).count();
    let runs = if all == 1 { "1 run".into() } else { format!("{all} runs") };
    let limit = match case.limited_by {
        LimitedBy::Generator => "; the generator was the limit",
        LimitedBy::Receiver => "; lost before the capturer",
        _ if fell_short(case) => "; frames arrived below the requested rate",
        _ => "",
    };
    let runs = if is_own_word(case) { format!("{runs}, by its own count") } else { runs };
    match (case.loss_trimmed, case.loss_spread) {
        (Some(loss), Some(spread)) if spread[0] < spread[1] => {
            let mean = kept_losses(case).map_or(String::new(), |kept| {
                format!("mean of {} of {runs}, {}; all: ", all - 2, percents(kept))
            });
            let runs = if mean.is_empty() { format!(", {runs}") } else { String::new() };
            format!("{} ({mean}{}{runs}){limit}", percent(loss), percents(spread))
        }
        (Some(loss), _) => format!("{} ({runs}){limit}", percent(loss)),
        (None, _) => failure(case).unwrap_or("nothing to capture").into(),
    }
}

/// Minimum and maximum loss of the runs that the mean includes; `None` if it excludes none.
pub(super) fn kept_losses(case: &Case) -> Option<[f64; 2]> {
    let all = summary::losses(&case.runs);
    let kept = trimmed(&all);
    if kept.len() < all.len() { spread(&kept) } else { None }
}

/// Why its first failed run failed.
pub(super) fn failure(case: &Case) -> Option<&str> {
    case.runs.iter().find_map(|run| run.failed.as_deref())
}

/// Frames/s of a rate as a source writes it: "400 kpps", "622 Mbit/s", "37.2 % of 1 Gbit/s", "553,097/s". `bytes` is
/// the frame size with FCS.
pub(super) fn parse_rate(words: &str, bytes: f64) -> Option<f64> {
    let words = words.replace(',', "").to_lowercase();
    if let Some((percent, link)) = words.split_once('%') {
        let link = link.trim().trim_start_matches("of").trim();
        let bits = if link.is_empty() { 1e9 } else { bits(link)? };
        return Some(percent.trim().parse::<f64>().ok()? / 100.0 * bits / 8.0 / (bytes + 20.0));
    }
    let (number, unit) = split(&words)?;
    match unit {
        "pps" | "/s" | "packets/s" | "frames/s" => Some(number),
        "kpps" => Some(number * 1e3),
        "mpps" => Some(number * 1e6),
        _ => Some(bits(&words)? / 8.0 / bytes),
    }
}

/// Bits/s of a rate as a source writes it.
pub(super) fn bits(words: &str) -> Option<f64> {
    let words = words.replace(',', "").to_lowercase();
    let (number, unit) = split(&words)?;
    let unit = unit.trim_end_matches("it/s").trim_end_matches("ps").trim_end_matches("/s");
    let power = ["b", "kb", "mb", "gb", "tb"].iter().position(|known| *known == unit)?;
    Some(number * 1000f64.powi(power as i32))
}

fn split(words: &str) -> Option<(f64, &str)> {
    let words = words.trim();
    let end = words.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(words.len());
    Some((words[..end].parse().ok()?, words[end..].trim()))
}

/// The requested rate, and the offered one if they differ by more than 1 %.
pub(super) fn rate_words(case: &Case) -> String {
    match (case.pps, offered_pps(case)) {
        (Some(wanted), Some(came)) if (came / wanted as f64 - 1.0).abs() > 0.01 => {
            format!("{} ({} came)", case.rate, rate(came))
        }
        (None, Some(came)) => format!("{} ({})", case.rate, rate(came)),
        _ => case.rate.clone(),
    }
}

/// True if the plan sets the number of lanes of a case.
pub(super) fn has_lanes(case: &Case) -> bool {
    case.setting.lanes.is_some()
}

/// True if the cases are those of a line.
pub(super) fn is_line(view: &View) -> bool {
    matches!(view.report.plan.bed, Topology::Line { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(reported: u64, lost: u64) -> Run {
        let counted_by = "file".into();
        Run {
            offered: 100_000,
            captured: Some(100_000 - lost),
            tool_drops: Some(reported),
            counted_by,
            ..Run::default()
        }
    }

    #[test]
    fn a_counter_is_judged_by_what_was_lost_in_each_run() {
        let words = |runs: &[(u64, u64)]| {
            let runs: Vec<Run> = runs.iter().map(|(reported, lost)| run(*reported, *lost)).collect();
            drop_counter(runs.iter()).unwrap().describe()
        };
        assert_eq!(words(&[(0, 0), (0, 0)]), "right: none");
        assert_eq!(words(&[(31_230, 31_234), (2, 0)]), "right");
        assert_eq!(words(&[(0, 31_234)]), "0 of 31,234 lost");
        assert_eq!(words(&[(15_000, 31_250)]), "48 % of 31,250 lost");
        assert_eq!(words(&[(1240, 400)]), "3.1 × the 400 lost");
        assert_eq!(words(&[(7, 0)]), "7, and none was lost");
        // As much too many as too few is not right.
        assert_eq!(words(&[(60_000, 10_000), (0, 50_000)]), "0 of 50,000 lost; 6 × the 10,000 lost");
        assert_eq!(words(&[(9, 9), (0, 50)]), "right in 1 of 2 runs; else 0 of 50 lost");
    }

    #[test]
    fn failed_and_uncounted_runs_do_not_confirm_a_counter() {
        let failed = Run { failed: Some("hung".into()), ..run(0, 100) };
        let own_word = Run { counted_by: "tool".into(), ..run(5, 5) };
        let uncounted = Run { captured: None, ..run(9, 9) };
        let silent = Run { tool_drops: None, ..run(9, 9) };
        let all = [failed, own_word, uncounted, silent, run(3, 10)];
        assert_eq!(
            drop_counter(all.iter()).map(|sum| (sum.runs, sum.lost, sum.less)),
            Some((1, 10, [3, 10]))
        );
        assert_eq!(drop_counter(all[..4].iter()), None);
    }

    #[test]
    fn rates_of_a_source_are_read() {
        let near = |words, bytes, pps: f64| {
            let read = parse_rate(words, bytes).unwrap();
            assert!((read / pps - 1.0).abs() < 0.001, "{words}: {read}");
        };
        near("37.2 % of 1 Gbit/s", 64.0, 553_571.0);
        near("50 %", 512.0, 117_481.0);
        near("553,097 pps", 64.0, 553_097.0);
        near("1.2 Mpps", 64.0, 1.2e6);
        near("622 Mbit/s", 1518.0, 51_218.0);
        near("1 Gb/s", 1000.0, 125_000.0);
        assert_eq!(parse_rate("as fast as it could", 64.0), None);
        assert_eq!(parse_rate("", 64.0), None);
    }
}
