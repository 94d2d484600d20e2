//! The drop counters of network drivers, by their sources in Linux.
//!
//! A driver that is not listed has its counters of route netlink added up, and each of its counters whose name looks
//! like a drop is doubtful: only its excess over those counts. Nothing here reads an interface.

use std::time::Duration;

/// The meaning of a counter of `ethtool -S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Packets for this interface, dropped, and in no other counter.
    Dropped,
    /// Packets for this interface, dropped, and in `rx_dropped`.
    InRxDropped,
    /// Packets dropped by an XDP program, which does so on purpose.
    Xdp,
    /// A part of another counter, a counter of sending, or of no dropped packets.
    Included,
    /// Packets dropped at the port of the card, for any of its functions, and in no other counter.
    Port,
    /// Not known, or packets of other functions of the card among them; other counters may have them as well.
    Doubtful,
}

/// The packets dropped by the interface, from `rx_missed`, `rx_fifo` and `rx_over`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NicSum {
    /// `rx_missed`, and `rx_fifo` or `rx_over`, which drivers use for the same events (linux/if_link.h).
    MissedAndFifo,
    /// One event may be in each of them.
    Largest,
}

/// The packets that a driver itself adds to `rx_dropped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RxDropped {
    /// Only what its counters [`Meaning::InRxDropped`] show. The rest is the stack's: backlogs, and frames that nothing
    /// handles.
    Listed,
    /// The same, and packets that an XDP program dropped.
    ListedWithXdp,
    /// The counters of the interfaces below it.
    Lower,
    /// The driver may add any packets.
    Unlisted,
}

/// A driver, or several that count alike.
#[derive(Debug)]
pub(super) struct Driver {
    names: &'static [&'static str],
    pub(super) nic_sum: NicSum,
    pub(super) rx_dropped: RxDropped,
    /// The time until a drop is in the counters; 0 where a reading is exact.
    pub(super) refresh: Duration,
    /// The meanings by name; `*` is a number.
    counters: &'static [(&'static str, Meaning)],
}

const EXACT: Duration = Duration::ZERO;

use Meaning::{Doubtful, Dropped, InRxDropped, Included, Port, Xdp};

