//! The ends of the threads of a pipe.

use crate::Result;
use quaff_os::Wakeup;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of threads that still run, and a wakeup that the last one signals. Clones share it.
#[derive(Debug, Clone)]
pub struct Ends {
    left: Arc<AtomicUsize>,
    /// The last thread signals it.
    pub wakeup: Wakeup,
}

/// A guard on each thread: its drop counts the end of the thread, including a panic.
pub(super) struct End(Ends);

impl Ends {
    /// Creates the counter for `threads` threads, each of which holds an [`End`].
    pub(super) fn of(threads: usize) -> Result<Self> {
        Ok(Self { left: Arc::new(AtomicUsize::new(threads)), wakeup: Wakeup::new()? })
    }

    /// The guard of one thread.
    pub(super) fn end(&self) -> End {
        End(self.clone())
    }

    /// Returns whether all threads have ended.
    pub fn all(&self) -> bool {
        // Written by each thread when it ends (Release), read by the thread that waits for them. Acquire:
        // their work is visible when none is left.
        self.left.load(Ordering::Acquire) == 0
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Read by `all`. Release: the work of this thread is visible to the reader.
        if self.0.left.fetch_sub(1, Ordering::Release) == 1 {
            self.0.wakeup.signal();
        }
    }
}
