//! The tables of ITU-T Y.1564, and those of every service test.

use super::trials;
use super::view::{Verdict, View, lost_words, mbps, share_bare, three};
use crate::report::document::source_table;
use crate::report::table::{NONE, SENTENCE, Table, VERDICT, or_none};
use crate::service::overall;
use crate::service::plan::{Limits, Service};
use crate::service::result::{Figures, Performance, Report, Step};
use crate::service::way_words;
use quaff::format::{count, delay, percent, rate, significant};

/// The results of all tests, one row for each part.
pub(super) fn glance(view: &View) -> Table {
    let report = view.report;
    let mut table = Table::new("At a glance");
    let row =
        |what, measured, verdict: &str| [("what", what), (VERDICT, verdict.to_owned()), (SENTENCE, measured)];
    for line in overall(report) {
        let runs = report.performance.iter().filter(|row| row.service == line.service && row.way == line.way);
        let runs = match runs.count() {
            0 | 1 => String::new(),
            runs => format!(", {runs} runs"),
        };
        let what = format!("{}{runs}", view.with_way(&line.service, line.way));
        let verdict = Verdict::of_runs(report, &line);
        let style = view.service_style(&line.service);
        table.push(Some(style), row(what, figures_words(&line.figures), verdict.label()));
    }
    for name in &view.services {
        for way in view.ways() {
            let steps = report.configuration.iter().filter(|step| step.service == **name && step.way == way);
            if let Some((measured, verdict)) = steps_words(&steps.collect::<Vec<_>>()) {
                let what = format!("{}, configuration", view.with_way(name, way));
                table.push(Some(view.service_style(name)), row(what, measured, verdict.label()));
            }
        }
    }
    for (what, measured) in trials::glance(view) {
        table.push(None, row(what, measured, NONE));
    }
    table.folds = true;
    table.without_empty()
}

/// Number of passed steps, and their verdict; `None` without steps.
fn steps_words(steps: &[&Step]) -> Option<(String, Verdict)> {
    let verdicts: Vec<_> = steps.iter().map(|step| Verdict::of(&step.checks)).collect();
    let held = verdicts.iter().filter(|verdict| **verdict == Verdict::Pass).count();
    let measured = match verdicts.iter().filter(|verdict| **verdict != Verdict::None).count() {
        0 => format!("{} steps, none judged", steps.len()),
        judged if judged == steps.len() => format!("{held} of {judged} steps passed"),
        judged => format!("{held} of {judged} steps passed, {} not judged", steps.len() - judged),
    };
    // A step without a check could not be judged.
    let is_whole = !verdicts.contains(&Verdict::None);
    let verdict = match Verdict::of_all(verdicts.into_iter()) {
        Verdict::Pass if !is_whole => Verdict::Open,
        verdict => verdict,
    };
    (!steps.is_empty()).then_some((measured, verdict))
}

/// "971.62 Mbit/s, none lost, delay 14.2 µs (12–213 µs), 100 % available".
fn figures_words(figures: &Figures) -> String {
    let lost = match figures.lost {
        0 => "none lost".into(),
        _ => format!("{} lost", lost_words(figures)),
    };
    let mut words = vec![format!("{} Mbit/s", mbps(figures.received_mbps[1])), lost];
    words.extend(
        figures
            .delay_ms
            .map(|[low, mean, high]| format!("delay {} ({} to {})", delay(mean), delay(low), delay(high))),
    );
    words.extend(figures.delay_variation_ms.map(|[_, mean, _]| format!("variation {}", delay(mean))));
    words.extend(figures.availability.map(|share| format!("{} % available", share_bare(share))));
    words.join(", ")
}

/// The overall row of each service and direction before its runs; omitted if there is only one run.
fn overall_and_runs(report: &Report) -> Vec<Performance> {
    let mut all = Vec::new();
    for overall in overall(report) {
        let is_same = |line: &&Performance| line.service == overall.service && line.way == overall.way;
        let runs: Vec<_> = report.performance.iter().filter(is_same).cloned().collect();
        all.extend((runs.len() > 1).then_some(overall));
        all.extend(runs);
    }
    all
}

