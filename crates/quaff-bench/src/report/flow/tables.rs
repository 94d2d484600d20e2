//! The tables of a bench of flow meters.

use super::text::{asked, flow_rate, style, verdict_word};
use crate::flow::result::{FlowCase, Report};
use crate::method::MeterRun;
use crate::report::document::source_table;
use crate::report::table::{NONE, Table, or_none};
use crate::stats::median;
use quaff::format::{bits, bytes, count, percent, percents, rate, significant, span};

/// Loss and verdict of each meter at each rate, and its speed on a file.
pub(super) fn summary(report: &Report) -> Table {
    let mut table = Table::new("At a glance");
    for facts in report.meters.iter().filter(|facts| facts.absent.is_none()) {
        let mut cells = vec![("meter".to_owned(), facts.name.clone())];
        for fps in &report.plan.rates {
            let mut cases = report.cases.iter().filter(|case| case.meter == facts.name);
            let found = cases.find(|case| case.fps == Some(*fps));
            cells.push((format!("{}|lost", flow_rate(*fps)), or_none(found.map(loss))));
            let verdict = found.map(|case| verdict_word(case.verdict).to_owned());
            cells.push((format!("{}|it is", flow_rate(*fps)), or_none(verdict)));
        }
        let file = report.files.iter().find(|case| case.meter == facts.name);
        let speed = file.and_then(|case| case.pps_median).map(rate);
        cells.push((">from a file".to_owned(), or_none(speed)));
        table.push(Some(style(report, &facts.name)), cells);
    }
    table.folds = true;
    table.without_empty()
}

/// Sent and reported counts as in the how-to: the median run of each meter at each rate.
pub(super) fn live(report: &Report) -> Table {
    let mut table = Table::new("Sent and reported");
    for fps in &report.plan.rates {
        let cases: Vec<&FlowCase> = report.cases.iter().filter(|case| case.fps == Some(*fps)).collect();
        let Some(first) = cases.iter().find_map(|case| middle(case)) else { continue };
        table.push(None, sent_cells(*fps, first));
        for case in cases.iter().filter(|case| !case.runs.is_empty()) {
            table.push(Some(style(report, &case.meter)), reported_cells(case));
        }
    }
    table.note = "Sent: IP packets and their bytes, and flows, each direction counted. Reported: the sums of the records \
                  that the collector received; a flow that ends and begins again has several. The run with the median \
                  loss. CPU: core seconds for a million packets."
        .into();
    table.without_empty()
}

fn sent_cells(fps: f64, run: &MeterRun) -> Vec<(&'static str, String)> {
    let rate_bits = run.sent.bytes as f64 * 8.0 / run.seconds.max(1e-9);
    vec![
        ("meter", format!("sent at {}", flow_rate(fps))),
        ("?>packets", count(run.sent.packets)),
        ("???>bytes", count(run.sent.bytes)),
        ("??>flows", count(run.sent.flows)),
        (">lost", NONE.into()),
        ("it is", NONE.into()),
        ("?????>lost in all runs", NONE.into()),
        ("????>packets/s", rate(run.pps())),
        ("????>flows/s", flow_rate(run.fps())),
        ("?????>IP bits/s", bits(rate_bits)),
        ("????>CPU, s/Mpkt", NONE.into()),
        ("????>peak memory", NONE.into()),
    ]
}

fn reported_cells(case: &FlowCase) -> Vec<(&'static str, String)> {
    let run = middle(case);
    let of = |value: fn(&MeterRun) -> u64| or_none(run.map(|run| count(value(run))));
    vec![
        ("meter", case.meter.clone()),
        ("?>packets", of(|run| run.packets)),
        ("???>bytes", of(|run| run.bytes)),
        ("??>flows", of(|run| run.records)),
        (">lost", median_loss(case)),
        ("it is", verdict_word(case.verdict).into()),
        ("?????>lost in all runs", spread(case)),
        ("????>packets/s", or_none(case.pps_median.map(rate))),
        ("????>flows/s", or_none(case.fps_median.map(flow_rate))),
        ("?????>IP bits/s", NONE.into()),
        ("????>CPU, s/Mpkt", or_none(case.cpu_per_million.map(significant))),
        ("????>peak memory", or_none(case.memory_bytes.map(bytes))),
    ]
}

