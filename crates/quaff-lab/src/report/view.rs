//! What a report says about its cases, in words and in figures that are read off the runs. Both the tables
//! and the pictures come from here, so that they agree.

use super::words::{count, percent, rate, significant};
use crate::bench::plan::Setting;
use crate::bench::result::{Case, LimitedBy, Report, Run};
use crate::stats::median;

/// A report, and which rival has which colour.
pub(super) struct View<'a> {
    pub(super) report: &'a Report,
    /// Names in the order of the plan, then of appearance.
    pub(super) names: Vec<&'a str>,
    several_series: bool,
    /// A series has cases of several settings.
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
        let settings = distinct(report.cases.iter().map(|case| (case.series.as_str(), &case.setting)));
        let several_settings = settings.len() > series.len();
        Self { report, names, several_series: series.len() > 1, several_settings }
    }

    pub(super) fn style(&self, rival: &str) -> usize {
        self.names.iter().position(|name| *name == rival).unwrap_or(self.names.len())
    }

    pub(super) fn cases_of<'b>(&'b self, rival: &'b str) -> impl Iterator<Item = &'a Case> + use<'a, 'b> {
        self.report.cases.iter().filter(move |case| case.rival == rival)
    }

    /// "512 B, 400 kpps", with the series and the interface when there are several.
    pub(super) fn workload(&self, case: &Case) -> String {
        let plain = format!("{}, {}", size_words(case), case.rate);
        [self.place(case), plain]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// The interface, the series and the setting, as far as there are several.
    pub(super) fn place(&self, case: &Case) -> String {
        let series = if self.several_series { case.series.as_str() } else { "" };
        let mut parts = vec![case.interface.clone().unwrap_or_default(), series.into()];
        if self.several_settings {
            parts.extend(case.setting.words());
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }
}

/// Each once, in the order of appearance.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// "512 B", or "imix (mean 340 B)".
pub(super) fn size_words(case: &Case) -> String {
    frames_words(case.size, case.mix.as_deref())
}

/// The same of frames that are no case's.
pub(super) fn frames_words(size: u32, mix: Option<&str>) -> String {
    match mix {
        Some(mix) => format!("{mix} (mean {size} B)"),
        None => format!("{size} B"),
    }
}

/// What a search was about: its frames, and what differs from the default.
pub(super) fn found_words(size: u32, mix: Option<&str>, setting: &Setting) -> String {
    let mut words = vec![frames_words(size, mix)];
    words.extend(setting.words());
    words.join(", ")
}

/// The runs of a case that came to their end.
pub(super) fn whole(case: &Case) -> impl Iterator<Item = &Run> {
    case.runs.iter().filter(|run| run.failed.is_none())
}

/// Whether all of its runs ended well, and none of them lost a frame.
pub(super) fn is_lossless(case: &Case) -> bool {
    let mut losses = whole(case).filter_map(|run| run.loss).peekable();
    losses.peek().is_some() && losses.all(|loss| loss == 0.0)
}

/// Frames/s that arrived: the median of the runs.
pub(super) fn offered_pps(case: &Case) -> Option<f64> {
    let of = |run: &Run| (run.seconds > 0.0).then(|| run.offered as f64 / run.seconds);
    median(&whole(case).filter_map(of).collect::<Vec<_>>())
}

/// Cores that the capturer's processes took in a run: in their own code, and in the kernel.
pub(super) fn cpu_of(run: &Run) -> Option<[f64; 2]> {
    (run.seconds > 0.0).then(|| [run.cpu_user_s / run.seconds, run.cpu_system_s / run.seconds])
}

/// CPU time for each packet captured, ns: the median of the cases.
pub(super) fn cpu_per_packet<'a>(cases: impl Iterator<Item = &'a Case>) -> Option<f64> {
    let of = |case: &Case| {
        let packets: u64 = whole(case).filter_map(|run| run.captured).sum();
        let seconds: f64 = whole(case).map(|run| run.cpu_user_s + run.cpu_system_s).sum();
        (packets > 0).then(|| seconds * 1e9 / packets as f64)
    };
    median(&cases.filter_map(of).collect::<Vec<_>>())
}

/// Soft interrupts on all cores, 1 = a core: the median of the runs.
pub(super) fn softirq(case: &Case) -> Option<f64> {
    let of = |run: &Run| run.cores.iter().map(|core| core.softirq).sum::<f64>();
    median(&whole(case).filter(|run| !run.cores.is_empty()).map(of).collect::<Vec<_>>())
}

/// A capturer's own drop counter beside what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) told: u64,
    pub(super) lost: u64,
}

