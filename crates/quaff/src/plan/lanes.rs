//! The lanes of interfaces: their number, their cores, and the rule by which packets are distributed over them.

use super::spread::Spread;
use super::{InputPlan, InterfacePlan};
use crate::{Error, Result};
use quaff_os::ethtool::Card;
use quaff_os::packet::TimeSource;

/// Most lanes of an interface. Each has a ring and a thread.
pub const LANES_MAX: usize = 64;

/// The lanes that interface `name` can use: one for each receive queue, but no more than `cores`, and at least one.
pub fn lanes_of(name: &str, cores: usize) -> usize {
    let channels = Card::read(name).channels.ok().flatten();
    let queues = channels.map_or(1, |channels| channels.receiving as usize);
    queues.min(cores).clamp(1, LANES_MAX)
}

impl InterfacePlan {
    /// An interface with one lane.
    pub fn new(name: impl Into<String>, cpu: Option<usize>) -> Self {
        Self { name: name.into(), cpus: vec![cpu] }
    }
}

impl InputPlan {
    /// Number of lanes: those of the interfaces and of interfaces that may come, or one for all files.
    pub fn lanes(&self) -> usize {
        let spare = self.hotplug.as_ref().map_or(0, |hotplug| hotplug.lanes);
        (self.interfaces.iter().map(|interface| interface.cpus.len()).sum::<usize>() + spare).max(1)
    }

    /// The interface of each lane, by its position in the plan, and the position of the lane among those of the
    /// interface. Lanes for interfaces that may come are not included.
    pub fn places(&self) -> Vec<(usize, usize)> {
        let lanes = |(at, interface): (usize, &InterfacePlan)| {
            (0..interface.cpus.len()).map(move |lane| (at, lane)).collect::<Vec<_>>()
        };
        self.interfaces.iter().enumerate().flat_map(lanes).collect()
    }

    /// The name of each lane: that of its interface, with a number if that has several.
    pub fn lane_names(&self) -> Vec<String> {
        let name = |(at, lane): (usize, usize)| {
            let interface = &self.interfaces[at];
            match interface.cpus.len() {
                1 => interface.name.clone(),
                _ => format!("{} lane {lane}", interface.name),
            }
        };
        self.places().into_iter().map(name).collect()
    }

