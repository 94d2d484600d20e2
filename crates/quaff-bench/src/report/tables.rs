//! The tables of a report: the same for the terminal, for Markdown and for the page.

use super::table::Table;
use super::view::{
    View, bits, can_lose, cpu_per_packet, distinct, failure, fell_short, found_words, frames_words,
    is_lossless, limit_words, offered_pps, parse_rate, size_words, softirq, told, whole,
};
use crate::bench::plan::SourceRow;
use crate::bench::result::{Case, GoalRow, LimitedBy, Report, Search};
use crate::method::Sample;
use crate::stats::median;
use crate::words::{clean, count, percent, percents, quote, rate, significant, span};
use quaff_lab::topology::CoreUse;

const NONE: &str = "–";

/// A row for each capturer: how much it lost, what it took, and whether its own drop counter tells the truth.
pub fn summary(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        ">cases",
        ">none lost in",
        ">median lost",
        ">most lost",
        "where",
        ">CPU per packet",
        "its own drop counter",
        ">runs that failed",
    ];
    let mut table = Table::new("At a glance", &heads);
    for name in &view.names {
        let cases: Vec<&Case> = view.cases_of(name).collect();
        if cases.is_empty() {
            continue;
        }
        let losses: Vec<f64> = cases.iter().filter_map(|case| case.loss_trimmed).collect();
        let worst = cases.iter().max_by(|a, b| a.loss_trimmed.total_cmp_none(b.loss_trimmed));
        let worst = worst.filter(|case| case.loss_trimmed.is_some_and(|loss| loss > 0.0));
        let failed = cases.iter().flat_map(|case| &case.runs).filter(|run| run.failed.is_some()).count();
        let counter = told(cases.iter().flat_map(|case| &case.runs));
        let row = [
            (*name).into(),
            cases.len().to_string(),
            none_lost_words(&cases),
            or_none(median(&losses).map(percent)),
            or_none(losses.iter().copied().reduce(f64::max).map(percent)),
            or_none(worst.map(|case| view.workload(case))),
            or_none(cpu_per_packet(cases.iter().copied()).map(|ns| format!("{} ns", significant(ns)))),
            counter.map_or("says nothing".into(), |told| told.words()),
            if failed == 0 { NONE.into() } else { failed.to_string() },
        ];
        table.push(Some(view.style(name)), row);
    }
    table.without_empty()
}

/// A row for each case.
pub fn cases(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        "series",
        "interface",
        "setting",
        ">frames",
        "asked",
        ">offered",
        ">lost",
        ">median",
        ">spread",
        "counted by",
        "its own counter",
        ">CPU, % of a core",
        ">soft interrupts, %",
        "limited by",
        ">runs",
    ];
    let mut table = Table::new("Every case", &heads);
    for case in &report.cases {
        let row = [
            case.rival.clone(),
            case.series.clone(),
            case.interface.clone().unwrap_or_default(),
            case.setting.words().join(", "),
            size_words(case),
            case.rate.clone(),
            or_none(offered_pps(case).map(rate)),
            case.loss_trimmed.map_or_else(|| failure(case).map_or(NONE, |_| "failed").into(), percent),
            or_none(case.loss_median.map(percent)),
            or_none(case.loss_spread.map(percents)),
            distinct(whole(case).map(|run| run.counted_by.as_str())).join(", "),
            told(case.runs.iter()).map_or(NONE.into(), |told| told.words()),
            or_none(case.cpu_median.map(|cores| significant(cores * 100.0))),
            or_none(softirq(case).map(|cores| significant(cores * 100.0))),
            limit_words(case.limited_by).into(),
            runs_words(case),
        ];
        table.push(Some(view.style(&case.rival)), row);
    }
    table.without_empty()
}

