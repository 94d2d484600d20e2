//! Frame loss rate (RFC 2544 §26.3): from the line's full rate downwards, until two loads in a row lose nothing.

use crate::Result;
use crate::search::{Curve, Measured, Search, Trial};
use crate::service::frames::{for_s, id, number, stream};
use crate::service::look::{Limit, OFFERED_MIN, OFFERED_TOLERANCE, Seen, look};
use crate::service::result::{FrameLoss, Report, Way};
use crate::service::test_context::{TestContext, firsts};
use quaff::format;

/// The full load is tried so often, when it could not be sent.
const TRIES: u32 = 2;
/// Loads are given in shares of the line's rate, so many of it.
const SHARES: f64 = 1e4;

/// All sizes.
pub(super) fn all(
    sizes: &[u32],
    seconds: f64,
    step: f64,
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<()> {
    for &size in sizes {
        sweep(size, seconds, step, ctx, report)?;
    }
    Ok(())
}

fn sweep(size: u32, seconds: f64, step: f64, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    let line_pps = ctx.line_pps(size).floor();
    let full = full(size, Trial { load: line_pps, seconds }, ctx, report)?;
    // Loads above what could be sent are one and the same: the next one is the first below it.
    let offered = full.iter().map(|seen| seen.offered_pps).fold(line_pps, f64::min);
    let step_pps = (line_pps * step).max(1.0);
    let steps_left = if offered < line_pps * OFFERED_MIN {
        ctx.note(format!(
            "{size} B: {} % of the line's rate is the most that could be sent; loads above it were not tested.",
            number((offered / line_pps * 100.0).round())
        ));
        (offered / step_pps).ceil() - 1.0
    } else {
        (line_pps / step_pps).round() - 1.0
    };
    let mut curve = Curve::new(line_pps, steps_left * step_pps, step_pps, seconds);
    // The full load is one of the two in a row.
    let mut lossless = usize::from(offered >= line_pps * OFFERED_MIN && !any_lost(&full));
    while let Some(trial) = curve.next().filter(|_| lossless < 2) {
        let seen = point(size, trial, line_pps, ctx, report)?;
        lossless = if any_lost(&seen) { 0 } else { lossless + 1 };
        let loss = seen.iter().map(|seen| seen.loss).fold(0.0, f64::max);
        curve.tell(Measured::new(trial, loss));
    }
    Ok(())
}

/// True after any loss, of the path or of the meter.
fn any_lost(seen: &[Seen]) -> bool {
    seen.iter().any(|seen| matches!(seen.limit, Limit::Path | Limit::Meter))
}

/// The full load; a sender that was held up once may do better, and is given another try.
fn full(size: u32, trial: Trial, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<Vec<Seen>> {
    let rows = report.frame_loss.len();
    for _ in 1..TRIES {
        let seen = point(size, trial, trial.load, ctx, report)?;
        if seen.iter().all(|seen| !seen.is_slow) {
            return Ok(seen);
        }
        report.frame_loss.truncate(rows);
    }
    point(size, trial, trial.load, ctx, report)
}

/// One load, each way.
fn point(
    size: u32,
    trial: Trial,
    line_pps: f64,
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<Vec<Seen>> {
    let Trial { load: pps, seconds } = trial;
    // The share that is wanted; the rate is a whole number, and a little off it.
    let load = (pps / line_pps * SHARES).round() / SHARES;
    let percent = number((load * 100.0).round());
    let what = format!("frame loss, {size} B, {percent} % of the line's rate");
    let trial = ctx.whole(&what, seconds, |way| vec![stream(id(way, 0), size, vec![for_s(seconds, pps)])])?;
    let mut all = Vec::new();
    for (way, direction, stream) in firsts(&trial, ctx.ways()) {
        let seen = look(direction, stream, pps, Some(seconds), OFFERED_TOLERANCE);
        show_point(size, way, &percent, &seen, ctx);
        let Seen { offered_pps, loss, .. } = seen;
        report.frame_loss.push(FrameLoss { size, way, load, offered_pps, loss });
        all.push(seen);
    }
    Ok(all)
}

fn show_point(size: u32, way: Way, percent: &str, seen: &Seen, ctx: &mut TestContext<'_>) {
    if seen.limit == Limit::Meter {
        ctx.note(format!(
            "{size} B, {percent} %: the meter had no room for some frames; they are not counted as lost by the path."
        ));
    }
    let what = ctx.named(&format!("{size} B, {percent} %"), way);
    ctx.line("frame loss", what, format!("{} lost", format::percent(seen.loss)), None);
}
