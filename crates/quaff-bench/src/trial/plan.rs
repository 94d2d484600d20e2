//! The plan of a trial, as plain data.

use quaff_wire::net::{TPID_CUSTOMER, VlanTag};
use quaff_wire::probe::{FRAME_BYTES_MAX, TrialHeader};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::net::Ipv4Addr;

const FRAME_BYTES_MIN: usize = TrialHeader::LAYOUT.frame_bytes_min;

/// Exclusive limits of VLAN ids, priorities and code points (IEEE 802.1Q, RFC 2474).
const VLAN_IDS: u16 = 4096;
const PRIORITIES: u8 = 8;
const DSCPS: u8 = 64;
/// Valid rates, frames/s.
const PPS: std::ops::RangeInclusive<f64> = 1e-6..=1e9;
/// Maximum duration of a phase, s: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialPlan {
    /// One direction, or two at the same time.
    pub(crate) directions: Vec<Direction>,
    /// Time to wait for the last frames, s (RFC 2544 §23 d: 2).
    pub(crate) residual_s: f64,
    /// Keep a tally per second. Without it the memory of a trial does not depend on its duration.
    pub(crate) is_by_second: bool,
    /// Take arrival times from the receiving card's clock; it is an error if there is none. Delays are then as exact as
    /// that clock follows the system's (ptp4l, phc2sys); their variation is exact in any case.
    pub(crate) hardware_time: bool,
}

/// An interface, in the process's or in a named network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathEnd {
    /// Name of the namespace as in `ip netns`; `None`: the namespace of the process.
    pub netns: Option<String>,
    pub interface: String,
}

impl fmt::Display for PathEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let netns = self.netns.as_ref().map(|netns| format!("{netns}/"));
        write!(f, "{}{}", netns.unwrap_or_default(), self.interface)
    }
}

/// The streams from one end to the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Direction {
    pub(crate) from: PathEnd,
    pub(crate) to: PathEnd,
    /// Streams sent at the same time. Ids are unique, also across directions.
    pub(crate) streams: Vec<StreamPlan>,
    /// The path through a router; `None`: frames are addressed to the hardware addresses of the ends.
    pub(crate) route: Option<Route>,
    /// Core of the sender; `None`: any.
    pub(crate) tx_core: Option<usize>,
    /// Core of the meter; `None`: any.
    pub(crate) rx_core: Option<usize>,
}

/// IP addresses of the ends and of their routers. The ends answer ARP requests (RFC 826) themselves: the interfaces
/// need not own these addresses, and should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) src_ip: Ipv4Addr,
    pub(crate) dst_ip: Ipv4Addr,
    /// The router of the sending end.
    pub(crate) next_hop: Ipv4Addr,
    /// The router of the receiving end.
    pub(crate) last_hop: Ipv4Addr,
}

/// A stream: a service, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamPlan {
    /// Stream id in its probe headers.
    pub(crate) id: u16,
    /// Frame sizes, bytes without FCS, with a tag, 60 to 9000; several are sent in turn.
    pub(crate) sizes: Vec<u32>,
    /// Phases, sent in order.
    pub(crate) phases: Vec<Phase>,
    /// 802.1Q: VLAN id and priority.
    pub(crate) vlan: Option<(u16, u8)>,
    /// Differentiated services code point, 0 to 63.
    pub(crate) dscp: u8,
}

/// A part of a stream with a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Phase {
    pub(crate) length: Length,
    /// Frames/s; `None`: as fast as possible; 0: a pause, which is ignored at the end of a stream.
    pub(crate) pps: Option<f64>,
}

/// The length of a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Length {
    /// Duration, s. Frames that a delayed sender cannot send in time are omitted, so that the rate is never exceeded
    /// and the phase never prolonged.
    Seconds(f64),
    /// Number of frames, sent regardless of the time it takes.
    Frames(u64),
}

