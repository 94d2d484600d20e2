//! Counters of an interface, as the kernel keeps them in 64 bits.

/// `struct rtnl_link_stats64` (linux/if_link.h), the fields that quaff reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Frames the host had no room for (`rx_missed_errors`).
    pub rx_missed: u64,
    /// Frames lost in the device's own queue (`rx_fifo_errors`).
    pub rx_fifo: u64,
    /// `rx_over_errors`.
    pub rx_over: u64,
    /// `rx_dropped`: frames for which the driver or a core's backlog had no room, and frames that no protocol of the
    /// stack handles. `rx_nohandler` (backup links of a bond) is counted apart by the kernel and is not part of it.
    pub rx_dropped: u64,
    /// IPv4 packets that the stack threw away because their destination MAC is another machine's
    /// (`rx_otherhost_dropped`, Linux 5.19; 0 on older kernels).
    pub rx_otherhost: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_dropped: u64,
}

/// What became of the frames that a transmit ring has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxCounts {
    /// Given back by the kernel as sent.
    pub confirmed: u64,
    /// Refused after they had been taken: the interface cannot carry them, or its driver dropped them.
    pub refused: u64,
    /// Still with the kernel.
    pub pending: u64,
    /// Bytes of those that were refused or are still with the kernel.
    pub unsent_bytes: u64,
    /// How often the kernel had no room further down, and was asked again.
    pub retried: u64,
}
