//! The figures that two benches share, and those that only one of them has.

use crate::bench::result::{Burst, Case, LimitedBy, Report, Search};
use crate::bench::summary::{cpu, losses};
use crate::stats::{mann_whitney, median, spread};
use quaff_lab::tool::Setting;
use serde::Serialize;

/// Significance level.
pub(super) const CHANCE_MAX: f64 = 0.05;

/// The identity of a measurement: equal in two benches for the same measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Subject {
    pub rival: String,
    /// The sweep's series; for a search its method; empty for a burst.
    pub series: String,
    /// Mean frame size, bytes.
    pub size: u32,
    pub mix: Option<String>,
    /// The rate as text; empty if rates were searched.
    pub rate: String,
    /// The interface, on a topology with several.
    pub interface: Option<String>,
    pub setting: Setting,
}

/// One figure, measured in both benches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub what: Figure,
    #[serde(flatten)]
    pub subject: Subject,
    pub a: Side,
    pub b: Side,
    /// Probability of such uneven ranks without a difference; `None` if bounds are compared instead of runs.
    pub p: Option<f64>,
    pub verdict: Verdict,
}

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Lost frames / offered frames, 0 to 1.
    Loss,
    /// CPU time per second of traffic; 1 is one core.
    Cpu,
    /// The highest rate without loss, frames/s.
    HighestRate,
    /// The longest burst without loss, frames.
    Burst,
}

/// One bench's value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Side {
    /// Median of the runs; for a search the highest rate that met the goal.
    pub value: f64,
    /// Minimum and maximum of the runs; for a search its bounds.
    pub spread: [f64; 2],
    /// Number of runs or searches.
    pub runs: usize,
    /// True if the value is a lower bound, because the generator was the limit.
    pub at_least: bool,
}

/// The significance of a difference, from B's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No larger than the spread.
    Same,
    /// B is better by more than the spread.
    Better,
    /// B is worse by more than the spread.
    Worse,
    TooFew,
}

impl Figure {
    fn less_is_better(self) -> bool {
        matches!(self, Self::Loss | Self::Cpu)
    }
}

/// One figure of a subject in one bench.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    what: Figure,
    subject: Subject,
    data: Data,
}

#[derive(Debug, Clone, PartialEq)]
enum Data {
    Runs(Vec<f64>),
    /// Lower bounds of all searches; the range of all their bounds; true without an upper bound.
    Bounds {
        lowers: Vec<f64>,
        range: [f64; 2],
        at_least: bool,
    },
}

/// Rows of the shared figures in the order of `a`; descriptions of those that only `a`, or only `b`, has.
pub(super) fn rows(a: &Report, b: &Report) -> (Vec<Row>, Vec<String>, Vec<String>) {
    let (a, b) = (known(a), known(b));
    let same = |one: &Known, other: &Known| one.what == other.what && one.subject == other.subject;
    let mut rows = Vec::new();
    for one in &a {
        rows.extend(b.iter().find(|other| same(one, other)).and_then(|other| row(one, other)));
    }
    let only = |of: &[Known], others: &[Known]| {
        let alone = of.iter().filter(|one| !others.iter().any(|other| same(one, other)));
        let mut words: Vec<_> = alone.map(|known| known.subject.words()).collect();
        // Loss and CPU time of one case are listed once.
        words.dedup();
        words
    };
    (rows, only(&a, &b), only(&b, &a))
}

fn row(a: &Known, b: &Known) -> Option<Row> {
    let (p, verdict) = match (&a.data, &b.data) {
        (Data::Runs(a_runs), Data::Runs(b_runs)) => ranked(a.what, a_runs, b_runs),
        (Data::Bounds { range, at_least, .. }, Data::Bounds { range: other, at_least: also, .. }) => {
            (None, apart((*range, *at_least), (*other, *also)))
        }
        _ => return None,
    };
    let (subject, what) = (a.subject.clone(), a.what);
    Some(Row { what, subject, a: a.data.side()?, b: b.data.side()?, p, verdict })
}

