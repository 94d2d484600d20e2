//! Samples, limits and verdicts of promises. Nothing runs here.

use super::promise::Promise;
use quaff::format;
use quaff_bench::bench::result::{Case, Report};
use quaff_bench::method::Run;
use quaff_bench::stats::median;
use serde::Serialize;

/// One promise on one traffic, with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) limit: String,
    pub(super) measured: String,
    /// `None` if it could not be measured.
    pub(super) holds: Option<bool>,
}

/// One value for each run of a program.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Samples {
    /// Promise and traffic.
    pub(super) of: String,
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) values: Vec<f64>,
    /// Reason of missing values.
    pub(super) failed: Option<String>,
}

/// Limit of a ratio.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bound {
    /// Of values that should be high.
    AtLeast(f64),
    /// Of values that should be low.
    AtMost(f64),
}

impl Row {
    pub(super) fn new(promise: Promise, limit: String, measured: String, holds: Option<bool>) -> Self {
        Self { name: promise.name(), limit, measured, holds }
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "open",
        }
    }

    /// The best of `ours`, divided by the best of `others`, against a limit. Broken if ours has no values; open if one
    /// of the others has none and the rest do not decide.
    pub(super) fn ratio(
        promise: Promise,
        limit: String,
        bound: Bound,
        unit: impl Fn(f64) -> String,
        (ours, others): (&[Samples], &[Samples]),
    ) -> Self {
        let ratio = bound.best(ours).zip(bound.best(others)).map(|(ours, best)| ours / best);
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let all: Vec<_> = ours.iter().chain(others).map(|samples| samples.describe(&unit)).collect();
        let mut measured = all.join(", ");
        if let Some(ratio) = ratio {
            measured += &format!(": {ratio:.2}");
        }
        let is_complete = others.iter().all(|samples| samples.median().is_some());
        let holds = match bound.best(ours) {
            None => Some(false),
            Some(_) => ratio.map(|ratio| bound.allows(ratio)).filter(|holds| is_complete || !holds),
        };
        Self::new(promise, limit, measured, holds)
    }

    /// With words before the measured values, and broken unless `is_kept`.
    pub(super) fn and(self, first: &str, is_kept: bool) -> Self {
        let measured = format!("{first}, {}", self.measured);
        Self { measured, holds: self.holds.map(|holds| holds && is_kept), ..self }
    }

    /// No frame lost in any run of `ours`. What the others lost is shown, and judges nothing: a load at which they lose
    /// nothing either does not separate them from ours.
    pub(super) fn lossless(promise: Promise, what: &str, ours: &Samples, others: &[Samples]) -> Self {
        let all: Vec<_> = [ours].into_iter().chain(others).map(|of| of.describe(format::percent)).collect();
        let mut measured = format!("lost: {}", all.join(", "));
        let equal: Vec<_> = others.iter().filter(|other| other.is_zero()).map(|other| &*other.name).collect();
        if ours.is_zero() && !equal.is_empty() {
            measured += &format!("; this load does not separate quaff from {}", equal.join(" and "));
        }
        Self::new(promise, format!("{what}: no loss"), measured, Some(ours.is_zero()))
    }
}

impl Samples {
    pub(super) fn new(of: &str, name: &str, unit: &'static str) -> Self {
        Self { of: of.into(), name: name.into(), unit, values: Vec::new(), failed: None }
    }

    /// The runs of `rival` on the traffic of a case, each as the `value` of it.
    pub(super) fn of_case(report: &Report, case: &Case, rival: &str, value: fn(&Run) -> f64) -> Self {
        let mut samples = Self::new(&case.series, rival, "");
        let traffic = |case: &Case| (case.series.clone(), case.size, case.rate.clone());
        let is_case = |other: &&Case| traffic(other) == traffic(case) && other.rival == rival;
        match report.cases.iter().find(is_case) {
            None => samples.failed = Some("not installed".into()),
            Some(case) => {
                samples.failed = case.runs.iter().find_map(|run| run.failed.clone());
                samples.values.extend(case.runs.iter().filter(|run| run.failed.is_none()).map(value));
            }
        }
        samples
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.failed.is_none() && !self.values.is_empty() && self.values.iter().all(|value| *value == 0.0)
    }

    /// "quaff 0 %", or "quaff 0 % (worst <0.01 %)" if the median is 0 but not all values are.
    pub(super) fn describe(&self, unit: impl Fn(f64) -> String) -> String {
        let Some(median) = self.median() else {
            return format!("{}: {}", self.name, self.failed.as_deref().unwrap_or("not measured"));
        };
        let worst = self.values.iter().copied().fold(0.0, f64::max);
        let worst =
            if median == 0.0 && worst > 0.0 { format!(" (worst {})", unit(worst)) } else { String::new() };
        format!("{} {}{worst}", self.name, unit(median))
    }
}

