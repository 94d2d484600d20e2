//! Latency (RFC 2544 §26.2): at the throughput, a tagged frame in the middle of each trial; and all frames beside
//! it. The tagged frame is a stream of its own, of one frame.

use super::{delays, known};
use crate::Result;
use crate::service::frames::{for_s, frames_at, id, stream};
use crate::service::look::{Limit, OFFERED_TOLERANCE, look};
use crate::service::null;
use crate::service::result::{Latency, Report, Way};
use crate::service::test_context::{TestContext, firsts};
use crate::stats::mean;
use crate::trial::{Delays, TrialReport};
use quaff::format::delay;
use std::collections::BTreeMap;

/// The tagged frame is sent after this share of the time: 60 of 120 s.
const TAGGED_AT: f64 = 0.5;

/// The samples of one direction.
#[derive(Default)]
struct Side {
    tagged_ms: Vec<f64>,
    delays: Vec<(Delays, u64)>,
    lost: bool,
}

/// All sizes.
pub(super) fn all(
    sizes: &[u32],
    seconds: f64,
    repeats: u32,
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<()> {
    ctx.note(
        "Latency is from the call that sends a frame to the time at which the receiving kernel or card had it: on a \
         wire the frame's own time on both links is in it, as for bit-forwarding devices (RFC 1242 §3.8)."
            .into(),
    );
    for &size in sizes {
        let Some(loads) = loads(size, ctx, report) else { continue };
        let mut sides: BTreeMap<Way, Side> = BTreeMap::new();
        let ended = repeat(size, seconds, repeats, &loads, ctx, &mut sides);
        let null_ms = match ended {
            Ok(()) => null_ms(size, &loads, ctx)?,
            Err(_) => None,
        };
        for (way, side) in sides {
            if ended.is_ok() && side.tagged_ms.len() < repeats as usize {
                let (came, of) = (side.tagged_ms.len(), ctx.named(&format!("{size} B"), way));
                ctx.note(format!(
                    "{of}: {came} of {repeats} tagged frames arrived; the latency is the mean of these."
                ));
            }
            let Some(row) = row(size, way, loads[&way], side, null_ms, ctx) else { continue };
            let tagged = mean(&row.tagged_ms).map_or("no tagged frame".into(), delay);
            let of = ctx.named(&format!("{size} B"), way);
            ctx.line("latency", of, tagged, None);
            report.latency.push(row);
        }
        ended?;
    }
    Ok(())
}

/// The rate of each way, frames/s: the throughput, or the highest rate where that was not sought. `None`: there is
/// none.
fn loads(size: u32, ctx: &mut TestContext<'_>, report: &Report) -> Option<BTreeMap<Way, f64>> {
    let mut loads = BTreeMap::new();
    for way in ctx.ways() {
        match known(report, size, *way) {
            Some(row) => loads.extend(row.pps.map(|pps| (*way, pps))),
            None => loads.extend([(*way, ctx.max_pps(size))]),
        }
    }
    if loads.len() < ctx.ways().len() {
        ctx.note(format!("{size} B: without a throughput there is no rate at which to measure the latency."));
        return None;
    }
    Some(loads)
}

fn repeat(
    size: u32,
    seconds: f64,
    repeats: u32,
    loads: &BTreeMap<Way, f64>,
    ctx: &mut TestContext<'_>,
    sides: &mut BTreeMap<Way, Side>,
) -> Result<()> {
    for repeat in 1..=repeats {
        let what = format!("latency, {size} B, trial {repeat} of {repeats}");
        let report = ctx.whole(&what, seconds, |way| {
            let pps = loads[&way];
            let tagged = vec![for_s(seconds * TAGGED_AT, 0.0), frames_at(1, pps)];
            vec![stream(id(way, 0), size, vec![for_s(seconds, pps)]), stream(id(way, 1), size, tagged)]
        })?;
        take(&report, ctx.ways(), seconds, loads, sides);
    }
    Ok(())
}

fn take(
    report: &TrialReport,
    ways: &[Way],
    seconds: f64,
    loads: &BTreeMap<Way, f64>,
    sides: &mut BTreeMap<Way, Side>,
) {
    for (way, direction, stream) in firsts(report, ways) {
        let side = sides.entry(way).or_default();
        let seen = look(direction, stream, loads[&way], Some(seconds), OFFERED_TOLERANCE);
        side.lost |= seen.limit == Limit::Path;
        side.delays.extend(stream.delay.clone().map(|delays| (delays, stream.total.received)));
        let tagged = direction.streams.get(1).and_then(|stream| stream.delay.as_ref());
        side.tagged_ms.extend(tagged.map(|delays| delays.delay[1] / 1e6));
    }
}

/// Delay of the tester itself at the same rate, ms.
fn null_ms(size: u32, loads: &BTreeMap<Way, f64>, ctx: &mut TestContext<'_>) -> Result<Option<f64>> {
    if !ctx.has_null() {
        return Ok(None);
    }
    let pps = loads.values().copied().fold(0.0, f64::max);
    Ok(null::delays(ctx, size, pps)?.map(|delays| null::median(&delays) / 1e6))
}

fn row(
    size: u32,
    way: Way,
    pps: f64,
    side: Side,
    null_ms: Option<f64>,
    ctx: &mut TestContext<'_>,
) -> Option<Latency> {
    let of = ctx.named(&format!("{size} B"), way);
    if side.lost {
        ctx.note(format!("{of}: frames were lost while the latency was measured."));
    }
    let Some(all) = delays::merge(&side.delays) else {
        ctx.note(format!("{of}: nothing arrived while the latency was measured."));
        return None;
    };
    Some(Latency { size, way, pps, tagged_ms: side.tagged_ms, all, null_ms })
}