static DRIVERS: [Driver; 14] = [
    // `ena_get_stats64`: all drops are in rx_dropped, as of the keep-alive message that comes each second.
    Driver {
        names: &["ena"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: Duration::from_millis(1100),
        counters: &[
            ("rx_drops", InRxDropped),
            ("rx_overruns", Doubtful),
            ("queue_*_rx_xdp_drop", Xdp),
            // Shaping of the instance: packets are delayed or dropped.
            ("bw_in_allowance_exceeded", Doubtful),
            ("pps_allowance_exceeded", Doubtful),
            ("conntrack_allowance_exceeded", Doubtful),
            ("bw_out_allowance_exceeded", Included),
            ("linklocal_allowance_exceeded", Included),
        ],
    },
    // `tg3_get_nstats`: rx_over is rxbds_empty (no descriptor), rx_missed is rx_discards (dropped): one frame can be in
    // both. The card copies its statistics to memory each second.
    Driver {
        names: &["tg3"],
        nic_sum: NicSum::Largest,
        rx_dropped: RxDropped::Unlisted,
        refresh: Duration::from_millis(1050),
        counters: &[("rx_discards", Included), ("rxbds_empty", Included), ("mbuf_lwm_thresh_hit", Included)],
    },
    // `mlx5e_get_stats`: rx_missed is rx_out_of_buffer, rx_dropped is rx_discards_phy (Linux 6.13; before, no field
    // is). Route netlink answers with old values and refreshes them in the background; `ethtool -S` refreshes at once.
    Driver {
        names: &["mlx5_core", "mlx5e_rep"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: Duration::from_millis(20),
        counters: &[
            ("rx_out_of_buffer", Included),
            ("rx_discards_phy", Doubtful),
            ("rx_prio*_discards", Included),
            ("rx_prio*_buf_discard", Included),
            ("dev_out_of_buffer", Doubtful),
            ("outbound_pci_buffer_overflow", Doubtful),
            ("rx_wqe_err", Dropped),
            ("rx*_wqe_err", Included),
            ("rx_xdp_drop", Xdp),
            ("rx*_xdp_drop", Included),
            ("rx_oversize_pkts_sw_drop", Dropped),
            ("rx*_oversize_pkts_sw_drop", Included),
            // Frames that no steering rule of this function wanted.
            ("rx_steer_missed_packets", Included),
            ("rx_if_down_packets", Included),
        ],
    },
    // `ixgbe_update_stats`: rx_missed is MPC (packet buffer full); QPRDC (a queue without descriptors) is not in it.
    Driver {
        names: &["ixgbe"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Listed,
        refresh: EXACT,
        counters: &[
            ("rx_no_dma_resources", Dropped),
            ("rx_missed_errors", Included),
            ("rx_fifo_errors", Included),
            ("rx_over_errors", Included),
            ("rx_dropped", Included),
            ("rx_no_buffer_count", Included),
            ("rx_fcoe_dropped", Included),
            ("fdir_miss", Included),
            ("fdir_overflow", Included),
        ],
    },
    // `i40e_update_vsi_stats`: the discards of this function are in rx_dropped, since Linux 6.6 in rx_missed; those of
    // the port (no room in its buffer) are in neither.
    Driver {
        names: &["i40e"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: EXACT,
        counters: &[
            ("port.rx_dropped", Port),
            ("rx_dropped", Included),
            ("rx_missed_errors", Included),
            ("rx_fifo_errors", Included),
            ("rx_over_errors", Included),
        ],
    },
    // `ice_update_vsi_stats`: rx_missed is the port's discards, rx_dropped those of this function.
    Driver {
        names: &["ice"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Listed,
        refresh: EXACT,
        counters: &[("rx_dropped", InRxDropped), ("rx_dropped.nic", Included), ("port.rx_dropped", Included)],
    },
    // `bnxt_get_ring_stats`: rx_missed is the sum of the rings' discards, rx_dropped that of the driver's (netpoll, no
    // memory). The card copies its statistics to memory each second.
    Driver {
        names: &["bnxt_en"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: Duration::from_millis(1100),
        counters: &[
            ("[*]: rx_discards", Included),
            ("rx_total_discard_pkts", Included),
            ("rx_total_ring_discards", Included),
            ("rx_total_oom_discards", InRxDropped),
            ("rx_total_netpoll_discards", InRxDropped),
            ("rx_netpoll_discards", Included),
            ("[*]: rx_oom_discards", Included),
            ("rx_stat_discard", Doubtful),
            ("rx_discard_packets_cos*", Doubtful),
            ("rx_discard_bytes_cos*", Included),
            ("[*]: missed_irqs", Included),
            ("total_missed_irqs", Included),
        ],
    },
    // `igb_update_stats`: rx_missed is MPC, rx_fifo is the sum of the queues' drops. RNBC counts frames that waited.
    Driver {
        names: &["igb", "igc", "e1000e", "e1000"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Listed,
        refresh: EXACT,
        counters: &[
            ("rx_queue_*_drops", Included),
            ("rx_missed_errors", Included),
            ("rx_fifo_errors", Included),
            ("rx_over_errors", Included),
            ("rx_dropped", Included),
            ("rx_no_buffer_count", Included),
        ],
    },
    // `virtnet_stats`: rx_dropped is the sum of the queues' drops, with those of XDP. Those of the device are not in
    // it.
    Driver {
        names: &["virtio_net"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::ListedWithXdp,
        refresh: EXACT,
        counters: &[
            ("rx_queue_*_drops", InRxDropped),
            ("rx*_drops", InRxDropped),
            ("rx_queue_*_xdp_drops", Xdp),
            ("rx*_xdp_drops", Xdp),
            ("rx*_hw_drops", Dropped),
            ("rx*_hw_drop_overruns", Included),
        ],
    },
    // `veth_get_stats64`: rx_dropped is the sum of the queues' drops. Those of XDP are not in it, and frames longer
    // than the MTU are (`__dev_forward_skb`).
    Driver {
        names: &["veth"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: EXACT,
        counters: &[("rx_queue_*_drops", InRxDropped), ("rx_queue_*_xdp_drops", Xdp)],
    },
    // `vmxnet3_get_stats64`: rx_dropped is the driver's own drops; those of the device ("out of buffers") are in no
    // field.
    Driver {
        names: &["vmxnet3"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Listed,
        refresh: EXACT,
        counters: &[("pkts rx OOB", Dropped), ("drv dropped rx total", InRxDropped)],
    },
    // `bond_get_stats`: each counter is the sum of those below.
    Driver {
        names: &["bonding"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Lower,
        refresh: EXACT,
        counters: &[],
    },
    // These drop frames of their own kind before the socket: with a full queue (tun, macvlan), damaged (tunnels).
    Driver {
        names: &["tun", "team", "macvlan", "ipvlan", "vxlan"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Unlisted,
        refresh: EXACT,
        counters: &[],
    },
    // Without hardware, and interfaces without a driver.
    Driver {
        names: &["", "bridge", "802.1Q VLAN Support", "dummy"],
        nic_sum: NicSum::MissedAndFifo,
        rx_dropped: RxDropped::Listed,
        refresh: EXACT,
        counters: &[],
    },
];

static UNKNOWN: Driver = Driver {
    names: &[],
    nic_sum: NicSum::MissedAndFifo,
    rx_dropped: RxDropped::Unlisted,
    refresh: Duration::from_millis(20),
    counters: &[],
};

/// The driver of that name; `None` for an interface without one.
pub(super) fn of(name: Option<&str>) -> &'static Driver {
    let name = name.unwrap_or_default();
    DRIVERS.iter().find(|driver| driver.names.contains(&name)).unwrap_or(&UNKNOWN)
}

impl Driver {
    /// The meaning of a counter; `None` if it does not count drops.
    pub(super) fn meaning(&self, counter: &str) -> Option<Meaning> {
        let known = self.counters.iter().find(|(pattern, _)| is_match(pattern, counter));
        known.map(|(_, meaning)| *meaning).or_else(|| guess(counter))
    }
}

/// The name of a counter without its numbers. Counters of a group are those of several queues, priorities or cores.
pub(super) fn group(counter: &str) -> String {
    counter.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Compares a name with a pattern in which `*` is a number.
fn is_match(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let number = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The meaning of a counter by the words that drivers use for dropped received packets.
fn guess(counter: &str) -> Option<Meaning> {
    const DROPS: [&str; 12] = [
        "drop",
        "discard",
        "miss",
        "no_buf",
        "nobuf",
        "no_dma",
        "out_of_buf",
        "oob",
        "overrun",
        "overflow",
        "fifo",
        "no_desc",
    ];
    let name = counter.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_drop = has(&DROPS) && !has(&["tx", "xmit", "xsk"]);
    is_drop.then_some(if has(&["xdp"]) { Xdp } else { Doubtful })
}
