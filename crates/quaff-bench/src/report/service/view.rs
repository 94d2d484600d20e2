//! Figures of a service test and their texts, for its tables and charts.

pub(super) use crate::report::document::distinct;
use crate::report::table::{FAIL, NONE, OPEN, PASS};
use crate::service::plan::{Limits, Path, Ways};
use crate::service::result::{Check, Figures, Performance, Report, Way};
use crate::stats::{mean, spread};
use quaff::format::{count, percent};

/// Assumed rate of a link of unknown speed, Mbit/s.
const LINK_MBPS: f64 = 1000.0;
/// Preamble, start-of-frame delimiter and inter-packet gap, bytes per frame.
const WIRE_BYTES: f64 = 20.0;

/// A report with a colour for each service and each size.
pub(super) struct View<'a> {
    pub(super) report: &'a Report,
    /// Services in the order of the plan, then of appearance.
    pub(super) services: Vec<&'a str>,
    /// Frame sizes, bytes with FCS, in ascending order.
    pub(super) sizes: Vec<u32>,
    /// True if frames were sent in both directions.
    pub(super) is_both: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        let planned = report.plan.services.iter().map(|service| service.name.as_str());
        let steps = report.configuration.iter().map(|step| step.service.as_str());
        let lines = report.performance.iter().map(|line| line.service.as_str());
        let found = report.throughput.iter().map(|row| row.size);
        let found = found.chain(report.latency.iter().map(|row| row.size));
        let found = found.chain(report.frame_loss.iter().map(|row| row.size));
        let found = found.chain(report.back_to_back.iter().map(|row| row.size));
        let mut sizes = distinct(found.chain(report.recovery.iter().map(|row| row.size)));
        sizes.sort_unstable();
        Self {
            report,
            services: distinct(planned.chain(steps).chain(lines)),
            sizes,
            is_both: report.plan.ways == Ways::Both,
        }
    }

    pub(super) fn service_style(&self, name: &str) -> usize {
        self.services.iter().position(|known| *known == name).unwrap_or(self.services.len())
    }

    pub(super) fn size_style(&self, size: u32) -> usize {
        self.sizes.iter().position(|known| *known == size).unwrap_or(self.sizes.len())
    }

    pub(super) fn ways(&self) -> Vec<Way> {
        if self.is_both { vec![Way::There, Way::Back] } else { vec![Way::There] }
    }

    /// Each service with each direction.
    pub(super) fn services_and_ways(&self) -> impl Iterator<Item = (&'a str, Way)> {
        self.services.iter().flat_map(|name| self.ways().into_iter().map(|way| (*name, way)))
    }

    /// The direction in a title, with its interfaces unless they are a lab's; empty if there is only one.
    pub(super) fn way(&self, way: Way) -> String {
        match (self.is_both, way, &self.report.plan.path) {
            (false, ..) => String::new(),
            (true, Way::There, Path::Between { from, to, .. }) => format!("{from} → {to}"),
            (true, Way::Back, Path::Between { from, to, .. }) => format!("{to} → {from}"),
            (true, Way::There, _) => "there".into(),
            (true, Way::Back, _) => "back".into(),
        }
    }

    /// `words`, followed by the direction if there are two.
    pub(super) fn with_way(&self, words: &str, way: Way) -> String {
        match self.way(way) {
            way if way.is_empty() => words.into(),
            way => format!("{words}, {way}"),
        }
    }

    /// "512 B, back".
    pub(super) fn sized(&self, size: u32, way: Way) -> String {
        self.with_way(&format!("{size} B"), way)
    }

    /// The line rate, frames/s; `size` is bytes with FCS.
    pub(super) fn line_pps(&self, size: u32) -> f64 {
        let found = self.report.throughput.iter().find(|row| row.size == size && row.line_pps > 0.0);
        let said = Some(self.report.link_mbps).filter(|mbps| *mbps > 0.0);
        let link = said.or(self.report.plan.link_mbps).unwrap_or(LINK_MBPS);
        found.map_or_else(|| link * 1e6 / 8.0 / (f64::from(size) + WIRE_BYTES), |row| row.line_pps)
    }

    /// Description of the path.
    pub(super) fn path(&self) -> String {
        match &self.report.plan.path {
            Path::Link => "a link".into(),
            Path::Bridge => "a bridge".into(),
            Path::Tap => "a tap".into(),
            Path::Router => "a router".into(),
            Path::Between { from, to, .. } => format!("{from} to {to}"),
        }
    }
}

