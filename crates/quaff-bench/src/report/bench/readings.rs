//! The tables of programs that read a capture file.

use super::view::{View, distinct};
use crate::bench::result::ReadCase;
use crate::report::table::{Table, or_none};
use crate::stats::spread;
use quaff::format::{bytes, count, rate, significant};
use quaff_wire::printable::quote;

/// Name prefix of quaff's readers: the others are compared with the one of their series.
const OURS: &str = "quaff ";

/// One row per reader, grouped by series.
pub(super) fn table(view: &View) -> Table {
    let cases = &view.report.readings;
    let mut table = Table::new("From a file, on one core");
    for case in cases.iter().filter(|case| !case.runs.is_empty()) {
        let ours = cases.iter().find(|other| other.series == case.series && other.reader.starts_with(OURS));
        let ratio = |of: fn(&ReadCase) -> Option<f64>| {
            let (ours, theirs) = (ours.and_then(of)?, of(case).filter(|_| !case.reader.starts_with(OURS))?);
            Some(format!("{} ×", significant(ours / theirs)))
        };
        let seconds: Vec<f64> =
            case.runs.iter().filter(|run| run.failed.is_none()).map(|run| run.seconds).collect();
        let failed = case.runs.len() - seconds.len();
        let times = spread(&seconds).map(|times| times.map(significant).join("–") + " s");
        let row = [
            ("work", case.series.clone()),
            ("program", case.reader.clone()),
            (">packets/s", or_none(case.pps_median.map(rate))),
            (">quaff is", or_none(ratio(|case| case.pps_median))),
            ("?>time of all runs", or_none(times)),
            ("?>CPU, s/Mpkt", or_none(case.cpu_per_million.map(significant))),
            (">peak memory", or_none(case.memory_bytes.map(bytes))),
            ("?>quaff has", or_none(ratio(|case| case.memory_bytes.map(|bytes| bytes as f64)))),
            (">failed runs", if failed == 0 { String::new() } else { failed.to_string() }),
        ];
        table.push(None, row);
    }
    table.note = note(cases);
    table.without_empty()
}

/// The files, and the notes on readers.
fn note(cases: &[ReadCase]) -> String {
    let file = |case: &ReadCase| {
        let name = case.file.rsplit('/').next().unwrap_or_default();
        format!("{name}, {} packets, {} in all", count(case.frames), bytes(case.bytes))
    };
    let mut parts = distinct(cases.iter().map(file));
    parts.push("read from the page cache; medians of the time from a program's start to its end".into());
    let remarks = cases.iter().filter(|case| !case.remark.is_empty() && case.absent.is_none());
    parts.extend(distinct(
        remarks.map(|case| format!("{}: {}", case.reader, case.remark.trim_end_matches('.'))),
    ));
    parts.join("; ")
}

/// The readers with versions and commands, and those that were not measured.
pub(super) fn programs(view: &View) -> Table {
    let mut table = Table::new("Programs that read the file");
    for case in &view.report.readings {
        let command = match &case.absent {
            Some(why) => format!("left out: {why}"),
            None => case.command.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        };
        let row = [
            ("program", case.reader.clone()),
            ("version", or_none(case.version.clone())),
            ("command", command),
        ];
        table.push(None, row);
    }
    table
}
