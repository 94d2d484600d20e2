//! Reads this machine. What cannot be read is a reading too, with the reason; nothing here judges or changes.

use super::readings::{
    InterfaceReadings, MachineReadings, Reading, Readings, TargetReadings, Wanted, Watched,
};
use super::rules::judge_interface;
use super::speed::Trial;
use super::{Diagnosis, Finding, Severity};
use crate::Result;
use quaff_os::ethtool::Card;
use quaff_os::machine::{self, PacketSocket, Softnet};
use quaff_os::rtnl::{self, Link, Rtnl};
use quaff_os::topology::{Nic, Topology};
use quaff_os::{disk, probe};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `ETH_P_ALL`: who asks for that gets every frame.
const ALL_FRAMES: u16 = 3;
/// A trial writes no more than this in a second, bytes.
const TRIAL_BYTES: f64 = (1u64 << 30) as f64;
/// And no more than this part of what is free: somebody may keep the rest free by removing files.
const TRIAL_PART: u64 = 20;

/// What to look at.
#[derive(Debug, Clone)]
pub struct Look {
    /// Interfaces of the calling thread's network namespace. Those that they are made of are looked at too.
    pub interfaces: Vec<String>,
    /// The cores on which their lanes are to run, in that order; the last one serves the rest.
    pub cores: Vec<usize>,
    /// The folder that files are to go to.
    pub dir: Option<PathBuf>,
    /// How long to watch counters, and to write to the folder.
    pub time: Duration,
    /// What a capture wants.
    pub wanted: Wanted,
}

/// Looks. Takes as long as it was told to, and a little more.
///
/// # Errors
/// There is no such interface.
pub fn look(look: &Look) -> Result<Readings> {
    let root = Path::new("/");
    let links = look.interfaces.iter().map(|name| rtnl::link(name)).collect::<Result<Vec<_>, _>>()?;
    let mut machine = machine(root);
    let mut interfaces: Vec<_> = links.iter().map(|link| interface(root, link)).collect();
    for (at, it) in interfaces.iter_mut().enumerate() {
        it.lane_core = look.cores.get(at).or(look.cores.last()).copied();
    }
    add_below(root, &mut interfaces);
    interfaces.iter_mut().for_each(|it| find_owners(root, it));
    let begun = Instant::now();
    let target = look.dir.as_deref().map(|dir| target(root, dir, look.time));
    std::thread::sleep(look.time.saturating_sub(begun.elapsed()));
    watch(root, begun.elapsed(), &mut machine, &mut interfaces);
    Ok(Readings { machine, interfaces, target, wanted: look.wanted })
}

/// What interfaces are made of (`lower_*`), however deep: a bond has no ring, and its cards have.
fn add_below(root: &Path, interfaces: &mut Vec<InterfaceReadings>) {
    let mut at = 0;
    while let Some(it) = interfaces.get(at) {
        let dir = root.join("sys/class/net").join(&it.name);
        let names = fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| {
            entry.file_name().to_str().and_then(|name| name.strip_prefix("lower_")).map(str::to_owned)
        });
        for name in names {
            // One in another namespace is not ours to look at.
            if let Ok(link) = rtnl::link(&name)
                && interfaces.iter().all(|it| it.index != link.index)
            {
                interfaces.push(InterfaceReadings { is_below: true, ..interface(root, &link) });
            }
        }
        at += 1;
    }
}

fn find_owners(root: &Path, it: &mut InterfaceReadings) {
    let inodes: Vec<_> = it.readers.iter().flatten().flatten().map(|socket| socket.inode).collect();
    it.owners = if inodes.is_empty() { Vec::new() } else { machine::owners(root, &inodes) };
}

