//! The counters of an interface, as the kernel keeps them in 64 bits.

/// The fields of `struct rtnl_link_stats64` (linux/if_link.h) that quaff reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    /// `rx_missed_errors`: frames for which the host had no receive buffer.
    pub rx_missed: u64,
    /// `rx_fifo_errors`: frames that the device's own queue dropped.
    pub rx_fifo: u64,
    /// `rx_over_errors`.
    pub rx_over: u64,
    /// `rx_dropped`: frames for which the driver or a core's backlog had no room, and frames that no protocol
    /// handler of the stack accepts. Excludes `rx_nohandler` (backup links of a bond).
    pub rx_dropped: u64,
    /// IPv4 packets that the stack dropped because their destination MAC belongs to another host
    /// (`rx_otherhost_dropped`, Linux 5.19; 0 on older kernels).
    pub rx_otherhost: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_dropped: u64,
}
