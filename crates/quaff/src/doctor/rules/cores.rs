//! The cores of interrupts, and the time that cores need to reach full speed.

use super::super::format::{bits, cores as list, span};
use super::super::machine::{Frequency, IdleState, Power};
use super::super::readings::{InterfaceReadings, MachineReadings, Readings};
use super::interface::ring_wanted;
use super::rate::{frames_per_second, rate_bps};
use super::{Change, Diagnosis, Setting, Severity, known};
use crate::cores::{Irq, Sharing, Topology};
use crate::source::literal;
use quaff_wire::printable::interface_flag;

/// Wake-up latency of idle states that are acceptable, µs.
const LATENCY_US: u64 = 20;
/// Wake-up latency that is reported even if no ring is known, µs.
const LATENCY_LONG_US: u64 = 200;
/// Effect of a NUMA node boundary.
const CROSSING: &str = "each frame crosses to the memory of another node, at half the speed or less";

/// Checks that an interface's interrupts are on its node, and not on the core of its lane.
pub(super) fn interrupts(it: &InterfaceReadings, machine: &MachineReadings, found: &mut Diagnosis) {
    let (name, what) = (&it.name, format!("interrupts of {}", it.name));
    let Some(topology) = found.read(&what, &machine.topology) else { return };
    let receiving = it.nic.receiving_cores();
    if receiving.is_empty() {
        return found.fine(what, "none of its own");
    }
    let usable = topology.allowed();
    if node(it, &topology, &usable, &receiving, machine, found) {
        return;
    }
    let shown = list(&receiving);
    let Some(reader) = it.lane_core else { return found.fine(what, format!("cores {shown}")) };
    let targets = away_from(&topology, &usable, reader, it.nic.node);
    if !receiving.contains(&reader) || targets.is_empty() {
        let is_near = |core: &usize| topology.sharing(*core, reader) <= Sharing::Smt;
        let near = if receiving.iter().any(is_near) { ", one of them beside the lane's" } else { "" };
        return found.fine(what, format!("cores {shown}{near}"));
    }
    let irqs: Vec<_> = it.nic.irqs.iter().filter(|irq| irq.cores.contains(&reader)).collect();
    let finding = found.find(
        "irq-reader",
        Severity::Warning,
        format!("interrupts of {name} go to core {reader}, the core of its lane"),
        format!(
            "while the core receives frames, up to {} at a time, the lane does not read, and its ring fills",
            known(&machine.budget_frames).unwrap_or(300)
        ),
        fix(&irqs, &targets, machine),
    );
    finding.fixed_by(changes(&irqs, &targets));
}

/// Returns whether the interrupts, or all usable cores, are on another NUMA node than the interface.
fn node(
    it: &InterfaceReadings,
    topology: &Topology,
    usable: &[usize],
    receiving: &[usize],
    machine: &MachineReadings,
    found: &mut Diagnosis,
) -> bool {
    let (name, Some(node)) = (&it.name, it.nic.node) else { return false };
    let is_there = |core: &usize| topology.core(*core).is_some_and(|core| core.node == Some(node));
    let there: Vec<_> = usable.iter().copied().filter(is_there).collect();
    if there.is_empty() {
        let all: Vec<_> = topology.cores.iter().map(|core| core.id).filter(is_there).collect();
        if all.is_empty() {
            return false;
        }
        let what = format!("{name} is on node {node}, and quaff may use none of its cores");
        let fix = format!("taskset -c {} quaff capture {}", list(&all), interface_flag(&literal(name)));
        found.find("node", Severity::Warning, what, CROSSING, fix);
        return true;
    }
    if receiving.iter().any(is_there) {
        return false;
    }
    let irqs: Vec<_> = it.nic.irqs.iter().filter(|irq| !irq.cores.iter().any(is_there)).collect();
    let what =
        format!("{name} is on node {node}, and its interrupts go to cores {} of another", list(receiving));
    let finding = found.find("irq-node", Severity::Warning, what, CROSSING, fix(&irqs, &there, machine));
    finding.fixed_by(changes(&irqs, &there));
    true
}

/// Cores for interrupts: preferably of the interface's node, and not of the reader's physical core.
fn away_from(topology: &Topology, usable: &[usize], reader: usize, node: Option<usize>) -> Vec<usize> {
    let others: Vec<_> = usable.iter().copied().filter(|core| *core != reader).collect();
    let prefer = |cores: Vec<usize>, keep: &dyn Fn(usize) -> bool| {
        let kept: Vec<_> = cores.iter().copied().filter(|core| keep(*core)).collect();
        if kept.is_empty() { cores } else { kept }
    };
    let others = prefer(others, &|core| topology.sharing(core, reader) > Sharing::Smt);
    prefer(others, &|core| node.is_none() || topology.core(core).is_some_and(|core| core.node == node))
}

