//! An interface's place on the machine: its NUMA node, its interrupts, and the cores that they go to.

use super::{list, number, read_list};
use std::fs;
use std::path::Path;

/// An interrupt of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irq {
    /// Its number in /proc/interrupts.
    pub number: usize,
    /// What its driver calls it: `eth0-TxRx-3`.
    pub name: String,
    /// The cores that it goes to; those that it may go to where the kernel does not say.
    pub cores: Vec<usize>,
}

/// An interface, as the cores see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its NUMA node; `None` where there is one only, or none has been told.
    pub node: Option<usize>,
    /// Its interrupts; none for one that is no hardware.
    pub irqs: Vec<Irq>,
}

impl Nic {
    /// What `root` shows of the interface `name`; one that is not there has no node and no interrupts.
    pub fn read(root: &Path, name: &str) -> Self {
        let device = root.join("sys/class/net").join(name).join("device");
        // A virtio device has its interrupts from the PCI device above it.
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

    /// The cores that frames arrive at, as far as it is told: those of interrupts that are not for
    /// sending or for configuration only.
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

/// The lines of /proc/interrupts: number, and the name at the end.
fn lines(interrupts: &str) -> impl Iterator<Item = (usize, &str)> {
    interrupts.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        Some((number.trim().parse().ok()?, rest.split_whitespace().last()?))
    })
}

fn name_of(interrupts: &str, number: usize) -> Option<&str> {
    lines(interrupts).find(|line| line.0 == number).map(|line| line.1)
}

/// Interrupts that are named after the interface, or after its device on the bus.
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