/// The verdict on a set of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All limits held.
    Pass,
    /// A limit did not hold.
    Fail,
    /// The limits that could be judged held, but others could not.
    Open,
    /// There was no limit.
    None,
}

impl Verdict {
    /// Verdict of the checks alone.
    pub(super) fn of(checks: &[Check]) -> Self {
        match (checks.is_empty(), checks.iter().all(|check| check.passed)) {
            (true, _) => Self::None,
            (false, true) => Self::Pass,
            (false, false) => Self::Fail,
        }
    }

    /// Verdict of a row of the performance test: a limit without a check could not be judged.
    pub(super) fn of_line(line: &Performance) -> Self {
        let wanted = limited(&line.limits);
        let is_judged = |what: &&str| line.checks.iter().any(|check| check.what == **what);
        match Self::of(&line.checks) {
            Self::Pass | Self::None if !wanted.iter().all(is_judged) => Self::Open,
            verdict => verdict,
        }
    }

    /// The worst of several verdicts.
    pub(super) fn of_all(all: impl Iterator<Item = Self>) -> Self {
        let all: Vec<Self> = all.collect();
        let worst = [Self::Fail, Self::Open, Self::Pass].into_iter().find(|verdict| all.contains(verdict));
        worst.unwrap_or(Self::None)
    }

    /// Verdict of all runs of the same service and direction.
    pub(super) fn of_runs(report: &Report, line: &Performance) -> Self {
        let is_same = |run: &&Performance| run.service == line.service && run.way == line.way;
        Self::of_all(report.performance.iter().filter(is_same).map(Self::of_line))
    }

    /// The text of a table cell.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Pass => PASS,
            Self::Fail => FAIL,
            Self::Open => OPEN,
            Self::None => NONE,
        }
    }
}

/// The names of the checks that these limits require.
fn limited(limits: &Limits) -> Vec<&'static str> {
    let all = [
        limits.delay_ms.map(|_| "FTD"),
        limits.delay_variation_ms.map(|_| "FDV"),
        limits.loss_ratio.map(|_| "FLR"),
        limits.availability.map(|_| "AVAIL"),
    ];
    all.into_iter().flatten().collect()
}

/// Mbit/s with two decimals, as network testers print it.
pub(super) fn mbps(value: f64) -> String {
    format!("{value:.2}")
}

/// A share as a percentage without the sign, never rounded up to 100: `99.9987`.
pub(super) fn share_bare(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 100.0 {
        return "100".into();
    }
    // Rounds down, so that less than all never becomes 100; the nearer to 100, the more digits.
    let digits = if percent < 99.0 { 2 } else { 4 };
    let step = 10f64.powi(digits as i32);
    let text = format!("{:.digits$}", (percent * step + 1e-6).floor() / step);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// Lost frames and their ratio: "none", "12 (0.24 %)".
pub(super) fn lost_words(figures: &Figures) -> String {
    match figures.lost {
        0 => "none".into(),
        lost => format!("{} ({})", count(lost), percent(figures.loss)),
    }
}

/// Minimum, mean and maximum as cells, or three dashes.
pub(super) fn three(values: Option<[f64; 3]>, words: fn(f64) -> String) -> [String; 3] {
    values.map_or_else(|| [NONE, NONE, NONE].map(String::from), |values| values.map(words))
}

/// Mean, minimum and maximum; `None` without a value.
pub(super) fn mean_and_ends(values: &[f64]) -> Option<[f64; 3]> {
    let [low, high] = spread(values)?;
    Some([mean(values)?, low, high])
}
