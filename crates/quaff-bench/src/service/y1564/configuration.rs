//! The service configuration test (ITU-T Y.1564 §8.1): steps up to the CIR, CIR + EIR, more than both (policing), and
//! bursts of the committed and the excess size.

use crate::Result;
use crate::service::figures;
use crate::service::frames::{
    for_s, frames_at, id, line_pps, mean_size, number, pps, pps_words, service_stream,
};
use crate::service::look::{OFFERED_MIN, caught_up, meter_lost, pace};
use crate::service::plan::{Limits, Service};
use crate::service::result::{Figures, Report, Step, Way};
use crate::service::test_context::{TestContext, firsts, whole};
use crate::service::verdict::{Doubt, Rates, Verdict};
use crate::stats::median;
use crate::trial::Phase;
use crate::trial::{DirectionReport, StreamReport};

/// Overload of the policing step above CIR + EIR, as a share of the EIR, or of the CIR if the EIR is below
/// [`SMALL_EIR`] of it.
const OVERLOAD: f64 = 0.25;
const SMALL_EIR: f64 = 0.2;
/// Policing is not judged if more than this share of the overload may pass.
const POLICED_MAX: f64 = 0.97;
/// Margin on the refill time of a token bucket.
const REFILL: f64 = 1.05;
/// Maximum number of bursts in a step.
const BURSTS_MAX: f64 = 50.0;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::service) enum Kind {
    /// A share of the CIR.
    Cir(f64),
    Eir,
    /// More than CIR + EIR.
    Policing,
    /// Bursts of the committed size (CBS).
    Cbs,
    /// Bursts of committed plus excess size (CBS + EBS).
    Ebs,
}

/// Maximum number of attempts of a step with faults of the tester.
const TRIES: u32 = 3;

/// The traffic of a step.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::service) struct Load {
    /// Mean information rate, Mbit/s.
    pub(in crate::service) mbps: f64,
    pub(in crate::service) phases: Vec<Phase>,
    /// Duration, s.
    pub(in crate::service) seconds: f64,
    bursts: u64,
}

