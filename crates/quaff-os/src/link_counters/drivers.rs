//! The drop counters of network drivers, by their sources in Linux.
//!
//! A driver that is not listed has its counters of route netlink added up, and each of its counters whose name looks
//! like a drop is doubtful: it counts as far as it exceeds those.

use std::time::Duration;

/// The meaning of a counter of `ethtool -S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Packets for this interface, dropped, and in no other counter.
    Dropped,
    /// A part of another counter, a counter of sending, or of no dropped packets.
    Included,
    /// Not known, or packets of other functions of the card among them.
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

/// A driver, or several that count alike.
#[derive(Debug)]
pub(super) struct Driver {
    names: &'static [&'static str],
    pub(super) nic_sum: NicSum,
    /// The time until a drop is in the counters; 0 where a reading is exact.
    pub(super) refresh: Duration,
    /// By name; `*` is a number.
    counters: &'static [(&'static str, Meaning)],
}

const EXACT: Duration = Duration::ZERO;

use Meaning::{Doubtful, Dropped, Included};

static DRIVERS: [Driver; 9] = [
    // `ena_get_stats64`: all drops are in rx_dropped, as of the keep-alive message that comes each second.
    Driver {
        names: &["ena"],
        nic_sum: NicSum::MissedAndFifo,
        refresh: Duration::from_millis(1100),
        counters: &[
            ("rx_drops", Included),
            ("rx_overruns", Doubtful),
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
        refresh: Duration::from_millis(1050),
        counters: &[("rx_discards", Included), ("rxbds_empty", Included), ("mbuf_lwm_thresh_hit", Included)],
    },
    // `mlx5e_get_stats`: rx_missed is rx_out_of_buffer, rx_dropped is rx_discards_phy (Linux 6.13; before, no field is).
    // Route netlink answers with old values and refreshes them in the background; `ethtool -S` refreshes at once.
    Driver {
        names: &["mlx5_core", "mlx5e_rep"],
        nic_sum: NicSum::MissedAndFifo,
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
    // `igb_update_stats`: rx_missed is MPC, rx_fifo is the sum of the queues' drops. RNBC counts frames that waited.
    Driver {
        names: &["igb", "igc", "e1000e", "e1000"],
        nic_sum: NicSum::MissedAndFifo,
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
    // `virtnet_stats`: rx_dropped is the sum of the queues' drops. Those of the device are not in it.
    Driver {
        names: &["virtio_net"],
        nic_sum: NicSum::MissedAndFifo,
        refresh: EXACT,
        counters: &[
            ("rx_queue_*_drops", Included),
            ("rx*_drops", Included),
            ("rx*_hw_drops", Dropped),
            ("rx*_hw_drop_overruns", Included),
        ],
    },
    // `veth_get_stats64`: rx_dropped is the sum of the queues' drops.
    Driver {
        names: &["veth"],
        nic_sum: NicSum::MissedAndFifo,
        refresh: EXACT,
        counters: &[("rx_queue_*_drops", Included)],
    },
    // `vmxnet3_get_stats64`: rx_dropped is the driver's own drops; those of the device ("out of buffers") are in no field.
    Driver {
        names: &["vmxnet3"],
        nic_sum: NicSum::MissedAndFifo,
        refresh: EXACT,
        counters: &[("pkts rx OOB", Dropped), ("drv dropped rx total", Included)],
    },
    // Without hardware, and interfaces without a driver.
    Driver {
        names: &[
            "",
            "tun",
            "bridge",
            "bonding",
            "team",
            "macvlan",
            "ipvlan",
            "vxlan",
            "802.1Q VLAN Support",
            "dummy",
        ],
        nic_sum: NicSum::MissedAndFifo,
        refresh: EXACT,
        counters: &[],
    },
];

static UNKNOWN: Driver =
    Driver { names: &[], nic_sum: NicSum::MissedAndFifo, refresh: Duration::from_millis(20), counters: &[] };

/// The driver of that name; `None` for an interface without one.
pub(super) fn of(name: Option<&str>) -> &'static Driver {
    let name = name.unwrap_or_default();
    DRIVERS.iter().find(|driver| driver.names.contains(&name)).unwrap_or(&UNKNOWN)
}

impl Driver {
    /// The meaning of a counter; `None` if it does not count drops.
    pub(super) fn meaning(&self, counter: &str) -> Option<Meaning> {
        let known = self.counters.iter().find(|(pattern, _)| is_match(pattern, counter));
        known.map(|(_, meaning)| *meaning).or_else(|| looks_like_a_drop(counter).then_some(Doubtful))
    }
}

/// Compares a name with a pattern in which `*` is a number.
fn is_match(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let number = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether the name of a counter is one of dropped received packets, by the words that drivers use. A program
/// for XDP drops on purpose.
fn looks_like_a_drop(counter: &str) -> bool {
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
    let is_other = ["tx", "xmit", "xdp", "xsk"].iter().any(|other| name.contains(other));
    !is_other && DROPS.iter().any(|drop| name.contains(drop))
}
