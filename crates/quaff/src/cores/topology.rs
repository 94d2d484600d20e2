//! CPU topology, from /sys (Documentation/ABI/stable/sysfs-devices-system-cpu,
//! Documentation/admin-guide/cputopology.rst).
//!
//! Files are read below a given root, so that tests can provide any machine.

use quaff_os::cpu::{self, list, read_list};
use quaff_os::{Result, Try};
use std::path::Path;
use std::{fmt, fs};

/// A logical core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    pub id: usize,
    /// Logical cores of the same physical core, including this one, ascending.
    pub siblings: Vec<usize>,
    /// Cores that share its L2 cache, including this one.
    pub l2: Vec<usize>,
    /// Cores that share its L3 cache, including this one; those of its package where it has none.
    pub l3: Vec<usize>,
    /// The NUMA node, if the machine has any.
    pub node: Option<usize>,
    /// This process may run on it.
    pub is_allowed: bool,
}

/// All online cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Ascending by number.
    pub cores: Vec<Core>,
}

/// The closest resource that two cores share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// Both are the same core.
    Same,
    /// The physical core (SMT siblings).
    Smt,
    L2,
    L3,
    Node,
    /// Only the machine.
    Machine,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Smt => "SMT",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Node => "node",
            Self::Machine => "machine",
        })
    }
}

impl Topology {
    /// Reads the topology of this machine.
    pub fn here() -> Result<Self> {
        Self::read(Path::new("/"), &cpu::allowed()?)
    }

    /// Reads the topology below `root`, for a process that may run on the cores `allowed`.
    ///
    /// # Errors
    /// When `sys/devices/system/cpu/online` cannot be read. Other missing files count as absent hardware.
    pub(crate) fn read(root: &Path, allowed: &[usize]) -> Result<Self> {
        let dir = root.join("sys/devices/system/cpu");
        let online = dir.join("online");
        let online = fs::read_to_string(&online).trying(|| format!("read {}", online.display()))?;
        let online = list(&online);
        let cores = online.iter().map(|id| core(&dir, *id, &online, allowed.contains(id))).collect();
        Ok(Self { cores })
    }

    /// The core with that number.
    pub(crate) fn core(&self, id: usize) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// The numbers of the cores that this process may run on.
    pub fn allowed(&self) -> Vec<usize> {
        self.cores.iter().filter(|core| core.is_allowed).map(|core| core.id).collect()
    }

    /// The NUMA node of a core; `None` if all cores have the same one.
    pub(crate) fn local_node(&self, id: usize) -> Option<usize> {
        let node = self.core(id)?.node?;
        self.cores.iter().any(|other| other.node.is_some_and(|of| of != node)).then_some(node)
    }

    /// The closest resource that two cores share.
    pub fn sharing(&self, one: usize, other: usize) -> Sharing {
        let (Some(a), Some(b)) = (self.core(one), self.core(other)) else { return Sharing::Machine };
        match () {
            () if one == other => Sharing::Same,
            () if a.siblings.contains(&other) => Sharing::Smt,
            () if a.l2.contains(&other) => Sharing::L2,
            () if a.l3.contains(&other) => Sharing::L3,
            () if a.node == b.node => Sharing::Node,
            () => Sharing::Machine,
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

/// The cores that share a core's cache of that level, instruction caches excluded.
fn cache(core: &Path, level: usize) -> Option<Vec<usize>> {
    let caches = fs::read_dir(core.join("cache")).ok()?;
    caches.flatten().map(|cache| cache.path()).find_map(|cache| {
        let is_level = number(&cache.join("level")) == Some(level);
        let is_for_code =
            fs::read_to_string(cache.join("type")).is_ok_and(|kind| kind.trim() == "Instruction");
        (is_level && !is_for_code).then(|| read_list(&cache.join("shared_cpu_list"))).flatten()
    })
}

/// The node of a core, from the link `nodeN` in its directory.
fn node(core: &Path) -> Option<usize> {
    let names = fs::read_dir(core).ok()?.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.strip_prefix("node")?.parse().ok()).next()
}

/// The number in a file; `None` also for a negative one.
fn number(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
