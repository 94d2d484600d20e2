//! What can be seen of a run while it runs. Written by one thread each, read by whoever shows it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and others look at. Nothing is published through it: Relaxed.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Shows a value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value shown last.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

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

/// The gauges of the writer.
#[derive(Debug, Default)]
pub struct WriterGauges {
    /// Packets in the output.
    pub written: Gauge,
    /// Bytes in the output.
    pub bytes: Gauge,
    /// Packets that could not be written.
    pub lost: Gauge,
    /// Packets that a copy for who looks on lacks, since its reader was too slow.
    pub copy_lost: Gauge,
}
