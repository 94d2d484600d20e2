//! The NUMA node and the interrupts of an interface, and the cores that take them.

use super::topology::{list, number, read_list};
use std::fs;
use std::path::Path;

/// An interrupt of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irq {
    /// The number in /proc/interrupts.
    pub number: usize,
    /// The driver's name for it, such as `eth0-TxRx-3`.
    pub name: String,
    /// The effective affinity, or the permitted one where the kernel does not report it.
    pub cores: Vec<usize>,
}

/// The hardware location of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    pub name: String,
    /// `None` where the machine has one node, or the firmware reports none.
    pub node: Option<usize>,
    /// Empty for a virtual interface.
    pub irqs: Vec<Irq>,
}

impl Nic {
    /// Reads the interface `name` below `root`; an unknown one has no node and no interrupts.
    pub fn read(root: &Path, name: &str) -> Self {
        let device = root.join("sys/class/net").join(name).join("device");
        // The interrupts of a virtio device belong to its parent PCI device.
        let parent = device.join("..");
        let dirs = [&device, &parent];
        let node = dirs.iter().find_map(|dir| number(&dir.join("numa_node")));
        let interrupts = fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default();
        let mut numbers: Vec<usize> =
            dirs.iter().map(|dir| msi(dir)).find(|irqs| !irqs.is_empty()).unwrap_or_default();
        if numbers.is_empty() {
            let bus_name = fs::canonicalize(&device).ok();
            let bus_name = bus_name.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
            numbers = named(&interrupts, name, bus_name);
        }
        numbers.sort_unstable();
        let irq = |number| Irq {
            number,
            name: name_of(&interrupts, number).unwrap_or_default().to_owned(),
            cores: cores_of(root, number),
        };
        Self { name: name.to_owned(), node, irqs: numbers.into_iter().map(irq).collect() }
    }

    /// The cores that take receive interrupts: those of all interrupts except the ones named for transmission or
    /// configuration only.
    pub fn receiving_cores(&self) -> Vec<usize> {
        let receives = |irq: &&Irq| {
            let name = irq.name.to_ascii_lowercase();
            let is_other =
                ["config", "output", "-tx-", "async", "cmd", "mgmnt"].iter().any(|part| name.contains(part));
            !is_other || name.contains("txrx")
        };
        let mut cores: Vec<_> = self.irqs.iter().filter(receives).flat_map(|irq| irq.cores.clone()).collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

fn msi(dir: &Path) -> Vec<usize> {
    let Ok(entries) = fs::read_dir(dir.join("msi_irqs")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The number and the name (last word) of each line of /proc/interrupts.
fn lines(interrupts: &str) -> impl Iterator<Item = (usize, &str)> {
    interrupts.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        Some((number.trim().parse().ok()?, rest.split_whitespace().last()?))
    })
}

fn name_of(interrupts: &str, number: usize) -> Option<&str> {
    lines(interrupts).find(|line| line.0 == number).map(|line| line.1)
}

/// Interrupts whose name begins with the interface, or with its bus device.
fn named(interrupts: &str, interface: &str, device: Option<&str>) -> Vec<usize> {
    let is_of = |name: &str, of: &str| {
        name.strip_prefix(of).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let ours = |name: &str| is_of(name, interface) || device.is_some_and(|device| is_of(name, device));
    lines(interrupts).filter(|line| ours(line.1)).map(|line| line.0).collect()
}

fn cores_of(root: &Path, number: usize) -> Vec<usize> {
    let dir = root.join("proc/irq").join(number.to_string());
    let read = |name: &str| read_list(&dir.join(name)).filter(|cores| !cores.is_empty());
    read("effective_affinity_list").or_else(|| read("smp_affinity_list")).unwrap_or_else(|| list(""))
}
