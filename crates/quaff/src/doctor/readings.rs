//! What was read of a machine, as plain data. Nothing in here is judged yet.

use quaff_os::ethtool::{Channels, Coalescing, Feature, RxRingSize};
use quaff_os::machine::{ClockSource, Discipline, Mount, Owner, PacketSocket, Power, Softnet};
use quaff_os::topology::{Nic, Topology};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What was read; `None` where there is no such thing here; or why it could not be read.
pub type Reading<T> = Result<Option<T>, String>;

/// All that was read.
#[derive(Debug, Clone)]
pub struct Readings {
    /// Of the machine as a whole.
    pub machine: MachineReadings,
    /// Of each interface that was asked for.
    pub interfaces: Vec<InterfaceReadings>,
    /// Of the folder that files are to go to.
    pub target: Option<TargetReadings>,
    /// What a capture wants.
    pub wanted: Wanted,
}

/// What a capture wants of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// The rate that it has to keep up with, b/s; that of the fastest interface where none is said.
    pub rate_bps: Option<f64>,
    /// The memory that it locks, bytes.
    pub locked_bytes: u64,
    /// The part of it that stands between the kernel and the disk, bytes.
    pub buffer_bytes: u64,
}

/// Of the machine as a whole.
#[derive(Debug, Clone)]
pub struct MachineReadings {
    /// Why a packet socket cannot be opened, if so.
    pub packet_socket: Option<String>,
    /// Why an io_uring cannot be used, if so.
    pub io_uring: Option<String>,
    /// The memory that may be locked, bytes; `None` without a limit.
    pub memlock_bytes: Reading<u64>,
    /// This process may raise its priority (CAP_SYS_NICE).
    pub may_go_first: bool,
    /// Where this program lies.
    pub program: PathBuf,
    /// The cores.
    pub topology: Reading<Topology>,
    /// How the cores that we may use save power.
    pub power: Vec<Power>,
    /// `net.core.netdev_max_backlog`, frames.
    pub backlog_frames: Reading<u64>,
    /// `net.core.netdev_budget`, frames.
    pub budget_frames: Reading<u64>,
    /// `net.core.netdev_budget_usecs`, µs.
    pub budget_us: Reading<u64>,
    /// `net.core.rmem_max`, bytes.
    pub rmem_max_bytes: Reading<u64>,
    /// What the softirq has done since the machine was started.
    pub softnet: Reading<Vec<Softnet>>,
    /// What it did while we watched.
    pub softnet_watched: Option<Watched<Vec<Softnet>>>,
    /// How long the machine runs.
    pub uptime: Reading<Duration>,
    /// What the kernel counts time by.
    pub clock_source: Reading<ClockSource>,
    /// How well the clock is kept.
    pub discipline: Reading<Discipline>,
    /// A process that moves interrupts about (irqbalance).
    pub irqbalance: Option<u32>,
}

impl MachineReadings {
    /// Of a machine that was asked nothing: whoever looks at a part of it fills that in.
    pub fn unasked() -> Self {
        Self {
            packet_socket: None,
            io_uring: None,
            memlock_bytes: Ok(None),
            may_go_first: true,
            program: PathBuf::from("quaff"),
            topology: Ok(None),
            power: Vec::new(),
            backlog_frames: Ok(None),
            budget_frames: Ok(None),
            budget_us: Ok(None),
            rmem_max_bytes: Ok(None),
            softnet: Ok(None),
            softnet_watched: None,
            uptime: Ok(None),
            clock_source: Ok(None),
            discipline: Ok(None),
            irqbalance: None,
        }
    }
}

/// What changed while we watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched<T> {
    /// For how long.
    pub time: Duration,
    /// By how much.
    pub more: T,
}

/// Of an interface.
#[derive(Debug, Clone)]
pub struct InterfaceReadings {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// It was switched on.
    pub is_up: bool,
    /// It is switched on, and the other end is there.
    pub is_running: bool,
    /// It is the loopback.
    pub is_loopback: bool,
    /// It is a part of another one that was asked for: of a bond, a bridge, a VLAN.
    pub is_below: bool,
    /// There is hardware behind it.
    pub is_hardware: bool,
    /// Its driver.
    pub driver: Reading<String>,
    /// The link's speed, Mb/s.
    pub speed_mbps: Reading<u32>,
    /// Its receive ring.
    pub ring: Reading<RxRingSize>,
    /// Its queues.
    pub channels: Reading<Channels>,
    /// When it interrupts.
    pub coalescing: Reading<Coalescing>,
    /// Its offloads.
    pub features: Reading<BTreeMap<String, Feature>>,
    /// Which queue each entry of its RSS table leads to.
    pub rss: Reading<Vec<u32>>,
    /// Its node and its interrupts.
    pub nic: Nic,
    /// The core on which its lane is to run, where that was said.
    pub lane_core: Option<usize>,
    /// Its frames are handed to other cores (RPS).
    pub has_rps: bool,
    /// The number of its XDP program.
    pub xdp: Reading<u32>,
    /// Packet sockets that get all its frames, without our own.
    pub readers: Reading<Vec<PacketSocket>>,
    /// Who holds them.
    pub owners: Vec<Owner>,
    /// Frames for which it had no room, since it is there.
    pub dropped: Reading<u64>,
    /// And while we watched.
    pub dropped_watched: Option<Watched<u64>>,
}

/// Of the folder that files are to go to.
#[derive(Debug, Clone)]
pub struct TargetReadings {
    /// The folder.
    pub dir: PathBuf,
    /// Why no file can be made there, if so.
    pub refused: Option<String>,
    /// Its file system.
    pub mount: Reading<Mount>,
    /// It is memory only.
    pub is_memory: bool,
    /// Bytes that are free.
    pub free_bytes: Reading<u64>,
    /// What direct writes must be aligned to, bytes; `None` where they are not to be had.
    pub direct_align: Reading<usize>,
    /// What was written for a trial.
    pub written: Reading<WriteRate>,
}

/// How fast a folder takes what is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteRate {
    /// Bytes written.
    pub bytes: u64,
    /// In so many seconds.
    pub seconds: f64,
}

impl WriteRate {
    /// Bytes a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}
