//! Throughput (RFC 2544 §26.1; RFC 9971): the highest rate without loss, for each size. Each direction is searched
//! independently, at the same time; finally both results are sent together once more.

use super::of_size::OfSize;
use crate::experiment::{Method, TrialRow};
use crate::search::{Bounds, Goal, Highest, Input, Search, Trial};
use crate::service::frames::{for_s, id, number, pps_words, stream};
use crate::service::look::{Limit, Seen, look};
use crate::service::result::{Throughput, Way};
use crate::service::test_context::{TestContext, firsts};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// Duration of initial trials as a share of the full duration, and their minimum, s.
const INITIAL_SHARE: f64 = 1.0 / 6.0;
const INITIAL_MIN_S: f64 = 1.0;
/// Safety limit: more trials than any converging search needs.
const TRIALS_MAX: usize = 100;
/// Lowest rate that is tried, as a share of the highest.
const MIN_SHARE: f64 = 0.001;
/// Repeated trials per search that the tester spoilt, and attempts of the warm-up.
const RETRIES: u32 = 5;
const WARM_UPS: u32 = 3;
/// Share of the requested width that is tolerated as a lower offered rate; the rest is for the bounds.
const PACE_SHARE: f64 = 0.25;
/// The note if neither the path nor the tester was the limit.
const LINE_IS_THE_LIMIT: &str = "Nothing was lost at the line's full rate: the line is the limit.";
/// RFC 2544 §24: duration of the trial that determines the result, s.
const RFC2544_SECONDS: f64 = 60.0;

/// The parameters of the search.
pub(super) struct Wanted {
    pub(super) method: Method,
    pub(super) seconds: f64,
    pub(super) width: f64,
}

/// The search of one direction for one size.
struct Side {
    highest: Highest,
    width: f64,
    tried: Vec<(Trial, Seen)>,
    retries: u32,
    notes: Vec<String>,
}

/// All directions of one size.
struct Searches<'s, 't, 'c> {
    test: &'s mut OfSize<'t, 'c>,
    wanted: &'s Wanted,
    sides: BTreeMap<Way, Side>,
}

/// Measures one size.
pub(super) fn measure(test: &mut OfSize<'_, '_>, wanted: &Wanted) -> Result<()> {
    caution(wanted, test.ctx);
    let mut searches = Searches { test, wanted, sides: BTreeMap::new() };
    let ended = searches.run();
    for (way, mut side) in searches.sides {
        if ended.is_err() {
            side.notes.push("The search was ended early.".into());
        }
        let row = side.row(test, way, wanted.method);
        test.show("throughput", way, words(&row));
        test.report.throughput.push(row);
    }
    ended
}

/// Adds a note on the limits of the method.
fn caution(wanted: &Wanted, ctx: &mut TestContext<'_>) {
    let seconds = wanted.seconds;
    match wanted.method {
        Method::Mlr => ctx.note(format!(
            "Throughput by RFC 9971: a rate is accepted if at most one of up to two trials of {seconds} s lost \
             a frame."
        )),
        Method::Rfc2544 if seconds < RFC2544_SECONDS => ctx.note(format!(
            "Throughput by RFC 2544 §26.1 with trials of {seconds} s instead of the 60 s of its §24: it complies \
             conditionally at most."
        )),
        Method::Rfc2544 => (),
    }
}