/// One row per run and service: rate, loss, delay and verdict.
pub(super) fn performance(view: &View) -> Table {
    let mut table = Table::new("Service performance");
    table.note = "Mbit/s: what arrived, with FCS. FTD: frame transfer delay. FDV: its variation. Overall: the smallest of the smallest, the mean of the means, the largest of the largest. Delay, its \
                  variation (above the smallest delay: PDV) and loss are those of available seconds, all else is of all \
                  of them. Within: the share of frames within the limit. Open: not every limit could be judged."
        .into();
    let several = view.services.len() > 1 || view.is_both;
    for line in overall_and_runs(view.report) {
        let (is_total, figures) = (line.run == 0, &line.figures);
        let verdict = if is_total { Verdict::of_runs(view.report, &line) } else { Verdict::of_line(&line) };
        let [delay_low, delay_mean, delay_high] = three(figures.delay_ms, delay);
        let [low, mean, high] = three(figures.delay_variation_ms, delay);
        let [received_low, received_mean, received_high] = figures.received_mbps.map(mbps);
        let [within_delay, within_variation] = figures.within.map(|share| or_none(share.map(share_bare)));
        let cells = [
            ("run", if is_total { "Overall".into() } else { format!("run {}", line.run) }),
            ("service", if several { view.with_way(&line.service, line.way) } else { NONE.into() }),
            ("?????begun", if is_total { NONE.into() } else { time_words(&line.begun, &view.report.begun) }),
            ("verdict", verdict.label().into()),
            ("??>Mbit/s|min", received_low),
            (">Mbit/s|avg", received_mean),
            ("??>Mbit/s|max", received_high),
            ("????>frames|sent", count(figures.sent)),
            ("?>frames|lost", count(figures.lost)),
            (">frames|loss ratio", percent(figures.loss)),
            ("???>FTD|min", delay_low),
            (">FTD|avg", delay_mean),
            (">FTD|max", delay_high),
            ("???>FTD|% within", within_delay),
            ("????>FDV|min", low),
            ("?>FDV|avg", mean),
            (">FDV|max", high),
            ("???>FDV|% within", within_variation),
            (">available %", or_none(figures.availability.map(share_bare))),
        ];
        table.push(Some(view.service_style(&line.service)), cells);
        if let Some(row) = table.rows.last_mut() {
            row.is_total = is_total;
        }
    }
    table.without_empty()
}

/// A time without the letters of RFC 3339, and without the date if it equals that of `of`.
fn time_words(begun: &str, of: &str) -> String {
    let is_date = |(date, _): &(&str, &str)| of.starts_with(date);
    match begun.split_once('T').filter(is_date) {
        Some((_, time)) => time.trim_end_matches('Z').into(),
        None => begun.replace('T', " ").trim_end_matches('Z').into(),
    }
}

/// Delay variation by its different definitions; duplicates, reordering and unavailable time.
pub(super) fn variation(view: &View) -> Table {
    let mut table = Table::new("Delay variation by definition");
    table.note =
        "PDV: above the smallest delay (RFC 5481 §4.2). IPDV: between frames next to each other (RFC 3393). \
                  RFC 4689 §3.2.5: the same of frames that were received in a row. RFC 3550 §6.4.1: smoothed."
            .into();
    for line in &view.report.performance {
        let figures = &line.figures;
        let others = figures.others_ms;
        let other = |i: usize| or_none(others.map(|all| delay(all[i])));
        let [_, mean, high] = three(figures.delay_variation_ms, delay);
        let row = [
            ("service", view.with_way(&line.service, line.way)),
            (">run", line.run.to_string()),
            (">PDV|mean", mean),
            (">PDV|largest", high),
            (">abs. IPDV|mean", other(0)),
            (">abs. IPDV|largest", other(1)),
            (">RFC 4689|mean", other(2)),
            (">RFC 4689|largest", other(3)),
            (">RFC 3550|at the end", other(4)),
            (">RFC 3550|largest", other(5)),
            (">duplicates", count(figures.duplicates)),
            (">reordered", count(figures.reordered)),
            (">severely errored s", count(figures.severely_errored_s)),
            (">unavailable|s", count(figures.unavailable_s)),
            (">unavailable|frames sent", count(figures.unavailable[0])),
            (">unavailable|frames lost", count(figures.unavailable[1])),
        ];
        table.push(Some(view.service_style(&line.service)), row);
    }
    table
}

/// One row per step of the service configuration test.
pub(super) fn configuration(view: &View) -> Table {
    let mut table = Table::new("Service configuration");
    for step in &view.report.configuration {
        let figures = &step.figures;
        let [low, mean, high] = three(figures.delay_ms, delay);
        let [_, variation_mean, variation_high] = three(figures.delay_variation_ms, delay);
        let row = [
            ("service", view.with_way(&step.service, step.way)),
            ("step", step.what.clone()),
            ("verdict", Verdict::of(&step.checks).label().into()),
            (">Mbit/s|asked", mbps(figures.asked_mbps)),
            ("??>Mbit/s|sent", mbps(figures.sent_mbps)),
            (">Mbit/s|received", mbps(figures.received_mbps[1])),
            (">frames|lost", count(figures.lost)),
            (">frames|loss ratio", percent(figures.loss)),
            ("??>FTD|min", low),
            (">FTD|avg", mean),
            (">FTD|max", high),
            ("?>FDV|avg", variation_mean),
            (">FDV|max", variation_high),
        ];
        table.push(Some(view.service_style(&step.service)), row);
    }
    table.without_empty()
}