/// Runs all steps of all services, one service after the other.
pub(super) fn all(
    seconds: f64,
    shares: &[f64],
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<()> {
    for (number, service) in ctx.plan.services.iter().enumerate() {
        for kind in Kind::all(service, shares) {
            step(kind, (number, service), seconds, ctx, report)?;
        }
    }
    Ok(())
}

fn step(
    kind: Kind,
    (number, service): (usize, &Service),
    seconds: f64,
    ctx: &mut TestContext<'_>,
    report: &mut Report,
) -> Result<()> {
    let (name, words) = (&service.name, kind.words());
    let Some(load) = kind.load(service, seconds, ctx.link_mbps) else {
        let sentence = format!("{name}, {words}: not tested, the line's rate is lower.");
        // A rate above the line rate is policed by the line itself.
        if kind == Kind::Policing {
            ctx.note(sentence)
        } else {
            ctx.unjudged(sentence)
        }
        return Ok(());
    };
    let mut judged = Vec::new();
    for _ in 0..TRIES {
        judged = tried(kind, (number, service), &load, ctx)?;
        if judged.iter().all(|(.., is_spoilt)| !is_spoilt) {
            break;
        }
    }
    for (way, figures, verdict, _) in judged {
        for note in verdict.notes {
            let of = ctx.named(&format!("{name}, {words}"), way);
            ctx.unjudged(format!("{of}: {note}"));
        }
        ctx.checks("configuration", &format!("{name}, {words}"), way, &verdict.checks);
        let (service, what) = (name.clone(), words.clone());
        report.configuration.push(Step { service, way, what, figures, checks: verdict.checks });
    }
    Ok(())
}

/// Runs one attempt at a step; returns each direction's result, and `true` if the tester prevented a verdict.
fn tried(
    kind: Kind,
    (number, service): (usize, &Service),
    load: &Load,
    ctx: &mut TestContext<'_>,
) -> Result<Vec<(Way, Figures, Verdict, bool)>> {
    let what = format!("configuration, {}, {}", service.name, kind.words());
    let trial = ctx.trial(&what, load.seconds, true, |way| {
        vec![service_stream(service, id(way, number), load.phases.clone())]
    })?;
    let trial = whole(trial)?;
    let one = |(way, direction, stream): (Way, &DirectionReport, &StreamReport)| {
        let figures = figures::of_step(stream, load.mbps, load.seconds, &service.limits);
        let mut verdict = judge(kind, service, load, &figures, (direction, stream), ctx.null_ms);
        // The note about policing would be the same after another attempt.
        let is_in_doubt = kind != Kind::Policing && !verdict.notes.is_empty();
        let slow = slow(kind, service, load, &figures, stream, ctx.link_mbps);
        let is_spoilt = is_in_doubt || slow.is_some();
        if let Some(slow) = slow {
            verdict.keep_failed();
            verdict.notes.push(slow);
        }
        (way, figures, verdict, is_spoilt)
    };
    Ok(firsts(&trial, ctx.ways()).map(one).collect())
}

fn judge(
    kind: Kind,
    service: &Service,
    load: &Load,
    figures: &Figures,
    (direction, stream): (&DirectionReport, &StreamReport),
    null_ms: [f64; 2],
) -> Verdict {
    let Service { cir_mbps: cir, eir_mbps: eir, limits, .. } = service;
    let tolerated = 1.0 - limits.loss_ratio.unwrap_or(0.0);
    let size = mean_size(&service.sizes);
    let frames_lost = meter_lost(direction) + caught_up(direction, pps(load.mbps, size));
    let doubt = Doubt { frames: frames_lost, null_ms, unsent_s: 0 };
    let rates = |asked: f64, max_mbps: Option<f64>| Rates {
        // Frames that were not sent cannot arrive.
        min_mbps: asked.min(figures.sent_mbps) * tolerated,
        max_mbps,
        most_mbps: figures::most_mbps(stream, load.seconds),
        frame_mbps: size * 8.0 / load.seconds / 1e6,
    };
    let of_rates = |max_mbps: Option<f64>| {
        let mut verdict = Verdict::default();
        // A maximum near the sent rate cannot show policing.
        let is_bound = max_mbps.is_none_or(|max| max < figures.sent_mbps * POLICED_MAX);
        if !is_bound {
            let what = "policing was not judged: the allowed bursts may let the whole excess pass.";
            verdict.notes.push(what.into());
        }
        verdict.rate(rates(*cir, max_mbps.filter(|_| is_bound)), figures, &doubt);
        verdict
    };
    match kind {
        Kind::Cir(_) => {
            let mut verdict = Verdict::of(limits, figures, &doubt);
            verdict.rate(rates(load.mbps, None), figures, &doubt);
            verdict
        }
        // At most CIR + EIR was sent, so there is no maximum.
        Kind::Eir => of_rates(None),
        Kind::Policing => {
            of_rates(service.is_policed.then(|| cir + eir + bursts_mbps(service, load.seconds)))
        }
        // Within the committed burst size no frame may be lost.
        Kind::Cbs => {
            let loss_ratio = Some(limits.loss_ratio.unwrap_or(0.0));
            Verdict::of(&Limits { loss_ratio, ..Limits::default() }, figures, &doubt)
        }
        Kind::Ebs => {
            let mut verdict = Verdict::default();
            let committed = load.bursts * frames(service.cbs_bytes, service);
            let received = stream.total.received + meter_lost(direction);
            verdict.frames("CBS", (committed as f64 * tolerated).floor() as u64, received);
            verdict
        }
    }
}

/// Additional rate that bursts allow over this duration, Mbit/s.
fn bursts_mbps(service: &Service, seconds: f64) -> f64 {
    (service.cbs_bytes + service.ebs_bytes) as f64 * 8.0 / seconds / 1e6
}

/// Why a pass is inconclusive: the step was sent below the planned rate.
fn slow(
    kind: Kind,
    service: &Service,
    load: &Load,
    figures: &Figures,
    stream: &StreamReport,
    link_mbps: f64,
) -> Option<String> {
    if matches!(kind, Kind::Cbs | Kind::Ebs) {
        let line = line_pps(link_mbps, mean_size(&service.sizes));
        // Odd phases are bursts, even ones pauses. The median ignores single short bursts.
        let paces: Vec<f64> =
            stream.phases.iter().skip(1).step_by(2).map(|burst| pace(burst, line)).collect();
        let pace = median(&paces).unwrap_or(line);
        return (pace < line * OFFERED_MIN).then(|| {
            let (pace, line) = (pps_words(pace), pps_words(line));
            format!("bursts came at {pace} instead of {line}; only what failed is judged.")
        });
    }
    (figures.sent_mbps < load.mbps * OFFERED_MIN).then(|| {
        let (sent, asked) = (number(figures.sent_mbps), number(load.mbps));
        format!("{sent} Mbit/s were sent instead of {asked}: the instrument or its link is the limit; only what failed is judged.")
    })
}

/// Frame count that fits in `bytes` for any size mix.
fn frames(bytes: u64, service: &Service) -> u64 {
    bytes / u64::from(service.sizes.iter().copied().max().unwrap_or(1))
}

impl Kind {
    /// All steps of a service.
    pub(in crate::service) fn all(service: &Service, shares: &[f64]) -> Vec<Self> {
        let mut kinds: Vec<Self> = shares.iter().map(|share| Self::Cir(*share)).collect();
        kinds.extend((service.eir_mbps > 0.0).then_some(Self::Eir));
        kinds.push(Self::Policing);
        kinds.extend((service.cbs_bytes > 0).then_some(Self::Cbs));
        kinds.extend((service.ebs_bytes > 0).then_some(Self::Ebs));
        kinds
    }

    /// The traffic of the step; `None`: the line rate is too low.
    pub(in crate::service) fn load(self, service: &Service, seconds: f64, link_mbps: f64) -> Option<Load> {
        let Service { cir_mbps: cir, eir_mbps: eir, cbs_bytes, ebs_bytes, .. } = service;
        let excess = if *eir >= cir * SMALL_EIR { eir } else { cir };
        match self {
            Self::Cir(share) => rate(cir * share, service, seconds, link_mbps),
            Self::Eir => rate(cir + eir, service, seconds, link_mbps),
            Self::Policing => rate(cir + eir + OVERLOAD * excess, service, seconds, link_mbps),
            Self::Cbs => Some(bursts(*cbs_bytes, service, seconds, link_mbps)),
            Self::Ebs => Some(bursts(cbs_bytes + ebs_bytes, service, seconds, link_mbps)),
        }
    }

    fn words(self) -> String {
        match self {
            Self::Cir(1.0) => "CIR".into(),
            Self::Cir(share) => format!("CIR {} %", number(share * 100.0)),
            Self::Eir => "CIR+EIR".into(),
            Self::Policing => "policing".into(),
            Self::Cbs => "CBS".into(),
            Self::Ebs => "EBS".into(),
        }
    }
}

fn rate(mbps: f64, service: &Service, seconds: f64, link_mbps: f64) -> Option<Load> {
    let size = mean_size(&service.sizes);
    let pps = pps(mbps, size);
    let phases = vec![for_s(seconds, pps)];
    // Plans give rates with few digits: a rate above the line rate by less than the tolerance is the line rate.
    (pps * OFFERED_MIN <= line_pps(link_mbps, size)).then_some(Load { mbps, phases, seconds, bursts: 0 })
}

/// Line-rate bursts, each after the token buckets have refilled, including what earlier steps took.
fn bursts(bytes: u64, service: &Service, seconds: f64, link_mbps: f64) -> Load {
    let line = line_pps(link_mbps, mean_size(&service.sizes));
    let count = frames(bytes, service).max(1);
    let burst_s = count as f64 / line;
    let refill_s = |bytes: u64, mbps: f64| if mbps > 0.0 { bytes as f64 * 8.0 / (mbps * 1e6) } else { 0.0 };
    let committed_s = refill_s(service.cbs_bytes, service.cir_mbps);
    let pause_s = committed_s.max(refill_s(service.ebs_bytes, service.eir_mbps)) * REFILL;
    let bursts = (seconds / (burst_s + pause_s)).floor().clamp(1.0, BURSTS_MAX);
    let phases = (0..bursts as usize).flat_map(|_| [for_s(pause_s, 0.0), frames_at(count, line)]).collect();
    let bits = count as f64 * mean_size(&service.sizes) * 8.0;
    let once_s = burst_s + pause_s;
    Load { mbps: bits / once_s / 1e6, phases, seconds: bursts * once_s, bursts: bursts as u64 }
}