/// A plan that cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("a trial needs a direction, and each direction a stream")]
    Nothing,
    #[error("two streams of a trial have the id {0}")]
    Id(u16),
    #[error(
        "stream {id}: its frames must have {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes without FCS, not {bytes}"
    )]
    Size { id: u16, bytes: u32 },
    #[error("stream {id}: no frame size is given")]
    NoSize { id: u16 },
    #[error(
        "stream {id}: a phase needs a length above 0 and a rate of at least 0; a number of frames needs a rate above 0"
    )]
    Phase { id: u16 },
    #[error(
        "stream {id}: a VLAN id is below {VLAN_IDS}, a priority below {PRIORITIES}, a code point below {DSCPS}"
    )]
    Mark { id: u16 },
    #[error("residual frames cannot be waited for {0} s")]
    Residual(f64),
    #[error(
        "a frame of {bytes} bytes does not fit the MTU of {interface}, {mtu}: ip link set {interface} mtu {needed}"
    )]
    Mtu { interface: String, bytes: u32, mtu: u32, needed: u32 },
}

impl TrialPlan {
    /// Checks everything that does not depend on the interfaces.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        if self.directions.is_empty() || self.directions.iter().any(|direction| direction.streams.is_empty())
        {
            return Err(PlanError::Nothing);
        }
        if !(0.0..=SECONDS_MAX).contains(&self.residual_s) {
            return Err(PlanError::Residual(self.residual_s));
        }
        let mut ids = HashSet::new();
        for stream in self.directions.iter().flat_map(|direction| &direction.streams) {
            if !ids.insert(stream.id) {
                return Err(PlanError::Id(stream.id));
            }
            stream.check()?;
        }
        Ok(())
    }

    /// Minimum duration of all streams as far as known, s.
    pub(super) fn seconds(&self) -> f64 {
        let streams = self.directions.iter().flat_map(|direction| &direction.streams);
        streams.map(|stream| stream.phases.iter().map(Phase::seconds).sum()).fold(0.0, f64::max)
    }
}

impl StreamPlan {
    /// Total number of frames, if known in advance.
    pub(super) fn frames(&self) -> Option<u64> {
        self.phases.iter().try_fold(0u64, |all, phase| Some(all.saturating_add(phase.frames()?)))
    }

    fn check(&self) -> Result<(), PlanError> {
        let id = self.id;
        if self.sizes.is_empty() {
            return Err(PlanError::NoSize { id });
        }
        let fits = |bytes: &&u32| (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&(**bytes as usize));
        if let Some(&bytes) = self.sizes.iter().find(|bytes| !fits(bytes)) {
            return Err(PlanError::Size { id, bytes });
        }
        if self.phases.is_empty() || !self.phases.iter().all(Phase::is_possible) {
            return Err(PlanError::Phase { id });
        }
        let is_tag = |(vlan, priority)| vlan < VLAN_IDS && priority < PRIORITIES;
        if !self.vlan.is_none_or(is_tag) || self.dscp >= DSCPS {
            return Err(PlanError::Mark { id });
        }
        Ok(())
    }
}

impl Phase {
    /// Minimum duration as far as known, s.
    pub(super) fn seconds(&self) -> f64 {
        match (self.length, self.pps) {
            (Length::Seconds(seconds), _) => seconds,
            (Length::Frames(frames), Some(pps)) => frames as f64 / pps,
            (Length::Frames(_), None) => 0.0,
        }
    }

    /// Number of frames, if known in advance.
    pub(super) fn frames(&self) -> Option<u64> {
        match (self.length, self.pps) {
            (Length::Frames(frames), _) => Some(frames),
            (Length::Seconds(_), None) => None,
            (Length::Seconds(_), Some(0.0)) => Some(0),
            (Length::Seconds(seconds), Some(pps)) => Some((seconds * pps).round().max(1.0) as u64),
        }
    }