/// A row for each search of the highest rate without loss.
pub fn searches(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        ">frames",
        "???method",
        ">highest without loss",
        ">beside the best",
        ">Gbit/s",
        "?>typical",
        "?>lowest with loss",
        ">second search",
        ">apart",
        "???>trials",
        "limited by",
        "??>generator alone",
        "???goal",
    ];
    let mut table = Table::new("Highest rate without loss", &heads);
    for search in &report.searches {
        let what = found(search);
        let best = report.searches.iter().filter(|other| found(other) == what);
        let best = best.filter_map(|other| other.lower_pps).fold(0.0, f64::max);
        let beside =
            search.lower_pps.filter(|_| best > 0.0).map(|pps| format!("{} ×", significant(pps / best)));
        let gbps = |pps: f64| significant(pps * f64::from(search.size) * 8.0 / 1e9);
        let row = [
            search.rival.clone(),
            what,
            method_words(search),
            highest_words(search),
            or_none(beside),
            or_none(search.lower_pps.map(gbps)),
            or_none(search.throughput_pps.map(rate)),
            search.upper_pps.map_or("none found".into(), rate),
            or_none(search.again.map(|again| rate(again[0]))),
            or_none(search.again.map(|again| percent(again[1]))),
            search.trials.len().to_string(),
            limit_words(search.limited_by).into(),
            rate(search.max_pps),
            or_none(search.goal.map(|goal| goal_words(&goal, search.width))),
        ];
        table.push(Some(view.style(&search.rival)), row);
    }
    table.without_empty()
}

/// What a rate had to stand, all of it (RFC 9971: to be reported).
fn goal_words(goal: &GoalRow, width: f64) -> String {
    let [first, last, sum] = [goal.initial_seconds, goal.final_seconds, goal.duration_sum_s].map(span);
    let from = if first == last { String::new() } else { format!("{first} to ") };
    let [lost, exceed, width] = [goal.loss_ratio, goal.exceed_ratio, width].map(percent);
    format!(
        "{lost} lost; trials of {from}{last}, {sum} decide, {exceed} of that may lose more; width {width}"
    )
}

/// A row for each search of the longest burst without loss.
pub fn bursts(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        ">frames",
        ">longest burst, median",
        ">from – to",
        ">repeated",
        ">at",
        ">buffer time",
        ">corrected",
    ];
    let mut table = Table::new("Longest burst without loss", &heads);
    let ms = |seconds: f64| format!("{} ms", significant(seconds * 1e3));
    for burst in &report.bursts {
        let most = burst.frames_max;
        let frames = |n: u64| if n >= most { format!("≥ {}", count(most)) } else { count(n) };
        let median = median(&burst.frames.iter().map(|n| *n as f64).collect::<Vec<_>>());
        let (low, high) = (burst.frames.iter().min(), burst.frames.iter().max());
        let row = [
            burst.rival.clone(),
            found_words(burst.size, burst.mix.as_deref(), &burst.setting),
            or_none(median.map(|n| frames(n as u64))),
            or_none(low.zip(high).map(|(low, high)| format!("{} – {}", frames(*low), frames(*high)))),
            burst.frames.len().to_string(),
            rate(burst.pps),
            or_none(burst.buffer_s.map(ms)),
            or_none(burst.buffer_corrected_s.map(ms)),
        ];
        table.push(Some(view.style(&burst.rival)), row);
    }
    table.without_empty()
}

/// The source's own numbers, and ours of the same frames at the same rate.
pub fn source(report: &Report) -> Table {
    let Some(source) = &report.plan.source else { return Table::default() };
    let view = View::new(report);
    let one_size = has_one_size(report);
    let named = distinct(source.rows.iter().flat_map(|row| row.figures.keys()));
    let mut heads: Vec<String> =
        ["there", ">frames, with FCS", "rate", ">lost there"].map(String::from).into();
    heads.extend(named.iter().map(|name| format!(">{name}")));
    heads.extend(view.names.iter().map(|name| format!(">{name} here")));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("The source's own numbers, and ours", &heads);
    table.note = format!("{}. {}", source.title.trim_end_matches('.'), source.what);
    for row in &source.rows {
        let mut cells = vec![
            row.rival.clone(),
            row.size.map_or(NONE.into(), |bytes| format!("{bytes} B")),
            row.rate.clone(),
            or_none(source_loss(row).map(percent)),
        ];
        cells.extend(named.iter().map(|name| or_none(row.figures.get(*name).copied().map(significant))));
        cells.extend(view.names.iter().map(|name| {
            let same = view.cases_of(name).find(|case| is_same_workload(row, case, one_size));
            or_none(same.and_then(|case| case.loss_trimmed).map(percent))
        }));
        table.rows.push(super::table::Row { style: None, is_total: false, cells });
    }
    for cell in table.rows.iter_mut().flat_map(|row| &mut row.cells) {
        *cell = clean(cell);
    }
    table.without_empty()
}

