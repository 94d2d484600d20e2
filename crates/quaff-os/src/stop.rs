//! The end of a run: [`Stop`] requests it, with the first reason and the wakeups of waiting threads; [`Ends`]
//! reports that all threads have ended.

use crate::wakeup::Wakeup;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// SIGINT, SIGTERM.
    Signal,
    /// The packet limit was reached.
    Count,
    /// All input files are read.
    InputEnded,
    /// The time limit was reached.
    Duration,
    /// The reader of the output closed it. This is a success.
    OutputClosed,
    /// The disk is full, and no retention rule permits to remove files.
    DiskFull,
    WriteError(String),
    /// An interface was removed.
    InterfaceGone(String),
    Failed(String),
}

/// The flag that ends a run. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    reason: Mutex<Option<Reason>>,
    wakeups: Mutex<Vec<Wakeup>>,
}

impl Stop {
    /// Has `wakeup` signalled when the flag is raised.
    pub fn wake(&self, wakeup: Wakeup) {
        self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).push(wakeup);
    }

    /// Raises the flag. Only the first reason is kept.
    pub fn raise(&self, reason: Reason) {
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        // Written by the thread that ends the run, read by every lane. Release, paired with Acquire in
        // `raised`: a thread that sees the flag sees the reason.
        self.inner.raised.store(true, Ordering::Release);
        for wakeup in self.inner.wakeups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            wakeup.signal();
        }
    }

    /// Returns whether the run must end.
    pub fn raised(&self) -> bool {
        self.inner.raised.load(Ordering::Acquire)
    }

    /// The reason, once the flag is raised.
    pub fn reason(&self) -> Option<Reason> {
        self.inner.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The number of threads that still run, and a wakeup that the last one signals. Clones share it.
#[derive(Debug, Clone)]
pub struct Ends {
    left: Arc<AtomicUsize>,
    /// The last thread signals it.
    pub wakeup: Wakeup,
}

/// A guard on each thread: its drop counts the end of the thread, including a panic.
pub struct End(Ends);

impl Ends {
    /// Creates the counter for `threads` threads, each of which holds an [`End`].
    pub fn of(threads: usize) -> crate::Result<Self> {
        Ok(Self { left: Arc::new(AtomicUsize::new(threads)), wakeup: Wakeup::new()? })
    }

    /// The guard of one thread.
    pub fn end(&self) -> End {
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

/// A guard that ends the run when its thread panics.
pub struct Alarm(pub Stop);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.raise(Reason::Failed("a thread panicked".into()));
        }
    }
}
