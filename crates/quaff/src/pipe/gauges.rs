//! The progress of a pipe, and its waits, for the display and the report.

use quaff_os::Gauge;
use quaff_os::clock::steady_ns;
use serde::Serialize;
use std::sync::Arc;

/// The state of a running pipe.
#[derive(Debug, Default)]
pub struct PipeGauges {
    /// Bytes read; set by the reader.
    pub read: Gauge,
    /// Maximum of the bytes read and not yet written; set by the reader.
    pub high: Gauge,
    /// Bytes in the output; set by the writer.
    pub written: Arc<Gauge>,
    /// Time for which stdin is still read after the stop, ns; set before the stop is raised.
    pub(super) grace_ns: Gauge,
}

impl PipeGauges {
    /// Bytes in the ring.
    pub fn buffered_bytes(&self) -> u64 {
        // Both gauges change meanwhile: `written` is read first, so the result is never too small.
        let written = self.written.get();
        self.read.get().saturating_sub(written)
    }
}

/// Waits of one side for the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stalls {
    pub count: u64,
    /// Total time, s.
    pub seconds: f64,
}

impl Stalls {
    pub(super) fn add(&mut self, since_ns: u64) {
        self.count += 1;
        self.seconds += (steady_ns() - since_ns) as f64 / 1e9;
    }
}