/// What a source's row says of loss: itself, or by what was received.
pub(super) fn source_loss(row: &SourceRow) -> Option<f64> {
    row.loss.or_else(|| row.figures.get("received %").map(|percent| 1.0 - percent / 100.0))
}

/// Whether all cases are about the same frames.
pub(super) fn has_one_size(report: &Report) -> bool {
    distinct(report.cases.iter().map(size_words)).len() == 1
}

/// Whether a source's row is about the frames and the rate of a case. A row without a size is about a
/// mix, or about the only frames that there are.
pub(super) fn is_same_workload(row: &SourceRow, case: &Case, one_size: bool) -> bool {
    let Some(size) = row.size else {
        let ours = case.pps.map(|pps| pps as f64 * f64::from(case.size) * 8.0);
        let near = bits(&row.rate).zip(ours).is_some_and(|(there, here)| (here / there - 1.0).abs() < 0.01);
        return (case.mix.is_some() || one_size) && (near || !row.rate.is_empty() && row.rate == case.rate);
    };
    if case.mix.is_some() || case.size + 4 != size {
        return false;
    }
    let near = |read: f64| case.pps.is_some_and(|pps| (pps as f64 / read - 1.0).abs() < 0.01);
    row.rate == case.rate || parse_rate(&row.rate, f64::from(size)).is_some_and(near)
}

/// What the generator did with nobody listening.
pub fn calibration(report: &Report) -> Table {
    let heads = [">frames", "asked", ">arrived", ">lost on the way", ">mean rate off by"];
    let mut table = Table::new("The generator alone", &heads);
    for row in &report.calibration {
        let size = frames_words(row.size, row.mix.as_deref());
        let asked = row.pps.map_or("as fast as possible".into(), |pps| rate(pps as f64));
        let off = or_none(row.pace_error.map(percent));
        table.push(None, [size, asked, rate(row.offered_pps), percent(row.lost), off]);
    }
    table
}

/// Who was measured, with versions and commands, and who could not be.
pub fn rivals(report: &Report) -> Table {
    let view = View::new(report);
    let mut table = Table::new("Who was measured", &["capturer", "version", "command of its first run"]);
    for rival in &report.rivals {
        let command = match &rival.absent {
            Some(why) => format!("left out: {why}"),
            None => rival.command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        };
        let version = rival.version.clone().unwrap_or_else(|| NONE.into());
        table.push(Some(view.style(&rival.name)), [rival.name.clone(), version, command]);
    }
    table
}

/// The machine.
pub fn machine(report: &Report) -> Table {
    super::html_layout::machine(&report.machine)
}

/// Every run as it was counted.
pub fn runs(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        "case",
        ">round",
        ">offered",
        ">captured",
        "counted by",
        ">lost",
        ">says it dropped",
        ">seconds",
        ">user s",
        ">system s",
        ">startup s",
        ">MB written",
        ">lost before it",
        "failed",
    ];
    let mut table = Table::new("Every run", &heads);
    for case in &report.cases {
        for run in &case.runs {
            let row = [
                case.rival.clone(),
                view.workload(case),
                run.round.to_string(),
                count(run.offered),
                or_none(run.captured.map(count)),
                run.counted_by.clone(),
                or_none(run.loss.map(percent)),
                or_none(run.tool_drops.map(count)),
                format!("{:.3}", run.seconds),
                format!("{:.3}", run.cpu_user_s),
                format!("{:.3}", run.cpu_system_s),
                format!("{:.3}", run.cpu_startup_s),
                format!("{:.1}", run.bytes as f64 / 1e6),
                if run.receiver_drops == 0 { NONE.into() } else { count(run.receiver_drops) },
                run.failed.clone().unwrap_or_default(),
            ];
            table.push(Some(view.style(&case.rival)), row);
        }
    }
    table.without_empty()
}

