//! The tables of a service test by ITU-T Y.1564, and those that every report has: the same for the terminal,
//! for Markdown and for the page.

use super::view::{NONE, Verdict, View, lost_words, mbps, or_none, share_bare, three};
use crate::report::table::{Row, Table};
use crate::report::view::distinct;
use crate::service::overall;
use crate::service::plan::{Limits, Service};
use crate::service::result::{Figures, Performance, Report};
use crate::words::{clean, count, delay, percent, rate, significant};

/// What every test came to, a row for each part of it.
pub fn glance(report: &Report) -> Table {
    let view = View::new(report);
    let mut table = Table::new("At a glance", &["what", "measured", "verdict"]);
    for line in overall(report) {
        let runs = report.performance.iter().filter(|row| row.service == line.service && row.way == line.way);
        let runs = match runs.count() {
            0 | 1 => String::new(),
            runs => format!(", {runs} runs"),
        };
        let what = format!("{}{runs}", view.with_way(&line.service, line.way));
        let style = Some(view.service_style(&line.service));
        table.push(style, [what, figures_words(&line.figures), Verdict::of_runs(report, &line).words()]);
    }
    for name in &view.services {
        for way in view.ways() {
            let steps = report.configuration.iter().filter(|step| step.service == **name && step.way == way);
            let steps: Vec<_> = steps.collect();
            if steps.is_empty() {
                continue;
            }
            let verdicts: Vec<_> = steps.iter().map(|step| Verdict::of(&step.checks)).collect();
            let held = verdicts.iter().filter(|verdict| **verdict == Verdict::Pass).count();
            let measured = match verdicts.iter().filter(|verdict| **verdict != Verdict::None).count() {
                0 => format!("{} steps, none judged", steps.len()),
                judged if judged == steps.len() => format!("{held} of {judged} steps passed"),
                judged => format!("{held} of {judged} steps passed, {} not judged", steps.len() - judged),
            };
            // A step without a check is one that could not be judged.
            let is_whole = !verdicts.contains(&Verdict::None);
            let verdict = match Verdict::of_all(verdicts.into_iter()) {
                Verdict::Pass if !is_whole => Verdict::Open,
                verdict => verdict,
            };
            let what = format!("{}, configuration", view.with_way(name, way));
            table.push(Some(view.service_style(name)), [what, measured, verdict.words()]);
        }
    }
    super::trials::glance(report, &mut table);
    table.without_empty()
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

/// The overall line of each service and way, and its runs behind it; alone where there was only one.
pub fn overall_and_runs(report: &Report) -> Vec<Performance> {
    let mut all = Vec::new();
    for overall in overall(report) {
        let is_same = |line: &&Performance| line.service == overall.service && line.way == overall.way;
        let runs: Vec<_> = report.performance.iter().filter(is_same).cloned().collect();
        all.extend((runs.len() > 1).then_some(overall));
        all.extend(runs);
    }
    all
}

/// A row for each run of each service: what arrived, what was lost, how late, and the verdict.
pub fn performance(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "run",
        "service",
        "?????begun",
        "verdict",
        "??>Mbit/s|min",
        ">Mbit/s|avg",
        "??>Mbit/s|max",
        "????>frames|sent",
        "?>frames|lost",
        ">frames|loss ratio",
        "???>FTD|min",
        ">FTD|avg",
        ">FTD|max",
        "???>FTD|% within",
        "????>FDV|min",
        "?>FDV|avg",
        ">FDV|max",
        "???>FDV|% within",
        ">available %",
    ];
    let mut table = Table::new("Service performance", &heads);
    table.note = "Mbit/s: what arrived, with FCS. FTD: frame transfer delay. FDV: its variation. Overall: the smallest of the smallest, the mean of the means, the largest of the largest. Delay, its \
                  variation (above the smallest delay: PDV) and loss are those of available seconds, all else is of all \
                  of them. Within: the share of frames within the limit. Open: not every limit could be judged."
        .into();
    let several = view.services.len() > 1 || view.is_both;
    for line in overall_and_runs(report) {
        let (is_total, figures) = (line.run == 0, &line.figures);
        let verdict = if is_total { Verdict::of_runs(report, &line) } else { Verdict::of_line(&line) };
        let [delay_low, delay_mean, delay_high] = three(figures.delay_ms, delay);
        let [low, mean, high] = three(figures.delay_variation_ms, delay);
        let [received_low, received_mean, received_high] = figures.received_mbps.map(mbps);
        let [within_delay, within_variation] = figures.within.map(|share| or_none(share.map(share_bare)));
        let cells = [
            if is_total { "Overall".into() } else { format!("run {}", line.run) },
            if several { view.with_way(&line.service, line.way) } else { NONE.into() },
            if is_total { NONE.into() } else { time_words(&line.begun) },
            verdict.words(),
            received_low,
            received_mean,
            received_high,
            count(figures.sent),
            count(figures.lost),
            percent(figures.loss),
            delay_low,
            delay_mean,
            delay_high,
            within_delay,
            low,
            mean,
            high,
            within_variation,
            or_none(figures.availability.map(share_bare)),
        ];
        table.push(Some(view.service_style(&line.service)), cells);
        if let Some(row) = table.rows.last_mut() {
            row.is_total = is_total;
        }
    }
    table.without_empty()
}

