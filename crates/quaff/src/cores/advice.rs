//! The advice on cores: assigns them to readers, writer and interrupts, from the caches and nodes that cores share.
//! Reads and measures nothing.
//!
//! The reader must never wait: it gets a physical core without interrupts, and not the first one, which does
//! the kernel's housekeeping. Interrupts go to a core that shares a cache with the reader, because they bring
//! its data. The writer shares a cache with the reader too; if cores are scarce it shares a core with the
//! interrupts rather than with the reader.

use super::{Nic, Sharing, Topology};
use std::cmp::Reverse;

/// The assignment of cores, with reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// One core for each lane.
    pub readers: Vec<usize>,
    pub writer: usize,
    pub interrupts: usize,
    pub reader_reason: String,
    pub writer_reason: String,
    pub interrupts_reason: String,
}

/// The cores to choose from.
struct Choice<'a> {
    topology: &'a Topology,
    usable: Vec<usize>,
    /// The preferred NUMA node.
    node: Option<usize>,
    /// Cores that take receive interrupts now.
    receiving: Vec<usize>,
}

/// Assigns `lanes` readers, a writer and the interrupts to the cores that this process may use; `None` when
/// there are none.
pub fn advise(topology: &Topology, nic: Option<&Nic>, lanes: usize) -> Option<Advice> {
    let usable = topology.allowed();
    let mut receiving = nic.map(Nic::receiving_cores).unwrap_or_default();
    if usable.iter().all(|core| receiving.contains(core)) {
        // Interrupts on every core distinguish none.
        receiving.clear();
    }
    let choice = Choice { topology, node: node(topology, &usable, nic), usable, receiving };
    let mut readers = Vec::new();
    for _ in 0..lanes.max(1) {
        readers.push(choice.reader(&readers)?);
    }
    let interrupts = choice.interrupts(&readers)?;
    let writer = choice.writer(&readers, interrupts)?;
    Some(Advice {
        reader_reason: choice.reader_reason(readers[0], nic),
        writer_reason: choice.writer_reason(readers[0], writer, interrupts),
        interrupts_reason: choice.interrupts_reason(readers[0], interrupts, nic),
        readers,
        writer,
        interrupts,
    })
}

/// The interface's node if this process may use a core of it, else the node with the most usable cores.
fn node(topology: &Topology, usable: &[usize], nic: Option<&Nic>) -> Option<usize> {
    let of = |core: &usize| topology.core(*core).and_then(|core| core.node);
    let count = |node: Option<usize>| usable.iter().filter(|core| of(core) == node).count();
    let nic_node = nic.and_then(|nic| nic.node).filter(|node| count(Some(*node)) > 0);
    nic_node.or_else(|| usable.iter().filter_map(of).min_by_key(|node| (Reverse(count(Some(*node))), *node)))
}

impl Choice<'_> {
    fn is_elsewhere(&self, core: usize) -> bool {
        self.node.is_some() && self.topology.core(core).and_then(|core| core.node) != self.node
    }

    /// Returns whether `core` is on the first physical core, which does the kernel's housekeeping.
    fn is_first(&self, core: usize) -> bool {
        self.topology.cores.first().is_some_and(|first| self.sharing(core, first.id) <= Sharing::Smt)
    }

    fn sharing(&self, one: usize, other: usize) -> Sharing {
        self.topology.sharing(one, other)
    }

    fn is_on_core_of(&self, core: usize, others: &[usize]) -> bool {
        others.iter().any(|other| self.sharing(core, *other) <= Sharing::Smt)
    }

    fn reader(&self, taken: &[usize]) -> Option<usize> {
        let rank = |core: &usize| {
            (
                taken.contains(core),
                self.is_on_core_of(*core, taken),
                self.is_elsewhere(*core),
                self.is_on_core_of(*core, &self.receiving),
                self.is_first(*core),
                *core,
            )
        };
        self.usable.iter().copied().min_by_key(rank)
    }

    fn interrupts(&self, readers: &[usize]) -> Option<usize> {
        let rank = |core: &usize| {
            (
                readers.contains(core),
                self.is_on_core_of(*core, readers),
                self.is_elsewhere(*core),
                !self.receiving.contains(core),
                self.sharing(*core, readers[0]),
                *core,
            )
        };
        self.usable.iter().copied().min_by_key(rank)
    }

    fn writer(&self, readers: &[usize], interrupts: usize) -> Option<usize> {
        let rank = |core: &usize| {
            (
                readers.contains(core),
                self.is_on_core_of(*core, readers),
                *core == interrupts,
                self.is_on_core_of(*core, &[interrupts]),
                self.sharing(*core, readers[0]),
                *core,
            )
        };
        self.usable.iter().copied().min_by_key(rank)
    }

    fn reader_reason(&self, reader: usize, nic: Option<&Nic>) -> String {
        if self.usable.len() == 1 {
            return format!("core {reader} is the only usable core");
        }
        let mut why = Vec::new();
        if let Some(node) = nic.and_then(|nic| nic.node).filter(|node| Some(*node) == self.node) {
            why.push(format!("it is on NUMA node {node} with the interface"));
        }
        if !self.receiving.is_empty() && !self.is_on_core_of(reader, &self.receiving) {
            why.push("it takes no interrupts of the interface".to_owned());
        }
        if !self.is_first(reader) {
            why.push("the kernel's housekeeping runs on another core".to_owned());
        }
        if why.is_empty() {
            why.push("the other cores have more load".to_owned());
        }
        format!("core {reader} for the reader: {}", why.join(", and "))
    }

    fn writer_reason(&self, reader: usize, writer: usize, interrupts: usize) -> String {
        let near = match self.sharing(reader, writer) {
            Sharing::Same => return format!("core {writer} does everything: there is no other core"),
            Sharing::Smt => "shares a physical core with the reader: there is no other one",
            Sharing::L2 => "shares the L2 cache with the reader, but not its physical core",
            Sharing::L3 => "shares the L3 cache with the reader, but not its physical core",
            Sharing::Node => "is on the reader's node, but not on its physical core",
            Sharing::Machine => "is the closest remaining core to the reader",
        };
        let but = if writer == interrupts { "; it also takes the interrupts" } else { "" };
        format!("core {writer} {near}{but}")
    }

    fn interrupts_reason(&self, reader: usize, core: usize, nic: Option<&Nic>) -> String {
        if core == reader {
            return format!("core {core} does everything: there is no other core");
        }
        let today = match nic {
            Some(_) if self.receiving.contains(&core) => ", and takes them now",
            _ => "",
        };
        let near = match self.sharing(reader, core) {
            Sharing::Same | Sharing::Smt => "shares the reader's physical core: there is no other one",
            Sharing::L2 | Sharing::L3 => "leaves received frames in a cache that it shares with the reader",
            Sharing::Node => "is on the reader's node",
            Sharing::Machine => "is the closest remaining core to the reader",
        };
        format!("core {core} {near}{today}")
    }
}
