//! The null calibration: the tester over a plain link. The tester's own delay and highest rate are reported separately
//! from the path's.

use super::frames::{for_s, id, line_pps, mean_size, pps, stream};
use super::look::{Limit, OFFERED_TOLERANCE, look};
use super::plan::{Plan, Test};
use super::result::{Null, Way};
use super::test_context::TestContext;
use crate::Result;
use crate::trial::Delays;
use crate::trial::{Length, Phase};
use std::collections::BTreeSet;

/// Duration of a rate trial, s.
pub(super) const TRIAL_S: f64 = 1.0;
/// Duration of the delay measurement, s.
pub(super) const DELAY_S: f64 = 2.0;
/// Highest rate of the delay measurement, frames/s: at higher rates frames queue in the tester.
const DELAY_PPS_MAX: f64 = 10_000.0;
/// Ratio of the next rate to the received rate after a loss.
const STEP_DOWN: f64 = 0.95;
/// Maximum number of trials per size.
const TRIES: usize = 5;

/// Returns `None` without a plain link, and adds a note.
pub(super) fn calibrate(ctx: &mut TestContext<'_>) -> Result<Option<Null>> {
    if !ctx.has_null() {
        ctx.note(
            "There is no bare link between these ends: the delay of the instrument itself is not known and included \
             in the figures."
                .into(),
        );
        return Ok(None);
    }
    let mut max_pps = Vec::new();
    for size in searched_sizes(ctx.plan) {
        let most = highest(ctx, size)?;
        ctx.null_pps.insert(size, most);
        max_pps.push((size, most));
    }
    let (size, pps) = delay_load(ctx.plan, ctx.link_mbps);
    let delays = delays(ctx, size, pps.min(DELAY_PPS_MAX))?;
    let ms = |ns: f64| ns / 1e6;
    Ok(delays.map(|delays| Null {
        delay_ms: [delays.delay[0], delays.delay[1], delays.delay[2], median(&delays)].map(ms),
        delay_variation_ms: delays.pdv.map(ms),
        max_pps,
    }))
}

/// Delays of the plain link at this load; `None` if nothing arrived.
pub(super) fn delays(ctx: &mut TestContext<'_>, size: u32, pps: f64) -> Result<Option<Delays>> {
    let stream = stream(id(Way::There, 0), size, vec![for_s(DELAY_S, pps)]);
    let mut report = ctx.null_trial("null calibration, delay", DELAY_S, stream)?;
    let first = report.directions.pop().and_then(|direction| direction.streams.into_iter().next());
    Ok(first.and_then(|stream| stream.delay))
}

/// The median delay, ns.
pub(super) fn median(delays: &Delays) -> f64 {
    let half = delays.quantiles.iter().find(|(at, _)| *at == 0.5);
    half.map_or(delays.delay[1], |(_, ns)| *ns)
}

/// Highest rate that was sent and received, frames/s.
fn highest(ctx: &mut TestContext<'_>, size: u32) -> Result<f64> {
    let mut pps = None;
    let mut reached = 0.0;
    for _ in 0..TRIES {
        let phase = Phase { length: Length::Seconds(TRIAL_S), pps };
        let what = format!("null calibration, highest rate, {size} B");
        let stream = stream(id(Way::There, 0), size, vec![phase]);
        let report = ctx.null_trial(&what, TRIAL_S, stream)?;
        let Some((direction, stream)) =
            report.directions.first().and_then(|there| Some((there, there.streams.first()?)))
        else {
            break;
        };
        let seen = look(direction, stream, pps.unwrap_or(0.0), Some(TRIAL_S), OFFERED_TOLERANCE);
        reached = stream.total.received as f64 / TRIAL_S;
        if matches!(seen.limit, Limit::Nothing | Limit::Generator) {
            break;
        }
        pps = Some((reached * STEP_DOWN).max(1.0));
    }
    Ok(reached)
}

/// Frame sizes whose highest rate is measured.
fn searched_sizes(plan: &Plan) -> BTreeSet<u32> {
    plan.tests.iter().flat_map(Test::sizes).copied().collect()
}

/// Frame size and rate, frames/s, of the first service; without services the first size at a tenth of the line rate.
fn delay_load(plan: &Plan, link_mbps: f64) -> (u32, f64) {
    if let Some(service) = plan.services.first() {
        let mean = mean_size(&service.sizes).round();
        return (mean as u32, pps(service.cir_mbps, mean));
    }
    let size = searched_sizes(plan).first().copied().unwrap_or(512);
    (size, line_pps(link_mbps, f64::from(size)) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::super::sim::{Sim, quiet, sizes_plan};
    use super::*;

    #[test]
    fn the_instruments_own_figures_are_found() {
        let mut sim = Sim { generator_pps: 3000.0, null_delay_ns: 40_000.0, ..Sim::default() };
        let plan = sizes_plan(&[64, 512]);
        let mut events = quiet();
        let mut ctx = TestContext::new(&plan, &mut sim, &mut events);
        let null = calibrate(&mut ctx).expect("measured").expect("a bare link");
        assert_eq!(null.max_pps.len(), 2);
        assert!(null.max_pps.iter().all(|(_, pps)| (pps - 3000.0).abs() < 5.0), "{null:?}");
        assert_eq!(null.max_pps[0].0, 64);
        assert!((null.delay_ms[0] - 0.04).abs() < 1e-9 && (null.delay_ms[3] - 0.04).abs() < 1e-3, "{null:?}");
    }

    #[test]
    fn a_meter_that_is_slower_is_the_limit() {
        let mut sim = Sim { generator_pps: 3000.0, meter_pps: 1000.0, ..Sim::default() };
        let plan = sizes_plan(&[512]);
        let mut events = quiet();
        let mut ctx = TestContext::new(&plan, &mut sim, &mut events);
        let null = calibrate(&mut ctx).expect("measured").expect("a bare link");
        let pps = null.max_pps[0].1;
        assert!(pps <= 1000.0 && pps > 800.0, "{pps}");
    }

    #[test]
    fn a_missing_bare_link_is_noted() {
        let mut sim = Sim { has_null: false, ..Sim::default() };
        let plan = sizes_plan(&[512]);
        let mut events = quiet();
        let mut ctx = TestContext::new(&plan, &mut sim, &mut events);
        assert_eq!(calibrate(&mut ctx).expect("measured"), None);
        assert!(ctx.notes.iter().any(|note| note.contains("no bare link")), "{:?}", ctx.notes);
    }
}
