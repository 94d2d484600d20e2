//! Reads this machine. A failure to read is a reading too, with the reason. Nothing here judges or changes anything.

use super::machine;
use super::readings::{InterfaceReadings, MachineReadings, Reading, Readings, Rise, TargetReadings, Wanted};
use super::rules::judge_interface;
use super::speed::TestFile;
use super::{Diagnosis, Finding, Severity, known};
use crate::Result;
use crate::cores::{Nic, Topology};
use quaff_os::ethtool::Card;
use quaff_os::link_counters::{self, interfaces_below};
use quaff_os::packet::{PacketSocket, packet_sockets};
use quaff_os::rtnl::{self, Link, Rtnl};
use quaff_os::softnet;
use quaff_os::{clock, disk, probe};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// linux/if_ether.h: sockets of this protocol receive every frame.
const ETH_P_ALL: u16 = 3;
/// Limit of test writes, bytes/s.
const TEST_BYTES: f64 = (1u64 << 30) as f64;
/// Test writes take at most this part of the free space, which another process may keep free by removing files.
const TEST_PART: u64 = 20;

/// The scope of the checks.
#[derive(Debug, Clone)]
pub struct Look {
    /// Interfaces of the calling thread's network namespace. The interfaces below them are checked too.
    pub interfaces: Vec<String>,
    /// The cores of their lanes, in this order; the last one serves all further lanes.
    pub cores: Vec<usize>,
    /// The output folder.
    pub dir: Option<PathBuf>,
    /// Duration of the observation of counters, and of the test writes.
    pub time: Duration,
    pub wanted: Wanted,
}

/// Reads this machine; takes a little more than [`Look::time`]. Copies the readings of the folder from `before`, if
/// any.
///
/// # Errors
/// An interface does not exist.
pub fn look(look: &Look, before: Option<Readings>) -> Result<Readings> {
    let root = Path::new("/");
    let links = look.interfaces.iter().map(|name| rtnl::link(name)).collect::<Result<Vec<_>, _>>()?;
    let mut machine = machine(root);
    let mut interfaces: Vec<_> = links.iter().map(|link| interface(root, link)).collect();
    for (at, it) in interfaces.iter_mut().enumerate() {
        it.lane_core = look.cores.get(at).or(look.cores.last()).copied();
    }
    add_below(root, &mut interfaces);
    interfaces.iter_mut().for_each(|it| find_owners(root, it));
    let started = Instant::now();
    let target = match before {
        Some(before) => before.target,
        None => look.dir.as_deref().map(|dir| target(root, dir, look.time)),
    };
    std::thread::sleep(look.time.saturating_sub(started.elapsed()));
    watch(root, started.elapsed(), &mut machine, &mut interfaces);
    Ok(Readings { machine, interfaces, target, wanted: look.wanted })
}

/// Adds the interfaces below, at any depth: the cards of a bond have rings, the bond has none.
fn add_below(root: &Path, interfaces: &mut Vec<InterfaceReadings>) {
    let links = Rtnl::open().and_then(|mut rtnl| rtnl.links()).unwrap_or_default();
    let uppers: Vec<_> = interfaces.iter().map(|it| it.index).collect();
    for upper in links.iter().filter(|link| uppers.contains(&link.index)) {
        // Interfaces in other namespaces are skipped.
        for link in interfaces_below(upper, &links).0 {
            if interfaces.iter().all(|it| it.index != link.index) {
                interfaces.push(InterfaceReadings { is_below: true, ..interface(root, link) });
            }
        }
    }
}

fn find_owners(root: &Path, it: &mut InterfaceReadings) {
    let inodes: Vec<_> = it.readers.iter().flatten().flatten().map(|socket| socket.inode).collect();
    it.owners = if inodes.is_empty() { Vec::new() } else { machine::owners(root, &inodes) };
}

