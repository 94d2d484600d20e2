//! What a service test is to do, as plain data: services, limits, tests. Also the shape of a preset's TOML.

mod check;
mod cost;
mod read;

pub use read::read;

pub(super) use read::from_toml;

use crate::bench::plan::Source;
use crate::trial::End;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// A whole service test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The preset's name, or `custom`.
    pub name: String,
    /// A heading for its report.
    pub title: String,
    /// What it was taken from, with that one's own numbers.
    #[serde(default)]
    pub source: Option<Source>,
    /// Where frames go.
    #[serde(default)]
    pub path: Path,
    /// Each way, or one.
    #[serde(default)]
    pub ways: Ways,
    /// Take times of arrival from the receiving card's clock instead of the kernel's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hardware_time: bool,
    /// The link's speed by which loads and line rates are reckoned, Mbit/s of layer 1; `None`: what the
    /// interface says, and 1000 where it says nothing.
    #[serde(default)]
    pub link_mbps: Option<f64>,
    /// All at once in the performance test, one after the other in the configuration test.
    #[serde(default)]
    pub services: Vec<Service>,
    /// In this order.
    pub tests: Vec<Test>,
    /// How often the performance test is done. The others have repetitions of their own, and are done once.
    #[serde(default = "one")]
    pub runs: u32,
    /// Between two trials nothing is sent for so long, s (RFC 2544 §23 e: 5).
    #[serde(default)]
    pub pause_s: f64,
    /// What a reader has to know of it. One sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Where frames go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Two ends of a lab that are joined by a link: a null calibration.
    Link,
    /// Through a bridge.
    Bridge,
    /// Through a tap that shows both directions to a third.
    #[default]
    Tap,
    /// Through a router.
    Router,
    /// Interfaces that are there.
    Between {
        /// One end.
        from: End,
        /// The other.
        to: End,
        /// Through a router; without it by the hardware addresses of the ends alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        routed: Option<Routed>,
    },
}

/// What a router has to know of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routed {
    /// One end.
    pub from: Host,
    /// The other.
    pub to: Host,
}

/// An end as its router sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its own address. Nobody else may have it, the interface included: the test answers for it.
    pub ip: Ipv4Addr,
    /// The router's, at this end.
    pub gateway: Ipv4Addr,
}

/// Which ways are tested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ways {
    /// From one end to the other.
    #[default]
    There,
    /// Both at the same time, each with its own verdict.
    Both,
}

/// A service (ITU-T Y.1564). Information rates count the frame from its addresses to its FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name in tables.
    pub name: String,
    /// Bytes of a frame with FCS; several: in turns (EMIX).
    pub sizes: Vec<u32>,
    /// Committed information rate, Mbit/s.
    pub cir_mbps: f64,
    /// Excess information rate, Mbit/s.
    #[serde(default)]
    pub eir_mbps: f64,
    /// Committed and excess burst size, bytes; 0: bursts are not tested.
    #[serde(default)]
    pub cbs_bytes: u64,
    #[allow(missing_docs, reason = "with cbs_bytes")]
    #[serde(default)]
    pub ebs_bytes: u64,
    /// What is above CIR and EIR has to be dropped. Without it the policing test is made, and judged only by what
    /// has to arrive.
    #[serde(default = "yes")]
    pub is_policed: bool,
    /// 802.1Q: VLAN id and priority.
    #[serde(default)]
    pub vlan: Option<(u16, u8)>,
    /// Differentiated services code point.
    #[serde(default)]
    pub dscp: u8,
    /// What it has to stand (service acceptance criteria).
    #[serde(default)]
    pub limits: Limits,
}

/// What a service has to stand; `None`: it is measured and not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// FTD: the largest mean one-way delay, ms.
    #[serde(default)]
    pub delay_ms: Option<f64>,
    /// FDV: the largest delay variation, ms (PDV, RFC 5481 §4.2).
    #[serde(default)]
    pub delay_variation_ms: Option<f64>,
    /// FLR, 0 to 1.
    #[serde(default)]
    pub loss_ratio: Option<f64>,
    /// AVAIL, 0 to 1.
    #[serde(default)]
    pub availability: Option<f64>,
}

/// A test, with its times in s. Sizes are bytes with FCS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// RFC 2544 §26.1: the highest rate without loss, for each size.
    Throughput {
        /// 64 to 1518.
        sizes: Vec<u32>,
        /// How it is searched.
        #[serde(default)]
        method: crate::bench::plan::Method,
        /// Of the trials that the result rests on (§24: 60).
        seconds: f64,
        /// (upper − lower) / upper.
        width: f64,
    },
    /// §26.2: at the throughput found before (or at the highest rate when that was not sought).
    Latency {
        #[allow(missing_docs, reason = "as above")]
        sizes: Vec<u32>,
        /// Of each trial (§26.2: 120, the tagged frame after 60).
        seconds: f64,
        /// How many trials (§26.2: 20).
        repeats: u32,
    },
    /// §26.3: from the line rate downwards.
    FrameLoss {
        #[allow(missing_docs, reason = "as above")]
        sizes: Vec<u32>,
        /// Of each trial.
        seconds: f64,
        /// Of the line rate, at most 0.1.
        step: f64,
    },
    /// §26.4 with RFC 9004's correction.
    BackToBack {
        #[allow(missing_docs, reason = "as above")]
        sizes: Vec<u32>,
        /// The longest burst (§26.4: 2 or more).
        seconds: f64,
        /// How often (§26.4: 50).
        repeats: u32,
    },
    /// §26.5: 110 % of the throughput, then 50 %: how long frames are still lost.
    Recovery {
        #[allow(missing_docs, reason = "as above")]
        sizes: Vec<u32>,
        /// Of the overload (§26.5: 60).
        seconds: f64,
        /// How often.
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

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