fn changes(irqs: &[&Irq], targets: &[usize]) -> Vec<Change> {
    let change =
        |irq: &&Irq| Change { setting: Setting::Irq(irq.number, irq.name.clone()), to: list(targets) };
    irqs.iter().map(change).collect()
}

fn fix(irqs: &[&Irq], targets: &[usize], machine: &MachineReadings) -> String {
    let numbers: Vec<_> = irqs.iter().map(|irq| irq.number.to_string()).collect();
    let targets = list(targets);
    let command = match &numbers[..] {
        [number] => format!("echo {targets} > /proc/irq/{number}/smp_affinity_list"),
        _ => {
            format!(
                "for i in {}; do echo {targets} > /proc/irq/$i/smp_affinity_list; done",
                numbers.join(" ")
            )
        }
    };
    match machine.irqbalance {
        Some(pid) => {
            format!("systemctl stop irqbalance; {command}   # irqbalance ({pid}) would move them again")
        }
        None => command,
    }
}

/// Checks frequency governors and idle states.
pub(super) fn power(readings: &Readings, found: &mut Diagnosis) {
    governor(&readings.machine.power, found);
    idle(readings, found);
}

fn governor(power: &[Power], found: &mut Diagnosis) {
    let all: Vec<_> = power.iter().filter_map(|core| Some((core.core, core.frequency.as_ref()?))).collect();
    let (cores, slow): (Vec<_>, Vec<&Frequency>) =
        all.iter().copied().filter(|(_, it)| it.governor != "performance").unzip();
    let [first, ..] = slow[..] else {
        let value =
            if all.is_empty() { "Linux does not control the frequency of the cores" } else { "performance" };
        return found.fine("governor", value);
    };
    let is_offered = first.governors.is_empty() || first.governors.iter().any(|name| name == "performance");
    let change =
        |it: &&Frequency| Change { setting: Setting::File(it.path.clone()), to: "performance".into() };
    let (fix, changes) = match is_offered {
        true => (
            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".into(),
            slow.iter().map(change).collect(),
        ),
        false => (
            format!("the driver only offers {}; see the firmware's settings", first.governors.join(", ")),
            Vec::new(),
        ),
    };
    let finding = found.find(
        "governor",
        Severity::Warning,
        format!("the governor of cores {} is {}", list(&cores), first.governor),
        format!(
            "at the start of a burst a core may run at {} of {} MHz and need milliseconds to speed up: at 1 million \
             frames/s thousands wait",
            first.khz_min / 1000,
            first.khz_max / 1000
        ),
        fix,
    );
    finding.fixed_by(changes);
}

fn idle(readings: &Readings, found: &mut Diagnosis) {
    let states = readings.machine.power.iter().flat_map(|core| &core.idle);
    let deep: Vec<_> = states.filter(|state| state.is_enabled && state.latency_us > LATENCY_US).collect();
    let Some(deepest) = deep.iter().max_by_key(|state| state.latency_us) else {
        return found.fine("idle states", format!("a core wakes up within {LATENCY_US} µs"));
    };
    let seconds = deepest.latency_us as f64 / 1e6;
    let waiting = readings.interfaces.iter().filter_map(|it| {
        let (rate, ring) = (rate_bps(it, readings)?, known(&it.ring)?);
        Some((frames_per_second(rate) * seconds, ring_wanted(ring, Some(rate)), rate, &it.name))
    });
    let full = waiting.filter(|(frames, ring, ..)| *frames > f64::from(*ring) / 2.0);
    let (severity, why) = match full.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((frames, ring, rate, name)) => (
            Severity::Warning,
            format!(
                "at {} {frames:.0} frames arrive until it is awake; the ring of {name} holds {ring}",
                bits(rate)
            ),
        ),
        None if deepest.latency_us > LATENCY_LONG_US => {
            let us = deepest.latency_us;
            (Severity::Note, format!("at 1 million frames/s {us} wait for it, with late time stamps"))
        }
        None => return found.fine("idle states", format!("a core wakes up within {}", span(seconds))),
    };
    let what = format!("a core takes {} to wake up from {}", span(seconds), deepest.name);
    let change = |state: &&IdleState| Change { setting: Setting::File(state.path.clone()), to: "1".into() };
    let finding = found.find("idle", severity, what, why, format!("cpupower idle-set -D {LATENCY_US}"));
    finding.fixed_by(deep.iter().map(change).collect());
}