/// The run with the median loss.
fn middle(case: &FlowCase) -> Option<&MeterRun> {
    let mut runs: Vec<&MeterRun> = case.runs.iter().filter(|run| run.failed.is_none()).collect();
    runs.sort_by(|a, b| a.loss.unwrap_or(1.0).total_cmp(&b.loss.unwrap_or(1.0)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

/// "1.2 % (0–2.4 %)", "failed".
fn loss(case: &FlowCase) -> String {
    match spread(case).as_str() {
        NONE => median_loss(case),
        spread => format!("{} ({spread})", median_loss(case)),
    }
}

/// "1.2 %", "failed".
fn median_loss(case: &FlowCase) -> String {
    match case.loss_median {
        Some(median) => percent(median),
        None if case.runs.is_empty() => NONE.into(),
        None => "failed".into(),
    }
}

/// "0–2.4 %"; empty if all runs are equal.
fn spread(case: &FlowCase) -> String {
    or_none(case.loss_spread.filter(|[low, high]| low < high).map(percents))
}

/// Speed of each meter that reads files, and its ratio to quaff's.
pub(super) fn files(report: &Report) -> Table {
    let mut table = Table::new("From a file");
    let ours = report.files.iter().find(|case| case.meter == "quaff").and_then(|case| case.pps_median);
    for case in report.files.iter().filter(|case| !case.runs.is_empty()) {
        let run = middle(case);
        let of = |value: fn(&MeterRun) -> u64| or_none(run.map(|run| count(value(run))));
        let speeds: Vec<f64> =
            case.runs.iter().filter(|run| run.failed.is_none()).map(MeterRun::pps).collect();
        let ratio = ours.zip(case.pps_median).filter(|_| case.meter != "quaff");
        let cells = [
            ("meter", case.meter.clone()),
            (">packets/s", or_none(median(&speeds).map(rate))),
            ("?>quaff is", or_none(ratio.map(|(ours, theirs)| format!("{} ×", significant(ours / theirs))))),
            (">lost", median_loss(case)),
            ("??it is", verdict_word(case.verdict).into()),
            ("?????>lost in all runs", spread(case)),
            ("????>packets", of(|run| run.packets)),
            ("?????>bytes", of(|run| run.bytes)),
            ("????>records", of(|run| run.records)),
            ("?????>time", or_none(run.map(|run| format!("{} s", significant(run.seconds))))),
            ("???>CPU, s/Mpkt", or_none(case.cpu_per_million.map(significant))),
            ("????>peak memory", or_none(case.memory_bytes.map(bytes))),
        ];
        table.push(Some(style(report, &case.meter)), cells);
    }
    let sent = report.files.iter().find_map(middle).map(|run| run.sent);
    table.note = sent.map_or_else(String::new, |sent| {
        format!(
            "A file of {} frames with {} IP packets of {} bytes and {} flows, each direction counted, read from the page \
             cache. Medians; time is from the start of a meter to its end, on one core.",
            count(sent.frames),
            count(sent.packets),
            count(sent.bytes),
            count(sent.flows)
        )
    });
    table.without_empty()
}

/// Highest rates without loss.
pub(super) fn searches(report: &Report) -> Table {
    let mut table = Table::new("Highest rate without loss");
    for search in &report.searches {
        let remark = match (&search.failed, search.upper_fps, search.lower_fps) {
            (Some(why), ..) => format!("failed: {why}"),
            (None, _, None) => "it lost packets at every rate".into(),
            (None, None, Some(_)) => "the generator's limit".into(),
            _ if !search.regular => "irregular: the bounds are not as close as requested".into(),
            _ => NONE.into(),
        };
        let cells = [
            ("meter", search.meter.clone()),
            (">without loss", or_none(search.lower_fps.map(flow_rate))),
            ("?>with loss", or_none(search.upper_fps.map(flow_rate))),
            ("??>trials", count(search.trials.len() as u64)),
            ("remark", remark),
        ];
        table.push(Some(style(report, &search.meter)), cells);
    }
    table.without_empty()
}

pub(super) fn trials(report: &Report) -> Table {
    let mut table = Table::new("All trials");
    for search in &report.searches {
        for trial in &search.trials {
            let cells = [
                ("meter", search.meter.clone()),
                (">asked", flow_rate(trial.fps)),
                (">time", span(trial.seconds)),
                (">lost", percent(trial.loss)),
            ];
            table.push(Some(style(report, &search.meter)), cells);
        }
    }
    table
}

/// The how-to's figures.
pub(super) fn source(report: &Report) -> Table {
    let number = |value: f64| if value.fract() == 0.0 { count(value as u64) } else { format!("{value}") };
    let Some(source) = &report.plan.source else { return Table::default() };
    let mut table = source_table("The numbers of the source", source, |row| row.loss, number, |_| Vec::new());
    for column in &mut table.columns {
        column.rank = match column.head.as_str() {
            "there" | "flows/s" => 0,
            "packets" | "dropped %" => 1,
            "packets/s" | "packets dropped" => 2,
            "rate" => 3,
            _ => 4,
        };
    }
    table
}

/// The meters with their command lines.
pub(super) fn meters(report: &Report) -> Table {
    let mut table = Table::new("The meters");
    for facts in &report.meters {
        let cells = [
            ("meter", facts.name.clone()),
            ("version", or_none(facts.version.clone())),
            ("exports", facts.protocol.clone()),
            ("remark", or_none(Some(facts.remark.clone()).filter(|remark| !remark.is_empty()))),
            ("skipped", or_none(facts.absent.clone())),
            ("command", or_none(Some(facts.command.join(" ")).filter(|words| !words.is_empty()))),
        ];
        table.push(Some(style(report, &facts.name)), cells);
    }
    table.without_empty()
}

/// The null calibrations.
pub(super) fn calibration(report: &Report) -> Table {
    let mut table = Table::new("The generator alone");
    for null in &report.calibration {
        let cells = [
            ("asked", null.fps.map_or_else(|| "as fast as possible".into(), flow_rate)),
            (">flows/s", flow_rate(null.offered_fps)),
            (">packets/s", rate(null.offered_pps)),
        ];
        table.push(None, cells);
    }
    table
}

/// All runs.
pub(super) fn runs(report: &Report) -> Table {
    let mut table = Table::new("All runs");
    for case in report.cases.iter().chain(&report.files) {
        for run in &case.runs {
            let dropped = Some(run.collector_dropped).filter(|dropped| *dropped > 0);
            let undecoded = Some(run.undecoded).filter(|undecoded| *undecoded > 0);
            let cells = [
                ("meter", case.meter.clone()),
                ("asked", asked(case)),
                (">round", run.round.to_string()),
                (">sent", count(run.sent.packets)),
                (">reported", count(run.packets)),
                (">records", count(run.records)),
                (">lost", or_none(run.loss.map(percent))),
                ("it is", verdict_word(run.verdict).into()),
                ("?>packets/s", rate(run.pps())),
                (">CPU, s/Mpkt", significant(run.cpu_per_million())),
                (">peak memory", bytes(run.memory_bytes)),
                ("?>dropped at the collector", or_none(dropped.map(count))),
                ("?>undecoded", or_none(undecoded.map(count))),
                ("failed", or_none(run.failed.clone())),
            ];
            table.push(Some(style(report, &case.meter)), cells);
        }
    }
    table.without_empty()
}