/// All limits and measured values, or with `failed_only` those that did not hold.
pub(super) fn checks(view: &View, failed_only: bool) -> Table {
    let title = if failed_only { "Limits that did not hold" } else { "All limits and measured values" };
    let mut table = Table::new(title);
    let steps = view.report.configuration.iter();
    let steps = steps.map(|step| (&step.service, step.way, step.what.clone(), &step.checks));
    let runs = view.report.performance.iter();
    let runs =
        runs.map(|line| (&line.service, line.way, format!("performance, run {}", line.run), &line.checks));
    for (service, way, place, checks) in steps.chain(runs) {
        for check in checks.iter().filter(|check| !failed_only || !check.passed) {
            let row = [
                ("service", view.with_way(service, way)),
                ("where", place.clone()),
                ("what", check.what.clone()),
                ("limit", check.limit.clone()),
                ("measured", check.measured.clone()),
                ("verdict", Verdict::of(std::slice::from_ref(check)).label().into()),
            ];
            table.push(Some(view.service_style(service)), row);
        }
    }
    table.folds = failed_only;
    table
}

/// The services and their limits.
pub(super) fn services(view: &View) -> Table {
    let mut table = Table::new("The services");
    for service in &view.report.plan.services {
        let some = |value: f64| if value > 0.0 { significant(value) } else { NONE.into() };
        let bytes = |value: u64| if value > 0 { count(value) } else { NONE.into() };
        let row = [
            ("service", service.name.clone()),
            (">frames, with FCS", sizes_words(service)),
            (">CIR, Mbit/s", significant(service.cir_mbps)),
            (">EIR, Mbit/s", some(service.eir_mbps)),
            (">CBS, bytes", bytes(service.cbs_bytes)),
            (">EBS, bytes", bytes(service.ebs_bytes)),
            ("VLAN", or_none(service.vlan.map(|(id, priority)| format!("{id}, priority {priority}")))),
            (">DSCP", if service.dscp > 0 { service.dscp.to_string() } else { NONE.into() }),
            ("limits", limits_words(&service.limits)),
        ];
        table.push(Some(view.service_style(&service.name)), row);
    }
    table.without_empty()
}

fn sizes_words(service: &Service) -> String {
    let sizes: Vec<String> = service.sizes.iter().map(u32::to_string).collect();
    format!("{} B", sizes.join(", "))
}

/// "FTD 100 ms, FDV 20 ms, FLR 0.3 %", or a dash.
fn limits_words(limits: &Limits) -> String {
    let parts = [
        limits.delay_ms.map(|ms| format!("FTD {}", delay(ms))),
        limits.delay_variation_ms.map(|ms| format!("FDV {}", delay(ms))),
        limits.loss_ratio.map(|ratio| format!("FLR {}", percent(ratio))),
        limits.availability.map(|share| format!("AVAIL {} %", share_bare(share))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NONE.into() } else { parts.join(", ") }
}

/// Counters of the tap in the path.
pub(super) fn tap(view: &View) -> Table {
    let mut table = Table::new("The tap's own counters");
    table.note = "Frames of all tests together, as 'quaff tap' counts them: received = recorded + lost, and received = \
                  forwarded + not forwarded. A frame that the recorder lost has passed all the same."
        .into();
    for way in &view.report.tap {
        let row = [
            ("direction", way_words(way.way).to_owned()),
            (">received", count(way.received)),
            (">recorded", count(way.recorded)),
            (">lost by the recorder", count(way.lost)),
            (">forwarded", or_none(way.forwarded.map(count))),
            (">not forwarded", or_none(way.forward_dropped.map(count))),
            ("??>forwarded unrecorded", or_none(way.unrecorded.map(count))),
        ];
        table.push(None, row);
    }
    table
}

/// The null calibration.
pub(super) fn null(report: &Report) -> Table {
    let mut table = Table::new("The instrument alone");
    let Some(null) = &report.null else { return table };
    let [low, mean, high, median] = null.delay_ms;
    let [variation_mean, variation_high] = null.delay_variation_ms;
    let delays = [
        ("delay, smallest", low),
        ("delay, median", median),
        ("delay, mean", mean),
        ("delay, largest", high),
        ("delay variation (PDV), mean", variation_mean),
        ("delay variation (PDV), largest", variation_high),
    ];
    let delays = delays.into_iter().map(|(what, ms)| (what.to_owned(), delay(ms)));
    let rates = null.max_pps.iter().map(|(size, pps)| (format!("highest rate, {size} B"), rate(*pps)));
    for (what, figure) in delays.chain(rates) {
        table.push(None, [("over a bare link", what), ("figure", figure)]);
    }
    table
}

/// The source's own figures with all their digits: 971.62 is not rounded to 972.
pub(super) fn source(view: &View) -> Table {
    let Some(source) = &view.report.plan.source else { return Table::default() };
    let number = |figure: f64| figure.to_string();
    source_table("The source's own numbers", source, |row| row.loss, number, |_| Vec::new())
}
