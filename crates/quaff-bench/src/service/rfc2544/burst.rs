//! Back-to-back frames (RFC 2544 §26.4, RFC 9004): the longest line-rate burst without loss, over several repetitions,
//! and the buffer time derived from it.

use super::of_size::OfSize;
use crate::Result;
use crate::search::{Burst, BurstPlan, buffer_s};
use crate::service::frames::{frames_at, id, pps_words, stream};
use crate::service::look::{Limit, OFFERED_MIN, OFFERED_TOLERANCE, Seen, look};
use crate::service::result::{BackToBack, Way};
use crate::service::test_context::firsts;
use crate::stats::{mean, median};
use quaff::format::{count, delay};
use std::collections::BTreeMap;

/// Shortest burst, frames.
const FRAMES_MIN: u64 = 2;
/// Largest relative width of the final bounds, (upper − lower) / upper.
const WIDTH: f64 = 0.01;
/// Lossy bursts of one length, none without loss, that make the length too long.
const TRIES: u32 = 2;
/// Bursts spoilt by the tester that are repeated, per repetition of the test.
const RETRIES: u32 = 10;
/// A sender that is later than both limits within a burst leaves a gap: ns, and share of the burst's duration.
const GAP_NS: f64 = 250_000.0;
const GAP_SHARE: f64 = 0.002;

/// The search of one direction for one size.
struct Side {
    /// The search of the current repetition.
    burst: Burst,
    frames: Vec<u64>,
    frames_max: u64,
    /// Length, frames, and rate, frames/s, of each burst.
    pace: Vec<(u64, f64)>,
    /// Known highest rate of the tester, frames/s.
    fastest_pps: f64,
    retries: u32,
    /// True if the meter, not the path, lost frames of a burst, or a burst had a gap, and no retry was left.
    is_spoilt: bool,
}

/// Measures one size.
pub(super) fn measure(test: &mut OfSize<'_, '_>, seconds: f64, repeats: u32) -> Result<()> {
    let frames_max = ((test.line_pps() * seconds) as u64).max(FRAMES_MIN);
    let fastest_pps = test.ctx.null_pps.get(&test.size).copied().unwrap_or(0.0);
    let side = || Side::new(frames_max, fastest_pps);
    let mut sides: BTreeMap<Way, Side> = test.ctx.ways().iter().map(|way| (*way, side())).collect();
    let ended = (1..=repeats)
        .try_for_each(|repeat| search(test, &format!("search {repeat} of {repeats}"), &mut sides));
    for (way, side) in sides.into_iter().filter(|(_, side)| !side.frames.is_empty()) {
        let row = row(test, way, side);
        test.show("back-to-back", way, words(&row));
        test.report.back_to_back.push(row);
    }
    ended
}

/// One repetition: searches both directions at the same time.
fn search(test: &mut OfSize<'_, '_>, which: &str, sides: &mut BTreeMap<Way, Side>) -> Result<()> {
    sides.values_mut().for_each(Side::begin);
    let (size, pps) = (test.size, test.line_pps());
    loop {
        let next: BTreeMap<Way, u64> =
            sides.iter().filter_map(|(way, side)| Some((*way, side.burst.next()?))).collect();
        let Some(longest) = next.values().max() else { break };
        let what = format!("back-to-back, {size} B, {which}, {longest} frames");
        let report = test.ctx.whole(&what, *longest as f64 / pps, |way| {
            let phases = next.get(&way).map(|frames| vec![frames_at(*frames, pps)]);
            phases.into_iter().map(|phases| stream(id(way, 0), size, phases)).collect()
        })?;
        let sent: Vec<Way> = next.keys().copied().collect();
        for (way, direction, stream) in firsts(&report, &sent) {
            let seen = look(direction, stream, pps, None, OFFERED_TOLERANCE);
            let (Some(side), frames) = (sides.get_mut(&way), next[&way]) else { continue };
            if !side.is_to_be_sent_again(frames, &seen, direction.late_max_ns) {
                side.burst.tell(frames, stream.total.lost + stream.total.refused == 0);
            }
        }
    }
    sides.values_mut().for_each(|side| side.frames.push(side.burst.frames()));
    Ok(())
}

