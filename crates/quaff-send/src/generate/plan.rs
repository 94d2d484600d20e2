//! The plan of generation, as plain data, and its checks. It never sends.

use super::program::Template;
use crate::error::{PPS_MAX, PPS_MIN, PlanError};
use crate::schedule::{Rate, Ratio};
use quaff_os::rtnl::Link;
use quaff_wire::net::VlanTag;
use quaff_wire::probe::{OuterHeaders, ProbeFrame};
use quaff_wire::synth::{New, Recipe, Synth};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Units of intervals (2^-16 ns) per ns.
const FRACTIONS_PER_NS: f64 = 65_536.0;

/// The length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Number of frames.
    Count(u64),
    /// Duration; a paced run sends a fixed number of frames.
    Duration(Duration),
    /// Until the watcher stops the run.
    Endless,
}

/// A stream of probe frames.
#[derive(Debug, Clone, PartialEq)]
pub struct SendPlan {
    /// Inject the frames into the receive path of the interface, as if from the wire, instead of sending them from it.
    pub inject: bool,
    pub interface: String,
    /// Frame size, bytes, with VLAN tags, without FCS.
    pub frame_bytes: usize,
    /// Frames per second, at constant intervals; `None`: as fast as possible.
    pub pps: Option<f64>,
    pub length: Length,
    /// Stream id, which is also the UDP source port.
    pub stream: u16,
    /// Destination MAC. The receiving stack drops frames to other hosts early, which leaves more CPU time for a
    /// capture.
    pub dst_mac: [u8; 6],
    /// Source MAC; `None`: that of the interface, or a generated one for injected frames.
    pub src_mac: Option<[u8; 6]>,
    pub src_ip: Ipv4Addr,
    pub dst_ip: Ipv4Addr,
    /// VLAN tags, outermost first.
    pub tags: Vec<VlanTag>,
    /// Send the frames inside ERSPAN type II with this session id, as a mirror port does.
    pub mirror: Option<u16>,
    /// Inject the frames of this recipe instead; they must differ only by their flow ([`Recipe::differs_only_by_flow`])
    /// and match the fields above.
    pub made: Option<Box<Recipe>>,
    /// Core of the sending thread.
    pub core: Option<usize>,
}

/// The checked rate and length of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pacing {
    /// Interval between two frames, 2^-16 ns; 0: unpaced.
    pub(crate) interval: u64,
    /// The same rate for user space.
    pub(crate) rate: Rate,
    /// Number of frames, if known from the start.
    pub(crate) count: Option<u64>,
    /// End of a run without a count, ns after its first frame.
    pub(crate) stop_after_ns: Option<u64>,
}

impl Pacing {
    /// Interval between two frames, ns.
    pub(super) fn interval_ns(&self) -> u64 {
        self.interval >> 16
    }
}

impl SendPlan {
    pub(super) fn pacing(&self) -> Result<Pacing, PlanError> {
        let (interval, rate) = match self.pps {
            None => (0, Rate::Topspeed),
            Some(pps) if (PPS_MIN..=PPS_MAX).contains(&pps) => {
                let ratio = Ratio::of(pps).ok_or(PlanError::Pace(pps))?;
                ((1e9 * FRACTIONS_PER_NS / pps).round() as u64, Rate::Frames(ratio))
            }
            Some(pps) => return Err(PlanError::Pace(pps)),
        };
        let (count, stop_after_ns) = match (self.length, self.pps) {
            (Length::Count(0), _) => return Err(PlanError::Nothing),
            (Length::Count(count), _) => (Some(count), None),
            (Length::Endless, _) => (None, None),
            (Length::Duration(time), Some(pps)) => {
                (Some((time.as_secs_f64() * pps).round().max(1.0) as u64), None)
            }
            (Length::Duration(time), None) => {
                (None, Some(time.as_nanos().min(u128::from(u64::MAX / 2)) as u64))
            }
        };
        Ok(Pacing { interval, rate, count, stop_after_ns })
    }

