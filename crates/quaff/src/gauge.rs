//! The gauges of a lane, which the lane writes and the command line reads.

use quaff_os::Gauge;

/// The gauges of one lane, in packets unless stated.
#[derive(Debug, Default)]
pub struct LaneGauges {
    pub received: Gauge,
    /// Bytes on the wire.
    pub wire_bytes: Gauge,
    pub nic_dropped: Gauge,
    pub kernel_dropped: Gauge,
    /// Lost because no buffer was free.
    pub lost: Gauge,
    /// Lost before the capture, by the sequence numbers of tunnels.
    pub missing: Gauge,
    /// Maximum of the ring's blocks that waited.
    pub ring_high: Gauge,
    /// Buffers in use, and their maximum.
    pub buffer_now: Gauge,
    pub buffer_high: Gauge,
}
