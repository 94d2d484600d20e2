//! A page of values over time: charts of lines, tables and sentences. It computes no values, and knows neither flows
//! nor losses.

use super::chart::curves::{Curves, Line, Panel, Point};
use super::chart::scale::{Scale, Unit};
use super::chart::{Chart, Shape, sections};
use super::document::Document;
use super::table::Table;
use quaff::format::{bits, count, percent, pps};

/// A page about files.
#[derive(Debug, Default)]
pub struct TimePage {
    /// The command that generates the page.
    pub maker: &'static str,
    /// Names of the files.
    pub name: String,
    pub title: String,
    /// CSS class (`pass`, `fail`, `open`) and text of the verdict.
    pub verdict: Option<[&'static str; 2]>,
    /// Times and sums.
    pub byline: String,
    pub findings: Vec<String>,
    pub warnings: Vec<String>,
    pub method: Vec<String>,
    pub command: Vec<String>,
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Start of each interval as text; without an interval there is no chart.
    pub intervals: Vec<String>,
    /// Charts by their headings, each with its panels. A table with the title of a chart is shown below it.
    pub charts: Vec<(&'static str, Vec<TimePanel>)>,
    pub tables: Vec<Table>,
}

/// A panel of a chart; the first one is the highest.
#[derive(Debug)]
pub struct TimePanel {
    pub label: &'static str,
    pub unit: TimeUnit,
    /// Names of the lines, and their values per interval.
    pub lines: Vec<(String, Vec<f64>)>,
}

/// The unit of the values of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    BitsPerSecond,
    PacketsPerSecond,
    Packets,
    Percent,
}

/// Maximum number of lines in a panel: each has a distinct colour.
pub const LINES_MAX: usize = 8;

/// Height of the first panel and of the others, px.
const HEIGHT: f64 = 190.0;
const HEIGHT_SMALL: f64 = 110.0;

impl TimePage {
    /// Renders the page: one file that loads nothing from a network.
    pub fn page(self) -> String {
        let charts = self.charts.iter().filter(|_| !self.intervals.is_empty());
        let document = Document {
            sections: sections(charts.map(|(heading, panels)| (*heading, vec![self.chart(heading, panels)]))),
            maker: self.maker,
            is_alone: true,
            name: self.name,
            title: self.title,
            byline: self.byline,
            verdict: self.verdict,
            findings: self.findings,
            warnings: self.warnings,
            tables: self.tables,
            method: self.method,
            command: self.command,
            ..Document::default()
        };
        document.html()
    }

    fn chart(&self, title: &str, panels: &[TimePanel]) -> Chart {
        let seconds = self.intervals.len() as f64 * self.interval_s;
        let (divide, unit) = match seconds {
            s if s < 600.0 => (1.0, "seconds"),
            s if s < 36_000.0 => (60.0, "minutes"),
            _ => (3600.0, "hours"),
        };
        let heights = std::iter::once(HEIGHT).chain(std::iter::repeat(HEIGHT_SMALL));
        let panels = panels.iter().zip(heights);
        let curves = Curves {
            x_label: format!("{unit} since {}", self.intervals.first().map_or("", String::as_str)),
            x: Scale::up_to(seconds / divide, Unit::Number),
            columns: self.intervals.clone(),
            panels: panels.map(|(panel, height)| panel.drawn(self.interval_s / divide, height)).collect(),
            gaps: Vec::new(),
            is_dense: true,
        };
        Chart::new(title, "", Shape::Curves(curves))
    }
}

impl TimePanel {
    /// The panel with lines through the middle of each interval, on an axis whose unit fits.
    fn drawn(&self, interval: f64, height: f64) -> Panel {
        let (units, words) = self.unit.words();
        let most = self.lines.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max);
        let last = units.len() - 1;
        let unit = (0..last).find(|unit| most < 1000f64.powi(*unit as i32 + 1)).unwrap_or(last);
        let divide = 1000f64.powi(unit as i32);
        let point = |(column, value): (usize, &f64)| Point {
            column,
            x: (column as f64 + 0.5) * interval,
            y: value / divide,
            words: words(*value),
            ..Point::default()
        };
        let line = |(style, (name, values)): (usize, &(String, Vec<f64>))| Line {
            style,
            name: name.clone(),
            points: values.iter().enumerate().map(point).collect(),
        };
        let lines = self.lines.iter().take(LINES_MAX).enumerate().map(line).collect();
        let label = format!("{}{}", self.label, units[unit]);
        Panel::new(label, Scale::over(most / divide, Unit::Number), height, lines)
    }
}

