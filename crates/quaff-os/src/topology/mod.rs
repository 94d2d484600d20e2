//! Which cores there are, what they share, and where an interface's interrupts go, as sysfs and procfs
//! tell (Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/admin-guide/cputopology.rst).
//!
//! All of it is read below a root, so that a test can show it any machine.

mod advice;
mod nic;

pub use advice::{Advice, advise};
pub use nic::{Irq, Nic};

use crate::{Result, Try, cpu};
use std::fs;
use std::path::Path;

/// A logical core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub id: usize,
    /// Logical cores of the same physical core, this one among them, in order.
    pub siblings: Vec<usize>,
    /// Cores that share its L2 cache, this one among them.
    pub l2: Vec<usize>,
    /// Cores that share its L3 cache, this one among them; its package's where it has none.
    pub l3: Vec<usize>,
    /// Its NUMA node, where there are any.
    pub node: Option<usize>,
    /// Whether this process may run on it.
    pub is_allowed: bool,
}

/// All cores on line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// By number.
    pub cores: Vec<Core>,
}

/// The nearest thing that two cores share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// They are one and the same.
    Same,
    /// The physical core: they take turns on it.
    Smt,
    /// The L2 cache.
    L2,
    /// The L3 cache.
    L3,
    /// The NUMA node.
    Node,
    /// Nothing but the machine.
    Machine,
}

impl Shared {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Smt => "SMT",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Node => "node",
            Self::Machine => "machine",
        }
    }
}

impl Topology {
    /// That of this machine.
    pub fn here() -> Result<Self> {
        Self::read(Path::new("/"), &cpu::allowed()?)
    }

    /// What `root` shows, for a process that may run on the cores `allowed`.
    ///
    /// # Errors
    /// There is no `sys/devices/system/cpu/online`. What else is missing is taken not to be there.
    pub fn read(root: &Path, allowed: &[usize]) -> Result<Self> {
        let dir = root.join("sys/devices/system/cpu");
        let online = dir.join("online");
        let online = fs::read_to_string(&online).trying(|| format!("read {}", online.display()))?;
        let online = list(&online);
        let cores = online.iter().map(|id| core(&dir, *id, &online, allowed.contains(id))).collect();
        Ok(Self { cores })
    }

    /// A core by its number.
    pub fn core(&self, id: usize) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// The numbers of those that this process may run on.
    pub fn allowed(&self) -> Vec<usize> {
        self.cores.iter().filter(|core| core.is_allowed).map(|core| core.id).collect()
    }

    /// The nearest thing that two cores share.
    pub fn shared(&self, one: usize, other: usize) -> Shared {
        let (Some(a), Some(b)) = (self.core(one), self.core(other)) else { return Shared::Machine };
        match () {
            () if one == other => Shared::Same,
            () if a.siblings.contains(&other) => Shared::Smt,
            () if a.l2.contains(&other) => Shared::L2,
            () if a.l3.contains(&other) => Shared::L3,
            () if a.node == b.node => Shared::Node,
            () => Shared::Machine,
        }
    }
}

fn core(dir: &Path, id: usize, online: &[usize], is_allowed: bool) -> Core {
    let dir = dir.join(format!("cpu{id}"));
    let read = |name: &str| read_list(&dir.join(name)).filter(|cores| cores.contains(&id));
    let either = |new: &str, old: &str| read(new).or_else(|| read(old));
    let siblings = either("topology/core_cpus_list", "topology/thread_siblings_list").unwrap_or(vec![id]);
    let package = either("topology/package_cpus_list", "topology/core_siblings_list");
    let l2 = cache(&dir, 2).filter(|cores| cores.contains(&id)).unwrap_or_else(|| siblings.clone());
    let l3 = cache(&dir, 3).filter(|cores| cores.contains(&id)).or(package);
    Core { id, siblings, l2, l3: l3.unwrap_or_else(|| online.to_vec()), node: node(&dir), is_allowed }
}

/// The cores that share a core's cache of that level.
fn cache(core: &Path, level: usize) -> Option<Vec<usize>> {
    let caches = fs::read_dir(core.join("cache")).ok()?;
    caches.flatten().map(|cache| cache.path()).find_map(|cache| {
        let is_level = number(&cache.join("level")) == Some(level);
        let is_for_code =
            fs::read_to_string(cache.join("type")).is_ok_and(|kind| kind.trim() == "Instruction");
        (is_level && !is_for_code).then(|| read_list(&cache.join("shared_cpu_list"))).flatten()
    })
}

/// A core's directory holds a link `nodeN` to its node.
fn node(core: &Path) -> Option<usize> {
    let names = fs::read_dir(core).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).next()
}

/// A file that holds one number; `None` also for a negative one.
fn number(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read_list(path: &Path) -> Option<Vec<usize>> {
    fs::read_to_string(path).ok().map(|text| list(&text))
}

/// The kernel's lists of numbers: `0-3,8`. What is no number is left out.
fn list(text: &str) -> Vec<usize> {
    /// More cores than any machine has: a damaged list does not become endless.
    const MOST: usize = 1 << 14;
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            numbers.extend(first..=last.min(MOST));
        }
    }
    numbers
}

#[cfg(test)]
mod tests;
