//! The plan of a service test, as plain data: services, limits, tests.

mod check;
mod cost;
#[cfg(test)]
mod tests;

use crate::experiment::{Method, PlanFile, Preset, Source};
pub use crate::trial::PathEnd;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// A whole service test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The preset's name, or `custom`.
    pub name: String,
    /// The heading of the report.
    pub title: String,
    pub source: Option<Source>,
    #[serde(default)]
    pub path: Path,
    #[serde(default)]
    pub ways: Ways,
    /// Take arrival times from the receiving adapter's clock instead of the kernel's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hardware_time: bool,
    /// Link rate to which loads refer, Mbit/s of layer 1; `None`: the interface's, or 1000 where it reports none.
    pub link_mbps: Option<f64>,
    /// Tested at the same time in the performance test, one after the other in the configuration test.
    #[serde(default)]
    pub services: Vec<Service>,
    /// In this order.
    pub tests: Vec<Test>,
    /// Repetitions of the performance test. The other tests have repetitions of their own.
    #[serde(default = "one")]
    pub runs: u32,
    /// Pause between two trials, s (RFC 2544 §23 e: 5).
    #[serde(default)]
    pub pause_s: f64,
    /// Remarks for the reader, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The path between both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// A link of a lab: a null calibration.
    Link,
    /// A bridge of a lab.
    Bridge,
    /// A tap of a lab, which copies both directions to a third host.
    #[default]
    Tap,
    /// A router of a lab.
    Router,
    /// Existing interfaces.
    Between {
        from: PathEnd,
        to: PathEnd,
        /// Addresses for a path through routers; without them frames are addressed by MAC alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        routed: Option<Routed>,
    },
}

/// Addresses of both ends of a routed path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    pub from: Host,
    pub to: Host,
}

/// An end as a host of its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The address for which the test answers ARP. No interface may have it, this end's included.
    pub ip: Ipv4Addr,
    /// The router's address at this end.
    pub gateway: Ipv4Addr,
}

/// The directions that are tested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ways {
    /// From `from` to `to`.
    #[default]
    There,
    /// Both at the same time, each with its own verdict.
    Both,
}

/// A service (ITU-T Y.1564). Information rates count the frame from its addresses to its FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub name: String,
    /// Bytes of a frame with FCS; several are sent in turn (EMIX).
    pub sizes: Vec<u32>,
    /// Committed information rate, Mbit/s.
    pub cir_mbps: f64,
    /// Excess information rate, Mbit/s.
    #[serde(default)]
    pub eir_mbps: f64,
    /// Committed and excess burst size, bytes; 0: bursts are not tested.
    #[serde(default)]
    pub cbs_bytes: u64,
    #[serde(default)]
    pub ebs_bytes: u64,
    /// Frames above CIR and EIR must be dropped. Without it the policing test is judged only by the frames that
    /// must arrive.
    #[serde(default = "yes")]
    pub is_policed: bool,
    /// 802.1Q: VLAN id and priority.
    pub vlan: Option<(u16, u8)>,
    /// Differentiated services code point.
    #[serde(default)]
    pub dscp: u8,
    /// Service acceptance criteria.
    #[serde(default)]
    pub limits: Limits,
}

/// Service acceptance criteria; a figure with `None` is measured and not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// FTD: the largest mean one-way delay, ms.
    pub delay_ms: Option<f64>,
    /// FDV: the largest delay variation, ms (PDV, RFC 5481 §4.2).
    pub delay_variation_ms: Option<f64>,
    /// FLR, 0 to 1.
    pub loss_ratio: Option<f64>,
    /// AVAIL, 0 to 1.
    pub availability: Option<f64>,
}

/// A test, with its times in s. Sizes are bytes with FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// RFC 2544 §26.1: the highest rate without loss, for each size.
    Throughput {
        sizes: Vec<u32>,
        #[serde(default)]
        method: Method,
        /// Of a full-length trial (§24: 60).
        seconds: f64,
        /// (upper − lower) / upper.
        width: f64,
    },
    /// §26.2: at the throughput found before, or at the highest rate without a throughput test.
    Latency {
        sizes: Vec<u32>,
        /// Of each trial (§26.2: 120, the tagged frame after 60).
        seconds: f64,
        /// Trials (§26.2: 20).
        repeats: u32,
    },
    /// §26.3: from the line rate down.
    FrameLoss {
        sizes: Vec<u32>,
        /// Of each trial.
        seconds: f64,
        /// Of the line rate, at most 0.1.
        step: f64,
    },
    /// §26.4 with RFC 9004's correction.
    BackToBack {
        sizes: Vec<u32>,
        /// The longest burst (§26.4: 2 or more).
        seconds: f64,
        /// §26.4: 50.
        repeats: u32,
    },
    /// §26.5: 110 % of the throughput, then 50 %: the time until no more frames are lost.
    Recovery {
        sizes: Vec<u32>,
        /// Of the overload (§26.5: 60).
        seconds: f64,
        repeats: u32,
    },
    /// Y.1564 service configuration test, one service at a time.
    Configuration {
        /// Of each step (1 to 60).
        seconds: f64,
        /// Shares of the CIR, in this order: 0.25, 0.5, 0.75, 1.
        steps: Vec<f64>,
    },
    /// Y.1564 service performance test, all services at once at their CIR.
    Performance {
        /// 900, 7200 or 86400 by the standard.
        seconds: f64,
    },
}

impl PlanFile for Plan {
    const PRESETS: &'static [Preset] = &[
        (
            "whitepaper",
            include_str!("../../services/whitepaper.toml"),
            Some(include_str!("../../services/whitepaper-short.toml")),
        ),
        (
            "rfc2544",
            include_str!("../../services/rfc2544.toml"),
            Some(include_str!("../../services/rfc2544-short.toml")),
        ),
        (
            "y1564",
            include_str!("../../services/y1564.toml"),
            Some(include_str!("../../services/y1564-short.toml")),
        ),
    ];

    fn name(&self) -> &str {
        &self.name
    }

    fn validate(&self) -> Result<(), String> {
        check::check(self)
    }
}

impl Test {
    /// The name in notes.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Throughput { .. } => "throughput",
            Self::Latency { .. } => "latency",
            Self::FrameLoss { .. } => "frame loss",
            Self::BackToBack { .. } => "back-to-back frames",
            Self::Recovery { .. } => "recovery",
            Self::Configuration { .. } => "the configuration",
            Self::Performance { .. } => "performance",
        }
    }

    /// Sizes of an RFC 2544 test; none of the others.
    pub(super) fn sizes(&self) -> &[u32] {
        match self {
            Self::Throughput { sizes, .. }
            | Self::Latency { sizes, .. }
            | Self::FrameLoss { sizes, .. }
            | Self::BackToBack { sizes, .. }
            | Self::Recovery { sizes, .. } => sizes,
            Self::Configuration { .. } | Self::Performance { .. } => &[],
        }
    }
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
