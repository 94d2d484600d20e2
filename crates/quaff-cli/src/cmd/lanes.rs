//! The lanes of interfaces as lines of a dry run.

use crate::show;
use quaff::DryRun;
use quaff::plan::InputPlan;

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