/// The most severe finding about an interface at the start of a capture, whose lane runs on `core`: a fast check
/// without test writes, and without findings that the capture itself reports.
pub fn glance(name: &str, core: Option<usize>) -> Option<Finding> {
    let root = Path::new("/");
    let mut it = interface(root, &rtnl::link(name).ok()?);
    it.lane_core = core;
    find_owners(root, &mut it);
    let machine = MachineReadings { topology: reading(Topology::here()), ..MachineReadings::none() };
    let readings = Readings { machine, interfaces: Vec::new(), target: None, wanted: Wanted::default() };
    let mut found = Diagnosis::default();
    judge_interface(&it, &readings, &mut found);
    let is_new = |finding: &Finding| !["gro", "lro"].contains(&finding.id);
    let findings = found.findings.into_iter().filter(is_new);
    // The first of equally severe ones.
    findings.rev().max_by_key(|finding| finding.severity).filter(|it| it.severity >= Severity::Warning)
}

/// Reads the machine below `root`; readings that are not from files are of this machine.
pub(super) fn machine(root: &Path) -> MachineReadings {
    let topology = reading(match root == Path::new("/") {
        true => Topology::here(),
        false => Topology::read(root, &(0..1024).collect::<Vec<_>>()),
    });
    let cores = topology.iter().flatten().flat_map(Topology::allowed).collect::<Vec<_>>();
    MachineReadings {
        packet_socket: probe::packet_socket().err().map(|error| error.errno.to_string()),
        io_uring: probe::io_uring().err().map(|error| error.to_string()),
        memlock_bytes: probe::memlock_bytes().map_err(text),
        has_nice: probe::may_raise_priority(),
        program: std::env::current_exe().unwrap_or_else(|_| "quaff".into()),
        power: machine::power(root, &cores),
        topology,
        backlog_frames: sysctl(root, "net.core.netdev_max_backlog"),
        budget_frames: sysctl(root, "net.core.netdev_budget"),
        budget_us: sysctl(root, "net.core.netdev_budget_usecs"),
        rmem_max_bytes: sysctl(root, "net.core.rmem_max"),
        softnet: reading(softnet::read(root)),
        softnet_rise: None,
        uptime: reading(machine::uptime(root)),
        clock_source: reading(machine::clock_source(root)),
        discipline: reading(clock::discipline()),
        irqbalance: machine::process_named(root, "irqbalance"),
    }
}

fn sysctl(root: &Path, name: &str) -> Reading<u64> {
    machine::sysctl(root, name).map(Some).map_err(|error| match error.errno.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the kernel shows it in the initial network namespace only: 'nsenter -t 1 -n sysctl {name}'"
        ),
        _ => error.to_string(),
    })
}

fn interface(root: &Path, link: &Link) -> InterfaceReadings {
    let name = &link.name;
    let dir = root.join("sys/class/net").join(name);
    let card = Card::read(name);
    InterfaceReadings {
        name: name.clone(),
        index: link.index,
        is_up: link.up,
        is_running: link.running,
        is_below: false,
        is_hardware: dir.join("device").exists(),
        driver: card.driver.map_err(text),
        speed_mbps: card.speed_mbps.map_err(text),
        ring: card.rx_ring.map_err(text),
        channels: card.channels.map_err(text),
        coalescing: card.coalescing.map_err(text),
        features: reading(card.features),
        rss: card.rss_table.map_err(text),
        nic: Nic::read(root, name),
        lane_core: None,
        has_rps: has_rps(&dir.join("queues")),
        xdp: link.xdp_program,
        readers: readers(root, link.index),
        owners: Vec::new(),
        dropped: reading(dropped(name)),
        dropped_rise: None,
    }
}

/// RPS is on when a queue has a mask of cores (Documentation/networking/scaling.rst).
fn has_rps(queues: &Path) -> bool {
    let Ok(entries) = fs::read_dir(queues) else { return false };
    let masks = entries.flatten().filter_map(|queue| fs::read_to_string(queue.path().join("rps_cpus")).ok());
    masks.into_iter().any(|mask| mask.trim().contains(|digit| digit != '0' && digit != ','))
}

