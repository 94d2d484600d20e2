//! The data of the page of `quaff verify`: loss over time, by interface, the worst connections, and the evidence.

use super::numbers::number_words;
use super::tcp::{flow_words, loss_words, network_words};
use crate::show::{self, name};
use crate::terminal_table::column;
use quaff::format::percent_fine;
use quaff_bench::report::{Row, Table, TimePage, TimePanel, TimeUnit};
use quaff_file::verify::Report;
use quaff_stream::loss::Interval;
use std::path::PathBuf;

/// The page of a report.
pub(super) fn page(files: &[PathBuf], report: &Report) -> String {
    let intervals = dense(&report.tcp.loss.intervals);
    let times = report.tcp.loss.intervals.first();
    let width_ns = times.map_or(0, |interval| interval.to_ns - interval.from_ns);
    let values = |of: fn(&Interval) -> f64| intervals.iter().map(of).collect::<Vec<_>>();
    let lost = values(|it| (it.lost_packets + it.numbered_lost) as f64);
    let recorded = values(|it| it.recorded_drops as f64);
    let percents = values(|it| it.loss_ratio.unwrap_or(0.0) * 100.0);
    let panel = |label, unit, lines| TimePanel { label, unit, lines };
    let counts = vec![("lost".to_owned(), lost), ("recorded as dropped".to_owned(), recorded)];
    let page = TimePage {
        maker: "quaff verify",
        name: files_name(files),
        title: name(&report.verdict).into_owned(),
        verdict: Some(match report.outcome.is_judged.then_some(report.outcome.complete) {
            Some(true) => ["pass", "✓ complete"],
            Some(false) => ["fail", "✗ not complete"],
            None => ["open", "unknown"],
        }),
        byline: byline(files, report),
        findings: findings(report),
        warnings: warnings(report),
        method: method(),
        command: std::env::args().collect(),
        interval_s: width_ns as f64 / 1e9,
        intervals: intervals.iter().map(|interval| show::time_ns(interval.from_ns)).collect(),
        charts: vec![(
            "Loss over time",
            vec![
                panel("each interval, ", TimeUnit::Packets, counts),
                panel("lost data segments, ", TimeUnit::Percent, vec![("lost".to_owned(), percents)]),
            ],
        )],
        tables: vec![evidence(report), interfaces(report), connections(report)],
    };
    page.page()
}

/// All intervals between the first and the last, which are those with packets of interest.
fn dense(known: &[Interval]) -> Vec<Interval> {
    let (Some(first), Some(last)) = (known.first(), known.last()) else { return Vec::new() };
    let width_ns = (first.to_ns - first.from_ns).max(1);
    let count = (last.from_ns - first.from_ns) / width_ns + 1;
    let mut left = known.iter().peekable();
    (0..count)
        .map(|at| {
            let from_ns = first.from_ns + at * width_ns;
            let to_ns = from_ns.saturating_add(width_ns);
            let empty = Interval { from_ns, to_ns, ..Interval::default() };
            left.next_if(|interval| interval.from_ns == from_ns).copied().unwrap_or(empty)
        })
        .collect()
}

fn files_name(files: &[PathBuf]) -> String {
    match files {
        [file] => name(&file.file_name().unwrap_or(file.as_os_str()).to_string_lossy()).into_owned(),
        files => format!("{} files", files.len()),
    }
}

fn byline(files: &[PathBuf], report: &Report) -> String {
    let frames = show::number_of(report.outcome.frames, "packet");
    let bytes = show::bytes(report.outcome.bytes);
    format!("{}: {frames}, {bytes}", files_name(files))
}

/// The losses, as sentences.
fn findings(report: &Report) -> Vec<String> {
    let loss = &report.tcp.loss;
    let mut all = Vec::new();
    if let Some(words) = loss_words(loss) {
        all.push(format!(
            "Lost by TCP: {}, {words}.",
            show::number_of(loss.supported(loss.acked_unseen_packets_estimate), "packet")
        ));
    }
    if let Some(worst) = loss.worst.first() {
        all.push(format!(
            "The connection with the most: {} – {}, {}.",
            worst.ends[0],
            worst.ends[1],
            show::number_of(worst.lost_packets, "packet")
        ));
    }
    all
}

fn warnings(report: &Report) -> Vec<String> {
    let reasons = report.outcome.reasons.iter().map(|reason| format!("{}.", name(reason)));
    reasons.chain(report.outcome.notes.iter().map(|note| name(note).into_owned())).collect()
}