impl Bound {
    fn best(self, all: &[Samples]) -> Option<f64> {
        let medians = all.iter().filter_map(Samples::median);
        match self {
            Self::AtLeast(_) => medians.max_by(f64::total_cmp),
            Self::AtMost(_) => medians.min_by(f64::total_cmp),
        }
    }

    fn allows(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(limit) => ratio >= limit,
            Self::AtMost(limit) => ratio <= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(name: &str, values: &[f64]) -> Samples {
        let failed = values.is_empty().then(|| "not installed".to_owned());
        Samples { values: values.to_vec(), failed, ..Samples::new("t", name, "") }
    }

    fn lossless(ours: &[f64], other: &[f64]) -> Row {
        Row::lossless(Promise::Paced, "t", &samples("quaff", ours), &[samples("tcpdump", other)])
    }

    #[test]
    fn one_lost_frame_in_one_run_is_a_loss() {
        let good = lossless(&[0.0, 0.0, 0.0], &[0.3, 0.2, 0.25]);
        assert_eq!(good.holds, Some(true));
        assert_eq!(good.measured, "lost: quaff 0 %, tcpdump 25 %");
        assert_eq!(good.limit, "t: no loss");
        let bad = lossless(&[0.0, 1e-6, 0.0], &[0.25]);
        assert_eq!((bad.holds, bad.verdict()), (Some(false), "FAIL"));
        assert_eq!(bad.measured, "lost: quaff 0 % (worst <0.01 %), tcpdump 25 %");
        assert_eq!(lossless(&[1e-6], &[0.0]).measured, "lost: quaff <0.01 %, tcpdump 0 %");
        assert_eq!(lossless(&[], &[0.5]).holds, Some(false), "without runs nothing holds");
    }

    #[test]
    fn a_rival_that_keeps_up_or_is_absent_judges_nothing() {
        let equal = lossless(&[0.0, 0.0], &[0.0, 0.0]);
        let words = "lost: quaff 0 %, tcpdump 0 %; this load does not separate quaff from tcpdump";
        assert_eq!((equal.holds, equal.measured.as_str()), (Some(true), words));
        let once = lossless(&[0.0, 0.0, 0.0], &[0.0, 0.2, 0.0]);
        assert_eq!(once.measured, "lost: quaff 0 %, tcpdump 0 % (worst 20 %)", "it is separated in one run");
        let absent = lossless(&[0.0], &[]);
        assert_eq!(
            (absent.verdict(), absent.measured.as_str()),
            ("pass", "lost: quaff 0 %, tcpdump: not installed")
        );
    }

    #[test]
    fn the_best_is_compared_to_the_best_of_the_others() {
        let row = |bound, ours: &[f64], others: [&[f64]; 2]| {
            let others = others.map(|values| samples("other", values));
            let unit = |value| format!("{value:.0} B/s");
            Row::ratio(Promise::Pipe, "l".into(), bound, unit, (&[samples("quaff", ours)], &others))
        };
        let fast = row(Bound::AtLeast(1.5), &[3.0, 2.0, 9.0], [&[2.0], &[1.0]]);
        assert_eq!(fast.holds, Some(true));
        assert_eq!(fast.measured, "quaff 3 B/s, other 2 B/s, other 1 B/s: 1.50");
        assert_eq!(row(Bound::AtLeast(1.5), &[3.0], [&[2.1], &[1.0]]).holds, Some(false));
        assert_eq!(row(Bound::AtLeast(1.5), &[3.0], [&[1.0], &[]]).holds, None, "one is absent");
        assert_eq!(row(Bound::AtLeast(1.5), &[1.0], [&[1.0], &[]]).holds, Some(false), "absent or not");
        assert_eq!(row(Bound::AtLeast(1.5), &[], [&[1.0], &[1.0]]).holds, Some(false), "ours failed");
        assert_eq!(row(Bound::AtMost(0.34), &[1.0], [&[3.0], &[9.0]]).holds, Some(true));
        assert_eq!(row(Bound::AtMost(0.33), &[1.0], [&[3.0], &[9.0]]).holds, Some(false));
        assert_eq!(row(Bound::AtMost(0.5), &[0.0], [&[0.0], &[0.0]]).holds, None, "nothing to compare to");
    }
}
