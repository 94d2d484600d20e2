//! Compares figures with their limits. A check that only the tester may have failed is replaced by a note; a figure
//! measured below the planned rate can fail, but not pass.

use super::frames::{number, range};
use super::plan::Limits;
use super::result::{Check, Figures, Report};
use quaff::format::delay;

/// A maximum rate counts as kept if it is exceeded by at most this share.
const RATE_TOLERANCE: f64 = 0.01;
/// Frames of a rate that may fall outside the measured period at its start and end.
const SLACK_FRAMES: f64 = 2.0;

/// Possible errors of the tester in the figures.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Doubt {
    /// Missing frames that the meter may have dropped or a catch-up burst of the sender may have caused.
    pub(super) frames: u64,
    /// Mean delay and maximum variation of the plain link, ms.
    pub(super) null_ms: [f64; 2],
    /// Seconds in which less than half of the due frames were sent.
    pub(super) unsent_s: u64,
}

/// The checks, and notes on limits that could not be judged.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Verdict {
    pub(super) checks: Vec<Check>,
    pub(super) notes: Vec<String>,
}

/// Bounds of an information rate, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) min_mbps: f64,
    pub(super) max_mbps: Option<f64>,
    /// Received rate over the receiving time: queued frames arrive later.
    pub(super) most_mbps: f64,
    /// Information rate of a single frame over the measured period, Mbit/s.
    pub(super) frame_mbps: f64,
}

impl Verdict {
    /// Checks FLR, FTD, FDV and AVAIL as far as they have limits.
    pub(super) fn of(limits: &Limits, figures: &Figures, doubt: &Doubt) -> Self {
        let mut verdict = Self::default();
        if let Some(limit) = limits.loss_ratio {
            verdict.loss(limit, figures, doubt);
        }
        let [null_delay, null_variation] = doubt.null_ms;
        let delay = figures.delay_ms.map(|[_, mean, _]| mean);
        let variation = figures.delay_variation_ms.map(|[_, _, max]| max);
        verdict.time("FTD", limits.delay_ms, delay, null_delay);
        verdict.time("FDV", limits.delay_variation_ms, variation, null_variation);
        verdict.available(limits, figures, doubt);
        if doubt.unsent_s > 0 && verdict.notes.is_empty() {
            verdict.notes.push(doubt.unsent_words());
        }
        verdict
    }

    /// Checks a delay or variation against its limit; `null_ms` is the plain link's own.
    fn time(&mut self, what: &str, limit: Option<f64>, measured: Option<f64>, null_ms: f64) {
        let Some(limit) = limit else { return };
        let passed = measured.is_some_and(|ms| ms <= limit);
        if !passed && measured.is_some_and(|ms| ms - null_ms <= limit) {
            let null = delay(null_ms);
            self.notes.push(format!(
                "{what} was not judged: the bare link alone, at no higher a rate, has {null}."
            ));
            return;
        }
        let words = measured.map_or("nothing arrived".into(), delay);
        self.checks.push(check(what, format!("at most {}", delay(limit)), words, passed));
    }

    /// Checks the received information rate. `most_mbps`, the highest rate that may have left the path, is compared
    /// with the maximum.
    pub(super) fn rate(&mut self, rates: Rates, figures: &Figures, doubt: &Doubt) {
        let [_, received, _] = figures.received_mbps;
        let Rates { min_mbps, max_mbps, most_mbps, frame_mbps } = rates;
        let enough = received >= min_mbps - SLACK_FRAMES * frame_mbps;
        let doubtful_mbps = (SLACK_FRAMES + doubt.frames as f64) * frame_mbps;
        if !enough && received >= min_mbps - doubtful_mbps {
            self.notes.push(format!("the rate was not judged: {}", doubt.words()));
            return;
        }
        let not_too_much = max_mbps.is_none_or(|max| most_mbps <= max * (1.0 + RATE_TOLERANCE));
        let limit = match max_mbps {
            Some(max) => format!("{} Mbit/s", range(min_mbps, max)),
            None => format!("at least {} Mbit/s", number(min_mbps)),
        };
        let measured = format!("{} Mbit/s", number(received));
        self.checks.insert(0, check("IR", limit, measured, enough && not_too_much));
    }

    /// Checks that at least `min` frames arrived.
    pub(super) fn frames(&mut self, what: &str, min: u64, received: u64) {
        let (limit, measured) = (format!("at least {min} frames"), format!("{received} frames"));
        self.checks.push(check(what, limit, measured, received >= min));
    }