impl TimeUnit {
    /// Units of an axis, each a thousand of the one before, and a value as text.
    fn words(self) -> ([&'static str; 4], fn(f64) -> String) {
        match self {
            Self::BitsPerSecond => (["b/s", "kb/s", "Mb/s", "Gb/s"], bits),
            Self::PacketsPerSecond => (["packets/s", "kpackets/s", "Mpackets/s", "Gpackets/s"], pps),
            Self::Packets => {
                (["packets", "kpackets", "Mpackets", "Gpackets"], |packets| count(packets as u64))
            }
            Self::Percent => (["%"; 4], |value| percent(value / 100.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Column, Row};

    fn table() -> Table {
        let column = |head: &str, right| Column {
            group: String::new(),
            head: head.into(),
            right,
            rank: 0,
            may_be_cut: false,
        };
        let row = |style, name: &str, bytes: &str| Row {
            style: Some(style),
            is_total: false,
            cells: vec![name.into(), bytes.into()],
        };
        Table {
            title: "Hosts".into(),
            columns: vec![column("host", false), column("bytes", true)],
            rows: vec![row(0, "10.0.0.1", "2 MB"), row(1, "<script>x</script>", "1 MB")],
            ..Table::default()
        }
    }

    fn traffic() -> TimePage {
        let panel = |label, unit, lines| TimePanel { label, unit, lines };
        let all = |value: f64| vec![("all".to_owned(), vec![value; 3])];
        let hosts = vec![
            ("10.0.0.1".into(), vec![8e6, 0.0, 8e6]),
            ("<script>x</script>".into(), vec![0.0, 8e6, 0.0]),
        ];
        TimePage {
            maker: "quaff flows report",
            name: "a.pcap".into(),
            title: "Traffic of a.pcap".into(),
            interval_s: 1.0,
            intervals: ["00:00:01", "00:00:02", "00:00:03"].map(String::from).to_vec(),
            charts: vec![
                (
                    "Over time",
                    vec![
                        panel("IP bytes, ", TimeUnit::BitsPerSecond, all(8e6)),
                        panel("", TimeUnit::PacketsPerSecond, all(10.0)),
                    ],
                ),
                ("Hosts", vec![panel("IP bytes, ", TimeUnit::BitsPerSecond, hosts)]),
            ],
            tables: vec![table()],
            ..TimePage::default()
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
        let page = TimePage { intervals: Vec::new(), ..traffic() }.page();
        assert!(!page.contains("<svg class=\"pic") && page.contains("id=\"hosts\""));
    }

    #[test]
    fn the_page_has_the_verdict_and_shares_in_percent() {
        let lost = TimePanel {
            label: "each interval, ",
            unit: TimeUnit::Packets,
            lines: ["lost", "recorded as dropped"].map(|name| (name.to_owned(), vec![0.0, 7.0])).to_vec(),
        };
        let ratio = TimePanel {
            label: "lost data segments, ",
            unit: TimeUnit::Percent,
            lines: vec![("lost".into(), vec![0.0, 3.5])],
        };
        let page = TimePage {
            title: "7 packets lost <script>x".into(),
            verdict: Some(["fail", "✗ not complete"]),
            interval_s: 2.0,
            intervals: ["00:00:01", "00:00:03"].map(String::from).to_vec(),
            charts: vec![("Loss over time", vec![lost, ratio])],
            ..TimePage::default()
        }
        .page();
        for part in
            ["not complete", "id=\"loss-over-time\"", "seconds since 00:00:01", "3.5 %", "<svg class=\"pic"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script>x"));
    }
}