/// Each core of each case: where its time went, the median of the runs.
pub fn cores(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "capturer",
        "case",
        ">core",
        ">user, %",
        ">system, %",
        ">interrupts, %",
        ">soft interrupts, %",
        ">stolen by the host, %",
        ">idle, %",
        ">all cores busy at most, %",
        ">capturer at most, %",
    ];
    let mut table = Table::new("Every core", &heads);
    for case in &report.cases {
        let uses = || whole(case).flat_map(|run| &run.cores);
        let samples = || whole(case).flat_map(|run| &run.samples);
        let most = |share: Option<f64>| or_none(share.map(|share| format!("{:.1}", share * 100.0)));
        let busiest = samples().map(Sample::busy).reduce(f64::max);
        let capturer = samples().filter_map(|sample| sample.capturer).reduce(f64::max);
        for core in distinct(uses().map(|core| core.core)) {
            let share = |of: fn(&CoreUse) -> f64| {
                let values: Vec<f64> = uses().filter(|one| one.core == core).map(of).collect();
                or_none(median(&values).map(|share| format!("{:.1}", share * 100.0)))
            };
            let row = [
                case.rival.clone(),
                view.workload(case),
                core.to_string(),
                share(|core| core.user),
                share(|core| core.system),
                share(|core| core.irq),
                share(|core| core.softirq),
                share(|core| core.steal),
                share(|core| core.idle),
                most(busiest),
                most(capturer),
            ];
            table.push(Some(view.style(&case.rival)), row);
        }
    }
    table.without_empty()
}

/// Every trial of every search.
pub fn trials(report: &Report) -> Table {
    let view = View::new(report);
    let heads = ["capturer", ">frames", "search", ">trial", ">wanted", ">arrived", ">seconds", ">lost"];
    let mut table = Table::new("Every trial", &heads);
    for search in &report.searches {
        let warm_up = search.warm_up.iter().map(|trial| ("warm-up", 0, trial));
        let first = search.trials.iter().enumerate().map(|(i, trial)| ("first", i, trial));
        let second = search.trials_again.iter().enumerate().map(|(i, trial)| ("second", i, trial));
        for (which, i, trial) in warm_up.chain(first).chain(second) {
            let row = [
                search.rival.clone(),
                found(search),
                which.into(),
                (i + 1).to_string(),
                rate(trial.pps),
                rate(trial.offered_pps),
                significant(trial.seconds),
                percent(trial.loss),
            ];
            table.push(Some(view.style(&search.rival)), row);
        }
    }
    table
}

/// What a search found. What the generator limited is no maximum, and does not read as one; what came of
/// a search that did not get as far as it was to is marked (RFC 9971: an irregular goal result).
pub(super) fn highest_words(search: &Search) -> String {
    match (search.lower_pps, search.limited_by) {
        (None, _) => "irregular: at none".into(),
        (Some(pps), LimitedBy::Generator) => format!("irregular: ≥ {}", rate(pps)),
        (Some(pps), _) if !search.regular => format!("irregular: {}", rate(pps)),
        (Some(pps), _) => rate(pps),
    }
}

/// How many of the cases in which something could be lost lost nothing in any run.
pub(super) fn none_lost_words(cases: &[&Case]) -> String {
    let none = cases.iter().filter(|case| is_lossless(case));
    let (all, short) =
        (cases.iter().filter(|case| can_lose(case)).count(), none.clone().filter(|case| fell_short(case)));
    match short.count() {
        0 => format!("{} of {all}", none.count()),
        short => format!("{} of {all} ({short} at the generator's limit)", none.count()),
    }
}

/// What a search was about.
pub(super) fn found(search: &Search) -> String {
    found_words(search.size, search.mix.as_deref(), &search.setting)
}

fn method_words(search: &Search) -> String {
    match search.method.as_str() {
        "rfc2544" => "RFC 2544 §26.1".into(),
        "mlr" => "RFC 9971".into(),
        other => other.into(),
    }
}

/// How many runs came to their end, of how many.
fn runs_words(case: &Case) -> String {
    let (whole, all) = (whole(case).count(), case.runs.len());
    if whole == all { all.to_string() } else { format!("{whole} of {all}") }
}

fn or_none(words: Option<String>) -> String {
    words.unwrap_or_else(|| NONE.into())
}

/// Order of losses with those that are not known first.
trait TotalOrder {
    fn total_cmp_none(self, other: Self) -> std::cmp::Ordering;
}

impl TotalOrder for Option<f64> {
    fn total_cmp_none(self, other: Self) -> std::cmp::Ordering {
        self.unwrap_or(-1.0).total_cmp(&other.unwrap_or(-1.0))
    }
}