/// The sockets of other processes that receive every frame of an interface.
fn readers(root: &Path, index: u32) -> Reading<Vec<PacketSocket>> {
    // Before and after, because a capture that starts meanwhile opens and closes sockets.
    let mut own = machine::own_sockets(root);
    let sockets = packet_sockets(root).map_err(text)?;
    own.extend(machine::own_sockets(root));
    let reads = |socket: &PacketSocket| {
        socket.is_running
            && socket.protocol == ETH_P_ALL
            && [0, index].contains(&socket.ifindex)
            && !own.contains(&socket.inode)
    };
    Ok(Some(sockets.into_iter().filter(reads).collect()))
}

/// Frames that the interface and its driver have dropped since its creation.
fn dropped(name: &str) -> quaff_os::Result<u64> {
    let mut rtnl = Rtnl::open()?;
    let link = rtnl.link(name)?;
    let drops = link_counters::totals(&link, &mut rtnl)?;
    Ok(drops.nic_dropped + drops.rx_dropped_by_driver)
}

/// Adds the rise of the counters since they were read.
fn watch(root: &Path, time: Duration, machine: &mut MachineReadings, interfaces: &mut [InterfaceReadings]) {
    if let (Ok(Some(before)), Ok(after)) = (&machine.softnet, softnet::read(root)) {
        machine.softnet_rise = Some(Rise { time, by: softnet::rises(before, &after) });
    }
    for it in interfaces {
        if let (Ok(Some(before)), Ok(after)) = (&it.dropped, dropped(&it.name)) {
            it.dropped_rise = Some(Rise { time, by: after.saturating_sub(*before) });
        }
    }
}

fn target(root: &Path, dir: &Path, time: Duration) -> TargetReadings {
    let space = disk::space(dir);
    let mut it = TargetReadings {
        dir: dir.to_owned(),
        refused: None,
        mount: machine::mount_of(root, dir).map_err(text),
        is_memory: space.as_ref().is_ok_and(|space| space.is_memory),
        direct_align: Ok(None),
        written: Ok(None),
        free_bytes: reading(space.map(|space| space.free)),
    };
    let room = known(&it.free_bytes).unwrap_or(0) / TEST_PART;
    let most = (TEST_BYTES * time.as_secs_f64().max(1.0)) as u64;
    match TestFile::open(dir) {
        Err(error) => it.refused = Some(error.to_string()),
        Ok(file) => {
            it.direct_align = Ok(file.direct_align);
            it.written = match room.min(most) {
                room if room < crate::plan::CHUNK_BYTES as u64 => {
                    Err("too little free space for test writes".into())
                }
                room => {
                    file.write(time, room).map(Some).map_err(|error| format!("test writes failed: {error}"))
                }
            };
        }
    }
    it
}

fn reading<T, E: Display>(read: std::result::Result<T, E>) -> Reading<T> {
    read.map(Some).map_err(text)
}

fn text(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_read() {
        let look = Look {
            interfaces: vec!["lo".into()],
            cores: Vec::new(),
            dir: Some(env!("CARGO_MANIFEST_DIR").into()),
            time: Duration::from_millis(20),
            wanted: Wanted::default(),
        };
        let readings = super::look(&look, None).unwrap();
        let [lo] = &readings.interfaces[..] else { panic!("{readings:?}") };
        assert!(!lo.is_hardware && lo.ring == Ok(None), "{lo:?}");
        assert!(lo.dropped_rise.is_some() && readings.machine.softnet_rise.is_some());
        let target = readings.target.unwrap();
        assert_eq!(target.refused, None);
        assert!(matches!(target.written, Ok(Some(rate)) if rate.bytes > 0), "{target:?}");
    }

    #[test]
    fn a_missing_interface_is_an_error() {
        let look = Look {
            interfaces: vec!["nosuch0".into()],
            cores: Vec::new(),
            dir: None,
            time: Duration::ZERO,
            wanted: Wanted::default(),
        };
        assert!(super::look(&look, None).unwrap_err().to_string().contains("nosuch0"));
        assert_eq!(glance("nosuch0", None), None);
    }
}