/// A moment as a table has it: without the letters of RFC 3339.
fn time_words(begun: &str) -> String {
    begun.replace('T', " ").trim_end_matches('Z').into()
}

/// Delay variation under all of its names, and what else became of frames.
pub fn variation(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "service",
        ">run",
        ">PDV|mean",
        ">PDV|largest",
        ">abs. IPDV|mean",
        ">abs. IPDV|largest",
        ">RFC 4689|mean",
        ">RFC 4689|largest",
        ">RFC 3550|at the end",
        ">RFC 3550|largest",
        ">duplicates",
        ">reordered",
        ">severely errored s",
        ">unavailable|s",
        ">unavailable|frames sent",
        ">unavailable|frames lost",
    ];
    let mut table = Table::new("Delay variation by its names", &heads);
    table.note =
        "PDV: above the smallest delay (RFC 5481 §4.2). IPDV: between frames next to each other (RFC 3393). \
                  RFC 4689 §3.2.5: the same of frames that were received in a row. RFC 3550 §6.4.1: smoothed."
            .into();
    for line in &report.performance {
        let figures = &line.figures;
        let others = figures.others_ms;
        let other = |i: usize| or_none(others.map(|all| delay(all[i])));
        let [_, mean, high] = three(figures.delay_variation_ms, delay);
        let row = [
            view.with_way(&line.service, line.way),
            line.run.to_string(),
            mean,
            high,
            other(0),
            other(1),
            other(2),
            other(3),
            other(4),
            other(5),
            count(figures.duplicates),
            count(figures.reordered),
            count(figures.severely_errored_s),
            count(figures.unavailable_s),
            count(figures.unavailable[0]),
            count(figures.unavailable[1]),
        ];
        table.push(Some(view.service_style(&line.service)), row);
    }
    table
}

/// A row for each step of the service configuration test.
pub fn configuration(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "service",
        "step",
        "verdict",
        ">Mbit/s|asked",
        "??>Mbit/s|sent",
        ">Mbit/s|received",
        ">frames|lost",
        ">frames|loss ratio",
        "??>FTD|min",
        ">FTD|avg",
        ">FTD|max",
        "?>FDV|avg",
        ">FDV|max",
    ];
    let mut table = Table::new("Service configuration", &heads);
    for step in &report.configuration {
        let figures = &step.figures;
        let [low, mean, high] = three(figures.delay_ms, delay);
        let [_, variation_mean, variation_high] = three(figures.delay_variation_ms, delay);
        let row = [
            view.with_way(&step.service, step.way),
            step.what.clone(),
            Verdict::of(&step.checks).words(),
            mbps(figures.asked_mbps),
            mbps(figures.sent_mbps),
            mbps(figures.received_mbps[1]),
            count(figures.lost),
            percent(figures.loss),
            low,
            mean,
            high,
            variation_mean,
            variation_high,
        ];
        table.push(Some(view.service_style(&step.service)), row);
    }
    table.without_empty()
}

