//! System recovery (RFC 2544 §26.5): the time during which frames are still lost after 110 % of the throughput falls to
//! half. Both rates are phases of one stream; the change is the first frame of the second phase.

use super::of_size::OfSize;
use crate::Result;
use crate::service::frames::{for_s, id, stream};
use crate::service::look::{meter_lost, path_lost};
use crate::service::result::{Recovery, Way};
use crate::stats::mean;
use crate::trial::{DirectionReport, StreamReport, Tally};
use quaff::format::delay;
use std::collections::BTreeMap;

/// Overload as a factor of the throughput (§26.5).
const OVERLOAD: f64 = 1.1;
/// Rate after the change as a share of the overload.
const AFTER: f64 = 0.5;
/// Duration of the second phase: this share of the overload's duration, and at least this long, s.
const WATCH_SHARE: f64 = 0.5;
const WATCH_MIN_S: f64 = 2.0;
/// A loss within the last part of the second phase, after this share, means that recovery had not ended.
const END_SHARE: f64 = 0.98;

/// The samples of one direction.
#[derive(Default)]
struct Side {
    overload_pps: Vec<f64>,
    seconds: Vec<f64>,
    notes: Vec<String>,
}

/// Measures one size.
pub(super) fn measure(test: &mut OfSize<'_, '_>, seconds: f64, repeats: u32) -> Result<()> {
    let rate = |test: &OfSize<'_, '_>, way| test.known(way)?.pps;
    let Some(throughput) = test.rates(rate, "overload to recover from") else { return Ok(()) };
    let (size, line_pps) = (test.size, test.line_pps());
    let watch_s = (seconds * WATCH_SHARE).max(WATCH_MIN_S);
    let streams = |way: Way| {
        let overload = (throughput[&way] * OVERLOAD).min(line_pps);
        let phases = vec![for_s(seconds, overload), for_s(watch_s, overload * AFTER)];
        vec![stream(id(way, 0), size, phases)]
    };
    let mut sides: BTreeMap<Way, Side> = BTreeMap::new();
    let ended = test.repeat("recovery", seconds + watch_s, repeats, streams, |way, direction, stream| {
        sides.entry(way).or_default().take(direction, stream, seconds);
    });
    for (way, side) in sides {
        let Side { overload_pps, seconds, notes } = side;
        test.show("recovery", way, mean(&seconds).map_or("not measured".into(), |s| delay(s * 1e3)));
        let overload_pps = mean(&overload_pps).unwrap_or(0.0);
        test.report.recovery.push(Recovery { size, way, overload_pps, seconds, notes });
    }
    ended
}

impl Side {
    fn take(&mut self, direction: &DirectionReport, stream: &StreamReport, seconds: f64) {
        let [overload, after] = stream.phases.as_slice() else { return };
        self.overload_pps.push(overload.sent as f64 / seconds);
        if path_lost(direction, overload.lost) == 0 {
            self.note("The overload lost nothing: the line or the instrument is the limit.");
        }
        if overload.refused + after.refused > 0 {
            self.note("The link was down for a while: that trial does not count.");
            return;
        }
        // Frames that the meter dropped cannot be told apart from losses of the path.
        if after.lost > 0 && meter_lost(direction) > 0 {
            self.note("The meter dropped some frames: that trial does not count.");
            return;
        }
        let recovery_s = recovery_s(after);
        if recovery_s >= (after.last_ns.saturating_sub(after.first_ns)) as f64 / 1e9 * END_SHARE
            && after.lost > 0
        {
            self.note("Frames were lost until the end of the trial: recovery takes longer than that.");
        }
        self.seconds.push(recovery_s);
    }

    fn note(&mut self, sentence: &str) {
        if !self.notes.iter().any(|note| note == sentence) {
            self.notes.push(sentence.into());
        }
    }
}

/// Time from the first frame at the lower rate to the last lost one, by send times, s.
fn recovery_s(after: &Tally) -> f64 {
    let lost_ns = after.last_lost_ns.saturating_sub(after.first_ns);
    if after.lost > 0 { lost_ns as f64 / 1e9 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::super::sim;
    use super::*;

    fn taken(overload: Tally, after: Tally, meter_dropped: u64) -> Side {
        let stream = StreamReport { phases: vec![overload, after], ..sim::no_stream(1) };
        let direction = DirectionReport { meter_dropped, ..sim::direction(Vec::new()) };
        let mut side = Side::default();
        side.take(&direction, &stream, 2.0);
        side
    }

    #[test]
    fn it_is_over_with_the_last_lost_frame() {
        let overload = Tally { sent: 2200, lost: 200, ..Tally::default() };
        let after = Tally {
            sent: 1100,
            lost: 30,
            first_ns: 2_000_000_000,
            first_lost_ns: 2_000_000_000,
            last_lost_ns: 2_250_000_000,
            last_ns: 4_000_000_000,
            ..Tally::default()
        };
        let side = taken(overload.clone(), after.clone(), 0);
        assert_eq!((side.seconds, side.overload_pps, side.notes.len()), (vec![0.25], vec![1100.0], 0));
        // Nothing was lost after the change.
        let none = taken(overload.clone(), Tally { lost: 0, last_lost_ns: 0, ..after.clone() }, 0);
        assert_eq!((none.seconds, none.notes.len()), (vec![0.0], 0));
        // The loss lasted to the end.
        let on = taken(overload.clone(), Tally { last_lost_ns: 3_999_000_000, ..after.clone() }, 0);
        assert!(on.notes[0].contains("until the end"), "{:?}", on.notes);
        // A loss in the meter is not a recovery time.
        let meter = taken(overload, Tally { lost: 5, ..after.clone() }, 5);
        assert!(meter.seconds.is_empty() && meter.notes[0].contains("does not count"), "{:?}", meter.notes);
        let idle = taken(Tally::default(), Tally { lost: 0, ..after }, 0);
        assert!(idle.notes[0].contains("lost nothing"), "{:?}", idle.notes);
    }
}