impl Side {
    fn new(frames_max: u64, fastest_pps: f64) -> Self {
        let (frames, pace, burst) = (Vec::new(), Vec::new(), burst(frames_max, None));
        Self { burst, frames, frames_max, pace, fastest_pps, retries: RETRIES, is_spoilt: false }
    }

    /// Starts a repetition: it searches on its own, from the last result.
    fn begin(&mut self) {
        self.retries = RETRIES;
        self.burst = burst(self.frames_max, self.frames.last().copied().filter(|frames| *frames > 0));
    }

    /// True if a burst is inconclusive: the meter dropped frames, or the sender was delayed and the burst had a gap.
    fn is_to_be_sent_again(&mut self, frames: u64, seen: &Seen, late_max_ns: u64) -> bool {
        self.pace.push((frames, seen.offered_pps));
        let burst_ns = frames as f64 / seen.wanted_pps * 1e9;
        let has_gap = late_max_ns as f64 > GAP_NS.max(burst_ns * GAP_SHARE);
        // A tester below the line rate is always slow: one note covers all bursts.
        let can = self.fastest_pps >= seen.wanted_pps * OFFERED_MIN;
        let is_held_up = seen.lost == 0 && (has_gap || seen.is_slow && can);
        let is_spoilt = seen.limit == Limit::Meter || is_held_up;
        self.is_spoilt |= is_spoilt && self.retries == 0;
        let again = is_spoilt && self.retries > 0;
        self.retries -= u32::from(again);
        again
    }
}

fn burst(max: u64, start: Option<u64>) -> Burst {
    Burst::new(BurstPlan { min: FRAMES_MIN, max, width: WIDTH, tries: TRIES, start })
}

fn row(test: &mut OfSize<'_, '_>, way: Way, side: Side) -> BackToBack {
    let Side { frames, frames_max, pace, is_spoilt, .. } = side;
    let (pps, line_pps, of) = (long_pace(&frames, &pace), test.line_pps(), test.name(way));
    if pps < line_pps * OFFERED_MIN {
        test.ctx.note(format!(
            "Bursts of {of} were sent at {} instead of the line's rate, {}: the instrument sends no faster.",
            pps_words(pps),
            pps_words(line_pps)
        ));
    }
    if is_spoilt {
        test.ctx.note(format!(
            "Bursts of {of}: the meter dropped frames, or bursts had gaps; their length does not describe the path."
        ));
    }
    // A buffer that was never full has no known size, and bursts spoilt by the tester do not describe the path.
    let is_known = !frames.contains(&frames_max) && !is_spoilt;
    let throughput = test.known(way).filter(|row| row.regular).and_then(|row| row.pps);
    let [buffer_s, buffer_corrected_s] =
        if is_known { buffer_s(&frames, pps, throughput) } else { [None; 2] };
    BackToBack { size: test.size, way, frames, frames_max, pps, buffer_s, buffer_corrected_s }
}

/// Median rate of bursts at least half as long as the longest result, frames/s: short bursts are imprecise.
fn long_pace(found: &[u64], pace: &[(u64, f64)]) -> f64 {
    let long = found.iter().max().map_or(0, |frames| frames / 2);
    let paces: Vec<f64> = pace.iter().filter(|(frames, _)| *frames >= long).map(|(_, pps)| *pps).collect();
    median(&paces).unwrap_or(0.0)
}

fn words(row: &BackToBack) -> String {
    let frames: Vec<f64> = row.frames.iter().map(|frames| *frames as f64).collect();
    let mean = count(mean(&frames).unwrap_or(0.0).round() as u64);
    if row.frames.contains(&row.frames_max) {
        return format!("at least {mean} frames: the longest burst that was tried came through");
    }
    let buffer = row.buffer_corrected_s.or(row.buffer_s);
    format!("{mean} frames{}", buffer.map_or(String::new(), |s| format!(", a buffer of {}", delay(s * 1e3))))
}