/// Two searches differ if the ranges of their bounds do not overlap; a higher rate is better.
fn apart((a, a_open): ([f64; 2], bool), (b, b_open): ([f64; 2], bool)) -> Verdict {
    if !a_open && b[0] > a[1] {
        Verdict::Better
    } else if !b_open && a[0] > b[1] {
        Verdict::Worse
    } else {
        Verdict::Same
    }
}

fn known(report: &Report) -> Vec<Known> {
    let cases = report.cases.iter().flat_map(of_case);
    let searches = report.searches.iter().filter_map(of_search);
    cases.chain(searches).chain(report.bursts.iter().filter_map(of_burst)).collect()
}

fn of_case(case: &Case) -> impl Iterator<Item = Known> {
    let subject = Subject {
        rival: case.rival.clone(),
        series: case.series.clone(),
        size: case.size,
        mix: case.mix.clone(),
        rate: case.rate.clone(),
        interface: case.interface.clone(),
        setting: case.setting.clone(),
    };
    let figures = [(Figure::Loss, losses(&case.runs)), (Figure::Cpu, cpu(&case.runs))];
    let measured = figures.into_iter().filter(|(_, runs)| !runs.is_empty());
    measured.map(move |(what, runs)| Known { what, subject: subject.clone(), data: Data::Runs(runs) })
}

fn of_search(search: &Search) -> Option<Known> {
    let lowers: Vec<_> = search.lower_pps.into_iter().chain(search.again.map(|[again, _]| again)).collect();
    let [least, most] = spread(&lowers)?;
    // If the generator was the limit, the tool may be faster.
    let at_least = search.upper_pps.is_none() || search.limited_by == LimitedBy::Generator;
    // The second search has no upper bound of its own: it gets the requested width.
    let upper = search.upper_pps.unwrap_or(most).max(most / (1.0 - search.width.clamp(0.0, 0.5)));
    Some(Known {
        what: Figure::HighestRate,
        subject: Subject {
            rival: search.rival.clone(),
            series: search.method.clone(),
            size: search.size,
            mix: search.mix.clone(),
            setting: search.setting.clone(),
            ..Subject::default()
        },
        data: Data::Bounds { lowers, range: [least, upper], at_least },
    })
}

fn of_burst(burst: &Burst) -> Option<Known> {
    let runs: Vec<_> = burst.frames.iter().map(|frames| *frames as f64).collect();
    (!runs.is_empty()).then(|| Known {
        what: Figure::Burst,
        subject: Subject {
            rival: burst.rival.clone(),
            size: burst.size,
            mix: burst.mix.clone(),
            setting: burst.setting.clone(),
            ..Subject::default()
        },
        data: Data::Runs(runs),
    })
}

impl Data {
    fn side(&self) -> Option<Side> {
        match self {
            Self::Runs(runs) => {
                Some(Side { value: median(runs)?, spread: spread(runs)?, runs: runs.len(), at_least: false })
            }
            Self::Bounds { lowers, range, at_least } => Some(Side {
                value: *lowers.first()?,
                spread: *range,
                runs: lowers.len(),
                at_least: *at_least,
            }),
        }
    }
}

impl Subject {
    fn words(&self) -> String {
        let size = self.mix.clone().unwrap_or_else(|| format!("{} B", self.size));
        let mut words = vec![self.rival.clone(), size];
        words.extend([&self.rate, &self.series].into_iter().filter(|part| !part.is_empty()).cloned());
        words.extend(self.interface.clone());
        words.extend(self.setting.describe());
        words.join(", ")
    }
}

/// The significance of the difference between two series of runs.
fn ranked(what: Figure, a: &[f64], b: &[f64]) -> (Option<f64>, Verdict) {
    let Some(ranked) = mann_whitney(a, b) else { return (None, Verdict::TooFew) };
    let verdict = if ranked.p_min > CHANCE_MAX {
        Verdict::TooFew
    } else if ranked.p > CHANCE_MAX {
        Verdict::Same
    } else {
        // Above half of all pairs A is the larger one.
        let b_is_less = ranked.u > (a.len() * b.len()) as f64 / 2.0;
        if b_is_less == what.less_is_better() { Verdict::Better } else { Verdict::Worse }
    };
    (Some(ranked.p), verdict)
}
