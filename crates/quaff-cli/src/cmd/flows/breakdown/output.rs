//! The outputs of a report: tables for a terminal, JSON, and the data of a page.

use super::args::Args;
use crate::cmd::flows::stored::Origin;
use crate::cmd::flows::sums::{
    GroupsJson, Rates, SumJson, by_name, columns, dense, heading, recorded_by, together,
};
use crate::show::{self, Stream, name};
use crate::terminal_table::{self, Columns};
use quaff::flows::FlowReport;
use quaff::format;
use quaff::tally::Verdict;
use quaff_bench::report::{LINES_MAX, Row, Table, TimePage, TimePanel, TimeUnit};
use quaff_file::moment;
use quaff_file::read::GONE;
use quaff_flow::summary::{By, Cell, Query, Ranked, Summary};
use serde::Serialize;
use std::path::PathBuf;

/// Groups whose values over time are in a table.
const SERIES: usize = 4;
/// The label of a panel.
const IP_BYTES: &str = "IP bytes, ";

/// A summary on its way to a reader.
pub(super) struct Shown<'a> {
    pub(super) files: &'a [PathBuf],
    pub(super) origin: Origin,
    pub(super) summary: &'a Summary,
    pub(super) report: &'a FlowReport,
    pub(super) args: &'a Args,
}

/// The JSON of a report.
#[derive(Debug, Serialize)]
struct ReportJson {
    files: usize,
    /// Times of the first and the last packet of a flow, ns since 1970.
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    seconds: f64,
    /// Packets of the files, and of these the ignored ones.
    packets: u64,
    bytes: u64,
    packets_ignored: u64,
    bytes_ignored: u64,
    verdict: Verdict,
    /// The sums of the records that are wanted, and of those that are not.
    total: SumJson,
    left_out: SumJson,
    over: OverJson,
    by: Vec<GroupsJson>,
}

/// Values over time.
#[derive(Debug, Serialize)]
struct OverJson {
    /// Length of an interval, ns.
    interval_ns: u64,
    /// The begin of the first interval, ns since 1970.
    begin_ns: u64,
    packets: Vec<u64>,
    bytes: Vec<u64>,
}

