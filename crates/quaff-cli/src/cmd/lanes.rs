//! The lanes of interfaces as arguments, alike for all commands that read interfaces, and as lines of a dry run.

use crate::show;
use crate::units::{Choice, choice};
use quaff::DryRun;
use quaff::plan::{InputPlan, InterfacePlan, LANES_MAX, Spread, lanes_of};
use quaff_os::cpu;
use std::str::FromStr;

/// The rules, and what they are for.
const SPREADS: [Choice<Spread>; 4] = [
    ("hash", Spread::Hash, "addresses and ports; fragments may go to another lane"),
    ("queue", Spread::Queue, "the adapter's receive queue"),
    ("cpu", Spread::Cpu, "the core that receives the packet"),
    ("addresses", Spread::Addresses, "IP addresses: fragments, and both directions, in one lane"),
];

/// The lanes of each interface.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SpreadArgs {
    /// Lanes of each interface, each with a ring and a thread; 'auto' is one for each receive queue, but no more than
    /// there are cores [default: 1]
    ///
    /// The kernel deals the packets of the interface to them. All lanes begin and end together, and the file has one
    /// interface.
    #[arg(long, value_name = "N|auto", conflicts_with = "read", help_heading = "Performance")]
    lanes: Option<Lanes>,
    /// Rule by which packets are dealt to the lanes of an interface [default: hash; addresses where fragments and both
    /// directions of a conversation have to be in one lane, as for flows, scripts, evidence of losses, a split and
    /// --decap]
    #[arg(long, value_name = "RULE", value_parser = choice(SPREADS), requires = "lanes", help_heading = "Performance")]
    spread: Option<Spread>,
}

/// The value of `--lanes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lanes {
    Auto,
    Number(usize),
}

impl FromStr for Lanes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let number = text.parse().ok().filter(|lanes| (1..=LANES_MAX).contains(lanes));
        number.map(Self::Number).ok_or_else(|| format!("expected 1 to {LANES_MAX}, or 'auto'"))
    }
}

impl SpreadArgs {
    pub(super) fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// The number of lanes of each interface.
    pub(super) fn counts(&self, names: &[String]) -> Vec<usize> {
        let count = |name: &String| match self.lanes {
            None => 1,
            Some(Lanes::Number(lanes)) => lanes,
            Some(Lanes::Auto) => lanes_of(name, cpu::allowed().map_or(1, |cores| cores.len())),
        };
        names.iter().map(count).collect()
    }
}

/// Interfaces with their numbers of lanes, which get cores in their order, the further ones the last core.
pub(super) fn interfaces(names: Vec<String>, lanes: &[usize], cores: &[usize]) -> Vec<InterfacePlan> {
    let mut next =
        cores.iter().map(Some).chain(std::iter::repeat(cores.last())).map(Option::<&usize>::copied);
    let interface = |(name, lanes): (String, &usize)| {
        let cpus = next.by_ref().take(*lanes).collect();
        InterfacePlan { name, cpus }
    };
    names.into_iter().zip(lanes).map(interface).collect()
}

/// The lines of a dry run about lanes: one for all, and details of interfaces that have several.
pub(super) fn explain(plan: &InputPlan, found: &DryRun) -> Vec<String> {
    let core = |cpu: Option<usize>| cpu.map_or(String::new(), |core| format!(" on core {core}"));
    let names = plan.lane_names().into_iter().zip(plan.interfaces.iter().flat_map(|of| of.cpus.clone()));
    let names: Vec<_> = names.map(|(name, cpu)| name + &core(cpu)).collect();
    let mut lines = vec![format!("lanes      {}", show::name(&names.join(", ")))];
    for interface in found.interfaces.iter().filter(|interface| interface.lanes.len() > 1) {
        let node = |node: Option<usize>| node.map_or(String::new(), |node| format!(" on node {node}"));
        let name = show::name(&interface.name);
        lines.push(format!("  {name}{} is spread by {}", node(interface.node), plan.spread_rule()));
        for (number, lane) in interface.lanes.iter().enumerate() {
            let at = format!("{}{}", core(lane.cpu), node(lane.node));
            let at = if at.is_empty() { " on any core".into() } else { at };
            lines.push(format!("  lane {number}{at}: {}", show::name(&lane.receives)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_get_cores_in_their_order() {
        let plans = |lanes: &[usize], cores: &[usize]| {
            let names = ["eth0", "eth1"].map(str::to_owned).to_vec();
            interfaces(names, lanes, cores).into_iter().map(|of| of.cpus).collect::<Vec<_>>()
        };
        assert_eq!(plans(&[2, 1], &[4, 5]), [vec![Some(4), Some(5)], vec![Some(5)]]);
        assert_eq!(plans(&[1, 2], &[]), [vec![None], vec![None, None]]);
        assert_eq!(plans(&[1, 1], &[7]), [vec![Some(7)], vec![Some(7)]]);
    }

    #[test]
    fn a_number_of_lanes_is_read() {
        assert_eq!(("auto".parse(), "4".parse()), (Ok(Lanes::Auto), Ok(Lanes::Number(4))));
        for wrong in ["0", "65", "many", "-1"] {
            assert!(wrong.parse::<Lanes>().is_err_and(|error| error.contains("'auto'")), "{wrong}");
        }
    }
}
