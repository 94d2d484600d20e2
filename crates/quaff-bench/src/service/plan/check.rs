//! Whether a plan makes sense. It is asked once, when it is read or made, and again before it is run.

use super::{Limits, Path, Plan, Routed, Service, Test};
use crate::bench::plan::PlanError;

/// Bytes of a frame with FCS: the smallest of Ethernet (IEEE 802.3), and the largest that a trial sends.
const SIZE_MIN: u32 = 64;
const SIZE_MAX: u32 = 9004;
/// More is a mistake.
const SERVICES_MAX: usize = 100;
const COUNT_MAX: u32 = 1000;
const SECONDS_MAX: f64 = 86_400.0;
const PAUSE_MAX_S: f64 = 600.0;
const MBPS_MAX: f64 = 1e6;
const BURST_BYTES_MAX: u64 = 1 << 30;
/// So long is waited for the tokens of a burst, s.
const REFILL_MAX_S: f64 = 60.0;
/// The coarsest step of a loss curve, of the line's rate (RFC 2544 §26.3).
const STEP_MAX: f64 = 0.1;
/// The last id of a VLAN, priority, and code point (IEEE 802.1Q, RFC 2474).
const VLAN_MAX: u16 = 4094;
const PRIORITY_MAX: u8 = 7;
const DSCP_MAX: u8 = 63;

impl Plan {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// One sentence that says what does not.
    pub fn check(&self) -> Result<(), PlanError> {
        self.sense().map_err(|what| PlanError::Sense { plan: self.name.clone(), what })
    }

    fn sense(&self) -> Result<(), String> {
        ensure(!self.tests.is_empty(), || "nothing is to be tested".into())?;
        count("the performance test is done", self.runs)?;
        ensure((0.0..=PAUSE_MAX_S).contains(&self.pause_s), || {
            format!("a pause is 0 to {PAUSE_MAX_S} s, not {}", self.pause_s)
        })?;
        self.link_mbps.map_or(Ok(()), |mbps| rate("the link", mbps))?;
        self.path.sense()?;
        ensure(self.services.len() <= SERVICES_MAX, || format!("more than {SERVICES_MAX} services"))?;
        for (at, service) in self.services.iter().enumerate() {
            service.sense().map_err(|what| format!("of the service {:?} {what}", service.name))?;
            let twice = self.services[..at].iter().any(|other| other.name == service.name);
            ensure(!twice, || format!("two services are called {:?}", service.name))?;
        }
        self.tests.iter().try_for_each(|test| test.sense(&self.services))
    }
}

impl Path {
    fn sense(&self) -> Result<(), String> {
        let Self::Between { from, to, routed } = self else { return Ok(()) };
        ensure(!from.interface.is_empty() && !to.interface.is_empty(), || "an end has no interface".into())?;
        ensure(from != to, || format!("both ends are {}", from.interface))?;
        let addresses = routed.map(|Routed { from, to }| [from.ip, from.gateway, to.ip, to.gateway]);
        let is_twice = addresses.is_some_and(|all| (1..all.len()).any(|at| all[..at].contains(&all[at])));
        ensure(!is_twice, || "two of the addresses of both ends and their router are the same".into())
    }
}

impl Service {
    fn sense(&self) -> Result<(), String> {
        let Self { name, cir_mbps, eir_mbps, cbs_bytes, ebs_bytes, vlan, dscp, .. } = self;
        ensure(!name.is_empty() && !name.chars().any(char::is_control), || "the name is none".into())?;
        all_sizes(&self.sizes)?;
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
            format!("a burst takes {longest_s:.0} s until it may come again, more than {REFILL_MAX_S} s")
        })?;
        ensure(vlan.is_none_or(|(id, priority)| id <= VLAN_MAX && priority <= PRIORITY_MAX), || {
            format!("a VLAN has an id up to {VLAN_MAX} and a priority up to {PRIORITY_MAX}")
        })?;
        ensure(*dscp <= DSCP_MAX, || format!("a DSCP is 0 to {DSCP_MAX}, not {dscp}"))?;
        self.limits.sense()
    }
}

