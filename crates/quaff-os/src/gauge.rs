//! A number that one thread writes and others may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and others read. Relaxed, because it publishes no other data.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value, without ordering other memory.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value that was set last.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
