//! Sums of flows as a page: tables by property, with charts over time. It computes no sums, and knows no flows.

use super::chart::over_time::{OverTime, panel};
use super::chart::{Chart, sections};
use super::document::Document;
use super::table::Table;
use quaff::format::{bits, pps};

/// Traffic of files: its sums by several properties, and over time.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The command that generates the page.
    pub maker: &'static str,
    /// Names of the files.
    pub name: String,
    pub title: String,
    /// Times and sums.
    pub byline: String,
    pub findings: Vec<String>,
    pub warnings: Vec<String>,
    pub method: Vec<String>,
    pub command: Vec<String>,
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Start of each interval as text.
    pub intervals: Vec<String>,
    /// Bytes and packets per interval.
    pub bytes: Vec<u64>,
    pub packets: Vec<u64>,
    pub parts: Vec<TrafficPart>,
}

/// The sums of one property.
#[derive(Debug, Default)]
pub struct TrafficPart {
    /// Its rows; its title is the heading. A row's style is the index of its line.
    pub table: Table,
    pub heading: &'static str,
    /// Names of the lines, and their bytes per interval.
    pub lines: Vec<(String, Vec<u64>)>,
}

/// Maximum number of lines in a chart: each has a distinct colour.
pub const LINES_MAX: usize = 8;

/// Height of a panel, px.
const HEIGHT: f64 = 190.0;
const HEIGHT_SMALL: f64 = 110.0;

impl Traffic {
    /// Renders the page: one file that loads nothing from a network.
    pub fn page(self) -> String {
        let charts = self.parts.iter().map(|part| (part.heading, vec![self.chart(part)]));
        let all = [("Over time", vec![self.total()])].into_iter().chain(charts);
        let sections = sections(all.filter(|_| !self.intervals.is_empty()));
        let document = Document {
            maker: self.maker,
            is_alone: true,
            name: self.name,
            title: self.title,
            byline: self.byline,
            findings: self.findings,
            warnings: self.warnings,
            sections,
            tables: self.parts.into_iter().map(|part| part.table).collect(),
            method: self.method,
            command: self.command,
            ..Document::default()
        };
        document.html()
    }

    /// The chart of all packets.
    fn total(&self) -> Chart {
        let per_s = |counts: &[u64], factor: f64| -> Vec<f64> {
            counts.iter().map(|count| *count as f64 * factor / self.interval_s).collect()
        };
        let time = self.time();
        let bit_rates = time.line(0, "all", &per_s(&self.bytes, 8.0), bits);
        let packet_rates = time.line(0, "all", &per_s(&self.packets, 1.0), pps);
        let packets_unit = ["packets/s", "kpackets/s", "Mpackets/s", "Gpackets/s"];
        let panels = vec![
            panel("IP bytes, ", ["b/s", "kb/s", "Mb/s", "Gb/s"], HEIGHT, vec![bit_rates]),
            panel("", packets_unit, HEIGHT_SMALL, vec![packet_rates]),
        ];
        time.curves("Over time", panels)
    }

    /// The chart of the largest groups of a property.
    fn chart(&self, part: &TrafficPart) -> Chart {
        let time = self.time();
        let line = |(style, (name, bytes)): (usize, &(String, Vec<u64>))| {
            let rates: Vec<f64> = bytes.iter().map(|bytes| *bytes as f64 * 8.0 / self.interval_s).collect();
            time.line(style, name, &rates, bits)
        };
        let lines = part.lines.iter().take(LINES_MAX).enumerate().map(line).collect();
        let panels = vec![panel("IP bytes, ", ["b/s", "kb/s", "Mb/s", "Gb/s"], HEIGHT, lines)];
        time.curves(part.heading, panels)
    }

    fn time(&self) -> OverTime<'_> {
        OverTime { interval_s: self.interval_s, intervals: &self.intervals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Column, Row};

    fn traffic() -> Traffic {
        let column = |head: &str, right| Column { group: String::new(), head: head.into(), right, rank: 0 };
        let row = |style, name: &str, bytes: &str| Row {
            style: Some(style),
            is_total: false,
            cells: vec![name.into(), bytes.into()],
        };
        let table = Table {
            title: "Hosts".into(),
            columns: vec![column("host", false), column("bytes", true)],
            rows: vec![row(0, "10.0.0.1", "2 MB"), row(1, "<script>x</script>", "1 MB")],
            ..Table::default()
        };
        let lines = vec![
            ("10.0.0.1".into(), vec![1_000_000, 0, 1_000_000]),
            ("<script>x</script>".into(), vec![0, 1_000_000, 0]),
        ];
        Traffic {
            maker: "quaff flows report",
            name: "a.pcap".into(),
            title: "Traffic of a.pcap".into(),
            interval_s: 1.0,
            intervals: ["00:00:01", "00:00:02", "00:00:03"].map(String::from).to_vec(),
            bytes: vec![1_000_000; 3],
            packets: vec![10; 3],
            parts: vec![TrafficPart { table, heading: "Hosts", lines }],
            ..Traffic::default()
        }
    }

    #[test]
    fn the_page_has_tables_and_pictures_and_nothing_escapes() {
        let page = traffic().page();
        for part in
            ["Traffic of a.pcap", "id=\"hosts\"", "8.00 Mb/s", "Mb/s", "packets/s", "seconds since 00:00:01"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script>x") && !page.contains("result.json"), "{page}");
        assert!(page.matches("<svg class=\"pic").count() >= 4, "two pictures at several widths");
    }

    #[test]
    fn a_page_of_nothing_has_no_pictures() {
        let page =
            Traffic { intervals: Vec::new(), bytes: Vec::new(), packets: Vec::new(), ..traffic() }.page();
        assert!(!page.contains("<svg class=\"pic") && page.contains("id=\"hosts\""));
    }
}