impl Searches<'_, '_, '_> {
    fn run(&mut self) -> Result<()> {
        self.warm_up()?;
        for made in 1.. {
            let next: BTreeMap<Way, Trial> =
                self.sides.iter().filter_map(|(way, side)| Some((*way, side.highest.next()?))).collect();
            if next.is_empty() || made > TRIALS_MAX {
                break;
            }
            // A finished direction keeps sending at its result, so that the other one is measured under the same load.
            let seconds = next.values().map(|trial| trial.seconds).fold(0.0, f64::max);
            let mut loads = self.found(seconds);
            loads.extend(next.iter());
            let loudest = next.values().map(|trial| trial.load).fold(0.0, f64::max);
            for (way, seen) in self.trial(&format!("trial {made} at {}", pps_words(loudest)), &loads)? {
                if let (Some(side), Some(trial)) = (self.sides.get_mut(&way), next.get(&way)) {
                    side.tell(*trial, seen);
                }
            }
        }
        self.together()
    }

    /// Sends as fast as possible: finds the highest offered rate and the start of the search.
    fn warm_up(&mut self) -> Result<()> {
        let load = self.test.ctx.max_pps(self.test.size).floor().max(1.0);
        let seconds = initial_s(self.wanted.seconds);
        let loads = self.test.ctx.ways().iter().map(|way| (*way, Trial { load, seconds })).collect();
        let mut best: BTreeMap<Way, Seen> = BTreeMap::new();
        for _ in 0..WARM_UPS {
            // A sender that was held up once may do better in another attempt.
            for (way, seen) in self.trial("warm-up", &loads)? {
                let known = best.entry(way).or_insert(seen);
                if seen.offered_pps > known.offered_pps {
                    *known = seen;
                }
            }
            if best.values().all(|seen| !seen.is_slow) {
                break;
            }
        }
        self.sides = best.into_iter().map(|(way, seen)| (way, Side::new(&seen, self.wanted))).collect();
        Ok(())
    }

    /// Sends at the results of both directions at once: a shared resource may not carry both.
    fn together(&mut self) -> Result<()> {
        let loads = self.found(self.wanted.seconds);
        if loads.len() < 2 {
            return Ok(());
        }
        for (way, seen) in self.trial("both ways at once", &loads)? {
            if let Some(side) = self.sides.get_mut(&way)
                && seen.limit == Limit::Path
            {
                let percent = number(seen.loss * 100.0);
                side.notes.push(format!("With the results of both ways sent at once {percent} % were lost."));
            }
        }
        Ok(())
    }

    /// The results so far, as trials of `seconds`.
    fn found(&self, seconds: f64) -> BTreeMap<Way, Trial> {
        let found =
            |(way, side): (&Way, &Side)| Some((*way, Trial { load: side.highest.bounds().lower?, seconds }));
        self.sides.iter().filter_map(found).collect()
    }

    fn trial(&mut self, what: &str, loads: &BTreeMap<Way, Trial>) -> Result<Vec<(Way, Seen)>> {
        let (size, ctx) = (self.test.size, &mut *self.test.ctx);
        let seconds = loads.values().map(|trial| trial.seconds).fold(0.0, f64::max);
        let report = ctx.whole(&format!("throughput, {size} B, {what}"), seconds, |way| {
            let phases = loads.get(&way).map(|trial| vec![for_s(trial.seconds, trial.load)]);
            phases.into_iter().map(|phases| stream(id(way, 0), size, phases)).collect()
        })?;
        // A direction without a stream is missing in the report.
        let sent: Vec<Way> = ctx.ways().iter().copied().filter(|way| loads.contains_key(way)).collect();
        if sent.len() != report.directions.len() {
            return Err(Error::Service("a trial has other directions than were asked for".into()));
        }
        let look = |(way, direction, stream)| {
            let Trial { load, seconds } = loads[&way];
            (way, look(direction, stream, load, Some(seconds), self.wanted.width * PACE_SHARE))
        };
        Ok(firsts(&report, &sent).map(look).collect())
    }
}

fn initial_s(seconds: f64) -> f64 {
    (seconds * INITIAL_SHARE).max(INITIAL_MIN_S).min(seconds)
}

impl Side {
    /// Creates a search up to the rate sent in the warm-up, starting at the rate that arrived then.
    fn new(warm: &Seen, wanted: &Wanted) -> Self {
        // A load sent within the tolerance counts as the requested load.
        let max = if warm.is_slow { warm.offered_pps.floor().max(1.0) } else { warm.wanted_pps };
        let Wanted { method, seconds, .. } = *wanted;
        let width = wanted.width * (1.0 - PACE_SHARE);
        let goal = Goal::new(method, seconds, initial_s(seconds), 0.0, width);
        let min = (max * MIN_SHARE).max(1.0 / goal.initial_s).ceil().min(max);
        let start = Some(warm.offered_pps * (1.0 - warm.loss));
        let highest = Highest::new(Input { method, goal, min, max, start });
        Self { highest, width, tried: Vec::new(), retries: RETRIES, notes: Vec::new() }
    }