fn row(cells: Vec<String>) -> Row {
    Row { style: None, is_total: false, cells }
}

/// The evidence, and its result.
fn evidence(report: &Report) -> Table {
    let (loss, numbers) = (&report.tcp.loss, &report.numbers);
    let mut rows = Vec::new();
    if loss.flows > 0 {
        let words = format!("{}; {}", flow_words(loss), network_words(loss));
        rows.push(["TCP".to_owned(), show::count(loss.flows_with_evidence), words]);
    }
    for (name, kind) in [
        ("ERSPAN", &numbers.erspan),
        ("GRE", &numbers.gre),
        ("RTP", &numbers.rtp),
        ("IP identification", &numbers.ip_id),
    ] {
        if kind.sources > 0 {
            rows.push([name.to_owned(), show::count(kind.sources), number_words(kind, "")]);
        }
    }
    let drops = super::words::drop_words(report.outcome.ledger.as_ref());
    rows.push(["Counters in the file".to_owned(), String::new(), drops]);
    Table {
        title: "Evidence".to_owned(),
        note: "RTP and GRE packets may have been lost before the capture; IP identifications prove nothing alone"
            .to_owned(),
        columns: vec![column("evidence", false, 0), column("senders", true, 0), column("result", false, 0)],
        rows: rows.into_iter().map(|cells| row(cells.into())).collect(),
        ..Table::default()
    }
}

fn interfaces(report: &Report) -> Table {
    let used =
        report.tcp.loss.interfaces.iter().filter(|it| it.segments + it.lost_packets + it.recorded_drops > 0);
    let cells = used.map(|it| {
        let share = it.loss_ratio.map_or(String::new(), |ratio| format!("{} %", percent_fine(ratio)));
        let interface = if it.name.is_empty() { "–".into() } else { name(&it.name).into_owned() };
        let [segments, lost, drops] = [it.segments, it.lost_packets, it.recorded_drops].map(show::count);
        row(vec![interface, segments, lost, share, drops])
    });
    Table {
        title: "Interfaces".to_owned(),
        note: "data segments by the interface on which their sender was seen; drops that packets record"
            .to_owned(),
        columns: vec![
            column("interface", false, 0),
            column("segments", true, 0),
            column("lost", true, 0),
            column("ratio", true, 0),
            column("recorded drops", true, 1),
        ],
        rows: cells.collect(),
        ..Table::default()
    }
}

fn connections(report: &Report) -> Table {
    let cells = report.tcp.loss.worst.iter().map(|flow| {
        let [one, other] = flow.ends.map(|end| end.to_string());
        let counts = [flow.segments, flow.lost_packets].map(show::count);
        row([one, other].into_iter().chain(counts).chain([show::bytes(flow.lost_bytes)]).collect())
    });
    Table {
        title: "Worst connections".to_owned(),
        note: "at most 16; packets by the mean size of their segments".to_owned(),
        columns: vec![
            column("end", false, 0),
            column("other end", false, 0),
            column("segments", true, 1),
            column("lost packets", true, 0),
            column("lost bytes", true, 0),
        ],
        rows: cells.collect(),
        ..Table::default()
    }
}

fn method() -> Vec<String> {
    let all = [
        "Data are lost that both ends of a connection name and that the file lacks; the intervals show them where they \
         should have been. Data that came late or again are no loss of the capture.",
        "Missing ERSPAN numbers are mirrored packets that the capture lacks.",
    ];
    all.map(String::from).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_without_packets_are_filled_in() {
        let interval =
            |from_ns, segments| Interval { from_ns, to_ns: from_ns + 10, segments, ..Interval::default() };
        let found = dense(&[interval(100, 1), interval(130, 4)]);
        let cells: Vec<_> = found.iter().map(|it| (it.from_ns, it.to_ns, it.segments)).collect();
        assert_eq!(cells, [(100, 110, 1), (110, 120, 0), (120, 130, 0), (130, 140, 4)]);
        assert!(dense(&[]).is_empty());
        // The last one ends with the numbers of times.
        let width_ns = 1 << 58;
        let last = Interval { from_ns: 63 * width_ns, to_ns: u64::MAX, ..Interval::default() };
        let found = dense(&[Interval { to_ns: width_ns, ..Interval::default() }, last]);
        assert_eq!((found.len(), found.last()), (64, Some(&last)));
    }
}
