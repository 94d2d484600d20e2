//! The readings of a machine as plain data, not judged yet.

use super::machine::{ClockSource, Mount, Owner, Power};
use crate::cores::{Nic, Topology};
use quaff_os::clock::Discipline;
use quaff_os::ethtool::{Channels, Coalescing, Feature, RxRingSize};
use quaff_os::packet::PacketSocket;
use quaff_os::softnet::Softnet;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A value; `None` if this machine has none; or why it could not be read.
pub(super) type Reading<T> = Result<Option<T>, String>;

/// All readings.
#[derive(Debug, Clone)]
pub struct Readings {
    pub(super) machine: MachineReadings,
    pub(super) interfaces: Vec<InterfaceReadings>,
    /// The output folder.
    pub(super) target: Option<TargetReadings>,
    pub(super) wanted: Wanted,
}

/// The requirements of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// Rate to sustain, b/s; by default the link rate of the interfaces.
    pub rate_bps: Option<f64>,
    /// Locked memory.
    pub locked_bytes: u64,
    /// Part of the locked memory that buffers between kernel and disk.
    pub buffer_bytes: u64,
}

#[derive(Debug, Clone)]
pub(super) struct MachineReadings {
    /// The reason why no packet socket can be opened; `None` if one can.
    pub(super) packet_socket: Option<String>,
    /// The reason why io_uring cannot be used; `None` if it can.
    pub(super) io_uring: Option<String>,
    /// RLIMIT_MEMLOCK; `None` without a limit.
    pub(super) memlock_bytes: Reading<u64>,
    /// The process may raise its priority (CAP_SYS_NICE).
    pub(super) has_nice: bool,
    pub(super) program: PathBuf,
    pub(super) topology: Reading<Topology>,
    /// Power management of the cores that this process may use.
    pub(super) power: Vec<Power>,
    /// `net.core.netdev_max_backlog`.
    pub(super) backlog_frames: Reading<u64>,
    /// `net.core.netdev_budget`.
    pub(super) budget_frames: Reading<u64>,
    /// `net.core.netdev_budget_usecs`.
    pub(super) budget_us: Reading<u64>,
    /// `net.core.rmem_max`.
    pub(super) rmem_max_bytes: Reading<u64>,
    /// Softirq counters since boot.
    pub(super) softnet: Reading<Vec<Softnet>>,
    pub(super) softnet_rise: Option<Rise<Vec<Softnet>>>,
    pub(super) uptime: Reading<Duration>,
    pub(super) clock_source: Reading<ClockSource>,
    pub(super) discipline: Reading<Discipline>,
    /// Process ID of irqbalance.
    pub(super) irqbalance: Option<u32>,
}

impl MachineReadings {
    /// Readings without values, of which the caller sets some.
    pub(super) fn none() -> Self {
        Self {
            packet_socket: None,
            io_uring: None,
            memlock_bytes: Ok(None),
            has_nice: true,
            program: PathBuf::from("quaff"),
            topology: Ok(None),
            power: Vec::new(),
            backlog_frames: Ok(None),
            budget_frames: Ok(None),
            budget_us: Ok(None),
            rmem_max_bytes: Ok(None),
            softnet: Ok(None),
            softnet_rise: None,
            uptime: Ok(None),
            clock_source: Ok(None),
            discipline: Ok(None),
            irqbalance: None,
        }
    }
}

/// The rise of a counter during the observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rise<T> {
    pub(super) time: Duration,
    pub(super) by: T,
}

#[derive(Debug, Clone)]
pub(super) struct InterfaceReadings {
    pub(super) name: String,
    pub(super) index: u32,
    /// Administratively up.
    pub(super) is_up: bool,
    /// Up, with a link.
    pub(super) is_running: bool,
    /// Part of another checked interface: of a bond, a bridge, a VLAN.
    pub(super) is_below: bool,
    pub(super) is_hardware: bool,
    pub(super) driver: Reading<String>,
    pub(super) speed_mbps: Reading<u32>,
    pub(super) ring: Reading<RxRingSize>,
    pub(super) channels: Reading<Channels>,
    pub(super) coalescing: Reading<Coalescing>,
    pub(super) features: Reading<BTreeMap<String, Feature>>,
    /// Queue of each entry of the RSS table.
    pub(super) rss: Reading<Vec<u32>>,
    /// NUMA node and interrupts.
    pub(super) nic: Nic,
    pub(super) lane_core: Option<usize>,
    /// RPS passes its frames to other cores.
    pub(super) has_rps: bool,
    /// ID of its XDP program.
    pub(super) xdp: Option<u32>,
    /// Packet sockets of other processes that receive all its frames.
    pub(super) readers: Reading<Vec<PacketSocket>>,
    /// Processes that own these sockets.
    pub(super) owners: Vec<Owner>,
    /// Frames dropped by the interface since its creation.
    pub(super) dropped: Reading<u64>,
    pub(super) dropped_rise: Option<Rise<u64>>,
}

/// Readings of the output folder.
#[derive(Debug, Clone)]
pub(super) struct TargetReadings {
    pub(super) dir: PathBuf,
    /// The reason why no file can be created; `None` if one can.
    pub(super) refused: Option<String>,
    pub(super) mount: Reading<Mount>,
    /// The file system is in memory.
    pub(super) is_memory: bool,
    pub(super) free_bytes: Reading<u64>,
    /// Alignment of direct writes, bytes; `None` without O_DIRECT.
    pub(super) direct_align: Reading<usize>,
    /// Measured by test writes.
    pub(super) written: Reading<WriteRate>,
}

/// Bytes written in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WriteRate {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl WriteRate {
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }
}