    fn is_possible(&self) -> bool {
        let has_rate = self.pps.is_none_or(|pps| pps == 0.0 || PPS.contains(&pps));
        has_rate
            && match self.length {
                Length::Seconds(seconds) => seconds > 0.0 && seconds <= SECONDS_MAX,
                Length::Frames(frames) => frames > 0 && self.pps != Some(0.0),
            }
    }
}

/// The VLAN tag of a stream: its id and its priority.
pub(super) fn tag((id, priority): (u16, u8)) -> VlanTag {
    VlanTag { tpid: TPID_CUSTOMER, tci: u16::from(priority) << 13 | id }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> StreamPlan {
        let phases = vec![Phase { length: Length::Seconds(1.0), pps: Some(10.0) }];
        StreamPlan { id: 1, sizes: vec![60], phases, vlan: None, dscp: 0 }
    }

    fn plan(streams: Vec<StreamPlan>) -> TrialPlan {
        let end = |name: &str| PathEnd { netns: None, interface: name.into() };
        let direction =
            Direction { from: end("a"), to: end("b"), streams, route: None, tx_core: None, rx_core: None };
        TrialPlan { directions: vec![direction], residual_s: 2.0, is_by_second: false, hardware_time: false }
    }

    #[test]
    fn impossible_plans_are_refused() {
        assert_eq!(plan(vec![stream()]).check(), Ok(()));
        assert_eq!(plan(vec![]).check(), Err(PlanError::Nothing));
        assert_eq!(plan(vec![stream(), stream()]).check(), Err(PlanError::Id(1)));
        let late = TrialPlan { residual_s: f64::NAN, ..plan(vec![stream()]) };
        assert!(matches!(late.check(), Err(PlanError::Residual(_))));
        for bytes in [59, 9001] {
            let small = StreamPlan { sizes: vec![60, bytes], ..stream() };
            assert_eq!(plan(vec![small]).check(), Err(PlanError::Size { id: 1, bytes }));
        }
        assert_eq!(
            plan(vec![StreamPlan { sizes: vec![], ..stream() }]).check(),
            Err(PlanError::NoSize { id: 1 })
        );
        for (vlan, dscp) in [(Some((4096, 0)), 0), (Some((1, 8)), 0), (None, 64)] {
            let marked = StreamPlan { vlan, dscp, ..stream() };
            assert_eq!(plan(vec![marked]).check(), Err(PlanError::Mark { id: 1 }));
        }
        let phases = [
            (Length::Seconds(0.0), Some(1.0)),
            (Length::Seconds(f64::NAN), None),
            (Length::Seconds(f64::INFINITY), None),
            (Length::Seconds(1.0), Some(-1.0)),
            (Length::Seconds(1.0), Some(f64::NAN)),
            (Length::Seconds(1.0), Some(1e10)),
            (Length::Seconds(1.0), Some(1e-300)),
            (Length::Frames(0), None),
            (Length::Frames(1), Some(0.0)),
        ];
        for (length, pps) in phases {
            let phased = StreamPlan { phases: vec![Phase { length, pps }], ..stream() };
            assert_eq!(plan(vec![phased]).check(), Err(PlanError::Phase { id: 1 }), "{length:?} {pps:?}");
        }
    }

    #[test]
    fn frames_are_known_if_there_is_a_rate() {
        let frames = |length, pps| Phase { length, pps }.frames();
        assert_eq!(frames(Length::Seconds(2.0), Some(1000.5)), Some(2001));
        assert_eq!(frames(Length::Seconds(0.1), Some(1.0)), Some(1));
        assert_eq!(frames(Length::Seconds(5.0), Some(0.0)), Some(0));
        assert_eq!(frames(Length::Seconds(5.0), None), None);
        assert_eq!(frames(Length::Frames(9), None), Some(9));
        let endless = Phase { length: Length::Frames(u64::MAX), pps: None };
        assert_eq!(StreamPlan { phases: vec![endless; 2], ..stream() }.frames(), Some(u64::MAX));
    }
}
