//! Limits and what stood against them. A check that only the instrument could have failed is not made: it is said
//! instead; and what was measured at a lower rate than was wanted can fail, but not pass.

use super::frames::number;
use super::plan::Limits;
use super::result::{Check, Figures, Report};

/// A rate is reached when so much of it, of 1, is missing at most; and kept when it is not exceeded by more.
const RATE_TOLERANCE: f64 = 0.01;

/// What was judged, and what could not be.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Verdict {
    pub(super) checks: Vec<Check>,
    /// One sentence each.
    pub(super) notes: Vec<String>,
}

/// Bounds of an information rate, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) min_mbps: f64,
    pub(super) max_mbps: Option<f64>,
}

impl Verdict {
    /// FLR, FTD, FDV and AVAIL, of those that have a limit. `meter_lost` frames arrived, and are among the lost ones.
    pub(super) fn of(limits: &Limits, figures: &Figures, meter_lost: u64) -> Self {
        let mut verdict = Self::default();
        if let Some(limit) = limits.loss_ratio {
            verdict.loss(limit, figures, meter_lost);
        }
        let at_most = |what: &str, limit: Option<f64>, measured: Option<f64>| {
            let limit = limit?;
            let words = measured.map_or("nothing arrived".into(), |ms| format!("{} ms", number(ms)));
            let passed = measured.is_some_and(|ms| ms <= limit);
            Some(check(what, format!("at most {} ms", number(limit)), words, passed))
        };
        let delay = figures.delay_ms.map(|[_, mean, _]| mean);
        let variation = figures.delay_variation_ms.map(|[_, _, max]| max);
        verdict.checks.extend(at_most("FTD", limits.delay_ms, delay));
        verdict.checks.extend(at_most("FDV", limits.delay_variation_ms, variation));
        if let (Some(limit), Some(availability)) = (limits.availability, figures.availability) {
            verdict.availability(limit, availability, meter_lost);
        }
        verdict
    }

    /// An information rate that arrived.
    pub(super) fn rate(&mut self, rates: Rates, figures: &Figures, meter_lost: u64) {
        let [_, received, _] = figures.received_mbps;
        let Rates { min_mbps, max_mbps } = rates;
        let enough = received >= min_mbps * (1.0 - RATE_TOLERANCE);
        if !enough && meter_lost > 0 {
            self.notes.push(format!(
                "the rate was not judged: {meter_lost} frames arrived, and the meter had no room for them."
            ));
            return;
        }
        let not_too_much = max_mbps.is_none_or(|max| received <= max * (1.0 + RATE_TOLERANCE));
        let limit = match max_mbps {
            Some(max) => format!("{} to {} Mbit/s", number(min_mbps), number(max)),
            None => format!("at least {} Mbit/s", number(min_mbps)),
        };
        let measured = format!("{} Mbit/s", number(received));
        self.checks.insert(0, check("IR", limit, measured, enough && not_too_much));
    }

    /// Frames that have to come through at least.
    pub(super) fn frames(&mut self, min: u64, received: u64) {
        let (limit, measured) = (format!("at least {min} frames"), format!("{received} frames"));
        self.checks.push(check("IR", limit, measured, received >= min));
    }

    /// It was sent more slowly than was wanted: what passed proves nothing.
    pub(super) fn keep_failed(&mut self) {
        self.checks.retain(|check| !check.passed);
    }

    fn loss(&mut self, limit: f64, figures: &Figures, meter_lost: u64) {
        let certain = figures.lost.saturating_sub(meter_lost);
        let certain_ratio = if figures.sent > 0 { certain as f64 / figures.sent as f64 } else { 0.0 };
        if figures.loss > limit && certain_ratio <= limit {
            self.notes.push(format!(
                "the loss was not judged: {meter_lost} frames arrived, and the meter had no room for them."
            ));
            return;
        }
        let measured = if figures.sent > 0 { number(figures.loss) } else { "nothing was sent".into() };
        let passed = figures.sent > 0 && figures.loss <= limit;
        self.checks.push(check("FLR", format!("at most {}", number(limit)), measured, passed));
    }

    fn availability(&mut self, limit: f64, availability: f64, meter_lost: u64) {
        let passed = availability >= limit;
        if !passed && meter_lost > 0 {
            self.notes.push(format!(
                "the availability was not judged: {meter_lost} frames arrived, and the meter had no room for them."
            ));
            return;
        }
        let percent = |share: f64| format!("{} %", percent_digits(share));
        let limit = format!("at least {}", percent(limit));
        self.checks.push(check("AVAIL", limit, percent(availability), passed));
    }
}

