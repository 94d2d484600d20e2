//! The context that all methods share: prober, events, remaining time, notes.

use super::events::{Events, Line, Now};
use super::frames::{line_pps, way_words};
use super::plan::{Plan, Ways};
use super::prober::{Ask, Over, Prober};
use super::result::{Check, Report, Way};
use super::verdict::passed;
use crate::experiment::Machine;
use crate::trial::StreamPlan;
use crate::trial::{DirectionReport, StreamReport, TrialReport};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Assumed link rate if no interface reports one, Mbit/s.
const LINK_MBPS: f64 = 1000.0;
/// Time to wait for late frames after the last one was sent, s (RFC 2544 §23 d).
const RESIDUAL_S: f64 = 2.0;
/// Length of one sleep within a pause, so that an interruption ends the pause quickly.
const NAP: Duration = Duration::from_millis(50);

pub(super) struct TestContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) link_mbps: f64,
    /// Highest rate of the tester alone by frame size, frames/s.
    pub(super) null_pps: BTreeMap<u32, f64>,
    /// Mean delay and maximum variation of the plain link, ms; 0 without one.
    pub(super) null_ms: [f64; 2],
    pub(super) notes: Vec<String>,
    /// Limits that could not be judged, one sentence each.
    unjudged: Vec<String>,
    /// Clocks of the send and arrival timestamps.
    pub(super) clocks: BTreeSet<(&'static str, String)>,
    prober: &'a mut dyn Prober,
    events: &'a mut dyn Events,
    left: Left,
    begun: Instant,
    /// True once a trial has run: a pause is due before the next one.
    has_sent: bool,
}

/// Estimated durations of the plan's parts, s, and the part that is running.
struct Left {
    parts: Vec<f64>,
    at: usize,
    begun: Instant,
}

impl<'a> TestContext<'a> {
    pub(super) fn new(plan: &'a Plan, prober: &'a mut dyn Prober, events: &'a mut dyn Events) -> Self {
        let said = plan.link_mbps.or_else(|| prober.link_mbps());
        let mut notes = plan.notes.clone();
        notes.extend(prober.notes());
        if said.is_none() {
            notes.push(format!(
                "The interfaces do not report the speed of the link: {LINK_MBPS} Mbit/s is assumed."
            ));
        }
        let left = Left { parts: plan.parts(prober.has_null()), at: 0, begun: Instant::now() };
        events.begins(left.parts.iter().sum());
        Self {
            plan,
            link_mbps: said.unwrap_or(LINK_MBPS),
            null_pps: BTreeMap::new(),
            null_ms: [0.0; 2],
            notes,
            unjudged: Vec::new(),
            clocks: BTreeSet::new(),
            prober,
            events,
            left,
            begun: Instant::now(),
            has_sent: false,
        }
    }

