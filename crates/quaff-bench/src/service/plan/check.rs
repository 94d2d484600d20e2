//! Validates a plan, when it is read or created, and again before it runs.

use super::{Limits, Path, Plan, Routed, Service, Test};
use crate::experiment::{check_count, check_seconds, check_sizes, check_width, ensure, is_share};

/// Limits of a frame's size with FCS, bytes: the minimum of Ethernet (IEEE 802.3), and the maximum that a trial sends.
const SIZE_MIN: u32 = 64;
const SIZE_MAX: u32 = 9004;
/// Larger values are mistakes.
const SERVICES_MAX: usize = 100;
const PAUSE_MAX_S: f64 = 600.0;
const MBPS_MAX: f64 = 1e6;
const BURST_BYTES_MAX: u64 = 1 << 30;
/// Longest time in which a token bucket may refill, s.
const REFILL_MAX_S: f64 = 60.0;
/// Largest step of a loss curve as a share of the line rate (RFC 2544 §26.3).
const STEP_MAX: f64 = 0.1;
/// Largest VLAN id and priority (IEEE 802.1Q), and DSCP (RFC 2474).
const VLAN_MAX: u16 = 4094;
const PRIORITY_MAX: u8 = 7;
const DSCP_MAX: u8 = 63;

impl Plan {
    /// Checks the plan. The error is one sentence that names the fault.
    pub(super) fn check_all(&self) -> Result<(), String> {
        ensure(!self.tests.is_empty(), || "the plan has no tests".into())?;
        check_count("the performance test is done", self.runs)?;
        ensure((0.0..=PAUSE_MAX_S).contains(&self.pause_s), || {
            format!("a pause is 0 to {PAUSE_MAX_S} s, not {}", self.pause_s)
        })?;
        self.link_mbps.map_or(Ok(()), |mbps| rate("the link", mbps))?;
        self.path.check()?;
        ensure(self.services.len() <= SERVICES_MAX, || format!("more than {SERVICES_MAX} services"))?;
        for (at, service) in self.services.iter().enumerate() {
            service.check().map_err(|what| format!("service {:?}: {what}", service.name))?;
            let twice = self.services[..at].iter().any(|other| other.name == service.name);
            ensure(!twice, || format!("two services are called {:?}", service.name))?;
        }
        self.tests.iter().try_for_each(|test| test.check(&self.services))
    }
}

impl Path {
    fn check(&self) -> Result<(), String> {
        let Self::Between { from, to, routed } = self else { return Ok(()) };
        ensure(!from.interface.is_empty() && !to.interface.is_empty(), || "an end has no interface".into())?;
        ensure(from != to, || format!("both ends are {}", from.interface))?;
        let addresses = routed.map(|Routed { from, to }| [from.ip, from.gateway, to.ip, to.gateway]);
        let is_twice = addresses.is_some_and(|all| (1..all.len()).any(|at| all[..at].contains(&all[at])));
        ensure(!is_twice, || "two of the addresses of both ends and their router are the same".into())
    }
}

impl Service {
    fn check(&self) -> Result<(), String> {
        let Self { name, cir_mbps, eir_mbps, cbs_bytes, ebs_bytes, vlan, dscp, .. } = self;
        ensure(!name.is_empty() && !name.chars().any(char::is_control), || {
            "the name is empty or has control characters".into()
        })?;
        check_sizes(&self.sizes, size)?;
        rate("the CIR", *cir_mbps)?;
        if *eir_mbps != 0.0 {
            rate("the EIR", *eir_mbps)?;
        }
        ensure(*cbs_bytes <= BURST_BYTES_MAX && *ebs_bytes <= BURST_BYTES_MAX, || {
            format!("a burst has more than {BURST_BYTES_MAX} bytes")
        })?;
        let largest = u64::from(self.sizes.iter().copied().max().unwrap_or(0));
        let holds = |bytes: &u64| *bytes == 0 || *bytes >= largest;
        ensure(holds(cbs_bytes) && holds(ebs_bytes), || "a burst is shorter than a frame".into())?;
        let refill_s =
            |bytes: &u64, mbps: &f64| if *mbps > 0.0 { *bytes as f64 * 8.0 / (mbps * 1e6) } else { 0.0 };
        let longest_s = refill_s(cbs_bytes, cir_mbps).max(refill_s(ebs_bytes, eir_mbps));
        ensure(longest_s <= REFILL_MAX_S, || {
            format!(
                "the token bucket of a burst takes {longest_s:.0} s to refill, more than {REFILL_MAX_S} s"
            )
        })?;
        ensure(vlan.is_none_or(|(id, priority)| id <= VLAN_MAX && priority <= PRIORITY_MAX), || {
            format!("a VLAN has an id up to {VLAN_MAX} and a priority up to {PRIORITY_MAX}")
        })?;
        ensure(*dscp <= DSCP_MAX, || format!("a DSCP is 0 to {DSCP_MAX}, not {dscp}"))?;
        self.limits.check()
    }
}