/// Whether all that was judged passed; `None` when nothing was.
pub(super) fn passed(report: &Report) -> Option<bool> {
    let steps = report.configuration.iter().flat_map(|step| &step.checks);
    let runs = report.performance.iter().flat_map(|run| &run.checks);
    let mut checks = steps.chain(runs).map(|check| check.passed).peekable();
    checks.peek().is_some().then(|| checks.all(|passed| passed))
}

/// A share in percent: 99.99 and 99.999 differ.
fn percent_digits(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn check(what: &str, limit: String, measured: String, passed: bool) -> Check {
    Check { what: what.into(), limit, measured, passed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        delay_ms: Some(100.0),
        delay_variation_ms: Some(20.0),
        loss_ratio: Some(0.003),
        availability: Some(0.9999),
    };

    fn figures() -> Figures {
        Figures {
            sent: 100_000,
            lost: 300,
            loss: 0.003,
            delay_ms: Some([1.0, 100.0, 500.0]),
            delay_variation_ms: Some([0.0, 5.0, 20.0]),
            received_mbps: [99.0, 100.0, 101.0],
            availability: Some(0.9999),
            ..Figures::default()
        }
    }

    fn passed_of(limits: &Limits, figures: &Figures) -> Vec<(String, bool)> {
        let verdict = Verdict::of(limits, figures, 0);
        verdict.checks.into_iter().map(|check| (check.what, check.passed)).collect()
    }

    #[test]
    fn a_limit_is_kept_when_it_is_just_reached() {
        let all = ["FLR", "FTD", "FDV", "AVAIL"].map(|what| (what.to_owned(), true));
        assert_eq!(passed_of(&LIMITS, &figures()), all);
        for (at, figures) in [
            (0, Figures { lost: 301, loss: 0.003_01, ..figures() }),
            (1, Figures { delay_ms: Some([1.0, 100.1, 500.0]), ..figures() }),
            (2, Figures { delay_variation_ms: Some([0.0, 5.0, 20.1]), ..figures() }),
            (3, Figures { availability: Some(0.9998), ..figures() }),
        ] {
            let failed: Vec<_> = passed_of(&LIMITS, &figures).iter().map(|(_, passed)| !passed).collect();
            assert_eq!(failed.iter().position(|failed| *failed), Some(at));
            assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
        }
    }

    #[test]
    fn without_a_limit_nothing_is_judged_and_without_a_frame_it_is_not_kept() {
        assert!(passed_of(&Limits::default(), &figures()).is_empty());
        let nothing = Figures { availability: Some(1.0), ..Figures::default() };
        let passed: Vec<bool> = passed_of(&LIMITS, &nothing).into_iter().map(|(_, passed)| passed).collect();
        assert_eq!(passed, [false, false, false, true]);
    }

    #[test]
    fn what_the_meter_may_have_lost_is_not_judged() {
        let lossy = Figures { lost: 400, loss: 0.004, availability: Some(0.5), ..figures() };
        let verdict = Verdict::of(&LIMITS, &lossy, 100);
        let judged: Vec<_> = verdict.checks.iter().map(|check| check.what.as_str()).collect();
        assert_eq!((judged, verdict.notes.len()), (vec!["FTD", "FDV"], 2));
        // More was lost than the meter can have.
        let verdict = Verdict::of(&LIMITS, &lossy, 99);
        assert!(!verdict.checks[0].passed && verdict.checks[0].what == "FLR");
        // It passes with all of it.
        assert!(Verdict::of(&LIMITS, &figures(), 100).checks[0].passed);
    }

    #[test]
    fn a_rate_has_to_arrive_and_a_policed_one_not_to_exceed_its_profile() {
        let judged = |min_mbps, max_mbps| {
            let mut verdict = Verdict::default();
            verdict.rate(Rates { min_mbps, max_mbps }, &figures(), 0);
            verdict.checks[0].passed
        };
        // 100 Mbit/s arrived.
        assert!(judged(100.9, None) && !judged(101.1, None));
        assert!(judged(50.0, Some(99.1)) && !judged(50.0, Some(98.9)));
        assert!(judged(50.0, Some(200.0)));
        let mut slow = Verdict::of(&LIMITS, &Figures { lost: 400, loss: 0.004, ..figures() }, 0);
        slow.keep_failed();
        assert_eq!(slow.checks.len(), 1);
    }

    #[test]
    fn words_are_those_of_the_limit() {
        let verdict = Verdict::of(&LIMITS, &figures(), 0);
        let words: Vec<_> =
            verdict.checks.iter().map(|check| (check.limit.as_str(), check.measured.as_str())).collect();
        assert_eq!(
            words,
            [
                ("at most 0.003", "0.003"),
                ("at most 100 ms", "100 ms"),
                ("at most 20 ms", "20 ms"),
                ("at least 99.99 %", "99.99 %")
            ]
        );
    }
}
