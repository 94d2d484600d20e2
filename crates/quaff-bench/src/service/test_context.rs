//! The context of all methods: prober, events, remaining time, notes.

use super::events::{Events, Line, Now};
use super::frames::{line_pps, way_words};
use super::plan::{Plan, Ways};
use super::prober::{Ask, Over, Prober};
use super::result::{Report, Way};
use super::verdict::passed;
use crate::experiment::Machine;
use crate::trial::StreamPlan;
use crate::trial::{DirectionReport, StreamReport, TrialReport};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The link rate if no interface reports one, Mbit/s.
const LINK_MBPS: f64 = 1000.0;
/// Wait for late frames after the last one was sent, s (RFC 2544 §23 d).
const RESIDUAL_S: f64 = 2.0;
/// Pauses are divided into sleeps of this length, so that an interruption ends them.
const NAP: Duration = Duration::from_millis(50);

/// The context of a method.
pub(super) struct TestContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) link_mbps: f64,
    /// The highest rate of the instrument alone, frames/s, by size.
    pub(super) null_pps: BTreeMap<u32, f64>,
    /// Mean delay and largest variation of the bare link, ms; 0 where there is none.
    pub(super) null_ms: [f64; 2],
    pub(super) notes: Vec<String>,
    /// Limits that could not be judged.
    unjudged: Vec<String>,
    /// The clocks of sending and arrival times.
    pub(super) clocks: BTreeSet<(&'static str, String)>,
    prober: &'a mut dyn Prober,
    events: &'a mut dyn Events,
    left: Left,
    begun: Instant,
    /// A pause is due before the next trial.
    has_sent: bool,
}

/// The time that is left, s: of parts that are to come, and of the one that is being done.
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
                "The interfaces do not say how fast the link is: {LINK_MBPS} Mbit/s is taken for it."
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

    /// The ways that are tested.
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

    /// Frames/s of the full link.
    pub(super) fn line_pps(&self, size: u32) -> f64 {
        line_pps(self.link_mbps, f64::from(size))
    }

    /// The most that is worth asking for, frames/s: the line's, or what the instrument can do alone.
    pub(super) fn max_pps(&self, size: u32) -> f64 {
        let line = self.line_pps(size);
        self.null_pps.get(&size).map_or(line, |null| null.min(line))
    }

    /// A trial of `streams`, those of each way that is tested, over the path. What an interrupted one has measured
    /// is returned.
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

    /// The same of one stream each way, all of it or nothing.
    pub(super) fn whole(
        &mut self,
        what: &str,
        seconds: f64,
        streams: impl Fn(Way) -> Vec<StreamPlan>,
    ) -> Result<TrialReport> {
        whole(self.trial(what, seconds, false, streams)?)
    }

    /// A trial over the bare link, there only.
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

    /// Notes on other anomalies that RFC 2544 §10 asks to report.
    fn oddities(&mut self, report: &TrialReport) {
        let streams = || report.directions.iter().flat_map(|direction| &direction.streams);
        for (was, sentence) in [
            (streams().any(|stream| stream.total.duplicates > 0), "Some frames arrived more than once."),
            (streams().any(|stream| stream.total.reordered > 0), "Some frames arrived after later ones."),
            (
                report.directions.iter().any(|direction| direction.corrupt > 0),
                "Some frames arrived with other bytes than were sent.",
            ),
            (
                report.directions.iter().any(|direction| direction.foreign > 0),
                "Frames of others arrived meanwhile.",
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

    /// A part of the plan is done; the next one begins.
    pub(super) fn part_done(&mut self) {
        self.left.at += 1;
        self.left.begun = Instant::now();
    }

    /// A sentence, once.
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

    /// A result that is known.
    pub(super) fn line(&mut self, test: &str, what: String, measured: String, passed: Option<bool>) {
        self.events.line(&Line { test: test.into(), what, measured, passed });
    }

    /// Brings the report up to date, and shows it.
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

    /// Ends the tap in the path, and puts its account into the report. A failure is a part that could not be judged.
    pub(super) fn end_tap(&mut self, report: &mut Report) {
        match self.prober.end_tap() {
            Ok(account) => report.tap = account,
            Err(error) => self.unjudged(format!("The tap in the path has no account: {error}.")),
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

/// Of a search half a trial says nothing.
pub(super) fn whole(report: TrialReport) -> Result<TrialReport> {
    if report.interrupted { Err(Error::Interrupted) } else { Ok(report) }
}

/// The directions of a report with their ways, and the first stream of each.
pub(super) fn firsts<'r>(
    report: &'r TrialReport,
    ways: &'r [Way],
) -> impl Iterator<Item = (Way, &'r DirectionReport, &'r StreamReport)> {
    ways.iter().zip(&report.directions).filter_map(|(way, direction)| {
        let first = direction.streams.first()?;
        Some((*way, direction, first))
    })
}
