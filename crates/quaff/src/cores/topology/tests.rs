//! Tests on fake machines made of files.

use super::super::{Nic, advise};
use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

struct Fake(TempDir);

impl Fake {
    /// `nodes` nodes of `physical` cores with `threads` threads each, numbered as Linux does: all first
    /// threads, then all second ones. Each node has one L3 cache.
    fn new(nodes: usize, physical: usize, threads: usize) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let firsts = nodes * physical;
        let cpu = "sys/devices/system/cpu";
        machine.put(&format!("{cpu}/online"), &format!("0-{}\n", firsts * threads - 1));
        for id in 0..firsts * threads {
            let (first, node) = (id % firsts, id % firsts / physical);
            let words = |cores: Vec<usize>| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            let siblings = words((0..threads).map(|thread| first + thread * firsts).collect());
            let in_node = (0..firsts * threads).filter(|core| core % firsts / physical == node).collect();
            let dir = format!("{cpu}/cpu{id}");
            machine.put(&format!("{dir}/topology/core_cpus_list"), &siblings);
            for (index, level, kind, shared) in
                [(0, 1, "Data", &siblings), (1, 1, "Instruction", &siblings), (2, 2, "Unified", &siblings)]
            {
                machine.put(&format!("{dir}/cache/index{index}/level"), &format!("{level}\n"));
                machine.put(&format!("{dir}/cache/index{index}/type"), kind);
                machine.put(&format!("{dir}/cache/index{index}/shared_cpu_list"), shared);
            }
            machine.put(&format!("{dir}/cache/index3/level"), "3\n");
            machine.put(&format!("{dir}/cache/index3/type"), "Unified\n");
            machine.put(&format!("{dir}/cache/index3/shared_cpu_list"), &words(in_node));
            machine.put(&format!("{dir}/node{node}/x"), "");
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn topology(&self, allowed: &[usize]) -> Topology {
        Topology::read(self.0.path(), allowed).unwrap()
    }

    /// A card on a node, with one interrupt on each of `cores`.
    fn card(&self, node: i32, cores: &[usize]) -> Nic {
        self.put("sys/class/net/eth7/device/numa_node", &format!("{node}\n"));
        let mut table = "           CPU0       CPU1\n".to_owned();
        for (queue, core) in cores.iter().enumerate() {
            let number = 100 + queue;
            self.put(&format!("sys/class/net/eth7/device/msi_irqs/{number}"), "msix");
            self.put(&format!("proc/irq/{number}/smp_affinity_list"), "0-127");
            self.put(&format!("proc/irq/{number}/effective_affinity_list"), &core.to_string());
            table +=
                &format!("{number:>4}:    1   2  IR-PCI-MSIX-0000:3b:00.0 {queue}-edge  eth7-TxRx-{queue}\n");
        }
        self.put("proc/interrupts", &(table + " NMI:   0   0   Non-maskable interrupts\n"));
        Nic::read(self.0.path(), "eth7")
    }
}

fn all(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[test]
fn a_server_is_read() {
    let machine = Fake::new(2, 4, 2);
    let topology = machine.topology(&[1, 2, 9]);
    assert_eq!((topology.cores.len(), topology.allowed()), (16, vec![1, 2, 9]));
    let core = topology.core(5).unwrap();
    assert_eq!((&core.siblings, &core.l2, core.node), (&vec![5, 13], &vec![5, 13], Some(1)));
    assert_eq!(core.l3, [4, 5, 6, 7, 12, 13, 14, 15]);
    use Sharing::*;
    for (other, shared) in [(5, Same), (13, Smt), (6, L3), (14, L3), (0, Machine), (99, Machine)] {
        assert_eq!(topology.sharing(5, other), shared, "{other}");
    }
    assert_eq!([0, 5, 99].map(|core| topology.local_node(core)), [Some(0), Some(1), None]);
    assert_eq!(Fake::new(1, 4, 2).topology(&[0]).local_node(0), None, "one node is no choice");
    let nic = machine.card(1, &[4, 5]);
    assert_eq!((nic.node, nic.irqs.len(), nic.receiving_cores()), (Some(1), 2, vec![4, 5]));
    assert_eq!((nic.irqs[1].number, nic.irqs[1].name.as_str()), (101, "eth7-TxRx-1"));
}

#[test]
fn the_reader_is_on_the_cards_node_without_its_interrupts() {
    let machine = Fake::new(2, 4, 2);
    let (topology, nic) = (machine.topology(&all(16)), machine.card(1, &[4]));
    let advice = advise(&topology, Some(&nic), 1).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[5][..], 4, 6));
    for (sentence, words) in [
        (&advice.reader_reason, "node 1 with the interface"),
        (&advice.writer_reason, "shares the L3 cache with the reader"),
        (&advice.interrupts_reason, "takes them now"),
    ] {
        assert!(sentence.contains(words), "{sentence}");
    }
    // Without a card: off the first core, and its sibling, which does housekeeping.
    let advice = advise(&topology, None, 3).unwrap();
    assert_eq!(advice.readers, [1, 2, 3]);
    assert!(![1, 2, 3, 9, 10, 11].contains(&advice.writer), "{advice:?}");
}

