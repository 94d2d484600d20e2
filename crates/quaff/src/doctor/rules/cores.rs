//! Where interrupts go, and how far cores are from being awake when frames come.

use super::super::readings::{InterfaceReadings, MachineReadings, Readings};
use super::super::words::{bits, cores as list, span};
use super::super::{Change, Diagnosis, Finding, Knob, Severity};
use super::interface::ring_wanted;
use super::{frames_per_second, rate_bps};
use quaff_os::machine::{IdleState, Power};
use quaff_os::topology::{Irq, Sharing, Topology};

/// States from which a core wakes up faster than this are left alone, µs.
const LATENCY_US: u64 = 20;
/// Slower than this is told of also where no ring is known, µs.
const LATENCY_LONG_US: u64 = 200;

/// Whether an interface's interrupts are near it, and away from the core that reads.
pub(super) fn interrupts(it: &InterfaceReadings, machine: &MachineReadings, found: &mut Diagnosis) {
    let name = &it.name;
    let what = format!("interrupts of {name}");
    let Some(topology) = found.read(&what, &machine.topology) else { return };
    let receiving = it.nic.receiving_cores();
    if receiving.is_empty() {
        found.fine(what, "none of its own");
        return;
    }
    let usable = topology.allowed();
    if node(it, topology, &usable, &receiving, machine, found) {
        return;
    }
    let Some(reader) = it.lane_core else {
        found.fine(what, format!("cores {}", list(&receiving)));
        return;
    };
    let is_near = |core: &usize| topology.sharing(*core, reader) <= Sharing::Smt;
    let targets = away_from(topology, &usable, reader, it.nic.node);
    if !receiving.contains(&reader) || targets.is_empty() {
        let near = if receiving.iter().any(is_near) { ", one of them beside the reader" } else { "" };
        found.fine(what, format!("cores {}{near}", list(&receiving)));
        return;
    }
    let irqs: Vec<_> = it.nic.irqs.iter().filter(|irq| irq.cores.contains(&reader)).collect();
    let finding = Finding::new(
        "irq-reader",
        Severity::Warning,
        format!("interrupts of {name} go to core {reader}, where its lane reads"),
        format!(
            "while the core takes frames in, up to {} at a turn, the lane does not read: its ring has to hold what comes",
            machine.budget_frames.as_ref().ok().copied().flatten().unwrap_or(300)
        ),
        fix(&irqs, &targets, machine),
    );
    found.find(finding.mended_by(changes(&irqs, &targets)));
}

/// Whether they go to another NUMA node than the interface's.
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
        found.find(Finding::new(
            "node",
            Severity::Warning,
            format!("{name} is on node {node}, and quaff may run on none of its cores"),
            "each frame crosses from one node's memory to the other's, at half the speed and less".into(),
            format!("taskset -c {} quaff capture -i {name}", list(&all)),
        ));
        return true;
    }
    if receiving.iter().any(is_there) {
        return false;
    }
    let irqs: Vec<_> = it.nic.irqs.iter().filter(|irq| !irq.cores.iter().any(is_there)).collect();
    let finding = Finding::new(
        "irq-node",
        Severity::Warning,
        format!("{name} is on node {node}, and its interrupts go to cores {} of another", list(receiving)),
        "each frame crosses from one node's memory to the other's, at half the speed and less".into(),
        fix(&irqs, &there, machine),
    );
    found.find(finding.mended_by(changes(&irqs, &there)));
    true
}

/// Cores for interrupts: of the interface's node, where there are any, and not of the reader's physical core,
/// where there are others.
fn away_from(topology: &Topology, usable: &[usize], reader: usize, node: Option<usize>) -> Vec<usize> {
    let others: Vec<_> = usable.iter().copied().filter(|core| *core != reader).collect();
    let prefer = |cores: Vec<usize>, keep: &dyn Fn(usize) -> bool| {
        let kept: Vec<_> = cores.iter().copied().filter(|core| keep(*core)).collect();
        if kept.is_empty() { cores } else { kept }
    };
    let others = prefer(others, &|core| topology.sharing(core, reader) > Sharing::Smt);
    prefer(others, &|core| node.is_none() || topology.core(core).is_some_and(|core| core.node == node))
}

fn path(irq: &Irq) -> String {
    format!("/proc/irq/{}/smp_affinity_list", irq.number)
}

