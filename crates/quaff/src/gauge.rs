//! The gauges of a lane: what can be seen of it while it runs. The lane writes them, the command line reads them.

use quaff_os::Gauge;

/// The gauges of one lane; its reader writes them.
#[derive(Debug, Default)]
pub struct LaneGauges {
    /// Packets taken from the kernel.
    pub received: Gauge,
    /// Bytes of them, on the wire.
    pub wire_bytes: Gauge,
    /// Packets dropped by the interface.
    pub nic_dropped: Gauge,
    /// Packets dropped by the kernel's ring.
    pub kernel_dropped: Gauge,
    /// Packets lost for want of buffer.
    pub lost: Gauge,
    /// Packets lost before they reached us, by the sequence numbers of tunnels.
    pub missing: Gauge,
    /// Most blocks of the ring that waited.
    pub ring_high: Gauge,
    /// Buffers of the pool in use now.
    pub buffer_now: Gauge,
    /// Most buffers of the pool in use.
    pub buffer_high: Gauge,
}