    /// The directions to test.
    pub(super) fn ways(&self) -> &'static [Way] {
        match self.plan.ways {
            Ways::There => &[Way::There],
            Ways::Both => &[Way::There, Way::Back],
        }
    }

    /// `what`, followed by the direction if both are tested.
    pub(super) fn named(&self, what: &str, way: Way) -> String {
        match self.plan.ways {
            Ways::There => what.to_owned(),
            Ways::Both => format!("{what}, {}", way_words(way)),
        }
    }

    pub(super) fn has_null(&self) -> bool {
        self.prober.has_null()
    }

    /// Line rate, frames/s.
    pub(super) fn line_pps(&self, size: u32) -> f64 {
        line_pps(self.link_mbps, f64::from(size))
    }

    /// Highest rate worth requesting, frames/s: the line rate, or the rate of the tester alone if that is lower.
    pub(super) fn max_pps(&self, size: u32) -> f64 {
        let line = self.line_pps(size);
        self.null_pps.get(&size).map_or(line, |null| null.min(line))
    }

    /// Runs a trial of `streams` in each tested direction over the path. Returns partial results of an interrupted
    /// trial.
    pub(super) fn trial(
        &mut self,
        what: &str,
        seconds: f64,
        is_by_second: bool,
        streams: impl Fn(Way) -> Vec<StreamPlan>,
    ) -> Result<TrialReport> {
        let of = |way: Way| if self.ways().contains(&way) { streams(way) } else { Vec::new() };
        let (there, back) = (of(Way::There), of(Way::Back));
        self.ask(what, seconds, &Ask { over: Over::Path, there, back, residual_s: RESIDUAL_S, is_by_second })
    }

    /// Like `trial`, but an interrupted trial is an error.
    pub(super) fn whole(
        &mut self,
        what: &str,
        seconds: f64,
        streams: impl Fn(Way) -> Vec<StreamPlan>,
    ) -> Result<TrialReport> {
        whole(self.trial(what, seconds, false, streams)?)
    }

    /// Runs a trial over the plain link, forward only.
    pub(super) fn null_trial(&mut self, what: &str, seconds: f64, stream: StreamPlan) -> Result<TrialReport> {
        let (there, back) = (vec![stream], Vec::new());
        let ask = Ask { over: Over::Null, there, back, residual_s: RESIDUAL_S, is_by_second: false };
        whole(self.ask(what, seconds, &ask)?)
    }

    fn ask(&mut self, what: &str, seconds: f64, ask: &Ask) -> Result<TrialReport> {
        self.events.stage(what);
        self.pause()?;
        let (events, left) = (&mut *self.events, &self.left);
        let report = self.prober.trial(ask, &mut |progress| {
            events.progress(&Now {
                what: what.to_owned(),
                elapsed_s: progress.elapsed_s,
                seconds,
                sent: progress.sent,
                received: progress.received,
                left_s: left.seconds(),
            });
            events.continues()
        })?;
        self.has_sent = true;
        for direction in &report.directions {
            self.clocks.insert(("time of sending", direction.tx_clock.clone()));
            self.clocks.insert(("time of arrival", direction.rx_clock.clone()));
        }
        self.oddities(&report);
        Ok(report)
    }

    /// Notes other anomalies that RFC 2544 §10 asks to report.
    fn oddities(&mut self, report: &TrialReport) {
        let streams = || report.directions.iter().flat_map(|direction| &direction.streams);
        for (was, sentence) in [
            (streams().any(|stream| stream.total.duplicates > 0), "Some frames arrived more than once."),
            (streams().any(|stream| stream.total.reordered > 0), "Some frames arrived after later ones."),
            (
                report.directions.iter().any(|direction| direction.corrupt > 0),
                "Some frames arrived with changed bytes.",
            ),
            (
                report.directions.iter().any(|direction| direction.foreign > 0),
                "Frames from other senders arrived during the test.",
            ),
        ] {
            if was {
                self.note(sentence.into());
            }
        }
    }

    fn pause(&mut self) -> Result<()> {
        let pause_s = if self.has_sent { self.plan.pause_s } else { 0.0 };
        let (begun, pause) = (Instant::now(), Duration::try_from_secs_f64(pause_s).unwrap_or_default());
        loop {
            if !self.events.continues() {
                return Err(Error::Interrupted);
            }
            let rest = pause.saturating_sub(begun.elapsed());
            if rest.is_zero() {
                return Ok(());
            }
            std::thread::sleep(rest.min(NAP));
        }
    }

    /// Marks a part of the plan as done; the next one starts.
    pub(super) fn part_done(&mut self) {
        self.left.at += 1;
        self.left.begun = Instant::now();
    }

    /// Adds a note unless it exists already.
    pub(super) fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.events.note(&sentence);
            self.notes.push(sentence);
        }
    }

    /// Notes a limit that could not be judged, once.
    pub(super) fn unjudged(&mut self, sentence: String) {
        if !self.unjudged.contains(&sentence) {
            self.note(sentence.clone());
            self.unjudged.push(sentence);
        }
    }

    /// Reports each check as a result.
    pub(super) fn checks(&mut self, test: &str, of: &str, way: Way, checks: &[Check]) {
        for check in checks {
            let what = format!("{}, {}", self.named(of, way), check.what);
            self.line(test, what, format!("{} ({})", check.measured, check.limit), Some(check.passed));
        }
    }

    /// Reports one result.
    pub(super) fn line(&mut self, test: &str, what: String, measured: String, passed: Option<bool>) {
        self.events.line(&Line { test: test.into(), what, measured, passed });
    }

    /// Updates the report, and shows it.
    pub(super) fn show(&mut self, report: &mut Report) {
        report.seconds = self.begun.elapsed().as_secs_f64();
        report.notes.clone_from(&self.notes);
        report.unjudged.clone_from(&self.unjudged);
        report.link_mbps = self.link_mbps;
        report.passed = passed(report);
        for (what, who) in &self.clocks {
            let fact = report.machine.facts.entry((*what).into()).or_default();
            if !fact.split("; ").any(|known| known == who) {
                let comma = if fact.is_empty() { "" } else { "; " };
                *fact = format!("{fact}{comma}{who}");
            }
        }
        self.events.so_far(report);
    }

    /// Stops the tap in the path, and stores its counters in the report. A failure is noted as not judged.
    pub(super) fn end_tap(&mut self, report: &mut Report) {
        match self.prober.end_tap() {
            Ok(account) => report.tap = account,
            Err(error) => self.unjudged(format!("The tap in the path has no counters: {error}.")),
        }
    }

    pub(super) fn machine(&self) -> Machine {
        self.prober.machine()
    }
}

impl Left {
    fn seconds(&self) -> f64 {
        let this = self.parts.get(self.at).copied().unwrap_or(0.0);
        let rest: f64 = self.parts.iter().skip(self.at + 1).sum();
        (this - self.begun.elapsed().as_secs_f64()).max(0.0) + rest
    }
}

/// Turns an interrupted trial into an error: a search cannot use half a trial.
pub(super) fn whole(report: TrialReport) -> Result<TrialReport> {
    if report.interrupted { Err(Error::Interrupted) } else { Ok(report) }
}

/// Each direction of a report with its name and its first stream.
pub(super) fn firsts<'r>(
    report: &'r TrialReport,
    ways: &'r [Way],
) -> impl Iterator<Item = (Way, &'r DirectionReport, &'r StreamReport)> {
    ways.iter().zip(&report.directions).filter_map(|(way, direction)| {
        let first = direction.streams.first()?;
        Some((*way, direction, first))
    })
}