fn changes(irqs: &[&Irq], targets: &[usize]) -> Vec<Change> {
    let knob = |irq: &&Irq| Knob::Irq(irq.number, irq.name.clone());
    irqs.iter().map(|irq| Change { knob: knob(irq), to: list(targets) }).collect()
}

fn fix(irqs: &[&Irq], targets: &[usize], machine: &MachineReadings) -> String {
    let targets = list(targets);
    let command = match irqs {
        [irq] => format!("echo {targets} > {}", path(irq)),
        _ => {
            let numbers: Vec<_> = irqs.iter().map(|irq| irq.number.to_string()).collect();
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

/// How far cores are from full speed.
pub(super) fn power(readings: &Readings, found: &mut Diagnosis) {
    governor(&readings.machine.power, found);
    idle(readings, found);
}

fn governor(power: &[Power], found: &mut Diagnosis) {
    let all: Vec<_> = power.iter().filter_map(|core| Some((core.core, core.frequency.as_ref()?))).collect();
    let slow: Vec<_> = all.iter().filter(|(_, it)| it.governor != "performance").collect();
    let [(_, first), ..] = slow[..] else {
        let words =
            if all.is_empty() { "Linux does not choose the speed of cores here" } else { "performance" };
        found.fine("governor", words);
        return;
    };
    let cores: Vec<_> = slow.iter().map(|(core, _)| *core).collect();
    let mhz = |khz: u64| khz / 1000;
    let is_offered = first.governors.is_empty() || first.governors.iter().any(|name| name == "performance");
    let change = |it: &quaff_os::machine::Frequency| Change {
        knob: Knob::File(it.path.clone()),
        to: "performance".into(),
    };
    let finding = Finding::new(
        "governor",
        Severity::Warning,
        format!("the governor of cores {} is {}", list(&cores), first.governor),
        format!(
            "when a burst comes a core may run at {} of {} MHz, and takes some milliseconds to get faster: at 1 \
             million frames a second some thousands wait",
            mhz(first.khz_min),
            mhz(first.khz_max)
        ),
        match is_offered {
            true => "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".into(),
            false => format!(
                "the driver offers {} only; see to the firmware's settings",
                first.governors.join(", ")
            ),
        },
    );
    let changes = if is_offered { slow.iter().map(|(_, it)| change(it)).collect() } else { Vec::new() };
    found.find(finding.mended_by(changes));
}

fn idle(readings: &Readings, found: &mut Diagnosis) {
    let states = |core: &'_ Power| core.idle.clone();
    let deep: Vec<IdleState> = readings
        .machine
        .power
        .iter()
        .flat_map(states)
        .filter(|state| state.is_enabled && state.latency_us > LATENCY_US)
        .collect();
    let Some(deepest) = deep.iter().max_by_key(|state| state.latency_us) else {
        found.fine("idle states", format!("a core wakes up within {LATENCY_US} µs"));
        return;
    };
    let seconds = deepest.latency_us as f64 / 1e6;
    let waiting = readings.interfaces.iter().filter_map(|it| {
        let rate = rate_bps(it, readings)?;
        let ring = it.ring.as_ref().ok().copied().flatten()?;
        Some((frames_per_second(rate) * seconds, ring_wanted(ring, Some(rate)), rate, &it.name))
    });
    let full = waiting.filter(|(frames, ring, ..)| *frames > f64::from(*ring) / 2.0);
    let worst = full.max_by(|one, other| one.0.total_cmp(&other.0));
    let (severity, why) = match worst {
        Some((frames, ring, rate, name)) => (
            Severity::Warning,
            format!(
                "at {} {frames:.0} frames arrive until it is awake, and the ring of {name} holds {ring}",
                bits(rate)
            ),
        ),
        None if deepest.latency_us > LATENCY_LONG_US => (
            Severity::Note,
            format!(
                "at 1 million frames a second {} wait for it, and their times are late",
                deepest.latency_us
            ),
        ),
        None => {
            found.fine("idle states", format!("a core wakes up within {}", span(seconds)));
            return;
        }
    };
    let finding = Finding::new(
        "idle",
        severity,
        format!("a core takes {} to wake up from {}", span(seconds), deepest.name),
        why,
        format!("cpupower idle-set -D {LATENCY_US}"),
    );
    let change = |state: &IdleState| Change { knob: Knob::File(state.path.clone()), to: "1".into() };
    found.find(finding.mended_by(deep.iter().map(change).collect()));
}