    /// The frames, without the contents of their probe headers.
    pub(super) fn frame(&self, link: &Link) -> Result<ProbeFrame, PlanError> {
        let headers = self.headers(link);
        let frame = ProbeFrame::new(&headers, self.frame_bytes)?;
        match (&self.made, self.mirror) {
            (Some(_), _) => Err(PlanError::Made),
            (None, Some(session)) => Ok(frame.mirrored(&headers, session)),
            (None, None) => Ok(frame),
        }
    }

    /// The template of the BPF program.
    pub(super) fn template(&self, link: &Link) -> Result<Template, PlanError> {
        let template = match self.made.as_deref() {
            None => Template::of_frame(&self.frame(link)?),
            Some(recipe) if recipe.differs_only_by_flow() => {
                let cycle = match recipe.flows.new {
                    New::EachFrame => recipe.tuples.count(),
                    _ => recipe.flows.concurrent,
                };
                let mut synth = Synth::new(recipe.clone())?;
                let stamp = recipe.all_carry_probes().then_some(recipe.header_bytes() as usize);
                Template::of_flows(synth.make(0).to_vec(), stamp, &recipe.tuples, cycle)
            }
            Some(_) => None,
        };
        template.ok_or(PlanError::Made)
    }

    pub(super) fn headers(&self, link: &Link) -> OuterHeaders {
        let src_mac = if self.inject { INVENTED_SRC_MAC } else { link.mac };
        OuterHeaders {
            dst_mac: self.dst_mac,
            src_mac: self.src_mac.unwrap_or(src_mac),
            tags: self.tags.clone(),
            src_ip: self.src_ip,
            dst_ip: self.dst_ip,
            stream: self.stream,
        }
    }
}

/// A locally administered address: 02, "quaf", 1.
const INVENTED_SRC_MAC: [u8; 6] = [0x02, b'q', b'u', b'a', b'f', 1];

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pps: Option<f64>, length: Length) -> SendPlan {
        SendPlan {
            inject: true,
            interface: "lo".into(),
            frame_bytes: 64,
            mirror: None,
            pps,
            length,
            stream: 1,
            dst_mac: [0; 6],
            src_mac: None,
            src_ip: Ipv4Addr::LOCALHOST,
            dst_ip: Ipv4Addr::LOCALHOST,
            tags: vec![],
            made: None,
            core: None,
        }
    }

    #[test]
    fn a_paced_duration_is_a_count() {
        let pacing = plan(Some(1000.5), Length::Duration(Duration::from_secs(2))).pacing();
        assert_eq!(pacing.unwrap().count, Some(2001));
        let short = plan(Some(1.0), Length::Duration(Duration::from_millis(1))).pacing();
        assert_eq!(short.unwrap().count, Some(1));
        let unpaced = plan(None, Length::Duration(Duration::from_secs(2))).pacing();
        assert_eq!(
            unpaced,
            Ok(Pacing { interval: 0, rate: Rate::Topspeed, count: None, stop_after_ns: Some(2_000_000_000) })
        );
    }

    #[test]
    fn intervals_are_exact_to_1e_6() {
        for pps in [0.0001, 0.5, 3.0, 1e4, 333_333.3, 1e6, 3e6] {
            let pacing = plan(Some(pps), Length::Endless).pacing().unwrap();
            let back = 1e9 / (pacing.interval as f64 / FRACTIONS_PER_NS);
            assert!((back / pps - 1.0).abs() < 1e-6, "{pps} came out as {back}");
        }
    }

    #[test]
    fn rates_out_of_range_and_empty_runs_are_rejected() {
        for pps in [0.0, -1.0, 1e-5, 2e9, f64::NAN, f64::INFINITY] {
            assert!(matches!(plan(Some(pps), Length::Endless).pacing(), Err(PlanError::Pace(_))));
        }
        assert_eq!(plan(None, Length::Count(0)).pacing(), Err(PlanError::Nothing));
    }
}
