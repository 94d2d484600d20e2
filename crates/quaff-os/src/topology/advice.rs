//! Which core for what, from what cores share. It looks at nothing and measures nothing.
//!
//! The reader must never wait: it gets a physical core that takes no interrupts and is not the
//! machine's first one, which does its housekeeping. Interrupts go to a core near it, since they bring
//! what it reads. The writer is near it too, so that what it hands over is found in a cache, and shares
//! its core with the interrupts before it shares the reader's.

use super::{Nic, Shared, Topology};
use std::cmp::Reverse;

/// Which core for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// For the readers, one a lane.
    pub readers: Vec<usize>,
    /// For the writer.
    pub writer: usize,
    /// For the interrupts of the interface.
    pub interrupts: usize,
    /// Why, a sentence each.
    pub reader_reason: String,
    /// Why this one writes.
    pub writer_reason: String,
    /// Why this one takes the interrupts.
    pub interrupts_reason: String,
}

/// What a core is to be chosen from.
struct Choice<'a> {
    topology: &'a Topology,
    usable: Vec<usize>,
    /// The NUMA node to be on.
    node: Option<usize>,
    /// Cores that frames arrive at today.
    receiving: Vec<usize>,
}

/// Advises `lanes` readers, a writer and a core for interrupts, among the cores that this process may
/// use. `None` when it may use none.
pub fn advise(topology: &Topology, nic: Option<&Nic>, lanes: usize) -> Option<Advice> {
    let usable = topology.allowed();
    let mut receiving = nic.map(Nic::receiving_cores).unwrap_or_default();
    if usable.iter().all(|core| receiving.contains(core)) {
        // Interrupts that go everywhere speak for no core and against none.
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

/// The interface's node, where we may use a core of it; else the one of which we may use most.
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

    /// Whether it is the physical core that does the machine's housekeeping.
    fn is_first(&self, core: usize) -> bool {
        self.topology.cores.first().is_some_and(|first| self.shared(core, first.id) <= Shared::Smt)
    }

    fn shared(&self, one: usize, other: usize) -> Shared {
        self.topology.shared(one, other)
    }

    fn is_on_core_of(&self, core: usize, others: &[usize]) -> bool {
        others.iter().any(|other| self.shared(core, *other) <= Shared::Smt)
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
                self.shared(*core, readers[0]),
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
                self.shared(*core, readers[0]),
                *core,
            )
        };
        self.usable.iter().copied().min_by_key(rank)
    }

    fn reader_reason(&self, reader: usize, nic: Option<&Nic>) -> String {
        if self.usable.len() == 1 {
            return format!("core {reader} is the only one that may be used");
        }
        let mut why = Vec::new();
        if let Some(node) = nic.and_then(|nic| nic.node).filter(|node| Some(*node) == self.node) {
            why.push(format!("it is on node {node}, where the interface is"));
        }
        if !self.receiving.is_empty() && !self.is_on_core_of(reader, &self.receiving) {
            why.push("no interrupts of the interface go to it".to_owned());
        }
        if !self.is_first(reader) {
            why.push("the machine's housekeeping is on another one".to_owned());
        }
        if why.is_empty() {
            why.push("the others have more to do already".to_owned());
        }
        format!("core {reader} must never wait: {}", why.join(", and "))
    }

    fn writer_reason(&self, reader: usize, writer: usize, interrupts: usize) -> String {
        let near = match self.shared(reader, writer) {
            Shared::Same => return format!("core {writer} has to do all, since there is no other one"),
            Shared::Smt => "takes turns with the reader on a physical core, since there is no other one",
            Shared::L2 => "shares the L2 cache with the reader, and not its physical core",
            Shared::L3 => "shares the L3 cache with the reader, and not its physical core",
            Shared::Node => "is on the reader's node, and not on its physical core",
            Shared::Machine => "is the nearest one to the reader that is left",
        };
        let but = if writer == interrupts { "; it shares its time with the interrupts" } else { "" };
        format!("core {writer} {near}{but}")
    }

    fn interrupts_reason(&self, reader: usize, core: usize, nic: Option<&Nic>) -> String {
        if core == reader {
            return format!("core {core} has to do all, since there is no other one");
        }
        let today = match nic {
            Some(_) if self.receiving.contains(&core) => ", and they go there today",
            _ => "",
        };
        let near = match self.shared(reader, core) {
            Shared::Same | Shared::Smt => "shares the reader's physical core, since there is no other one",
            Shared::L2 | Shared::L3 => "leaves what arrives in a cache that the reader shares",
            Shared::Node => "is on the reader's node",
            Shared::Machine => "is the nearest one to the reader that is left",
        };
        format!("core {core} {near}{today}")
    }
}
