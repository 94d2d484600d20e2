//! The gauges of lanes and of the buffer, which the command line reads.

use quaff_flow::ledger::FlowLedger;
use quaff_os::Gauge;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The gauges of one lane, in packets unless stated.
#[derive(Debug, Default)]
pub struct LaneGauges {
    pub received: Gauge,
    /// Bytes of the files read so far, compressed where they are; 0 of an interface.
    pub input_bytes: Gauge,
    pub wire_bytes: Gauge,
    pub nic_dropped: Gauge,
    pub kernel_dropped: Gauge,
    /// Lost because no buffer was free.
    pub lost: Gauge,
    /// Lost before the capture, by the sequence numbers of tunnels.
    pub missing: Gauge,
    /// Packets whose loss would be noticed, and those of them that were lost (`prove`).
    pub proof_seen: Gauge,
    pub proof_lost: Gauge,
    /// Maximum of the ring's blocks that waited.
    pub ring_high: Gauge,
    /// Times that the interface went down.
    pub downs: Gauge,
    /// Time since which it is down, ns since 1970; 0 while it is up.
    pub down_since_ns: Gauge,
    /// Time for which it was down, until it was up again, ns; set before `down_since_ns` is 0.
    pub down_ns: Gauge,
    /// Time at which it was removed, ns since 1970; 0 before.
    pub removed_ns: Gauge,
    /// AF_XDP: receive queues without a lane, the most so far; of the first lane of an interface.
    pub added_queues: Gauge,
    /// AF_XDP: the action by which another program displaced that of the capture and ended the lane.
    pub displaced: OnceLock<String>,
    /// The interface of a spare lane, once it has one.
    pub came: OnceLock<String>,
}

/// The counters of the meter of one lane, as they were a moment ago.
#[derive(Debug, Default)]
pub struct MeterGauges {
    /// Written by the lane, which skips an update while another thread reads: it never waits.
    ledger: Mutex<FlowLedger>,
    /// Records that no sink got, because the queue to the exporter was full.
    pub missed: Gauge,
}

impl MeterGauges {
    /// Sets the value, unless another thread is reading it.
    pub(crate) fn show(&self, ledger: FlowLedger) {
        if let Ok(mut shown) = self.ledger.try_lock() {
            *shown = ledger;
        }
    }

    /// Sets the last value.
    pub(crate) fn end(&self, ledger: FlowLedger) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
    }

    /// The value that was set last.
    pub fn ledger(&self) -> FlowLedger {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gauges of the buffer, which all lanes share, in bytes.
#[derive(Debug)]
pub struct BufferGauges {
    /// Size of the buffer.
    pub bytes: u64,
    /// Populated so far; written by the start, then by the pool's thread.
    pub resident: Gauge,
    /// Bytes that should be populated by now; written as `resident` is.
    pub wanted: Gauge,
    /// Bytes of all buffers that lanes have taken. Lanes add, the pool's thread reads; a number only: Relaxed.
    taken: AtomicU64,
    /// Bytes of the buffers in use. Lanes add, writers subtract, all read; a number only: Relaxed.
    used: AtomicU64,
    /// The maximum of `used`. Lanes write, the command line reads: Relaxed, as above.
    high: AtomicU64,
}

impl BufferGauges {
    /// The gauges of a buffer of `bytes`, all unused.
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            resident: Gauge::default(),
            wanted: Gauge::default(),
            taken: AtomicU64::new(0),
            used: AtomicU64::new(0),
            high: AtomicU64::new(0),
        }
    }

    /// Bytes in use: being filled, waiting, or being written.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The maximum of the bytes in use.
    pub fn high_bytes(&self) -> u64 {
        self.high.load(Ordering::Relaxed)
    }

    /// Bytes of all buffers that lanes have taken so far, again and again.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// A lane has taken a buffer.
    pub(crate) fn take(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        let used = self.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.high.fetch_max(used, Ordering::Relaxed);
    }

    /// A writer has returned a buffer.
    pub(crate) fn put(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