    /// The core of each lane of an interface.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = Option<usize>> {
        self.interfaces.iter().flat_map(|interface| interface.cpus.iter().copied())
    }

    /// The rule for interfaces with several lanes.
    pub fn spread_rule(&self) -> Spread {
        let default = if self.via.is_xdp() { Spread::Queue } else { Spread::Hash };
        self.spread.unwrap_or(default)
    }

    /// Returns whether an interface has several lanes.
    pub(crate) fn has_shared(&self) -> bool {
        self.interfaces.iter().any(|interface| interface.cpus.len() > 1)
    }

    /// Keeps both directions of a conversation, and all fragments of a datagram, in one lane, as `what` needs.
    pub(crate) fn keep_together(&mut self, what: &str) -> Result<()> {
        match self.spread {
            None => self.spread = Some(Spread::Addresses),
            Some(Spread::Addresses) => {}
            Some(_) if !self.has_shared() => {}
            Some(other) => {
                return Err(Error::Plan(format!(
                    "{what} needs `spread` addresses: with {other}, fragments of a datagram or the two directions of a \
                     conversation may be in different lanes"
                )));
            }
        }
        Ok(())
    }

    /// Refuses settings that AF_XDP does not support.
    pub(super) fn check_via(&self) -> Result<()> {
        if !self.via.is_xdp() {
            return match self.take_from_host {
                true => Err(Error::Plan(
                    "`take-from-host` is for `via` xdp: AF_PACKET leaves the host its packets".into(),
                )),
                false => Ok(()),
            };
        }
        let needs = [
            (self.read.is_some(), "`read` captures no interface: leave `via` out"),
            (
                self.decap.is_some() && self.has_shared(),
                "`decap` needs all fragments in one lane: with `via` xdp, an interface of one receive queue ('ethtool -L')",
            ),
            (
                self.prove && self.has_shared(),
                "`prove` needs both directions of a connection in one lane: with `via` xdp, an interface of one receive \
                 queue ('ethtool -L')",
            ),
            (self.hotplug.is_some(), "`via` xdp needs its interfaces at the start: leave `hotplug` out"),
            (
                self.spread.is_some_and(|spread| spread != Spread::Queue),
                "`via` xdp has a lane for each receive queue: leave `spread` out, or set it to queue",
            ),
            (
                self.time_source != TimeSource::Host,
                "`via` xdp has the times at which its program sees packets: leave `time-stamp-type` at host",
            ),
        ];
        needs
            .iter()
            .find(|(is_wrong, _)| *is_wrong)
            .map_or(Ok(()), |(_, why)| Err(Error::Plan((*why).into())))
    }

    /// Checks the numbers of lanes, and what the stages need of them.
    pub(super) fn check_lanes(&mut self) -> Result<()> {
        let is_wrong = |interface: &&InterfacePlan| !(1..=LANES_MAX).contains(&interface.cpus.len());
        if let Some(interface) = self.interfaces.iter().find(is_wrong) {
            return Err(Error::Plan(format!("{}: `lanes` are 1 to {LANES_MAX}", interface.name)));
        }
        // Checked before: with AF_XDP the adapter's rule applies, whatever it is.
        if self.decap.is_some() && !self.via.is_xdp() {
            self.keep_together("`decap`")?;
        }
        if self.prove && !self.via.is_xdp() {
            self.keep_together("the evidence of losses")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::spread::Via;
    use super::*;
    use crate::plan::{DecapPlan, HotplugPlan};
    use quaff_wire::tunnel::TunnelKinds;

    fn plan(lanes: [usize; 2]) -> InputPlan {
        let names = ["eth0", "eth1"].into_iter().zip(lanes);
        let interface =
            |(name, lanes): (&str, usize)| InterfacePlan { name: name.into(), cpus: vec![None; lanes] };
        InputPlan { interfaces: names.map(interface).collect(), ..InputPlan::default() }
    }

    #[test]
    fn lanes_are_numbered_through_all_interfaces() {
        let plan = plan([1, 2]);
        assert_eq!((plan.lanes(), plan.places()), (3, vec![(0, 0), (1, 0), (1, 1)]));
        assert_eq!(plan.lane_names(), ["eth0", "eth1 lane 0", "eth1 lane 1"]);
        assert_eq!((InputPlan::default().lanes(), InputPlan::default().places()), (1, vec![]));
    }

    #[test]
    fn options_that_af_xdp_lacks_are_refused() {
        let xdp = || InputPlan { via: Via::Xdp, ..plan([1, 2]) };
        let checked = |plan: InputPlan| plan.validate().map(|plan| plan.spread_rule());
        assert_eq!(checked(xdp()).expect("a plan"), Spread::Queue);
        let hotplug = Some(HotplugPlan { names: Vec::new(), lanes: 1 });
        let kinds = "auto".parse::<TunnelKinds>().expect("kinds");
        let decap = Some(DecapPlan { kinds, depth: 1, only: false, switch_time: false });
        let refused = [
            (InputPlan { hotplug, ..xdp() }, "`hotplug`"),
            (InputPlan { spread: Some(Spread::Hash), ..xdp() }, "`spread`"),
            (InputPlan { time_source: TimeSource::Adapter, ..xdp() }, "`time-stamp-type`"),
            (InputPlan { decap, ..xdp() }, "`decap`"),
            (InputPlan { via: Via::Packet, take_from_host: true, ..xdp() }, "`take-from-host`"),
        ];
        for (plan, word) in refused {
            let refused = checked(plan).expect_err(word).to_string();
            assert!(refused.contains(word) && refused.contains("`via` xdp"), "{refused}");
        }
    }

    #[test]
    fn conversations_are_whole_where_they_are_read() {
        let kept = |spread, lanes| {
            let mut plan = InputPlan { spread, ..plan([1, lanes]) };
            plan.keep_together("flow metering").map(|()| plan.spread_rule())
        };
        assert_eq!(kept(None, 2).expect("the default"), Spread::Addresses);
        assert_eq!(kept(Some(Spread::Queue), 1).expect("one lane has all"), Spread::Queue);
        let refused = kept(Some(Spread::Hash), 2).expect_err("parted").to_string();
        assert!(refused.contains("flow metering needs `spread` addresses: with hash"), "{refused}");
    }

    #[test]
    fn stages_with_memory_refuse_lanes_that_part_conversations() {
        let kinds = "auto".parse::<TunnelKinds>().expect("kinds");
        let decap = Some(DecapPlan { kinds, depth: 1, only: false, switch_time: false });
        let checked = |plan: InputPlan| plan.validate().map(|plan| plan.spread_rule());
        assert_eq!(checked(plan([1, 2])).expect("a plan"), Spread::Hash);
        let tunnels = InputPlan { decap, ..plan([1, 2]) };
        assert_eq!(checked(tunnels.clone()).expect("a plan"), Spread::Addresses);
        assert!(checked(InputPlan { spread: Some(Spread::Cpu), ..tunnels }).is_err());
        assert!(checked(InputPlan { prove: true, ..plan([1, 1]) }).is_ok());
        let proven = InputPlan { prove: true, ..plan([1, 2]) };
        assert_eq!(checked(proven.clone()).expect("a plan"), Spread::Addresses);
        let refused = checked(InputPlan { spread: Some(Spread::Hash), ..proven }).expect_err("parted");
        assert!(refused.to_string().contains("the evidence of losses needs `spread` addresses"), "{refused}");
        for lanes in [0, LANES_MAX + 1] {
            assert!(checked(plan([1, lanes])).expect_err("a number").to_string().contains("eth1: `lanes`"));
        }
    }
}
