//! The service performance test (ITU-T Y.1564 §8.2): all services at once at their CIR, once per run of the plan.

use crate::service::figures;
use crate::service::frames::{for_s, id, line_pps, mean_size, number, pps, service_stream};
use crate::service::look::{OFFERED_MIN, caught_up, meter_lost};
use crate::service::plan::{Plan, Service};
use crate::service::result::{Performance, Report, Way};
use crate::service::test_context::TestContext;
use crate::service::verdict::{Doubt, Verdict};
use crate::trial::{DirectionReport, StreamReport};
use crate::{Error, Result};

/// Runs all repetitions. An interrupted run keeps the results measured so far.
pub(super) fn all(seconds: f64, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    let plan = ctx.plan;
    too_much(plan, ctx);
    for run in 1..=plan.runs {
        let begun = format!("{:.0}", jiff::Timestamp::now());
        let what = format!("performance, run {run} of {}", plan.runs);
        let trial = ctx.trial(&what, seconds, true, |way| {
            let stream = |(number, service): (usize, &Service)| {
                let pps = pps(service.cir_mbps, mean_size(&service.sizes));
                service_stream(service, id(way, number), vec![for_s(seconds, pps)])
            };
            plan.services.iter().enumerate().map(stream).collect()
        })?;
        for (way, direction) in ctx.ways().iter().zip(&trial.directions) {
            for (service, stream) in plan.services.iter().zip(&direction.streams) {
                if stream.total.sent == 0 && trial.interrupted {
                    continue;
                }
                // An interrupted stream is judged by the time that it sent.
                let asked_s =
                    if trial.interrupted { figures::sending_s(&stream.total).min(seconds) } else { seconds };
                let row = row((run, &begun), (service, *way), asked_s, direction, stream, ctx);
                let of =
                    if plan.runs > 1 { format!("{}, run {run}", service.name) } else { service.name.clone() };
                ctx.checks("performance", &of, *way, &row.checks);
                report.performance.push(row);
            }
        }
        ctx.show(report);
        if trial.interrupted {
            return Err(Error::Interrupted);
        }
    }
    Ok(())
}

fn row(
    (run, begun): (u32, &str),
    (service, way): (&Service, Way),
    asked_s: f64,
    direction: &DirectionReport,
    stream: &StreamReport,
    ctx: &mut TestContext<'_>,
) -> Performance {
    let asked = service.cir_mbps;
    let due_pps = pps(asked, mean_size(&service.sizes));
    let doubt = Doubt {
        frames: meter_lost(direction) + caught_up(direction, due_pps),
        null_ms: ctx.null_ms,
        unsent_s: figures::unsent_s(stream, due_pps, asked_s),
    };
    let (figures, seconds) = figures::of_performance(stream, asked, asked_s, &service.limits);
    let mut verdict = Verdict::of(&service.limits, &figures, &doubt);
    if figures.sent_mbps < asked * OFFERED_MIN {
        verdict.keep_failed();
        verdict.notes.push(format!(
            "{} Mbit/s were sent instead of {}: the instrument or its link is the limit; only what failed is judged.",
            number(figures.sent_mbps),
            number(asked)
        ));
    }
    for note in verdict.notes {
        let of = ctx.named(&service.name, way);
        ctx.unjudged(format!("{of}, run {run}: {note}"));
    }
    Performance {
        run,
        service: service.name.clone(),
        way,
        begun: begun.into(),
        figures,
        limits: service.limits,
        checks: verdict.checks,
        seconds,
    }
}

/// Notes services that do not fit on the line together: they fail because of the plan, not of the path.
fn too_much(plan: &Plan, ctx: &mut TestContext<'_>) {
    let line_bits = |service: &Service| {
        let size = mean_size(&service.sizes);
        pps(service.cir_mbps, size) / line_pps(ctx.link_mbps, size)
    };
    let load: f64 = plan.services.iter().map(line_bits).sum();
    if load * OFFERED_MIN > 1.0 {
        let percent = number((load * 100.0).round());
        ctx.note(format!("All services together are {percent} % of the line's rate: they do not fit on it."));
    }
}
