//! The rise of drop counters: of one interface, and of the interfaces below it.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The rise of the counters of dropped packets. No packet is in both of the first two fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LinkDrops {
    /// Dropped by the interface or its driver, without a doubt.
    #[serde(skip)]
    pub nic_dropped: u64,
    /// `rx_dropped`: dropped below the sockets, or by the stack above them. Without those of an XDP program and those
    /// of interfaces below.
    pub rx_dropped: u64,
    /// The part of `rx_dropped` that the driver counts: dropped below the sockets.
    #[serde(skip)]
    pub rx_dropped_by_driver: u64,
    /// Rise of other drop counters of the driver beyond `nic_dropped`. Some kernels have it in `rx_dropped` as well.
    /// They may count packets that were not for this interface, or events that dropped no packet.
    pub driver_dropped: u64,
    /// The part of `driver_dropped` that is in no other counter: dropped at the port of the card, for any of its
    /// functions.
    #[serde(skip)]
    pub port_dropped: u64,
    /// Dropped by an XDP program, if the driver counts them.
    pub xdp_dropped: u64,
    /// The drop counters of `ethtool -S` that rose and are in no counter of route netlink, by name.
    pub driver_counters: BTreeMap<String, u64>,
    /// The drop counters of the interfaces below that rose, by the names of the interface and the counter.
    pub lower_counters: BTreeMap<String, u64>,
    /// The interfaces below whose drop counters rose.
    #[serde(skip)]
    pub lower: Vec<LowerDrops>,
    /// The cores whose network softirq receives its frames; `None` if any may.
    #[serde(skip)]
    pub cores: Option<BTreeSet<usize>>,
    /// The counters of the driver could be read at the start and not at the end.
    #[serde(skip)]
    pub is_unread: bool,
    /// Frames that its queueing discipline or a filter (tc) dropped, of those that it was to send; filters also drop
    /// frames that it received.
    #[serde(skip)]
    pub qdisc_dropped: u64,
    /// Frames that its driver did not send (`tx_dropped`). On a veth, frames for which the other end had no room.
    #[serde(skip)]
    pub tx_dropped: u64,
}

impl LinkDrops {
    /// `driver_dropped` beyond `dropped` of `rx_dropped`, which may have it as well.
    pub fn driver_dropped_beyond(&self, dropped: u64) -> u64 {
        (self.driver_dropped - self.port_dropped).saturating_sub(dropped) + self.port_dropped
    }
}

/// The rise of the drop counters of an interface below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LowerDrops {
    pub interface: String,
    /// Its drops without `rx_dropped`: of the interface and its driver, of filters (tc), and of XDP programs.
    pub dropped: u64,
    pub rx_dropped: u64,
    /// The part of `rx_dropped` that its driver counts.
    pub rx_dropped_by_driver: u64,
    /// The rest of `rx_dropped` is of backlogs, and frames that nothing handled, which are not for an interface above.
    pub is_listed: bool,
    /// The counters that rose, by name.
    pub counters: BTreeMap<String, u64>,
}
