//! Back-to-back frames (RFC 2544 §26.4, RFC 9004): the longest burst at the line's rate that comes through whole,
//! several times over, and the time of buffer that follows.

use super::known;
use crate::Result;
use crate::search::{Burst, BurstPlan, corrected_buffer_s};
use crate::service::frames::{frames_at, id, pps_words, stream};
use crate::service::look::{Limit, OFFERED_MIN, OFFERED_TOLERANCE, Seen, look};
use crate::service::result::{BackToBack, Report, Way};
use crate::service::test_context::{TestContext, firsts};
use crate::stats::{mean, median};
use quaff::format::{count, delay};
use std::collections::BTreeMap;

/// The shortest burst.
const FRAMES_MIN: u64 = 2;
/// Bounds this close are close enough: (upper − lower) / upper.
const WIDTH: f64 = 0.01;
/// A length is too long when it lost so often without ever passing.
const TRIES: u32 = 2;
/// So many bursts that only the instrument spoilt are sent again, in each repetition.
const RETRIES: u32 = 10;
/// A sender that was later than this in a burst has made a gap, ns; or than this share of the burst.
const GAP_NS: f64 = 250_000.0;
const GAP_SHARE: f64 = 0.002;

/// One direction of one size.
struct Side {
    frames: Vec<u64>,
    frames_max: u64,
    /// Of each burst: frames, and frames/s.
    pace: Vec<(u64, f64)>,
    /// Known highest rate of the tester, frames/s.
    fastest_pps: f64,
    retries: u32,
    /// Some length was refused by the meter and not by the path, or came through with a gap.
    is_spoilt: bool,
}

/// All sizes.
pub(super) fn all(
    sizes: &[u32],
    seconds: f64,
    repeats: u32,
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<()> {
    for &size in sizes {
        let frames_max = ((ctx.line_pps(size) * seconds) as u64).max(FRAMES_MIN);
        let fastest_pps = ctx.null_pps.get(&size).copied().unwrap_or(0.0);
        let side = || Side::new(frames_max, fastest_pps);
        let mut sides: BTreeMap<Way, Side> = ctx.ways().iter().map(|way| (*way, side())).collect();
        let mut ended = Ok(());
        for repeat in 1..=repeats {
            ended = search(size, (repeat, repeats), ctx, &mut sides);
            if ended.is_err() {
                break;
            }
        }
        for (way, side) in sides {
            if side.frames.is_empty() {
                continue;
            }
            let row = row(size, way, side, ctx, report);
            let of = ctx.named(&format!("{size} B"), way);
            ctx.line("back-to-back", of, words(&row), None);
            report.back_to_back.push(row);
        }
        ended?;
    }
    Ok(())
}

/// One repetition: a search of each way, both at the same time.
fn search(
    size: u32,
    (repeat, repeats): (u32, u32),
    ctx: &mut TestContext<'_>,
    sides: &mut BTreeMap<Way, Side>,
) -> Result<()> {
    sides.values_mut().for_each(|side| side.retries = RETRIES);
    let mut bursts: BTreeMap<Way, Burst> = sides.iter().map(|(way, side)| (*way, side.burst())).collect();
    let pps = ctx.line_pps(size);
    loop {
        let next: BTreeMap<Way, u64> =
            bursts.iter().filter_map(|(way, burst)| Some((*way, burst.next()?))).collect();
        let Some(longest) = next.values().max() else { break };
        let what = format!("back-to-back, {size} B, search {repeat} of {repeats}, {longest} frames");
        let report = ctx.whole(&what, *longest as f64 / pps, |way| {
            let phases = next.get(&way).map(|frames| vec![frames_at(*frames, pps)]);
            phases.into_iter().map(|phases| stream(id(way, 0), size, phases)).collect()
        })?;
        let sent: Vec<Way> = next.keys().copied().collect();
        for (way, direction, stream) in firsts(&report, &sent) {
            let seen = look(direction, stream, pps, None, OFFERED_TOLERANCE);
            let (Some(burst), Some(side)) = (bursts.get_mut(&way), sides.get_mut(&way)) else { continue };
            if !side.is_to_be_sent_again(next[&way], &seen, direction.late_max_ns) {
                burst.tell(next[&way], stream.total.lost + stream.total.refused == 0);
            }
        }
    }
    for (way, burst) in bursts {
        sides.entry(way).and_modify(|side| side.frames.push(burst.frames()));
    }
    Ok(())
}

impl Side {
    fn new(frames_max: u64, fastest_pps: f64) -> Self {
        let (frames, pace) = (Vec::new(), Vec::new());
        Self { frames, frames_max, pace, fastest_pps, retries: RETRIES, is_spoilt: false }
    }

    /// True if a burst is inconclusive: the meter dropped frames, or the sender was delayed and the burst had a gap.
    fn is_to_be_sent_again(&mut self, frames: u64, seen: &Seen, late_max_ns: u64) -> bool {
        self.pace.push((frames, seen.offered_pps));
        let burst_ns = frames as f64 / seen.wanted_pps * 1e9;
        let has_gap = late_max_ns as f64 > GAP_NS.max(burst_ns * GAP_SHARE);
        // A tester below the line rate is always slow, which is a note on all bursts.
        let can = self.fastest_pps >= seen.wanted_pps * OFFERED_MIN;
        let is_held_up = seen.lost == 0 && (has_gap || seen.is_slow && can);
        let is_spoilt = seen.limit == Limit::Meter || is_held_up;
        self.is_spoilt |= is_spoilt && self.retries == 0;
        let again = is_spoilt && self.retries > 0;
        self.retries -= u32::from(again);
        again
    }

    /// Each repetition finds out for itself; it only begins where the one before ended.
    fn burst(&self) -> Burst {
        Burst::new(BurstPlan {
            min: FRAMES_MIN,
            max: self.frames_max,
            width: WIDTH,
            tries: TRIES,
            start: self.frames.last().copied().filter(|frames| *frames > 0),
        })
    }
}

fn row(size: u32, way: Way, side: Side, ctx: &mut TestContext<'_>, report: &Report) -> BackToBack {
    let Side { frames, frames_max, pace, is_spoilt, .. } = side;
    let (pps, line_pps) = (long_pace(&frames, &pace), ctx.line_pps(size));
    let of = ctx.named(&format!("{size} B"), way);
    if pps < line_pps * OFFERED_MIN {
        ctx.note(format!(
            "Bursts of {of} came at {}, the line's rate is {}: the instrument sends no faster.",
            pps_words(pps),
            pps_words(line_pps)
        ));
    }
    if is_spoilt {
        ctx.note(format!(
            "Bursts of {of}: the meter had no room for some, or some came with a gap; their length is not the path's."
        ));
    }
    let numbers: Vec<f64> = frames.iter().map(|frames| *frames as f64).collect();
    // A buffer that was never full has no length, and one that the meter spoilt is not the path's.
    let is_known = !frames.contains(&frames_max) && !is_spoilt && pps > 0.0;
    let mean = mean(&numbers).filter(|_| is_known);
    let throughput = known(report, size, way).filter(|row| row.regular).and_then(|row| row.pps);
    BackToBack {
        size,
        way,
        frames,
        frames_max,
        pps,
        buffer_s: mean.map(|frames| frames / pps),
        buffer_corrected_s: mean
            .zip(throughput)
            .and_then(|(frames, throughput)| corrected_buffer_s(frames, pps, throughput)),
    }
}

/// The pace of bursts at least half as long as the longest result, frames/s: of a few frames it says little.
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