/// Every limit, and what stood against it; with `failed_only` those that did not hold.
pub fn checks(report: &Report, failed_only: bool) -> Table {
    let view = View::new(report);
    let title =
        if failed_only { "Limits that did not hold" } else { "Every limit, and what stood against it" };
    let mut table = Table::new(title, &["service", "where", "what", "limit", "measured", "verdict"]);
    let steps =
        report.configuration.iter().map(|step| (&step.service, step.way, step.what.clone(), &step.checks));
    let runs = report
        .performance
        .iter()
        .map(|line| (&line.service, line.way, format!("performance, run {}", line.run), &line.checks));
    for (service, way, place, checks) in steps.chain(runs) {
        for check in checks.iter().filter(|check| !failed_only || !check.passed) {
            let row = [
                view.with_way(service, way),
                place.clone(),
                check.what.clone(),
                check.limit.clone(),
                check.measured.clone(),
                Verdict::of(std::slice::from_ref(check)).words(),
            ];
            table.push(Some(view.service_style(service)), row);
        }
    }
    table
}

/// What each service is, and what it has to stand.
pub fn services(report: &Report) -> Table {
    let view = View::new(report);
    let heads = [
        "service",
        ">frames, with FCS",
        ">CIR, Mbit/s",
        ">EIR, Mbit/s",
        ">CBS, bytes",
        ">EBS, bytes",
        "VLAN",
        ">DSCP",
        "has to stand",
    ];
    let mut table = Table::new("The services", &heads);
    for service in &report.plan.services {
        let some = |value: f64| if value > 0.0 { significant(value) } else { NONE.into() };
        let bytes = |value: u64| if value > 0 { count(value) } else { NONE.into() };
        let row = [
            service.name.clone(),
            sizes_words(service),
            significant(service.cir_mbps),
            some(service.eir_mbps),
            bytes(service.cbs_bytes),
            bytes(service.ebs_bytes),
            or_none(service.vlan.map(|(id, priority)| format!("{id}, priority {priority}"))),
            if service.dscp > 0 { service.dscp.to_string() } else { NONE.into() },
            limits_words(&service.limits),
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
pub(super) fn limits_words(limits: &Limits) -> String {
    let parts = [
        limits.delay_ms.map(|ms| format!("FTD {}", delay(ms))),
        limits.delay_variation_ms.map(|ms| format!("FDV {}", delay(ms))),
        limits.loss_ratio.map(|ratio| format!("FLR {}", percent(ratio))),
        limits.availability.map(|share| format!("AVAIL {} %", share_bare(share))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NONE.into() } else { parts.join(", ") }
}

/// The instrument by itself.
pub fn null(report: &Report) -> Table {
    let mut table = Table::new("The instrument alone", &["over nothing but a link", ">figure"]);
    let Some(null) = &report.null else { return table };
    let [low, mean, high, median] = null.delay_ms;
    let mut row = |what: &str, figure: String| table.push(None, [what.into(), figure]);
    row("delay, smallest", delay(low));
    row("delay, median", delay(median));
    row("delay, mean", delay(mean));
    row("delay, largest", delay(high));
    row("delay variation (PDV), mean", delay(null.delay_variation_ms[0]));
    row("delay variation (PDV), largest", delay(null.delay_variation_ms[1]));
    for (size, pps) in &null.max_pps {
        row(&format!("highest rate, {size} B"), rate(*pps));
    }
    table
}

/// What the source printed.
pub fn source(report: &Report) -> Table {
    let Some(source) = &report.plan.source else { return Table::default() };
    let named = distinct(source.rows.iter().flat_map(|row| row.figures.keys()));
    let mut heads: Vec<String> =
        ["there", ">frames, with FCS", "rate", ">lost there"].map(String::from).into();
    heads.extend(named.iter().map(|name| format!(">{name}")));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("The source's own numbers", &heads);
    table.note = format!("{}. {}", source.title.trim_end_matches('.'), source.what);
    for row in &source.rows {
        let mut cells = vec![
            row.rival.clone(),
            row.size.map_or(NONE.into(), |bytes| format!("{bytes} B")),
            row.rate.clone(),
            or_none(row.loss.map(percent)),
        ];
        // As printed there: a rate of 971.62 is not 972.
        cells.extend(named.iter().map(|name| or_none(row.figures.get(*name).map(f64::to_string))));
        let cells = cells.iter().map(|cell| clean(cell)).collect();
        table.rows.push(Row { style: None, is_total: false, cells });
    }
    table.without_empty()
}
