//! The tables of a bench.

use super::cells::{end_note, load_words, pivot_loss};
use super::view::{
    View, bits, buffer_words, can_lose, cpu_per_packet, distinct, drop_counter, failure, fell_short,
    found_words, frames_words, has_lanes, is_line, is_lossless, kept_losses, limit_words, offered_pps,
    offered_words, parse_rate, size_words, softirq, whole,
};
use crate::bench::plan::SourceRow;
use crate::bench::result::{Case, GoalRow, LimitedBy, Report, Search};
use crate::method::Sample;
use crate::report::document::{method_words, source_table};
use crate::report::table::{NONE, Table, or_none};
use crate::stats::median;
use quaff::format::{count, percent, percents, rate, significant, span};
use quaff_lab::topology::CoreUse;
use quaff_wire::printable::quote;

/// Note of tables with mean losses: the runs that the mean excludes.
const MEANS: &str =
    "Mean: of the runs of a case without the best and the worst. Best and worst run: of all runs.";
/// Formats a cell of a pivot table.
type Cell<'a> = &'a dyn Fn(&Case) -> String;

/// Loss and CPU as studies print them: a table per interface and series, a row per load, a column per capturer.
pub(super) fn pivots(view: &View) -> Vec<Table> {
    let place = |case: &&Case| (case.interface.clone(), case.series.clone());
    // Cases with lanes have a table of their own.
    let all: Vec<&Case> = view.report.cases.iter().filter(|case| !has_lanes(case)).collect();
    let cpu = |case: &Case| or_none(case.cpu_median.map(|cores| format!("{:.0}", cores * 100.0)));
    let figures: [(&str, Cell<'_>); 2] = [("Lost", &pivot_loss), ("CPU, % of a core", &cpu)];
    let places = distinct(all.iter().map(place));
    let mut out = Vec::new();
    // The losses of a line are in one table of all its points.
    for (what, cell) in figures.into_iter().skip(usize::from(is_line(view))) {
        for (interface, series) in &places {
            let is_here = |case: &&Case| (&case.interface, &case.series) == (interface, series);
            let cases: Vec<&Case> = all.iter().copied().filter(is_here).collect();
            let mut title = vec![what, interface.as_deref().unwrap_or_default(), series];
            title.retain(|part| !part.is_empty());
            out.push(pivot(&title.join(" · "), &cases, cell));
        }
    }
    out
}

pub(super) fn pivot(title: &str, cases: &[&Case], cell: Cell<'_>) -> Table {
    let names = distinct(cases.iter().map(|case| case.rival.as_str()));
    let mut table = Table::new(title);
    for (frames, asked) in distinct(cases.iter().map(|case| load_words(case))) {
        let here = cases.iter().filter(|case| load_words(case) == (frames.clone(), asked));
        let of = |name: &&str| {
            let case = here.clone().find(|case| case.rival == *name);
            (format!(">{name}"), or_none(case.map(|case| cell(case))))
        };
        let offered = or_none(offered_words(here.clone().copied()));
        let row = [(">frames", frames.clone()), ("asked", asked.to_owned()), ("?>offered", offered)];
        let row = row.into_iter().map(|(head, cell)| (head.to_owned(), cell));
        table.push(None, row.chain(names.iter().map(of)));
    }
    end_note(&mut table, cases);
    table
}

/// One row per capturer: its loss, its CPU time, and the accuracy of its own drop counter.
pub(super) fn summary(view: &View) -> Table {
    let mut table = Table::new("At a glance");
    for name in &view.names {
        let cases: Vec<&Case> = view.cases_of(name).collect();
        if cases.is_empty() {
            continue;
        }
        let losses: Vec<f64> = cases.iter().filter_map(|case| case.loss_trimmed).collect();
        let lossy = cases.iter().filter(|case| case.loss_trimmed > Some(0.0));
        let loss = |case: &Case| case.loss_trimmed.unwrap_or_default();
        let worst = lossy.max_by(|a, b| loss(a).total_cmp(&loss(b)));
        let failed = cases.iter().flat_map(|case| &case.runs).filter(|run| run.failed.is_some()).count();
        let counter = drop_counter(cases.iter().flat_map(|case| &case.runs));
        let run = cases.iter().filter_map(|case| case.loss_spread).map(|[_, most]| most).reduce(f64::max);
        let row = [
            ("capturer", (*name).into()),
            (">most lost|mean", or_none(losses.iter().copied().reduce(f64::max).map(percent))),
            ("?>most lost|worst run", or_none(run.map(percent))),
            ("where", or_none(worst.map(|case| view.workload(case)))),
            (">offered there", or_none(worst.and_then(|case| offered_pps(case)).map(rate))),
            ("buffer", distinct(cases.iter().map(|case| buffer_words(case))).join(", ")),
            ("none lost in", none_lost_words(&cases)),
            ("??>median lost", or_none(median(&losses).map(percent))),
            (
                ">CPU per packet",
                or_none(cpu_per_packet(cases.iter().copied()).map(|ns| format!("{} ns", significant(ns)))),
            ),
            ("its own drop counter", counter.map_or("none".into(), |counter| counter.describe())),
            (">failed runs", if failed == 0 { NONE.into() } else { failed.to_string() }),
        ];
        table.push(Some(view.style(name)), row);
    }
    table.note = MEANS.into();
    table.folds = true;
    table.without_empty()
}

/// One row per case.
pub(super) fn cases(view: &View) -> Table {
    let mut table = Table::new("Every case");
    for case in &view.report.cases {
        let row = [
            ("capturer", case.rival.clone()),
            ("series", case.series.clone()),
            ("interface", case.interface.clone().unwrap_or_default()),
            ("setting", case.setting.describe().join(", ")),
            (">buffer", buffer_words(case)),
            (">frames", size_words(case)),
            ("asked", case.rate.clone()),
            (">offered", or_none(offered_pps(case).map(rate))),
            (
                ">lost|mean",
                case.loss_trimmed.map_or_else(|| failure(case).map_or(NONE, |_| "failed").into(), percent),
            ),
            ("?>lost|runs in it", or_none(kept_losses(case).map(percents))),
            ("?>lost|median", or_none(case.loss_median.map(percent))),
            (">lost|best run", or_none(case.loss_spread.map(|[best, _]| percent(best)))),
            (">lost|worst run", or_none(case.loss_spread.map(|[_, worst]| percent(worst)))),
            ("counted by", distinct(whole(case).map(|run| run.counted_by.as_str())).join(", ")),
            (
                "its own counter",
                drop_counter(case.runs.iter()).map_or(NONE.into(), |counter| counter.describe()),
            ),
            (">CPU, % of a core", or_none(case.cpu_median.map(|cores| significant(cores * 100.0)))),
            (">soft interrupts, %", or_none(softirq(case).map(|cores| significant(cores * 100.0)))),
            ("limited by", limit_words(case.limited_by).into()),
            (">runs", runs_words(case)),
        ];
        table.push(Some(view.style(&case.rival)), row);
    }
    table.note = MEANS.into();
    table.without_empty()
}

/// One row per search for the highest rate without loss.
pub(super) fn searches(view: &View) -> Table {
    let mut table = Table::new("Highest rate without loss");
    for search in &view.report.searches {
        let what = found(search);
        let best = view.report.searches.iter().filter(|other| found(other) == what);
        let best = best.filter_map(|other| other.lower_pps).fold(0.0, f64::max);
        let beside =
            search.lower_pps.filter(|_| best > 0.0).map(|pps| format!("{} ×", significant(pps / best)));
        let gbps = |pps: f64| significant(pps * f64::from(search.size) * 8.0 / 1e9);
        let row = [
            ("capturer", search.rival.clone()),
            (">frames", what),
            ("???method", method_words(&search.method)),
            (">highest without loss", highest_words(search)),
            (">beside the best", or_none(beside)),
            (">Gbit/s", or_none(search.lower_pps.map(gbps))),
            ("?>typical", or_none(search.throughput_pps.map(rate))),
            ("?>lowest with loss", search.upper_pps.map_or("none found".into(), rate)),
            (">second search", or_none(search.again.map(|again| rate(again[0])))),
            (">apart", or_none(search.again.map(|again| percent(again[1])))),
            ("???>trials", search.trials.len().to_string()),
            ("limited by", limit_words(search.limited_by).into()),
            ("??>generator alone", rate(search.max_pps)),
            ("???goal", or_none(search.goal.map(|goal| goal_words(&goal, search.width)))),
        ];
        table.push(Some(view.style(&search.rival)), row);
    }
    table.without_empty()
}

/// The complete goal of a search, which RFC 9971 requires to report.
fn goal_words(goal: &GoalRow, width: f64) -> String {
    let [first, last, sum] = [goal.initial_seconds, goal.final_seconds, goal.duration_sum_s].map(span);
    let from = if first == last { String::new() } else { format!("{first} to ") };
    let [lost, exceed, width] = [goal.loss_ratio, goal.exceed_ratio, width].map(percent);
    format!(
        "{lost} lost; trials of {from}{last}, {sum} decide, {exceed} of that may lose more; width {width}"
    )
}

/// One row per search for the longest burst without loss.
pub(super) fn bursts(view: &View) -> Table {
    let mut table = Table::new("Longest burst without loss");
    let ms = |seconds: f64| format!("{} ms", significant(seconds * 1e3));
    for burst in &view.report.bursts {
        let most = burst.frames_max;
        let frames = |n: u64| if n >= most { format!("≥ {}", count(most)) } else { count(n) };
        let median = median(&burst.frames.iter().map(|n| *n as f64).collect::<Vec<_>>());
        let (low, high) = (burst.frames.iter().min(), burst.frames.iter().max());
        let row = [
            ("capturer", burst.rival.clone()),
            (">frames", found_words(burst.size, burst.mix.as_deref(), &burst.setting)),
            (">longest burst, median", or_none(median.map(|n| frames(n as u64)))),
            (
                ">from – to",
                or_none(low.zip(high).map(|(low, high)| format!("{} – {}", frames(*low), frames(*high)))),
            ),
            (">repeated", burst.frames.len().to_string()),
            (">at", rate(burst.pps)),
            (">buffer time", or_none(burst.buffer_s.map(ms))),
            (">corrected", or_none(burst.buffer_corrected_s.map(ms))),
        ];
        table.push(Some(view.style(&burst.rival)), row);
    }
    table.without_empty()
}

/// The source's own figures, and ours for the same frames at the same rate.
pub(super) fn source(view: &View) -> Table {
    let Some(source) = &view.report.plan.source else { return Table::default() };
    let one_size = has_one_size(view.report);
    source_table("The source's own numbers, and ours", source, source_loss, significant, |row| {
        let here = |name: &&str| {
            let compares = |case: &&Case| is_same_workload(row, case, one_size) && compares(view, case);
            let same = view.cases_of(name).find(compares);
            (format!(">{name} here"), or_none(same.and_then(|case| case.loss_trimmed).map(percent)))
        };
        view.names.iter().map(here).collect()
    })
}

/// Returns whether a case is compared with a source's figures. Sources leave the capturers their own buffers; so a case
/// with a configured buffer is compared only if no case of its capturer and workload has its own.
pub(super) fn compares(view: &View, case: &Case) -> bool {
    let load = |case: &Case| (case.size, case.mix.clone(), case.pps, case.rate.clone());
    let is_own = |other: &Case| other.setting.buffer_mib.is_none() && load(other) == load(case);
    case.setting.buffer_mib.is_none() || !view.cases_of(&case.rival).any(is_own)
}

/// The loss in a source's row, or computed from its share of received packets.
pub(super) fn source_loss(row: &SourceRow) -> Option<f64> {
    row.loss.or_else(|| row.figures.get("received %").map(|percent| 1.0 - percent / 100.0))
}

/// True if all cases have the same frames.
pub(super) fn has_one_size(report: &Report) -> bool {
    distinct(report.cases.iter().map(size_words)).len() == 1
}

/// Returns whether a source's row has the frames and rate of a case, and its capture point if the row names one. A row
/// without a size is about a mix, or about the only frame size of the bench.
pub(super) fn is_same_workload(row: &SourceRow, case: &Case, one_size: bool) -> bool {
    if row.interface.is_some() && row.interface != case.interface {
        return false;
    }
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

/// The null calibrations.
pub(super) fn calibration(view: &View) -> Table {
    let mut table = Table::new("The generator alone");
    for row in &view.report.calibration {
        let asked = row.pps.map_or("as fast as possible".into(), |pps| rate(pps as f64));
        let row = [
            (">frames", frames_words(row.size, row.mix.as_deref())),
            ("asked", asked),
            (">arrived", rate(row.offered_pps)),
            (">lost on the way", percent(row.lost)),
            (">mean rate off by", or_none(row.pace_error.map(percent))),
        ];
        table.push(None, row);
    }
    table
}

/// The capturers with versions and commands, and those that were not measured.
pub(super) fn rivals(view: &View) -> Table {
    let mut table = Table::new("Capturers");
    for rival in &view.report.rivals {
        let command = match &rival.absent {
            Some(why) => format!("left out: {why}"),
            None => rival.command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        };
        let row = [
            ("capturer", rival.name.clone()),
            ("version", or_none(rival.version.clone())),
            ("command of its first run", command),
        ];
        table.push(Some(view.style(&rival.name)), row);
    }
    table
}

/// Packets, bytes and flows of each case, sent and captured.
pub(super) fn contents(view: &View) -> Table {
    let mut table = Table::new("Sent and captured");
    for case in &view.report.cases {
        let mut runs: Vec<_> = whole(case).filter_map(|run| Some((run, run.contents?))).collect();
        runs.sort_by_key(|(run, _)| run.lost());
        let Some((run, contents)) = runs.get(runs.len() / 2) else { continue };
        let row = [
            ("capturer", case.rival.clone()),
            ("case", view.workload(case)),
            (">packets|sent", count(run.offered)),
            (">packets|captured", or_none(run.captured.map(count))),
            (">bytes|sent", count(contents.sent_bytes)),
            (">bytes|captured", count(contents.captured_bytes)),
            (">flows|sent", count(contents.sent_flows)),
            (">flows|captured", count(contents.captured_flows)),
        ];
        table.push(Some(view.style(&case.rival)), row);
    }
    table.note =
        "The run with the median loss. Bytes are those of frames without FCS; a flow is one direction of \
                  addresses, ports and protocol."
            .into();
    table
}

/// All runs with their counts.
pub(super) fn runs(view: &View) -> Table {
    let mut table = Table::new("Every run");
    for case in &view.report.cases {
        for run in &case.runs {
            let row = [
                ("capturer", case.rival.clone()),
                ("case", view.workload(case)),
                (">round", run.round.to_string()),
                (">offered", count(run.offered)),
                (">captured", or_none(run.captured.map(count))),
                ("counted by", run.counted_by.clone()),
                (">lost", or_none(run.loss.map(percent))),
                (">reports as dropped", or_none(run.tool_drops.map(count))),
                (">seconds", format!("{:.3}", run.seconds)),
                (">user s", format!("{:.3}", run.cpu_user_s)),
                (">system s", format!("{:.3}", run.cpu_system_s)),
                (">startup s", format!("{:.3}", run.cpu_startup_s)),
                (">MB written", format!("{:.1}", run.bytes as f64 / 1e6)),
                (
                    ">lost before the socket",
                    if run.receiver_drops == 0 { NONE.into() } else { count(run.receiver_drops) },
                ),
                ("failed", run.failed.clone().unwrap_or_default()),
            ];
            table.push(Some(view.style(&case.rival)), row);
        }
    }
    table.without_empty()
}

/// Use of each core in each case: the median of the runs.
pub(super) fn cores(view: &View) -> Table {
    let mut table = Table::new("Every core");
    for case in &view.report.cases {
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
                ("capturer", case.rival.clone()),
                ("case", view.workload(case)),
                (">core", core.to_string()),
                (">user, %", share(|core| core.user)),
                (">system, %", share(|core| core.system)),
                (">interrupts, %", share(|core| core.irq)),
                (">soft interrupts, %", share(|core| core.softirq)),
                (">stolen by the host, %", share(|core| core.steal)),
                (">idle, %", share(|core| core.idle)),
                (">all cores busy at most, %", most(busiest)),
                (">capturer at most, %", most(capturer)),
            ];
            table.push(Some(view.style(&case.rival)), row);
        }
    }
    table.without_empty()
}

/// All trials of all searches.
pub(super) fn trials(view: &View) -> Table {
    let mut table = Table::new("Every trial");
    for search in &view.report.searches {
        let warm_up = search.warm_up.iter().map(|trial| ("warm-up", 0, trial));
        let first = search.trials.iter().enumerate().map(|(i, trial)| ("first", i, trial));
        let second = search.trials_again.iter().enumerate().map(|(i, trial)| ("second", i, trial));
        for (which, i, trial) in warm_up.chain(first).chain(second) {
            let row = [
                ("capturer", search.rival.clone()),
                (">frames", found(search)),
                ("search", which.into()),
                (">trial", (i + 1).to_string()),
                (">wanted", rate(trial.pps)),
                (">arrived", rate(trial.offered_pps)),
                (">seconds", significant(trial.seconds)),
                (">lost", percent(trial.loss)),
            ];
            table.push(Some(view.style(&search.rival)), row);
        }
    }
    table
}

/// The result of a search. A rate that the generator limited is shown as a lower bound, and an irregular result is
/// marked (RFC 9971).
pub(super) fn highest_words(search: &Search) -> String {
    match (search.lower_pps, search.limited_by) {
        (None, _) => "irregular: at none".into(),
        (Some(pps), LimitedBy::Generator) => format!("irregular: ≥ {}", rate(pps)),
        (Some(pps), _) if !search.regular => format!("irregular: {}", rate(pps)),
        (Some(pps), _) => rate(pps),
    }
}

/// Number of cases without loss in any run, among the cases that can show loss.
pub(super) fn none_lost_words(cases: &[&Case]) -> String {
    let none = cases.iter().filter(|case| is_lossless(case));
    let (all, short) =
        (cases.iter().filter(|case| can_lose(case)).count(), none.clone().filter(|case| fell_short(case)));
    match short.count() {
        0 => format!("{} of {all}", none.count()),
        short => format!("{} of {all} ({short} at the generator's limit)", none.count()),
    }
}

/// Frames and settings of a search.
pub(super) fn found(search: &Search) -> String {
    found_words(search.size, search.mix.as_deref(), &search.setting)
}

/// Number of successful runs, and of all.
fn runs_words(case: &Case) -> String {
    let (whole, all) = (whole(case).count(), case.runs.len());
    if whole == all { all.to_string() } else { format!("{whole} of {all}") }
}
