//! Frame loss rate (RFC 2544 §26.3): from the line rate downwards, until two consecutive loads lose nothing.

use super::of_size::OfSize;
use crate::Result;
use crate::search::{Curve, Search};
use crate::service::frames::{for_s, id, number, stream};
use crate::service::look::{Limit, OFFERED_MIN, OFFERED_TOLERANCE, Seen, look};
use crate::service::result::FrameLoss;
use crate::service::test_context::firsts;
use quaff::format;

/// Attempts at the full load if it could not be sent.
const TRIES: u32 = 2;
/// Resolution of a load: parts of the line rate.
const SHARES: f64 = 1e4;

/// The loss curve of one size.
struct Sweep<'s, 't, 'c> {
    test: &'s mut OfSize<'t, 'c>,
    seconds: f64,
    /// Line rate, frames/s: loads are shares of it.
    line_pps: f64,
}

/// Measures one size downwards in steps of `step`, a share of the line rate.
pub(super) fn measure(test: &mut OfSize<'_, '_>, seconds: f64, step: f64) -> Result<()> {
    let line_pps = test.line_pps().floor();
    let mut sweep = Sweep { test, seconds, line_pps };
    let full = sweep.full()?;
    // Loads above the highest offered rate are all the same: continue with the first load below it.
    let offered = full.iter().map(|seen| seen.offered_pps).fold(line_pps, f64::min);
    let step_pps = (line_pps * step).max(1.0);
    let is_slow = offered < line_pps * OFFERED_MIN;
    let steps_left = if is_slow {
        sweep.test.ctx.note(format!(
            "{} B: the instrument sends at most {} % of the line's rate; higher loads were not tested.",
            sweep.test.size,
            number((offered / line_pps * 100.0).round())
        ));
        (offered / step_pps).ceil() - 1.0
    } else {
        (line_pps / step_pps).round() - 1.0
    };
    let mut curve = Curve::new(line_pps, steps_left * step_pps, step_pps, seconds);
    // The full load counts as the first of two consecutive loads without loss.
    let mut lossless = usize::from(!is_slow && !any_lost(&full));
    while let Some(trial) = curve.next().filter(|_| lossless < 2) {
        let seen = sweep.point(trial.load)?;
        lossless = if any_lost(&seen) { 0 } else { lossless + 1 };
        curve.tell(trial, seen.iter().map(|seen| seen.loss).fold(0.0, f64::max));
    }
    Ok(())
}

/// True after any loss on the path or in the meter.
fn any_lost(seen: &[Seen]) -> bool {
    seen.iter().any(|seen| matches!(seen.limit, Limit::Path | Limit::Meter))
}

impl Sweep<'_, '_, '_> {
    /// Measures the full load; repeats it if the sender was held up.
    fn full(&mut self) -> Result<Vec<Seen>> {
        let rows = self.test.report.frame_loss.len();
        for _ in 1..TRIES {
            let seen = self.point(self.line_pps)?;
            if seen.iter().all(|seen| !seen.is_slow) {
                return Ok(seen);
            }
            self.test.report.frame_loss.truncate(rows);
        }
        self.point(self.line_pps)
    }

    /// Measures one load in each direction.
    fn point(&mut self, pps: f64) -> Result<Vec<Seen>> {
        let Self { test, seconds, line_pps } = self;
        let size = test.size;
        // The nominal share: the rate is a whole number and slightly off.
        let load = (pps / *line_pps * SHARES).round() / SHARES;
        let percent = number((load * 100.0).round());
        let what = format!("frame loss, {size} B, {percent} % of the line's rate");
        let streams = |way| vec![stream(id(way, 0), size, vec![for_s(*seconds, pps)])];
        let trial = test.ctx.whole(&what, *seconds, streams)?;
        let mut all = Vec::new();
        for (way, direction, stream) in firsts(&trial, test.ctx.ways()) {
            let seen = look(direction, stream, pps, Some(*seconds), OFFERED_TOLERANCE);
            let Seen { offered_pps, loss, limit, .. } = seen;
            let what = format!("{size} B, {percent} %");
            if limit == Limit::Meter {
                test.ctx.note(format!(
                    "{what}: the meter dropped some frames; they are not counted as lost by the path."
                ));
            }
            let what = test.ctx.named(&what, way);
            test.ctx.line("frame loss", what, format!("{} lost", format::percent(loss)), None);
            test.report.frame_loss.push(FrameLoss { size, way, load, offered_pps, loss });
            all.push(seen);
        }
        Ok(all)
    }
}
