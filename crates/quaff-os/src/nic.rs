//! The NUMA node and the interrupts of an interface, and the cores that take its frames.
//!
//! Files are read below a given root, so that tests can provide any machine. It never changes one.

use crate::cpu::{mask, read_list};
use crate::rtnl::Link;
use std::collections::BTreeSet;
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
    read("effective_affinity_list").or_else(|| read("smp_affinity_list")).unwrap_or_default()
}

/// Kinds of interfaces that pass frames up on the core that received them below.
const PASSING: [&str; 4] = ["bond", "bridge", "team", "vlan"];

/// The cores whose network softirq receives frames of `links`, an interface and those below it: the cores of their
/// interrupts, and those that RPS passes frames to. `None` if any core may be one, as for virtual interfaces, which
/// receive on the core of the sender.
pub(crate) fn serving_cores<'a>(
    root: &Path,
    links: impl IntoIterator<Item = &'a Link>,
) -> Option<BTreeSet<usize>> {
    links.into_iter().map(|link| cores_of_link(root, link)).try_fold(BTreeSet::new(), |mut all, cores| {
        all.extend(cores?);
        Some(all)
    })
}

fn cores_of_link(root: &Path, link: &Link) -> Option<BTreeSet<usize>> {
    let dir = root.join("sys/class/net").join(&link.name);
    // /sys shows the network namespace in which it was mounted.
    let mac = link.mac.map(|byte| format!("{byte:02x}")).join(":");
    let is_same = number(&dir.join("ifindex")) == Some(link.index as usize)
        && fs::read_to_string(dir.join("address")).is_ok_and(|text| text.trim() == mac);
    if !is_same {
        return None;
    }
    let mut cores = rps_cores(&dir)?;
    if !PASSING.contains(&link.kind.as_str()) {
        // A thread receives instead of the softirq (Documentation/networking/napi.rst).
        let is_threaded = number(&dir.join("threaded")).is_some_and(|threaded| threaded > 0);
        let receiving = Nic::read(root, &link.name).receiving_cores();
        if is_threaded || receiving.is_empty() || !dir.join("device").exists() {
            return None;
        }
        cores.extend(receiving);
    }
    Some(cores)
}

/// The cores of RPS; `None` with RFS, which chooses the core of the program that receives
/// (Documentation/networking/scaling.rst).
fn rps_cores(dir: &Path) -> Option<BTreeSet<usize>> {
    let mut cores = BTreeSet::new();
    for queue in fs::read_dir(dir.join("queues")).ok()?.flatten().map(|entry| entry.path()) {
        if number(&queue.join("rps_flow_cnt")).is_some_and(|flows| flows > 0) {
            return None;
        }
        cores.extend(mask(&fs::read_to_string(queue.join("rps_cpus")).unwrap_or_default()));
    }
    Some(cores)
}

/// The number in a file; `None` also for a negative one.
fn number(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A machine whose eth0 has two queues with an interrupt each, on cores 2 and 3.
    fn machine() -> (TempDir, Link) {
        let root = TempDir::new().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("sys/class/net/eth0/ifindex", "7\n");
        put("sys/class/net/eth0/address", "02:00:00:00:00:0a\n");
        put(
            "proc/interrupts",
            "      CPU0\n 30:  1  PCI-MSIX  eth0-TxRx-0\n 31:  1  PCI-MSIX  eth0-TxRx-1\n",
        );
        for (queue, irq) in [(0, 30), (1, 31)] {
            put(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
            put(&format!("proc/irq/{irq}/effective_affinity_list"), &(queue + 2).to_string());
            put(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), "00000000,00000000\n");
            put(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt"), "0\n");
        }
        (root, link("eth0", 7, ""))
    }

    fn link(name: &str, index: u32, kind: &str) -> Link {
        Link {
            index,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, 10],
            mtu: 1500,
            arphrd: 1,
            up: true,
            running: true,
            promiscuous: false,
            arp: true,
            kind: kind.into(),
            master: None,
            lower: None,
            xdp_program: None,
        }
    }

    #[test]
    fn interrupts_and_rps_name_the_cores() {
        let (root, eth0) = machine();
        let cores = |root: &TempDir| serving_cores(root.path(), [&eth0]);
        assert_eq!(cores(&root), Some([2, 3].into()));
        let queue = root.path().join("sys/class/net/eth0/queues/rx-1");
        fs::write(queue.join("rps_cpus"), "00000001,80000010\n").expect("written");
        assert_eq!(cores(&root), Some([2, 3, 4, 31, 32].into()));
        fs::write(queue.join("rps_flow_cnt"), "4096\n").expect("written");
        assert_eq!(cores(&root), None, "RFS");
    }

    #[test]
    fn cores_of_interfaces_that_are_not_known_are_any() {
        let (root, eth0) = machine();
        // The sysfs of another network namespace.
        let other = Link { index: 8, ..eth0.clone() };
        assert_eq!(serving_cores(root.path(), [&other]), None);
        assert_eq!(serving_cores(root.path(), [&eth0, &link("veth0", 9, "veth")]), None);
        // A VLAN passes frames up where its card received them.
        let vlan = root.path().join("sys/class/net/vlan5");
        fs::create_dir_all(vlan.join("queues/rx-0")).expect("made");
        fs::write(vlan.join("ifindex"), "9").expect("written");
        fs::write(vlan.join("address"), "02:00:00:00:00:0a").expect("written");
        fs::write(vlan.join("queues/rx-0/rps_cpus"), "0").expect("written");
        assert_eq!(serving_cores(root.path(), [&link("vlan5", 9, "vlan"), &eth0]), Some([2, 3].into()));
        fs::write(root.path().join("sys/class/net/eth0/threaded"), "1").expect("written");
        assert_eq!(serving_cores(root.path(), [&eth0]), None, "threaded NAPI");
    }
}