#[test]
fn cores_that_may_not_be_used_are_not_assigned() {
    let machine = Fake::new(2, 4, 2);
    let nic = machine.card(1, &[4]);
    // Only one thread of node 1 is usable: interrupts and writer go elsewhere.
    let advice = advise(&machine.topology(&[0, 1, 6]), Some(&nic), 1).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[6][..], 0, 1));
    // Both threads of one physical core.
    let advice = advise(&machine.topology(&[2, 10]), None, 1).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[2][..], 10, 10));
    assert!(advice.writer_reason.contains("shares a physical core"), "{advice:?}");
    assert_eq!(advise(&machine.topology(&[]), None, 1), None);
}

#[test]
fn small_machines_get_an_assignment() {
    let one = Fake::new(1, 1, 1);
    let advice = advise(&one.topology(&[0]), None, 2).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[0, 0][..], 0, 0));
    assert!(advice.reader_reason.contains("the only usable core"), "{advice:?}");
    let two = Fake::new(1, 2, 1);
    let advice = advise(&two.topology(&[0, 1]), None, 1).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[1][..], 0, 0));
    // Interrupts that go to the second one: the reader takes the first.
    let nic = two.card(-1, &[1]);
    assert_eq!(nic.node, None);
    let advice = advise(&two.topology(&[0, 1]), Some(&nic), 1).unwrap();
    assert_eq!((&advice.readers[..], advice.interrupts, advice.writer), (&[0][..], 1, 1));
}

#[test]
fn a_virtio_card_is_found_by_its_parent_or_by_name() {
    let machine = Fake::new(1, 2, 1);
    let pci = "sys/devices/pci0/0000:00:03.0";
    machine.put(&format!("{pci}/virtio2/driver"), "");
    machine.put(&format!("{pci}/numa_node"), "-1\n");
    machine.put("sys/class/net/eth0/mtu", "1500");
    let link = machine.0.path().join("sys/class/net/eth0/device");
    symlink(machine.0.path().join(pci).join("virtio2"), link).unwrap();
    let table = " CPU0 CPU1\n 37: 0 0 PCI-MSIX 0-edge virtio2-config\n 38: 0 9 PCI-MSIX 1-edge virtio2-input.0\n 39: 3 0 PCI-MSIX 2-edge virtio2-output.0\n 40: 1 1 PCI-MSIX 0-edge virtio20-input.0\n";
    machine.put("proc/interrupts", table);
    for (irq, core) in [(37, 0), (38, 1), (39, 0), (40, 0)] {
        machine.put(&format!("proc/irq/{irq}/smp_affinity_list"), &core.to_string());
    }
    let by_name = Nic::read(machine.0.path(), "eth0");
    assert_eq!(by_name.irqs.iter().map(|irq| irq.number).collect::<Vec<_>>(), [37, 38, 39]);
    assert_eq!((by_name.node, by_name.receiving_cores()), (None, vec![1]));
    for irq in [37, 38, 39] {
        machine.put(&format!("{pci}/msi_irqs/{irq}"), "msix");
    }
    assert_eq!(Nic::read(machine.0.path(), "eth0"), by_name);
    assert_eq!(Nic::read(machine.0.path(), "nowhere").irqs, []);
}

#[test]
fn missing_files_count_as_absent() {
    let machine = Fake(tempfile::tempdir().unwrap());
    assert!(Topology::read(machine.0.path(), &[0]).is_err());
    machine.put("sys/devices/system/cpu/online", "0-1,x,3\n");
    let topology = machine.topology(&[0, 3]);
    assert_eq!(topology.cores.iter().map(|core| core.id).collect::<Vec<_>>(), [0, 1, 3]);
    let core = topology.core(3).unwrap();
    assert_eq!((&core.siblings[..], &core.l3[..], core.node), (&[3][..], &[0, 1, 3][..], None));
    assert!(advise(&topology, None, 1).is_some());
}

#[test]
fn this_machine_gets_an_assignment() {
    let topology = Topology::here().unwrap();
    let allowed = cpu::allowed().unwrap();
    let advice = advise(&topology, Some(&Nic::read(Path::new("/"), "lo")), 1).unwrap();
    assert!(allowed.contains(&advice.readers[0]) && allowed.contains(&advice.writer));
}
