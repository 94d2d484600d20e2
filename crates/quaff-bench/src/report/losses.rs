//! The losses of a capture as a page: over time, by interface, by connection, and the evidence. It judges nothing, and
//! knows no protocol.

use super::chart::over_time::{OverTime, panel};
use super::chart::{Chart, sections};
use super::document::Document;
use super::table::Table;
use quaff::format::{count, percent};

/// The losses of files.
#[derive(Debug, Default)]
pub struct Losses {
    /// The command that generates the page.
    pub maker: &'static str,
    /// Names of the files.
    pub name: String,
    /// The verdict.
    pub title: String,
    /// True if the capture is complete as far as can be known; `None` without evidence.
    pub is_complete: Option<bool>,
    /// Packet counts and times.
    pub byline: String,
    pub findings: Vec<String>,
    pub warnings: Vec<String>,
    pub method: Vec<String>,
    pub command: Vec<String>,
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Start of each interval as text.
    pub intervals: Vec<String>,
    /// Per interval: lost packets, packets that the capturer recorded as dropped, and the loss ratio.
    pub lost: Vec<u64>,
    pub recorded: Vec<u64>,
    pub ratios: Vec<f64>,
    /// Tables: evidence, interfaces, connections.
    pub tables: Vec<Table>,
}

/// Heading of the chart.
const OVER_TIME: &str = "Loss over time";
/// Height of a panel, px.
const HEIGHT: f64 = 190.0;
const HEIGHT_SMALL: f64 = 110.0;

impl Losses {
    /// Renders the page: one file that loads nothing from a network.
    pub fn page(self) -> String {
        let charts = if self.intervals.is_empty() { Vec::new() } else { vec![self.chart()] };
        let verdict = match self.is_complete {
            Some(true) => ["pass", "✓ complete"],
            Some(false) => ["fail", "✗ not complete"],
            None => ["open", "unknown"],
        };
        let document = Document {
            maker: self.maker,
            is_alone: true,
            name: self.name,
            title: self.title,
            byline: self.byline,
            verdict: Some(verdict),
            findings: self.findings,
            warnings: self.warnings,
            sections: sections([(OVER_TIME, charts)]),
            tables: self.tables,
            method: self.method,
            command: self.command,
            ..Document::default()
        };
        document.html()
    }

    fn chart(&self) -> Chart {
        let time = OverTime { interval_s: self.interval_s, intervals: &self.intervals };
        let packets = |value: f64| count(value as u64);
        let values = |counts: &[u64]| -> Vec<f64> { counts.iter().map(|count| *count as f64).collect() };
        let lost = time.line(0, "lost", &values(&self.lost), packets);
        let recorded = time.line(1, "recorded as dropped", &values(&self.recorded), packets);
        let percents: Vec<f64> = self.ratios.iter().map(|ratio| ratio * 100.0).collect();
        let ratio = time.line(0, "lost", &percents, |value| percent(value / 100.0));
        let units = ["packets", "kpackets", "Mpackets", "Gpackets"];
        let panels = vec![
            panel("each interval, ", units, HEIGHT, vec![lost, recorded]),
            panel("lost data segments, ", ["%"; 4], HEIGHT_SMALL, vec![ratio]),
        ];
        time.curves(OVER_TIME, panels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_verdict_and_a_picture_and_nothing_escapes() {
        let losses = || Losses {
            maker: "quaff verify",
            name: "a.pcap".into(),
            title: "7 packets lost <script>x".into(),
            is_complete: Some(false),
            interval_s: 2.0,
            intervals: ["00:00:01", "00:00:03"].map(String::from).to_vec(),
            lost: vec![0, 7],
            recorded: vec![0, 0],
            ratios: vec![0.0, 0.035],
            tables: vec![Table { title: "Evidence".into(), ..Table::default() }],
            ..Losses::default()
        };
        let page = losses().page();
        for part in ["not complete", "id=\"loss-over-time\"", "seconds since 00:00:01", "3.5"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script>x") && !page.contains("result.json"));
        assert!(page.contains("<svg class=\"pic"));
        let none = Losses { intervals: Vec::new(), is_complete: None, ..losses() }.page();
        assert!(!none.contains("<svg class=\"pic") && none.contains("unknown"));
    }
}