impl Limits {
    fn sense(&self) -> Result<(), String> {
        let Self { delay_ms, delay_variation_ms, loss_ratio, availability } = self;
        let is_time = |ms: &Option<f64>| ms.is_none_or(|ms| ms.is_finite() && ms > 0.0);
        let is_share = |share: &Option<f64>| share.is_none_or(|share| (0.0..=1.0).contains(&share));
        ensure(is_time(delay_ms) && is_time(delay_variation_ms), || "a delay's limit is no time".into())?;
        ensure(is_share(loss_ratio) && is_share(availability), || {
            "a limit of loss or availability is not 0 to 1".into()
        })
    }
}

impl Test {
    fn sense(&self, services: &[Service]) -> Result<(), String> {
        match self {
            Self::Throughput { sizes, seconds: time, width, .. } => {
                all_sizes(sizes)?;
                ensure(*width > 0.0 && *width < 1.0, || {
                    format!("a search is done at a width between 0 and 1, not {width}")
                })?;
                seconds(*time)
            }
            Self::FrameLoss { sizes, seconds: time, step } => {
                all_sizes(sizes)?;
                ensure(*step > 0.0 && *step <= STEP_MAX, || {
                    format!("the step of a loss curve is above 0 and at most {STEP_MAX}, not {step}")
                })?;
                seconds(*time)
            }
            Self::Latency { sizes, seconds: time, repeats }
            | Self::BackToBack { sizes, seconds: time, repeats }
            | Self::Recovery { sizes, seconds: time, repeats } => {
                all_sizes(sizes)?;
                count("a test is repeated", *repeats)?;
                seconds(*time)
            }
            Self::Configuration { seconds: time, steps } => {
                some_services(services)?;
                let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
                ensure(!steps.is_empty() && steps.iter().all(is_share), || {
                    "the steps are shares of the CIR, above 0 and up to 1".into()
                })?;
                seconds(*time)
            }
            Self::Performance { seconds: time } => {
                some_services(services)?;
                seconds(*time)
            }
        }
    }
}

fn all_sizes(sizes: &[u32]) -> Result<(), String> {
    ensure(!sizes.is_empty(), || "there are no sizes".into())?;
    let wrong = sizes.iter().find(|size| !(SIZE_MIN..=SIZE_MAX).contains(*size));
    ensure(wrong.is_none(), || {
        format!("a frame with its FCS has {SIZE_MIN} to {SIZE_MAX} bytes, not {}", wrong.unwrap_or(&0))
    })
}

fn some_services(services: &[Service]) -> Result<(), String> {
    ensure(!services.is_empty(), || "there are no services to test".into())
}

fn rate(what: &str, mbps: f64) -> Result<(), String> {
    ensure(mbps > 0.0 && mbps <= MBPS_MAX, || {
        format!("{what} has a rate up to {MBPS_MAX} Mbit/s, not {mbps}")
    })
}

fn seconds(seconds: f64) -> Result<(), String> {
    ensure(seconds > 0.0 && seconds <= SECONDS_MAX, || {
        format!("a trial takes more than 0 s and at most a day, not {seconds} s")
    })
}

fn count(what: &str, times: u32) -> Result<(), String> {
    ensure((1..=COUNT_MAX).contains(&times), || format!("{what} 1 to {COUNT_MAX} times, not {times}"))
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sim::{service, services_plan};
    use crate::trial::End;

    fn said(plan: &Plan) -> String {
        plan.check().expect_err("it makes no sense").to_string()
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let good = || services_plan(vec![service("Voice", 5.0)], vec![Test::Performance { seconds: 1.0 }]);
        good().check().expect("a plan");
        let with = |change: &dyn Fn(&mut Plan)| {
            let mut plan = good();
            change(&mut plan);
            said(&plan)
        };
        let end = |interface: &str| End { netns: None, interface: interface.into() };
        for (sentence, words) in [
            (with(&|plan| plan.tests.clear()), "nothing is to be tested"),
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
            (with(&|plan| plan.services[0].cbs_bytes = 100_000_000), "may come again"),
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