/// The worst that is to be said of an interface, when a capture begins on it: read fast, without a trial, and
/// without what a capture says by itself. `core` is where its lane is going to run.
pub fn glance(name: &str, core: Option<usize>) -> Option<Finding> {
    let root = Path::new("/");
    let mut it = interface(root, &rtnl::link(name).ok()?);
    it.lane_core = core;
    find_owners(root, &mut it);
    let machine = MachineReadings { topology: there(Topology::here()), ..MachineReadings::unasked() };
    let readings = Readings { machine, interfaces: Vec::new(), target: None, wanted: Wanted::default() };
    let mut found = Diagnosis::default();
    judge_interface(&it, &readings, &mut found);
    let is_new = |finding: &Finding| !["gro", "lro"].contains(&finding.id);
    let findings = found.findings.into_iter().filter(is_new);
    // Of two that are equally bad the first one counts.
    findings.rev().max_by_key(|finding| finding.severity).filter(|it| it.severity >= Severity::Warning)
}

/// Of the machine, as `root` shows it; what is no file is this machine's.
pub(super) fn machine(root: &Path) -> MachineReadings {
    let topology = there(match root == Path::new("/") {
        true => Topology::here(),
        false => Topology::read(root, &(0..1024).collect::<Vec<_>>()),
    });
    let cores = topology.iter().flatten().flat_map(Topology::allowed).collect::<Vec<_>>();
    MachineReadings {
        packet_socket: probe::packet_socket().err().map(|error| error.errno.to_string()),
        io_uring: probe::io_uring().err().map(|error| error.to_string()),
        memlock_bytes: probe::memlock_bytes().map_err(words),
        may_go_first: probe::may_raise_priority(),
        program: std::env::current_exe().unwrap_or_else(|_| "quaff".into()),
        power: machine::power(root, &cores),
        topology,
        backlog_frames: sysctl(root, "net.core.netdev_max_backlog"),
        budget_frames: sysctl(root, "net.core.netdev_budget"),
        budget_us: sysctl(root, "net.core.netdev_budget_usecs"),
        rmem_max_bytes: sysctl(root, "net.core.rmem_max"),
        softnet: there(machine::softnet(root)),
        softnet_watched: None,
        uptime: there(machine::uptime(root)),
        clock_source: there(machine::clock_source(root)),
        discipline: there(machine::discipline()),
        irqbalance: machine::process_named(root, "irqbalance"),
    }
}