impl Limits {
    fn check(&self) -> Result<(), String> {
        let Self { delay_ms, delay_variation_ms, loss_ratio, availability } = self;
        let is_time = |ms: &Option<f64>| ms.is_none_or(|ms| ms.is_finite() && ms > 0.0);
        let is_ratio = |share: &Option<f64>| share.is_none_or(is_share);
        ensure(is_time(delay_ms) && is_time(delay_variation_ms), || {
            "a delay's limit is not a positive time".into()
        })?;
        ensure(is_ratio(loss_ratio) && is_ratio(availability), || {
            "a limit of loss or availability is not 0 to 1".into()
        })
    }
}

impl Test {
    fn check(&self, services: &[Service]) -> Result<(), String> {
        if !matches!(self, Self::Configuration { .. } | Self::Performance { .. }) {
            check_sizes(self.sizes(), size)?;
        }
        match self {
            Self::Throughput { seconds, width, .. } => {
                check_width(*width)?;
                check_seconds(*seconds)
            }
            Self::FrameLoss { seconds, step, .. } => {
                ensure(*step > 0.0 && *step <= STEP_MAX, || {
                    format!("the step of a loss curve is above 0 and at most {STEP_MAX}, not {step}")
                })?;
                check_seconds(*seconds)
            }
            Self::Latency { seconds, repeats, .. }
            | Self::BackToBack { seconds, repeats, .. }
            | Self::Recovery { seconds, repeats, .. } => {
                check_count("a test is repeated", *repeats)?;
                check_seconds(*seconds)
            }
            Self::Configuration { seconds, steps } => {
                ensure(!services.is_empty(), || "there are no services to test".into())?;
                ensure(!steps.is_empty() && steps.iter().all(|share| *share > 0.0 && *share <= 1.0), || {
                    "the steps are shares of the CIR, above 0 and up to 1".into()
                })?;
                check_seconds(*seconds)
            }
            Self::Performance { seconds } => {
                ensure(!services.is_empty(), || "there are no services to test".into())?;
                check_seconds(*seconds)
            }
        }
    }
}

fn size(size: &u32) -> Result<(), String> {
    ensure((SIZE_MIN..=SIZE_MAX).contains(size), || {
        format!("a frame with its FCS has {SIZE_MIN} to {SIZE_MAX} bytes, not {size}")
    })
}

fn rate(what: &str, mbps: f64) -> Result<(), String> {
    ensure(mbps > 0.0 && mbps <= MBPS_MAX, || {
        format!("{what} has a rate up to {MBPS_MAX} Mbit/s, not {mbps}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::PlanFile;
    use crate::service::sim::{service, services_plan};
    use crate::trial::PathEnd;

    fn error(plan: &Plan) -> String {
        plan.check().expect_err("a fault").to_string()
    }

    #[test]
    fn each_fault_is_named() {
        let good = || services_plan(vec![service("Voice", 5.0)], vec![Test::Performance { seconds: 1.0 }]);
        good().check().expect("a plan");
        let with = |change: &dyn Fn(&mut Plan)| {
            let mut plan = good();
            change(&mut plan);
            error(&plan)
        };
        let end = |interface: &str| PathEnd { netns: None, interface: interface.into() };
        for (sentence, words) in [
            (with(&|plan| plan.tests.clear()), "no tests"),
            (with(&|plan| plan.services.clear()), "no services"),
            (with(&|plan| plan.runs = 0), "not 0"),
            (with(&|plan| plan.link_mbps = Some(f64::NAN)), "the link"),
            (with(&|plan| plan.pause_s = -1.0), "pause"),
            (with(&|plan| plan.services.push(service("Voice", 1.0))), "two services"),
            (with(&|plan| plan.services[0].sizes = vec![63]), "not 63"),
            (with(&|plan| plan.services[0].sizes.clear()), "no sizes"),
            (with(&|plan| plan.services[0].cir_mbps = 0.0), "the CIR"),
            (with(&|plan| plan.services[0].eir_mbps = -1.0), "the EIR"),
            (with(&|plan| plan.services[0].cbs_bytes = 999), "shorter than a frame"),
            (with(&|plan| plan.services[0].cbs_bytes = 100_000_000), "to refill"),
            (with(&|plan| plan.services[0].vlan = Some((4095, 0))), "VLAN"),
            (with(&|plan| plan.services[0].dscp = 64), "DSCP"),
            (with(&|plan| plan.services[0].limits.loss_ratio = Some(1.5)), "loss or availability"),
            (with(&|plan| plan.services[0].limits.delay_ms = Some(f64::NAN)), "delay"),
            (
                with(&|plan| plan.path = Path::Between { from: end("a"), to: end("a"), routed: None }),
                "both ends",
            ),
            (with(&|plan| plan.tests[0] = Test::Performance { seconds: 0.0 }), "more than 0 s"),
            (with(&|plan| plan.tests[0] = Test::Configuration { seconds: 1.0, steps: vec![1.1] }), "steps"),
            (
                with(&|plan| plan.tests[0] = Test::FrameLoss { sizes: vec![64], seconds: 1.0, step: 0.2 }),
                "loss curve",
            ),
            (
                with(&|plan| plan.tests[0] = Test::Latency { sizes: vec![64], seconds: 1.0, repeats: 0 }),
                "not 0",
            ),
        ] {
            assert!(sentence.contains(words), "{sentence:?} has no {words:?}");
        }
    }
}