    /// Removes the checks that passed: below the planned rate a pass is inconclusive.
    pub(super) fn keep_failed(&mut self) {
        self.checks.retain(|check| !check.passed);
    }

    fn loss(&mut self, limit: f64, figures: &Figures, doubt: &Doubt) {
        let certain = figures.lost.saturating_sub(doubt.frames);
        let certain_ratio = if figures.sent > 0 { certain as f64 / figures.sent as f64 } else { 0.0 };
        if figures.loss > limit && certain_ratio <= limit {
            self.notes.push(format!("the loss was not judged: {}", doubt.words()));
            return;
        }
        if doubt.unsent_s > 0 && figures.loss <= limit {
            self.notes.push(format!("the loss was not judged: {}", doubt.unsent_words()));
            return;
        }
        let measured = if figures.sent > 0 { percent_words(figures.loss) } else { "nothing was sent".into() };
        let passed = figures.sent > 0 && figures.loss <= limit;
        self.checks.push(check("FLR", format!("at most {}", percent_words(limit)), measured, passed));
    }

    /// Loss, delay and variation cover available seconds only: a limit for any of them implies one for outages.
    fn available(&mut self, limits: &Limits, figures: &Figures, doubt: &Doubt) {
        let Some(availability) = figures.availability else { return };
        let has_limits =
            limits.loss_ratio.is_some() || limits.delay_ms.is_some() || limits.delay_variation_ms.is_some();
        let implied = (has_limits && figures.unavailable_s > 0).then_some(1.0);
        let Some(limit) = limits.availability.or(implied) else { return };
        let passed = availability >= limit;
        // True if at most half of the frames remain lost without those in doubt.
        let [sent, lost] = figures.unavailable;
        let is_explained = lost > 0 && doubt.frames > 0 && lost.saturating_sub(doubt.frames) * 2 <= sent;
        let why = match passed {
            true if doubt.unsent_s > 0 => Some(doubt.unsent_words()),
            false if is_explained => Some(doubt.words()),
            _ => None,
        };
        if let Some(why) = why {
            self.notes.push(format!("the availability was not judged: {why}"));
            return;
        }
        let limit = format!("at least {}", percent_words(limit));
        self.checks.push(check("AVAIL", limit, percent_words(availability), passed));
    }
}

impl Doubt {
    fn words(&self) -> String {
        let frames = self.frames;
        format!(
            "up to {frames} of the missing frames may be the instrument's own (its meter's room, its sender's bursts)."
        )
    }

    fn unsent_words(&self) -> String {
        format!(
            "in {} s less than half of the due frames could be sent; these seconds prove nothing.",
            self.unsent_s
        )
    }
}

/// True if all limits were met; `None` if nothing was judged, or not everything could be.
pub(super) fn passed(report: &Report) -> Option<bool> {
    let steps = report.configuration.iter().flat_map(|step| &step.checks);
    let runs = report.performance.iter().flat_map(|run| &run.checks);
    let checks: Vec<bool> = steps.chain(runs).map(|check| check.passed).collect();
    let is_whole = report.unjudged.is_empty() && !report.interrupted;
    match (checks.contains(&false), checks.is_empty()) {
        (true, _) => Some(false),
        (false, false) if is_whole => Some(true),
        _ => None,
    }
}