fn sysctl(root: &Path, name: &str) -> Reading<u64> {
    machine::sysctl(root, name).map(Some).map_err(|error| match error.errno.kind() {
        std::io::ErrorKind::NotFound => format!(
            "the kernel shows it in the machine's own network namespace only: 'nsenter -t 1 -n sysctl {name}'"
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
        is_loopback: link.arphrd == ARPHRD_LOOPBACK,
        is_hardware: dir.join("device").exists(),
        driver: card.driver.map_err(words),
        speed_mbps: card.speed_mbps.map_err(words),
        ring: card.rx_ring.map_err(words),
        channels: card.channels.map_err(words),
        coalescing: card.coalescing.map_err(words),
        features: there(card.features),
        rss: card.rss_table.map_err(words),
        nic: Nic::read(root, name),
        lane_core: None,
        has_rps: has_rps(&dir.join("queues")),
        xdp: Rtnl::open().and_then(|mut rtnl| rtnl.xdp_program(link.index)).map_err(words),
        readers: readers(root, link.index),
        owners: Vec::new(),
        dropped: there(dropped(link.index)),
        dropped_watched: None,
    }
}

/// linux/if_arp.h
const ARPHRD_LOOPBACK: u16 = 772;

/// RPS is on when a queue has a mask of cores (Documentation/networking/scaling.rst).
fn has_rps(queues: &Path) -> bool {
    let Ok(entries) = fs::read_dir(queues) else { return false };
    let masks = entries.flatten().filter_map(|queue| fs::read_to_string(queue.path().join("rps_cpus")).ok());
    masks.into_iter().any(|mask| mask.trim().contains(|digit| digit != '0' && digit != ','))
}

/// Those that get every frame of an interface, but not our own.
fn readers(root: &Path, index: u32) -> Reading<Vec<PacketSocket>> {
    // Before and after, since a capture that starts meanwhile opens some, and closes some.
    let mut own = machine::own_sockets(root);
    let sockets = machine::packet_sockets(root).map_err(words)?;
    own.extend(machine::own_sockets(root));
    let reads = |socket: &PacketSocket| {
        socket.is_running
            && socket.protocol == ALL_FRAMES
            && [0, index].contains(&socket.ifindex)
            && !own.contains(&socket.inode)
    };
    Ok(Some(sockets.into_iter().filter(reads).collect()))
}

/// What `Ledger` calls `nic_dropped`.
fn dropped(index: u32) -> quaff_os::Result<u64> {
    let stats = Rtnl::open()?.stats(index)?;
    Ok(stats.rx_missed + stats.rx_fifo + stats.rx_over)
}

/// What became of counters since they were read.
fn watch(root: &Path, time: Duration, machine: &mut MachineReadings, interfaces: &mut [InterfaceReadings]) {
    if let (Ok(Some(before)), Ok(after)) = (&machine.softnet, machine::softnet(root)) {
        let more = after.iter().filter_map(|after| {
            let before = before.iter().find(|before| before.core == after.core)?;
            Some(Softnet {
                core: after.core,
                processed: after.processed.wrapping_sub(before.processed),
                dropped: after.dropped.wrapping_sub(before.dropped),
                squeezed: after.squeezed.wrapping_sub(before.squeezed),
            })
        });
        machine.softnet_watched = Some(Watched { time, more: more.collect() });
    }
    for it in interfaces {
        if let (Ok(Some(before)), Ok(after)) = (&it.dropped, dropped(it.index)) {
            it.dropped_watched = Some(Watched { time, more: after.saturating_sub(*before) });
        }
    }
}

fn target(root: &Path, dir: &Path, time: Duration) -> TargetReadings {
    let free_bytes = there(disk::space(dir).map(|space| space.free));
    let mut it = TargetReadings {
        dir: dir.to_owned(),
        refused: None,
        mount: machine::mount_of(root, dir).map_err(words),
        is_memory: disk::is_memory(dir).unwrap_or(false),
        direct_align: Ok(None),
        written: Ok(None),
        free_bytes,
    };
    let room = it.free_bytes.as_ref().ok().copied().flatten().unwrap_or(0) / TRIAL_PART;
    let most = (TRIAL_BYTES * time.as_secs_f64().max(1.0)) as u64;
    match Trial::open(dir) {
        Err(error) => it.refused = Some(error.to_string()),
        Ok(trial) => {
            it.direct_align = Ok(trial.direct_align);
            it.written = match room.min(most) {
                room if room < crate::plan::CHUNK_BYTES as u64 => {
                    Err("there is too little room for a trial".into())
                }
                room => trial.write(time, room).map(Some).map_err(|error| format!("a trial ended: {error}")),
            };
        }
    }
    it
}

fn there<T, E: Display>(read: std::result::Result<T, E>) -> Reading<T> {
    read.map(Some).map_err(words)
}

fn words(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_looked_at() {
        let look = Look {
            interfaces: vec!["lo".into()],
            cores: Vec::new(),
            dir: Some(env!("CARGO_MANIFEST_DIR").into()),
            time: Duration::from_millis(20),
            wanted: Wanted::default(),
        };
        let readings = super::look(&look).unwrap();
        let [lo] = &readings.interfaces[..] else { panic!("{readings:?}") };
        assert!(lo.is_loopback && !lo.is_hardware && lo.ring == Ok(None), "{lo:?}");
        assert!(lo.dropped_watched.is_some() && readings.machine.softnet_watched.is_some());
        let target = readings.target.unwrap();
        assert_eq!(target.refused, None);
        assert!(matches!(target.written, Ok(Some(rate)) if rate.bytes > 0), "{target:?}");
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let look = Look {
            interfaces: vec!["nosuch0".into()],
            cores: Vec::new(),
            dir: None,
            time: Duration::ZERO,
            wanted: Wanted::default(),
        };
        assert!(super::look(&look).unwrap_err().to_string().contains("nosuch0"));
        assert_eq!(glance("nosuch0", None), None);
    }
}