impl Shown<'_> {
    fn ranked(&self, by: By) -> Ranked {
        self.summary.ranked(&self.args.query(by))
    }

    fn seconds(&self) -> f64 {
        self.summary.span_ns().map_or(0.0, |[first, last]| (last - first) as f64 / 1e9)
    }

    fn rates(&self) -> Rates {
        Rates::MeanOfFlows(self.seconds())
    }

    /// The first and the last interval.
    fn intervals(&self) -> Option<[u64; 2]> {
        let cell_ns = self.summary.cell_ns();
        self.summary.span_ns().filter(|_| cell_ns > 0).map(|span| span.map(|time_ns| time_ns / cell_ns))
    }

    pub(super) fn json(&self) -> anyhow::Result<()> {
        let (report, intervals) = (self.report, self.intervals());
        let (total, cells) = self.summary.total();
        let values = |value: fn(&Cell) -> u64| {
            intervals.map_or(Vec::new(), |intervals| dense(cells, intervals, value))
        };
        let groups = |by: By| GroupsJson::new(by, &self.ranked(by), self.rates(), intervals);
        let interval_ns = self.summary.cell_ns();
        show::json(
            Stream::Stdout,
            &ReportJson {
                files: self.files.len(),
                first_ns: self.summary.span_ns().map(|[first, _]| first),
                last_ns: self.summary.span_ns().map(|[_, last]| last),
                seconds: self.seconds(),
                packets: report.packets,
                bytes: report.bytes,
                packets_ignored: report.packets_ignored,
                bytes_ignored: report.bytes_ignored,
                verdict: report.verdict,
                total: total.into(),
                left_out: self.summary.left_out().into(),
                over: OverJson {
                    interval_ns,
                    begin_ns: intervals.map_or(0, |[first, _]| first * interval_ns),
                    packets: values(|cell| cell.packets),
                    bytes: values(|cell| cell.bytes),
                },
                by: self.args.properties().into_iter().map(groups).collect(),
            },
        )
    }

    /// Tables for a terminal.
    pub(super) fn text(&self) -> String {
        let mut text: String =
            self.opening().map(|words| terminal_table::wrapped("", &words) + "\n").collect();
        let columns = Columns::wide(*self.args.wide);
        let mut add =
            |table: &Table| text += &format!("\n{}\n", terminal_table::report_table(table, columns));
        for by in self.args.properties() {
            add(&unbroken(self.table(by, &self.ranked(by)), columns));
        }
        if self.args.over.is_some() {
            add(&self.over_time());
        }
        text
    }

    /// The first sentences: what was read, and what was left out.
    fn opening(&self) -> impl Iterator<Item = String> {
        [Some(self.headline()), self.left_out_words()].into_iter().flatten()
    }

    /// The files, their packets and their time in one line.
    fn headline(&self) -> String {
        let (sum, _) = self.summary.total();
        let records = if sum.records > sum.flows {
            format!(" in {}", show::number_of(sum.records, "record"))
        } else {
            String::new()
        };
        let mut words = format!(
            "{}: {}, {} of IP in {}{records}",
            self.name(),
            show::number_of(sum.packets, "packet"),
            show::bytes(sum.bytes),
            show::number_of(sum.flows, "flow")
        );
        if let Some([first_ns, _]) = self.summary.span_ns() {
            words += &format!(", {} from {}", format::span(self.seconds()), time(first_ns));
        }
        words
    }

    /// The name of the file, or the number of files.
    fn name(&self) -> String {
        match self.files {
            [file] => printable(&file.file_name().unwrap_or(file.as_os_str()).to_string_lossy()),
            files => format!("{} files", files.len()),
        }
    }

    /// The rows of a property. The largest ones have the style of their line in the picture.
    fn table(&self, by: By, ranked: &Ranked) -> Table {
        let columns = columns(by);
        let row = |(at, row): (usize, &quaff_flow::summary::Row)| Row {
            style: Some(at).filter(|at| *at < LINES_MAX),
            is_total: at >= ranked.rows.len(),
            cells: columns.iter().map(|column| printable(&(column.cell)(row, self.rates()))).collect(),
        };
        Table {
            title: heading(by).to_owned(),
            note: self.note(by, ranked),
            columns: columns.iter().map(|column| column.of_table(by)).collect(),
            rows: ranked.rows.iter().chain(&ranked.rest).enumerate().map(row).collect(),
            ..Table::default()
        }
    }

    /// The number of groups, and what a reader of the rows has to know.
    fn note(&self, by: By, ranked: &Ranked) -> String {
        let (shown, matching) = (ranked.rows.len(), ranked.matching);
        let mut note = format!("{shown} of {}", show::count(matching as u64));
        if ranked.matching < ranked.groups {
            note += &format!(" that match, of {}", show::count(ranked.groups as u64));
        }
        match by {
            By::Host => note += "; a flow counts at both its hosts",
            By::Flow => note += "; rates are those of the time of each flow, and a dash where that is 0",
            _ => {}
        }
        if !ranked.not_recorded.is_empty() {
            let names: Vec<_> = ranked.not_recorded.iter().map(|by| by_name(*by)).collect();
            let by = recorded_by(&ranked.not_recorded);
            note += &format!("; not recorded: {} (recorded by {by})", names.join(", "));
        }
        if ranked.lacking_bytes_max > 0 {
            note += &format!(
                "; groups without a place are in the row of others, and rows may lack up to {}",
                show::bytes(ranked.lacking_bytes_max)
            );
        }
        note
    }

    /// Rates of each interval: of all packets, and of the largest groups of the first property.
    fn over_time(&self) -> Table {
        let (interval_s, Some(intervals)) = (self.interval_s(), self.intervals()) else {
            return Table::default();
        };
        let (_, cells) = self.summary.total();
        let by = self.args.properties().first().copied().unwrap_or(By::Host);
        let ranked = self.summary.ranked(&Query { count: SERIES, has_rest: false, ..self.args.query(by) });
        let series: Vec<_> =
            ranked.rows.iter().map(|row| dense(&row.cells, intervals, |cell| cell.bytes)).collect();
        let bytes = dense(cells, intervals, |cell| cell.bytes);
        let packets = dense(cells, intervals, |cell| cell.packets);
        let bits = |bytes: u64| show::bits(8.0 * bytes as f64 / interval_s);
        let row = |at: usize| {
            let time = time((intervals[0] + at as u64) * self.summary.cell_ns());
            let all = [time, bits(bytes[at]), show::pps(packets[at] as f64 / interval_s)];
            let cells = all.into_iter().chain(series.iter().map(|series| bits(series[at]))).collect();
            Row { style: None, is_total: false, cells }
        };
        let column = |head: &str, right, rank| terminal_table::column(&printable(head), right, rank);
        let all = [column("time", false, 0), column("b/s", true, 0), column("pkt/s", true, 1)];
        let groups = ranked.rows.iter().map(|row| column(&row.name, true, 2));
        Table {
            title: "Over time".to_owned(),
            note: format!("{} each; b/s of the largest by {}", format::span(interval_s), by_name(by)),
            columns: all.into_iter().chain(groups).collect(),
            rows: (0..bytes.len()).map(row).collect(),
            ..Table::default()
        }
    }

    fn interval_s(&self) -> f64 {
        self.summary.cell_ns() as f64 / 1e9
    }

    /// The page.
    pub(super) fn page(&self) -> String {
        let intervals = self.intervals();
        let (_, cells) = self.summary.total();
        let begins =
            intervals.map(|[first, last]| (first..=last).map(|at| time(at * self.summary.cell_ns())));
        let all = |label, unit, values| TimePanel { label, unit, lines: vec![("all".to_owned(), values)] };
        let total = vec![
            all(IP_BYTES, TimeUnit::BitsPerSecond, self.per_second(cells, 8.0, |cell| cell.bytes)),
            all("", TimeUnit::PacketsPerSecond, self.per_second(cells, 1.0, |cell| cell.packets)),
        ];
        let ranked: Vec<_> = self.args.properties().into_iter().map(|by| (by, self.ranked(by))).collect();
        let charts = ranked.iter().map(|(by, ranked)| (heading(*by), vec![self.largest(ranked)]));
        let page = TimePage {
            maker: "quaff flows report",
            name: self.name(),
            title: format!("Traffic of {}", self.name()),
            verdict: None,
            byline: self.opening().collect::<Vec<_>>().join(". "),
            findings: self.findings(),
            warnings: self.warnings(),
            method: self.method(),
            command: std::env::args().collect(),
            interval_s: self.interval_s(),
            intervals: begins.map_or(Vec::new(), Iterator::collect),
            charts: std::iter::once(("Over time", total)).chain(charts).collect(),
            tables: ranked.iter().map(|(by, ranked)| self.table(*by, ranked)).collect(),
        };
        page.page()
    }

    /// The largest groups of a property over time.
    fn largest(&self, ranked: &Ranked) -> TimePanel {
        let line = |row: &quaff_flow::summary::Row| {
            (printable(&row.name), self.per_second(&row.cells, 8.0, |cell| cell.bytes))
        };
        let lines = ranked.rows.iter().take(LINES_MAX).map(line).collect();
        TimePanel { label: IP_BYTES, unit: TimeUnit::BitsPerSecond, lines }
    }

    /// A rate in each interval: `factor` times the value of its cell, each second.
    fn per_second(&self, cells: &[Cell], factor: f64, value: fn(&Cell) -> u64) -> Vec<f64> {
        let values = self.intervals().map_or(Vec::new(), |all| dense(cells, all, value));
        values.iter().map(|value| *value as f64 * factor / self.interval_s()).collect()
    }

    /// The largest group of each property, as a sentence.
    fn findings(&self) -> Vec<String> {
        let whole = self.summary.total().0.bytes;
        let largest = |by: By| {
            let ranked = self.ranked(by);
            let row = ranked.rows.first().filter(|_| whole > 0)?;
            let share = format::percent(row.sum.bytes as f64 / whole as f64);
            Some(format!("The largest {} is {}: {share} of the bytes.", by_name(by), printable(&row.name)))
        };
        self.args.properties().into_iter().filter_map(largest).collect()
    }

    /// Losses and damage, as sentences.
    fn warnings(&self) -> Vec<String> {
        let report = self.report;
        let damages = report.input.iter().flat_map(|input| &input.damages);
        let damages =
            damages.map(|damage| format!("Damaged: {damage}; the packets before it are in the sums."));
        let missing = report.input.iter().flat_map(|input| &input.missing);
        let damages = damages.chain(missing.map(|path| format!("Missing: {path}, {GONE}.")));
        let reasons = report.reasons.lossy.iter().chain(&report.reasons.unknown).cloned();
        damages.chain(reasons).collect()
    }

    fn method(&self) -> Vec<String> {
        let ignored = self.report.packets_ignored;
        let stored =
            |kind: &str| format!("Records are those of {kind}, whose meter chose how long one lasts.");
        let records = match self.origin {
            Origin::Captures => {
                format!(
                    "A long flow has a record each {}.",
                    format::span(self.args.records.active().as_secs_f64())
                )
            }
            Origin::Segments => stored("segments"),
            Origin::Ipfix => stored("IPFIX files"),
        };
        let chosen = self.left_out_words().map(|words| format!("{words}."));
        let method = vec![
            format!(
                "{}, of which {} are in no flow: without an IP header, or cut before the ports.",
                show::number_of(self.report.packets, "packet"),
                show::count(ignored)
            ),
            "Bytes are those of IP packets by their own headers. Rates of rows are means over the whole time, of flows over \
             their own."
                .into(),
            format!("The packets of a record are spread evenly over its time. {records}"),
        ];
        chosen.into_iter().chain(method).collect()
    }

    /// The records that `--where`, `--from` and `--to` left out; `None` without any.
    fn left_out_words(&self) -> Option<String> {
        let left_out = self.summary.left_out();
        let (records, packets) = (left_out.records, show::number_of(left_out.packets, "packet"));
        let (records_of, bytes) = (show::number_of(records, "record"), show::bytes(left_out.bytes));
        let flags = self.args.records.choice.words();
        (records > 0).then(|| format!("Left out by {flags}: {records_of} with {packets}, {bytes}"))
    }
}

/// The table with names in one line each, where there is room for them.
fn unbroken(mut table: Table, columns: Columns) -> Table {
    for cell in table.rows.iter_mut().filter_map(|row| row.cells.first_mut()) {
        *cell = together(cell, columns);
    }
    table
}

fn printable(text: &str) -> String {
    name(text).into_owned()
}

/// A time, to the second or the ms.
fn time(ns: u64) -> String {
    moment::text(ns, if ns.is_multiple_of(1_000_000_000) { 0 } else { 3 })
}