/// What it said in all runs where it said something and where we could count; `None`: in none.
pub(super) fn told<'a>(runs: impl Iterator<Item = &'a Run>) -> Option<Told> {
    let of = |run: &Run| Some((run.tool_drops?, run.offered.saturating_sub(run.captured?)));
    let sum = |sum: Option<Told>, (told, lost): (u64, u64)| {
        let so_far = sum.unwrap_or(Told { told: 0, lost: 0 });
        Some(Told { told: so_far.told + told, lost: so_far.lost + lost })
    };
    runs.filter(|run| run.failed.is_none()).filter_map(of).fold(None, sum)
}

impl Told {
    /// Within 1 %, or three frames.
    pub(super) fn is_right(self) -> bool {
        self.told.abs_diff(self.lost) <= (self.lost / 100).max(3)
    }

    /// "right", "0 of 31,234 lost", "48 % of 31,234 lost", "3.1 × the 400 lost".
    pub(super) fn words(self) -> String {
        let lost = count(self.lost);
        match (self.told, self.lost) {
            (0, 0) => "right: none".into(),
            _ if self.is_right() => "right".into(),
            (0, _) => format!("0 of {lost} lost"),
            (told, 0) => format!("{}, and none was lost", count(told)),
            (told, all) if told < all => format!("{} of {lost} lost", percent(told as f64 / all as f64)),
            (told, all) => format!("{} × the {lost} lost", significant(told as f64 / all as f64)),
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

/// The loss of a case with its spread: "27.4 % (27.0–28.4 %, 5 runs)", or why there is none.
pub(super) fn loss_words(case: &Case) -> String {
    let runs = whole(case).count();
    let runs = if runs == 1 { "1 run".into() } else { format!("{runs} runs") };
    let limit = match case.limited_by {
        LimitedBy::Generator => "; the generator was the limit",
        LimitedBy::Receiver => "; lost before the capturer",
        _ => "",
    };
    match (case.loss_trimmed, case.loss_spread) {
        (Some(loss), Some(spread)) if spread[0] < spread[1] => {
            format!("{} ({}, {runs}){limit}", percent(loss), super::words::percents(spread))
        }
        (Some(loss), _) => format!("{} ({runs}){limit}", percent(loss)),
        (None, _) => failure(case).unwrap_or("nothing to be captured").into(),
    }
}

/// Why its first failed run says nothing.
pub(super) fn failure(case: &Case) -> Option<&str> {
    case.runs.iter().find_map(|run| run.failed.as_deref())
}

/// Frames/s in the words of a source: "400 kpps", "622 Mbit/s", "37.2 % of 1 Gbit/s", "553,097/s".
/// `bytes` is a frame with its FCS.
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

fn bits(words: &str) -> Option<f64> {
    let (number, unit) = split(words)?;
    let unit = unit.trim_end_matches("it/s").trim_end_matches("ps").trim_end_matches("/s");
    let power = ["b", "kb", "mb", "gb", "tb"].iter().position(|known| *known == unit)?;
    Some(number * 1000f64.powi(power as i32))
}

fn split(words: &str) -> Option<(f64, &str)> {
    let words = words.trim();
    let end = words.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(words.len());
    Some((words[..end].parse().ok()?, words[end..].trim()))
}

/// The rate that was asked and the one that came, when they differ by more than 1 %.
pub(super) fn rate_words(case: &Case) -> String {
    match (case.pps, offered_pps(case)) {
        (Some(wanted), Some(came)) if (came / wanted as f64 - 1.0).abs() > 0.01 => {
            format!("{} ({} came)", case.rate, rate(came))
        }
        (None, Some(came)) => format!("{} ({})", case.rate, rate(came)),
        _ => case.rate.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_judged_by_what_was_lost() {
        let words = |told, lost| Told { told, lost }.words();
        assert_eq!(words(0, 0), "right: none");
        assert_eq!(words(31_230, 31_234), "right");
        assert_eq!(words(0, 31_234), "0 of 31,234 lost");
        assert_eq!(words(15_000, 31_250), "48 % of 31,250 lost");
        assert_eq!(words(1240, 400), "3.1 × the 400 lost");
        assert_eq!(words(7, 0), "7, and none was lost");
    }

    #[test]
    fn what_failed_or_was_not_counted_does_not_speak_for_a_counter() {
        let run = |offered, captured, tool_drops| Run { offered, captured, tool_drops, ..Run::default() };
        let failed = Run { failed: Some("hung".into()), ..run(100, Some(0), Some(0)) };
        let all = [run(100, Some(90), Some(3)), run(100, None, Some(9)), run(100, Some(80), None), failed];
        assert_eq!(told(all.iter()), Some(Told { told: 3, lost: 10 }));
        assert_eq!(told(all[3..].iter()), None);
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