/// Formats a share as a percentage that distinguishes 99.99 from 99.999.
fn percent_words(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.01 => format!("{} %", number(percent)),
        percent => {
            let text = format!("{percent:.4}");
            format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
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
        let verdict = Verdict::of(limits, figures, &Doubt::default());
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
    fn losses_that_may_be_of_the_meter_are_not_judged() {
        let lossy =
            Figures { lost: 400, loss: 0.004, availability: Some(0.5), unavailable: [50, 50], ..figures() };
        let doubt = |frames| Doubt { frames, ..Doubt::default() };
        let verdict = Verdict::of(&LIMITS, &lossy, &doubt(100));
        let judged: Vec<_> = verdict.checks.iter().map(|check| check.what.as_str()).collect();
        assert_eq!((judged, verdict.notes.len()), (vec!["FTD", "FDV"], 2));
        // More was lost than the meter can have dropped.
        let verdict = Verdict::of(&LIMITS, &lossy, &doubt(99));
        assert!(!verdict.checks[0].passed && verdict.checks[0].what == "FLR");
        // It passes even with all frames in doubt.
        assert!(Verdict::of(&LIMITS, &figures(), &doubt(100)).checks[0].passed);
    }

    #[test]
    fn a_rate_has_to_arrive_and_a_policed_one_not_to_exceed_its_profile() {
        let judged = |min_mbps, max_mbps| {
            let mut verdict = Verdict::default();
            let rates = Rates { min_mbps, max_mbps, most_mbps: 100.0, frame_mbps: 0.01 };
            verdict.rate(rates, &figures(), &Doubt::default());
            verdict.checks[0].passed
        };
        // 100 Mbit/s arrived.
        assert!(judged(100.015, None) && !judged(100.03, None));
        assert!(judged(50.0, Some(99.1)) && !judged(50.0, Some(98.9)));
        assert!(judged(50.0, Some(200.0)));
        let mut slow =
            Verdict::of(&LIMITS, &Figures { lost: 400, loss: 0.004, ..figures() }, &Doubt::default());
        slow.keep_failed();
        assert_eq!(slow.checks.len(), 1);
    }

    #[test]
    fn an_outage_is_no_way_to_pass() {
        // There is no limit of availability, but one of loss: a one-second outage violates it.
        let limits = Limits { availability: None, ..LIMITS };
        assert_eq!(passed_of(&limits, &figures()).len(), 3);
        let out = Figures { unavailable_s: 12, availability: Some(0.98), ..figures() };
        assert_eq!(passed_of(&limits, &out).last(), Some(&("AVAIL".to_owned(), false)));
        assert!(passed_of(&Limits::default(), &out).is_empty());
    }

    #[test]
    fn an_outage_is_more_than_a_few_frames_in_doubt() {
        let doubt = Doubt { frames: 100, ..Doubt::default() };
        let out = Figures { availability: Some(0.5), unavailable: [3000, 3000], ..figures() };
        assert!(Verdict::of(&LIMITS, &out, &doubt).checks.iter().any(|check| check.what == "AVAIL"));
        let few = Figures { unavailable: [30, 30], ..out };
        assert!(!Verdict::of(&LIMITS, &few, &doubt).checks.iter().any(|check| check.what == "AVAIL"));
        // The same for a rate: 100 frames of 0.01 Mbit/s are one Mbit/s.
        let judged = |min_mbps| {
            let mut verdict = Verdict::default();
            let rates = Rates { min_mbps, max_mbps: None, most_mbps: 100.0, frame_mbps: 0.01 };
            verdict.rate(rates, &figures(), &doubt);
            verdict.checks.first().map(|check| check.passed)
        };
        assert_eq!([judged(100.0), judged(100.9), judged(101.1)], [Some(true), None, Some(false)]);
    }

    #[test]
    fn seconds_in_which_nothing_was_sent_prove_nothing() {
        let doubt = Doubt { unsent_s: 12, ..Doubt::default() };
        let verdict = Verdict::of(&LIMITS, &Figures { availability: Some(1.0), ..figures() }, &doubt);
        let judged: Vec<_> = verdict.checks.iter().map(|check| check.what.as_str()).collect();
        assert_eq!((judged, verdict.notes.len()), (vec!["FTD", "FDV"], 2));
        // A failed check stays failed.
        let bad = Figures { loss: 0.1, lost: 10_000, availability: Some(0.5), ..figures() };
        let verdict = Verdict::of(&LIMITS, &bad, &doubt);
        assert_eq!(verdict.checks.iter().filter(|check| !check.passed).count(), 2);
    }

    #[test]
    fn delays_of_the_bare_link_are_not_the_paths() {
        let slow = Figures {
            delay_ms: Some([1.0, 100.5, 500.0]),
            delay_variation_ms: Some([0.0, 5.0, 25.0]),
            ..figures()
        };
        let doubt = |delay, variation| Doubt { null_ms: [delay, variation], ..Doubt::default() };
        assert_eq!(Verdict::of(&LIMITS, &slow, &doubt(0.6, 5.0)).notes.len(), 2);
        assert_eq!(Verdict::of(&LIMITS, &slow, &doubt(0.4, 4.9)).notes.len(), 0);
    }

    #[test]
    fn words_are_those_of_the_limit() {
        let verdict = Verdict::of(&LIMITS, &figures(), &Doubt::default());
        let words: Vec<_> =
            verdict.checks.iter().map(|check| (check.limit.as_str(), check.measured.as_str())).collect();
        assert_eq!(
            words,
            [
                ("at most 0.3 %", "0.3 %"),
                ("at most 100 ms", "100 ms"),
                ("at most 20 ms", "20 ms"),
                ("at least 99.99 %", "99.99 %")
            ]
        );
    }
}