    fn tell(&mut self, trial: Trial, seen: Seen) {
        self.tried.push((trial, seen));
        let is_spoilt = seen.is_slow || seen.is_doubtful || seen.limit == Limit::Meter;
        if is_spoilt && self.retries > 0 {
            self.retries -= 1;
            return;
        }
        self.highest.tell(trial, seen.unproven);
    }

    /// True if the path lost frames at `load` and the load was sent, so that the bound is the path's. A loss that a
    /// catch-up burst may have caused counts if it is repeated, or if there were too many of them.
    fn path_lost(&self, load: f64) -> bool {
        let lossy = || self.at(load).filter(|seen| seen.limit == Limit::Path && !seen.is_slow);
        lossy().any(|seen| !seen.is_doubtful || self.retries == 0) || lossy().count() > 1
    }

    /// Lowest offered rate of the trials without loss at `load`, frames/s: the rate that they prove.
    fn proven_pps(&self, load: f64) -> f64 {
        self.at(load).filter(|seen| seen.unproven <= 0.0).map(|seen| seen.offered_pps).fold(load, f64::min)
    }

    fn at(&self, load: f64) -> impl Iterator<Item = &Seen> {
        self.tried.iter().filter(move |(trial, _)| trial.load == load).map(|(_, seen)| seen)
    }

    fn row(mut self, test: &OfSize<'_, '_>, way: Way, method: Method) -> Throughput {
        let bounds = self.highest.bounds();
        let upper_pps = bounds.upper.filter(|upper| self.path_lost(*upper));
        let line_pps = test.line_pps();
        self.notes.extend(limit_words(&bounds, upper_pps, line_pps));
        let row = |(trial, seen): &(Trial, Seen)| TrialRow {
            pps: trial.load,
            seconds: trial.seconds,
            offered_pps: seen.offered_pps,
            loss: seen.loss,
        };
        let regular = upper_pps.is_some() && bounds.are_close(self.width);
        if upper_pps.is_some() && bounds.lower.is_some() && !regular {
            self.notes
                .push("Irregular: the search ended before its bounds were as close as requested.".into());
        }
        let typical_pps = self.highest.conditional_throughput().filter(|_| method == Method::Mlr);
        if let Some(typical_pps) = typical_pps.filter(|_| upper_pps.is_some()) {
            let words = pps_words(typical_pps);
            self.notes.push(format!("The conditional throughput is {words} (RFC 9971)."));
        }
        Throughput {
            size: test.size,
            way,
            method: method.name().into(),
            pps: bounds.lower.map(|load| self.proven_pps(load)),
            upper_pps,
            line_pps,
            regular,
            trials: self.tried.iter().map(row).collect(),
            notes: self.notes,
        }
    }
}

/// Explains the limit if it was not the path.
fn limit_words(bounds: &Bounds, upper_pps: Option<f64>, line_pps: f64) -> Option<String> {
    match (bounds.lower, bounds.upper) {
        _ if upper_pps.is_some() => None,
        // Loads are whole numbers: the highest one below the line rate is the line rate.
        (Some(lower), None) if lower + 1.0 > line_pps => Some(LINE_IS_THE_LIMIT.into()),
        (Some(_), None) => Some(
            "Nothing was lost at the highest rate that could be sent: the instrument is the limit.".into(),
        ),
        (Some(_), Some(upper)) => Some(format!(
            "At {} and above the instrument could not send or receive all frames: it is the limit, and not \
             the path.",
            pps_words(upper)
        )),
        (None, _) => Some("The instrument could not prove any rate.".into()),
    }
}

fn words(row: &Throughput) -> String {
    match (row.pps, row.upper_pps) {
        (Some(pps), Some(_)) => pps_words(pps),
        (Some(pps), None) if row.notes.iter().any(|note| note == LINE_IS_THE_LIMIT) => {
            format!("{}, the line's full rate", pps_words(pps))
        }
        (Some(pps), None) => format!("at least {}: the instrument is the limit", pps_words(pps)),
        (None, Some(upper)) => format!("none: {} lost frames", pps_words(upper)),
        (None, None) => "not found".into(),
    }
}
