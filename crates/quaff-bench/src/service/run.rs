//! A service test from its plan to its report: the null calibration, then each test of the plan in its order.

use super::events::Events;
use super::frames::{frames_at, id, service_stream, stream, way_words};
use super::plan::Plan;
use super::prober::Prober;
use super::result::{Report, Way};
use super::test_context::{TestContext, firsts};
use super::{null, rfc2544, y1564};
use crate::experiment::PlanFile as _;
use crate::trial::{PathEnd, StreamPlan};
use crate::{Error, Result};
use std::path::PathBuf;

/// Frames of one attempt of the path check.
const GREETING_FRAMES: u64 = 10;
/// Their rate, frames/s.
const GREETING_PPS: f64 = 100.0;
/// Attempts of that check: a port may have to learn addresses, or to come up.
const GREETINGS: usize = 3;
/// Frame size of that check for a plan without services, bytes with FCS.
const GREETING_SIZE: u32 = 64;

/// The environment of a service test.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The command line, for the report.
    pub command: Vec<String>,
    /// Both ends of a plain link, for the null calibration of plans over existing interfaces.
    pub null: Option<[PathEnd; 2]>,
    /// The quaff executable, used as the tap of a lab; `None`: the lab forwards by itself, and nothing is recorded.
    pub quaff: Option<PathBuf>,
}

/// Runs a whole plan with trials of `prober`. An interrupted test returns the results measured so far.
///
/// # Errors
/// The plan is invalid, no frame comes through the path, or nothing could be measured.
pub(super) fn run_over(
    plan: &Plan,
    context: &Context,
    prober: &mut dyn Prober,
    events: &mut dyn Events,
) -> Result<Report> {
    plan.check().map_err(|error| Error::Service(error.to_string()))?;
    Report::fill(plan, &context.command, |report| {
        let mut ctx = TestContext::new(plan, prober, events);
        report.machine = ctx.machine();
        let ended = all(&mut ctx, report);
        ctx.end_tap(report);
        report.interrupted = matches!(ended, Err(Error::Interrupted));
        if ended.is_ok() || report.interrupted {
            ctx.show(report);
        }
        ended
    })
}

fn all(ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    greet(ctx)?;
    report.null = null::calibrate(ctx)?;
    ctx.null_ms =
        report.null.as_ref().map_or([0.0; 2], |null| [null.delay_ms[1], null.delay_variation_ms[1]]);
    ctx.part_done();
    let mut fault = None;
    for test in &ctx.plan.tests {
        match rfc2544::run(test, ctx, report).and_then(|()| y1564::run(test, ctx, report)) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The other tests may still work.
            Err(error) => {
                ctx.unjudged(format!("The test of {} was ended: {error}.", test.name()));
                fault = Some(error);
            }
            Ok(()) => (),
        }
        ctx.part_done();
        ctx.show(report);
    }
    match fault {
        Some(error) if !report.has_figures() => Err(error),
        _ => Ok(()),
    }
}

/// Sends some frames in each tested direction, and fails if none arrives.
fn greet(ctx: &mut TestContext<'_>) -> Result<()> {
    let mut silent = Vec::new();
    for _ in 0..GREETINGS {
        let plan = ctx.plan;
        let seconds = GREETING_FRAMES as f64 / GREETING_PPS;
        let report = ctx.whole("check that frames come through", seconds, |way| vec![greeting(plan, way)])?;
        let silent_way = |(way, _, stream): (Way, _, &crate::trial::StreamReport)| {
            (stream.total.received == 0).then_some(way)
        };
        silent = firsts(&report, ctx.ways()).filter_map(silent_way).collect();
        if silent.is_empty() {
            return Ok(());
        }
    }
    let ways: Vec<_> = silent.into_iter().map(way_words).collect();
    let ways = if ctx.ways().len() > 1 { format!(", {}", ways.join(" nor ")) } else { String::new() };
    Err(Error::Service(format!(
        "no frame comes through the path{ways}; check that both interfaces are up, and what is between them"
    )))
}

/// Frames like those of the first service: the path may carry its VLAN only.
fn greeting(plan: &Plan, way: Way) -> StreamPlan {
    let phases = vec![frames_at(GREETING_FRAMES, GREETING_PPS)];
    match plan.services.first() {
        Some(service) => service_stream(service, id(way, 0), phases),
        None => stream(id(way, 0), GREETING_SIZE, phases),
    }
}

#[cfg(test)]
mod tests;
