//! The plan of a service test as plain data: services, limits, tests.

mod check;
mod cost;
#[cfg(test)]
mod tests;

use crate::experiment::{Method, PlanFile, Preset, Source};
pub use crate::trial::PathEnd;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// All that a service test measures, its limits included, as a preset or a file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Name of the preset, or `custom`.
    pub name: String,
    /// The heading of the report.
    pub title: String,
    pub source: Option<Source>,
    #[serde(default)]
    pub path: Path,
    #[serde(default)]
    pub ways: Ways,
    /// Take arrival times from the receiving card's clock instead of the kernel's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hardware_time: bool,
    /// Link rate to which loads refer, Mbit/s of layer 1; `None`: the speed of the interfaces, or 1000 if unknown.
    pub link_mbps: Option<f64>,
    /// Tested together in the performance test, one after the other in the configuration test.
    #[serde(default)]
    pub services: Vec<Service>,
    /// Executed in this order.
    pub tests: Vec<Test>,
    /// Runs of the performance test. The other tests have their own repetitions.
    #[serde(default = "one")]
    pub runs: u32,
    /// Pause between two trials, s (RFC 2544 §23 e: 5).
    #[serde(default)]
    pub pause_s: f64,
    /// Notes for the reader, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The path between both ends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// A lab with a direct link: a null calibration.
    Link,
    /// A lab with a bridge.
    Bridge,
    /// A lab with a tap that copies both directions to a third host.
    #[default]
    Tap,
    /// A lab with a router.
    Router,
    /// Existing interfaces.
    Between {
        from: PathEnd,
        to: PathEnd,
        /// IP addresses for a path through routers; without them frames are addressed by MAC address only.
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

/// One end as a host of its router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The address for which the test answers ARP. No interface may own it, including this end's.
    pub ip: Ipv4Addr,
    /// The router's address on this side.
    pub gateway: Ipv4Addr,
}

/// The directions to test.
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
    /// Frame sizes, bytes with FCS; several are sent in turn (EMIX).
    pub sizes: Vec<u32>,
    /// Committed information rate, Mbit/s.
    pub cir_mbps: f64,
    /// Excess information rate, Mbit/s.
    #[serde(default)]
    pub eir_mbps: f64,
    /// Committed burst size (CBS) and excess burst size (EBS), bytes; 0: bursts are not tested.
    #[serde(default)]
    pub cbs_bytes: u64,
    #[serde(default)]
    pub ebs_bytes: u64,
    /// Frames above CIR + EIR must be dropped. If false, the policing test judges only the frames that must arrive.
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

/// Service acceptance criteria; a figure without a limit is measured but not judged.
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

/// A test. Times are s, sizes bytes with FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// RFC 2544 §26.1: the highest rate without loss, for each size.
    Throughput {
        sizes: Vec<u32>,
        #[serde(default)]
        method: Method,
        /// Duration of a full-length trial (§24: 60).
        seconds: f64,
        /// Largest relative width of the final bounds, (upper − lower) / upper.
        width: f64,
    },
    /// §26.2: at the measured throughput, or at the highest rate if there was no throughput test.
    Latency {
        sizes: Vec<u32>,
        /// Duration of each trial (§26.2: 120, the tagged frame after 60).
        seconds: f64,
        /// Number of trials (§26.2: 20).
        repeats: u32,
    },
    /// §26.3: the loss from the line rate down.
    FrameLoss {
        sizes: Vec<u32>,
        /// Duration of each trial.
        seconds: f64,
        /// Step between loads as a share of the line rate, at most 0.1.
        step: f64,
    },
    /// §26.4 with RFC 9004's correction.
    BackToBack {
        sizes: Vec<u32>,
        /// Duration of the longest burst (§26.4: 2 or more).
        seconds: f64,
        /// Number of repetitions (§26.4: 50).
        repeats: u32,
    },
    /// §26.5: 110 % of the throughput, then 50 %: the time until no more frames are lost.
    Recovery {
        sizes: Vec<u32>,
        /// Duration of the overload (§26.5: 60).
        seconds: f64,
        repeats: u32,
    },
    /// Y.1564 service configuration test, one service at a time.
    Configuration {
        /// Duration of each step (1 to 60).
        seconds: f64,
        /// Shares of the CIR in the order of the steps: 0.25, 0.5, 0.75, 1.
        steps: Vec<f64>,
    },
    /// Y.1564 service performance test, all services at once at their CIR.
    Performance {
        /// Duration; the standard names 900, 7200 and 86400.
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
        self.check_all()
    }
}

impl Test {
    /// The test's name in notes.
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

    /// Frame sizes of an RFC 2544 test; empty for Y.1564 tests.
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
